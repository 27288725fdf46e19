"""realize: from tensors to filled buffers.

The first of the two spines: it calls rangeify, kernelize, preschedule, instantiate, prepare and execute.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import TYPE_CHECKING

from svod_ir.args import BufferArg
from svod_ir.log import get_logger
from svod_ir.ops import MOVEMENT, Op
from svod_ir.uop import UOp
from svod_tensor import registry, states
from svod_tensor.capture import check_not_capturing
from svod_tensor.errors import BatchOutputError, BufferNotFoundError, EmptyScheduleError
from svod_tensor.ops.base import TensorBase
from svod_tensor.ops.creation import view_prefix
from svod_tensor.options import PrepareConfig
from svod_tensor.preschedule import PreSchedule, create_pre_schedule
from svod_tensor.schedule import ScheduleResult, instantiate_schedule, is_disk
from svod_tensor.schedule_cache import get_pre_schedule, normalize_graph, restore_pre_schedule
from svod_tensor.variable import collect_bindings

if TYPE_CHECKING:
    from svod_device import Buffer
    from svod_runtime import ExecutionPlan

__all__ = ["main_device", "make_plan", "make_pre_schedule", "make_schedule", "prepare_tensors", "realize_tensors"]

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
    overtaken = states.find_overtaken(pending)
    if overtaken:
        tensors = (*tensors, *overtaken)
        pending = _find_pending(tensors)
    plan = make_plan(pending, config)
    prepared = perf_counter()
    plan.execute()
    _log.info(
        "realize.done", outputs=len(pending), kernels=plan.num_kernels, prepare_us=round((prepared - started) * 1e6),
        execute_us=round((perf_counter() - prepared) * 1e6),
    )  # fmt: skip
    adopted = _adopt_outputs(tensors, pending, plan)
    registry.replace_nodes({**states.find_written(UOp.sink(*pending)), **adopted})


def prepare_tensors(tensors: Sequence[TensorBase], config: PrepareConfig) -> ExecutionPlan:
    """The plan that computes all tensors, which are wired to its outputs: they read what `plan.execute()` last wrote.

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
    plan = make_plan(pending, config)
    _adopt_outputs(tensors, pending, plan)
    registry.replace_nodes(states.find_written(UOp.sink(*pending)))
    return plan


def _compute_aside(tensor: TensorBase, config: PrepareConfig) -> None:
    """Give `tensor` its value while graphs that contain it keep computing theirs, at each execution of a plan."""
    plan = make_plan([tensor.uop], config)
    plan.execute()
    _adopt_outputs([tensor], [tensor.uop], plan)


def _find_pending(tensors: Sequence[TensorBase]) -> list[UOp]:
    """The nodes to compute, each once, in the order of the tensors."""
    return list(dict.fromkeys(t.uop for t in tensors if not t.is_realized and t.size != 0))


def _make_result(node: UOp) -> UOp:
    """What the SINK holds for `node`: its value in new memory, or an assignment to memory that is there."""
    state = states.find_whole_state(node)
    return UOp(Op.CONTIGUOUS, node.dtype, (node,)) if state is None else states.effect_of_state(state)


def make_plan(nodes: Sequence[UOp], config: PrepareConfig) -> ExecutionPlan:
    """The plan whose outputs are the values of `nodes`."""
    from svod_tensor.prepare import prepare_plan

    return prepare_plan(make_schedule(UOp.sink(*map(_make_result, nodes)), config), config)


def make_schedule(sink: UOp, config: PrepareConfig) -> ScheduleResult:
    """What to run for the results of `sink`, in order, on which buffers."""
    values = collect_bindings(sink)
    device = main_device(sink)
    normalized = normalize_graph(_copy_files(sink, device))
    if config.disable_schedule_cache:
        pre = make_pre_schedule(normalized.graph, device)
    else:
        key = f"{device} {_compiler_key(device)}"
        pre, is_hit = get_pre_schedule(normalized.graph, key, lambda graph: make_pre_schedule(graph, device))
        _log.debug("schedule.looked_up", is_hit=is_hit)
    restored = restore_pre_schedule(pre, normalized)
    return instantiate_schedule(restored, {node: _get_buffer(node) for node in normalized.params}, values)


def make_pre_schedule(sink: UOp, device: str) -> PreSchedule:
    """The kernels for the results of `sink`; `device` is for values that come from no buffer."""
    from svod_device import get_device
    from svod_ir.options import IROptions
    from svod_schedule.pipeline import Context, run_pipeline

    context = Context(target=get_device(device).target, device=device, options=IROptions.from_env())
    ranged = run_pipeline("rangeify", sink, context)
    return create_pre_schedule(run_pipeline("kernelize", ranged, context))


def main_device(sink: UOp) -> str:
    """Where values that come from no buffer are computed: on the first device in the graph that is no disk."""
    found = (node.arg if node.op is Op.COPY else node.arg.device for node in sink.iter_ops(Op.BUFFER, Op.COPY))
    return next((device for device in found if not is_disk(device)), "CPU")


def _copy_files(sink: UOp, device: str) -> UOp:
    """`sink` with the files that it reads copied to `device`, unless kernels there can read them where they are."""
    from svod_device import get_allocator

    if get_allocator(device).is_host_addressable:
        return sink
    copied = {op.src[0] for op in sink.iter_ops(Op.COPY)}
    files = [n for n in sink.iter_ops(Op.BUFFER) if is_disk(n.arg.device) and n not in copied]
    return sink.substitute({node: UOp(Op.COPY, node.dtype, (node,), device) for node in files})


def _compiler_key(device: str) -> str:
    from svod_device import get_device

    return get_device(device).compiler.cache_key


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
        new = realized.get(tensor.uop)
        if new is not None:
            tensor.set_node(new)
    # A bare constant is cheaper to write again than to read; only the tensors above become buffers.
    return {old: new for old, new in realized.items() if not _is_constant(old)}


def _make_realized(node: UOp, buffer: Buffer) -> UOp:
    arg = BufferArg(registry.make_buffer_id(), buffer.size, buffer.device)
    state = states.find_whole_state(node)
    if state is not None:
        return node.substitute({state: states.memory_of(state)})
    memory = UOp(Op.BUFFER, node.dtype, (), arg)
    registry.add_buffer(memory, buffer)
    return view_prefix(memory, node.shape)


def _is_constant(node: UOp) -> bool:
    while node.op in MOVEMENT:
        node = node.src[0]
    return node.op is Op.CONST
