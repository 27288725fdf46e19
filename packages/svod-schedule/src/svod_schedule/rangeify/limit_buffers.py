"""limit-buffers: store parts of expressions that read more memory than a kernel may take.

before → after, for kernels of at most 3 buffers, one of which is written:

    ADD(ADD(a, b), c)       ADD(CONTIGUOUS(ADD(a, b)), c)

What is counted is what an expression reads if nothing below it is stored but what always is, so
that whatever else is stored for other reasons, no kernel takes more."""

from __future__ import annotations

from svod_dtype import void
from svod_ir import Op, UOp
from svod_ir.ops import MEMORY, MOVEMENT
from svod_ir.origins import make_images
from svod_schedule.rangeify.analysis.devices import is_always_stored

__all__ = ["limit_buffers"]

_LEAST = 4
"""A node with three operands, and the memory for its result."""


def limit_buffers(sink: UOp, max_buffers: int | None) -> UOp:
    """`sink` computed by kernels of at most `max_buffers` buffers; fewer than 4 are too few for
    some nodes.
    """
    if max_buffers is None:
        return sink
    cut = _choose_cut(sink, max(max_buffers, _LEAST) - 1)
    done = make_images()
    for node in sink.toposort() if cut else ():
        new = node.with_images(done)
        done[node] = UOp(Op.CONTIGUOUS, new.dtype, (new,)) if node in cut else new
    return done[sink] if cut else sink


def _choose_cut(sink: UOp, max_inputs: int) -> set[UOp]:
    """What to store, so that no expression reads more than `max_inputs` memories."""
    cut: set[UOp] = set()
    inputs: dict[UOp, frozenset[UOp]] = {}
    for node in sink.toposort():
        if node.op in MEMORY or is_always_stored(node):
            inputs[node] = frozenset((node,))
            continue
        if node is sink:
            break
        if node.dtype is void:
            # A loop is no kernel; those of its body are limited by themselves.
            inputs[node] = frozenset()
            continue
        found = {
            operand: inputs[operand]
            for operand in (node.src[:1] if node.op is Op.CONTROL_DEPENDENCY else node.src)
        }
        while len(read := frozenset[UOp]().union(*found.values())) > max_inputs:
            largest = max(found, key=lambda operand: len(found[operand]))
            if len(found[largest]) < 2:
                break
            value = _value_below(largest)
            cut.add(value)
            inputs[value] = inputs[largest] = found[largest] = frozenset((value,))
        inputs[node] = read
    return cut


def _value_below(node: UOp) -> UOp:
    """What is stored for `node`: the value below movement, which has no more elements than
    needed.
    """
    while node.op in MOVEMENT:
        node = node.source
    return node
