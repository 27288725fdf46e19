"""Sliding window operations: convolution, transposed convolution, unfold and fold, for any number of
spatial axes.

Tensors have the shape (batch, channels, *spatial). Windows are gathers at computed indices, not
copies: `x[..., o * stride + k * dilation]` for output index o and kernel index k."""

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
from svod_tensor.ops.core.reuse import reuse_graph
from svod_tensor.ops.core.rounding import accumulation_dtype, rounds_once
from svod_tensor.ops.neural.convolution import (
    Geometry,
    convolve,
    store_padded,
    transpose_convolution,
)
from svod_tensor.ops.neural.window_options import Numbers, Padding, Pads, check_pads, expand_option
from svod_tensor.ops.neural.window_sums import overlap_add, windows_gradient

if TYPE_CHECKING:
    from svod_tensor.tensor import Tensor

__all__ = [
    "conv2d",
    "conv_transpose2d",
    "fold",
    "unfold",
    "windows",
]


@operation(test="test_operations.py::test_windows_agree_with_numpy", is_function=False)
def windows(
    x: Tensor, /, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> Tensor:
    """Sliding windows over the last axes: shape (..., *outputs, *kernel).

    Args:
        kernel: size of the window on each of these axes.
        stride: stride of the window on each axis.
        dilation: distance between the elements of a window on each axis.

    Raises:
        OperandError: if `kernel`, `stride` and `dilation` differ in length, or a value is less than
            1.
        ShapeError: if an axis is smaller than a window.

    Example:
        >>> from svod_tensor import Tensor
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
            expected=(f"kernel, stride and dilation of equal length <= {x.ndim}, with values >= 1"),
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
        indices = x.arange(count).mul(s).unsqueeze(1).add(x.arange(k).mul(d))
        result = result.from_uop(make_gather(result.uop, indices.uop, lead + 2 * i))
    output_axes, kernel_axes = range(lead, lead + 2 * n, 2), range(lead + 1, lead + 2 * n, 2)
    value = result.permute(*range(lead), *output_axes, *kernel_axes)
    # The derivative of a gather would be a scatter-add; `overlap_add` gathers.
    return with_rule(windows_gradient, value, (x,), tuple(kernel), tuple(stride), tuple(dilation))


@operation(test="test_windows.py::test_convolutions_agree_with_their_definition")
@reuse_graph
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
    """Convolution (cross-correlation) of `x`, of shape (batch, channels, *spatial), over 1, 2 or
    more spatial axes.

    Dtypes promote, and narrow floats are multiplied and accumulated in float32.

    Args:
        weight: filters of shape (outputs, channels / groups, *kernel).
        bias: bias of shape (outputs,).
        stride: stride of the window on each axis.
        padding: zero padding of both sides of each axis, or a pair `(before, after)` per axis.
        dilation: distance between the elements of a window.
        groups: number of groups of input and output channels.

    Returns:
        A tensor of shape (batch, outputs, *sizes): each size is
        `(size + before + after - dilation * (kernel - 1) - 1) // stride + 1`.

    Raises:
        ShapeError: if the shapes do not match.
        OperandError: if the number of values of an option differs from the number of spatial axes.

    Example:
        >>> import svod_tensor as sv
        >>> x = sv.Tensor([[[1.0, 2.0, 4.0, 8.0]]])
        >>> sv.conv2d(x, sv.Tensor([[[1.0, 1.0]]])).tolist()
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
    strides, pads = expand_option("conv2d", "stride", stride, n), check_pads("conv2d", padding, n)
    # A geometry has one padding for both sides; what one side has more is applied before.
    common_padding = tuple(map(min, pads))
    geometry = Geometry(
        strides, common_padding, expand_option("conv2d", "dilation", dilation, n), groups
    )
    total = convolve(
        _pad_asymmetric(x, pads, kernel, strides).cast(inner), weight.cast(inner), geometry
    )
    result = total if bias is None else total.add(bias.cast(inner).reshape(1, outputs, *(1,) * n))
    return result.cast(kind)


@operation(test="test_windows.py::test_transposed_convolutions_agree_with_their_definition")
@reuse_graph
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
    """Transposed convolution of `x`, of shape (batch, channels, *spatial): the transpose of
    `conv2d` with the same options.

    Each element adds a multiple of a filter to a window of the result. Results that are `stride`
    apart are computed as a convolution with every `stride`-th kernel index, without multiplications
    by inserted zeros.

    Args:
        weight: filters of shape (channels, outputs / groups, *kernel).
        bias: bias of shape (outputs,).
        stride: distance between the windows of neighboring elements.
        padding: number of elements cropped from both sides of each axis of the result.
        output_padding: size added to the end of each axis of the result.
        dilation: distance between the elements of a window.
        groups: number of groups of input and output channels.

    Returns:
        A tensor of shape (batch, outputs, *sizes): each size is
        `(size - 1) * stride - 2 * padding + dilation * (kernel - 1) + output_padding + 1`.

    Raises:
        ShapeError: if the shapes do not match.
        OperandError: if the number of values of an option differs from the number of spatial axes.

    Example:
        >>> import svod_tensor as sv
        >>> x = sv.Tensor([[[1.0, 10.0]]])
        >>> sv.conv_transpose2d(x, sv.Tensor([[[1.0, 2.0]]])).tolist()
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
    expected_channels, _, *kernel = concrete_shape(name, weight.shape)
    if groups < 1 or expected_channels != channels or channels % groups:
        raise ShapeError(
            operation=name,
            shape=weight.shape,
            problem=(
                f"weight of shape {format_shape(weight.shape)} expects {expected_channels} input channels, and"
                f" the input {format_shape(x.shape)} has {channels}"
                if expected_channels != channels
                else f"{channels} input channels are not divisible by groups={groups}"
            ),
        )
    kind = promote_types(x.dtype, weight.dtype)
    inner = accumulation_dtype(kind)
    geometry = Geometry(
        expand_option(name, "stride", stride, n),
        expand_option(name, "padding", padding, n),
        expand_option(name, "dilation", dilation, n),
        groups,
    )
    extra = expand_option(name, "output_padding", output_padding, n)
    sizes = [
        _output_size(*options)
        for options in zip(x.shape[2:], kernel, extra, *geometry[:3], strict=True)
    ]
    result = transpose_convolution(x.cast(inner), weight.cast(inner), sizes, geometry)
    shifted = result if bias is None else result.add(bias.cast(inner).reshape(1, -1, *(1,) * n))
    return shifted.cast(kind)


@operation(test="test_windows.py::test_unfold_and_fold_agree_with_their_definition")
@reuse_graph
def unfold(
    x: Tensor,
    /,
    kernel: Numbers,
    *,
    stride: Numbers = 1,
    padding: Padding = 0,
    dilation: Numbers = 1,
) -> Tensor:
    """Extract sliding windows as columns (im2col), as PyTorch's `unfold`, for any number of spatial
    axes: shape (batch, channels * window size, number of windows), in row-major order.

    Args:
        kernel: size of the window on each spatial axis; an int is the size on all axes after the
            first two. There may be any number of batch axes.
        stride: stride of the window on each axis.
        padding: zero padding of both sides of each axis, or a pair `(before, after)` per axis.
        dilation: distance between the elements of a window.

    Raises:
        ShapeError: if there are no spatial axes or channels, or an axis is smaller than a window.
        OperandError: if the number of values of an option differs from the number of spatial axes.

    Example:
        >>> import svod_tensor as sv
        >>> sv.unfold(sv.Tensor([[[1, 2, 3, 4]]]), 3).tolist()
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
    sizes, pads = expand_option("unfold", "kernel", kernel, n), check_pads("unfold", padding, n)
    lead = x.ndim - n - 1
    padded = x.pad(*(None,) * (lead + 1), *pads)
    view = padded.windows(
        sizes,
        expand_option("unfold", "stride", stride, n),
        expand_option("unfold", "dilation", dilation, n),
    )
    columns = view.permute(
        *range(lead + 1), *range(view.ndim - n, view.ndim), *range(lead + 1, view.ndim - n)
    )
    # PyTorch's order of a column: channels first, then indices in the window.
    rows = normalize_size(x.shape[lead] * math.prod(sizes))
    return columns.reshape(*x.shape[:lead], rows, product(view.shape[lead + 1 : -n]))


@operation(test="test_windows.py::test_unfold_and_fold_agree_with_their_definition")
@reuse_graph
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
    """Sum sliding windows (col2im), the transpose of `unfold` with the same options: from shape
    (..., channels * window size, number of windows) to (..., channels, *size).

    Args:
        size: sizes of the spatial axes of the result; an integer applies to the number of axes of
            `kernel`, or to two axes.
        kernel: size of the window on each spatial axis; an integer applies to all axes.
        stride: stride of the window on each axis.
        padding: number of elements cropped from both sides of each axis, or a pair `(before, after)`
            per axis.
        dilation: distance between the elements of a window.

    Raises:
        ShapeError: if the shape of `x` does not match the windows of such a result.
        OperandError: if the number of values of an option differs from the number of spatial axes.

    Example:
        >>> import svod_tensor as sv
        >>> sv.fold(sv.Tensor([[1, 2], [2, 3], [3, 4]]), [4], 3).tolist()
        [[1, 4, 6, 4]]
    """
    # Two axes by default, as in PyTorch.
    n = next((len(option) for option in (size, kernel) if not isinstance(option, int)), 2)
    result_sizes, sizes = (
        expand_option("fold", "size", size, n),
        expand_option("fold", "kernel", kernel, n),
    )
    strides, dilations = (
        expand_option("fold", "stride", stride, n),
        expand_option("fold", "dilation", dilation, n),
    )
    pads = check_pads("fold", padding, n)
    padded = [s + before + after for s, (before, after) in zip(result_sizes, pads, strict=True)]
    counts = [
        (s - d * (k - 1) - 1) // t + 1
        for s, k, t, d in zip(padded, sizes, strides, dilations, strict=True)
    ]
    count = math.prod(sizes)
    *lead, rows, columns = x.shape if x.ndim > 1 else (1, 1)
    is_divisible = not isinstance(rows, int) or rows % count == 0
    if x.ndim < 2 or min(counts, default=0) < 1 or columns != math.prod(counts) or not is_divisible:
        problem = (
            f"expected an input of shape (..., channels * {count}, {' * '.join(map(str, counts))})"
            f" for windows of {result_sizes}, got {format_shape(x.shape)}"
        )
        raise ShapeError(operation="fold", shape=x.shape, problem=problem)
    first = len(lead) + 1
    view = x.reshape(*lead, normalize_size(rows // count), *sizes, *counts)
    view = view.permute(*range(first), *range(first + n, first + 2 * n), *range(first, first + n))
    total = overlap_add(view, padded, strides, dilations)
    cuts = [(before, before + s) for s, (before, _) in zip(result_sizes, pads, strict=True)]
    return total.shrink(*(None,) * first, *cuts)


def _pad_asymmetric(x: Tensor, pads: Pads, kernel: Sequence[int], stride: Sequence[int]) -> Tensor:
    """Apply the asymmetric part of the padding, which one side has more than the other."""
    asymmetric = [
        (before - min(before, after), after - min(before, after)) for before, after in pads
    ]
    if not any(map(any, asymmetric)):
        return x
    return store_padded(x.pad(None, None, *asymmetric), asymmetric, kernel, stride)


def _output_size(
    size: SInt, kernel: int, extra: int, stride: int, padding: int, dilation: int
) -> SInt:
    """Compute the size of an axis of a transposed convolution.

    Raises:
        ShapeError: if it is not positive.
    """
    total = normalize_size((size - 1) * stride - 2 * padding + dilation * (kernel - 1) + extra + 1)
    if bounds_of_size(total)[0] < 1:
        raise ShapeError(
            operation="conv_transpose2d",
            shape=(size,),
            problem=f"the output would have size {format_size(total)}",
        )
    return total
