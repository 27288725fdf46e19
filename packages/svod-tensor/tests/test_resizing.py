from __future__ import annotations

import numpy as np
import pytest

from svod_ir import OperandError, ShapeError
from svod_tensor import Tensor
from svod_tensor.testing import check


def stretch(a: np.ndarray, axis: int, size: int, align_corners: bool) -> np.ndarray:
    """By numpy's interpolation of each line."""
    n = a.shape[axis]
    places = np.linspace(0, n - 1, size) if align_corners else (np.arange(size) + 0.5) * n / size - 0.5
    return np.apply_along_axis(lambda line: np.interp(places, np.arange(n), line), axis, a)


@pytest.mark.parametrize("align_corners", [False, True])
def test_straight_lines_between_neighbours_agree_with_their_formula(rng, align_corners):
    a = rng.normal(size=(2, 1, 4, 3))
    for sizes in ((7, 2), (2, 3), (1, 9)):
        expected = stretch(stretch(a, 2, sizes[0], align_corners), 3, sizes[1], align_corners)
        found = Tensor(a).interpolate(sizes, mode="linear", align_corners=align_corners)
        check(found, expected, rtol=1e-6)
    assert Tensor([[[1, 3]]]).interpolate(3, mode="linear", align_corners=True).tolist() == [[[1.0, 2.0, 3.0]]]


def test_the_nearest_element_is_the_one_that_a_place_falls_into(rng):
    a = rng.integers(0, 9, (1, 2, 4, 3)).astype(np.int32)
    check(Tensor(a).interpolate(scale_factor=2), a.repeat(2, 2).repeat(2, 3))
    check(Tensor(a).interpolate((2, 3)), a[:, :, ::2])
    check(Tensor(a).interpolate(scale_factor=(0.5, 1)), a[:, :, ::2])


def test_what_cannot_be_resized_says_so():
    x = Tensor.zeros(1, 1, 4)
    for options in ({}, {"size": 3, "scale_factor": 2.0}, {"size": 3, "mode": "cubic"}, {"size": (3, 3)}):
        with pytest.raises(OperandError, match="interpolate takes"):
            x.interpolate(**options)
    with pytest.raises(ShapeError, match="leaves nothing"):
        x.interpolate(scale_factor=0.1)
    with pytest.raises(ShapeError, match="no spatial axes"):
        Tensor.zeros(1, 4).interpolate(2)
