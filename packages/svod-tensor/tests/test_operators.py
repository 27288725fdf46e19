from __future__ import annotations

import numpy as np

from svod_tensor import Tensor
from svod_tensor.testing import check, make_array


def test_numpy_operands_mix_with_tensors_on_both_sides(rng):
    a, b = make_array(rng, (3, 4), "float32"), make_array(rng, (4,), "float32")
    check(Tensor(a) + b, a + b)
    check(b + Tensor(a), a + b)
    check(np.float32(2) * Tensor(a), 2 * a)
    check(a @ Tensor(b), a @ b)


def test_reflected_operators_keep_their_order():
    x = Tensor([2, 3])
    assert (10 - x).tolist() == [8, 7]
    assert (7 // x).tolist() == [3, 2]
    assert (7 % x).tolist() == [1, 1]
    assert (2**x).tolist() == [4, 8]
    assert (1 << x).tolist() == [4, 8]
    assert [t.tolist() for t in divmod(x, 2)] == [[1, 1], [0, 1]]
