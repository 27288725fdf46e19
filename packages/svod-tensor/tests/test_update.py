from __future__ import annotations

import numpy as np
import pytest

import svod_tensor as sv
from svod_ir import BroadcastError, OperandError, ShapeError
from svod_tensor import PrepareConfig, Tensor, jit
from svod_tensor.errors import (
    DataDependentShapeError,
    IndexOutOfRangeError,
    IndexTensorError,
    IntegerOverflowError,
    NonFiniteCastError,
)
from svod_tensor.ops.indexing import updates
from svod_testing import check, make_array

_S = np.s_
INDICES = [
    _S[1],
    _S[-1, 2],
    _S[1:3],
    _S[::2, 1::3],
    _S[::-1],
    _S[:, 4:0:-2],
    _S[..., 0],
    _S[None, 1],
    _S[2:2],
    _S[...],
    _S[3, 4],
    _S[[0, 2]],
    _S[[0, 2, 0]],
    _S[[True, False, True, False]],
    _S[[False, True, True, False], ...],
    _S[[False] * 4],
    _S[:, [True, False, True, False, True]],
    _S[[True, False, False, True], [2, 1]],
    _S[:, [1, -1]],
    _S[[0, 1], [2, 3]],
    _S[np.array([[0], [3]]), [1, 2]],
    _S[[1], 2:4],
]


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_assignment_agrees_with_numpy(rng, index):
    a = make_array(rng, (4, 5), "float32")
    for value in (7.5, make_array(rng, a[index].shape, "float32")):
        x = Tensor(a)
        x[index] = Tensor(value) if isinstance(value, np.ndarray) else value
        expected = a.copy()
        expected[index] = value
        check(x, expected)


def test_values_broadcast_and_take_the_dtype_of_the_tensor():
    x = Tensor(np.zeros((3, 4), np.int32))
    x[1:] = np.array([1.9, 2, 3, 4])
    assert x.tolist() == [[0] * 4, [1, 2, 3, 4], [1, 2, 3, 4]]
    with pytest.raises(ShapeError, match="could not be broadcast"):
        x[0] = [1, 2, 3]
    with pytest.raises(NonFiniteCastError):
        x[0] = float("nan")
    with pytest.raises(IntegerOverflowError):
        Tensor([1], dtype="int8")[0] = 300


def test_replacing_items_changes_no_other_tensor():
    a = np.zeros(4, np.float32)
    x = Tensor(a)
    view, graph = x[1:3], x + 1
    y = x.with_items(1, 5)
    assert y.tolist() == [0.0, 5.0, 0.0, 0.0]
    assert x.tolist() == [0.0] * 4
    assert view.tolist() == [0.0, 0.0]
    assert graph.tolist() == [1.0] * 4
    assert a.tolist() == [0.0] * 4


def test_masks_of_any_tensor_can_be_written_to(rng):
    a = make_array(rng, (4, 5), "float32")
    x = Tensor(a)
    x[x > 0] = 0
    check(x, np.where(a > 0, np.float32(0), a))
    x[Tensor([True, False, True, False])] = [1, 2, 3, 4, 5]
    expected = np.where(a > 0, np.float32(0), a)
    expected[[0, 2]] = [1, 2, 3, 4, 5]
    check(x, expected)
    x[a > 0] = np.arange((a > 0).sum(), dtype=np.float32)
    expected[a > 0] = np.arange((a > 0).sum())
    check(x, expected)
    with pytest.raises(BroadcastError):
        x[x > 0] = Tensor(a)
    with pytest.raises(
        ShapeError,
        match=r"assignment to x\[mask\]: mask of shape \(1,\) does not match the leading axes of \(4, 5\)",
    ):
        x[Tensor([True])] = 1


@pytest.mark.parametrize("convert", [np.array, Tensor])
def test_each_selected_row_gets_its_own_row(rng, convert):
    mask = [True, False, True]
    for shape in ((3, 2), (3, 1), (3, 2, 4)):
        a = make_array(rng, shape, "float32")
        rows = make_array(rng, (2, *shape[1:]), "float32")
        x = Tensor(a)
        x[convert(mask)] = rows
        expected = a.copy()
        expected[np.array(mask)] = rows
        check(x, expected)
        check(
            x.add_at(np.array(mask), rows),
            expected + np.where(np.array(mask).reshape(3, *(1,) * (a.ndim - 1)), expected, 0),
        )


@pytest.mark.parametrize(
    "index",
    [
        lambda of: of([3, 0, 3, -1]),
        lambda of: (of([1, 0]), of([2, -4])),
        lambda of: (slice(1, None, 2), of([[0], [3]])),
        lambda of: (of([0, 2]), None, slice(1, 3)),
        lambda of: (2, of([1, 1])),
        lambda of: of(np.zeros((0,), np.int64)),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_integer_array_assignment_agrees_with_numpy(rng, index, dtype):
    a = rng.integers(-9, 9, (4, 4)).astype(dtype)
    known, unknown = index(np.array), index(lambda values: Tensor(np.array(values)).realize())
    values = rng.integers(-9, 9, a[known].shape).astype(dtype)
    for value in (values, (dtype == "int8" and 5) or 1.5):
        expected = a.copy()
        expected[known] = value
        x, y = Tensor(a), Tensor(a).realize()
        check(x.with_items(unknown, value), expected)
        view = y.reshape(16)
        y[unknown] = value
        check(y, expected)
        check(view, expected.reshape(16))
        check(x, a)


def test_put_along_axis_and_scatter_agree_with_numpy(rng):
    a, indices = (
        rng.standard_normal((3, 5)).astype(np.float32),
        np.array([[4, 0, -1], [1, 1, 2], [3, 0, 2]]),
    )
    values = rng.standard_normal((3, 3)).astype(np.float32)
    expected = a.copy()
    np.put_along_axis(expected, indices, values, 1)
    check(Tensor(a).put_along_axis(Tensor(indices), Tensor(values), 1), expected)
    check(Tensor(a).scatter(1, Tensor(indices), Tensor(values)), expected)
    part = (
        Tensor(a)
        .put_along_axis(Tensor(indices), Tensor(values), 1)
        .scatter(0, Tensor(indices[:1] % 3), 7)
    )
    # Indices of PyTorch's functions may be shorter on the other axes.
    for column, row in enumerate(indices[0] % 3):
        expected[row, column] = 7
    check(part, expected)


ADDED = [
    lambda of: of([3, 0, 3, -1, 3]),
    lambda of: of([[1, 1], [2, 1]]),
    lambda of: (of([1, 0, 1]), of([2, -4, 2])),
    lambda of: (slice(1, None, 2), of([[0], [3], [0]])),
    lambda of: (of([2, 2]), None, slice(1, 3)),
    lambda of: (2, of([1, 1])),
    lambda of: of(np.zeros((0,), np.int64)),
]


@pytest.mark.parametrize("index", ADDED)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "uint16", "bool"])
def test_add_at_accumulates_repeated_indices(rng, index, dtype):
    a = rng.integers(0, 9, (4, 4)).astype(dtype)
    known = index(np.array)
    values = rng.integers(0, 2, a[known].shape).astype(dtype)
    expected = a.copy()
    np.add.at(expected, known, values)
    check(
        Tensor(a).add_at(index(lambda v: Tensor(np.array(v)).realize()), Tensor(values)), expected
    )
    check(Tensor(a).add_at(known, values), expected)


def test_index_add_and_scatter_add(rng):
    a = rng.standard_normal((3, 5)).astype(np.float32)
    indices, values = np.array([4, 0, 4, -5]), rng.standard_normal((3, 4)).astype(np.float32)
    expected = a.copy()
    np.add.at(expected, (slice(None), indices), values)
    check(Tensor(a).index_add(1, Tensor(indices), Tensor(values)), expected, atol=1e-6)
    places = np.broadcast_to(indices, (3, 4))
    check(Tensor(a).scatter_add(1, Tensor(places.copy()), Tensor(values)), expected, atol=1e-6)
    more = a.copy()
    more[::2, 1:] += 2
    check(Tensor(a).add_at(np.s_[::2, 1:], 2), more)
    check(Tensor(np.arange(3)).add_at(Tensor([7, 1, -9]), 5), np.array([0, 6, 2]))
    half = Tensor(np.zeros(2, np.float16)).add_at(Tensor(np.zeros(4000, np.int64)), 1.0)
    check(half, np.array([4000, 0], np.float16))
    with pytest.raises(ShapeError, match="could not be broadcast"):
        Tensor(a).add_at(Tensor([1, 2]), Tensor(a))


def test_bincount_agrees_with_numpy(rng):
    values, weights = rng.integers(-2, 9, (50, 3)), rng.random((50, 3)).astype(np.float32)
    inside = (values >= 0) & (values < 6)
    check(Tensor(values).bincount(n_bins=6), np.bincount(values[inside], minlength=6))
    found = Tensor(values.astype(np.int8)).bincount(Tensor(weights), n_bins=6)
    check(found, np.bincount(values[inside], weights[inside], 6).astype(np.float32), atol=1e-5)
    check(Tensor(np.zeros((0,), np.int32)).bincount(n_bins=2), np.zeros(2, np.int64))
    with pytest.raises(OperandError, match="integers"):
        Tensor([1.0]).bincount(n_bins=3)


@pytest.mark.parametrize("minlength", [0, 3, 20])
@pytest.mark.parametrize("dtype", ["uint8", "int64"])
def test_bins_reach_to_the_largest_element_as_in_numpy(rng, dtype, minlength):
    values, weights = rng.integers(0, 9, 50).astype(dtype), rng.random(50)
    check(Tensor(values).bincount(minlength=minlength), np.bincount(values, minlength=minlength))
    check(
        sv.bincount(Tensor(values), Tensor(weights), minlength),
        np.bincount(values, weights, minlength),
    )
    check(
        Tensor(values[:0]).bincount(minlength=minlength),
        np.bincount(values[:0].astype("i8"), minlength=minlength),
    )


def test_bincount_errors_hint_at_n_bins():
    with pytest.raises(
        OperandError,
        match=r"bincount: expected non-negative integers, got -2\n.*x.bincount\(n_bins=8\)",
    ):
        Tensor([1, -2]).bincount()
    with pytest.raises(DataDependentShapeError, match=r"x.bincount\(n_bins=8\)"):
        jit(lambda x: x.bincount())(Tensor([1, 2]))


def test_a_captured_function_adds_at_the_indices_of_each_call():
    @jit
    def gather_and_add(nodes: Tensor, senders: Tensor, receivers: Tensor) -> Tensor:
        return nodes.zeros_like().add_at(receivers, nodes[senders])

    rng = np.random.default_rng(0)
    nodes = rng.standard_normal((5, 3)).astype(np.float32)
    for _ in range(3):
        senders, receivers = rng.integers(0, 5, (2, 12))
        expected = np.zeros_like(nodes)
        np.add.at(expected, receivers, nodes[senders])
        check(
            gather_and_add(Tensor(nodes), Tensor(senders), Tensor(receivers)), expected, atol=1e-5
        )


def test_a_captured_function_writes_at_the_indices_of_each_call():
    @jit
    def put(x: Tensor, i: Tensor, value: Tensor) -> Tensor:
        x[i] = value
        return x * 2

    x = Tensor(np.zeros(4, np.float32)).realize()
    check(
        put(x, Tensor([1, 2]).realize(), Tensor([5.0, 6.0]).realize()),
        np.array([0, 10, 12, 0], np.float32),
    )
    check(
        put(x, Tensor([2, 0]).realize(), Tensor([1.0, 3.0]).realize()),
        np.array([6, 10, 2, 0], np.float32),
    )
    check(x, np.array([3, 5, 1, 0], np.float32))


def test_out_of_range_writes_are_ignored_or_errors_in_checking_plans():
    indices = Tensor([1, 9, -5]).realize()
    check(Tensor([1, 2, 3]).with_items(indices, [7, 8, 9]), np.array([1, 7, 3], np.int32))
    with pytest.raises(IndexTensorError, match=r"element \(1,\) of the indices is 9"):
        Tensor([1, 2, 3]).with_items(indices, [7, 8, 9]).realize_with(
            PrepareConfig(check_operands=True)
        )


def test_elements_of_sharded_tensors_are_written(rng):
    a = rng.standard_normal((4, 3)).astype(np.float32)
    devices = ("CPU", "CPU:1")
    expected = a.copy()
    expected[[3, 0]] = [[1, 2, 3], [4, 5, 6]]
    x = Tensor(a).shard(devices, 0)
    check(x.with_items(Tensor([3, 0]).shard(devices), [[1, 2, 3], [4, 5, 6]]), expected)


def test_known_out_of_range_indices_are_errors():
    x = Tensor([1, 2, 3])
    with pytest.raises(IndexOutOfRangeError):
        x[3] = 1
    with pytest.raises(IndexOutOfRangeError):
        x[[0, -4]] = 1


def test_indices_and_values_of_the_caller_go_to_the_device_of_the_tensor():
    values = np.arange(12.0, dtype=np.float32).reshape(3, 4)
    x = Tensor(values, device="CPU:1")
    order = np.array([2, 0])
    check(x[order], values[order])
    check(x[[0, 1], [1, 3]], values[[0, 1], [1, 3]])
    written = values.copy()
    written[order] = [1.0, 2.0, 3.0, 4.0]
    written[1:, 0] = np.float32([7.0, 8.0])
    y = x.with_items(order, [1.0, 2.0, 3.0, 4.0]).with_items(
        (slice(1, None), 0), np.float32([7.0, 8.0])
    )
    check(y, written)
    x[order] = [1.0, 2.0, 3.0, 4.0]
    x[1:, 0] = np.float32([7.0, 8.0])
    check(x, written)
    assert x.device == y.device == "CPU:1"


@pytest.mark.parametrize("shape", [(6, 3, 4), (6,), (6, 1), (6, 0)])
@pytest.mark.parametrize("is_tensor", [True, False])
def test_whole_rows_are_gathered_by_index(rng, shape, is_tensor):
    # Repeated and negative rows, in several axes, and one value for all columns.
    rows = np.array([[1, -1, 4], [5, 1, 0]])
    a, index = make_array(rng, shape, "float32"), Tensor(rows) if is_tensor else rows
    for value in (
        make_array(rng, (2, 3, *shape[1:]), "float32"),
        make_array(rng, (3, *(1 for _ in shape[1:])), "float32"),
    ):
        expected = a.copy()
        expected[rows] = value
        check(Tensor(a).with_items(index, Tensor(value)), expected)
        check(Tensor(a).with_items((index, ...), Tensor(value)), expected)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_only_the_indexed_rows_are_written(rng, axis):
    a = make_array(rng, (40, 50, 64), "float32")
    index = (*[slice(None)] * axis, Tensor([4, 7, 4]).realize())
    rows = make_array(rng, a[(*[slice(None)] * axis, [4, 7, 4])].shape, "float32")
    x, value = Tensor(a).realize(), Tensor(rows).realize()
    x[index] = value
    (kernel,) = x.prepare().profile().summaries()
    # The rows are read and written, and so are indices; the whole tensor has 500 KB.
    assert kernel.n_bytes / kernel.n_launches < 3 * rows.nbytes
    expected = a.copy()
    expected[(*[slice(None)] * axis, [4, 7, 4])] = rows
    check(x, expected)


@pytest.mark.parametrize(
    "index",
    [
        (_S[0, 1],),
        (_S[3],),
        (_S[2], _S[:], _S[1]),
        (_S[:], _S[4]),
        (_S[...], _S[-1]),
        (_S[1], _S[2], _S[3]),
        (_S[:], _S[-2], _S[0]),
    ],
    ids=str,
)
@pytest.mark.parametrize("limit", [0, 1 << 14])
def test_tensors_as_single_indices_agree_with_numpy(rng, monkeypatch, index, limit):
    """By comparison of indices in small tensors, as a write of one row in large ones."""
    monkeypatch.setattr(updates, "MAX_COMPARED", limit)
    a = make_array(rng, (4, 5, 6), "float32")
    index = index[0] if isinstance(index[0], tuple) else index
    value = make_array(rng, a[index].shape, "float32")
    for shown in (value, 2.5):
        x, expected = Tensor(a).realize(), a.copy()
        x[tuple(Tensor(i) if isinstance(i, int) else i for i in index)] = shown
        expected[index] = shown
        check(x, expected)


@pytest.mark.parametrize(
    "index",
    [
        (_S[:], [1, 3, 1]),
        (_S[:], _S[:], [[0, 5], [2, 0]]),
        (_S[:], [0, 4], [5, 1]),
        (_S[1:3], [0, 4]),
        (_S[:], _S[1:4], [5, 1]),
        ([0, 3], _S[:], [5, 1]),
        (_S[:], [1, 3], _S[::2]),
        (_S[:], 2, [5, 1]),
        ([0, 3], 1, _S[2:]),
        (None, [1, 2]),
        (_S[:], None, [1, 2]),
        ([True, False, True, False], _S[:], [1, 2]),
    ],
    ids=str,
)
@pytest.mark.parametrize("convert", [np.array, Tensor])
def test_arrays_on_any_axes_agree_with_numpy(rng, index, convert):
    a = make_array(rng, (4, 5, 6), "float32")
    known = tuple(np.array(i) if isinstance(i, list) else i for i in index)
    converted = tuple(
        convert(i) if isinstance(i, list) and i[0] is not True else k
        for i, k in zip(index, known, strict=True)
    )
    value = make_array(rng, a[known].shape, "float32")
    x, expected = Tensor(a).realize(), a.copy()
    x[converted] = Tensor(value)
    expected[known] = value
    check(x, expected)
    check(Tensor(a).with_items(converted, Tensor(value)), expected)
    added = a.copy()
    np.add.at(added, known, value)
    check(Tensor(a).add_at(converted, Tensor(value)), added, rtol=1e-6)


def test_rows_that_read_their_own_tensor_are_read_before_any_is_written(rng):
    a = make_array(rng, (6, 8), "float32")
    x, expected = Tensor(a).realize(), a.copy()
    rows = Tensor([0, 1, 0, 5]).realize()
    x[rows] = x[rows] * 2 + x[Tensor([1, 0, 2, 0])]
    expected[[0, 1, 0, 5]] = expected[[0, 1, 0, 5]] * 2 + expected[[1, 0, 2, 0]]
    check(x, expected)
    x[rows] += 1
    expected[[0, 1, 0, 5]] += 1
    check(x, expected)
    order = Tensor(np.array([2, 0, 1])).realize()
    order[order] = Tensor([5, 6, 7])
    assert order.tolist() == [6, 7, 5]


@pytest.mark.parametrize("dtype", ["complex64", "bfloat16", "bool", "float8_e4m3", "int64"])
def test_rows_of_every_kind_of_dtype_are_written(rng, dtype):
    values = make_array(rng, (7, 3), "float32") * (1j if dtype == "complex64" else 1)
    everything = Tensor(values).cast(dtype).realize()
    x, rows = everything[:5].clone().realize(), everything[5:]
    x[Tensor([3, -1])] = rows
    expected = everything.numpy()[[0, 1, 2, 5, 6]]
    np.testing.assert_array_equal(x.numpy(), expected)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("shards", [0, 1, None])
def test_rows_of_sharded_tensors_are_written(rng, axis, shards):
    a, rows = make_array(rng, (4, 6), "float32"), make_array(rng, (4, 6), "float32")
    devices = ("CPU", "CPU:1")
    index = (*[slice(None)] * axis, Tensor([1, 3, 1]).shard(devices))
    known = (*[slice(None)] * axis, [1, 3, 1])
    value = rows[known]
    x, expected = Tensor(a).shard(devices, shards).realize(), a.copy()
    sharding = x.sharding
    x[index] = Tensor(value).shard(devices)
    expected[known] = value
    check(x, expected)
    assert x.sharding == sharding


@pytest.mark.parametrize("index", [[3, 0, 3], [1, 9, 1], [-1, 2, 4]], ids=str)
def test_derivatives_of_replaced_rows_are_those_of_the_linear_map(rng, index):
    """Of repeated rows the last one counts, and a row out of bounds does not."""
    base, rows = make_array(rng, (5, 2), "float64"), make_array(rng, (3, 2), "float64")

    def replace(b, r):
        new = b.copy()
        for i, row in zip(index, r, strict=True):
            if -5 <= i < 5:
                new[i] = row
        return new

    cotangent = make_array(rng, (5, 2), "float64")
    function = lambda b, r: b.with_items(Tensor(index), r)  # noqa: E731
    _, pull = sv.vjp(function, Tensor(base), Tensor(rows))
    found = [g.numpy() for g in pull(Tensor(cotangent))]
    for k, operand in enumerate((base, rows)):
        expected = np.zeros_like(operand)
        for at in np.ndindex(operand.shape):
            unit = [np.zeros_like(base), np.zeros_like(rows)]
            unit[k][at] = 1
            expected[at] = (replace(*unit) * cotangent).sum()
        np.testing.assert_array_equal(found[k], expected)
    tangents = make_array(rng, (5, 2), "float64"), make_array(rng, (3, 2), "float64")
    _, tangent = sv.jvp(function, (Tensor(base), Tensor(rows)), tuple(map(Tensor, tangents)))
    np.testing.assert_array_equal(tangent.numpy(), replace(*tangents))


@pytest.mark.parametrize(("index_shape", "axis"), [((1, 2, 5), 1), ((3, 1, 1), 2), ((1, 1, 1), 0)])
def test_put_along_axis_broadcasts_indices(rng, index_shape, axis):
    a = make_array(rng, (3, 4, 5), "float32")
    line = rng.permutation(a.shape[axis])[: index_shape[axis]]
    indices = np.broadcast_to(np.expand_dims(line, [i for i in range(3) if i != axis]), index_shape)
    expected = a.copy()
    np.put_along_axis(expected, indices, 7.0, axis)
    check(Tensor(a).put_along_axis(Tensor(indices), 7.0, axis), expected)
    part = Tensor(a).scatter(axis, Tensor(indices), 7.0).numpy()
    assert (part == 7.0).sum() == indices.size
    with pytest.raises(
        ShapeError,
        match=r"put_along_axis: indices \(2, 4, 5\) could not be broadcast to \(3, 4, 5\)",
    ):
        Tensor(a).put_along_axis(Tensor(np.zeros((2, 4, 5), int)), 0.0, 1)


def test_add_at_takes_a_mask(rng):
    a, mask = make_array(rng, (3, 4), "float32"), np.array([True, False, True])
    expected = a.copy()
    expected[mask] += 1
    for index in (mask, mask.tolist(), Tensor(mask), Tensor(mask.astype(np.int8)) > 0):
        check(Tensor(a).add_at(index, 1.0), expected)
        check(Tensor(a).index_add(0, index, 1.0), expected)
    expected[mask, 1:3] += 2
    check(Tensor(a).add_at(mask, 1.0).add_at((Tensor(mask), slice(1, 3)), 2.0), expected)
