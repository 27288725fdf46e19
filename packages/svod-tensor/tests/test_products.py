from __future__ import annotations

import numpy as np
import pytest

from svod_ir import AxisError, BroadcastError, ShapeError
from svod_tensor import Tensor
from svod_tensor.errors import EinsumError
from svod_testing import check, make_array

SHAPES = [
    ((1, 1), (1, 1)),
    ((3, 4), (4, 5)),
    ((17, 31), (31, 13)),
    ((64, 64), (64, 64)),
    ((129, 65), (65, 33)),
    ((5,), (5,)),
    ((5,), (5, 3)),
    ((3, 5), (5,)),
    ((2, 3, 4), (4, 5)),
    ((2, 1, 3, 4), (6, 4, 2)),
    ((4,), (2, 4, 3)),
    ((2, 3, 4), (4,)),
    ((2, 0), (0, 3)),
    ((0, 2), (2, 3)),
    ((1, 200), (200, 1)),
]


@pytest.mark.parametrize(("left", "right"), SHAPES)
def test_matmul_agrees_with_numpy(rng, left, right):
    a, b = make_array(rng, left, "float32"), make_array(rng, right, "float32")
    check(
        Tensor(a) @ Tensor(b), (a.astype(np.float64) @ b).astype(np.float32), rtol=1e-5, atol=1e-4
    )


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "float64", "bool"])
def test_matmul_keeps_the_promoted_dtype(rng, dtype):
    a, b = make_array(rng, (9, 20), dtype), make_array(rng, (20, 7), dtype)
    check(Tensor(a) @ Tensor(b), a @ b)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_matmul_adds_in_float32(dtype):
    x, y = Tensor.full((2, 4096), 1.0, dtype=dtype), Tensor.full((4096, 2), 1.0, dtype=dtype)
    assert (x @ y).tolist() == [[4096.0] * 2] * 2
    assert (x @ y).dtype.name == dtype
    assert x.matmul(y, dtype="float32").dtype.name == "float32"


def test_matmul_checks_its_operands():
    with pytest.raises(ShapeError, match=r"matmul: inner dimensions differ: \(2, 3\) @ \(4, 2\)"):
        Tensor.zeros(2, 3) @ Tensor.zeros(4, 2)
    with pytest.raises(
        ShapeError,
        match=r"matmul: inner dimensions differ: \(2, 3\) @ \(4, 3\)\n  hint: the last axes .* write x @ y.mT",
    ):
        Tensor.zeros(2, 3) @ Tensor.zeros(4, 3)
    with pytest.raises(
        ShapeError, match=r"matmul: operands must have at least 1 dimension: \(\) @ \(2,\)"
    ):
        Tensor(1.0) @ Tensor.zeros(2)
    with pytest.raises(BroadcastError):
        Tensor.zeros(2, 3, 4) @ Tensor.zeros(3, 4, 5)


def test_linear_outer_and_vecdot(rng):
    x, w, b = (
        make_array(rng, (3, 8), "float32"),
        make_array(rng, (5, 8), "float32"),
        make_array(rng, (5,), "float32"),
    )
    check(Tensor(x).linear(Tensor(w), Tensor(b)), x @ w.T + b, rtol=1e-5)
    check(Tensor(b).outer(Tensor(b)), np.outer(b, b))
    check(Tensor(x).vecdot(Tensor(x)), (x * x).sum(-1), rtol=1e-5)


FORMULAS = [
    ("ij,jk->ik", (3, 4), (4, 5)),
    ("ij,kj", (3, 4), (5, 4)),
    ("ii", (4, 4)),
    ("ii->i", (4, 4)),
    ("ij->ji", (3, 4)),
    ("ij->", (3, 4)),
    ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)),
    ("...ij,...jk->...ik", (2, 1, 3, 4), (6, 4, 5)),
    ("i,j->ij", (3,), (4,)),
    ("i,i", (5,), (5,)),
    ("abc,cd,de->abe", (2, 3, 4), (4, 5), (5, 2)),
    ("...i->...", (2, 3)),
    ("iji->j", (3, 2, 3)),
    ("iii->i", (3, 3, 3)),
    ("i...->...i", (2, 3, 4)),
    (",i->i", (), (3,)),
]


@pytest.mark.parametrize("case", FORMULAS, ids=lambda c: c[0])
def test_einsum_agrees_with_numpy(rng, case):
    formula, *shapes = case
    arrays = [make_array(rng, s, "float64") for s in shapes]
    check(Tensor.einsum(formula, *map(Tensor, arrays)), np.einsum(formula, *arrays), rtol=1e-10)


@pytest.mark.parametrize(
    ("formula", "problem"),
    [
        ("ij,jk->ik", "einsum 'ij,jk->ik': it has 2 terms, but 1 operands were"),
        ("ijk", "einsum 'ijk': 'ijk' has 3 subscripts for a 2-dimensional"),
        ("ij->ik", "einsum 'ij->ik': the output 'ik' repeats a subscript or has"),
        ("ij->ii", "repeats"),
        ("i1", "einsum 'i1': 'i1' has a character that is not a letter"),
        ("ii", "sizes"),
    ],
)
def test_einsum_checks_its_formula(formula, problem):
    with pytest.raises(EinsumError, match=problem):
        Tensor.einsum(formula, Tensor.zeros(2, 3))


def test_dot_products_along_an_axis_need_one_size_of_it(rng):
    a, b = rng.standard_normal((4, 1, 3)), rng.standard_normal((2, 3))
    check(Tensor(a).vecdot(Tensor(b)), (a * b).sum(-1))
    check(Tensor(a).vecdot(Tensor(a), 0), (a * a).sum(0))
    for left, right, axis in (
        ((5,), (1,), -1),
        ((2, 5), (2, 1), 1),
        ((3, 2), (2,), 0),
        ((), (3,), -1),
    ):
        with pytest.raises(ShapeError, match="vecdot"):
            Tensor.ones(left).vecdot(Tensor.ones(right), axis)
    with pytest.raises(AxisError, match="vecdot"):
        Tensor.ones(3).vecdot(Tensor.ones(3), 1)


def test_traces_and_transposes(rng):
    a = make_array(rng, (2, 3, 4), "float32")
    check(Tensor(a).trace(), np.trace(a, axis1=-2, axis2=-1), rtol=1e-6)
    check(Tensor(a).matrix_transpose(), np.matrix_transpose(a))


@pytest.mark.parametrize("axes", [0, 1, 2, ((1, 2), (0, 1)), ((2,), (1,)), ((0, 1), (2, 0))])
def test_products_are_summed_over_shared_axes(rng, axes):
    a, b = (
        rng.integers(-5, 5, (3, 4, 5)).astype(np.float32),
        rng.integers(-5, 5, (4, 5, 3)).astype(np.float32),
    )
    b = {0: b[:2, 0, 0], 1: np.moveaxis(b, 1, 0)}.get(axes, b) if isinstance(axes, int) else b
    check(Tensor(a).tensordot(Tensor(b), axes), np.tensordot(a, b, axes))


def test_sums_of_products_that_do_not_fit_are_an_error():
    with pytest.raises(
        ShapeError,
        match=r"tensordot: sizes along axes \(\(1,\), \(0,\)\) differ: \(3, 4\) and \(5, 4\)",
    ):
        Tensor.zeros(3, 4).tensordot(Tensor.zeros(5, 4), 1)
    with pytest.raises(
        ShapeError, match=r"tensordot: axes=3 is out of range for shapes \(3, 4\) and \(5, 4\)"
    ):
        Tensor.zeros(3, 4).tensordot(Tensor.zeros(5, 4), 3)


@pytest.mark.parametrize(
    "shapes", [((2,), (3,)), ((2, 3), (2, 2)), ((3,), (2, 1, 2)), ((), (2,)), ((0, 2), (3,))]
)
def test_kronecker_products_agree_with_numpy(rng, shapes):
    x, y = (make_array(rng, shape, "float64") for shape in shapes)
    check(Tensor(x).kron(y), np.kron(x, y))
