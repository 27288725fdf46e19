from __future__ import annotations

import numpy as np
import pytest

from svod_ir import Op, OperandError, ShapeError
from svod_tensor import Tensor
from svod_testing import check


def stretch(a: np.ndarray, axis: int, size: int, align_corners: bool) -> np.ndarray:
    """By numpy's interpolation of each line."""
    n = a.shape[axis]
    places = (
        np.linspace(0, n - 1, size) if align_corners else (np.arange(size) + 0.5) * n / size - 0.5
    )
    return np.apply_along_axis(lambda line: np.interp(places, np.arange(n), line), axis, a)


@pytest.mark.parametrize("align_corners", [False, True])
def test_linear_interpolation_agrees_with_its_formula(rng, align_corners):
    a = rng.normal(size=(2, 1, 4, 3))
    for sizes in ((7, 2), (2, 3), (1, 9)):
        expected = stretch(stretch(a, 2, sizes[0], align_corners), 3, sizes[1], align_corners)
        found = Tensor(a).interpolate(sizes, mode="linear", align_corners=align_corners)
        check(found, expected, rtol=1e-6)
    assert Tensor([[[1, 3]]]).interpolate(3, mode="linear", align_corners=True).tolist() == [
        [[1.0, 2.0, 3.0]]
    ]


def test_nearest_selects_the_element_that_contains_the_coordinate(rng):
    a = rng.integers(0, 9, (1, 2, 4, 3)).astype(np.int32)
    check(Tensor(a).interpolate(scale_factor=2), a.repeat(2, 2).repeat(2, 3))
    check(Tensor(a).interpolate((2, 3)), a[:, :, ::2])
    check(Tensor(a).interpolate(scale_factor=(0.5, 1)), a[:, :, ::2])


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
def test_an_integer_scale_repeats_without_gather(rng, mode):
    a = rng.normal(size=(2, 3, 5, 7)).astype(np.float32)
    for times in (2, 3, 5):
        found = Tensor(a).interpolate(scale_factor=times, mode=mode)
        assert not any(node.op is Op.GATHER for node in found.uop.toposort())
        check(found, a.repeat(times, 2).repeat(times, 3))
    uneven = Tensor(a).interpolate((12, 7), mode=mode)
    assert any(node.op is Op.GATHER for node in uneven.uop.toposort())


def weigh(distance, a):
    """Keys' polynomial."""
    t = abs(distance)
    near, far = (a + 2) * t**3 - (a + 3) * t**2 + 1, a * (t**3 - 5 * t**2 + 8 * t - 4)
    return np.where(t <= 1, near, np.where(t < 2, far, 0))


@pytest.mark.parametrize("align_corners", [False, True])
def test_polynomials_through_four_elements_agree_with_their_formula(rng, align_corners):
    a = rng.normal(size=(1, 2, 6))
    for size in (9, 4, 1):
        places = (
            np.linspace(0, 5, size) if align_corners else (np.arange(size) + 0.5) * 6 / size - 0.5
        )
        near = np.floor(places)[:, None] + np.arange(-1, 3)
        expected = (a[..., near.clip(0, 5).astype(int)] * weigh(places[:, None] - near, -0.75)).sum(
            -1
        )
        check(Tensor(a).interpolate(size, mode="cubic", align_corners=align_corners), expected)
    both = Tensor(a[..., None]).interpolate((9, 3), mode="bicubic")
    check(both, np.repeat(Tensor(a).interpolate(9, mode="cubic").numpy()[..., None], 3, -1))


@pytest.mark.parametrize(("mode", "reach"), [("linear", 1), ("cubic", 2)])
def test_antialiasing_averages_when_downsampling(rng, mode, reach):
    a = rng.normal(size=(1, 2, 11))
    for size in (4, 3, 11, 15):
        step = 11 / size
        stretch, middle = max(step, 1), step * (np.arange(size) + 0.5)
        distance = (np.arange(11) + 0.5 - middle[:, None]) / stretch
        weights = np.maximum(1 - np.abs(distance), 0) if mode == "linear" else weigh(distance, -0.5)
        weights[np.abs(distance) >= reach] = 0
        expected = a @ (weights / weights.sum(1, keepdims=True)).T
        check(Tensor(a).interpolate(size, mode=mode, antialias=True), expected)


def test_area_and_nearest_interpolation(rng):
    a = rng.normal(size=(1, 2, 5))
    expected = np.stack([a[..., begin:end].mean(-1) for begin, end in ((0, 2), (1, 4), (3, 5))], -1)
    check(Tensor(a).interpolate(3, mode="area"), expected)
    check(Tensor(a).interpolate(2, mode="nearest-exact"), a[..., [1, 3]])
    check(Tensor(a).interpolate(2), a[..., [0, 2]])


def test_invalid_resizing_is_an_error():
    x = Tensor.zeros(1, 1, 4)
    for options in (
        {},
        {"size": 3, "scale_factor": 2.0},
        {"size": 3, "mode": "bicubic"},
        {"size": 3, "mode": "spline"},
        {"size": 3, "antialias": True},
        {"size": (3, 3)},
    ):
        with pytest.raises(OperandError, match="interpolate: expected"):
            x.interpolate(**options)
    with pytest.raises(ShapeError, match=r"interpolate: output sizes must be positive: \(0,\)"):
        x.interpolate(scale_factor=0.1)
    with pytest.raises(ShapeError, match="expected spatial axes that are not empty"):
        Tensor.zeros(1, 4).interpolate(2)
