"""Random program with loops under construction: choices, and values of requested kinds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from svod_testing.loop_programs.program import Kind, LoopStep
from svod_testing.programs.draw import Choices, RejectedError

__all__ = ["BOOL", "DTYPES", "SCALAR", "SIZES", "ValueDraw", "find_broadcast", "get_row"]

DTYPES: Final = ("float32",) * 12 + ("int32",) * 5 + ("float64", "int64", "bool", "uint8", "int8")
SIZES: Final = (1, 2, 3, 3, 4, 5, 5, 7, 8, 11, 13, 16)
BOOL: Final = "bool"
SCALAR: Final = Kind((), "int32")
_MAX_SIZE: Final = 300


class ValueDraw(Choices):
    """Program under construction: the steps of the innermost block, and the values in its scope."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.kinds: dict[int, Kind] = {}
        self.steps: list[LoopStep] = []
        self.scope: list[int] = []
        self.memory: list[int] = []

    def kind(self) -> Kind:
        shape = tuple(self.choose(SIZES) for _ in range(self.choose((0, 0, 1, 1, 1, 2, 2, 3))))
        if shape and self.chance(0.03):
            shape = (0, *shape[1:])
        kind = Kind(shape, self.choose(DTYPES))
        return kind if kind.size <= _MAX_SIZE else self.kind()

    def value(self, fits: Callable[[Kind], bool] = lambda kind: True) -> int:
        """Pick a value that satisfies `fits`, often a recent one."""
        fitting = [v for v in self.scope if fits(self.kinds[v])]
        return self.choose(fitting[-4:] if self.chance(0.6) else fitting)

    # Steps.

    def new(self, kind: Kind) -> int:
        if kind.size > _MAX_SIZE:
            raise RejectedError
        value = len(self.kinds)
        self.kinds[value] = kind
        return value

    def add(self, operation: str, operands: Sequence[int], kind: Kind, **args: Any) -> int:
        result = self.new(kind)
        self.steps.append(LoopStep(operation, tuple(operands), (result,), args))
        self.scope.append(result)
        return result

    def input(self, kind: Kind) -> int:
        return self.add("input", (), kind, seed=self.number(0, 99))

    def constant(self, kind: Kind) -> int:
        fill: Any = self.chance(0.5)
        if kind.dtype != BOOL:
            fill = self.choose((0.5, -0.25, 1.0)) if kind.is_float else self.number(0, 5)
        return self.add("full", (), kind, shape=kind.shape, k=fill, dtype=kind.dtype)

    def part(self, kind: Kind) -> tuple[tuple[Any, ...], tuple[int, ...]]:
        """Pick an index of slices and integers; return it with the shape of the selection."""
        index: list[Any] = []
        shape: list[int] = []
        for size in kind.shape[: self.number(1, kind.ndim)]:
            begin = self.number(0, size - 1)
            if self.chance(0.4):
                index.append(begin)
            elif self.chance(0.7):
                end = self.number(begin + 1, size)
                index.append(slice(begin, end))
                shape.append(end - begin)
            else:
                step = self.number(2, 3)
                index.append(slice(begin, None, step))
                shape.append(len(range(begin, size, step)))
        return tuple(index), (*shape, *kind.shape[len(index) :])

    def fit(self, value: int, kind: Kind) -> int:
        """Convert a value to another kind: dtype and shape."""
        value = self.convert(value, kind.dtype)
        current = self.kinds[value]
        if current.shape == kind.shape:
            return value
        if not _broadcasts(current.shape, kind.shape):
            if current.size == 0:
                return self.constant(kind)
            if current.size == kind.size:
                return self.add("reshape", (value,), kind, shape=kind.shape)
            name = (
                self.choose(("amax", "amin")) if kind.dtype != BOOL else self.choose(("any", "all"))
            )
            value = self.add(name, (value,), replace(current, shape=()), axis=None, keepdims=False)
        return self.add("expand", (value,), kind, shape=kind.shape) if kind.shape else value

    def convert(self, value: int, dtype: str) -> int:
        current = self.kinds[value]
        if current.dtype == dtype:
            return value
        kind = replace(current, dtype=dtype)
        if current.is_float:
            if dtype == BOOL:
                bound = self.add(
                    "full", (), replace(current, shape=()), shape=(), k=0.3, dtype=current.dtype
                )
                return self.add("lt", (value, bound), kind)
            if kind.is_float:
                return self.add("cast", (value,), kind, dtype=dtype)
            integer = self.add("to_int", (value,), replace(current, dtype="int32"), dtype="int32")
            return self.convert(integer, dtype)
        if kind.is_float and current.is_int:
            small = self.add("to_float", (value,), kind, dtype=dtype)
            return self.add("scale", (small,), kind, k=0.0625)
        if dtype == BOOL:
            bound = self.add(
                "full", (), replace(current, shape=()), shape=(), k=1, dtype=current.dtype
            )
            return self.add("ge", (value, bound), kind)
        return self.add("cast", (value,), kind, dtype=dtype)


def get_row(kind: Kind) -> Kind:
    """Return the kind of a row, the element of one index along the first axis."""
    return replace(kind, shape=kind.shape[1:])


def _broadcasts(shape: tuple[int, ...], other: tuple[int, ...]) -> bool:
    return len(shape) <= len(other) and all(
        a in (b, 1) for a, b in zip(reversed(shape), reversed(other), strict=False)
    )


def find_broadcast(shape: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the broadcast shape of two shapes; None if they do not broadcast."""
    n = max(len(shape), len(other))
    wide = [(1,) * (n - len(s)) + s for s in (shape, other)]
    if any(a != b and 1 not in (a, b) for a, b in zip(*wide, strict=True)):
        return None
    return tuple(b if a == 1 else a for a, b in zip(*wide, strict=True))
