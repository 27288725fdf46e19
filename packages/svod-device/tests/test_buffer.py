"""Buffers: model of bytes, views, lifetimes, wrapped memory, copies."""

from __future__ import annotations

import gc
import itertools
import os
import threading
import weakref

import numpy as np
import pytest
from hypothesis import given, strategies as st

from svod_device import (
    Buffer,
    CachingAllocator,
    HostAllocator,
    Memory,
    NotAllocatedError,
    NotHostAddressableError,
    ReadOnlyError,
    SizeMismatchError,
    ViewError,
    copy_buffer,
)
from svod_dtype import bfloat16, bool_, float32, int16, int32, uint8
from svod_ir.testing import run_script


class FarAllocator:
    """Allocator of memory that the host cannot address. It records freed blocks."""

    is_host_addressable = False
    is_writable = True

    def __init__(self, device: str = "FAR") -> None:
        self.device = device
        self.blocks: dict[int, bytearray] = {}
        self.freed: list[int] = []
        self.addresses = itertools.count(1 << 20, 1 << 20)

    def allocate(self, nbytes: int) -> Memory:
        address = next(self.addresses)
        self.blocks[address] = bytearray(b"\xaa" * nbytes)
        return Memory(address, nbytes)

    def free(self, memory: Memory) -> None:
        self.freed.append(memory.address)

    def _locate(self, address: int) -> tuple[bytearray, int]:
        base = address >> 20 << 20
        return self.blocks[base], address - base

    def copy_in(self, address: int, source: memoryview) -> None:
        block, offset = self._locate(address)
        block[offset : offset + source.nbytes] = source

    def copy_out(self, destination: memoryview, address: int) -> None:
        block, offset = self._locate(address)
        destination[:] = block[offset : offset + destination.nbytes]

    def synchronize(self) -> None:
        pass


@pytest.fixture(params=[HostAllocator, FarAllocator])
def allocator(request: pytest.FixtureRequest) -> HostAllocator | FarAllocator:
    return request.param()


@given(data=st.data())
def test_reads_and_writes_through_any_view_agree_with_a_bytearray(data: st.DataObject) -> None:
    allocator = data.draw(st.sampled_from([HostAllocator, FarAllocator]))()
    n = data.draw(st.integers(0, 80))
    base = Buffer(allocator, uint8, n, zeroed=True)
    model = bytearray(n)
    views = [(base, 0)]
    for _ in range(data.draw(st.integers(1, 8))):
        parent, origin = data.draw(st.sampled_from(views))
        offset = data.draw(st.integers(0, parent.nbytes))
        nbytes = data.draw(st.integers(0, parent.nbytes - offset))
        view, start = parent.view(offset, nbytes), origin + offset
        assert (view.offset, view.nbytes, view.storage_id) == (start, nbytes, base.storage_id)
        content = data.draw(st.binary(min_size=nbytes, max_size=nbytes))
        view.copyin(content)
        model[start : start + nbytes] = content
        views.append((view, start))
    for view, start in views:
        assert view.to_bytes() == bytes(model[start : start + view.nbytes])


@given(
    first=st.tuples(st.integers(0, 50), st.integers(0, 50)),
    second=st.tuples(st.integers(0, 50), st.integers(0, 50)),
)
def test_buffers_overlap_if_they_have_a_byte_in_common(
    first: tuple[int, int], second: tuple[int, int]
) -> None:
    base = Buffer(HostAllocator(), uint8, 100)
    left, right = base.view(*first), base.view(*second)
    shared = set(range(first[0], sum(first))) & set(range(second[0], sum(second)))
    assert left.overlaps(right) == right.overlaps(left) == bool(shared)
    assert not left.overlaps(Buffer(HostAllocator(), uint8, 100).view(*second))


def test_memory_is_allocated_at_first_use(allocator: HostAllocator | FarAllocator) -> None:
    buffer = Buffer(allocator, float32, 10)
    view = buffer.view(8, 16)
    assert not buffer.is_allocated
    with pytest.raises(NotAllocatedError, match=r"buffer of 40 bytes on .* has no memory yet"):
        _ = buffer.address
    assert buffer.ensure_allocated() is buffer
    assert view.is_allocated
    assert view.address == buffer.address + 8
    address = buffer.address
    assert buffer.ensure_allocated().address == address


def test_threads_that_race_to_allocate_get_the_same_block() -> None:
    allocator = FarAllocator()
    for _ in range(50):
        buffer = Buffer(allocator, uint8, 16)
        barrier = threading.Barrier(4)
        seen: list[int] = []

        def allocate(
            buffer: Buffer = buffer, barrier: threading.Barrier = barrier, seen: list[int] = seen
        ) -> None:
            barrier.wait()
            seen.append(buffer.ensure_allocated().address)

        threads = [threading.Thread(target=allocate) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(set(seen)) == 1
    gc.collect()
    assert len(allocator.freed) == len(allocator.blocks) - 1  # the last buffer is still alive


def test_a_buffer_is_zeroed_only_on_request() -> None:
    allocator = FarAllocator()
    assert Buffer(allocator, uint8, 5).to_bytes() == b"\xaa" * 5
    assert Buffer(allocator, uint8, 5, zeroed=True).to_bytes() == bytes(5)
    host = CachingAllocator(HostAllocator(), 1 << 20)
    Buffer(host, uint8, 100).copyin(b"\x55" * 100)
    assert Buffer(host, uint8, 100, zeroed=True).to_bytes() == bytes(100)


@pytest.mark.parametrize("nbytes", [1, 63, 64, 4097, 5 << 20])
def test_host_memory_is_aligned_to_64_bytes(nbytes: int) -> None:
    buffer = Buffer(HostAllocator(), uint8, nbytes).ensure_allocated()
    assert buffer.address % 64 == 0
    array = buffer.as_numpy()
    array[[0, -1]] = 7, 9
    assert buffer.view(nbytes - 1, 1).to_bytes() == b"\x09"


def test_a_buffer_without_elements_needs_no_memory(allocator: HostAllocator | FarAllocator) -> None:
    buffer = Buffer(allocator, float32, 0).ensure_allocated()
    buffer.copyin(b"")
    buffer.copyout(bytearray())
    copy_buffer(buffer, Buffer(HostAllocator(), float32, 0))
    assert (buffer.to_bytes(), buffer.size, buffer.as_numpy().shape) == (b"", 0, (0,))


def test_the_last_buffer_frees_the_storage() -> None:
    allocator = FarAllocator()
    buffer = Buffer(allocator, uint8, 8).ensure_allocated()
    address, view = buffer.address, buffer.view(2, 4)
    del buffer
    gc.collect()
    assert allocator.freed == []
    del view
    gc.collect()
    assert allocator.freed == [address]
    Buffer(allocator, uint8, 8)
    gc.collect()
    assert allocator.freed == [address], "a buffer that never had memory returns none"


def test_an_array_keeps_the_memory_alive() -> None:
    allocator = CachingAllocator(HostAllocator(), 0)
    buffer = Buffer(allocator, float32, 4)
    array = buffer.as_numpy()
    middle = array[1:3]
    del buffer, array
    gc.collect()
    assert allocator.in_use_bytes == 64
    middle[:] = 5
    assert middle.tolist() == [5, 5]
    del middle
    gc.collect()
    assert allocator.in_use_bytes == 0


def test_an_array_of_host_memory_is_not_a_copy() -> None:
    buffer = Buffer(HostAllocator(), float32, 3)
    buffer.copyin(np.array([1, 2, 3], np.float32))
    array = buffer.as_numpy()
    assert array.dtype == np.float32
    array[1] = 9
    assert buffer.view(4, 4).as_numpy().tolist() == [9]
    assert buffer.view(0, 4, int16).as_numpy().dtype == np.int16
    assert buffer.view(0, 12, bfloat16).as_numpy().shape == (6,)
    assert buffer.view(0, 2, bool_).as_numpy().dtype == np.bool_


def test_an_array_of_device_memory_is_a_copy() -> None:
    buffer = Buffer(FarAllocator(), uint8, 3)
    buffer.copyin(b"abc")
    assert buffer.as_numpy().tobytes() == b"abc"
    with pytest.raises(
        NotHostAddressableError, match="memory of FAR is not addressable by the host"
    ):
        buffer.as_memoryview()


@pytest.mark.parametrize(("offset", "nbytes"), [(-4, 4), (0, 44), (40, 4), (44, 0), (4, -4)])
def test_a_view_out_of_bounds_is_an_error(offset: int, nbytes: int) -> None:
    with pytest.raises(ViewError) as caught:
        Buffer(HostAllocator(), float32, 10).view(offset, nbytes)
    assert str(caught.value) == (
        f"view of {nbytes} bytes at offset {offset} is out of bounds for a buffer of 40 bytes"
    )


def test_a_view_of_a_view_is_bounded_by_the_view() -> None:
    view = Buffer(HostAllocator(), uint8, 100).view(50, 10)
    with pytest.raises(ViewError, match="is out of bounds for a buffer of 10 bytes"):
        view.view(5, 6)


def test_a_view_holds_whole_aligned_elements() -> None:
    buffer = Buffer(HostAllocator(), uint8, 40)
    with pytest.raises(
        ViewError, match="view of 6 bytes at offset 4 is not a whole number of float32 elements"
    ):
        buffer.view(4, 6, float32)
    with pytest.raises(ViewError, match="view of 4 bytes at offset 2 is not aligned to float32"):
        buffer.view(2, 4, float32)


def test_copyin_and_copyout_require_equal_sizes() -> None:
    buffer = Buffer(HostAllocator(), float32, 2)
    with pytest.raises(
        SizeMismatchError, match="copyin: sizes differ: the buffer has 8 bytes, got 4 bytes"
    ):
        buffer.copyin(b"1234")
    with pytest.raises(
        SizeMismatchError, match="copyout: sizes differ: the buffer has 8 bytes, got 9 bytes"
    ):
        buffer.copyout(bytearray(9))
    with pytest.raises(ReadOnlyError, match="memory of the host object is read-only"):
        buffer.copyout(bytes(8))


def test_copyin_takes_arrays_of_any_layout(allocator: HostAllocator | FarAllocator) -> None:
    array = np.arange(12, dtype=np.int16).reshape(3, 4)
    buffer = Buffer(allocator, int16, 12)
    buffer.copyin(array)
    assert buffer.to_bytes() == array.tobytes()
    transposed = array.T
    buffer.copyin(transposed)
    assert buffer.to_bytes() == transposed.tobytes()
    out = np.empty((3, 4), np.int16)
    buffer.copyout(out)
    assert out.tobytes() == transposed.tobytes()


@pytest.mark.parametrize("source", [HostAllocator, FarAllocator])
@pytest.mark.parametrize("destination", [HostAllocator, FarAllocator])
def test_buffers_are_copied_between_any_two_devices(
    source: type[HostAllocator] | type[FarAllocator],
    destination: type[HostAllocator] | type[FarAllocator],
) -> None:
    left, right = Buffer(source(), uint8, 10), Buffer(destination(), float32, 1, zeroed=True)
    left.copyin(bytes(range(10)))
    copy_buffer(right, left.view(3, 4))
    assert right.to_bytes() == bytes([3, 4, 5, 6])


def test_a_copy_between_different_sizes_is_an_error() -> None:
    with pytest.raises(
        SizeMismatchError, match="copy: sizes differ: the buffer has 8 bytes, got 4 bytes"
    ):
        copy_buffer(Buffer(HostAllocator(), float32, 2), Buffer(HostAllocator(), float32, 1))


def _aligned(nbytes: int) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    raw = np.zeros(nbytes + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + nbytes]


def test_wrapped_memory_is_not_copied_and_keeps_its_owner_alive() -> None:
    class Owner:
        pass

    array, owner = _aligned(8), Owner()
    alive = weakref.ref(owner)
    buffer = Buffer.wrap(owner, array.ctypes.data, 8, float32)
    view = buffer.view(4, 4)
    del owner, buffer
    gc.collect()
    assert alive() is not None
    array.view(np.float32)[1] = 2.5
    assert view.as_numpy().tolist() == [2.5]
    assert (view.device, view.is_host_addressable, view.is_writable) == ("CPU", True, True)
    del view
    gc.collect()
    assert alive() is None


def test_wrapped_read_only_memory_cannot_be_written() -> None:
    array = _aligned(8)
    buffer = Buffer.wrap(array, array.ctypes.data, 8, is_writable=False)
    with pytest.raises(ReadOnlyError, match="memory of CPU is read-only"):
        buffer.copyin(bytes(8))
    with pytest.raises(ReadOnlyError):
        copy_buffer(buffer, Buffer(HostAllocator(), uint8, 8))
    assert buffer.as_memoryview().readonly
    assert not buffer.as_numpy().flags.writeable


def test_only_aligned_memory_is_wrapped() -> None:
    array = _aligned(12)
    with pytest.raises(ViewError, match="is not aligned to 16 bytes"):
        Buffer.wrap(array, array.ctypes.data + 4, 8, float32)
    with pytest.raises(ViewError, match="is not a whole number of float32 elements"):
        Buffer.wrap(array, array.ctypes.data, 6, float32)


def test_from_host_copies_only_misaligned_objects() -> None:
    array = _aligned(64)
    shared = Buffer.from_host(array[:8], float32)
    assert shared.address == array.ctypes.data
    copied = Buffer.from_host(array[4:12], float32)
    assert copied.address != array.ctypes.data + 4
    array[:] = 1
    assert shared.to_bytes() == b"\x01" * 8
    assert copied.to_bytes() == bytes(8)
    frozen = _aligned(8)
    frozen.flags.writeable = False
    assert not Buffer.from_host(frozen).is_writable
    assert Buffer.from_host(array[::2]).to_bytes() == b"\x01" * 32
    with pytest.raises(ViewError):
        Buffer.from_host(array[:6], float32)


def test_the_repr_of_a_buffer() -> None:
    buffer = Buffer(HostAllocator("CPU:1"), float32, 6)
    view = buffer.view(8, 16)
    storage_id = buffer.storage_id
    assert repr(view) == f"Buffer(float32 x 4 on CPU:1, storage {storage_id} + 8, no memory yet)"
    view.ensure_allocated()
    assert repr(buffer) == f"Buffer(float32 x 6 on CPU:1, storage {storage_id} + 0)"
    assert (view.storage_nbytes, view.allocator.device) == (24, "CPU:1")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_thread_may_allocate_during_a_fork():
    # Acts as a finalizer. The hook registered first runs last before a fork, and first after it.
    out = run_script("""
buffers = []
def allocate():
    buffers.append(Buffer(get_allocator("CPU"), float32, 4).ensure_allocated())
os.register_at_fork(before=allocate, after_in_child=allocate, after_in_parent=allocate)
from svod_device import Buffer, get_allocator
from svod_dtype import float32
print(run_in_child(lambda: len(buffers)), len(buffers))
""")
    assert out.split() == ["2", "2"]


def test_an_array_of_read_only_memory_cannot_be_made_writable() -> None:
    source = np.arange(4, dtype=np.int32)
    address = source.ctypes.data
    assert address % 16 == 0
    array = Buffer.wrap(source, address, source.nbytes, int32, is_writable=False).as_numpy()
    with pytest.raises(ValueError, match="WRITEABLE"):
        array.flags.writeable = True
    Buffer.wrap(source, address, source.nbytes, int32).as_numpy()[0] = 7
    assert source.tolist() == [7, 1, 2, 3]
