"""OpenCL devices by index, and the queue and memory blocks that all users of a device share.

All work of a device goes through one in-order queue. So a kernel sees the results of earlier
launches, a copy waits for earlier kernels, and a freed block may be reused at once."""

from __future__ import annotations

import itertools
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

import pyopencl as cl

from svod_dtype import parse_device_name
from svod_ir.forks import hold_across_fork
from svod_opencl.drivers import find_fault, list_platforms
from svod_opencl.errors import NoDeviceError, NoPlatformError
from svod_opencl.options import OpenCLOptions

__all__ = [
    "OFFSET_BITS",
    "Block",
    "DeviceContext",
    "choose_device",
    "clear",
    "get_context",
    "list_devices",
]

OFFSET_BITS: Final = 40
"""Number of low bits of an address that hold the offset into a block; the block's index is above.

Not every device has shared virtual memory, whose pointers the host can hold, and sub-buffers must
be aligned to up to 4 KiB. A kernel takes a block and an offset instead, so a view may start at any
element."""

_OFFSET_MASK: Final = (1 << OFFSET_BITS) - 1

_contexts: dict[str, DeviceContext] = {}
_lock = hold_across_fork(threading.RLock())


class Block(NamedTuple):
    """Memory object of an address (None for an empty allocation) and the offset into it."""

    memory: cl.Buffer | None
    offset: int


class DeviceContext:
    """OpenCL context, queue and memory blocks of one device."""

    def __init__(self, name: str, device: cl.Device) -> None:
        self.name, self.device = name, device
        self.context = cl.Context([device])
        self.queue = cl.CommandQueue(
            self.context, properties=cl.command_queue_properties.PROFILING_ENABLE
        )
        self._blocks: dict[int, cl.Buffer] = {}
        # Index 0 would make the address of a block equal to the null address.
        self._indices = itertools.count(1)
        self._freed: deque[int] = deque()

    def add_block(self, memory: cl.Buffer) -> int:
        """Register a memory object and return its address."""
        try:
            index = self._freed.popleft()
        except IndexError:
            index = next(self._indices)
        self._blocks[index] = memory
        return index << OFFSET_BITS

    def remove_block(self, address: int) -> None:
        """Release the block at an address. Takes no lock, so that finalizers may call it."""
        index = address >> OFFSET_BITS
        if self._blocks.pop(index, None) is not None:
            self._freed.append(index)

    def count_bytes(self) -> int:
        """Total size of all blocks in bytes. Takes no lock either."""
        return sum([block.size for block in list(self._blocks.values())])

    def close(self) -> None:
        """Release every block; the next use of the device's name opens a new context."""
        with _lock:
            if _contexts.get(self.name) is self:
                del _contexts[self.name]
        self._blocks.clear()

    def find(self, address: int) -> Block:
        """Return the block and the offset of an address."""
        return Block(self._blocks.get(address >> OFFSET_BITS), address & _OFFSET_MASK)


def list_devices(options: OpenCLOptions | None = None) -> list[cl.Device]:
    """Return all devices, working or not, by platform name, then in the platform's order.

    Raises:
        NoPlatformError: if there is no platform, or none matches the name in `options`.
    """
    name_filter = (options or OpenCLOptions.from_env()).platform
    platforms = list_platforms()
    chosen = [p for p in platforms if name_filter.lower() in f"{p.name}\n{p.vendor}".lower()]
    if not chosen:
        raise NoPlatformError(wanted=name_filter, platforms=[p.name for p in platforms])
    return [
        device
        for p in sorted(chosen, key=lambda p: (p.name, p.vendor, p.version))
        for device in _devices_of(p)
    ]


def _devices_of(platform: cl.Platform) -> list[cl.Device]:
    try:
        return platform.get_devices()
    except cl.Error:
        return []


def choose_device(
    name: str, devices: Iterable[cl.Device], find_fault: Callable[[cl.Device], str | None]
) -> cl.Device:
    """Return the working device at the index in the name.

    Devices that do not work are skipped, as a driver may be older than the processor. Devices after
    the chosen one are not tried.

    Raises:
        NoDeviceError: if fewer devices work.
        DeviceNameError: if the name has no index.
    """
    index = parse_device_name(name).get_index()
    working: list[str] = []
    faults: list[tuple[str, str]] = []
    for device in devices:
        fault = find_fault(device)
        if fault is not None:
            faults.append((f"{device.name.strip()} of {device.platform.name.strip()}", fault))
        elif len(working) == index:
            return device
        else:
            working.append(device.name.strip())
    raise NoDeviceError(device=name, working=working, faults=faults)


def get_context(name: str) -> DeviceContext:
    """Return the context of the device with this canonical name; the first call opens it.

    Raises:
        NoPlatformError: if there is no platform.
        NoDeviceError: if fewer devices work.
        DeviceNameError: if the name has no index.
    """
    with _lock:
        if name not in _contexts:
            _contexts[name] = DeviceContext(name, choose_device(name, list_devices(), find_fault))
        return _contexts[name]


def clear() -> None:
    """Drop every context, for tests. Existing allocators and programs keep theirs."""
    with _lock:
        _contexts.clear()


if hasattr(os, "register_at_fork"):
    # A context is not valid in a forked child, which opens the device again.
    os.register_at_fork(after_in_child=_contexts.clear)
