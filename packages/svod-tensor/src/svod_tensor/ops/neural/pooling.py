"""Pooling: one number for each window over the last axes, and its inverse.

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
from svod_tensor.ops.core.operands import as_tensor, to_float
from svod_tensor.ops.core.operation import operation
from svod_tensor.ops.core.rounding import rounds_once
from svod_tensor.ops.neural.window_options import (
    Numbers,
    Padding,
    Pads,
    WindowPlaces,
    check_pads,
    spread_number,
)
from svod_tensor.ops.neural.window_sums import list_places, max_pool_gradient, number_first

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
    """The largest element of each window over the spatial axes, in the dtype of `x`; padding never
    wins.

    Args:
        kernel: the size of a window on each axis; an int is that of all axes behind the first two.
        stride: how far a window moves; by default as far as it is large.
        padding: how much is added on both sides of each axis, at most half of a window; a pair
            `(before, after)` for an axis tells them apart, and may be larger.
        dilation: the distance of a window's elements.
        ceil_mode: whether a window may end behind the padding, if it begins before the end of the
            axis.
        return_indices: whether to give positions too.

    Returns:
        The largest elements; with `return_indices` also where the first of each is (int64), counted
        in row-major order
        over the spatial axes: -1 for a window with nothing but padding.

    Raises:
        ShapeError: if there are no spatial axes, or one is smaller than a window.
        OperandError: if an option has not one number for each axis, or the padding is more than
            half of a window.

    Example:
        >>> import svod_tensor as sv
        >>> sv.max_pool2d(Tensor([[[1.0, 3.0, 2.0, 0.0]]]), 2).tolist()
        [[[3.0, 2.0]]]
        >>> sv.max_pool2d(Tensor([[[1.0, 3.0, 2.0, 0.0]]]), 2, return_indices=True)[1].tolist()
        [[[1, 2]]]
    """
    places = _place_windows(x, kernel, stride, padding, dilation, ceil_mode)
    n = len(places.kernel)
    value = list_places(x, places, x.dtype.min).max(tuple(range(-n, 0)))
    if not return_indices:
        return with_rule(max_pool_gradient, value, (x,), *places)
    found = number_first(x, value, places)
    return with_rule(max_pool_gradient, value, (x,), *places), _locate(found, x.shape[-n:], places)


@operation(
    test="test_pooling.py::test_the_largest_elements_go_back_to_where_they_were", is_function=False
)
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
    """These elements where `max_pool2d` with the same options found them, and 0 elsewhere. Of
    several for one place, the last stays.

    Args:
        indices: positions, as `max_pool2d(return_indices=True)` gives them: negative ones and those
            beyond the result are left out, or beyond it an error in a plan that checks its
            operands.
        kernel: the size of a window on each axis; an int is that of all axes behind the first two.
        stride: how far a window moves; by default as far as it is large.
        padding: how much was added, as `max_pool2d` takes it.
        size: of the spatial axes of the result; by default the smallest that gives as many windows.

    Raises:
        ShapeError: if there are no spatial axes, or the indices have another shape.
        OperandError: if an option has not one number for each axis, or the indices are no integers.

    Example:
        >>> x = Tensor([[[1.0, 3.0, 2.0, 0.0]]])
        >>> largest, indices = x.max_pool2d(2, return_indices=True)
        >>> largest.max_unpool2d(indices).tolist()
        [[[0.0, 3.0, 2.0, 0.0]]]
    """
    places = _place_windows(x, kernel, stride, padding, 1, ceil_mode=False)
    n, name = len(places.kernel), "max_unpool2d"
    if indices.shape != x.shape or not indices.dtype.is_int:
        raise OperandError(
            operation=name,
            found=f"indices of {indices.dtype} and shape {indices.shape}",
            expected=f"integers of the shape {x.shape}",
        )
    lead, before = x.shape[:-n], x.shape[-n:]
    if size is None:
        size = [
            normalize_size((s - 1) * step + k - sum(pads))
            for s, k, step, pads in zip(
                before, places.kernel, places.stride, places.pads, strict=True
            )
        ]
    if len(size) != n or any(bounds_of_size(s)[0] < 1 for s in size):
        raise ShapeError(
            operation=name,
            shape=tuple(size),
            problem=f"expected {n} positive output sizes, got {tuple(size)}",
        )
    whole = math.prod(concrete_shape(name, tuple(size)))
    places_of = as_tensor(indices, x).cast(int64).reshape(*lead, -1)  # pyright: ignore[reportArgumentType]
    kept = places_of.lt(0).where(whole, places_of)
    empty = x.zeros(*lead, whole, dtype=x.dtype, device=str(x.device))
    return empty.put_along_axis(kept, x.reshape(*lead, -1), -1).reshape(*lead, *size)


@operation(test="test_pooling.py::test_pooling_agrees_with_its_definition")
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
    """The mean of each window over the spatial axes. Integers become float32.

    Args:
        kernel: the size of a window on each axis; an int is that of all axes behind the first two.
        stride: how far a window moves; by default as far as it is large.
        padding: how much is added on both sides of each axis, at most half of a window; a pair
            `(before, after)` for an axis tells them apart, and may be larger.
        dilation: the distance of a window's elements.
        count_include_pad: whether padding counts as zeros, or not at all.
        ceil_mode: whether a window may end behind the padding, if it begins before the end of the
            axis; what is there does not count.

    Raises:
        ShapeError: if there are no spatial axes, or one is smaller than a window.
        OperandError: if an option has not one number for each axis, or the padding is more than
            half of a window.

    Example:
        >>> import svod_tensor as sv
        >>> sv.avg_pool2d(Tensor([[[1.0, 3.0, 2.0, 0.0]]]), 2).tolist()
        [[[2.0, 1.0]]]
    """
    places = _place_windows(x, kernel, stride, padding, dilation, ceil_mode)
    n = len(places.kernel)
    axes = tuple(range(-n, 0))
    view = list_places(x, places, 0)
    counted = check_pads(padding, n) if count_include_pad else ((0, 0),) * n
    if places.pads == counted:
        return view.mean(axes)
    total = to_float(view).sum(axes)
    return total.div(_count_elements(total, x.shape[-n:], places, counted))


@operation(
    test="test_pooling.py::test_norms_of_windows_agree_with_their_formula", is_function=False
)
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
    """The norm of each window over the spatial axes, as in ONNX: of absolute values. Integers
    become float32.

    Args:
        ord: which norm, as `norm` takes it.
        kernel: the size of a window on each axis; an int is that of all axes behind the first two.
        stride: how far a window moves; by default as far as it is large.
        padding: how many zeros are added on both sides of each axis; a pair `(before, after)` for
            an axis tells them apart.
        dilation: the distance of a window's elements.
        ceil_mode: whether a window may end behind the padding, if it begins before the end of the
            axis.

    Raises:
        ShapeError: if there are no spatial axes, or one is smaller than a window.
        OperandError: if an option has not one number for each axis, or the padding is more than
            half of a window.

    Example:
        >>> Tensor([[[3.0, -4.0, 2.0, 0.0]]]).lp_pool2d(2).tolist()
        [[[5.0, 2.0]]]
    """
    places = _place_windows(x, kernel, stride, padding, dilation, ceil_mode)
    return list_places(to_float(x), places, 0).norm(tuple(range(-len(places.kernel), 0)), ord=ord)


def _place_windows(
    x: Tensor,
    kernel: Numbers,
    stride: Numbers | None,
    padding: Padding,
    dilation: Numbers,
    ceil_mode: bool,
) -> WindowPlaces:
    n = x.ndim - 2 if isinstance(kernel, int) else len(kernel)
    if n < 1 or n > x.ndim:
        raise ShapeError(
            operation="pooling",
            shape=x.shape,
            problem=f"expected an input with {max(n, 1)} spatial axes, got {format_shape(x.shape)}",
        )
    sizes = spread_number("kernel", kernel, n)
    steps = sizes if stride is None else spread_number("stride", stride, n)
    apart, pads = spread_number("dilation", dilation, n), check_pads(padding, n)
    spans = tuple(d * (k - 1) + 1 for k, d in zip(sizes, apart, strict=True))
    is_pair = not isinstance(padding, int) and any(not isinstance(p, int) for p in padding)
    if not is_pair and any(
        before > span // 2 for (before, _), span in zip(pads, spans, strict=True)
    ):
        # A window in the padding alone has no element. Pairs are free, as in ONNX.
        raise OperandError(
            operation="pooling",
            found=f"padding {padding} of windows of {spans}",
            expected="at most half of a window on both sides",
            hint=(
                "give a pair for each axis, as in padding=[(2, 2), (2, 2)], for windows of padding"
                " alone"
            ),
        )
    if ceil_mode:
        pads = tuple(
            (pad[0], _stretch_end(s, pad, d * (k - 1) + 1, step))
            for s, pad, k, step, d in zip(x.shape[-n:], pads, sizes, steps, apart, strict=True)
        )
    return WindowPlaces(sizes, steps, pads, apart)


def _count_elements(
    like: Tensor, sizes: Sequence[SInt], places: WindowPlaces, counted: Pads
) -> Tensor:
    """How many elements each window has that count: those of axes of these sizes, and of `counted`
    ones before and after them.

    They are counted along each axis by itself: the number of a window is the product of those of
    its places along the axes."""
    total: Tensor | None = None
    for axis, (size, (before, after)) in enumerate(zip(sizes, counted, strict=True)):
        kernel, stride, dilation = places.kernel[axis], places.stride[axis], places.dilation[axis]
        begin, end = places.pads[axis]
        # The last window of an axis may end before its padding does.
        kept = min(after, end)
        inside = like.ones(
            normalize_size(size + before + kept), dtype=like.dtype, device=str(like.device)
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
    """What is added behind an axis so that windows which begin before its end, and no others, are
    whole.
    """
    before, after = pad
    most = min(after + stride - 1, span - 1)
    if not isinstance(size, int):
        return most
    n_windows = (size + before + most - span) // stride + 1
    return max((n_windows - 1) * stride + span - size - before, 0) if n_windows > 0 else after


def _locate(found: Tensor, sizes: Sequence[SInt], places: WindowPlaces) -> Tensor:
    """The positions over the spatial axes of numbers in windows."""
    n = len(sizes)
    total, rest = found.zeros_like(dtype=int64), found.cast(int64)
    for i, (size, k, s, d, (before, _)) in enumerate(
        zip(sizes, places.kernel, places.stride, places.dilation, places.pads, strict=True)
    ):
        each = math.prod(places.kernel[i + 1 :])
        begin = (
            found.arange(found.shape[i - n], dtype=int64)
            .mul(s)
            .sub(before)
            .reshape(-1, *(1,) * (n - 1 - i))
        )
        place = rest.floor_divide(each).remainder(k).mul(d).add(begin)
        total = total.mul(size if isinstance(size, int) else found.from_uop(size.cast(int64))).add(
            place
        )  # pyright: ignore[reportPrivateUsage]
    return found.eq(math.prod(places.kernel)).where(-1, total)
