"""emulate: compute in float32 the dtypes that the target has no arithmetic for.

before → after:

    %1 = ADD %a, %b : bf16   ->   %1 = CAST (ADD (CAST %a : f32), (CAST %b : f32)) : bf16
    %2 = CAST %x : bf16      ->   %2 = BITCAST (CAST (round(BITCAST %x : u32) >> 16) : u16) : bf16

Each operation is rounded once, to nearest even, subnormals included. A reduction is rounded only at
its end, even in float16 where that is native."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final

from svod_dtype import FLOAT_DTYPES, DType, bfloat16, float16, float32, float64
from svod_ir import Op, Rule, RuleSet, Target, UOp, graph_rewrite, rule
from svod_ir.ops import BINARY, COMPARISON, TERNARY, UNARY, get_identity
from svod_ir.pattern import node
from svod_schedule._narrow_floats import (
    EXACT_IN_F32,
    decode,
    encode,
    round_to_odd,
    storage_of,
    to_float32,
)
from svod_schedule.errors import UnsupportedDtypeError

__all__ = ["emulate", "make_emulation"]

# These change one bit of the stored number. Through float32 they would take a dozen instructions.
_SIGN_BIT_OPS: Final = frozenset({Op.NEG, Op.ABS})
_ARITHMETIC: Final = (UNARY | BINARY | TERNARY) - COMPARISON - _SIGN_BIT_OPS - {Op.WHERE}
_COMPUTED: Final = _ARITHMETIC | COMPARISON | _SIGN_BIT_OPS | {Op.CAST, Op.REDUCE, Op.SCAN}
_THROUGH_DOUBLE: Final = frozenset({Op.SIN, Op.COS, Op.TAN, Op.POW})
"""Functions that are computed partly in float64 for float32."""


def emulate(sink: UOp, target: Target) -> UOp:
    """Rewrite a kernel to arithmetic on native dtypes only.

    Raises:
        UnsupportedDtypeError: if the kernel needs float64 arithmetic, which the target lacks.
    """
    # Checked first, so that the error names an op of the graph and not of its emulation.
    if float64 not in target.native_dtypes:
        _check_no_double(sink, target)
    return graph_rewrite(make_emulation(target), sink)


def _check_no_double(sink: UOp, target: Target) -> None:
    for operation in sink.toposort():
        is_double = operation.op in _COMPUTED and any(
            n.dtype.scalar is float64 for n in (operation, *operation.src)
        )
        if is_double or _becomes_double(operation, target):
            raise UnsupportedDtypeError(
                dtype=float64, operation=operation.op.name, target=target.name
            )


def _becomes_double(x: UOp, target: Target) -> bool:
    """Whether lowering computes `x` in float64, though neither it nor its operands are float64."""
    if x.op is Op.CAST:
        wide = x.source.dtype
        # Such an integer becomes a float32 that is rounded to odd, by way of float64: rounded to
        # nearest, it would be rounded twice.
        is_rounded_twice = x.dtype.scalar is bfloat16 and bfloat16 not in target.native_dtypes
        return is_rounded_twice and wide.is_int and wide.bits > EXACT_IN_F32
    return x.op in _THROUGH_DOUBLE and x.dtype.is_float and x.op not in target.native_ops


def make_emulation(target: Target) -> RuleSet:
    """Make the rules that leave arithmetic only on the target's native dtypes, and on float64, which
    float32 cannot emulate.
    """
    return _make_rules(
        frozenset(d for d in FLOAT_DTYPES if d not in target.native_dtypes and d is not float64)
    )


# Compiling the patterns takes longer than most rewrites; a process has few sets of dtypes.
@lru_cache(maxsize=16)
def _make_rules(emulated: frozenset[DType]) -> RuleSet:
    def is_emulated(x: UOp) -> bool:
        return x.dtype.scalar in emulated

    def is_narrow(x: UOp) -> bool:
        return x.dtype.scalar is float16 or x.dtype.scalar in emulated

    def takes_emulated(x: UOp) -> bool:
        return x.source.dtype.scalar in emulated

    def is_wide_to_half(x: UOp) -> bool:
        return x.dtype.scalar is float16 and x.source.dtype.scalar is float64

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


def _make_rule(
    fn: Callable[..., UOp | None], ops: frozenset[Op], when: Callable[[UOp], bool]
) -> Rule:
    """Make a rule from a function, for nodes of `ops` for which `when` holds."""
    result = rule(node(ops, name="x", when=when))(fn)
    result.name = fn.__name__.removeprefix("_")
    return result


def _arithmetic_in_float32(x: UOp) -> UOp:
    """op(a, b) : narrow -> (op(a : f32, b : f32) : f32) : narrow."""
    wide = tuple(s.cast(float32) if s.dtype.is_float else s for s in x.src)
    return UOp(x.op, float32.vec(x.dtype.lanes), wide, x.arg).cast(x.dtype)


def _change_sign_bit(x: UOp) -> UOp:
    """-a : narrow -> bits(a) ^ sign; abs(a) -> bits(a) & ~sign."""
    bits = x.source.bitcast(storage_of(x.dtype))
    sign = 1 << (bits.dtype.bits - 1)
    changed = bits ^ _constant(bits, sign) if x.op is Op.NEG else bits & _constant(bits, sign - 1)
    return changed.bitcast(x.dtype)


def _compare_in_float32(x: UOp) -> UOp:
    """a < b -> (a : f32) < (b : f32)."""
    return x.with_src(tuple(s.cast(float32) for s in x.src))


def _reduce_in_float32(x: UOp) -> UOp:
    """REDUCE(v) : narrow -> (REDUCE(v : f32) : f32) : narrow, rounded once; SCAN likewise."""
    # Rounded at each step, a sum of ones would stop at 2048 in float16, and at 256 in bfloat16.
    wide = UOp(x.op, float32.vec(x.dtype.lanes), (x.source.cast(float32), *x.src[1:]), x.arg)
    may_be_empty = any(r.op is Op.RANGE and r.stop.vmin <= 0 for r in x.src[1:])
    if x.op is Op.REDUCE and x.arg in (Op.MAX, Op.MIN) and may_be_empty:
        # Of no elements, it is an infinity, which float8_e4m3 does not have.
        wide = wide.alu(x.arg, UOp.const(wide.dtype, get_identity(x.arg, x.dtype.scalar)))
    return wide.cast(x.dtype)


def _select_bits(x: UOp) -> UOp:
    """c.where(a, b) : narrow -> c.where(bits(a), bits(b))."""
    condition, first, second = x.src
    bits = storage_of(x.dtype)
    return condition.where(first.bitcast(bits), second.bitcast(bits)).bitcast(x.dtype)


def _widen_narrow_float(x: UOp) -> UOp:
    """CAST(a : narrow) : t -> CAST(decode(a) : f32) : t."""
    return decode(x.source).cast(x.dtype)


def _narrow_float(x: UOp) -> UOp:
    """CAST(a) : narrow -> encode(a : f32, rounded to odd where float32 does not hold it)."""
    return encode(to_float32(x.source, x.dtype.scalar), x.dtype)


def _narrow_double_to_half(x: UOp) -> UOp:
    """CAST(a : f64) : f16 -> CAST(a : f32, rounded to odd) : f16."""
    # Rounding to float32 and then to float16, each to nearest, can be off by one: rounding to odd
    # keeps the discarded digits in the last bit.
    return round_to_odd(x.source).cast(float16)


def _constant(like: UOp, value: int) -> UOp:
    return UOp.const(like.dtype, value)
