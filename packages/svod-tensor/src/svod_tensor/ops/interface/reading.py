"""Reading values of a tensor: Python numbers, numpy arrays, DLPack and buffers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, TypeAlias

from svod_ir import Op, OperandError
from svod_tensor import _storage as storage
from svod_tensor._text import find_shape
from svod_tensor.cells import registry, tables
from svod_tensor.cells.cell import Cell, Element, Live
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
"""Maximum number of bytes to copy from another device for a `repr`."""

Nested: TypeAlias = "bool | int | float | complex | list[Nested]"


@operation(
    test="test_assignment.py::test_assigning_keeps_the_buffer", is_function=False, computes=True
)
def buffer(x: Tensor, /) -> Buffer:
    """Return the buffer of this tensor, realized first if necessary; for a view, a copy.

    The buffer of a complex tensor holds floats: real and imaginary parts interleaved.

    Raises:
        BufferNotFoundError: if the tensor has no elements.
        ShardError: if the tensor is on several devices.

    Example:
        >>> from svod_tensor import Tensor
        >>> Tensor([1.0, 2.0]).buffer().nbytes
        8
    """
    if x.sharding is not None:
        devices = x.sharding.devices
        raise ShardError(
            devices=devices,
            operation="buffer",
            problem="each shard has its own buffer",
            hint=f'join the shards with x.to("{devices[0]}"), or use one of x.shards()',
        )
    check_not_capturing("reads values")
    if (
        not x.content.path
        and (lent := x.content.cell.find_memory()) is not None
        and x.content.cell.is_lent
    ):
        # Lent memory: the graph node would be of a copy.
        return lent
    # In a loop, since another thread may assign to the tensor once it is realized.
    while not x.is_realized and 0 not in x.shape:
        x.realize()
    base = memory_nodes.find_base(x.uop)
    while base is None and 0 not in x.shape:
        # A view of a larger buffer is copied.
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
    """Return the values as a numpy array, realized first if necessary.

    The array is read-only unless `copy` is True, and never changes. On the CPU it shares the
    memory of the tensor, with strides for a view: assignments to the tensor while the array lives
    go to new memory. For a tensor that was written in place, it is a copy. bfloat16 and float8 have
    the dtypes of the package ml_dtypes.

    Raises:
        CaptureError: while a function is captured.
        DerivativeError: while a derivative is taken, if the values depend on an argument of its
            function: results computed from an array have no derivative. `item()`, `tolist()` and
            `print` read values for display and `if`.

    Example:
        >>> from svod_tensor import Tensor
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
    array = _find_result(x.content, copy=copy)
    if array is not None:
        return array
    if copy:
        return host_array(x).copy()
    array = _lend_array(x)
    # Memory of the tensor may be shared with other tensors; a writer needs `numpy.asarray(x)` or a
    # copy.
    array.setflags(write=False)
    return array


def _find_result(content: Live, *, copy: bool) -> NDArray[np.generic] | None:
    """The values of a tensor that no graph knows yet, as most results of captured functions and
    models are; None for any other tensor.
    """
    if type(content) is not Cell or tables.captured:
        return None
    memory = content.memory
    # The general path copies memory that was assigned to, or lent.
    if memory is None or content.is_assigned_in_place or content.is_lent:
        return None
    shape, dtype, _ = content.spec
    known = find_shape(shape)
    if known is None or not memory.is_host_addressable:
        return None
    elements = memory.as_numpy()
    array = _shape_elements(elements, dtype, known)
    if copy:
        return array.copy()
    # Views keep their base alive, so its lifetime decides.
    memory.lend(elements)
    array.setflags(write=False)
    return array


def _lend_array(x: Tensor) -> NDArray[np.generic]:
    """Return the values as an array that never changes: memory that is not written while the array
    lives, or a copy.
    """
    import numpy as np

    array = host_array(x)
    owner = array
    while isinstance(owner.base, np.ndarray):
        # numpy views keep their base alive, so the lifetime of the base decides.
        owner = owner.base
    if owner.base is None:
        return array
    cell = x.content.cell
    # A plan may write memory that was assigned to without a search for readers, and the holder of a
    # writable array may write to lent memory.
    if cell.is_assigned_in_place or cell.is_lent:
        return array.copy()
    memory = cell.find_memory()
    buffers = (
        (memory,)
        if memory is not None
        else map(memory_nodes.find_buffer, versions.iter_memories(cell.node))
    )
    for buffer in buffers:
        if buffer is not None:
            buffer.lend(owner)
    return array


@operation(
    test="test_creation.py::test_item_and_tolist_give_python_numbers",
    is_function=False,
    computes=True,
)
def tolist(x: Tensor, /) -> Nested:
    """Return the values as nested lists of Python numbers; for a 0-d tensor, a number.

    Raises:
        CaptureError: while a function is captured.

    Example:
        >>> from svod_tensor import Tensor
        >>> Tensor([[1, 2], [3, 4]]).tolist()
        [[1, 2], [3, 4]]
    """
    array = host_array(x)
    # Narrow floats that numpy lacks have dtypes of ml_dtypes, of kind "V", and their scalars are no
    # Python numbers.
    return (array.astype("float32") if array.dtype.kind == "V" else array).tolist()


@operation(
    test="test_creation.py::test_item_and_tolist_give_python_numbers",
    is_function=False,
    computes=True,
)
def item(x: Tensor, /) -> Scalar:
    """Return the value of a tensor with one element as a Python number.

    Raises:
        SingleElementError: if the tensor does not have exactly one element.
        CaptureError: while a function is captured.

    Example:
        >>> from svod_tensor import Tensor
        >>> Tensor([[1.5]]).item()
        1.5
    """
    return _read_number(x, "item")


def _read_number(x: Tensor, operation: str) -> Scalar:
    if x.size != 1:
        raise SingleElementError(operation=operation, shape=x.shape)
    value = host_array(x).reshape(()).item()
    # A narrow float that numpy lacks gives an object of ml_dtypes.
    return value if isinstance(value, (bool, int, float, complex)) else float(value)


def host_array(x: Tensor) -> NDArray[np.generic]:
    import numpy as np

    path = x.content.path
    # A variable in the path of a view keeps the value that it had when the view was created.
    base_array = None if path and is_symbolic(path) else _find_whole(x.content.cell)
    if base_array is not None:
        # Fast path: read the memory without creating a graph node.
        check_not_capturing("reads values")
        return read_array(path, base_array)
    shape = tuple(resolve_size(s) for s in x.shape)
    if 0 in shape:
        return np.empty(shape, x.dtype.numpy)
    check_not_capturing("reads values")
    if (element := _read_element(x, computes=True)) is not None:
        return element
    if x.sharding is not None:
        x.realize()
        if x.sharding.layout is not None and not x.sharding.is_replicated:
            # All processes read, so that each gets the parts of the others.
            return host_array(x.to(x.sharding.devices[0]))
        # Each shard is copied from its device, without a gathering on one of them.
        arrays = [host_array(shard) for shard in x.shards()]
        return arrays[0] if x.sharding.axis is None else np.concatenate(arrays, x.sharding.axis)
    # Memory that is shared with another tensor may be written concurrently by another thread.
    if not x.is_realized:
        x.realize()
    array = _find_array(x, shape)
    if array is None:
        # A view of memory that is not host-addressable.
        array = _find_array(x.clone().realize(), shape)
    if array is None:
        raise BufferNotFoundError(node=x.uop)
    return array


def find_values(x: Tensor) -> NDArray[np.generic] | None:
    """Return the values, or None if reading them needs computation or a large copy."""
    import numpy as np

    shape = find_shape(x.shape)
    if shape is None:
        return None
    if 0 in shape:
        return np.empty(shape, x.dtype.numpy)
    # A constant has no memory, and needs none to be shown.
    if (constant := _find_constant(x.uop)) is not None:
        return np.broadcast_to(np.array(constant, x.dtype.numpy), shape)
    if (element := _read_element(x, computes=False)) is not None:
        return element
    sharding, is_large = x.sharding, x.nbytes > _MOST_COPIED
    if sharding is None and x.content.cell.has_memory and not x.is_realized and not is_large:
        # Memory that is shared with another tensor is only written under the lock.
        with registry.lock:
            array = _find_array(x, shape, copies=True)
            return None if array is None else array.copy()
    if not x.is_realized or (is_large and not _is_in_host_memory(x)):
        return None
    if sharding is None:
        return _find_array(x, shape, copies=True)
    if x.content.path:
        base_array = find_values(x.from_content(x.content.cell))
        return None if base_array is None else read_array(x.content.path, base_array)
    arrays = [find_values(shard) for shard in x.shards()]
    values = [array for array in arrays if array is not None]
    if len(values) < len(arrays):
        return None
    return values[0] if sharding.axis is None else np.concatenate(values, sharding.axis)


def _read_element(x: Tensor, *, computes: bool) -> NDArray[np.generic] | None:
    """Read a tensor that is one element of another tensor directly from that tensor's memory, without
    a kernel.

    `computes` allows pending writes to that memory to run first.
    """
    content = x.content
    while isinstance(content, Element):
        with registry.lock:
            source = content.find_source()
            if source is None:
                return None
            cell, path = source
            if cell.has_memory:
                base_array = _find_elements(cell.node, tuple(map(resolve_size, cell.node.shape)))
                return None if base_array is None else read_array(path, base_array).copy()
        if not computes or not cell.owns:
            return None
        # The whole source, so that its other elements are read from memory afterwards.
        x.from_content(cell).realize()
    return None


def _is_in_host_memory(x: Tensor) -> bool:
    return x.sharding is None and storage.reads_files(str(x.device))


def _find_array(
    x: Tensor, shape: tuple[int, ...], *, copies: bool = False
) -> NDArray[np.generic] | None:
    """Find the elements in memory, if realized; `copies` allows copying the whole base of a view."""
    array = _find_elements(x.uop, shape)
    if array is not None or not x.content.path or not (copies or _is_in_host_memory(x)):
        return array
    base = x.content.cell.node
    base_array = _find_elements(base, tuple(map(resolve_size, base.shape)))
    return None if base_array is None else read_array(x.content.path, base_array)


@special_method()
def __array__(
    x: Tensor, dtype: np.dtype | None = None, copy: bool | None = None
) -> NDArray[np.generic]:
    """Return the elements for `numpy.asarray`: a writable array that shares the memory of this
    tensor, or a copy.

    Writes to the array are visible to graphs built from the tensor afterwards; graphs built before
    keep the old elements. Assigning to the tensor while the array lives moves the tensor to new
    memory. Where the tensor is not writable in host memory, the array is read-only.

    Args:
        dtype: dtype of the array.
        copy: True always copies.

    Raises:
        CaptureError: while a function is captured.
        DerivativeError: while a derivative is taken, if the values depend on an argument of its
            function.
    """
    if not copy and (dtype is None or x.dtype.numpy == dtype):
        array = _share_memory(x)
        if array is not None:
            return array
    array = x.numpy(copy=bool(copy))
    return array if dtype is None or array.dtype == dtype else array.astype(dtype)


def _share_memory(x: Tensor) -> NDArray[np.generic] | None:
    """Return a writable array that shares the memory of this tensor; None if that is impossible."""
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
    # `cell.node` is avoided: a cell without a node has no readers to search for.
    shape, dtype, device = cell.spec
    if 0 in shape:
        return x.numpy(copy=True)
    if elements is None:
        if not isinstance(device, str) or not storage.is_host_memory(device):
            return None
        # Another thread may assign to the tensor once it is realized.
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
    """Export the elements in host memory by the DLPack protocol; the consumer must not write them.

    Args:
        stream: must be None, as always for host memory.
        max_version: maximum DLPack version that the consumer supports.
        dl_device: device requested by the consumer, as DLPack's (device type, device id).
        copy: True always copies; False raises if the elements are on another device.

    Raises:
        CopyRequiredError: if `copy` is False and the elements are on another device.
        BufferError: if the consumer requests memory that is not on the host.
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
    # kDLCPU of DLPack: elements are exported from host memory, copied there from other devices.
    return (1, 0)


@special_method()
def __bytes__(x: Tensor) -> bytes:
    return host_array(x).tobytes()


@special_method()
def __buffer__(x: Tensor, flags: int, /) -> memoryview:
    """Export the tensor's memory, read-only, by Python's buffer protocol (Python 3.12 or newer).

    Raises:
        BufferError: if a writable buffer is requested, or the protocol lacks the dtype.
    """
    # A write by the consumer would change arrays and graphs that keep the old values.
    if flags & _WRITABLE:
        raise BufferError(
            "the memory of a tensor is read-only: write to the tensor, as in x[...] = y"
        )
    array = x.numpy()
    if array.dtype.kind == "V":
        raise BufferError(
            f"the buffer protocol has no {x.dtype}: use x.numpy().view('uint{8 * x.itemsize}')"
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
    # As in numpy, a 1-d array of one element is no index.
    if not x.dtype.is_int or x.ndim:
        raise OperandError(
            operation="index",
            found=f"{x.dtype} of shape {x.shape}",
            expected="a 0-d integer tensor",
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
            hint="use x.real or x.abs()",
        )
    return value


def _is_differentiated(node: UOp) -> bool:
    """True if a node depends on an argument that is differentiated, through non-detached floats."""
    seen: set[UOp] = set()
    waiting = [node]
    while waiting:
        node = waiting.pop()
        # Integers have no derivative: the search ends there, as the derivative does.
        if node in seen or node.op is Op.DETACH or node.dtype.is_int or node.dtype.is_bool:
            continue
        if node.op is Op.TRACED:
            return True
        seen.add(node)
        waiting += node.src
    return False


_REPEATING: Final = frozenset({Op.RESHAPE, Op.EXPAND, Op.PERMUTE, Op.FLIP, Op.SHRINK, Op.DETACH})


def _find_constant(node: UOp) -> bool | int | float | None:
    """Value of all elements of a node that is a constant; None otherwise."""
    while node.op in _REPEATING:
        node = node.source
    return node.arg if node.op is Op.CONST else None


def _find_whole(cell: Cell) -> NDArray[np.generic] | None:
    """Elements of a cell with its own host memory of known size; None otherwise."""
    memory = cell.find_memory()
    if memory is None or not memory.is_host_addressable:
        return None
    shape, dtype, _ = cell.spec
    known = find_shape(shape)
    return None if known is None else _view_elements(memory, dtype, known)


def _find_elements(node: UOp, shape: tuple[int, ...]) -> NDArray[np.generic] | None:
    """Elements of a node that is a buffer, in host memory; None otherwise."""
    base = memory_nodes.find_base(node)
    buffer = None if base is None else memory_nodes.find_buffer(base)
    return None if buffer is None else _view_elements(buffer, node.dtype, shape)


def _view_elements(buffer: Buffer, dtype: DType, shape: tuple[int, ...]) -> NDArray[np.generic]:
    return _shape_elements(buffer.as_numpy(), dtype, shape)


def _shape_elements(
    elements: NDArray[np.generic], dtype: DType, shape: tuple[int, ...]
) -> NDArray[np.generic]:
    if dtype.is_complex:
        # A buffer has the real numbers of complex elements, in pairs.
        elements = elements.view(dtype.numpy)
    size = math.prod(shape)
    # Memory of a symbolic size is allocated for its maximum.
    return (elements if elements.size == size else elements[:size]).reshape(shape)
