"""Tensors from existing data: arrays of numpy and other libraries, numbers, files."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import TYPE_CHECKING

from svod_dtype import to_dtype, uint8
from svod_ir import OperandError
from svod_tensor import _storage as storage
from svod_tensor._data import copy_to_device, make_array_node, make_buffer_node, place_by_default
from svod_tensor.cells import tables
from svod_tensor.cells.cell import Cell
from svod_tensor.engine import memory_nodes
from svod_tensor.errors import CopyRequiredError, MissingFileError
from svod_tensor.ops.core.operation import static_operation
from svod_tensor.ops.creation import zeros
from svod_tensor.ops.elementwise.conversion import is_elsewhere
from svod_tensor.options import DEFAULT_DEVICE, HOST_DEVICE
from svod_tensor.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from svod_device import Buffer
    from svod_ir import UOp
    from svod_tensor.cells.cell import TensorSpec
    from svod_tensor.ops.core.base import DTypeLike

__all__ = ["asarray", "describe_array", "from_dlpack", "from_file", "from_numpy"]


@static_operation(
    test="test_creation.py::test_an_aligned_array_is_shared_and_a_copy_is_not", is_function=False
)
def from_numpy(array: NDArray[np.generic], *, copy: bool | None = None) -> Tensor:
    """Create a tensor from a numpy array, with its shape and dtype.

    Writes to a shared array are visible in the tensor, and in results computed afterwards. The
    tensor never writes to the array: an assignment moves the tensor to its own memory.

    Args:
        array: a numpy array of any dtype that svod supports.
        copy: True always copies. False shares the array's memory, or raises if kernels cannot read
            it there. None, the default, shares if possible (contiguous and aligned to 16 bytes, as
            new arrays are) and else copies.

    Raises:
        OperandError: if the memory cannot be shared and `copy` is False.

    Example:
        >>> import numpy as np
        >>> from svod_tensor import Tensor
        >>> Tensor.from_numpy(np.array([1.0, 2.0])).dtype
        float64
    """
    if copy is False and not storage.is_shareable(array):
        raise OperandError(
            operation="from_numpy(copy=False)",
            found=f"an array at {array.ctypes.data:#x} with strides {array.strides}",
            expected="a contiguous array aligned to 16 bytes",
        )
    may_share = copy is not True
    # The fast path: an array that stays on the host as it is, outside of captured functions, which
    # record nodes. Empty and complex arrays have other nodes.
    if (
        DEFAULT_DEVICE == HOST_DEVICE
        and not tables.captured
        and array.size
        and array.dtype.kind != "c"
    ):
        return _on_array(array, may_share=may_share)
    array_node = make_array_node(array, may_share=may_share)
    node = place_by_default(array_node)
    spec = (array.shape, array_node.dtype, HOST_DEVICE) if node is array_node else None
    return Tensor.from_uop(node, spec, owns=memory_nodes.is_buffer_identity(node))


def _on_array(array: NDArray[np.generic], *, may_share: bool) -> Tensor:
    """Create a tensor whose graph node is built on demand: arguments of captured functions need no
    node.
    """
    spec, make_node, is_plain = describe_array(array.dtype, array.shape)
    # Numpy's own dtypes need fewer checks than `make_host_buffer` makes.
    buffer = storage.find_shared(array, spec[1]) if may_share and is_plain else None
    if buffer is None:
        buffer = storage.make_host_buffer(array, spec[1], may_share=may_share)
    return Tensor.from_content(Cell.on(buffer, make_node, spec))


@static_operation(test="test_creation.py::test_an_empty_file_is_an_empty_tensor", is_function=False)
def from_file(path: str | os.PathLike[str]) -> Tensor:
    """Map the file at `path` as a 1-d uint8 tensor on its DISK device; bytes are read on use.

    Raises:
        MissingFileError: if the file does not exist.

    Example:
        >>> import tempfile
        >>> from svod_tensor import Tensor
        >>> with tempfile.NamedTemporaryFile() as file:
        ...     _ = file.write(bytes([1, 2, 3]))
        ...     file.flush()
        ...     Tensor.from_file(file.name).tolist()
        [1, 2, 3]
    """
    # The name of the device must stay valid when the working directory changes.
    name = os.path.abspath(str(os.fspath(path)))
    if not os.path.isfile(name):
        is_folder = os.path.isdir(name)
        raise MissingFileError(
            path=name, problem="is a directory" if is_folder else "no such file or directory"
        )
    size = os.path.getsize(name)
    # A device has no memory of size 0 to map.
    if size == 0:
        return zeros(0, dtype=uint8)
    device = f"DISK:{name}"
    return Tensor.from_uop(
        make_buffer_node(storage.open_file(device, uint8, size), uint8, (size,), device), owns=True
    )


@static_operation(
    test="test_creation.py::test_dlpack_imports_floats_that_numpy_lacks", standard=True
)
def from_dlpack(x: object, /, *, device: str | None = None, copy: bool | None = None) -> Tensor:
    """Create a tensor from another library's array, sharing its memory where kernels can read it.

    Args:
        x: an object with `__dlpack__`, on the host.
        device: the device; by default the CPU.
        copy: True always copies; False raises if a copy is needed; None copies only if needed.

    Raises:
        OperandError: if `x` is not an array, or its device or dtype is not supported.
        CopyRequiredError: if `copy` is False and the elements must be copied.

    Example:
        >>> import numpy as np
        >>> import svod_tensor as sv
        >>> sv.from_dlpack(np.array([1.0, 2.0])).tolist()
        [1.0, 2.0]
    """
    from svod_tensor._dlpack import read_elements
    from svod_tensor._storage import check_device, is_shareable

    array, dtype = read_elements(x)
    is_moved = device is not None and check_device(device) != HOST_DEVICE
    if copy is False and (is_moved or not is_shareable(array)):
        problem = (
            f"device {device} is requested"
            if is_moved
            else "kernels cannot read the array's memory"
        )
        raise CopyRequiredError(operation="from_dlpack", problem=problem)
    node = make_array_node(array, may_share=copy is not True, dtype=dtype)
    node = copy_to_device(node, device) if is_moved and device is not None else node
    return Tensor.from_uop(node, owns=memory_nodes.is_buffer_identity(node))


@static_operation(test="test_namespace.py::test_asarray_returns_a_tensor_unchanged", standard=True)
def asarray(
    obj: object,
    /,
    *,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    copy: bool | None = None,
) -> Tensor:
    """Convert `obj` to a tensor: a tensor is returned as it is, anything else is copied.

    Args:
        obj: a tensor, a numpy array, numbers, nested lists, an object with `__dlpack__`, or an
            object with a buffer.
        dtype: dtype of the result; by default the dtype of `obj`, and for Python numbers the dtype
            that `Tensor` infers.
        device: device of the result; by default the device of `obj`, or else `SVOD_DEVICE`.
        copy: True copies a tensor too. False shares the memory of `obj`, as `Tensor.from_numpy`
            does, and raises if kernels cannot read it there.

    Raises:
        CopyRequiredError: if `copy` is False and the elements must be copied.
        DataError: if `obj` cannot be converted to a tensor.

    Example:
        >>> import svod_tensor as sv
        >>> sv.asarray([[1, 2], [3, 4]], dtype=sv.float64).tolist()
        [[1.0, 2.0], [3.0, 4.0]]
    """
    # Copied by default: a lazy result would see writes to shared memory that happen before it runs.
    source = obj if isinstance(obj, Tensor) else _read_object(obj, copy=copy is not False)
    if source is None:
        # Python numbers are rounded once to the final dtype, with a range check.
        return Tensor(obj, dtype=dtype, device=device)  # pyright: ignore[reportArgumentType]
    kind = source.dtype if dtype is None else to_dtype(dtype)
    # As numpy does, a tensor that needs no conversion is returned itself.
    is_same = kind is source.dtype and not (device is not None and is_elsewhere(source, device))
    if is_same:
        return source.clone() if copy and source is obj else source
    if copy is False:
        raise CopyRequiredError(
            operation="asarray",
            problem=f"cannot convert {source.dtype} on {source.device} to {kind}",
        )
    return source.astype(kind, device=device)


def _read_object(obj: object, *, copy: bool) -> Tensor | None:
    """Create a tensor from an object with memory; None for numbers and unsupported objects."""
    import numpy as np

    if isinstance(obj, (np.ndarray, memoryview, bytes, bytearray)) or hasattr(
        obj, "__array_interface__"
    ):
        return _read_array(np.asarray(obj), copy=copy)
    # `__array__` comes first: arrays of other libraries may have both, and DLPack is only needed
    # for dtypes that numpy lacks.
    if not hasattr(obj, "__array__") and hasattr(obj, "__dlpack__"):
        return from_dlpack(obj, copy=copy)
    try:
        view = memoryview(obj)  # pyright: ignore[reportArgumentType]
    except TypeError:
        view = None
    if view is not None:
        return _read_array(np.asarray(view), copy=copy)
    if not copy:
        raise CopyRequiredError(
            operation="asarray", problem=f"a {type(obj).__name__} has no memory to share"
        )
    return None


def _read_array(array: object, *, copy: bool) -> Tensor:
    if not copy and not storage.is_shareable(array):  # pyright: ignore[reportArgumentType]
        raise CopyRequiredError(
            operation="asarray", problem="kernels cannot read the array's memory"
        )
    return from_numpy(array, copy=copy)  # pyright: ignore[reportArgumentType]


@lru_cache(maxsize=256)
def describe_array(
    numpy_dtype: np.dtype[np.generic], shape: tuple[int, ...]
) -> tuple[TensorSpec, Callable[[Buffer], UOp], bool]:
    """Return the spec of arrays with this dtype and shape, a factory of their nodes, and whether
    the dtype is plain.

    The spec is cached, so that calls can compare it by identity.
    """
    dtype = to_dtype(numpy_dtype)

    def make_node(buffer: Buffer) -> UOp:
        return make_buffer_node(buffer, dtype, shape, HOST_DEVICE)

    return (shape, dtype, HOST_DEVICE), make_node, storage.is_plain(numpy_dtype)
