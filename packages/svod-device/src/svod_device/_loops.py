"""Loops in a batch: what a launcher that runs them gets, beside launches.

A `Repeat` is a body that runs some number of times. What differs between iterations is written into
words: the entries of the arrays of addresses and values that the launches of the body read anyway.
So a kernel in a loop is the kernel that it would be outside.

Example:
    A loop that copies rows in reversed order, and keeps the row that it read last:

    >>> import numpy as np
    >>> from svod_device import Buffer, get_device
    >>> from svod_dtype import int64
    >>> cpu = get_device("CPU")
    >>> isinstance(cpu.launcher, LoopingLauncher) and cpu.launcher.runs_loops
    True
    >>> rows, copied, last = (Buffer(cpu.allocator, int64, n) for n in (3, 3, 1))
    >>> rows.copyin(np.array([10, 20, 30]))
    >>> last.copyin(np.array([0]))
    >>> outside = array("Q", [rows.locate(), copied.locate(), last.locate()])
    >>> inside = array("Q", [0, 0, 0])
    >>> read, write, keep = (Word(inside, position) for position in range(3))
    >>> loop = Repeat(
    ...     body=(Move(write, read, nbytes=8, group=0), Move(keep, read, nbytes=8, group=0)),
    ...     group=0,
    ...     count=Word(array("q", [3]), 0),
    ...     slices=(
    ...         LoopSlice(Word(outside, 0), 8, (read,)),
    ...         LoopSlice(Word(outside, 1, 16), -8, (write,)),
    ...     ),
    ...     carried=(LoopCarried(Word(outside, 2), Word(outside, 2), None, 8, reads=(), writes=(keep,)),),
    ... )
    >>> cpu.launcher.run(cpu.launcher.make_table([loop]))
    >>> copied.as_numpy().tolist(), last.as_numpy().tolist()
    ([30, 20, 10], [30])
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias, runtime_checkable

from svod_device._protocols import Launch

__all__ = ["BatchItem", "LoopCarried", "LoopSlice", "LoopingLauncher", "Move", "Repeat", "Word"]


class Word(NamedTuple):
    """One entry of an array('Q') of addresses or an array('q') of values, which is read or written
    at each run.

    To read the word is to take `array[position] + offset`; to write x to it sets `array[position] =
    x + offset`, so that a word of a view follows what is written to the words of its base. The
    array's length and place in memory never change, and whoever gets a word keeps the array alive.
    """

    array: array[int]
    position: int
    offset: int = 0


class Move(NamedTuple):
    """A copy of `nbytes` bytes in a batch, from the address that `source` holds to that of
    `destination`.

    The two blocks are the same or do not overlap. `group` is that of `Launch`.
    """

    destination: Word
    source: Word
    nbytes: int
    group: int


class LoopSlice(NamedTuple):
    """An operand or a result of which iteration t uses a part of its own: `words` get `base + t *
    stride`.

    In a reversed loop of n iterations that is `base + (n - 1 - t) * stride`. `base` is read when
    the loop begins."""

    base: Word
    stride: int
    words: tuple[Word, ...]


class LoopCarried(NamedTuple):
    """A value that each iteration reads, and writes for the next one; after the loop it lies in
    `result`.

    The first iteration reads it from `initial`; later ones read what the one before wrote. They
    write to `result` and `spare` in turn; `reads` and `writes` get the addresses. Where the number
    of iterations is known, the first one writes to where the last one then writes to `result`; a
    loop that ends otherwise copies from `spare` once. Without an iteration `initial` is copied to
    `result`.

    Without a `spare` the body changes the value in place: `initial` is copied to `result` when the
    loop begins, and `reads` and `writes` get the address of `result`.

    `initial` and `result` may be the same memory, then the first iteration writes to `spare`;
    otherwise the three do not overlap, and neither do results and spares with anything of another
    carried value. The three are read when the loop begins."""

    initial: Word
    result: Word
    spare: Word | None
    nbytes: int
    reads: tuple[Word, ...]
    writes: tuple[Word, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """A body that runs some number of times, or, as a branch of a switch, once or not at all.

    Attributes:
        body: what an iteration runs; its groups are counted for themselves. The next iteration
            starts when all are done.
        group: that of `Launch`, among those that the loop stands beside.
        count: the number of iterations, a word of a values array; below 0 means 0.
        count_address: instead of `count`: a word that holds the address of an int64 with the
            number.
        branch: the number, clamped to 0 .. `n_branches` - 1, is that of the branch to run: the body
            runs once if it is this one. Otherwise nothing is done, and the results of `carried`
            stay as they are.
        n_branches: of the switch; 0 without `branch`.
        counters: words of values arrays that get the number of the iteration, from 0 in order of
            execution.
        slices: parts of operands and results that iterations use.
        carried: values that iterations hand on.
        is_reversed: iteration t uses the slices of the iteration that is as far from the end.
        go_on: a word that holds the address of a byte, after each iteration; where it is 0 then,
            the loop ends.
    """

    body: tuple[BatchItem, ...]
    group: int
    count: Word | None = None
    count_address: Word | None = None
    branch: int | None = None
    n_branches: int = 0
    counters: tuple[Word, ...] = ()
    slices: tuple[LoopSlice, ...] = ()
    carried: tuple[LoopCarried, ...] = ()
    is_reversed: bool = False
    go_on: Word | None = None


BatchItem: TypeAlias = Launch | Move | Repeat
"""What the table of a `LoopingLauncher` consists of."""


@runtime_checkable
class LoopingLauncher(Protocol):
    """A batch launcher that says whether its tables may have loops and copies; without this they
    may not.

    Where it cannot run them, the runtime runs the loop, with a table for each part of its body that
    is launches alone."""

    @property
    def runs_loops(self) -> bool:
        """True if `make_table` takes `Move` and `Repeat`."""
        ...

    def make_table(self, launches: Sequence[BatchItem]) -> object:
        """Prepare a sequence of launches, copies and loops (at least one); the table keeps alive
        what it needs of them.

        Raises:
            ValueError: if something cannot be in a batch of this launcher.
        """
        ...

    def run(self, table: object) -> None:
        """Run the table to its end.

        An exception such as `KeyboardInterrupt` may end it between two iterations; the table can be
        run again then, from its start. Two tables may be run at once from two threads, one table
        never is."""
        ...
