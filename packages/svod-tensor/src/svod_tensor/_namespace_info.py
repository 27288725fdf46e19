"""What this namespace of the array API standard has: devices, dtypes and capabilities."""

from __future__ import annotations

from svod_device import get_allocator, get_registry
from svod_dtype import DType, SvodError, find_dtype, to_dtype
from svod_tensor._data_types import Kinds, isdtype
from svod_tensor._storage import check_device
from svod_tensor.options import DEFAULT_DEVICE

__all__ = ["NamespaceInfo", "__array_namespace_info__"]

_NAMES = (
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float32",
    "float64",
    "complex64",
    "complex128",
)
"""Dtypes of the standard. The narrow floats of svod are none of them."""

_DEFAULTS = {
    "real floating": float,
    "complex floating": complex,
    "integral": int,
    "indexing": "int64",
}


class NamespaceInfo:
    """What `__array_namespace_info__` gives."""

    def capabilities(self) -> dict[str, bool | int | None]:
        """What the standard leaves to libraries: shapes may depend on values, which are computed
        then; there may be any number of axes."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": None}

    def default_device(self) -> str:
        """Where tensors are that are made without `device`."""
        return DEFAULT_DEVICE

    def default_dtypes(self, *, device: str | None = None) -> dict[str, DType]:
        """The dtypes that tensors get where none is named; the same on every `device`."""
        _check(device)
        return {kind: to_dtype(given) for kind, given in _DEFAULTS.items()}

    def devices(self) -> tuple[str, ...]:
        """The first device of each kind that works here; others of a kind have numbers, such as
        `CPU:1`.
        """
        return tuple(kind for kind in get_registry().list_kinds() if _is_writable(kind))

    def dtypes(self, *, device: str | None = None, kind: Kinds | None = None) -> dict[str, DType]:
        """The dtypes of the standard that are there, by their names; the same on every `device`.

        Args:
            device: the name of a device.
            kind: which of them, as `isdtype` takes it; by default all.
        """
        _check(device)
        found = {name: dtype for name in _NAMES if (dtype := find_dtype(name)) is not None}
        return {
            name: dtype for name, dtype in found.items() if kind is None or isdtype(dtype, kind)
        }


def __array_namespace_info__() -> NamespaceInfo:
    """What this namespace has: `capabilities()`, `default_device()`, `default_dtypes()`,
    `devices()` and `dtypes()`.

    Example:
        >>> import svod_tensor as sv
        >>> sorted(sv.__array_namespace_info__().dtypes(kind="real floating"))
        ['float32', 'float64']
    """
    return NamespaceInfo()


def _check(device: str | None) -> None:
    if device is not None:
        check_device(device)


def _is_writable(kind: str) -> bool:
    try:
        return get_allocator(kind).is_writable
    except SvodError:
        # A plugin that does not work here, or a kind whose devices need a name, as files do.
        return False
