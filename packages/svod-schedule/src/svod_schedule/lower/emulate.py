"""Computes in float32 what the target has no arithmetic for, and converts by integer operations.

    %1 = ADD %a, %b : bf16   ->   %1 = CAST (ADD (CAST %a : f32), (CAST %b : f32)) : bf16
    %2 = CAST %x : bf16      ->   %2 = BITCAST (CAST (round(BITCAST %x : u32) >> 16) : u16) : bf16

Each operation is rounded once, to nearest even, subnormals included; a reduction only at its end,
also of float16 where that is native. A conversion from float64 or a
wide integer goes through a float32 that is rounded to odd, so that the second rounding is exact.
float8_e4m3 has no infinity: overflow gives NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final

from svod_dtype import (
    FLOAT_DTYPES,
    DType,
    bfloat16,
    float8_e4m3,
    float16,
    float32,
    float64,
    uint8,
    uint16,
    uint32,
    uint64,
)  # fmt: skip
from svod_ir.ops import BINARY, COMPARISON, TERNARY, UNARY, Op
from svod_ir.pattern import node
from svod_ir.rewrite import graph_rewrite
from svod_ir.ruleset import Rule, RuleSet, rule
from svod_ir.target import Target
from svod_ir.uop import UOp
from svod_schedule.errors import UnsupportedDtypeError

__all__ = ["decode", "emulate", "make_emulation"]

_SIGN_BIT_OPS: Final = frozenset({Op.NEG, Op.ABS})
_ARITHMETIC: Final = (UNARY | BINARY | TERNARY) - COMPARISON - _SIGN_BIT_OPS - {Op.WHERE}
_COMPUTED: Final = _ARITHMETIC | COMPARISON | _SIGN_BIT_OPS | {Op.CAST, Op.REDUCE, Op.SCAN}
_THROUGH_DOUBLE: Final = frozenset({Op.SIN, Op.COS, Op.TAN, Op.POW})
"""Functions whose arithmetic for float32 is in part that of float64."""
_EXACT_IN_F32: Final = 24
"""Bits of an integer that float32 holds exactly."""


def emulate(sink: UOp, target: Target) -> UOp:
    """The kernel with arithmetic on native dtypes alone.

    Raises:
        UnsupportedDtypeError: if the target does not compute in float64, and something here needs it.
    """
    if float64 not in target.native_dtypes:
        _check_no_double(sink, target)
    return graph_rewrite(make_emulation(target), sink)


def _check_no_double(sink: UOp, target: Target) -> None:
    for found in sink.toposort():
        is_double = found.op in _COMPUTED and any(n.dtype.scalar is float64 for n in (found, *found.src))
        if is_double or _becomes_double(found, target):
            raise UnsupportedDtypeError(dtype=float64, operation=found.op.name, target=target.name)


def _becomes_double(x: UOp, target: Target) -> bool:
    """Whether lowering computes `x` in float64, of which nothing else is."""
    if x.op is Op.CAST:
        wide = x.src[0].dtype
        is_rounded_twice = x.dtype.scalar is bfloat16 and bfloat16 not in target.native_dtypes
        return is_rounded_twice and wide.is_int and wide.bits > _EXACT_IN_F32
    return x.op in _THROUGH_DOUBLE and x.dtype.is_float and x.op not in target.native_ops


def make_emulation(target: Target) -> RuleSet:
    """The rules that leave arithmetic only on the target's native dtypes, and on float64, which float32 cannot stand for."""
    return _make_rules(frozenset(d for d in FLOAT_DTYPES if d not in target.native_dtypes and d is not float64))


@lru_cache(maxsize=16)
def _make_rules(emulated: frozenset[DType]) -> RuleSet:
    def is_emulated(found: UOp) -> bool:
        return found.dtype.scalar in emulated

    def is_narrow(found: UOp) -> bool:
        return found.dtype.scalar is float16 or found.dtype.scalar in emulated

    def takes_emulated(found: UOp) -> bool:
        return found.src[0].dtype.scalar in emulated

    def is_wide_to_half(found: UOp) -> bool:
        return found.dtype.scalar is float16 and found.src[0].dtype.scalar is float64

    rules = (
        _make_rule(_change_sign_bit, _SIGN_BIT_OPS, is_emulated),
        _make_rule(_arithmetic_in_float32, _ARITHMETIC, is_emulated),
        _make_rule(_compare_in_float32, COMPARISON, takes_emulated),
        _make_rule(_reduce_in_float32, frozenset({Op.REDUCE, Op.SCAN}), is_narrow),
        _make_rule(_select_bits, frozenset({Op.WHERE}), is_emulated),
        _make_rule(_widen_narrow_float, frozenset({Op.CAST}), takes_emulated),
        _make_rule(_narrow_float, frozenset({Op.CAST}), is_emulated),
        _make_rule(_narrow_double_to_half, frozenset({Op.CAST}), is_wide_to_half),
    )
    return RuleSet("emulate", rules, is_pure=True)


def _make_rule(fn: Callable[..., UOp | None], ops: frozenset[Op], when: Callable[[UOp], bool]) -> Rule:
    """The rule that a function states, for the dtypes that a target lacks."""
    made = rule(node(ops, name="x", when=when))(fn)
    made.name = fn.__name__.removeprefix("_")
    return made


def _arithmetic_in_float32(x: UOp) -> UOp:
    """op(a, b) : narrow -> (op(a : f32, b : f32) : f32) : narrow."""
    wide = tuple(s.cast(float32) if s.dtype.is_float else s for s in x.src)
    return UOp(x.op, float32.vec(x.dtype.lanes), wide, x.arg).cast(x.dtype)


def _change_sign_bit(x: UOp) -> UOp:
    """-a : narrow -> bits(a) ^ sign; abs(a) -> bits(a) & ~sign."""
    bits = x.src[0].bitcast(_storage(x.dtype))
    sign = 1 << (bits.dtype.bits - 1)
    changed = bits ^ _constant(bits, sign) if x.op is Op.NEG else bits & _constant(bits, sign - 1)
    return changed.bitcast(x.dtype)


def _compare_in_float32(x: UOp) -> UOp:
    """a < b -> (a : f32) < (b : f32)."""
    return x.with_src(tuple(s.cast(float32) for s in x.src))


def _reduce_in_float32(x: UOp) -> UOp:
    """REDUCE(v) : narrow -> (REDUCE(v : f32) : f32) : narrow, which rounds once in all; SCAN likewise."""
    return UOp(x.op, float32.vec(x.dtype.lanes), (x.src[0].cast(float32), *x.src[1:]), x.arg).cast(x.dtype)


def _select_bits(x: UOp) -> UOp:
    """c.where(a, b) : narrow -> c.where(bits(a), bits(b))."""
    condition, first, second = x.src
    bits = _storage(x.dtype)
    return condition.where(first.bitcast(bits), second.bitcast(bits)).bitcast(x.dtype)


def _widen_narrow_float(x: UOp) -> UOp:
    """CAST(a : narrow) : t -> CAST(decode(a) : f32) : t."""
    return decode(x.src[0]).cast(x.dtype)


def _narrow_float(x: UOp) -> UOp:
    """CAST(a) : narrow -> encode(a : f32, rounded to odd where float32 does not hold it)."""
    return _encode(_to_float32(x.src[0], x.dtype.scalar), x.dtype)


def _narrow_double_to_half(x: UOp) -> UOp:
    """CAST(a : f64) : f16 -> CAST(a : f32, rounded to odd) : f16."""
    return _round_to_odd(x.src[0]).cast(float16)


def _storage(dtype: DType) -> DType:
    return (uint8 if dtype.itemsize == 1 else uint16).vec(dtype.lanes)


def _bias(dtype: DType) -> int:
    return (1 << (dtype.exponent_bits - 1)) - 1


def _largest(dtype: DType) -> int:
    """The bits of the largest finite value."""
    ones = (1 << (dtype.exponent_bits + dtype.mantissa_bits)) - 1
    return ones - 1 if dtype is float8_e4m3 else ones - (1 << dtype.mantissa_bits)


def decode(x: UOp) -> UOp:
    """A narrow float as float32, exactly."""
    dtype, lanes = x.dtype.scalar, x.dtype.lanes
    bits = x.bitcast(_storage(x.dtype)).cast(uint32)
    if dtype is bfloat16:
        return (bits << _constant(bits, 16)).bitcast(float32.vec(lanes))
    sign_bit = 8 * dtype.itemsize - 1
    magnitude = bits & _constant(bits, (1 << sign_bit) - 1)
    sign = (bits & _constant(bits, 1 << sign_bit)) << _constant(bits, 31 - sign_bit)
    shifted = magnitude << _constant(bits, 23 - dtype.mantissa_bits)
    # The exponent field is right but for the bias; multiplying adds the difference and normalises subnormals.
    scaled = shifted.bitcast(float32.vec(lanes)) * 2.0 ** (127 - _bias(dtype))
    special = shifted | _constant(bits, 0x7F800000)
    is_finite = magnitude < _constant(bits, _largest(dtype) + 1)
    return (is_finite.where(scaled.bitcast(bits.dtype), special) | sign).bitcast(float32.vec(lanes))


def _encode(x: UOp, dtype: DType) -> UOp:
    """A float32 as a narrow float, rounded to nearest even."""
    scalar, lanes = dtype.scalar, x.dtype.lanes
    bits = x.bitcast(uint32.vec(lanes))
    narrow = _encode_bfloat16(x, bits) if scalar is bfloat16 else _encode_small(x, bits, scalar)
    return narrow.cast(_storage(scalar.vec(lanes))).bitcast(scalar.vec(lanes))


def _encode_bfloat16(x: UOp, bits: UOp) -> UOp:
    half = _constant(bits, 16)
    is_odd = (bits >> half) & _constant(bits, 1)
    rounded = (bits + _constant(bits, 0x7FFF) + is_odd) >> half
    # Rounding could carry a NaN into infinity: it stays NaN, made quiet.
    return x.ne(x).where((bits >> half) | _constant(bits, 0x40), rounded)


def _encode_small(x: UOp, bits: UOp, dtype: DType) -> UOp:
    mantissa, bias = dtype.mantissa_bits, _bias(dtype)
    shift, sign_bit = 23 - mantissa, 8 * dtype.itemsize - 1
    magnitude = bits & _constant(bits, 0x7FFFFFFF)
    sign = (bits >> _constant(bits, 31 - sign_bit)) & _constant(bits, 1 << sign_bit)
    is_odd = (magnitude >> _constant(bits, shift)) & _constant(bits, 1)
    rounded = (magnitude + _constant(bits, (1 << (shift - 1)) - 1) + is_odd) >> _constant(bits, shift)
    normal = rounded - _constant(bits, (127 - bias) << mantissa)
    # Adding a number whose last place is the smallest subnormal lets the adder round to it.
    anchor = UOp.const(float32.vec(x.dtype.lanes), 2.0 ** (24 - bias - mantissa))
    anchored = (magnitude.bitcast(x.dtype) + anchor).bitcast(bits.dtype) - anchor.bitcast(bits.dtype)
    is_normal = _constant(bits, (128 - bias << 23) - 1) < magnitude
    result = is_normal.where(normal, anchored)
    largest = _largest(dtype)
    result = (_constant(bits, largest) < result).where(_constant(bits, largest + 1), result)
    quiet = largest + 1 if dtype is float8_e4m3 else largest + 1 + (1 << (mantissa - 1))
    return (_constant(bits, 0x7F800000) < magnitude).where(_constant(bits, quiet), result) | sign


def _to_float32(x: UOp, narrow: DType) -> UOp:
    """A float32 that rounds to `narrow` as `x` itself does."""
    dtype = x.dtype.scalar
    if dtype is float64:
        return _round_to_odd(x)
    # What exceeds 24 bits is beyond the range of the small formats, but not of bfloat16.
    if dtype.is_float or dtype.bits <= _EXACT_IN_F32 or narrow is not bfloat16:
        return x.cast(float32)
    return _round_to_odd(x.cast(float64) if dtype.bits <= 32 else _sticky_double(x))


def _round_to_odd(x: UOp) -> UOp:
    """A float64 as float32; where it is inexact, the last bit is 1.

    Source: Boldo and Melquiond 2008, "Emulation of FMA and correctly rounded sums: proved algorithms
    using rounding to odd", section 2.
    """
    single = x.cast(float32)
    back = single.cast(float64)
    bits = single.bitcast(uint32.vec(x.dtype.lanes))
    is_even = (bits & _constant(bits, 1)).eq(_constant(bits, 0))
    step = back.alu(Op.ABS).alu(Op.LT, x.alu(Op.ABS)).where(_constant(bits, 1), _constant(bits, 0xFFFFFFFF))
    return (back.ne(x) & is_even).where(bits + step, bits).bitcast(single.dtype)


def _sticky_double(x: UOp) -> UOp:
    """A 64-bit integer as float64, its last bit 1 where lower bits are lost."""
    zero = _constant(x, 0)
    unsigned = uint64.vec(x.dtype.lanes)
    is_negative = x < zero if x.dtype.is_signed else None
    magnitude = (x if is_negative is None else is_negative.where(zero - x, x)).cast(unsigned)
    lost = (magnitude & _constant(magnitude, 0x7FF)).ne(_constant(magnitude, 0)).cast(unsigned)
    kept = (magnitude >> _constant(magnitude, 11)) | lost
    is_large = _constant(magnitude, (1 << 53) - 1) < magnitude
    double = float64.vec(x.dtype.lanes)
    result = is_large.where(kept.cast(double) * 2048.0, magnitude.cast(double))
    return result if is_negative is None else is_negative.where(-result, result)


def _constant(like: UOp, value: int) -> UOp:
    return UOp.const(like.dtype, value)
