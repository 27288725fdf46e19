"""release-events: remove control dependencies on values that nothing else reads.

before → after, where no other node reads y:

    CONTROL_DEPENDENCY(x, y, z)      CONTROL_DEPENDENCY(x, z)

A control dependency orders kernels, and does not cause its events to be computed, except for
custom functions: these may wait for other processes, which call them too.
"""

from __future__ import annotations

from typing import Final

from svod_ir import Op, UOp
from svod_ir.loops import get_bodies, iter_nodes
from svod_ir.ops import MOVEMENT
from svod_ir.origins import make_images

__all__ = ["release_events"]

_VIEWS: Final = MOVEMENT | {Op.CONTIGUOUS}


def release_events(sink: UOp) -> UOp:
    """Remove the events of control dependencies that no other node reads from `sink`."""
    if not any(True for _ in sink.iter_ops(Op.CONTROL_DEPENDENCY)):
        return sink
    needed = _list_needed(sink)
    done = make_images()
    for node in sink.toposort():
        if node.op is Op.CONTROL_DEPENDENCY and node in needed:
            # Two events may have become one node.
            events = dict.fromkeys(done[event] for event in node.src[1:] if event in needed)
            done[node] = node.with_src((done[node.source], *events))
        else:
            done[node] = node.with_images(done)
    return done[sink]


def _list_needed(sink: UOp) -> set[UOp]:
    """Return the nodes that the results are computed from."""
    needed: set[UOp] = set()
    stack = [sink]
    while stack:
        node = stack.pop()
        if node not in needed:
            needed.add(node)
            # Only along values: an event that is needed only as an event would keep itself alive.
            is_dependency = node.op is Op.CONTROL_DEPENDENCY
            stack.extend(node.src[:1] if is_dependency else node.src)
            stack.extend(filter(_calls_functions, node.src[1:] if is_dependency else ()))
    return needed


def _calls_functions(event: UOp) -> bool:
    """Whether an event is a custom function, a loop or switch with one in a body, or memory after
    one of these.
    """
    if event.op is Op.CONTROL_DEPENDENCY:
        # The last event first: a chain of them may be long.
        return any(map(_calls_functions, reversed(event.src)))
    if event.op in _VIEWS:
        return _calls_functions(event.source)
    if event.op is Op.RESULT:
        return any(
            inner.op is Op.CUSTOM_FUNCTION
            for body in get_bodies(event.source)
            for inner in iter_nodes(body)
        )
    return event.op is Op.CUSTOM_FUNCTION
