"""Buffers: handles on device memory.

Buffers may share a storage: `view` returns a buffer over a byte range of another buffer. Two
buffers overlap only if their `storage_id`s are equal and their intervals [offset, offset + nbytes)
intersect. Memory is allocated at first use. It is freed with the last buffer, memoryview or array
over the storage.
"""

from __future__ import annotations

import gc
import threading
import weakref
from itertools import count
from typing import TYPE_CHECKING, cast

from svod_device._protocols import Allocator, Memory
from svod_device._wrapped import WrappedAllocator
from svod_device.cpu import HostAllocator
from svod_device.errors import (
    NotAllocatedError,
    NotHostAddressableError,
    ReadOnlyError,
    SizeMismatchError,
    ViewError,
)
from svod_device.host_memory import (
    SHARED_ALIGNMENT,
    address_of,
    copy_host,
    expose_host,
    fill_zero,
    view_host,
)
from svod_dtype import DType, uint8
from svod_ir.forks import hold_across_fork

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    import numpy.typing as npt
    from typing_extensions import Buffer as BytesLike

__all__ = ["Buffer", "copy_buffer"]

_NO_MEMORY = Memory(0, 0)
_storage_ids = count(1)
_host = HostAllocator()
# Reentrant, since a finalizer may allocate in the thread that holds it; held across `os.fork`, so
# that a forked child never inherits it locked.
_publishing = hold_across_fork(threading.RLock())


class _Storage:
    """Memory block shared by buffers: allocated at first use, freed by its finalizer."""

    __slots__ = (
        "allocator",
        "id",
        "is_writable",
        "is_zeroed",
        "memory",
        "nbytes",
        "opening",
        "readers",
    )

    def __init__(
        self,
        allocator: Allocator,
        nbytes: int,
        is_zeroed: bool,
        memory: Memory | None,
        is_writable: bool,
    ) -> None:
        self.memory = memory
        self.allocator = allocator
        self.opening = allocator.opening if isinstance(allocator, WrappedAllocator) else None
        self.nbytes = nbytes
        self.is_zeroed = is_zeroed
        self.is_writable = is_writable
        self.readers: tuple[weakref.ref[object], ...] = ()
        self.id = next(_storage_ids)

    def allocate(self) -> Memory:
        memory = self.memory
        if memory is None:
            block = _allocate(self.allocator, self.nbytes) if self.nbytes else _NO_MEMORY
            if self.is_zeroed and self.nbytes:
                _clear(self.allocator, block.address, self.nbytes)
            # Allocation runs without the lock, since it may be slow. If two threads allocate, the
            # first to get here wins, and the second frees its block.
            with _publishing:
                memory = self.memory = self.memory or block
            if memory is not block and block is not _NO_MEMORY:
                self.allocator.free(block)
        return memory

    def __del__(self) -> None:
        # Finalizers run at any time, so `free` must not wait for locks (see `Allocator.free`).
        memory = self.memory
        if memory is not None and memory is not _NO_MEMORY:
            self.allocator.free(memory)


def _allocate(allocator: Allocator, nbytes: int) -> Memory:
    """Allocate a block. If the device is out of memory, collect garbage and retry."""
    try:
        return allocator.allocate(nbytes)
    except MemoryError:
        return _collect_and_allocate(allocator, nbytes)


def _collect_and_allocate(allocator: Allocator, nbytes: int) -> Memory:
    # Unreachable reference cycles may own buffers.
    gc.collect()
    return allocator.allocate(nbytes)


def _clear(allocator: Allocator, address: int, nbytes: int) -> None:
    if allocator.is_host_addressable and allocator.is_writable:
        fill_zero(address, nbytes)
    else:
        allocator.copy_in(address, memoryview(bytes(nbytes)))


class Buffer:
    """Array of `size` elements of `dtype` in device memory, `offset` bytes into its storage.

    The memory is allocated at first use.

    Args:
        allocator: allocator of the device.
        dtype: dtype of the elements.
        size: number of elements.
        zeroed: whether the memory is filled with zeros; otherwise it is uninitialized.

    Example:
        >>> from svod_device import Buffer, HostAllocator
        >>> from svod_dtype import float32, int32
        >>> x = Buffer(HostAllocator(), float32, 4, zeroed=True)
        >>> x.is_allocated, x.ensure_allocated().is_allocated, x.locate() == x.address
        (False, True, True)
        >>> x.as_memoryview().nbytes, x.copyout(destination := bytearray(16)), destination == bytes(16)
        (16, None, True)

        External memory without a copy, read-only as long as an object exposes it:

        >>> import numpy as np
        >>> array = np.arange(8, dtype=np.int32)
        >>> wrapped = Buffer.wrap(array, array.ctypes.data, array.nbytes, int32)
        >>> wrapped.view(8, 8).to_bytes() == array[2:4].tobytes()
        True
        >>> reader = np.arange(1)
        >>> wrapped.lend(reader)
        >>> wrapped.is_writable
        False
        >>> del reader
        >>> wrapped.is_writable
        True

        Many buffers of one size:

        >>> make = Buffer.make_factory(HostAllocator(), float32, 4)
        >>> make().nbytes, make().is_allocated
        (16, True)
    """

    __slots__ = ("_storage", "dtype", "nbytes", "offset", "start")

    start: int | None
    """The address of the first byte, if it is known and means the same for as long as the buffer
    lives.
    """

    def __init__(
        self, allocator: Allocator, dtype: DType, size: int, *, zeroed: bool = False
    ) -> None:
        self.dtype = dtype
        self.offset = 0
        self.start = None
        self.nbytes = size * dtype.nbytes
        self._storage = _Storage(allocator, self.nbytes, zeroed, None, allocator.is_writable)

    @classmethod
    def wrap(
        cls,
        owner: object,
        address: int,
        nbytes: int,
        dtype: DType = uint8,
        *,
        is_writable: bool = True,
        allocator: Allocator | None = None,
    ) -> Buffer:
        """Return a buffer over external memory, without a copy.

        Args:
            owner: object that keeps the memory alive; referenced by the buffer and its views.
            address: address of the first byte, in the address space of `allocator`.
            nbytes: size in bytes, a multiple of the size of `dtype`.
            dtype: element type.
            is_writable: whether kernels and copies may write.
            allocator: allocator of the memory's device; by default host memory of device CPU.

        Raises:
            ViewError: if the address is not aligned to 16 bytes (copy the data to a new buffer
                then), or `nbytes` is not a multiple of the element size.
        """
        if address % SHARED_ALIGNMENT and nbytes:
            problem = f"is not aligned to {SHARED_ALIGNMENT} bytes"
            raise ViewError(offset=address, nbytes=nbytes, base_nbytes=nbytes, problem=problem)
        if nbytes % dtype.nbytes or address % SHARED_ALIGNMENT:
            _check_elements(address, nbytes, nbytes, dtype)
        external = _External(allocator) if allocator else _external_host
        # Assigned directly instead of by the constructors, which take longer: each array argument
        # of each call is wrapped here.
        storage = _Storage.__new__(_Storage)
        storage.memory, storage.allocator, storage.nbytes = (
            Memory(address, nbytes, owner),
            external,
            nbytes,
        )
        storage.opening, storage.is_zeroed, storage.is_writable = (
            external.opening,
            False,
            is_writable,
        )
        storage.id, storage.readers = next(_storage_ids), ()
        self = cls.__new__(cls)
        self.dtype, self.offset, self.nbytes, self._storage = dtype, 0, nbytes, storage
        # `start` skips all checks, so it is set only for memory that cannot be lost.
        self.start = address if external.opening is None else None
        return self

    @classmethod
    def from_host(
        cls, data: BytesLike, dtype: DType = uint8, *, allocator: Allocator | None = None
    ) -> Buffer:
        """Return a buffer over a contiguous buffer-protocol object if it is aligned, else over a
        copy.

        Args:
            data: object with the buffer protocol, such as bytes or a numpy array.
            dtype: dtype of the elements.
            allocator: allocator of a copy; by default the host's.

        Raises:
            ViewError: if the number of bytes is not a multiple of the element size.
        """
        source = memoryview(data)
        if source.c_contiguous:
            address, pin = address_of(source)
            # Empty objects may have any address, so they are never wrapped.
            if address % SHARED_ALIGNMENT == 0 and source.nbytes:
                return cls.wrap(pin, address, source.nbytes, dtype, is_writable=not source.readonly)
        _check_elements(0, source.nbytes, source.nbytes, dtype)
        self = cls(allocator or _host, dtype, source.nbytes // dtype.nbytes)
        self.copyin(source)
        return self

    @staticmethod
    def make_factory(allocator: Allocator, dtype: DType, size: int) -> Callable[[], Buffer]:
        """Return a factory of allocated buffers of `size` elements of `dtype`.

        The factory raises `OutOfMemoryError` if allocation fails even after a garbage collection.
        """
        nbytes = size * dtype.nbytes
        is_writable = allocator.is_writable
        new, new_storage, allocate = Buffer.__new__, _Storage.__new__, allocator.allocate
        opening = allocator.opening if isinstance(allocator, WrappedAllocator) else None

        def make() -> Buffer:
            # As in `wrap`, constructors are bypassed: each result of each call of a captured
            # function is allocated here.
            if not nbytes:
                memory = _NO_MEMORY
            else:
                try:
                    memory = allocate(nbytes)
                except MemoryError:
                    memory = _collect_and_allocate(allocator, nbytes)
            storage = new_storage(_Storage)
            storage.memory, storage.allocator, storage.opening, storage.nbytes = (
                memory,
                allocator,
                opening,
                nbytes,
            )
            storage.is_zeroed, storage.is_writable, storage.id = (
                False,
                is_writable,
                next(_storage_ids),
            )
            storage.readers = ()
            buffer = new(Buffer)
            buffer.dtype, buffer.offset, buffer.nbytes, buffer._storage = dtype, 0, nbytes, storage
            buffer.start = memory.address if opening is None else None
            return buffer

        return make

    def __repr__(self) -> str:
        state = "" if self.is_allocated else ", no memory yet"
        return (
            f"Buffer({self.dtype} x {self.size} on {self.device}, storage {self.storage_id} +"
            f" {self.offset}{state})"
        )

    @property
    def size(self) -> int:
        """Number of elements."""
        return self.nbytes // self.dtype.nbytes

    @property
    def storage_id(self) -> int:
        """Unique identifier of the storage, shared by all views of it."""
        return self._storage.id

    @property
    def storage_nbytes(self) -> int:
        """Size of the storage in bytes."""
        return self._storage.nbytes

    @property
    def allocator(self) -> Allocator:
        return self._storage.allocator

    @property
    def device(self) -> str:
        """Canonical name of the buffer's device."""
        return self._storage.allocator.device

    @property
    def is_allocated(self) -> bool:
        return self._storage.memory is not None

    @property
    def is_host_addressable(self) -> bool:
        """True if CPU kernels can use the address: host memory, and DISK's mapped files."""
        return self._storage.allocator.is_host_addressable

    @property
    def is_writable(self) -> bool:
        """True if kernels may write: the memory is not read-only, and it is not lent to a live
        object.
        """
        storage = self._storage
        return storage.is_writable and not (
            storage.readers and any(reader() is not None for reader in storage.readers)
        )

    def lend(self, reader: object) -> None:
        """Make `is_writable` false while `reader`, an object that exposes the memory, is alive.

        Explicit writes such as `copyin` remain possible.
        """
        storage = self._storage
        if storage.is_writable:
            # Weak references, so that lending does not extend a reader's lifetime. Dead ones are
            # dropped here to bound the tuple.
            storage.readers = (
                *(r for r in storage.readers if r() is not None),
                weakref.ref(reader),
            )

    @property
    def address(self) -> int:
        """Address of the first byte. Call `ensure_allocated` first.

        Raises:
            NotAllocatedError: if the buffer has no memory yet.
            DeviceLostError: if the device was lost or closed, so that the address is invalid.
        """
        storage = self._storage
        memory, opening = storage.memory, storage.opening
        if memory is None:
            raise NotAllocatedError(device=self.device, nbytes=self.nbytes)
        if opening is not None and opening.is_lost:
            opening.check(f"using a buffer of {self.nbytes} bytes on {self.device}")
        return memory.address + self.offset

    def ensure_allocated(self) -> Buffer:
        """Allocate the memory if needed, and return this buffer.

        Raises:
            OutOfMemoryError: if allocation fails even after a garbage collection.
            DeviceLostError: if the device was lost or closed.
            DiskError: if the file cannot be mapped.
        """
        storage = self._storage
        if storage.memory is None:
            storage.allocate()
        elif storage.opening is not None and storage.opening.is_lost:
            storage.opening.check(f"using a buffer of {self.nbytes} bytes on {self.device}")
        return self

    def locate(self) -> int:
        """Allocate the memory if needed, and return the address of the first byte."""
        storage = self._storage
        memory = storage.memory
        if memory is None or storage.opening is not None:
            return self.ensure_allocated().address
        self.start = start = memory.address + self.offset
        return start

    def view(self, offset_bytes: int, nbytes: int, dtype: DType | None = None) -> Buffer:
        """Return a buffer over `nbytes` bytes of this buffer at offset `offset_bytes`. It does not
        allocate memory.

        Raises:
            ViewError: if the range is out of bounds, misaligned, or not a multiple of the element
                size.
        """
        if offset_bytes < 0 or nbytes < 0 or offset_bytes + nbytes > self.nbytes:
            raise ViewError(offset=offset_bytes, nbytes=nbytes, base_nbytes=self.nbytes)
        dtype = dtype or self.dtype
        _check_elements(offset_bytes, nbytes, self.nbytes, dtype)
        view = Buffer.__new__(Buffer)
        view._storage, view.dtype, view.offset, view.nbytes = (
            self._storage,
            dtype,
            self.offset + offset_bytes,
            nbytes,
        )
        view.start = None
        return view

    def overlaps(self, other: Buffer) -> bool:
        """True if the two buffers have a byte in common."""
        start, end = (
            max(self.offset, other.offset),
            min(self.offset + self.nbytes, other.offset + other.nbytes),
        )
        return self._storage is other._storage and start < end

    def copyin(self, data: BytesLike) -> None:
        """Copy host bytes into the buffer.

        Raises:
            SizeMismatchError: if the size of `data` differs from the buffer's.
            ReadOnlyError: if the memory is read-only.
        """
        source = _as_bytes(memoryview(data))
        if source.nbytes != self.nbytes:
            raise SizeMismatchError(operation="copyin", expected=self.nbytes, found=source.nbytes)
        self._check_writable()
        memory = self._storage.allocate()
        if self.nbytes:
            self.allocator.copy_in(memory.address + self.offset, source)

    def copyout(self, destination: BytesLike) -> None:
        """Copy the buffer into a writable, contiguous host object of the same size.

        Raises:
            SizeMismatchError: if the size of `destination` differs from the buffer's.
            ReadOnlyError: if `destination` is read-only.
        """
        target = memoryview(destination)
        if target.readonly:
            raise ReadOnlyError(device="the host object")
        if target.nbytes != self.nbytes:
            raise SizeMismatchError(operation="copyout", expected=self.nbytes, found=target.nbytes)
        memory = self._storage.allocate()
        if self.nbytes:
            self.allocator.copy_out(target.cast("B"), memory.address + self.offset)

    def to_bytes(self) -> bytes:
        """Return a copy of the buffer's bytes."""
        data = bytearray(self.nbytes)
        self.copyout(data)
        return bytes(data)

    def as_memoryview(self) -> memoryview:
        """Return a memoryview of the buffer's memory, without a copy. It keeps the memory alive.

        Raises:
            NotHostAddressableError: if the host cannot address the memory.
        """
        if not self.is_host_addressable:
            raise NotHostAddressableError(device=self.device)
        self.ensure_allocated()
        # Queued kernels may still write the memory.
        self.allocator.synchronize()
        return view_host(
            self.address, self.nbytes, self._storage, is_writable=self._storage.is_writable
        )

    def as_numpy(self) -> npt.NDArray[np.generic]:
        """Return the elements as a flat array: without a copy if the memory is host-addressable."""
        import numpy as np

        nbytes, storage = self.nbytes, self._storage
        if nbytes == 0:
            return np.empty(0, self.dtype.numpy)
        allocator = storage.allocator
        if not allocator.is_host_addressable:
            return np.frombuffer(self.to_bytes(), dtype=self.dtype.numpy)
        if not storage.is_writable:
            # A read-only memoryview, so that the array cannot be made writable.
            return np.frombuffer(self.as_memoryview(), dtype=self.dtype.numpy)
        # The common case, a result that is read: `expose_host` is faster than a memoryview.
        start = self.start
        if start is None:
            start = self.locate()
        allocator.synchronize()
        exposed = cast("memoryview", expose_host(start, nbytes, storage))
        return np.frombuffer(exposed, dtype=self.dtype.numpy)

    def _check_writable(self) -> None:
        if not self._storage.is_writable:
            raise ReadOnlyError(device=self.device)


class _External(WrappedAllocator):
    """Allocator of wrapped external memory: forwards to an inner allocator, but never frees."""

    __slots__ = ()

    def free(self, memory: Memory) -> None:
        """Do nothing: the owner frees the memory."""


# Created once, since the protocol checks of `WrappedAllocator` take longer than wrapping an array.
_external_host = _External(_host)


def copy_buffer(destination: Buffer, source: Buffer) -> None:
    """Copy all bytes of `source` to `destination`. The two may be on different devices.

    Raises:
        SizeMismatchError: if their sizes in bytes differ.
        ReadOnlyError: if the destination is read-only.
    """
    if destination.nbytes != source.nbytes:
        raise SizeMismatchError(operation="copy", expected=destination.nbytes, found=source.nbytes)
    destination._check_writable()  # pyright: ignore[reportPrivateUsage]
    if source.nbytes == 0:
        return
    if source.is_host_addressable and destination.is_host_addressable:
        for buffer in (source, destination):
            buffer.ensure_allocated()
            # The host copies directly, so queued work of both devices must be done.
            buffer.allocator.synchronize()
        copy_host(destination.address, source.address, source.nbytes)
    elif source.is_host_addressable:
        destination.copyin(source.as_memoryview())
    elif destination.is_host_addressable:
        source.copyout(destination.as_memoryview())
    else:
        # Neither is host-addressable: copy through the host.
        destination.copyin(source.to_bytes())


def _as_bytes(view: memoryview) -> memoryview:
    if not view.c_contiguous:
        return memoryview(view.tobytes())
    return view.cast("B") if view.nbytes else memoryview(b"")


def _check_elements(offset: int, nbytes: int, base_nbytes: int, dtype: DType) -> None:
    problem = None
    if nbytes % dtype.nbytes:
        problem = f"is not a whole number of {dtype} elements"
    elif offset % dtype.itemsize:
        problem = f"is not aligned to {dtype} elements"
    if problem is not None:
        raise ViewError(offset=offset, nbytes=nbytes, base_nbytes=base_nbytes, problem=problem)
