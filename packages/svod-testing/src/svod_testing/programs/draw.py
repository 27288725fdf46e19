"""Random choices of a program generator: values to read, axes, shapes and numbers."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeVar

from svod_testing.programs.operation import Drawable
from svod_testing.programs.oracle import UnstableError, Value, evaluate_step
from svod_testing.programs.program import Argument, Step

__all__ = ["Choices", "Draw", "RejectedError"]

T = TypeVar("T")

_SIZES: Final = (1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 7, 8, 8, 9, 11, 12, 13, 16, 17)
_DTYPES: Final = (
    ("float32",) * 14
    + ("int32",) * 3
    + ("bool", "bool", "int64", "uint8", "int8", "float64", "float16")
)


class RejectedError(Exception):
    """No value satisfies the constraints of a step."""


class Choices:
    """Random choices that are reproducible by seed."""

    def __init__(self, seed: int) -> None:
        self.rng: Final = random.Random(seed)

    def choose(self, choices: Sequence[T]) -> T:
        """Return a random choice; raise RejectedError if `choices` is empty."""
        if not choices:
            raise RejectedError
        return choices[int(self.rng.random() * len(choices))]

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def number(self, low: int, high: int) -> int:
        """Return an integer from `low` to `high`, inclusive."""
        return self.rng.randint(low, high)


class Draw(Choices):
    """Program under construction, and random choices for its next step."""

    def __init__(self, seed: int, operations: dict[str, Drawable]) -> None:
        super().__init__(seed)
        self.steps: list[Step] = []
        self.values: dict[int, Value] = {}
        self.readers: dict[int, list[int]] = {}
        self._operations = operations

    def add(self, name: str, operands: Sequence[int] = (), **args: Argument) -> tuple[int, ...]:
        """Append a step to the program, and return the indices of its results.

        Raises:
            UnstableError: if the step is invalid or ill-conditioned.
        """
        operation = self._operations[name]
        first = len(self.values)
        probe = Step(name, tuple(operands), (first,), tuple(args.items()))
        try:
            values = evaluate_step(operation, probe, [self.values[v] for v in operands])
        except (ValueError, IndexError, TypeError, OverflowError, ZeroDivisionError) as error:
            raise UnstableError(str(error)) from error
        numbers = tuple(range(first, first + len(values)))
        self.steps.append(Step(name, probe.operands, numbers, probe.args))
        self.values.update(zip(numbers, values, strict=True))
        for v in operands:
            self.readers.setdefault(v, []).extend(numbers)
        return numbers

    def value(self, fits: Callable[[Value], bool] | None = None) -> int:
        """Pick a value that satisfies `fits`.

        Recent values, values without readers and siblings of the last value are preferred.
        """
        fitting = [v for v, value in self.values.items() if fits is None or fits(value)]
        if not fitting:
            raise RejectedError
        kind = self.rng.random()
        if kind < 0.45:
            return self.choose(fitting[-4:])
        if kind < 0.6:
            return self.choose([v for v in fitting if v not in self.readers] or fitting)
        if kind < 0.75:
            last = self.steps[-1].operands if self.steps else ()
            siblings = {r for v in last for r in self.readers.get(v, ())} | set(last)
            return self.choose([v for v in fitting if v in siblings] or fitting)
        return self.choose(fitting)

    def numeric(self, fits: Callable[[Value], bool] | None = None) -> int:
        return self.value(lambda v: v.dtype != "bool" and (fits is None or fits(v)))

    def floating(self, fits: Callable[[Value], bool] | None = None) -> int:
        return self.value(lambda v: v.is_float and (fits is None or fits(v)))

    def integer(self, fits: Callable[[Value], bool] | None = None) -> int:
        return self.value(
            lambda v: not v.is_float and v.dtype != "bool" and (fits is None or fits(v))
        )

    def with_axes(self, fits: Callable[[Value], bool] | None = None) -> int:
        return self.value(lambda v: v.ndim > 0 and (fits is None or fits(v)))

    def input(
        self,
        shape: tuple[int, ...],
        dtype: str = "float32",
        low: int | None = None,
        high: int | None = None,
    ) -> int:
        """Add an input."""
        first = self.number(0, 2) if low is None else low
        last = high if high is not None else 2 if dtype == "bool" else 5
        (value,) = self.add(
            "input", (), shape=shape, dtype=dtype, low=first, high=last, seed=self.number(0, 99)
        )
        return value

    def value_or_input(
        self,
        fits: Callable[[Value], bool],
        shape: tuple[int, ...],
        dtype: str = "float32",
        low: int | None = None,
    ) -> int:
        """Pick a value that satisfies `fits`, or add an input of this shape and dtype.

        An input is added if there is no such value, and in a fifth of the other cases.
        """
        if self.chance(0.8):
            try:
                return self.value(fits)
            except RejectedError:
                pass
        return self.input(shape, dtype, low)

    def partner(self, first: int, fits: Callable[[Value], bool] | None = None) -> int:
        """Pick a value that broadcasts with another one, and is preferably not the same."""
        shape = self.values[first].shape

        def agrees(value: Value) -> bool:
            pairs = zip(reversed(shape), reversed(value.shape), strict=False)
            return all(a == b or 1 in (a, b) for a, b in pairs) and (fits is None or fits(value))

        partner = self.value(agrees)
        return self.value(agrees) if partner == first else partner

    def axis(self, ndim: int) -> int:
        """Pick an axis, sometimes a negative one."""
        if not ndim:
            raise RejectedError
        axis = self.number(0, ndim - 1)
        return axis - ndim if self.chance(0.3) else axis

    def axes(self, ndim: int) -> int | tuple[int, ...] | None:
        """Pick the axes of a reduction: one, several, or None for all."""
        if not ndim or self.chance(0.12):
            return None
        if ndim == 1 or self.chance(0.55):
            return self.axis(ndim)
        count = self.number(1, ndim)
        return tuple(
            a - ndim if self.chance(0.2) else a for a in self.rng.sample(range(ndim), count)
        )

    def sizes(self, ndim: int | None = None) -> tuple[int, ...]:
        """Pick a shape of at most 600 elements, sometimes the shape of an earlier value."""
        if ndim is None and self.values and self.chance(0.4):
            return self.choose([v.shape for v in self.values.values()])
        count = self.choose((0, 1, 1, 2, 2, 2, 3, 3, 3, 4)) if ndim is None else ndim
        while True:
            shape = tuple(self.choose(_SIZES) for _ in range(count))
            if count and self.chance(0.01):
                shape = (*shape[:-1], 0)
            if _count(shape) <= 600:
                return shape

    def dtype(self) -> str:
        return self.choose(_DTYPES)

    def factors(self, size: int) -> list[int]:
        return [n for n in range(1, size + 1) if size % n == 0]


def _count(shape: Iterable[int]) -> int:
    total = 1
    for size in shape:
        total *= size
    return total
