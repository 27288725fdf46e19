"""Maximum, average and adaptive average pooling."""

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
    """Base class of pooling with a kernel size, stride and padding."""

    n_axes: ClassVar[int] = 1

    def _set_windows(self, kernel_size: Sizes, stride: Sizes | None, padding: Sizes) -> None:
        n, name = self.n_axes, type(self).__name__
        self.kernel_size = to_sizes(name, "kernel_size", kernel_size, n)
        # As in torch, windows do not overlap unless asked to.
        self.stride = self.kernel_size if stride is None else to_sizes(name, "stride", stride, n)
        self.padding = to_sizes(name, "padding", padding, n, minimum=0)

    def _check(self, x: Tensor) -> None:
        check_axes(type(self).__name__, x.shape, (self.n_axes + 1, self.n_axes + 2))

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class _MaxPool(_Pool):
    """Base class of max pooling: the maximum of each window, padded with minus infinity."""

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        dilation: Sizes = 1,
    ) -> None:
        """Initialize the layer.

        Args:
            kernel_size: size of the window: a number for all axes, or one for each.
            stride: stride of the window, by default `kernel_size`.
            padding: padding of both sides of each axis, at most half of the window.
            dilation: distance between the elements of a window.

        Raises:
            LayerArgumentError: if an argument has another number of values, or a value is too
                small.
        """
        self._set_windows(kernel_size, stride, padding)
        self.dilation = to_sizes(type(self).__name__, "dilation", dilation, self.n_axes)

    def forward(self, x: Tensor) -> Tensor:
        """Pool a tensor of shape (batch, channels, *sizes), or (channels, *sizes).

        Returns:
            a tensor of shape (batch, channels, *new_sizes), where a new size is
            `(size + 2 * padding - dilation * (kernel_size - 1) - 1) // stride + 1`.

        Raises:
            LayerArgumentError: if the number of axes differs.
        """
        self._check(x)
        # The operation takes any number of axes, despite its name.
        return x.max_pool2d(
            self.kernel_size, stride=self.stride, padding=self.padding, dilation=self.dilation
        )


class _AvgPool(_Pool):
    """Base class of average pooling: the mean of each window."""

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        count_include_pad: bool = True,
    ) -> None:
        """Initialize the layer.

        Args:
            kernel_size: size of the window: a number for all axes, or one for each.
            stride: stride of the window, by default `kernel_size`.
            padding: zero padding of both sides of each axis, at most half of the window.
            count_include_pad: if True, the padding counts in the mean.

        Raises:
            LayerArgumentError: if an argument has another number of values, or a value is too
                small.
        """
        self._set_windows(kernel_size, stride, padding)
        self.count_include_pad = count_include_pad

    def forward(self, x: Tensor) -> Tensor:
        """Pool a tensor of shape (batch, channels, *sizes), or (channels, *sizes).

        Returns:
            a tensor of shape (batch, channels, *new_sizes), where a new size is
            `(size + 2 * padding - kernel_size) // stride + 1`.

        Raises:
            LayerArgumentError: if the number of axes differs.
        """
        self._check(x)
        return x.avg_pool2d(
            self.kernel_size,
            stride=self.stride,
            padding=self.padding,
            count_include_pad=self.count_include_pad,
        )


class _AdaptiveAvgPool(Module):
    """Base class of adaptive average pooling: the mean of a given number of windows.

    Window o of n begins at `floor(o * size / n)` and ends before `ceil((o + 1) * size / n)`.
    """

    n_axes: ClassVar[int] = 1

    def __init__(self, output_size: Sizes) -> None:
        """Initialize the layer.

        Args:
            output_size: sizes of the result: a number for all axes, or one for each.

        Raises:
            LayerArgumentError: if `output_size` has another number of values, or a value is less
                than 1.
        """
        self.output_size = to_sizes(type(self).__name__, "output_size", output_size, self.n_axes)

    def forward(self, x: Tensor) -> Tensor:
        """Pool a tensor of shape (batch, channels, *sizes) to (batch, channels, *output_size).

        The batch axis may be absent.

        Raises:
            LayerArgumentError: if the number of axes differs.
        """
        check_axes(type(self).__name__, x.shape, (self.n_axes + 1, self.n_axes + 2))
        # One axis after another: all elements of a window weigh the same, so the mean is that of
        # means.
        for axis, n in enumerate(self.output_size, -self.n_axes):
            x = _average_windows(x, axis, n)
        return x

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


def _average_windows(x: Tensor, axis: int, n: int) -> Tensor:
    size = x.shape[axis]
    assert isinstance(size, int)
    if size % n == 0:
        # Equal windows tile the axis. Counted from the end, it is the inner one of both new axes.
        return x.unflatten(axis, (n, size // n)).mean(axis)
    # Windows of different lengths: a product with the matrix of the windows' weights.
    window, index = Tensor.arange(n).unsqueeze(1), Tensor.arange(size)
    # As in torch, begins are rounded down and ends up, so windows may overlap.
    begin, end = window * size // n, ((window + 1) * size + n - 1) // n
    weights = ((index >= begin) & (index < end)).cast(x.dtype) / (end - begin).cast(x.dtype)
    return (x.moveaxis(axis, -1) @ weights.T).moveaxis(-1, axis)


class MaxPool1d(_MaxPool):
    """Max pooling over one axis.

    A call takes a tensor of shape (batch, channels, length), or without the batch axis. Each size
    of the result is `(size + 2 * padding - dilation * (kernel_size - 1) - 1) // stride + 1`;
    padding is never the maximum.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> nn.MaxPool1d(2)(Tensor.ones(1, 3, 6)).shape
        (1, 3, 3)
    """

    n_axes = 1


class AvgPool1d(_AvgPool):
    """Average pooling over one axis.

    A call takes a tensor of shape (batch, channels, length), or without the batch axis. Each size
    of the result is `(size + 2 * padding - kernel_size) // stride + 1`.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> nn.AvgPool1d(2)(Tensor.ones(1, 3, 6)).shape
        (1, 3, 3)
    """

    n_axes = 1


class AdaptiveAvgPool1d(_AdaptiveAvgPool):
    """Adaptive average pooling over one axis.

    A call takes a tensor of shape (batch, channels, length), or without the batch axis, and returns
    a tensor of spatial sizes `output_size`. Window o of n begins at `floor(o * size / n)` and ends
    before `ceil((o + 1) * size / n)`.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> nn.AdaptiveAvgPool1d(2)(Tensor.ones(1, 3, 5)).shape
        (1, 3, 2)
    """

    n_axes = 1


class MaxPool2d(_MaxPool):
    """Max pooling over two axes.

    A call takes a tensor of shape (batch, channels, height, width), or without the batch axis. Each
    size of the result is `(size + 2 * padding - dilation * (kernel_size - 1) - 1) // stride + 1`;
    padding is never the maximum.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> nn.MaxPool2d(2)(Tensor.ones(1, 3, 6, 6)).shape
        (1, 3, 3, 3)
    """

    n_axes = 2


class AvgPool2d(_AvgPool):
    """Average pooling over two axes.

    A call takes a tensor of shape (batch, channels, height, width), or without the batch axis. Each
    size of the result is `(size + 2 * padding - kernel_size) // stride + 1`.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> nn.AvgPool2d(2)(Tensor.ones(1, 3, 6, 6)).shape
        (1, 3, 3, 3)
    """

    n_axes = 2


class AdaptiveAvgPool2d(_AdaptiveAvgPool):
    """Adaptive average pooling over two axes.

    A call takes a tensor of shape (batch, channels, height, width), or without the batch axis, and
    returns a tensor of spatial sizes `output_size`. Window o of n begins at `floor(o * size / n)`
    and ends before `ceil((o + 1) * size / n)`.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> nn.AdaptiveAvgPool2d(2)(Tensor.ones(1, 3, 5, 5)).shape
        (1, 3, 2, 2)
    """

    n_axes = 2


class MaxPool3d(_MaxPool):
    """Max pooling over three axes.

    A call takes a tensor of shape (batch, channels, depth, height, width), or without the batch
    axis. Each size of the result is
    `(size + 2 * padding - dilation * (kernel_size - 1) - 1) // stride + 1`; padding is never the
    maximum.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> nn.MaxPool3d(2)(Tensor.ones(1, 3, 6, 6, 6)).shape
        (1, 3, 3, 3, 3)
    """

    n_axes = 3


class AvgPool3d(_AvgPool):
    """Average pooling over three axes.

    A call takes a tensor of shape (batch, channels, depth, height, width), or without the batch
    axis. Each size of the result is `(size + 2 * padding - kernel_size) // stride + 1`.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> nn.AvgPool3d(2)(Tensor.ones(1, 3, 6, 6, 6)).shape
        (1, 3, 3, 3, 3)
    """

    n_axes = 3


class AdaptiveAvgPool3d(_AdaptiveAvgPool):
    """Adaptive average pooling over three axes.

    A call takes a tensor of shape (batch, channels, depth, height, width), or without the batch
    axis, and returns a tensor of spatial sizes `output_size`. Window o of n begins at
    `floor(o * size / n)` and ends before `ceil((o + 1) * size / n)`.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> nn.AdaptiveAvgPool3d(2)(Tensor.ones(1, 3, 5, 5, 5)).shape
        (1, 3, 2, 2, 2)
    """

    n_axes = 3
