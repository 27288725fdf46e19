from __future__ import annotations

import numpy as np
import pytest

from svod_ir import ShapeError
from svod_tensor import Tensor
from svod_testing import check


@pytest.mark.parametrize("axis", [0, 1])
def test_integrals_and_slopes_agree_with_numpy(rng, axis):
    a, places = rng.normal(size=(4, 5)), np.sort(rng.random(4 + axis))
    check(Tensor(a).trapezoid(dx=0.3, axis=axis), np.trapezoid(a, dx=0.3, axis=axis))
    check(Tensor(a).trapezoid(places, axis=axis), np.trapezoid(a, places, axis=axis))
    check(Tensor(a).trapezoid(a, axis=axis), np.trapezoid(a, a, axis=axis))
    for order in (1, 2):
        options = {"axis": axis, "edge_order": order}
        check(Tensor(a).central_differences(0.1, **options), np.gradient(a, 0.1, **options))
        check(
            Tensor(a).central_differences(places, **options),
            np.gradient(a, places, **options),
            rtol=1e-11,
        )
    both = Tensor(a).central_differences(0.5, 2.0)
    check(both[axis], np.gradient(a, 0.5, 2.0)[axis])
    check(Tensor([1, 4]).central_differences(), np.array([3, 3], np.float32))
    with pytest.raises(
        ShapeError, match="central_differences: axis 0 is too short: at least 3 elements"
    ):
        Tensor([1.0, 2.0]).central_differences(edge_order=2)


def test_curves_through_points_agree_with_numpy(rng):
    places, values = np.array([0, 1, 1.5, 3.0]), rng.normal(size=4)
    x = np.array([-1, 0, 0.3, 1, 1.2, 3, 4, np.nan])
    for options in ({}, {"left": 5.0, "right": 6.0}, {"period": 2.5}):
        check(Tensor(x).interp(places, values, **options), np.interp(x, places, values, **options))
    check(Tensor(values).polyval(x), np.polyval(values, x))
    check(Tensor(np.array([1, 2, 3])).polyval(np.arange(4)), np.polyval([1, 2, 3], np.arange(4)))
    with pytest.raises(
        ShapeError,
        match=r"interp: fp \(2,\) and xp \(4,\) must be 1-d, not empty, and of one length",
    ):
        Tensor(x).interp(places, values[:2])


def test_slopes_of_narrow_floats_keep_their_dtype():
    x = Tensor([[1.0, 2.0, 4.0], [2.0, 3.0, 7.0]])
    for dtype in ("float16", "bfloat16"):
        slopes = x.cast(dtype).central_differences()
        assert [slope.dtype.name for slope in slopes] == [dtype, dtype]
        for slope, exact in zip(slopes, x.central_differences(), strict=True):
            check(slope.cast("float32"), exact.numpy(), rtol=1e-2)
