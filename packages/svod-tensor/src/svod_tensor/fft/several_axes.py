"""Fourier transforms along several axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from svod_ir import ShapeError
from svod_ir.sizes import normalize_size
from svod_tensor._shapes import normalize_axes
from svod_tensor.fft._nodes import (
    Norm,
    from_real,
    get_scale,
    resize,
    to_complex,
    to_real,
    transform,
)
from svod_tensor.fft.one_axis import to_floats
from svod_tensor.ops.core.operands import to_tensor
from svod_tensor.tensor import Tensor

if TYPE_CHECKING:
    from svod_ir import SInt
    from svod_tensor.ops.core.base import Operand

__all__ = ["fftn", "ifftn", "irfftn", "rfftn"]

Sizes = Sequence["SInt"]


def fftn(
    x: Operand,
    /,
    *,
    s: Sizes | None = None,
    axes: Sequence[int] | None = None,
    norm: Norm = "backward",
) -> Tensor:
    """The discrete Fourier transform along several axes: `fft` along each of them sequentially. The
    result is complex64, or complex128 for float64 and complex128 numbers.

    Args:
        x: real or complex numbers.
        s: the number of points along each axis: the input is truncated or zero-padded. By default
            the sizes of `x`.
        axes: the axes to transform; by default the last `len(s)` axes, or all.
        norm: as for `fft`, with the product of the numbers of points.

    Raises:
        AxisError: if there is no such axis.
        ShapeError: if the numbers of sizes and axes differ, or there are no points.

    Example:
        >>> import svod_tensor as sv
        >>> sv.fft.fftn(sv.Tensor([[1.0, 2.0], [3.0, 4.0]])).real.tolist()
        [[10.0, -2.0], [-4.0, 0.0]]
    """
    return _transform("fftn", x, s, axes, norm, is_inverse=False)


def ifftn(
    x: Operand,
    /,
    *,
    s: Sizes | None = None,
    axes: Sequence[int] | None = None,
    norm: Norm = "backward",
) -> Tensor:
    """The inverse of `fftn`. The result is complex64, or complex128 for float64 and complex128
    numbers.

    Args:
        x: real or complex numbers.
        s: the number of points along each axis: the input is truncated or zero-padded. By default
            the sizes of `x`.
        axes: the axes to transform; by default the last `len(s)` axes, or all.
        norm: as for `ifft`, with the product of the numbers of points.

    Raises:
        AxisError: if there is no such axis.
        ShapeError: if the numbers of sizes and axes differ, or there are no points.

    Example:
        >>> import svod_tensor as sv
        >>> sv.fft.ifftn(sv.fft.fftn(sv.Tensor([[1.0, 2.0], [3.0, 4.0]]))).real.tolist()
        [[1.0, 2.0], [3.0, 4.0]]
    """
    return _transform("ifftn", x, s, axes, norm, is_inverse=True)


def rfftn(
    x: Operand,
    /,
    *,
    s: Sizes | None = None,
    axes: Sequence[int] | None = None,
    norm: Norm = "backward",
) -> Tensor:
    """The real-to-complex transform along several axes: `rfft` along the last one, then `fft` along
    the other axes. The result is complex64, or complex128 for float64 numbers.

    Args:
        x: real numbers.
        s: the number of points along each axis: the input is truncated or zero-padded. By default
            the sizes of `x`.
        axes: the axes to transform; by default the last `len(s)` axes, or all.
        norm: as for `fft`, with the product of the numbers of points.

    Raises:
        AxisError: if there is no such axis.
        OperandError: if the numbers are complex.
        ShapeError: if the numbers of sizes and axes differ, or there are no axes or points.

    Example:
        >>> import svod_tensor as sv
        >>> sv.fft.rfftn(sv.Tensor.ones(2, 4)).shape
        (2, 3)
    """
    scale = get_scale("rfftn", norm, is_inverse=False)
    tensor = to_floats("rfftn", x)
    sizes, positive_axes = _read_axes("rfftn", tensor, s, axes)
    _check_not_empty("rfftn", tensor, positive_axes)
    for n, axis in zip(sizes, positive_axes, strict=True):
        tensor = resize("rfftn", tensor, n, axis)
    *complex_axes, last = positive_axes
    # The real axis first: the other transforms then have half of the elements.
    half_spectrum = from_real(tensor, last, scale)
    return (
        transform(half_spectrum, complex_axes, is_inverse=False, scale=scale)
        if complex_axes
        else half_spectrum
    )


def irfftn(
    x: Operand,
    /,
    *,
    s: Sizes | None = None,
    axes: Sequence[int] | None = None,
    norm: Norm = "backward",
) -> Tensor:
    """The complex-to-real inverse of `rfftn`. The result is float32, or float64 for float64 and
    complex128 numbers.

    Args:
        x: a half spectrum: the first half along the last axis.
        s: the sizes of the result along the axes; by default the sizes of `x`, and `2 * (m - 1)`
            for the size m of the last axis.
        axes: the axes to transform; by default the last `len(s)` axes, or all.
        norm: as for `ifft`, with the product of the numbers of points.

    Raises:
        AxisError: if there is no such axis.
        ShapeError: if the numbers of sizes and axes differ, or there are no axes or points.

    Example:
        >>> import svod_tensor as sv
        >>> sv.fft.irfftn(sv.fft.rfftn(sv.Tensor.ones(2, 4))).tolist()
        [[1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0]]
    """
    scale = get_scale("irfftn", norm, is_inverse=True)
    tensor = to_complex(to_tensor(x))
    sizes, positive_axes = _read_axes("irfftn", tensor, s, axes)
    _check_not_empty("irfftn", tensor, positive_axes)
    *complex_axes, last = positive_axes
    n = normalize_size((tensor.shape[last] - 1) * 2) if s is None else sizes[-1]
    half_sizes = [*sizes[:-1], n // 2 + 1 if not isinstance(n, int) or n > 0 else 0]
    for size, axis in zip(half_sizes, positive_axes, strict=True):
        tensor = resize("irfftn", tensor, size, axis)
    if complex_axes:
        # The real axis last, in reverse order of `rfftn`.
        tensor = transform(tensor, complex_axes, is_inverse=True, scale=scale)
    return to_real(tensor, n, last, scale)


def _transform(
    operation: str,
    x: Operand,
    s: Sizes | None,
    axes: Sequence[int] | None,
    norm: Norm,
    *,
    is_inverse: bool,
) -> Tensor:
    scale = get_scale(operation, norm, is_inverse=is_inverse)
    tensor = to_complex(to_tensor(x))
    sizes, positive_axes = _read_axes(operation, tensor, s, axes)
    for n, axis in zip(sizes, positive_axes, strict=True):
        tensor = resize(operation, tensor, n, axis)
    return (
        transform(tensor, positive_axes, is_inverse=is_inverse, scale=scale)
        if positive_axes
        else tensor
    )


def _read_axes(
    operation: str, x: Tensor, s: Sizes | None, axes: Sequence[int] | None
) -> tuple[list[SInt], tuple[int, ...]]:
    """The numbers of points, and the axes that they belong to."""
    if axes is None:
        count = x.ndim if s is None else len(s)
        # numpy's default: as many trailing axes as there are sizes.
        axes = range(-count, 0)
    positive_axes = normalize_axes(operation, tuple(axes), x.ndim)
    sizes = [x.shape[a] for a in positive_axes] if s is None else list(s)
    if len(sizes) != len(positive_axes):
        raise ShapeError(
            operation=operation,
            shape=tuple(sizes),
            problem=f"sizes {tuple(sizes)} and axes {tuple(axes)} must have the same length",
        )
    return sizes, positive_axes


def _check_not_empty(operation: str, x: Tensor, axes: Sequence[int]) -> None:
    if not axes:
        raise ShapeError(
            operation=operation,
            shape=x.shape,
            problem=f"at least 1 axis must be transformed: axes={tuple(axes)}",
        )
