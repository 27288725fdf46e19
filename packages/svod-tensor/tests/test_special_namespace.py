"""`svod_tensor.special` has the functions of `scipy.special` under their names, with their
values.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import special

import svod_tensor as sv
from svod_tensor import Tensor, grad
from svod_testing import check

OF_TWO = {"beta": 1.0, "kl_div": 0.0, "rel_entr": 0.0, "xlog1py": -1.0, "xlogy": 0.0, "zeta": 1.5}
"""Functions of two arguments, and from where on they are tested."""
POINTS = [-2.0, -0.5, 0.0, 0.25, 0.5, 1.0, 3.75, math.inf, math.nan]


@pytest.mark.parametrize("name", sorted(set(sv.special.__all__) - set(OF_TWO)))
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_functions_of_one_argument_have_the_values_of_scipy(name: str, dtype: str) -> None:
    x = np.array(POINTS[:-2] if dtype == "int32" else POINTS).astype(dtype)
    if name in ("logsumexp", "softmax", "log_softmax"):
        x = x[np.isfinite(x)]
    if name in ("i0", "i1", "j0", "j1", "sinc"):
        # SciPy gives NaN at infinity, where there are limits.
        x = x[x != np.inf]
    if name in ("gamma", "psi", "gammaln"):
        x = x[x != 0]
    arguments = {"axis": -1} if name in ("softmax", "log_softmax") else {}
    with np.errstate(all="ignore"):
        expected = getattr(special, name)(x.astype(np.float64), **arguments)
    result = getattr(sv.special, name)(Tensor(x), **arguments)
    check(
        result,
        expected.astype(result.dtype.numpy),
        rtol=2e-6 if dtype != "float64" else 1e-13,
        atol=1e-7 if dtype != "float64" else 1e-15,
    )


@pytest.mark.parametrize("name", OF_TWO)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_functions_of_two_arguments_have_the_values_of_scipy(name: str, dtype: str) -> None:
    if name in ("kl_div", "rel_entr", "xlogy", "xlog1py"):
        points = [*POINTS, 1e-300 if dtype == "float64" else 1e-38, 1.0000001]
    else:
        points = [OF_TWO[name], 2.0, 3.5, 10.25]
    x, y = (grid.ravel() for grid in np.meshgrid(*(np.array(points, dtype),) * 2))
    with np.errstate(all="ignore"):
        expected = getattr(special, name)(x, y)
    check(
        getattr(sv.special, name)(Tensor(x), Tensor(y)),
        expected,
        rtol=2e-6 if dtype == "float32" else 1e-12,
    )
    number = getattr(sv.special, name)(Tensor(x[:3] * 0 + 2), 3.0)
    assert number.dtype.name == dtype
    check(number, getattr(special, name)(x[:3] * 0 + 2, 3.0).astype(dtype), rtol=2e-6)


def test_entropies_have_derivatives() -> None:
    x, y = Tensor([0.25, 1.0, 3.0]), Tensor([0.5, 1.0, 2.0])
    check(grad(lambda x: sv.special.entr(x).sum())(x), -np.log(x.numpy()) - 1, rtol=1e-6)
    check(
        grad(lambda x: sv.special.rel_entr(x, y).sum())(x),
        np.log(x.numpy() / y.numpy()) + 1,
        rtol=1e-6,
    )
    check(
        grad(lambda y: sv.special.kl_div(x, y).sum())(y),
        1 - x.numpy() / y.numpy(),
        rtol=1e-6,
        atol=1e-6,
    )
    check(grad(lambda y: sv.special.xlog1py(x, y).sum())(y), x.numpy() / (1 + y.numpy()), rtol=1e-6)
