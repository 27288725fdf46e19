"""Real and imaginary parts of complex numbers.

The real part of a real tensor is the tensor, the imaginary part 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from svod_dtype import float64
from svod_ir import (
    Op,
    OperandError,
    make_alu,
    make_as_complex,
    make_as_real,
    make_complex,
    make_imag,
    make_real,
)
from svod_tensor._shapes import broadcast_node, broadcast_shapes
from svod_tensor.ops.core.operands import make_result, promote_to_float, to_float
from svod_tensor.ops.core.operation import operation
from svod_tensor.ops.core.reuse import reuse_graph

if TYPE_CHECKING:
    from svod_tensor.ops.core.base import Operand
    from svod_tensor.tensor import Tensor

__all__ = [
    "angle",
    "as_complex",
    "as_real",
    "complex",
    "conj",
    "imag",
    "real",
]


@operation(
    test="test_complex_numbers.py::test_real_and_imaginary_parts_are_split_and_combined",
    standard=True,
    is_property=True,
)
def real(x: Tensor, /) -> Tensor:
    """Real part of each element, as a copy.

    Example:
        >>> import svod_tensor as sv
        >>> sv.real(sv.Tensor([1 + 2j, 3])).tolist()
        [1.0, 3.0]
    """
    return x.from_uop(make_real(x.uop))


@operation(
    test="test_complex_numbers.py::test_real_and_imaginary_parts_are_split_and_combined",
    standard=True,
    is_property=True,
)
def imag(x: Tensor, /) -> Tensor:
    """Imaginary part of each element, as a copy; zeros for a real tensor.

    Example:
        >>> import svod_tensor as sv
        >>> sv.imag(sv.Tensor([1 + 2j, 3])).tolist()
        [2.0, 0.0]
    """
    return x.from_uop(make_imag(x.uop)) if x.dtype.is_complex else x.zeros_like()


@operation(
    test="test_complex_numbers.py::test_real_and_imaginary_parts_are_split_and_combined",
    standard=True,
    aliases=("conjugate",),
)
def conj(x: Tensor, /) -> Tensor:
    """Complex conjugate, element-wise; a copy for a real tensor.

    Example:
        >>> import svod_tensor as sv
        >>> sv.conj(sv.Tensor([1 + 2j, 3 - 1j])).tolist()
        [(1-2j), (3+1j)]
    """
    if not x.dtype.is_complex:
        # A copy, as for complex numbers: the result shares no memory either way.
        return x.clone()
    return x.from_uop(make_complex(make_real(x.uop), make_alu(Op.NEG, make_imag(x.uop))))


@operation(test="test_complex_numbers.py::test_real_and_imaginary_parts_are_split_and_combined")
@reuse_graph
def angle(x: Tensor, /) -> Tensor:
    """Angle (argument) of each element in radians, in [-pi, pi]. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.angle(sv.Tensor([1j, -1, 1 - 1j])).round(4).numpy()
        array([ 1.5708,  3.1416, -0.7854], dtype=float32)
    """
    x = to_float(x)
    return x.imag.atan2(x.real)


@operation(
    test="test_complex_numbers.py::test_real_and_imaginary_parts_are_split_and_combined",
    is_function=False,
)
def complex(x: Tensor, /, imag: Operand) -> Tensor:
    """Construct complex numbers with this tensor as real part. Shapes broadcast, dtypes promote, and
    all dtypes except float64 become float32.

    Args:
        imag: the imaginary parts.

    Raises:
        OperandError: if a part is complex.

    Example:
        >>> from svod_tensor import Tensor
        >>> Tensor([1.0, 2.0]).complex([3.0, -1.0]).tolist()
        [(1+3j), (2-1j)]
    """
    x, y = promote_to_float(x, imag)
    if x.dtype.is_complex:
        raise OperandError(
            operation="complex", found=x.dtype, expected="a real dtype", hint="write x + 1j * y"
        )
    # There are complex dtypes of two float32 and two float64 only.
    dtype = float64 if x.dtype is float64 else x.cast("float32").dtype
    nodes, shape = (x.cast(dtype).uop, y.cast(dtype).uop), broadcast_shapes(x.shape, y.shape)
    return make_result(make_complex(*[broadcast_node(node, shape) for node in nodes]), x, y)


@operation(test="test_complex_numbers.py::test_real_and_imaginary_parts_are_split_and_combined")
def as_real(x: Tensor, /) -> Tensor:
    """Convert complex numbers to pairs (real, imaginary) along a new last axis of size 2, as a copy.

    Raises:
        OperandError: if the tensor is not complex.

    Example:
        >>> import svod_tensor as sv
        >>> sv.as_real(sv.Tensor([1 + 2j, 3])).tolist()
        [[1.0, 2.0], [3.0, 0.0]]
    """
    if not x.dtype.is_complex:
        raise OperandError(operation="as_real", found=x.dtype, expected="a complex dtype")
    return x.from_uop(make_as_real(x.uop))


@operation(test="test_complex_numbers.py::test_real_and_imaginary_parts_are_split_and_combined")
def as_complex(x: Tensor, /) -> Tensor:
    """Convert pairs (real, imaginary) along the last axis, of size 2, to complex64 or complex128
    numbers, as a copy.

    Raises:
        OperandError: if the dtype is neither float32 nor float64.
        ShapeError: if the size of the last axis is not 2.

    Example:
        >>> import svod_tensor as sv
        >>> sv.as_complex(sv.Tensor([[1.0, 2.0], [3.0, 0.0]])).tolist()
        [(1+2j), (3+0j)]
    """
    return x.from_uop(make_as_complex(x.uop))
