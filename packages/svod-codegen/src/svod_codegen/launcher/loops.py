"""Tables of launches with loops, as a program that the native launcher interprets."""

from __future__ import annotations

from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Final, cast

from _cffi_backend import FFI

from svod_codegen.launcher.ir.records import (
    COPY,
    DONE,
    ENTER,
    REGION,
    REPEAT,
    RUN,
    Carried,
    Copy,
    Loop,
    State,
    Step,
    Update,
)
from svod_codegen.launcher.table import make_group
from svod_device import Move, Repeat

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from svod_device import BatchItem, Launch, LoopCarried, Word

__all__ = ["CpuLoopTable"]

_ffi: Final = FFI()

_WORD_BYTES: Final = 8


class CpuLoopTable:
    """Launches, copies and loops in the launcher's format. It keeps the programs and arrays alive that
    it points to.
    """

    __slots__ = ("_records", "items", "state")

    def __init__(self, items: Sequence[BatchItem]) -> None:
        self.items = tuple(items)
        maker = _Maker()
        maker.add(self.items)
        self.state = maker.finish()
        self._records = maker.records


class _Maker:
    """Writer of a program. Each record has separate memory, so that its address is known when it is
    written.
    """

    def __init__(self) -> None:
        self.records: list[object] = []
        self._steps: list[Step] = []
        self._loops: list[
            tuple[list[int], int, int]
        ] = []  # a record, and the indices of its body's first step and of the step after it
        self._singles: list[int] = []  # launches of one part that are not in a step yet
        self._zero = self._write([0])  # the initial value of counters

    def add(self, items: Iterable[BatchItem]) -> None:
        """Add the steps of a sequence of items, which is the program or a loop body."""
        for _, group in groupby(items, attrgetter("group")):
            launches: list[Launch] = []
            moves_and_loops: list[Move | Repeat] = []
            for item in group:
                moves_and_loops.append(item) if isinstance(
                    item, Move | Repeat
                ) else launches.append(item)
            # Items of a group may run in any order, so launches come first, as one region.
            if launches:
                self._add_launches(launches)
            for item in moves_and_loops:
                self._flush()
                if isinstance(item, Move):
                    self._add_move(item)
                else:
                    self._add_loop(item)
        self._flush()

    def finish(self) -> object:
        """Finish the program, and return its state for the launcher."""
        self._steps.append(Step(DONE))
        steps = self._write([word for step in self._steps for word in step])
        for record, body, after in self._loops:
            record[Loop._fields.index("body")] = steps + body * len(Step._fields) * _WORD_BYTES
            record[Loop._fields.index("after")] = steps + after * len(Step._fields) * _WORD_BYTES
        self._write(State(first_step=steps))
        return self.records[-1]

    def _add_launches(self, launches: Sequence[Launch]) -> None:
        # Launches of one part are collected: one RUN step calls many of them in a row.
        words = make_group(launches)
        if sum(launch.n_parts for launch in launches) == 1:
            self._singles += words
            return
        self._flush()
        self._steps.append(Step(REGION, self._write(words)))

    def _flush(self) -> None:
        if self._singles:
            first = self._write(self._singles)
            self._steps.append(Step(RUN, first, first + len(self._singles) * _WORD_BYTES))
            self._singles = []

    def _add_move(self, move: Move) -> None:
        copy = Copy(
            to_at=_locate(move.destination),
            to_offset=move.destination.offset,
            from_at=_locate(move.source),
            from_offset=move.source.offset,
            nbytes=move.nbytes,
        )
        self._steps.append(Step(COPY, self._write(copy)))

    def _add_loop(self, repeat: Repeat) -> None:
        count = repeat.count or repeat.count_address
        if count is None or (repeat.count and repeat.count_address):
            raise ValueError("a loop needs either a count or the address of a count")
        # Double-buffered values, whose addresses change, come first; addresses of values that are
        # updated in-place are written once.
        carried = sorted(repeat.carried, key=lambda value: value.spare is None)
        updates = self._make_updates(repeat)
        # Three spans of one array, so that an iteration walks only over the words that change.
        n_own, n_changing = len(updates), len(updates)
        spans: list[tuple[int, int, int]] = []
        for value in carried:
            start, middle = len(updates), len(updates) + len(value.reads)
            updates += [
                Update(target=_locate(word), base_offset=word.offset)
                for word in value.reads + value.writes
            ]
            spans.append((start, middle, len(updates)))
            n_changing = len(updates) if value.spare else n_changing
        first = self._write(word for update in updates for word in update)
        size = len(Update._fields) * _WORD_BYTES
        values = [
            _make_carried(value, *(first + index * size for index in span))
            for value, span in zip(carried, spans, strict=True)
        ]
        first_value = self._write(word for value in values for word in value)
        go_on = repeat.go_on
        loop = Loop(
            updates=first,
            updates_of_carried=first + n_own * size,
            updates_end=first + n_changing * size,
            carried=first_value,
            carried_end=first_value + len(values) * len(Carried._fields) * _WORD_BYTES,
            go_on_at=0 if go_on is None else _locate(go_on),
            go_on_offset=0 if go_on is None else go_on.offset,
            count_at=_locate(count),
            count_offset=count.offset,
            is_count_in_memory=repeat.count_address is not None,
            branch=repeat.branch or 0,
            n_branches=0 if repeat.branch is None else repeat.n_branches,
        )
        address = self._write(loop)
        record = cast("list[int]", self.records[-1])
        self._steps.append(Step(ENTER, address))
        body = len(self._steps)
        self.add(repeat.body)
        self._steps.append(Step(REPEAT, address))
        self._loops.append((record, body, len(self._steps)))

    def _make_updates(self, repeat: Repeat) -> list[Update]:
        """Make the updates of counters and slices."""
        updates = [
            Update(target=_locate(word), base_at=self._zero, base_offset=word.offset, step=1)
            for word in repeat.counters
        ]
        for view in repeat.slices:
            for word in view.words:
                update = Update(
                    target=_locate(word),
                    base_at=_locate(view.base),
                    base_offset=view.base.offset + word.offset,
                    step=view.stride,
                    is_reversed=repeat.is_reversed,
                )
                updates.append(update)
        return updates

    def _write(self, words: Iterable[int]) -> int:
        """Write words to new memory, and return their address."""
        record = _ffi.new("int64_t[]", list(words))
        self.records.append(record)
        return int(_ffi.cast("intptr_t", record))


def _make_carried(value: LoopCarried, reads: int, writes: int, end: int) -> Carried:
    return Carried(
        initial_at=_locate(value.initial),
        initial_offset=value.initial.offset,
        result_at=_locate(value.result),
        result_offset=value.result.offset,
        spare_at=0 if value.spare is None else _locate(value.spare),
        spare_offset=0 if value.spare is None else value.spare.offset,
        nbytes=value.nbytes,
        reads=reads,
        writes=writes,
        writes_end=end,
    )


def _locate(word: Word) -> int:
    """Return the address of a word."""
    address, length = word.array.buffer_info()
    if not 0 <= word.position < length or word.array.itemsize != _WORD_BYTES:
        raise ValueError(f"no 64-bit word {word.position} in an array of {length} items")
    return address + word.position * _WORD_BYTES
