from __future__ import annotations

import numpy as np
import pytest

from svod_runtime import PreparedKernel
from svod_tensor import Tensor, Variable, grad, jit, jvp
from svod_testing import check, make_array

DTYPES = [
    "float32",
    "float64",
    "float16",
    "int8",
    "int32",
    "int64",
    "uint8",
    "uint32",
    "uint64",
    "bool",
]


def make_rows(rng, shape, dtype):
    """Rows with equal elements, and with all that has an order of its own."""
    a = make_array(rng, shape, dtype)
    a[..., shape[-1] // 2 :] = a[..., : shape[-1] - shape[-1] // 2]
    if a.dtype.kind == "f":
        special = np.array([np.nan, -np.inf, 0.0, -0.0, np.inf, -np.nan], dtype)
        a = np.where(rng.random(shape) < 0.3, rng.choice(special, shape), a)
    elif a.dtype.kind in "iu":
        limits = np.array([np.iinfo(dtype).min, np.iinfo(dtype).max], dtype)
        a = np.where(rng.random(shape) < 0.3, rng.choice(limits, shape), a)
    return a


def order(a, *, is_descending):
    ranks = np.unique(a, return_inverse=True, equal_nan=True)[1].reshape(a.shape)
    return np.argsort(-ranks if is_descending else ranks, -1, kind="stable")


def uses_only_kernels(x):
    plan = x.prepare()
    plan.execute()
    return all(isinstance(op, PreparedKernel) for op in plan.prepared_ops)


@pytest.mark.parametrize(
    ("dtype", "shape"),
    [
        *((d, (6, 20)) for d in DTYPES),
        *((d, s) for d in ("float32", "uint64") for s in [(2, 2), (50, 7), (2, 100), (300,)]),
    ],
)
@pytest.mark.parametrize("descending", [False, True])
def test_short_rows_are_ordered_by_kernels(rng, dtype, shape, descending):
    a = make_rows(rng, shape, dtype)
    expected = order(a, is_descending=descending)
    values, places = Tensor(a).sort(descending=descending), Tensor(a).argsort(descending=descending)
    assert uses_only_kernels(values)
    check(places, expected)
    check(values, np.take_along_axis(a, expected, -1))


@pytest.mark.parametrize(("k", "n"), [(12, 12), (3, 40), (20, 3000)])
def test_narrow_floats_are_ordered_by_kernels(rng, k, n):
    x = Tensor(make_rows(rng, (2, n), "float32")).cast("bfloat16")
    values, places = x.topk(k)
    expected = order(x.cast("float32").numpy(), is_descending=True)[:, :k]
    check(places, expected)
    np.testing.assert_array_equal(
        values.cast("float32").numpy(), np.take_along_axis(x.cast("float32").numpy(), expected, -1)
    )


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "uint64"])
@pytest.mark.parametrize("shape", [(400, 48), (30, 600)])
def test_longer_rows_are_ordered_by_the_host(rng, dtype, shape):
    a = make_rows(rng, shape, dtype)
    found = Tensor(a).argsort()
    assert not uses_only_kernels(found)
    check(found, order(a, is_descending=False))


def check_topk(a, k, largest):
    values, places = Tensor(a).topk(k, largest=largest)
    assert uses_only_kernels(values)
    expected = order(a, is_descending=largest)[..., :k]
    check(places, expected)
    check(values, np.take_along_axis(a, expected, -1))


@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize(
    ("dtype", "k", "shape"),
    [
        ("float32", 1, (2, 2049)),
        ("float32", 5, (3, 5000)),
        ("float32", 8, (40001,)),
        ("int32", 3, (2, 2, 4099)),
        ("uint8", 5, (2, 9000)),
        ("bool", 4, (2, 3000)),
        ("float16", 2, (2, 4097)),
        ("float64", 1, (2, 2048)),
        ("float64", 5, (2, 7001)),
        ("int64", 3, (2, 3001)),
        ("uint64", 8, (2, 5001)),
        ("uint32", 8, (2, 16385)),
    ],
)
def test_few_elements_of_long_rows_are_in_few_groups(rng, dtype, k, shape, largest):
    check_topk(make_rows(rng, shape, dtype), k, largest)


@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize(
    ("dtype", "k", "shape"),
    [
        ("float32", 9, (2, 2049)),
        ("float32", 50, (3, 5000)),
        ("float32", 64, (20001,)),
        ("int32", 17, (2, 2, 3001)),
        ("uint8", 30, (2, 4000)),
        ("bool", 20, (2, 2050)),
        ("float16", 64, (2, 2048)),
        ("uint32", 33, (2, 4097)),
    ],
)
def test_topk_of_long_rows_uses_few_groups_of_each_level(rng, dtype, k, shape, largest):
    check_topk(make_rows(rng, shape, dtype), k, largest)


@pytest.mark.parametrize("k", [3, 20])
@pytest.mark.parametrize(
    "kind", ["ascending", "descending", "equal", "largest at the end", "in one group"]
)
def test_topk_of_few_elements_agrees_with_numpy(k, kind):
    n = 6007
    a = {
        "ascending": lambda: np.arange(n) - 2 * n,
        "descending": lambda: -np.arange(n),
        "equal": lambda: np.full(n, -(2**31)),
        "largest at the end": lambda: (np.arange(n) >= n - 5) * (2**31 - 1),
        "in one group": lambda: (np.arange(n) // 50 == 60) * np.arange(n),
    }[kind]().astype(np.int32)
    for largest in (True, False):
        check(Tensor(a).topk(k, largest=largest)[1], order(a, is_descending=largest)[:k])


def test_larger_sorts_are_left_to_the_host(rng):
    a = make_array(rng, (2, 3000), "float32")
    for k in (65, 700):
        places = Tensor(a).topk(k)[1]
        assert not uses_only_kernels(places)
        check(places, order(a, is_descending=True)[:, :k])


def test_rows_of_any_length_are_ordered_by_kernels(rng):
    a = make_rows(rng, (5, 32), "float32")
    n = Variable("n", 1, 32)
    for size in (1, 2, 9, 32):
        x = Tensor(a)[:, : n.bind(size)]
        check(x.argsort(), order(a[:, :size], is_descending=False))
        check(
            x.sort(descending=True),
            np.take_along_axis(a, order(a[:, :size], is_descending=True), -1),
        )
    m = Variable("m", 1, 5)
    for count in (1, 4):
        check(Tensor(a)[: m.bind(count)].argsort(), order(a[:count], is_descending=False))


@pytest.mark.parametrize("shape", [(6, 20), (4, 3000)])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("k", [3, 17])
def test_sharded_rows(rng, shape, axis, k):
    a = make_array(rng, shape, "float32")
    x = Tensor(a).shard(("CPU", "CPU:1"), axis)
    check(x.topk(k)[1], order(a, is_descending=True)[:, :k])
    check(x.sort(1), np.sort(a, 1))


@pytest.mark.parametrize("shape", [(3, 9), (2, 2100)])
def test_derivatives_go_where_the_elements_were(rng, shape):
    a = rng.permutation(shape[0] * shape[1]).reshape(shape).astype(np.float32) / 100
    weights = make_array(rng, (shape[0], 9), "float32")
    for k in (5, 9):
        expected = np.zeros_like(a)
        np.put_along_axis(expected, order(a, is_descending=True)[:, :k], weights[:, :k], -1)
        check(grad(lambda x, k=k: (x.topk(k)[0] * weights[:, :k]).sum())(Tensor(a)), expected)
    tangent = make_array(rng, shape, "float32")
    _, moved = jvp(lambda x: x.topk(9)[0], (Tensor(a),), (Tensor(tangent),))
    check(moved, np.take_along_axis(tangent, order(a, is_descending=True)[:, :9], -1))


def test_derivatives_of_short_rows_along_any_axis(rng):
    a, weights = make_array(rng, (6, 4), "float32"), make_array(rng, (6, 4), "float32")
    expected = np.zeros_like(a)
    np.put_along_axis(expected, np.argsort(a, 0), weights, 0)
    check(grad(lambda x: (x.sort(0) * weights).sum())(Tensor(a)), expected)


def test_captured_functions_sort_their_arguments(rng):
    step = jit(lambda x: (x.sort(), x.argsort(0, descending=True), x.topk(20, 0)[1]))
    for _ in range(3):
        a = make_array(rng, (3001, 4), "float32")
        found = step(Tensor(a))
        check(found[0], np.sort(a, -1))
        check(found[2], order(a.T, is_descending=True)[:, :20].T)
