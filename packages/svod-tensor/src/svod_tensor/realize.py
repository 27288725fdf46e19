"""realize: from tensors to filled buffers.

The first of the two spines: it calls rangeify, kernelize, preschedule, instantiate, prepare and execute.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

from svod_ir.log import get_logger
from svod_ir.ops import MOVEMENT, Op
from svod_ir.origins import record_labels
from svod_ir.placement import Sharding
from svod_ir.uop import UOp
from svod_tensor import registry, states
from svod_tensor.capture import check_not_capturing
from svod_tensor.data import DEFAULT_DEVICE
from svod_tensor.errors import BatchOutputError, BufferNotFoundError, EmptyScheduleError
from svod_tensor.files import copy_files
from svod_tensor.memory_views import view_prefix
from svod_tensor.ops.base import TensorBase
from svod_tensor.options import PrepareConfig
from svod_tensor.origins import find_kernel_origins, number_nodes
from svod_tensor.preschedule import PreSchedule, create_pre_schedule
from svod_tensor.result_memory import separate_results
from svod_tensor.schedule import ScheduleResult, instantiate_schedule
from svod_tensor.schedule_cache import (
    CachedSchedule,
    NormalizedGraph,
    get_schedule,
    make_result,
    normalize_graph,
    normalize_results,
    restore_pre_schedule,
)
from svod_tensor.shards import join_parts, parts_of
from svod_tensor.storage import reads_files
from svod_tensor.variable import bind_to_plan, settle_bindings

if TYPE_CHECKING:
    from svod_device import Buffer
    from svod_runtime import ExecutionPlan, PlanTemplate
    from svod_schedule.pipeline import Context
    from svod_tensor.checks import Checks

__all__ = [
    "make_graph_context", "make_plan", "make_pre_schedule", "make_schedule", "prepare_tensors", "realize_tensors",
]  # fmt: skip

_log = get_logger("tensor")


class _Wanted(NamedTuple):
    """A tensor that needs computing.

    Attributes:
        tensor: the tensor.
        node: what it stood for when it was looked at.
        parts: of the node, one on each device.
    """

    tensor: TensorBase
    node: UOp
    parts: tuple[UOp, ...]


class _Inputs(NamedTuple):
    """What a plan is bound to.

    Attributes:
        nodes: the BUFFER of each input: those of the graph, and then those that are only outputs.
        buffers: theirs.
        outputs: the position of each output among the results that are computed, or ~slot of the input that it is; None
            if the outputs are what is computed, in order.
    """

    nodes: tuple[UOp, ...]
    buffers: tuple[Buffer, ...]
    outputs: tuple[int, ...] | None


class _Work(NamedTuple):
    """What a thread computes now.

    Attributes:
        wanted: the tensors to compute.
        results: their parts.
        normalized: the graph.
        checks: what is to be checked about its last result.
        inputs: what it is computed from.
        computation: the entry in the registry.
    """

    wanted: list[_Wanted]
    results: list[UOp]
    normalized: NormalizedGraph
    checks: Checks | None
    inputs: _Inputs
    computation: registry.Computation


def realize_tensors(tensors: Sequence[TensorBase], config: PrepareConfig) -> None:
    """Compute all tensors in one go; what they share is computed once. Nothing is done for realized or empty ones.

    Raises:
        VariableConflictError: if a variable is bound to two values.
        BoundsConflictError: if two variables have one name.
    """
    check_not_capturing("reads values")
    while tensors:
        started = perf_counter()
        work = _start_work(tensors, config)
        if work is None:
            return
        try:
            plan = _make_bound_plan(work, config)
            prepared = perf_counter()
            plan.execute()
            _log.info(
                "realize.done", outputs=len(work.results), kernels=plan.num_kernels,
                prepare_us=round((prepared - started) * 1e6), execute_us=round((perf_counter() - prepared) * 1e6),
            )  # fmt: skip
            with registry.lock:
                # What another thread gave another value meanwhile is computed again.
                nodes = work.computation.nodes
                tensors = [t for t, *_ in work.wanted if t.uop is not nodes[id(t)] and not _is_there(t.uop)]
                adopted = _adopt_outputs(work, plan, range(len(work.results)))
                states.settle(work.normalized.written, adopted)
        finally:
            registry.end_computation(work.computation)


def prepare_tensors(
    tensors: Sequence[TensorBase], config: PrepareConfig, donated: Collection[UOp] = ()
) -> ExecutionPlan:
    """The plan that computes all tensors, which are wired to its outputs: they read what `plan.execute()` last wrote.

    It may overwrite the BUFFERs in `donated`. The outputs are the parts of each tensor in order: one, or one for each shard.
    Of a tensor that is realized already it is its memory, of one without elements an empty buffer.

    Assignments that the tensors depend on are part of the plan. What reads the old elements and is none
    of the tensors is computed now.

    Raises:
        EmptyScheduleError: if no tensor needs computing.
    """
    check_not_capturing("prepares a plan")
    with registry.lock:
        overtaken = states.find_overtaken(_results_of(_find_wanted(tensors)))
    for tensor in overtaken:
        if states.find_written(tensor.uop):
            # What stands between two assignments can be computed by the plan alone.
            tensors = (*tensors, tensor)
        else:
            _compute_aside(tensor, config)
    work, order = _start_plan(tensors, config)
    try:
        plan = _make_bound_plan(work, config, donated)
        with registry.lock:
            _adopt_outputs(work, plan, order)
            for tensor, node, _ in work.wanted:
                if not _is_there(node) and not all(isinstance(s, int) for s in node.shape):
                    # From now on its size is that of the last execution.
                    tensor.set_node(bind_to_plan(tensor.uop, plan.variables))
            states.settle(states.find_written(*work.results))
        registry.add_plan(plan)
    finally:
        registry.end_computation(work.computation)
    return plan


def _start_plan(tensors: Sequence[TensorBase], config: PrepareConfig) -> tuple[_Work, list[int]]:
    """Decide what a plan for `tensors` computes; also which result each of its outputs is."""
    while True:
        with registry.lock:
            wanted = [_look_at(t) for t in {id(t): t for t in tensors}.values()]
            if all(_is_there(one.node) for one in wanted):
                raise EmptyScheduleError(n_tensors=len(tensors))
            order = _order_outputs(tensors, wanted)
            work = _enter(wanted, config, order)
            if work is not None:
                return work, order


def _compute_aside(tensor: TensorBase, config: PrepareConfig) -> None:
    """Give `tensor` its value while graphs that contain it keep computing theirs, at each execution of a plan."""
    work = _start_work([tensor], config)
    if work is None:
        return
    try:
        plan = _make_bound_plan(work, config)
        plan.execute()
        with registry.lock:
            _adopt_outputs(work, plan, range(len(work.results)))
    finally:
        registry.end_computation(work.computation)


def _start_work(tensors: Sequence[TensorBase], config: PrepareConfig) -> _Work | None:
    """Decide what to compute for `tensors` as soon as nobody is in the way; None if there is nothing."""
    while True:
        with registry.lock:
            wanted = _find_wanted(tensors)
            if not wanted:
                return None
            work = _enter(wanted, config)
            if work is not None:
                return work


def _enter(wanted: list[_Wanted], config: PrepareConfig, order: Sequence[int] | None = None) -> _Work | None:
    """Start to compute tensors, or wait for somebody who is in the way; None if the caller must look at the tensors again.

    The outputs are the results, with those that are overtaken, unless `order` says which. The caller holds `registry.lock`.
    """
    results = _results_of(wanted)
    normalized, checks = _normalize_results(results, config)
    if normalized.written and order is None:
        known = {one.node for one in wanted}
        for overtaken in _find_wanted(states.find_overtaken(results)):
            # Of those with one node, one is enough: the others are given its memory.
            if overtaken.node not in known:
                known.add(overtaken.node)
                wanted.append(overtaken)
        results = _results_of(wanted)
        normalized, checks = _normalize_results(results, config)
    done = states.find_done(normalized.written)
    if done:
        for tensor, node, _ in wanted:
            tensor.set_node(node.substitute(done))
        return None
    inputs = _find_inputs(normalized, results, range(len(results)) if order is None else order)
    computation = registry.start_computation(
        [buffer.storage_id for buffer in inputs.buffers],
        [_get_buffer(memory).storage_id for memory in normalized.written.values()],
        {id(one.tensor): one.node for one in wanted},
    )
    return None if computation is None else _Work(wanted, results, normalized, checks, inputs, computation)


def _find_wanted(tensors: Iterable[TensorBase]) -> list[_Wanted]:
    """Those of the tensors that need computing, each once."""
    return [_look_at(t) for t in {id(t): t for t in tensors}.values() if not _is_there(t.uop)]


def _look_at(tensor: TensorBase) -> _Wanted:
    node = tensor.uop
    # On one device, as nearly always, a node is its only part.
    return _Wanted(tensor, node, parts_of(node) if node.placement.__class__ is Sharding else (node,))


def _order_outputs(tensors: Iterable[TensorBase], wanted: Iterable[_Wanted]) -> list[int]:
    """For each part of each tensor, which of the results it is."""
    places: dict[int, range] = {}
    n_results = 0
    for one in wanted:
        places[id(one.tensor)] = range(n_results, n_results + len(one.parts))
        n_results += len(one.parts)
    return [position for t in tensors for position in places[id(t)]]


def _results_of(wanted: Iterable[_Wanted]) -> list[UOp]:
    return [part for one in wanted for part in one.parts]


def _is_there(node: UOp) -> bool:
    """Whether a node is memory already, or has no elements."""
    return registry.is_buffer_identity(node) or 0 in node.shape


def make_plan(results: Sequence[UOp], config: PrepareConfig, donated: Collection[UOp] = ()) -> ExecutionPlan:
    """The plan with an output for each of `results`, in order; it may overwrite the BUFFERs in `donated`.

    Each value that is computed has memory of its own; what is memory already is the output itself.

    Raises:
        VariableConflictError: if a variable is bound to two values.
        BoundsConflictError: if two variables have one name.
    """
    normalized, checks = _normalize_results(results, config)
    return _bind_plan(normalized, checks, config, _find_inputs(normalized, results, range(len(results))), donated)


def _make_bound_plan(work: _Work, config: PrepareConfig, donated: Collection[UOp] = ()) -> ExecutionPlan:
    return _bind_plan(work.normalized, work.checks, config, work.inputs, donated)


def _bind_plan(
    normalized: NormalizedGraph, checks: Checks | None, config: PrepareConfig, inputs: _Inputs,
    donated: Collection[UOp] = (),
) -> ExecutionPlan:  # fmt: skip
    """The plan of a graph on the buffers that it was normalised from; `checks` are about the last result of its SINK."""
    schedule = _get_schedule(normalized, config)
    template = _get_template(schedule, normalized, inputs, config, donated, n_guarded=int(checks is not None))
    origins = find_kernel_origins(schedule.pre, normalized.graph, normalized.lines)
    ids = [node.arg.id for node in inputs.nodes]
    guard = None if checks is None else checks.guard
    watched = None if config.check_floats == "off" else config.check_floats
    return template.bind(inputs.buffers, normalized.values, ids, origins, guard, watched)


def _find_inputs(normalized: NormalizedGraph, results: Sequence[UOp], order: Sequence[int]) -> _Inputs:
    """The inputs of the plan whose outputs are `results` in this order."""
    params = normalized.params
    slots = {memory: slot for slot, memory in enumerate(params)}
    places: list[int] = []
    n_computed = 0
    for node in results:
        if _is_there(node):
            places.append(~slots.setdefault(registry.find_base(node) or _make_nothing(node), len(slots)))
        else:
            places.append(n_computed)
            n_computed += 1
    outputs = tuple(places[position] for position in order)
    nodes = tuple(slots)
    return _Inputs(nodes, tuple(map(_get_buffer, nodes)), None if outputs == tuple(range(n_computed)) else outputs)


def _make_nothing(node: UOp) -> UOp:
    """Memory for a node without elements."""
    from svod_device import Buffer, get_allocator

    device = node.device if isinstance(node.device, str) else DEFAULT_DEVICE
    return registry.make_memory(node.dtype, 0, device, Buffer(get_allocator(device), node.dtype, 0))


def _make_checks(sink: UOp) -> Checks | None:
    from svod_tensor.checks import make_checks

    return make_checks(sink)


def make_schedule(sink: UOp, config: PrepareConfig) -> ScheduleResult:
    """What to run for the results of `sink`, in order, on which buffers."""
    normalized = _normalize(sink)
    inputs = tuple(map(_get_buffer, normalized.params))
    return _instantiate(_get_schedule(normalized, config).pre, normalized, inputs, normalized.values)


def _get_template(
    schedule: CachedSchedule, normalized: NormalizedGraph, inputs: _Inputs, config: PrepareConfig, donated: Collection[UOp],
    *, n_guarded: int,
) -> PlanTemplate:  # fmt: skip
    from svod_device import get_device
    from svod_runtime.template import find_sharing

    # Kernels depend on the fingerprint, memory on the planner, on what is donated and what is an output, and the order of
    # the kernels on inputs that share memory. Kernels are loaded, and memory is allocated, on one opening of a device.
    slots = tuple(slot for slot, node in enumerate(normalized.params) if node in donated) if donated else ()
    openings = tuple([get_device(device).opening for device in normalized.devices])
    key = (
        config.fingerprint,
        config.memory_planner,
        find_sharing(inputs.buffers),
        slots,
        inputs.outputs,
        n_guarded,
        openings,
        # What is only an output may have any form.
        tuple([(b.nbytes, b.dtype, b.device) for b in inputs.buffers[len(normalized.params) :]]),
    )
    template = schedule.templates.get(key)
    if template is None:
        from svod_tensor.prepare import prepare_template

        items = _instantiate(schedule.pre, normalized, inputs.buffers[: len(normalized.params)], {})
        items.donated_ids = tuple(normalized.params[slot].arg.id for slot in slots)
        items.n_guarded = n_guarded
        ids = [node.arg.id for node in inputs.nodes]
        if inputs.outputs is not None:
            _add_outputs(items, inputs.outputs, inputs.buffers, ids)
        template = prepare_template(items, inputs.buffers, config, ids)
        schedule.add_template(key, template)
    return template


def _add_outputs(items: ScheduleResult, outputs: Sequence[int], inputs: Sequence[Buffer], ids: Sequence[int]) -> None:
    """Let some inputs, which have these ids, be outputs too."""
    computed = items.output_ids
    items.kept = {ids[~place]: inputs[~place] for place in outputs if place < 0}
    guarded = computed[len(computed) - items.n_guarded :]
    items.output_ids = (*(computed[place] if place >= 0 else ids[~place] for place in outputs), *guarded)


def _get_schedule(normalized: NormalizedGraph, config: PrepareConfig) -> CachedSchedule:
    devices = normalized.devices

    def make(graph: UOp) -> PreSchedule:
        if not normalized.lines:
            return make_pre_schedule(graph, devices, config)
        with record_labels(number_nodes(graph)):
            return make_pre_schedule(graph, devices, config)

    if config.disable_schedule_cache:
        return CachedSchedule(make(normalized.graph))
    compiler_keys = [_compiler_key(device, config) for device in devices]
    passes = None if config.passes is None else config.passes.serial
    # What its kernels compute is recorded only where somebody asks for lines.
    key = (normalized.graph, devices, *compiler_keys, passes, bool(normalized.lines))
    schedule, is_hit = get_schedule(key, make)
    _log.debug("schedule.looked_up", is_hit=is_hit)
    return schedule


def _instantiate(
    pre: PreSchedule, normalized: NormalizedGraph, inputs: Sequence[Buffer], values: Mapping[str, int]
) -> ScheduleResult:
    buffers = dict(zip(normalized.params, inputs, strict=True))
    origins = find_kernel_origins(pre, normalized.graph, normalized.lines)
    return instantiate_schedule(restore_pre_schedule(pre, normalized), buffers, values, origins)


def _normalize(sink: UOp) -> NormalizedGraph:
    """`sink` normalised, with files copied to the devices that read them, unless kernels there can read them where they are."""
    normalized = normalize_graph(sink)
    far = _find_far(normalized)
    return normalize_graph(copy_files(sink, far, normalized.devices[0])) if far else normalized


def _normalize_results(nodes: Sequence[UOp], config: PrepareConfig) -> tuple[NormalizedGraph, Checks | None]:
    """`_normalize` of the SINK that holds the values of `nodes` that are computed, and at last what is to be checked about them."""
    computed = [node for node in nodes if not _is_there(node)]
    if not config.check_operands:
        normalized = normalize_results(computed)
        if not _find_far(normalized):
            return normalized, None
    sink = UOp.sink(*map(make_result, computed))
    checks = _make_checks(sink) if config.check_operands else None
    return _normalize(sink if checks is None else sink.with_src((*sink.src, checks.findings))), checks


def _find_far(normalized: NormalizedGraph) -> set[str]:
    """The devices that must be sent what they read of files."""
    return {device for device in normalized.devices if not reads_files(device)} if normalized.has_files else set()


def make_pre_schedule(sink: UOp, devices: Sequence[str], config: PrepareConfig) -> PreSchedule:
    """The kernels for the results of `sink`, on `devices`, the first of which is for values that come from no memory."""
    from svod_schedule.pipeline import run_pipeline

    context = make_graph_context(devices, config)
    ranged = run_pipeline("rangeify", sink, context)
    return create_pre_schedule(separate_results(run_pipeline("kernelize", ranged, context), sink))


def make_graph_context(devices: Sequence[str], config: PrepareConfig) -> Context:
    """What the passes over a graph on `devices` may look at; the first is for values that come from no memory."""
    from svod_ir.options import IROptions
    from svod_schedule.pipeline import PIPELINES, Context
    from svod_tensor.prepare import find_device

    targets = {device: find_device(device, config).target for device in devices}
    return Context(
        target=targets[devices[0]], device=devices[0], targets=targets, options=IROptions.from_env(),
        passes=config.passes or PIPELINES,
    )  # fmt: skip


def _compiler_key(device: str, config: PrepareConfig) -> str:
    from svod_tensor.prepare import find_device

    return find_device(device, config).compiler.cache_key


def _get_buffer(node: UOp) -> Buffer:
    buffer = registry.find_buffer(node)
    if buffer is None:
        raise BufferNotFoundError(node=node)
    return buffer


def _adopt_outputs(work: _Work, plan: ExecutionPlan, order: Sequence[int]) -> dict[UOp, UOp]:
    """Wire each tensor to its output; return which node of other tensors' graphs stands for which buffer now.

    A tensor that stands for another value by now keeps that. The caller holds `registry.lock`.
    """
    if plan.num_outputs < len(order):
        raise BatchOutputError(expected=len(order), found=plan.num_outputs)
    buffers = dict(zip(order, plan.output_buffers, strict=False))
    adopted: dict[UOp, UOp] = {}
    position = 0
    for tensor, node, parts in work.wanted:
        made: list[UOp] = []
        for part in parts:
            made.append(part if _is_there(part) else _make_realized(part, buffers[position]))
            position += 1
        placement = node.placement
        new = join_parts(made, placement.axis) if isinstance(placement, Sharding) else made[0]
        if new is not node and tensor.uop is work.computation.nodes[id(tensor)]:
            tensor.set_node(new)
        for old, memory in ((node, new), *zip(parts, made, strict=True)):
            # A bare constant is cheaper to write again than to read; only the tensors above become buffers.
            if old is not memory and not _is_constant(old):
                adopted.setdefault(old, memory)
    return adopted


def _make_realized(node: UOp, buffer: Buffer) -> UOp:
    state = states.find_whole_state(node)
    if state is not None:
        return node.substitute({state: states.memory_of(state)})
    memory = registry.make_memory(node.dtype, buffer.size, buffer.device, buffer)
    view = view_prefix(memory, node.shape)
    # Memory under another shape has one operand; a size that depends on variables is one more.
    return view if len(view.src) <= 1 else settle_bindings(view)


def _is_constant(node: UOp) -> bool:
    while node.op in MOVEMENT or node.op is Op.COPY:
        node = node.src[0]
    return node.op is Op.CONST
