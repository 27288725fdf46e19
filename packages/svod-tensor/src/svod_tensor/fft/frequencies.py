"""Sample frequencies of transforms, and shifts of the zero frequency."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING

from svod_dtype import default_float, to_dtype
from svod_ir import OperandError
from svod_tensor._shapes import concrete_shape, normalize_axes
from svod_tensor.ops.core.operands import to_tensor
from svod_tensor.tensor import Tensor

if TYPE_CHECKING:
    from svod_tensor._shapes import Axes
    from svod_tensor.ops.core.base import DTypeLike, Operand

__all__ = ["fftfreq", "fftshift", "ifftshift", "rfftfreq"]


def fftfreq(
    n: int, /, *, d: float = 1.0, dtype: DTypeLike | None = None, device: str | None = None
) -> Tensor:
    """The frequencies of the elements of `fft`, in cycles per unit of `d`.

    They are `[0, 1, ..., (n - 1) // 2, -(n // 2), ..., -1] / (d * n)`.

    Args:
        n: the number of points.
        d: the sample spacing.
        dtype: a float dtype; by default float32.
        device: the device of the result.

    Raises:
        OperandError: if there are no points, or the dtype is not a float dtype.

    Example:
        >>> import svod_tensor as sv
        >>> sv.fft.fftfreq(5, d=0.5).round(1).tolist() == sv.Tensor([0.0, 0.4, 0.8, -0.8, -0.4]).tolist()
        True
    """
    # Integers first, so that the frequencies are rounded once.
    indices = _count("fftfreq", n, n, device)
    return _scale("fftfreq", indices.lt((n + 1) // 2).where(indices, indices - n), n, d, dtype)


def rfftfreq(
    n: int, /, *, d: float = 1.0, dtype: DTypeLike | None = None, device: str | None = None
) -> Tensor:
    """The frequencies of the elements of `rfft`: `[0, 1, ..., n // 2] / (d * n)`, in cycles per
    unit of `d`.

    Args:
        n: the number of points.
        d: the sample spacing.
        dtype: a float dtype; by default float32.
        device: the device of the result.

    Raises:
        OperandError: if there are no points, or the dtype is not a float dtype.

    Example:
        >>> import svod_tensor as sv
        >>> sv.fft.rfftfreq(4).tolist()
        [0.0, 0.25, 0.5]
    """
    return _scale("rfftfreq", _count("rfftfreq", n, n // 2 + 1, device), n, d, dtype)


def fftshift(x: Operand, /, *, axes: Axes = None) -> Tensor:
    """A spectrum with the zero-frequency element shifted to the center.

    Args:
        x: the spectrum.
        axes: one axis, several, or None for all.

    Raises:
        AxisError: if there is no such axis.
        SymbolicShapeError: if a size depends on variables.

    Example:
        >>> import svod_tensor as sv
        >>> sv.fft.fftshift(sv.fft.fftfreq(4)).tolist()
        [-0.5, -0.25, 0.0, 0.25]
    """
    tensor = to_tensor(x)
    shape, positive_axes = (
        concrete_shape("fftshift", tensor.shape),
        normalize_axes("fftshift", axes, tensor.ndim),
    )
    return (
        # For an odd size, the two shifts differ by one: each is the inverse of the other.
        tensor.roll([shape[a] // 2 for a in positive_axes], positive_axes)
        if positive_axes
        else tensor.clone()
    )


def ifftshift(x: Operand, /, *, axes: Axes = None) -> Tensor:
    """The inverse of `fftshift`.

    Args:
        x: a spectrum with the zero-frequency element in the center.
        axes: one axis, several, or None for all.

    Raises:
        AxisError: if there is no such axis.
        SymbolicShapeError: if a size depends on variables.

    Example:
        >>> import svod_tensor as sv
        >>> sv.fft.ifftshift(sv.Tensor([-0.5, -0.25, 0.0, 0.25])).tolist()
        [0.0, 0.25, -0.5, -0.25]
    """
    tensor = to_tensor(x)
    shape, positive_axes = (
        concrete_shape("ifftshift", tensor.shape),
        normalize_axes("ifftshift", axes, tensor.ndim),
    )
    return (
        tensor.roll([-(shape[a] // 2) for a in positive_axes], positive_axes)
        if positive_axes
        else tensor.clone()
    )


def _count(operation: str, n: int, size: int, device: str | None) -> Tensor:
    if operator.index(n) < 1:
        raise OperandError(operation=operation, found=n, expected="at least one point")
    return Tensor.arange(size, device=device)


def _scale(operation: str, indices: Tensor, n: int, d: float, dtype: DTypeLike | None) -> Tensor:
    kind = default_float() if dtype is None else to_dtype(dtype)
    if not kind.is_float:
        raise OperandError(operation=operation, found=kind, expected="a float dtype")
    # As numpy computes them: multiples of one rounded step.
    return indices.cast("float64").mul(1.0 / (n * d)).cast(kind)
