"""Loaded kernels. A launch is enqueued on the device and returns at once."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from struct import Struct

import pyopencl as cl

from svod_device import Dims
from svod_opencl.build import make_kernel
from svod_opencl.context import DeviceContext

__all__ = ["OpenCLProgram", "global_items", "set_arguments"]

_pack_offset = Struct("Q").pack
_pack_value = Struct("q").pack


class OpenCLProgram:
    """Kernel of one device. The queue runs launches in order, so later calls see its results."""

    entry = None

    def __init__(self, context: DeviceContext, name: str, program: cl.Program) -> None:
        self.context, self.name = context, name
        self._program = program
        self._kernel = self.make_kernel()
        # The kernel object holds the arguments: setting them and enqueueing must be atomic.
        self._lock = threading.Lock()

    def make_kernel(self) -> cl.Kernel:
        """Return a new kernel object with separate arguments."""
        return make_kernel(self._program, self.name)

    def __call__(
        self,
        buffers: Sequence[int],
        values: Sequence[int],
        global_size: Dims,
        local_size: Dims | None = None,
    ) -> None:
        self._enqueue(buffers, values, global_size, local_size)
        # Without it, a driver may hold commands back until the host waits for them.
        self.context.queue.flush()

    def timed_call(
        self,
        buffers: Sequence[int],
        values: Sequence[int],
        global_size: Dims,
        local_size: Dims | None = None,
    ) -> int:
        """Run the kernel to completion and return the device's time in nanoseconds."""
        event = self._enqueue(buffers, values, global_size, local_size)
        event.wait()
        # The device's own clock, which excludes the time until the driver starts the kernel.
        return int(event.profile.end - event.profile.start)

    def _enqueue(
        self,
        buffers: Sequence[int],
        values: Sequence[int],
        global_size: Dims,
        local_size: Dims | None,
    ) -> cl.Event:
        with self._lock:
            set_arguments(self._kernel, self.context, buffers, values)
            items = global_items(global_size, local_size)
            return cl.enqueue_nd_range_kernel(self.context.queue, self._kernel, items, local_size)


def set_arguments(
    kernel: cl.Kernel, context: DeviceContext, buffers: Sequence[int], values: Sequence[int]
) -> None:
    """Set the blocks, offsets and values as the kernel's arguments."""
    index = 0
    for address in buffers:
        block = context.find(address)
        kernel.set_arg(index, block.memory)
        # Packed bytes: a Python integer has no size, which the argument needs.
        kernel.set_arg(index + 1, _pack_offset(block.offset))
        index += 2
    for value in values:
        kernel.set_arg(index, _pack_value(value))
        index += 1


def global_items(global_size: Dims, local_size: Dims | None) -> Dims:
    """Global work size in work-items. With a `local_size`, `global_size` counts workgroups."""
    if local_size is None:
        return global_size
    # OpenCL counts work items, and Svod groups.
    x, y, z = (n * m for n, m in zip(global_size, local_size, strict=True))
    return x, y, z
