"""Convolution, transposed convolution, and the filter gradient: three bilinear functions whose
derivatives are expressed by each other.

    y = convolve(x, w)          dx = transpose_convolution(dy, w)     dw = correlate(x, dy)
    x = transpose_convolution   dy = convolve(dx, w)                  dw = correlate(dx, y)
    w = correlate(x, y)         dx = transpose_convolution(y, dw)     dy = convolve(x, dw)

So derivatives of any order are gathers, without scatter-add. Tensors have the shape (batch,
channels, *sizes), filters (outputs, channels / groups, *kernel). Windows are gathers at computed
indices, fused into the products instead of being copied as by im2col."""

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
    """Geometry of a convolution: stride, zero padding of both sides and dilation for each spatial
    axis, and the number of channel groups."""

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
        _crop(convolve(cotangent, filters, geometry), x.shape[2:]) if wanted[0] else None,
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
        _crop(convolve(x, cotangent, geometry), y.shape[2:]) if wanted[1] else None,
    )


def convolve(x: Tensor, filters: Tensor, geometry: Geometry) -> Tensor:
    """Cross-correlate `x` with the filters, in their dtype."""
    n, groups = filters.ndim - 2, geometry.groups
    outputs, per_group, *kernel = filters.shape
    view = _list_windows(x, kernel, geometry, by_rows=per_group != 1)
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
    """Transpose of `convolve` with respect to its first operand: each element adds a multiple of a
    filter to a window of the result.

    Args:
        x: tensor of shape (batch, outputs, *spatial).
        filters: filters of shape (outputs, channels / groups, *kernel).
        sizes: sizes of the spatial axes of the result.
        geometry: geometry of the convolution.
    """
    kernel: tuple[int, ...] = filters.shape[2:]  # pyright: ignore[reportAssignmentType]
    is_disjoint = all(
        # Then windows do not overlap, and there is nothing to add.
        k == 1 or (d == 1 and k <= s)
        for k, s, d in zip(kernel, geometry.stride, geometry.dilation, strict=True)
    )
    value = (_convolve_disjoint if is_disjoint else _compute_phases)(x, filters, sizes, geometry)
    return with_rule(_transposed_gradient, value, (x, filters), *geometry)


def _correlate(x: Tensor, y: Tensor, kernel: Sequence[SInt], geometry: Geometry) -> Tensor:
    """Filter gradient: for each index in the kernel, the products of `y` with the elements of the
    windows of `x` at that index.
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


def _list_windows(
    x: Tensor, kernel: Sequence[SInt], geometry: Geometry, *, by_rows: bool = False
) -> Tensor:
    """Windows of padded `x`: shape (batch, channels, *outputs, *kernel)."""
    sizes: Sequence[int] = kernel  # pyright: ignore[reportAssignmentType]
    pads = [(p, p) for p in geometry.padding]
    padded = store_padded(x.pad(None, None, *pads), pads, sizes, geometry.stride, by_rows=by_rows)
    return padded.windows(sizes, geometry.stride, geometry.dilation)


def store_padded(
    padded: Tensor,
    pads: Sequence[tuple[int, int]],
    kernel: Sequence[int],
    stride: Sequence[int],
    *,
    by_rows: bool = False,
) -> Tensor:
    """Store a padded tensor in memory if its windows overlap.

    Otherwise each gather would test whether its index is inside, and for strides greater than 1 would
    be scalar.

    Args:
        by_rows: whether to store the channels of a row side by side. Windows that are added up over
            all channels then read a small part of memory.
    """
    is_overlapping = math.prod(kernel) > math.prod(stride)
    if not is_overlapping or not any(map(any, pads)):
        return padded
    if not by_rows:
        return padded.contiguous()
    # From (batch, channels, *outer, columns) to (batch, *outer, channels, columns).
    return padded.moveaxis(1, -2).contiguous().moveaxis(-2, 1)


def fit_axis(x: Tensor, axis: int, begin: SInt, size: SInt) -> Tensor:
    """Slice `size` elements along an axis from `begin`, with zeros beyond its end."""
    n_missing = normalize_size(begin + size - x.shape[axis])
    # For a symbolic size, pad by the maximum that may be needed.
    n_missing = max(n_missing, 0) if isinstance(n_missing, int) else size
    padded = x.pad(*((0, n_missing) if a == axis else None for a in range(x.ndim)))
    return padded.shrink(
        *((begin, normalize_size(begin + size)) if a == axis else None for a in range(x.ndim))
    )


def _crop(x: Tensor, sizes: Sequence[SInt]) -> Tensor:
    """Crop the spatial axes to `sizes`."""
    return x.shrink(None, None, *((0, size) for size in sizes))


def _convolve_disjoint(
    x: Tensor, filters: Tensor, sizes: Sequence[SInt], geometry: Geometry
) -> Tensor:
    """Transposed convolution with non-overlapping windows: products interleaved with zeros.

    Products are stored before they are interleaved, so that they are computed as a matrix
    product."""
    groups, (batch, channels, *spatial) = geometry.groups, x.shape
    n, per_group, kernel = len(spatial), normalize_size(channels // groups), filters.shape[2:]
    left = x.reshape(batch, groups, per_group, 1, *spatial, *(1,) * n)
    right = filters.reshape(1, groups, per_group, filters.shape[1], *(1,) * n, *kernel)
    total = left.mul(right).sum(2, dtype=x.dtype).flatten(1, 2)
    if per_group != 1 and math.prod(kernel) > 1:  # pyright: ignore[reportArgumentType,reportCallIssue]
        kernel_axes, spatial_axes = range(2 + n, 2 + 2 * n), range(2, 2 + n)
        total = (
            total.permute(0, 1, *kernel_axes, *spatial_axes)
            .contiguous()
            .permute(0, 1, *kernel_axes, *spatial_axes)
        )
    for axis, (step, padding, size) in enumerate(
        zip(geometry.stride, geometry.padding, sizes, strict=True), 2
    ):
        # The remaining kernel axes are trailing; the first of them is at index 2 + n.
        total = fit_axis(total.moveaxis(2 + n, axis + 1), axis + 1, 0, step).flatten(axis, axis + 1)
        total = fit_axis(total, axis, padding, size)
    return total


class _Phase(NamedTuple):
    """One phase of a transposed convolution along an axis, as a convolution with stride 1.

    Attributes:
        taps: the kernel indices that contribute to this phase, None if there are none.
        pad: zero padding of the operand before and after.
        step: distance of the elements that consecutive taps read.
        n_results: number of results of this phase.
    """

    taps: slice | None
    pad: tuple[SInt, SInt]
    step: int
    n_results: SInt


def _compute_phases(
    x: Tensor, filters: Tensor, sizes: Sequence[SInt], geometry: Geometry
) -> Tensor:
    """Transposed convolution by phases: results that are `stride` apart are a convolution with every
    `stride`-th kernel index, without multiplications by inserted zeros.
    """
    groups, (channels, per_group, *kernel) = geometry.groups, filters.shape
    each = normalize_size(channels // groups)
    transposed = filters.reshape(groups, each, per_group, *kernel).transpose(1, 2)
    transposed = transposed.reshape(normalize_size(groups * per_group), each, *kernel)
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
    results = [_compute_phase(x, transposed, phases, groups) for phases in combinations(*axes)]
    return _crop(_interleave(results, geometry.stride), sizes)


def _list_phases(
    n_elements: SInt, kernel: int, size: SInt, stride: int, padding: int, dilation: int
) -> list[_Phase]:
    """List the phases; element i contributes to result `i * stride + k * dilation - padding` by tap k."""
    count = normalize_size((size + (stride - 1)) // stride)
    # Taps of one phase are this far apart: the least multiple of the dilation that the stride
    # divides.
    tap_step = stride // gcd(stride, dilation)
    step = tap_step * dilation // stride
    phases: list[_Phase] = []
    for phase in range(stride):
        taps = [k for k in range(kernel) if (phase + padding - k * dilation) % stride == 0]
        if not taps:
            phases.append(_Phase(None, (0, 0), 1, count))
            continue
        first = (phase + padding - taps[-1] * dilation) // stride
        last = first + (len(taps) - 1) * step
        phases.append(
            _Phase(
                slice(taps[-1], None, -tap_step),
                (-first, normalize_size(count + last - n_elements)),
                step,
                count,
            )
        )
    return phases


def _compute_phase(x: Tensor, filters: Tensor, phases: Sequence[_Phase], groups: int) -> Tensor:
    """Compute the results of a transposed convolution for one phase of each axis."""
    if not all(p.taps for p in phases):
        return x.zeros(x.shape[0], filters.shape[0], *(p.n_results for p in phases), dtype=x.dtype)
    chosen = filters[(slice(None), slice(None), *(p.taps for p in phases))]
    padded = x.pad(None, None, *(p.pad for p in phases))
    n = len(phases)
    return convolve(
        padded, chosen, Geometry((1,) * n, (0,) * n, tuple(p.step for p in phases), groups)
    )


def _interleave(phases: Sequence[Tensor], counts: Sequence[int]) -> Tensor:
    """Interleave the results of all phases along the spatial axes."""
    if len(phases) == 1:
        return phases[0]
    n, (batch, channels, *sizes) = len(counts), phases[0].shape
    split = type(phases[0]).stack(phases, axis=-1).reshape(batch, channels, *sizes, *counts)
    paired = split.permute(0, 1, *(axis for i in range(n) for axis in (2 + i, 2 + n + i)))
    return paired.reshape(
        batch, channels, *(size * count for size, count in zip(sizes, counts, strict=True))
    )
