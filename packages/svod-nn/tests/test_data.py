"""Batches have all rows in a known order, go on where they were, and leave no thread behind."""

from __future__ import annotations

import functools
import gc
import io
import operator
import os
import signal
import subprocess
import sys
import threading
from collections import namedtuple
from typing import Any

import numpy as np
import pytest

import svod_nn as nn
from svod_nn.errors import LayerArgumentError
from svod_tensor import Generator, Tensor, manual_seed


def rows_of(batches: Any) -> list[list[int]]:
    return [x.tolist() for x in batches]


def makers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "svod-nn batches"]


def check_no_thread_is_left() -> None:
    for thread in makers():
        thread.join(60)
    assert not makers()


@pytest.mark.parametrize("prefetch", [0, 1, 2, 50])
def test_each_epoch_has_each_row_once_in_an_order_of_its_own(prefetch: int) -> None:
    batches = nn.batches(np.arange(23), 5, Generator(1), prefetch=prefetch)
    assert len(batches) == 5
    epochs = [rows_of(batches) for _ in range(3)]
    for epoch in epochs:
        assert [len(rows) for rows in epoch] == [5, 5, 5, 5, 3]
        assert sorted(functools.reduce(operator.iadd, epoch, [])) == list(range(23))
    assert epochs[0] != epochs[1] != epochs[2]
    assert (batches.epoch, batches.position) == (3, 15)
    again = nn.batches(np.arange(23), 5, Generator(1))
    assert [rows_of(again) for _ in range(3)] == epochs
    assert rows_of(nn.batches(np.arange(23), 5, Generator(2))) != epochs[0]
    check_no_thread_is_left()


def test_rows_stay_together_in_nested_arrays() -> None:
    pair = namedtuple("pair", "x y")
    x = np.arange(12.0).reshape(6, 2)
    arrays = {
        "pair": pair(x, Tensor(np.arange(6))),
        "list": [np.arange(6, dtype=np.uint8), (x > 3,)],
    }
    seen: list[int] = []
    for batch in nn.batches(arrays, 4, Generator(5)):
        y = batch["pair"].y.numpy()
        assert isinstance(batch["pair"], pair)
        assert batch["pair"].x.tolist() == x[y].tolist()
        assert batch["list"][0].dtype.name == "uint8"
        assert batch["list"][1][0].tolist() == (x[y] > 3).tolist()
        seen += y.tolist()
    assert sorted(seen) == list(range(6))


def test_the_last_rows_may_be_left_out_and_the_order_kept() -> None:
    assert rows_of(nn.batches(np.arange(5), 2)) == [[0, 1], [2, 3], [4]]
    assert rows_of(nn.batches(np.arange(5), 2, drop_last=True)) == [[0, 1], [2, 3]]
    assert rows_of(nn.batches(np.arange(5), 2, Generator(1), shuffle=False)) == [
        [0, 1],
        [2, 3],
        [4],
    ]
    assert rows_of(nn.batches(np.arange(1), 2, drop_last=True)) == []
    assert rows_of(nn.batches(np.arange(0), 2)) == []
    manual_seed(4)
    first = rows_of(nn.batches(np.arange(50), 50, shuffle=True))
    manual_seed(4)
    assert rows_of(nn.batches(np.arange(50), 50, shuffle=True)) == first != [list(range(50))]


def test_a_batch_is_no_view_of_the_data() -> None:
    data = np.arange(4.0)
    for batch in nn.batches(data, 2):
        batch.assign(batch * 0).realize()
    assert data.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("stop", [1, 3, 4, 5, 9])
def test_a_loop_that_was_left_goes_on_in_another_one(stop: int) -> None:
    def make() -> nn.Batches:
        return nn.batches(np.arange(10), 3, Generator(8))

    whole = make()
    wanted = [batch for _ in range(4) for batch in rows_of(whole)]
    first, found = make(), []
    while len(found) < stop:
        for batch in first:
            found.append(batch.tolist())
            if len(found) == stop:
                break
    state = first.state_dict()
    resumed = nn.batches(np.arange(10), 3, Generator(99))
    resumed.load_state_dict(state)
    assert resumed.epoch == stop // 4
    while len(found) < len(wanted):
        found += rows_of(resumed)
    assert found == wanted
    # Who counts steps can say so instead.
    again = make()
    again.position = stop
    assert next(iter(again)).tolist() == wanted[stop]
    check_no_thread_is_left()


def test_a_state_of_other_batches_is_an_error() -> None:
    with pytest.raises(LayerArgumentError, match="shuffled"):
        nn.batches(np.arange(4), 2).load_state_dict(
            nn.batches(np.arange(4), 2, Generator(1)).state_dict()
        )


class Breaks(np.ndarray):
    """An array whose last rows cannot be read."""

    def __getitem__(self, rows: Any) -> Any:
        if isinstance(rows, slice) and rows.start >= 4:
            raise OSError("the disk is gone")
        return super().__getitem__(rows)


@pytest.mark.parametrize("prefetch", [0, 2])
def test_an_error_is_raised_where_its_batch_would_have_been(prefetch: int) -> None:
    found: list[list[int]] = []
    with pytest.raises(OSError, match="the disk is gone"):
        for batch in nn.batches(np.arange(8).view(Breaks), 2, prefetch=prefetch):
            found.append(batch.tolist())
    assert found == [[0, 1], [2, 3]]
    check_no_thread_is_left()


def test_a_loop_that_fails_or_is_forgotten_leaves_no_thread() -> None:
    batches = nn.batches(np.arange(100), 1)
    for _ in batches:
        break
    with pytest.raises(ZeroDivisionError):
        for _ in batches:
            1 / 0  # noqa: B018
    forgotten = iter(batches)
    next(forgotten)
    del forgotten
    gc.collect()
    check_no_thread_is_left()


LOOP = """
import numpy as np, signal, sys, svod_nn as nn
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell turns off in the background
class Slow(np.ndarray):
    def __getitem__(self, rows):
        while rows.start:  # the second batch never comes
            pass
        return super().__getitem__(rows)
try:
    for batch in nn.batches(np.arange(9).view(Slow), 1):
        print(batch.tolist(), flush=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def test_ctrl_c_ends_the_wait_for_a_batch_and_the_process() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", LOOP], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "[0]\n"
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "interrupted\n"
        assert process.wait(60) == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_the_child_of_a_fork_goes_on_without_the_thread() -> None:
    source = iter(nn.batches(np.arange(6), 1, prefetch=1))
    next(source)
    child = os.fork()
    if not child:
        os._exit(0 if rows_of(source) == [[n] for n in range(1, 6)] else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_part_of_the_rows_is_held_out() -> None:
    x, y = np.arange(20).reshape(10, 2), Tensor(np.arange(10))
    (x1, y1), (x2, y2) = nn.split_rows((x, y), 0.3, Generator(1))
    assert (len(x1), len(x2)) == (7, 3)
    assert sorted(y1.tolist() + y2.tolist()) == list(range(10))
    assert y2.tolist() != [7, 8, 9]
    assert x2[:, 0].tolist() == [2 * n for n in y2.tolist()]
    assert x1[:, 0].tolist() == [2 * n for n in y1.tolist()]
    assert nn.split_rows(y, 0.2)[1].tolist() == [8, 9]
    assert [part.shape[0] for part in nn.split_rows(y, 0.0)] == [10, 0]


@pytest.mark.parametrize(
    ("arrays", "problem"),
    [
        ((np.zeros(3), np.zeros(4)), "different numbers of rows: arrays.0 has 3, arrays.1 has 4"),
        ([], "there are no arrays"),
        (np.zeros(()), "is 0-d: it has no rows"),
        ((np.zeros(3), [1, 2, 3]), "expected an array or tensor, got int"),
    ],
)
def test_arrays_without_common_rows_are_an_error(arrays: Any, problem: str) -> None:
    with pytest.raises(LayerArgumentError, match=problem):
        nn.batches(arrays, 2)


def test_a_batch_has_rows_and_a_fraction_is_one() -> None:
    with pytest.raises(LayerArgumentError, match="size must be positive, got 0"):
        nn.batches(np.arange(3), 0)
    with pytest.raises(LayerArgumentError, match="between 0 and 1"):
        nn.split_rows(np.arange(3), 3)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_ten_lines_where_there_is_no_terminal() -> None:
    file = io.StringIO()
    bar = nn.progress(range(40), text="epoch 1", file=file)
    for n in bar:
        bar.show(loss=Tensor(1 / (n + 1)), note="x")
    lines = file.getvalue().splitlines()
    assert len(lines) == 10
    assert (lines[0], lines[-1]) == (
        "epoch 1 4/40 loss=0.25 note=x",
        "epoch 1 40/40 loss=0.025 note=x",
    )


def test_progress_without_a_known_length_is_a_line_for_each_power_of_two() -> None:
    file = io.StringIO()
    assert list(nn.progress(iter("abcde"), file=file)) == list("abcde")
    assert file.getvalue().splitlines() == ["1", "2", "4"]


def test_progress_is_a_bar_on_a_terminal_also_if_the_loop_is_left() -> None:
    file = Terminal()
    bar = nn.progress(range(3), text="steps", file=file)
    for _ in bar:
        bar.show(loss=0.5)
    assert "3/3" in file.getvalue()
    assert "loss=0.5" in file.getvalue()
    for _ in nn.progress(range(3), file=file):
        break
    gc.collect()
    # rich tells its thread to stop and does not wait for it.
    threads = [thread for thread in threading.enumerate() if "rich" in type(thread).__module__]
    for thread in threads:
        thread.join(timeout=60)
    assert not any(thread.is_alive() for thread in threads)


def test_progress_needs_no_rich(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rich.console", None)
    file = Terminal()
    list(nn.progress(range(2), file=file))
    assert file.getvalue().splitlines() == ["1/2", "2/2"]
