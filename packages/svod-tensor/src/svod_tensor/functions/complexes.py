"""Functions that call the methods of `Tensor` in `svod_tensor.ops.complexes`, as the array API standard has them."""

# Written by tools/functions.py from svod_tensor/ops/standard.py and the methods: change those.

from __future__ import annotations

from typing import TYPE_CHECKING

from svod_tensor.functions._operands import to_tensor
from svod_tensor.ops.argument_names import explained
from svod_tensor.tensor import Tensor

if TYPE_CHECKING:
    from svod_tensor.ops.base import Operand

__all__ = [
    "angle",
    "as_complex",
    "as_real",
    "conj",
    "conjugate",
    "imag",
    "real",
]


@explained
def angle(x: Operand, /) -> Tensor:
    """The angle of each element in radians, from -pi to pi: 0 or pi of a real number. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.angle(Tensor([1j, -1, 1 - 1j])).round(4).numpy()
        array([ 1.5708,  3.1416, -0.7854], dtype=float32)
    """
    return to_tensor(x).angle()


@explained
def as_complex(x: Operand, /) -> Tensor:
    """The complex numbers whose parts lie along the last axis, of size 2, the real one first, as a new tensor.

    Raises:
        OperandError: if the dtype is neither float32 nor float64.
        ShapeError: if the last axis has another size.

    Example:
        >>> import svod_tensor as sv
        >>> sv.as_complex(Tensor([[1.0, 2.0], [3.0, 0.0]])).tolist()
        [(1+2j), (3+0j)]
    """
    return to_tensor(x).as_complex()


@explained
def as_real(x: Operand, /) -> Tensor:
    """The parts of complex numbers along a last axis of size 2, the real one first, as a new tensor.

    Raises:
        OperandError: if the tensor is not complex.

    Example:
        >>> import svod_tensor as sv
        >>> sv.as_real(Tensor([1 + 2j, 3])).tolist()
        [[1.0, 2.0], [3.0, 0.0]]
    """
    return to_tensor(x).as_real()


@explained
def conj(x: Operand, /) -> Tensor:
    """Each element with its imaginary part negated; of a real tensor, its elements.

    Example:
        >>> import svod_tensor as sv
        >>> sv.conj(Tensor([1 + 2j, 3 - 1j])).tolist()
        [(1-2j), (3+1j)]
    """
    return to_tensor(x).conj()


@explained
def conjugate(x: Operand, /) -> Tensor:
    """Each element with its imaginary part negated; of a real tensor, its elements.

    Example:
        >>> import svod_tensor as sv
        >>> sv.conjugate(Tensor([1 + 2j, 3 - 1j])).tolist()
        [(1-2j), (3+1j)]
    """
    return to_tensor(x).conjugate()


@explained
def imag(x: Operand, /) -> Tensor:
    """The imaginary part of each element, as a new tensor; of a real tensor, zeros.

    Example:
        >>> import svod_tensor as sv
        >>> sv.imag(Tensor([1 + 2j, 3])).tolist()
        [2.0, 0.0]
    """
    return to_tensor(x).imag


@explained
def real(x: Operand, /) -> Tensor:
    """The real part of each element, as a new tensor; of a real tensor, its elements.

    Example:
        >>> import svod_tensor as sv
        >>> sv.real(Tensor([1 + 2j, 3])).tolist()
        [1.0, 3.0]
    """
    return to_tensor(x).real
