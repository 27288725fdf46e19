"""The same elements as another dtype, in memory of their own, or as a constant."""

from __future__ import annotations

from typing import Self

from svod_dtype import to_dtype
from svod_ir import Op, OperandError, UOp, format_shape
from svod_ir.sizes import divide_size
from svod_tensor._memory_views import view_bytes
from svod_tensor._shapes import broadcast_node
from svod_tensor.cells.views import Detach
from svod_tensor.engine import memory_nodes
from svod_tensor.ops.base import DTypeLike
from svod_tensor.ops.naming import operations
from svod_tensor.ops.theme import Theme, is_elsewhere

__all__ = ["Conversion"]


@operations
class Conversion(Theme):
    """Casts, contiguous copies, and detaching from derivatives."""

    __slots__ = ()

    def cast(self, dtype: DTypeLike) -> Self:
        """Each element converted to `dtype`, as a new tensor.

        Floats truncate toward zero on the way to integers; what a float outside the range of the integers, or NaN,
        becomes depends on the device. Integers wrap, and anything but zero is True.

        Raises:
            UnknownDTypeError: if there is no such dtype.

        Example:
            >>> Tensor([1.7, -1.7, 0.0]).cast("int32").tolist()
            [1, -1, 0]
            >>> Tensor([1.7, -1.7, 0.0]).cast(bool).tolist()
            [True, True, False]
        """
        return self._make(self.uop.cast(to_dtype(dtype)))

    def astype(self, dtype: DTypeLike, *, copy: bool = True, device: str | None = None) -> Self:
        """Each element converted to `dtype` by the rules of `cast`.

        Args:
            dtype: of the result.
            copy: False gives this tensor itself where it has that dtype, and is on that device.
            device: where the result is; by default where this tensor is.

        Raises:
            UnknownDTypeError: if there is no such dtype.

        Example:
            >>> Tensor([1.7, -1.7, 0.0]).astype("int32").tolist()
            [1, -1, 0]
        """
        kind = to_dtype(dtype)
        is_moved = device is not None and is_elsewhere(self, device)
        if not copy and kind is self.dtype and not is_moved:
            return self
        made = self.cast(kind)
        return made.to(device) if is_moved and device is not None else made

    def bitcast(self, dtype: DTypeLike) -> Self:
        """The same bits read as `dtype`; where its elements have another size, the last axis changes with it.

        Bytes that lie together in a file or in memory are then read where they are.

        Raises:
            OperandError: if the bytes of the last axis make no whole elements, or one of the dtypes is bool.

        Example:
            >>> hex(Tensor([1.0]).bitcast("uint32").item())
            '0x3f800000'
            >>> Tensor([1.0, 2.0]).bitcast("uint8").shape
            (8,)
        """
        target = to_dtype(dtype)
        if self.dtype is target:
            return self.clone()
        if self.dtype.is_complex:
            parts = self.as_real()
            return parts.reshape(*parts.shape[:-2], -1).bitcast(target) if self.ndim else parts.bitcast(target)
        if target.is_complex:
            parts = self.bitcast(target.part)
            if isinstance(parts.shape[-1], int) and parts.shape[-1] % 2 == 0:
                return parts.reshape(*parts.shape[:-1], parts.shape[-1] // 2, 2).as_complex()
        last = divide_size((self.shape or (1,))[-1] * self.itemsize, target.itemsize)
        is_possible = target.itemsize == self.itemsize or (last is not None and self.ndim > 0)
        if target.is_bool != self.dtype.is_bool or not is_possible:
            raise OperandError(
                operation="bitcast", found=f"{self.dtype} of shape {format_shape(self.shape)}",
                expected=f"elements whose bytes make whole elements of {target}",
            )  # fmt: skip
        if target.itemsize == self.itemsize or last is None:
            return self._make(self.uop.bitcast(target))
        shape = (*self.shape[:-1], last)
        if 0 in shape:
            return self._make(broadcast_node(UOp.const(target, 0), shape))
        return self._make(view_bytes(self.uop, target, shape))

    def contiguous(self) -> Self:
        """The same values as a new tensor that is computed into a buffer of its own.

        Example:
            >>> x = Tensor([[1, 2], [3, 4]]).T.contiguous().realize()
            >>> x.tolist(), x.is_realized
            ([[1, 3], [2, 4]], True)
        """
        if self.uop.op is Op.CONTIGUOUS or memory_nodes.is_buffer_identity(self.uop) or self.size == 0:
            return self.clone()
        return self._make(UOp(Op.CONTIGUOUS, self.dtype, (self.uop,)))

    def detach(self) -> Self:
        """The same elements, taken as a constant where gradients are computed: a view.

        Example:
            >>> Tensor([1.0, 2.0]).detach().tolist()
            [1.0, 2.0]
        """
        return self.along(Detach())
