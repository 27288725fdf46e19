"""OpenCL devices by number, and what the allocator, the loader and the launcher of one share: its
queue and blocks.

All work of a device goes through one queue that runs it in order. So a kernel sees what was
launched before it, a copy waits for the kernels before it, and a block that is freed may be used
again at once."""

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
"""An address is the number of a block, above these bits, and an offset into the block below them.

Not every device has pointers that the host can name (shared virtual memory), and sub-buffers start
only at multiples of up to 4 KiB. A kernel takes a block and an offset instead, so a view may start
at any element. """

_OFFSET_MASK: Final = (1 << OFFSET_BITS) - 1

_contexts: dict[str, DeviceContext] = {}
_lock = hold_across_fork(threading.RLock())


class Block(NamedTuple):
    """Where an address is: a memory object (None for memory of no bytes) and an offset into it."""

    memory: cl.Buffer | None
    offset: int


class DeviceContext:
    """One device: its OpenCL context, its queue, and its blocks of memory by number."""

    def __init__(self, name: str, device: cl.Device) -> None:
        self.name, self.device = name, device
        self.context = cl.Context([device])
        self.queue = cl.CommandQueue(
            self.context, properties=cl.command_queue_properties.PROFILING_ENABLE
        )
        self._blocks: dict[int, cl.Buffer] = {}
        self._numbers = itertools.count(1)
        self._freed: deque[int] = deque()

    def add_block(self, memory: cl.Buffer) -> int:
        """The address of a memory object, which is kept until it is removed."""
        try:
            number = self._freed.popleft()
        except IndexError:
            number = next(self._numbers)
        self._blocks[number] = memory
        return number << OFFSET_BITS

    def remove_block(self, address: int) -> None:
        """Release the block at an address. Takes no lock, so that finalizers may call it."""
        number = address >> OFFSET_BITS
        if self._blocks.pop(number, None) is not None:
            self._freed.append(number)

    def count_bytes(self) -> int:
        """How many bytes all blocks have together. Takes no lock either."""
        return sum([block.size for block in list(self._blocks.values())])

    def close(self) -> None:
        """Release every block, and let the next use of the device's name open it anew."""
        with _lock:
            if _contexts.get(self.name) is self:
                del _contexts[self.name]
        self._blocks.clear()

    def find(self, address: int) -> Block:
        """The block that an address lies in."""
        return Block(self._blocks.get(address >> OFFSET_BITS), address & _OFFSET_MASK)


def list_devices(options: OpenCLOptions | None = None) -> list[cl.Device]:
    """The devices, by name of the platform and then in the platform's own order, whether they work
    or not.

    Raises:
        NoPlatformError: if there is no platform, or none of the name in `options`.
    """
    wanted = (options or OpenCLOptions.from_env()).platform
    platforms = list_platforms()
    chosen = [p for p in platforms if wanted.lower() in f"{p.name}\n{p.vendor}".lower()]
    if not chosen:
        raise NoPlatformError(wanted=wanted, found=[p.name for p in platforms])
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
    """The device with the number in the name, among those that work: a driver may be older than the
    processor.

    None behind the chosen one is tried.

    Raises:
        NoDeviceError: if fewer devices work.
        DeviceNameError: if the name has no number.
    """
    number = parse_device_name(name).get_index()
    working: list[str] = []
    faults: list[tuple[str, str]] = []
    for device in devices:
        fault = find_fault(device)
        if fault is not None:
            faults.append((f"{device.name.strip()} of {device.platform.name.strip()}", fault))
        elif len(working) == number:
            return device
        else:
            working.append(device.name.strip())
    raise NoDeviceError(device=name, found=working, faults=faults)


def get_context(name: str) -> DeviceContext:
    """The context of the device of this canonical name, opened at the first call.

    Raises:
        NoPlatformError: if there is no platform.
        NoDeviceError: if fewer devices work.
        DeviceNameError: if the name has no number.
    """
    with _lock:
        if name not in _contexts:
            _contexts[name] = DeviceContext(name, choose_device(name, list_devices(), find_fault))
        return _contexts[name]


def clear() -> None:
    """Forget every device, for tests; allocators and programs keep theirs."""
    with _lock:
        _contexts.clear()


if hasattr(os, "register_at_fork"):
    # A context is its process's; the child opens the device itself.
    os.register_at_fork(after_in_child=_contexts.clear)
