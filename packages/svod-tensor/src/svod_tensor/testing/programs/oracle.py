"""What a program means: each step in numpy, in float64, three times.

The first run is the expected result. In the two others every rounded number is moved by a few units of the last place of
its dtype: where integers, comparisons or infinities change, the program is ill-conditioned, and how far floats go tells
how exact a result can be.
"""

# Arrays of any dtype come and go.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from svod_tensor.testing.programs.operation import Operation, common, is_float
from svod_tensor.testing.programs.program import Program, Step

__all__ = [
    "LARGEST",
    "N_RUNS",
    "UnstableError",
    "Value",
    "evaluate_program",
    "evaluate_step",
    "find_difference",
    "make_arrays",
]

N_RUNS: Final = 3
LARGEST: Final = 1e4
"""Larger numbers end a program: what follows would be dominated by them."""

MAX_ELEMENTS: Final = 4096

_EPSILON: Final = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
_UNITS_AWAY: Final = {"float64": 3.0, "float32": 3.0, "float16": 1.0, "bfloat16": 1.0}
_SLACK: Final = 16.0
_INEXACT: Final = {"float64": 0.02, "float32": 0.02, "float16": 0.1, "bfloat16": 0.3}


class UnstableError(Exception):
    """A step that is not for a random program: too large, ill-conditioned or undefined."""


@dataclass(frozen=True, slots=True)
class Value:
    """A value in each of the runs, the first of them the exact one."""

    runs: tuple[Any, ...]
    dtype: str

    @property
    def array(self) -> Any:
        return self.runs[0]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.runs[0].shape

    @property
    def ndim(self) -> int:
        return self.runs[0].ndim

    @property
    def size(self) -> int:
        return self.runs[0].size

    @property
    def is_float(self) -> bool:
        return is_float(self.dtype)


def evaluate_program(program: Program, seed: int = 0) -> dict[int, Value]:
    """Every value of a program, with the data that its inputs have for this seed.

    Raises:
        UnstableError: if the program is ill-conditioned with this data, or means nothing.
    """
    from svod_tensor.testing.programs.operations import OPERATIONS

    values: dict[int, Value] = {}
    for step in program.steps:
        operands = [values[v] for v in step.operands]
        made = evaluate_step(OPERATIONS[step.operation], step, operands, seed)
        values.update(zip(step.results, made, strict=True))
    return values


def evaluate_step(operation: Operation, step: Step, operands: Sequence[Value], seed: int = 0) -> list[Value]:
    """The results of a step.

    Raises:
        UnstableError: if they are ill-conditioned.
    """
    named = step.named
    if step.operation == "input":
        named["shift"] = seed
    dtypes = [v.dtype for v in operands]
    kinds = operation.dtype(*dtypes, **named)
    rng = np.random.default_rng(step.results[0])
    runs: list[list[Any]] = []
    names: tuple[str, ...] = ()
    with np.errstate(all="ignore"):
        wanted = common(*dtypes) if operation.converts else ""
        for run in range(N_RUNS):
            arrays = [v.runs[run] for v in operands]
            if operation.converts:
                arrays = [_convert(a, wanted) for a in arrays]
            found = operation.meaning(*arrays, **named)
            parts = found if isinstance(found, (tuple, list)) else (found,)
            names = (kinds,) * len(parts) if isinstance(kinds, str) else kinds
            runs.append([_convert(np.asarray(p), k) for p, k in zip(parts, names, strict=True)])
        results = [_perturb(operation, list(r), k, rng) for r, k in zip(zip(*runs, strict=True), names, strict=True)]
    for value in results:
        _check(value)
    return results


def _convert(array: Any, dtype: str) -> Any:
    return array.astype(np.float64 if is_float(dtype) else dtype, copy=False)


def _round(array: Any, dtype: str) -> Any:
    """As numbers of the dtype are."""
    if dtype == "float64":
        return array
    if dtype == "bfloat16":
        bits = array.astype(np.float32).view(np.uint32)
        return (bits + 0x7FFF + ((bits >> 16) & 1) & 0xFFFF0000).astype(np.uint32).view(np.float32).astype(np.float64)
    return array.astype(dtype).astype(np.float64)


def _perturb(operation: Operation, runs: list[Any], dtype: str, rng: np.random.Generator) -> Value:
    """The runs but the first moved where numbers were rounded."""
    if not is_float(dtype) or operation.rounding == "never" or not runs[0].size:
        return Value(tuple(runs), dtype)
    exact = runs[0]
    # In float64 the oracle itself rounds; a number with few bits was exact.
    is_rounded = (
        True if operation.rounding == "always" else _round(exact, "float32" if dtype == "float64" else dtype) != exact
    )
    for run in range(1, N_RUNS):
        sign = rng.integers(0, 2, exact.shape) * 2 - 1
        away = sign * rng.uniform(0.8, 1.2, exact.shape) * (_UNITS_AWAY[dtype] * _EPSILON[dtype])
        runs[run] = np.where(is_rounded, runs[run] * (1 + away), runs[run])
    return Value(tuple(runs), dtype)


def _check(value: Value) -> None:
    exact = value.array
    if exact.size > MAX_ELEMENTS:
        raise UnstableError("too many elements")
    if not value.is_float:
        if not all(np.array_equal(exact, other) for other in value.runs[1:]):
            raise UnstableError("integers jump")
        return
    finite = np.isfinite(exact)
    for other in value.runs[1:]:
        if not np.array_equal(np.where(finite, 0, exact), np.where(np.isfinite(other), 0, other), equal_nan=True):
            raise UnstableError("infinities jump")
    largest = np.abs(exact, where=finite, out=np.zeros(exact.shape)).max(initial=0)
    if largest > LARGEST:
        raise UnstableError("too large")
    if _tolerance(value) > _INEXACT[value.dtype] * max(largest, 1e-3):
        raise UnstableError("too inexact")


def _tolerance(value: Value) -> float:
    """How far a result may be from the exact one, absolutely."""
    exact = value.array
    if not exact.size:
        return 0.0
    with np.errstate(all="ignore"):
        away = max(float(np.nanmax(np.where(np.isfinite(exact), np.abs(exact - o), 0.0))) for o in value.runs[1:])
    return _SLACK * away


def find_difference(found: Any, value: Value) -> str | None:
    """What is wrong with a result, None where it agrees."""
    exact = value.array
    if found.shape != exact.shape:
        return f"shape {found.shape} instead of {exact.shape}"
    if found.dtype.name != value.dtype:
        return f"dtype {found.dtype.name} instead of {value.dtype}"
    if not exact.size:
        return None
    if not value.is_float:
        wrong = found != exact
        return f"wrong: {_count(wrong)}, {_example(found, exact, wrong)}" if wrong.any() else None
    wide = found.astype(np.float64)
    finite = np.isfinite(exact)
    with np.errstate(all="ignore"):
        far = ~(np.abs(wide - exact) <= _tolerance(value) + 8 * _EPSILON[value.dtype] * np.abs(exact))
        same = (wide == exact) | (np.isnan(wide) & np.isnan(exact))
    wrong = np.where(finite, far, ~same)
    if not wrong.any():
        return None
    return f"wrong: {_count(wrong)}, {_example(wide, exact, wrong)}"


def _count(wrong: Any) -> str:
    return f"{int(wrong.sum())} of {wrong.size} elements"


def _example(found: Any, exact: Any, wrong: Any) -> str:
    place = tuple(int(i) for i in np.argwhere(wrong)[0])
    return f"{found[place]} instead of {exact[place]} at {place}"


def make_arrays(program: Program, seed: int = 0) -> Mapping[int, Any]:
    """The data of the inputs, in their dtypes."""
    from svod_tensor.testing.programs.operations import make_data

    return {s.results[0]: make_data(**s.named, shift=seed) for s in program.inputs}
