"""Reference evaluation of a program: each step in NumPy, in float64, three times.

The first run is the expected result. In the two others, every rounded number is perturbed by a few
ULPs of its dtype. If integers, comparisons or infinities change, the program is ill-conditioned;
the deviation of floats gives the tolerance of a result.

Example:
    Numbers as large as `1e30` are rejected, since sums and products in float32 are not predictable:

    >>> from svod_testing.programs import Program, Step, UnstableError, Value, evaluate_program
    >>> full = Step("full", (), (0,), (("shape", (2,)), ("c", 1e30)))
    >>> try:
    ...     evaluate_program(Program((full,), roots=(0,)))
    ... except UnstableError as error:
    ...     print(error)
    magnitude above 10000
    >>> third = Step("full", (), (0,), (("shape", (2,)), ("c", 1 / 3)))
    >>> value = evaluate_program(Program((third,), roots=(0,)))[0]
    >>> isinstance(value, Value), value.dtype, value.shape
    (True, 'float32', (2,))
"""

# Arrays have any dtype.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from svod_testing.programs.operation import Drawable, common, is_float
from svod_testing.programs.program import Step

__all__ = [
    "LARGEST",
    "N_RUNS",
    "UnstableError",
    "Value",
    "evaluate_step",
    "find_difference",
]

N_RUNS: Final = 3
LARGEST: Final = 1e4
"""Largest magnitude in a program: larger numbers would dominate all later results."""

MAX_ELEMENTS: Final = 4096

_STEPS: Final[Mapping[str, Callable[[Sequence[Any], Sequence[Any]], Sequence[Any]]]] = {
    **dict.fromkeys(
        ("floor", "ceil", "trunc", "round", "floor_divide"), lambda _operands, results: results
    ),
    "remainder": lambda operands, _results: [np.floor(operands[0] / operands[1])],
}
"""Integers that operations on floats depend on: rounding of an operand may change one by 1."""
_LARGEST_EXACT: Final = 2.0**24
_N_DECISIONS: Final = 8
"""Number of random perturbations that must leave an integer or bool result unchanged."""

_EPSILON: Final = {
    "float64": 2.0**-52,
    "float32": 2.0**-23,
    "float16": 2.0**-10,
    "bfloat16": 2.0**-7,
}
_UNITS_AWAY: Final = {"float64": 3.0, "float32": 3.0, "float16": 1.0, "bfloat16": 1.0}
_SLACK: Final = 16.0
_TINY: Final = 1e-30
"""Smaller numbers may have become zero."""
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


def evaluate_step(
    operation: Drawable, step: Step, operands: Sequence[Value], seed: int = 0
) -> list[Value]:
    """The results of a step.

    Raises:
        UnstableError: if they are ill-conditioned.
    """
    named = step.named
    if step.operation == "input":
        named["shift"] = seed
    dtypes = [v.dtype for v in operands]
    kinds = operation.dtype(*dtypes, **named)
    runs: list[list[Any]] = []
    names: tuple[str, ...] = ()
    with np.errstate(all="ignore"):
        promoted = common(*dtypes) if operation.converts else ""
        # Until a number is rounded, the three runs are equal and computed once.
        is_composed = operation.rounding in ("always", "absolutely")
        n_runs = N_RUNS if is_composed or any(v.runs[1] is not v.runs[0] for v in operands) else 1
        for run in range(n_runs):
            arrays = [v.runs[run] for v in operands]
            if operation.converts:
                arrays = [_convert(a, promoted) for a in arrays]
            if run and is_composed:
                # Rounding inside a function has the effect of a perturbation of its operands.
                arrays = [
                    _move(a, d, step.results[0] + run) for a, d in zip(arrays, dtypes, strict=True)
                ]
            if run == 0:
                _check_operands(operation, arrays, dtypes, named)
            result = operation.meaning(*arrays, **named)
            outputs = result if isinstance(result, (tuple, list)) else (result,)
            names = (kinds,) * len(outputs) if isinstance(kinds, str) else kinds
            runs.append([_convert(np.asarray(p), k) for p, k in zip(outputs, names, strict=True)])
        _check_integers(operands, names)
        if operation.name in _STEPS or not all(map(is_float, names)):
            _check_decisions(operation, operands, promoted, named, step.results[0])
        runs += runs[:1] * (N_RUNS - n_runs)
        if operation.name in ("add", "sub") and n_runs > 1:
            _contract(runs, [v.array for v in operands], common(*dtypes), step.results[0])
        results = [
            _perturb(operation, list(r), k, dtypes, step.results[0])
            for r, k in zip(zip(*runs, strict=True), names, strict=True)
        ]
    for value in results:
        _check(value)
    return results


def _contract(runs: list[list[Any]], operands: Sequence[Any], dtype: str, seed: int) -> None:
    """Perturb the runs of a sum by the rounding error of a product.

    A fused multiply-add does not round the product, so that equal products may differ.
    """
    if is_float(dtype):
        size = np.maximum(*(np.abs(a.astype(np.float64)) for a in operands)) * _EPSILON[dtype]
        size = np.where(np.isfinite(size), size, 0.0)
        for run in range(1, N_RUNS):
            runs[run][0] = (
                runs[run][0] + np.random.default_rng(seed + run).uniform(-1, 1, size.shape) * size
            )


def _check_integers(operands: Sequence[Value], dtypes: Sequence[str]) -> None:
    """Reject floats computed from integers that float32 does not represent exactly."""
    if any(is_float(d) for d in dtypes) and any(
        not v.is_float
        and v.dtype != "bool"
        and (np.abs(v.array.astype(np.float64)) > _LARGEST_EXACT).any()
        for v in operands
    ):
        raise UnstableError("integers that float32 cannot represent")


def _check_decisions(
    operation: Drawable,
    operands: Sequence[Value],
    promoted: str,
    named: Mapping[str, Any],
    seed: int,
) -> None:
    """Reject integers and bools computed from floats if rounding may change them.

    These are ties, and numbers that may be zero.
    """
    away = {
        i: _get_distance(v)
        for i, v in enumerate(operands)
        if v.is_float and v.runs[1] is not v.runs[0]
    }
    if any(((np.abs(operands[i].array) <= far) & (far > 0)).any() for i, far in away.items()):
        raise UnstableError("rounding may make an operand zero")
    rng = np.random.default_rng(seed)
    decided: list[Any] | None = None
    for _ in range(_N_DECISIONS if away else 0):
        arrays = [v.array for v in operands]
        for i, far in away.items():
            arrays[i] = arrays[i] + rng.uniform(-1, 1, far.shape) * far
        if promoted:
            arrays = [_convert(a, promoted) for a in arrays]
        result = operation.meaning(*arrays, **named)
        outputs = [
            np.asarray(p) for p in (result if isinstance(result, (tuple, list)) else (result,))
        ]
        step = _STEPS.get(operation.name)
        choices = (
            [p for p in outputs if p.dtype.kind != "f"]
            if step is None
            else list(step(arrays, outputs))
        )
        if decided is not None and not all(map(np.array_equal, decided, choices)):
            raise UnstableError("rounding may change an integer or bool result")
        decided = choices


def _check_operands(
    operation: Drawable, arrays: Sequence[Any], dtypes: Sequence[str], named: Mapping[str, Any]
) -> None:
    """Refuse comparisons of numbers that rounding may make equal or different."""
    floats = [d for d in dtypes if is_float(d)]
    if not floats:
        return
    if operation.compares:
        left, right = arrays if len(arrays) == 2 else (arrays[0], np.asarray(named["c"]))
        away = np.abs(left - right)
        margin = 64 * max(_EPSILON[d] for d in floats) * (np.abs(left) + np.abs(right)) + _TINY
        if ((away > 0) & (away <= margin)).any():
            raise UnstableError("rounding may change a comparison of nearly equal operands")
    if operation.orders and any(
        (np.abs(a) <= _TINY)[a != 0].any() for a in arrays if a.dtype.kind == "f"
    ):
        raise UnstableError("rounding may make an operand zero")


def _convert(array: Any, dtype: str) -> Any:
    return array.astype(np.float64 if is_float(dtype) else dtype, copy=False)


def _round(array: Any, dtype: str) -> Any:
    """Round to a dtype, and return float64."""
    if dtype == "float64":
        return array
    if dtype == "bfloat16":
        bits = array.astype(np.float32).view(np.uint32)
        return (
            (bits + 0x7FFF + ((bits >> 16) & 1) & 0xFFFF0000)
            .astype(np.uint32)
            .view(np.float32)
            .astype(np.float64)
        )
    return array.astype(dtype).astype(np.float64)


def _move(array: Any, dtype: str, seed: int) -> Any:
    """Perturb the floats of an operand by about one ULP."""
    if not is_float(dtype) or array.dtype.kind != "f":
        return array
    return array * (1 + np.random.default_rng(seed).uniform(-1, 1, array.shape) * _EPSILON[dtype])


def _perturb(
    operation: Drawable, runs: list[Any], dtype: str, dtypes: Sequence[str], seed: int
) -> Value:
    """The runs but the first moved where numbers were rounded."""
    if not is_float(dtype) or operation.rounding == "never" or not runs[0].size:
        return Value(tuple(runs), dtype)
    exact, unit = runs[0], _UNITS_AWAY[dtype] * _EPSILON[dtype]
    if operation.rounding != "rarely":
        # Parts of a composed function may be computed in the dtype of one operand.
        unit = max(unit, *(_UNITS_AWAY[d] * _EPSILON[d] for d in dtypes if is_float(d)), 0.0)
    is_rounded: Any = True
    if operation.rounding == "rarely":
        # In float64 the oracle itself rounds; a number with few bits was exact.
        is_rounded = _round(exact, "float32" if dtype == "float64" else dtype) != exact
        if not is_rounded.any():
            return Value(tuple(runs), dtype)
    rng = np.random.default_rng(seed)
    for run in range(1, N_RUNS):
        away = rng.uniform(-0.4, 0.4, exact.shape)
        away += np.copysign(0.8, away)
        away *= unit
        moved = runs[run] * (1 + away)
        if operation.rounding == "absolutely":
            moved += away
        runs[run] = np.where(is_rounded, moved, runs[run])
    return Value(tuple(runs), dtype)


def _check(value: Value) -> None:
    exact = value.array
    if exact.size > MAX_ELEMENTS:
        raise UnstableError(f"more than {MAX_ELEMENTS} elements")
    if not value.is_float:
        if not all((exact == moved).all() for moved in value.runs[1:]):
            raise UnstableError("rounding changes an integer result")
        return
    finite = np.isfinite(exact)
    if finite.all():
        largest = float(np.abs(exact).max(initial=0.0))
    else:
        for moved in value.runs[1:]:
            if not np.array_equal(
                np.where(finite, 0, exact), np.where(np.isfinite(moved), 0, moved), equal_nan=True
            ):
                raise UnstableError("rounding changes which elements are infinite")
        largest = float(np.abs(exact[finite]).max(initial=0.0))
    if value.dtype == "float16" and (np.abs(exact) < 1e-3)[exact != 0].any():
        raise UnstableError("float16 magnitude below 1e-3")
    if largest > LARGEST:
        raise UnstableError(f"magnitude above {LARGEST:g}")
    if not _tolerance(value) <= _INEXACT[value.dtype] * max(largest, 1e-3):
        raise UnstableError("rounding error above the tolerance of the dtype")


def _get_distance(value: Value) -> Any:
    """Return the maximum deviation of each element from the exact result."""
    exact, *moved = value.runs
    distance = 4 * np.max([np.abs(exact - run) for run in moved], axis=0)
    return np.where(np.isfinite(distance), distance, 0.0)


def _tolerance(value: Value) -> float:
    """Return the absolute tolerance of a result."""
    exact, *moved = value.runs
    if not exact.size or all(run is exact for run in moved):
        return 0.0
    finite = np.isfinite(exact)
    if not finite.all():
        exact, moved = exact[finite], [run[finite] for run in moved]
    return _SLACK * max(float(np.abs(exact - run).max(initial=0.0)) for run in moved)


def find_difference(array: Any, value: Value) -> str | None:
    """Describe the difference of a result from the expected value; None if they agree."""
    exact = value.array
    if array.shape != exact.shape:
        return f"shape {array.shape} instead of {exact.shape}"
    if array.dtype.name != value.dtype:
        return f"dtype {array.dtype.name} instead of {value.dtype}"
    if not exact.size:
        return None
    if not value.is_float:
        wrong = array != exact
        return f"wrong: {_count(wrong)}, {_example(array, exact, wrong)}" if wrong.any() else None
    wide = array.astype(np.float64)
    finite = np.isfinite(exact)
    with np.errstate(all="ignore"):
        far = ~(
            np.abs(wide - exact)
            <= _tolerance(value) + 8 * _EPSILON[value.dtype] * np.abs(exact) + _TINY
        )
        same = (wide == exact) | (np.isnan(wide) & np.isnan(exact))
    wrong = np.where(finite, far, ~same)
    if not wrong.any():
        return None
    return f"wrong: {_count(wrong)}, {_example(wide, exact, wrong)}"


def _count(wrong: Any) -> str:
    return f"{int(wrong.sum())} of {wrong.size} elements"


def _example(array: Any, exact: Any, wrong: Any) -> str:
    index = tuple(int(i) for i in np.argwhere(wrong)[0])
    return f"{array[index]} instead of {exact[index]} at {index}"
