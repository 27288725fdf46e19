"""DISK: files, mapped into memory and only read.

A DISK buffer's address is an ordinary address of this process, so a CPU kernel may take a DISK
buffer, or a view of one, as an input: it then reads the file's pages directly, and no copy is made.
Nothing writes to DISK, and no kernel runs on it.

Example:
    >>> import tempfile
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
    """The bytes of one file. "Allocating" maps the file; the size asked for is at most the
    file's.
    """

    is_host_addressable = True
    is_writable = False
    is_permanent = True

    def __init__(self, device: str) -> None:
        self.device = device
        self.path = Path(parse_device_name(device).place or "")

    @property
    def file_bytes(self) -> int:
        """The size of the file.

        Raises:
            DiskError: if there is no such file.
        """
        try:
            return self.path.stat().st_size
        except OSError as error:
            raise self._unreadable(error) from error

    def allocate(self, nbytes: int) -> Memory:
        try:
            with self.path.open("rb") as file:
                available = self.file_bytes
                if nbytes > available:
                    raise DiskError(
                        path=str(self.path),
                        problem=f"asked for {nbytes} bytes, the file has {available}",
                        hint="make the buffer at most as large as the file",
                    )
                mapping = mmap.mmap(file.fileno(), nbytes, access=mmap.ACCESS_READ)
        except OSError as error:
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
        """The mapping goes with the last reference to its owner."""

    def copy_in(self, address: int, source: memoryview) -> None:
        raise ReadOnlyError(device=self.device)

    def copy_out(self, destination: memoryview, address: int) -> None:
        copy_host(address_of(destination)[0], address, destination.nbytes)

    def synchronize(self) -> None:
        """A mapped file is always up to date."""


def make_disk_allocator(device: str) -> DiskAllocator:
    """The factory behind the entry point `DISK`."""
    return DiskAllocator(device)
