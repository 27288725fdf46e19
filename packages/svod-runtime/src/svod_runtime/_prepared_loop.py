"""`PreparedLoop`: ops of a plan that run again and again, and what they carry from one iteration to the next.

    for t in range(count):                      # or range(count)[::-1] for the slices, if the body is reversed
        CarriedIn(k)   = initial[k] if t == 0 else what the last iteration wrote to CarriedOut(k)
        Slice(p)       = the t-th part of operand p along its first axis
        Whole(p)       = operand p, the same memory in each iteration
        the ops of the body
        if go_on is not None and not go_on: break
    result[k] = the last CarriedOut(k), or initial[k] if there was none

A carried value with a spare lies in result and spare by turns, so that what is carried in can be read until the iteration
ends. One without a spare is in its result all the time: the body changes it in place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from svod_device import Buffer
from svod_ir import UOp

if TYPE_CHECKING:
    from svod_runtime._prepared import PreparedOp

__all__ = [
    "Binding", "Carried", "CarriedIn", "CarriedOut", "LoopBody", "Part", "PreparedLoop", "Slice", "Whole", "list_parts",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Whole:
    """All of an operand: `position` is that of a buffer within `PreparedLoop.buffer_indices`."""

    position: int


@dataclass(frozen=True, slots=True)
class Slice:
    """The part of an operand that belongs to an iteration: as many bytes as the local buffer has, one after the other."""

    position: int


@dataclass(frozen=True, slots=True)
class CarriedIn:
    """What carried value `number` is when the iteration begins."""

    number: int


@dataclass(frozen=True, slots=True)
class CarriedOut:
    """Where the iteration writes what carried value `number` is next; the same memory if it has no spare."""

    number: int


Binding: TypeAlias = Whole | Slice | CarriedIn | CarriedOut
"""What memory a local buffer of a body is."""


class Carried(NamedTuple):
    """A value that each iteration takes from the one before, by positions within `PreparedLoop.buffer_indices`.

    Attributes:
        initial: what it is before the first iteration.
        result: what it is after the last one.
        spare: as much memory again, or None for a value that the body changes in place.
    """

    initial: int
    result: int
    spare: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class LoopBody:
    """The ops of one iteration, on buffers of their own numbering.

    Attributes:
        buffers: local buffers. Of one that is bound, size, dtype and device count alone, and it is all of its storage;
            one that is not bound has no memory yet, or is a part of one that is bound.
        ops: on indices of `buffers`; `dependencies` name ops of this body.
        bindings: for each local buffer what memory it is; None for what lives within an iteration, and for parts.
        carried: the carried values.
        counter: the variable that is the number of the iteration, from 0 on in the order of execution.
        is_reversed: whether iteration t has slice count - 1 - t.
        go_on: the index of a local buffer, one bool: after an iteration that leaves it false the loop ends.
    """

    buffers: tuple[Buffer, ...]
    ops: tuple[PreparedOp, ...]
    bindings: tuple[Binding | None, ...]
    carried: tuple[Carried, ...] = ()
    counter: str | None = None
    is_reversed: bool = False
    go_on: int | None = None


@dataclass(frozen=True, slots=True)
class PreparedLoop:
    """Run a body `count` times, or until it says that it is done.

    Attributes:
        id: of the op in the schedule. Ops of the body with ids of their own may have origins of their own.
        buffer_indices: indices of the plan's buffers that it touches: operands, results, spares, and the computed count.
        output_indices: positions within `buffer_indices` that it writes, spares among them.
        body: what runs in each iteration.
        count: how many iterations there are at most, a number or an expression of variables; None if it is an int64 in memory.
        count_position: the position of the buffer which that number is read from when the loop begins; below 0 is none.
        branch: of several loops of which one runs, once: the number of this one. The count, clamped to those that there
            are, then says which one runs.
        n_branches: how many of them there are.
        fixedvars: values of variables that the schedule fixed; no caller overrides them.
        dependencies: ids of ops that must have run before.
        values: initial values of the variables of `count`, where they are not the smallest ones.
    """

    id: int
    buffer_indices: tuple[int, ...]
    output_indices: tuple[int, ...]
    body: LoopBody
    count: UOp | int | None
    count_position: int | None = None
    branch: int | None = None
    n_branches: int = 0
    fixedvars: Mapping[str, int] = field(default_factory=dict[str, int])
    dependencies: tuple[int, ...] = ()
    values: Mapping[str, int] = field(default_factory=dict[str, int])


class Part(NamedTuple):
    """A local buffer on the memory of another one, from a byte on."""

    local: int
    offset: int


def list_parts(body: LoopBody) -> dict[int, list[Part]]:
    """For each local buffer that is bound what lies on it: itself, and its parts."""
    owners = {buffer.storage_id: i for i, buffer in enumerate(body.buffers) if body.bindings[i] is not None}
    parts: dict[int, list[Part]] = {index: [] for index in owners.values()}
    for index, buffer in enumerate(body.buffers):
        if buffer.storage_id in owners:
            parts[owners[buffer.storage_id]].append(Part(index, buffer.offset))
    return parts
