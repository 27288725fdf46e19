"""narrow-sums: shrink the loops of a sum to the iterations whose terms are not masked to 0.

before → after, for the rows of a window at row y of an image of 32 rows, with one row of padding
above it and one below:

    REDUCE(WHERE(0 < y + k & y + k < 33, x, 0), c, k; ADD)      REDUCE(x[k := k + f], c, k := RANGE [n]; ADD)
                                                                with f = MAX(1 - y, 0), n = MIN(33 - y, 3) - f

Terms must be 0 by selection (WHERE), not by multiplication: 0 times NaN is NaN. The new bounds may
depend only on enclosing loops, so a condition on a vectorized or unrolled axis remains. A condition
also remains if an iteration has too little work to be worth the computation of bounds."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from svod_dtype import index
from svod_ir import AxisType, Op, UOp, max_trips
from svod_ir.origins import make_images
from svod_ir.pattern import splat_value
from svod_ir.polynomial import ONE, add_scaled
from svod_schedule.symbolic import simplify
from svod_schedule.symbolic.terms import from_terms, to_terms
from svod_schedule.symbolic.valid import iter_clauses

__all__ = ["narrow_sums"]

MIN_STEPS = 64
"""Minimum number of terms per skipped iteration, including lanes and copies."""

_AROUND = frozenset({AxisType.LOOP, AxisType.THREAD, AxisType.REDUCE})
"""Kinds of loops that bounds may depend on. Work-items are excluded: with shared memory, the
work-items of a workgroup have to run the same iterations, for barriers.
"""


class _Interval(NamedTuple):
    """Interval of a loop in which a condition holds: from `first` to `last`, exclusive; None if the
    condition has no such bound.
    """

    loop: UOp
    first: UOp | None
    last: UOp | None


def narrow_sums(sink: UOp) -> UOp:
    """Shrink the loops of sums to skip terms that are masked to 0."""
    reductions = [*sink.iter_ops(Op.REDUCE)]
    if not any(map(_is_choice, reductions)):
        return sink
    n_readers = Counter(r for node in reductions for r in node.loops)
    done = make_images()
    for node in sink.toposort():
        new = node.with_images(done)
        # Sums that share their loops also share loads, so their loops must stay equal.
        if _is_choice(new) and all(n_readers[r] == 1 for r in node.loops):
            new = _narrow(new) or new
        done[node] = new
    return done[sink]


def _is_choice(node: UOp) -> bool:
    return node.op is Op.REDUCE and node.arg is Op.ADD and node.source.op is Op.WHERE


def _narrow(reduce: UOp) -> UOp | None:
    condition, value, zero = reduce.source.src
    if _is_zero(value):
        condition, value, zero = UOp(Op.NOT, condition.dtype, (condition,)), zero, value
    elif not _is_zero(zero):
        return None
    remaining: list[UOp] = []
    intervals: list[_Interval] = []
    for clause in iter_clauses(condition):
        interval = _read_clause(clause, reduce)
        if interval is None:
            remaining.append(clause)
        else:
            intervals.append(interval)
    if not intervals:
        return None
    loops = dict.fromkeys(i.loop for i in intervals)
    moved: dict[UOp, UOp] = {}
    narrow: dict[UOp, UOp] = {}
    for loop in loops:
        first, last = UOp.const(index, 0), loop.stop
        for interval in intervals:
            if interval.loop is loop:
                first = first if interval.first is None else first.maximum(interval.first)
                last = last if interval.last is None else last.minimum(interval.last)
        first = simplify(first)
        narrow[loop] = loop.with_src((simplify((last - first).maximum(0)),))
        moved[loop] = narrow[loop] + first
    for clause in remaining:
        value = UOp(Op.WHERE, value.dtype, (clause, value, zero))
    return reduce.with_src((value.substitute(moved), *(narrow.get(r, r) for r in reduce.loops)))


def _is_zero(x: UOp) -> bool:
    # -0.0 is skipped as well: a sum starts at 0.0.
    return x.op is Op.CONST and splat_value(x) == 0


def _read_clause(clause: UOp, reduce: UOp) -> _Interval | None:
    """Read a comparison as an interval of a loop of the reduction, whose bounds depend only on
    enclosing loops; None if it is not of this form.
    """
    is_negated = clause.op is Op.NOT
    order = clause.source if is_negated else clause
    if order.op is not Op.LT or order.left.dtype is not index:
        return None
    own = [r for r in reduce.loops if r in order.ranges]
    if len(own) != 1 or own[0].arg.kind is not AxisType.REDUCE or own[0].stop.ranges:
        return None
    (loop,) = own
    if (
        any(r.arg.kind not in _AROUND for r in order.ranges)
        or _count_steps(reduce, loop) < MIN_STEPS
    ):
        return None
    terms = add_scaled(to_terms(order.left), to_terms(order.right), -1)
    scale = terms.pop((loop,), 0)
    if not scale or any(loop in atom.ranges for monomial in terms for atom in monomial):
        return None
    # loop * scale + offset < 0, or 0 <= loop * scale + offset, which is -loop * scale - offset - 1 < 0.
    if is_negated:
        terms, scale = add_scaled({ONE: -1}, terms, -1), -scale
    offset = from_terms(terms, index)
    if scale > 0:
        # loop < -offset / scale, rounded up.
        return _Interval(loop, None, -(offset // scale))
    # offset < loop * -scale: the first iteration is the quotient, rounded down, plus 1.
    return _Interval(loop, offset // -scale + 1, None)


def _count_steps(reduce: UOp, loop: UOp) -> int:
    inside = [r for r in reduce.source.ranges if r.arg.kind not in _AROUND]
    return max_trips(
        *inside, *(r for r in reduce.loops if r is not loop and r.arg.kind is AxisType.REDUCE)
    )
