"""instantiate: `PreSchedule` + buffers and variables of one run → `ScheduleItem`s."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from svod_device import Buffer, get_allocator
from svod_ir import Op, ParamArg, RepeatArg, UOp
from svod_tensor.engine.donated_memory import reuse_donated_memory
from svod_tensor.engine.kernel_origins import get_kernel_origins
from svod_tensor.engine.preschedule import PreSchedule, PreScheduleItem
from svod_tensor.engine.schedule import Schedule, ScheduleItem, buffer_id, is_disk
from svod_tensor.errors import BufferNotFoundError, EmptyScheduleError, ScheduleError

if TYPE_CHECKING:
    from svod_ir.origins import Origin
    from svod_tensor.engine.build import TensorGraph
    from svod_tensor.engine.job import Job

__all__ = ["InputBuffers", "instantiate", "instantiate_schedule", "restore_pre_schedule"]

InputBuffers = Mapping[UOp, Buffer]
"""Buffer of each BUFFER or PARAM node that has elements before the run."""


def instantiate(pre: PreSchedule, job: Job, values: Mapping[str, int] | None = None) -> Schedule:
    """The items of a job on its memory, with donated memory reused."""
    graph = job.graph
    # Buffers beyond the parameters are outputs that no kernel accesses.
    buffers = dict(zip(graph.params, job.inputs.buffers, strict=False))
    origins = get_kernel_origins(pre, graph.sink, graph.lines)
    schedule = instantiate_schedule(
        restore_pre_schedule(pre, graph), buffers, values or {}, origins
    )
    return reuse_donated_memory(_add_outputs(schedule, job))


def instantiate_schedule(
    pre: PreSchedule,
    input_buffers: InputBuffers,
    var_vals: Mapping[str, int],
    origins: Mapping[int, tuple[Origin, ...]] | None = None,
) -> Schedule:
    """Bind buffers and variables. Intermediates get new buffers, whose memory is allocated on first
    use.

    Raises:
        EmptyScheduleError: if there are no kernels to run.
        BufferNotFoundError: if an input has no buffer.
        ScheduleError: if an argument is not memory.
    """
    allocated: dict[UOp, Buffer] = {}
    buffers = {item.id: _collect_buffers(item, input_buffers, allocated) for item in pre.items}
    items: list[ScheduleItem] = []
    latest: dict[int, int] = {}
    for position, run in enumerate(pre.invocations):
        item = _make_item(
            pre.items[run.kernel_id], buffers[run.kernel_id], run.fixedvars, var_vals, origins or {}
        )
        item.kernel_id = pre.first + run.kernel_id
        # A kernel in an unrolled loop: depend on its latest run.
        item.dependencies = tuple(
            latest[item_id] for item_id in pre.items[run.kernel_id].dependencies
        )
        item.origins = (origins or {}).get(item.kernel_id, ())
        latest[run.kernel_id] = position
        items.append(item)
    if not items:
        raise EmptyScheduleError(n_tensors=len(pre.outputs))
    return Schedule(items, tuple(buffer_id(o) for o in pre.outputs))


def _make_item(
    item: PreScheduleItem,
    buffers: tuple[Buffer, ...],
    loop_values: Mapping[str, int],
    var_vals: Mapping[str, int],
    origins: Mapping[int, tuple[Origin, ...]],
) -> ScheduleItem:
    caller_values = {name: value for name, value in var_vals.items() if name in item.variables}
    # A variable of the compiler may share its name with a caller's variable in another kernel.
    own = {
        **{name: value for name, value in item.constants.items() if var_vals.get(name) != value},
        **loop_values,
    }
    return ScheduleItem(
        item.id,
        item.kernel,
        item.ast,
        buffers,
        tuple(buffer_id(m) for m in item.memory),
        # The schedule's own values last: no caller may override them.
        {**caller_values, **own},
        frozenset(own),
        alias_ids=tuple(buffer_id(m) for m in item.aliases),
        body=_make_body(item, buffers, var_vals, origins),
        count=item.count,
    )


def _make_body(
    item: PreScheduleItem,
    buffers: Sequence[Buffer],
    var_vals: Mapping[str, int],
    origins: Mapping[int, tuple[Origin, ...]],
) -> Schedule | None:
    """Schedule of a loop body, on buffers without memory as parameters of each iteration."""
    if item.body is None:
        return None
    repeat: RepeatArg = item.kernel.arg
    first = repeat.n_carried + repeat.n_stacked + len(repeat.spares)
    params = dict.fromkeys(
        m for inner in item.body.items for m in (*inner.memory, *inner.aliases) if m.op is Op.PARAM
    )
    inputs: dict[UOp, Buffer] = {}
    for param in params:
        arg: ParamArg = param.arg
        inputs[param] = Buffer(buffers[first + arg.slot].allocator, param.dtype, arg.size)
    return instantiate_schedule(item.body, inputs, var_vals, origins)


def _collect_buffers(
    item: PreScheduleItem, inputs: InputBuffers, allocated: dict[UOp, Buffer]
) -> tuple[Buffer, ...]:
    """The buffers of one CALL: inputs first, then existing buffers, else new ones."""
    return tuple(
        inputs.get(node) or allocated.get(node) or _allocate(node, item.memory, inputs, allocated)
        for node in item.memory
    )


def _allocate(
    node: UOp, memory: Sequence[UOp], inputs: InputBuffers, allocated: dict[UOp, Buffer]
) -> Buffer:
    match node.op:
        case Op.BUFFER if node.arg.id < 0:
            device, size = node.arg.device, node.arg.size
        case Op.PARAM if node.arg.device is None:
            device, size = None, node.arg.size
        case Op.DEFINE_LOCAL:
            device, size = None, node.arg.size
        case Op.BUFFER | Op.PARAM:
            raise BufferNotFoundError(node=node)
        case _:
            raise ScheduleError(rule="an argument of a CALL is memory", found=node)
    # A DISK device holds files and allocates nothing: results go where the readers are.
    if device is None or is_disk(device):
        device = _first_device(memory, inputs, allocated)
    buffer = Buffer(get_allocator(device), node.dtype, size)
    allocated[node] = buffer
    return buffer


def _first_device(
    memory: Sequence[UOp], inputs: InputBuffers, allocated: Mapping[UOp, Buffer]
) -> str:
    """The device of the first argument with a buffer that is not on disk; CPU if there is none."""
    for node in memory:
        buffer = allocated.get(node) or inputs.get(node)
        if buffer is not None and not is_disk(buffer.device):
            return buffer.device
    return "CPU"


def restore_pre_schedule(pre: PreSchedule, graph: TensorGraph) -> PreSchedule:
    """`pre` on the BUFFERs that `graph` was made from.

    Bodies and order are shared with the cached one.
    """
    buffers: Mapping[UOp, UOp] = {
        UOp(Op.PARAM, b.dtype, (), ParamArg(slot, b.arg.size, b.arg.device)): b
        for slot, b in enumerate(graph.params)
    }

    def restore(nodes: tuple[UOp, ...]) -> tuple[UOp, ...]:
        return tuple([buffers.get(node, node) for node in nodes])

    # Only the lists of memory are replaced, so that a cached schedule costs little to use again.
    items = tuple(
        replace(i, memory=restore(i.memory), aliases=restore(i.aliases)) for i in pre.items
    )
    return replace(pre, items=items, outputs=tuple(buffers.get(o, o) for o in pre.outputs))


def _add_outputs(schedule: Schedule, job: Job) -> Schedule:
    """`schedule` with the outputs of a job: some are inputs, and results for the guard are not
    among them.
    """
    n_guarded = int(job.guard is not None)
    schedule.n_guarded = n_guarded
    schedule.donated_ids = tuple(job.graph.params[slot].arg.id for slot in job.donated_slots)
    outputs = job.inputs.outputs
    if outputs is not None:
        ids, computed = job.inputs.ids, schedule.output_ids
        schedule.kept = {ids[~index]: job.inputs.buffers[~index] for index in outputs if index < 0}
        guarded = computed[len(computed) - n_guarded :]
        schedule.output_ids = (
            *(computed[index] if index >= 0 else ids[~index] for index in outputs),
            *guarded,
        )
    return schedule
