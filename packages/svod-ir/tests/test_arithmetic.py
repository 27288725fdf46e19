"""The semantics of every elementwise op on every dtype, against numpy, ml_dtypes and constant
folding.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from svod_dtype import (
    ALL_DTYPES,
    FLOAT_DTYPES,
    INTEGER_DTYPES,
    DType,
    bfloat16,
    bool_,
    cast_value,
    float8_e4m3,
    float8_e5m2,
    float16,
    float32,
    float64,
    int8,
    int32,
    int64,
    uint8,
    uint32,
    uint64,
)
from svod_ir import Op
from svod_ir._arithmetic import (
    apply_elementwise,
    combine,
    convert,
    identity_value,
    quiet,
    reinterpret,
)
from svod_ir._constant import evaluate_scalar
from svod_ir.ops import BINARY, COMPARISON, REDUCTIONS, TERNARY, UNARY, takes

SPECIAL_FLOATS = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    1.5,
    2.5,
    -2.5,
    3.0,
    100.0,
    1e-3,
    1e30,
    -1e30,
    1e-300,
    math.inf,
    -math.inf,
    math.nan,
]


def _samples(dtype: DType) -> list[bool | int | float]:
    if dtype.is_bool:
        return [False, True]
    if dtype.is_float:
        return [
            *dict.fromkeys(cast_value(v, dtype) for v in SPECIAL_FLOATS if not math.isnan(v)),
            math.nan,
        ]
    low, high = int(dtype.min), int(dtype.max)
    return sorted(
        {
            cast_value(v, dtype)
            for v in (0, 1, 2, 3, 5, 7, 31, 100, -1, -2, -3, -7, low, low + 1, high, high - 1)
        }
    )


def _same(found: object, expected: object, dtype: DType) -> bool:
    if dtype.is_float:
        f, e = float(found), float(expected)  # pyright: ignore[reportArgumentType]
        return (math.isnan(f) and math.isnan(e)) or (
            f == e and math.copysign(1, f) == math.copysign(1, e)
        )
    return int(found) == int(expected)  # pyright: ignore[reportArgumentType]


CASES = [
    (op, dtype)
    for op, dtype in itertools.product(
        sorted(UNARY | BINARY | TERNARY, key=lambda o: o.name), ALL_DTYPES
    )
    if takes(op, dtype)
]


@pytest.mark.parametrize(("op", "dtype"), CASES, ids=lambda v: str(v.name))
def test_constant_folding_computes_the_same(op: Op, dtype: DType) -> None:
    n_operands = 1 if op in UNARY else 3 if op in TERNARY else 2
    result = bool_ if op in COMPARISON else dtype
    columns = (
        [[True, False], _samples(dtype), _samples(dtype)]
        if op is Op.WHERE
        else [_samples(dtype)] * n_operands
    )
    for values in itertools.product(*columns):
        folded = evaluate_scalar(op, result, values)
        if folded is None:
            continue
        types = [bool_, dtype, dtype] if op is Op.WHERE else [dtype] * n_operands
        operands = tuple(t.numpy.type(v) for t, v in zip(types, values, strict=True))
        with quiet():
            actual = apply_elementwise(op, dtype, result, operands)
        assert _same(actual, folded, result), f"{op.name}{values}: {actual}, folded {folded}"


@pytest.mark.parametrize(("op", "dtype"), CASES, ids=lambda v: str(v.name))
def test_arrays_and_scalars_give_the_same_and_keep_the_dtype(op: Op, dtype: DType) -> None:
    result = bool_ if op in COMPARISON else dtype
    values = _samples(dtype)
    pairs = list(itertools.product(values, repeat=1 if op in UNARY else 2))
    columns = [np.array(c, dtype=dtype.numpy) for c in zip(*pairs, strict=True)]
    if op is Op.WHERE:
        columns.insert(0, np.arange(len(pairs)) % 2 == 0)
    if op is Op.MULACC:
        columns.append(columns[0][::-1].copy())
    if op in (Op.SHL, Op.SHR):
        columns[1] = (columns[1].astype(np.int64) % dtype.bits).astype(dtype.numpy)
    with quiet():
        full = apply_elementwise(op, dtype, result, tuple(columns))
        assert full.dtype == result.numpy
        for i in range(0, len(pairs), 7):
            single = apply_elementwise(op, dtype, result, tuple(c[i] for c in columns))
            assert np.asarray(single).dtype == result.numpy
            assert _same(single, full[i], result)


@pytest.mark.parametrize("dtype", INTEGER_DTYPES, ids=str)
def test_integer_arithmetic_wraps_as_in_numpy(dtype: DType) -> None:
    values = np.array(_samples(dtype), dtype=dtype.numpy)
    x, y = (a.reshape(-1) for a in np.meshgrid(values, values))
    with quiet():
        for op, ufunc in (
            (Op.ADD, np.add),
            (Op.SUB, np.subtract),
            (Op.MUL, np.multiply),
            (Op.MAX, np.maximum),
            (Op.XOR, np.bitwise_xor),
        ):
            np.testing.assert_array_equal(apply_elementwise(op, dtype, dtype, (x, y)), ufunc(x, y))


@pytest.mark.parametrize("dtype", INTEGER_DTYPES, ids=str)
def test_division_floors_and_is_defined_everywhere(dtype: DType) -> None:
    for x, y in itertools.product(_samples(dtype), repeat=2):
        with quiet():
            operands = (dtype.numpy.type(x), dtype.numpy.type(y))
            quotient, rest, c_quotient, c_rest = (
                int(apply_elementwise(op, dtype, dtype, operands))
                for op in (Op.IDIV, Op.MOD, Op.CDIV, Op.CMOD)
            )
        if y == 0:
            assert (quotient, rest, c_quotient, c_rest) == (0, 0, 0, 0)
            continue
        assert quotient == cast_value(x // y, dtype)
        assert rest == x % y
        assert c_quotient == cast_value(int(Fraction(x, y)), dtype)
        assert c_rest == x - int(Fraction(x, y)) * y


@pytest.mark.parametrize("dtype", [float8_e4m3, float8_e5m2], ids=str)
def test_all_pairs_of_float8_values_add_multiply_and_divide_as_in_ml_dtypes(dtype: DType) -> None:
    every = np.arange(256, dtype=np.uint8).view(dtype.numpy)
    x, y = (a.reshape(-1) for a in np.meshgrid(every, every))
    with quiet():
        for op, ufunc in (
            (Op.ADD, np.add),
            (Op.SUB, np.subtract),
            (Op.MUL, np.multiply),
            (Op.FDIV, np.divide),
        ):
            actual = apply_elementwise(op, dtype, dtype, (x, y)).astype(np.float32)
            np.testing.assert_array_equal(actual, ufunc(x, y).astype(np.float32))


@pytest.mark.parametrize("dtype", [float16, bfloat16], ids=str)
def test_16_bit_floats_round_once_as_in_numpy(dtype: DType) -> None:
    rng = np.random.default_rng(0)
    x, y = (rng.integers(0, 1 << 16, 20_000).astype(np.uint16).view(dtype.numpy) for _ in range(2))
    with quiet():
        for op, ufunc in ((Op.ADD, np.add), (Op.MUL, np.multiply), (Op.FDIV, np.divide)):
            actual = apply_elementwise(op, dtype, dtype, (x, y)).astype(np.float32)
            np.testing.assert_array_equal(actual, ufunc(x, y).astype(np.float32))


@pytest.mark.parametrize("dtype", FLOAT_DTYPES, ids=str)
def test_maximum_and_minimum_keep_nan_and_order_zeros(dtype: DType) -> None:
    of = dtype.numpy.type
    with quiet():
        for op in (Op.MAX, Op.MIN):
            assert math.isnan(float(apply_elementwise(op, dtype, dtype, (of(math.nan), of(1)))))
            assert math.isnan(float(apply_elementwise(op, dtype, dtype, (of(1), of(math.nan)))))
        for x, y in ((0.0, -0.0), (-0.0, 0.0)):
            assert (
                math.copysign(1, float(apply_elementwise(Op.MAX, dtype, dtype, (of(x), of(y)))))
                == 1
            )
            assert (
                math.copysign(1, float(apply_elementwise(Op.MIN, dtype, dtype, (of(x), of(y)))))
                == -1
            )


FUNCTIONS = {
    Op.EXP: math.exp,
    Op.EXP2: lambda x: 2.0**x,
    Op.LOG: math.log,
    Op.LOG2: math.log2,
    Op.SIN: math.sin,
    Op.COS: math.cos,
    Op.TAN: math.tan,
    Op.TANH: math.tanh,
    Op.ERF: math.erf,
    Op.SQRT: math.sqrt,
    Op.RSQRT: lambda x: 1 / math.sqrt(x),
    Op.RECIPROCAL: lambda x: 1 / x,
    Op.EXPM1: math.expm1,
    Op.LOG1P: math.log1p,
    Op.SINH: math.sinh,
    Op.COSH: math.cosh,
}


@pytest.mark.parametrize("op", list(FUNCTIONS), ids=lambda op: op.name)
@pytest.mark.parametrize("dtype", FLOAT_DTYPES, ids=str)
def test_functions_agree_with_math(op: Op, dtype: DType) -> None:
    x = np.array([0.25, 0.5, 1, 1.5, 2, 3, 4], dtype=dtype.numpy)
    with quiet():
        actual = apply_elementwise(op, dtype, dtype, (x,)).astype(np.float64)
    for inputs, value in zip(x.astype(np.float64).tolist(), actual.tolist(), strict=True):
        exact = FUNCTIONS[op](inputs)
        assert abs(value - cast_value(exact, dtype)) <= dtype.finfo_eps * abs(exact)


def test_special_values_of_functions() -> None:
    def apply(op: Op, x: float) -> float:
        with quiet():
            return float(apply_elementwise(op, float32, float32, (np.float32(x),)))

    assert apply(Op.EXP, -math.inf) == 0
    assert apply(Op.EXP2, math.inf) == math.inf
    assert apply(Op.LOG, 0.0) == -math.inf
    assert math.isnan(apply(Op.LOG2, -1.0))
    assert math.isnan(apply(Op.SQRT, -1.0))
    assert math.copysign(1, apply(Op.SQRT, -0.0)) == -1
    assert math.isnan(apply(Op.SIN, math.inf))
    assert apply(Op.ERF, math.inf) == 1
    assert apply(Op.RECIPROCAL, -0.0) == -math.inf
    assert apply(Op.ROUND, 2.5) == 2
    assert apply(Op.ROUND, 3.5) == 4
    assert math.copysign(1, apply(Op.CEIL, -0.5)) == -1


def test_a_fused_multiply_add_rounds_once() -> None:
    x, z = np.float32(1 + 2**-12), np.float32(-1 - 2**-11)
    with quiet():
        assert float(x * x + z) == 0
        assert float(apply_elementwise(Op.MULACC, float32, float32, (x, x, z))) == 2.0**-24
        assert math.isnan(
            float(
                apply_elementwise(
                    Op.MULACC,
                    float64,
                    float64,
                    (np.float64(math.inf), np.float64(0), np.float64(1)),
                )
            )
        )
        assert (
            float(
                apply_elementwise(
                    Op.MULACC, float64, float64, (np.float64(1e308), np.float64(10), np.float64(0))
                )
            )
            == math.inf
        )


@pytest.mark.parametrize("dtype", [float16, bfloat16, float32, float64], ids=str)
def test_fused_multiply_adds_of_random_floats_are_the_nearest_values(dtype: DType) -> None:
    rng = np.random.default_rng(2)
    span = {float16: 5}.get(dtype, 40)
    x, y, z = (
        convert(rng.standard_normal(2000) * 2.0 ** rng.integers(-span, span, 2000), float64, dtype)
        for _ in "xyz"
    )
    with quiet():
        # Sums that cancel, and small products that push a large number to one of its neighbours.
        z[:500] = convert(-x[:500].astype(np.float64) * y[:500].astype(np.float64), float64, dtype)
        z[500:1000] = dtype.numpy.type(2.0**span)
        actual = apply_elementwise(Op.MULACC, dtype, dtype, (x, y, z))
    for *values, result in zip(x.tolist(), y.tolist(), z.tolist(), actual.tolist(), strict=True):
        a, b, c = map(Fraction, values)
        assert _same(dtype.numpy.type(result), _nearest(a * b + c, dtype), dtype), values


def _nearest(exact: Fraction, dtype: DType) -> float:
    """The float of `dtype` that is nearest to a number, an even one where two are."""
    near = dtype.numpy.type(float(exact))
    around = [
        float(near),
        *(float(np.nextafter(near, dtype.numpy.type(side))) for side in (-np.inf, np.inf)),
    ]
    finite = [v for v in around if math.isfinite(v)]
    least = min(abs(Fraction(v) - exact) for v in finite)
    ties = [v for v in finite if abs(Fraction(v) - exact) == least]
    return ties[0] if len(ties) == 1 else next(v for v in ties if not _has_odd_bits(v, dtype))


def _has_odd_bits(value: float, dtype: DType) -> bool:
    return bool(dtype.numpy.type(value).tobytes()[0] & 1)


@pytest.mark.parametrize(
    ("source", "target"), list(itertools.product(ALL_DTYPES, repeat=2)), ids=str
)
def test_casts_agree_with_constants(source: DType, target: DType) -> None:
    for value in _samples(source):
        with quiet():
            actual = convert(source.numpy.type(value), source, target)
        assert _same(actual, cast_value(value, target), target), (
            f"{source} {value} to {target}: {actual}"
        )


@pytest.mark.parametrize("dtype", [float16, bfloat16, float8_e4m3, float8_e5m2], ids=str)
def test_random_floats_and_large_integers_cast_with_one_rounding(dtype: DType) -> None:
    rng = np.random.default_rng(1)
    floats = rng.standard_normal(3000) * 2.0 ** rng.integers(-20, 20, 3000)
    integers = rng.integers(-(1 << 63), 1 << 63, 3000, dtype=np.int64) >> rng.integers(0, 63, 3000)
    with quiet():
        np.testing.assert_array_equal(
            convert(floats, float64, dtype).astype(np.float64),
            [cast_value(v, dtype) for v in floats.tolist()],
        )
        for integer_type in (int64, uint64):
            values = integers.astype(integer_type.numpy)
            actual = convert(values, integer_type, dtype).astype(np.float64)
            np.testing.assert_array_equal(actual, [cast_value(v, dtype) for v in values.tolist()])
            actual = convert(values, integer_type, float32).astype(np.float64)
            np.testing.assert_array_equal(actual, values.astype(np.float32).astype(np.float64))


def test_bitcast_reinterprets_and_regroups_lanes() -> None:
    assert reinterpret(np.float32(1.0), uint32) == 0x3F800000
    assert reinterpret(np.uint16(0x3F80), bfloat16) == ml_dtypes.bfloat16(1)
    assert reinterpret(np.array([[1.0, -2.0]], np.float32), int32).shape == (1, 2)
    np.testing.assert_array_equal(
        reinterpret(np.array([0x01020304], np.uint32), uint8.vec(4)), [4, 3, 2, 1]
    )
    assert reinterpret(np.array([4, 3, 2, 1], np.uint8), uint32) == 0x01020304
    assert reinterpret(np.int8(-1), uint8) == 255


@pytest.mark.parametrize("op", sorted(REDUCTIONS, key=lambda o: o.name), ids=lambda op: op.name)
@pytest.mark.parametrize("dtype", ALL_DTYPES, ids=str)
def test_combining_with_the_identity_changes_nothing(op: Op, dtype: DType) -> None:
    with quiet():
        for value in _samples(dtype):
            if op is Op.MAX and value == -math.inf and dtype is float8_e4m3:
                continue
            actual = combine(op, identity_value(op, dtype), dtype.numpy.type(value))
            assert _same(actual, value, dtype) or (value == 0 and float(actual) == 0)
    assert identity_value(op, dtype.vec(4)).shape == (4,)


def test_integer_power_is_defined_for_negative_exponents() -> None:
    def power(x: int, y: int) -> int:
        with quiet():
            return int(apply_elementwise(Op.POW, int8, int8, (np.int8(x), np.int8(y))))

    assert [power(2, -1), power(1, -5), power(-1, -3), power(-1, -2), power(0, 0), power(3, 5)] == [
        0,
        1,
        -1,
        1,
        1,
        -13,
    ]


@pytest.mark.parametrize("dtype", [float16, float32, float64])
@pytest.mark.parametrize(("x", "expected"), [(-0.0, 0.0), (-math.inf, math.inf), (4.0, 2.0)])
def test_a_scalar_power_of_one_half_is_pow_as_in_c_not_sqrt(
    dtype: DType, x: float, expected: float
) -> None:
    kind = {float16: np.float16, float32: np.float32, float64: np.float64}[dtype]
    with quiet():
        actual = float(apply_elementwise(Op.POW, dtype, dtype, (kind(x), kind(0.5))))
    assert (actual, math.copysign(1, actual)) == (expected, 1)


@pytest.mark.parametrize("dtype", [float16, bfloat16, float32, float64])
def test_the_power_zero_and_powers_of_one_are_one_even_for_a_signaling_nan(dtype: DType) -> None:
    integers = {2: np.uint16, 4: np.uint32, 8: np.uint64}[dtype.itemsize]
    # The lowest bit of the mantissa, without the highest bit, which would make the NaN quiet.
    exponent = int(np.array(math.inf, dtype.numpy).view(integers))
    signaling = np.array([exponent | 1], integers).view(dtype.numpy)
    zero, one = (np.array([value], dtype.numpy) for value in (0.0, 1.0))
    with quiet():
        for x, y in ((signaling, zero), (signaling, -zero), (one, signaling)):
            assert float(apply_elementwise(Op.POW, dtype, dtype, (x, y))[0]) == 1.0
        assert math.isnan(float(apply_elementwise(Op.POW, dtype, dtype, (signaling, one))[0]))


# Salmon et al. 2011, the known answers of the Random123 distribution for threefry2x32 with 20
# rounds.
@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
        ((0x243F6A88, 0x85A308D3), (0x13198A2E, 0x03707344), (0xC4923A9C, 0x483DF7A0)),
    ],
)
def test_threefry_gives_the_known_answers(
    counter: tuple[int, int], key: tuple[int, int], expected: tuple[int, int]
) -> None:
    def word(pair: tuple[int, int]) -> np.uint64:
        return np.uint64(pair[0] | pair[1] << 32)

    actual = int(apply_elementwise(Op.THREEFRY, uint64, uint64, (word(counter), word(key))))
    assert (actual & 0xFFFFFFFF, actual >> 32) == expected
