"""Tests of values on a mesh of processes: their placement, shapes, rules and derivatives."""

from __future__ import annotations

import pytest

from svod_dtype import float32
from svod_ir import (
    BufferArg,
    DeviceMismatchError,
    Mesh,
    NotDifferentiableError,
    Op,
    Sharding,
    SpecError,
    UOp,
    make_expand,
    make_flip,
    make_pad,
    make_permute,
    make_reduce_axis,
    make_reshape,
    make_shrink,
    print_graph,
    verify,
)
from svod_ir.build import make_constant_like
from svod_ir.derivatives import make_cotangents, make_traced
from svod_ir.placement import is_on_mesh

MESH = Mesh(("data", "model"), (2, 3), (1, 2))
SHAPE = (6, 9, 4)


def buffer(number: int = 1, shape: tuple[int, ...] = SHAPE) -> UOp:
    size = 1
    for s in shape:
        size *= s
    return make_reshape(UOp(Op.BUFFER, float32, (), BufferArg(number, size, "CPU")), shape)


def place(x: UOp, mesh: Mesh = MESH, **axes: int) -> UOp:
    return UOp(Op.RESHARD, x.dtype, (x,), mesh.lay_out(axes, x.shape))


def gradient(y: UOp, x: UOp) -> UOp:
    (of_x,) = make_cotangents([y], [make_constant_like(y, 1)], [x])
    assert of_x is not None
    return of_x


def axes_of(x: UOp) -> tuple[int | None, ...]:
    placement = x.placement
    assert isinstance(placement, Sharding) and placement.layout is not None
    return placement.layout.axes


X = place(buffer(), data=0, model=1)


def test_ranks_are_counted_with_the_last_axis_first():
    assert [Mesh(("a", "b"), (2, 3), (i, j)).rank for i in range(2) for j in range(3)] == [
        *range(6)
    ]


def test_a_shard_has_the_size_of_its_position():
    shard = UOp(Op.MSELECT, float32, (place(buffer(shape=(7, 5)), data=0, model=1),), 0)
    # 7 rows over 2 positions, of which this is the second; 5 columns over 3, of which it is the last.
    assert shard.shape == (3, 1)
    assert shard.placement == "CPU"


def test_the_shape_of_joined_shards_is_the_whole():
    layout = MESH.lay_out({"data": 0}, (7, 5))
    own = buffer(shape=(3, 5))
    whole = UOp(Op.MULTI, float32, (UOp(Op.MSTACK, float32, (own,)),), layout)
    verify(UOp.sink(whole), "graph")
    assert whole.shape == (7, 5)
    assert axes_of(whole) == (0, None)


@pytest.mark.parametrize(
    ("name", "value", "axes"),
    [
        ("elementwise", X * 2.0, (0, 1)),
        ("permute", make_permute(X, (2, 0, 1)), (1, 2)),
        ("an axis that is split by none", make_reduce_axis(X, Op.ADD, (2,)), (0, 1)),
        (
            "a reduction over all processes along an axis",
            make_reduce_axis(X, Op.MAX, (0,)),
            (None, 1),
        ),
        ("the outer of two merged axes", make_reshape(X, (54, 4)), (0, None)),
        ("a split axis", make_reshape(X, (2, 3, 9, 4)), (0, 2)),
        ("padding", make_pad(X, ((1, 2), (0, 0), (0, 0))), (0, 1)),
        ("a slice of every part", make_shrink(X, ((1, 5), (0, 9), (0, 4))), (0, 1)),
        ("a slice of one part", make_shrink(X, ((0, 2), (0, 9), (0, 4))), (None, 1)),
        ("flip", make_flip(X, (True, False, False)), (0, 1)),
        ("a repeated axis", make_expand(make_reduce_axis(X, Op.ADD, (0,)), SHAPE), (None, 1)),
        ("beside a value of this process", X + buffer(2), (0, 1)),
        ("beside another split", X + place(buffer(2), model=0), (0, 1)),
        ("beside a split of another axis", place(buffer(), data=2) + X, (2, 1)),
    ],
)
def test_an_operation_is_laid_out_along_each_axis_of_the_mesh(name, value, axes):
    verify(UOp.sink(value), "graph")
    assert axes_of(value) == axes, name


def test_no_process_has_an_empty_part():
    # Of 9 columns in 3 parts, the slice would leave the last without one.
    assert axes_of(make_shrink(X, ((0, 6), (0, 4), (0, 4)))) == (0, None)


def test_an_operand_of_another_mesh_is_an_error_that_names_both():
    other = place(buffer(2), Mesh(("all",), (6,), (5,)), all=0)
    with pytest.raises(DeviceMismatchError, match=r"the mesh data=2, model=3 and the mesh all=6"):
        _ = (X + other).placement


def test_a_file_or_another_device_is_no_value_of_all_processes():
    other = make_reshape(UOp(Op.BUFFER, float32, (), BufferArg(5, 216, "GPU")), SHAPE)
    with pytest.raises(DeviceMismatchError, match="GPU"):
        _ = (X + other).placement
    assert not is_on_mesh("CPU")
    assert not is_on_mesh(Sharding(("CPU", "CPU:1")))


@pytest.mark.parametrize(
    ("layout", "rule"),
    [
        (MESH.lay_out({"data": 0, "model": 0}, SHAPE), "along one axis of a mesh"),
        (MESH.lay_out({"data": 0}, (8, 9, 4)), "make up the axis"),
    ],
)
def test_a_layout_that_does_not_fit_is_a_fault(layout, rule):
    with pytest.raises(SpecError, match=rule):
        verify(UOp.sink(UOp(Op.RESHARD, float32, (buffer(),), layout)), "graph")


def test_the_graph_of_a_process_does_not_grow_with_the_mesh():
    sizes: set[int] = set()
    for n in (2, 64):
        x = make_traced(place(buffer(shape=(64, 8)), Mesh(("data",), (n,), (n - 1,)), data=0))
        loss = make_reduce_axis(x * x, Op.ADD, (0, 1))
        of_x = gradient(loss, x)
        sizes.add(len(UOp.sink(loss, of_x).toposort()))
    assert len(sizes) == 1


def test_the_derivative_of_a_layout_is_that_of_its_value():
    x = make_traced(buffer())
    of_x = gradient(make_reduce_axis(place(x, data=0) * 3.0, Op.ADD, (0, 1, 2)), x)
    assert of_x.shape == SHAPE


def test_a_shard_of_several_devices_has_no_derivative():
    shards = (make_traced(buffer(1, (2, 4))), _on_second(2))
    stack = UOp(Op.MSTACK, float32, shards)
    chosen = UOp(Op.MSELECT, float32, (UOp(Op.MULTI, float32, (stack,), 0),), 0)
    with pytest.raises(NotDifferentiableError, match="single shard"):
        gradient(make_reduce_axis(chosen, Op.ADD, (0, 1)), shards[0])


def _on_second(number: int) -> UOp:
    return make_reshape(UOp(Op.BUFFER, float32, (), BufferArg(number, 8, "CPU:1")), (2, 4))


def test_meshes_are_printed_with_their_axes():
    assert repr(MESH) == "Mesh(data=2, model=3)"
    assert repr(X.placement.layout) == "MeshLayout(data=2 splits axis 0, model=3 splits axis 1)"
    assert "RESHARD" in print_graph(X)
