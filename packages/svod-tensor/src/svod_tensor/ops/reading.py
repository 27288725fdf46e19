"""The values of a tensor, as a program outside of it sees them: numbers, arrays, memory."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, TypeAlias

from svod_ir import Op, OperandError
from svod_tensor import _storage as storage
from svod_tensor._text import find_shape
from svod_tensor.cells import registry
from svod_tensor.cells.cell import Cell, Element
from svod_tensor.cells.derivatives import is_taking_derivatives
from svod_tensor.cells.lending import lend
from svod_tensor.cells.registry import check_not_capturing
from svod_tensor.cells.views import is_shard, is_symbolic, is_writable, read_array
from svod_tensor.engine import memory_nodes, states
from svod_tensor.engine.bindings import resolve_size
from svod_tensor.errors import (
    AmbiguousTruthError,
    BufferNotFoundError,
    CopyRequiredError,
    DerivativeError,
    ShardError,
    SingleElementError,
)
from svod_tensor.ops.theme import Theme

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from svod_device import Buffer
    from svod_dtype import DType
    from svod_ir import UOp
    from svod_tensor._data import Scalar

__all__ = ["Reading"]

_WRITABLE: Final = 1
"""PyBUF_WRITABLE of Python's buffer protocol."""

_MOST_COPIED: Final = 1 << 26
"""The bytes that are copied from another device for a text at most."""

Nested: TypeAlias = "bool | int | float | complex | list[Nested]"


class Reading(Theme):
    """Computing a tensor and reading it."""

    __slots__ = ()

    def buffer(self) -> Buffer:
        """The buffer of this tensor, which is computed first if need be; of a view of a larger one, a copy.

        That of complex numbers has twice as many floats: of each number the real part, then the imaginary one.

        Raises:
            BufferNotFoundError: if the tensor has no elements, and so no buffer.
            ShardError: if it is on several devices, and so has several buffers.

        Example:
            >>> Tensor([1.0, 2.0]).buffer().nbytes
            8
        """
        if self.sharding is not None:
            devices = self.sharding.devices
            raise ShardError(
                devices=devices, operation="buffer", problem="each shard has its own",
                hint=f'join the shards with x.to("{devices[0]}"), or take one of x.shards()',
            )  # fmt: skip
        check_not_capturing("reads values")
        if (
            not self.content.path
            and (lent := self.content.cell.find_memory()) is not None
            and self.content.cell.is_lent
        ):
            # The node is one on a copy.
            return lent
        # Another thread may assign to the tensor once it is realized.
        while not self.is_realized and 0 not in self.shape:
            self.realize()
        base = memory_nodes.find_base(self.uop)
        while base is None and 0 not in self.shape:
            # A view of larger memory.
            base = memory_nodes.find_base(self.clone().realize().uop)
        buffer = None if base is None else memory_nodes.find_buffer(base)
        if buffer is None:
            raise BufferNotFoundError(node=self.uop)
        return buffer

    def numpy(self, *, copy: bool = False) -> NDArray[np.generic]:
        """The values as a numpy array, computed first if need be.

        The array is read-only, unless `copy` asks for one that is not, and never changes. On the CPU it is the tensor's
        own memory, for a view with gaps or in another order: what is assigned to the tensor while the array lives goes to
        other memory. Of a tensor that was assigned to in its memory, it is a copy. bfloat16 and float8 come as the dtypes
        of the package ml_dtypes.

        Raises:
            CaptureError: if a function is captured just now.
            DerivativeError: if a derivative is taken just now, and the values depend on an argument of its function: what is
                computed from an array has no derivative. `item()`, `tolist()` and `print` read values for display and `if`.

        Example:
            >>> (Tensor([1.0, 2.0]) * 2).numpy()
            array([2., 4.], dtype=float32)
        """
        if is_taking_derivatives() and _is_differentiated(self.uop):
            raise DerivativeError(
                operation="numpy", problem="the values depend on an argument of the function whose derivative is taken",
                hint="compute with tensors, or write x.detach().numpy(): an array is a constant, which has no derivative",
            )  # fmt: skip
        if copy:
            return self._host_array().copy()
        array = self._lend_array()
        array.setflags(write=False)
        return array

    def _lend_array(self) -> NDArray[np.generic]:
        """The values as an array that never changes: memory that nobody writes as long as the array lives, or a copy."""
        import numpy as np

        array = self._host_array()
        owner = array
        while isinstance(owner.base, np.ndarray):
            # Views of the array keep this one alive.
            owner = owner.base
        if owner.base is None:
            return array
        cell = self.content.cell
        if cell.is_rewritten or cell.is_lent:
            return array.copy()
        memory = cell.find_memory()
        found = (memory,) if memory is not None else map(memory_nodes.find_buffer, states.iter_memories(cell.node))
        for buffer in found:
            if buffer is not None:
                buffer.lend(owner)
        return array

    def tolist(self) -> Nested:
        """The values as nested lists of Python numbers; of a 0-d tensor, the number.

        Raises:
            CaptureError: if a function is captured just now.

        Example:
            >>> Tensor([[1, 2], [3, 4]]).tolist()
            [[1, 2], [3, 4]]
        """
        array = self._host_array()
        return (array.astype("float32") if array.dtype.kind == "V" else array).tolist()

    def item(self) -> Scalar:
        """The value of a tensor with one element, as a Python number.

        Raises:
            SingleElementError: if it has another number of elements.
            CaptureError: if a function is captured just now.

        Example:
            >>> Tensor([[1.5]]).item()
            1.5
        """
        return self._read_number("item")

    def _read_number(self, operation: str) -> Scalar:
        if self.size != 1:
            raise SingleElementError(operation=operation, shape=self.shape)
        value = self._host_array().reshape(()).item()
        return value if isinstance(value, (bool, int, float, complex)) else float(value)

    def _host_array(self) -> NDArray[np.generic]:
        import numpy as np

        path = self.content.path
        # What a variable says at the end of a path is what it was when the view was made.
        whole = None if path and is_symbolic(path) else _find_whole(self.content.cell)
        if whole is not None:
            # No node is made to read it, nor is one looked at.
            check_not_capturing("reads values")
            return read_array(path, whole)
        shape = tuple(resolve_size(s) for s in self.shape)
        if 0 in shape:
            return np.empty(shape, self.dtype.numpy)
        check_not_capturing("reads values")
        if (element := self._read_element(computes=True)) is not None:
            return element
        if self.sharding is not None:
            self.realize()
            arrays = [shard._host_array() for shard in self.shards()]
            return arrays[0] if self.sharding.axis is None else np.concatenate(arrays, self.sharding.axis)
        # Memory that is shared with another tensor may be written just now, by another thread.
        if not self.is_realized:
            self.realize()
        array = self._find_array(shape)
        if array is None:
            # A part of memory that the host does not see.
            array = self.clone().realize()._find_array(shape)
        if array is None:
            raise BufferNotFoundError(node=self.uop)
        return array

    def _find_values(self) -> NDArray[np.generic] | None:
        """The values, unless they have to be computed, or much memory copied."""
        import numpy as np

        shape = find_shape(self.shape)
        if shape is None:
            return None
        if 0 in shape:
            return np.empty(shape, self.dtype.numpy)
        if (constant := _find_constant(self.uop)) is not None:
            return np.broadcast_to(np.array(constant, self.dtype.numpy), shape)
        if (element := self._read_element(computes=False)) is not None:
            return element
        sharding, is_large = self.sharding, self.nbytes > _MOST_COPIED
        if sharding is None and self.content.cell.is_settled and not self.is_realized and not is_large:
            # Memory that is shared with another tensor, which nobody writes without the lock before that has its own.
            with registry.lock:
                array = self._find_array(shape, copies=True)
                return None if array is None else array.copy()
        if not self.is_realized or (is_large and not self._is_in_host_memory()):
            return None
        if sharding is None:
            return self._find_array(shape, copies=True)
        if self.content.path:
            whole = self.from_content(self.content.cell)._find_values()
            return None if whole is None else read_array(self.content.path, whole)
        arrays = [shard._find_values() for shard in self.shards()]
        found = [array for array in arrays if array is not None]
        if len(found) < len(arrays):
            return None
        return found[0] if sharding.axis is None else np.concatenate(found, sharding.axis)

    def _read_element(self, *, computes: bool) -> NDArray[np.generic] | None:
        """The element of another tensor that this one is, read in the memory of that: no kernel copies it.

        `computes` lets the assignments to that memory be done that the element depends on.
        """
        content = self.content
        while isinstance(content, Element):
            with registry.lock:
                source = content.find_source()
                if source is None:
                    return None
                cell, path = source
                if cell.is_settled:
                    whole = _find_elements(cell.node, tuple(map(resolve_size, cell.node.shape)))
                    return None if whole is None else read_array(path, whole).copy()
            if not computes or not cell.owns:
                return None
            self.from_content(cell).realize()
        return None

    def _is_in_host_memory(self) -> bool:
        return self.sharding is None and storage.reads_files(str(self.device))

    def _find_array(self, shape: tuple[int, ...], *, copies: bool = False) -> NDArray[np.generic] | None:
        """The elements where they are, if they are in memory; `copies` lets what a view is of be copied as a whole."""
        whole = _find_elements(self.uop, shape)
        if whole is not None or not self.content.path or not (copies or self._is_in_host_memory()):
            return whole
        whole = self.content.cell.node
        found = _find_elements(whole, tuple(map(resolve_size, whole.shape)))
        return None if found is None else read_array(self.content.path, found)

    def __array__(self, dtype: np.dtype | None = None, copy: bool | None = None) -> NDArray[np.generic]:
        """The elements as numpy asks for them: an array that may be written, and shares the memory of this tensor, or a copy.

        What is written to the array is seen by what is built from the tensor afterwards; what was built before keeps the old
        elements. A tensor that is assigned to while the array lives goes to other memory. Where the tensor cannot be written in
        memory of the host, the array is read-only.

        Args:
            dtype: of the array.
            copy: True gives an array that shares nothing.

        Raises:
            CaptureError: if a function is captured just now.
            DerivativeError: if a derivative is taken just now, and the values depend on an argument of its function.
        """
        if not copy and (dtype is None or self.dtype.numpy == dtype):
            array = self._share_memory()
            if array is not None:
                return array
        array = self.numpy(copy=bool(copy))
        return array if dtype is None or array.dtype == dtype else array.astype(dtype)

    def _share_memory(self) -> NDArray[np.generic] | None:
        """The elements as an array that may be written, with which this tensor shares its memory; None if it cannot be."""
        content = self.content
        cell, path = content.cell, content.path
        is_special = path and (not is_writable(path) or is_shard(path) or is_symbolic(path))
        if is_special or is_taking_derivatives() or registry.find_capture() is not None or registry.is_computing_here():
            return None
        elements = cell.find_array()
        # The node is not asked for: what nobody has a node of is lent without looking for readers.
        shape, dtype, device = cell.form
        if 0 in shape:
            return self.numpy(copy=True)
        if elements is None:
            if not isinstance(device, str) or not storage.is_host_memory(device):
                return None
            while not cell.is_realized:
                self.from_content(cell).realize()
            elements = lend(cell)
            if elements is None:
                return None
        known = find_shape(shape)
        if known is None:
            known = tuple(map(resolve_size, cell.node.shape))
        return read_array(path, _shape_elements(elements, dtype, known))

    def __dlpack__(
        self,
        *,
        stream: object = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        """The tensor's elements in memory of the host by the DLPack protocol; the consumer shares them and must not write.

        Args:
            stream: None, as for every memory of the host.
            max_version: of DLPack, that the consumer reads.
            dl_device: where it wants the memory, as DLPack's number of a kind and one of a device.
            copy: True gives the consumer memory of its own; False is an error where the elements are on another device.

        Raises:
            CopyRequiredError: if `copy` is False and the elements are on another device.
            BufferError: if the consumer wants memory that is not the host's.
        """
        from svod_tensor._dlpack import make_capsule

        if copy is False and (self.sharding is not None or not storage.reads_files(str(self.device))):
            raise CopyRequiredError(operation="__dlpack__", problem=f"the elements are on {self.device}")
        return make_capsule(
            self._lend_array(), self.dtype, stream=stream, max_version=max_version, dl_device=dl_device, copy=copy
        )

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __bytes__(self) -> bytes:
        return self._host_array().tobytes()

    def __buffer__(self, flags: int, /) -> memoryview:
        """The tensor's memory as Python's buffer protocol gives it, from Python 3.12 on; it is read-only.

        Raises:
            BufferError: if it is asked for to be written, or of a dtype that the protocol lacks.
        """
        if flags & _WRITABLE:
            raise BufferError("the memory of a tensor is read-only: write to the tensor, as in x[...] = y")
        array = self.numpy()
        if array.dtype.kind == "V":
            raise BufferError(
                f"the buffer protocol has no {self.dtype}: take x.numpy().view('uint{8 * self.itemsize}')"
            )
        return array.data

    def __bool__(self) -> bool:
        if self.size != 1:
            raise AmbiguousTruthError(shape=self.shape)
        return bool(self.item())

    def __complex__(self) -> complex:
        return complex(self._read_number("complex"))

    def __int__(self) -> int:
        return int(self._read_real("int"))

    def __index__(self) -> int:
        if not self.dtype.is_int or self.ndim:
            raise OperandError(operation="index", found=f"{self.dtype} of shape {self.shape}", expected="one integer")
        return int(self._read_real("index"))

    def __float__(self) -> float:
        return float(self._read_real("float"))

    def _read_real(self, operation: str) -> bool | int | float:
        value = self._read_number(operation)
        if isinstance(value, complex):
            raise OperandError(
                operation=operation, found=self.dtype, expected="a real number", hint="take x.real or x.abs()"
            )
        return value


def _is_differentiated(node: UOp) -> bool:
    """Whether a node depends on an argument by which derivatives are taken, through floats that are not detached."""
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
    shape, dtype, _ = cell.form
    known = find_shape(shape)
    return None if known is None else _view_elements(memory, dtype, known)


def _find_elements(node: UOp, shape: tuple[int, ...]) -> NDArray[np.generic] | None:
    """The elements of a node that is memory, in memory of the host."""
    base = memory_nodes.find_base(node)
    buffer = None if base is None else memory_nodes.find_buffer(base)
    return None if buffer is None else _view_elements(buffer, node.dtype, shape)


def _view_elements(buffer: Buffer, dtype: DType, shape: tuple[int, ...]) -> NDArray[np.generic]:
    return _shape_elements(buffer.as_numpy(), dtype, shape)


def _shape_elements(elements: NDArray[np.generic], dtype: DType, shape: tuple[int, ...]) -> NDArray[np.generic]:
    if dtype.is_complex:
        elements = elements.view(dtype.numpy)
    size = math.prod(shape)
    # A variable size has memory for the largest.
    return (elements if elements.size == size else elements[:size]).reshape(shape)
