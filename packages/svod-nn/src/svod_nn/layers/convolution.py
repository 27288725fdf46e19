"""Convolutions and transposed convolutions over one, two and three axes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import ClassVar, Literal

from svod_nn._module import Module
from svod_nn.errors import LayerArgumentError
from svod_nn.initializers import uniform
from svod_nn.layers.padding import PaddingMode, check_mode, pad_axes
from svod_nn.layers.sizes import Sizes, check_axes, to_sizes
from svod_tensor import Generator, Tensor

__all__ = ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"]


class _Filters(Module):
    """Base class of convolutions: weights, and inputs without a batch axis."""

    n_axes: ClassVar[int] = 1

    def __init__(
        self,
        channels: tuple[int, int],
        kernel_size: tuple[int, ...],
        groups: int,
        has_bias: bool,
        generator: Generator | None,
        *,
        is_transposed: bool,
    ) -> None:
        self.in_channels, self.out_channels = channels
        self.kernel_size, self.groups = kernel_size, groups
        # Each group reads and writes the same number of channels.
        if groups < 1 or channels[0] % groups or channels[1] % groups:
            problem = (
                "in_channels and out_channels must be divisible by groups, got"
                f" in_channels={channels[0]}, out_channels={channels[1]}, groups={groups}"
            )
            raise LayerArgumentError(name=type(self).__name__, problem=problem)
        # As in torch, the weight of a transposed convolution is stored with inputs first.
        rows, columns = channels if is_transposed else channels[::-1]
        shape = (rows, columns // groups, *kernel_size)
        # torch's kaiming_uniform with a slope of sqrt(5). Its fan is taken from the second axis
        # also for transposed convolutions, where that is the number of outputs.
        bound = 1 / math.sqrt(math.prod(shape[1:]))
        self.weight = uniform(shape, -bound, bound, generator=generator)
        self.bias = (
            uniform((channels[1],), -bound, bound, generator=generator) if has_bias else None
        )

    def _run(self, x: Tensor, convolve: Callable[[Tensor], Tensor]) -> Tensor:
        check_axes(type(self).__name__, x.shape, (self.n_axes + 1, self.n_axes + 2))
        # The operation itself needs a batch axis.
        return convolve(x) if x.ndim == self.n_axes + 2 else convolve(x.unsqueeze(0)).squeeze(0)

    def _describe(self, **options: tuple[object, object]) -> str:
        """Format the options, (value, default) by name, that differ from their defaults."""
        shown = [
            f"{name}={value}" for name, (value, default) in options.items() if value != default
        ]
        # As in torch, only what differs from the default.
        shown += [f"groups={self.groups}"] if self.groups != 1 else []
        shown += ["bias=False"] if self.bias is None else []
        return ", ".join(
            [f"{self.in_channels}, {self.out_channels}", f"kernel_size={self.kernel_size}", *shown]
        )


class _Convolution(_Filters):
    """Base class of convolutions (cross-correlations) over the last axes."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes | Literal["same", "valid"] = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: PaddingMode = "zeros",
        *,
        generator: Generator | None = None,
    ) -> None:
        """Initialize the layer.

        Args:
            in_channels: number of channels of the input.
            out_channels: number of channels of the result.
            kernel_size: size of the kernel: a number for all axes, or one for each.
            stride: stride of the convolution.
            padding: padding of both sides of each axis; "valid" is no padding, and "same" preserves
                the sizes at stride 1.
            dilation: spacing of the kernel's elements.
            groups: number of groups: blocks of channels that are convolved independently.
            bias: if True, there is a learned bias.
            padding_mode: "zeros", "reflect", "replicate" or "circular".
            generator: random generator of the initial values, which are uniform between plus and
                minus `1 / sqrt(in_channels / groups * prod(kernel_size))`.

        Raises:
            LayerArgumentError: if `groups` does not divide both numbers of channels, an argument
                has another number of values, the padding mode is unknown, or padding is "same" with
                a stride other than 1.
        """
        n, name = self.n_axes, type(self).__name__
        kernel = to_sizes(name, "kernel_size", kernel_size, n)
        super().__init__(
            (in_channels, out_channels), kernel, groups, bias, generator, is_transposed=False
        )
        self.stride, self.dilation = (
            to_sizes(name, "stride", stride, n),
            to_sizes(name, "dilation", dilation, n),
        )
        check_mode(name, padding_mode)
        self.padding = (
            padding
            if isinstance(padding, str)
            else to_sizes(name, "padding", padding, n, minimum=0)
        )
        self.padding_mode: PaddingMode = padding_mode
        # Computed now, so that wrong padding fails where the layer is made.
        self._amounts = self._get_amounts()

    def _get_amounts(self) -> list[tuple[int, int]]:
        """Return the padding before and after each axis."""
        if isinstance(self.padding, tuple):
            return [(amount, amount) for amount in self.padding]
        if self.padding == "valid":
            return [(0, 0)] * self.n_axes
        # As in torch: with a stride, "same" would depend on the size of the input.
        if self.padding != "same" or any(step != 1 for step in self.stride):
            problem = f"padding={self.padding!r} with stride={self.stride}"
            hint = "write a number, one for each axis, 'valid', or 'same' with stride=1"
            raise LayerArgumentError(name=type(self).__name__, problem=problem, hint=hint)
        totals = [d * (k - 1) for d, k in zip(self.dilation, self.kernel_size, strict=True)]
        # As in torch, the odd element is added at the end.
        return [(total // 2, total - total // 2) for total in totals]

    def forward(self, x: Tensor) -> Tensor:
        """Convolve a tensor of shape (batch, in_channels, *sizes), or (in_channels, *sizes).

        Returns:
            a tensor of shape (batch, out_channels, *new_sizes), where a new size is `(size +
            2 * padding - dilation * (kernel_size - 1) - 1) // stride + 1`.

        Raises:
            LayerArgumentError: if the number of axes differs.
        """
        return self._run(x, self._convolve)

    def _convolve(self, x: Tensor) -> Tensor:
        # Symmetric zero padding is done by the operation itself.
        is_plain = self.padding_mode == "zeros" and all(
            before == after for before, after in self._amounts
        )
        padded = x if is_plain else pad_axes(x, self._amounts, self.padding_mode)
        padding = [before if is_plain else 0 for before, _ in self._amounts]
        # The operation takes any number of axes, despite its name.
        return padded.conv2d(
            self.weight,
            self.bias,
            stride=self.stride,
            padding=padding,
            dilation=self.dilation,
            groups=self.groups,
        )

    def extra_repr(self) -> str:
        ones, zeros = (1,) * self.n_axes, (0,) * self.n_axes
        return self._describe(
            stride=(self.stride, None),
            padding=(self.padding, zeros),
            dilation=(self.dilation, ones),
            padding_mode=(self.padding_mode, "zeros"),
        )


class _TransposedConvolution(_Filters):
    """Base class of transposed convolutions, the gradients of convolutions by their inputs."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes = 0,
        output_padding: Sizes = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Sizes = 1,
        *,
        generator: Generator | None = None,
    ) -> None:
        """Initialize the layer.

        Args:
            in_channels: number of channels of the input.
            out_channels: number of channels of the result.
            kernel_size: size of the kernel: a number for all axes, or one for each.
            stride: stride of the convolution that is transposed.
            padding: padding of the convolution that is transposed; it is cut off both sides of the
                result.
            output_padding: additional size of the result at the end of each axis.
            groups: number of groups: blocks of channels that are convolved independently.
            bias: if True, there is a learned bias.
            dilation: spacing of the kernel's elements.
            generator: random generator of the initial values, which are uniform between plus and
                minus `1 / sqrt(out_channels / groups * prod(kernel_size))`.

        Raises:
            LayerArgumentError: if `groups` does not divide both numbers of channels, or an argument
                has another number of values.
        """
        n, name = self.n_axes, type(self).__name__
        kernel = to_sizes(name, "kernel_size", kernel_size, n)
        super().__init__(
            (in_channels, out_channels), kernel, groups, bias, generator, is_transposed=True
        )
        self.stride, self.dilation = (
            to_sizes(name, "stride", stride, n),
            to_sizes(name, "dilation", dilation, n),
        )
        self.padding = to_sizes(name, "padding", padding, n, minimum=0)
        self.output_padding = to_sizes(name, "output_padding", output_padding, n, minimum=0)

    def forward(self, x: Tensor) -> Tensor:
        """Apply to a tensor of shape (batch, in_channels, *sizes), or (in_channels, *sizes).

        Returns:
            a tensor of shape (batch, out_channels, *new_sizes), where a new size is `(size - 1) *
            stride - 2 * padding + dilation * (kernel_size - 1) + output_padding + 1`.

        Raises:
            LayerArgumentError: if the number of axes differs.
        """
        return self._run(x, self._convolve)

    def _convolve(self, x: Tensor) -> Tensor:
        return x.conv_transpose2d(
            self.weight,
            self.bias,
            stride=self.stride,
            padding=self.padding,
            output_padding=self.output_padding,
            dilation=self.dilation,
            groups=self.groups,
        )

    def extra_repr(self) -> str:
        ones, zeros = (1,) * self.n_axes, (0,) * self.n_axes
        return self._describe(
            stride=(self.stride, None),
            padding=(self.padding, zeros),
            output_padding=(self.output_padding, zeros),
            dilation=(self.dilation, ones),
        )


class Conv1d(_Convolution):
    """Convolution over one axis.

    A call takes a tensor of shape (batch, in_channels, length), or without the batch axis. Each
    size of the result is `(size + 2 * padding - dilation * (kernel_size - 1) - 1) // stride + 1`.

    Attributes:
        weight: of shape (out_channels, in_channels / groups, *kernel_size).
        bias: of shape (out_channels,), or None.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> nn.Conv1d(3, 8, 3, padding="same")(Tensor.ones(2, 3, 6)).shape
        (2, 8, 6)
    """

    n_axes = 1


class Conv2d(_Convolution):
    """Convolution over two axes.

    A call takes a tensor of shape (batch, in_channels, height, width), or without the batch axis.
    Each size of the result is
    `(size + 2 * padding - dilation * (kernel_size - 1) - 1) // stride + 1`.

    Attributes:
        weight: of shape (out_channels, in_channels / groups, *kernel_size).
        bias: of shape (out_channels,), or None.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> nn.Conv2d(3, 8, 3, padding="same")(Tensor.ones(2, 3, 6, 6)).shape
        (2, 8, 6, 6)
    """

    n_axes = 2


class Conv3d(_Convolution):
    """Convolution over three axes.

    A call takes a tensor of shape (batch, in_channels, depth, height, width), or without the batch
    axis. Each size of the result is
    `(size + 2 * padding - dilation * (kernel_size - 1) - 1) // stride + 1`.

    Attributes:
        weight: of shape (out_channels, in_channels / groups, *kernel_size).
        bias: of shape (out_channels,), or None.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> nn.Conv3d(3, 8, 3, padding="same")(Tensor.ones(2, 3, 6, 6, 6)).shape
        (2, 8, 6, 6, 6)
    """

    n_axes = 3


class ConvTranspose1d(_TransposedConvolution):
    """The transpose of a convolution over one axis.

    A call takes a tensor of shape (batch, in_channels, length), or without the batch axis. Each
    size of the result is
    `(size - 1) * stride - 2 * padding + dilation * (kernel_size - 1) + output_padding + 1`.

    Attributes:
        weight: of shape (in_channels, out_channels / groups, *kernel_size).
        bias: of shape (out_channels,), or None.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> nn.ConvTranspose1d(3, 8, 2, stride=2)(Tensor.ones(2, 3, 3)).shape
        (2, 8, 6)
    """

    n_axes = 1


class ConvTranspose2d(_TransposedConvolution):
    """The transpose of a convolution over two axes.

    A call takes a tensor of shape (batch, in_channels, height, width), or without the batch axis.
    Each size of the result is
    `(size - 1) * stride - 2 * padding + dilation * (kernel_size - 1) + output_padding + 1`.

    Attributes:
        weight: of shape (in_channels, out_channels / groups, *kernel_size).
        bias: of shape (out_channels,), or None.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> nn.ConvTranspose2d(3, 8, 2, stride=2)(Tensor.ones(2, 3, 3, 3)).shape
        (2, 8, 6, 6)
    """

    n_axes = 2


class ConvTranspose3d(_TransposedConvolution):
    """The transpose of a convolution over three axes.

    A call takes a tensor of shape (batch, in_channels, depth, height, width), or without the batch
    axis. Each size of the result is
    `(size - 1) * stride - 2 * padding + dilation * (kernel_size - 1) + output_padding + 1`.

    Attributes:
        weight: of shape (in_channels, out_channels / groups, *kernel_size).
        bias: of shape (out_channels,), or None.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> nn.ConvTranspose3d(3, 8, 2, stride=2)(Tensor.ones(2, 3, 3, 3, 3)).shape
        (2, 8, 6, 6, 6)
    """

    n_axes = 3
