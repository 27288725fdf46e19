"""Checked constructors: errors for invalid operands, and constant folding."""

from __future__ import annotations

import itertools
import math

import pytest

from svod_dtype import bool_, float16, float32, index, int8, int32, uint8, void
from svod_ir import (
    AxisError,
    AxisType,
    Op,
    OperandError,
    ShapeError,
    UOp,
    make_alu,
    make_cast,
    make_check,
    make_expand,
    make_flip,
    make_gather,
    make_iota,
    make_pad,
    make_permute,
    make_reduce_axis,
    make_reshape,
    make_scan_axis,
    make_scatter,
    make_scatter_add,
    make_shrink,
)
from svod_ir.args import CheckArg
from svod_ir.build import product
from svod_ir.testing.nodes import alu, buffer


def _tensor(*shape: int, dtype=float32) -> UOp:
    return make_reshape(buffer(1, math.prod(shape), dtype), shape)


def test_operands_of_two_dtypes_are_an_error_that_names_both() -> None:
    with pytest.raises(
        OperandError, match="ADD: expected operands of one dtype, got float32 and int32"
    ):
        make_alu(Op.ADD, UOp.const(float32, 1), UOp.const(int32, 1))


@pytest.mark.parametrize("op", [Op.SQRT, Op.EXP2, Op.SIN, Op.RECIPROCAL])
def test_float_functions_refuse_integers(op: Op) -> None:
    with pytest.raises(OperandError, match="expected floating-point numbers, got int32"):
        make_alu(op, _tensor(2, dtype=int32))


@pytest.mark.parametrize("op", [Op.IDIV, Op.MOD, Op.SHL])
def test_integer_ops_refuse_floats(op: Op) -> None:
    with pytest.raises(OperandError, match="expected integers"):
        make_alu(op, _tensor(2), _tensor(2))


@pytest.mark.parametrize("op", [Op.AND, Op.OR, Op.XOR])
def test_bitwise_ops_refuse_floats(op: Op) -> None:
    with pytest.raises(OperandError, match="expected bool or integers"):
        make_alu(op, _tensor(2), _tensor(2))


def test_a_shift_amount_must_be_an_integer() -> None:
    with pytest.raises(OperandError, match="SHL: expected an integer amount, got float32"):
        make_alu(Op.SHL, _tensor(2, dtype=int32), _tensor(2))


def test_where_needs_a_bool_condition() -> None:
    x = _tensor(2)
    with pytest.raises(OperandError, match="a bool condition"):
        make_alu(Op.WHERE, x, x, x)


def test_effects_are_not_operands() -> None:
    with pytest.raises(OperandError, match="void"):
        make_alu(Op.ADD, UOp.sink(), UOp.sink())


def test_a_comparison_is_bool_with_the_lanes_of_its_operands() -> None:
    vector = UOp(Op.BROADCAST, float32.vec(4), (UOp.const(float32, 1),))
    assert make_alu(Op.LT, vector, vector).dtype is bool_.vec(4)
    assert (_tensor(2) < 1.0).dtype is bool_


def test_python_scalars_become_constants_of_the_operand() -> None:
    x = _tensor(2, dtype=uint8)
    assert (x + 300).src[1] is UOp.const(uint8, 44)
    assert (1 - _tensor(2)).src[0] is UOp.const(float32, 1.0)
    assert (x > 3) is (UOp.const(uint8, 3) < x)
    assert (x >= 3) is (UOp.const(uint8, 3) <= x)


def test_integer_constants_fold_with_the_semantics_of_the_ops() -> None:
    seven, minus_two = UOp.const(index, 7), UOp.const(index, -2)
    assert (seven // minus_two).arg == -4
    assert (seven % minus_two).arg == -1
    assert (seven // 0).arg == 0
    assert (seven % 0).arg == 0
    assert (UOp.const(int8, 100) + 100).arg == -56
    assert (UOp.const(int8, -128) // -1).arg == -128
    assert (seven < minus_two).arg is False
    assert make_alu(Op.CDIV, seven, minus_two).arg == -3
    assert make_alu(Op.CMOD, UOp.const(index, -7), UOp.const(index, 2)).arg == -1


def test_floats_do_not_fold_when_they_are_built() -> None:
    assert (UOp.const(float32, 1) + 2.0).op is Op.ADD
    x = _tensor(2)
    # -0.0 + 0.0 is 0.0, so this is no identity.
    assert (x + 0.0) is not x


@pytest.mark.parametrize(
    "apply",
    [
        lambda x: x + 0,
        lambda x: x - 0,
        lambda x: x * 1,
        lambda x: x // 1,
        lambda x: x << 0,
        lambda x: x >> 0,
        lambda x: 0 + x,
    ],
)
def test_integer_identities_fold(apply) -> None:
    x = UOp.variable("x", -5, 5)
    assert apply(x) is x


def test_sums_and_products_with_constants_keep_one_constant_on_the_right() -> None:
    x = UOp.variable("x", 0, 5)
    assert (3 + x) is (x + 3)
    assert ((x + 3) + 4) is (x + 7)
    assert ((x * 3) * 4) is (x * 12)
    assert ((x + 3) - 0) is (x + 3)


def test_folding_to_a_tensor_keeps_its_shape() -> None:
    x = _tensor(2, 3, dtype=int32)
    assert (x + 0).shape == (2, 3)
    assert (UOp.const(int32, 0) + x).shape == (2, 3)


def test_a_cast_keeps_the_lanes_and_folds_constants() -> None:
    vector = UOp(Op.BROADCAST, float32.vec(4), (UOp.const(float32, 1),))
    assert make_cast(vector, int32).dtype is int32.vec(4)
    assert make_cast(vector, float32) is vector
    assert make_cast(UOp.const(float32, 2.5), int32) is UOp.const(int32, 2)
    assert make_cast(UOp.const(float32, 1e30), int32) is UOp.const(int32, int32.max)
    assert make_cast(UOp.const(float32, math.nan), bool_) is UOp.const(bool_, True)


def test_reshape_checks_the_number_of_elements() -> None:
    x = _tensor(2, 3)
    assert make_reshape(x, (3, 2)).shape == (3, 2)
    assert make_reshape(x, (2, 3)) is x
    assert make_reshape(make_reshape(x, (6,)), (3, 2)) is make_reshape(x, (3, 2))
    with pytest.raises(
        ShapeError,
        match=r"reshape: cannot reshape tensor of size 6 into shape \(4,\), which has size 4",
    ):
        make_reshape(x, (4,))
    with pytest.raises(ShapeError, match="negative"):
        make_reshape(x, (-1, 6))


def test_expand_repeats_only_axes_of_size_one() -> None:
    x = _tensor(2, 1)
    assert make_expand(x, (2, 5)).shape == (2, 5)
    assert make_expand(x, (2, 1)) is x
    with pytest.raises(
        ShapeError,
        match=r"the expanded size 3 must match the existing size 2 at axis 0 of shape \(2, 1\)",
    ):
        make_expand(x, (3, 5))
    with pytest.raises(
        ShapeError,
        match=r"the target shape \(2, 5, 1\) must have as many dimensions as the shape \(2, 1\)",
    ):
        make_expand(x, (2, 5, 1))
    with pytest.raises(ShapeError, match=r"negative dimensions are not allowed: \(2, -5\)"):
        make_expand(x, (2, -5))
    assert make_expand(x, (2, 0)).shape == (2, 0)


def test_permute_needs_each_axis_once() -> None:
    x = _tensor(2, 3, 4)
    assert make_permute(x, (2, 0, 1)).shape == (4, 2, 3)
    assert make_permute(x, (0, 1, 2)) is x
    assert make_permute(make_permute(x, (2, 0, 1)), (1, 2, 0)) is x
    for axes in ((0, 0, 1), (0, 1), (0, 1, 3), (0, 1, -1)):
        with pytest.raises(ShapeError, match="not a permutation"):
            make_permute(x, axes)


@pytest.mark.parametrize(
    ("first", "second"), list(itertools.product(itertools.permutations(range(3)), repeat=2))
)
def test_consecutive_permutations_merge(first: tuple[int, ...], second: tuple[int, ...]) -> None:
    x = _tensor(2, 3, 4)
    node = make_permute(make_permute(x, first), second)
    shape = tuple(tuple((2, 3, 4)[a] for a in first)[b] for b in second)
    assert node.shape == shape
    assert node.op is not Op.PERMUTE or node.src[0].op is not Op.PERMUTE


def test_pad_adds_a_pair_for_each_axis() -> None:
    x = _tensor(2, 3)
    assert make_pad(x, [(1, 2), (0, 0)]).shape == (5, 3)
    assert make_pad(x, [(0, 0), (0, 0)]) is x
    with pytest.raises(ShapeError, match="expected 2 pairs of widths, one per axis, got 1"):
        make_pad(x, [(1, 2)])
    with pytest.raises(ShapeError, match=r"widths must not be negative: \(\(-1, 2\), \(0, 0\)\)"):
        make_pad(x, [(-1, 2), (0, 0)])


def test_shrink_is_within_bounds() -> None:
    x = _tensor(2, 3)
    assert make_shrink(x, [(0, 2), (1, 3)]).shape == (2, 2)
    assert make_shrink(x, [(0, 2), (0, 3)]) is x
    assert make_shrink(x, [(1, 1), (0, 3)]).shape == (0, 3)
    for bounds in ([(0, 3), (0, 3)], [(-1, 2), (0, 3)], [(2, 1), (0, 3)]):
        with pytest.raises(ShapeError, match=r"slice -?\d:\d is out of bounds for shape \(2, 3\)"):
            make_shrink(x, bounds)
    with pytest.raises(ShapeError, match="expected 2 pairs"):
        make_shrink(x, [(0, 2)])


def test_flip_takes_a_flag_for_each_axis() -> None:
    x = _tensor(2, 3)
    assert make_flip(x, [True, False]).shape == (2, 3)
    assert make_flip(x, [False, False]) is x
    with pytest.raises(ShapeError, match="expected 2 flags, one per axis, got 1"):
        make_flip(x, [True])


def test_gather_replaces_an_axis_by_the_axes_of_the_indices() -> None:
    x, positions = _tensor(2, 3, 4), _tensor(5, 6, dtype=int32)
    assert make_gather(x, positions, 1).shape == (2, 5, 6, 4)
    with pytest.raises(OperandError, match="integer indices"):
        make_gather(x, _tensor(5), 1)
    with pytest.raises(AxisError, match="axis 3 is out of bounds for a tensor of dimension 3"):
        make_gather(x, positions, 3)


def test_scatter_add_replaces_the_axes_of_the_indices_by_one_axis() -> None:
    x, positions, n = _tensor(2, 5, 6, 4), _tensor(5, 6, dtype=int32), UOp.variable("n", 1, 9)
    assert make_scatter_add(x, positions, 1, 3).shape == (2, 3, 4)
    assert make_scatter_add(x, positions, 1, n).shape == (2, n, 4)
    assert make_scatter_add(x, _tensor(dtype=int32), 4, 3).shape == (2, 5, 6, 4, 3)
    with pytest.raises(OperandError, match="integer indices"):
        make_scatter_add(x, _tensor(5, 6), 1, 3)
    with pytest.raises(AxisError, match="axis 4 is out of bounds for a tensor of dimension 4"):
        make_scatter_add(x, positions, 3, 3)
    with pytest.raises(
        ShapeError,
        match=r"indices of shape \(5, 6\) do not match the sizes \(2, 5\) of the values from axis 0",
    ):
        make_scatter_add(x, positions, 0, 3)
    with pytest.raises(ShapeError, match="size must not be negative: -1"):
        make_scatter_add(x, positions, 1, -1)


def test_scatter_takes_rows_of_its_base_at_the_indices() -> None:
    base, indices = _tensor(4, 5, 6), _tensor(2, 3, dtype=int32)
    assert make_scatter(base, indices, _tensor(4, 2, 3, 6), 1).shape == (4, 5, 6)
    with pytest.raises(AxisError, match="axis 3 is out of bounds for a tensor of dimension 3"):
        make_scatter(base, indices, _tensor(4, 2, 3, 6), 3)
    with pytest.raises(OperandError, match="integer indices"):
        make_scatter(base, _tensor(2, 3), _tensor(4, 2, 3, 6), 1)
    with pytest.raises(OperandError, match="expected float32"):
        make_scatter(base, indices, _tensor(4, 2, 3, 6, dtype=int32), 1)
    with pytest.raises(ShapeError, match=r"rows of shape \(4, 2, 6\) do not match \(4, 2, 3, 6\)"):
        make_scatter(base, indices, _tensor(4, 2, 6), 1)


def test_bounds_of_scatter_hold_for_its_base_and_its_rows() -> None:
    digits, negative = make_iota(10, int32), make_alu(Op.NEG, make_iota(4, int32))
    assert make_scatter(digits, _tensor(4, dtype=int32), negative, 0).bounds == (-3, 9)


def test_scatter_add_accumulates_narrow_floats_in_float32() -> None:
    node = make_scatter_add(_tensor(5, dtype=float16), _tensor(5, dtype=int32), 0, 3)
    assert node.dtype is float16
    assert node.source.op is Op.SCATTER
    assert node.source.dtype is float32


def test_bounds_of_scatter_add_hold_if_all_elements_have_one_index() -> None:
    digits = make_iota(10, int32)
    assert make_scatter_add(digits, _tensor(10, dtype=int32), 0, 3).bounds == (0, 90)
    assert make_scatter_add(make_alu(Op.NEG, digits), _tensor(10, dtype=int32), 0, 3).bounds == (
        -90,
        0,
    )
    assert make_scatter_add(_tensor(10, dtype=bool_), _tensor(10, dtype=int32), 0, 3).bounds == (
        False,
        True,
    )


def test_a_check_that_provably_holds_is_dropped() -> None:
    positions, n = _tensor(5, dtype=int32), UOp.variable("n", 1, 9)
    assert make_check(positions, "take", 0, 4).arg == CheckArg("take", 0, 4)
    symbolic = make_check(positions, "take", 0, n)
    assert (symbolic.arg, symbolic.src, symbolic.shape) == (
        CheckArg("take", 0),
        (positions, n),
        (5,),
    )
    assert make_check(positions, "divide").arg == CheckArg("divide")
    masked = positions & 3
    assert make_check(masked, "take", 0, 4) is masked
    assert make_check(masked, "take", 0, 3) is not masked
    for divisor in (masked + 1, masked - 4):
        assert make_check(divisor, "divide") is divisor
    assert make_check(masked, "divide") is not masked


def test_reductions_keep_axes_with_size_one() -> None:
    x = _tensor(2, 1, 4)
    assert make_reduce_axis(x, Op.ADD, (0, 2)).shape == (1, 1, 1)
    assert make_reduce_axis(x, Op.ADD, (2, 2, 1)).arg == (Op.ADD, (2,))
    assert make_reduce_axis(x, Op.MAX, (1,)) is x
    assert make_scan_axis(x, Op.ADD, 2).shape == (2, 1, 4)
    for make in (lambda: make_reduce_axis(x, Op.ADD, (3,)), lambda: make_scan_axis(x, Op.ADD, -1)):
        with pytest.raises(AxisError):
            make()


def test_iota_has_a_size() -> None:
    assert make_iota(5, int32).shape == (5,)
    n = UOp.variable("n", 1, 9)
    assert make_iota(n, int32).shape == (n,)


def test_symbolic_sizes_are_operands() -> None:
    n = UOp.variable("n", 1, 9)
    x = make_expand(_tensor(1, 4), (n, 4))
    assert x.shape == (n, 4)
    assert x.arg == (None, 4)
    assert x.src[1:] == (n,)
    assert make_shrink(x, [(0, n), (0, 4)]) is x
    assert make_pad(x, [(1, 0), (0, 0)]).shape == (n + 1, 4)
    assert make_reduce_axis(x, Op.ADD, (0,)).shape == (1, 4)
    assert product((2, n, 3)) is n * 6
    assert product((2, 3)) == 6


def test_elementwise_shapes_must_agree() -> None:
    from svod_ir import GraphError

    with pytest.raises(GraphError, match="one shape or none"):
        _ = alu(Op.ADD, _tensor(2), _tensor(3)).shape
    assert alu(Op.ADD, _tensor(2), UOp.const(float32, 1)).shape == (2,)


def test_a_bufferize_has_the_shape_of_its_ranges() -> None:
    from svod_ir import BufferizeArg

    i, j = UOp.range(4, 0, AxisType.LOOP), UOp.range(UOp.variable("n", 1, 9), 1, AxisType.LOOP)
    node = UOp(
        Op.BUFFERIZE,
        float32,
        (UOp.const(float32, 1), i, j, UOp.const(index, 0)),
        BufferizeArg("CPU"),
    )
    assert node.shape == (4, UOp.variable("n", 1, 9), 1)
    assert void.kind == "void"
