"""Random programs with loops: a seed gives one program, planted faults are found, and a failing
program is shrunk.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from svod_codegen.launcher import CpuBatchLauncher
from svod_device import BatchItem, Repeat
from svod_testing.loop_programs import (
    Expected,
    LoopProgram,
    LoopStep,
    NumpyLibrary,
    check_program,
    evaluate_program,
    find_difference,
    generate,
    make_arrays,
    run_program,
    shrink,
)

drawing = pytest.mark.xdist_group("loop programs")  # they share what takes long to draw


def count_iterations(step: LoopStep) -> int:
    """Of a loop by itself, where it is a number."""
    count = step.args.get("length") or step.args.get("upper") or step.args.get("k") or 0
    return int(count) if isinstance(count, (int, float)) else 10


@functools.cache
def draw_programs() -> list[LoopProgram]:
    return [generate(seed) for seed in range(160)]


@functools.cache
def draw_short_programs() -> list[tuple[LoopProgram, list[Expected]]]:
    programs = [p for p in draw_programs() if sum(map(count_iterations, p.iter_steps())) < 50]
    return [(p, evaluate_program(p)) for p in programs if len(list(p.iter_steps())) < 40]


@drawing
def test_a_seed_gives_one_program():
    assert [generate(seed) for seed in range(5)] == draw_programs()[:5]


@drawing
def test_programs_have_every_kind_of_loop_and_loops_in_loops():
    found = {step.operation for program in draw_programs() for step in program.iter_steps()}
    assert {
        "scan",
        "fori",
        "while",
        "cond",
        "switch",
        "write_row",
        "set_row",
        "random_ones",
    } <= found
    assert max(map(measure_depth, draw_programs())) == 3
    counts = {
        step.args["length"]
        for p in draw_programs()
        for step in p.iter_steps()
        if step.operation == "scan"
    }
    assert {None, 0, 1, 2} <= counts
    assert max(count for count in counts if count is not None) > 1000
    assert any(program.variables for program in draw_programs())


def measure_depth(program: LoopProgram) -> int:
    def measure(steps: Any) -> int:
        return max(
            (1 + max(measure(b.steps) for b in s.blocks) for s in steps if s.blocks), default=0
        )

    return measure(program.steps)


class Ignored(NumpyLibrary):
    """Runs backwards as forwards."""

    def scan(self, f: Any, init: Any, xs: Any, *, length: Any, reverse: bool, made: Any) -> Any:
        return super().scan(f, init, xs, length=length, reverse=False, made=made)


class NextSlice(NumpyLibrary):
    """Takes the slice after the one that is meant, and the last one twice."""

    def scan(self, f: Any, init: Any, xs: Any, *, length: Any, reverse: bool, made: Any) -> Any:
        def shift(part: Any) -> Any:
            if isinstance(part, dict):
                return {key: shift(value) for key, value in part.items()}
            if isinstance(part, (list, tuple)):
                return type(part)(map(shift, part))
            return (
                part
                if part is None
                else part[[*range(1, len(part)), len(part) - 1]]
                if len(part)
                else part
            )

        return super().scan(f, init, shift(xs), length=length, reverse=reverse, made=made)


class FilledForwards(NumpyLibrary):
    """Fills results from the first one on where it runs backwards."""

    def scan(self, f: Any, init: Any, xs: Any, *, length: Any, reverse: bool, made: Any) -> Any:
        last, ys = super().scan(f, init, xs, length=length, reverse=reverse, made=made)
        return last, flip(ys) if reverse else ys


def flip(part: Any) -> Any:
    if isinstance(part, dict):
        return {key: flip(value) for key, value in part.items()}
    if isinstance(part, (list, tuple)):
        return type(part)(map(flip, part))
    return part if part is None else part[::-1]


class Spare(NumpyLibrary):
    """Gives what was carried into the last iteration: the spare instead of the result."""

    def scan(self, f: Any, init: Any, xs: Any, *, length: Any, reverse: bool, made: Any) -> Any:
        before = [init]

        def remember(carry: Any, x: Any) -> Any:
            before[0] = carry
            return f(carry, x)

        _, ys = super().scan(remember, init, xs, length=length, reverse=reverse, made=made)
        return before[0], ys

    def fori_loop(self, lower: Any, upper: Any, f: Any, init: Any) -> Any:
        return super().fori_loop(lower, max(int(upper) - 1, int(lower)), f, init)


class FromZero(NumpyLibrary):
    """Counts from 0, whatever the first number is."""

    def fori_loop(self, lower: Any, upper: Any, f: Any, init: Any) -> Any:
        return super().fori_loop(0, int(upper) - int(lower), f, init)


class AtLeastOnce(NumpyLibrary):
    """Runs a body once where it should not run at all."""

    def fori_loop(self, lower: Any, upper: Any, f: Any, init: Any) -> Any:
        return super().fori_loop(lower, max(int(upper), int(lower) + 1), f, init)


class OneMore(NumpyLibrary):
    """Runs an iteration more than is asked for."""

    def fori_loop(self, lower: Any, upper: Any, f: Any, init: Any) -> Any:
        return super().fori_loop(lower, int(upper) + (int(upper) > int(lower)), f, init)


class OldCount(NumpyLibrary):
    """Keeps to the number of iterations of the first execution."""

    def __init__(self, program: LoopProgram, version: int) -> None:
        super().__init__({name: given[2] for name, given in program.variables.items()})


class Stale(NumpyLibrary):
    """Asks whether to go on before an iteration for the one after it."""

    def while_loop(self, cond: Any, f: Any, init: Any) -> Any:
        goes_on = cond(init)
        while goes_on:
            goes_on = cond(init)
            init = f(init)
        return init


class OnlyOnce(NumpyLibrary):
    """Never asks again whether to go on."""

    def while_loop(self, cond: Any, f: Any, init: Any) -> Any:
        return f(init) if cond(init) else init


class OtherSide(NumpyLibrary):
    """Runs the side that is not asked for."""

    def cond(self, pred: Any, f: Any, g: Any, *operands: Any) -> Any:
        return super().cond(pred, g, f, *operands)


class FirstBranch(NumpyLibrary):
    """Takes an index behind the last branch as the first one."""

    def switch(self, index: Any, branches: Any, *operands: Any) -> Any:
        return branches[int(index) % len(branches)](*operands)


class Unstored(NumpyLibrary):
    """Loses writes to memory outside a body."""

    def apply(self, operation: str, operands: Any, args: Any, kinds: Any) -> Any:
        if operation.startswith("write"):
            return operands[0]
        return super().apply(operation, operands, args, kinds)


class Frozen(NumpyLibrary):
    """Numbers each iteration like the first one."""

    def fori_loop(self, lower: Any, upper: Any, f: Any, init: Any) -> Any:
        return super().fori_loop(lower, upper, lambda _, carry: f(lower, carry), init)


class Swapped(NumpyLibrary):
    """Mixes up the first two leaves of a list that is carried where they are alike."""

    def scan(self, f: Any, init: Any, xs: Any, *, length: Any, reverse: bool, made: Any) -> Any:
        last, ys = super().scan(f, init, xs, length=length, reverse=reverse, made=made)
        if isinstance(last, (list, tuple)) and len(last) > 1:
            first, second, *rest = last
            if (
                getattr(first, "shape", 0) == getattr(second, "shape", 1)
                and first.dtype == second.dtype
            ):
                last = type(last)([second, first, *rest])
        return last, ys


FAULTS = [
    Ignored,
    NextSlice,
    FilledForwards,
    Spare,
    FromZero,
    AtLeastOnce,
    OneMore,
    OldCount,
    Stale,
    OnlyOnce,
    OtherSide,
    FirstBranch,
    Unstored,
    Frozen,
    Swapped,
]


def is_found(
    program: LoopProgram, fault: type[NumpyLibrary], expected: list[Expected], version: int = 0
) -> bool:
    variables = {name: given[2 + version] for name, given in program.variables.items()}
    library = fault(program, version) if fault is OldCount else fault(variables)  # type: ignore[arg-type]
    arrays = make_arrays(program, version)
    results = run_program(program, library, arrays)
    kept = [r.astype(e.dtype) for r, e in zip(results, expected, strict=True)]
    return any(
        find_difference(found, e) is not None for found, e in zip(kept, expected, strict=True)
    )


@drawing
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_planted_fault_of_a_loop_is_found(fault: type[NumpyLibrary]):
    programs = draw_short_programs()
    if fault is OldCount:
        assert any(
            is_found(program, fault, evaluate_program(program, 1), 1) for program, _ in programs
        )
    else:
        assert any(is_found(program, fault, expected) for program, expected in programs), (
            fault.__doc__
        )


@drawing
def test_no_fault_is_found_where_none_is():
    assert not any(
        is_found(program, NumpyLibrary, expected) for program, expected in draw_short_programs()
    )


@drawing
@pytest.mark.parametrize("fault", [Ignored, Stale, OtherSide], ids=lambda fault: fault.__name__)
def test_a_failing_program_is_shrunk_to_the_loop_that_fails(fault: type[NumpyLibrary]):
    fails: Callable[[LoopProgram], bool] = lambda p: is_found(p, fault, evaluate_program(p))  # noqa: E731
    program = next(
        p for p, _ in draw_short_programs() if sum(1 for _ in p.iter_steps()) > 15 and fails(p)
    )
    shrunk = shrink(program, fails)
    steps = list(shrunk.iter_steps())
    assert fails(shrunk)
    assert len(shrunk.roots) == 1
    assert sum(1 for step in steps if step.blocks) <= 2
    assert len(steps) <= 12, steps


def swap_spares(loop: Repeat) -> Repeat:
    """What is carried is left in the spare."""
    return replace(
        loop,
        carried=tuple(
            c if c.spare is None else c._replace(result=c.spare, spare=c.result)
            for c in loop.carried
        ),
    )


LAUNCHER_FAULTS: dict[str, tuple[str, Callable[[Repeat], Repeat]]] = {
    "runs backwards as forwards": ("scan", lambda loop: replace(loop, is_reversed=False)),
    "takes the first slice each time": (
        "scan",
        lambda loop: replace(loop, slices=tuple(s._replace(stride=0) for s in loop.slices)),
    ),
    "leaves what is carried in the spare": ("fori", swap_spares),
    "numbers no iteration": ("fori", lambda loop: replace(loop, counters=())),
    "begins with what lies in the result": (
        "fori",
        lambda loop: replace(
            loop, carried=tuple(c._replace(initial=c.result) for c in loop.carried)
        ),
    ),
    "runs another branch": (
        "switch",
        lambda loop: (
            loop
            if loop.branch is None
            else replace(loop, branch=(loop.branch + 1) % loop.n_branches)
        ),
    ),
}


@drawing
@pytest.mark.parametrize("fault", LAUNCHER_FAULTS)
def test_a_fault_that_is_planted_in_the_launcher_is_found(
    fault: str, monkeypatch: pytest.MonkeyPatch
):
    operation, change = LAUNCHER_FAULTS[fault]
    make_table = CpuBatchLauncher.make_table

    def spoil(item: BatchItem) -> BatchItem:
        return (
            change(replace(item, body=tuple(map(spoil, item.body))))
            if isinstance(item, Repeat)
            else item
        )

    monkeypatch.setattr(
        CpuBatchLauncher,
        "make_table",
        lambda self, launches: make_table(self, [spoil(item) for item in launches]),
    )
    programs = [
        p for p, _ in draw_short_programs() if any(s.operation == operation for s in p.iter_steps())
    ]
    found = (check_program(program, "kernels") for program in programs)
    assert any(
        failure.kind.startswith(("wrong", "other bits")) for failure in found if failure is not None
    )
