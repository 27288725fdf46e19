"""instantiate: `PreSchedule` + buffers and variables of one run → `ScheduleItem`s."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from svod_device import Buffer, get_allocator
from svod_dtype import parse_device_name
from svod_ir.ops import Op
from svod_ir.uop import UOp
from svod_tensor.engine.preschedule import PreSchedule, PreScheduleItem
from svod_tensor.errors import BufferNotFoundError, EmptyScheduleError, ScheduleError

if TYPE_CHECKING:
    from svod_ir.origins import Origin

__all__ = ["InputBuffers", "ScheduleItem", "ScheduleResult", "buffer_id", "instantiate_schedule", "is_disk"]

InputBuffers = Mapping[UOp, Buffer]
"""The buffer of each BUFFER or PARAM node that has its content before the run."""


@dataclass(slots=True)
class ScheduleItem:
    """One run of a kernel, a copy, a view or a custom function.

    Attributes:
        kernel_id: which item of the PreSchedule it is; repeated where a loop was unrolled.
        kernel: the CALL.
        ast: its body.
        buffers: of the CALL's arguments that are memory, in order; the first is written.
        buffer_ids: the number of each buffer's node: positive for buffers of tensors, negative for intermediates.
        fixedvars: values of the variables that the body reads.
        loop_var_names: those that the schedule gave, which no caller may override.
        dependencies: `kernel_id`s that must run before.
        instance_dependencies: positions in the schedule that must run before.
        origins: the lines that built what it computes, where they were tracked.
        alias_ids: the numbers of further memory that its arguments name, such as the other shards of a stack.
    """

    kernel_id: int
    kernel: UOp
    ast: UOp
    buffers: tuple[Buffer, ...]
    buffer_ids: tuple[int, ...]
    fixedvars: dict[str, int] = field(default_factory=dict[str, int])
    loop_var_names: frozenset[str] = frozenset()
    dependencies: tuple[int, ...] = ()
    instance_dependencies: tuple[int, ...] = ()
    origins: tuple[Origin, ...] = ()
    alias_ids: tuple[int, ...] = ()


@dataclass(slots=True)
class ScheduleResult:
    """Runs in dependency order.

    Attributes:
        items: the runs.
        output_ids: the buffer id of each output, in order.
        donated_ids: of inputs whose content nobody needs afterwards.
        n_guarded: how many of the last outputs are for the guard of the plan.
        kept: the inputs that are outputs as they are, by their id.
    """

    items: list[ScheduleItem]
    output_ids: tuple[int, ...]
    donated_ids: tuple[int, ...] = ()
    n_guarded: int = 0
    kept: Mapping[int, Buffer] = field(default_factory=dict[int, Buffer])


def instantiate_schedule(
    pre: PreSchedule,
    input_buffers: InputBuffers,
    var_vals: Mapping[str, int],
    origins: Mapping[int, tuple[Origin, ...]] | None = None,
) -> ScheduleResult:
    """Attach buffers and variables; intermediates get new ones, whose memory comes when they are used.

    Raises:
        EmptyScheduleError: if there is nothing to run.
        BufferNotFoundError: if an input has no buffer.
        ScheduleError: if an argument is no memory.
    """
    allocated: dict[UOp, Buffer] = {}
    buffers = {item.id: _collect_buffers(item, input_buffers, allocated) for item in pre.items}
    items = [_make_item(pre.items[i.kernel_id], buffers[i.kernel_id], i.fixedvars, var_vals) for i in pre.invocations]
    for item in items:
        item.origins = (origins or {}).get(item.kernel_id, ())
    if not items:
        raise EmptyScheduleError(n_tensors=len(pre.outputs))
    return ScheduleResult(items, tuple(buffer_id(o) for o in pre.outputs))


def _make_item(
    item: PreScheduleItem, buffers: tuple[Buffer, ...], loop_values: Mapping[str, int], var_vals: Mapping[str, int]
) -> ScheduleItem:
    given = {name: value for name, value in var_vals.items() if name in item.variables}
    # A variable of the compiler's may have the name of a caller's in another kernel.
    own = {**{name: value for name, value in item.constants.items() if var_vals.get(name) != value}, **loop_values}
    return ScheduleItem(
        item.id, item.kernel, item.ast, buffers, tuple(buffer_id(m) for m in item.memory), {**given, **own},
        frozenset(own), item.dependencies, alias_ids=tuple(buffer_id(m) for m in item.aliases),
    )  # fmt: skip


def _collect_buffers(item: PreScheduleItem, inputs: InputBuffers, allocated: dict[UOp, Buffer]) -> tuple[Buffer, ...]:
    """The buffers of one CALL: inputs first, then those that exist already, else new ones."""
    return tuple(
        inputs.get(node) or allocated.get(node) or _allocate(node, item.memory, inputs, allocated)
        for node in item.memory
    )


def _allocate(node: UOp, memory: Sequence[UOp], inputs: InputBuffers, allocated: dict[UOp, Buffer]) -> Buffer:
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
    if device is None or is_disk(device):
        device = _first_device(memory, inputs, allocated)
    buffer = Buffer(get_allocator(device), node.dtype, size)
    allocated[node] = buffer
    return buffer


def _first_device(memory: Sequence[UOp], inputs: InputBuffers, allocated: Mapping[UOp, Buffer]) -> str:
    """The device of the first argument that has a buffer and is on no disk; CPU if there is none."""
    for node in memory:
        buffer = allocated.get(node) or inputs.get(node)
        if buffer is not None and not is_disk(buffer.device):
            return buffer.device
    return "CPU"


def is_disk(device: str) -> bool:
    """Whether a device holds data but runs nothing."""
    return parse_device_name(device).kind == "DISK"


def buffer_id(node: UOp) -> int:
    """The number of a BUFFER; of a PARAM or DEFINE_LOCAL one that no BUFFER has."""
    return node.arg.id if node.op is Op.BUFFER else -(1 << 40) - (node.arg.slot if node.op is Op.PARAM else node.arg.id)
