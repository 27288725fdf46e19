"""Fusion of loops with the same operands and carries into one loop that stacks the values of all: a
step of simplify-loops.

    LOOP[SINK(next, y)](n, x, xs), LOOP[SINK(next, y, z)](n, x, xs)     LOOP[SINK(next, y, z)](n, x, xs)

So the residuals that a gradient needs are stacked by the loop that it is the gradient of, not by a
second forward loop."""

from __future__ import annotations

from svod_ir import Op, UOp
from svod_ir.args import LoopArg
from svod_ir.loops import find_count
from svod_ir.origins import make_images

__all__ = ["join_loops"]


def join_loops(sink: UOp) -> UOp:
    """Fuse the loops of a graph that have the same operands and the same carries."""
    order = sink.toposort()
    groups: dict[object, dict[UOp, None]] = {}
    for node in order:
        # Other loops stack nothing, and equal ones are one node already.
        if node.op is Op.LOOP and not node.arg.is_conditional and find_count(node) is not None:
            groups.setdefault(_make_key(node), {})[node] = None
    merged: dict[UOp, tuple[UOp, dict[UOp, int]]] = {}
    for group in groups.values():
        if len(group) > 1:
            fused = _merge(list(group))
            merged.update((loop, fused) for loop in group)
    if not merged:
        return sink
    done = make_images()
    for node in order:
        if node.op is Op.RESULT and node.source in merged:
            done[node] = _get_result(node, merged[node.source], done)
        else:
            done[node] = node.with_images(done)
    return done[sink]


def _make_key(loop: UOp) -> object:
    # The next values of the carries, by identity: equal bodies are one object. Stacked values may
    # differ.
    arg: LoopArg = loop.arg
    return loop.src, arg._replace(body=arg.body.src[: arg.n_carried])


def _merge(loops: list[UOp]) -> tuple[UOp, dict[UOp, int]]:
    """Return the loop that stacks all values that one of `loops` stacks, and the position of the
    result of each.
    """
    first: LoopArg = loops[0].arg
    stacked = dict.fromkeys(
        value for loop in loops for value in loop.arg.body.src[first.n_carried :]
    )
    body = UOp.sink(*first.body.src[: first.n_carried], *stacked)
    positions = {value: first.n_carried + n for n, value in enumerate(stacked)}
    return loops[0].with_arg(first._replace(body=body)), positions


def _get_result(result: UOp, merged: tuple[UOp, dict[UOp, int]], done: dict[UOp, UOp]) -> UOp:
    loop, positions = merged
    arg: LoopArg = result.source.arg
    position = result.arg if result.arg < arg.n_carried else positions[arg.body.src[result.arg]]
    return UOp(Op.RESULT, result.dtype, (loop.with_images(done),), position)
