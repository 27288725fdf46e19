"""Reference evaluation of a program: Python loops over NumPy, in float64, three times.

The first run is the expected result. In the two others, every rounded number is perturbed by a few
ULPs of its dtype. If integers or trip counts change, the program is ill-conditioned; the deviation
of floats gives the tolerance of a result."""

# Arrays have any dtype.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final

import numpy as np

from svod_testing.loop_programs.interpret import Function, run_program
from svod_testing.loop_programs.operations import OPERATIONS, compile_line
from svod_testing.loop_programs.program import Kind, LoopProgram
from svod_testing.programs.oracle import UnstableError

__all__ = [
    "Expected",
    "NumpyLibrary",
    "PythonLoops",
    "evaluate_program",
    "find_difference",
    "make_array",
    "make_arrays",
]

MAX_STEPS: Final = 60_000
"""Maximum number of executed operations, over all iterations."""

_LARGEST: Final = 1e4
_EPSILON: Final = {"float64": 2.0**-52, "float32": 2.0**-23}
_SLACK: Final = 32.0
_MARGIN: Final = 1e-3


@dataclass(frozen=True, slots=True)
class Expected:
    """Expected result: its value in each run, the exact one first, and its dtype."""

    runs: tuple[Any, ...]
    dtype: str


class PythonLoops:
    """Loops with the semantics of `jax.lax`, as Python loops."""

    def scan(
        self, f: Function, init: Any, xs: Any, *, length: int | None, reverse: bool, made: Any
    ) -> tuple[Any, Any]:
        count = len(next(_iter_leaves(xs))) if length is None else length
        rows: list[Any] = [None] * count
        order = range(count)
        for index in reversed(order) if reverse else order:
            init, rows[index] = f(init, _map_leaves(itemgetter(index), xs))
        return init, _map_leaves(_stack, made, *rows)

    def fori_loop(self, lower: Any, upper: Any, f: Function, init: Any) -> Any:
        for index in range(int(lower), int(upper)):
            init = f(index, init)
        return init

    def while_loop(self, cond: Function, f: Function, init: Any) -> Any:
        while cond(init):
            init = f(init)
        return init

    def cond(self, pred: Any, f: Function, g: Function, *operands: Any) -> Any:
        return f(*operands) if pred else g(*operands)

    def switch(self, index: Any, branches: Sequence[Function], *operands: Any) -> Any:
        return branches[min(max(int(index), 0), len(branches) - 1)](*operands)


class NumpyLibrary(PythonLoops):
    """NumPy with floats in float64; with a seed, rounded results are perturbed."""

    def __init__(self, variables: Mapping[str, int], seed: int | None = None) -> None:
        self._variables = variables
        self._rng = None if seed is None else np.random.default_rng(seed)
        self._n_steps = 0

    def bind(self, name: str) -> int:
        return self._variables[name]

    def to_counter(self, number: int) -> Any:
        return np.asarray(number, np.int32)

    def apply(
        self,
        operation: str,
        operands: Sequence[Any],
        args: Mapping[str, Any],
        kinds: Sequence[Kind],
    ) -> Any:
        self._n_steps += 1
        if self._n_steps > MAX_STEPS:
            raise UnstableError("too long")
        row, kind = OPERATIONS[operation], kinds[0]
        if row.is_decision and kinds[1].is_float:
            _check_decision(operation, operands)
        names = ("a", "b", "c")[: len(operands)] + tuple(args)
        with np.errstate(all="ignore"):
            result = np.asarray(compile_line(row.numpy, names, _namespace)(*operands, **args))
            if operation.startswith("write"):
                return result
            if result.shape != kind.shape:
                raise AssertionError(
                    f"{operation} has shape {result.shape}, not {kind.shape}: {args}"
                )
            if not kind.is_float:
                if result.dtype.name != kind.dtype:
                    raise AssertionError(f"{operation} has dtype {result.dtype}, not {kind.dtype}")
                return result
            result = result.astype(np.float64)
            if self._rng is not None and row.is_rounded:
                result = result + self._draw(result, operands, _EPSILON[kind.dtype])
        if not (np.abs(result) <= _LARGEST).all():
            raise UnstableError("too large")
        return result

    def _draw(self, result: Any, operands: Sequence[Any], epsilon: float) -> Any:
        assert self._rng is not None
        largest = max(
            (float(np.abs(o).max(initial=0.0)) for o in operands if o.dtype.kind == "f"),
            default=0.0,
        )
        away = self._rng.uniform(-1, 1, result.shape)
        return away * epsilon * (2 * np.abs(result) + 2 * largest)


def _iter_leaves(structure: Any) -> Iterator[Any]:
    if isinstance(structure, dict):
        for item in structure.values():
            yield from _iter_leaves(item)
    elif isinstance(structure, (tuple, list)):
        for item in structure:
            yield from _iter_leaves(item)
    elif structure is not None:
        yield structure


def _map_leaves(function: Callable[..., Any], first: Any, *others: Any) -> Any:
    """Map a function over the leaves of structures of the same nesting."""
    if isinstance(first, dict):
        return {
            key: _map_leaves(function, item, *(o[key] for o in others))
            for key, item in first.items()
        }
    if isinstance(first, (tuple, list)):
        return type(first)(
            _map_leaves(function, item, *(o[n] for o in others)) for n, item in enumerate(first)
        )
    return None if first is None else function(first, *others)


def _stack(kind: Kind, *rows: Any) -> Any:
    if rows:
        return np.stack(rows)
    return np.zeros(kind.shape, np.float64 if kind.is_float else kind.dtype)


def _check_decision(operation: str, operands: Sequence[Any]) -> None:
    """Reject numbers whose order or integer part may change by rounding."""
    first = operands[0]
    away = np.abs(first - operands[1]) if len(operands) > 1 else np.abs(first - np.round(first))
    if (away <= _MARGIN).any():
        raise UnstableError(f"rounding may change the result of {operation}")


def _namespace() -> dict[str, Any]:
    return {"np": np, "set_items": _set_items, "write": _write}


def _set_items(array: Any, index: Any, value: Any) -> Any:
    copy = array.copy()
    copy[index] = value
    return copy


def _write(array: Any, index: Any, value: Any) -> Any:
    array[index] = value
    return array


def make_arrays(program: LoopProgram, version: int = 0) -> dict[int, Any]:
    """Return the data of the inputs, in their dtypes, for a version."""
    kinds = {s.results[0]: program.kinds[s.results[0]] for s in program.inputs}
    seeds = [s.args["seed"] + 1000 * version for s in program.inputs]
    return {
        v: make_array(k.shape, k.dtype, seed)
        for (v, k), seed in zip(kinds.items(), seeds, strict=True)
    }


def make_array(shape: tuple[int, ...], dtype: str, seed: int) -> Any:
    """Return random data; floats are distinct, between -2.1 and 2.1, and never integers."""
    rng, kind = np.random.default_rng(seed), Kind(shape, dtype)
    if kind.dtype == "bool":
        return rng.integers(0, 2, kind.shape).astype(bool)
    if kind.is_int:
        return rng.integers(0 if kind.dtype.startswith("u") else -9, 10, kind.shape).astype(
            kind.dtype
        )
    spread = (rng.permutation(kind.size) - kind.size // 2) * (4 / max(kind.size, 16)) + 0.0625
    return spread.reshape(kind.shape).astype(kind.dtype)


def evaluate_program(program: LoopProgram, version: int = 0) -> list[Expected]:
    """Return the expected results of a program.

    Args:
        program: program to run.
        version: 0 or 1, selects the data of the inputs and the values of the variables.

    Raises:
        UnstableError: if the program is ill-conditioned with this data.
    """
    variables = {name: bounds[2 + version] for name, bounds in program.variables.items()}
    runs: list[list[Any]] = []
    for seed in (None, 1, 2):
        arrays = {v: _widen(a) for v, a in make_arrays(program, version).items()}
        runs.append([r.copy() for r in run_program(program, NumpyLibrary(variables, seed), arrays)])
    expected = [
        Expected(r, program.kinds[v].dtype)
        for r, v in zip(zip(*runs, strict=True), program.roots, strict=True)
    ]
    for result in expected:
        _check(result)
    return expected


def _widen(array: Any) -> Any:
    return array.astype(np.float64) if array.dtype.kind == "f" else array.copy()


def _check(result: Expected) -> None:
    exact, *moved = result.runs
    if any(o.shape != exact.shape for o in moved):
        raise UnstableError("rounding changes the size of a result")
    if not result.dtype.startswith("float"):
        if not all(np.array_equal(exact, o) for o in moved):
            raise UnstableError("rounding changes an integer result")
    elif exact.size and _get_tolerance(result) > (1e-3 if result.dtype == "float32" else 1e-9):
        raise UnstableError("rounding error above the tolerance of the dtype")


def _get_tolerance(result: Expected) -> float:
    exact, *moved = result.runs
    largest = float(np.abs(exact).max(initial=0.0))
    away = max(float(np.abs(exact - o).max(initial=0.0)) for o in moved)
    return _SLACK * max(away, _EPSILON[result.dtype] * largest) + 1e-30


def find_difference(array: Any, result: Expected) -> str | None:
    """Describe the difference of a result from the expected value; None if they agree."""
    exact = result.runs[0]
    if array.shape != exact.shape:
        return f"shape {array.shape} instead of {exact.shape}"
    if array.dtype.name != result.dtype:
        return f"dtype {array.dtype.name} instead of {result.dtype}"
    if not exact.size:
        return None
    if result.dtype.startswith("float"):
        wrong = ~(np.abs(array.astype(np.float64) - exact) <= _get_tolerance(result))
    else:
        wrong = array != exact
    if not wrong.any():
        return None
    index = tuple(int(i) for i in np.argwhere(wrong)[0])
    return (
        f"wrong: {int(wrong.sum())} of {wrong.size} elements, {array[index]} instead of"
        f" {exact[index]} at {index}"
    )
