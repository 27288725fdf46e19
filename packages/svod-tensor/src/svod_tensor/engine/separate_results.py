"""Results with memory of their own, also where the passes found that several of them are one value.

    SINK(AFTER(BUFFER -1, CALL), AFTER(BUFFER -1, CALL))
    SINK(AFTER(BUFFER -1, CALL), AFTER(BUFFER -2, CALL(COPY, BUFFER -2, AFTER(BUFFER -1, CALL))))

Every output of a plan is thus either memory that is written for it alone, or memory that was there
before: what an assignment writes. What is written to one result later never shows in another."""

from __future__ import annotations

from svod_dtype import void
from svod_ir import BufferArg, Op, ParamArg, UOp
from svod_tensor.engine.memory_nodes import get_memory

__all__ = ["separate_results"]


def separate_results(graph: UOp, sink: UOp) -> UOp:
    """The kernel graph of `sink` with memory of its own for each result that is a value, and no
    assignment.
    """
    repeated = _list_repeated(graph, sink)
    if not repeated:
        return graph
    lowest = min(
        (n.arg.id for n in graph.toposort(enter_calls=False) if n.op is Op.BUFFER), default=0
    )
    sources = list(graph.src)
    for number, position in enumerate(repeated, 1):
        sources[position] = _copy(sources[position], lowest - number)
    return graph.with_src(tuple(sources))


def _list_repeated(graph: UOp, sink: UOp) -> list[int]:
    """The positions of the values that are in memory of something else: of an earlier result, or of
    an assignment.
    """
    found: list[int] = []
    taken: set[UOp] = set()
    for position, (source, wanted) in enumerate(zip(graph.src, sink.src, strict=True)):
        memory = get_memory(source)
        if wanted.op is Op.CONTIGUOUS and (memory in taken or memory.op is not Op.BUFFER):
            found.append(position)
        taken.add(memory)
    return found


def _copy(source: UOp, number: int) -> UOp:
    """What `source` holds in a new BUFFER."""
    dtype, (_, size, device) = source.dtype, get_memory(source).arg
    copied = UOp(Op.BUFFER, dtype, (), BufferArg(number, size, device))
    body = UOp(Op.COPY, dtype, (UOp(Op.PARAM, dtype, (), ParamArg(1, size)),), device)
    return copied.after(UOp(Op.CALL, void, (body, copied, source)))
