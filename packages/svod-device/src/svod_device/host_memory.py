"""Host memory: blocks, views and copies.

Small blocks come from the C heap. Large blocks are anonymous mappings aligned to 2 MiB, so that the
operating system can back them with huge pages. The first touch of a block takes several times as
long with 4 KiB pages, and longer than most kernels run.

Example:
    >>> from svod_device.host_memory import ALIGNMENT, address_of, copy_host, expose_host, fill_zero, locate_host, make_block, view_host
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

    Memory of another library can be shared if it is aligned:

    >>> from svod_device.host_memory import SHARED_ALIGNMENT
    >>> def can_share(address: int) -> bool:
    ...     return address % SHARED_ALIGNMENT == 0
    >>> can_share(block.address), can_share(block.address + 4)
    (True, False)
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import sys
from typing import TYPE_CHECKING, Final, cast

# The C half of cffi, which compiled cffi modules import in the same way. Importing the `cffi`
# package would load an unused C parser and take 80 ms.
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
"""Alignment of every block in bytes: a cache line, and the widest vector register."""

SHARED_ALIGNMENT: Final = 16
"""Alignment in bytes that external memory needs for zero-copy use: malloc guarantees it, and every
element size divides it.
"""

_HUGE_PAGE: Final = 2 << 20
_MIN_MAPPED: Final = _HUGE_PAGE  # a smaller block cannot fill a huge page

_ffi: Final = FFI()
_ADDRESS: Final = _ffi.typeof("uintptr_t")
_BYTES: Final = _ffi.typeof("char[]")
_allocate_raw = _ffi.new_allocator(should_clear_after_alloc=False)


def make_block(nbytes: int) -> Memory:
    """Allocate a block from the heap or, if large, by a mapping. It is freed with the last
    reference to its owner.

    Raises:
        MemoryError: if the allocation fails.
    """
    if nbytes >= _MIN_MAPPED:
        return _map_block(nbytes)
    owner = _allocate_raw("char[]", nbytes + ALIGNMENT)
    return Memory(_align(int(_ffi.cast("uintptr_t", owner)), ALIGNMENT), nbytes, owner)


def _map_block(nbytes: int) -> Memory:
    try:
        mapping = _map_anonymous(nbytes + _HUGE_PAGE)
    except (OSError, OverflowError) as error:
        raise MemoryError(f"cannot map {nbytes} bytes: {error}") from error
    if hasattr(mmap, "MADV_HUGEPAGE"):
        # Huge pages are an optimization: kernels without support reject the advice.
        with contextlib.suppress(OSError):
            mapping.madvise(mmap.MADV_HUGEPAGE)
    address, owner = address_of(mapping)
    return Memory(_align(address, _HUGE_PAGE), nbytes, owner)


def _map_anonymous(nbytes: int) -> mmap.mmap:
    if sys.platform == "win32":
        return mmap.mmap(-1, nbytes)
    # Python's default is MAP_SHARED: shared mappings get no huge pages, and a forked child would
    # write to the parent's memory.
    return mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def _align(address: int, alignment: int) -> int:
    return (address + alignment - 1) & -alignment


def address_of(exporter: BytesLike) -> tuple[int, object]:
    """Return the address of a buffer-protocol object's bytes, and an object that pins them."""
    pin = _ffi.from_buffer(exporter)
    return int(_ffi.cast("uintptr_t", pin)), pin


def locate_host(exporter: BytesLike) -> int:
    """Return the address of a buffer-protocol object's bytes, without pinning them."""
    return int(_ffi.cast(_ADDRESS, _ffi.from_buffer(_BYTES, exporter)))


def view_host(address: int, nbytes: int, owner: object, *, is_writable: bool = True) -> memoryview:
    """Return a memoryview of `nbytes` bytes at `address`; the view keeps `owner` alive.

    Without `is_writable`, the view is read-only.
    """
    if nbytes == 0:
        return memoryview(bytearray() if is_writable else b"")

    def hold(_pointer: object, _owner: object = owner) -> None:
        """Do nothing: the default argument keeps the owner alive as long as the pointer."""

    pointer = _ffi.gc(_ffi.cast("char *", address), hold)
    view = memoryview(cast("bytearray", _ffi.buffer(pointer, nbytes)))
    return view if is_writable else view.toreadonly()


def expose_host(address: int, nbytes: int, owner: object) -> ctypes.Array[ctypes.c_char]:
    """Return a writable buffer-protocol object over the bytes at an address. It keeps `owner`
    alive.

    numpy accepts it directly; it takes less time than `view_host`.
    """
    exposed = (ctypes.c_char * nbytes).from_address(address)
    exposed.owner = owner  # pyright: ignore[reportAttributeAccessIssue]
    return exposed


def copy_host(destination: int, source: int, nbytes: int) -> None:
    """Copy `nbytes` bytes from the address `source` to `destination`, with the GIL released."""
    ctypes.memmove(destination, source, nbytes)


def fill_zero(address: int, nbytes: int) -> None:
    """Fill bytes with zeros, with the GIL released."""
    ctypes.memset(address, 0, nbytes)
