"""realize: from tensors to filled buffers.

The first of the two spines: it calls rangeify, kernelize, preschedule, instantiate, prepare and execute.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from time import perf_counter
from typing import TYPE_CHECKING

from svod_ir.log import get_logger
from svod_ir.ops import MOVEMENT, Op
from svod_ir.origins import record_labels
from svod_ir.placement import Sharding
from svod_ir.uop import UOp
from svod_tensor import registry, states
from svod_tensor.capture import check_not_capturing
from svod_tensor.errors import BatchOutputError, BufferNotFoundError, EmptyScheduleError
from svod_tensor.files import copy_files
from svod_tensor.memory_views import view_prefix
from svod_tensor.ops.base import TensorBase
from svod_tensor.options import PrepareConfig
from svod_tensor.origins import find_kernel_origins, number_nodes
from svod_tensor.preschedule import PreSchedule, create_pre_schedule
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
from svod_tensor.shards import iter_parts, join_parts, parts_of
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


def realize_tensors(tensors: Sequence[TensorBase], config: PrepareConfig) -> None:
    """Compute all tensors in one go; what they share is computed once. Nothing is done for realized or empty ones.

    Raises:
        VariableConflictError: if a variable is bound to two values.
    """
    started = perf_counter()
    check_not_capturing("reads values")
    pending = _find_pending(tensors)
    if not pending:
        return
    normalized, checks = _normalize_results(pending, config)
    if normalized.written:
        tensors = (*tensors, *states.find_overtaken(pending))
        pending = _find_pending(tensors)
        normalized, checks = _normalize_results(pending, config)
    plan = _bind_plan(normalized, checks, config)
    prepared = perf_counter()
    plan.execute()
    _log.info(
        "realize.done", outputs=len(pending), kernels=plan.num_kernels, prepare_us=round((prepared - started) * 1e6),
        execute_us=round((perf_counter() - prepared) * 1e6),
    )  # fmt: skip
    adopted = _adopt_outputs(tensors, pending, plan)
    registry.replace_nodes({**normalized.written, **adopted} if normalized.written else adopted)


def prepare_tensors(
    tensors: Sequence[TensorBase], config: PrepareConfig, donated: Collection[UOp] = ()
) -> ExecutionPlan:
    """The plan that computes all tensors, which are wired to its outputs: they read what `plan.execute()` last wrote.

    It may overwrite the BUFFERs in `donated`.

    Assignments that the tensors depend on are part of the plan. What reads the old elements and is none
    of the tensors is computed now.

    Raises:
        EmptyScheduleError: if no tensor needs computing.
    """
    check_not_capturing("prepares a plan")
    pending = _find_pending(tensors)
    if not pending:
        raise EmptyScheduleError(n_tensors=len(tensors))
    for tensor in states.find_overtaken(pending):
        if states.find_written(tensor.uop):
            # What stands between two assignments can be computed by the plan alone.
            tensors = (*tensors, tensor)
        else:
            _compute_aside(tensor, config)
    pending = _find_pending(tensors)
    plan = make_plan(pending, config, donated)
    sized_by_plan = [t for t in tensors if not t.is_realized and not all(isinstance(s, int) for s in t.shape)]
    _adopt_outputs(tensors, pending, plan)
    for tensor in sized_by_plan:
        # From now on its size is that of the last execution.
        tensor.set_node(bind_to_plan(tensor.uop, plan.variables))
    registry.replace_nodes(states.find_written(*pending))
    registry.add_plan(plan)
    return plan


def _compute_aside(tensor: TensorBase, config: PrepareConfig) -> None:
    """Give `tensor` its value while graphs that contain it keep computing theirs, at each execution of a plan."""
    pending = _find_pending([tensor])
    plan = make_plan(pending, config)
    plan.execute()
    _adopt_outputs([tensor], pending, plan)


def _find_pending(tensors: Sequence[TensorBase]) -> list[UOp]:
    """The nodes to compute, each once and on one device, in the order of the tensors."""
    nodes = [t.uop for t in tensors if not t.is_realized]
    if len(nodes) == 1 and nodes[0].placement.__class__ is not Sharding:
        # One node on one device, as nearly always, is its only part.
        return [node for node in nodes if 0 not in node.shape]
    return [part for part in iter_parts(nodes) if not registry.is_buffer_identity(part)]


def make_plan(nodes: Sequence[UOp], config: PrepareConfig, donated: Collection[UOp] = ()) -> ExecutionPlan:
    """The plan whose outputs are the values of `nodes`; it may overwrite the BUFFERs in `donated`.

    Raises:
        VariableConflictError: if a variable is bound to two values.
    """
    return _bind_plan(*_normalize_results(nodes, config), config, donated)


def _bind_plan(
    normalized: NormalizedGraph, checks: Checks | None, config: PrepareConfig, donated: Collection[UOp] = ()
) -> ExecutionPlan:
    """The plan of a graph on the buffers that it was normalised from; `checks` are about the last result of its SINK."""
    inputs = tuple(map(_get_buffer, normalized.params))
    schedule = _get_schedule(normalized, config)
    template = _get_template(schedule, normalized, inputs, config, donated, n_guarded=int(checks is not None))
    origins = find_kernel_origins(schedule.pre, normalized.graph, normalized.lines)
    ids = [node.arg.id for node in normalized.params]
    guard = None if checks is None else checks.guard
    watched = None if config.check_floats == "off" else config.check_floats
    return template.bind(inputs, normalized.values, ids, origins, guard, watched)


def _make_checks(sink: UOp) -> Checks | None:
    from svod_tensor.checks import make_checks

    return make_checks(sink)


def make_schedule(sink: UOp, config: PrepareConfig) -> ScheduleResult:
    """What to run for the results of `sink`, in order, on which buffers."""
    normalized = _normalize(sink)
    inputs = tuple(map(_get_buffer, normalized.params))
    return _instantiate(_get_schedule(normalized, config).pre, normalized, inputs, normalized.values)


def _get_template(
    schedule: CachedSchedule, normalized: NormalizedGraph, inputs: Sequence[Buffer], config: PrepareConfig,
    donated: Collection[UOp], *, n_guarded: int,
) -> PlanTemplate:  # fmt: skip
    from svod_runtime.template import find_sharing

    # Kernels depend on the fingerprint, memory on the planner and what is donated, and the order of the kernels on
    # inputs that share memory.
    slots = tuple(slot for slot, node in enumerate(normalized.params) if node in donated) if donated else ()
    key = (config.fingerprint, config.memory_planner, find_sharing(inputs), slots, n_guarded)
    template = schedule.templates.get(key)
    if template is None:
        from svod_tensor.prepare import prepare_template

        items = _instantiate(schedule.pre, normalized, inputs, {})
        items.donated_ids = tuple(normalized.params[slot].arg.id for slot in slots)
        items.n_guarded = n_guarded
        template = prepare_template(items, inputs, config, [node.arg.id for node in normalized.params])
        schedule.add_template(key, template)
    return template


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
    """`_normalize` of the SINK that holds the values of `nodes`, and at last what is to be checked about them."""
    if not config.check_operands:
        normalized = normalize_results(nodes)
        if not _find_far(normalized):
            return normalized, None
    sink = UOp.sink(*map(make_result, nodes))
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
    return create_pre_schedule(run_pipeline("kernelize", ranged, context))


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


def _adopt_outputs(tensors: Sequence[TensorBase], pending: Sequence[UOp], plan: ExecutionPlan) -> dict[UOp, UOp]:
    """Wire each tensor to its output; return which node of other tensors' graphs stands for which buffer now."""
    if plan.num_outputs < len(pending):
        raise BatchOutputError(expected=len(pending), found=plan.num_outputs)
    realized = {node: _make_realized(node, buffer) for node, buffer in zip(pending, plan.output_buffers, strict=False)}
    for tensor in tensors:
        node = tensor.uop
        if node not in realized and tensor.sharding is not None and tensor.size != 0:
            realized[node] = _join_realized(node, realized)
        new = realized.get(node)
        if new is not None:
            tensor.set_node(new)
    # A bare constant is cheaper to write again than to read; only the tensors above become buffers.
    return {old: new for old, new in realized.items() if not _is_constant(old)}


def _join_realized(node: UOp, realized: Mapping[UOp, UOp]) -> UOp:
    placement = node.placement
    assert isinstance(placement, Sharding)
    return join_parts([realized.get(part, part) for part in parts_of(node)], placement.axis)


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
