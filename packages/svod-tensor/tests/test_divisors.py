from __future__ import annotations

import numpy as np
import pytest

from svod_ir import OperandError
from svod_tensor import Tensor
from svod_testing import check


def list_slowest(limit: int, factor: int) -> list[int]:
    """Two neighbours for which Euclid's algorithm takes the most steps, with any (1) or the nearest
    (2) multiples.
    """
    pair = [0, 1]
    while factor * pair[1] + pair[0] <= limit:
        pair = [pair[1], factor * pair[1] + pair[0]]
    return pair


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "uint32", "int64", "uint64"])
def test_common_divisors_and_multiples_agree_with_numpy(rng, dtype):
    limits = np.iinfo(dtype)
    a, b = (rng.integers(limits.min, limits.max, 200, dtype, endpoint=True) for _ in range(2))
    a[:50], b[:50] = a[:50] // 3 * 3, b[:50] // 100 * 3
    odd = [limits.min, limits.min, limits.min, 0, 0, limits.max, limits.max, 1]
    others = [limits.min, 0, 1, limits.min, 0, limits.max, limits.min, limits.max]
    slow = [*list_slowest(limits.max, 1), *list_slowest(limits.max, 2)]
    a = np.concatenate([a, np.array([*odd, *slow], dtype)])
    b = np.concatenate([b, np.array([*others, *(slow[i] for i in (1, 0, 3, 2))], dtype)])
    check(Tensor(a).gcd(b), np.gcd(a, b))
    with np.errstate(all="ignore"):
        check(Tensor(a).lcm(b), np.lcm(a, b))


def test_divisors_broadcast_and_require_integers():
    a, b = np.arange(-6, 6).reshape(3, 4), np.arange(1, 4, dtype=np.int8).reshape(3, 1) * 4
    check(Tensor(a).gcd(Tensor(b)), np.gcd(a, b))
    check(np.lcm(Tensor(a), b), np.lcm(a, b))
    check(Tensor(a).gcd(6), np.gcd(a, 6))
    for x in (Tensor([1.0]), Tensor([True])):
        with pytest.raises(OperandError, match="gcd: expected integers, got"):
            x.gcd(x)
