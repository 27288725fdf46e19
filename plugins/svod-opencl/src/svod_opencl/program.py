"""Loaded kernels: a launch puts arguments and size into the device's queue and returns."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from struct import Struct

import pyopencl as cl

from svod_device import Dims
from svod_opencl.context import DeviceContext

__all__ = ["OpenCLProgram", "global_items", "set_arguments"]

_pack_offset = Struct("Q").pack
_pack_value = Struct("q").pack


class OpenCLProgram:
    """A kernel of one device. The queue runs launches in order, so later calls see its results."""

    entry = None

    def __init__(self, context: DeviceContext, name: str, program: cl.Program) -> None:
        self.context, self.name = context, name
        self._program = program
        self._kernel = self.make_kernel()
        # Setting arguments and enqueueing is one step: the kernel object holds the arguments.
        self._lock = threading.Lock()

    def make_kernel(self) -> cl.Kernel:
        """A kernel object with arguments of its own."""
        return cl.Kernel(self._program, self.name)

    def __call__(
        self,
        buffers: Sequence[int],
        values: Sequence[int],
        global_size: Dims,
        local_size: Dims | None = None,
    ) -> None:
        self._enqueue(buffers, values, global_size, local_size)
        self.context.queue.flush()

    def timed_call(
        self,
        buffers: Sequence[int],
        values: Sequence[int],
        global_size: Dims,
        local_size: Dims | None = None,
    ) -> int:
        """Run the kernel to its end, and return the nanoseconds that the device spent on it."""
        event = self._enqueue(buffers, values, global_size, local_size)
        event.wait()
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
    """Give a kernel its blocks, offsets and values."""
    position = 0
    for address in buffers:
        block = context.find(address)
        kernel.set_arg(position, block.memory)
        kernel.set_arg(position + 1, _pack_offset(block.offset))
        position += 2
    for value in values:
        kernel.set_arg(position, _pack_value(value))
        position += 1


def global_items(global_size: Dims, local_size: Dims | None) -> Dims:
    """The items of a launch: a grid counts workgroups, where there are any."""
    if local_size is None:
        return global_size
    x, y, z = (n * m for n, m in zip(global_size, local_size, strict=True))
    return x, y, z
