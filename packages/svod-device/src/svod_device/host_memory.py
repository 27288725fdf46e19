"""Blocks, views and copies of this process's memory.

Small blocks come from the C heap; large ones are anonymous mappings that start at a 2 MiB boundary,
so that the kernel can back them with huge pages: the first touch of 64 MiB takes 7 ms with them and
40 ms in pages of 4 KiB, more than most kernels take to compute what they store there.

Example:
    >>> from svod_device.host_memory import address_of, copy_host, expose_host, fill_zero, locate_host, make_block, view_host
    >>> block = make_block(8)
    >>> block.address % ALIGNMENT, block.capacity
    (0, 8)
    >>> address, owner = address_of(b"12345678")
    >>> copy_host(block.address, address, 8)
    >>> fill_zero(block.address + 2, 4)
    >>> view_host(block.address, 8, block.owner).tobytes().hex()
    '3132000000003738'
    >>> exposed = expose_host(block.address, 8, block.owner)
    >>> exposed[3:5] = b"ab"
    >>> locate_host(exposed) == block.address, exposed.raw.hex()
    (True, '3132006162003738')
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import sys
from typing import TYPE_CHECKING, Final, cast

# The C half of cffi, which every ready-made cffi module imports in the same way. Through the `cffi`
# package it would bring a C parser that nothing here needs, at 80 ms for each start.
from _cffi_backend import FFI

from svod_device._protocols import Memory

if TYPE_CHECKING:
    from typing_extensions import Buffer as BytesLike

__all__ = [
    "ALIGNMENT",
    "SHARED_ALIGNMENT",
    "address_of",
    "copy_host",
    "expose_host",
    "fill_zero",
    "locate_host",
    "make_block",
    "view_host",
]

ALIGNMENT: Final = 64
"""Of every block: a cache line, and the widest vector register."""

SHARED_ALIGNMENT: Final = 16
"""Of memory that others allocated and svod uses where it is: what malloc gives, and a multiple of
every element's size.
"""

_HUGE_PAGE: Final = 2 << 20
_MAPPED_FROM: Final = _HUGE_PAGE

_ffi: Final = FFI()
_NUMBER: Final = _ffi.typeof("uintptr_t")
_BYTES: Final = _ffi.typeof("char[]")
_allocate_raw = _ffi.new_allocator(should_clear_after_alloc=False)


def make_block(nbytes: int) -> Memory:
    """A block of the heap or, if large, a mapping; it is released with the last reference to its
    owner.

    Raises:
        MemoryError: if there is no such block.
    """
    if nbytes >= _MAPPED_FROM:
        return _map_block(nbytes)
    owner = _allocate_raw("char[]", nbytes + ALIGNMENT)
    return Memory(_align(int(_ffi.cast("uintptr_t", owner)), ALIGNMENT), nbytes, owner)


def _map_block(nbytes: int) -> Memory:
    try:
        mapping = _map_anonymous(nbytes + _HUGE_PAGE)
    except (OSError, OverflowError) as error:
        raise MemoryError(f"cannot map {nbytes} bytes: {error}") from error
    if hasattr(mmap, "MADV_HUGEPAGE"):
        # Without huge pages the block is as good, but slower to touch.
        with contextlib.suppress(OSError):
            mapping.madvise(mmap.MADV_HUGEPAGE)
    address, owner = address_of(mapping)
    return Memory(_align(address, _HUGE_PAGE), nbytes, owner)


def _map_anonymous(nbytes: int) -> mmap.mmap:
    if sys.platform == "win32":
        return mmap.mmap(-1, nbytes)
    # Python's default is a shared mapping, which gets no huge pages and which a forked child would
    # write to.
    return mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def _align(address: int, alignment: int) -> int:
    return (address + alignment - 1) & -alignment


def address_of(exporter: BytesLike) -> tuple[int, object]:
    """Where the bytes of a buffer-protocol object are, and an object that keeps them there."""
    pin = _ffi.from_buffer(exporter)
    return int(_ffi.cast("uintptr_t", pin)), pin


def locate_host(exporter: BytesLike) -> int:
    """Where the bytes of a buffer-protocol object are, which somebody else keeps there."""
    return int(_ffi.cast(_NUMBER, _ffi.from_buffer(_BYTES, exporter)))


def view_host(address: int, nbytes: int, owner: object, *, is_writable: bool = True) -> memoryview:
    """The bytes at an address as a memoryview that keeps `owner` alive."""
    if nbytes == 0:
        return memoryview(bytearray() if is_writable else b"")

    def hold(_pointer: object, _owner: object = owner) -> None:
        """Keep the owner for as long as the pointer lives."""

    pointer = _ffi.gc(_ffi.cast("char *", address), hold)
    view = memoryview(cast("bytearray", _ffi.buffer(pointer, nbytes)))
    return view if is_writable else view.toreadonly()


def expose_host(address: int, nbytes: int, owner: object) -> ctypes.Array[ctypes.c_char]:
    """The bytes at an address as an object whose buffer can be written, and which keeps `owner`
    alive.

    numpy takes it as it is; it costs a fifth of `view_host`.
    """
    exposed = (ctypes.c_char * nbytes).from_address(address)
    exposed.owner = owner  # pyright: ignore[reportAttributeAccessIssue]
    return exposed


def copy_host(destination: int, source: int, nbytes: int) -> None:
    """Copy bytes between two addresses; other Python threads go on meanwhile."""
    ctypes.memmove(destination, source, nbytes)


def fill_zero(address: int, nbytes: int) -> None:
    """Clear bytes; other Python threads go on meanwhile."""
    ctypes.memset(address, 0, nbytes)
