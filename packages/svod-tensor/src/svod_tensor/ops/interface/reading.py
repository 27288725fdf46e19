"""The values of a tensor, as a program outside of it sees them: numbers, arrays, memory."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, TypeAlias

from svod_ir import Op, OperandError
from svod_tensor import _storage as storage
from svod_tensor._text import find_shape
from svod_tensor.cells import registry
from svod_tensor.cells.cell import Cell, Element
from svod_tensor.cells.derivatives import is_differentiating
from svod_tensor.cells.lending import lend
from svod_tensor.cells.registry import check_not_capturing
from svod_tensor.cells.views import is_shard, is_symbolic, is_writable, read_array
from svod_tensor.engine import memory_nodes, versions
from svod_tensor.engine.bindings import resolve_size
from svod_tensor.errors import (
    AmbiguousTruthError,
    BufferNotFoundError,
    CopyRequiredError,
    DerivativeError,
    ShardError,
    SingleElementError,
)
from svod_tensor.ops.core.operation import operation, special_method
from svod_tensor.tensor import Tensor

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from svod_device import Buffer
    from svod_dtype import DType
    from svod_ir import UOp
    from svod_tensor._data import Scalar

__all__ = ["buffer", "find_values", "host_array", "item", "numpy", "tolist"]

_WRITABLE: Final = 1
"""PyBUF_WRITABLE of Python's buffer protocol."""

_MOST_COPIED: Final = 1 << 26
"""The bytes that are copied from another device for a text at most."""

Nested: TypeAlias = "bool | int | float | complex | list[Nested]"


@operation(
    test="test_assignment.py::test_assigning_keeps_the_buffer", is_function=False, computes=True
)
def buffer(x: Tensor, /) -> Buffer:
    """The buffer of this tensor, which is computed first if need be; of a view of a larger one, a
    copy.

    That of complex numbers has twice as many floats: of each number the real part, then the
    imaginary one.

    Raises:
        BufferNotFoundError: if the tensor has no elements, and so no buffer.
        ShardError: if it is on several devices, and so has several buffers.

    Example:
        >>> Tensor([1.0, 2.0]).buffer().nbytes
        8
    """
    if x.sharding is not None:
        devices = x.sharding.devices
        raise ShardError(
            devices=devices,
            operation="buffer",
            problem="each shard has its own",
            hint=f'join the shards with x.to("{devices[0]}"), or take one of x.shards()',
        )
    check_not_capturing("reads values")
    if (
        not x.content.path
        and (lent := x.content.cell.find_memory()) is not None
        and x.content.cell.is_lent
    ):
        # The node is one on a copy.
        return lent
    # Another thread may assign to the tensor once it is realized.
    while not x.is_realized and 0 not in x.shape:
        x.realize()
    base = memory_nodes.find_base(x.uop)
    while base is None and 0 not in x.shape:
        # A view of larger memory.
        base = memory_nodes.find_base(x.clone().realize().uop)
    buffer = None if base is None else memory_nodes.find_buffer(base)
    if buffer is None:
        raise BufferNotFoundError(node=x.uop)
    return buffer


@operation(
    test="test_creation.py::test_arrays_of_every_shape_come_back_unchanged",
    is_function=False,
    computes=True,
)
def numpy(x: Tensor, /, *, copy: bool = False) -> NDArray[np.generic]:
    """The values as a numpy array, computed first if need be.

    The array is read-only, unless `copy` asks for one that is not, and never changes. On the CPU it
    is the tensor's own memory, for a view with gaps or in another order: what is assigned to the
    tensor while the array lives goes to other memory. Of a tensor that was assigned to in its
    memory, it is a copy. bfloat16 and float8 come as the dtypes of the package ml_dtypes.

    Raises:
        CaptureError: if a function is captured just now.
        DerivativeError: if a derivative is taken just now, and the values depend on an argument of
            its function: what is computed from an array has no derivative. `item()`, `tolist()` and
            `print` read values for display and `if`.

    Example:
        >>> (Tensor([1.0, 2.0]) * 2).numpy()
        array([2., 4.], dtype=float32)
    """
    if is_differentiating() and _is_differentiated(x.uop):
        raise DerivativeError(
            operation="numpy",
            problem="the values depend on an argument of the function whose derivative is taken",
            hint=(
                "compute with tensors, or write x.detach().numpy(): an array is a constant, which"
                " has no derivative"
            ),
        )
    if copy:
        return host_array(x).copy()
    array = _lend_array(x)
    array.setflags(write=False)
    return array


def _lend_array(x: Tensor) -> NDArray[np.generic]:
    """The values as an array that never changes: memory that nobody writes as long as the array
    lives, or a copy.
    """
    import numpy as np

    array = host_array(x)
    owner = array
    while isinstance(owner.base, np.ndarray):
        # Views of the array keep this one alive.
        owner = owner.base
    if owner.base is None:
        return array
    cell = x.content.cell
    if cell.is_assigned_in_place or cell.is_lent:
        return array.copy()
    memory = cell.find_memory()
    found = (
        (memory,)
        if memory is not None
        else map(memory_nodes.find_buffer, versions.iter_memories(cell.node))
    )
    for buffer in found:
        if buffer is not None:
            buffer.lend(owner)
    return array


@operation(
    test="test_creation.py::test_item_and_tolist_give_python_numbers",
    is_function=False,
    computes=True,
)
def tolist(x: Tensor, /) -> Nested:
    """The values as nested lists of Python numbers; of a 0-d tensor, the number.

    Raises:
        CaptureError: if a function is captured just now.

    Example:
        >>> Tensor([[1, 2], [3, 4]]).tolist()
        [[1, 2], [3, 4]]
    """
    array = host_array(x)
    return (array.astype("float32") if array.dtype.kind == "V" else array).tolist()


@operation(
    test="test_creation.py::test_item_and_tolist_give_python_numbers",
    is_function=False,
    computes=True,
)
def item(x: Tensor, /) -> Scalar:
    """The value of a tensor with one element, as a Python number.

    Raises:
        SingleElementError: if it has another number of elements.
        CaptureError: if a function is captured just now.

    Example:
        >>> Tensor([[1.5]]).item()
        1.5
    """
    return _read_number(x, "item")


def _read_number(x: Tensor, operation: str) -> Scalar:
    if x.size != 1:
        raise SingleElementError(operation=operation, shape=x.shape)
    value = host_array(x).reshape(()).item()
    return value if isinstance(value, (bool, int, float, complex)) else float(value)


def host_array(x: Tensor) -> NDArray[np.generic]:
    import numpy as np

    path = x.content.path
    # What a variable says at the end of a path is what it was when the view was made.
    whole = None if path and is_symbolic(path) else _find_whole(x.content.cell)
    if whole is not None:
        # No node is made to read it, nor is one looked at.
        check_not_capturing("reads values")
        return read_array(path, whole)
    shape = tuple(resolve_size(s) for s in x.shape)
    if 0 in shape:
        return np.empty(shape, x.dtype.numpy)
    check_not_capturing("reads values")
    if (element := _read_element(x, computes=True)) is not None:
        return element
    if x.sharding is not None:
        x.realize()
        arrays = [host_array(shard) for shard in x.shards()]
        return arrays[0] if x.sharding.axis is None else np.concatenate(arrays, x.sharding.axis)
    # Memory that is shared with another tensor may be written just now, by another thread.
    if not x.is_realized:
        x.realize()
    array = _find_array(x, shape)
    if array is None:
        # A part of memory that the host does not see.
        array = _find_array(x.clone().realize(), shape)
    if array is None:
        raise BufferNotFoundError(node=x.uop)
    return array


def find_values(x: Tensor) -> NDArray[np.generic] | None:
    """The values, unless they have to be computed, or much memory copied."""
    import numpy as np

    shape = find_shape(x.shape)
    if shape is None:
        return None
    if 0 in shape:
        return np.empty(shape, x.dtype.numpy)
    if (constant := _find_constant(x.uop)) is not None:
        return np.broadcast_to(np.array(constant, x.dtype.numpy), shape)
    if (element := _read_element(x, computes=False)) is not None:
        return element
    sharding, is_large = x.sharding, x.nbytes > _MOST_COPIED
    if sharding is None and x.content.cell.has_memory and not x.is_realized and not is_large:
        # Memory that is shared with another tensor, which nobody writes without the lock before
        # that has its own.
        with registry.lock:
            array = _find_array(x, shape, copies=True)
            return None if array is None else array.copy()
    if not x.is_realized or (is_large and not _is_in_host_memory(x)):
        return None
    if sharding is None:
        return _find_array(x, shape, copies=True)
    if x.content.path:
        whole = find_values(x.from_content(x.content.cell))
        return None if whole is None else read_array(x.content.path, whole)
    arrays = [find_values(shard) for shard in x.shards()]
    found = [array for array in arrays if array is not None]
    if len(found) < len(arrays):
        return None
    return found[0] if sharding.axis is None else np.concatenate(found, sharding.axis)


def _read_element(x: Tensor, *, computes: bool) -> NDArray[np.generic] | None:
    """The element of another tensor that this one is, read in the memory of that: no kernel copies
    it.

    `computes` lets the assignments to that memory be done that the element depends on.
    """
    content = x.content
    while isinstance(content, Element):
        with registry.lock:
            source = content.find_source()
            if source is None:
                return None
            cell, path = source
            if cell.has_memory:
                whole = _find_elements(cell.node, tuple(map(resolve_size, cell.node.shape)))
                return None if whole is None else read_array(path, whole).copy()
        if not computes or not cell.owns:
            return None
        x.from_content(cell).realize()
    return None


def _is_in_host_memory(x: Tensor) -> bool:
    return x.sharding is None and storage.reads_files(str(x.device))


def _find_array(
    x: Tensor, shape: tuple[int, ...], *, copies: bool = False
) -> NDArray[np.generic] | None:
    """The elements where they are, if they are in memory; `copies` lets what a view is of be copied
    as a whole.
    """
    whole = _find_elements(x.uop, shape)
    if whole is not None or not x.content.path or not (copies or _is_in_host_memory(x)):
        return whole
    whole = x.content.cell.node
    found = _find_elements(whole, tuple(map(resolve_size, whole.shape)))
    return None if found is None else read_array(x.content.path, found)


@special_method()
def __array__(
    x: Tensor, dtype: np.dtype | None = None, copy: bool | None = None
) -> NDArray[np.generic]:
    """The elements as numpy asks for them: an array that may be written, and shares the memory of
    this tensor, or a copy.

    What is written to the array is seen by what is built from the tensor afterwards; what was built
    before keeps the old elements. A tensor that is assigned to while the array lives goes to other
    memory. Where the tensor cannot be written in memory of the host, the array is read-only.

    Args:
        dtype: of the array.
        copy: True gives an array that shares nothing.

    Raises:
        CaptureError: if a function is captured just now.
        DerivativeError: if a derivative is taken just now, and the values depend on an argument of
            its function.
    """
    if not copy and (dtype is None or x.dtype.numpy == dtype):
        array = _share_memory(x)
        if array is not None:
            return array
    array = x.numpy(copy=bool(copy))
    return array if dtype is None or array.dtype == dtype else array.astype(dtype)


def _share_memory(x: Tensor) -> NDArray[np.generic] | None:
    """The elements as an array that may be written, with which this tensor shares its memory; None
    if it cannot be.
    """
    content = x.content
    cell, path = content.cell, content.path
    is_special = path and (not is_writable(path) or is_shard(path) or is_symbolic(path))
    if (
        is_special
        or is_differentiating()
        or registry.find_capture() is not None
        or registry.is_computing_here()
    ):
        return None
    elements = cell.find_array()
    # The node is not asked for: what nobody has a node of is lent without looking for readers.
    shape, dtype, device = cell.spec
    if 0 in shape:
        return x.numpy(copy=True)
    if elements is None:
        if not isinstance(device, str) or not storage.is_host_memory(device):
            return None
        while not cell.is_realized:
            x.from_content(cell).realize()
        elements = lend(cell)
        if elements is None:
            return None
    known = find_shape(shape)
    if known is None:
        known = tuple(map(resolve_size, cell.node.shape))
    return read_array(path, _shape_elements(elements, dtype, known))


@special_method()
def __dlpack__(
    x: Tensor,
    /,
    *,
    stream: object = None,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[int, int] | None = None,
    copy: bool | None = None,
) -> object:
    """The tensor's elements in memory of the host by the DLPack protocol; the consumer shares them
    and must not write.

    Args:
        stream: None, as for every memory of the host.
        max_version: of DLPack, that the consumer reads.
        dl_device: where it wants the memory, as DLPack's number of a kind and one of a device.
        copy: True gives the consumer memory of its own; False is an error where the elements are on
            another device.

    Raises:
        CopyRequiredError: if `copy` is False and the elements are on another device.
        BufferError: if the consumer wants memory that is not the host's.
    """
    from svod_tensor._dlpack import make_capsule

    if copy is False and (x.sharding is not None or not storage.reads_files(str(x.device))):
        raise CopyRequiredError(operation="__dlpack__", problem=f"the elements are on {x.device}")
    return make_capsule(
        _lend_array(x),
        x.dtype,
        stream=stream,
        max_version=max_version,
        dl_device=dl_device,
        copy=copy,
    )


@special_method()
def __dlpack_device__(x: Tensor) -> tuple[int, int]:
    return (1, 0)


@special_method()
def __bytes__(x: Tensor) -> bytes:
    return host_array(x).tobytes()


@special_method()
def __buffer__(x: Tensor, flags: int, /) -> memoryview:
    """The tensor's memory as Python's buffer protocol gives it, from Python 3.12 on; it is
    read-only.

    Raises:
        BufferError: if it is asked for to be written, or of a dtype that the protocol lacks.
    """
    if flags & _WRITABLE:
        raise BufferError(
            "the memory of a tensor is read-only: write to the tensor, as in x[...] = y"
        )
    array = x.numpy()
    if array.dtype.kind == "V":
        raise BufferError(
            f"the buffer protocol has no {x.dtype}: take x.numpy().view('uint{8 * x.itemsize}')"
        )
    return array.data


@special_method()
def __bool__(x: Tensor) -> bool:
    if x.size != 1:
        raise AmbiguousTruthError(shape=x.shape)
    return bool(x.item())


@special_method()
def __complex__(x: Tensor) -> complex:
    return complex(_read_number(x, "complex"))


@special_method()
def __int__(x: Tensor) -> int:
    return int(_read_real(x, "int"))


@special_method()
def __index__(x: Tensor) -> int:
    if not x.dtype.is_int or x.ndim:
        raise OperandError(
            operation="index", found=f"{x.dtype} of shape {x.shape}", expected="one integer"
        )
    return int(_read_real(x, "index"))


@special_method()
def __float__(x: Tensor) -> float:
    return float(_read_real(x, "float"))


def _read_real(x: Tensor, operation: str) -> bool | int | float:
    value = _read_number(x, operation)
    if isinstance(value, complex):
        raise OperandError(
            operation=operation,
            found=x.dtype,
            expected="a real number",
            hint="take x.real or x.abs()",
        )
    return value


def _is_differentiated(node: UOp) -> bool:
    """Whether a node depends on an argument by which derivatives are taken, through floats that are
    not detached.
    """
    seen: set[UOp] = set()
    waiting = [node]
    while waiting:
        node = waiting.pop()
        if node in seen or node.op is Op.DETACH or node.dtype.is_int or node.dtype.is_bool:
            continue
        if node.op is Op.TRACED:
            return True
        seen.add(node)
        waiting += node.src
    return False


_REPEATING: Final = frozenset({Op.RESHAPE, Op.EXPAND, Op.PERMUTE, Op.FLIP, Op.SHRINK, Op.DETACH})


def _find_constant(node: UOp) -> bool | int | float | None:
    """What each element of a node is that nothing has to be computed for, and no memory read."""
    while node.op in _REPEATING:
        node = node.source
    return node.arg if node.op is Op.CONST else None


def _find_whole(cell: Cell) -> NDArray[np.generic] | None:
    """The elements of a cell that is memory of its own, of the host and of a known size."""
    memory = cell.find_memory()
    if memory is None or not memory.is_host_addressable:
        return None
    shape, dtype, _ = cell.spec
    known = find_shape(shape)
    return None if known is None else _view_elements(memory, dtype, known)


def _find_elements(node: UOp, shape: tuple[int, ...]) -> NDArray[np.generic] | None:
    """The elements of a node that is memory, in memory of the host."""
    base = memory_nodes.find_base(node)
    buffer = None if base is None else memory_nodes.find_buffer(base)
    return None if buffer is None else _view_elements(buffer, node.dtype, shape)


def _view_elements(buffer: Buffer, dtype: DType, shape: tuple[int, ...]) -> NDArray[np.generic]:
    return _shape_elements(buffer.as_numpy(), dtype, shape)


def _shape_elements(
    elements: NDArray[np.generic], dtype: DType, shape: tuple[int, ...]
) -> NDArray[np.generic]:
    if dtype.is_complex:
        elements = elements.view(dtype.numpy)
    size = math.prod(shape)
    # A variable size has memory for the largest.
    return (elements if elements.size == size else elements[:size]).reshape(shape)
