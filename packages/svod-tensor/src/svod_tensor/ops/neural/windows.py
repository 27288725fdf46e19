"""Operations on sliding windows: convolution, its transpose, and windows as columns, for any number
of spatial axes.

Tensors have the shape (batch, channels, *spatial). A window is a lookup at computed positions, so
that nothing is copied: `x[..., o * stride + k * dilation]` for output position o and place k in the
window."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from svod_dtype import promote_types
from svod_ir import OperandError, ShapeError, SInt, format_shape, format_size, make_gather
from svod_ir.sizes import bounds_of_size, normalize_size, product
from svod_tensor._shapes import check_within, concrete_shape
from svod_tensor.ops.core.gradient_rules import with_rule
from svod_tensor.ops.core.operation import operation
from svod_tensor.ops.core.rounding import accumulation_dtype, rounds_once
from svod_tensor.ops.neural.convolution import (
    Geometry,
    convolve,
    store_padded,
    transpose_convolution,
)
from svod_tensor.ops.neural.window_options import Numbers, Padding, Pads, check_pads, spread_number
from svod_tensor.ops.neural.window_sums import add_windows, windows_gradient

if TYPE_CHECKING:
    from svod_tensor.tensor import Tensor

__all__ = [
    "conv2d",
    "conv_transpose2d",
    "fold",
    "unfold",
    "windows",
]


@operation(test="test_operations.py::test_windows_agree_with_those_of_numpy", is_function=False)
def windows(
    x: Tensor, /, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> Tensor:
    """All windows over the last axes: shape (..., *outputs, *kernel).

    Args:
        kernel: the size of a window on each of these axes.
        stride: how far a window moves on each axis.
        dilation: the distance of a window's elements on each axis.

    Raises:
        OperandError: if there are not as many strides and dilations as sizes, or one is less than
            1.
        ShapeError: if an axis is smaller than a window.

    Example:
        >>> Tensor([1, 2, 3, 4]).windows((2,), (1,), (1,)).tolist()
        [[1, 2], [2, 3], [3, 4]]
    """
    n, lead = len(kernel), x.ndim - len(kernel)
    if not len(stride) == len(dilation) == n <= x.ndim or any(
        v < 1 for v in (*kernel, *stride, *dilation)
    ):
        raise OperandError(
            operation="windows",
            found=(kernel, stride, dilation),
            expected=(
                f"as many sizes, strides and dilations, each at least 1, of at most {x.ndim} axes"
            ),
        )
    sizes = x.shape[lead:]
    result = x
    for i, (size, k, s, d) in enumerate(zip(sizes, kernel, stride, dilation, strict=True)):
        count = normalize_size((size - d * (k - 1) - 1) // s + 1)
        if bounds_of_size(count)[1] < 1:
            raise ShapeError(
                operation="windows",
                shape=x.shape,
                problem=(
                    f"window of size {d * (k - 1) + 1} is larger than the padded axis of"
                    f" size {format_size(size)}"
                ),
            )
        check_within("windows", lead + i, count, 1, None)
        positions = x.arange(count).mul(s).unsqueeze(1).add(x.arange(k).mul(d))
        result = result.from_uop(make_gather(result.uop, positions.uop, lead + 2 * i))
    outputs, places = range(lead, lead + 2 * n, 2), range(lead + 1, lead + 2 * n, 2)
    value = result.permute(*range(lead), *outputs, *places)
    return with_rule(windows_gradient, value, (x,), tuple(kernel), tuple(stride), tuple(dilation))


@operation(test="test_windows.py::test_convolutions_agree_with_their_definition")
def conv2d(
    x: Tensor,
    /,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    stride: Numbers = 1,
    padding: Padding = 0,
    dilation: Numbers = 1,
    groups: int = 1,
) -> Tensor:
    """The cross-correlation with `weight`, over 1, 2 or more spatial axes: shape (batch, outputs,
    *sizes).

    Dtypes promote, and narrow floats are multiplied and added in float32.

    Args:
        weight: one filter for each output channel, of shape (outputs, channels / groups, *kernel).
        bias: of shape (outputs,).
        stride: how far a window moves on each axis.
        padding: zeros on both sides of each axis; a pair `(before, after)` for an axis tells them
            apart.
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
    n = weight.ndim - 2
    if n < 1 or x.ndim != n + 2:
        raise ShapeError(
            operation="conv2d",
            shape=x.shape,
            problem=(
                f"input {format_shape(x.shape)} and weight {format_shape(weight.shape)} must have"
                " the same number of spatial axes"
            ),
            hint=(
                "pass a tensor of shape (batch, channels, *sizes) and a weight of (outputs,"
                " channels / groups, *kernel)"
            ),
        )
    (channels,) = concrete_shape("conv2d", x.shape[1:2])
    outputs, per_group, *kernel = concrete_shape("conv2d", weight.shape)
    if groups < 1 or per_group * groups != channels or outputs % groups:
        raise ShapeError(
            operation="conv2d",
            shape=weight.shape,
            problem=(
                f"weight of shape {format_shape(weight.shape)} with groups={groups} expects"
                f" {per_group * groups} input channels, and the input {format_shape(x.shape)} has"
                f" {channels}"
                if per_group * groups != channels
                else f"{outputs} output channels are not divisible by groups={groups}"
            ),
        )
    kind = promote_types(x.dtype, weight.dtype)
    inner = accumulation_dtype(kind)
    strides, pads = spread_number("stride", stride, n), check_pads(padding, n)
    alike = tuple(map(min, pads))
    geometry = Geometry(strides, alike, spread_number("dilation", dilation, n), groups)
    total = convolve(
        _pad_unlike(x, pads, kernel, strides).cast(inner), weight.cast(inner), geometry
    )
    result = total if bias is None else total.add(bias.cast(inner).reshape(1, outputs, *(1,) * n))
    return result.cast(kind)


@operation(test="test_windows.py::test_transposed_convolutions_agree_with_their_definition")
def conv_transpose2d(
    x: Tensor,
    /,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    stride: Numbers = 1,
    padding: Numbers = 0,
    output_padding: Numbers = 0,
    dilation: Numbers = 1,
    groups: int = 1,
) -> Tensor:
    """The transpose of `conv2d` with the same options: each element adds its multiple of a filter
    to a window of the result.

    Results that lie `stride` apart are a convolution with every `stride`-th place of the filters;
    so no zeros are multiplied.

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
    n, name = weight.ndim - 2, "conv_transpose2d"
    if n < 1 or x.ndim != n + 2:
        raise ShapeError(
            operation=name,
            shape=x.shape,
            problem=(
                f"input {format_shape(x.shape)} and weight {format_shape(weight.shape)} must have"
                " the same number of spatial axes"
            ),
            hint=(
                "pass a tensor of shape (batch, channels, *sizes) and a weight of (channels,"
                " outputs / groups, *kernel)"
            ),
        )
    (channels,) = concrete_shape(name, x.shape[1:2])
    taken, _, *kernel = concrete_shape(name, weight.shape)
    if groups < 1 or taken != channels or channels % groups:
        raise ShapeError(
            operation=name,
            shape=weight.shape,
            problem=(
                f"weight of shape {format_shape(weight.shape)} expects {taken} input channels, and"
                f" the input {format_shape(x.shape)} has {channels}"
                if taken != channels
                else f"{channels} input channels are not divisible by groups={groups}"
            ),
        )
    kind = promote_types(x.dtype, weight.dtype)
    inner = accumulation_dtype(kind)
    geometry = Geometry(
        spread_number("stride", stride, n),
        spread_number("padding", padding, n),
        spread_number("dilation", dilation, n),
        groups,
    )
    extra = spread_number("output padding", output_padding, n)
    sizes = [
        _check_result(*options)
        for options in zip(x.shape[2:], kernel, extra, *geometry[:3], strict=True)
    ]
    result = transpose_convolution(x.cast(inner), weight.cast(inner), sizes, geometry)
    shifted = result if bias is None else result.add(bias.cast(inner).reshape(1, -1, *(1,) * n))
    return shifted.cast(kind)


@operation(test="test_windows.py::test_windows_are_columns_and_add_up_again")
def unfold(
    x: Tensor,
    /,
    kernel: Numbers,
    *,
    stride: Numbers = 1,
    padding: Padding = 0,
    dilation: Numbers = 1,
) -> Tensor:
    """The windows over the spatial axes as columns: shape (batch, channels * elements of a window,
    windows), in row-major order, as PyTorch's `nn.functional.unfold` has them, for any number of
    axes.

    Args:
        kernel: the size of a window on each spatial axis; an int is that of all axes behind the
            first two. What is in front of the channels may be missing, or several axes.
        stride: how far a window moves on each axis.
        padding: zeros on both sides of each axis; a pair `(before, after)` for an axis tells them
            apart.
        dilation: the distance of a window's elements.

    Raises:
        ShapeError: if there are no spatial axes or channels, or one is smaller than a window.
        OperandError: if an option has not one number for each axis.

    Example:
        >>> import svod_tensor as sv
        >>> sv.unfold(Tensor([[[1, 2, 3, 4]]]), 3).tolist()
        [[[1, 2], [2, 3], [3, 4]]]
    """
    n = x.ndim - 2 if isinstance(kernel, int) else len(kernel)
    if n < 1 or n >= x.ndim:
        raise ShapeError(
            operation="unfold",
            shape=x.shape,
            problem=(
                f"expected an input with channels and {max(n, 1)} spatial axes, got"
                f" {format_shape(x.shape)}"
            ),
        )
    sizes, pads = spread_number("kernel", kernel, n), check_pads(padding, n)
    lead = x.ndim - n - 1
    padded = x.pad(*(None,) * (lead + 1), *pads)
    view = padded.windows(
        sizes, spread_number("stride", stride, n), spread_number("dilation", dilation, n)
    )
    columns = view.permute(
        *range(lead + 1), *range(view.ndim - n, view.ndim), *range(lead + 1, view.ndim - n)
    )
    rows = normalize_size(x.shape[lead] * math.prod(sizes))
    return columns.reshape(*x.shape[:lead], rows, product(view.shape[lead + 1 : -n]))


@operation(test="test_windows.py::test_windows_are_columns_and_add_up_again")
@rounds_once
def fold(
    x: Tensor,
    /,
    size: int | Sequence[int],
    kernel: Numbers,
    *,
    stride: Numbers = 1,
    padding: Padding = 0,
    dilation: Numbers = 1,
) -> Tensor:
    """The transpose of `unfold` with the same options: what the windows have of each element, added
    up; of shape (batch, channels, *size).

    Args:
        size: of the spatial axes of the result; a number is that of as many as the kernel has, or
            else of two.
        kernel: the size of a window on each spatial axis; a number is that of as many as `size`
            has.
        stride: how far a window moves on each axis.
        padding: how much of the sums is cut off on both sides of each axis; a pair `(before,
            after)` for an axis tells them apart.
        dilation: the distance of a window's elements.

    Raises:
        ShapeError: if `x` is not of windows that such a result has.
        OperandError: if an option has not one number for each axis.

    Example:
        >>> import svod_tensor as sv
        >>> sv.fold(Tensor([[1, 2], [2, 3], [3, 4]]), [4], 3).tolist()
        [[1, 4, 6, 4]]
    """
    n = next((len(given) for given in (size, kernel) if not isinstance(given, int)), 2)
    wanted, sizes = spread_number("size", size, n), spread_number("kernel", kernel, n)
    strides, apart = spread_number("stride", stride, n), spread_number("dilation", dilation, n)
    pads = check_pads(padding, n)
    padded = [s + before + after for s, (before, after) in zip(wanted, pads, strict=True)]
    counts = [
        (s - d * (k - 1) - 1) // t + 1
        for s, k, t, d in zip(padded, sizes, strides, apart, strict=True)
    ]
    count = math.prod(sizes)
    *lead, rows, columns = x.shape if x.ndim > 1 else (1, 1)
    is_whole = not isinstance(rows, int) or rows % count == 0
    if x.ndim < 2 or min(counts, default=0) < 1 or columns != math.prod(counts) or not is_whole:
        problem = (
            f"expected an input of shape (..., channels * {count}, {' * '.join(map(str, counts))})"
            f" for windows of {wanted}, got {format_shape(x.shape)}"
        )
        raise ShapeError(operation="fold", shape=x.shape, problem=problem)
    first = len(lead) + 1
    view = x.reshape(*lead, normalize_size(rows // count), *sizes, *counts)
    view = view.permute(*range(first), *range(first + n, first + 2 * n), *range(first, first + n))
    total = add_windows(view, padded, strides, apart)
    cuts = [(before, before + s) for s, (before, _) in zip(wanted, pads, strict=True)]
    return total.shrink(*(None,) * first, *cuts)


def _pad_unlike(x: Tensor, pads: Pads, kernel: Sequence[int], stride: Sequence[int]) -> Tensor:
    """`x` with the zeros that one side of an axis gets more than the other."""
    beyond = [(before - min(before, after), after - min(before, after)) for before, after in pads]
    if not any(map(any, beyond)):
        return x
    return store_padded(x.pad(None, None, *beyond), beyond, kernel, stride)


def _check_result(
    size: SInt, kernel: int, extra: int, stride: int, padding: int, dilation: int
) -> SInt:
    """The size of an axis of a transposed convolution.

    Raises:
        ShapeError: if nothing is left.
    """
    total = normalize_size((size - 1) * stride - 2 * padding + dilation * (kernel - 1) + extra + 1)
    if bounds_of_size(total)[0] < 1:
        raise ShapeError(
            operation="conv_transpose2d",
            shape=(size,),
            problem=f"the output would have size {format_size(total)}",
        )
    return total
