"""Meaning of the collectives of a mesh: from the calls of all ranks of a group, the result of each.

The names and numbers are those of `svod_schedule.rangeify.mesh.collectives`.
"""

# Arrays of any dtype come and go.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["COLLECTIVES", "Array", "Call", "Results", "list_partners"]

Array = NDArray[Any]
Results = Sequence[Array | None]
"""The result of each rank of a group; None for a rank that receives nothing."""


class Call(NamedTuple):
    """A collective as one rank calls it.

    Attributes:
        name: the collective.
        number: the number of the call in its plan.
        mask: the axes of the mesh along which it communicates.
        numbers: those that the collective takes.
        arrays: the inputs; the last ones may only order the calls.
        shape: the shape of the output.
    """

    name: str
    number: int
    mask: int
    numbers: tuple[int, ...]
    arrays: tuple[Array, ...]
    shape: tuple[int, ...]

    def __str__(self) -> str:
        dtype = self.arrays[0].dtype
        return f"{self.name} of {dtype} as number {self.number}, result {self.shape}"

    def agrees_with(self, other: Call) -> bool:
        """True if both are calls of one collective. Parts differ in shape, sums do not."""
        return (
            self[:4] == other[:4]
            and self.arrays[0].dtype == other.arrays[0].dtype
            and (self.shape == other.shape or not self.name.startswith("reduce."))
        )


def list_partners(call: Call, position: int, size: int) -> set[int]:
    """The positions in the group, this one among them, that a call waits for.

    A halo is called only by ranks that send or receive elements, and waits for these. Ranks that
    its partners wait for are partners too.
    """
    if call.name != "halo":
        return set(range(size))
    pieces = _list_pieces(call.numbers, size)
    partners = {position}
    for _ in range(size):
        for a, b in pieces:
            if a in partners or b in partners:
                partners |= {a, b}
    return partners


def _make_reduce(function: np.ufunc) -> Callable[[Sequence[Call]], Results]:
    def reduce(calls: Sequence[Call]) -> Results:
        return [_add_up(function, calls)] * len(calls)

    return reduce


def _make_scatter(function: np.ufunc) -> Callable[[Sequence[Call]], Results]:
    def scatter(calls: Sequence[Call]) -> Results:
        total = _add_up(function, calls)
        return [_slice(total, 0, begin, end) for begin, end in _bounds(calls[0].numbers)]

    return scatter


def _add_up(function: np.ufunc, calls: Sequence[Call]) -> Array:
    total = calls[0].arrays[0].copy()
    for call in calls[1:]:
        function(total, call.arrays[0], out=total)
    return total


def _gather(calls: Sequence[Call]) -> Results:
    # A rank without elements has another array in its stead.
    sizes = calls[0].numbers
    parts = [call.arrays[0].ravel() for call, size in zip(calls, sizes, strict=True) if size]
    return [np.concatenate(parts).reshape(calls[0].shape)] * len(calls)


def _exchange(calls: Sequence[Call]) -> Results:
    sizes = calls[0].numbers[len(calls) :]
    return [
        np.concatenate([_cut(call.arrays[0], begin, end, sum(sizes)) for call in calls])
        for begin, end in _bounds(sizes)
    ]


def _cut(x: Array, begin: int, end: int, whole: int) -> Array:
    """The elements of rows from `begin` to before `end`, of `whole` rows that lie in a flat array."""
    return x[begin * x.size // whole : end * x.size // whole]


def _halo(calls: Sequence[Call]) -> Results:
    axis = calls[0].numbers[0]
    received: list[list[Array]] = [[] for _ in calls]
    pieces = _list_pieces(calls[0].numbers, len(calls))
    for sender, call in enumerate(calls):
        # The first input holds what lower ranks want, the next what higher ones do.
        sources = iter(call.arrays)
        for others in (range(sender), range(sender + 1, len(calls))):
            sent = {to: pieces[sender, to] for to in others if (sender, to) in pieces}
            if sent:
                source, first = next(sources), min(begin for begin, _ in sent.values())
                for to, (begin, end) in sent.items():
                    received[to].append(_slice(source, axis, begin - first, end - first))
    return [np.concatenate(parts, axis) if parts else None for parts in received]


def _mirror(calls: Sequence[Call]) -> Results:
    return [call.arrays[0] for call in reversed(calls)]


def _list_pieces(numbers: Sequence[int], size: int) -> dict[tuple[int, int], tuple[int, int]]:
    """The bounds of what each rank sends to each other one in a halo, by sender and receiver."""
    old, new = _bounds(numbers[1 : 1 + size]), _bounds(numbers[1 + size :])
    pieces = {
        (of, to): (max(old[of][0], new[to][0]), min(old[of][1], new[to][1]))
        for of in range(size)
        for to in range(size)
        if of != to
    }
    return {pair: bounds for pair, bounds in pieces.items() if bounds[0] < bounds[1]}


def _bounds(sizes: Sequence[int]) -> list[tuple[int, int]]:
    return [(end - size, end) for end, size in zip(accumulate(sizes), sizes, strict=True)]


def _slice(x: Array, axis: int, begin: int, end: int) -> Array:
    return x[(slice(None),) * axis + (slice(begin, end),)]


_REDUCTIONS: Final[dict[str, np.ufunc]] = {
    "add": np.add,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}
COLLECTIVES: Final[dict[str, Callable[[Sequence[Call]], Results]]] = {
    **{f"reduce.{name}": _make_reduce(function) for name, function in _REDUCTIONS.items()},
    **{f"scatter.{name}": _make_scatter(function) for name, function in _REDUCTIONS.items()},
    "gather": _gather,
    "exchange": _exchange,
    "halo": _halo,
    "mirror": _mirror,
}
"""The collectives by name: functions from the calls of a group, in the order of its ranks.

In the calls of a halo, those of ranks without a part in it may be missing: another one takes their
place, of which only the numbers are read.
"""
