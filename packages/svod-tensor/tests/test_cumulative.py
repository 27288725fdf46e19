from __future__ import annotations

import numpy as np
import pytest

from svod_ir import ShapeError
from svod_tensor import Tensor
from svod_tensor.testing import check, make_array


@pytest.mark.parametrize("dtype", ["float32", "int32", "bool", "uint8"])
@pytest.mark.parametrize("n", [0, 1, 2])
@pytest.mark.parametrize("shape", [(7, 5), (1, 3), (0, 2)])
def test_differences_of_neighbours(rng, shape, n, dtype):
    a = make_array(rng, shape, dtype)
    for axis in (0, 1, -1):
        check(Tensor(a).diff(n, axis), np.diff(a, n, axis))
    check(Tensor(a).diff(prepend=Tensor(a), append=Tensor(a)), np.diff(a, prepend=a, append=a))


def test_running_sums_may_begin_with_their_neutral_element(rng):
    a = make_array(rng, (3, 4), "int32")
    wanted = {"dtype": np.int32, "include_initial": True}
    check(Tensor(a).cumulative_sum(1, include_initial=True), np.cumulative_sum(a, axis=1, **wanted))
    check(Tensor(a).cumulative_prod(0, include_initial=True), np.cumulative_prod(a, axis=0, **wanted))
    check(Tensor(a[0]).cumulative_sum(), np.cumulative_sum(a[0], dtype=np.int32))
    with pytest.raises(ShapeError, match="say which one"):
        Tensor(a).cumulative_sum()
