"""release-events: a LATER waits only for what is computed anyway.

before → after, where nothing but the LATER reads y:

    LATER(x, y, z)      LATER(x, z)

A LATER orders kernels, and computes nothing for that.
"""

from __future__ import annotations

from svod_ir import Op, UOp
from svod_ir.origins import make_images

__all__ = ["release_events"]


def release_events(sink: UOp) -> UOp:
    """`sink` whose LATERs have no events that nothing else reads."""
    if not any(True for _ in sink.iter_ops(Op.LATER)):
        return sink
    needed = _list_needed(sink)
    done = make_images()
    for node in sink.toposort():
        if node.op is Op.LATER and node in needed:
            events = dict.fromkeys(done[event] for event in node.src[1:] if event in needed)
            done[node] = node.with_src((done[node.source], *events))
        else:
            done[node] = node.with_images(done)
    return done[sink]


def _list_needed(sink: UOp) -> set[UOp]:
    """The nodes that results are computed from."""
    needed: set[UOp] = set()
    stack = [sink]
    while stack:
        node = stack.pop()
        if node not in needed:
            needed.add(node)
            stack.extend(node.src[:1] if node.op is Op.LATER else node.src)
    return needed
