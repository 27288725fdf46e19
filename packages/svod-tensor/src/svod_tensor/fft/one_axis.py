"""Fourier transforms along one axis."""

from __future__ import annotations

from typing import TYPE_CHECKING

from svod_dtype import default_float
from svod_ir import OperandError
from svod_ir.sizes import normalize_size
from svod_tensor._shapes import normalize_axis
from svod_tensor.fft._nodes import (
    Norm,
    from_real,
    get_scale,
    resize,
    to_complex,
    to_real,
    transform,
)
from svod_tensor.ops.core.operands import to_tensor
from svod_tensor.ops.core.rounding import accumulation_dtype
from svod_tensor.tensor import Tensor

if TYPE_CHECKING:
    from svod_ir import SInt
    from svod_tensor.ops.core.base import Operand

__all__ = ["fft", "hfft", "ifft", "ihfft", "irfft", "rfft", "to_floats"]

# The norm of the inverse transform, whose conjugate is a transform of the conjugate.
_CONJUGATE_NORMS = {"backward": "forward", "ortho": "ortho", "forward": "backward"}


def fft(x: Operand, /, *, n: SInt | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """The discrete Fourier transform: `y[k] = sum(x[j] * exp(-2j * pi * j * k / n))`. The result is
    complex64, or complex128 for float64 and complex128 numbers.

    Args:
        x: real or complex numbers.
        n: the number of points: the input is truncated or zero-padded. By default the size of the
            axis.
        axis: the axis to transform.
        norm: `"backward"` for no scale, `"ortho"` for `1 / sqrt(n)`, `"forward"` for `1 / n`.

    Raises:
        AxisError: if there is no such axis.
        ShapeError: if there are no points.

    Example:
        >>> import svod_tensor as sv
        >>> sv.fft.fft(sv.Tensor([1.0, 2.0, 3.0, 4.0])).tolist()
        [(10+0j), (-2+2j), (-2+0j), (-2-2j)]
    """
    return _transform("fft", x, n, axis, norm, is_inverse=False)


def ifft(
    x: Operand, /, *, n: SInt | None = None, axis: int = -1, norm: Norm = "backward"
) -> Tensor:
    """The inverse of `fft`: `y[j] = sum(x[k] * exp(2j * pi * j * k / n)) / n`. The result is
    complex64, or complex128 for float64 and complex128 numbers.

    Args:
        x: real or complex numbers.
        n: the number of points: the input is truncated or zero-padded. By default the size of the
            axis.
        axis: the axis to transform.
        norm: the norm of the forward transform: `"backward"` for the scale `1 / n`, `"ortho"` for
            `1 / sqrt(n)`, `"forward"` for no scale.

    Raises:
        AxisError: if there is no such axis.
        ShapeError: if there are no points.

    Example:
        >>> import svod_tensor as sv
        >>> sv.fft.ifft(sv.Tensor([4.0, 0.0, 0.0, 0.0])).tolist()
        [(1+0j), (1+0j), (1+0j), (1+0j)]
    """
    return _transform("ifft", x, n, axis, norm, is_inverse=True)


def rfft(
    x: Operand, /, *, n: SInt | None = None, axis: int = -1, norm: Norm = "backward"
) -> Tensor:
    """The real-to-complex transform: the first `n // 2 + 1` elements of `fft`. The result is
    complex64, or complex128 for float64 numbers.

    The remaining elements are their conjugates in reverse order.

    Args:
        x: real numbers.
        n: the number of points: the input is truncated or zero-padded. By default the size of the
            axis.
        axis: the axis to transform.
        norm: as for `fft`.

    Raises:
        AxisError: if there is no such axis.
        OperandError: if the numbers are complex.
        ShapeError: if there are no points.

    Example:
        >>> import svod_tensor as sv
        >>> sv.fft.rfft(sv.Tensor([1.0, 2.0, 3.0, 4.0])).tolist()
        [(10+0j), (-2+2j), (-2+0j)]
    """
    return _from_real("rfft", x, n, axis, norm)


def irfft(
    x: Operand, /, *, n: SInt | None = None, axis: int = -1, norm: Norm = "backward"
) -> Tensor:
    """The complex-to-real inverse of `rfft`: `n` real numbers. The result is float32, or float64
    for float64 and complex128 numbers.

    Args:
        x: the first half of a spectrum. Imaginary parts of the first element, and of the last one
            if `n` is even, are ignored.
        n: the size of the result; by default `2 * (m - 1)` for the size m of the axis. An odd `n`
            must be passed.
        axis: the axis to transform.
        norm: as for `ifft`.

    Raises:
        AxisError: if there is no such axis.
        ShapeError: if there are no points.

    Example:
        >>> import svod_tensor as sv
        >>> sv.fft.irfft(sv.fft.rfft(sv.Tensor([1.0, 2.0, 3.0, 4.0]))).tolist()
        [1.0, 2.0, 3.0, 4.0]
    """
    return _to_real("irfft", to_tensor(x), n, axis, norm)


def hfft(
    x: Operand, /, *, n: SInt | None = None, axis: int = -1, norm: Norm = "backward"
) -> Tensor:
    """The transform, which is real, of a signal with Hermitian symmetry. The result is float32, or
    float64 for float64 and complex128 numbers.

    Args:
        x: the first half of the signal; the second half is its conjugate in reverse order.
        n: the size of the result; by default `2 * (m - 1)` for the size m of the axis.
        axis: the axis to transform.
        norm: as for `fft`.

    Raises:
        AxisError: if there is no such axis.
        ShapeError: if there are no points.

    Example:
        >>> import svod_tensor as sv
        >>> sv.fft.hfft(sv.Tensor([1.0, 2.0, 3.0])).tolist()
        [8.0, -2.0, 0.0, -2.0]
    """
    _check_norm("hfft", norm)
    return _to_real("hfft", to_complex(to_tensor(x)).conj(), n, axis, _swap(norm))


def ihfft(
    x: Operand, /, *, n: SInt | None = None, axis: int = -1, norm: Norm = "backward"
) -> Tensor:
    """The inverse of `hfft`: the first `n // 2 + 1` elements. The result is complex64, or
    complex128 for float64 numbers.

    Args:
        x: real numbers.
        n: the number of points: the input is truncated or zero-padded. By default the size of the
            axis.
        axis: the axis to transform.
        norm: as for `ifft`.

    Raises:
        AxisError: if there is no such axis.
        OperandError: if the numbers are complex.
        ShapeError: if there are no points.

    Example:
        >>> import svod_tensor as sv
        >>> sv.fft.ihfft(sv.Tensor([8.0, -2.0, 0.0, -2.0])).real.tolist()
        [1.0, 2.0, 3.0]
    """
    _check_norm("ihfft", norm)
    return _from_real("ihfft", x, n, axis, _swap(norm)).conj()


def to_floats(operation: str, x: Operand) -> Tensor:
    """Real numbers in the dtype of the transform.

    Raises:
        OperandError: if the numbers are complex.
    """
    tensor = to_tensor(x)
    if tensor.dtype.is_complex:
        raise OperandError(
            operation=operation,
            found=tensor.dtype,
            expected="real numbers",
            hint="write x.real, or fft(x)",
        )
    # pocketfft has no routines for floats narrower than float32.
    wide = accumulation_dtype(tensor.dtype) if tensor.dtype.is_float else default_float()
    return tensor if tensor.dtype is wide else tensor.cast(wide)


def _check_norm(operation: str, norm: Norm) -> None:
    get_scale(operation, norm, is_inverse=False)


def _swap(norm: Norm) -> Norm:
    return _CONJUGATE_NORMS[norm]  # pyright: ignore[reportReturnType]


def _transform(
    operation: str, x: Operand, n: SInt | None, axis: int, norm: Norm, *, is_inverse: bool
) -> Tensor:
    scale = get_scale(operation, norm, is_inverse=is_inverse)
    tensor = to_complex(to_tensor(x))
    axis = normalize_axis(operation, axis, tensor.ndim)
    return transform(
        resize(operation, tensor, n, axis), (axis,), is_inverse=is_inverse, scale=scale
    )


def _from_real(operation: str, x: Operand, n: SInt | None, axis: int, norm: Norm) -> Tensor:
    scale = get_scale(operation, norm, is_inverse=False)
    tensor = to_floats(operation, x)
    axis = normalize_axis(operation, axis, tensor.ndim)
    return from_real(resize(operation, tensor, n, axis), axis, scale)


def _to_real(operation: str, x: Tensor, n: SInt | None, axis: int, norm: Norm) -> Tensor:
    scale = get_scale(operation, norm, is_inverse=True)
    tensor = to_complex(x)
    axis = normalize_axis(operation, axis, tensor.ndim)
    n = normalize_size((tensor.shape[axis] - 1) * 2) if n is None else n
    # 0 points for an `n` that is not positive: `resize` then raises the error.
    half = resize(operation, tensor, n // 2 + 1 if not isinstance(n, int) or n > 0 else 0, axis)
    return to_real(half, n, axis, scale)
