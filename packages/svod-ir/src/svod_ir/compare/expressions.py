"""Search for values at which two expressions differ, by evaluating both.

Floats are compared to the last bit or within some units in the last place (ulps), zeros with their
signs; all NaNs are equal. If an expression has one variable of at most 16 bits, all of its values
are tried."""

# Numpy arrays of any dtype and shape have no declared types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from svod_dtype import DType
from svod_ir._arithmetic import quiet
from svod_ir.errors import EvaluationError
from svod_ir.evaluate import evaluate, evaluate_kernel
from svod_ir.ops import ELEMENTWISE, AxisType, Op
from svod_ir.uop import UOp

__all__ = ["differ_at", "find_difference", "list_special"]

_LEAVES: Final = (Op.DEFINE_VAR, Op.RANGE, Op.SPECIAL)
_MEMORIES: Final = (Op.PARAM, Op.BUFFER)
_VECTORISED: Final = ELEMENTWISE | {Op.DEFINE_VAR, Op.RANGE, Op.CONST}
_MODERATE: Final = 4
"""Special values soon make every result infinite or NaN. If roundings are allowed, half of the
memories therefore hold multiples of a quarter up to this magnitude.
"""
_SMALL: Final = 1e4
# All values of one 16-bit variable, or of two 8-bit ones, are tried.
_MAX_COLUMN: Final = 1 << 16


def list_special(dtype: DType) -> np.ndarray[Any, Any]:
    """Values of a float dtype at which rules fail: zeros, subnormals, ones, halves, the largest,
    infinities, NaN.
    """
    tiny = 2.0 ** -(2 ** (dtype.exponent_bits - 1) - 2)
    least, largest = tiny * 2.0**-dtype.mantissa_bits, dtype.finfo_max
    step = dtype.finfo_eps
    first_integral = 2.0**dtype.mantissa_bits
    sizes = [
        0.0,
        least,
        3 * least,
        tiny - least,
        tiny,
        tiny + least,
        0.25,
        0.5 - step / 4,
        0.5,
        0.5 + step,
        1 - step / 2,
        1.0,
        1 + step,
        1.5,
        2.0,
        2.5,
        3.0,
        3.5,
        7.0,
        10.0,
        first_integral / 2,
        first_integral / 2 + 0.5,
        first_integral - 0.5,
        first_integral,
        first_integral + 1,
        2 * first_integral,
        largest / 2,
        largest / (1 + step),
        largest,
        np.inf,
        np.nan,
    ]
    return np.array([s * size for size in sizes for s in (1.0, -1.0)]).astype(dtype.numpy)


def find_difference(
    before: UOp,
    after: UOp,
    seed: int,
    n_samples: int,
    roundings: int = 0,
    n_single: int = 40,
    *,
    ulps: int = 0,
) -> dict[UOp, Any] | None:
    """Find values at which the expressions, or effects, differ; None if no tried value does.

    Args:
        before: root of the first expression or effect.
        after: root of the second one.
        seed: seed of the random values.
        n_samples: the number of values tried at once, in scalar expressions without memory and
            loops.
        roundings: floats may differ by this many roundings of the largest intermediate value, if
            all are finite.
        n_single: the number of values tried sequentially in other expressions.
        ulps: finite floats other than zeros may differ by this many units in the last place.

    Returns:
        the values by leaf, or None.
    """
    random = np.random.default_rng(seed)
    before, after = _spell_loops(before), _spell_loops(after)
    nodes = dict.fromkeys([*before.toposort(), *after.toposort()])
    memories = [n for n in nodes if n.op in _MEMORIES]
    leaves = [n for n in nodes if n.op in _LEAVES]
    with quiet():
        if not memories and all(n.op in _VECTORISED and n.dtype.lanes == 1 for n in nodes):
            return _find_in_columns(before, after, leaves, random, n_samples, roundings, ulps)
        for attempt in range(n_single):
            values: dict[UOp, Any] = {}
            for leaf in leaves:
                column = _column(leaf, random, 64, values)
                lanes = (leaf.dtype.lanes,) if leaf.dtype.lanes > 1 else None
                values[leaf] = column[random.integers(0, len(column), lanes)]
            is_moderate = roundings > 0 and attempt % 2 == 0
            values.update({m: _random_memory(m, random, is_moderate=is_moderate) for m in memories})
            if differ_at(before, after, values, roundings, ulps):
                return values
    return None


def _find_in_columns(
    before: UOp,
    after: UOp,
    leaves: list[UOp],
    random: np.random.Generator,
    n_samples: int,
    roundings: int,
    ulps: int,
) -> dict[UOp, Any] | None:
    columns = _all_values(leaves) or _crossed(leaves, random, n_samples)
    inputs: Mapping[UOp, Any] = {**columns}
    shape = np.shape(next(iter(columns.values()))) if columns else ()
    x, y = (np.broadcast_to(evaluate(root, {**inputs}), shape) for root in (before, after))
    differs = _differs(x, y, None, ulps)
    if roundings and differs.any():
        differs = _differs(x, y, _get_tolerance(before, {**inputs}, roundings))
    if not differs.any():
        return None
    # Of all counterexamples the simplest is reported: it is read by a person.
    indices = np.flatnonzero(differs)
    simplest = (
        indices[np.argmin(sum(_complexity(column[indices]) for column in columns.values()))]
        if columns
        else 0
    )
    return {leaf: column[simplest] for leaf, column in columns.items()}


def _complexity(column: Any) -> Any:
    """Cost of a value in a counterexample: small whole numbers are the simplest."""
    values = np.nan_to_num(column.astype(np.float64), nan=np.inf)
    return np.where(
        (values == np.trunc(values)) & (np.abs(values) < _SMALL), np.abs(values), _SMALL
    )


def _all_values(leaves: list[UOp]) -> dict[UOp, Any] | None:
    """All combinations of values of the variables, if they are few; else None."""
    spaces = [_whole_space(leaf) for leaf in leaves]
    known = [s for s in spaces if s is not None]
    if (
        not leaves
        or len(known) != len(spaces)
        or np.prod([len(s) for s in known], dtype=float) > _MAX_COLUMN
    ):
        return None
    return dict(
        zip(leaves, (g.reshape(-1) for g in np.meshgrid(*known, indexing="ij")), strict=True)
    )


def _whole_space(leaf: UOp) -> Any:
    dtype = leaf.dtype
    if leaf.op is Op.RANGE and leaf.stop.op is not Op.CONST:
        return None
    if dtype.is_float:
        if dtype.itemsize > 2:
            return None
        bits = np.arange(
            1 << 8 * dtype.itemsize, dtype=np.uint8 if dtype.itemsize == 1 else np.uint16
        )
        return bits.view(dtype.numpy)
    low, high = (int(b) for b in leaf.bounds)
    return np.arange(low, high + 1).astype(dtype.numpy) if high - low < _MAX_COLUMN else None


def _crossed(leaves: list[UOp], random: np.random.Generator, n_samples: int) -> dict[UOp, Any]:
    """Random samples of all leaves, special values among them."""
    columns: dict[UOp, Any] = {}
    for leaf in leaves:
        column = _column(leaf, random, max(8, n_samples // 4), columns)
        columns[leaf] = column[random.integers(0, len(column), n_samples)]
        if leaf.op is Op.RANGE:
            end = evaluate(leaf.stop, {**columns})
            columns[leaf] = columns[leaf] % np.maximum(end, 1)
    return columns


def _column(leaf: UOp, random: np.random.Generator, n: int, columns: Mapping[UOp, Any]) -> Any:
    dtype = leaf.dtype.scalar
    if dtype.is_float:
        bits = random.integers(0, 256, n * dtype.itemsize, dtype=np.uint8)
        return np.concatenate([list_special(dtype), list_special(dtype), bits.view(dtype.numpy)])
    low, high = (int(b) for b in leaf.bounds)
    if leaf.op is Op.RANGE and not any(np.ndim(v) for v in columns.values()):
        high = max(0, int(evaluate(leaf.stop, {**columns})) - 1)
    near = {low, low + 1, high - 1, high, 0, 1, -1, (low + high) // 2}
    ends = [v for v in sorted(near) if low <= v <= high]
    samples = [
        low + int(random.integers(0, 1 << 62)) * (high - low + 1) // (1 << 62) for _ in range(n)
    ]
    return (
        np.array([*ends * 2, *samples]).astype(dtype.numpy)
        if dtype.is_bool
        else np.array([*ends * 2, *samples], dtype=dtype.numpy)
    )


def _random_memory(memory: UOp, random: np.random.Generator, *, is_moderate: bool) -> Any:
    size = memory.arg.size
    if memory.dtype.is_float and is_moderate:
        return (random.integers(-4 * _MODERATE, 4 * _MODERATE + 1, size) / 4).astype(
            memory.dtype.numpy
        )
    if memory.dtype.is_float:
        return random.choice(list_special(memory.dtype), size)
    low, high = int(memory.dtype.min), int(memory.dtype.max)
    return np.array(
        [
            low + int(random.integers(0, 1 << 62)) * (high - low + 1) // (1 << 62)
            for _ in range(size)
        ]
    ).astype(memory.dtype.numpy)


def _spell_loops(root: UOp) -> UOp:
    """Add a loop of one iteration for each counter that was folded to the constant 0."""
    once = UOp.range(1, 1000, AxisType.LOOP)
    replaced: dict[UOp, UOp] = {}
    for node in root.iter_ops(Op.REDUCE, Op.END):
        counters = tuple(once if s.op is Op.CONST else s for s in node.loops)
        if counters != node.loops:
            replaced[node] = node.with_src((node.src[0], *counters))
    return root.substitute(replaced) if replaced else root


def differ_at(
    before: UOp, after: UOp, values: Mapping[UOp, Any], roundings: int = 0, ulps: int = 0
) -> bool:
    """True if `before` and `after` differ at `values`; effects are compared by the memory that they
    write.

    Args:
        before: root of the first expression or effect.
        after: root of the second one.
        values: value of each leaf: a scalar, an array of lanes, or the elements of a memory.
        roundings: floats may differ by this many roundings of the largest intermediate value, if
            all are finite.
        ulps: finite floats other than zeros may differ by this many units in the last place.
    """
    before, after = _spell_loops(before), _spell_loops(after)
    left, right = (
        {n: v.copy() if isinstance(v, np.ndarray) else v for n, v in values.items()}
        for _ in range(2)
    )
    try:
        if before.op is Op.END or before.op is Op.STORE:
            for root, inputs in ((before, left), (after, right)):
                evaluate_kernel(UOp.sink(root), {**inputs})
            return any(
                bool(_differs(left[n], right[n], None).any()) for n in left if n.op is Op.PARAM
            )
        with quiet():
            x, y = evaluate(before, {**left}), evaluate(after, {**right})
            differs = bool(_differs(x, y, None, ulps).any())
            if not roundings or not differs:
                return differs
            return bool(_differs(x, y, _get_tolerance(before, left, roundings)).any())
    except EvaluationError:
        # These values cause an out-of-bounds read, for which rules guarantee nothing.
        return False


def _get_tolerance(before: UOp, values: Mapping[UOp, Any], roundings: int) -> Any:
    if not roundings or not before.dtype.is_float:
        return None
    magnitudes = [
        np.abs(evaluate(n, {**values}).astype(np.float64))
        for n in before.toposort()
        if n.dtype.is_float
    ]
    dtype = before.dtype.scalar
    least = 2.0 ** -(2 ** (dtype.exponent_bits - 1) - 2 + dtype.mantissa_bits)
    if any(
        np.ndim(magnitude) and np.shape(magnitude) != np.shape(magnitudes[-1])
        for magnitude in magnitudes
    ):
        # Movement ops permute elements, so the bound is the largest magnitude of all elements.
        magnitudes = [np.max(np.abs(magnitude), initial=0.0) for magnitude in magnitudes]
    # If an intermediate value is infinite or NaN, rounding errors are unbounded: accept any
    # difference.
    largest = np.max(
        np.nan_to_num(np.stack(np.broadcast_arrays(*magnitudes)), nan=np.inf, posinf=np.inf), axis=0
    )
    return np.where(
        largest < dtype.finfo_max / 4, roundings * (dtype.finfo_eps * largest + least), np.inf
    )


def _differs(x: Any, y: Any, tolerance: Any, ulps: int = 0) -> Any:
    x, y = np.atleast_1d(*np.broadcast_arrays(x, y))
    if x.dtype.kind in "iub":
        return x != y
    a, b = x.astype(np.float64), y.astype(np.float64)
    same = ((a == b) & (np.signbit(a) == np.signbit(b))) | (np.isnan(a) & np.isnan(b))
    if ulps:
        is_nonzero = np.isfinite(a) & np.isfinite(b) & (a != 0) & (b != 0)
        step = np.spacing(np.maximum(np.abs(x), np.abs(y))).astype(np.float64)
        same |= is_nonzero & (np.abs(a - b) <= ulps * step)
    return (
        ~same if tolerance is None else ~(same | (np.abs(a - b) <= tolerance) | np.isinf(tolerance))
    )
