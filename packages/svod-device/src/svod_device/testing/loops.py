"""Conformance tests of looping launchers: trip counts, slices, carries, conditions, branches and
copies.
"""

from __future__ import annotations

from array import array
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

from svod_device._buffer import Buffer
from svod_device._loops import LoopCarried, LoopingLauncher, LoopSlice, Move, Repeat, Word
from svod_device._protocols import Backend, Launch
from svod_device.testing.base import Conformance
from svod_device.testing.kernel_runner import BuiltKernel, build
from svod_device.testing.kernels import get_case
from svod_dtype import bool_, int64
from svod_ir.testing import run_in_threads

if TYPE_CHECKING:
    from svod_device._device import Device

__all__ = ["LoopConformance"]

_SIZE: Final = 13
_ROW_BYTES: Final = 8 * _SIZE
# Odd and even, since a carry with a spare ends in either buffer.
_COUNTS: Final = (-2, 0, 1, 2, 3, 6)


class LoopConformance(Conformance):
    """Tests of `Repeat` and `Move`, skipped for launchers that do not run loops."""

    @pytest.fixture
    def looping(self, backend: Backend) -> LoopingLauncher:
        """Launcher under test."""
        launcher = backend.launcher
        if not isinstance(launcher, LoopingLauncher) or not launcher.runs_loops:
            pytest.skip("the backend has no looping launcher: the runtime runs loops")
        return launcher

    @pytest.fixture
    def rows(self, backend: Backend, owner: Device) -> _Rows:
        """Rows of int64 on the device, and launches of a kernel on rows."""
        return _Rows(build(get_case(backend.target, "variables"), backend, owner.name), owner)

    @pytest.mark.parametrize("is_same", [False, True], ids=["apart", "same"])
    @pytest.mark.parametrize("has_spare", [True, False], ids=["two", "in_place"])
    def test_a_carried_value_ends_in_the_result(
        self, looping: LoopingLauncher, rows: _Rows, has_spare: bool, is_same: bool
    ) -> None:
        initial, apart, spare = rows.make(1), rows.make(1), rows.make(1)
        result = initial if is_same else apart
        body, count = rows.launch(scale=2, shift=1), array("q", [0])
        carried = _carry(body, initial, result, spare if has_spare else None)
        table = looping.make_table([Repeat((body,), 0, Word(count, 0), carried=(carried,))])
        for n in _COUNTS:
            count[0] = n
            initial.copyin(np.arange(_SIZE).data)
            looping.run(table)
            expected = np.arange(_SIZE)
            for _ in range(n):
                expected = expected * 2 + 1
            _check(result, expected, f"{n} iterations")
            if not is_same:
                _check(initial, np.arange(_SIZE), f"the initial value, after {n} iterations")

    def test_a_count_in_memory_is_read_when_the_loop_begins(
        self, looping: LoopingLauncher, rows: _Rows
    ) -> None:
        total, count, half = rows.make(1), rows.make(1), rows.make(1)
        double, body = rows.launch(count, half, scale=2), rows.launch(shift=1)
        carried = _carry(body, total, total, None)
        loop = Repeat((body,), 1, count_address=Word(_point_at(count), 0, 8), carried=(carried,))
        table = looping.make_table([double, loop])
        for n in (2, 0, -1):
            total.copyin(np.zeros(_SIZE, np.int64).data)
            half.copyin(np.full(_SIZE, n).data)
            looping.run(table)
            _check(total, np.full(_SIZE, max(2 * n, 0)), f"a count of {2 * n}")

    @pytest.mark.parametrize("is_reversed", [False, True], ids=["forward", "reversed"])
    def test_iterations_use_slices_and_numbers(
        self, looping: LoopingLauncher, rows: _Rows, is_reversed: bool
    ) -> None:
        xs, ys, content = rows.make(8), rows.make(8), np.arange(8 * _SIZE) ** 2
        xs.copyin(content.data)
        body, count, outside = rows.launch(scale=10), array("q", [0]), _point_at(xs, ys)
        slices = (
            LoopSlice(
                Word(outside, 0, _ROW_BYTES), _ROW_BYTES, (Word(body.buffers, 1, _ROW_BYTES),)
            ),
            LoopSlice(Word(outside, 1), _ROW_BYTES, (Word(body.buffers, 0),)),
        )
        counters = (Word(body.values, rows.shift_position, -5),)
        loop = Repeat(
            (body,), 0, Word(count, 0), counters=counters, slices=slices, is_reversed=is_reversed
        )
        table = looping.make_table([loop])
        for trip_count in _COUNTS:
            count[0], n = trip_count, max(trip_count, 0)
            ys.copyin(np.full(8 * _SIZE, -1).data)
            looping.run(table)
            order = np.arange(n)[::-1] if is_reversed else np.arange(n)
            expected = np.full((8, _SIZE), -1)
            expected[:n] = content.reshape(8, _SIZE)[2 : 2 + n] * 10 + order[:, None] - 5
            _check(ys, expected, f"{trip_count} iterations")

    @pytest.mark.parametrize("n_true", [0, 1, 2, 5])
    def test_a_loop_ends_after_the_iteration_that_says_so(
        self, backend: Backend, looping: LoopingLauncher, rows: _Rows, owner: Device, n_true: int
    ) -> None:
        initial, result, spare = rows.make(1), rows.make(1), rows.make(1)
        initial.copyin(np.zeros(_SIZE, np.int64).data)
        flags, flag = (Buffer(owner.allocator, bool_, n * _SIZE).ensure_allocated() for n in (8, 1))
        flags.copyin(np.repeat(np.arange(8) < n_true, _SIZE).data)
        copy = build(get_case(backend.target, "copy_bool"), backend, owner.name)
        body, ask = rows.launch(shift=1), _launch(copy, _point_at(flag, flags), array("q"), 1)
        loop = Repeat(
            (body, ask),
            0,
            _times(7),
            slices=(LoopSlice(Word(_point_at(flags), 0), _SIZE, (Word(ask.buffers, 1),)),),
            carried=(_carry(body, initial, result, spare),),
            go_on=Word(ask.buffers, 0, _SIZE - 1),
        )
        table = looping.make_table([loop])
        for _ in range(2):
            looping.run(table)
            _check(
                result,
                np.full(_SIZE, n_true + 1),
                f"{n_true} iterations that go on, and one that does not",
            )

    @pytest.mark.parametrize("is_in_memory", [False, True], ids=["value", "memory"])
    def test_one_branch_of_a_switch_runs(
        self, looping: LoopingLauncher, rows: _Rows, is_in_memory: bool
    ) -> None:
        data, in_memory, selected = rows.make(1), rows.make(1), array("q", [0])
        source: dict[str, Any] = (
            {"count_address": Word(_point_at(in_memory), 0)}
            if is_in_memory
            else {"count": Word(selected, 0)}
        )
        bodies = [rows.launch(scale=10, shift=index) for index in range(3)]
        branches = [
            Repeat(
                (body,),
                index,
                branch=index,
                n_branches=3,
                carried=(_carry(body, data, data, None),),
                **source,
            )
            for index, body in enumerate(bodies)
        ]
        table = looping.make_table(branches)
        for index in (0, 1, 2, 3, 1 << 40, -1, -(1 << 40)):
            selected[0] = index
            in_memory.copyin(np.full(_SIZE, index).data)
            data.copyin(np.ones(_SIZE, np.int64).data)
            looping.run(table)
            _check(data, np.full(_SIZE, 10 + min(max(index, 0), 2)), f"branch {index} of 3")

    def test_a_branch_that_is_not_taken_leaves_its_results_alone(
        self, looping: LoopingLauncher, rows: _Rows
    ) -> None:
        initial, result = rows.make(1), rows.make(1)
        initial.copyin(np.ones(_SIZE, np.int64).data)
        result.copyin(np.zeros(_SIZE, np.int64).data)
        body = rows.launch()
        carried = _carry(body, initial, result, None)
        looping.run(
            looping.make_table(
                [Repeat((body,), 0, _times(1), branch=0, n_branches=2, carried=(carried,))]
            )
        )
        _check(result, np.zeros(_SIZE), "branch 1 of 2, which is not there")

    def test_loops_in_loops_work_on_slices_of_slices(
        self, looping: LoopingLauncher, rows: _Rows
    ) -> None:
        xs, sums, total, content = rows.make(6), rows.make(2), rows.make(1), np.arange(6 * _SIZE)
        xs.copyin(content.data)
        body, keep = (
            rows.launch(scale=3),
            Move(Word(_point_at(sums), 0), Word(_point_at(total), 0), _ROW_BYTES, 1),
        )
        iteration = array("q", [0])
        inner = Repeat(
            (body,),
            0,
            _times(3),
            counters=(Word(body.values, rows.shift_position),),
            carried=(_carry(body, xs, total, rows.make(1)),),
        )
        outer = Repeat(
            (inner, keep),
            0,
            _times(2),
            counters=(Word(iteration, 0),),
            slices=(
                LoopSlice(Word(_point_at(xs), 0), 3 * _ROW_BYTES, (inner.carried[0].initial,)),
                LoopSlice(Word(_point_at(sums), 0), _ROW_BYTES, (keep.destination,)),
            ),
        )
        table = looping.make_table([outer])
        for _ in range(2):
            sums.copyin(np.zeros(2 * _SIZE, np.int64).data)
            looping.run(table)
            # ((x * 3 + 0) * 3 + 1) * 3 + 2
            _check(sums, content.reshape(2, 3, _SIZE)[:, 0] * 27 + 5, "two times three iterations")

    def test_words_are_read_at_each_run(self, looping: LoopingLauncher, rows: _Rows) -> None:
        pairs = [(rows.make(1), rows.make(1)) for _ in range(3)]
        for run, (initial, _) in enumerate(pairs):
            initial.copyin(np.full(_SIZE, run).data)
        body = rows.launch(scale=2)
        carried = _carry(body, *pairs[0], rows.make(1))
        table = looping.make_table([Repeat((body,), 0, _times(3), carried=(carried,))])
        for run, (initial, result) in enumerate(pairs):
            carried.initial.array[0], carried.initial.array[1] = initial.address, result.address
            looping.run(table)
            _check(result, np.full(_SIZE, 8 * run), f"the buffers of run {run}")

    def test_loops_run_in_several_threads_at_once(
        self, looping: LoopingLauncher, rows: _Rows
    ) -> None:
        values = [[rows.make(1) for _ in range(3)] for _ in range(3)]
        for initial, _, _ in values:
            initial.copyin(np.zeros(_SIZE, np.int64).data)
        bodies = [rows.launch(shift=thread + 1) for thread in range(3)]
        loops = [
            Repeat((body,), 0, _times(20), carried=(_carry(body, *three),))
            for body, three in zip(bodies, values, strict=True)
        ]
        tables = [looping.make_table([loop]) for loop in loops]

        def work(thread: int) -> None:
            for _ in range(5):
                looping.run(tables[thread])

        run_in_threads(*(partial(work, thread) for thread in range(3)))
        for thread, (_, result, _) in enumerate(values):
            _check(result, np.full(_SIZE, 20 * (thread + 1)), "three threads")


class _Rows:
    """Rows of int64, and launches of y = x * scale + shift on a row."""

    def __init__(self, built: BuiltKernel, owner: Device) -> None:
        self._built, self._owner = built, owner
        # Tables hold bare addresses, so the buffers must be kept alive here.
        self._buffers: list[Buffer] = []
        self.shift_position = built.spec.var_names.index("shift")

    def make(self, n: int) -> Buffer:
        """Allocate `n` rows, filled with a value that no test computes."""
        buffer = Buffer(self._owner.allocator, int64, n * _SIZE)
        buffer.copyin(np.full(n * _SIZE, -77).data)
        self._buffers.append(buffer)
        return buffer

    def launch(self, *buffers: Buffer, scale: int = 1, shift: int = 0) -> Launch:
        """Return a launch on `buffers`, or one whose addresses a loop sets."""
        values = {"scale": scale, "shift": shift}
        addresses = _point_at(*buffers) if buffers else array("Q", [0, 0])
        return _launch(
            self._built,
            addresses,
            array("q", [values[name] for name in self._built.spec.var_names]),
            0,
        )


def _launch(built: BuiltKernel, addresses: array[int], values: array[int], group: int) -> Launch:
    dims = built.spec.launch_dims({})
    return Launch(built.program, addresses, values, dims.global_size, dims.local_size, group)


def _point_at(*buffers: Buffer) -> array[int]:
    return array("Q", [buffer.address for buffer in buffers])


def _times(n: int) -> Word:
    return Word(array("q", [n]), 0)


def _carry(body: Launch, initial: Buffer, result: Buffer, spare: Buffer | None) -> LoopCarried:
    """Return the carry from the launch's output to its input."""
    outside = _point_at(initial, result, spare or result)
    words = [Word(outside, position) for position in range(3)]
    reads, writes = (Word(body.buffers, 1),), (Word(body.buffers, 0),)
    return LoopCarried(words[0], words[1], words[2] if spare else None, _ROW_BYTES, reads, writes)


def _check(buffer: Buffer, expected: np.ndarray[Any, Any], what: str) -> None:
    assert buffer.as_numpy().reshape(expected.shape).tolist() == expected.tolist(), what
