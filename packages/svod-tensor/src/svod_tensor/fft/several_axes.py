"""Transforms along several axes."""

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
    """The discrete Fourier transform along several axes: `fft` along one after the other.

    Args:
        x: numbers; real ones become complex.
        s: how many points along each axis; further elements are cut off, and missing ones are 0. By
            default all.
        axes: along which; by default the last ones, as many as `s` has, or all.
        norm: as for `fft`, with the product of the numbers of points.

    Raises:
        AxisError: if there is no such axis.
        ShapeError: if there are not as many sizes as axes, or no points.

    Example:
        >>> import svod_tensor as sv
        >>> sv.fft.fftn(Tensor([[1.0, 2.0], [3.0, 4.0]])).real.tolist()
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
    """The inverse of `fftn`.

    Args:
        x: numbers; real ones become complex.
        s: how many points along each axis; further elements are cut off, and missing ones are 0. By
            default all.
        axes: along which; by default the last ones, as many as `s` has, or all.
        norm: as for `ifft`, with the product of the numbers of points.

    Raises:
        AxisError: if there is no such axis.
        ShapeError: if there are not as many sizes as axes, or no points.

    Example:
        >>> import svod_tensor as sv
        >>> sv.fft.ifftn(sv.fft.fftn(Tensor([[1.0, 2.0], [3.0, 4.0]]))).real.tolist()
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
    """The transform of real numbers along several axes: `rfft` along the last of them, and `fft`
    along the others.

    Args:
        x: real numbers.
        s: how many points along each axis; further elements are cut off, and missing ones are 0. By
            default all.
        axes: along which; by default the last ones, as many as `s` has, or all.
        norm: as for `fft`, with the product of the numbers of points.

    Raises:
        AxisError: if there is no such axis.
        OperandError: if the numbers are complex.
        ShapeError: if there are not as many sizes as axes, no axes, or no points.

    Example:
        >>> import svod_tensor as sv
        >>> sv.fft.rfftn(Tensor.ones(2, 4)).shape
        (2, 3)
    """
    scale = get_scale("rfftn", norm, is_inverse=False)
    given = to_floats("rfftn", x)
    sizes, places = _read_axes("rfftn", given, s, axes)
    _check_some("rfftn", given, places)
    for n, axis in zip(sizes, places, strict=True):
        given = resize("rfftn", given, n, axis)
    *others, last = places
    half = from_real(given, last, scale)
    return transform(half, others, is_inverse=False, scale=scale) if others else half


def irfftn(
    x: Operand,
    /,
    *,
    s: Sizes | None = None,
    axes: Sequence[int] | None = None,
    norm: Norm = "backward",
) -> Tensor:
    """The inverse of `rfftn`: real numbers.

    Args:
        x: a transform, of whose last axis the first half is there.
        s: how many numbers the result has along each axis; by default those of `x`, and along the
            last one twice as many, less two.
        axes: along which; by default the last ones, as many as `s` has, or all.
        norm: as for `ifft`, with the product of the numbers of points.

    Raises:
        AxisError: if there is no such axis.
        ShapeError: if there are not as many sizes as axes, no axes, or no points.

    Example:
        >>> import svod_tensor as sv
        >>> sv.fft.irfftn(sv.fft.rfftn(Tensor.ones(2, 4))).tolist()
        [[1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0]]
    """
    scale = get_scale("irfftn", norm, is_inverse=True)
    given = to_complex(to_tensor(x))
    sizes, places = _read_axes("irfftn", given, s, axes)
    _check_some("irfftn", given, places)
    *others, last = places
    n = normalize_size((given.shape[last] - 1) * 2) if s is None else sizes[-1]
    halves = [*sizes[:-1], n // 2 + 1 if not isinstance(n, int) or n > 0 else 0]
    for size, axis in zip(halves, places, strict=True):
        given = resize("irfftn", given, size, axis)
    if others:
        given = transform(given, others, is_inverse=True, scale=scale)
    return to_real(given, n, last, scale)


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
    given = to_complex(to_tensor(x))
    sizes, places = _read_axes(operation, given, s, axes)
    for n, axis in zip(sizes, places, strict=True):
        given = resize(operation, given, n, axis)
    return transform(given, places, is_inverse=is_inverse, scale=scale) if places else given


def _read_axes(
    operation: str, x: Tensor, s: Sizes | None, axes: Sequence[int] | None
) -> tuple[list[SInt], tuple[int, ...]]:
    """How many points there are along which axes."""
    if axes is None:
        count = x.ndim if s is None else len(s)
        axes = range(-count, 0)
    places = normalize_axes(operation, tuple(axes), x.ndim)
    sizes = [x.shape[a] for a in places] if s is None else list(s)
    if len(sizes) != len(places):
        raise ShapeError(
            operation=operation,
            shape=tuple(sizes),
            problem=f"sizes {tuple(sizes)} and axes {tuple(axes)} must have the same length",
        )
    return sizes, places


def _check_some(operation: str, x: Tensor, axes: Sequence[int]) -> None:
    if not axes:
        raise ShapeError(
            operation=operation,
            shape=x.shape,
            problem=f"at least 1 axis must be transformed: axes={tuple(axes)}",
        )
