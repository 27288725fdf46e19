"""DISK device: read-only memory-mapped files.

DISK addresses are host addresses. So a CPU kernel can take a DISK buffer or a view of it as input,
and reads the file's pages without a copy. DISK memory is read-only, and DISK has no backend.

Example:
    >>> import tempfile
    >>> from pathlib import Path
    >>> from svod_device import Buffer
    >>> from svod_device.disk import DiskAllocator, make_disk_allocator
    >>> from svod_dtype import uint8
    >>> path = Path(tempfile.mkdtemp()) / "weights"
    >>> _ = path.write_bytes(b"12345678")
    >>> allocator = make_disk_allocator(f"DISK:{path}")
    >>> isinstance(allocator, DiskAllocator), allocator.file_bytes
    (True, 8)
    >>> Buffer(allocator, uint8, 8).view(2, 4).to_bytes()
    b'3456'
    >>> from svod_device import ReadOnlyError
    >>> memory = allocator.allocate(8)
    >>> last = bytearray(2)
    >>> allocator.copy_out(memoryview(last), memory.address + 6)
    >>> last
    bytearray(b'78')
    >>> try:
    ...     allocator.copy_in(memory.address, memoryview(last))
    ... except ReadOnlyError:
    ...     allocator.free(memory)
"""

from __future__ import annotations

import mmap
from pathlib import Path

from svod_device._protocols import Memory
from svod_device.errors import DiskError, ReadOnlyError
from svod_device.host_memory import address_of, copy_host
from svod_dtype import parse_device_name

__all__ = ["DiskAllocator", "make_disk_allocator"]


class DiskAllocator:
    """Allocator of one file's bytes. `allocate` maps the file from its start, up to its size."""

    is_host_addressable = True
    is_writable = False
    is_permanent = True

    def __init__(self, device: str) -> None:
        self.device = device
        self.path = Path(parse_device_name(device).location or "")

    @property
    def file_bytes(self) -> int:
        """Size of the file.

        Raises:
            DiskError: if the file cannot be read.
        """
        try:
            return self.path.stat().st_size
        except OSError as error:
            raise self._unreadable(error) from error

    def allocate(self, nbytes: int) -> Memory:
        """Map the first `nbytes` bytes of the file, read-only."""
        try:
            with self.path.open("rb") as file:
                available = self.file_bytes
                # `mmap` would raise a ValueError that names neither the file nor the sizes.
                if nbytes > available:
                    raise DiskError(
                        path=str(self.path),
                        problem=f"cannot map {nbytes} bytes, the file has {available}",
                        hint="make the buffer at most as large as the file",
                    )
                # The mapping has its own descriptor, so the file may be closed.
                mapping = mmap.mmap(file.fileno(), nbytes, access=mmap.ACCESS_READ)
        except OSError as error:
            # DiskError is an OSError itself.
            if isinstance(error, DiskError):
                raise
            raise self._unreadable(error) from error
        address, owner = address_of(mapping)
        return Memory(address, nbytes, owner)

    def _unreadable(self, error: OSError) -> DiskError:
        problem = error.strerror or str(error)
        return DiskError(
            path=str(self.path), problem=problem, hint="write DISK:/path/to/a/readable/file"
        )

    def free(self, memory: Memory) -> None:
        """Do nothing: the file is unmapped with the last reference to the owner."""

    def copy_in(self, address: int, source: memoryview) -> None:
        """Raise a `ReadOnlyError`: files are not written."""
        raise ReadOnlyError(device=self.device)

    def copy_out(self, destination: memoryview, address: int) -> None:
        """Copy bytes of the mapped file to host memory."""
        copy_host(address_of(destination)[0], address, destination.nbytes)

    def synchronize(self) -> None:
        """Do nothing: reads of a mapped file need no wait."""


def make_disk_allocator(device: str) -> DiskAllocator:
    """Return the allocator of a DISK device: the factory of entry point `DISK`."""
    return DiskAllocator(device)
