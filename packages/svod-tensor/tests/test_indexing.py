from __future__ import annotations

import math

import numpy as np
import pytest

import svod_tensor as sv
from svod_ir import BroadcastError, OperandError, ShapeError
from svod_tensor import Tensor
from svod_tensor._variable import Variable
from svod_tensor.engine.caches import SCHEDULES
from svod_tensor.errors import IndexKindError, IndexOutOfRangeError
from svod_testing import check, make_array


@pytest.fixture
def a(rng):
    return make_array(rng, (4, 5, 6), "float32")


_S = np.s_
BASIC = [
    _S[1],
    _S[-1],
    _S[1:3],
    _S[:, 2],
    _S[..., 0],
    _S[::-1],
    _S[::2, 1::3],
    _S[:, ::-2, 5:0:-2],
    _S[None],
    _S[:, None, 1:],
    _S[..., None],
    _S[2:2],
    _S[9:],
    _S[-3:-1],
    _S[1, 2, 3],
    _S[1, ..., -2],
    _S[()],
    _S[...],
    _S[0:4:3, :, 4::-3],
    _S[:, :, ::6],
    _S[np.int64(2)],
]


@pytest.mark.parametrize("index", BASIC, ids=str)
def test_basic_indices_agree_with_numpy(a, index):
    check(Tensor(a)[index], a[index])


_I, _J = np.array([3, 0, -1]), np.array([[1], [-4]])
ADVANCED = [
    _S[_I],
    _S[:, _I],
    _S[..., _I],
    _S[_I, _I],
    _S[_J, _I],
    _S[_I, :, _I],
    _S[:, _I, _I],
    _S[_I, 2],
    _S[1, :, _I],
    _S[0, _I, :],
    _S[[0, 1]],
    _S[[[0, 1], [2, 3]]],
    _S[_I, None, _I],
    _S[None, _I],
    _S[::-1, _I],
    _S[_J, ::2, _I],
    _S[np.array(2), 1:3],
    _S[range(2)],
    _S[np.zeros((0,), int)],
    _S[[], 1],
    _S[np.array([1, 2], np.uint8)],
]


@pytest.mark.parametrize("index", ADVANCED, ids=range(len(ADVANCED)))
def test_integer_arrays_agree_with_numpy(a, index):
    expected = a[index if not isinstance(index, range) else list(index)]
    check(Tensor(a)[index], expected)


@pytest.mark.parametrize("index", ADVANCED[:14], ids=range(14))
def test_integer_tensors_index_as_arrays_do(a, index):
    items = index if isinstance(index, tuple) else (index,)
    tensors = tuple(Tensor(i) if isinstance(i, np.ndarray) else i for i in items)
    check(Tensor(a)[tensors], a[index])


def test_masks_of_known_values_select(a):
    check(Tensor(a)[a > 0], a[a > 0])
    check(Tensor(a)[a[:, :, 0] > 0], a[a[:, :, 0] > 0])
    check(Tensor(a)[1, a[0, :, 0] > 0], a[1, a[0, :, 0] > 0])
    check(Tensor(a)[[True, False, True, False]], a[[True, False, True, False]])
    check(Tensor(a).masked_select(a > 1), a[a > 1])


def test_elements_are_filled_by_a_tensor_mask(a):
    x = Tensor(a)
    check(x.masked_fill(x > 0, 0), np.where(a > 0, np.float32(0), a))


@pytest.mark.parametrize(
    ("index", "axis", "size"),
    [
        (_S[4], 0, 4),
        (_S[:, -6], 1, 5),
        (_S[[0, 4]], 0, 4),
        (_S[:, np.array([[5]])], 1, 5),
        (_S[..., [-7]], 2, 6),
        (_S[0, 0, 6], 2, 6),
    ],
)
def test_a_known_index_out_of_range_is_an_error_at_the_call(a, index, axis, size):
    with pytest.raises(
        IndexOutOfRangeError, match=f"out of bounds for axis {axis} with size {size}"
    ) as caught:
        Tensor(a)[index]
    assert isinstance(caught.value, IndexError)


def test_an_unknown_index_out_of_range_reads_zero(a):
    x = Tensor(a)
    assert (x[Tensor([7])] == 0).all().item()
    assert (x[Tensor([-5, 4])] == 0).all().item()
    # Neither coordinate may borrow from the other.
    assert x[Tensor([0]), Tensor([6])].abs().sum().item() == 0
    assert x[Tensor([1]), Tensor([-6])].abs().sum().item() == 0
    assert x.take(Tensor([255], dtype="uint8"), 0).abs().sum().item() == 0
    assert x.take(Tensor([2**63], dtype="uint64"), 0).abs().sum().item() == 0


def test_objects_that_are_not_indices_are_errors(a):
    x = Tensor(a)
    for index, reason in (
        (1.5, "indexing: cannot index with"),
        ("a", "indexing: cannot index with"),
        ([1.5], "indexing: cannot index with 'a list or array': arrays used as"),
        ((True, 0), "a bool"),
        (slice(0, 1, 0), r"indexing: cannot index with slice\(0, 1, 0\): slice step cannot"),
    ):
        with pytest.raises(IndexKindError, match=reason):
            x[index]
    with pytest.raises(
        IndexKindError,
        match="too many indices for tensor: tensor is 3-dimensional, but 4 were indexed",
    ):
        x[0, 0, 0, 0]
    with pytest.raises(
        IndexKindError, match=r"indexing: cannot index with \(Ellipsis, 0, Ellipsis\): an index"
    ):
        x[..., 0, ...]
    with pytest.raises(IndexKindError, match="not float32"):
        x[Tensor([1.0])]
    with pytest.raises(IndexKindError):
        Tensor(1.0)[0]


def test_take_and_gather_agree_with_numpy(a):
    check(Tensor(a).take([1, -1], 1), np.take(a, [1, -1], 1))
    check(Tensor(a).take(np.array([[3], [100]])), np.take(a, [[3], [100]]))
    order = np.argsort(a, 1)
    check(Tensor(a).take_along_axis(Tensor(order), 1), np.take_along_axis(a, order, 1))
    check(
        Tensor(a).gather(-1, Tensor(order[:2, :3, :2])),
        np.take_along_axis(a[:2, :3], order[:2, :3, :2], -1),
    )
    with pytest.raises(
        ShapeError, match=r"gather: indices \(5, 1, 1\) exceed the operand \(4, 5, 6\) along"
    ):
        Tensor(a).gather(1, Tensor(np.zeros((5, 1, 1), int)))
    with pytest.raises(ShapeError):
        Tensor(a).take_along_axis(Tensor([0]), 1)
    with pytest.raises(OperandError):
        Tensor(a).take_along_axis(Tensor(a), 1)


def test_one_hot_and_embedding(rng):
    table = make_array(rng, (10, 4), "float32")
    ids = np.array([[0, 9], [3, 3]])
    check(Tensor(ids).embedding(Tensor(table)), table[ids])
    check(Tensor(ids).one_hot(10), np.eye(10, dtype=np.int64)[ids])
    assert Tensor([300]).one_hot(4).sum().item() == 0


def test_a_gather_costs_what_it_reads(rng):
    table = Tensor(make_array(rng, (1000, 8), "float32")).realize()
    plan = table[Tensor([1, 2, 3])].prepare()
    assert len(plan.kernels()) == 1
    assert "1000" not in str(plan.kernels()[0].global_size)


def test_length_and_iteration(a):
    x = Tensor(a)
    assert len(x) == 4
    assert [row.tolist() for row in x] == a.tolist()
    with pytest.raises(TypeError):
        len(Tensor(1.0))


def test_bound_variables_index_and_slice():
    x = Tensor(np.arange(10, dtype=np.float32))
    n = Variable("n", 0, 9)
    assert x[n.bind(4)].item() == 4
    assert x[n.bind(2) :].sum().item() == sum(range(2, 10))
    assert x[: n.bind(3)].tolist() == [0.0, 1.0, 2.0]


def test_a_negative_number_of_classes_is_an_error():
    with pytest.raises(ShapeError, match="one_hot: n_classes must not be negative: -1"):
        Tensor([0, 1]).one_hot(-1)
    assert Tensor([0, 1]).one_hot(0).shape == (2, 0)


@pytest.mark.parametrize("mode", ["wrap", "clip"])
def test_out_of_range_indices_are_wrapped_or_clipped(rng, mode):
    a = make_array(rng, (3, 4), "float32")
    for places in (np.array([5, -1, 0]), np.array([[-9, 300]]), np.array([7, 200], np.uint8)):
        for axis in (None, 0, 1):
            expected = np.take(a, places, axis, mode=mode)
            check(Tensor(a).take(places, axis, mode=mode), expected)
            check(Tensor(a).take(Tensor(places), axis, mode=mode), expected)
    with pytest.raises(
        OperandError, match='take: expected mode "raise", "wrap" or "clip", got mode=\'fold\''
    ):
        Tensor(a).take([0], mode="fold")
    with pytest.raises(ShapeError, match="take: cannot take from the empty axis 0"):
        Tensor.zeros(0).take([0], mode=mode)


@pytest.mark.parametrize("shape", [(3, 4), (1, 1), (5,), (1, 4, 1), ()])
def test_an_element_by_integer_indices_is_a_copy(shape: tuple[int, ...]) -> None:
    array = np.arange(math.prod(shape), dtype=np.float32).reshape(shape)
    for x in (
        Tensor(array),
        Tensor(array.copy()).realize(),
        Tensor(array) * 1,
        Tensor.from_numpy(array.copy()),
    ):
        for place in np.ndindex(*shape):
            negative = tuple(p - s for p, s in zip(place, shape, strict=True))
            assert x[place].item() == x[negative].item() == array[place]
            assert x[place].shape == ()
    last = tuple(s - 1 for s in shape)
    x = Tensor(array).clone().realize()
    element = x[last]
    x[last] = 100
    assert element.item() == array[last]
    element.assign(50)
    assert x.numpy()[last] == 100
    view = x[(*last, ...)]
    x[last] += 1
    assert view.item() == 101
    view -= 1
    assert x.numpy()[last] == 100
    with pytest.raises(IndexError):
        x[tuple(shape)] if shape else x[0]


@pytest.mark.parametrize("is_realized", [True, False])
def test_elements_are_swapped_as_in_numpy(is_realized: bool) -> None:
    x = Tensor([1, 2, 3]) if is_realized else Tensor([1, 2, 3]) * 1
    first = x[np.int64(0)]
    x[0], x[1] = x[1], x[0]
    assert (x.tolist(), first.item()) == ([2, 1, 3], 1)
    elements = list(x)
    x.assign(0)
    assert [e.item() for e in elements] == [2, 1, 3]
    number = Tensor(5)
    value, view = number[()], number[...]
    number[()] = 6
    assert (value.item(), view.item()) == (5, 6)


def test_reading_an_element_compiles_no_kernel() -> None:
    x = Tensor(np.arange(6)).realize()
    x[1] = 5
    x.realize()
    known = SCHEDULES.counts()
    elements = [x[i] for i in range(6)] + [x[::2][1], x[::-1][0], x.reshape(2, 3)[1, 2]]
    assert [e.item() for e in elements] == [0, 5, 2, 3, 4, 5, 2, 5, 5]
    assert "lazy" not in repr(elements[0])
    assert SCHEDULES.counts() == known


def test_numbers_that_are_not_plain_ints_are_other_indices() -> None:
    x = Tensor([[1, 2], [3, 4]]).realize()
    assert x[np.int64(1), 0].item() == 3
    assert x[1].tolist() == [3, 4]


@pytest.mark.parametrize(
    ("shape", "index_shape", "axis"),
    [
        ((3, 4), (1, 2), 1),
        ((1, 4), (3, 2), 1),
        ((3, 1, 5), (1, 4, 7), 2),
        ((3, 4, 1), (1, 6, 5), 1),
        ((2, 0), (1, 0), 1),
    ],
)
def test_take_along_axis_broadcasts_the_other_axes(rng, shape, index_shape, axis):
    a = make_array(rng, shape, "float32")
    indices = rng.integers(-max(shape[axis], 1), max(shape[axis], 1), index_shape)
    expected = np.take_along_axis(a, indices, axis)
    check(Tensor(a).take_along_axis(Tensor(indices), axis), expected)
    check(
        sv.jit(lambda x, i: sv.take_along_axis(x, i, axis=axis))(Tensor(a), Tensor(indices)),
        expected,
    )


def test_gather_reads_the_first_slices_without_broadcasting():
    x = Tensor([[1, 2], [3, 4]])
    assert x.gather(1, Tensor([[1]])).tolist() == [[2]]
    assert x.take_along_axis(Tensor([[1]]), 1).tolist() == [[2], [4]]
    with pytest.raises(BroadcastError, match=r"\(3, 1\)"):
        x.take_along_axis(Tensor([[0], [0], [0]]), 1)
    with pytest.raises(ShapeError, match="gather"):
        x.gather(1, Tensor([[0], [0], [0]]))
