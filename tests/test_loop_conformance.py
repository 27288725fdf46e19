"""Conformance suite for loop launchers: the CPU's launcher passes, and each planted fault fails its
case.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from svod_codegen.launcher import CpuBatchLauncher
from svod_device import BatchItem, LoopCarried, Move, Repeat, Word, get_device
from svod_device.testing import LoopConformance, build, get_case
from svod_device.testing.loops import _Rows


class TestCpu(LoopConformance):
    device = "CPU"


def stay(word: Word) -> Word:
    """Return a copy of the word, unchanged by later writes."""
    return word._replace(array=word.array[:])


def swap(value: LoopCarried) -> LoopCarried:
    return value if value.spare is None else value._replace(result=value.spare, spare=value.result)


def change_slices(loop: Repeat, change: Callable[[Any], Any]) -> Repeat:
    return replace(loop, slices=tuple(map(change, loop.slices)))


CASES: dict[str, tuple[Callable[[Repeat], Repeat], str, tuple[object, ...]]] = {
    "goes forward": (
        lambda loop: replace(loop, is_reversed=False),
        "iterations_use_slices_and_numbers",
        (True,),
    ),
    "goes back": (
        lambda loop: replace(loop, is_reversed=True),
        "iterations_use_slices_and_numbers",
        (False,),
    ),
    "goes on": (
        lambda loop: replace(loop, go_on=None),
        "a_loop_ends_after_the_iteration_that_says_so",
        (2,),
    ),
    "counts nothing": (
        lambda loop: replace(loop, counters=()),
        "iterations_use_slices_and_numbers",
        (False,),
    ),
    "takes the base as it is": (
        lambda loop: change_slices(
            loop, lambda part: part._replace(base=part.base._replace(offset=0))
        ),
        "iterations_use_slices_and_numbers",
        (False,),
    ),
    "takes words as they are": (
        lambda loop: change_slices(
            loop, lambda p: p._replace(words=tuple(w._replace(offset=0) for w in p.words))
        ),
        "iterations_use_slices_and_numbers",
        (False,),
    ),
    "knows no last branch": (
        lambda loop: replace(loop, n_branches=loop.n_branches and 1000),
        "one_branch_of_a_switch_runs",
        (False,),
    ),
    "counts when the table is made": (
        lambda loop: replace(loop, count=loop.count and stay(loop.count)),
        "a_carried_value_ends_in_the_result",
        (True, False),
    ),
    "looks for buffers when the table is made": (
        lambda loop: replace(
            loop, carried=tuple(v._replace(initial=stay(v.initial)) for v in loop.carried)
        ),
        "words_are_read_at_each_run",
        (),
    ),
    "leaves the result in the spare": (
        lambda loop: replace(loop, carried=tuple(map(swap, loop.carried))),
        "a_carried_value_ends_in_the_result",
        (True, False),
    ),
    "copies nothing": (
        lambda loop: replace(
            loop, body=tuple(item for item in loop.body if not isinstance(item, Move))
        ),
        "loops_in_loops_work_on_slices_of_slices",
        (),
    ),
}


class Wrong(CpuBatchLauncher):
    """Launcher that receives modified loops."""

    def __init__(self, change: Callable[[Repeat], Repeat]) -> None:
        super().__init__()
        self._change = change

    def make_table(self, launches: Sequence[BatchItem]) -> Any:
        return super().make_table([self._change_all(item) for item in launches])

    def _change_all(self, item: BatchItem) -> BatchItem:
        if not isinstance(item, Repeat):
            return item
        return self._change(replace(item, body=tuple(map(self._change_all, item.body))))


@pytest.mark.parametrize("name", CASES)
def test_a_launcher_that_does_one_thing_wrong_fails(name: str) -> None:
    change, case, arguments = CASES[name]
    device = get_device("CPU")
    rows = _Rows(build(get_case(device.target, "variables"), device.backend, "CPU"), device)
    test: Any = getattr(LoopConformance(), f"test_{case}")
    if case.startswith("a_loop_ends"):
        arguments = (device, *arguments)
    for launcher, is_right in ((Wrong(lambda loop: loop), True), (Wrong(change), False)):
        given = (
            (device.backend, launcher, rows) if case.startswith("a_loop_ends") else (launcher, rows)
        )
        if is_right:
            test(*given, *arguments)
        else:
            with pytest.raises(AssertionError):
                test(*given, *arguments)
