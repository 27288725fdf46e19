"""Transfer between numpy arrays and device buffers.

The only module besides `_realize` that accesses storage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from svod_device import Buffer, ReadOnlyError, canonical_device, get_allocator
from svod_device.host_memory import SHARED_ALIGNMENT, locate_host

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from svod_dtype import DType

__all__ = [
    "allocate",
    "check_device",
    "find_shared",
    "has_equal_bytes",
    "is_host_memory",
    "is_plain",
    "is_shareable",
    "make_host_buffer",
    "open_file",
    "reads_files",
]

_OWN_KINDS: Final = frozenset("biufc")
"""Kind letters of numpy's own dtypes."""


def check_device(device: str) -> str:
    """The canonical name of an existing, writable device.

    Raises:
        DeviceNameError: if `device` is not a device name.
        UnknownDeviceError: if no plugin provides such a device.
        ReadOnlyError: if the device is read-only, as files on DISK are.
    """
    name = canonical_device(device)
    if not get_allocator(name).is_writable:
        raise ReadOnlyError(device=name)
    return name


def is_shareable(array: NDArray[np.generic]) -> bool:
    """Whether kernels can read this array without a copy."""
    return _find_address(array) is not None


def _find_address(array: NDArray[np.generic]) -> int | None:
    """The address of an array that kernels can read without a copy, or None."""
    if not (array.flags.c_contiguous and array.dtype.isnative):
        return None
    # `ctypes.data` takes three times as long as the buffer protocol, which only supports numpy's
    # own dtypes.
    knows = array.dtype.kind in _OWN_KINDS and array.size > 0
    address = locate_host(array) if knows else int(array.ctypes.data)  # pyright: ignore[reportArgumentType]
    return None if address % SHARED_ALIGNMENT else address


def find_shared(array: NDArray[np.generic], dtype: DType) -> Buffer | None:
    """A buffer over a non-empty array of one of numpy's own native dtypes, as of
    `make_host_buffer`; None if it must be copied.
    """
    if not array.flags.c_contiguous:
        return None
    address = locate_host(array)  # pyright: ignore[reportArgumentType]
    return (
        None
        if address % SHARED_ALIGNMENT
        else Buffer.wrap(array, address, array.nbytes, dtype, is_writable=False)
    )


def is_plain(dtype: np.dtype[np.generic]) -> bool:
    """Whether kernels can read elements of a dtype, and the buffer protocol supports it."""
    return dtype.kind in _OWN_KINDS and dtype.isnative


def make_host_buffer(array: NDArray[np.generic], dtype: DType, *, may_share: bool) -> Buffer:
    """A CPU buffer with the elements of `array`: over the array itself if `is_shareable`, else a
    copy.

    Memory of the array is never written; a tensor that is assigned to gets a copy first."""
    if may_share and (address := _find_address(array)) is not None:
        return Buffer.wrap(array, address, array.nbytes, dtype, is_writable=False)
    import numpy as np

    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    buffer = allocate("CPU", dtype, array.size)
    target = buffer.as_numpy()
    np.copyto(
        target.reshape(array.shape),
        array.view(target.dtype) if array.dtype != target.dtype else array,
    )
    return buffer


def allocate(device: str, dtype: DType, size: int) -> Buffer:
    """A buffer on `device`, whose memory is allocated on first use."""
    return Buffer(get_allocator(device), dtype, size)


def is_host_memory(device: str) -> bool:
    """Whether the host may write a device's memory directly."""
    allocator = get_allocator(device)
    return allocator.is_host_addressable and allocator.is_writable


def has_equal_bytes(left: Buffer, right: Buffer) -> bool:
    """Whether two buffers of one size in host memory have the same bytes."""
    # numpy compares words eight times as fast as bytes.
    word = next(f"u{width}" for width in (8, 4, 2, 1) if left.nbytes % width == 0)
    return bool((left.as_numpy().view(word) == right.as_numpy().view(word)).all())


def reads_files(device: str) -> bool:
    """Whether kernels of a device can read mapped files, and other host memory, directly."""
    return get_allocator(device).is_host_addressable


def open_file(device: str, dtype: DType, size: int) -> Buffer:
    """The bytes of a file behind a DISK device, mapped at once so that an unreadable file raises
    here.
    """
    return Buffer(get_allocator(device), dtype, size).ensure_allocated()
