"""The element types of ONNX, and the dtypes of tensors that carry them.

svod has no dtype for some of ONNX's types: a tensor of such carries its elements in a wider one,
exactly, and operators that make them round and saturate."""

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
"""numpy's dtypes of the element types that svod has no dtype for."""

_BY_HOST_TYPE: Final = {dtype: kind for kind, dtype in HOST_TYPES.items()}


def find_carrier(kind: int) -> DType | None:
    """The dtype of tensors that carry elements of an ONNX type; None of strings and of what is no
    type.
    """
    return _DTYPES.get(kind) or _CARRIERS.get(kind)


def find_host_type(kind: int) -> np.dtype | None:
    """numpy's dtype of the elements of an ONNX type; None of strings and of what is no type."""
    if kind in HOST_TYPES:
        return HOST_TYPES[kind]
    return (
        None
        if kind == STRING or kind not in _DTYPES
        else onnx.helper.tensor_dtype_to_np_dtype(kind)
    )


def get_element_type(dtype: np.dtype) -> int:
    """The ONNX type of numpy's `dtype`."""
    if dtype.kind in "OUST":
        return STRING
    found = _BY_HOST_TYPE.get(dtype)
    return onnx.helper.np_dtype_to_tensor_dtype(dtype) if found is None else found


def get_type_name(kind: int) -> str:
    """`float32` for `TensorProto.FLOAT`, as numpy writes it; ONNX's own name of what svod has no
    dtype for.
    """
    dtype = _DTYPES.get(kind)
    if dtype is not None:
        return str(dtype)
    return _T.DataType.Name(kind).lower() if kind in _T.DataType.values() else f"type {kind}"
