"""Functions that call the methods of `Tensor` in `svod_tensor.ops.sampling`, as the array API standard has them."""

# Written by tools/functions.py from svod_tensor/ops/standard.py and the methods: change those.

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from svod_tensor.functions._operands import to_tensor
from svod_tensor.ops.argument_names import explained
from svod_tensor.tensor import Tensor

if TYPE_CHECKING:
    from svod_tensor.ops.base import Operand
    from svod_tensor.ops.sampling import SamplingMode, SamplingPadding

__all__ = [
    "affine_grid",
    "grid_sample",
]


@explained
def affine_grid(theta: Operand, /, size: Sequence[int], align_corners: bool = False) -> Tensor:
    """The grid, as `grid_sample` takes it, of the affine maps with these matrices: shape (batch, *sizes, axes).

    Args:
        size: the shape of the image that is made: (batch, channels, *sizes).
        align_corners: whether -1 and 1 are the middles of the outermost elements, or their outer ends.

    Raises:
        ShapeError: if `theta` is not of shape (batch, axes, axes + 1) for an image of this size.

    Example:
        >>> import svod_tensor as sv
        >>> sv.affine_grid(Tensor([[[1.0, 0.0, 0.5], [0.0, 1.0, 0.0]]]), (1, 1, 1, 2)).tolist()
        [[[[0.0, 0.0], [1.0, 0.0]]]]
    """
    return to_tensor(theta).affine_grid(size, align_corners)


@explained
def grid_sample(
    x: Operand,
    grid: Tensor,
    /,
    *,
    mode: SamplingMode = "bilinear",
    padding_mode: SamplingPadding = "zeros",
    align_corners: bool = False,
) -> Tensor:
    """The values at the coordinates in `grid`, interpolated between the elements of this tensor of shape (batch, channels, *sizes), for
    any number of spatial axes: shape (batch, channels, *places).

    Integers become float32 unless the mode is `"nearest"`.

    Args:
        grid: places of shape (batch, *places, axes). On each axis -1 is one end and 1 the other; the coordinate along the
            last axis comes first. NaN counts as -1.
        mode: `"nearest"` for the nearest element (of two the even one), `"bilinear"` for straight lines between
            neighbours along each axis, `"bicubic"` for polynomials through four.
        padding_mode: `"zeros"` around `x`, its outermost elements (`"border"`), or those inside in reverse
            (`"reflection"`).
        align_corners: whether -1 and 1 are the middles of the outermost elements, or their outer ends.

    Raises:
        ShapeError: if the shapes do not fit each other, or an axis is empty.
        OperandError: if a mode is not known, or the places are no floats.

    Example:
        >>> import svod_tensor as sv
        >>> x = Tensor([[[[1.0, 3.0]]]])
        >>> sv.grid_sample(x, Tensor([[[[0.0, 0.0], [-0.5, 0.0]]]])).tolist()
        [[[[2.0, 1.0]]]]
    """
    return to_tensor(x).grid_sample(grid, mode=mode, padding_mode=padding_mode, align_corners=align_corners)
