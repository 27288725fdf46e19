"""Host memory: blocks, views and copies."""

from __future__ import annotations

import gc
import sys
import weakref
from pathlib import Path

import numpy as np
import pytest

from svod_device.host_memory import (
    address_of,
    copy_host,
    expose_host,
    fill_zero,
    locate_host,
    make_block,
    view_host,
)


@pytest.mark.parametrize("nbytes", [1, 64, 5000, (2 << 20) - 1, 2 << 20, 10 << 20])
def test_every_byte_of_a_block_can_be_used(nbytes: int) -> None:
    block = make_block(nbytes)
    assert block.capacity == nbytes
    assert block.address % 64 == 0
    view = view_host(block.address, nbytes, block.owner)
    fill_zero(block.address, nbytes)
    view[0] = view[-1] = 7
    assert (view[0], sum(view[1:-1][:1000]), view[nbytes - 1]) == (7, 0, 7)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_large_blocks_are_private_mappings_on_huge_page_boundaries() -> None:
    block = make_block(16 << 20)
    assert block.address % (2 << 20) == 0
    for line in Path("/proc/self/maps").read_text().splitlines():
        bounds, permissions = line.split()[:2]
        start, end = (int(text, 16) for text in bounds.split("-"))
        if start <= block.address < end:
            assert permissions == "rw-p"
            return
    pytest.fail("the block is not mapped")


def test_a_view_keeps_its_owner_alive() -> None:
    class Owner:
        pass

    block, owner = make_block(8), Owner()
    alive = weakref.ref(owner)
    view = view_host(block.address, 8, owner)
    slice_ = view[2:4]
    del owner, view
    gc.collect()
    assert alive() is not None
    del slice_
    gc.collect()
    assert alive() is None


def test_exposed_memory_keeps_its_owner_alive_and_can_be_written() -> None:
    class Owner:
        pass

    block, owner = make_block(8), Owner()
    alive = weakref.ref(owner)
    numbers = np.frombuffer(expose_host(block.address, 8, owner), np.int32)
    numbers[:] = 1, 2
    assert view_host(block.address, 8, block.owner).cast("i").tolist() == [1, 2]
    slice_ = numbers[1:]
    del owner, numbers
    gc.collect()
    assert alive() is not None
    del slice_
    gc.collect()
    assert alive() is None


def test_locate_host_does_not_pin_the_memory() -> None:
    array = bytearray(b"abcd")
    address = locate_host(array)
    copy_host(address, locate_host(b"xy"), 2)
    assert array == b"xycd"
    array += b"e"  # refused while a view holds the memory


def test_a_view_can_be_read_only() -> None:
    block = make_block(8)
    view = view_host(block.address, 8, block.owner, is_writable=False)
    with pytest.raises(TypeError):
        view[0] = 1
    assert view_host(0, 0, None, is_writable=False).readonly
    assert not view_host(0, 0, None).readonly


def test_bytes_are_copied_between_addresses() -> None:
    source, target = bytearray(b"abcdef"), bytearray(6)
    copy_host(address_of(target)[0] + 1, address_of(source)[0], 4)
    assert target == b"\0abcd\0"


def test_a_huge_block_is_a_memory_error() -> None:
    for nbytes in (1 << 62, 1 << 66):
        with pytest.raises(MemoryError):
            make_block(nbytes)
