"""Inspection of the array API namespace: devices, dtypes and capabilities."""

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
"""Dtypes of the standard, without svod's narrow floats."""

_DEFAULTS = {
    "real floating": float,
    "complex floating": complex,
    "integral": int,
    "indexing": "int64",
}


class NamespaceInfo:
    """Result of `__array_namespace_info__`."""

    def capabilities(self) -> dict[str, bool | int | None]:
        """Optional capabilities of the standard. Data-dependent shapes are supported: the values
        are computed when such a function is called. The number of axes is unlimited.
        """
        # None: the standard's value for no limit.
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": None}

    def default_device(self) -> str:
        """Device of tensors that are made without `device`."""
        return DEFAULT_DEVICE

    def default_dtypes(self, *, device: str | None = None) -> dict[str, DType]:
        """Default dtypes by kind; the same on every `device`."""
        _check(device)
        return {kind: to_dtype(scalar_type) for kind, scalar_type in _DEFAULTS.items()}

    def devices(self) -> tuple[str, ...]:
        """The first device of each kind that works here; further devices of a kind have numbers,
        such as `CPU:1`.
        """
        return tuple(kind for kind in get_registry().list_kinds() if _is_writable(kind))

    def dtypes(self, *, device: str | None = None, kind: Kinds | None = None) -> dict[str, DType]:
        """The supported dtypes of the standard, by name; the same on every `device`.

        Args:
            device: the name of a device.
            kind: restricts the result, as in `isdtype`; all dtypes by default.
        """
        _check(device)
        supported = {name: dtype for name in _NAMES if (dtype := find_dtype(name)) is not None}
        return {
            name: dtype for name, dtype in supported.items() if kind is None or isdtype(dtype, kind)
        }


def __array_namespace_info__() -> NamespaceInfo:
    """Inspection of this namespace: `capabilities()`, `default_device()`, `default_dtypes()`,
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
        # The plugin does not work here, or devices of the kind need a name, as files do.
        return False
