"""Weights of cubic convolution, by which resizing and sampling interpolate.

Source: R. Keys, Cubic convolution interpolation for digital image processing, 1981.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from svod_tensor.tensor import Tensor

__all__ = ["ANTIALIAS_SLOPE", "SLOPE", "get_pieces"]

SLOPE: Final = -0.75
"""Slope of the weights at distance 1, as in PyTorch and OpenCV."""

ANTIALIAS_SLOPE: Final = -0.5
"""Slope for antialiased resizing, as in PyTorch and Pillow."""

T = TypeVar("T", "float", "Tensor")


def get_pieces(distance: T, slope: float) -> tuple[T, T]:
    """Weights at a non-negative distance of an element if it is at most 1, and if it is from 1 to 2."""
    near = (distance * (slope + 2) - (slope + 3)) * distance * distance + 1
    far = (((distance - 5) * distance + 8) * distance - 4) * slope
    return near, far
