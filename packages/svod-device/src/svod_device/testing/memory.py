"""Conformance tests of device memory: allocator, buffers, views and copies."""

from __future__ import annotations

import gc
import itertools
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, Final

import numpy as np
import pytest

from svod_device._buffer import Buffer, copy_buffer
from svod_device._protocols import Allocator, Memory
from svod_device._registry import canonical_device, get_allocator
from svod_device.errors import ReadOnlyError, SizeMismatchError, ViewError
from svod_device.host_memory import ALIGNMENT
from svod_device.testing.base import Conformance
from svod_device.testing.limit import get_plugin_allocator, run_with_limit
from svod_dtype import ALL_DTYPES, DType, float32, uint8
from svod_ir.testing import run_in_threads

__all__ = ["AllocatorConformance", "BufferConformance"]

# Around the alignment of blocks, a page, and a megabyte.
_SIZES: Final = (1, 2, 3, 63, 64, 65, 1000, 4096, 4097, (1 << 20) + 1, 8 << 20)


def _make_bytes(count: int, seed: int) -> bytes:
    return np.random.default_rng(seed).integers(0, 256, count, np.uint8).tobytes()


def _read(allocator: Allocator, address: int, nbytes: int) -> bytes:
    data = bytearray(nbytes)
    allocator.copy_out(memoryview(data), address)
    return bytes(data)


class AllocatorConformance(Conformance):
    """Tests of the contract of `svod_device.Allocator`."""

    def test_it_is_an_allocator_of_this_device(self, allocator: Allocator) -> None:
        assert isinstance(allocator, Allocator)
        assert allocator.device == canonical_device(self.device)
        assert allocator.is_writable is True
        assert allocator.is_host_addressable in (True, False)

    @pytest.mark.parametrize("nbytes", _SIZES)
    def test_a_block_is_aligned_and_keeps_its_bytes(
        self, allocator: Allocator, nbytes: int
    ) -> None:
        memory = allocator.allocate(nbytes)
        assert memory.address % ALIGNMENT == 0 and memory.address != 0
        assert memory.capacity >= nbytes
        data = _make_bytes(nbytes, nbytes)
        allocator.copy_in(memory.address, memoryview(data))
        assert _read(allocator, memory.address, nbytes) == data
        allocator.free(memory)

    def test_blocks_do_not_overlap(self, allocator: Allocator) -> None:
        blocks = [allocator.allocate(nbytes) for nbytes in _SIZES[:-2] * 3]
        intervals = sorted((m.address, m.address + m.capacity) for m in blocks)
        assert all(end <= start for (_, end), (start, _) in itertools.pairwise(intervals))
        for index, memory in enumerate(blocks):
            allocator.copy_in(memory.address, memoryview(bytes([index % 251]) * memory.capacity))
        for index, memory in enumerate(blocks):
            assert (
                _read(allocator, memory.address, memory.capacity)
                == bytes([index % 251]) * memory.capacity
            )
            allocator.free(memory)

    @pytest.mark.parametrize("offset", [0, 1, 3, 64, 100, 4095])
    @pytest.mark.parametrize("nbytes", [1, 7, 64, 1001])
    def test_an_address_plus_n_is_the_n_th_byte(
        self, allocator: Allocator, offset: int, nbytes: int
    ) -> None:
        memory = allocator.allocate(8192)
        expected = bytearray(_make_bytes(8192, 1))
        allocator.copy_in(memory.address, memoryview(expected))
        data = _make_bytes(nbytes, 2)
        allocator.copy_in(memory.address + offset, memoryview(data))
        expected[offset : offset + nbytes] = data
        assert _read(allocator, memory.address, 8192) == expected
        assert _read(allocator, memory.address + offset, nbytes) == data
        allocator.free(memory)

    def test_the_source_of_a_copy_may_change_afterwards(self, allocator: Allocator) -> None:
        memory = allocator.allocate(1 << 20)
        source = bytearray(b"\x01" * (1 << 20))
        allocator.copy_in(memory.address, memoryview(source))
        source[:] = b"\x02" * (1 << 20)
        assert _read(allocator, memory.address, 1 << 20) == b"\x01" * (1 << 20)
        allocator.free(memory)

    def test_a_block_that_no_machine_has_is_a_memory_error(self, allocator: Allocator) -> None:
        for nbytes in (1 << 60, 1 << 50):
            with pytest.raises(MemoryError):
                allocator.allocate(nbytes)
        memory = allocator.allocate(100)
        allocator.copy_in(memory.address, memoryview(bytes(100)))
        allocator.free(memory)

    def test_freed_memory_can_be_had_again(self, allocator: Allocator) -> None:
        for _ in range(100):
            blocks = [allocator.allocate(4 << 20) for _ in range(4)]
            for memory in blocks:
                allocator.free(memory)

    def test_finalizers_of_cycles_free_blocks(self, allocator: Allocator) -> None:
        class Cycle:
            def __init__(self) -> None:
                self.memory, self.me = allocator.allocate(1000), self

            def __del__(self) -> None:
                allocator.free(self.memory)

        for _ in range(50):
            Cycle()
            allocator.free(allocator.allocate(1000))
        gc.collect()
        allocator.free(allocator.allocate(1000))

    @pytest.mark.parametrize("method", ["allocate", "copy_in", "copy_out", "synchronize"])
    def test_a_finalizer_may_free_a_block_in_the_midst_of_any_call(
        self, allocator: Allocator, method: str
    ) -> None:
        # If an earlier test lost the device, fail here instead of blocking again.
        allocator.synchronize()
        plugin = get_plugin_allocator(allocator)

        def work() -> None:
            blocks = [plugin.allocate(64) for _ in range(200)]
            memory, data = plugin.allocate(64), bytearray(64)

            def free_one(_frame: FrameType, _event: str, _argument: object) -> Any:
                # Garbage collection may run a finalizer between any two lines.
                if blocks:
                    plugin.free(blocks.pop())
                return free_one

            calls: dict[str, Callable[[], object]] = {
                "allocate": lambda: plugin.allocate(64),
                "copy_in": lambda: plugin.copy_in(memory.address, memoryview(data)),
                "copy_out": lambda: plugin.copy_out(memoryview(data), memory.address),
                "synchronize": plugin.synchronize,
            }
            sys.settrace(free_one)
            try:
                calls[method]()
            finally:
                sys.settrace(None)
            plugin.free(memory)

        problem = f"free, called by a finalizer during {method}, waits for a lock of {method}"
        run_with_limit(allocator, self.limit_s, work, problem)

    def test_threads_allocate_copy_and_free_at_once(self, allocator: Allocator) -> None:
        def work(thread: int) -> None:
            for turn in range(25):
                nbytes = 1 + 997 * (turn % 5) + thread
                blocks: list[Memory] = [allocator.allocate(nbytes) for _ in range(3)]
                for k, memory in enumerate(blocks):
                    allocator.copy_in(memory.address, memoryview(bytes([thread * 3 + k]) * nbytes))
                for k, memory in enumerate(blocks):
                    assert (
                        _read(allocator, memory.address, nbytes) == bytes([thread * 3 + k]) * nbytes
                    )
                    allocator.free(memory)

        run_in_threads(*(partial(work, thread) for thread in range(4)))

    def test_a_block_is_freed_by_another_thread(self, allocator: Allocator) -> None:
        blocks = [allocator.allocate(5000) for _ in range(8)]

        def work(thread: int) -> None:
            for memory in blocks[2 * thread : 2 * thread + 2]:
                allocator.free(memory)

        run_in_threads(*(partial(work, thread) for thread in range(4)))

    def test_synchronize_returns_with_and_without_work(self, allocator: Allocator) -> None:
        allocator.synchronize()
        memory = allocator.allocate(64)
        allocator.copy_in(memory.address, memoryview(bytes(64)))
        allocator.synchronize()
        allocator.synchronize()
        allocator.free(memory)


class BufferConformance(Conformance):
    """Tests of buffers, views, and copies between the device and other devices."""

    @pytest.mark.parametrize("dtype", ALL_DTYPES, ids=str)
    def test_every_dtype_comes_back_bit_by_bit(self, allocator: Allocator, dtype: DType) -> None:
        data = (
            _make_bytes(17 * dtype.itemsize, 3)
            if not dtype.is_bool
            else bytes(range(2)) * 8 + b"\1"
        )
        buffer = Buffer(allocator, dtype, 17)
        buffer.copyin(data)
        assert buffer.to_bytes() == data
        assert buffer.as_numpy().tobytes() == data

    @pytest.mark.parametrize("size", [0, 1, 13, 100003])
    def test_sizes_from_none_to_large(self, allocator: Allocator, size: int) -> None:
        values = np.arange(size, dtype=np.float32)
        buffer = Buffer(allocator, float32, size)
        buffer.copyin(values.data)
        np.testing.assert_array_equal(buffer.as_numpy(), values)
        assert Buffer(allocator, float32, size, zeroed=True).to_bytes() == bytes(4 * size)

    def test_memory_comes_when_it_is_first_needed(self, allocator: Allocator) -> None:
        buffer = Buffer(allocator, float32, 1 << 58)
        assert not buffer.is_allocated
        with pytest.raises(MemoryError):
            buffer.ensure_allocated()
        small = Buffer(allocator, float32, 4)
        assert not small.is_allocated
        assert small.ensure_allocated().is_allocated
        assert small.address == small.view(4, 8).address - 4

    def test_views_share_bytes_and_stay_inside(self, allocator: Allocator) -> None:
        buffer = Buffer(allocator, float32, 8)
        buffer.copyin(np.arange(8, dtype=np.float32).data)
        outer = buffer.view(8, 16)
        inner = outer.view(4, 8)
        assert inner.as_numpy().tolist() == [3, 4]
        inner.copyin(np.array([30, 40], np.float32).data)
        assert buffer.as_numpy().tolist() == [0, 1, 2, 30, 40, 5, 6, 7]
        assert buffer.view(3, 5, uint8).to_bytes() == buffer.to_bytes()[3:8]
        for offset, nbytes in ((0, 20), (-4, 4), (12, 8), (20, 0)):
            with pytest.raises(ViewError):
                outer.view(offset, nbytes)

    def test_copies_within_the_device(self, allocator: Allocator) -> None:
        values = np.arange(1001, dtype=np.float32)
        source, result = Buffer(allocator, float32, 1001), Buffer(allocator, float32, 1003)
        source.copyin(values.data)
        result.copyin(np.zeros(1003, np.float32).data)
        copy_buffer(result.view(4, 4004), source)
        assert result.as_numpy().tolist() == [0, *values.tolist(), 0]
        with pytest.raises(SizeMismatchError):
            copy_buffer(result, source)

    @pytest.mark.parametrize("size", [0, 1, 999, 1 << 20])
    def test_copies_to_and_from_the_cpu(self, allocator: Allocator, size: int) -> None:
        values = np.random.default_rng(0).standard_normal(size, np.float32)
        source, on_device, result = (
            Buffer(a, float32, size)
            for a in (get_allocator("CPU"), allocator, get_allocator("CPU"))
        )
        source.copyin(values.data)
        copy_buffer(on_device, source)
        source.copyin(np.zeros(size, np.float32).data)
        copy_buffer(result, on_device)
        np.testing.assert_array_equal(result.as_numpy(), values)

    def test_copies_from_a_file(self, allocator: Allocator, tmp_path: Path) -> None:
        data = _make_bytes(5000, 4)
        (tmp_path / "file").write_bytes(data)
        disk = Buffer(get_allocator(f"DISK:{tmp_path}/file"), uint8, 5000)
        buffer = Buffer(allocator, uint8, 4001)
        copy_buffer(buffer, disk.view(7, 4001))
        assert buffer.to_bytes() == data[7:4008]
        with pytest.raises(ReadOnlyError):
            copy_buffer(disk.view(0, 4001), buffer)

    def test_the_last_handle_frees_the_memory(self, allocator: Allocator) -> None:
        for _ in range(100):
            view = Buffer(allocator, uint8, 16 << 20, zeroed=False).ensure_allocated().view(5, 11)
            view.copyin(b"hello world")
            assert view.to_bytes() == b"hello world"
            del view

    def test_a_host_view_is_the_memory_itself(self, allocator: Allocator) -> None:
        if not allocator.is_host_addressable:
            pytest.skip("the host cannot address this memory")
        buffer = Buffer(allocator, float32, 4)
        buffer.copyin(np.zeros(4, np.float32).data)
        buffer.as_memoryview().cast("f")[2] = 5.0
        assert np.frombuffer(buffer.to_bytes(), np.float32).tolist() == [0, 0, 5, 0]
