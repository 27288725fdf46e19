"""Complex numbers and their parts. Of a real tensor the real part is it itself, and the imaginary one 0."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from svod_dtype import float64
from svod_ir import Op, OperandError, make_alu, make_as_complex, make_as_real, make_complex, make_imag, make_real
from svod_tensor._shapes import broadcast_node, broadcast_shapes
from svod_tensor.ops.naming import operations
from svod_tensor.ops.theme import Theme

if TYPE_CHECKING:
    from svod_tensor.ops.base import Operand

__all__ = ["Complexes"]


@operations
class Complexes(Theme):
    """Parts of complex numbers, and complex numbers from parts."""

    __slots__ = ()

    @property
    def real(self) -> Self:
        """The real part of each element, as a new tensor; of a real tensor, its elements.

        Example:
            >>> Tensor([1 + 2j, 3]).real.tolist()
            [1.0, 3.0]
        """
        return self._make(make_real(self.uop))

    @property
    def imag(self) -> Self:
        """The imaginary part of each element, as a new tensor; of a real tensor, zeros.

        Example:
            >>> Tensor([1 + 2j, 3]).imag.tolist()
            [2.0, 0.0]
        """
        return self._make(make_imag(self.uop)) if self.dtype.is_complex else self.zeros_like()

    def conj(self) -> Self:
        """Each element with its imaginary part negated; of a real tensor, its elements.

        Example:
            >>> Tensor([1 + 2j, 3 - 1j]).conj().tolist()
            [(1-2j), (3+1j)]
        """
        if not self.dtype.is_complex:
            return self.clone()
        return self._make(make_complex(make_real(self.uop), make_alu(Op.NEG, make_imag(self.uop))))

    conjugate = conj

    def angle(self) -> Self:
        """The angle of each element in radians, from -pi to pi: 0 or pi of a real number. Integers become float32.

        Example:
            >>> Tensor([1j, -1, 1 - 1j]).angle().round(4).numpy()
            array([ 1.5708,  3.1416, -0.7854], dtype=float32)
        """
        x = self._to_float()
        return x.imag.atan2(x.real)

    def complex(self, imag: Operand) -> Self:
        """Complex numbers with these elements as their real parts. Shapes broadcast, dtypes promote, and all but float64 become float32.

        Args:
            imag: the imaginary parts.

        Raises:
            OperandError: if a part is complex itself.

        Example:
            >>> Tensor([1.0, 2.0]).complex([3.0, -1.0]).tolist()
            [(1+3j), (2-1j)]
        """
        x, y = self._float_pair(imag)
        if x.dtype.is_complex:
            raise OperandError(operation="complex", found=x.dtype, expected="real numbers", hint="write x + 1j * y")
        dtype = float64 if x.dtype is float64 else x.cast("float32").dtype
        parts, shape = (x.cast(dtype).uop, y.cast(dtype).uop), broadcast_shapes(x.shape, y.shape)
        return self._make(make_complex(*[broadcast_node(part, shape) for part in parts]), y)

    def as_real(self) -> Self:
        """The parts of complex numbers along a last axis of size 2, the real one first, as a new tensor.

        Raises:
            OperandError: if the tensor is not complex.

        Example:
            >>> Tensor([1 + 2j, 3]).as_real().tolist()
            [[1.0, 2.0], [3.0, 0.0]]
        """
        if not self.dtype.is_complex:
            raise OperandError(operation="as_real", found=self.dtype, expected="complex numbers")
        return self._make(make_as_real(self.uop))

    def as_complex(self) -> Self:
        """The complex numbers whose parts lie along the last axis, of size 2, the real one first, as a new tensor.

        Raises:
            OperandError: if the dtype is neither float32 nor float64.
            ShapeError: if the last axis has another size.

        Example:
            >>> Tensor([[1.0, 2.0], [3.0, 0.0]]).as_complex().tolist()
            [(1+2j), (3+0j)]
        """
        return self._make(make_as_complex(self.uop))
