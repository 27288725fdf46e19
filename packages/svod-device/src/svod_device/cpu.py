"""Host memory allocators of the CPU device.

Example:
    >>> from svod_device.cpu import HostAllocator, make_cpu_allocator
    >>> block = HostAllocator().allocate(100)
    >>> block.address % 64, block.capacity
    (0, 100)
    >>> host, result = HostAllocator(), bytearray(4)
    >>> host.copy_in(block.address, memoryview(b"1234"))
    >>> host.copy_out(memoryview(result), block.address)
    >>> result
    bytearray(b'1234')
    >>> host.free(block)
    >>> make_cpu_allocator("CPU").allocate(100).capacity  # rounded up for reuse
    128
"""

from __future__ import annotations

from svod_device._cache import CachingAllocator
from svod_device._protocols import Memory
from svod_device.errors import OutOfMemoryError
from svod_device.host_memory import address_of, copy_host, make_block
from svod_device.options import DeviceOptions
from svod_dtype import parse_device_name

__all__ = ["HostAllocator", "make_cpu_allocator"]


class HostAllocator:
    """Allocator of host memory, aligned to 64 bytes. Buffers that wrap external objects use it
    too.
    """

    is_host_addressable = True
    is_writable = True

    def __init__(self, device: str = "CPU") -> None:
        self.device = device

    def allocate(self, nbytes: int) -> Memory:
        """Allocate an aligned block of host memory."""
        try:
            return make_block(nbytes)
        except MemoryError as error:
            raise OutOfMemoryError(device=self.device, nbytes=nbytes, in_use=0) from error

    def free(self, memory: Memory) -> None:
        """Do nothing: the block is freed with the last reference to its owner."""

    def copy_in(self, address: int, source: memoryview) -> None:
        """Copy `source` to an address."""
        copy_host(address, address_of(source)[0], source.nbytes)

    def copy_out(self, destination: memoryview, address: int) -> None:
        """Copy bytes at an address to `destination`."""
        copy_host(address_of(destination)[0], address, destination.nbytes)

    def synchronize(self) -> None:
        """Do nothing: CPU launches return when the kernel is done."""


class _CpuAllocator(HostAllocator):
    """Allocator of device CPU, whose memory cannot be lost."""

    is_permanent = True
    # By name `c` would be the default, which needs an installed C compiler.
    default_backend = "llvm"


def make_cpu_allocator(device: str) -> CachingAllocator:
    """Return the allocator of a CPU device: the factory of entry point `CPU`.

    Raises:
        DeviceNameError: if the name has a location instead of an index.
    """
    # For its check only: the CPU has no locations, and its memory does not depend on the index.
    parse_device_name(device).get_index()
    return CachingAllocator(_CpuAllocator(device), DeviceOptions.from_env().allocator_cache_bytes)
