"""Conversions: casts without effect, and chains of casts."""

from __future__ import annotations

from typing import Final

from svod_dtype import DType
from svod_ir import Op, RuleSet, UOp, dtype_bounds, rule
from svod_ir.pattern import INT, node, var

__all__ = ["CASTS", "keeps_values"]

x, y = var("x"), var("y")
_INDEX: Final = frozenset({"index"})


@rule(node(frozenset({Op.CAST, Op.BITCAST}), x, name="n"))
def cast_to_same(n: UOp, x: UOp) -> UOp | None:
    """cast(x) -> x, bitcast(x) -> x, to the dtype of x."""
    return x if x.dtype is n.dtype else None


@rule(node(Op.CAST, node(Op.CAST, x, name="inner"), name="n"))
def cast_of_cast(n: UOp, inner: UOp, x: UOp) -> UOp | None:
    """cast(cast(x)) -> cast(x) when the inner cast preserves every value of x.

    When: no integer is converted through a float to an integer dtype that it does not fit, since
    floats do not wrap.
    """
    if not keeps_values(x, inner.dtype):
        return None
    is_detour = x.dtype.is_int and inner.dtype.is_float and n.dtype.is_int
    return None if is_detour and not keeps_values(x, n.dtype) else UOp(Op.CAST, n.dtype, (x,))


@rule(node(Op.BITCAST, node(Op.BITCAST, x), name="n"))
def bitcast_of_bitcast(n: UOp, x: UOp) -> UOp:
    """bitcast(bitcast(x)) -> bitcast(x)."""
    return UOp(Op.BITCAST, n.dtype, (x,))


# Polynomials of indices end at a cast: moved to the leaves, it lets the rules on indices see the
# sum.
_exact = node(frozenset({Op.ADD, Op.SUB, Op.MUL, Op.MAX, Op.MIN}), x, y, name="inner", kinds=INT)


@rule(node(Op.CAST, _exact, name="n", kinds=_INDEX))
def cast_operands_to_index(n: UOp, inner: UOp, x: UOp, y: UOp) -> UOp | None:
    """cast(x + y) -> cast(x) + cast(y), to dtype index, when no sum wraps; so for -, *, max and
    min.
    """
    if not (
        keeps_values(x, n.dtype)
        and keeps_values(y, n.dtype)
        and keeps_values(inner, n.dtype)
        and _is_exact(inner)
    ):
        return None
    return UOp(inner.op, n.dtype, (UOp(Op.CAST, n.dtype, (x,)), UOp(Op.CAST, n.dtype, (y,))))


def _is_exact(node: UOp) -> bool:
    """Whether a sum, product, minimum or maximum of its operands' values cannot wrap."""
    if node.op is Op.MAX or node.op is Op.MIN:
        return True
    (a, b), (c, d) = node.left.bounds, node.right.bounds
    if node.op is Op.MUL:
        results = (a * c, a * d, b * c, b * d)
    else:
        results = (a + c, b + d) if node.op is Op.ADD else (a - d, b - c)
    low, high = dtype_bounds(node.dtype)
    return all(low <= result <= high for result in results)


@rule(
    node(
        Op.CAST,
        node(frozenset({Op.IDIV, Op.MOD}), x, y, name="inner", kinds=INT),
        name="n",
        kinds=_INDEX,
    )
)
def cast_division_to_index(n: UOp, inner: UOp, x: UOp, y: UOp) -> UOp | None:
    """cast(x // y) -> cast(x) // cast(y), to dtype index, when y > 0; so for %."""
    if y.vmin <= 0 or not keeps_values(x, n.dtype) or not keeps_values(y, n.dtype):
        return None
    return UOp(inner.op, n.dtype, (UOp(Op.CAST, n.dtype, (x,)), UOp(Op.CAST, n.dtype, (y,))))


def keeps_values(x: UOp, dtype: DType) -> bool:
    """Whether every value of `x`, including -0.0 and NaN, is representable in `dtype`."""
    source = x.dtype
    # A cast to bool tests for zero, so it keeps only bools.
    if dtype.kind == "bool" or source.kind == "bool":
        return source.kind == "bool"
    if source.kind == "float":
        # float8_e4m3 has no infinities, so it cannot represent every value of another dtype.
        if dtype.kind != "float" or (dtype.name == "float8_e4m3" and source.name != "float8_e4m3"):
            return False
        return (
            dtype.exponent_bits >= source.exponent_bits
            and dtype.mantissa_bits >= source.mantissa_bits
        )
    low, high = x.bounds
    if dtype.kind == "float":
        # All integers up to this power of two have a float; the next odd one has none.
        limit = 1 << (dtype.mantissa_bits + 1)
        return -limit <= low and high <= limit and limit <= dtype.finfo_max
    full = dtype_bounds(dtype)
    return full[0] <= low and high <= full[1]


CASTS = RuleSet(
    "casts",
    (
        cast_to_same,
        cast_of_cast,
        bitcast_of_bitcast,
        cast_operands_to_index,
        cast_division_to_index,
    ),
    is_pure=True,
)
"""Casts without effect, and chains of casts."""
