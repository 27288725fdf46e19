"""limit-buffers: materialize subexpressions where a kernel would take too many buffers.

before → after, for kernels of at most 3 buffers, including the output:

    ADD(ADD(a, b), c)       ADD(CONTIGUOUS(ADD(a, b)), c)

The buffers of an expression are counted as if only the nodes below it that are always stored were
materialized. Later passes can materialize more, which only lowers the count."""

from __future__ import annotations

from svod_dtype import void
from svod_ir import Op, UOp
from svod_ir.ops import MEMORY, MOVEMENT
from svod_ir.origins import make_images
from svod_schedule.rangeify.analysis.devices import is_always_stored

__all__ = ["limit_buffers"]

_MIN_BUFFERS = 4
"""A node with three operands (WHERE), and its output."""


def limit_buffers(sink: UOp, max_buffers: int | None) -> UOp:
    """Materialize values of `sink` so that no kernel takes more than `max_buffers` buffers.

    Limits under 4 count as 4: a WHERE has three operands and an output.
    """
    if max_buffers is None:
        return sink
    cut = _choose_cut(sink, max(max_buffers, _MIN_BUFFERS) - 1)
    done = make_images()
    for node in sink.toposort() if cut else ():
        new = node.with_images(done)
        done[node] = UOp(Op.CONTIGUOUS, new.dtype, (new,)) if node in cut else new
    return done[sink] if cut else sink


def _choose_cut(sink: UOp, max_inputs: int) -> set[UOp]:
    """Choose values to materialize, so that no expression reads more than `max_inputs` buffers."""
    cut: set[UOp] = set()
    inputs: dict[UOp, frozenset[UOp]] = {}
    for node in sink.toposort():
        if node.op in MEMORY or is_always_stored(node):
            inputs[node] = frozenset((node,))
            continue
        if node is sink:
            break
        if node.dtype is void:
            # A loop is not one kernel; the kernels of its body are limited separately.
            inputs[node] = frozenset()
            continue
        inputs_of_operand = {
            operand: inputs[operand]
            for operand in (node.src[:1] if node.op is Op.CONTROL_DEPENDENCY else node.src)
        }
        while len(read := frozenset[UOp]().union(*inputs_of_operand.values())) > max_inputs:
            # The operand with the most buffers first: one store then saves the most.
            largest = max(inputs_of_operand, key=lambda operand: len(inputs_of_operand[operand]))
            if len(inputs_of_operand[largest]) < 2:
                break
            value = _strip_movement(largest)
            cut.add(value)
            inputs[value] = inputs[largest] = inputs_of_operand[largest] = frozenset((value,))
        inputs[node] = read
    return cut


def _strip_movement(node: UOp) -> UOp:
    """Return the value below movement ops: storing that never stores expanded elements."""
    while node.op in MOVEMENT:
        node = node.source
    return node
