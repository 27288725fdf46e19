from __future__ import annotations

import numpy as np
import pytest

from svod_tensor import Tensor
from svod_testing import check, make_array


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "uint64"])
def test_bits_and_shifts_agree_with_numpy(rng, dtype):
    a, b = make_array(rng, (33,), dtype), make_array(rng, (33,), dtype)
    x, y = Tensor(a), Tensor(b)
    check(x & y, a & b)
    check(x | y, a | b)
    check(x ^ y, a ^ b)
    check(~x, ~a)
    amount = (np.abs(b.astype(np.int64)) % (a.itemsize * 8)).astype(dtype)
    check(x << Tensor(amount), a << amount)
    check(x >> Tensor(amount), a >> amount)
    check(x << 3, a << 3)
    check(x >> 3, a >> 3)


def test_a_shift_beyond_the_width_shifts_everything_out():
    x = Tensor([5, -5])
    for amount in (32, 99, Tensor([32, 40])):
        assert (x << amount).tolist() == [0, 0]
        assert (x >> amount).tolist() == [0, -1]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32", "int64", "uint64"])
def test_a_shift_right_by_the_width_leaves_only_the_sign(dtype):
    a = np.array([0, 1, 100, np.iinfo(dtype).max, np.iinfo(dtype).min], dtype)
    bits = np.iinfo(dtype).bits
    for amount in (bits - 1, bits, 100):
        check(Tensor(a) >> amount, a >> np.array(amount, dtype))
        check(Tensor(a) >> Tensor(np.full(5, amount, dtype)), a >> np.array(amount, dtype))
