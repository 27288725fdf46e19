from __future__ import annotations

import numpy as np
import pytest

from svod_ir import AxisError, OperandError, ShapeError
from svod_runtime import PreparedKernel, clear_custom_functions
from svod_tensor import Tensor, Variable
from svod_tensor.host_functions.sort_rows import sort_rows
from svod_tensor.ops.indexing.sorting_kernels import MAX_PASSES
from svod_testing import check, make_array


@pytest.mark.parametrize(
    "dtype",
    ["float32", "int32", "uint8", "int64", "uint64", "float64", "bool", "float16", "uint32"],
)
@pytest.mark.parametrize("size", [1, 2, 7, 100])
def test_sorting_is_stable_and_agrees_with_numpy(rng, dtype, size):
    a = make_array(rng, (3, size), dtype)
    if dtype in ("int64", "uint64"):
        a = a * np.array(2**33 + 1, dtype)
    a[:, size // 2 :] = a[:, : size - size // 2]
    values, order = Tensor(a).sort(), Tensor(a).argsort()
    check(order, np.argsort(a, -1, kind="stable"))
    check(values, np.sort(a, -1))


def test_nan_comes_last_and_zeros_keep_their_order():
    a = np.array([np.nan, 1.0, -np.inf, -0.0, 0.0, np.inf, -1.0, -0.0, np.nan], np.float32)
    values, order = Tensor(a).sort(), Tensor(a).argsort()
    check(order, np.argsort(a, kind="stable"))
    check(values, np.sort(a))
    np.testing.assert_array_equal(np.signbit(values.numpy())[2:5], [True, False, True])


def test_descending_order_is_stable_too(rng):
    a = rng.integers(0, 5, 50).astype(np.int32)
    order = Tensor(a).argsort(descending=True)
    check(order, np.argsort(-a, kind="stable"))
    assert Tensor([1.0, np.nan, 2.0]).argsort(descending=True).tolist() == [1, 2, 0]


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_any_axis_can_be_sorted(rng, axis):
    a = make_array(rng, (5, 6, 3), "float32")
    check(Tensor(a).sort(axis), np.sort(a, axis))


def test_topk_finds_largest_and_smallest_elements(rng):
    a = make_array(rng, (4, 30), "float32")
    values, order = Tensor(a).topk(3)
    check(values, -np.sort(-a, -1)[:, :3])
    check(order, np.argsort(-a, -1, kind="stable")[:, :3])
    check(Tensor(a).topk(2, 0, largest=False)[0], np.sort(a, 0)[:2])
    with pytest.raises(ShapeError, match="topk: k=31 is out of range for axis 1 with size 30"):
        Tensor(a).topk(31)


@pytest.mark.parametrize("k", [1, 7, 300])
@pytest.mark.parametrize("kind", ["random", "ascending", "descending", "few values", "equal"])
def test_topk_of_long_rows_is_stable(rng, kind, k):
    shape = (3, 20011)
    a = {
        "random": lambda: make_array(rng, shape, "float32"),
        "ascending": lambda: np.arange(3 * 20011, dtype=np.float32).reshape(shape),
        "descending": lambda: -np.arange(3 * 20011, dtype=np.float32).reshape(shape),
        "few values": lambda: rng.integers(0, 3, shape).astype(np.float32),
        "equal": lambda: np.full(shape, np.nan, np.float32),
    }[kind]()
    check(Tensor(a).topk(k)[1], np.argsort(-a, -1, kind="stable")[:, :k])
    check(Tensor(a).topk(k, largest=False)[1], np.argsort(a, -1, kind="stable")[:, :k])


@pytest.mark.parametrize("n_rows", [1, 70, 700])
@pytest.mark.parametrize(("size", "k"), [(75, 20), (257, 9), (300, 128), (999, 20), (1000, 129)])
@pytest.mark.parametrize("kind", ["random", "few values", "nan"])
def test_topk_of_rows_of_moderate_length_is_stable(rng, kind, size, k, n_rows):
    a = rng.standard_normal((n_rows, size)).astype(np.float32)
    if kind == "few values":
        a = np.floor(a)
    elif kind == "nan":
        a[:, ::3] = np.nan
    for largest in (True, False):
        ranks = np.unique(a, return_inverse=True, equal_nan=True)[1].reshape(a.shape)
        expected = np.argsort(-ranks if largest else ranks, -1, kind="stable")[:, :k]
        values, order = Tensor(a).topk(k, largest=largest)
        check(order, expected)
        check(values, np.take_along_axis(a, expected, -1))


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("dtype", ["float64", "int64", "uint64", "int32"])
@pytest.mark.parametrize(("size", "k"), [(301, 9), (1000, 20), (5003, 60)])
def test_tournaments_of_equal_elements_are_stable(rng, size, k, dtype, largest):
    limits = np.finfo if dtype == "float64" else np.iinfo
    values = np.array([limits(dtype).min, 0, 1, limits(dtype).max], dtype)
    some, any_, equal = rng.choice(values, size), make_array(rng, (size,), dtype), values[1]
    a = np.stack([some, any_, np.full(size, equal)])
    if dtype == "float64":
        a[0, ::2] = np.nan
    ranks = np.unique(a, return_inverse=True, equal_nan=True)[1].reshape(a.shape)
    expected = np.argsort(-ranks if largest else ranks, -1, kind="stable")[:, :k]
    plan = (order := Tensor(a).topk(k, largest=largest)[1]).prepare()
    plan.execute()
    assert all(isinstance(op, PreparedKernel) for op in plan.prepared_ops)
    check(order, expected)


@pytest.mark.parametrize("n_rows", [1, 40])
def test_topk_of_several_rows_of_a_thousand_needs_no_call_of_the_host(rng, n_rows):
    plan = Tensor(make_array(rng, (n_rows, 1000), "float32")).topk(20)[1].prepare()
    assert all(isinstance(op, PreparedKernel) for op in plan.prepared_ops)


@pytest.mark.parametrize("n_rows", [1, 3, 200])
@pytest.mark.parametrize("size", [1, 64, 255, 256, 257, 513, 2000])
def test_the_host_finds_the_smallest_elements_of_rows_of_any_length(rng, size, n_rows):
    x = rng.integers(-(2**63), 2**63 - 1, (n_rows, size))
    for n in sorted({1, 9, 32, 33, 64, 128, 129, size - 1, size}):
        if 0 < n <= size:
            out = np.empty((n_rows, n), np.int64)
            sort_rows(out, x)
            np.testing.assert_array_equal(out, np.sort(x, -1)[:, :n])


def test_empty_and_single_axes_are_sorted_already():
    assert Tensor.zeros(2, 0).argsort().shape == (2, 0)
    assert Tensor([[3], [1]]).argsort().tolist() == [[0], [0]]
    with pytest.raises(AxisError):
        Tensor(1.0).sort()


def test_sort_keys_are_packed_in_one_kernel_and_unpacked_in_another(rng):
    plan = Tensor(make_array(rng, (1000,), "float32")).argsort().prepare()
    assert len(plan.kernels()) == 2
    assert plan.num_calls == 3


def test_ties_among_the_largest_go_to_the_first(rng):
    a = rng.integers(0, 3, (5, 200)).astype(np.float32)
    check(Tensor(a).topk(70)[1], np.argsort(-a, -1, kind="stable")[:, :70])
    check(Tensor(a).topk(0)[0], a[:, :0])


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize(
    ("dtype", "k"),
    [
        ("float32", 1),
        ("float32", 3),
        ("float32", MAX_PASSES),
        ("int32", 1),
        ("int32", MAX_PASSES),
        ("uint8", 1),
        ("int64", 3),
        ("uint64", 3),
        ("float64", 1),
        ("bool", 3),
        ("float16", 1),
        ("uint32", 3),
    ],
)
def test_small_topk_is_stable_and_runs_without_the_host(rng, dtype, k, largest):
    a = make_array(rng, (5, 40), dtype)
    if dtype in ("int64", "uint64"):
        a = a * np.array(2**33 + 1, dtype)
    a[:, 20:] = a[:, :20]
    if a.dtype.kind == "f":
        a[0, :30], a[1, ::3], a[2, :4], a[3] = np.nan, np.inf, [0.0, -0.0, 0.0, -0.0], 0.0
    values, order = Tensor(a).topk(k, largest=largest)
    plan = values.prepare()
    plan.execute()
    assert all(isinstance(op, PreparedKernel) for op in plan.prepared_ops)
    # Bits turned over order the other way round, and keep the order of what is equal.
    ranks = np.unique(a, return_inverse=True, equal_nan=True)[1].reshape(a.shape)
    expected = np.argsort(-ranks if largest else ranks, -1, kind="stable")[:, :k]
    check(order, expected)
    check(values, np.take_along_axis(a, expected, -1))


def test_few_elements_along_a_sharded_axis_of_several_devices(rng):
    a = make_array(rng, (6, 50), "float32")
    for axis in (0, 1):
        values, order = Tensor(a).shard(("CPU", "CPU:1"), axis).topk(3)
        check(order, np.argsort(-a, -1, kind="stable")[:, :3])
        check(values, -np.sort(-a, -1)[:, :3])


def test_few_elements_of_rows_of_any_length(rng):
    a = make_array(rng, (3, 16), "float32")
    n = Variable("n", 4, 16)
    for size in (4, 9, 16):
        check(
            Tensor(a)[:, : n.bind(size)].topk(4)[1],
            np.argsort(-a[:, :size], -1, kind="stable")[:, :4],
        )


def test_sorting_needs_no_registration_and_cannot_be_forgotten(rng):
    a = make_array(rng, (100,), "float32")
    clear_custom_functions()
    check(Tensor(a).sort(), np.sort(a))


@pytest.mark.parametrize("dtype", ["float32", "int32", "uint8", "int64", "uint64", "float64"])
@pytest.mark.parametrize("size", [0, 1, 2, 7, 8, 100])
@pytest.mark.parametrize("side", ["left", "right"])
def test_searchsorted_agrees_with_numpy(rng, dtype, size, side):
    a = np.sort(make_array(rng, (size,), dtype))
    a[size // 2 : size // 2 + 3] = a[size // 2] if size else 0
    values = np.concatenate([make_array(rng, (20,), dtype), a]).reshape(-1, 1)
    check(Tensor(a).searchsorted(Tensor(values), side), np.searchsorted(a, values, side))


def test_searchsorted_with_nans_zeros_and_symbolic_sizes():
    a = np.array([-np.inf, -1, 0, 2, np.inf, np.nan], np.float32)
    values = np.array([np.nan, -0.0, 0.0, np.inf, -np.inf, 1], np.float32)
    for side in ("left", "right"):
        check(Tensor(a).searchsorted(Tensor(values), side), np.searchsorted(a, values, side))
    n = Variable("n", 1, 6)
    for size in (2, 5):
        check(
            Tensor(a)[: n.bind(size)].searchsorted(Tensor(values)),
            np.searchsorted(a[:size], values),
        )
    assert Tensor(a).searchsorted(1.5).item() == 3
    with pytest.raises(ShapeError, match=r"searchsorted: the sorted tensor must be 1-d: \(1, 1\)"):
        Tensor([[1.0]]).searchsorted(1.0)


@pytest.mark.parametrize("dtype", ["int8", "uint64", "float32", "float64"])
@pytest.mark.parametrize("n", [32, 33, 500])
def test_membership_among_many(rng, dtype, n):
    a, values = rng.integers(0, 100, (7, 9)).astype(dtype), rng.integers(0, 100, n).astype(dtype)
    if np.dtype(dtype).kind == "f":
        a[0, :2], values[:2] = np.nan, np.nan
        a[1, 0], values[2] = 0.0, -0.0
    check(Tensor(a).isin(Tensor(values)), np.isin(a, values))
    check(Tensor(a).isin(Tensor(values), invert=True), np.isin(a, values, invert=True))


def test_membership(rng):
    a, b = rng.integers(0, 9, (3, 5)), rng.integers(0, 9, (2, 2))
    check(Tensor(a).isin(Tensor(b)), np.isin(a, b))
    check(Tensor(a).isin([1, 2], invert=True), np.isin(a, [1, 2], invert=True))


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("n", [7, 60])
def test_complex_numbers_are_in_order_of_their_parts(rng, dtype, n):
    parts = np.array([0.0, -0.0, 1.0, -2.5, np.inf, -np.inf, np.nan])
    a = np.empty((3, n), dtype)
    a.real, a.imag = rng.choice(parts, (3, n)), rng.choice(parts, (3, n))
    for axis in (0, 1):
        check(Tensor(a).argsort(axis), np.argsort(a, axis, kind="stable"))
        found, expected = Tensor(a).sort(axis).numpy(), np.sort(a, axis, kind="stable")
        np.testing.assert_array_equal(found.real, expected.real)
        np.testing.assert_array_equal(found.imag, expected.imag)
    finite = np.nan_to_num(a, posinf=9, neginf=-9)
    np.testing.assert_array_equal(
        Tensor(finite).sort(1, descending=True).numpy(), np.flip(np.sort(finite, axis=1), 1)
    )


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_unique_complex_numbers_are_found(rng, dtype):
    a = (rng.integers(-2, 2, (4, 30)) + 1j * rng.integers(-2, 2, (4, 30))).astype(dtype)
    expected = np.unique_all(a)
    for found, theirs in zip(Tensor(a).unique_all(), expected, strict=True):
        np.testing.assert_array_equal(found.numpy(), theirs)
    values = expected.values
    check(Tensor(a).isin(Tensor(values[::2])), np.isin(a, values[::2]))
    many = np.concatenate([values[1:], values + 7, values + 20]).astype(dtype)
    check(Tensor(a).isin(Tensor(many)), np.isin(a, many))


def test_searchsorted_refuses_an_unknown_side():
    with pytest.raises(OperandError, match=r"searchsorted: expected .*, got side='middle'"):
        Tensor([1, 3]).searchsorted(2, side="middle")
