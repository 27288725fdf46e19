"""Asynchronous devices: buffers, copies and programs whose work is queued until a wait."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from svod_device import (
    Backend,
    Buffer,
    CompiledSpec,
    Dims,
    clear,
    get_allocator,
    register_allocator,
)
from svod_device._buffer import copy_buffer
from svod_device.host_memory import view_host
from svod_device.testing import (
    AllocatorConformance,
    AsynchronousAllocator,
    AsynchronousDevice,
    BufferConformance,
)
from svod_dtype import uint8
from svod_ir import Target
from svod_ir.testing import run_in_threads


class FillProgram:
    """Program that stores its value in each byte of a buffer of four bytes."""

    name, entry = "fill", None

    def __call__(
        self,
        buffers: Sequence[int],
        values: Sequence[int],
        global_size: Dims,
        local_size: Dims | None = None,
    ) -> None:
        view_host(buffers[0], 4, None)[:] = bytes(values) * 4


def make_backend(device: str) -> Backend:
    unused: Any = None
    return Backend(
        unused, unused, lambda compiled: FillProgram(), Target.generic(), launcher=unused
    )


@pytest.fixture(scope="module", autouse=True)
def _registered() -> Iterator[None]:
    for name, is_host_addressable in (("LATE", True), ("FAR", False)):
        device = AsynchronousDevice(make_backend, is_host_addressable=is_host_addressable)
        register_allocator(name, device.make_allocator)
    yield
    clear()


class TestMemoryThatTheHostAddresses(AllocatorConformance, BufferConformance):
    device = "LATE"


class TestMemoryOfItsOwn(AllocatorConformance, BufferConformance):
    device = "FAR"


def make_pending(content: bytes) -> tuple[AsynchronousAllocator, Buffer]:
    """Return a buffer of zeros with a pending copy to it."""
    allocator = AsynchronousAllocator("LATE")
    buffer = Buffer(allocator, uint8, len(content), zeroed=True).ensure_allocated()
    buffer.copyin(content)
    return allocator, buffer


def peek(buffer: Buffer) -> bytes:
    return view_host(buffer.address, buffer.nbytes, None).tobytes()


def test_work_is_pending_until_a_caller_synchronizes() -> None:
    allocator, buffer = make_pending(b"abc")
    assert (allocator.n_pending, peek(buffer)) == (1, b"\0\0\0")
    allocator.synchronize()
    assert (allocator.n_pending, peek(buffer)) == (0, b"abc")


READERS: dict[str, Callable[[Buffer], bytes]] = {
    "as_memoryview": lambda b: b.as_memoryview().tobytes(),
    "as_numpy": lambda b: b.as_numpy().tobytes(),
    "to_bytes": lambda b: b.to_bytes(),
    "a view": lambda b: b.view(0, 3).as_numpy().tobytes(),
}


@pytest.mark.parametrize("name", READERS)
def test_host_reads_wait_for_queued_work(name: str) -> None:
    _, buffer = make_pending(b"abc")
    assert READERS[name](buffer) == b"abc"


def test_host_reads_of_read_only_memory_wait_for_queued_work() -> None:
    allocator = AsynchronousAllocator("LATE")
    content = np.zeros(16, np.uint8)
    wrapped = Buffer.wrap(content, content.ctypes.data, 16, allocator=allocator, is_writable=False)
    allocator.copy_in(content.ctypes.data, memoryview(b"x" * 16))
    assert wrapped.as_numpy().tobytes() == b"x" * 16


@pytest.mark.parametrize(
    ("source", "destination"),
    [("LATE", "LATE"), ("LATE", "CPU"), ("CPU", "LATE"), ("LATE", "LATE:1")],
)
def test_a_copy_waits_for_both_devices(source: str, destination: str) -> None:
    origin, result = (
        Buffer(get_allocator(device), uint8, 4, zeroed=True) for device in (source, destination)
    )
    # Pending writes to the destination run before the copy and do not overwrite it.
    result.copyin(b"late")
    origin.copyin(b"text")
    copy_buffer(result, origin)
    assert result.to_bytes() == b"text"
    origin.copyin(b"more")
    copy_buffer(result, origin)
    assert result.to_bytes() == b"more"


def test_a_launch_copies_its_arguments_to_the_queue() -> None:
    device = AsynchronousDevice(make_backend, launch_s=0.01)
    allocator = device.make_allocator("LATE")
    program = device.make_backend("LATE").loader(CompiledSpec("fill"))
    assert (program.name, program.entry) == ("fill", None)
    buffer = Buffer(allocator, uint8, 4, zeroed=True).ensure_allocated()
    buffers, values = [buffer.address], [7]
    program(buffers, values, (1, 1, 1))
    buffers[0], values[0] = 0, 8
    assert peek(buffer) == bytes(4)
    started = time.perf_counter()
    assert buffer.as_numpy().tolist() == [7] * 4
    assert time.perf_counter() - started >= 0.01


def test_allocations_flush_a_long_queue_of_frees() -> None:
    allocator = AsynchronousAllocator("LATE")
    for _ in range(1000):
        allocator.free(allocator.allocate(64))
        assert allocator.n_pending <= 258


def test_queued_operations_of_several_threads_run_sequentially() -> None:
    allocator = AsynchronousAllocator("LATE")
    seen: list[int] = []
    for i in range(200):
        allocator.enqueue(lambda i=i: seen.append(i))
    run_in_threads(*[allocator.synchronize] * 4)
    assert seen == [*range(200)]
