"""Special functions agree with SciPy, on their whole range and in the special values."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

from svod_ir import OperandError
from svod_tensor import Tensor

RNG = np.random.default_rng(5)
TINY = 10.0 ** RNG.uniform(-300, 0, 200)
LINE = np.concatenate([RNG.uniform(-30, 30, 600), TINY, -TINY])
POSITIVE = np.concatenate([10 ** RNG.uniform(-5, 4, 300), RNG.uniform(0, 15, 300)])
NEGATIVE = -RNG.uniform(0, 20, 100)
ODD = np.array([0.0, -0.0, np.inf, -np.inf, np.nan])

ROWS = {
    "gamma": (
        special.gamma,
        np.concatenate([RNG.uniform(0, 171.5, 500), NEGATIVE, [3.0, -170.5, -200.5, -3.0]]),
    ),
    "lgamma": (special.gammaln, np.concatenate([POSITIVE, [1e300, -3.0, -2.5]])),
    "digamma": (special.digamma, np.concatenate([POSITIVE, NEGATIVE, [1e300, -2.5]])),
    "erfc": (special.erfc, RNG.uniform(-6, 26, 500)),
    "erfcx": (special.erfcx, np.concatenate([RNG.uniform(-26, 60, 500), [1e300, -1e3]])),
    "erfinv": (
        special.erfinv,
        np.concatenate([RNG.uniform(-1, 1, 500), 1 - 10 ** RNG.uniform(-16, 0, 50), [1, -1, 1.5]]),
    ),
    "ndtr": (special.ndtr, RNG.uniform(-37, 12, 500)),
    "log_ndtr": (special.log_ndtr, np.concatenate([RNG.uniform(-40, 8, 500), [-1e10, 60]])),
    "ndtri": (special.ndtri, np.concatenate([RNG.uniform(0, 1, 500), TINY, [0, 1, 1.5, -0.5]])),
    "i0": (special.i0, np.concatenate([LINE, [700, 708]])),
    "i0e": (special.i0e, np.concatenate([LINE, [1e300]])),
    "i1": (special.i1, np.concatenate([LINE, [-708]])),
    "i1e": (special.i1e, np.concatenate([LINE, [1e300]])),
    "j0": (special.j0, LINE),
    "j1": (special.j1, LINE),
    "zeta": (
        lambda x: special.zeta(x, 1),
        np.concatenate([RNG.uniform(1, 60, 300), [0.5, 1, 1.0001]]),
    ),
    "logit": (special.logit, np.concatenate([RNG.uniform(0, 1, 500), TINY, [0, 1, 2]])),
    "sinc": (np.sinc, LINE),
}
ZEROS = {"j0", "j1", "sinc"}
"""Functions whose zeros are between numbers: their errors are relative to 1."""
NOT_SCIPY = {"lgamma", "i0", "i1", "j0", "j1", "zeta", "sinc"}
"""Functions that have limits at infinity, where SciPy has NaN, or another sign."""


@pytest.mark.parametrize("name", ROWS)
def test_special_functions_agree_with_scipy(name):
    function, x = ROWS[name]
    x = np.concatenate([x, ODD[4:] if name in NOT_SCIPY else ODD])
    with np.errstate(all="ignore"):
        expected = function(x)
    found = getattr(Tensor(x), name)().numpy()
    np.testing.assert_allclose(found, expected, rtol=3e-13, atol=1e-15 if name in ZEROS else 0)
    narrow = x[np.isfinite(expected) & (abs(x) < 1e30)].astype(np.float32)
    expected = function(narrow.astype(np.float64))
    is_normal = (abs(expected) < 3e38) & (abs(expected) > 2e-38)
    found = getattr(Tensor(narrow), name)().numpy()
    assert found.dtype == np.float32
    np.testing.assert_allclose(
        found[is_normal], expected[is_normal], rtol=6.1e-8, atol=1e-15 if name in ZEROS else 0
    )


def test_functions_of_two_agree_with_scipy():
    x, y = RNG.uniform(0.01, 20, (2, 400))
    np.testing.assert_allclose(Tensor(x).beta(y).numpy(), special.beta(x, y), rtol=1e-12)
    np.testing.assert_allclose(Tensor(x + 1).zeta(y).numpy(), special.zeta(x + 1, y), rtol=1e-13)
    odd = np.array([0.0, 0.0, 2.0, 0.0]), np.array([0.0, np.nan, 0.0, np.inf])
    np.testing.assert_array_equal(Tensor(odd[0]).xlogy(odd[1]).numpy(), special.xlogy(*odd))
    assert Tensor([2, 3]).beta(3).dtype == Tensor([1]).zeta(2).dtype == "float32"


@pytest.mark.parametrize("order", [1, 2, 3, 4, 5, 8])
def test_polygamma_of_negative_numbers(order: int) -> None:
    x = np.concatenate([NEGATIVE, [-0.01, -0.5, -7.125, -20.4]])
    expected = special.polygamma(order, x)
    scale = np.maximum(np.abs(expected), np.abs(special.polygamma(order, 1 - x)))
    assert (
        np.abs(Tensor(x).polygamma(order).numpy() - expected) <= 1e-10 * np.maximum(scale, 1)
    ).all()
    poles = Tensor([0.0, -1.0, -5.0], dtype="float64").polygamma(order).numpy()
    np.testing.assert_array_equal(poles, [np.inf * (-1.0) ** (order + 1)] * 3)


def test_derivatives_of_digamma_agree_with_scipy():
    for order in (0, 1, 3):
        expected = special.polygamma(order, POSITIVE)
        np.testing.assert_allclose(Tensor(POSITIVE).polygamma(order).numpy(), expected, rtol=1e-12)
    np.testing.assert_allclose(
        Tensor([-0.5, -3.25], dtype="float64").polygamma(1).numpy(),
        [8.93480220054468, 19.474085068082156],
        rtol=1e-12,
    )
    with pytest.raises(OperandError, match="polygamma: expected a non-negative order n, got -1"):
        Tensor([1.0]).polygamma(-1)
