"""Bindings of a `PreparedLoop`: memory of the local buffers, and carries between iterations.

    for t in range(count):                      # range(count)[::-1] for the slices of a reversed body
        CarriedIn(k)   = initial[k] if t == 0 else CarriedOut(k) of the previous iteration
        Slice(p)       = slice t of operand p along its first axis
        Whole(p)       = operand p, the same memory in each iteration
        the ops of the body
        if go_on is not None and not go_on: break
    result[k] = the last CarriedOut(k), or initial[k] without any iteration

A carry with a spare alternates between result and spare, so its input can be read until the
iteration ends. A carry without a spare stays in its result: the body updates it in place.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

__all__ = ["Binding", "Carried", "CarriedIn", "CarriedOut", "Slice", "Whole"]


@dataclass(frozen=True, slots=True)
class Whole:
    """Whole operand: `position` is an index into `PreparedLoop.buffer_indices`."""

    position: int


@dataclass(frozen=True, slots=True)
class Slice:
    """Slice of an operand that belongs to one iteration; slices have the size of the local buffer
    and are contiguous.
    """

    position: int


@dataclass(frozen=True, slots=True)
class CarriedIn:
    """Value of carry `index` at the start of an iteration."""

    index: int


@dataclass(frozen=True, slots=True)
class CarriedOut:
    """Memory that receives the next value of carry `index`; the input's memory if the carry has no
    spare.
    """

    index: int


Binding: TypeAlias = Whole | Slice | CarriedIn | CarriedOut
"""Memory that a local buffer of a body is bound to."""


class Carried(NamedTuple):
    """Carry of a loop, as positions in `PreparedLoop.buffer_indices`.

    Attributes:
        initial: value before the first iteration.
        result: value after the last iteration.
        spare: second buffer of equal size, or None for a carry that the body updates in place.
    """

    initial: int
    result: int
    spare: int | None = None
