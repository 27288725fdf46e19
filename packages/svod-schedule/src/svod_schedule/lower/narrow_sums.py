"""narrow-sums: a loop of a sum runs where its terms are not 0 by choice.

before → after, for the rows of a window at row y of an image of 32 rows, with one row of zeros
above it and one below:

    REDUCE(WHERE(0 < y + k & y + k < 33, x, 0), c, k; ADD)      REDUCE(x[k := k + f], c, k := RANGE [n]; ADD)
                                                                with f = MAX(1 - y, 0), n = MIN(33 - y, 3) - f

Terms must be 0 by choice, never by multiplication of floats: 0 times NaN is NaN. The bounds are
those of the loops around, so a condition on what is taken in lanes or copies stays, and so does one
inside whose loop is too little to do to be worth bounds."""

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
"""So many terms, lanes and copies counted, are added up in an iteration that may be left out, at
least.
"""

_AROUND = frozenset({AxisType.LOOP, AxisType.THREAD, AxisType.REDUCE})
"""Loops of one thread.

Work-items of a workgroup have to go through a loop together where they share memory.
"""


class _Interval(NamedTuple):
    """Where a condition on one loop holds: from `first` on, and up to `last`, which is not in it;
    None where nothing is said.
    """

    loop: UOp
    first: UOp | None
    last: UOp | None


def narrow_sums(sink: UOp) -> UOp:
    """`sink` with loops of sums that skip terms of 0."""
    reductions = [*sink.iter_ops(Op.REDUCE)]
    if not any(map(_is_choice, reductions)):
        return sink
    n_readers = Counter(r for node in reductions for r in node.loops)
    done = make_images()
    for node in sink.toposort():
        new = node.with_images(done)
        # Sums that share their loops read once what they have in common.
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
    left: list[UOp] = []
    intervals: list[_Interval] = []
    for clause in iter_clauses(condition):
        interval = _read_clause(clause, reduce)
        if interval is None:
            left.append(clause)
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
    for clause in left:
        value = UOp(Op.WHERE, value.dtype, (clause, value, zero))
    return reduce.with_src((value.substitute(moved), *(narrow.get(r, r) for r in reduce.loops)))


def _is_zero(x: UOp) -> bool:
    # -0.0 will do: a sum starts at 0.0.
    return x.op is Op.CONST and splat_value(x) == 0


def _read_clause(clause: UOp, reduce: UOp) -> _Interval | None:
    """Where a comparison holds, as an interval of one of the reduction's loops that depends on
    loops around it alone.
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
    # loop * scale + rest < 0, or 0 <= loop * scale + rest, which is -loop * scale - rest - 1 < 0.
    if is_negated:
        terms, scale = add_scaled({ONE: -1}, terms, -1), -scale
    rest = from_terms(terms, index)
    if scale > 0:
        # loop < -rest / scale, rounded up.
        return _Interval(loop, None, -(rest // scale))
    # rest < loop * -scale: the first is the quotient, rounded down, and one.
    return _Interval(loop, rest // -scale + 1, None)


def _count_steps(reduce: UOp, loop: UOp) -> int:
    inside = [r for r in reduce.source.ranges if r.arg.kind not in _AROUND]
    return max_trips(
        *inside, *(r for r in reduce.loops if r is not loop and r.arg.kind is AxisType.REDUCE)
    )
