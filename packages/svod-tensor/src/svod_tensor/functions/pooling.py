"""Functions that call the methods of `Tensor` in `svod_tensor.ops.pooling`, as the array API standard has them."""

# Written by tools/functions.py from svod_tensor/ops/standard.py and the methods: change those.

from __future__ import annotations

from typing import TYPE_CHECKING

from svod_tensor.ops.argument_names import explained
from svod_tensor.ops.operands import to_tensor
from svod_tensor.tensor import Tensor

if TYPE_CHECKING:
    from svod_tensor.ops.base import Operand
    from svod_tensor.ops.window_options import Numbers, Padding

__all__ = [
    "avg_pool2d",
    "max_pool2d",
]


@explained
def avg_pool2d(
    x: Operand,
    /,
    kernel: Numbers = 2,
    *,
    stride: Numbers | None = None,
    padding: Padding = 0,
    dilation: Numbers = 1,
    count_include_pad: bool = True,
    ceil_mode: bool = False,
) -> Tensor:
    """The mean of each window over the spatial axes. Integers become float32.

    Args:
        kernel: the size of a window on each axis; an int is that of all axes behind the first two.
        stride: how far a window moves; by default as far as it is large.
        padding: how much is added on both sides of each axis, at most half of a window; a pair `(before, after)` for an
            axis tells them apart, and may be larger.
        dilation: the distance of a window's elements.
        count_include_pad: whether padding counts as zeros, or not at all.
        ceil_mode: whether a window may end behind the padding, if it begins before the end of the axis; what is there
            does not count.

    Raises:
        ShapeError: if there are no spatial axes, or one is smaller than a window.
        OperandError: if an option has not one number for each axis, or the padding is more than half of a window.

    Example:
        >>> import svod_tensor as sv
        >>> sv.avg_pool2d(Tensor([[[1.0, 3.0, 2.0, 0.0]]]), 2).tolist()
        [[[2.0, 1.0]]]
    """
    return to_tensor(x).avg_pool2d(
        kernel,
        stride=stride,
        padding=padding,
        dilation=dilation,
        count_include_pad=count_include_pad,
        ceil_mode=ceil_mode,
    )


@explained
def max_pool2d(
    x: Operand,
    /,
    kernel: Numbers = 2,
    *,
    stride: Numbers | None = None,
    padding: Padding = 0,
    dilation: Numbers = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """The largest element of each window over the spatial axes, in the dtype of `x`; padding never wins.

    Args:
        kernel: the size of a window on each axis; an int is that of all axes behind the first two.
        stride: how far a window moves; by default as far as it is large.
        padding: how much is added on both sides of each axis, at most half of a window; a pair `(before, after)` for an
            axis tells them apart, and may be larger.
        dilation: the distance of a window's elements.
        ceil_mode: whether a window may end behind the padding, if it begins before the end of the axis.
        return_indices: whether to give positions too.

    Returns:
        The largest elements; with `return_indices` also where the first of each is (int64), counted in row-major order
        over the spatial axes: -1 for a window with nothing but padding.

    Raises:
        ShapeError: if there are no spatial axes, or one is smaller than a window.
        OperandError: if an option has not one number for each axis, or the padding is more than half of a window.

    Example:
        >>> import svod_tensor as sv
        >>> sv.max_pool2d(Tensor([[[1.0, 3.0, 2.0, 0.0]]]), 2).tolist()
        [[[3.0, 2.0]]]
        >>> sv.max_pool2d(Tensor([[[1.0, 3.0, 2.0, 0.0]]]), 2, return_indices=True)[1].tolist()
        [[[1, 2]]]
    """
    return to_tensor(x).max_pool2d(
        kernel, stride=stride, padding=padding, dilation=dilation, ceil_mode=ceil_mode, return_indices=return_indices
    )
