"""Dtype conversion, copies, and detaching from derivatives."""

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
    """Cast the elements to `dtype`, as a copy.

    Floats are truncated toward zero to integers; the result for floats out of range and NaN depends
    on the device. Integers wrap, and nonzero values become True.

    Raises:
        UnknownDTypeError: if the dtype is unknown.

    Example:
        >>> from svod_tensor import Tensor
        >>> Tensor([1.7, -1.7, 0.0]).cast("int32").tolist()
        [1, -1, 0]
        >>> Tensor([1.7, -1.7, 0.0]).cast(bool).tolist()
        [True, True, False]
    """
    return x.from_uop(x.uop.cast(to_dtype(dtype)))


@operation(test="test_conversion.py::test_astype_copies_and_transfers_on_request", standard=True)
def astype(
    x: Tensor, /, dtype: DTypeLike, *, copy: bool = True, device: str | None = None
) -> Tensor:
    """Cast the elements to `dtype` by the rules of `cast`.

    Args:
        dtype: dtype of the result.
        copy: if False, `x` itself is returned if it has that dtype and device.
        device: device of the result; by default the device of `x`.

    Raises:
        UnknownDTypeError: if the dtype is unknown.

    Example:
        >>> import svod_tensor as sv
        >>> sv.astype(sv.Tensor([1.7, -1.7, 0.0]), "int32").tolist()
        [1, -1, 0]
    """
    kind = to_dtype(dtype)
    is_moved = device is not None and is_elsewhere(x, device)
    if not copy and kind is x.dtype and not is_moved:
        return x
    result = x.cast(kind)
    return result.to(device) if is_moved and device is not None else result


@operation(test="test_conversion.py::test_bitcast_reads_the_same_bits", is_function=False)
def bitcast(x: Tensor, /, dtype: DTypeLike) -> Tensor:
    """Reinterpret the bits as `dtype`; the last axis is scaled if the item size differs.

    Contiguous bytes in a file or in memory are reinterpreted without a copy.

    Raises:
        OperandError: if the bytes of the last axis are not divisible by the item size, or one of the
            dtypes is bool.

    Example:
        >>> from svod_tensor import Tensor
        >>> hex(Tensor([1.0]).bitcast("uint32").item())
        '0x3f800000'
        >>> Tensor([1.0, 2.0]).bitcast("uint8").shape
        (8,)
    """
    target = to_dtype(dtype)
    if x.dtype is target:
        return x.clone()
    # Memory is never complex, so the bits of a number are in its two parts.
    if x.dtype.is_complex:
        pairs = x.as_real()
        return (
            pairs.reshape(*pairs.shape[:-2], -1).bitcast(target)
            if x.ndim
            else pairs.bitcast(target)
        )
    if target.is_complex:
        pairs = x.bitcast(target.part)
        if isinstance(pairs.shape[-1], int) and pairs.shape[-1] % 2 == 0:
            return pairs.reshape(*pairs.shape[:-1], pairs.shape[-1] // 2, 2).as_complex()
    last_size = divide_size((x.shape or (1,))[-1] * x.itemsize, target.itemsize)
    is_possible = target.itemsize == x.itemsize or (last_size is not None and x.ndim > 0)
    # Kernels rely on a bool being the byte 0 or 1, which other bits need not be.
    if target.is_bool != x.dtype.is_bool or not is_possible:
        raise OperandError(
            operation="bitcast",
            found=f"{x.dtype} of shape {format_shape(x.shape)}",
            expected=f"a last axis whose size in bytes is divisible by the item size of {target}",
        )
    if target.itemsize == x.itemsize or last_size is None:
        return x.from_uop(x.uop.bitcast(target))
    shape = (*x.shape[:-1], last_size)
    # There is no memory to view.
    if 0 in shape:
        return x.from_uop(broadcast_node(UOp.const(target, 0), shape))
    return x.from_uop(view_bytes(x.uop, target, shape))


@operation(
    test="test_movement.py::test_contiguous_and_clone_compute_into_a_buffer", methods=("clone",)
)
def copy(x: Tensor, /) -> Tensor:
    """Return a copy; writes to `x` do not change it, and vice versa.

    Example:
        >>> import svod_tensor as sv
        >>> x = sv.Tensor([1, 2])
        >>> y = sv.copy(x)
        >>> x.assign(0).tolist(), y.tolist()
        ([0, 0], [1, 2])
    """
    # A new cell on the same node: memory is copied only if either tensor is written while it is
    # shared.
    result = x.from_uop(x.uop)
    if deferred.has_entries() and not captured and deferred.list_deferred([x.content.cell]):
        deferred.add(result.content.cell)
    return result


@operation(
    test="test_movement.py::test_contiguous_and_clone_compute_into_a_buffer", is_function=False
)
def contiguous(x: Tensor, /) -> Tensor:
    """Return the values as a tensor that is realized into its own contiguous buffer.

    Example:
        >>> from svod_tensor import Tensor
        >>> x = Tensor([[1, 2], [3, 4]]).T.contiguous().realize()
        >>> x.tolist(), x.is_realized
        ([[1, 3], [2, 4]], True)
    """
    # Contiguous already, or about to be stored so.
    if x.uop.op is Op.CONTIGUOUS or memory_nodes.is_buffer_identity(x.uop) or x.size == 0:
        return x.clone()
    return x.from_uop(UOp(Op.CONTIGUOUS, x.dtype, (x.uop,)))


@operation(
    test="test_movement.py::test_contiguous_and_clone_compute_into_a_buffer", is_function=False
)
def detach(x: Tensor, /) -> Tensor:
    """Return a view that is a constant for derivatives.

    Example:
        >>> from svod_tensor import Tensor
        >>> Tensor([1.0, 2.0]).detach().tolist()
        [1.0, 2.0]
    """
    return x.along(Detach())


def is_elsewhere(x: Tensor, device: str) -> bool:
    """True if the tensor is on another device than `device`."""
    from svod_tensor._storage import check_device

    return x.device != check_device(device)
