"""Element types: identity, limits, spellings, and constants of each type."""

from __future__ import annotations

import copy
import math
import pickle

import ml_dtypes
import numpy as np
import pytest

from svod_dtype import (
    ALL_DTYPES,
    COMPLEX_DTYPES,
    FLOAT_DTYPES,
    INTEGER_DTYPES,
    DefaultDTypeError,
    DType,
    UnknownDTypeError,
    bfloat16,
    bool_,
    cast_value,
    complex64,
    complex128,
    default_dtype,
    find_dtype,
    float8_e4m3,
    float8_e5m2,
    float16,
    float32,
    float64,
    index,
    int8,
    int32,
    int64,
    promote_with_scalar,
    set_default_dtype,
    to_dtype,
    uint8,
    void,
)

NARROW = (float8_e4m3, float8_e5m2, float16, bfloat16)
NARROW_NUMPY = {
    float8_e4m3: ml_dtypes.float8_e4m3fn,
    float8_e5m2: ml_dtypes.float8_e5m2,
    float16: np.float16,
    bfloat16: ml_dtypes.bfloat16,
}


def test_equal_vectors_are_one_object() -> None:
    assert float32.vec(8) is float32.vec(8)
    assert float32.vec(8).scalar is float32
    assert float32.vec(1) is float32
    assert float32.vec(4).vec(8) is float32.vec(8)
    assert float32.vec(4) is not float32.vec(8)


@pytest.mark.parametrize(
    "dtype", [*ALL_DTYPES, *COMPLEX_DTYPES, index, void, float32.vec(4)], ids=str
)
def test_copies_and_pickles_are_the_same_object(dtype: DType) -> None:
    assert copy.copy(dtype) is dtype
    assert copy.deepcopy(dtype) is dtype
    assert pickle.loads(pickle.dumps(dtype)) is dtype


@pytest.mark.parametrize("lanes", [0, -1])
def test_a_vector_has_at_least_one_lane(lanes: int) -> None:
    with pytest.raises(ValueError, match="no vector"):
        float32.vec(lanes)


def test_void_has_no_vectors() -> None:
    with pytest.raises(ValueError, match="no vector"):
        void.vec(2)


def test_sizes_count_bytes_and_bits() -> None:
    assert float32.vec(16).nbytes == 64
    assert float32.vec(16).itemsize == 4
    assert (bool_.bits, bool_.itemsize) == (1, 1)
    assert (index.bits, index.is_signed, index.is_int) == (64, True, True)
    assert not bool_.is_int
    assert not bool_.is_unsigned


@pytest.mark.parametrize("dtype", INTEGER_DTYPES, ids=str)
def test_integer_limits_equal_numpy_s(dtype: DType) -> None:
    info = np.iinfo(dtype.numpy)
    assert (dtype.min, dtype.max) == (info.min, info.max)


@pytest.mark.parametrize("dtype", FLOAT_DTYPES, ids=str)
def test_float_limits_equal_numpy_s(dtype: DType) -> None:
    info = ml_dtypes.finfo(dtype.numpy)
    assert dtype.finfo_max == float(info.max)
    assert dtype.finfo_eps == float(info.eps)
    if dtype is float8_e4m3:
        assert (dtype.min, dtype.max) == (-448.0, 448.0)
    else:
        assert (dtype.min, dtype.max) == (-math.inf, math.inf)


def test_complex_dtypes_have_a_float_dtype_and_no_order() -> None:
    assert [d.part for d in COMPLEX_DTYPES] == [float32, float64]
    assert float32.part is float32
    assert all(d.is_complex and d.is_inexact and not d.is_float for d in COMPLEX_DTYPES)
    assert float32.is_inexact
    assert not int32.is_inexact
    assert to_dtype(complex) is to_dtype("complex64")
    for dtype in COMPLEX_DTYPES:
        for attribute in ("min", "max"):
            with pytest.raises(ValueError, match="is not ordered"):
                getattr(dtype, attribute)
        with pytest.raises(ValueError, match="cast the real and the imaginary part"):
            cast_value(1, dtype)


def test_void_has_no_values() -> None:
    for attribute in ("min", "max"):
        with pytest.raises(ValueError, match="no values"):
            getattr(void, attribute)
    with pytest.raises(ValueError, match="no values"):
        cast_value(1, void)


@pytest.mark.parametrize("dtype", [*ALL_DTYPES, *COMPLEX_DTYPES], ids=str)
def test_every_spelling_finds_its_dtype(dtype: DType) -> None:
    assert find_dtype(dtype.name) is dtype
    assert find_dtype(dtype.short) is dtype
    assert find_dtype(f"{dtype.short}x4") is dtype.vec(4)
    assert find_dtype(dtype.vec(4).short) is dtype.vec(4)
    assert to_dtype(dtype) is dtype
    assert to_dtype(dtype.name) is dtype
    assert to_dtype(dtype.numpy) is dtype


@pytest.mark.parametrize("spelling", ["", "f33", "f32x", "f32x0", "f32x-1", "xf32", "float"[:3]])
def test_an_unknown_name_finds_no_dtype(spelling: str) -> None:
    assert find_dtype(spelling) is None


def test_python_types_denote_the_defaults() -> None:
    assert (to_dtype(float), to_dtype(int), to_dtype(bool)) == (float32, int32, bool_)
    assert to_dtype(np.float64) is float64
    assert to_dtype(np.dtype("uint8")) is uint8


@pytest.mark.parametrize(
    "given", ["clongdouble", np.clongdouble, np.dtype("U3"), object(), None, "datetime64"]
)
def test_an_unknown_dtype_is_an_error_that_lists_the_dtypes(given: object) -> None:
    with pytest.raises(UnknownDTypeError) as caught:
        to_dtype(given)
    assert isinstance(caught.value, TypeError)
    assert "bfloat16" in str(caught.value)
    assert caught.value.given is given


@pytest.mark.parametrize("dtype", INTEGER_DTYPES, ids=str)
def test_integers_wrap_as_in_numpy(dtype: DType) -> None:
    for value in [
        0,
        1,
        -1,
        127,
        128,
        255,
        256,
        -129,
        1 << 31,
        (1 << 63) - 1,
        -(1 << 63),
        12345678901234,
    ]:
        expected = np.array([value], dtype=np.int64).astype(dtype.numpy)[0]
        assert cast_value(value, dtype) == int(expected)


def test_a_float_truncates_and_saturates_to_an_integer_type() -> None:
    assert cast_value(2.9, int8) == 2
    assert cast_value(-2.9, int8) == -2
    assert cast_value(300.5, int8) == 127
    assert cast_value(-1.0, uint8) == 0
    assert cast_value(math.nan, int64) == 0
    assert cast_value(math.inf, int64) == int64.max
    assert cast_value(-1e300, int64) == int64.min
    assert type(cast_value(2.0, int8)) is int


def test_nonzero_values_convert_to_true() -> None:
    assert cast_value(2, bool_) is True
    assert cast_value(0.0, bool_) is False
    assert cast_value(math.nan, bool_) is True


def _all_values(dtype: DType) -> np.ndarray:
    """Return all values as float64. Signalling NaNs make numpy warn."""
    bits = np.arange(1 << dtype.bits, dtype=np.uint32).astype(f"uint{dtype.bits}")
    with np.errstate(invalid="ignore"):
        return bits.view(NARROW_NUMPY[dtype]).astype(np.float64)


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_every_value_of_a_narrow_type_is_exact(dtype: DType) -> None:
    for value in _all_values(dtype).tolist():
        rounded = cast_value(value, dtype)
        assert rounded == value or (math.isnan(value) and math.isnan(rounded))
        assert math.copysign(1, rounded) == math.copysign(1, value) or math.isnan(value)


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_halfway_and_neighbouring_values_round_as_in_numpy(dtype: DType) -> None:
    values = _all_values(dtype)
    values = np.unique(values[np.isfinite(values)])
    if len(values) > 5000:
        values = values[:: len(values) // 5000]
    middles = (values[:-1] + values[1:]) / 2
    # Each of these is exact in float32, so ml_dtypes rounds it once.
    candidates = np.concatenate(
        [middles, np.nextafter(middles.astype(np.float32), np.float32(np.inf)), [1e6, -1e6, 7e4]]
    )
    candidates = candidates.astype(np.float32)
    with np.errstate(over="ignore"):
        expected = candidates.astype(NARROW_NUMPY[dtype]).astype(np.float64)
    rounded = np.array([cast_value(v, dtype) for v in candidates.tolist()])
    np.testing.assert_array_equal(rounded, expected)


def test_float32_rounds_as_in_numpy() -> None:
    rng = np.random.default_rng(0)
    values = rng.standard_normal(2000) * 10.0 ** rng.integers(-46, 39, 2000)
    rounded = np.array([cast_value(v, float32) for v in values.tolist()])
    np.testing.assert_array_equal(rounded, values.astype(np.float32).astype(np.float64))
    assert cast_value(1e39, float32) == math.inf
    assert cast_value(-1e39, float32) == -math.inf


def test_a_double_is_rounded_once_to_a_narrow_type() -> None:
    # Rounding to float32 first would move this value to a tie, and then down.
    value = 1 + 2.0**-8 + 2.0**-40
    assert cast_value(value, bfloat16) == 1 + 2.0**-7


def test_a_large_integer_is_rounded_once() -> None:
    # Rounding to float64 first would lose the last bit and leave a tie.
    value = (1 << 60) + (1 << 36) + 1
    assert cast_value(value, float32) == float((1 << 60) + (1 << 37))
    assert cast_value(-value, float32) == -float((1 << 60) + (1 << 37))
    assert cast_value(value, float64) == float(1 << 60) + float(1 << 36)
    assert cast_value((1 << 64) - 1, float32) == 2.0**64
    assert cast_value(1 << 2000, float64) == math.inf
    assert cast_value(-(1 << 2000), float32) == -math.inf


def test_signed_zero_survives() -> None:
    for dtype in FLOAT_DTYPES:
        assert math.copysign(1, cast_value(-0.0, dtype)) == -1
        assert math.copysign(1, cast_value(-1e-60, dtype)) == -1


def test_float8_e4m3_has_no_infinity() -> None:
    assert math.isnan(cast_value(math.inf, float8_e4m3))
    assert math.isnan(cast_value(1e6, float8_e4m3))
    assert cast_value(448.0, float8_e4m3) == 448.0
    assert cast_value(1e6, float8_e5m2) == math.inf


@pytest.mark.parametrize("dtype", [*ALL_DTYPES, *COMPLEX_DTYPES], ids=str)
def test_the_numpy_dtype_has_the_same_size(dtype: DType) -> None:
    assert dtype.numpy.itemsize == dtype.itemsize


def test_index_is_int64_in_memory() -> None:
    assert index.numpy == np.dtype("int64")


@pytest.mark.parametrize(
    "code",
    [
        "f8",
        "f4",
        "f2",
        "<i8",
        "i4",
        ">i2",
        "i1",
        "=u8",
        "u4",
        "u2",
        "|u1",
        "?",
        "b1",
        "c8",
        "<c16",
        *"bBhHiIlLqQefdFD",
    ],
)
def test_numpy_type_codes_denote_the_same_dtypes(code):
    assert to_dtype(code).name == np.dtype(code).name


@pytest.mark.parametrize("code", ["i8", "u8"])
def test_codes_that_may_count_bytes_or_bits_are_ambiguous(code):
    kind = {"i": "int", "u": "uint"}[code[0]]
    with pytest.raises(UnknownDTypeError, match=f"'{code}' is ambiguous: {kind}8 or {kind}64"):
        to_dtype(code)
    assert find_dtype(code) is to_dtype(f"{kind}8")


@pytest.mark.parametrize(
    "given", ["a", "S4", "O", "c32", "G", "V3", "<", "f4,f4", "3f4", "M8", "i3", "f16 "]
)
def test_codes_of_dtypes_that_svod_lacks_are_unknown(given):
    with pytest.raises(UnknownDTypeError, match="not understood"):
        to_dtype(given)


@pytest.mark.parametrize("dtype", [*ALL_DTYPES, *COMPLEX_DTYPES], ids=str)
def test_numpy_accepts_a_dtype(dtype):
    assert np.dtype(dtype) == dtype.numpy
    assert np.zeros(2, dtype).astype(dtype).dtype == dtype.numpy


def test_dtypes_equal_the_objects_that_denote_them():
    for same in ("float32", "f4", np.float32, np.dtype(np.float32), float):
        assert float32 == same
        assert (float32 != same) is False
    for different in (
        "float64",
        "i8",
        "nothing",
        np.float64,
        np.dtype(np.int8),
        int,
        None,
        3,
        [],
        float64,
        float32.vec(4),
    ):
        assert float32 != different
        assert (float32 == different) is False
    assert np.dtype(np.float32) == float32
    assert len({float32: 1, float64: 2}) == 2


def test_float_and_complex_denote_the_default_dtypes() -> None:
    with default_dtype("float64"):
        assert (to_dtype(float), to_dtype(complex), to_dtype("float")) == (
            float64,
            complex128,
            float32,
        )
        assert (promote_with_scalar(int32, 1.5), promote_with_scalar(int32, 1j)) == (
            float64,
            complex128,
        )
        assert (promote_with_scalar(float32, 1.5), promote_with_scalar(float32, 1j)) == (
            float32,
            complex64,
        )
        with default_dtype("bfloat16"):
            assert (to_dtype(float), to_dtype(complex)) == (bfloat16, complex64)
    assert to_dtype(float) is float32
    for dtype in ("int32", "float8_e5m2", float32.vec(4)):
        with pytest.raises(DefaultDTypeError):
            set_default_dtype(dtype)


def test_a_dtype_has_the_attributes_of_numpy_that_libraries_ask_for() -> None:
    import numpy as np

    assert to_dtype("float32").type is np.float32
    assert issubclass(to_dtype("complex64").type, np.complexfloating)
    assert not to_dtype("int8").hasobject
