"""Tensors from nothing, and from what other libraries hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from svod_dtype import to_dtype
from svod_ir import SInt
from svod_tensor.errors import CopyRequiredError
from svod_tensor.ops.theme import is_elsewhere
from svod_tensor.tensor import Tensor

if TYPE_CHECKING:
    from svod_tensor.ops.base import DTypeLike

__all__ = ["arange", "asarray", "empty", "eye", "from_dlpack", "full", "linspace", "ones", "zeros"]


def arange(
    start: SInt | float, /, stop: SInt | float | None = None, step: int | float = 1, *,
    dtype: DTypeLike | None = None, device: str | None = None,
) -> Tensor:  # fmt: skip
    """The numbers from `start` up to but excluding `stop`, `step` apart, as a tensor of one axis.

    Args:
        start: the first one; if only one number is given, that is `stop`, and 0 is the first.
        stop: where they end.
        step: how far they are apart, which may be negative.
        dtype: by default float32 where one of the three is a float, else int32, or a wider one where they do not fit.
        device: where it is; by default on the device that `SVOD_DEVICE` names.

    Raises:
        ShapeError: if the step is 0.
        IntegerOverflowError: if one of them does not fit `dtype`.

    Example:
        >>> import svod_tensor as sv
        >>> sv.arange(3).tolist(), sv.arange(1, 2, 0.25).tolist()
        ([0, 1, 2], [1.0, 1.25, 1.5, 1.75])
    """
    return Tensor.arange(start, stop, step, dtype=dtype, device=device)


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


def empty(
    shape: SInt | Sequence[SInt], *, dtype: DTypeLike | None = None, device: str | None = None
) -> Tensor:  # fmt: skip
    """A tensor of `shape` with memory of its own and no defined content: an input to be filled.

    Args:
        shape: a size or several.
        dtype: of the elements; by default float32.
        device: where it is; by default on the device that `SVOD_DEVICE` names.

    Raises:
        ShapeError: if a size is negative.
        UnknownDeviceError: if nothing provides the device.

    Example:
        >>> import svod_tensor as sv
        >>> sv.empty((2, 3)).shape
        (2, 3)
    """
    return Tensor.empty(shape, dtype=float if dtype is None else dtype, device=device)


def eye(
    n_rows: SInt, n_cols: SInt | None = None, /, *, k: int = 0, dtype: DTypeLike | None = None, device: str | None = None
) -> Tensor:  # fmt: skip
    """A matrix with ones on diagonal `k`, above the main one where it is positive, and zeros elsewhere.

    Args:
        n_rows: how many rows.
        n_cols: how many columns; by default as many.
        k: which diagonal.
        dtype: of the elements; by default float32.
        device: where it is; by default on the device that `SVOD_DEVICE` names.

    Example:
        >>> import svod_tensor as sv
        >>> sv.eye(2, 3, k=1).tolist()
        [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    return Tensor.eye(n_rows, n_cols, k=k, dtype=float if dtype is None else dtype, device=device)


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


def full(
    shape: SInt | Sequence[SInt], fill_value: complex, *, dtype: DTypeLike | None = None, device: str | None = None
) -> Tensor:  # fmt: skip
    """A tensor with `fill_value` at every element; it takes no memory until it is realized.

    Args:
        shape: a size or several.
        fill_value: a number.
        dtype: by default that of `Tensor(fill_value)`.
        device: where it is; by default on the device that `SVOD_DEVICE` names.

    Raises:
        ShapeError: if a size is negative.
        IntegerOverflowError: if `dtype` does not hold the value.

    Example:
        >>> import svod_tensor as sv
        >>> sv.full((2, 3), 7).tolist()
        [[7, 7, 7], [7, 7, 7]]
    """
    return Tensor.full(shape, fill_value, dtype=dtype, device=device)


def linspace(
    start: complex, stop: complex, /, num: SInt, *, dtype: DTypeLike | None = None, device: str | None = None,
    endpoint: bool = True,
) -> Tensor:  # fmt: skip
    """`num` numbers in equal steps from `start` to `stop`, as a tensor of one axis.

    Args:
        start: the first one.
        stop: the last one, if `endpoint` holds.
        num: how many.
        dtype: of the elements, by default float32, or complex64 between complex numbers; the steps are computed in float64.
        device: where it is; by default on the device that `SVOD_DEVICE` names.
        endpoint: whether `stop` is one of them.

    Raises:
        ShapeError: if `num` is negative.

    Example:
        >>> import svod_tensor as sv
        >>> sv.linspace(0, 1, 5).tolist()
        [0.0, 0.25, 0.5, 0.75, 1.0]
    """
    is_complex = isinstance(start, complex) or isinstance(stop, complex)
    kind = (complex if is_complex else float) if dtype is None else dtype
    return Tensor.linspace(start, stop, num, endpoint=endpoint, dtype=kind, device=device)


def ones(shape: SInt | Sequence[SInt], *, dtype: DTypeLike | None = None, device: str | None = None) -> Tensor:
    """A tensor of `shape` with 1 at every element; it takes no memory until it is realized.

    Args:
        shape: a size or several.
        dtype: of the elements; by default float32.
        device: where it is; by default on the device that `SVOD_DEVICE` names.

    Raises:
        ShapeError: if a size is negative.

    Example:
        >>> import svod_tensor as sv
        >>> sv.ones((2, 2), dtype=sv.int8).tolist()
        [[1, 1], [1, 1]]
    """
    return Tensor.ones(shape, dtype=float if dtype is None else dtype, device=device)


def zeros(shape: SInt | Sequence[SInt], *, dtype: DTypeLike | None = None, device: str | None = None) -> Tensor:
    """A tensor of `shape` with 0 at every element; it takes no memory until it is realized.

    Args:
        shape: a size or several.
        dtype: of the elements; by default float32.
        device: where it is; by default on the device that `SVOD_DEVICE` names.

    Raises:
        ShapeError: if a size is negative.

    Example:
        >>> import svod_tensor as sv
        >>> sv.zeros((2, 3)).tolist()
        [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    """
    return Tensor.zeros(shape, dtype=float if dtype is None else dtype, device=device)
