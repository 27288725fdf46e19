"""Functions that call the methods of `Tensor` in `svod_tensor.ops.windows`, as the array API standard has them."""

# Written by tools/functions.py from svod_tensor/ops/standard.py and the methods: change those.

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from svod_tensor.functions._operands import to_tensor
from svod_tensor.ops.argument_names import explained
from svod_tensor.tensor import Tensor

if TYPE_CHECKING:
    from svod_tensor.ops.base import Operand
    from svod_tensor.ops.window_options import Numbers, Padding

__all__ = [
    "conv2d",
    "conv_transpose2d",
    "fold",
    "unfold",
]


@explained
def conv2d(
    x: Operand,
    weight: Tensor,
    /,
    bias: Tensor | None = None,
    *,
    stride: Numbers = 1,
    padding: Padding = 0,
    dilation: Numbers = 1,
    groups: int = 1,
) -> Tensor:
    """The cross-correlation with `weight`, over 1, 2 or more spatial axes: shape (batch, outputs, *sizes).

    Dtypes promote, and narrow floats are multiplied and added in float32.

    Args:
        weight: one filter for each output channel, of shape (outputs, channels / groups, *kernel).
        bias: of shape (outputs,).
        stride: how far a window moves on each axis.
        padding: zeros on both sides of each axis; a pair `(before, after)` for an axis tells them apart.
        dilation: the distance of a window's elements.
        groups: into how many independent parts the channels fall.

    Raises:
        ShapeError: if the shapes do not fit each other.
        OperandError: if an option has not one number for each axis.

    Example:
        >>> import svod_tensor as sv
        >>> x = Tensor([[[1.0, 2.0, 4.0, 8.0]]])
        >>> sv.conv2d(x, Tensor([[[1.0, 1.0]]])).tolist()
        [[[3.0, 6.0, 12.0]]]
    """
    return to_tensor(x).conv2d(weight, bias, stride=stride, padding=padding, dilation=dilation, groups=groups)


@explained
def conv_transpose2d(
    x: Operand,
    weight: Tensor,
    /,
    bias: Tensor | None = None,
    *,
    stride: Numbers = 1,
    padding: Numbers = 0,
    output_padding: Numbers = 0,
    dilation: Numbers = 1,
    groups: int = 1,
) -> Tensor:
    """The transpose of `conv2d` with the same options: each element adds its multiple of a filter to a window of the
    result.

    Results that lie `stride` apart are a convolution with every `stride`-th place of the filters; so no zeros are
    multiplied.

    Args:
        weight: of shape (channels, outputs / groups, *kernel).
        bias: of shape (outputs,).
        stride: how far apart the windows of neighbours are.
        padding: how much is cut off on both sides of each axis of the result.
        output_padding: how much longer each axis of the result is at its end.
        dilation: the distance of a window's elements.
        groups: into how many independent parts the channels fall.

    Raises:
        ShapeError: if the shapes do not fit each other.
        OperandError: if an option has not one number for each axis.

    Example:
        >>> import svod_tensor as sv
        >>> x = Tensor([[[1.0, 10.0]]])
        >>> sv.conv_transpose2d(x, Tensor([[[1.0, 2.0]]])).tolist()
        [[[1.0, 12.0, 20.0]]]
    """
    return to_tensor(x).conv_transpose2d(
        weight, bias, stride=stride, padding=padding, output_padding=output_padding, dilation=dilation, groups=groups
    )


@explained
def fold(
    x: Operand,
    /,
    size: int | Sequence[int],
    kernel: Numbers,
    *,
    stride: Numbers = 1,
    padding: Padding = 0,
    dilation: Numbers = 1,
) -> Tensor:
    """The transpose of `unfold` with the same options: what the windows have of each element, added up; of shape (batch,
    channels, *size).

    Args:
        size: of the spatial axes of the result; a number is that of as many as the kernel has, or else of two.
        kernel: the size of a window on each spatial axis; a number is that of as many as `size` has.
        stride: how far a window moves on each axis.
        padding: how much of the sums is cut off on both sides of each axis; a pair `(before, after)` for an axis tells
            them apart.
        dilation: the distance of a window's elements.

    Raises:
        ShapeError: if `x` is not of windows that such a result has.
        OperandError: if an option has not one number for each axis.

    Example:
        >>> import svod_tensor as sv
        >>> sv.fold(Tensor([[1, 2], [2, 3], [3, 4]]), [4], 3).tolist()
        [[1, 4, 6, 4]]
    """
    return to_tensor(x).fold(size, kernel, stride=stride, padding=padding, dilation=dilation)


@explained
def unfold(
    x: Operand, /, kernel: Numbers, *, stride: Numbers = 1, padding: Padding = 0, dilation: Numbers = 1
) -> Tensor:
    """The windows over the spatial axes as columns: shape (batch, channels * elements of a window, windows), in row-major
    order, as PyTorch's `nn.functional.unfold` has them, for any number of axes.

    Args:
        kernel: the size of a window on each spatial axis; an int is that of all axes behind the first two. What is in
            front of the channels may be missing, or several axes.
        stride: how far a window moves on each axis.
        padding: zeros on both sides of each axis; a pair `(before, after)` for an axis tells them apart.
        dilation: the distance of a window's elements.

    Raises:
        ShapeError: if there are no spatial axes or channels, or one is smaller than a window.
        OperandError: if an option has not one number for each axis.

    Example:
        >>> import svod_tensor as sv
        >>> sv.unfold(Tensor([[[1, 2, 3, 4]]]), 3).tolist()
        [[[1, 2], [2, 3], [3, 4]]]
    """
    return to_tensor(x).unfold(kernel, stride=stride, padding=padding, dilation=dilation)
