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
    "conj",
    "imag",
    "real",
]


@explained
def conj(x: Operand, /) -> Tensor:
    """Each element with its imaginary part negated; of what is real, its elements.

    Example:
        >>> import svod_tensor as sv
        >>> sv.conj(Tensor([1 + 2j, 3 - 1j])).tolist()
        [(1-2j), (3+1j)]
    """
    return to_tensor(x).conj()


@explained
def imag(x: Operand, /) -> Tensor:
    """The imaginary part of each element, as a tensor of its own; of what is real, zeros.

    Example:
        >>> import svod_tensor as sv
        >>> sv.imag(Tensor([1 + 2j, 3])).tolist()
        [2.0, 0.0]
    """
    return to_tensor(x).imag


@explained
def real(x: Operand, /) -> Tensor:
    """The real part of each element, as a tensor of its own; of what is real, its elements.

    Example:
        >>> import svod_tensor as sv
        >>> sv.real(Tensor([1 + 2j, 3])).tolist()
        [1.0, 3.0]
    """
    return to_tensor(x).real
