"""Memory of other libraries through the DLPack protocol, including dtypes that numpy lacks.

Source: the DLPack specification, version 1.1, dlpack.h."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from svod_dtype import DType, bfloat16, float8_e4m3, float8_e5m2
from svod_ir import OperandError
from svod_tensor.errors import CopyRequiredError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Elements", "make_capsule", "read_elements"]

_CPU: Final = 1
_OFFSETS: Final = {b"dltensor": 0, b"dltensor_versioned": 32}
"""Byte offset of the DLTensor by the capsule's name: a versioned tensor has version, context,
deleter and flags first.
"""

_NARROW: Final = {(4, 16): bfloat16, (10, 8): float8_e4m3, (12, 8): float8_e5m2}
"""Dtype by DLPack's type code and bits."""


class _DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class Elements(NamedTuple):
    """An array, and the dtype of its elements: if numpy lacks it, the array has integers with the
    same bits.
    """

    array: NDArray[np.generic]
    dtype: DType | None


class _Words:
    """Integers with the bits of a narrow float, which numpy can read; keeps the memory alive."""

    def __init__(self, capsule: object, tensor: _DLTensor, itemsize: int) -> None:
        self._capsule = capsule
        shape = tuple(tensor.shape[axis] for axis in range(tensor.ndim))
        strides = (
            tuple(tensor.strides[axis] * itemsize for axis in range(tensor.ndim))
            if tensor.strides
            else None
        )
        self.__array_interface__: dict[str, object] = {
            "version": 3,
            "shape": shape,
            "strides": strides,
            "typestr": f"<u{itemsize}",
            "data": ((tensor.data or 0) + tensor.byte_offset, True),
        }


def make_capsule(array: NDArray[np.generic], dtype: DType, **options: Any) -> object:
    """A capsule with the memory of `array`, whose elements are of `dtype`; `options` are passed to
    `__dlpack__`.
    """
    types = {narrow: code for code, narrow in _NARROW.items()}
    version = options.get("max_version")
    if not array.flags.writeable and (version is None or version[0] < 1):
        # Before version 1, DLPack has no read-only flag.
        if options.get("copy") is False:
            raise CopyRequiredError(
                operation="__dlpack__",
                problem="the elements are read-only, which DLPack 0 cannot express",
            )
        array = array.copy()
    if dtype not in types:
        return array.__dlpack__(**options)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]
    # Let numpy make the capsule for integers of the same size, which keeps the memory alive, and
    # set the true type in it afterwards.
    capsule = array.view(f"u{dtype.itemsize}").__dlpack__(**options)
    tensor = _get_tensor(capsule)
    tensor.code, tensor.bits = types[dtype]
    return capsule


def read_elements(source: Any) -> Elements:
    """The elements of another library's array, without a copy.

    Raises:
        OperandError: if it is not an array, or its device or dtype is not supported.
    """
    import numpy as np

    if not (hasattr(source, "__dlpack__") and hasattr(source, "__dlpack_device__")):
        kind = type(source).__name__
        raise OperandError(operation="from_dlpack", found=kind, expected="an array with __dlpack__")
    try:
        return Elements(np.from_dlpack(source), None)
    except (BufferError, RuntimeError) as error:
        if source.__dlpack_device__()[0] != _CPU:
            raise OperandError(
                operation="from_dlpack",
                found=f"memory of {type(source).__name__} on a device of another kind",
                expected="memory of the CPU",
            ) from error
        capsule = source.__dlpack__()
        tensor = _get_tensor(capsule)
        dtype = _NARROW.get((tensor.code, tensor.bits)) if tensor.lanes == 1 else None
        if dtype is None:
            raise OperandError(
                operation="from_dlpack",
                found=f"elements of DLPack's type {tensor.code} with {tensor.bits} bits",
                expected="a dtype of svod",
            ) from error
        return Elements(np.asarray(_Words(capsule, tensor, dtype.itemsize)), dtype)


def _get_tensor(capsule: object) -> _DLTensor:
    api = ctypes.pythonapi
    api.PyCapsule_GetName.restype, api.PyCapsule_GetName.argtypes = (
        ctypes.c_char_p,
        (ctypes.py_object,),
    )
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = (ctypes.py_object, ctypes.c_char_p)
    name: bytes = api.PyCapsule_GetName(capsule)
    return _DLTensor.from_address(api.PyCapsule_GetPointer(capsule, name) + _OFFSETS[name])
