"""The semantics of every elementwise op on numpy values: scalars, vectors of lanes, or whole
tensors.

A value of a dtype is stored as `dtype.numpy`. Integers wrap; narrow floats are computed in a wider
dtype and rounded once. Callers disable numpy's warnings with `quiet()`.
"""

# Numpy arrays of any dtype and shape leave lambdas without declared types.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from svod_dtype import DType, float64
from svod_ir._threefry import threefry
from svod_ir.ops import COMPARISON, Op, get_identity

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Values: TypeAlias = NDArray[Any]
else:
    Values: TypeAlias = np.ndarray

__all__ = [
    "Values",
    "apply_elementwise",
    "choose",
    "combine",
    "constant",
    "convert",
    "identity_value",
    "join_parts",
    "quiet",
    "reinterpret",
]


def quiet() -> np.errstate:
    """Context without numpy's warnings: overflow, NaN and division by zero have defined results
    here.
    """
    return np.errstate(all="ignore")


def constant(value: object, dtype: DType) -> Values:
    """A scalar, or for a tuple a vector, of `dtype`, from Python values in its range."""
    return (
        np.asarray(value, dtype=dtype.numpy)
        if isinstance(value, tuple)
        else dtype.numpy.type(value)
    )


def identity_value(op: Op, dtype: DType) -> Values:
    """The result of an empty reduction."""
    scalar = dtype.scalar.numpy.type(get_identity(op, dtype))
    return scalar if dtype.lanes == 1 else np.full(dtype.lanes, scalar)


def combine(op: Op, x: Values, y: Values) -> Values:
    """One step of a reduction, in the operands' dtype, which is wider than the result's for narrow
    floats.
    """
    if x.dtype.kind == "b":
        return x | y if op in (Op.ADD, Op.MAX) else x & y
    match op:
        case Op.ADD:
            return x + y
        case Op.MUL:
            return x * y
        case Op.MAX:
            return _extreme(x, y, np.maximum)
        case _:
            return _extreme(x, y, np.minimum)


def apply_elementwise(op: Op, source: DType, result: DType, operands: tuple[Values, ...]) -> Values:
    """Apply `op` to operands of dtype `source` (for WHERE, the dtype of the values); return dtype
    `result`.
    """
    if op is Op.CAST:
        return convert(operands[0], source, result)
    if op is Op.BITCAST:
        # Loop counters are evaluated in 64 bits, whatever their dtype.
        return reinterpret(operands[0].astype(source.scalar.numpy, copy=False), result)
    if op is Op.WHERE:
        return choose(*operands)
    if op in COMPARISON:
        return _COMPARE[op](operands[0], operands[1])
    if source.is_complex:
        return _COMPLEX[op](*operands)
    if source.kind == "bool":
        return _BOOL[op](*operands)
    if not source.is_float:
        return _INTEGER[op](*operands)
    if op is Op.MULACC:
        return _fused(operands, result)
    if source.scalar is float64 or op in _EXACT:
        return _FLOAT[op](*operands)
    return _round(_FLOAT[op](*(o.astype(np.float64) for o in operands)), result)


def choose(condition: Values, x: Values, y: Values) -> Values:
    """WHERE: `x` where the condition holds, else `y`, broadcast to one shape."""
    if np.ndim(condition):
        return np.where(condition, x, y)
    chosen, rejected = (x, y) if condition else (y, x)
    return (
        chosen
        if np.shape(chosen) == np.shape(rejected)
        else np.broadcast_arrays(chosen, rejected)[0]
    )


def convert(x: Values, source: DType, target: DType) -> Values:
    """CAST: integers wrap, floats round to nearest even; float to integer saturates, and NaN
    becomes 0.
    """
    if target.kind == "bool":
        return x != 0
    if target.is_complex:
        return join_parts(
            np.real(x).astype(target.part.numpy), np.imag(x).astype(target.part.numpy), target
        )
    if target.is_float:
        if (source.is_float and source.itemsize < 8) or source.bits <= 32:
            return _round(x.astype(np.float64), target)
        return (
            _round(_to_double_odd(x), target)
            if not source.is_float and target.scalar is not float64
            else _round(x.astype(np.float64), target)
        )
    if source.is_float:
        # The bounds are compared in float64: `target.max` itself may round up to a float that does
        # not fit, `target.max + 1` is a power of two and exact.
        truncated = np.trunc(x.astype(np.float64))
        low, high = float(target.min), float(int(target.max) + 1)
        inside = np.where((truncated >= low) & (truncated < high), truncated, 0.0).astype(
            target.numpy
        )
        clipped = np.where(
            truncated >= high, target.max, np.where(truncated < low, target.min, inside)
        ).astype(target.numpy)
        return clipped if np.ndim(x) else clipped[()]
    return x.astype(target.numpy)


def join_parts(real: Values, imag: Values, dtype: DType) -> Values:
    """Join complex numbers from broadcast parts; signs of zeros and NaNs are preserved."""
    joined = np.empty(np.broadcast_shapes(np.shape(real), np.shape(imag)), dtype.numpy)
    joined.real, joined.imag = real, imag
    return joined


def reinterpret(x: Values, target: DType) -> Values:
    """BITCAST: the same bytes as another dtype; lanes are regrouped where the item sizes differ."""
    flat = np.ascontiguousarray(x)
    if flat.dtype.itemsize == target.itemsize:
        viewed = flat.view(target.numpy)
        return viewed.reshape(np.shape(x)) if np.ndim(x) else viewed.reshape(())[()]
    viewed = np.frombuffer(flat.tobytes(), dtype=target.numpy)
    return viewed if target.lanes > 1 or len(viewed) != 1 else viewed[0]


def _round(x: Values, dtype: DType) -> Values:
    """Round float64 values once to the float type `dtype`."""
    scalar = dtype.scalar
    if scalar is float64:
        return x
    if scalar.name in ("float32", "float16"):
        return x.astype(scalar.numpy)
    # ml_dtypes rounds float64 to float32 first; rounding to odd there makes the second rounding
    # exact.
    return _to_single_odd(x).astype(scalar.numpy)


def _to_single_odd(x: Values) -> Values:
    single = np.asarray(x).astype(np.float32)
    back = single.astype(np.float64)
    is_inexact = (back != x) & np.isfinite(x) & np.isfinite(single)
    bits = single.view(np.int32)
    is_even = (bits & 1) == 0
    step = np.where(np.abs(back) < np.abs(x), 1, -1).astype(np.int32)
    odd = np.where(is_inexact & is_even, bits + step, bits).view(np.float32)
    return odd if np.ndim(x) else odd.reshape(())[()]


def _to_double_odd(x: Values) -> Values:
    # An integer above 53 bits keeps its top bits and a sticky last bit (round to odd), so that
    # rounding the result again is exact.
    integers = np.asarray(x)
    is_negative = integers < 0
    bits = integers.astype(np.uint64)
    magnitude = np.where(is_negative, np.uint64(0) - bits, bits)
    kept = (magnitude >> np.uint64(11)) | ((magnitude & np.uint64(2047)) != 0).astype(np.uint64)
    exact = np.where(
        magnitude < np.uint64(1 << 53),
        magnitude.astype(np.float64),
        kept.astype(np.float64) * 2048.0,
    )
    signed = np.where(is_negative, -exact, exact)
    return signed if np.ndim(x) else signed[()]


def _fused(operands: tuple[Values, ...], dtype: DType) -> Values:
    """x * y + z, rounded once."""
    x, y, z = np.broadcast_arrays(*(o.astype(np.float64) for o in operands))
    if dtype.scalar is float64:
        result = np.array(
            [_fused_scalar(*values) for values in zip(x.flat, y.flat, z.flat, strict=True)]
        )
    else:
        # The product of two narrower floats is exact in float64.
        result = _add_odd(x * y, z)
    rounded = _round(result.reshape(x.shape), dtype)
    return rounded if x.shape else rounded[()]


def _add_odd(x: Values, y: Values) -> Values:
    # The rounding error of the sum (Knuth, TAOCP 2, 4.2.2, theorem B) shows on which side of it the
    # exact sum is. Of the two neighbors, the odd one preserves that (round to odd), so that
    # rounding it to half as many bits is exact.
    total = np.asarray(x + y)
    addend = total - x
    lost = (x - (total - addend)) + (y - addend)
    is_even = (total.view(np.int64) & 1) == 0
    towards = np.where(lost > 0, math.inf, -math.inf)
    return np.where((lost != 0) & np.isfinite(total) & is_even, np.nextafter(total, towards), total)


def _fused_scalar(x: float, y: float, z: float) -> float:
    if not (math.isfinite(x) and math.isfinite(y) and math.isfinite(z)):
        return float(np.float64(x) * np.float64(y) + np.float64(z))
    exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
    if exact == 0:
        return float(np.float64(x) * np.float64(y) + np.float64(z))
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def _extreme(x: Values, y: Values, choose: Callable[[Values, Values], Values]) -> Values:
    extreme = choose(x, y)
    if extreme.dtype.kind in "iub":
        return extreme
    # numpy does not specify the sign of max(-0.0, 0.0); here 0.0 is larger.
    zeros = (x == 0) & (y == 0)
    if not np.any(zeros):
        return extreme
    exact = x + y if choose is np.maximum else -(-x + -y)
    return np.where(zeros, exact, extreme) if np.ndim(extreme) else exact


def _truncating_division(x: Values, y: Values) -> Values:
    # numpy rounds the quotient down; it is one too low where the division is inexact and the signs
    # differ.
    quotient = x // y
    is_low = (np.fmod(x, y) != 0) & ((x < 0) != (y < 0))
    return quotient + is_low.astype(x.dtype)


def _integer_power(x: Values, y: Values) -> Values:
    if y.dtype.kind == "u" or np.all(y >= 0):
        return np.power(x, y)
    positive = np.power(x, np.maximum(y, y.dtype.type(0)))
    inverse = np.where(x == 1, 1, np.where(x == -1, np.where(y & 1, -1, 1), 0)).astype(x.dtype)
    result = np.where(y >= 0, positive, inverse)
    return result if np.ndim(result) else result[()]


def _float_power(x: Values, y: Values) -> Values:
    """Power as in C. `np.power` takes the square root for the scalar exponent 0.5 instead, which
    differs for -0.0 and -inf. NaNs are not told apart: x ** 0 and 1 ** y are 1 for a signaling NaN
    too, for which `pow` returns NaN.
    """
    is_one = (y == 0) | (x == 1)
    return choose(is_one, x.dtype.type(1), np.float_power(x, y).astype(x.dtype))


def _reciprocal_root(x: Values) -> Values:
    return 1.0 / np.sqrt(x)


def _each(function: Callable[[float], float]) -> Callable[[Values], Values]:
    def apply(x: Values) -> Values:
        return np.vectorize(function, otypes=[np.float64])(x)[()]

    return apply


def _threefry(x: Values, key: Values) -> Values:
    return threefry(np.asarray(x).astype(np.uint64), np.asarray(key).astype(np.uint64))[()]


_EXACT: Final = frozenset({Op.NEG, Op.ABS})
"""Float ops that need no wider dtype: they only change the sign bit."""

_COMPARE: Final[dict[Op, Callable[..., Values]]] = {
    Op.LT: np.less,
    Op.LE: np.less_equal,
    Op.EQ: np.equal,
    Op.NE: np.not_equal,
}

_BOOL: Final[dict[Op, Callable[..., Values]]] = {
    Op.NEG: lambda x: x,
    Op.NOT: np.logical_not,
    Op.ABS: lambda x: x,
    Op.SIGN: lambda x: x,
    Op.TRUNC: lambda x: x,
    Op.FLOOR: lambda x: x,
    Op.CEIL: lambda x: x,
    Op.ROUND: lambda x: x,
    Op.ADD: np.logical_or,
    Op.SUB: np.logical_xor,
    Op.MUL: np.logical_and,
    Op.MAX: np.logical_or,
    Op.MIN: np.logical_and,
    Op.AND: np.logical_and,
    Op.OR: np.logical_or,
    Op.XOR: np.logical_xor,
    Op.POW: lambda x, y: x | ~y,
    Op.MULACC: lambda x, y, z: (x & y) | z,
}

_COMPLEX: Final[dict[Op, Callable[..., Values]]] = {
    Op.NEG: np.negative,
    Op.ADD: np.add,
    Op.SUB: np.subtract,
    Op.MUL: np.multiply,
    Op.FDIV: np.divide,
    Op.RECIPROCAL: lambda x: np.divide(x.dtype.type(1), x),
}

_INTEGER: Final[dict[Op, Callable[..., Values]]] = {
    Op.NEG: np.negative,
    Op.NOT: np.invert,
    Op.ABS: np.abs,
    Op.SIGN: np.sign,
    Op.TRUNC: lambda x: x,
    Op.FLOOR: lambda x: x,
    Op.CEIL: lambda x: x,
    Op.ROUND: lambda x: x,
    Op.ADD: np.add,
    Op.SUB: np.subtract,
    Op.MUL: np.multiply,
    Op.IDIV: np.floor_divide,
    Op.MOD: np.mod,
    Op.CDIV: _truncating_division,
    Op.CMOD: np.fmod,
    Op.MAX: np.maximum,
    Op.MIN: np.minimum,
    Op.POW: _integer_power,
    Op.AND: np.bitwise_and,
    Op.OR: np.bitwise_or,
    Op.XOR: np.bitwise_xor,
    Op.THREEFRY: _threefry,
    Op.SHL: lambda x, y: np.left_shift(x, y.astype(x.dtype)),
    Op.SHR: lambda x, y: np.right_shift(x, y.astype(x.dtype)),
    Op.MULACC: lambda x, y, z: x * y + z,
}

_FLOAT: Final[dict[Op, Callable[..., Values]]] = {
    Op.NEG: np.negative,
    Op.ABS: np.abs,
    Op.SIGN: np.sign,
    Op.SQRT: np.sqrt,
    Op.RSQRT: _reciprocal_root,
    Op.RECIPROCAL: lambda x: 1.0 / x,
    Op.EXP: np.exp,
    Op.EXP2: np.exp2,
    Op.LOG: np.log,
    Op.LOG2: np.log2,
    Op.SIN: np.sin,
    Op.COS: np.cos,
    Op.TAN: np.tan,
    Op.TANH: np.tanh,
    Op.EXPM1: np.expm1,
    Op.LOG1P: np.log1p,
    Op.SINH: np.sinh,
    Op.COSH: np.cosh,
    Op.ERF: _each(math.erf),
    Op.TRUNC: np.trunc,
    Op.FLOOR: np.floor,
    Op.CEIL: np.ceil,
    Op.ROUND: np.rint,
    Op.ADD: np.add,
    Op.SUB: np.subtract,
    Op.MUL: np.multiply,
    Op.FDIV: np.divide,
    Op.FMOD: np.fmod,
    Op.POW: _float_power,
    Op.MAX: lambda x, y: _extreme(x, y, np.maximum),
    Op.MIN: lambda x, y: _extreme(x, y, np.minimum),
}
