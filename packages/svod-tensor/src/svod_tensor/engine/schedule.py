"""`Schedule`: what to run on which memory, in dependency order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from svod_device import Buffer
from svod_dtype import parse_device_name
from svod_ir import Op, UOp

if TYPE_CHECKING:
    from svod_ir.origins import Origin

__all__ = [
    "KernelTarget",
    "Schedule",
    "ScheduleItem",
    "buffer_id",
    "effect_of",
    "find_param_slot",
    "is_disk",
    "kernel_target_of",
]


# Far below the ids of intermediates, which count down from -1.
_FIRST_PARAM: Final = -(1 << 40)


# Not frozen: `instantiate_schedule` sets dependencies and origins once all items have positions.
@dataclass(slots=True)
class ScheduleItem:
    """One run of a kernel, a copy, a view or a custom function.

    Attributes:
        kernel_id: id of the PreSchedule's item; repeated if a loop was unrolled.
        kernel: the CALL.
        ast: its body.
        buffers: buffers of the CALL's memory arguments, in order; the first is written.
        buffer_ids: the id of each buffer's node: positive for buffers of tensors, negative for
            intermediates.
        fixedvars: values of the variables that the body reads.
        loop_var_names: variables whose values the schedule sets, which no caller may override.
        dependencies: positions in the schedule of the items that must run before.
        origins: the source lines that it computes, if they were recorded.
        alias_ids: ids of further memory that its arguments name, such as the other shards of a
            stack.
        body: for a loop, the schedule of an iteration, with buffer ids of its own; None for an item
            that runs once.
        count: maximum trip count of a loop.
    """

    kernel_id: int
    kernel: UOp
    ast: UOp
    buffers: tuple[Buffer, ...]
    buffer_ids: tuple[int, ...]
    fixedvars: dict[str, int] = field(default_factory=dict[str, int])
    loop_var_names: frozenset[str] = frozenset()
    dependencies: tuple[int, ...] = ()
    origins: tuple[Origin, ...] = ()
    alias_ids: tuple[int, ...] = ()
    body: Schedule | None = None
    count: UOp | None = None


@dataclass(slots=True)
class Schedule:
    """Items in dependency order.

    Attributes:
        items: the items.
        output_ids: the buffer id of each output, in order.
        donated_ids: ids of inputs that the schedule may overwrite.
        n_guarded: the number of last outputs that are for the plan's guard.
        kept: inputs that are themselves outputs, by id.
        owners: for each output in the memory of a donated input, the id of that input.
    """

    items: list[ScheduleItem]
    output_ids: tuple[int, ...]
    donated_ids: tuple[int, ...] = ()
    n_guarded: int = 0
    kept: Mapping[int, Buffer] = field(default_factory=dict[int, Buffer])
    owners: Mapping[int, int] = field(default_factory=dict[int, int])

    def iter_kernels(self) -> Iterator[ScheduleItem]:
        """The runs of compiled kernels, including kernels in loops."""
        for item in self.items:
            if item.body is not None:
                yield from item.body.iter_kernels()
            # These run without a compiled program.
            elif effect_of(item.ast).op not in (Op.COPY, Op.BUFFER_VIEW, Op.CUSTOM_FUNCTION):
                yield item


def is_disk(device: str) -> bool:
    """True if a device holds data but runs nothing."""
    return parse_device_name(device).kind == "DISK"


def buffer_id(node: UOp) -> int:
    """The id of a BUFFER; of a PARAM or DEFINE_LOCAL, an id that no BUFFER has."""
    return (
        node.arg.id
        if node.op is Op.BUFFER
        # PARAMs occur only in bodies of loops, whose buffers have ids of their own.
        else _FIRST_PARAM - (node.arg.slot if node.op is Op.PARAM else node.arg.id)
    )


def find_param_slot(id_: int) -> int | None:
    """The slot of the PARAM with this id; None for the id of a BUFFER."""
    return _FIRST_PARAM - id_ if id_ <= _FIRST_PARAM else None


def effect_of(ast: UOp) -> UOp:
    """The effect of a body, under an END that repeats it: its COPY, BUFFER_VIEW or CUSTOM_FUNCTION,
    or the body itself.
    """
    inner = ast.body if ast.op is Op.END and ast.src else ast
    return inner if inner.op in (Op.COPY, Op.BUFFER_VIEW, Op.CUSTOM_FUNCTION) else ast


class KernelTarget(NamedTuple):
    """A kernel and the device that runs it."""

    kernel: UOp
    device: str


def kernel_target_of(item: ScheduleItem) -> KernelTarget:
    """The kernel of an item, on the device of its first buffer that is not on disk."""
    return KernelTarget(
        # A kernel reads files in the memory of the device that runs it.
        item.ast,
        next((b.device for b in item.buffers if not is_disk(b.device)), "CPU"),
    )
