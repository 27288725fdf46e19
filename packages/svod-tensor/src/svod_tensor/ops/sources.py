"""Tensors of what exists already: arrays of numpy and files."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import TYPE_CHECKING, Self

from svod_dtype import to_dtype, uint8
from svod_ir import OperandError
from svod_tensor import _storage as storage
from svod_tensor._data import copy_to_device, make_array_node, make_buffer_node, place_by_default
from svod_tensor.cells import tables
from svod_tensor.cells.cell import Cell
from svod_tensor.engine import memory_nodes
from svod_tensor.errors import CopyRequiredError, MissingFileError
from svod_tensor.ops.naming import operations
from svod_tensor.ops.theme import Theme
from svod_tensor.options import DEFAULT_DEVICE, HOST_DEVICE

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from svod_device import Buffer
    from svod_ir import UOp
    from svod_tensor.cells.cell import Form

__all__ = ["Sources"]


@operations
class Sources(Theme):
    """Sharing memory with, and copying from, arrays and files."""

    __slots__ = ()

    @classmethod
    def from_numpy(cls, array: NDArray[np.generic], *, copy: bool | None = None) -> Self:
        """A tensor with the elements of `array`, in its shape and dtype.

        Writes to a shared array show in the tensor, and in results that are computed afterwards. The tensor never
        writes to the array: once it is assigned to, it has memory of its own.

        Args:
            array: of any dtype that svod has.
            copy: True copies. False shares the array's memory, or fails where kernels cannot read it
                there. None, the default, shares if it can (contiguous and aligned to 16 bytes, as new arrays
                are) and else copies.

        Raises:
            OperandError: if the memory cannot be shared and `copy` is False.

        Example:
            >>> Tensor.from_numpy(np.array([1.0, 2.0])).dtype
            float64
        """
        if copy is False and not storage.is_shareable(array):
            raise OperandError(
                operation="from_numpy(copy=False)", found=f"an array at {array.ctypes.data:#x} with strides {array.strides}",
                expected="contiguous memory aligned to 16 bytes",
            )  # fmt: skip
        may_share = copy is not True
        if DEFAULT_DEVICE == HOST_DEVICE and not tables.captured and array.size and array.dtype.kind != "c":
            return cls._on_array(array, may_share=may_share)
        made = make_array_node(array, may_share=may_share)
        node = place_by_default(made)
        form = (array.shape, made.dtype, HOST_DEVICE) if node is made else None
        return cls.from_uop(node, form, owns=memory_nodes.is_buffer_identity(node))

    @classmethod
    def _on_array(cls, array: NDArray[np.generic], *, may_share: bool) -> Self:
        """A tensor without a node, as long as nobody asks for it: arguments of captured functions need none."""
        form, make_node, is_plain = _describe(array.dtype, array.shape)
        buffer = storage.find_shared(array, form[1]) if may_share and is_plain else None
        if buffer is None:
            buffer = storage.make_host_buffer(array, form[1], may_share=may_share)
        return cls.from_content(Cell.on(buffer, make_node, form))

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Self:
        """The bytes of the file at `path` as a uint8 tensor of one axis on its DISK device: nothing is read until it is
        used.

        Raises:
            MissingFileError: if the file is not there.

        Example:
            >>> import tempfile
            >>> with tempfile.NamedTemporaryFile() as file:
            ...     _ = file.write(bytes([1, 2, 3]))
            ...     file.flush()
            ...     Tensor.from_file(file.name).tolist()
            [1, 2, 3]
        """
        name = os.path.abspath(str(os.fspath(path)))
        if not os.path.isfile(name):
            raise MissingFileError(path=name, problem="is a directory" if os.path.isdir(name) else "does not exist")
        size = os.path.getsize(name)
        if size == 0:
            return cls.from_uop(cls.zeros(0, dtype=uint8).uop)
        device = f"DISK:{name}"
        return cls.from_uop(make_buffer_node(storage.open_file(device, uint8, size), uint8, (size,), device), owns=True)

    @classmethod
    def from_dlpack(cls, source: object, *, device: str | None = None, copy: bool | None = None) -> Self:
        """A tensor with the values of another library's array, whose memory it shares where kernels can read it there.

        Args:
            source: anything with `__dlpack__`, on the host.
            device: where the tensor is; by default on the CPU.
            copy: True gives memory of its own; False an error where that is needed; None copies where it is.

        Raises:
            OperandError: if it is no array, or one on a device, or of a dtype, that cannot be read.
            CopyRequiredError: if `copy` is False and the elements must be copied.

        Example:
            >>> Tensor.from_dlpack(np.array([1.0, 2.0])).tolist()
            [1.0, 2.0]
        """
        from svod_tensor._dlpack import read_elements
        from svod_tensor._storage import check_device, is_shareable

        array, dtype = read_elements(source)
        is_moved = device is not None and check_device(device) != HOST_DEVICE
        if copy is False and (is_moved or not is_shareable(array)):
            problem = f"it is wanted on {device}" if is_moved else "kernels cannot read the array where it is"
            raise CopyRequiredError(operation="from_dlpack", problem=problem)
        node = make_array_node(array, may_share=copy is not True, dtype=dtype)
        node = copy_to_device(node, device) if is_moved and device is not None else node
        return cls.from_uop(node, owns=memory_nodes.is_buffer_identity(node))


@lru_cache(maxsize=256)
def _describe(numpy_dtype: np.dtype[np.generic], shape: tuple[int, ...]) -> tuple[Form, Callable[[Buffer], UOp], bool]:
    """The form of tensors of arrays with this dtype and shape, what makes their nodes, and whether the dtype is plain.

    Arrays of one kind have one form, so that calls with them compare it by identity.
    """
    dtype = to_dtype(numpy_dtype)

    def make_node(buffer: Buffer) -> UOp:
        return make_buffer_node(buffer, dtype, shape, HOST_DEVICE)

    return (shape, dtype, HOST_DEVICE), make_node, storage.is_plain(numpy_dtype)
