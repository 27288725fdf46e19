from __future__ import annotations

import numpy as np
import pytest

import svod_tensor as sv
from svod_ir import AxisError, OperandError, ShapeError
from svod_tensor import Tensor, Variable
from svod_tensor.errors import SymbolicShapeError
from svod_testing import SHAPES, check, make_array


@pytest.fixture
def a(rng):
    return make_array(rng, (2, 3, 4, 5), "float32")


def test_reshape_keeps_row_major_order(a):
    check(Tensor(a).reshape(6, 20), a.reshape(6, 20))
    check(Tensor(a).reshape((6, -1)), a.reshape(6, -1))
    check(Tensor(a).permute(3, 1, 0, 2).reshape(-1), a.transpose(3, 1, 0, 2).reshape(-1))
    check(Tensor(a).flatten(1, 2), a.reshape(2, 12, 5))
    check(Tensor(a).unflatten(3, (5, -1)), a.reshape(2, 3, 4, 5, 1))
    check(Tensor(3.0).reshape(1, 1), np.array([[3.0]], np.float32))
    check(Tensor(3.0).flatten(), np.array([3.0], np.float32))


def test_a_wrong_reshape_is_an_error_with_both_sizes(a):
    with pytest.raises(
        ShapeError, match=r"reshape: cannot reshape tensor of size 120 into shape \(7, 17\)"
    ):
        Tensor(a).reshape(7, 17)
    with pytest.raises(
        ShapeError, match=r"reshape: cannot reshape tensor of size 120 into shape \(7, -1\)"
    ):
        Tensor(a).reshape(7, -1)
    with pytest.raises(ShapeError, match=r"reshape: can only specify one unknown dimension \(-1\)"):
        Tensor(a).reshape(-1, -1)
    with pytest.raises(ShapeError):
        Tensor.zeros(0).reshape(0, -1)


def test_axes_are_reordered_as_in_numpy(a):
    x = Tensor(a)
    check(x.permute(3, 1, 0, 2), a.transpose(3, 1, 0, 2))
    check(x.permute((-1, 0, 1, 2)), a.transpose(-1, 0, 1, 2))
    check(x.T, a.T)
    check(x.mT, np.swapaxes(a, -1, -2))
    check(x.transpose(0, 2), np.swapaxes(a, 0, 2))
    check(x.moveaxis(0, -1), np.moveaxis(a, 0, -1))
    check(x.moveaxis(3, 1), np.moveaxis(a, 3, 1))
    check(x.flip((0, -1)), np.flip(a, (0, -1)))
    check(x.flip(), np.flip(a))


def test_axes_are_checked(a):
    for wrong in (
        lambda: Tensor(a).flip(4),
        lambda: Tensor(a).transpose(0, -5),
        lambda: Tensor(a).squeeze(7),
        lambda: Tensor(1.0).flip(0),
    ):
        with pytest.raises(AxisError):
            wrong()
    with pytest.raises(IndexError):
        Tensor(a).unsqueeze(6)
    with pytest.raises(
        ShapeError, match=r"permute_dims: axes \(0, 0, 1, 2\) are not a permutation"
    ):
        Tensor(a).permute(0, 0, 1, 2)
    with pytest.raises(ShapeError, match=r"repeated axis in \(1, 1\)"):
        Tensor(a).flip((1, 1))
    with pytest.raises(OperandError, match="integer axes"):
        Tensor(a).flip(1.5)


def test_axes_of_size_one_are_added_and_removed(a):
    x = Tensor(a)
    check(x.unsqueeze(0).unsqueeze(-1), a[None, ..., None])
    check(x.unsqueeze(2).squeeze(2), a)
    check(Tensor(a[:1, :, :1]).squeeze(), a[:1, :, :1].squeeze())
    with pytest.raises(
        ShapeError, match=r"squeeze: cannot squeeze axis 1 of size 3: \(2, 3, 4, 5\)"
    ):
        x.squeeze(1)


def test_expand_and_broadcast_repeat_axes_of_size_one(a):
    x = Tensor(a[:, :1])
    check(x.expand(2, 7, 4, 5), np.broadcast_to(a[:, :1], (2, 7, 4, 5)))
    check(x.expand(-1, 3, -1, -1), np.broadcast_to(a[:, :1], (2, 3, 4, 5)))
    check(Tensor([1.0, 2.0]).expand(3, 2), np.broadcast_to(np.array([1, 2], np.float32), (3, 2)))
    check(
        Tensor([1.0, 2.0]).broadcast_to(3, 1, 2),
        np.broadcast_to(np.array([1, 2], np.float32), (3, 1, 2)),
    )
    with pytest.raises(
        ShapeError, match="expand: the expanded size 6 must match the existing size 3 at axis 1"
    ):
        Tensor(a).expand(2, 6, 4, 5)
    with pytest.raises(ShapeError):
        Tensor(a).broadcast_to(3, 4, 5)
    for expand in (Tensor.expand, Tensor.broadcast_to):
        with pytest.raises(ShapeError, match=r"negative dimensions are not allowed: \(-3, 1\)"):
            expand(Tensor([1.0]), (-3, 1))


@pytest.mark.parametrize("value", [0, 2.5, -np.inf, np.nan, -0.0])
def test_padding_takes_any_value(a, value):
    found = Tensor(a[0, 0]).pad((1, 2), (0, 3), constant_values=value)
    expected = np.pad(a[0, 0], ((1, 2), (0, 3)), constant_values=value)
    check(found, expected)
    np.testing.assert_array_equal(np.signbit(found.numpy()), np.signbit(expected))


def test_negative_padding_crops_and_empty_tensors_are_filled(a):
    check(Tensor(a[0, 0]).pad((-1, 2), None), np.pad(a[0, 0][1:], ((0, 2), (0, 0))))
    check(Tensor.zeros(0, 2).pad((1, 1), (0, 1), constant_values=7), np.full((2, 3), 7, np.float32))
    check(Tensor([True]).pad((1, 1)), np.array([False, True, False]))
    with pytest.raises(OverflowError):
        Tensor([1], dtype="int8").pad((1, 1), constant_values=300)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_concat_and_stack_agree_with_numpy(rng, axis):
    parts = [make_array(rng, (4, 4), "float32") for _ in range(3)]
    parts[1][:2] = -0.0
    tensors = [Tensor(p) for p in parts]
    found = Tensor.concat(tensors, axis)
    check(found, np.concatenate(parts, axis))
    np.testing.assert_array_equal(
        np.signbit(found.numpy()), np.signbit(np.concatenate(parts, axis))
    )
    check(Tensor.stack(tensors, axis=axis), np.stack(parts, axis))
    check(
        tensors[0].cat(tensors[1][:1] if axis == 0 else tensors[1][:, :1], axis=axis),
        np.concatenate([parts[0], parts[1][:1] if axis == 0 else parts[1][:, :1]], axis),
    )


def test_concat_promotes_keeps_nan_and_skips_empty_tensors():
    check(Tensor.concat([Tensor([1, 2]), Tensor([np.nan])]), np.array([1, 2, np.nan], np.float32))
    check(Tensor.concat([Tensor.zeros(0, 2), Tensor([[1.0, 2.0]])]), np.array([[1, 2]], np.float32))
    check(Tensor.concat([Tensor.zeros(2, 0), Tensor.zeros(2, 0)]), np.zeros((4, 0), np.float32))
    check(Tensor.concat([Tensor([[1]]), Tensor([2, 3])], axis=None), np.array([1, 2, 3], np.int32))
    with pytest.raises(
        ShapeError,
        match=r"sizes must match except along axis 0: \(2, 3\) and \(2, 4\)",
    ):
        Tensor.concat([Tensor.zeros(2, 3), Tensor.zeros(2, 4)])
    with pytest.raises(ShapeError, match="expected at least one tensor"):
        Tensor.concat([])


def test_splitting_agrees_with_numpy(a):
    x = Tensor(a)
    for found, expected in zip(x.split(2, 3), np.split(a, [2, 4], 3), strict=True):
        check(found, expected)
    for found, expected in zip(x.split([1, 0, 4], -1), np.split(a, [1, 1], 3), strict=True):
        check(found, expected)
    assert [p.shape[3] for p in x.chunk(3, 3)] == [2, 2, 1]
    check(x.unbind(1)[2], a[:, 2])
    with pytest.raises(ShapeError, match=r"split: sizes \[2, 2\] sum to 4, but axis 3 has size 5"):
        x.split([2, 2], 3)
    with pytest.raises(ShapeError):
        x.chunk(0)


def test_repetition_agrees_with_numpy(a):
    b = a[0, 0]
    check(Tensor(b).tile(2, 3), np.tile(b, (2, 3)))
    check(Tensor(b).tile(2, 1, 3), np.tile(b, (2, 1, 3)))
    check(Tensor(b).tile(3), np.tile(b, 3))
    check(Tensor(b).tile(2, 0), np.tile(b, (2, 0)))
    check(Tensor(b).repeat(3, 1), np.repeat(b, 3, 1))
    check(Tensor(b).repeat_interleave(2), np.repeat(b, 2))


@pytest.mark.parametrize("repeats", [-1, -2])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_negative_repeats_are_rejected(repeats: int, axis: int | None) -> None:
    with pytest.raises(ShapeError, match=f"repeats must not be negative: {repeats}"):
        Tensor([[1, 2, 3]]).repeat(repeats, axis)


def test_rolls_triangles_and_diagonals_agree_with_numpy(rng):
    b = make_array(rng, (5, 7), "float32")
    b[0, 0] = np.nan
    for shift, axis in ((3, 1), (-2, 0), (9, 1), (0, 0), (4, None), ((1, -2), (0, 1))):
        check(Tensor(b).roll(shift, axis), np.roll(b, shift, axis))
    for k in (-3, 0, 1, 9):
        check(Tensor(b).tril(k), np.tril(b, k))
        check(Tensor(b).triu(k), np.triu(b, k))
    check(Tensor(b).diagonal(), np.diagonal(b))
    check(Tensor(b.T).diagonal(), np.diagonal(b.T))
    with pytest.raises(AxisError):
        Tensor([1.0]).tril()


@pytest.mark.parametrize("shape", SHAPES)
def test_contiguous_and_clone_compute_into_a_buffer(rng, shape):
    a = make_array(rng, shape, "float32")
    check(Tensor(a).T.contiguous(), a.T)
    x = Tensor(a)
    check(x.clone(), a)
    assert x.contiguous().uop is x.uop
    check(x.detach() * 2, a * 2)


def test_symbolic_sizes_flow_through_movement():
    n = Variable("n", 1, 8).bind(3)
    x = Tensor(np.arange(16, dtype=np.float32).reshape(8, 2))
    part = x[:n]
    assert part.shape == (n, 2)
    assert part.reshape(-1, 1, 2).shape[1:] == (1, 2)
    check_values = part.sum(0)
    assert check_values.tolist() == [0.0 + 2 + 4, 1.0 + 3 + 5]
    with pytest.raises(SymbolicShapeError, match="split needs concrete sizes"):
        part.split(1)


def test_interleaving_by_reshape_is_one_kernel_of_simple_loops(rng):
    a = make_array(rng, (4, 6), "float32")
    tiled = Tensor(a).tile((3, 2))
    assert len(tiled.prepare().kernels()) == 1
    check(Tensor(a).tile((3, 2)), np.tile(a, (3, 2)))


def test_results_that_differ_in_their_shapes_have_memory_of_their_own(rng):
    a = make_array(rng, (4, 6), "float32")
    scaled = Tensor(a) * 2
    results = [
        scaled.clone().reshape(24),
        scaled.clone().reshape(2, 12),
        scaled,
        scaled.reshape(24).contiguous(),
    ]
    Tensor.realize_batch(results)
    for number, result in enumerate(results):
        result[...] = number
    for number, result in enumerate(results):
        check(result, np.full(result.shape, number, np.float32))


def test_groups_of_a_long_concatenation_are_equal_kernels(rng):
    arrays = [rng.standard_normal((4, 8), np.float32) for _ in range(100)]
    stacked = Tensor.stack([(Tensor(a).tanh() * 2).sigmoid() for a in arrays], axis=1)
    plan = stacked.prepare()
    plan.execute()
    assert len({kernel.source for kernel in plan.kernels()}) <= 4
    np.testing.assert_allclose(
        stacked.numpy(), 1 / (1 + np.exp(-2 * np.tanh(np.stack(arrays, 1)))), rtol=1e-5
    )


def test_padding_is_spelled_as_in_numpy():
    x = Tensor(np.arange(6.0).reshape(2, 3))
    a = x.numpy()
    for widths in (
        1,
        (1, 2),
        ((1, 2),),
        ((1, 2), (0, 3)),
        [1, 2],
        [[1], [2]],
        (2,),
        [(1, 2), (3, 4)],
    ):
        check(x.pad(widths, constant_values=7), np.pad(a, widths, constant_values=7))
    check(x.pad((1, 2), (0, 3)), np.pad(a, ((1, 2), (0, 3))))
    for widths in (((1, 1), None), ([1, 1], None)):
        check(x.pad(*widths), np.pad(a, ((1, 1), (0, 0))))
        check(x.pad(widths), np.pad(a, ((1, 1), (0, 0))))
    check(x[0].pad((1, 2)), np.pad(a[0], (1, 2)))
    assert Tensor(1.0).pad().shape == ()


@pytest.mark.parametrize(
    "widths", [(1, 2), (((1, 2, 3), (1, 1)),), ("ab",), ((1.5, 2),), ((1, 2), 3), (None, 3)]
)
def test_invalid_padding_is_an_error(widths):
    with pytest.raises(OperandError, match="pad"):
        Tensor.zeros(2, 3).pad(*widths)


def test_padding_of_another_number_of_axes_is_an_error():
    for widths in ((), (((1, 1), (1, 1), (1, 1)),), ((1, 1), (1, 1), (1, 1))):
        with pytest.raises(ShapeError, match="pad: expected 2 pairs of widths, one per axis, got"):
            Tensor.zeros(2, 3).pad(*widths)


@pytest.mark.parametrize("name", ["concat", "cat", "stack"])
def test_tensors_are_joined_one_by_one_or_as_a_sequence(name):
    a, b = np.arange(4.0).reshape(2, 2), np.arange(4.0, 8.0).reshape(2, 2)
    x, y = Tensor(a), Tensor(b)
    reference = np.stack if name == "stack" else np.concatenate
    join = getattr(Tensor, name)
    for axis in (0, 1, -1):
        expected = reference([a, b], axis=axis)
        for joined in (
            join([x, y], axis),
            join((x, y), axis=axis),
            join(x, y, axis=axis),
            join(x, y, axis),
        ):
            check(joined, expected)
        for joined in (
            getattr(x, name)(y, axis=axis),
            getattr(x, name)([y], axis),
            join((t for t in (x, y)), axis=axis),
        ):
            check(joined, expected)
    check(join([x, y]), reference([a, b]))
    check(join(x), reference([a]))
    if name != "stack":
        check(join([x, y], None), np.concatenate([a, b], axis=None))


@pytest.mark.parametrize("name", ["concat", "cat", "stack"])
def test_incompatible_shapes_cannot_be_concatenated(name):
    x, join = Tensor.zeros(2, 2), getattr(Tensor, name)
    with pytest.raises(ShapeError, match="expected at least one tensor"):
        join([])
    for other in ("a", 1.5, [x, 1.5]):
        with pytest.raises(
            OperandError, match="expected tensors, as separate arguments or a sequence, got"
        ):
            join(x, other)
    with pytest.raises(
        ShapeError,
        match=r"(shapes must be equal|except along axis 0): \(2, 2\) and \(2,\)",
    ):
        join(x, x[0])


def test_broadcast_arrays_agrees_with_numpy():
    x, y = Tensor.broadcast_arrays(Tensor.zeros(3, 1), Tensor.zeros(4))
    assert x.shape == y.shape == (3, 4)


def test_transposing_reverses_or_reorders_or_swaps():
    a = np.zeros((2, 3, 4))
    assert Tensor(a).transpose().shape == a.transpose().shape
    assert Tensor(a).transpose((2, 0, 1)).shape == a.transpose((2, 0, 1)).shape
    assert Tensor(a).transpose(0, 2).shape == a.swapaxes(0, 2).shape
    assert Tensor([1, 2]).transpose().tolist() == [1, 2]
    with pytest.raises(
        ShapeError, match="transpose: expected two axes, or all axes in their new order"
    ):
        Tensor(a).transpose(1)


@pytest.mark.parametrize("k", [-2, 0, 1])
def test_diagonals_become_matrices(rng, k):
    for shape in ((3,), (0,), (3, 4)):
        a = make_array(rng, shape, "float32")
        check(Tensor(a).diag(k), np.diag(a, k))
    for dtype in ("bool", "int8", "uint64", "complex64", "float16"):
        a = np.ones(3, dtype)
        assert Tensor(a).diag(k).dtype is Tensor(a).dtype
        np.testing.assert_array_equal(Tensor(a).diag(k).numpy(), np.diag(a, k))
    with pytest.raises(ShapeError, match=r"diag: input must be 1- or 2-d: \(\)"):
        Tensor(1.0).diag()


@pytest.mark.parametrize("mode", ["edge", "reflect", "symmetric", "wrap"])
def test_padding_modes_repeat_elements(rng, mode):
    for pads in (((1, 2), (0, 1)), ((7, 0), (2, 9)), ((-1, 2), (0, 0))):
        a = make_array(rng, (3, 4), "int32")
        crop = a[max(-pads[0][0], 0) :]
        check(Tensor(a).pad(pads, mode=mode), np.pad(crop, [(max(b, 0), c) for b, c in pads], mode))
    for name in {"edge": ["replicate"], "wrap": ["circular"]}.get(mode, []):
        check(Tensor(a).pad((1, 2), mode=name), np.pad(a, (1, 2), mode))


def test_padding_of_an_unknown_mode_or_an_empty_axis_is_an_error():
    with pytest.raises(
        OperandError,
        match=r"pad: expected one of the modes constant, edge, replicate,.*got mode='mirror'",
    ):
        Tensor([1]).pad((1, 1), mode="mirror")
    with pytest.raises(ShapeError, match="pad: cannot extend the empty axis 0"):
        Tensor.zeros(0).pad((1, 1), mode="edge")


def test_several_axes_are_added_at_once(rng):
    a = make_array(rng, (3, 4), "int32")
    for axes in ((0, 2), (-1, 0), [1], (), (4, 0, 2)):
        check(Tensor(a).expand_dims(axes), np.expand_dims(a, tuple(axes)))
    with pytest.raises(ShapeError, match=r"repeated axis in \(0, -4\)"):
        Tensor(a).expand_dims((0, -4))
    with pytest.raises(
        AxisError, match="expand_dims: axis 5 is out of bounds for a tensor of dimension"
    ):
        Tensor(a).expand_dims((0, 5))


def test_a_copy_is_a_clone_as_in_numpy():
    x = Tensor([1, 2])
    y = x.copy()
    x[0] = 7
    assert (x.tolist(), y.tolist(), sv.copy(y).tolist()) == ([7, 2], [1, 2], [1, 2])
