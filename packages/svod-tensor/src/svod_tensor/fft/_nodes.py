"""Fourier transforms as nodes of the graph, with their derivatives and checks of their arguments.

The derivative of a transform is its adjoint: the inverse transform with the same scale.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

from svod_dtype import complex64, complex128, default_float, float64, promote_types
from svod_ir import OperandError, ShapeError, SInt
from svod_ir.sizes import bounds_of_size, is_known_at_most
from svod_tensor.host_functions.derivatives import matrix_rule, with_matrix_rule
from svod_tensor.host_functions.libraries import FFT
from svod_tensor.host_functions.nodes import call_host
from svod_tensor.ops.core.operands import slice_axis

if TYPE_CHECKING:
    from svod_tensor.tensor import Tensor

__all__ = ["Norm", "from_real", "get_scale", "resize", "to_complex", "to_real", "transform"]

Cotangents = Sequence["Tensor | None"]
Norm: TypeAlias = Literal["backward", "ortho", "forward"]

_UNSCALED, _BY_COUNT, _BY_ROOT = range(3)


def get_scale(operation: str, norm: Norm, *, is_inverse: bool) -> int:
    """The scale of a transform: none, the number of points, or its square root.

    Raises:
        OperandError: if the norm is unknown.
    """
    if norm not in ("backward", "ortho", "forward"):
        raise OperandError(
            operation=operation,
            found=repr(norm),
            expected='"backward", "ortho" or "forward" as norm',
        )
    if norm == "ortho":
        return _BY_ROOT
    # numpy's names say which direction divides by the number of points.
    return _BY_COUNT if is_inverse == (norm == "backward") else _UNSCALED


def to_complex(x: Tensor) -> Tensor:
    """`x` as complex numbers, in the dtype of its transform."""
    kind = x.dtype if x.dtype.is_inexact else default_float()
    dtype = (
        # pocketfft computes narrow floats in single precision.
        complex128 if promote_types(kind, complex64) is complex128 or kind is float64 else complex64
    )
    return x if x.dtype is dtype else x.cast(dtype)


def resize(operation: str, x: Tensor, n: SInt | None, axis: int) -> Tensor:
    """`x` truncated or zero-padded to `n` elements along an axis.

    Raises:
        ShapeError: if there are no points to transform.
    """
    size = x.shape[axis]
    n = size if n is None else n
    if bounds_of_size(n)[1] < 1:
        raise ShapeError(
            operation=operation,
            shape=x.shape,
            problem=f"invalid number of data points ({n}) along axis {axis}",
        )
    if n == size:
        return x
    # For symbolic sizes, padding must be known not to be negative.
    if is_known_at_most(n, size):
        return slice_axis(x, axis, 0, n)
    return x.pad(*((0, n - size) if a == axis else (0, 0) for a in range(x.ndim)))


def transform(x: Tensor, axes: Sequence[int], *, is_inverse: bool, scale: int) -> Tensor:
    """The forward or inverse transform of complex numbers along axes."""
    scalars = [is_inverse, scale, *axes]
    results = call_host(f"{FFT}transform", [x], [(x.shape, x.dtype)], scalars)
    return with_matrix_rule(_transform_gradient, results, (x,), tuple(axes), is_inverse, scale)[0]


@matrix_rule("fft")
def _transform_gradient(
    cotangents: Cotangents,
    _: object,
    __: object,
    axes: tuple[int, ...],
    is_inverse: bool,
    scale: int,
) -> tuple[Tensor | None]:
    (cotangent,) = cotangents
    return (
        None
        if cotangent is None
        else transform(cotangent, axes, is_inverse=not is_inverse, scale=scale),
    )


def from_real(x: Tensor, axis: int, scale: int) -> Tensor:
    """The real-to-complex transform: the first half of the spectrum."""
    dtype = complex128 if x.dtype is float64 else complex64
    shape = tuple(s // 2 + 1 if a == axis else s for a, s in enumerate(x.shape))
    results = call_host(f"{FFT}from_real", [x], [(shape, dtype)], [scale, axis])
    return with_matrix_rule(_from_real_gradient, results, (x,), axis, scale)[0]


@matrix_rule("rfft")
def _from_real_gradient(
    cotangents: Cotangents, _: object, operands: Sequence[Tensor], axis: int, scale: int
) -> tuple[Tensor | None]:
    (cotangent,), (x,) = cotangents, operands
    if cotangent is None:
        return (None,)
    # The elements that rfft leaves out have no cotangent.
    padded = resize("rfft", cotangent, x.shape[axis], axis)
    return (transform(padded, (axis,), is_inverse=True, scale=scale).real,)


def to_real(x: Tensor, n: SInt, axis: int, scale: int) -> Tensor:
    """The complex-to-real inverse transform of a half spectrum to `n` real numbers."""
    shape = tuple(n if a == axis else s for a, s in enumerate(x.shape))
    results = call_host(f"{FFT}to_real", [x], [(shape, x.dtype.part)], [scale, axis])
    return with_matrix_rule(_to_real_gradient, results, (x,), axis, scale)[0]


@matrix_rule("irfft")
def _to_real_gradient(
    cotangents: Cotangents,
    values: Sequence[Tensor],
    operands: Sequence[Tensor],
    axis: int,
    scale: int,
) -> tuple[Tensor | None]:
    """Cotangent of the half spectrum. An element with a conjugate in the other half counts twice."""
    (cotangent,), (value,), (x,) = cotangents, values, operands
    if cotangent is None:
        return (None,)
    indices = x.arange(x.shape[axis])
    n = value.shape[axis]
    is_unpaired = indices.eq(0).logical_or(
        indices.mul(2).eq(n if isinstance(n, int) else x.from_uop(n.cast(indices.dtype)))
    )
    factors = is_unpaired.where(1.0, 2.0).cast(cotangent.dtype)
    shape = [x.shape[axis] if a == axis else 1 for a in range(x.ndim)]
    # The second half of the spectrum is the conjugate of the first one, and so is its cotangent.
    return (from_real(cotangent, axis, scale).mul(factors.reshape(*shape)),)
