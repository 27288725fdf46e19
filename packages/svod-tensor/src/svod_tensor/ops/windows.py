"""Operations on sliding windows: convolution, its transpose, and pooling, for any number of spatial axes.

Tensors have the shape (batch, channels, *spatial). A window is a lookup at computed positions, so
that nothing is copied: `x[..., o * stride + k * dilation]` for output position o and place k in the window.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self, TypeVar

from svod_dtype import promote_types
from svod_ir import OperandError, ShapeError, SInt, format_shape, make_gather
from svod_ir.sizes import bounds_of_size, normalize_size
from svod_tensor._shapes import check_within, concrete_shape
from svod_tensor.ops.composed import with_rule
from svod_tensor.ops.convolution import Geometry, convolve, transpose_convolution
from svod_tensor.ops.naming import operations
from svod_tensor.ops.pooling import list_places, max_pool_gradient, windows_gradient
from svod_tensor.ops.rounding import accumulation_dtype, rounds_once
from svod_tensor.ops.theme import Theme

__all__ = ["Windows"]

T = TypeVar("T", bound=Theme)


@operations
class Windows(Theme):
    """Convolution, its transpose, and pooling."""

    __slots__ = ()

    def windows(self, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]) -> Self:
        """All windows over the last axes: shape (..., *outputs, *kernel).

        Args:
            kernel: the size of a window on each of these axes.
            stride: how far a window moves on each axis.
            dilation: the distance of a window's elements on each axis.

        Raises:
            OperandError: if there are not as many strides and dilations as sizes, or one is less than 1.
            ShapeError: if an axis is smaller than a window.

        Example:
            >>> Tensor([1, 2, 3, 4]).windows((2,), (1,), (1,)).tolist()
            [[1, 2], [2, 3], [3, 4]]
        """
        n, lead = len(kernel), self.ndim - len(kernel)
        if not len(stride) == len(dilation) == n <= self.ndim or any(v < 1 for v in (*kernel, *stride, *dilation)):
            raise OperandError(
                operation="windows", found=(kernel, stride, dilation),
                expected=f"as many sizes, strides and dilations, each at least 1, of at most {self.ndim} axes",
            )  # fmt: skip
        sizes = self.shape[lead:]
        result = self
        for i, (size, k, s, d) in enumerate(zip(sizes, kernel, stride, dilation, strict=True)):
            count = normalize_size((size - d * (k - 1) - 1) // s + 1)
            if bounds_of_size(count)[1] < 1:
                raise ShapeError(
                    operation="windows", shape=self.shape, problem=f"is smaller than a window of {d * (k - 1) + 1}"
                )
            check_within("windows", lead + i, count, 1, None)
            positions = self.arange(count).mul(s).unsqueeze(1).add(self.arange(k).mul(d))
            result = result._make(make_gather(result.uop, positions.uop, lead + 2 * i))
        outputs, places = range(lead, lead + 2 * n, 2), range(lead + 1, lead + 2 * n, 2)
        value = result.permute(*range(lead), *outputs, *places)
        return with_rule(windows_gradient, value, (self,), tuple(kernel), tuple(stride), tuple(dilation))

    def conv2d(
        self, weight: Self, bias: Self | None = None, *, stride: int | Sequence[int] = 1, padding: int | Sequence[int] = 0,
        dilation: int | Sequence[int] = 1, groups: int = 1,
    ) -> Self:  # fmt: skip
        """The cross-correlation with `weight`, over 1, 2 or more spatial axes: shape (batch, outputs, *sizes).

        Dtypes promote, and narrow floats are multiplied and added in float32.

        Args:
            weight: one filter for each output channel, of shape (outputs, channels / groups, *kernel).
            bias: of shape (outputs,).
            stride: how far a window moves on each axis.
            padding: zeros on both sides of each axis.
            dilation: the distance of a window's elements.
            groups: into how many independent parts the channels fall.

        Raises:
            ShapeError: if the shapes do not fit each other.
            OperandError: if an option has not one number for each axis.

        Example:
            >>> x = Tensor([[[1.0, 2.0, 4.0, 8.0]]])
            >>> x.conv2d(Tensor([[[1.0, 1.0]]])).tolist()
            [[[3.0, 6.0, 12.0]]]
        """
        n = weight.ndim - 2
        if n < 1 or self.ndim != n + 2:
            raise ShapeError(
                operation="conv2d", shape=self.shape,
                problem=f"and {format_shape(weight.shape)} do not have one number of spatial axes",
                hint="pass a tensor of shape (batch, channels, *sizes) and a weight of (outputs, channels / groups, *kernel)",
            )  # fmt: skip
        (channels,) = concrete_shape("conv2d", self.shape[1:2])
        outputs, per_group, *_ = concrete_shape("conv2d", weight.shape)
        if groups < 1 or per_group * groups != channels or outputs % groups:
            raise ShapeError(
                operation="conv2d", shape=weight.shape, problem=f"does not fit {channels} channels in {groups} groups"
            )
        kind = promote_types(self.dtype, weight.dtype)
        inner = accumulation_dtype(kind)
        geometry = Geometry(
            _each("stride", stride, n), _each("padding", padding, n), _each("dilation", dilation, n), groups
        )
        total = convolve(self.cast(inner), weight.cast(inner), geometry)
        result = total if bias is None else total.add(bias.cast(inner).reshape(1, outputs, *(1,) * n))
        return result.cast(kind)

    def conv_transpose2d(
        self, weight: Self, bias: Self | None = None, *, stride: int | Sequence[int] = 1, padding: int | Sequence[int] = 0,
        output_padding: int | Sequence[int] = 0, dilation: int | Sequence[int] = 1, groups: int = 1,
    ) -> Self:  # fmt: skip
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
            >>> x = Tensor([[[1.0, 10.0]]])
            >>> x.conv_transpose2d(Tensor([[[1.0, 2.0]]])).tolist()
            [[[1.0, 12.0, 20.0]]]
        """
        n, name = weight.ndim - 2, "conv_transpose2d"
        if n < 1 or self.ndim != n + 2:
            raise ShapeError(
                operation=name, shape=self.shape,
                problem=f"and {format_shape(weight.shape)} do not have one number of spatial axes",
                hint="pass a tensor of shape (batch, channels, *sizes) and a weight of (channels, outputs / groups, *kernel)",
            )  # fmt: skip
        (channels,) = concrete_shape(name, self.shape[1:2])
        taken, _, *kernel = concrete_shape(name, weight.shape)
        if groups < 1 or taken != channels or channels % groups:
            raise ShapeError(
                operation=name, shape=weight.shape, problem=f"does not fit {channels} channels in {groups} groups"
            )
        kind = promote_types(self.dtype, weight.dtype)
        inner = accumulation_dtype(kind)
        geometry = Geometry(
            _each("stride", stride, n), _each("padding", padding, n), _each("dilation", dilation, n), groups
        )
        extra = _each("output padding", output_padding, n)
        sizes = [_check_result(*options) for options in zip(self.shape[2:], kernel, extra, *geometry[:3], strict=True)]
        result = transpose_convolution(self.cast(inner), weight.cast(inner), sizes, geometry)
        shifted = result if bias is None else result.add(bias.cast(inner).reshape(1, -1, *(1,) * n))
        return shifted.cast(kind)

    def max_pool2d(
        self, kernel: int | Sequence[int] = 2, *, stride: int | Sequence[int] | None = None, padding: int | Sequence[int] = 0,
        dilation: int | Sequence[int] = 1,
    ) -> Self:  # fmt: skip
        """The largest element of each window over the spatial axes, in the dtype of this tensor; padding never wins.

        Args:
            kernel: the size of a window on each axis; an int is that of all axes behind the first two.
            stride: how far a window moves; by default as far as it is large.
            padding: how much is added on both sides of each axis.
            dilation: the distance of a window's elements.

        Raises:
            ShapeError: if there are no spatial axes, or one is smaller than a window.
            OperandError: if an option has not one number for each axis.

        Example:
            >>> Tensor([[[1.0, 3.0, 2.0, 0.0]]]).max_pool2d(2).tolist()
            [[[3.0, 2.0]]]
        """
        view, sizes, geometry = self._pool(kernel, stride, padding, dilation, self.dtype.min)
        value = view.max(tuple(range(-len(sizes), 0)))
        return with_rule(max_pool_gradient, value, (self,), sizes, *geometry[:3])

    @rounds_once
    def avg_pool2d(
        self, kernel: int | Sequence[int] = 2, *, stride: int | Sequence[int] | None = None, padding: int | Sequence[int] = 0,
        dilation: int | Sequence[int] = 1, count_include_pad: bool = True,
    ) -> Self:  # fmt: skip
        """The mean of each window over the spatial axes. Integers become float32.

        Args:
            kernel: the size of a window on each axis; an int is that of all axes behind the first two.
            stride: how far a window moves; by default as far as it is large.
            padding: how much is added on both sides of each axis.
            dilation: the distance of a window's elements.
            count_include_pad: whether padding counts as zeros, or not at all.

        Raises:
            ShapeError: if there are no spatial axes, or one is smaller than a window.
            OperandError: if an option has not one number for each axis.

        Example:
            >>> Tensor([[[1.0, 3.0, 2.0, 0.0]]]).avg_pool2d(2).tolist()
            [[[2.0, 1.0]]]
        """
        view, sizes, _ = self._pool(kernel, stride, padding, dilation, 0)
        axes = tuple(range(-len(sizes), 0))
        if count_include_pad:
            return view.mean(axes)
        ones, _, _ = self._to_float().ones_like()._pool(kernel, stride, padding, dilation, 0)
        return view._to_float().sum(axes).div(ones.sum(axes))

    def _pool(
        self, kernel: int | Sequence[int], stride: int | Sequence[int] | None, padding: int | Sequence[int],
        dilation: int | Sequence[int], value: float,
    ) -> tuple[Self, tuple[int, ...], Geometry]:  # fmt: skip
        n = self.ndim - 2 if isinstance(kernel, int) else len(kernel)
        if n < 1 or n > self.ndim:
            raise ShapeError(operation="pooling", shape=self.shape, problem=f"has no {max(n, 1)} spatial axes")
        sizes = _each("kernel", kernel, n)
        steps = sizes if stride is None else _each("stride", stride, n)
        geometry = Geometry(steps, _each("padding", padding, n), _each("dilation", dilation, n))
        return list_places(self, sizes, geometry, value), sizes, geometry


def _check_result(size: SInt, kernel: int, extra: int, stride: int, padding: int, dilation: int) -> SInt:
    """The size of an axis of a transposed convolution.

    Raises:
        ShapeError: if nothing is left.
    """
    total = normalize_size((size - 1) * stride - 2 * padding + dilation * (kernel - 1) + extra + 1)
    if bounds_of_size(total)[0] < 1:
        raise ShapeError(operation="conv_transpose2d", shape=(size,), problem=f"gives a result of size {total}")
    return total


def _each(name: str, value: int | Sequence[int], n: int) -> tuple[int, ...]:
    """One number for each of `n` axes."""
    values = (value,) * n if isinstance(value, int) else tuple(value)
    least = 0 if name.endswith("padding") else 1
    if len(values) != n or any(v < least for v in values):
        raise OperandError(operation="windows", found=values, expected=f"{n} numbers of at least {least} as {name}")
    return values
