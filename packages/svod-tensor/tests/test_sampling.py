from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

from svod_ir import OperandError, ShapeError
from svod_tensor import Tensor
from svod_testing import check, make_array


def fold_back(place, size, padding_mode, align_corners):
    """Where a place behind the borders is."""
    if padding_mode == "reflection":
        low, high = (0.0, size - 1.0) if align_corners else (-0.5, size - 0.5)
        while high > low and not low <= place <= high:
            place = 2 * low - place if place < low else 2 * high - place
    return place if padding_mode == "zeros" else min(max(place, 0.0), size - 1.0)


def weigh(distance, mode):
    t = abs(distance)
    if mode != "bicubic":
        return 1 - t
    return 1.25 * t**3 - 2.25 * t**2 + 1 if t <= 1 else -0.75 * (t**3 - 5 * t**2 + 8 * t - 4)


def look(a, at, mode, padding_mode, align_corners):
    """What an array of shape (channels, *sizes) has at a place."""
    around = []
    for g, size in zip(reversed(at), a.shape[1:], strict=True):
        place = (g + 1) / 2 * (size - 1) if align_corners else ((g + 1) * size - 1) / 2
        if mode != "bicubic":
            place = fold_back(place, size, padding_mode, align_corners)
        low = math.floor(place)
        near = {
            "nearest": [round(place)],
            "bilinear": [low, low + 1],
            "bicubic": range(low - 1, low + 3),
        }[mode]
        found = []
        for p in near:
            inner = (
                p
                if mode != "bicubic"
                else int(fold_back(float(p), size, padding_mode, align_corners))
            )
            found.append((inner, 1.0 if mode == "nearest" else weigh(place - p, mode)))
        around.append(found)
    total = np.zeros(len(a))
    for corner in product(*around):
        position = tuple(p for p, _ in corner)
        if all(0 <= p < s for p, s in zip(position, a.shape[1:], strict=True)):
            total += a[(slice(None), *position)] * math.prod(w for _, w in corner)
    return total


@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("padding_mode", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_grid_sample_agrees_with_its_formula(rng, mode, padding_mode, align_corners):
    for sizes in ((5, 4), (3, 1, 4), (6,)):
        a = make_array(rng, (2, 2, *sizes), "float64")
        grid = rng.uniform(-1.9, 1.9, (2, 6, *(2,) * (len(sizes) - 1), len(sizes)))
        grid[0, 0] = 7.3
        grid[1, 0] = -31.7
        expected = np.zeros((2, 2, *grid.shape[1:-1]))
        for at in np.ndindex(2, *grid.shape[1:-1]):
            expected[(at[0], slice(None), *at[1:])] = look(
                a[at[0]], grid[at], mode, padding_mode, align_corners
            )
        found = Tensor(a).grid_sample(
            Tensor(grid), mode=mode, padding_mode=padding_mode, align_corners=align_corners
        )
        check(found, expected, rtol=1e-9)


def test_nan_and_infinite_coordinates_stay_inside():
    x = Tensor([[[1.0, 2.0, 3.0]]])
    grid = Tensor([[[float("nan")], [float("inf")], [float("-inf")], [1e30]]])
    for mode in ("bilinear", "nearest", "bicubic"):
        border = x.grid_sample(grid, mode=mode, padding_mode="border", align_corners=True)
        np.testing.assert_allclose(border.numpy(), [[[1.0, 3.0, 1.0, 3.0]]], rtol=1e-6)
        zeros = x.grid_sample(grid, mode=mode, align_corners=True)
        np.testing.assert_allclose(zeros.numpy(), [[[1.0, 0.0, 0.0, 0.0]]], atol=1e-6)
        assert np.isfinite(x.grid_sample(grid, mode=mode, padding_mode="reflection").numpy()).all()


def test_integers_keep_their_dtype_with_nearest_sampling():
    x = Tensor(np.array([[[[1, 2], [3, 4]]]], np.int16))
    grid = Tensor([[[[0.6, -0.6], [-0.6, 0.6]]]])
    check(x.grid_sample(grid, mode="nearest"), np.array([[[[2, 3]]]], np.int16))
    assert x.grid_sample(grid).dtype == "float32"
    assert Tensor([[[1 + 2j, 3.0]]]).grid_sample(Tensor([[[0.0]]])).tolist() == [[[2 + 1j]]]


@pytest.mark.parametrize("align_corners", [False, True])
def test_affine_grid_agrees_with_its_formula(rng, align_corners):
    for sizes in ((3, 4), (2, 1, 3)):
        n = len(sizes)
        matrices = rng.normal(size=(2, n, n + 1))
        lines = [
            (np.linspace(-1, 1, s) if s > 1 else np.zeros(1))
            if align_corners
            else (2 * np.arange(s) + 1) / s - 1
            for s in sizes
        ]
        places = np.stack([*reversed(np.meshgrid(*lines, indexing="ij")), np.ones(sizes)], -1)
        expected = np.einsum("...j,bij->b...i", places, matrices)
        check(Tensor(matrices).affine_grid((2, 5, *sizes), align_corners), expected)
    # The identity looks at each element.
    x = make_array(rng, (1, 2, 3, 4), "float64")
    same = Tensor(np.eye(2, 3)[None]).affine_grid(x.shape, align_corners)
    check(Tensor(x).grid_sample(same, align_corners=align_corners), x)


def test_invalid_grids_are_errors():
    x, grid = Tensor.zeros(1, 1, 2, 2), Tensor.zeros(1, 3, 3, 2)
    for other in (Tensor.zeros(2, 3, 3, 2), Tensor.zeros(1, 3, 2), Tensor.zeros(1, 3, 3, 3)):
        with pytest.raises(ShapeError, match=r"\) does not match input \(1, 1, 2"):
            x.grid_sample(other)
    for options in ({"mode": "linear"}, {"padding_mode": "wrap"}):
        with pytest.raises(OperandError, match="grid_sample: expected mode in"):
            x.grid_sample(grid, **options)
    with pytest.raises(OperandError, match="a grid of int32"):
        x.grid_sample(grid.cast("int32"))
    with pytest.raises(ShapeError, match="input must not have empty axes"):
        Tensor.zeros(1, 1, 0, 2).grid_sample(grid)
    with pytest.raises(
        ShapeError, match=r"affine_grid: theta \(1, 2, 2\) does not match size \(1, 1, 2,"
    ):
        Tensor.zeros(1, 2, 2).affine_grid((1, 1, 2, 2))
