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
    "Place",
    "Schedule",
    "ScheduleItem",
    "buffer_id",
    "effect_of",
    "find_slot",
    "is_disk",
    "place_of",
]


_FIRST_PARAM: Final = -(1 << 40)


@dataclass(slots=True)
class ScheduleItem:
    """One run of a kernel, a copy, a view or a custom function.

    Attributes:
        kernel_id: which item of the PreSchedule it is; repeated where a loop was unrolled.
        kernel: the CALL.
        ast: its body.
        buffers: of the CALL's arguments that are memory, in order; the first is written.
        buffer_ids: the number of each buffer's node: positive for buffers of tensors, negative for
            intermediates.
        fixedvars: values of the variables that the body reads.
        loop_var_names: those that the schedule gave, which no caller may override.
        dependencies: positions in the schedule of what must run before.
        origins: the lines that built what it computes, where they were tracked.
        alias_ids: the numbers of further memory that its arguments name, such as the other shards
            of a stack.
        body: of a loop, what is run in each iteration, on memory of its own numbering; None for
            what runs once.
        count: how many times a loop runs, at most.
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
    """Runs in dependency order.

    Attributes:
        items: the runs.
        output_ids: the buffer id of each output, in order.
        donated_ids: of inputs whose content nobody needs afterwards.
        n_guarded: how many of the last outputs are for the guard of the plan.
        kept: the inputs that are outputs as they are, by their id.
        owners: the donated input that each output is in the memory of, by their ids.
    """

    items: list[ScheduleItem]
    output_ids: tuple[int, ...]
    donated_ids: tuple[int, ...] = ()
    n_guarded: int = 0
    kept: Mapping[int, Buffer] = field(default_factory=dict[int, Buffer])
    owners: Mapping[int, int] = field(default_factory=dict[int, int])

    def iter_kernels(self) -> Iterator[ScheduleItem]:
        """The runs of compiled kernels, those in loops among them."""
        for item in self.items:
            if item.body is not None:
                yield from item.body.iter_kernels()
            elif effect_of(item.ast).op not in (Op.COPY, Op.BUFFER_VIEW, Op.CUSTOM_FUNCTION):
                yield item


def is_disk(device: str) -> bool:
    """Whether a device holds data but runs nothing."""
    return parse_device_name(device).kind == "DISK"


def buffer_id(node: UOp) -> int:
    """The number of a BUFFER; of a PARAM or DEFINE_LOCAL one that no BUFFER has."""
    return (
        node.arg.id
        if node.op is Op.BUFFER
        else _FIRST_PARAM - (node.arg.slot if node.op is Op.PARAM else node.arg.id)
    )


def find_slot(number: int) -> int | None:
    """The slot of the PARAM with this number; None for that of a BUFFER."""
    return _FIRST_PARAM - number if number <= _FIRST_PARAM else None


def effect_of(ast: UOp) -> UOp:
    """What a body does, under an END that repeats it: its COPY, BUFFER_VIEW or CUSTOM_FUNCTION, or
    the body itself.
    """
    inner = ast.body if ast.op is Op.END and ast.src else ast
    return inner if inner.op in (Op.COPY, Op.BUFFER_VIEW, Op.CUSTOM_FUNCTION) else ast


class Place(NamedTuple):
    """A kernel on a device."""

    kernel: UOp
    device: str


def place_of(item: ScheduleItem) -> Place:
    """What an item runs where: on the device of its first buffer that is on no disk."""
    return Place(item.ast, next((b.device for b in item.buffers if not is_disk(b.device)), "CPU"))
