"""The largest element or the mean of windows over the last axes."""

from __future__ import annotations

from typing import ClassVar

from svod_nn._module import Module
from svod_nn.layers.sizes import Sizes, check_axes, to_sizes
from svod_tensor import Tensor

__all__ = [
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d",
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
]


class _Pool(Module):
    """What layers with windows share."""

    n_axes: ClassVar[int] = 1

    def _set_windows(self, kernel_size: Sizes, stride: Sizes | None, padding: Sizes) -> None:
        n, name = self.n_axes, type(self).__name__
        self.kernel_size = to_sizes(name, "kernel_size", kernel_size, n)
        self.stride = self.kernel_size if stride is None else to_sizes(name, "stride", stride, n)
        self.padding = to_sizes(name, "padding", padding, n, least=0)

    def _check(self, x: Tensor) -> None:
        check_axes(type(self).__name__, x.shape, (self.n_axes + 1, self.n_axes + 2))

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class _MaxPool(_Pool):
    """The largest element of each window; padding never wins.

    Args:
        kernel_size: of a window.
        stride: how far windows move; by default as far as they are large.
        padding: how much is added on both sides.
        dilation: the distance of a window's elements.
    """

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        dilation: Sizes = 1,
    ) -> None:
        self._set_windows(kernel_size, stride, padding)
        self.dilation = to_sizes(type(self).__name__, "dilation", dilation, self.n_axes)

    def forward(self, x: Tensor) -> Tensor:
        """From shape (batch, channels, *sizes), or one without a batch, to smaller sizes."""
        self._check(x)
        return x.max_pool2d(
            self.kernel_size, stride=self.stride, padding=self.padding, dilation=self.dilation
        )


class _AvgPool(_Pool):
    """The mean of each window.

    Args:
        kernel_size: of a window.
        stride: how far windows move; by default as far as they are large.
        padding: how much is added on both sides.
        count_include_pad: whether padding counts as zeros, or not at all.
    """

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        count_include_pad: bool = True,
    ) -> None:
        self._set_windows(kernel_size, stride, padding)
        self.count_include_pad = count_include_pad

    def forward(self, x: Tensor) -> Tensor:
        """From shape (batch, channels, *sizes), or one without a batch, to smaller sizes."""
        self._check(x)
        return x.avg_pool2d(
            self.kernel_size,
            stride=self.stride,
            padding=self.padding,
            count_include_pad=self.count_include_pad,
        )


class _AdaptiveAvgPool(Module):
    """The mean of as many windows as are asked for: window o of n begins at `o * size // n` and
    ends before `ceil((o + 1) * size / n)`.

    Args:
        output_size: how many windows there are: a number for all axes, or one for each.
    """

    n_axes: ClassVar[int] = 1

    def __init__(self, output_size: Sizes) -> None:
        self.output_size = to_sizes(type(self).__name__, "output_size", output_size, self.n_axes)

    def forward(self, x: Tensor) -> Tensor:
        """From shape (batch, channels, *sizes), or one without a batch, to (batch, channels,
        *output_size).
        """
        check_axes(type(self).__name__, x.shape, (self.n_axes + 1, self.n_axes + 2))
        for axis, n in enumerate(self.output_size, -self.n_axes):
            x = _average_windows(x, axis, n)
        return x

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


def _average_windows(x: Tensor, axis: int, n: int) -> Tensor:
    size = x.shape[axis]
    assert isinstance(size, int)
    if size % n == 0:
        return x.unflatten(axis, (n, size // n)).mean(axis if axis >= 0 else x.ndim + 1 + axis)
    # Windows of different lengths: a product with a matrix that says who belongs to which.
    o, place = Tensor.arange(n).unsqueeze(1), Tensor.arange(size)
    begin, end = o * size // n, ((o + 1) * size + n - 1) // n
    weights = ((place >= begin) & (place < end)).cast(x.dtype) / (end - begin).cast(x.dtype)
    return (x.moveaxis(axis, -1) @ weights.T).moveaxis(-1, axis)


class MaxPool1d(_MaxPool):
    """The largest element of each window over one axis.

    Example:
        >>> nn.MaxPool1d(2)(Tensor.ones(1, 3, 6)).shape
        (1, 3, 3)
    """

    n_axes = 1


class AvgPool1d(_AvgPool):
    """The mean of each window over one axis.

    Example:
        >>> nn.AvgPool1d(2)(Tensor.ones(1, 3, 6)).shape
        (1, 3, 3)
    """

    n_axes = 1


class AdaptiveAvgPool1d(_AdaptiveAvgPool):
    """The mean of as many windows over one axis as are asked for.

    Example:
        >>> nn.AdaptiveAvgPool1d(2)(Tensor.ones(1, 3, 5)).shape
        (1, 3, 2)
    """

    n_axes = 1


class MaxPool2d(_MaxPool):
    """The largest element of each window over two axes.

    Example:
        >>> nn.MaxPool2d(2)(Tensor.ones(1, 3, 6, 6)).shape
        (1, 3, 3, 3)
    """

    n_axes = 2


class AvgPool2d(_AvgPool):
    """The mean of each window over two axes.

    Example:
        >>> nn.AvgPool2d(2)(Tensor.ones(1, 3, 6, 6)).shape
        (1, 3, 3, 3)
    """

    n_axes = 2


class AdaptiveAvgPool2d(_AdaptiveAvgPool):
    """The mean of as many windows over two axes as are asked for.

    Example:
        >>> nn.AdaptiveAvgPool2d(2)(Tensor.ones(1, 3, 5, 5)).shape
        (1, 3, 2, 2)
    """

    n_axes = 2


class MaxPool3d(_MaxPool):
    """The largest element of each window over three axes.

    Example:
        >>> nn.MaxPool3d(2)(Tensor.ones(1, 3, 6, 6, 6)).shape
        (1, 3, 3, 3, 3)
    """

    n_axes = 3


class AvgPool3d(_AvgPool):
    """The mean of each window over three axes.

    Example:
        >>> nn.AvgPool3d(2)(Tensor.ones(1, 3, 6, 6, 6)).shape
        (1, 3, 3, 3, 3)
    """

    n_axes = 3


class AdaptiveAvgPool3d(_AdaptiveAvgPool):
    """The mean of as many windows over three axes as are asked for.

    Example:
        >>> nn.AdaptiveAvgPool3d(2)(Tensor.ones(1, 3, 5, 5, 5)).shape
        (1, 3, 2, 2, 2)
    """

    n_axes = 3
