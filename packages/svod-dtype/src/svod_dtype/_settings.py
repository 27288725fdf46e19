"""Default dtype of floats: the meaning of `float` as a dtype argument."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager

from svod_dtype._dtype import DType, default_float, process_default, scoped_default, to_dtype
from svod_dtype.errors import DefaultDTypeError

__all__ = ["default_dtype", "get_default_dtype", "set_default_dtype"]


def get_default_dtype() -> DType:
    """Return the default float dtype: float32, unless another was set.

    Example:
        >>> from svod_dtype import get_default_dtype
        >>> get_default_dtype()
        float32
    """
    return default_float()


def set_default_dtype(dtype: DType | str | type) -> None:
    """Set the default float dtype, in all threads.

    It is the dtype of tensors of Python floats, of functions such as `zeros` and `rand`, and of
    float results of integer operands. The default complex dtype is complex128 if it is float64,
    else complex64.

    Args:
        dtype: float16, bfloat16, float32 or float64.

    Raises:
        DefaultDTypeError: if it is a different dtype.

    Example:
        >>> from svod_dtype import get_default_dtype, set_default_dtype
        >>> set_default_dtype("float64")
        >>> get_default_dtype()
        float64
        >>> set_default_dtype("float32")
    """
    # A list, which is changed in place: other modules hold a reference to it.
    process_default[:] = [_check(to_dtype(dtype))]


def default_dtype(dtype: DType | str | type) -> AbstractContextManager[None]:
    """Return a context manager that sets the default float dtype, in this thread or task.

    Args:
        dtype: float16, bfloat16, float32 or float64.

    Raises:
        DefaultDTypeError: if it is a different dtype.

    Example:
        >>> from svod_dtype import default_dtype, get_default_dtype
        >>> with default_dtype("float64"):
        ...     get_default_dtype()
        float64
    """
    return _scope(_check(to_dtype(dtype)))


@contextmanager
def _scope(dtype: DType) -> Generator[None]:
    # A context variable, so that other threads and tasks keep their default.
    token = scoped_default.set(dtype)
    try:
        yield
    finally:
        scoped_default.reset(token)


def _check(dtype: DType) -> DType:
    # Floats of 8 bits are meant for storage: too few digits for results.
    if not dtype.is_float or dtype.itemsize < 2 or dtype.lanes > 1:
        raise DefaultDTypeError(dtype=dtype)
    return dtype
