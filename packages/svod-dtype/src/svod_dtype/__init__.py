"""Element types, type promotion, device names and base exceptions, shared by all distributions.

Example:
    >>> from svod_dtype import DType, float32, int8, to_dtype, uint8, bfloat16
    >>> to_dtype("f32") is float32, isinstance(float32, DType), float32.vec(8).lanes
    (True, True, 8)
    >>> from svod_dtype import find_dtype, promote_types, promote_with_scalar, result_type
    >>> find_dtype("float31"), promote_types(int8, uint8), promote_with_scalar(bfloat16, 2.5)
    (None, int16, bfloat16)
    >>> result_type(int8, uint8, float32)
    float32
    >>> from svod_dtype import cast_value
    >>> cast_value(300, uint8), cast_value(0.1, bfloat16)
    (44, 0.10009765625)
    >>> from svod_dtype import AddressSpace, DeviceName, parse_device_name
    >>> parse_device_name("cuda:1"), isinstance(parse_device_name("cpu"), DeviceName)
    (DeviceName(kind='CUDA', index=1, location=None), True)
    >>> [space.name for space in AddressSpace]
    ['GLOBAL', 'LOCAL', 'REG']
    >>> parse_device_name("cuda:1").get_index()
    1

    The dtypes of integers, floats and complex numbers:

    >>> from svod_dtype import ALL_DTYPES, COMPLEX_DTYPES, FLOAT_DTYPES, INTEGER_DTYPES
    >>> [d for d in FLOAT_DTYPES if d.itemsize == 1]
    [float8_e4m3, float8_e5m2]
    >>> [d for d in ALL_DTYPES if d not in INTEGER_DTYPES and d not in FLOAT_DTYPES], COMPLEX_DTYPES
    ([bool], (complex64, complex128))
    >>> from svod_dtype import bool_, complex64, complex128, float8_e4m3, float8_e5m2, float16, float64
    >>> result_type(bool_, float16, complex64), result_type(float64, complex64)
    (complex64, complex128)
    >>> float8_e4m3.max, float8_e5m2.max, complex128.itemsize
    (448.0, inf, 16)
    >>> from svod_dtype import int64, uint16, uint32, uint64
    >>> promote_types(uint16, int8), promote_types(uint32, int8), promote_types(uint64, int64)
    (int32, int64, float64)

    The load time of svod, beside the time of a file:

    >>> import os, svod_dtype
    >>> from svod_dtype import LOADED_AT_NS
    >>> os.stat(svod_dtype.__file__).st_mtime_ns < LOADED_AT_NS
    True
"""

from __future__ import annotations

from svod_dtype._address_space import AddressSpace
from svod_dtype._device_name import DeviceName, parse_device_name
from svod_dtype._dtype import (
    ALL_DTYPES,
    COMPLEX_DTYPES,
    FLOAT_DTYPES,
    INTEGER_DTYPES,
    DType,
    bfloat16,
    bool_,
    cast_value,
    complex64,
    complex128,
    default_complex,
    default_float,
    find_dtype,
    float8_e4m3,
    float8_e5m2,
    float16,
    float32,
    float64,
    index,
    int8,
    int16,
    int32,
    int64,
    to_dtype,
    uint8,
    uint16,
    uint32,
    uint64,
    void,
)
from svod_dtype._load_time import LOADED_AT_NS
from svod_dtype._promotion import promote_types, promote_with_scalar, result_type
from svod_dtype._settings import default_dtype, get_default_dtype, set_default_dtype
from svod_dtype.errors import (
    DefaultDTypeError,
    DeviceNameError,
    InternalError,
    PromotionError,
    SvodError,
    UnknownDTypeError,
    UserError,
)

__all__ = [
    "ALL_DTYPES",
    "COMPLEX_DTYPES",
    "FLOAT_DTYPES",
    "INTEGER_DTYPES",
    "LOADED_AT_NS",
    "AddressSpace",
    "DType",
    "DefaultDTypeError",
    "DeviceName",
    "DeviceNameError",
    "InternalError",
    "PromotionError",
    "SvodError",
    "UnknownDTypeError",
    "UserError",
    "bfloat16",
    "bool_",
    "cast_value",
    "complex64",
    "complex128",
    "default_complex",
    "default_dtype",
    "default_float",
    "find_dtype",
    "float8_e4m3",
    "float8_e5m2",
    "float16",
    "float32",
    "float64",
    "get_default_dtype",
    "index",
    "int8",
    "int16",
    "int32",
    "int64",
    "parse_device_name",
    "promote_types",
    "promote_with_scalar",
    "result_type",
    "set_default_dtype",
    "to_dtype",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "void",
]
