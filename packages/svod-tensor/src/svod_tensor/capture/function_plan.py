"""Plans of captured functions: trace the function, and make a plan of the graph that it built."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from svod_ir import Op, UOp
from svod_tensor._memory_views import view_prefix
from svod_tensor._shards import join_like, shards_of
from svod_tensor.capture.calls import Captured, is_symbolic_input
from svod_tensor.capture.dependencies import Dependency, Guards
from svod_tensor.capture.direct import DirectCall, DirectRead, DirectResult
from svod_tensor.capture.inputs import Input
from svod_tensor.capture.memory_writes import MemoryWrites
from svod_tensor.capture.plan_forks import PlanForks
from svod_tensor.capture.recipes import Results
from svod_tensor.capture.tracing import FunctionTrace, TracedCall, compute_missing, trace_call
from svod_tensor.capture.validity import HeldMemory, Validity, Watched, list_storages
from svod_tensor.cells import registry
from svod_tensor.cells.recording import Capture
from svod_tensor.engine import memory_nodes, versions
from svod_tensor.errors import BufferNotFoundError

if TYPE_CHECKING:
    from svod_device import Buffer
    from svod_runtime import ExecutionPlan
    from svod_tensor.options import PrepareConfig

__all__ = ["find_direct", "make_captured"]


def make_captured(call: TracedCall, config: PrepareConfig, *, may_resize: bool) -> Captured:
    """FunctionTrace a function and make a plan of its graph.

    Args:
        call: the call to trace.
        config: how to compile.
        may_resize: whether kernels with symbolic sizes will do.
    """
    while True:
        trace = trace_call(call)
        if not compute_missing(trace):
            try:
                return _build_captured(call, trace, config, may_resize=may_resize)
            except BufferNotFoundError:
                # Another thread overwrote memory that the trace read: run again. Any other missing
                # buffer is an error.
                memories = set(UOp.sink(*trace.graphs).iter_ops(Op.BUFFER))
                if all(registry.get_latest_version(memory) is memory for memory in memories):
                    raise


class _Computed(NamedTuple):
    """Shard of a result that the plan computes: the indices of the result and of the shard, and its
    graph.
    """

    source: int
    shard: int
    node: UOp


def _build_captured(
    call: TracedCall, trace: FunctionTrace, config: PrepareConfig, *, may_resize: bool
) -> Captured:
    capture, inputs = trace.capture, trace.inputs
    computed = [
        _Computed(source, shard, node)
        for source, whole in enumerate(trace.sources)
        for shard, node in enumerate(shards_of(whole))
        if 0 not in node.shape
        and not memory_nodes.is_buffer_identity(node)
        and versions.find_whole_version(node) is None
    ]
    plan, is_resized = _make_plan(trace, computed, config, may_resize=may_resize)
    index_of: Mapping[int, int] = {} if plan is None else plan.ast_to_buffer
    for input_ in inputs:
        input_.index = index_of.get(input_.memory.arg.id)
        input_.is_written = input_.memory in capture.last_versions
    outputs = [] if plan is None else _make_outputs(plan, computed)
    nodes = _list_results(trace, computed, outputs)
    memories = [memory for memory, _ in outputs]
    leaves = [*(input_.memory for input_ in inputs), *memories]
    donated = {input_.memory for input_ in inputs if input_.is_donated}
    if plan is not None:
        registry.add_plan(plan)
    for input_ in inputs:
        # Placeholders need no storage: each call binds its own.
        memory_nodes.remove_buffer(input_.memory)
    held = _get_held(plan, inputs)
    written = set(capture.last_versions)
    captured = Captured(
        call.name,
        None if plan is None else PlanForks(plan, [index for _, index in outputs]),
        inputs,
        outputs,
        Results(trace.recipes, nodes, leaves, donated.union(memories)),
        trace.build,
        _make_validity(trace, held, _list_held_memory(capture, nodes, leaves)),
        MemoryWrites(call.name, inputs, written, held, capture.get_written())
        if written or donated
        else None,
        trace.bound,
        has_variables=bool(trace.bound) or any(map(is_symbolic_input, call.given)),
        is_resized=is_resized,
    )
    if not trace.binds and not trace.bound:
        captured.direct = find_direct(captured)
    return captured


def _make_plan(
    trace: FunctionTrace, computed: Sequence[_Computed], config: PrepareConfig, *, may_resize: bool
) -> tuple[ExecutionPlan | None, bool]:
    """The plan of a trace, None without computation; and whether its kernels have symbolic sizes."""
    from svod_tensor.cells.work import make_job
    from svod_tensor.engine.compute import make_plan
    from svod_tensor.engine.size_history import note_sizes

    effects = trace.capture.last_versions
    graphs = [*(c.node for c in computed), *effects.values()]
    if not graphs:
        return None, False
    # Memory that is returned unchanged, or assigned to, must not be reused for donation.
    kept = {
        *effects,
        *(memory_nodes.find_base(shard) for node in trace.sources for shard in shards_of(node)),
    }
    job = make_job(graphs, config, {i.memory for i in trace.inputs if i.is_donated} - kept)
    may_resize = may_resize and not trace.binds
    if not may_resize:
        note_sizes(job, config)
    plan = make_plan(job, config, may_resize=may_resize)
    # A graph without variables has none in its plan, except for sizes.
    return plan, bool(plan.template.bounds) and not job.graph.values


def _make_outputs(plan: ExecutionPlan, computed: Sequence[_Computed]) -> list[tuple[UOp, int]]:
    """A placeholder for each computed shard, with the index of its buffer."""
    indices = plan.output_indices[: len(computed)]
    return [
        (
            memory_nodes.make_memory(
                c.node.dtype.part, plan.buffers[index].size, plan.buffers[index].device
            ),
            index,
        )
        for c, index in zip(computed, indices, strict=True)
    ]


def _list_results(
    trace: FunctionTrace, computed: Sequence[_Computed], outputs: Sequence[tuple[UOp, int]]
) -> list[UOp]:
    """The graphs of the results, with placeholders for what the plan computes and assigns to."""
    written = versions.get_pending_versions(*trace.capture.last_versions.values(), *trace.sources)
    realized = {
        (c.source, c.shard): view_prefix(memory, c.node.shape, c.node.dtype)
        for c, (memory, _) in zip(computed, outputs, strict=True)
    }
    return [
        join_like(
            node,
            [
                realized.get((source, n)) or shard.substitute(written)
                for n, shard in enumerate(shards_of(node))
            ],
        )
        for source, node in enumerate(trace.sources)
    ]


def _make_validity(
    trace: FunctionTrace, held: Mapping[str, Buffer], held_memory: Sequence[HeldMemory]
) -> Validity:
    reads = list(
        {
            read: Dependency(name, read, value) for name, read, value in trace.capture.dependencies
        }.values()
    )
    dependencies = [*reads, *map(Dependency.on, trace.edges)]
    return Validity(
        dependencies,
        Guards(trace.edges, reads) if dependencies else None,
        _list_watched(trace.capture),
        held_memory,
        held,
    )


def find_direct(captured: Captured) -> DirectCall | None:
    """Return the direct calls of a function without variables; None if a result shares memory, or
    the function writes and takes memory.
    """
    results, index_of = captured.results.direct, dict(captured.outputs)
    if captured.plan is None or results is None:
        return None
    if captured.assigns and any(i.is_donated for i in captured.inputs):
        return None
    if any(isinstance(r, DirectResult) and r.memory not in index_of for r in results):
        return None
    reads = [
        DirectRead(i.position, i.index, i.argument if i.is_donated else None)
        for i in captured.inputs
    ]
    return DirectCall(captured.name, reads, results, index_of, captured.sizes)


def _list_watched(capture: Capture) -> list[Watched]:
    """The tensors without memory of their own that the function read: the plan contains their
    graphs as they were.
    """
    reads = [
        read
        for read in capture.reads.values()
        # Of lent memory, the plan reads a snapshot.
        if (cell := read[0]()) is not None and (not cell.is_realized or cell.is_lent)
    ]
    return [Watched(cell, node) for cell, node in (*reads, *capture.unshared)]


def _list_held_memory(
    capture: Capture, results: Sequence[UOp], own: Iterable[UOp]
) -> list[HeldMemory]:
    """The held tensors in memory of their own that the function reads or writes."""
    placeholders = set(own)
    returned = {memory for node in results for memory in node.iter_ops(Op.BUFFER)}
    written = capture.get_written()
    refs = [*(ref for ref, _ in capture.reads.values()), *written]
    held_memory: dict[int, HeldMemory] = {}
    for cell in [cell for ref in refs if (cell := ref()) is not None]:
        if cell.is_donated or cell.is_lent or not cell.is_realized:
            continue
        memories = set(versions.iter_memories(cell.node))
        if placeholders.isdisjoint(memories):
            # An array on such memory would change with a later call, or change a result.
            is_kept = not returned.isdisjoint(memories) or any(ref() is cell for ref in written)
            held_memory[id(cell)] = HeldMemory(weakref.ref(cell), list_storages(cell), is_kept)
    return list(held_memory.values())


def _get_held(plan: ExecutionPlan | None, inputs: Sequence[Input]) -> dict[str, Buffer]:
    """The memory that a plan uses besides its arguments, by its name in messages."""
    if plan is None:
        return {}
    own = {input_.memory.arg.id for input_ in inputs}
    return {
        f"a tensor that the function holds (buffer {node_id})": plan.buffers[index]
        for node_id, index in plan.ast_to_buffer.items()
        # Negative ids are intermediates of the plan.
        if node_id > 0 and node_id not in own
    }
