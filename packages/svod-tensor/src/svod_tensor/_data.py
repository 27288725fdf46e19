"""Conversion of Python values and numpy arrays to nodes: single numbers become constants, other
data buffers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Final, Protocol, SupportsFloat, TypeAlias, cast

from svod_dtype import (
    DType,
    bool_,
    default_complex,
    default_float,
    int32,
    int64,
    result_type,
    to_dtype,
    uint8,
    uint64,
)
from svod_ir import (
    Op,
    OperandError,
    SInt,
    UOp,
    make_as_complex,
    make_concat,
    make_empty,
    make_reshape,
)
from svod_ir.placement import check_devices, is_file
from svod_ir.sizes import max_size
from svod_tensor._variable import explain_unbound
from svod_tensor.engine import memory_nodes
from svod_tensor.errors import DataError, IntegerOverflowError, NonFiniteCastError, RaggedDataError
from svod_tensor.options import DEFAULT_DEVICE, HOST_DEVICE

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from typing_extensions import TypeIs

    from svod_device import Buffer

    Array: TypeAlias = NDArray[np.generic]

__all__ = [
    "Scalar",
    "check_finite",
    "check_scalar",
    "copy_to_device",
    "default_int_dtype",
    "make_array_node",
    "make_buffer_node",
    "make_constant",
    "make_node",
    "place_by_default",
]

Scalar: TypeAlias = bool | int | float | complex

_PYTHON_NUMBERS: Final = frozenset({bool, int, float, complex})


def make_node(data: object, dtype: DType | None) -> UOp:
    """The node for `data`: a constant, which has no device, or a buffer in host memory."""
    match data:
        case bool() | int() | float() | complex():
            return make_constant(data, dtype or _scalar_dtype(data))
        case UOp():
            # Expressions of variables have the dtype index, which tensors cannot have.
            node = data if data.dtype.kind != "index" else data.cast(int64)
            return node if dtype is None else node.cast(dtype)
        case bytes():
            import numpy as np

            return _from_array(np.frombuffer(data, np.uint8), dtype or uint8)
        case _:
            return _from_nested(data, dtype) if _is_list(data) else _from_foreign(data, dtype)


def make_constant(value: Scalar, dtype: DType) -> UOp:
    """The 0-d constant `value` of `dtype`.

    Raises:
        IntegerOverflowError: if an integer does not fit an integer dtype.
        NonFiniteCastError: if NaN or an infinity should become an integer.
    """
    check_scalar(value, dtype)
    if dtype.is_bool:
        return UOp.const(dtype, bool(value))
    if isinstance(value, complex) and not dtype.is_complex:
        raise OperandError(
            operation="tensor",
            found=value,
            expected=f"a number without an imaginary part, to become {dtype}",
            hint="give its real part, or a complex dtype",
        )
    return UOp.const(dtype, value)


def check_scalar(value: Scalar, dtype: DType) -> None:
    """Raise if `dtype` cannot represent `value`."""
    if not dtype.is_int:
        return
    if isinstance(value, complex):
        return
    if isinstance(value, float):
        if not math.isfinite(value):
            raise NonFiniteCastError(value=value, dtype=dtype)
        value = int(value)
    if not dtype.min <= value <= dtype.max:
        raise IntegerOverflowError(value=int(value), dtype=dtype)


def make_buffer_node(buffer: Buffer, dtype: DType, shape: tuple[int, ...], device: str) -> UOp:
    """A node for existing storage. The storage of complex numbers holds real and imaginary parts."""
    if dtype.is_complex:
        return make_as_complex(make_buffer_node(buffer, dtype.part, (*shape, 2), device))
    memory = memory_nodes.make_memory(dtype, math.prod(shape), device, buffer)
    return memory if len(shape) == 1 else UOp(Op.RESHAPE, dtype, (memory,), shape)


def make_array_node(array: Array, *, may_share: bool, dtype: DType | None = None) -> UOp:
    """A node for the elements of a numpy array, on the CPU; with `dtype` as the meaning of their
    bits.
    """
    from svod_tensor import _storage as storage

    dtype = to_dtype(array.dtype) if dtype is None else dtype
    shape = tuple(int(s) for s in array.shape)
    if 0 in shape:
        return make_empty(dtype, shape)
    if dtype.is_complex:
        return make_as_complex(make_array_node(_view_parts(array, dtype), may_share=may_share))
    return make_buffer_node(
        storage.make_host_buffer(array, dtype, may_share=may_share), dtype, shape, HOST_DEVICE
    )


def _view_parts(array: Array, dtype: DType) -> Array:
    """Real and imaginary parts along a new last axis: a view if the array is contiguous."""
    import numpy as np

    array = array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
    # numpy changes the item size only of contiguous arrays.
    return np.ascontiguousarray(array).view(dtype.part.numpy).reshape((*array.shape, 2))


def place_by_default(node: UOp, data: object = None) -> UOp:
    """`node`, made from the caller's data, on the default device; a list of tensors stays on their
    device.
    """
    if DEFAULT_DEVICE == HOST_DEVICE or node.placement != HOST_DEVICE:
        return node
    has_tensors = _is_list(data) and any(map(_is_tensor, _flatten(data)[1]))
    return node if has_tensors else copy_to_device(node, DEFAULT_DEVICE)


def copy_to_device(node: UOp, device: str) -> UOp:
    """`node` on a device, through a COPY if it is on another one.

    A COPY of a node without a device moves nothing; it selects the device that computes the node.

    Raises:
        DeviceNameError: if `device` is not a device name.
        UnknownDeviceError: if no plugin provides such a device.
        ReadOnlyError: if the device is read-only.
    """
    from svod_tensor import _storage as storage

    name = storage.check_device(device)
    placement = node.placement
    if placement == name or (placement is None and name == DEFAULT_DEVICE):
        return node
    if (
        placement is None
        and not storage.reads_files(name)
        and any(map(_is_on_disk, node.iter_ops(Op.BUFFER)))
    ):
        # Compute on a device that can read the file, so that only the result is copied.
        node = UOp(Op.COPY, node.dtype, (node,), DEFAULT_DEVICE)
    return UOp(Op.COPY, node.dtype, (node,), name)


def _is_on_disk(memory: UOp) -> bool:
    return is_file(memory.placement)


def _scalar_dtype(value: Scalar) -> DType:
    if type(value) not in _PYTHON_NUMBERS:
        # numpy's float64 and complex128 are subclasses of Python's numbers, but have a dtype.
        own: object = getattr(value, "dtype", None)
        if own is not None:
            return to_dtype(own)
    if isinstance(value, bool):
        return bool_
    if isinstance(value, int):
        return default_int_dtype(value, value)
    return default_float() if isinstance(value, float) else default_complex()


def default_int_dtype(low: int, high: int) -> DType:
    """The default dtype of integers from `low` to `high`: int32, int64, then uint64."""
    for dtype in (int32, int64, uint64):
        if dtype.min <= low and high <= dtype.max:
            return dtype
    worst = high if high > uint64.max or low >= 0 else low
    raise IntegerOverflowError(value=worst, dtype="int64 or uint64")


def _from_nested(data: Sequence[object], dtype: DType | None) -> UOp:
    shape, leaves = _flatten(data)
    if not {bool, int, float, complex}.issuperset(map(type, leaves)):
        return _from_mixed(leaves, shape, dtype)
    numbers = cast("list[Scalar]", leaves)
    array = _to_array(numbers, dtype or _common_dtype(numbers))
    return make_array_node(array.reshape(shape), may_share=False)


def _common_dtype(numbers: Sequence[Scalar]) -> DType:
    kinds = set(map(type, numbers))
    if complex in kinds:
        return default_complex()
    if float in kinds or not kinds:
        return default_float()
    integers = [int(value) for value in numbers if not isinstance(value, complex)]
    return bool_ if kinds == {bool} else default_int_dtype(min(integers), max(integers))


def _to_array(numbers: Sequence[Scalar], dtype: DType) -> Array:
    import numpy as np

    if dtype.is_bool:
        return np.array([bool(n) for n in numbers], np.bool_)
    if not dtype.is_complex and any(isinstance(value, complex) for value in numbers):
        raise OperandError(
            operation="tensor", found="complex numbers", expected=f"numbers that {dtype} holds"
        )
    if dtype.is_inexact:
        with np.errstate(all="ignore"):
            # An overflow becomes an infinity, as in a cast on a device; numpy would warn.
            return np.array(numbers, dtype.numpy)
    reals = [value for value in numbers if not isinstance(value, complex)]
    # If all numbers are integers, the extremes are enough.
    for value in (
        reals if float in set(map(type, reals)) else (min(reals), max(reals)) if reals else ()
    ):
        check_scalar(value, dtype)
    return np.array([int(n) for n in reals], dtype.numpy)


def _flatten(data: object) -> tuple[tuple[int, ...], list[object]]:
    """The shape of nested lists, and their leaves in row-major order."""
    level: list[object] = [data]
    shape: list[int] = []
    # Level by level, which visits each number once and needs no recursion.
    while level and _is_list(level[0]):
        lengths = {len(e) if _is_list(e) else -1 for e in level}
        if len(lengths) > 1:
            raise RaggedDataError(depth=len(shape), lengths=sorted(lengths))
        shape.append(lengths.pop())
        level = [leaf for e in level if _is_list(e) for leaf in e]
    if any(issubclass(kind, (list, tuple)) for kind in set(map(type, level))):
        first = next(element for element in level if _is_list(element))
        raise RaggedDataError(depth=len(shape), lengths=(-1, len(first)))
    return tuple(shape), level


def _is_list(value: object) -> TypeIs[list[object] | tuple[object, ...]]:
    return isinstance(value, (list, tuple))


def _from_mixed(leaves: Sequence[object], shape: tuple[int, ...], dtype: DType | None) -> UOp:
    """Convert lists of numpy values and tensors; anything else in a list is an error."""
    import numpy as np

    for leaf in leaves:
        if not isinstance(
            leaf, (bool, int, float, complex, np.generic, np.ndarray)
        ) and not _is_tensor(leaf):
            raise DataError(found=leaf)
    inner: set[tuple[SInt, ...]] = {getattr(leaf, "shape", ()) for leaf in leaves}
    if len(inner) > 1:
        levels = [{max_size(n) for n in level} for level in zip_longest(*inner, fillvalue=-1)]
        depth, lengths = next((d, level) for d, level in enumerate(levels) if len(level) > 1)
        raise RaggedDataError(depth=len(shape) + depth, lengths=sorted(lengths))
    if any(map(_is_tensor, leaves)):
        return _from_tensors(leaves, shape, dtype)
    array: Array = np.array(leaves)
    return _from_array(array.reshape(shape + array.shape[1:]), dtype)


def _from_tensors(leaves: Sequence[object], shape: tuple[int, ...], dtype: DType | None) -> UOp:
    """Convert lists of tensors of one shape and numbers, which are weakly typed as in arithmetic."""
    leaf_nodes = [leaf.uop if _is_tensor(leaf) else make_node(leaf, dtype) for leaf in leaves]
    if dtype is None:
        pairs = zip(leaves, leaf_nodes, strict=True)
        dtype = result_type(
            *(
                leaf if isinstance(leaf, (bool, int, float, complex)) else node.dtype
                for leaf, node in pairs
            )
        )
    nodes = [node.cast(dtype) for node in leaf_nodes]
    inner = nodes[0].shape
    check_devices(*nodes)
    return make_reshape(
        make_concat([make_reshape(n, (1, *inner)) for n in nodes], 0), (*shape, *inner)
    )


def _is_tensor(value: object) -> TypeIs[_HasNode]:
    return isinstance(getattr(value, "uop", None), UOp)


class _Recorded(Protocol):
    """A PyTorch tensor, which may record gradients."""

    def detach(self) -> object: ...


class _HasNode(Protocol):
    """A tensor, as far as this module needs it, which `Tensor` imports."""

    @property
    def uop(self) -> UOp: ...


def _from_foreign(data: object, dtype: DType | None) -> UOp:
    import numpy as np

    if isinstance(data, np.generic):
        scalar = cast("np.generic[object]", data)
        # A numpy scalar keeps its dtype, unlike a Python number.
        source_dtype, value = to_dtype(scalar.dtype), scalar.item()
        python_value = (
            value
            if isinstance(value, (bool, int, complex))
            else float(cast("SupportsFloat", value))
        )
        return make_constant(python_value, dtype or source_dtype)
    if (
        isinstance(data, np.ndarray)
        or hasattr(data, "__array__")
        or hasattr(data, "__array_interface__")
    ):
        return _from_readable(cast("object", data), dtype)
    if isinstance(data, range):
        return _from_nested(list(data), dtype)
    raise DataError(found=data, hint=explain_unbound(data))


def _from_readable(data: object, dtype: DType | None) -> UOp:
    """Convert an object that numpy can read, or, for dtypes that numpy lacks, one that supports
    DLPack.
    """
    import numpy as np

    if getattr(data, "requires_grad", False):
        # PyTorch refuses numpy and DLPack access to tensors that record gradients; the copy has
        # none.
        data = cast("_Recorded", data).detach()
    try:
        array: Array = np.asarray(data)
    # numpy has no bfloat16, and PyTorch refuses to convert it; DLPack has a code for it.
    except TypeError:
        if not hasattr(data, "__dlpack__"):
            raise
    else:
        return _from_array(array, dtype)
    from svod_tensor._dlpack import read_elements

    elements = read_elements(data)
    node = make_array_node(elements.array, may_share=False, dtype=elements.dtype)
    return node if dtype is None or dtype is node.dtype else node.cast(dtype)


def _from_array(array: Array, dtype: DType | None) -> UOp:
    source_dtype = to_dtype(array.dtype)
    # A copy, as `np.array` and `torch.tensor` make: later writes to the array are not seen.
    node = make_array_node(array, may_share=False)
    if dtype is None or dtype is source_dtype:
        return node
    if dtype.is_int and source_dtype.is_float:
        check_finite(array, dtype)
    return node.cast(dtype)


def check_finite(array: Array, dtype: DType) -> None:
    """Raise if an element that should become an integer is NaN or an infinity."""
    import numpy as np

    # Widened for narrow floats, for which numpy has no `isfinite`.
    values = array.astype(np.float64)
    bad = values[~np.isfinite(values)]
    if bad.size:
        raise NonFiniteCastError(value=float(bad[0]), dtype=dtype)
