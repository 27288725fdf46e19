"""Between numpy arrays and device buffers.

The only module besides `realize` that touches storage.
"""

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
"""numpy's letters for dtypes of its own."""


def check_device(device: str) -> str:
    """The canonical name of a device that exists and can be written.

    Raises:
        DeviceNameError: if `device` is no device name.
        UnknownDeviceError: if nothing provides such a device.
        ReadOnlyError: if the device is only read, as files on DISK are.
    """
    name = canonical_device(device)
    if not get_allocator(name).is_writable:
        raise ReadOnlyError(device=name)
    return name


def is_shareable(array: NDArray[np.generic]) -> bool:
    """Whether a kernel can read this array where it is."""
    return _find_address(array) is not None


def _find_address(array: NDArray[np.generic]) -> int | None:
    """Where an array is that a kernel can read there."""
    if not (array.flags.c_contiguous and array.dtype.isnative):
        return None
    # numpy takes three times as long to say where it is; the buffer protocol knows numpy's own
    # dtypes alone.
    knows = array.dtype.kind in _OWN_KINDS and array.size > 0
    address = locate_host(array) if knows else int(array.ctypes.data)  # pyright: ignore[reportArgumentType]
    return None if address % SHARED_ALIGNMENT else address


def find_shared(array: NDArray[np.generic], dtype: DType) -> Buffer | None:
    """`make_host_buffer` over an array of a native dtype of numpy's own, with elements; None where
    it has to be copied.
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
    """Whether arrays of a dtype have elements as kernels read them, and lend their memory by the
    buffer protocol.
    """
    return dtype.kind in _OWN_KINDS and dtype.isnative


def make_host_buffer(array: NDArray[np.generic], dtype: DType, *, may_share: bool) -> Buffer:
    """A CPU buffer with the elements of `array`: over the array itself where `is_shareable`, else a
    copy.

    What belongs to the array is never written; a tensor that is assigned to gets a copy first.
    """
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
    """A buffer on `device`, whose memory comes when it is first needed."""
    return Buffer(get_allocator(device), dtype, size)


def is_host_memory(device: str) -> bool:
    """Whether the host may write the memory of a device where it is."""
    allocator = get_allocator(device)
    return allocator.is_host_addressable and allocator.is_writable


def has_equal_bytes(left: Buffer, right: Buffer) -> bool:
    """Whether two buffers of one size in memory of the host have the same bytes."""
    # numpy compares words eight times as fast as bytes.
    word = next(f"u{width}" for width in (8, 4, 2, 1) if left.nbytes % width == 0)
    return bool((left.as_numpy().view(word) == right.as_numpy().view(word)).all())


def reads_files(device: str) -> bool:
    """Whether kernels of a device read mapped files, and other memory of the host, where
    they are.
    """
    return get_allocator(device).is_host_addressable


def open_file(device: str, dtype: DType, size: int) -> Buffer:
    """The bytes of a file behind a DISK device, mapped at once so that an unreadable file is
    noticed here.
    """
    return Buffer(get_allocator(device), dtype, size).ensure_allocated()
