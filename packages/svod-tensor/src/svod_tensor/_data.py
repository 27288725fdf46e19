"""From Python values and numpy arrays to nodes: constants for single numbers, buffers for
the rest.
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
    """The node for `data`: a constant, which is on no device, or a buffer in the host's memory."""
    match data:
        case bool() | int() | float() | complex():
            return make_constant(data, dtype or _scalar_dtype(data))
        case UOp():
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
    """Raise if `dtype` cannot hold `value` at all."""
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
    """A node for storage that exists; that of complex numbers has their parts."""
    if dtype.is_complex:
        return make_as_complex(make_buffer_node(buffer, dtype.part, (*shape, 2), device))
    memory = memory_nodes.make_memory(dtype, math.prod(shape), device, buffer)
    return memory if len(shape) == 1 else UOp(Op.RESHAPE, dtype, (memory,), shape)


def make_array_node(array: Array, *, may_share: bool, dtype: DType | None = None) -> UOp:
    """A node for the elements of a numpy array, on the CPU; with `dtype` for the bits of its
    elements.
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
    """The parts of complex numbers along a last axis: where they are, if the numbers lie in order
    without gaps.
    """
    import numpy as np

    array = array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
    return np.ascontiguousarray(array).view(dtype.part.numpy).reshape((*array.shape, 2))


def place_by_default(node: UOp, data: object = None) -> UOp:
    """`node`, made from the caller's data, on the device for which none was named; a list of
    tensors stays where these are.
    """
    if DEFAULT_DEVICE == HOST_DEVICE or node.placement != HOST_DEVICE:
        return node
    has_tensors = _is_list(data) and any(map(_is_tensor, _flatten(data)[1]))
    return node if has_tensors else copy_to_device(node, DEFAULT_DEVICE)


def copy_to_device(node: UOp, device: str) -> UOp:
    """`node` on a device, through a COPY where it is not there yet.

    A COPY of what is on no device moves nothing, and only says where that is computed.

    Raises:
        DeviceNameError: if `device` is no device name.
        UnknownDeviceError: if nothing provides such a device.
        ReadOnlyError: if the device is only read.
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
        # What is made from a file is computed where the file can be read, so that only the result
        # moves.
        node = UOp(Op.COPY, node.dtype, (node,), DEFAULT_DEVICE)
    return UOp(Op.COPY, node.dtype, (node,), name)


def _is_on_disk(memory: UOp) -> bool:
    return is_file(memory.placement)


def _scalar_dtype(value: Scalar) -> DType:
    if type(value) not in _PYTHON_NUMBERS:
        # numpy's float64 and complex128 are subclasses of Python's numbers, and say their dtype.
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
    integers = [int(number) for number in numbers if not isinstance(number, complex)]
    return bool_ if kinds == {bool} else default_int_dtype(min(integers), max(integers))


def _to_array(numbers: Sequence[Scalar], dtype: DType) -> Array:
    import numpy as np

    if dtype.is_bool:
        return np.array([bool(n) for n in numbers], np.bool_)
    if not dtype.is_complex and any(isinstance(number, complex) for number in numbers):
        raise OperandError(
            operation="tensor", found="complex numbers", expected=f"numbers that {dtype} holds"
        )
    if dtype.is_inexact:
        with np.errstate(all="ignore"):
            return np.array(numbers, dtype.numpy)
    reals = [number for number in numbers if not isinstance(number, complex)]
    for number in (
        reals if float in set(map(type, reals)) else (min(reals), max(reals)) if reals else ()
    ):
        check_scalar(number, dtype)
    return np.array([int(n) for n in reals], dtype.numpy)


def _flatten(data: object) -> tuple[tuple[int, ...], list[object]]:
    """The shape of nested lists, and their leaves in row-major order."""
    level: list[object] = [data]
    shape: list[int] = []
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
    """Lists of numpy values; anything else in a list is a mistake."""
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
    """Lists of tensors of one shape, beside which numbers may stand; these are weak, as in
    arithmetic.
    """
    made = [leaf.uop if _is_tensor(leaf) else make_node(leaf, dtype) for leaf in leaves]
    if dtype is None:
        pairs = zip(leaves, made, strict=True)
        dtype = result_type(
            *(
                leaf if isinstance(leaf, (bool, int, float, complex)) else node.dtype
                for leaf, node in pairs
            )
        )
    nodes = [node.cast(dtype) for node in made]
    inner = nodes[0].shape
    check_devices(*nodes)
    return make_reshape(
        make_concat([make_reshape(n, (1, *inner)) for n in nodes], 0), (*shape, *inner)
    )


def _is_tensor(value: object) -> TypeIs[_HasNode]:
    return isinstance(getattr(value, "uop", None), UOp)


class _Recorded(Protocol):
    """A tensor of PyTorch, whose gradient may be recorded."""

    def detach(self) -> object: ...


class _HasNode(Protocol):
    """A tensor, which stands above this module."""

    @property
    def uop(self) -> UOp: ...


def _from_foreign(data: object, dtype: DType | None) -> UOp:
    import numpy as np

    if isinstance(data, np.generic):
        scalar = cast("np.generic[object]", data)
        found, value = to_dtype(scalar.dtype), scalar.item()
        number = (
            value
            if isinstance(value, (bool, int, complex))
            else float(cast("SupportsFloat", value))
        )
        return make_constant(number, dtype or found)
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
    """What numpy makes an array of; what it has no dtype for comes by DLPack, where that is
    offered.
    """
    import numpy as np

    if getattr(data, "requires_grad", False):
        # PyTorch gives numpy and DLPack the memory of no tensor whose gradient it records; what is
        # copied here has none.
        data = cast("_Recorded", data).detach()
    try:
        array: Array = np.asarray(data)
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
    found = to_dtype(array.dtype)
    node = make_array_node(array, may_share=False)
    if dtype is None or dtype is found:
        return node
    if dtype.is_int and found.is_float:
        check_finite(array, dtype)
    return node.cast(dtype)


def check_finite(array: Array, dtype: DType) -> None:
    """Raise if an element that should become an integer is NaN or an infinity."""
    import numpy as np

    values = array.astype(np.float64)
    bad = values[~np.isfinite(values)]
    if bad.size:
        raise NonFiniteCastError(value=float(bad[0]), dtype=dtype)
