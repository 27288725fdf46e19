"""Asynchronous device for tests: work is pending until a caller synchronizes. It wraps any CPU
backend.

    late = AsynchronousDevice(make_llvm_backend)
    register_allocator("LATE", late.make_allocator)
    register_backend("LATE.llvm", late.make_backend)

Launches, copies to the device and frees are queued. A read of its memory without `synchronize`
always returns stale data; on a real device such a bug appears only under load.

Example:
    >>> from svod_device import Buffer
    >>> from svod_device.testing import AsynchronousAllocator
    >>> from svod_dtype import uint8
    >>> allocator = AsynchronousAllocator("LATE")
    >>> buffer = Buffer(allocator, uint8, 3)
    >>> buffer.copyin(b"new")
    >>> allocator.n_pending
    1
    >>> bytes(buffer.as_numpy())  # waits
    b'new'
    >>> allocator.n_pending
    0
    >>> allocator.enqueue(lambda: print("launched"))
    >>> allocator.synchronize()
    launched
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from svod_device._protocols import Backend, Dims, Memory, Program
from svod_device._spec import CompiledSpec
from svod_device.cpu import HostAllocator
from svod_device.host_memory import address_of, copy_host

__all__ = ["AsynchronousAllocator", "AsynchronousDevice"]

_MAX_PENDING: Final = 256
"""Number of queued operations above which an allocation synchronizes, to bound unfreed memory."""

_POISON: Final = 0xA5
_MAX_POISONED: Final = 1 << 20
"""Size in bytes up to which new blocks are filled, since a reused block may contain the expected
result.
"""


class AsynchronousAllocator(HostAllocator):
    """Allocator of host memory that changes only when `synchronize` or `copy_out` runs the queued
    operations.

    Args:
        device: device name.
        is_host_addressable: whether the host may use the addresses, as on devices with unified
            memory.
    """

    is_permanent = False

    def __init__(self, device: str, *, is_host_addressable: bool = True) -> None:
        super().__init__(device)
        self.is_host_addressable = is_host_addressable
        # Appending and removing need no lock, so a finalizer may free a block at any time.
        self._pending: deque[Callable[[], object]] = deque()
        self._running = threading.RLock()

    @property
    def n_pending(self) -> int:
        """Number of queued operations."""
        return len(self._pending)

    def enqueue(self, work: Callable[[], object]) -> None:
        """Append an operation to the queue."""
        self._pending.append(work)

    def allocate(self, nbytes: int) -> Memory:
        """Allocate a block and fill it with a pattern, so that early reads are noticed."""
        if len(self._pending) > _MAX_PENDING:
            self.synchronize()
        memory = super().allocate(nbytes)
        if memory.capacity <= _MAX_POISONED:
            ctypes.memset(memory.address, _POISON, memory.capacity)
        return memory

    def free(self, memory: Memory) -> None:
        # Queued operations may use the block: its owner lives until they are done.
        self._pending.append(lambda: memory)

    def copy_in(self, address: int, source: memoryview) -> None:
        """Queue a copy of the source's present bytes."""
        # A snapshot: the caller may modify the source once the call returns.
        data = bytes(source)
        self.enqueue(lambda: copy_host(address, address_of(memoryview(data))[0], len(data)))

    def copy_out(self, destination: memoryview, address: int) -> None:
        """Run the queued work, then copy."""
        self.synchronize()
        super().copy_out(destination, address)

    def synchronize(self) -> None:
        # The lock makes a second thread wait for the operation that the first one is running.
        with self._running:
            # Finalizers may append frees meanwhile, so the queue is read until it is empty.
            while self._pending:
                self._pending.popleft()()


class AsynchronousDevice:
    """Factories of an asynchronous device, for `register_allocator` and `register_backend`.

    Args:
        make_backend: factory of CPU backends.
        is_host_addressable: whether the host may use the device's addresses.
        launch_s: minimum duration of each launch in seconds.

    Example:
        >>> from svod_device import Buffer, clear, get_device, register_allocator, register_backend
        >>> from svod_device.testing import AsynchronousDevice, build, get_case
        >>> from svod_dtype import int64
        >>> late = AsynchronousDevice(lambda name: get_device("CPU").backend)
        >>> register_allocator("LATE", late.make_allocator)
        >>> register_backend("LATE.llvm", late.make_backend)
        >>> device = get_device("LATE")
        >>> built = build(get_case(device.target, "variables"), device.backend, "LATE")  # y = x * scale + shift
        >>> y, x = (Buffer(device.allocator, int64, 13).ensure_allocated() for _ in range(2))
        >>> x.copyin(bytes(104))
        >>> built.program([y.address, x.address], [3, 7], (1, 1, 1))
        >>> late.allocators["LATE"].n_pending
        2
        >>> y.as_numpy().tolist()[:3]  # waits
        [7, 7, 7]
        >>> clear()
    """

    def __init__(
        self,
        make_backend: Callable[[str], Backend],
        *,
        is_host_addressable: bool = True,
        launch_s: float = 0.0,
    ) -> None:
        self.allocators: dict[str, AsynchronousAllocator] = {}
        """Allocators of the open devices, by device name."""
        self._make_backend = make_backend
        self._is_host_addressable = is_host_addressable
        self._launch_s = launch_s

    def make_allocator(self, device: str) -> AsynchronousAllocator:
        """Return the allocator of a new opening of `device`."""
        allocator = AsynchronousAllocator(device, is_host_addressable=self._is_host_addressable)
        self.allocators[device] = allocator
        return allocator

    def make_backend(self, device: str) -> Backend:
        """Return the CPU backend, with launches queued on `device`."""
        backend, allocator = self._make_backend(device), self.allocators[device]

        def load(compiled: CompiledSpec) -> Program:
            return _AsynchronousProgram(backend.loader(compiled), allocator, self._launch_s)

        # Without the CPU's launcher, which would run kernels outside of the queue.
        return replace(backend, loader=load, launcher=None, is_host_parallel_safe=False)


class _AsynchronousProgram:
    """Program that queues its launches."""

    entry: int | None = None

    def __init__(self, inner: Program, allocator: AsynchronousAllocator, launch_s: float) -> None:
        self._inner, self._allocator, self._launch_s = inner, allocator, launch_s

    @property
    def name(self) -> str:
        return self._inner.name

    def __call__(
        self,
        buffers: Sequence[int],
        values: Sequence[int],
        global_size: Dims,
        local_size: Dims | None = None,
    ) -> None:
        # Snapshots: the caller may modify both once the call returns.
        addresses, arguments = list(buffers), list(values)

        def run() -> None:
            self._inner(addresses, arguments, global_size, local_size)
            if self._launch_s:
                time.sleep(self._launch_s)

        self._allocator.enqueue(run)
