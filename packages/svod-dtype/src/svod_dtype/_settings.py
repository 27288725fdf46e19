"""Default dtype of floats: the meaning of `float` as a dtype argument."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager

from svod_dtype._dtype import DType, default_float, process_default, scoped_default, to_dtype
from svod_dtype.errors import DefaultDTypeError

__all__ = ["default_dtype", "get_default_dtype", "set_default_dtype"]


def get_default_dtype() -> DType:
    """Return the dtype of floats for which no dtype is given: float32, unless another one was set.

    Example:
        >>> from svod_dtype import get_default_dtype
        >>> get_default_dtype()
        float32
    """
    return default_float()


def set_default_dtype(dtype: DType | str | type) -> None:
    """Set the dtype of floats where none is named, in all threads.

    New tensors of Python floats and of functions such as `zeros` and `rand` have it, and so have
    results of floats that are computed from integers. Complex numbers are complex128 if it is
    float64.

    Args:
        dtype: float16, bfloat16, float32 or float64.

    Raises:
        DefaultDTypeError: if it is another one.

    Example:
        >>> from svod_dtype import get_default_dtype, set_default_dtype
        >>> set_default_dtype("float64")
        >>> get_default_dtype()
        float64
        >>> set_default_dtype("float32")
    """
    process_default[:] = [_check(to_dtype(dtype))]


def default_dtype(dtype: DType | str | type) -> AbstractContextManager[None]:
    """Set the dtype of floats where none is named in a block, in this thread or task.

    Args:
        dtype: as `set_default_dtype` takes it.

    Raises:
        DefaultDTypeError: if it is another one.

    Example:
        >>> from svod_dtype import default_dtype, get_default_dtype
        >>> with default_dtype("float64"):
        ...     get_default_dtype()
        float64
    """
    return _scope(_check(to_dtype(dtype)))


@contextmanager
def _scope(dtype: DType) -> Generator[None]:
    token = scoped_default.set(dtype)
    try:
        yield
    finally:
        scoped_default.reset(token)


def _check(dtype: DType) -> DType:
    if not dtype.is_float or dtype.itemsize < 2 or dtype.lanes > 1:
        raise DefaultDTypeError(dtype=dtype)
    return dtype
