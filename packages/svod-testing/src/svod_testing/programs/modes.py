"""The ways to compute a program, and what is wrong with what they give.

Example:
    A wrong result is found, and described. Here the expected value is what is wrong:

    >>> import numpy as np
    >>> from svod_testing.programs import Program, Step, Value
    >>> program = Program((Step("full", (), (0,), (("shape", (2,)), ("c", 9.0))),), roots=(0,))
    >>> wrong = np.array([9.0, 8.0])
    >>> failure = check_program(program, "each", values={0: Value((wrong, wrong, wrong), "float32")})
    >>> isinstance(failure, Failure), failure.kind
    (True, 'wrong')
    >>> print(failure.message)
    result 0 (x0): wrong: 1 of 2 elements, 9.0 instead of 8.0 at (1,)
"""

# Arrays of any dtype come and go.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from svod_schedule.testing import force_threads
from svod_tensor import PrepareConfig, Tensor, clear_caches, jit
from svod_testing.programs.code import build
from svod_testing.programs.meaning import evaluate_program, make_arrays
from svod_testing.programs.operations import OPERATIONS
from svod_testing.programs.oracle import UnstableError, Value, find_difference
from svod_testing.programs.program import Program

__all__ = ["MODES", "Failure", "Mode", "check_program", "describe_error", "using_threads"]

_USUAL: Final = PrepareConfig()

Results = Sequence[Any]
Arrays = Mapping[int, Any]


@dataclass(frozen=True, slots=True)
class Failure:
    """What was wrong.

    Attributes:
        mode: in which a program was computed.
        kind: the same for failures that seem to have one cause.
        message: what was raised, or how a result differs.
    """

    mode: str
    kind: str
    message: str


@dataclass(frozen=True, slots=True)
class Mode:
    """A way to compute the results of a program.

    Attributes:
        compute: gives the results; it is given arrays, and the configuration.
        config: how kernels are prepared.
        captures: whether the program is captured.
        least_work: from how much work on a kernel is split over threads; None leaves that as it is.
        weight: how often it is drawn: less where kernels are compiled that other modes do not need.
    """

    compute: Callable[[Program, Arrays, PrepareConfig], Results]
    config: PrepareConfig = _USUAL
    captures: bool = False
    least_work: int | None = None
    weight: float = 1.0


def check_program(
    program: Program,
    mode: str,
    *,
    device: str | None = None,
    values: Mapping[int, Value] | None = None,
) -> Failure | None:
    """What is wrong with the results that a program has in a mode, None where they are right."""
    chosen = MODES[mode]
    if chosen.captures and _realizes(program):
        return None
    seeds = (0, 1) if chosen.compute is _jit_again else (0,)
    try:
        expected = {
            s: values if values is not None and s == 0 else evaluate_program(program, s)
            for s in seeds
        }
    except (UnstableError, ValueError, IndexError, TypeError, OverflowError, ZeroDivisionError):
        return None
    arrays = make_arrays(program, seeds[-1])
    if device is not None:
        arrays = {v: Tensor(a).to(device) for v, a in arrays.items()}
    try:
        with using_threads(chosen.least_work):
            results = chosen.compute(program, arrays, chosen.config)
            found = [r.numpy(copy=True) for r in results]
    except Exception as error:
        return Failure(mode, describe_error(error), "".join(traceback.format_exception(error)))
    for number, (root, array) in enumerate(zip(program.roots, found, strict=True)):
        difference = find_difference(array, expected[seeds[-1]][root])
        if difference is not None:
            return Failure(
                mode, _kind_of(mode, difference), f"result {number} (x{root}): {difference}"
            )
    return None


@contextmanager
def using_threads(least_work: int | None) -> Generator[None]:
    """Let kernels of so much work be split over threads, with caches that hold no others; None
    leaves all as it is.
    """
    if least_work is None:
        yield
        return
    clear_caches()
    try:
        with force_threads(least_work):
            yield
    finally:
        clear_caches()


def _tensors(arrays: Arrays) -> dict[int, Any]:
    return {v: array if isinstance(array, Tensor) else Tensor(array) for v, array in arrays.items()}


def _realize_batch(program: Program, arrays: Arrays, config: PrepareConfig) -> Results:
    results = build(program, _tensors(arrays))
    Tensor.realize_batch_with(results, config)
    return results


def _realize_each(program: Program, arrays: Arrays, config: PrepareConfig) -> Results:
    results = build(program, _tensors(arrays))
    for result in results:
        result.realize_with(config)
    return results


def _prepare(program: Program, arrays: Arrays, config: PrepareConfig) -> Results:
    results = build(program, _tensors(arrays))
    pending = [r for r in results if r.size and not r.is_realized]
    if pending:
        plan = Tensor.prepare_batch_with(pending, config)
        plan.execute()
        if not _realizes(program):
            plan.execute()
    return results


def _realizes(program: Program) -> bool:
    return any(OPERATIONS[step.operation].realizes for step in program.steps)


def _capture(program: Program, config: PrepareConfig) -> Callable[..., tuple[Any, ...]]:
    numbers = [s.results[0] for s in program.inputs]

    @jit(config=config)
    def run(*inputs: Any) -> tuple[Any, ...]:
        return tuple(build(program, dict(zip(numbers, inputs, strict=True))))

    return run


def _jit_first(program: Program, arrays: Arrays, config: PrepareConfig) -> Results:
    return _capture(program, config)(*_tensors(arrays).values())


def _jit_second(program: Program, arrays: Arrays, config: PrepareConfig) -> Results:
    run, inputs = _capture(program, config), _tensors(arrays)
    run(*inputs.values())
    return run(*inputs.values())


def _jit_again(program: Program, arrays: Arrays, config: PrepareConfig) -> Results:
    run = _capture(program, config)
    first = run(*_tensors(make_arrays(program, 0)).values())
    again = run(*_tensors(arrays).values())
    del first
    return again


MODES: Final[dict[str, Mode]] = {
    "batch": Mode(_realize_batch),
    "prepare": Mode(_prepare),
    "jit first": Mode(_jit_first, captures=True),
    "jit second": Mode(_jit_second, captures=True),
    "jit again": Mode(_jit_again, captures=True),
    "remap": Mode(_realize_batch, PrepareConfig(memory_planner="remap")),
    "own memory": Mode(_realize_batch, PrepareConfig(memory_planner="disabled")),
    "no schedule cache": Mode(_realize_batch, PrepareConfig(disable_schedule_cache=True)),
    "each": Mode(_realize_each, weight=0.4),
    "no opts": Mode(_realize_batch, PrepareConfig(opts=()), weight=0.4),
    "no opts each": Mode(_realize_each, PrepareConfig(opts=()), weight=0.3),
    "threads": Mode(_realize_batch, least_work=1, weight=0.4),
    "one thread": Mode(_realize_batch, least_work=1 << 62, weight=0.1),
    "c": Mode(_realize_batch, PrepareConfig(backend="c"), weight=0.1),
}


def describe_error(error: BaseException) -> str:
    """The type, the shape of the message, and where it was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    place = next(
        (f for f in reversed(frames) if "svod" in f.filename and "/testing/" not in f.filename),
        None,
    )
    where = f"{place.filename.rpartition('/')[2]}:{place.name}" if place else "?"
    return f"{type(error).__name__}: {_shape_of(str(error))} ({where})"


def _shape_of(message: str) -> str:
    line = message.strip().split("\n")[0].partition(": END(")[0].partition(": RANGE(")[0]
    return re.sub(r"0x[0-9a-f]+|-?\d+(\.\d+)?(e[+-]?\d+)?", "#", line)[:120]


def _kind_of(mode: str, difference: str) -> str:
    kind = difference.split(":")[0].split(" ")[0]
    return f"{kind} in the first call" if mode == "jit first" else kind
