from __future__ import annotations

import math
import operator

import numpy as np
import pytest

from svod_dtype import promote_types, to_dtype
from svod_ir import BroadcastError, DeviceMismatchError, OperandError
from svod_tensor import Tensor
from svod_tensor.errors import IntegerOverflowError
from svod_testing import SHAPES, check, make_array

INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
FLOATS = ["float16", "float32", "float64"]


@pytest.mark.parametrize("shape", SHAPES)
def test_arithmetic_agrees_with_numpy_on_every_shape(rng, shape):
    a, b = make_array(rng, shape, "float32"), make_array(rng, shape, "float32")
    x, y = Tensor(a), Tensor(b)
    check(x * y + x - 2, a * b + a - np.float32(2), rtol=2e-6)


@pytest.mark.parametrize("dtype", INTEGERS + FLOATS)
def test_arithmetic_agrees_with_numpy_on_every_dtype(rng, dtype):
    a, b = make_array(rng, (3, 17), dtype), make_array(rng, (3, 17), dtype)
    x, y = Tensor(a), Tensor(b)
    for op in (operator.add, operator.sub, operator.mul):
        with np.errstate(over="ignore"):
            check(op(x, y), op(a, b))
    check(x.maximum(y), np.maximum(a, b))
    check(x.minimum(y), np.minimum(a, b))


def test_shapes_broadcast_as_in_numpy(rng):
    a, b, c = (
        make_array(rng, (4, 1, 6), "float32"),
        make_array(rng, (5, 1), "float32"),
        make_array(rng, (6,), "float32"),
    )
    check(Tensor(a) + Tensor(b) * Tensor(c), a + b * c)


def test_shapes_that_do_not_broadcast_are_an_error_that_names_the_axis():
    with pytest.raises(BroadcastError, match=r"axis -1 has sizes 3 and 4") as caught:
        Tensor.zeros(2, 3) + Tensor.zeros(4)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("left", [*INTEGERS, *FLOATS, "bool", "bfloat16"])
@pytest.mark.parametrize("right", [*INTEGERS, *FLOATS, "bool", "bfloat16"])
def test_dtypes_promote_by_the_table(left, right):
    assert (Tensor.ones(1, dtype=left) + Tensor.ones(1, dtype=right)).dtype is promote_types(
        to_dtype(left), to_dtype(right)
    )


@pytest.mark.parametrize(
    ("dtype", "scalar", "result"),
    [
        ("float16", 1.5, "float16"),
        ("int64", 1.5, "float32"),
        ("int8", 1, "int8"),
        ("bool", 1, "int32"),
        ("bool", True, "bool"),
        ("uint8", 2.0, "float32"),
    ],
)
def test_python_scalars_are_weak(dtype, scalar, result):
    x = Tensor.ones(2, dtype=dtype)
    assert str((x + scalar).dtype) == result
    assert str((scalar * x).dtype) == result


def test_a_python_integer_that_does_not_fit_is_an_error():
    with pytest.raises(IntegerOverflowError, match="300 does not fit int8"):
        Tensor.ones(2, dtype="int8") + 300
    with pytest.raises(OverflowError):
        Tensor.ones(2, dtype="uint8") * -1


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8", "uint32"])
def test_integer_division_rounds_down_and_by_zero_gives_zero(rng, dtype):
    a = make_array(rng, (40,), dtype)
    b = (make_array(rng, (40,), dtype) % 7 - (3 if np.dtype(dtype).kind == "i" else 0)).astype(
        dtype
    )
    safe = np.where(b == 0, 1, b).astype(dtype)
    check(Tensor(a) // Tensor(b), np.where(b == 0, 0, a // safe).astype(dtype))
    check(Tensor(a) % Tensor(b), np.where(b == 0, 0, a % safe).astype(dtype))


def test_the_smallest_integer_divided_by_minus_one_wraps():
    low = np.iinfo(np.int32).min
    assert (Tensor([low]) // Tensor([-1])).tolist() == [low]
    assert (Tensor([low]) % Tensor([-1])).tolist() == [0]


def test_true_division_of_integers_is_float32():
    check(Tensor([1, 2, 7]) / Tensor([2, 2, 0]), np.array([0.5, 1.0, np.inf], np.float32))
    check(1 / Tensor([1, 2, 4]), np.array([1, 0.5, 0.25], np.float32))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_float_floor_division_and_remainder_agree_with_numpy(rng, dtype):
    a, b = make_array(rng, (200,), dtype), make_array(rng, (200,), dtype)
    special = np.array([1.0, -1.0, 5.0, -5.0, 0.0, 7.5, 1.0, np.inf], dtype)
    divisor = np.array([0.1, 0.1, np.inf, np.inf, 3.0, -2.5, 0.0, 2.0], dtype)
    a, b = np.concatenate([a, special]), np.concatenate([b, divisor])
    with np.errstate(all="ignore"):
        expected, rest = a // b, a % b
    exact = dtype == "float32"
    check((Tensor(a) // Tensor(b))[:200], expected[:200])
    check((Tensor(a) % Tensor(b))[:200], rest[:200], rtol=1e-6 if exact else 1e-12)
    if exact:
        check((Tensor(a) // Tensor(b))[200:-2], expected[200:-2])
        check((Tensor(a) % Tensor(b))[200:], rest[200:])


def test_powers_agree_with_numpy(rng):
    a = np.abs(make_array(rng, (50,), "float32")) + np.float32(0.1)
    b = make_array(rng, (50,), "float32")
    for exponent in (0, 1, 2, 3, -1, 0.5, -2.5, 7):
        check(Tensor(a) ** exponent, a**exponent, rtol=3e-6)
    check(Tensor(a) ** Tensor(b), a**b, rtol=3e-6)
    check(2.0 ** Tensor(b), np.float32(2) ** b, rtol=3e-6)
    assert (Tensor([np.nan]) ** 0).tolist() == [1.0]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_a_power_of_one_half_is_a_square_root_except_at_negative_infinity_and_zero(dtype):
    values = np.array([4.0, 2.0, 0.0, -0.0, np.inf, -np.inf, np.nan, -1.0], dtype)
    with np.errstate(invalid="ignore"):
        expected = np.power(values, np.full_like(values, 0.5))
    found = (Tensor(values) ** 0.5).numpy()
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(np.signbit(found[:6]), np.signbit(expected[:6]))


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint16"])
def test_integer_powers_wrap_as_in_numpy(rng, dtype):
    base, exponent = (
        make_array(rng, (60,), dtype),
        (np.abs(make_array(rng, (60,), "int32")) % 20).astype(dtype),
    )
    check(Tensor(base) ** Tensor(exponent), base**exponent)
    check(Tensor(base) ** 3, base**3)


def test_negative_integer_powers_give_the_integer_part():
    assert (Tensor([1, -1, 2, 0]) ** Tensor([-3, -3, -1, -2])).tolist() == [1, -1, 0, 0]
    assert (Tensor([1, -1, 2]) ** -2).tolist() == [1, 1, 0]


def test_rounding_agrees_with_numpy(rng):
    a = np.concatenate(
        [make_array(rng, (40,), "float32"), np.array([0.5, 1.5, -0.5, 2.5, -0.0], np.float32)]
    )
    for name in ("floor", "ceil", "trunc", "sign", "abs"):
        check(getattr(Tensor(a), name)(), getattr(np, name)(a))
    check(Tensor(a).round(), np.round(a))
    check(Tensor(a).round(2), np.round(a, 2), rtol=1e-6)
    assert Tensor([3, 4]).floor().dtype is to_dtype("int32")


def test_operations_reject_the_dtypes_that_numpy_rejects():
    flag = Tensor([True, False])
    for refused in (
        lambda: flag - flag,
        lambda: -flag,
        lambda: flag.sign(),
        lambda: Tensor([1.0]) & Tensor([2.0]),
        lambda: ~Tensor([1.0]),
        lambda: Tensor([1.0]) << 1,
    ):
        with pytest.raises(OperandError):
            refused()


def test_operands_on_two_devices_are_an_error():
    with pytest.raises(DeviceMismatchError, match="CPU and CPU:1"):
        Tensor([1.0]) + Tensor([1.0], device="CPU:1")


def test_isclose_and_lerp(rng):
    a = np.array([1.0, np.nan, np.inf, 2.0], np.float32)
    b = np.array([1.0 + 1e-6, np.nan, np.inf, 2.1], np.float32)
    check(Tensor(a).isclose(Tensor(b)), np.isclose(a, b))
    check(Tensor(a).isclose(Tensor(b), equal_nan=True), np.isclose(a, b, equal_nan=True))
    check(Tensor([0.0, 10.0]).lerp(Tensor([10.0, 20.0]), 0.25), np.array([2.5, 12.5], np.float32))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_quotients_and_remainders_of_special_values_agree_with_numpy(dtype):
    special = np.array(
        [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 0.5, -2.5, 7.0, 300.0], dtype
    )
    x, y = (grid.ravel() for grid in np.meshgrid(special, special))
    with np.errstate(all="ignore"):
        for found, expected in ((Tensor(x) // Tensor(y), x // y), (Tensor(x) % Tensor(y), x % y)):
            check(found, expected)
            has_sign = ~np.isnan(expected)
            np.testing.assert_array_equal(
                np.signbit(found.numpy())[has_sign], np.signbit(expected)[has_sign]
            )


def test_a_remainder_is_smaller_than_its_divisor_however_large_the_quotient():
    x = Tensor(np.array([1e30, -1e30, 3e38], np.float32)) % Tensor(
        np.array([2.5, 3.0, -7.0], np.float32)
    )
    assert (np.abs(x.numpy()) < [2.5, 3.0, 7.0]).all()


def test_a_divisor_of_an_integer_tensor_may_exceed_its_dtype():
    x = np.array([0, 128, 255], np.uint8)
    check(Tensor(x) / 256, (x / 256).astype(np.float32))
    check(300 / Tensor(x).maximum(1), np.float32(300) / np.maximum(x, 1).astype(np.float32))
    check(Tensor(x).hypot(-1000), np.hypot(x.astype(np.float32), np.float32(1000)), rtol=1e-6)


def test_a_0d_integer_tensor_is_a_number():
    assert [10, 20, 30][Tensor(2)] == 30
    assert Tensor.arange(5)[: Tensor(3)].shape == (3,)
    for wrong in (Tensor(2.0), Tensor([2]), Tensor(True)):
        with pytest.raises(OperandError, match="index: expected a 0-d integer tensor, got"):
            _ = [10, 20, 30][wrong]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_tiny_quotients_of_operands_with_different_signs_are_minus_one(dtype):
    tiny = float(to_dtype(dtype).finfo_eps) ** 1.5
    x, y = [tiny, -tiny, tiny, -tiny, tiny], [-1.0, 1.0, 1.0, -1.0, -7.0]
    left, right = Tensor(x, dtype=dtype), Tensor(y, dtype=dtype)
    assert (left // right).tolist() == [-1.0, -1.0, 0.0, 0.0, -1.0]
    rest = (left % right).numpy().astype(np.float64)
    rounded = Tensor(np.remainder(x, y), dtype=dtype).numpy().astype(np.float64)
    np.testing.assert_allclose(rest, rounded, rtol=to_dtype(dtype).finfo_eps)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_quotients_and_remainders_of_all_magnitudes_agree_with_numpy(rng, dtype):
    def draw():
        return (2.0 ** rng.uniform(-20, 20, 4000) * rng.choice([-1, 1], 4000)).astype(dtype)

    x, y = draw(), draw()
    check(Tensor(x) // Tensor(y), x // y, rtol=1e-6 if dtype == "float32" else 1e-15)
    check(Tensor(x) % Tensor(y), x % y, rtol=0.0, atol=0.0)


def list_remainder_operands(rng, dtype):
    """Pairs of any bits, of one magnitude, of multiples of the divisor, and of special values."""
    n, dtype = 20_000, np.dtype(dtype)
    x, y = (rng.integers(0, 256, n * dtype.itemsize, np.uint8).view(dtype) for _ in range(2))
    info = np.finfo(dtype)
    special = [
        0.0,
        1.0,
        3.0,
        0.1,
        7.5,
        1e4,
        info.max,
        info.tiny,
        info.smallest_subnormal,
        math.inf,
        math.nan,
    ]
    special = np.array(special + [-value for value in special], dtype)
    with np.errstate(all="ignore"):
        multiples = (y * rng.integers(1, 2000, n)).astype(dtype)
    yield x, y
    yield make_array(rng, (n,), dtype.name) * dtype.type(100), make_array(rng, (n,), dtype.name)
    yield multiples, y
    yield tuple(grid.ravel() for grid in np.meshgrid(special, special))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_remainders_of_floats_agree_with_numpy_bit_by_bit(rng, dtype):
    for x, y in list_remainder_operands(rng, dtype):
        for name in ("fmod", "remainder"):
            with np.errstate(all="ignore"):
                expected = getattr(np, name)(x, y)
            result = getattr(Tensor(x), name)(Tensor(y)).numpy()
            is_equal = (result == expected) & (np.signbit(result) == np.signbit(expected))
            wrong = ~(is_equal | np.isnan(result) & np.isnan(expected))
            assert not wrong.any(), (
                name,
                x[wrong][:3],
                y[wrong][:3],
                result[wrong][:3],
                expected[wrong][:3],
            )


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3", "float8_e5m2"])
def test_remainders_of_narrow_floats_agree_with_float64(rng, dtype):
    x, y = (Tensor(rng.standard_normal(2000) * scale).cast(dtype) for scale in (400.0, 0.05))
    with np.errstate(invalid="ignore"):
        expected = np.fmod(x.cast("float64").numpy(), y.cast("float64").numpy())
    np.testing.assert_array_equal(x.fmod(y).cast("float64").numpy(), expected)


@pytest.mark.parametrize("divisor", [1e-3, -0.1, 2 * math.pi, 1e-300, math.inf, 0.0])
def test_remainders_by_a_number_inside_of_a_larger_kernel(rng, divisor):
    x = (2.0 ** rng.uniform(-100, 900, (37, 5))) * rng.choice([-1, 1], (37, 5))
    with np.errstate(all="ignore"):
        check((Tensor(x) % divisor).sum(1), (x % divisor).sum(1), rtol=1e-12)
        check(Tensor(x[0]) % Tensor(x[:, :1]), x[0] % x[:, :1], rtol=0.0, atol=0.0)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64"])
def test_remainders_that_round_toward_zero_of_integers(rng, dtype):
    x, y = make_array(rng, (50,), dtype), make_array(rng, (50,), dtype)
    y[::7] = 0
    with np.errstate(all="ignore"):
        check(Tensor(x).fmod(Tensor(y)), np.fmod(x, y))


def test_numbers_combined_with_float64_are_not_rounded_to_float32():
    zero, tenth = Tensor([0.0], dtype="float64"), Tensor([0.1], dtype="float64")
    assert zero.lerp(0.1, 1.0).item() == 0.1
    assert tenth.searchsorted(0.1).item() == 0
    assert Tensor([1.0, 0.0], dtype="float64").polyval(0.1).item() == 0.1
    assert Tensor.uniform(1, low=0.1, high=0.1, dtype="float64").item() == 0.1
    assert Tensor.normal(1, mean=0.1, std=0.0, dtype="float64").item() == 0.1
