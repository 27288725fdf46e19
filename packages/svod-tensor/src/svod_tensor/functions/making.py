"""Tensors from objects of other libraries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from svod_dtype import to_dtype
from svod_tensor.errors import CopyRequiredError
from svod_tensor.ops.theme import is_elsewhere
from svod_tensor.tensor import Tensor

if TYPE_CHECKING:
    from svod_tensor.ops.base import DTypeLike

__all__ = ["asarray", "from_dlpack"]


def asarray(
    obj: object, /, *, dtype: DTypeLike | None = None, device: str | None = None, copy: bool | None = None
) -> Tensor:
    """A tensor with the elements of `obj`: that itself if it is a tensor, else a copy that later writes to `obj` do not change.

    Args:
        obj: a tensor, an array of numpy, numbers, nested lists, an array with `__dlpack__`, or an object with a buffer.
        dtype: of the result; by default that of `obj`, and of Python's numbers as `Tensor` has it.
        device: where it is; by default where `obj` is, or on the device that `SVOD_DEVICE` names.
        copy: True copies a tensor too. False shares the memory of `obj`, as `Tensor.from_numpy` does, and is an error
            where kernels cannot read it there.

    Raises:
        CopyRequiredError: if `copy` is False and the elements must be copied.
        DataError: if `obj` is no tensor data.

    Example:
        >>> import svod_tensor as sv
        >>> sv.asarray([[1, 2], [3, 4]], dtype=sv.float64).tolist()
        [[1.0, 2.0], [3.0, 4.0]]
    """
    # A result that is computed later would see what is written to shared memory before.
    source = obj if isinstance(obj, Tensor) else _read(obj, copy=copy is not False)
    if source is None:
        # Python's numbers are rounded once, and must fit.
        return Tensor(obj, dtype=dtype, device=device)  # pyright: ignore[reportArgumentType]
    kind = source.dtype if dtype is None else to_dtype(dtype)
    is_same = kind is source.dtype and not (device is not None and is_elsewhere(source, device))
    if is_same:
        return source.clone() if copy and source is obj else source
    if copy is False:
        raise CopyRequiredError(
            operation="asarray", problem=f"{source.dtype} on {source.device} is asked for as {kind}"
        )
    return source.astype(kind, device=device)


def _read(obj: object, *, copy: bool) -> Tensor | None:
    """A tensor of an object that has memory; None of numbers, and of what is no tensor data."""
    import numpy as np

    if isinstance(obj, (np.ndarray, memoryview, bytes, bytearray)) or hasattr(obj, "__array_interface__"):
        return _read_array(np.asarray(obj), copy=copy)
    if not hasattr(obj, "__array__") and hasattr(obj, "__dlpack__"):
        return Tensor.from_dlpack(obj, copy=copy)
    try:
        view = memoryview(obj)  # pyright: ignore[reportArgumentType]
    except TypeError:
        view = None
    if view is not None:
        return _read_array(np.asarray(view), copy=copy)
    if not copy:
        raise CopyRequiredError(operation="asarray", problem=f"a {type(obj).__name__} has no memory to share")
    return None


def _read_array(array: object, *, copy: bool) -> Tensor:
    from svod_tensor import _storage as storage

    if not copy and not storage.is_shareable(array):  # pyright: ignore[reportArgumentType]
        raise CopyRequiredError(operation="asarray", problem="kernels cannot read the array where it is")
    return Tensor.from_numpy(array, copy=copy)  # pyright: ignore[reportArgumentType]


def from_dlpack(x: object, /, *, device: str | None = None, copy: bool | None = None) -> Tensor:
    """A tensor with the values of another library's array, whose memory it shares where kernels can read it there.

    Args:
        x: anything with `__dlpack__`, on the host.
        device: where the tensor is; by default on the CPU.
        copy: True gives memory of its own; False an error where that is needed; None copies where it is.

    Raises:
        OperandError: if it is no array, or one on a device, or of a dtype, that cannot be read.
        CopyRequiredError: if `copy` is False and the elements must be copied.

    Example:
        >>> import numpy as np
        >>> import svod_tensor as sv
        >>> sv.from_dlpack(np.array([1.0, 2.0])).tolist()
        [1.0, 2.0]
    """
    return Tensor.from_dlpack(x, device=device, copy=copy)
