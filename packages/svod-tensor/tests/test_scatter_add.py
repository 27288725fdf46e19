"""Sums of rows at indices: its values are those of np.add.at, wherever it stands and whatever its
operands are.
"""

from __future__ import annotations

import numpy as np
import pytest

from svod_dtype import ALL_DTYPES, DType
from svod_ir import make_gather, make_scatter_add
from svod_tensor import Tensor, Variable, jit, scan
from svod_testing import check

TWO = ("CPU:1", "CPU:2")


def add_at(values: np.ndarray, places: np.ndarray, axis: int, size: int) -> np.ndarray:
    """The oracle: rows are added where their places are inside."""
    n_axes = places.ndim
    rows = np.moveaxis(values, range(axis, axis + n_axes), range(n_axes))
    found = np.zeros((size, *rows.shape[n_axes:]), values.dtype)
    is_inside = (places >= 0) & (places < size)
    np.add.at(found, places[is_inside].astype(np.int64), rows[is_inside])
    return np.moveaxis(found, 0, axis)


def scatter(values: Tensor, places: Tensor, axis: int, size: int) -> Tensor:
    return Tensor.from_uop(make_scatter_add(values.uop, places.uop, axis, size))


@pytest.mark.parametrize("dtype", ALL_DTYPES, ids=str)
def test_sums_of_every_dtype_are_numpys(rng: np.random.Generator, dtype: DType) -> None:
    # Small whole numbers, which every dtype holds exactly.
    values = rng.integers(0, 2, (4, 6, 3)).astype(dtype.numpy)
    places = rng.integers(-1, 6, 6)
    found = scatter(Tensor(values), Tensor(places), 1, 5)
    check(found, add_at(values.astype(np.float32), places, 1, 5).astype(dtype.numpy))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint64"])
def test_indices_out_of_bounds_are_ignored_in_every_dtype(
    rng: np.random.Generator, dtype: str
) -> None:
    values, ends = rng.standard_normal((40, 7)).astype(np.float32), np.iinfo(dtype)
    places = np.concatenate(
        [rng.integers(0, 9, 36).astype(dtype), np.array([ends.min, ends.max, 6, 7], dtype)]
    )
    check(scatter(Tensor(values), Tensor(places), 0, 7), add_at(values, places, 0, 7), rtol=1e-5)


@pytest.mark.parametrize(
    ("shape", "places", "axis", "size"),
    [
        ((0, 3), (0,), 0, 2),
        ((3, 0), (3,), 0, 2),
        ((3, 2), (3,), 0, 1),
        ((1,), (1,), 0, 9),
        ((2, 3, 4), (2, 3, 4), 0, 5),
        ((5, 2, 3), (2,), 1, 4),
        ((5,), (), 1, 2),
        ((5,), (), 0, 2),
        ((2, 3, 33), (2, 3), 0, 4),
        ((64, 1000), (64,), 0, 70),
    ],
)
def test_sums_of_every_shape_are_numpys(
    rng: np.random.Generator, shape: tuple[int, ...], places: tuple[int, ...], axis: int, size: int
) -> None:
    values, at = (
        rng.standard_normal(shape).astype(np.float32),
        np.asarray(rng.integers(-1, size + 1, places)),
    )
    check(
        scatter(Tensor(values), Tensor(at), axis, size), add_at(values, at, axis, size), rtol=1e-5
    )


def test_scatter_add_with_an_empty_axis() -> None:
    assert scatter(Tensor(np.ones((3, 2), np.float32)), Tensor([0, 1, 2]), 0, 0).shape == (0, 2)


def test_sums_are_added_in_the_order_of_their_positions() -> None:
    values = np.array([1e8, 1.0, -1e8, 1.0], np.float32)
    assert scatter(Tensor(values), Tensor(np.zeros(4, np.int32)), 0, 1).item() == 1.0


def test_narrow_floats_are_added_in_float32_and_rounded_once() -> None:
    ones = Tensor(np.ones(4096, np.float16))
    assert scatter(ones, Tensor(np.zeros(4096, np.int32)), 0, 2).tolist() == [4096.0, 0.0]


def test_it_is_the_transpose_of_gather(rng: np.random.Generator) -> None:
    x, y = rng.integers(-9, 9, (3, 5, 2)), rng.integers(-9, 9, (3, 4, 6, 2))
    places = Tensor(rng.integers(-2, 7, (4, 6)))
    gathered = Tensor.from_uop(make_gather(Tensor(x).uop, places.uop, 1))
    assert (gathered * Tensor(y)).sum().item() == (
        Tensor(x) * scatter(Tensor(y), places, 1, 5)
    ).sum().item()


def test_sizes_may_be_variables(rng: np.random.Generator) -> None:
    n, size = Variable("n", 1, 9), Variable("size", 1, 12)
    values, places = rng.standard_normal((9, 3)).astype(np.float32), rng.integers(0, 12, 9)
    for rows, places_of in ((2, 12), (9, 1), (7, 5)):
        x, p = (Tensor(a)[: n.bind(rows)] for a in (values, places))
        found = Tensor.from_uop(make_scatter_add(x.uop, p.uop, 0, size.bind(places_of)))
        check(found * 1, add_at(values[:rows], places[:rows], 0, places_of), rtol=1e-5)


@pytest.mark.parametrize("axis", [0, 1, None])
@pytest.mark.parametrize("is_split", [True, False])
def test_scatter_add_on_shards_sums_partial_results(
    rng: np.random.Generator, axis: int | None, is_split: bool
) -> None:
    values, places = rng.integers(-9, 9, (6, 4)), rng.integers(-1, 5, 6)
    x = Tensor(values).shard(TWO, axis=axis)
    p = Tensor(places).shard(TWO, axis=0 if is_split else None)
    check(scatter(x, p, 0, 5), add_at(values, places, 0, 5))
    base = rng.integers(-9, 9, (5, 4))
    expected = base.copy()
    np.add.at(expected, places % 5, values)
    check(Tensor(base).shard(TWO, axis=axis).add_at(p % 5, x), expected)


def test_scatter_add_in_loop_bodies(rng: np.random.Generator) -> None:
    rows, places = rng.integers(-9, 9, (7, 5, 3)), rng.integers(-4, 4, (7, 5))

    def step(total: Tensor, slices: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        values, at = slices
        total = total.add_at(at, values + total.sum())
        return total, scatter(values, at, 0, 4)

    total, stacked = scan(step, Tensor(np.zeros((4, 3), np.int64)), (Tensor(rows), Tensor(places)))
    expected = np.zeros((4, 3), np.int64)
    for values, at, found in zip(rows, places, stacked.numpy(), strict=True):
        np.add.at(expected, at, values + expected.sum())
        np.testing.assert_array_equal(found, add_at(values, at, 0, 4))
    check(total, expected)


def test_a_captured_function_adds_to_zeros_at_each_call(rng: np.random.Generator) -> None:
    @jit
    def count(x: Tensor) -> Tensor:
        return x.bincount(n_bins=6) + 1

    for _ in range(4):
        x = rng.integers(0, 9, 50)
        check(count(Tensor(x).realize()), np.bincount(x[x < 6], minlength=6) + 1)


def test_no_host_function_runs_between_the_kernels() -> None:
    places, rows = Tensor([0, 2, 2]).realize(), Tensor(np.ones((3, 4), np.float32)).realize()
    x = Tensor(np.zeros((3, 4), np.float32)).realize()
    for made in (x.add_at(places, rows), x.index_add(0, places, rows), places.bincount(n_bins=4)):
        plan = made.prepare()
        # One call runs all kernels.
        assert plan.num_calls == 1


def test_overlapping_windows_are_summed_in_one_kernel(rng: np.random.Generator) -> None:
    values = rng.standard_normal((2, 4, 3, 5, 2)).astype(np.float32)
    rows, columns = (
        np.arange(n)[:, None] * stride + np.arange(k) for n, k, stride in ((4, 3, 1), (5, 2, 2))
    )
    places = [
        Tensor.arange(n).reshape(n, 1) * stride + Tensor.arange(k)
        for n, k, stride in ((4, 3, 1), (5, 2, 2))
    ]
    x = Tensor(values).realize()
    made = scatter(scatter(x, places[1], 3, 10), places[0], 1, 6)
    expected = add_at(add_at(values, columns, 3, 10), rows, 1, 6)
    plan = made.prepare()
    plan.execute()
    assert plan.num_kernels == 1
    check(made, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("shape", [(1,), (1, 1), (1, 3)])
def test_readers_of_a_sum_in_one_kernel_read_all_of_it(shape):
    """The kernel that adds to a copy may be joined with its readers, and the copy not."""
    a = np.full(shape, 0.5, "f4")
    x, indices = Tensor(a).realize(), Tensor([3]).realize()
    added = x.add_at(indices % 1, Tensor(a).realize())
    total = added.logsumexp(None, keepdims=True)
    results = added / (total.abs() + 1), total, added * 2
    Tensor.realize_batch(results)
    expected = np.log(np.exp(2 * a).sum(keepdims=True))
    np.testing.assert_allclose(results[1].numpy(), expected, rtol=1e-6)
    np.testing.assert_allclose(results[0].numpy(), 2 * a / (abs(expected) + 1), rtol=1e-6)
    np.testing.assert_array_equal(results[2].numpy(), 4 * a)
