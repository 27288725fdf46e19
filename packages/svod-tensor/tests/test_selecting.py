"""What values choose is computed at once: positions, masks, different elements, repetitions."""

from __future__ import annotations

import numpy as np
import pytest

import svod_tensor as sv
from svod_ir import OperandError, ShapeError
from svod_tensor import Tensor, grad, jit
from svod_tensor.errors import DataDependentShapeError, IndexKindError
from svod_testing import check, make_array

DTYPES = ["bool", "int8", "uint64", "int64", "float16", "float32", "float64"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(5,), (3, 4), (2, 0, 3), (1,)])
def test_nonzero_agrees_with_numpy(rng, dtype, shape):
    a = rng.integers(0, 2, shape).astype(dtype)
    found, expected = Tensor(a).nonzero(), np.nonzero(a)
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected, strict=True):
        check(ours, theirs.astype(np.int64))
    check(Tensor(a).argwhere(), np.argwhere(a).astype(np.int64))
    check(Tensor(a)[Tensor(a) != 0], a[a != 0])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (40,), (3, 4), (2, 0), (1,)])
def test_unique_elements_agree_with_numpy(rng, dtype, shape):
    a = rng.integers(0, 9, shape).astype(dtype)
    x = Tensor(a)
    values, indices, inverse, counts = np.unique(
        a, return_index=True, return_inverse=True, return_counts=True
    )
    found = x.unique_all()
    check(found.values, values)
    check(found.indices, indices.astype(np.int64))
    check(found.inverse_indices, inverse.reshape(shape).astype(np.int64))
    check(found.counts, counts.astype(np.int64))
    check(x.unique_counts().counts, counts.astype(np.int64))
    check(x.unique_inverse().inverse_indices, inverse.reshape(shape).astype(np.int64))
    check(x.unique_values(), values)


def test_each_nan_is_unique_and_signed_zeros_are_equal():
    found = Tensor([np.nan, 0.0, np.nan, -0.0]).unique_all()
    np.testing.assert_array_equal(found.values.numpy(), np.float32([0, np.nan, np.nan]))
    assert found.indices.tolist() == [1, 0, 2]
    assert found.inverse_indices.tolist() == [1, 0, 2, 0]
    assert found.counts.tolist() == [2, 1, 1]


def test_slices_are_selected_by_a_condition(rng):
    a = make_array(rng, (3, 4), "float32")
    check(Tensor(a).compress([True, False, True], 0), a.compress([True, False, True], 0))
    check(Tensor(a).compress(Tensor([False, True]), 1), a.compress([False, True], 1))
    check(Tensor(a).compress(Tensor(a).flatten() > 0), a.compress(a.ravel() > 0))
    with pytest.raises(
        ShapeError, match=r"compress: condition must be 1-d with at most 3 elements: \(4,\)"
    ):
        Tensor(a).compress([True] * 4, 0)


def test_tensor_masks_select(rng):
    a = make_array(rng, (3, 4, 2), "float32")
    x = Tensor(a)
    check(x[x > 0], a[a > 0])
    check(x[x[..., 0] > 0], a[a[..., 0] > 0])
    check(x[:, x[0, :, 0] > 0], a[:, a[0, :, 0] > 0])
    check(x.masked_select(x > 0), a[a > 0])
    check(x[x > 100], a[a > 100])
    with pytest.raises(
        IndexKindError, match="indexing: cannot index with 'a mask': a 0-d mask cannot be"
    ):
        x[Tensor(True), 0]


@pytest.mark.parametrize("value", [True, False])
@pytest.mark.parametrize("shape", [(), (3,), (0,), (2, 3)])
def test_a_0d_mask_selects_all_or_no_elements(rng, shape, value):
    a = make_array(rng, shape, "float32")
    for mask in (value, Tensor(value), np.bool_(value), np.array(value), (Tensor(value),)):
        x, b = Tensor(a).clone(), a.copy()
        check(x[mask], a[np.bool_(value)])
        x[mask] = 7.0
        b[np.bool_(value)] = 7.0
        check(x, b)
        new = make_array(rng, (1, *shape), "float32")
        x[mask] = Tensor(new)
        check(x, new[0] if value else b)
        x[mask] = x[mask] + 1
        check(x, new[0] + 1 if value else b)
        with pytest.raises(ShapeError):
            x[mask] = Tensor(np.ones((2, *shape), np.float32))
        with pytest.raises(ShapeError):
            x[Tensor(True)] = x[Tensor(False)]


def test_a_captured_function_writes_by_a_0d_mask():
    @jit
    def replace(x, limit):
        x = x.clone()
        x[x.sum() > limit] = 0.0
        return x

    x = Tensor([1.0, 2.0])
    for limit in (2.0, 4.0, 2.0):
        check(replace(x, Tensor(limit)), np.float32([0, 0] if limit < 3 else [1, 2]))


def test_several_values_are_written_by_a_mask(rng):
    a = make_array(rng, (3, 4), "float32")
    x, values = Tensor(a), np.arange((a > 0).sum(), dtype=np.float32)
    x[x > 0] = Tensor(values)
    a[a > 0] = values
    check(x, a)
    check(x.add_at(x > 1, 5.0), np.where(a > 1, a + np.float32(5), a))


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
def test_elements_are_repeated_by_individual_counts(rng, axis):
    a = make_array(rng, (3, 4), "float32")
    n = a.size if axis is None else a.shape[axis]
    times = rng.integers(0, 4, n)
    check(Tensor(a).repeat(Tensor(times), axis), np.repeat(a, times, axis))
    check(Tensor(a).repeat(times.tolist(), axis), np.repeat(a, times, axis))
    check(Tensor(a).repeat([2], axis), np.repeat(a, [2], axis))


def test_invalid_repeats_are_errors():
    x = Tensor([1, 2, 3])
    with pytest.raises(ShapeError, match="repeat: repeats must be one or 3 non-negative counts"):
        x.repeat([1, 2])
    with pytest.raises(ShapeError, match="repeat: repeats must be one or 3 non-negative counts"):
        x.repeat([1, 2, -1])
    with pytest.raises(OperandError, match="integers"):
        x.repeat(Tensor([1.0, 2.0, 3.0]))


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x[x > 0],
        lambda x: x.nonzero(),
        lambda x: x.unique_values(),
        lambda x: x.compress(x > 0),
        lambda x: x.repeat(x.cast("int32")),
        lambda x: x.masked_select(x > 0),
        lambda x: x.argwhere(),
    ],
)
def test_in_a_captured_function_they_are_errors_with_hints(call):
    with pytest.raises(DataDependentShapeError, match="values that are not computed yet"):
        jit(call)(Tensor([1.0, 2.0]))
    with pytest.raises(DataDependentShapeError, match="values that are not computed yet"):
        sv.fori_loop(0, 3, lambda i, x: call(x), Tensor([1.0, 2.0]))


def test_masked_selection_has_a_derivative():
    x = Tensor([1.0, -2.0, 3.0])
    assert grad(lambda x: x[x > 0].square().sum())(x).tolist() == [2.0, 0.0, 6.0]


def test_selected_elements_stay_on_their_device():
    x = Tensor([[1.0, -2.0], [3.0, 4.0]], device="CPU:1")
    for found in (
        *x.nonzero(),
        x[x > 0],
        x.unique_values(),
        x.unique_all().counts,
        x.repeat([1, 2], 0),
    ):
        assert found.device == "CPU:1"
    assert x[x > 0].tolist() == [1.0, 3.0, 4.0]
    halves = Tensor([[1.0, -2.0], [3.0, 4.0]]).shard(("CPU", "CPU:1"), 0)
    assert halves[halves > 0].tolist() == [1.0, 3.0, 4.0]
    assert halves.unique_values().tolist() == [-2.0, 1.0, 3.0, 4.0]


@pytest.mark.parametrize(
    ("first", "second"), [("int32", "int32"), ("float32", "float64"), ("int8", "uint8")]
)
@pytest.mark.parametrize(("n", "m"), [(20, 30), (3, 60), (0, 4), (5, 0)])
def test_sets_agree_with_numpy(rng, first, second, n, m):
    a, b = rng.integers(0, 40, n).astype(first), rng.integers(0, 40, m).astype(second)
    dtype = sv.result_type(first, second).numpy
    for name in ("intersect1d", "setdiff1d", "setxor1d", "union1d"):
        expected = getattr(np, name)(a, b).astype(dtype)
        check(getattr(sv, name)(Tensor(a), Tensor(b)), expected)
