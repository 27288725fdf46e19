"""What several values at one place become; derivatives are in
svod_testing/derivatives/image_cases.py.
"""

from __future__ import annotations

import numpy as np
import pytest

from svod_ir import OperandError, ShapeError
from svod_tensor import Tensor, grad, jit, jvp
from svod_testing import check, make_array

COMBINE = {"sum": np.sum, "prod": np.prod, "amax": np.max, "amin": np.min}


def reduce_at(a, indices, values, reduction, include_self):
    """By collecting what comes to each place along the last axis."""
    found = a.copy()
    for row in range(len(indices)):
        for place in set(indices[row]):
            given = list(values[row, : indices.shape[1]][indices[row] == place])
            given = [a[row, place], *given] if include_self else given
            if reduction == "mean":
                total = np.sum(given, dtype=a.dtype)
                found[row, place] = (
                    total // len(given) if a.dtype.kind in "iu" else total / len(given)
                )
            else:
                found[row, place] = COMBINE[reduction](np.array(given, a.dtype))
    return found


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduction", ["sum", "prod", "mean", "amax", "amin"])
def test_scatter_reduce_agrees_with_numpy(rng, reduction, include_self):
    indices = rng.integers(0, 5, (2, 7))
    for dtype in ("float64", "float32", "int32", "uint8", "int64"):
        a, b = make_array(rng, (3, 5), dtype), make_array(rng, (2, 7), dtype)
        found = Tensor(a).scatter_reduce(
            1, Tensor(indices), Tensor(b), reduction, include_self=include_self
        )
        check(found, reduce_at(a, indices, b, reduction, include_self))
        turned = Tensor(a.T).scatter_reduce(
            0, Tensor(indices.T - 5), Tensor(b.T), reduction, include_self=include_self
        )
        check(turned, reduce_at(a, indices, b, reduction, include_self).T)


def test_nans_win_and_complex_numbers_have_no_extremes():
    x, i, nan = Tensor([1.0, 2.0]), Tensor([0, 0, 1]), float("nan")
    for reduction in ("amax", "amin"):
        found = x.scatter_reduce(0, i, Tensor([nan, 5.0, 3.0]), reduction).numpy()
        np.testing.assert_array_equal(found, [nan, 3.0 if reduction == "amax" else 2.0])
        given = grad(lambda v, r=reduction: x.scatter_reduce(0, i, v, r).sum())(
            Tensor([nan, 5.0, 3.0])
        )
        assert given.tolist() == [1.0, 0.0, float(reduction == "amax")]
    z = Tensor([1 + 1j, 2.0])
    assert z.scatter_reduce(0, i, Tensor([1j, 2.0, 3.0]), "prod").tolist() == [-2 + 2j, 6.0]
    assert z.scatter_reduce(0, i, Tensor([1j, 2.0, 3.0]), "mean", include_self=False).tolist() == [
        1 + 0.5j,
        3.0,
    ]
    with pytest.raises(OperandError, match="one of sum, prod, mean"):
        z.scatter_reduce(0, i, z[:1], "amax")
    with pytest.raises(
        OperandError, match=r"scatter_reduce: expected one of sum, prod, mean, amax, amin,.*'max'"
    ):
        x.scatter_reduce(0, i, 1.0, "max")
    with pytest.raises(
        ShapeError,
        match=r"scatter_reduce: indices \(1, 1\) and operand \(2,\) must have the same number of dimensions",
    ):
        x.scatter_reduce(0, Tensor([[0]]), 1.0, "sum")


def test_bools_numbers_and_empty_values():
    x = Tensor([True, False, True])
    assert x.scatter_reduce(0, Tensor([0, 1]), Tensor([False, True]), "amin").tolist() == [
        False,
        False,
        True,
    ]
    assert x.scatter_reduce(0, Tensor([0, 1]), Tensor([False, True]), "prod").tolist() == [
        False,
        False,
        True,
    ]
    assert Tensor([1, 2]).scatter_reduce(0, Tensor([1, 1]), 3, "prod").tolist() == [1, 18]
    assert Tensor([1, 2]).scatter_reduce(0, Tensor(np.zeros(0, np.int64)), 3, "prod").tolist() == [
        1,
        2,
    ]
    # A position out of range is left out.
    assert Tensor([1, 2]).scatter_reduce(0, Tensor([7, 1]), 3, "amax").tolist() == [1, 3]


def test_a_product_has_derivatives_where_factors_are_zero_and_of_the_second_order():
    i = Tensor([0, 0, 1, 1, 1])

    def f(x, v):
        return (x.scatter_reduce(0, i, v, "prod") ** 2).sum()

    x, v = Tensor([2.0, 3.0], dtype="float64"), Tensor([3.0, 5.0, 0.5, 0.25, 4.0], dtype="float64")
    product = Tensor([[0.0, 2.0, 1.5], [0.0, 0.0, 4.0]], dtype="float64")
    ones = Tensor([[1.0]] * 2, dtype="float64")
    by_value = grad(lambda v: ones.scatter_reduce(1, Tensor([[0, 0, 0]] * 2), v, "prod").sum())(
        product
    )
    assert by_value.tolist() == [[3.0, 0.0, 0.0], [0.0, 0.0, 0.0]]

    def plain(x, v):
        return (x[0] * v[0] * v[1]) ** 2 + (x[1] * v[2] * v[3] * v[4]) ** 2

    along = Tensor([1.0, -2.0, 3.0, 0.5, 1.5], dtype="float64")
    first, second = jvp(lambda v: grad(f, argnums=1)(x, v), (v,), (along,))
    expected, again = jvp(lambda v: grad(plain, argnums=1)(x, v), (v,), (along,))
    np.testing.assert_allclose(first.numpy(), expected.numpy(), rtol=1e-12)
    np.testing.assert_allclose(second.numpy(), again.numpy(), rtol=1e-12)
    np.testing.assert_allclose(jit(grad(f))(x, v).numpy(), grad(plain)(x, v).numpy(), rtol=1e-12)
