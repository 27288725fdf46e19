"""Transforms along one axis."""

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

_OTHER = {"backward": "forward", "ortho": "ortho", "forward": "backward"}


def fft(x: Operand, /, *, n: SInt | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """The discrete Fourier transform: `y[k] = sum(x[j] * exp(-2j * pi * j * k / n))`.

    Args:
        x: numbers; real ones become complex.
        n: how many points; further elements are cut off, and missing ones are 0. By default all
            along the axis.
        axis: along which.
        norm: `"backward"` for no scale, `"ortho"` for `1 / sqrt(n)`, `"forward"` for `1 / n`.

    Raises:
        AxisError: if there is no such axis.
        ShapeError: if there are no points.

    Example:
        >>> import svod_tensor as sv
        >>> sv.fft.fft(Tensor([1.0, 2.0, 3.0, 4.0])).tolist()
        [(10+0j), (-2+2j), (-2+0j), (-2-2j)]
    """
    return _transform("fft", x, n, axis, norm, is_inverse=False)


def ifft(
    x: Operand, /, *, n: SInt | None = None, axis: int = -1, norm: Norm = "backward"
) -> Tensor:
    """The inverse of `fft`: `y[j] = sum(x[k] * exp(2j * pi * j * k / n)) / n`.

    Args:
        x: numbers; real ones become complex.
        n: how many points; further elements are cut off, and missing ones are 0. By default all
            along the axis.
        axis: along which.
        norm: that of the transform to undo: `"backward"` for the scale `1 / n`, `"ortho"` for `1 /
            sqrt(n)`, `"forward"` for none.

    Raises:
        AxisError: if there is no such axis.
        ShapeError: if there are no points.

    Example:
        >>> import svod_tensor as sv
        >>> sv.fft.ifft(Tensor([4.0, 0.0, 0.0, 0.0])).tolist()
        [(1+0j), (1+0j), (1+0j), (1+0j)]
    """
    return _transform("ifft", x, n, axis, norm, is_inverse=True)


def rfft(
    x: Operand, /, *, n: SInt | None = None, axis: int = -1, norm: Norm = "backward"
) -> Tensor:
    """The first `n // 2 + 1` elements of `fft` of real numbers; the others are these, conjugated,
    in reverse.

    Args:
        x: real numbers.
        n: how many points; further elements are cut off, and missing ones are 0. By default all
            along the axis.
        axis: along which.
        norm: as for `fft`.

    Raises:
        AxisError: if there is no such axis.
        OperandError: if the numbers are complex.
        ShapeError: if there are no points.

    Example:
        >>> import svod_tensor as sv
        >>> sv.fft.rfft(Tensor([1.0, 2.0, 3.0, 4.0])).tolist()
        [(10+0j), (-2+2j), (-2+0j)]
    """
    return _from_real("rfft", x, n, axis, norm)


def irfft(
    x: Operand, /, *, n: SInt | None = None, axis: int = -1, norm: Norm = "backward"
) -> Tensor:
    """The inverse of `rfft`: `n` real numbers.

    Args:
        x: the first half of a transform. Imaginary parts of the first element, and of the last of
            an even number, count as 0.
        n: how many numbers; by default twice the elements along the axis, less two. An odd number
            must be given.
        axis: along which.
        norm: as for `ifft`.

    Raises:
        AxisError: if there is no such axis.
        ShapeError: if there are no points.

    Example:
        >>> import svod_tensor as sv
        >>> sv.fft.irfft(sv.fft.rfft(Tensor([1.0, 2.0, 3.0, 4.0]))).tolist()
        [1.0, 2.0, 3.0, 4.0]
    """
    return _to_real("irfft", to_tensor(x), n, axis, norm)


def hfft(
    x: Operand, /, *, n: SInt | None = None, axis: int = -1, norm: Norm = "backward"
) -> Tensor:
    """The transform, which is real, of numbers whose second half is the first one, conjugated, in
    reverse.

    Args:
        x: the first half.
        n: how many numbers the result has; by default twice the elements along the axis, less two.
        axis: along which.
        norm: as for `fft`.

    Raises:
        AxisError: if there is no such axis.
        ShapeError: if there are no points.

    Example:
        >>> import svod_tensor as sv
        >>> sv.fft.hfft(Tensor([1.0, 2.0, 3.0])).tolist()
        [8.0, -2.0, 0.0, -2.0]
    """
    _check_norm("hfft", norm)
    return _to_real("hfft", to_complex(to_tensor(x)).conj(), n, axis, _swap(norm))


def ihfft(
    x: Operand, /, *, n: SInt | None = None, axis: int = -1, norm: Norm = "backward"
) -> Tensor:
    """The inverse of `hfft`: the first `n // 2 + 1` elements.

    Args:
        x: real numbers.
        n: how many points; further elements are cut off, and missing ones are 0. By default all
            along the axis.
        axis: along which.
        norm: as for `ifft`.

    Raises:
        AxisError: if there is no such axis.
        OperandError: if the numbers are complex.
        ShapeError: if there are no points.

    Example:
        >>> import svod_tensor as sv
        >>> sv.fft.ihfft(Tensor([8.0, -2.0, 0.0, -2.0])).real.tolist()
        [1.0, 2.0, 3.0]
    """
    _check_norm("ihfft", norm)
    return _from_real("ihfft", x, n, axis, _swap(norm)).conj()


def to_floats(operation: str, x: Operand) -> Tensor:
    """Real numbers in the precision that they are transformed in.

    Raises:
        OperandError: if they are complex.
    """
    given = to_tensor(x)
    if given.dtype.is_complex:
        raise OperandError(
            operation=operation,
            found=given.dtype,
            expected="real numbers",
            hint="write x.real, or fft(x)",
        )
    wide = accumulation_dtype(given.dtype) if given.dtype.is_float else default_float()
    return given if given.dtype is wide else given.cast(wide)


def _check_norm(operation: str, norm: Norm) -> None:
    get_scale(operation, norm, is_inverse=False)


def _swap(norm: Norm) -> Norm:
    return _OTHER[norm]  # pyright: ignore[reportReturnType]


def _transform(
    operation: str, x: Operand, n: SInt | None, axis: int, norm: Norm, *, is_inverse: bool
) -> Tensor:
    scale = get_scale(operation, norm, is_inverse=is_inverse)
    given = to_complex(to_tensor(x))
    axis = normalize_axis(operation, axis, given.ndim)
    return transform(resize(operation, given, n, axis), (axis,), is_inverse=is_inverse, scale=scale)


def _from_real(operation: str, x: Operand, n: SInt | None, axis: int, norm: Norm) -> Tensor:
    scale = get_scale(operation, norm, is_inverse=False)
    given = to_floats(operation, x)
    axis = normalize_axis(operation, axis, given.ndim)
    return from_real(resize(operation, given, n, axis), axis, scale)


def _to_real(operation: str, x: Tensor, n: SInt | None, axis: int, norm: Norm) -> Tensor:
    scale = get_scale(operation, norm, is_inverse=True)
    given = to_complex(x)
    axis = normalize_axis(operation, axis, given.ndim)
    n = normalize_size((given.shape[axis] - 1) * 2) if n is None else n
    half = resize(operation, given, n // 2 + 1 if not isinstance(n, int) or n > 0 else 0, axis)
    return to_real(half, n, axis, scale)
