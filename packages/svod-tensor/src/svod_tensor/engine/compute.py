"""From the graph of some results to a plan on memory, by way of the caches: rangeify, kernelize, preschedule, instantiate, prepare.

The graph is normalised, which is the key of its schedule; what is prepared of a schedule is a template, which each
computation binds to its own buffers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from svod_device import get_device
from svod_ir.log import get_logger
from svod_ir.origins import record_labels
from svod_ir.rewrite import is_watched
from svod_ir.uop import UOp
from svod_tensor.engine import memory_nodes
from svod_tensor.engine.build import (
    CachedSchedule,
    NormalizedGraph,
    get_schedule,
    make_result,
    normalize_graph,
    normalize_results,
    restore_pre_schedule,
)
from svod_tensor.engine.files import copy_files
from svod_tensor.engine.instantiate import ScheduleResult, instantiate_schedule
from svod_tensor.engine.kernel_origins import find_kernel_origins, number_nodes
from svod_tensor.engine.preschedule import PreSchedule, create_pre_schedule
from svod_tensor.engine.separate_results import separate_results
from svod_tensor.errors import BufferNotFoundError
from svod_tensor.options import DEFAULT_DEVICE, PrepareConfig
from svod_tensor.storage import reads_files

if TYPE_CHECKING:
    from svod_device import Buffer
    from svod_runtime import ExecutionPlan, PlanTemplate
    from svod_schedule.pipeline import Context
    from svod_tensor.checks import Checks

__all__ = [
    "Inputs", "bind_plan", "find_inputs", "get_buffer", "is_there", "make_graph_context", "make_plan", "make_pre_schedule",
    "make_schedule", "normalize_computed",
]  # fmt: skip

_log = get_logger("tensor")


class Inputs(NamedTuple):
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


def is_there(node: UOp) -> bool:
    """Whether a node is memory already, or has no elements."""
    return memory_nodes.is_buffer_identity(node) or 0 in node.shape


def make_plan(results: Sequence[UOp], config: PrepareConfig, donated: Collection[UOp] = ()) -> ExecutionPlan:
    """The plan with an output for each of `results`, in order; it may overwrite the BUFFERs in `donated`.

    Each value that is computed has memory of its own; what is memory already is the output itself.

    Raises:
        VariableConflictError: if a variable is bound to two values.
        BoundsConflictError: if two variables have one name.
    """
    computed = [node for node in results if not is_there(node)]
    normalized, checks = normalize_computed(computed, config)
    inputs = find_inputs(normalized, results, computed, range(len(results)))
    return bind_plan(normalized, checks, config, inputs, donated)


def bind_plan(
    normalized: NormalizedGraph, checks: Checks | None, config: PrepareConfig, inputs: Inputs,
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


def find_inputs(
    normalized: NormalizedGraph, results: Sequence[UOp], computed: Sequence[UOp], order: Sequence[int]
) -> Inputs:
    """The inputs of the plan whose outputs are `results` in this order, of which those in `computed` are no memory yet."""
    params = normalized.params
    if len(computed) == len(results) and order == range(len(results)):
        return Inputs(params, tuple([get_buffer(node) for node in params]), None)
    missing = set(computed)
    slots = {memory: slot for slot, memory in enumerate(params)}
    places: list[int] = []
    n_computed = 0
    for node in results:
        if node in missing:
            places.append(n_computed)
            n_computed += 1
        else:
            places.append(~slots.setdefault(memory_nodes.find_base(node) or _make_nothing(node), len(slots)))
    outputs = tuple(places[position] for position in order)
    nodes = tuple(slots)
    return Inputs(nodes, tuple(map(get_buffer, nodes)), None if outputs == tuple(range(n_computed)) else outputs)


def _make_nothing(node: UOp) -> UOp:
    """Memory for a node without elements."""
    from svod_device import Buffer, get_allocator

    device = node.device if isinstance(node.device, str) else DEFAULT_DEVICE
    return memory_nodes.make_memory(node.dtype, 0, device, Buffer(get_allocator(device), node.dtype, 0))


def _make_checks(sink: UOp) -> Checks | None:
    from svod_tensor.checks import make_checks

    return make_checks(sink)


def make_schedule(sink: UOp, config: PrepareConfig) -> ScheduleResult:
    """What to run for the results of `sink`, in order, on which buffers."""
    normalized = _normalize(sink)
    inputs = tuple(map(get_buffer, normalized.params))
    return _instantiate(_get_schedule(normalized, config).pre, normalized, inputs, normalized.values)


def _get_template(
    schedule: CachedSchedule, normalized: NormalizedGraph, inputs: Inputs, config: PrepareConfig, donated: Collection[UOp],
    *, n_guarded: int,
) -> PlanTemplate:  # fmt: skip
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
        inputs.outputs and tuple([(b.nbytes, b.dtype, b.device) for b in inputs.buffers[len(normalized.params) :]]),
    )
    template = schedule.templates.get(key)
    if template is None:
        from svod_tensor.engine.prepare import prepare_template

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

    if config.disable_schedule_cache or is_watched():
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


def normalize_computed(nodes: Sequence[UOp], config: PrepareConfig) -> tuple[NormalizedGraph, Checks | None]:
    """`_normalize` of the SINK that holds the values of `nodes`, none of which is memory, and at last what is to be checked about them."""
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
    return create_pre_schedule(separate_results(run_pipeline("kernelize", ranged, context), sink))


def make_graph_context(devices: Sequence[str], config: PrepareConfig) -> Context:
    """What the passes over a graph on `devices` may look at; the first is for values that come from no memory."""
    from svod_ir.options import IROptions
    from svod_schedule.pipeline import PIPELINES, Context
    from svod_tensor.engine.prepare import find_device

    targets = {device: find_device(device, config).target for device in devices}
    return Context(
        target=targets[devices[0]], device=devices[0], targets=targets, options=IROptions.from_env(),
        passes=config.passes or PIPELINES,
    )  # fmt: skip


def _compiler_key(device: str, config: PrepareConfig) -> str:
    from svod_tensor.engine.prepare import find_device

    return find_device(device, config).compiler.cache_key


def get_buffer(node: UOp) -> Buffer:
    buffer = memory_nodes.find_buffer(node)
    if buffer is None:
        raise BufferNotFoundError(node=node)
    return buffer
