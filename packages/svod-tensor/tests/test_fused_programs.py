"""Programs whose reductions, masks and lookups meet in one kernel give what numpy gives."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from svod_tensor import Tensor
from svod_tensor.options import PrepareConfig

RNG = np.random.default_rng(7)
SCORES = RNG.random((2, 8, 8), np.float32)
CUBE = RNG.random((21, 2, 21), np.float32)
COUNTS = RNG.integers(0, 9, (4, 2))
IMAGE = RNG.random((2, 3, 8, 8), np.float32)
ROWS = RNG.random((5, 4), np.float32)
FIRST, SECOND = RNG.random((2, 4), np.float32)
GATES = RNG.random((64, 8), np.float32)


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


MASKED = softmax(np.where(np.tri(8, dtype=bool), SCORES, np.float32(-100)))


def mask_with_tril() -> tuple[Tensor, np.ndarray]:
    return Tensor.ones(8, 8, dtype="bool").tril().where(Tensor(SCORES), -100.0).softmax(-1), MASKED


def mask_with_a_comparison() -> tuple[Tensor, np.ndarray]:
    mask = Tensor.arange(8)[None] <= Tensor.arange(8)[:, None]
    return mask.where(Tensor(SCORES), -100.0).softmax(-1), MASKED


def subtract_from_a_minimum_what_is_divided_by_a_row_s_number() -> tuple[Tensor, np.ndarray]:
    t = Tensor(CUBE) / (Tensor.arange(21).reshape((21, 1, 1)) + 1)
    expected = CUBE / (np.arange(21).reshape(21, 1, 1) + 1)
    return t.min(2, keepdims=True) - t, expected.min(2, keepdims=True) - expected


def divide_by_the_norm_of_rolled_integers() -> tuple[Tensor, np.ndarray]:
    v = Tensor(COUNTS).roll(2, 0).cast("float32")
    d = v - v.mean((0, 1), keepdims=True)
    rolled = np.roll(COUNTS, 2, 0).astype(np.float32)
    expected = rolled - rolled.mean()
    return d / d.norm(axis=1, keepdims=True), expected / np.linalg.norm(
        expected, axis=1, keepdims=True
    )


def pool_what_is_centered() -> tuple[Tensor, np.ndarray]:
    x = Tensor(IMAGE)
    centered = IMAGE - IMAGE.mean((2, 3), keepdims=True)
    return (x - x.mean((2, 3), keepdims=True)).avg_pool2d((2, 2)), centered.reshape(
        2, 3, 4, 2, 4, 2
    ).mean((3, 5))


def stack_one_reduction_three_times() -> tuple[Tensor, np.ndarray]:
    any_of = (ROWS > 0.9).any(0)
    found = Tensor.stack([Tensor(ROWS > 0.9).any(0)] * 3, 1).argmax(-1)
    return found, np.stack([any_of] * 3, 1).argmax(-1)


def stack_a_mean_with_its_siblings() -> tuple[Tensor, np.ndarray]:
    s = Tensor.stack([Tensor(ROWS).mean(0), Tensor(FIRST), Tensor(SECOND)])
    expected = np.stack([ROWS.mean(0), FIRST, SECOND])
    return s + s.mean(0, keepdims=True), expected + expected.mean(0, keepdims=True)


def stack_a_variance_and_multiply() -> tuple[Tensor, np.ndarray]:
    s = Tensor.stack([Tensor(ROWS).var(0), Tensor(FIRST)])
    expected = np.stack([ROWS.var(0), FIRST])
    return s + s.prod(-2, keepdims=True), expected + expected.prod(-2, keepdims=True)


def take_the_largest_of_a_softmax() -> tuple[Tensor, np.ndarray]:
    return Tensor(ROWS).softmax(1).topk(1)[0], softmax(ROWS).max(1, keepdims=True)


def normalise_the_gates_of_experts() -> tuple[Tensor, np.ndarray]:
    weights, experts = Tensor(GATES).topk(2)
    weights = weights / weights.sum(1)[:, None]
    chosen = np.argsort(-GATES, 1)[:, :2]
    expected = np.zeros_like(GATES)
    values = np.take_along_axis(GATES, chosen, 1)
    np.put_along_axis(expected, chosen, values / values.sum(1, keepdims=True), 1)
    return (experts[:, :, None] == Tensor.arange(8)).where(weights[:, :, None], 0.0).sum(
        1
    ), expected


def write_rows_and_sort_what_they_become() -> tuple[Tensor, np.ndarray]:
    cache, x = Tensor(np.zeros((2, 8), np.float32)), Tensor(np.ones(8, np.float32))
    for i in range(2):
        cache[i] = x
        x = cache[i] + Tensor.arange(8)
    return x.sort(), 1 + 2 * np.arange(8, dtype=np.float32)


PROGRAMS = (
    mask_with_tril,
    mask_with_a_comparison,
    subtract_from_a_minimum_what_is_divided_by_a_row_s_number,
    divide_by_the_norm_of_rolled_integers,
    pool_what_is_centered,
    stack_one_reduction_three_times,
    stack_a_mean_with_its_siblings,
    stack_a_variance_and_multiply,
    take_the_largest_of_a_softmax,
    normalise_the_gates_of_experts,
    write_rows_and_sort_what_they_become,
)


@pytest.mark.parametrize(
    "config", [PrepareConfig(), PrepareConfig(opts=())], ids=["opts", "no opts"]
)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_a_program_agrees_with_numpy(
    program: Callable[[], tuple[Tensor, np.ndarray]], config: PrepareConfig
) -> None:
    result, expected = program()
    np.testing.assert_allclose(result.realize_with(config).numpy(), expected, rtol=1e-5, atol=1e-6)


def test_add_at_on_a_constant_is_fused_with_it() -> None:
    zero = Tensor.full((1,), 0.0)
    added = zero.index_add(0, Tensor([0]), Tensor([2.0]))
    Tensor.realize_batch([zero, added])
    assert (zero.tolist(), added.tolist()) == ([0.0], [2.0])


def test_a_tensor_that_is_assigned_to_and_a_copy_from_before_are_computed_together() -> None:
    x = Tensor(np.arange(6, dtype=np.float32).reshape(2, 3)).clone().realize()
    y = x.clone()
    x.assign(x * 0 + 1)
    Tensor.realize_batch([x, y])
    assert (x.tolist(), y.tolist()) == ([[1.0] * 3] * 2, [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]])


def test_gathered_rows_are_reduced_and_reread_in_one_kernel() -> None:
    # The places are kept for a row of the result; positions and gates of one vector read them.
    table, places = RNG.random((4, 4)), RNG.integers(-4, 5, (2, 3)).astype(np.int32)
    x = Tensor(table).take(Tensor(places) % 4, 0)
    expected = table[places % 4]
    expected = expected - np.sqrt((expected**2).sum(1, keepdims=True))
    np.testing.assert_allclose((x - x.norm(1, keepdims=True)).numpy(), expected, rtol=1e-12)
