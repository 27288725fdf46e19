"""Random programs of the operations that make ranks of a mesh communicate: slices, neighbours, flips,
sums, and loops of these.

They are drawn more densely than in the other languages, and all results are computed together, so that
collectives have others before and after them. Sizes are such that parts are unequal, and a rank often
needs nothing of the others.
"""

# Arrays and tensors have the operations that are drawn.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from svod_tensor import concat, fori_loop

__all__ = ["StencilProgram", "draw_stencil_program"]


class _StencilLibrary(NamedTuple):
    concat: Callable[[Sequence[Any], int], Any]
    repeat: Callable[[int, Callable[[Any], Any], Any], Any]


class StencilProgram:
    """A random function of two matrices.

    Attributes:
        inputs: the matrices.
    """

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        # One is smaller, so that parts of it and of a slice of the other have other bounds.
        height, width = rng.randint(6, 11), rng.randint(6, 11)
        shapes = (height, width), (height - rng.randint(0, 2), width - rng.randint(0, 2))
        arrays = np.random.default_rng(seed)
        self.inputs: tuple[NDArray[Any], ...] = tuple(arrays.normal(size=s) for s in shapes)
        self._seed = rng.randrange(1 << 30)
        self._n_steps = rng.randint(3, 9)

    def compute(self, *tensors: Any) -> tuple[Any, ...]:
        """The results on tensors."""
        return self._run(tensors, _TENSORS)

    def evaluate(self) -> tuple[Any, ...]:
        """The expected results, by numpy."""
        return self._run(self.inputs, _ARRAYS)

    def _run(self, inputs: Sequence[Any], library: _StencilLibrary) -> tuple[Any, ...]:
        rng = random.Random(self._seed)
        values, results = list(inputs), list[Any]()
        for _ in range(self._n_steps):
            step = rng.choice(_STEPS)
            value = step(rng, values, library)
            # Few elements are left of a value that was summed: it is a result, or added to another.
            if 1 in value.shape:
                results.append(value)
            else:
                values.append(value)
        return (*results, *values[-2:])


def draw_stencil_program(seed: int) -> StencilProgram:
    """The program of a seed."""
    return StencilProgram(seed)


def _crop(rng: random.Random, values: list[Any], library: _StencilLibrary) -> Any:
    x = rng.choice(values)
    axis = rng.randrange(2)
    if x.shape[axis] < 6:
        return -x
    return _cut(x, axis, x.shape[axis] - 1, rng.random() < 0.5)


def _cut(x: Any, axis: int, size: int, is_first: bool) -> Any:
    """The first or last elements along an axis."""
    begin = 0 if is_first else x.shape[axis] - size
    return x[(slice(None),) * axis + (slice(begin, begin + size),)]


def _extend(rng: random.Random, values: list[Any], library: _StencilLibrary) -> Any:
    x = rng.choice(values)
    axis = rng.randrange(2)
    parts = [x, _cut(x, axis, rng.randint(1, 2), rng.random() < 0.5)]
    return library.concat(parts if rng.random() < 0.5 else parts[::-1], axis)


def _flip(rng: random.Random, values: list[Any], library: _StencilLibrary) -> Any:
    x = rng.choice(values)
    return x[::-1] if rng.random() < 0.5 else x[:, ::-1]


def _transpose(rng: random.Random, values: list[Any], library: _StencilLibrary) -> Any:
    return rng.choice(values).T


def _sum(rng: random.Random, values: list[Any], library: _StencilLibrary) -> Any:
    x = rng.choice(values)
    axis = rng.choice([0, 1, (0, 1)])
    return x.max(axis, keepdims=True) if rng.random() < 0.2 else x.sum(axis, keepdims=True)


def _centre(rng: random.Random, values: list[Any], library: _StencilLibrary) -> Any:
    x = rng.choice(values)
    return x - x.mean(rng.choice([0, 1, (0, 1)]), keepdims=True)


def _add(rng: random.Random, values: list[Any], library: _StencilLibrary) -> Any:
    """The sum of two values, of which the overlap is taken from either end."""
    x, y = rng.choice(values), rng.choice(values)
    for axis in range(2):
        size = min(x.shape[axis], y.shape[axis])
        x, y = (_cut(v, axis, size, rng.random() < 0.5) for v in (x, y))
    return x + 0.5 * y


def _repeat(rng: random.Random, values: list[Any], library: _StencilLibrary) -> Any:
    axis, count, distance = rng.randrange(2), rng.choice([2, 3, 20]), rng.randint(1, 2)
    kind, across = rng.randrange(3), rng.choice([0, 1, (0, 1)])

    def mix(x: Any) -> Any:
        size = x.shape[axis]
        if kind == 0:
            ends = [_cut(x, axis, size - distance, False), _cut(x, axis, distance, True)]
            return 0.5 * x + 0.25 * library.concat(ends, axis)
        if kind == 1:
            return 0.5 * x + 0.25 * x[::-1]
        return 0.5 * x + 0.25 * x.mean(across, keepdims=True)

    return library.repeat(count, mix, rng.choice(values))


def _repeat_array(count: int, mix: Callable[[Any], Any], x: Any) -> Any:
    for _ in range(count):
        x = mix(x)
    return x


# fmt: off
_STEPS: Final = (
    _crop, _crop, _add, _add, _sum, _sum, _sum, _centre, _extend, _flip, _transpose, _repeat, _repeat,
)
# fmt: on
_ARRAYS: Final = _StencilLibrary(lambda xs, axis: np.concatenate(xs, axis), _repeat_array)
_TENSORS: Final = _StencilLibrary(
    concat, lambda count, mix, x: fori_loop(0, count, lambda _, value: mix(value), x)
)
