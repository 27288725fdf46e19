"""Separate memory for each result, even if the passes found several results to be one value.

    SINK(AFTER(BUFFER -1, CALL), AFTER(BUFFER -1, CALL))
    SINK(AFTER(BUFFER -1, CALL), AFTER(BUFFER -2, CALL(COPY, BUFFER -2, AFTER(BUFFER -1, CALL))))

Every output of a plan is then either memory that was allocated for it, or existing memory that an
assignment writes. A later write to one result is never visible in another."""

from __future__ import annotations

from svod_dtype import void
from svod_ir import BufferArg, Op, ParamArg, UOp
from svod_tensor.engine.memory_nodes import get_memory

__all__ = ["separate_results"]


def separate_results(graph: UOp, sink: UOp) -> UOp:
    """The kernel graph of `sink` with separate memory for each result that is a value, not an
    assignment.
    """
    repeated = _list_repeated(graph, sink)
    if not repeated:
        return graph
    # Ids of intermediates are negative: the new ones go on below the lowest.
    lowest = min(
        (n.arg.id for n in graph.toposort(enter_calls=False) if n.op is Op.BUFFER), default=0
    )
    sources = list(graph.src)
    for index, position in enumerate(repeated, 1):
        sources[position] = _copy(sources[position], lowest - index)
    return graph.with_src(tuple(sources))


def _list_repeated(graph: UOp, sink: UOp) -> list[int]:
    """The positions of values that share memory with an earlier result or an assignment."""
    repeated: list[int] = []
    taken: set[UOp] = set()
    # What the compiler adds to the results, to keep it, is read by no one.
    for position, (source, result) in enumerate(zip(graph.src, sink.src, strict=False)):
        memory = get_memory(source)
        # A PARAM is memory of an existing tensor, which later writes may change.
        if result.op is Op.CONTIGUOUS and (memory in taken or memory.op is not Op.BUFFER):
            repeated.append(position)
        taken.add(memory)
    return repeated


def _copy(source: UOp, buffer_id: int) -> UOp:
    """A copy of `source` in a new BUFFER."""
    dtype, (_, size, device) = source.dtype, get_memory(source).arg
    copied = UOp(Op.BUFFER, dtype, (), BufferArg(buffer_id, size, device))
    body = UOp(Op.COPY, dtype, (UOp(Op.PARAM, dtype, (), ParamArg(1, size)),), device)
    return copied.after(UOp(Op.CALL, void, (body, copied, source)))
