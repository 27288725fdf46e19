"""The same elements as another dtype, in memory of their own, or as a constant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from svod_dtype import to_dtype
from svod_ir import Op, OperandError, UOp, format_shape
from svod_ir.sizes import divide_size
from svod_tensor._memory_views import view_bytes
from svod_tensor._shapes import broadcast_node
from svod_tensor.cells import deferred
from svod_tensor.cells.tables import captured
from svod_tensor.cells.views import Detach
from svod_tensor.engine import memory_nodes
from svod_tensor.ops.core.base import DTypeLike
from svod_tensor.ops.core.operation import operation

if TYPE_CHECKING:
    from svod_tensor.tensor import Tensor

__all__ = [
    "astype",
    "bitcast",
    "cast",
    "contiguous",
    "copy",
    "detach",
    "is_elsewhere",
]


@operation(test="test_conversion.py::test_casts_agree_with_numpy", is_function=False)
def cast(x: Tensor, /, dtype: DTypeLike) -> Tensor:
    """Each element converted to `dtype`, as a new tensor.

    Floats truncate toward zero on the way to integers; what a float outside the range of the
    integers, or NaN, becomes depends on the device. Integers wrap, and anything but zero is True.

    Raises:
        UnknownDTypeError: if there is no such dtype.

    Example:
        >>> Tensor([1.7, -1.7, 0.0]).cast("int32").tolist()
        [1, -1, 0]
        >>> Tensor([1.7, -1.7, 0.0]).cast(bool).tolist()
        [True, True, False]
    """
    return x.from_uop(x.uop.cast(to_dtype(dtype)))


@operation(
    test="test_conversion.py::test_casts_copy_and_move_where_that_is_asked_for", standard=True
)
def astype(
    x: Tensor, /, dtype: DTypeLike, *, copy: bool = True, device: str | None = None
) -> Tensor:
    """Each element converted to `dtype` by the rules of `cast`.

    Args:
        dtype: of the result.
        copy: False gives `x` itself where it has that dtype, and is on that device.
        device: where the result is; by default where `x` is.

    Raises:
        UnknownDTypeError: if there is no such dtype.

    Example:
        >>> import svod_tensor as sv
        >>> sv.astype(Tensor([1.7, -1.7, 0.0]), "int32").tolist()
        [1, -1, 0]
    """
    kind = to_dtype(dtype)
    is_moved = device is not None and is_elsewhere(x, device)
    if not copy and kind is x.dtype and not is_moved:
        return x
    made = x.cast(kind)
    return made.to(device) if is_moved and device is not None else made


@operation(test="test_conversion.py::test_bitcast_reads_the_same_bits", is_function=False)
def bitcast(x: Tensor, /, dtype: DTypeLike) -> Tensor:
    """The same bits read as `dtype`; where its elements have another size, the last axis changes
    with it.

    Bytes that lie together in a file or in memory are then read where they are.

    Raises:
        OperandError: if the bytes of the last axis make no whole elements, or one of the dtypes is
            bool.

    Example:
        >>> hex(Tensor([1.0]).bitcast("uint32").item())
        '0x3f800000'
        >>> Tensor([1.0, 2.0]).bitcast("uint8").shape
        (8,)
    """
    target = to_dtype(dtype)
    if x.dtype is target:
        return x.clone()
    if x.dtype.is_complex:
        parts = x.as_real()
        return (
            parts.reshape(*parts.shape[:-2], -1).bitcast(target)
            if x.ndim
            else parts.bitcast(target)
        )
    if target.is_complex:
        parts = x.bitcast(target.part)
        if isinstance(parts.shape[-1], int) and parts.shape[-1] % 2 == 0:
            return parts.reshape(*parts.shape[:-1], parts.shape[-1] // 2, 2).as_complex()
    last = divide_size((x.shape or (1,))[-1] * x.itemsize, target.itemsize)
    is_possible = target.itemsize == x.itemsize or (last is not None and x.ndim > 0)
    if target.is_bool != x.dtype.is_bool or not is_possible:
        raise OperandError(
            operation="bitcast",
            found=f"{x.dtype} of shape {format_shape(x.shape)}",
            expected=f"elements whose bytes make whole elements of {target}",
        )
    if target.itemsize == x.itemsize or last is None:
        return x.from_uop(x.uop.bitcast(target))
    shape = (*x.shape[:-1], last)
    if 0 in shape:
        return x.from_uop(broadcast_node(UOp.const(target, 0), shape))
    return x.from_uop(view_bytes(x.uop, target, shape))


@operation(
    test="test_movement.py::test_contiguous_and_clone_compute_into_a_buffer", methods=("clone",)
)
def copy(x: Tensor, /) -> Tensor:
    """A copy: writing to `x` does not change it, nor the other way round.

    Example:
        >>> import svod_tensor as sv
        >>> x = Tensor([1, 2])
        >>> y = sv.copy(x)
        >>> x.assign(0).tolist(), y.tolist()
        ([0, 0], [1, 2])
    """
    result = x.from_uop(x.uop)
    if deferred.has_entries() and not captured and deferred.list_deferred([x.content.cell]):
        deferred.add(result.content.cell)
    return result


@operation(
    test="test_movement.py::test_contiguous_and_clone_compute_into_a_buffer", is_function=False
)
def contiguous(x: Tensor, /) -> Tensor:
    """The same values as a new tensor that is computed into a buffer of its own.

    Example:
        >>> x = Tensor([[1, 2], [3, 4]]).T.contiguous().realize()
        >>> x.tolist(), x.is_realized
        ([[1, 3], [2, 4]], True)
    """
    if x.uop.op is Op.CONTIGUOUS or memory_nodes.is_buffer_identity(x.uop) or x.size == 0:
        return x.clone()
    return x.from_uop(UOp(Op.CONTIGUOUS, x.dtype, (x.uop,)))


@operation(
    test="test_movement.py::test_contiguous_and_clone_compute_into_a_buffer", is_function=False
)
def detach(x: Tensor, /) -> Tensor:
    """The same elements, taken as a constant where gradients are computed: a view.

    Example:
        >>> Tensor([1.0, 2.0]).detach().tolist()
        [1.0, 2.0]
    """
    return x.along(Detach())


def is_elsewhere(x: Tensor, device: str) -> bool:
    """True if the tensor is on another device than `device`."""
    from svod_tensor._storage import check_device

    return x.device != check_device(device)
