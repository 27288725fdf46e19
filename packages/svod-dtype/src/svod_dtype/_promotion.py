"""Type promotion as the array API standard defines it, with Python scalars weak.

Source: array API standard 2024.12, "Type Promotion Rules".  Where the standard leaves a pair of
kinds undefined (integers with floats or complex numbers) the float or complex one wins, as in numpy
for scalars and in JAX and PyTorch for arrays; int64 with uint64 gives float64, as in numpy."""

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
    """The smallest dtype that both scalar dtypes convert to.

    Raises:
        PromotionError: if one is void or index and the other differs from it.
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
        # The precision is that of the wider part; an integer has none.
        return complex128 if float64 in (left.part, right.part) else complex64
    if left.is_float and right.is_float:
        return _promote_floats(left, right)
    if left.is_float:
        return left
    if right.is_float:
        return right
    if left.kind == right.kind:
        return left if left.itemsize > right.itemsize else right
    signed, unsigned = (left, right) if left.kind == "int" else (right, left)
    if signed.itemsize > unsigned.itemsize:
        return signed
    return {uint8: int16, uint16: int32}.get(unsigned, int64 if unsigned.itemsize == 4 else float64)


def _promote_floats(left: DType, right: DType) -> DType:
    small, large = sorted((left, right), key=lambda d: (d.itemsize, d.name))
    if small.itemsize == large.itemsize:
        # float16 with bfloat16 and the two float8 types: neither holds the other.
        return float32 if small.itemsize == 2 else float16
    if large is float16 and small is float8_e5m2:
        return float16
    if small in (float8_e4m3, float8_e5m2) and large in (float16, bfloat16):
        return large
    return large


def promote_with_scalar(dtype: DType, scalar: complex) -> DType:
    """The dtype of an operation between a tensor of `dtype` and a (weak) Python scalar.

    A scalar takes the tensor's dtype unless its kind is higher: a float with an integer tensor
    gives float32, an int with a bool tensor gives int32, a complex number with a float64 tensor
    complex128, with others complex64."""
    if isinstance(scalar, bool):
        return dtype
    if isinstance(scalar, int):
        return int32 if dtype is bool_ else dtype
    if isinstance(scalar, float):
        return dtype if dtype.is_inexact else default_float()
    return promote_types(dtype, complex64 if dtype.is_inexact else default_complex())


def result_type(*operands: object) -> DType:
    """The promoted dtype of dtypes, names and Python scalars, scalars being weak."""
    scalars = [o for o in operands if isinstance(o, (bool, int, float, complex))]
    dtypes = [to_dtype(o) for o in operands if not isinstance(o, (bool, int, float, complex))]
    if not dtypes:
        return to_dtype(max((type(s) for s in scalars), key=[bool, int, float, complex].index))
    return reduce(promote_with_scalar, scalars, reduce(promote_types, dtypes))
