"""Job: a graph to compute, and the memory that it reads and writes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple

from svod_tensor.engine.memory_nodes import find_base, get_buffer, make_memory
from svod_tensor.options import DEFAULT_DEVICE

if TYPE_CHECKING:
    from svod_device import Buffer
    from svod_ir import UOp
    from svod_runtime import Guard
    from svod_tensor.engine.build import TensorGraph

__all__ = ["Inputs", "Job", "get_inputs"]


class Inputs(NamedTuple):
    """Buffers that a plan is bound to.

    Attributes:
        nodes: the BUFFER of each input: first the inputs of the graph, then further outputs.
        buffers: their storage.
        outputs: for each output, its index among the computed results, or ~slot of the input that
            it is; None if the outputs are the computed results, in order.
    """

    nodes: tuple[UOp, ...]
    buffers: tuple[Buffer, ...]
    outputs: tuple[int, ...] | None

    @property
    def ids(self) -> list[int]:
        """The id of each input's BUFFER."""
        return [node.arg.id for node in self.nodes]


class Job(NamedTuple):
    """Request for a plan.

    Attributes:
        graph: the graph to compute.
        inputs: its memory.
        guard: checks the last result of the graph, which is then not an output.
        donated: the BUFFERs that the plan may overwrite.
    """

    graph: TensorGraph
    inputs: Inputs
    guard: Guard | None = None
    donated: Collection[UOp] = ()

    @property
    def donated_slots(self) -> tuple[int, ...]:
        """The slots of the donated inputs."""
        if not self.donated:
            return ()
        return tuple(slot for slot, node in enumerate(self.graph.params) if node in self.donated)


def get_inputs(
    graph: TensorGraph, results: Sequence[UOp], computed: Sequence[UOp], order: Sequence[int]
) -> Inputs:
    """The inputs of the plan whose outputs are `results` in this order, of which `computed` are not
    in memory yet.

    Raises:
        BufferNotFoundError: if a BUFFER has no storage.
    """
    params = graph.params
    # The usual case. A list never equals a range, so the comparison does not walk it.
    if len(computed) == len(results) and order == range(len(results)):
        return Inputs(params, tuple([get_buffer(node) for node in params]), None)
    missing = set(computed)
    slots = {memory: slot for slot, memory in enumerate(params)}
    indices: list[int] = []
    # Results that are not computed are inputs too: they are outputs in memory that exists.
    n_computed = 0
    for node in results:
        if node in missing:
            indices.append(n_computed)
            n_computed += 1
        else:
            indices.append(~slots.setdefault(find_base(node) or _make_empty(node), len(slots)))
    # `order` may name one result twice, for two tensors of one value.
    outputs = tuple(indices[index] for index in order)
    nodes = tuple(slots)
    return Inputs(
        nodes,
        tuple(map(get_buffer, nodes)),
        # Normalized, since the outputs are part of the template's key.
        None if outputs == tuple(range(n_computed)) else outputs,
    )


def _make_empty(node: UOp) -> UOp:
    """Memory for a node without elements."""
    from svod_device import Buffer, get_allocator

    device = node.device if isinstance(node.device, str) else DEFAULT_DEVICE
    dtype = node.dtype.part
    return make_memory(dtype, 0, device, Buffer(get_allocator(device), dtype, 0))
