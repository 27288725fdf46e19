"""`PreparedLoop`: ops of a plan that run again and again, and what they carry from one iteration to
the next.

    for t in range(count):                      # or range(count)[::-1] for the slices, if the body is reversed
        CarriedIn(k)   = initial[k] if t == 0 else what the last iteration wrote to CarriedOut(k)
        Slice(p)       = the t-th part of operand p along its first axis
        Whole(p)       = operand p, the same memory in each iteration
        the ops of the body
        if go_on is not None and not go_on: break
    result[k] = the last CarriedOut(k), or initial[k] if there was none

A carried value with a spare alternates between result and spare, so that what is carried in can be
read until the iteration ends. One without a spare is in its result all the time: the body changes
it in place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

__all__ = ["Binding", "Carried", "CarriedIn", "CarriedOut", "Slice", "Whole"]


@dataclass(frozen=True, slots=True)
class Whole:
    """All of an operand: `position` is that of a buffer within `PreparedLoop.buffer_indices`."""

    position: int


@dataclass(frozen=True, slots=True)
class Slice:
    """The part of an operand that belongs to an iteration: as many bytes as the local buffer has,
    one after the other.
    """

    position: int


@dataclass(frozen=True, slots=True)
class CarriedIn:
    """What carried value `number` is when the iteration begins."""

    number: int


@dataclass(frozen=True, slots=True)
class CarriedOut:
    """Where the iteration writes what carried value `number` is next; the same memory if it has no
    spare.
    """

    number: int


Binding: TypeAlias = Whole | Slice | CarriedIn | CarriedOut
"""What memory a local buffer of a body is."""


class Carried(NamedTuple):
    """A value that each iteration takes from the one before, by positions within
    `PreparedLoop.buffer_indices`.

    Attributes:
        initial: what it is before the first iteration.
        result: what it is after the last one.
        spare: as much memory again, or None for a value that the body changes in place.
    """

    initial: int
    result: int
    spare: int | None = None
