"""Type promotion: the array API's table, and pairs that the standard does not define."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from svod_dtype import (
    ALL_DTYPES,
    COMPLEX_DTYPES,
    DType,
    PromotionError,
    bfloat16,
    bool_,
    complex64,
    complex128,
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
    promote_types,
    promote_with_scalar,
    result_type,
    uint8,
    uint64,
    void,
)

STANDARD = (
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
PAIRS = list(itertools.product((*ALL_DTYPES, *COMPLEX_DTYPES), repeat=2))


def _is_defined(left: DType, right: DType) -> bool:
    # The standard does not define integers with floats.
    return left.name in STANDARD and right.name in STANDARD and left.is_inexact == right.is_inexact


@pytest.mark.parametrize(("left", "right"), [p for p in PAIRS if _is_defined(*p)], ids=str)
def test_pairs_of_one_kind_promote_as_in_the_array_api_and_numpy(left: DType, right: DType) -> None:
    assert promote_types(left, right).numpy == np.promote_types(left.numpy, right.numpy)


@pytest.mark.parametrize(("left", "right"), PAIRS, ids=str)
def test_promotion_is_symmetric_and_idempotent(left: DType, right: DType) -> None:
    promoted = promote_types(left, right)
    assert promoted is promote_types(right, left)
    assert promote_types(promoted, left) is promoted
    assert promote_types(promoted, right) is promoted
    assert promote_types(left, left) is left


def test_a_float_wins_over_an_integer() -> None:
    for dtype in (int8, int64, uint64, bool_):
        for real in (float8_e5m2, float16, bfloat16, float32, float64):
            assert promote_types(dtype, real) is real


def test_complex_promotion_keeps_the_wider_precision() -> None:
    for dtype in (*ALL_DTYPES,):
        assert promote_types(dtype, complex64) is (complex128 if dtype is float64 else complex64)
        assert promote_types(dtype, complex128) is complex128
        assert promote_with_scalar(dtype, 1j) is (complex128 if dtype is float64 else complex64)
    assert promote_with_scalar(complex64, 1.5) is complex64
    assert promote_with_scalar(complex128, 1j) is complex128
    assert result_type(1.5, 1j) is complex64
    assert result_type(float64, 1j) is complex128


def test_int64_with_uint64_gives_float64() -> None:
    assert promote_types(int64, uint64) is float64


def test_floats_that_do_not_contain_each_other_promote_to_the_next_wider_type() -> None:
    assert promote_types(float16, bfloat16) is float32
    assert promote_types(float8_e4m3, float8_e5m2) is float16
    assert promote_types(float8_e4m3, bfloat16) is bfloat16
    assert promote_types(float8_e5m2, float16) is float16


@pytest.mark.parametrize("dtype", [index, void])
def test_index_and_void_do_not_promote(dtype: DType) -> None:
    assert promote_types(dtype, dtype) is dtype
    with pytest.raises(PromotionError) as caught:
        promote_types(int32, dtype)
    assert isinstance(caught.value, TypeError)
    assert (caught.value.left, caught.value.right) == (int32, dtype)


def test_python_scalars_are_weak() -> None:
    assert promote_with_scalar(int8, 3) is int8
    assert promote_with_scalar(uint8, 1000) is uint8
    assert promote_with_scalar(float16, 3) is float16
    assert promote_with_scalar(float16, 2.5) is float16
    assert promote_with_scalar(int8, 2.5) is float32
    assert promote_with_scalar(bool_, 3) is int32
    assert promote_with_scalar(bool_, True) is bool_
    assert promote_with_scalar(int8, True) is int8
    assert promote_with_scalar(bool_, 2.5) is float32


def test_result_type_takes_dtypes_names_and_scalars_in_any_order() -> None:
    assert result_type("int8", int16, 3) is int16
    assert result_type(2.5, "int8") is float32
    assert result_type(2.5, "int8", "float16") is float16
    assert result_type(3) is int32
    assert result_type(3, 2.5) is float32
    assert result_type(True) is bool_
