"""What a thread computes: which tensors, from which nodes, beside what other threads compute, and
what becomes of them.

`registry` says what several threads may rely on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from svod_ir import Op, Sharding, UOp
from svod_ir.ops import MOVEMENT
from svod_tensor._checks import build_checked
from svod_tensor._memory_views import view_prefix
from svod_tensor._shards import join_parts, parts_of
from svod_tensor.cells import overwriting, registry
from svod_tensor.cells.derivatives import keep_origin
from svod_tensor.engine import memory_nodes, states
from svod_tensor.engine.bindings import settle_bindings
from svod_tensor.engine.job import Job, get_inputs
from svod_tensor.engine.memory_nodes import get_buffer, is_there
from svod_tensor.errors import BatchOutputError, BufferNotFoundError, EmptyScheduleError
from svod_tensor.options import PrepareConfig

if TYPE_CHECKING:
    from svod_device import Buffer
    from svod_runtime import ExecutionPlan
    from svod_tensor.cells.cell import Live

__all__ = [
    "Adopted",
    "Wanted",
    "Work",
    "adopt_outputs",
    "get_copies",
    "look_at",
    "make_job",
    "results_of",
    "start_plan",
    "start_work",
]


class Wanted(NamedTuple):
    """What needs computing.

    Attributes:
        tensor: a tensor, or a cell.
        node: what it stood for when it was looked at.
        parts: of the node, one on each device.
        missing: those of the parts that are no memory yet.
        is_copy: whether the node is memory of another cell, which the parts are copies of.
    """

    tensor: Live
    node: UOp
    parts: tuple[UOp, ...]
    missing: tuple[UOp, ...]
    is_copy: bool


class Work(NamedTuple):
    """What a thread computes now.

    Attributes:
        wanted: the tensors to compute.
        results: their parts.
        job: the graph, and what it is computed from.
        computation: the entry in the registry.
        versions: of memory that is written, the BUFFER for its new content.
    """

    wanted: list[Wanted]
    results: list[UOp]
    job: Job
    computation: registry.Computation
    versions: Mapping[UOp, UOp]


class Adopted(NamedTuple):
    """What nodes became.

    Attributes:
        values: the memory of nodes that were computed.
        copies: of memory, or a state of it, a BUFFER that has its content for a cell that only
            shared it.
    """

    values: dict[UOp, UOp]
    copies: dict[UOp, UOp]


def make_job(results: Sequence[UOp], config: PrepareConfig, donated: Collection[UOp] = ()) -> Job:
    """The job with an output for each of `results`, in order, that may overwrite the BUFFERs in
    `donated`.

    Each value that is computed has memory of its own; what is memory already is the output itself.

    Raises:
        VariableConflictError: if a variable is bound to two values.
        BoundsConflictError: if two variables have one name.
    """
    computed = [node for node in results if not is_there(node)]
    graph, guard = build_checked(computed, config)
    return Job(graph, get_inputs(graph, results, computed, range(len(results))), guard, donated)


def start_work(tensors: Sequence[Live], config: PrepareConfig) -> Work | None:
    """Decide what to compute for `tensors` as soon as nobody is in the way; None if there is
    nothing.
    """
    while True:
        with registry.lock:
            wanted = _list_wanted(tensors)
            if not wanted:
                return None
            work = _enter(wanted, config)
            if work is not None:
                return work
            registry.wait_if_refused()


def start_plan(tensors: Sequence[Live], config: PrepareConfig) -> tuple[Work, list[int]]:
    """Decide what a plan for `tensors` computes; also which result each of its outputs is."""
    while True:
        with registry.lock:
            wanted = [look_at(t, is_output=True) for t in {id(t): t for t in tensors}.values()]
            if not any(one.missing for one in wanted):
                raise EmptyScheduleError(n_tensors=len(tensors))
            order = _order_outputs(tensors, wanted)
            work = _enter(wanted, config, order)
            if work is not None:
                return work, order
            registry.wait_if_refused()


def _enter(
    wanted: list[Wanted], config: PrepareConfig, order: Sequence[int] | None = None
) -> Work | None:
    """Start to compute tensors; None if the caller must look at them again, after waiting if
    somebody is in the way.

    The outputs are the results, with those that are overtaken, unless `order` says which. The
    caller holds `registry.lock`."""
    results, computed = results_of(wanted), _missing_of(wanted)
    graph, guard = build_checked(computed, config)
    if graph.written:
        if registry.wait_for_capture():
            return None
        if overwriting.get_done(graph.written):
            overwriting.catch_up()
            return None
    if graph.written and order is None:
        known = {one.node for one in wanted}
        there = {id(one.tensor) for one in wanted}
        n_wanted = len(wanted)
        for overtaken in _list_wanted(overwriting.list_overtaken(results)):
            # Of those with one node, one is enough: the others are given its memory, unless they
            # are views of what changes.
            if id(overtaken.tensor) not in there and (
                overtaken.node not in known or states.find_state(overtaken.node)
            ):
                known.add(overtaken.node)
                wanted.append(overtaken)
        if len(wanted) > n_wanted:
            results, computed = results_of(wanted), _missing_of(wanted)
            graph, guard = build_checked(computed, config)
    try:
        inputs = get_inputs(
            graph, results, computed, range(len(results)) if order is None else order
        )
    except BufferNotFoundError:
        if not overwriting.catch_up():
            raise
        return None
    computation = registry.start_computation(
        [buffer.storage_id for buffer in inputs.buffers],
        [get_buffer(memory).storage_id for memory in graph.written.values()],
        {id(one.tensor): one.node for one in wanted},
    )
    if computation is None:
        return None
    versions = overwriting.renew(graph.written.values()) if graph.written else {}
    return Work(wanted, results, Job(graph, inputs, guard), computation, versions)


def _list_wanted(tensors: Iterable[Live]) -> list[Wanted]:
    """What needs computing, each cell and each view once."""
    # Cells of other threads may be given away meanwhile; a tensor that was says so.
    left = [one for one in tensors if not (one.cell is one and one.cell.is_given_away)]
    wanted = {id(one): one for one in map(_get_holder, left) if not one.is_realized}
    return [found for one in wanted.values() if (found := look_at(one)).missing]


def _get_holder(one: Live) -> Live:
    """What gets the memory of a result: a view, or the cell of a tensor that is all of it.

    What was written is computed as a whole: in its own memory, or so that it is not computed again
    for the next write. What is memory of another cell gets its own."""
    cell = one.cell
    return cell if not one.path or cell.is_patched or cell.owns or cell.is_settled else one


def look_at(one: Live, *, is_output: bool = False) -> Wanted:
    """What computing a tensor or a cell takes, as it is now.

    An output of a plan has memory of its own, which no other result of the plan is written over. To
    read values that a derivative is taken by, the memory that is marked will do."""
    node = one.node
    # On one device, as nearly always, a node is its only part.
    parts = parts_of(node) if node.placement.__class__ is Sharding else (node,)
    is_memory = states.is_memory(node) or (is_output and memory_nodes.is_buffer_identity(node))
    is_copy = is_memory and not one.cell.owns and not one.is_realized
    if is_copy:
        parts = tuple(map(states.copy_of, parts))
    return Wanted(one, node, parts, tuple([part for part in parts if not is_there(part)]), is_copy)


def _order_outputs(tensors: Iterable[Live], wanted: Iterable[Wanted]) -> list[int]:
    """For each part of each tensor, which of the results it is."""
    places: dict[int, range] = {}
    n_results = 0
    for one in wanted:
        places[id(one.tensor)] = range(n_results, n_results + len(one.parts))
        n_results += len(one.parts)
    return [position for t in tensors for position in places[id(t)]]


def results_of(wanted: Iterable[Wanted]) -> list[UOp]:
    return [part for one in wanted for part in one.parts]


def _missing_of(wanted: Iterable[Wanted]) -> list[UOp]:
    return [part for one in wanted for part in one.missing]


def adopt_outputs(work: Work, plan: ExecutionPlan, order: Sequence[int]) -> Adopted:
    """Wire each tensor to its output; return which node of other tensors' graphs stands for which
    buffer now.

    A tensor that stands for another value by now keeps that. The caller holds `registry.lock`.
    """
    if plan.num_outputs < len(order):
        raise BatchOutputError(expected=len(order), found=plan.num_outputs)
    buffers = dict(zip(order, plan.output_buffers, strict=False))
    adopted = Adopted({}, {})
    position = 0
    for tensor, node, parts, missing, is_copy in work.wanted:
        made: list[UOp] = []
        for part in parts:
            made.append(
                _make_realized(part, buffers[position], work.versions) if part in missing else part
            )
            position += 1
        placement = node.placement
        new = join_parts(made, placement.axis) if isinstance(placement, Sharding) else made[0]
        if new is not node:
            new = keep_origin(new, node)
        # What it became by replacements of other threads.
        now = work.computation.nodes[id(tensor)]
        if new is not node:
            tensor.adopt(now, new)
        if is_copy:
            adopted.copies.update(get_copies(node, new))
            continue
        replaced = {node: new, now: new}
        if parts[0] is not node:
            replaced.update(zip(parts, made, strict=True))
        for old, memory in replaced.items():
            # A bare constant is cheaper to write again than to read; only the tensors above become
            # buffers. What is a view of memory is read there, and may be what an assignment writes
            # to.
            if old is not memory and not _is_constant(old) and states.find_state(old) is None:
                adopted.values.setdefault(old, memory)
    return adopted


def get_copies(old: UOp, new: UOp) -> dict[UOp, UOp]:
    """For the memory, or state of it, that each part of `old` is, the BUFFER that the same part of
    `new` is.
    """
    found = [
        (states.find_state(a), memory_nodes.find_base(b))
        for a, b in zip(parts_of(old), parts_of(new), strict=True)
    ]
    return {a: b for a, b in found if a is not None and b is not None and a.shape == b.shape}


def _make_realized(node: UOp, buffer: Buffer, versions: Mapping[UOp, UOp]) -> UOp:
    state = states.find_whole_state(node)
    if state is not None:
        memory = states.memory_of(state)
        return node.substitute({state: versions.get(memory, memory)})
    memory = memory_nodes.make_memory(node.dtype.part, buffer.size, buffer.device, buffer)
    view = view_prefix(memory, node.shape, node.dtype)
    # Memory under another shape has one operand; a size that depends on variables is one more.
    shaped = view.source if view.op is Op.AS_COMPLEX else view
    return view if len(shaped.src) <= 1 else settle_bindings(view)


def _is_constant(node: UOp) -> bool:
    while node.op in MOVEMENT or node.op is Op.COPY:
        node = node.source
    return node.op is Op.CONST or (
        node.op is Op.COMPLEX and all(part.op is Op.CONST for part in node.src)
    )
