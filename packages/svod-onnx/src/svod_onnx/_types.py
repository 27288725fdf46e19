"""Element types of ONNX, and the dtypes of the tensors that carry them.

svod has no dtype for some element types. A wider dtype carries their elements exactly; operators
that produce them round and saturate."""

from __future__ import annotations

from typing import Final

import ml_dtypes
import numpy as np
import onnx

import svod_tensor as sv
from svod_tensor import DType

__all__ = [
    "HOST_TYPES",
    "STRING",
    "find_carrier",
    "find_host_type",
    "get_element_type",
    "get_type_name",
    "is_host_type",
]

_T: Final = onnx.TensorProto

STRING: Final = _T.STRING

_DTYPES: Final[dict[int, DType]] = {
    _T.BOOL: sv.bool_,
    _T.INT8: sv.int8,
    _T.INT16: sv.int16,
    _T.INT32: sv.int32,
    _T.INT64: sv.int64,
    _T.UINT8: sv.uint8,
    _T.UINT16: sv.uint16,
    _T.UINT32: sv.uint32,
    _T.UINT64: sv.uint64,
    _T.FLOAT16: sv.float16,
    _T.BFLOAT16: sv.bfloat16,
    _T.FLOAT: sv.float32,
    _T.DOUBLE: sv.float64,
    _T.FLOAT8E4M3FN: sv.float8_e4m3,
    _T.FLOAT8E5M2: sv.float8_e5m2,
    _T.COMPLEX64: sv.complex64,
    _T.COMPLEX128: sv.complex128,
}

# float32 holds every value of these float types exactly; int8 and uint8 hold the integers.
_CARRIERS: Final[dict[int, DType]] = {
    _T.INT4: sv.int8,
    _T.UINT4: sv.uint8,
    _T.INT2: sv.int8,
    _T.UINT2: sv.uint8,
    _T.FLOAT4E2M1: sv.float32,
    _T.FLOAT8E4M3FNUZ: sv.float32,
    _T.FLOAT8E5M2FNUZ: sv.float32,
    _T.FLOAT8E8M0: sv.float32,
}

HOST_TYPES: Final[dict[int, np.dtype]] = {
    _T.INT4: np.dtype(ml_dtypes.int4),
    _T.UINT4: np.dtype(ml_dtypes.uint4),
    _T.INT2: np.dtype(ml_dtypes.int2),
    _T.UINT2: np.dtype(ml_dtypes.uint2),
    _T.FLOAT4E2M1: np.dtype(ml_dtypes.float4_e2m1fn),
    _T.FLOAT8E4M3FNUZ: np.dtype(ml_dtypes.float8_e4m3fnuz),
    _T.FLOAT8E5M2FNUZ: np.dtype(ml_dtypes.float8_e5m2fnuz),
    _T.FLOAT8E8M0: np.dtype(ml_dtypes.float8_e8m0fnu),
}
"""numpy dtypes of the element types without an svod dtype."""

_BY_HOST_TYPE: Final = {dtype: element_type for element_type, dtype in HOST_TYPES.items()}


def find_carrier(element_type: int) -> DType | None:
    """Dtype of tensors that carry an element type; None for strings and unknown types."""
    return _DTYPES.get(element_type) or _CARRIERS.get(element_type)


def find_host_type(element_type: int) -> np.dtype | None:
    """numpy dtype of an element type; None for strings and unknown types."""
    if element_type in HOST_TYPES:
        return HOST_TYPES[element_type]
    return (
        None
        if element_type == STRING or element_type not in _DTYPES
        else onnx.helper.tensor_dtype_to_np_dtype(element_type)
    )


def get_element_type(dtype: np.dtype) -> int:
    """Element type of a numpy dtype."""
    # Objects, bytes, and numpy's fixed and variable strings.
    if dtype.kind in "OUST":
        return STRING
    # onnx's helper does not know every dtype of ml_dtypes.
    narrow = _BY_HOST_TYPE.get(dtype)
    return onnx.helper.np_dtype_to_tensor_dtype(dtype) if narrow is None else narrow


def is_host_type(dtype: np.dtype, element_type: int) -> bool:
    """False if exactly one of a numpy dtype and an element type has no svod dtype, or if they are
    different types without an svod dtype.
    """
    return element_type == 0 or HOST_TYPES.get(element_type) == (
        dtype if dtype in _BY_HOST_TYPE else None
    )


def get_type_name(element_type: int) -> str:
    """Name of an element type, such as `float32` for `TensorProto.FLOAT`; ONNX's name for a type
    without an svod dtype.
    """
    dtype = _DTYPES.get(element_type)
    if dtype is not None:
        return str(dtype)
    return (
        _T.DataType.Name(element_type).lower()
        if element_type in _T.DataType.values()
        else f"type {element_type}"
    )
