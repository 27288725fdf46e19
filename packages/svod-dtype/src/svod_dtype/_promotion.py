"""Type promotion by the array API standard, with weak Python scalars.

Source: array API standard 2025.12, "Type Promotion Rules". The standard does not define promotion
of integers with floats or complex numbers: the float or complex dtype wins, as in numpy for scalars
and in JAX and PyTorch for arrays. int64 with uint64 promotes to float64, as in numpy.
"""

from __future__ import annotations

from functools import cache, reduce

from svod_dtype._dtype import (
    DType,
    bfloat16,
    bool_,
    complex64,
    complex128,
    default_complex,
    default_float,
    float8_e4m3,
    float8_e5m2,
    float16,
    float32,
    float64,
    int16,
    int32,
    int64,
    to_dtype,
    uint8,
    uint16,
)
from svod_dtype.errors import PromotionError

__all__ = ["promote_types", "promote_with_scalar", "result_type"]


@cache
def promote_types(left: DType, right: DType) -> DType:
    """Return the smallest dtype that both scalar dtypes convert to.

    Raises:
        PromotionError: if the dtypes differ and one of them is void or index.
    """
    if left is right:
        return left
    if left.kind in ("void", "index") or right.kind in ("void", "index"):
        raise PromotionError(left=left, right=right)
    if left is bool_:
        return right
    if right is bool_:
        return left
    if left.is_complex or right.is_complex:
        # Integers do not affect the precision: int64 with complex64 stays complex64.
        return complex128 if float64 in (left.part, right.part) else complex64
    if left.is_float and right.is_float:
        return _promote_floats(left, right)
    if left.is_float:
        return left
    if right.is_float:
        return right
    if left.kind == right.kind:
        return left if left.itemsize > right.itemsize else right
    # A wider signed type contains the unsigned type. Otherwise the signed type next in width to the
    # unsigned one contains both; for uint64 there is none.
    signed, unsigned = (left, right) if left.kind == "int" else (right, left)
    if signed.itemsize > unsigned.itemsize:
        return signed
    return {uint8: int16, uint16: int32}.get(unsigned, int64 if unsigned.itemsize == 4 else float64)


def _promote_floats(left: DType, right: DType) -> DType:
    small, large = sorted((left, right), key=lambda d: (d.itemsize, d.name))
    if small.itemsize == large.itemsize:
        # float16 with bfloat16, and the two float8 types: neither contains the other.
        return float32 if small.itemsize == 2 else float16
    if large is float16 and small is float8_e5m2:
        return float16
    if small in (float8_e4m3, float8_e5m2) and large in (float16, bfloat16):
        return large
    return large


def promote_with_scalar(dtype: DType, scalar: complex) -> DType:
    """Return the result dtype of a tensor of `dtype` with a weak Python scalar.

    The tensor's dtype is kept unless the scalar's kind is higher: a float with an integer tensor
    gives the default float dtype, an int with a bool tensor int32, and a complex number with a
    float64 tensor complex128, with other float tensors complex64.
    """
    if isinstance(scalar, bool):
        return dtype
    if isinstance(scalar, int):
        return int32 if dtype is bool_ else dtype
    if isinstance(scalar, float):
        return dtype if dtype.is_inexact else default_float()
    return promote_types(dtype, complex64 if dtype.is_inexact else default_complex())


def result_type(*operands: object) -> DType:
    """Return the dtype to which the operands promote, as in arithmetic.

    Args:
        operands: dtypes, names of dtypes, and Python scalars. Scalars are weak: see
            `promote_with_scalar`. Without dtypes, the result is the default dtype of the highest
            kind of scalar.

    Raises:
        PromotionError: if two dtypes differ and one of them is void or index.
        UnknownDTypeError: if an operand is not a dtype.

    Example:
        >>> from svod_dtype import int8, result_type, uint8
        >>> result_type(int8, uint8), result_type("float16", 2), result_type(int8, 1.5)
        (int16, float16, float32)
    """
    scalars = [o for o in operands if isinstance(o, (bool, int, float, complex))]
    dtypes = [to_dtype(o) for o in operands if not isinstance(o, (bool, int, float, complex))]
    if not dtypes:
        # Scalars only: the default dtype of the highest kind.
        return to_dtype(max((type(s) for s in scalars), key=[bool, int, float, complex].index))
    return reduce(promote_with_scalar, scalars, reduce(promote_types, dtypes))
