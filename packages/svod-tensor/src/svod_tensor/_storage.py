"""Between numpy arrays and device buffers. The only module besides `realize` that touches storage."""

from __future__ import annotations

from typing import TYPE_CHECKING

from svod_device import Buffer, ReadOnlyError, canonical_device, get_allocator
from svod_device.host_memory import SHARED_ALIGNMENT

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from svod_dtype import DType

__all__ = ["allocate", "check_device", "is_shareable", "make_host_buffer", "open_file", "reads_files"]


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
    return bool(array.flags.c_contiguous) and array.ctypes.data % SHARED_ALIGNMENT == 0 and array.dtype.isnative


def make_host_buffer(array: NDArray[np.generic], dtype: DType, *, may_share: bool) -> Buffer:
    """A CPU buffer with the elements of `array`: over the array itself where `is_shareable`, else a copy.

    What belongs to the array is never written; a tensor that is assigned to gets a copy first.
    """
    import numpy as np

    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if may_share and is_shareable(array):
        address = int(array.ctypes.data)
        return Buffer.wrap(array, address, array.nbytes, dtype, is_writable=False)
    buffer = allocate("CPU", dtype, array.size)
    target = buffer.as_numpy()
    np.copyto(target.reshape(array.shape), array.view(target.dtype) if array.dtype != target.dtype else array)
    return buffer


def allocate(device: str, dtype: DType, size: int) -> Buffer:
    """A buffer on `device`, whose memory comes when it is first needed."""
    return Buffer(get_allocator(device), dtype, size)


def reads_files(device: str) -> bool:
    """Whether kernels of a device read mapped files, and other memory of the host, where they are."""
    return get_allocator(device).is_host_addressable


def open_file(device: str, dtype: DType, size: int) -> Buffer:
    """The bytes of a file behind a DISK device, mapped at once so that an unreadable file is noticed here."""
    return Buffer(get_allocator(device), dtype, size).ensure_allocated()
