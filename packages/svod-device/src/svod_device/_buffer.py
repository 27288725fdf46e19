"""`Buffer`: a handle on a piece of a device's memory.

Several handles may share one storage: `view` makes one for a part of another. Two buffers may touch
the same bytes only if their `storage_id`s are equal and their intervals [offset, offset + nbytes)
overlap. The memory comes when it is first needed and goes back to its allocator with the last
handle, or with the last memoryview or array made from one.
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
_publishing = hold_across_fork(threading.RLock())


class _Storage:
    """One block of memory, allocated at first use and returned by its finalizer."""

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
            made = _allocate(self.allocator, self.nbytes) if self.nbytes else _NO_MEMORY
            if self.is_zeroed and self.nbytes:
                _clear(self.allocator, made.address, self.nbytes)
            # Two threads may both have made some: the first one's counts. Nobody waits for an
            # allocation under a lock.
            with _publishing:
                memory = self.memory = self.memory or made
            if memory is not made and made is not _NO_MEMORY:
                self.allocator.free(made)
        return memory

    def __del__(self) -> None:
        memory = self.memory
        if memory is not None and memory is not _NO_MEMORY:
            self.allocator.free(memory)


def _allocate(allocator: Allocator, nbytes: int) -> Memory:
    """A block; where there is none, garbage may hold the memory that is missing."""
    try:
        return allocator.allocate(nbytes)
    except MemoryError:
        return _allocate_anew(allocator, nbytes)


def _allocate_anew(allocator: Allocator, nbytes: int) -> Memory:
    gc.collect()
    return allocator.allocate(nbytes)


def _clear(allocator: Allocator, address: int, nbytes: int) -> None:
    if allocator.is_host_addressable and allocator.is_writable:
        fill_zero(address, nbytes)
    else:
        allocator.copy_in(address, memoryview(bytes(nbytes)))


class Buffer:
    """`size` elements of `dtype` in the memory of one device, at `offset` bytes into its storage.

    The memory is not cleared unless `zeroed` asks for it.
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
        """A buffer over memory that `owner` keeps alive; nothing is copied.

        Args:
            owner: kept for as long as a handle lives.
            address: of the first byte, in the address space of `allocator`.
            nbytes: how many bytes there are; a multiple of the size of `dtype`.
            dtype: of the elements.
            is_writable: whether kernels and copies may write.
            allocator: of the device whose memory it is; by default the host's, as device CPU.

        Raises:
            ViewError: if the address is not aligned to 16 bytes (copy the data into a buffer of its
                own then), or `nbytes` is no multiple of the element size.
        """
        if address % SHARED_ALIGNMENT and nbytes:
            problem = f"is not aligned to {SHARED_ALIGNMENT} bytes"
            raise ViewError(offset=address, nbytes=nbytes, base_nbytes=nbytes, problem=problem)
        if nbytes % dtype.nbytes or address % SHARED_ALIGNMENT:
            _check_elements(address, nbytes, nbytes, dtype)
        external = _External(allocator) if allocator else _external_host
        # Every array that a call is given comes through here.
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
        self.start = address if external.opening is None else None
        return self

    @classmethod
    def from_host(
        cls, data: BytesLike, dtype: DType = uint8, *, allocator: Allocator | None = None
    ) -> Buffer:
        """A buffer with the bytes of a contiguous object: over the object itself if that is
        aligned, else a copy.
        """
        source = memoryview(data)
        if source.c_contiguous:
            address, pin = address_of(source)
            if address % SHARED_ALIGNMENT == 0 and source.nbytes:
                return cls.wrap(pin, address, source.nbytes, dtype, is_writable=not source.readonly)
        _check_elements(0, source.nbytes, source.nbytes, dtype)
        self = cls(allocator or _host, dtype, source.nbytes // dtype.nbytes)
        self.copyin(source)
        return self

    @staticmethod
    def prepare_making(allocator: Allocator, dtype: DType, size: int) -> Callable[[], Buffer]:
        """What makes buffers of one size, which have their memory already.

        It raises `OutOfMemoryError` if the device has not enough memory, also after garbage was
        collected."""
        nbytes = size * dtype.nbytes
        is_writable = allocator.is_writable
        new, new_storage, allocate = Buffer.__new__, _Storage.__new__, allocator.allocate
        opening = allocator.opening if isinstance(allocator, WrappedAllocator) else None

        def make() -> Buffer:
            # Every result of every call of a captured function comes from here.
            if not nbytes:
                memory = _NO_MEMORY
            else:
                try:
                    memory = allocate(nbytes)
                except MemoryError:
                    memory = _allocate_anew(allocator, nbytes)
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
            made = new(Buffer)
            made.dtype, made.offset, made.nbytes, made._storage = dtype, 0, nbytes, storage
            made.start = memory.address if opening is None else None
            return made

        return make

    def __repr__(self) -> str:
        state = "" if self.is_allocated else ", no memory yet"
        return (
            f"Buffer({self.dtype} x {self.size} on {self.device}, storage {self.storage_id} +"
            f" {self.offset}{state})"
        )

    @property
    def size(self) -> int:
        """How many elements."""
        return self.nbytes // self.dtype.nbytes

    @property
    def storage_id(self) -> int:
        """The same for all views of one storage, and for nothing else."""
        return self._storage.id

    @property
    def storage_nbytes(self) -> int:
        """The bytes of the whole storage."""
        return self._storage.nbytes

    @property
    def allocator(self) -> Allocator:
        return self._storage.allocator

    @property
    def device(self) -> str:
        """The canonical name of the device whose memory it is."""
        return self._storage.allocator.device

    @property
    def is_allocated(self) -> bool:
        return self._storage.memory is not None

    @property
    def is_host_addressable(self) -> bool:
        """True if a kernel on the CPU can take the address as it is: memory of the CPU, and DISK's
        mapped files.
        """
        return self._storage.allocator.is_host_addressable

    @property
    def is_writable(self) -> bool:
        """True if kernels may write: the memory is not read-only, and no object that it is lent to
        is alive.
        """
        storage = self._storage
        return storage.is_writable and not (
            storage.readers and any(reader() is not None for reader in storage.readers)
        )

    def lend(self, reader: object) -> None:
        """Keep the memory from being written as long as `reader`, an object that shows it, is
        alive.

        Who writes on purpose, as `copyin` does, still can.
        """
        storage = self._storage
        if storage.is_writable:
            storage.readers = (
                *(r for r in storage.readers if r() is not None),
                weakref.ref(reader),
            )

    @property
    def address(self) -> int:
        """Of the first byte; call `ensure_allocated` before.

        Raises:
            NotAllocatedError: if there is no memory yet.
            DeviceLostError: if the device was lost or closed, so that the address means nothing any
                more.
        """
        storage = self._storage
        memory, opening = storage.memory, storage.opening
        if memory is None:
            raise NotAllocatedError(device=self.device, nbytes=self.nbytes)
        if opening is not None and opening.is_lost:
            opening.check(f"using a buffer of {self.nbytes} bytes on {self.device}")
        return memory.address + self.offset

    def ensure_allocated(self) -> Buffer:
        """Get the memory now, and return this buffer.

        Raises:
            OutOfMemoryError: if the device has not enough memory, also after garbage was collected.
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
        """`ensure_allocated`, and the `address`."""
        storage = self._storage
        memory = storage.memory
        if memory is None or storage.opening is not None:
            return self.ensure_allocated().address
        self.start = start = memory.address + self.offset
        return start

    def view(self, offset_bytes: int, nbytes: int, dtype: DType | None = None) -> Buffer:
        """A handle on `nbytes` bytes of this buffer from `offset_bytes` on; it may be made before
        there is memory.

        Raises:
            ViewError: if this buffer does not hold these bytes, or they are no whole number of
                elements.
        """
        if offset_bytes < 0 or nbytes < 0 or offset_bytes + nbytes > self.nbytes:
            raise ViewError(offset=offset_bytes, nbytes=nbytes, base_nbytes=self.nbytes)
        dtype = dtype or self.dtype
        _check_elements(offset_bytes, nbytes, self.nbytes, dtype)
        part = Buffer.__new__(Buffer)
        part._storage, part.dtype, part.offset, part.nbytes = (
            self._storage,
            dtype,
            self.offset + offset_bytes,
            nbytes,
        )
        part.start = None
        return part

    def overlaps(self, other: Buffer) -> bool:
        """True if the two share a byte."""
        start, end = (
            max(self.offset, other.offset),
            min(self.offset + self.nbytes, other.offset + other.nbytes),
        )
        return self._storage is other._storage and start < end

    def copyin(self, data: BytesLike) -> None:
        """Fill the buffer with host bytes.

        Raises:
            SizeMismatchError: if there are more or fewer bytes than the buffer has.
            ReadOnlyError: if the memory is only read.
        """
        source = _as_bytes(memoryview(data))
        if source.nbytes != self.nbytes:
            raise SizeMismatchError(operation="copyin", expected=self.nbytes, found=source.nbytes)
        self._check_writable()
        memory = self._storage.allocate()
        if self.nbytes:
            self.allocator.copy_in(memory.address + self.offset, source)

    def copyout(self, destination: BytesLike) -> None:
        """Copy the buffer's bytes into a writable, contiguous host object of the same size.

        Raises:
            SizeMismatchError: if there is more or less room than the buffer has bytes.
            ReadOnlyError: if `destination` is only read.
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
        """A copy of the content."""
        content = bytearray(self.nbytes)
        self.copyout(content)
        return bytes(content)

    def as_memoryview(self) -> memoryview:
        """The bytes themselves, without a copy; valid for as long as the memoryview lives.

        Raises:
            NotHostAddressableError: if the memory is not the host's.
        """
        if not self.is_host_addressable:
            raise NotHostAddressableError(device=self.device)
        self.ensure_allocated()
        self.allocator.synchronize()
        return view_host(
            self.address, self.nbytes, self._storage, is_writable=self._storage.is_writable
        )

    def as_numpy(self) -> npt.NDArray[np.generic]:
        """The elements as a flat array: over the memory itself if the host can address it, else a
        copy.
        """
        import numpy as np

        nbytes, storage = self.nbytes, self._storage
        if nbytes == 0:
            return np.empty(0, self.dtype.numpy)
        allocator = storage.allocator
        if not allocator.is_host_addressable:
            return np.frombuffer(self.to_bytes(), dtype=self.dtype.numpy)
        if not storage.is_writable:
            return np.frombuffer(self.as_memoryview(), dtype=self.dtype.numpy)
        # Every result of every call that is read comes through here.
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
    """The allocator of wrapped memory: the memory of another allocator, except that nothing is
    freed.
    """

    __slots__ = ()

    def free(self, memory: Memory) -> None:
        """The owner frees it."""


# What an allocator provides is asked for by `isinstance` with protocols, which takes longer than to
# wrap an array.
_external_host = _External(_host)


def copy_buffer(destination: Buffer, source: Buffer) -> None:
    """Copy all bytes of one buffer to another, on any two devices.

    Raises:
        SizeMismatchError: if the two have different sizes in bytes.
        ReadOnlyError: if the destination is only read.
    """
    if destination.nbytes != source.nbytes:
        raise SizeMismatchError(operation="copy", expected=destination.nbytes, found=source.nbytes)
    destination._check_writable()  # pyright: ignore[reportPrivateUsage]
    if source.nbytes == 0:
        return
    if source.is_host_addressable and destination.is_host_addressable:
        for buffer in (source, destination):
            buffer.ensure_allocated()
            buffer.allocator.synchronize()  # the host looks at what the device may still work on
        copy_host(destination.address, source.address, source.nbytes)
    elif source.is_host_addressable:
        destination.copyin(source.as_memoryview())
    elif destination.is_host_addressable:
        source.copyout(destination.as_memoryview())
    else:
        destination.copyin(source.to_bytes())


def _as_bytes(view: memoryview) -> memoryview:
    if not view.c_contiguous:
        return memoryview(view.tobytes())
    return view.cast("B") if view.nbytes else memoryview(b"")


def _check_elements(offset: int, nbytes: int, base_nbytes: int, dtype: DType) -> None:
    problem = None
    if nbytes % dtype.nbytes:
        problem = f"is no whole number of {dtype} elements"
    elif offset % dtype.itemsize:
        problem = f"is not aligned to {dtype}"
    if problem is not None:
        raise ViewError(offset=offset, nbytes=nbytes, base_nbytes=base_nbytes, problem=problem)
