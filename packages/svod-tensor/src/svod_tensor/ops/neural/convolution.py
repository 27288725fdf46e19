"""Convolution, its transpose, and the products that are the filters' gradient: three bilinear
functions, of which each is the derivative of the others.

    y = convolve(x, w)          dx = transpose_convolution(dy, w)     dw = correlate(x, dy)
    x = transpose_convolution   dy = convolve(dx, w)                  dw = correlate(dx, y)
    w = correlate(x, y)         dx = transpose_convolution(y, dw)     dy = convolve(x, dw)

So derivatives of any order look elements up and add nothing to memory. Tensors have the shape
(batch, channels, *sizes), filters (outputs, channels / groups, *kernel). A window is a lookup at
computed positions, so that nothing is copied."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product as combinations
from math import gcd
from typing import TYPE_CHECKING, NamedTuple

from svod_ir import SInt
from svod_ir.sizes import normalize_size
from svod_tensor.ops.core.gradient_rules import gradient_rule, with_rule

if TYPE_CHECKING:
    from svod_tensor.tensor import Tensor

__all__ = ["Geometry", "convolve", "fit_axis", "store_padded", "transpose_convolution"]


class Geometry(NamedTuple):
    """How windows lie: for each spatial axis, how far they move, how many zeros are on both sides,
    and how far apart the elements of a window are; and into how many independent parts the channels
    fall."""

    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int = 1


@gradient_rule("convolution")
def _convolution_gradient(
    cotangent: Tensor,
    _: Tensor,
    operands: tuple[Tensor, Tensor],
    wanted: tuple[bool, bool],
    *options: object,
) -> tuple[Tensor | None, Tensor | None]:
    geometry, (x, filters) = Geometry(*options), operands  # pyright: ignore[reportArgumentType]
    return (
        transpose_convolution(cotangent, filters, x.shape[2:], geometry) if wanted[0] else None,
        _correlate(x, cotangent, filters.shape[2:], geometry) if wanted[1] else None,
    )


@gradient_rule("transposed-convolution")
def _transposed_gradient(
    cotangent: Tensor,
    _: Tensor,
    operands: tuple[Tensor, Tensor],
    wanted: tuple[bool, bool],
    *options: object,
) -> tuple[Tensor | None, Tensor | None]:
    geometry, (x, filters) = Geometry(*options), operands  # pyright: ignore[reportArgumentType]
    return (
        _cut(convolve(cotangent, filters, geometry), x.shape[2:]) if wanted[0] else None,
        _correlate(cotangent, x, filters.shape[2:], geometry) if wanted[1] else None,
    )


@gradient_rule("filter-gradient")
def _correlation_gradient(
    cotangent: Tensor,
    _: Tensor,
    operands: tuple[Tensor, Tensor],
    wanted: tuple[bool, bool],
    *options: object,
) -> tuple[Tensor | None, Tensor | None]:
    geometry, (x, y) = Geometry(*options), operands  # pyright: ignore[reportArgumentType]
    return (
        transpose_convolution(y, cotangent, x.shape[2:], geometry) if wanted[0] else None,
        _cut(convolve(x, cotangent, geometry), y.shape[2:]) if wanted[1] else None,
    )


def convolve(x: Tensor, filters: Tensor, geometry: Geometry) -> Tensor:
    """The cross-correlation of `x` with the filters, in their dtype."""
    n, groups = filters.ndim - 2, geometry.groups
    outputs, per_group, *kernel = filters.shape
    view = _list_windows(x, kernel, geometry)
    spatial = view.shape[2 : 2 + n]
    view = view.reshape(x.shape[0], groups, 1, per_group, *spatial, *kernel)
    aligned = filters.reshape(
        1, groups, normalize_size(outputs // groups), per_group, *(1,) * n, *kernel
    )
    total = view.mul(aligned).sum((3, *range(4 + n, 4 + 2 * n)), dtype=x.dtype)
    return with_rule(
        _convolution_gradient, total.reshape(x.shape[0], outputs, *spatial), (x, filters), *geometry
    )


def transpose_convolution(
    x: Tensor, filters: Tensor, sizes: Sequence[SInt], geometry: Geometry
) -> Tensor:
    """The transpose of `convolve` by its first operand: each element adds its multiple of a filter
    to a window of the result.

    Args:
        x: of shape (batch, outputs, *spatial).
        filters: of shape (outputs, channels / groups, *kernel).
        sizes: of the spatial axes of the result.
        geometry: of the convolution.
    """
    kernel: tuple[int, ...] = filters.shape[2:]  # pyright: ignore[reportAssignmentType]
    is_apart = all(
        k == 1 or (d == 1 and k <= s)
        for k, s, d in zip(kernel, geometry.stride, geometry.dilation, strict=True)
    )
    value = (_spread_filters if is_apart else _compute_phases)(x, filters, sizes, geometry)
    return with_rule(_transposed_gradient, value, (x, filters), *geometry)


def _correlate(x: Tensor, y: Tensor, kernel: Sequence[SInt], geometry: Geometry) -> Tensor:
    """The filters' gradient: for each place in a window, the products of `y` with what the windows
    of `x` have there.
    """
    n, groups = len(kernel), geometry.groups
    batch, outputs, *spatial = y.shape
    view = _list_windows(x, kernel, geometry).shrink(
        None, None, *((0, s) for s in spatial), *(None,) * n
    )
    view = view.reshape(batch, groups, 1, normalize_size(x.shape[1] // groups), *spatial, *kernel)
    aligned = y.reshape(batch, groups, normalize_size(outputs // groups), 1, *spatial, *(1,) * n)
    total = view.mul(aligned).sum((0, *range(4, 4 + n)), dtype=x.dtype)
    return with_rule(
        _correlation_gradient, total.reshape(outputs, *view.shape[3:4], *kernel), (x, y), *geometry
    )


def _list_windows(x: Tensor, kernel: Sequence[SInt], geometry: Geometry) -> Tensor:
    """The windows of padded `x`: shape (batch, channels, *outputs, *kernel)."""
    sizes: Sequence[int] = kernel  # pyright: ignore[reportAssignmentType]
    pads = [(p, p) for p in geometry.padding]
    padded = store_padded(x.pad(None, None, *pads), pads, sizes, geometry.stride)
    return padded.windows(sizes, geometry.stride, geometry.dilation)


def store_padded(
    padded: Tensor, pads: Sequence[tuple[int, int]], kernel: Sequence[int], stride: Sequence[int]
) -> Tensor:
    """What windows look into, in memory where several see an element.

    Otherwise each look would ask whether it is inside, one element at a time where the windows move
    by more than one."""
    is_seen_often = math.prod(kernel) > math.prod(stride)
    return padded.contiguous() if is_seen_often and any(map(any, pads)) else padded


def fit_axis(x: Tensor, axis: int, begin: SInt, size: SInt) -> Tensor:
    """`size` elements along an axis, from `begin` on, and zeros behind its end."""
    lack = normalize_size(begin + size - x.shape[axis])
    # Whether a size that is not known yet is too long is not known either.
    lack = max(lack, 0) if isinstance(lack, int) else size
    padded = x.pad(*((0, lack) if a == axis else None for a in range(x.ndim)))
    return padded.shrink(
        *((begin, normalize_size(begin + size)) if a == axis else None for a in range(x.ndim))
    )


def _cut(x: Tensor, sizes: Sequence[SInt]) -> Tensor:
    """The first elements along the spatial axes."""
    return x.shrink(None, None, *((0, size) for size in sizes))


def _spread_filters(
    x: Tensor, filters: Tensor, sizes: Sequence[SInt], geometry: Geometry
) -> Tensor:
    """Where no two windows of the result meet: the products side by side, with zeros between them.

    Sums are stored before they are put in their places, so that they are computed as those of a
    product of matrices."""
    groups, (batch, channels, *spatial) = geometry.groups, x.shape
    n, per_group, kernel = len(spatial), normalize_size(channels // groups), filters.shape[2:]
    left = x.reshape(batch, groups, per_group, 1, *spatial, *(1,) * n)
    right = filters.reshape(1, groups, per_group, filters.shape[1], *(1,) * n, *kernel)
    total = left.mul(right).sum(2, dtype=x.dtype).flatten(1, 2)
    if per_group != 1 and math.prod(kernel) > 1:  # pyright: ignore[reportArgumentType,reportCallIssue]
        places, along = range(2 + n, 2 + 2 * n), range(2, 2 + n)
        total = total.permute(0, 1, *places, *along).contiguous().permute(0, 1, *places, *along)
    for axis, (step, padding, size) in enumerate(
        zip(geometry.stride, geometry.padding, sizes, strict=True), 2
    ):
        # What is left of the places' axes is behind all others, the first of them next to these.
        total = fit_axis(total.moveaxis(2 + n, axis + 1), axis + 1, 0, step).flatten(axis, axis + 1)
        total = fit_axis(total, axis, padding, size)
    return total


class _Phase(NamedTuple):
    """Every n-th result along an axis of a transposed convolution, as a convolution with stride 1.

    Attributes:
        places: the places of the filters that meet these results, None if there are none.
        pad: how many zeros the operand gets on both sides.
        step: the distance of the elements that two such places meet.
        n_results: how many results these are.
    """

    places: slice | None
    pad: tuple[SInt, SInt]
    step: int
    n_results: SInt


def _compute_phases(
    x: Tensor, filters: Tensor, sizes: Sequence[SInt], geometry: Geometry
) -> Tensor:
    """Results that lie `stride` apart are a convolution with every `stride`-th place of the
    filters; no zeros are multiplied.
    """
    groups, (channels, per_group, *kernel) = geometry.groups, filters.shape
    each = normalize_size(channels // groups)
    turned = filters.reshape(groups, each, per_group, *kernel).transpose(1, 2)
    turned = turned.reshape(normalize_size(groups * per_group), each, *kernel)
    axes = [
        _list_phases(*options)
        for options in zip(
            x.shape[2:],
            kernel,
            sizes,
            geometry.stride,
            geometry.padding,
            geometry.dilation,
            strict=True,
        )
    ]
    parts = [_compute_phase(x, turned, phases, groups) for phases in combinations(*axes)]
    return _cut(_interleave(parts, geometry.stride), sizes)


def _list_phases(
    n_elements: SInt, kernel: int, size: SInt, stride: int, padding: int, dilation: int
) -> list[_Phase]:
    """Element i meets result `i * stride + k * dilation - padding` through place k."""
    count = normalize_size((size + (stride - 1)) // stride)
    apart = stride // gcd(stride, dilation)
    step = apart * dilation // stride
    phases: list[_Phase] = []
    for phase in range(stride):
        places = [k for k in range(kernel) if (phase + padding - k * dilation) % stride == 0]
        if not places:
            phases.append(_Phase(None, (0, 0), 1, count))
            continue
        first = (phase + padding - places[-1] * dilation) // stride
        last = first + (len(places) - 1) * step
        phases.append(
            _Phase(
                slice(places[-1], None, -apart),
                (-first, normalize_size(count + last - n_elements)),
                step,
                count,
            )
        )
    return phases


def _compute_phase(x: Tensor, filters: Tensor, phases: Sequence[_Phase], groups: int) -> Tensor:
    """The results of a transposed convolution at one phase of each axis."""
    if not all(p.places for p in phases):
        return x.zeros(x.shape[0], filters.shape[0], *(p.n_results for p in phases), dtype=x.dtype)
    chosen = filters[(slice(None), slice(None), *(p.places for p in phases))]
    padded = x.pad(None, None, *(p.pad for p in phases))
    n = len(phases)
    return convolve(
        padded, chosen, Geometry((1,) * n, (0,) * n, tuple(p.step for p in phases), groups)
    )


def _interleave(parts: Sequence[Tensor], counts: Sequence[int]) -> Tensor:
    """One tensor of the parts, which are every n-th element of each spatial axis, for all
    combinations of where these begin.
    """
    if len(parts) == 1:
        return parts[0]
    n, (batch, channels, *sizes) = len(counts), parts[0].shape
    split = type(parts[0]).stack(parts, axis=-1).reshape(batch, channels, *sizes, *counts)
    paired = split.permute(0, 1, *(axis for i in range(n) for axis in (2 + i, 2 + n + i)))
    return paired.reshape(
        batch, channels, *(size * count for size, count in zip(sizes, counts, strict=True))
    )
