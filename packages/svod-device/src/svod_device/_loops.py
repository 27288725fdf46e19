"""Loops in a batch: the items that a looping launcher accepts in addition to launches.

A `Repeat` runs its body for a number of iterations. Before each iteration the launcher updates
`Word`s: entries of the address and value arrays that the body's launches read. So a kernel in a
loop is the same kernel as outside of a loop.

Example:
    A loop that copies rows in reversed order and keeps the last row that it read:

    >>> import numpy as np
    >>> from array import array
    >>> from svod_device import Buffer, LoopCarried, LoopSlice, LoopingLauncher, Move, Repeat, Word, get_device
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
    """One entry of an array('Q') of addresses or an array('q') of values, accessed at each run.

    A read returns `array[position] + offset`. A write of x sets `array[position] = x + offset`, so
    the word of a view can be written with the address of its base. The array is never resized or
    moved in memory, and a table keeps the arrays of its words alive.
    """

    array: array[int]
    position: int
    offset: int = 0


class Move(NamedTuple):
    """Copy of `nbytes` bytes in a batch. The words hold the addresses of source and destination.

    The two blocks are identical or disjoint. `group` has the same meaning as in `Launch`.
    """

    destination: Word
    source: Word
    nbytes: int
    group: int


class LoopSlice(NamedTuple):
    """Operand or result with one slice for each iteration: iteration t sets `words` to
    `base + t * stride`.

    A reversed loop of n iterations sets them to `base + (n - 1 - t) * stride`. The launcher reads
    `base` when the loop starts.
    """

    base: Word
    stride: int
    words: tuple[Word, ...]


class LoopCarried(NamedTuple):
    """Loop carry: a value that each iteration reads and updates. Its final value is in `result`.

    The first iteration reads from `initial`, each later iteration from the previous output.
    Iterations write alternately to `result` and `spare`; the launcher sets `reads` and `writes` to
    the addresses. If the trip count is known, the first iteration starts with the buffer for which
    the last iteration writes to `result`. A loop that exits early in `spare` copies it to `result`.
    A loop without iterations copies `initial` to `result`.

    Without a `spare` the body updates the value in place: `initial` is copied to `result` when the
    loop starts, and `reads` and `writes` are set to the address of `result`.

    `initial` and `result` may be the same memory; the first iteration then writes to `spare`.
    Otherwise the three do not overlap. Results and spares never overlap the memory of another
    carry. The launcher reads the three words when the loop starts.
    """

    initial: Word
    result: Word
    spare: Word | None
    nbytes: int
    reads: tuple[Word, ...]
    writes: tuple[Word, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """Loop with a trip count, or one branch of a switch.

    Attributes:
        body: items of one iteration, with group numbers of their own. An iteration starts when all
            items of the previous iteration are done.
        group: as in `Launch`, among the items that surround the loop.
        count: trip count, a word of a value array; negative counts mean 0.
        count_address: alternative to `count`: a word with the address of an int64 trip count.
        branch: index of this branch in a switch. `count` or `count_address` then holds the selected
            index, clamped to 0 .. `n_branches` - 1. The body runs once if that is this branch;
            otherwise it does not run, and the results of `carried` keep their values.
        n_branches: number of branches of the switch; 0 if `branch` is None.
        counters: words of value arrays that are set to the iteration index, from 0 in order of
            execution.
        slices: operands and results that are sliced by iteration.
        carried: loop carries.
        is_reversed: whether iteration t uses the slices of iteration n - 1 - t.
        go_on: word with the address of a byte, read after each iteration; the loop exits if the
            byte is 0.
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
"""Item of a `LoopingLauncher`'s table."""


@runtime_checkable
class LoopingLauncher(Protocol):
    """Batch launcher whose tables may contain loops and copies: an optional extension of
    `BatchLauncher`.

    For other launchers the runtime runs loops itself, with one table for each sequence of launches
    in the body.
    """

    @property
    def runs_loops(self) -> bool:
        """True if `make_table` takes `Move` and `Repeat`."""
        ...

    def make_table(self, launches: Sequence[BatchItem]) -> object:
        """Prepare a non-empty sequence of launches, copies and loops. The table keeps
        them alive.

        Raises:
            ValueError: if this launcher cannot batch an item.
        """
        ...

    def run(self, table: object) -> None:
        """Run the table to completion.

        An exception such as `KeyboardInterrupt` may stop it between two iterations; the next run
        starts from the beginning. Different tables may run concurrently, the same table never does.
        """
        ...
