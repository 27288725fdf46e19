from __future__ import annotations

import numpy as np
import pytest

from svod_ir import OperandError
from svod_tensor import Tensor
from svod_testing import check


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "uint32", "int64", "uint64"])
def test_bits_are_counted(rng, dtype):
    limits = np.iinfo(dtype)
    a = np.concatenate(
        [
            rng.integers(limits.min, limits.max, 50, dtype),
            np.array([limits.min, limits.max, 0, 1], dtype),
        ]
    )
    check(Tensor(a).bitwise_count(), np.bitwise_count(a))
    with pytest.raises(OperandError, match="bitwise_count: expected integers, got float32"):
        Tensor([1.0]).bitwise_count()


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_fractions_and_exponents_agree_with_numpy(rng, dtype):
    info = np.finfo(dtype)
    a = (rng.normal(size=100) * 10.0 ** rng.uniform(-4, 4, 100)).astype(dtype)
    odd = np.array(
        [
            0.0,
            -0.0,
            np.inf,
            -np.inf,
            np.nan,
            info.smallest_subnormal,
            info.max,
            info.tiny,
            1.0,
            0.5,
        ],
        dtype,
    )
    a = np.concatenate([a, odd])
    fractions, exponents = Tensor(a).frexp()
    expected, powers = np.frexp(a)
    np.testing.assert_array_equal(fractions.numpy(), expected)
    # numpy says nothing of the exponents of what is not finite.
    is_finite = np.isfinite(a)
    np.testing.assert_array_equal(exponents.numpy()[is_finite], powers[is_finite])
    np.testing.assert_array_equal(fractions.ldexp(exponents).numpy(), a)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_products_with_powers_of_two_round_once(rng, dtype):
    a = np.repeat(rng.normal(size=40), 9).astype(dtype)
    powers = np.tile(
        np.array([-2000, -1074, -1060, -30, 0, 3, 1000, 1030, 2**31 - 1], np.int32), 40
    )
    with np.errstate(over="ignore", under="ignore"):
        expected = np.ldexp(a, powers)
    np.testing.assert_array_equal(Tensor(a).ldexp(powers).numpy(), expected)
    with pytest.raises(OperandError, match="ldexp: expected integer exponents, got float"):
        Tensor(a).ldexp(0.5)
