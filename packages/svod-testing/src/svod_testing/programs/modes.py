"""Modes of computing a program, and checks of their results.

Example:
    A wrong result is described by a failure. Here the expected value is wrong:

    >>> import numpy as np
    >>> from svod_testing.programs import Failure, Program, Step, Value, check_program
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
    """Failure of a program in a mode.

    Attributes:
        mode: mode in which the program was computed.
        kind: key of the failure, equal for failures that seem to have one cause.
        message: traceback of the error, or the difference of a result.
    """

    mode: str
    kind: str
    message: str


@dataclass(frozen=True, slots=True)
class Mode:
    """A way to compute the results of a program.

    Attributes:
        compute: function of the program, the input arrays and the configuration, which returns the
            results.
        config: configuration that prepares the kernels.
        captures: True if the program is captured.
        least_work: minimum work of a kernel that is split over threads; None for the default.
        weight: sampling weight; lower for modes with kernels that no other mode compiles.
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
    """Compute a program in a mode, and return the failure; None if the results are correct.

    Args:
        program: the program.
        mode: name of the mode, a key of `MODES`.
        device: device of the inputs; by default the CPU.
        values: expected values by index of the value; by default computed with numpy.
    """
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
            computed = [r.numpy(copy=True) for r in results]
    except Exception as error:
        return Failure(mode, describe_error(error), "".join(traceback.format_exception(error)))
    for index, (root, array) in enumerate(zip(program.roots, computed, strict=True)):
        difference = find_difference(array, expected[seeds[-1]][root])
        if difference is not None:
            return Failure(
                mode, _kind_of(mode, difference), f"result {index} (x{root}): {difference}"
            )
    return None


@contextmanager
def using_threads(least_work: int | None) -> Generator[None]:
    """Split kernels of at least this work over threads within the block; None changes nothing.

    The caches are cleared before and after, since they hold kernels with other limits.
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
"""The modes by name."""


def describe_error(error: BaseException) -> str:
    """Return a key of an error: its type, its message without numbers, and where it was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    frame = next(
        (f for f in reversed(frames) if "svod" in f.filename and "/testing/" not in f.filename),
        None,
    )
    where = f"{frame.filename.rpartition('/')[2]}:{frame.name}" if frame else "?"
    return f"{type(error).__name__}: {_shape_of(str(error))} ({where})"


def _shape_of(message: str) -> str:
    line = message.strip().split("\n")[0].partition(": END(")[0].partition(": RANGE(")[0]
    return re.sub(r"0x[0-9a-f]+|-?\d+(\.\d+)?(e[+-]?\d+)?", "#", line)[:120]


def _kind_of(mode: str, difference: str) -> str:
    kind = difference.split(":")[0].split(" ")[0]
    return f"{kind} in the first call" if mode == "jit first" else kind
