"""The memory of an OpenCL device."""

from __future__ import annotations

import pyopencl as cl

from svod_device import CachingAllocator, DeviceOptions, Memory, OutOfMemoryError
from svod_opencl.context import DeviceContext, get_context
from svod_opencl.errors import UnknownAddressError

__all__ = ["OpenCLAllocator", "make_allocator"]

_OUT_OF_MEMORY = frozenset(
    {
        cl.status_code.MEM_OBJECT_ALLOCATION_FAILURE,
        cl.status_code.OUT_OF_RESOURCES,
        cl.status_code.OUT_OF_HOST_MEMORY,
        cl.status_code.INVALID_BUFFER_SIZE,
    }
)


class OpenCLAllocator:
    """Allocator of a device's memory, which copies through the device's queue."""

    is_host_addressable = False
    is_writable = True

    def __init__(self, context: DeviceContext) -> None:
        self.context = context
        self.device = context.name

    def allocate(self, nbytes: int) -> Memory:
        # NVIDIA's driver makes a block of any size, and fails at the first command that uses it.
        # Counted here, since OpenCL does not report a device's free memory.
        in_use = self.context.count_bytes()
        if in_use + nbytes >= self.context.device.global_mem_size:
            raise OutOfMemoryError(device=self.device, nbytes=nbytes, in_use=in_use)
        try:
            memory = cl.Buffer(self.context.context, cl.mem_flags.READ_WRITE, nbytes)
        except cl.Error as error:
            if error.code not in _OUT_OF_MEMORY:
                raise
            raise OutOfMemoryError(device=self.device, nbytes=nbytes, in_use=in_use) from error
        return Memory(self.context.add_block(memory), nbytes)

    def free(self, memory: Memory) -> None:
        """Release the block; the driver keeps it until the commands that use it are done."""
        self.context.remove_block(memory.address)

    def copy_in(self, address: int, source: memoryview) -> None:
        memory, offset = self._find(address)
        # Blocking, because the caller may change the source at once.
        cl.enqueue_copy(self.context.queue, memory, source, dst_offset=offset, is_blocking=True)

    def copy_out(self, destination: memoryview, address: int) -> None:
        memory, offset = self._find(address)
        cl.enqueue_copy(
            self.context.queue, destination, memory, src_offset=offset, is_blocking=True
        )

    def synchronize(self) -> None:
        self.context.queue.finish()

    def close(self) -> None:
        """Release the context and all of its blocks."""
        self.context.close()

    def _find(self, address: int) -> tuple[cl.Buffer, int]:
        block = self.context.find(address)
        if block.memory is None:
            raise UnknownAddressError(device=self.device, address=address)
        return block.memory, block.offset


def make_allocator(device: str) -> CachingAllocator:
    """Return the allocator of an OpenCL device: the factory of the entry point `OPENCL`."""
    return CachingAllocator(
        OpenCLAllocator(get_context(device)), DeviceOptions.from_env().allocator_cache_bytes
    )
