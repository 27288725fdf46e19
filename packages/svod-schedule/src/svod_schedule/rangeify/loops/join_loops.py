"""Loops with the same operands and the same carries as one loop that stacks the values of all: a
step of simplify-loops.

    LOOP[SINK(next, y)](n, x, xs), LOOP[SINK(next, y, z)](n, x, xs)     LOOP[SINK(next, y, z)](n, x, xs)

The loop that a derivative needs values of is the loop that it is the derivative of, and stacks
these besides."""

from __future__ import annotations

from svod_ir import Op, UOp
from svod_ir.args import LoopArg
from svod_ir.loops import find_count
from svod_ir.origins import make_images

__all__ = ["join_loops"]


def join_loops(sink: UOp) -> UOp:
    """A graph in which no two loops have the same operands and carry the same."""
    order = sink.toposort()
    groups: dict[object, dict[UOp, None]] = {}
    for node in order:
        if node.op is Op.LOOP and not node.arg.is_conditional and find_count(node) is not None:
            groups.setdefault(_describe(node), {})[node] = None
    merged: dict[UOp, tuple[UOp, dict[UOp, int]]] = {}
    for group in groups.values():
        if len(group) > 1:
            whole = _merge(list(group))
            merged.update((loop, whole) for loop in group)
    if not merged:
        return sink
    done = make_images()
    for node in order:
        if node.op is Op.RESULT and node.source in merged:
            done[node] = _get_result(node, merged[node.source], done)
        else:
            done[node] = node.with_images(done)
    return done[sink]


def _describe(loop: UOp) -> object:
    arg: LoopArg = loop.arg
    return loop.src, arg._replace(body=arg.body.src[: arg.n_carried])


def _merge(loops: list[UOp]) -> tuple[UOp, dict[UOp, int]]:
    """The loop that stacks all that any of them does, and where it gives what."""
    first: LoopArg = loops[0].arg
    stacked = dict.fromkeys(
        value for loop in loops for value in loop.arg.body.src[first.n_carried :]
    )
    body = UOp.sink(*first.body.src[: first.n_carried], *stacked)
    places = {value: first.n_carried + n for n, value in enumerate(stacked)}
    return loops[0].with_arg(first._replace(body=body)), places


def _get_result(result: UOp, merged: tuple[UOp, dict[UOp, int]], done: dict[UOp, UOp]) -> UOp:
    whole, places = merged
    arg: LoopArg = result.source.arg
    place = result.arg if result.arg < arg.n_carried else places[arg.body.src[result.arg]]
    return UOp(Op.RESULT, result.dtype, (whole.with_images(done),), place)
