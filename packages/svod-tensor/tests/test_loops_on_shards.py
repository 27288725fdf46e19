"""Loops and choices over tensors on several devices, against loops of Python over numpy."""

from __future__ import annotations

import numpy as np
import pytest

from svod_tensor import Tensor, cond, fori_loop, jit, scan, switch, while_loop

DEVICES = ("CPU", "CPU:1", "CPU:2")
ROWS = np.random.default_rng(0).standard_normal((30, 7)).astype(np.float32)
START = np.linspace(-1, 1, 7, dtype=np.float32)
AXES = pytest.mark.parametrize("axis", [0, None])


def spread(array: np.ndarray, axis: int | None) -> Tensor:
    return Tensor(array).shard(DEVICES, axis=axis)


def test_a_loop_over_shards_of_cpu_devices_is_one_call():
    def step(i: Tensor, state: Tensor) -> Tensor:
        return (state @ weights @ weights).tanh()

    weights = Tensor(np.full((32, 32), 0.02, np.float32)).shard(DEVICES).realize()
    state = Tensor(np.ones((33, 32), np.float32)).shard(DEVICES, axis=0).realize()
    plan = (fori_loop(0, 500, step, state) * 2).prepare()
    assert {kernel.device for kernel in plan.kernels()} == set(DEVICES)
    assert plan.num_calls == 1


@AXES
@pytest.mark.parametrize("is_reversed", [False, True])
def test_a_scan_carries_shards_and_stacks_them(axis: int | None, is_reversed: bool) -> None:
    def step(state: Tensor, row: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        state = (state * 0.9 + row + state.mean()).tanh()
        return state, (state * 2, state.sum())

    rows = spread(ROWS, None if axis is None else axis + 1)
    last, (doubled, sums) = scan(step, spread(START, axis), rows, reverse=is_reversed)
    state, expected, totals = START, np.zeros_like(ROWS), np.zeros(30, np.float32)
    for i in reversed(range(30)) if is_reversed else range(30):
        state = np.tanh(state * np.float32(0.9) + ROWS[i] + state.mean())
        expected[i], totals[i] = state * 2, state.sum()
    # Each by itself, so that the others are not read.
    np.testing.assert_allclose(doubled.numpy(), expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(last.numpy(), state, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(sums.numpy(), totals, rtol=1e-4, atol=1e-5)
    assert doubled.device == DEVICES


@AXES
def test_a_loop_ends_on_all_devices_at_a_false_condition(axis: int | None) -> None:
    found = while_loop(lambda x: x.max() < 1000, lambda x: x * 1.5 + 0.25, spread(START, axis))
    expected = START
    while expected.max() < 1000:
        expected = expected * np.float32(1.5) + np.float32(0.25)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5)


@AXES
def test_the_counter_is_the_same_on_all_devices(axis: int | None) -> None:
    found = fori_loop(0, 50, lambda i, x: x + i, spread(START, axis))
    np.testing.assert_allclose(found.numpy(), START + sum(range(50)), rtol=1e-5)


@AXES
@pytest.mark.parametrize("index", [0, 1, 2])
def test_a_branch_is_taken_on_all_devices(axis: int | None, index: int) -> None:
    branches = [lambda x: x.exp(), lambda x: x.sin() + x.sum(), lambda x: x.cos()]
    found = switch(Tensor(index), branches, spread(START, axis))
    expected = [np.exp(START), np.sin(START) + START.sum(), np.cos(START)][index]
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5, atol=1e-6)


def test_loops_in_loops_and_choices_in_loops_are_on_shards() -> None:
    def outer(state: Tensor, row: Tensor) -> tuple[Tensor, Tensor]:
        state = fori_loop(0, 20, lambda i, x: x * 0.5 + row, state)
        state = cond(state.sum() > 0, lambda x: x.sin(), lambda x: x.exp(), state)
        return state, state

    last, states = scan(outer, spread(START, 0), spread(ROWS, 1))
    state, expected = START, []
    for row in ROWS:
        for _ in range(20):
            state = state * np.float32(0.5) + row
        state = np.sin(state) if state.sum() > 0 else np.exp(state)
        expected.append(state)
    np.testing.assert_allclose(states.numpy(), expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(last.numpy(), state, rtol=1e-4, atol=1e-5)


def test_a_captured_loop_on_shards_runs_again_on_new_values() -> None:
    @jit
    def run(state: Tensor, rows: Tensor) -> Tensor:
        return scan(lambda x, row: (x * row + 1, None), state, rows)[0]

    for factor in (1.0, 0.5, 2.0):
        start = (START * factor).astype(np.float32)
        expected = start
        for row in ROWS:
            expected = expected * row + 1
        found = run(spread(start, 0), spread(ROWS, 1))
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("part", [slice(0, 1), slice(2, 3)], ids=["the last one", "the first one"])
def test_carries_and_branch_results_may_have_an_empty_shard(part: slice) -> None:
    array = np.arange(3, dtype=np.float32) + 1
    rows = Tensor(np.ones((100, 2), np.float32)).shard(DEVICES[:2])
    x = Tensor(array).shard(DEVICES[:2], axis=0)[part]
    last, stacked = scan(lambda c, row: (c * 0.5 + row.sum(), c), x, rows)
    np.testing.assert_allclose(last.numpy(), 4, rtol=1e-6)
    assert stacked.shape == (100, 1)
    np.testing.assert_allclose(stacked.numpy()[:2, 0], [array[part][0], array[part][0] / 2 + 2])
    chosen = cond(x.sum() > 0, lambda a: a.exp() + x, lambda a: a * 2, x)
    np.testing.assert_allclose(chosen.numpy(), np.exp(array[part]) + array[part], rtol=1e-6)
    x = x.realize()
    np.testing.assert_allclose(
        cond(x.sum() > 0, lambda: x.exp(), lambda: x * 2).numpy(), np.exp(array[part]), rtol=1e-6
    )
