"""Programs that join, pad, slice and roll arrays, whose loops are split into parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import svod_tensor as sv
from svod_dtype import ALL_DTYPES, DType, float32, int8
from svod_ir.testing import count_examples
from svod_schedule.testing import force_threads
from svod_tensor import Tensor, clear_caches

MAX_ELEMENTS = 20_000

Value = tuple[Tensor, np.ndarray]


@pytest.fixture(params=[None, 1], ids=["one thread", "all threads"])
def threads(request: pytest.FixtureRequest) -> Iterator[None]:
    """Kernels of few steps run in one thread, or all kernels in several."""
    clear_caches()
    with nullcontext() if request.param is None else force_threads(request.param):
        yield
    clear_caches()


def check(tensor: Tensor, expected: np.ndarray) -> None:
    array = tensor.numpy()
    assert (array.dtype, array.shape) == (expected.dtype, expected.shape)
    np.testing.assert_array_equal(array, expected)


def make(shape: tuple[int, ...], dtype: np.dtype[Any], seed: int) -> Value:
    array = ((np.arange(prod(shape)) * 7 + seed) % 31).astype(dtype).reshape(shape)
    return Tensor(array), array


def replace_size(shape: tuple[int, ...], axis: int, size: int) -> tuple[int, ...]:
    return (*shape[:axis], size, *shape[axis + 1 :])


def concat(draw: Callable[[Any], Any], value: Value, axis: int) -> Value:
    _, array = value
    sizes = draw(st.lists(st.integers(0, 100), min_size=1, max_size=4))
    others = [
        make(replace_size(array.shape, axis, n), array.dtype, n)
        for n in sizes
        if prod(replace_size(array.shape, axis, n)) <= MAX_ELEMENTS
    ]
    joined = [value, *others] if draw(st.booleans()) else [*others, value]
    return (
        sv.concat([t for t, _ in joined], axis=axis),
        np.concatenate([a for _, a in joined], axis),
    )


def pad(draw: Callable[[Any], Any], value: Value, axis: int) -> Value:
    tensor, array = value
    widths = [(0, 0)] * array.ndim
    widths[axis] = draw(st.tuples(st.integers(0, 5), st.integers(0, 5)))
    if draw(st.booleans()):
        widths[0] = (1, 2)
    return sv.pad(tensor, widths), np.pad(array, widths)


def cut(draw: Callable[[Any], Any], value: Value, axis: int) -> Value:
    tensor, array = value
    start, stop = sorted(draw(st.tuples(*[st.integers(0, array.shape[axis])] * 2)))
    chosen = (*[slice(None)] * axis, slice(start, stop, draw(st.sampled_from([1, 1, 2, 3]))))
    return tensor[chosen], array[chosen]


def roll(draw: Callable[[Any], Any], value: Value, axis: int) -> Value:
    tensor, array = value
    n = draw(st.integers(-3, 3))
    return tensor.roll(n, axis), np.roll(array, n, axis)


def stack(draw: Callable[[Any], Any], value: Value, axis: int) -> Value:
    tensor, array = value
    n = draw(st.integers(2, 5))
    if array.ndim == 3 or array.size * n > MAX_ELEMENTS:
        return value
    others = [make(array.shape, array.dtype, i) for i in range(n - 1)]
    where = draw(st.sampled_from([axis, -1]))
    return (
        sv.stack([tensor, *(t for t, _ in others)], axis=where),
        np.stack([array, *(a for _, a in others)], where),
    )


def transpose(draw: Callable[[Any], Any], value: Value, axis: int) -> Value:
    tensor, array = value
    return tensor.swapaxes(axis, -1), array.swapaxes(axis, -1)


def add(draw: Callable[[Any], Any], value: Value, axis: int) -> Value:
    tensor, array = value
    return tensor + tensor, array + array


STEPS = (concat, concat, pad, pad, cut, roll, stack, transpose, add)


@st.composite
def programs(draw: Callable[[Any], Any]) -> Value:
    sizes = draw(st.lists(st.integers(0, 100), min_size=1, max_size=3))
    while prod(sizes) > MAX_ELEMENTS:
        sizes[int(np.argmax(sizes))] //= 2
    value = make(tuple(sizes), draw(st.sampled_from(ALL_DTYPES)).numpy, 1)
    for step in draw(st.lists(st.sampled_from(STEPS), min_size=1, max_size=4)):
        if value[1].size <= MAX_ELEMENTS:
            value = step(draw, value, draw(st.integers(0, value[1].ndim - 1)))
    return value


@pytest.mark.usefixtures("threads")
@settings(max_examples=count_examples(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(programs())
def test_parts_of_random_programs_agree_with_numpy(program: Value) -> None:
    check(*program)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("sizes", [(40, 1, 33), (3, 5), (100, 99), tuple(range(1, 12))])
@pytest.mark.parametrize("dtype", [float32, int8], ids=str)
def test_concatenations_agree_with_numpy(dtype: DType, sizes: tuple[int, ...], axis: int) -> None:
    parts = [make(replace_size((7, 6, 21), axis, n), dtype.numpy, n) for n in sizes]
    check(
        sv.concat([t for t, _ in parts], axis=axis) * 2,
        np.concatenate([a for _, a in parts], axis) * 2,
    )


def test_a_shift_in_place_keeps_its_order() -> None:
    x = Tensor(np.arange(600, dtype=np.float32).reshape(6, 100)).realize()
    expected = x.numpy().copy()
    x[:, 1:] = sv.concat([x[:, :40], x[:, 41:]], axis=1)
    expected[:, 1:] = np.concatenate([expected[:, :40], expected[:, 41:]], axis=1)
    check(x, expected)


def test_many_parts_are_compiled_separately_or_not_at_all() -> None:
    parts = [make((9, n), float32.numpy, n) for n in range(1, 90)]
    check(
        sv.concat([t for t, _ in parts], axis=1),
        np.concatenate([a for _, a in parts], 1),
    )
