"""Pooling over windows of the last axes, and max unpooling.

Tensors have the shape (batch, channels, *spatial).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, overload

from svod_dtype import int64
from svod_ir import OperandError, ShapeError, SInt, format_shape
from svod_ir.sizes import bounds_of_size, normalize_size
from svod_tensor._shapes import concrete_shape
from svod_tensor.ops.core.base import TensorBase
from svod_tensor.ops.core.gradient_rules import with_rule
from svod_tensor.ops.core.operands import as_tensor, move_beside, to_float
from svod_tensor.ops.core.operation import operation
from svod_tensor.ops.core.reuse import reuse_graph
from svod_tensor.ops.core.rounding import rounds_once
from svod_tensor.ops.neural.window_options import (
    Numbers,
    Padding,
    Pads,
    WindowOptions,
    check_pads,
    expand_option,
)
from svod_tensor.ops.neural.window_sums import first_max_index, max_pool_gradient, padded_windows

if TYPE_CHECKING:
    from svod_tensor.tensor import Tensor

__all__ = [
    "avg_pool2d",
    "lp_pool2d",
    "max_pool2d",
    "max_unpool2d",
]


@overload
def max_pool2d(
    x: Tensor,
    /,
    kernel: Numbers = 2,
    *,
    stride: Numbers | None = None,
    padding: Padding = 0,
    dilation: Numbers = 1,
    ceil_mode: bool = False,
    return_indices: Literal[False] = False,
) -> Tensor: ...


@overload
def max_pool2d(
    x: Tensor,
    /,
    kernel: Numbers = 2,
    *,
    stride: Numbers | None = None,
    padding: Padding = 0,
    dilation: Numbers = 1,
    ceil_mode: bool = False,
    return_indices: Literal[True],
) -> tuple[Tensor, Tensor]: ...


@operation(test="test_pooling.py::test_pooling_agrees_with_its_definition")
@reuse_graph
def max_pool2d(
    x: Tensor,
    /,
    kernel: Numbers = 2,
    *,
    stride: Numbers | None = None,
    padding: Padding = 0,
    dilation: Numbers = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Max pooling over the spatial axes of `x`, of shape (batch, channels, *spatial), in its dtype.
    The number of spatial axes is not limited to two, and padding is never the maximum.

    Args:
        kernel: size of the window on each axis; an int is the size on all axes after the first two.
        stride: stride of the window; by default `kernel`.
        padding: padding of both sides of each axis, at most half of the window; a pair `(before,
            after)` for an axis may be larger.
        dilation: distance between the elements of a window.
        ceil_mode: whether a window may extend beyond the padding, if it starts before the end of the
            axis.
        return_indices: whether to return the indices of the maxima too.

    Returns:
        The maxima, of shape (batch, channels, *sizes): each size is
        `(size + before + after - dilation * (kernel - 1) - 1) // stride + 1`, rounded up with
        `ceil_mode`. With `return_indices` also the flat indices (int64) over the spatial axes of
        their first occurrences, -1 for a window of padding only.

    Raises:
        ShapeError: if there are no spatial axes, or one is smaller than a window.
        OperandError: if the number of values of an option differs from the number of spatial axes,
            or the padding is more than half of a window.

    Example:
        >>> import svod_tensor as sv
        >>> sv.max_pool2d(sv.Tensor([[[1.0, 3.0, 2.0, 0.0]]]), 2).tolist()
        [[[3.0, 2.0]]]
        >>> sv.max_pool2d(sv.Tensor([[[1.0, 3.0, 2.0, 0.0]]]), 2, return_indices=True)[1].tolist()
        [[[1, 2]]]
    """
    options = _window_options("max_pool2d", x, kernel, stride, padding, dilation, ceil_mode)
    n = len(options.kernel)
    # Padded with the least value, -inf for floats, which is the maximum only of windows of padding.
    value = padded_windows(x, options, x.dtype.min).max(tuple(range(-n, 0)))
    if not return_indices:
        return with_rule(max_pool_gradient, value, (x,), *options)
    window_indices = first_max_index(x, value, options)
    return with_rule(max_pool_gradient, value, (x,), *options), _to_flat_indices(
        window_indices, x.shape[-n:], options
    )


@operation(
    test="test_pooling.py::test_max_unpool_scatters_maxima_to_their_indices", is_function=False
)
@reuse_graph
def max_unpool2d(
    x: Tensor,
    /,
    indices: TensorBase,
    kernel: Numbers = 2,
    *,
    stride: Numbers | None = None,
    padding: Padding = 0,
    size: Sequence[SInt] | None = None,
) -> Tensor:
    """Partial inverse of `max_pool2d`: scatter the maxima to their indices, with 0 elsewhere. For
    repeated indices, the last value is kept.

    Args:
        indices: flat indices from `max_pool2d(return_indices=True)`. Negative indices are ignored;
            indices beyond the result are ignored, or an error in a plan that checks its operands.
        kernel: size of the window on each axis; an int is the size on all axes after the first two.
        stride: stride of the window; by default `kernel`.
        padding: padding of the pooling, as in `max_pool2d`.
        size: sizes of the spatial axes of the result; by default the smallest with as many windows.

    Raises:
        ShapeError: if there are no spatial axes, or `size` does not match them.
        OperandError: if the number of values of an option differs from the number of spatial axes,
            or the indices are not integers of the shape of `x`.

    Example:
        >>> from svod_tensor import Tensor
        >>> x = Tensor([[[1.0, 3.0, 2.0, 0.0]]])
        >>> largest, indices = x.max_pool2d(2, return_indices=True)
        >>> largest.max_unpool2d(indices).tolist()
        [[[0.0, 3.0, 2.0, 0.0]]]
    """
    options = _window_options("max_unpool2d", x, kernel, stride, padding, 1, ceil_mode=False)
    n, name = len(options.kernel), "max_unpool2d"
    if indices.shape != x.shape or not indices.dtype.is_int:
        raise OperandError(
            operation=name,
            found=f"indices of {indices.dtype} and shape {indices.shape}",
            expected=f"integer indices of shape {x.shape}",
        )
    lead, before = x.shape[:-n], x.shape[-n:]
    if size is None:
        size = [
            normalize_size((s - 1) * step + k - sum(pads))
            for s, k, step, pads in zip(
                before, options.kernel, options.stride, options.pads, strict=True
            )
        ]
    if len(size) != n or any(bounds_of_size(s)[0] < 1 for s in size):
        raise ShapeError(
            operation=name,
            shape=tuple(size),
            problem=f"expected {n} positive output sizes, got {tuple(size)}",
        )
    size_of_result = math.prod(concrete_shape(name, tuple(size)))
    flat_indices = as_tensor(indices, x).cast(int64).reshape(*lead, -1)  # pyright: ignore[reportArgumentType]
    # Beyond the result, where an index is ignored; a negative one would count from the end.
    scattered = flat_indices.lt(0).where(size_of_result, flat_indices)
    empty = move_beside(x.zeros(*lead, size_of_result, dtype=x.dtype), x)
    return empty.put_along_axis(scattered, x.reshape(*lead, -1), -1).reshape(*lead, *size)


@operation(test="test_pooling.py::test_pooling_agrees_with_its_definition")
@reuse_graph
@rounds_once
def avg_pool2d(
    x: Tensor,
    /,
    kernel: Numbers = 2,
    *,
    stride: Numbers | None = None,
    padding: Padding = 0,
    dilation: Numbers = 1,
    count_include_pad: bool = True,
    ceil_mode: bool = False,
) -> Tensor:
    """Average pooling over the spatial axes of `x`, of shape (batch, channels, *spatial); the
    number of spatial axes is not limited to two. Integers become float32.

    Args:
        kernel: size of the window on each axis; an int is the size on all axes after the first two.
        stride: stride of the window; by default `kernel`.
        padding: padding of both sides of each axis, at most half of the window; a pair `(before,
            after)` for an axis may be larger.
        dilation: distance between the elements of a window.
        count_include_pad: whether to include the zero padding in the count of elements.
        ceil_mode: whether a window may extend beyond the padding, if it starts before the end of the
            axis; elements beyond the padding are not counted.

    Returns:
        A tensor of shape (batch, channels, *sizes): each size is
        `(size + before + after - dilation * (kernel - 1) - 1) // stride + 1`, rounded up with
        `ceil_mode`.

    Raises:
        ShapeError: if there are no spatial axes, or one is smaller than a window.
        OperandError: if the number of values of an option differs from the number of spatial axes,
            or the padding is more than half of a window.

    Example:
        >>> import svod_tensor as sv
        >>> sv.avg_pool2d(sv.Tensor([[[1.0, 3.0, 2.0, 0.0]]]), 2).tolist()
        [[[2.0, 1.0]]]
    """
    options = _window_options("avg_pool2d", x, kernel, stride, padding, dilation, ceil_mode)
    n = len(options.kernel)
    axes = tuple(range(-n, 0))
    view = padded_windows(x, options, 0)
    counted = check_pads("avg_pool2d", padding, n) if count_include_pad else ((0, 0),) * n
    # Every window has the same number of counted elements.
    if options.pads == counted:
        return view.mean(axes)
    total = to_float(view).sum(axes)
    return total.div(_count_elements(total, x.shape[-n:], options, counted))


@operation(
    test="test_pooling.py::test_norms_of_windows_agree_with_their_formula", is_function=False
)
@reuse_graph
@rounds_once
def lp_pool2d(
    x: Tensor,
    /,
    ord: float = 2,
    kernel: Numbers = 2,
    *,
    stride: Numbers | None = None,
    padding: Padding = 0,
    dilation: Numbers = 1,
    ceil_mode: bool = False,
) -> Tensor:
    """Power-average pooling over the spatial axes of `x`, of shape (batch, channels, *spatial): the
    norm of each window, `sum(abs(x) ** ord) ** (1 / ord)` as in ONNX. Integers become float32.

    Args:
        ord: order of the norm, as in `norm`.
        kernel: size of the window on each axis; an int is the size on all axes after the first two.
        stride: stride of the window; by default `kernel`.
        padding: zero padding of both sides of each axis, or a pair `(before, after)` per axis.
        dilation: distance between the elements of a window.
        ceil_mode: whether a window may extend beyond the padding, if it starts before the end of the
            axis.

    Returns:
        A tensor of shape (batch, channels, *sizes): each size is
        `(size + before + after - dilation * (kernel - 1) - 1) // stride + 1`, rounded up with
        `ceil_mode`.

    Raises:
        ShapeError: if there are no spatial axes, or one is smaller than a window.
        OperandError: if the number of values of an option differs from the number of spatial axes,
            or the padding is more than half of a window.

    Example:
        >>> from svod_tensor import Tensor
        >>> Tensor([[[3.0, -4.0, 2.0, 0.0]]]).lp_pool2d(2).tolist()
        [[[5.0, 2.0]]]
    """
    options = _window_options("lp_pool2d", x, kernel, stride, padding, dilation, ceil_mode)
    return padded_windows(to_float(x), options, 0).norm(
        tuple(range(-len(options.kernel), 0)), ord=ord
    )


def _window_options(
    name: str,
    x: Tensor,
    kernel: Numbers,
    stride: Numbers | None,
    padding: Padding,
    dilation: Numbers,
    ceil_mode: bool,
) -> WindowOptions:
    n = x.ndim - 2 if isinstance(kernel, int) else len(kernel)
    if n < 1 or n > x.ndim:
        raise ShapeError(
            operation=name,
            shape=x.shape,
            problem=f"expected an input with {max(n, 1)} spatial axes, got {format_shape(x.shape)}",
        )
    sizes = expand_option(name, "kernel", kernel, n)
    steps = sizes if stride is None else expand_option(name, "stride", stride, n)
    apart, pads = expand_option(name, "dilation", dilation, n), check_pads(name, padding, n)
    spans = tuple(d * (k - 1) + 1 for k, d in zip(sizes, apart, strict=True))
    # PyTorch limits the padding, ONNX, which has pairs, does not.
    is_pair = not isinstance(padding, int) and any(not isinstance(p, int) for p in padding)
    if not is_pair and any(
        before > span // 2 for (before, _), span in zip(pads, spans, strict=True)
    ):
        # A window of padding only has no element. Pairs are not limited, as in ONNX.
        raise OperandError(
            operation=name,
            found=f"padding={padding} for windows of size {spans}",
            expected="padding of at most half of the window size",
            hint=(
                "pass a pair for each axis, as in padding=[(2, 2), (2, 2)], for windows of padding"
                " only"
            ),
        )
    if ceil_mode:
        pads = tuple(
            (pad[0], _stretch_end(s, pad, d * (k - 1) + 1, step))
            for s, pad, k, step, d in zip(x.shape[-n:], pads, sizes, steps, apart, strict=True)
        )
    return WindowOptions(sizes, steps, pads, apart)


def _count_elements(
    like: Tensor, sizes: Sequence[SInt], options: WindowOptions, counted: Pads
) -> Tensor:
    """Count the elements of each window: elements of the axes, and `counted` padding before and
    after them.

    The count is separable: it is the product of the counts along each axis."""
    total: Tensor | None = None
    for axis, (size, (before, after)) in enumerate(zip(sizes, counted, strict=True)):
        kernel, stride, dilation = (
            options.kernel[axis],
            options.stride[axis],
            options.dilation[axis],
        )
        begin, end = options.pads[axis]
        # The last window of an axis may end before the padding does.
        kept = min(after, end)
        inside = move_beside(
            like.ones(normalize_size(size + before + kept), dtype=like.dtype), like
        )
        line = (
            inside.pad((begin - before, end - kept))
            .windows((kernel,), (stride,), (dilation,))
            .sum(-1)
        )
        column = line.reshape(-1, *(1,) * (len(sizes) - 1 - axis))
        total = column if total is None else total.mul(column)
    assert total is not None
    return total


def _stretch_end(size: SInt, pad: tuple[int, int], span: int, stride: int) -> int:
    """Trailing padding of an axis for `ceil_mode`, which completes the windows that start before its
    end.
    """
    before, after = pad
    # PyTorch's rule: a window must not consist of padding beyond the end only.
    max_padding = min(after + stride - 1, span - 1)
    if not isinstance(size, int):
        return max_padding
    n_windows = (size + before + max_padding - span) // stride + 1
    return max((n_windows - 1) * stride + span - size - before, 0) if n_windows > 0 else after


def _to_flat_indices(
    window_indices: Tensor, sizes: Sequence[SInt], options: WindowOptions
) -> Tensor:
    """Convert indices within windows to flat indices over the spatial axes."""
    n = len(sizes)
    total, remaining = window_indices.zeros_like(dtype=int64), window_indices.cast(int64)
    for i, (size, k, s, d, (before, _)) in enumerate(
        zip(sizes, options.kernel, options.stride, options.dilation, options.pads, strict=True)
    ):
        inner_size = math.prod(options.kernel[i + 1 :])
        begin = (
            window_indices.arange(window_indices.shape[i - n], dtype=int64)
            .mul(s)
            .sub(before)
            .reshape(-1, *(1,) * (n - 1 - i))
        )
        axis_index = remaining.floor_divide(inner_size).remainder(k).mul(d).add(begin)
        total = total.mul(
            size if isinstance(size, int) else window_indices.from_uop(size.cast(int64))
        ).add(axis_index)  # pyright: ignore[reportPrivateUsage]
    # The window size marks a window of padding only (`first_max_index`).
    return window_indices.eq(math.prod(options.kernel)).where(-1, total)
