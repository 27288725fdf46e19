"""Work of one `realize`: the tensors that a thread computes, arbitration with other threads, and
adoption of the results.

`registry` lists the guarantees for threads."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from svod_ir import Op, Sharding, UOp
from svod_ir.ops import MOVEMENT
from svod_tensor._checks import build_checked
from svod_tensor._memory_views import view_prefix
from svod_tensor._shards import join_shards, shards_of
from svod_tensor.cells import overwriting, registry
from svod_tensor.cells.derivatives import mark_with_origin
from svod_tensor.engine import memory_nodes, versions
from svod_tensor.engine.bindings import resolve_bindings
from svod_tensor.engine.job import Job, get_inputs
from svod_tensor.engine.memory_nodes import get_buffer, is_there
from svod_tensor.errors import BatchOutputError, BufferNotFoundError, EmptyScheduleError
from svod_tensor.options import PrepareConfig

if TYPE_CHECKING:
    from svod_device import Buffer
    from svod_runtime import ExecutionPlan
    from svod_tensor.cells.cell import Live

__all__ = [
    "Replacements",
    "Request",
    "Work",
    "adopt_outputs",
    "get_copies",
    "get_result_owner",
    "list_results",
    "make_job",
    "make_request",
    "start_plan",
    "start_work",
]


class Request(NamedTuple):
    """A tensor that must be computed.

    Attributes:
        tensor: a view or a cell.
        node: its node when the request was made.
        shards: the shards of the node, one on each device.
        missing: the shards that are not in memory yet.
        is_copy: whether the node is memory of another cell, which is copied.
    """

    tensor: Live
    node: UOp
    shards: tuple[UOp, ...]
    missing: tuple[UOp, ...]
    is_copy: bool


class Work(NamedTuple):
    """Tensors that a thread computes together.

    Attributes:
        requests: the tensors to compute.
        results: their shards.
        job: the graph and its inputs.
        computation: the entry in the registry.
        new_buffers: for each BUFFER that is written, the BUFFER of the new version.
    """

    requests: list[Request]
    results: list[UOp]
    job: Job
    computation: registry.Computation
    new_buffers: Mapping[UOp, UOp]


class Replacements(NamedTuple):
    """New nodes of computed nodes.

    Attributes:
        values: the memory of nodes that were computed.
        copies: for memory, or a version of it, the BUFFER with a copy of its elements that a cell
            got which had only shared the memory.
    """

    values: dict[UOp, UOp]
    copies: dict[UOp, UOp]


def make_job(results: Sequence[UOp], config: PrepareConfig, donated: Collection[UOp] = ()) -> Job:
    """The job with an output for each of `results`, in order, that may overwrite the BUFFERs in
    `donated`.

    Each computed value gets memory of its own; a result that is memory already is itself the
    output.

    Raises:
        VariableConflictError: if a variable is bound to two values.
        BoundsConflictError: if two variables have one name.
    """
    computed = [node for node in results if not is_there(node)]
    graph, guard = build_checked(computed, config)
    return Job(graph, get_inputs(graph, results, computed, range(len(results))), guard, donated)


def start_work(tensors: Sequence[Live], config: PrepareConfig) -> Work | None:
    """Register the computation of `tensors` once no running computation conflicts with it; None if
    no tensor needs computing.
    """
    while True:
        with registry.lock:
            # Made again after each wait, which releases the lock: other threads may have computed
            # or replaced these nodes.
            requests = _list_requests(tensors)
            if not requests:
                return None
            work = _try_start(requests, config)
            if work is not None:
                return work
            registry.wait_if_refused()


def start_plan(tensors: Sequence[Live], config: PrepareConfig) -> tuple[Work, list[int]]:
    """Register the computation of a plan for `tensors`; return also the index of each output among
    the results.
    """
    while True:
        with registry.lock:
            requests = [
                make_request(t, is_output=True) for t in {id(t): t for t in tensors}.values()
            ]
            if not any(request.missing for request in requests):
                raise EmptyScheduleError(n_tensors=len(tensors))
            order = _order_outputs(tensors, requests)
            work = _try_start(requests, config, order)
            if work is not None:
                return work, order
            registry.wait_if_refused()


def _try_start(
    requests: list[Request], config: PrepareConfig, order: Sequence[int] | None = None
) -> Work | None:
    """Register the computation of `requests`; None if the caller must make the requests again,
    after waiting if another computation conflicts.

    The outputs are the results, together with readers of overwritten versions, unless `order` gives
    their indices. The caller holds `registry.lock`."""
    results, computed = list_results(requests), _list_missing(requests)
    graph, guard = build_checked(computed, config)
    if graph.written:
        if registry.wait_for_capture():
            return None
        # Another thread has committed one of these writes, while this graph still contained it.
        # Computing it again would write the memory twice.
        if overwriting.get_committed(graph.written):
            overwriting.resolve_stale_nodes()
            return None
    if graph.written and order is None:
        known = {request.node for request in requests}
        requested = {id(request.tensor) for request in requests}
        n_wanted = len(requests)
        for reader in _list_requests(overwriting.list_readers_of_overwritten(results)):
            # One reader for each node is enough: the others are rebound to its memory, unless they
            # are views of the overwritten memory, which need copies of their own.
            if id(reader.tensor) not in requested and (
                reader.node not in known or versions.find_version(reader.node)
            ):
                known.add(reader.node)
                requests.append(reader)
        if len(requests) > n_wanted:
            results, computed = list_results(requests), _list_missing(requests)
            graph, guard = build_checked(computed, config)
    try:
        inputs = get_inputs(
            graph, results, computed, range(len(results)) if order is None else order
        )
    # The graph was built on a BUFFER that another thread has invalidated since.
    except BufferNotFoundError:
        if not overwriting.resolve_stale_nodes():
            raise
        return None
    # Last: from here on other threads respect these storages, so nothing that was read above may
    # change before.
    computation = registry.start_computation(
        [buffer.storage_id for buffer in inputs.buffers],
        [get_buffer(memory).storage_id for memory in graph.written.values()],
        {id(request.tensor): request.node for request in requests},
    )
    if computation is None:
        return None
    new_buffers = overwriting.make_new_buffers(graph.written.values()) if graph.written else {}
    return Work(requests, results, Job(graph, inputs, guard), computation, new_buffers)


def _list_requests(tensors: Iterable[Live]) -> list[Request]:
    """Requests for the tensors that must be computed, each cell and each view once."""
    # Other threads may donate a cell meanwhile. A cell is then skipped; a view of it raises.
    usable = [
        tensor for tensor in tensors if not (tensor.cell is tensor and tensor.cell.is_donated)
    ]
    requests = {
        id(tensor): tensor for tensor in map(get_result_owner, usable) if not tensor.is_realized
    }
    return [request for tensor in requests.values() if (request := make_request(tensor)).missing]


def get_result_owner(tensor: Live) -> Live:
    """The cell or view that gets the memory of a result: a view, or the cell of a tensor that is
    all of it.

    A written cell is computed as a whole: in its own memory, or so that it is not computed again
    for the next write. A cell that shares memory of another cell gets its own."""
    cell = tensor.cell
    return (
        cell
        if not tensor.path or cell.is_partly_written or cell.owns or cell.has_memory
        else tensor
    )


def make_request(tensor: Live, *, is_output: bool = False) -> Request:
    """The request for a tensor, with its present node.

    An output of a plan gets memory of its own, which no other result of the plan overwrites. To
    read values only, traced memory is enough."""
    node = tensor.node
    # On a single device, which is nearly always the case, the node is its only part.
    shards = shards_of(node) if node.placement.__class__ is Sharding else (node,)
    is_memory = versions.is_memory(node) or (is_output and memory_nodes.is_buffer_identity(node))
    is_copy = is_memory and not tensor.cell.owns and not tensor.is_realized
    if is_copy:
        shards = tuple(map(versions.copy_of, shards))
    return Request(
        tensor, node, shards, tuple([shard for shard in shards if not is_there(shard)]), is_copy
    )


def _order_outputs(tensors: Iterable[Live], requests: Iterable[Request]) -> list[int]:
    """For each shard of each tensor, the index of its result."""
    ranges: dict[int, range] = {}
    n_results = 0
    for request in requests:
        ranges[id(request.tensor)] = range(n_results, n_results + len(request.shards))
        n_results += len(request.shards)
    return [index for t in tensors for index in ranges[id(t)]]


def list_results(requests: Iterable[Request]) -> list[UOp]:
    return [shard for request in requests for shard in request.shards]


def _list_missing(requests: Iterable[Request]) -> list[UOp]:
    return [shard for request in requests for shard in request.missing]


def adopt_outputs(work: Work, plan: ExecutionPlan, order: Sequence[int]) -> Replacements:
    """Bind each tensor to its output; return the new nodes for graphs of other tensors.

    A tensor that has another value by now keeps it. The caller holds `registry.lock`."""
    if plan.num_outputs < len(order):
        raise BatchOutputError(expected=len(order), found=plan.num_outputs)
    buffers = dict(zip(order, plan.output_buffers, strict=False))
    adopted = Replacements({}, {})
    index = 0
    for tensor, node, shards, missing, is_copy in work.requests:
        realized: list[UOp] = []
        for shard in shards:
            realized.append(
                _make_realized(shard, buffers[index], work.new_buffers)
                if shard in missing
                else shard
            )
            index += 1
        placement = node.placement
        new = (
            join_shards(realized, placement.arrangement)
            if isinstance(placement, Sharding)
            else realized[0]
        )
        if new is not node:
            new = mark_with_origin(new, node)
        # The node after replacements by other threads.
        now = work.computation.nodes[id(tensor)]
        if new is not node:
            tensor.adopt(now, new)
        if is_copy:
            adopted.copies.update(get_copies(node, new))
            continue
        replaced = {node: new, now: new}
        if shards[0] is not node:
            replaced.update(zip(shards, realized, strict=True))
        for old, memory in replaced.items():
            # A bare constant is cheaper to recompute than to read, so only the tensors above get
            # its buffer. A view of memory must stay a view: it may be the target of a write.
            if old is not memory and not _is_constant(old) and versions.find_version(old) is None:
                adopted.values.setdefault(old, memory)
    return adopted


def get_copies(old: UOp, new: UOp) -> dict[UOp, UOp]:
    """For the memory, or version of it, of each shard of `old`, the BUFFER of the same shard of
    `new`.
    """
    pairs = [
        (versions.find_version(a), memory_nodes.find_base(b))
        for a, b in zip(shards_of(old), shards_of(new), strict=True)
    ]
    return {a: b for a, b in pairs if a is not None and b is not None and a.shape == b.shape}


def _make_realized(node: UOp, buffer: Buffer, new_buffers: Mapping[UOp, UOp]) -> UOp:
    version = versions.find_whole_version(node)
    if version is not None:
        memory = versions.memory_of(version)
        return node.substitute({version: new_buffers.get(memory, memory)})
    memory = memory_nodes.make_memory(node.dtype.part, buffer.size, buffer.device, buffer)
    view = view_prefix(memory, node.shape, node.dtype)
    # A symbolic size is a second operand. Only then are there bindings to resolve.
    shaped = view.source if view.op is Op.AS_COMPLEX else view
    return view if len(shaped.src) <= 1 else resolve_bindings(view)


def _is_constant(node: UOp) -> bool:
    while node.op in MOVEMENT or node.op is Op.COPY:
        node = node.source
    return node.op is Op.CONST or (
        node.op is Op.COMPLEX and all(shard.op is Op.CONST for shard in node.src)
    )
