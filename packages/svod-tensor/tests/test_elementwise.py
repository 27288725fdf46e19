from __future__ import annotations

import math
import operator

import numpy as np
import pytest

from svod_dtype import promote_types, to_dtype
from svod_ir.errors import BroadcastError, DeviceMismatchError, OperandError
from svod_tensor import Tensor
from svod_tensor.errors import AmbiguousTruthError, IntegerOverflowError, NonFiniteCastError
from svod_tensor.testing import SHAPES, check, make_array

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


def test_comparing_with_an_integer_beyond_the_dtype_has_the_true_answer():
    x = Tensor([1, -2], dtype="int8")
    assert (x < 300).tolist() == [True, True]
    assert (x >= 300).tolist() == [False, False]
    assert (x > -300).tolist() == [True, True]
    assert (x == 300).tolist() == [False, False]
    assert (x != 300).tolist() == [True, True]


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8", "uint32"])
def test_integer_division_rounds_down_and_by_zero_gives_zero(rng, dtype):
    a = make_array(rng, (40,), dtype)
    b = (make_array(rng, (40,), dtype) % 7 - (3 if np.dtype(dtype).kind == "i" else 0)).astype(dtype)
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


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint16"])
def test_integer_powers_wrap_as_in_numpy(rng, dtype):
    base, exponent = make_array(rng, (60,), dtype), (np.abs(make_array(rng, (60,), "int32")) % 20).astype(dtype)
    check(Tensor(base) ** Tensor(exponent), base**exponent)
    check(Tensor(base) ** 3, base**3)


def test_negative_integer_powers_give_the_integer_part():
    assert (Tensor([1, -1, 2, 0]) ** Tensor([-3, -3, -1, -2])).tolist() == [1, -1, 0, 0]
    assert (Tensor([1, -1, 2]) ** -2).tolist() == [1, 1, 0]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "uint64"])
def test_bits_and_shifts_agree_with_numpy(rng, dtype):
    a, b = make_array(rng, (33,), dtype), make_array(rng, (33,), dtype)
    x, y = Tensor(a), Tensor(b)
    check(x & y, a & b)
    check(x | y, a | b)
    check(x ^ y, a ^ b)
    check(~x, ~a)
    amount = (np.abs(b.astype(np.int64)) % (a.itemsize * 8)).astype(dtype)
    check(x << Tensor(amount), a << amount)
    check(x >> Tensor(amount), a >> amount)
    check(x << 3, a << 3)
    check(x >> 3, a >> 3)


def test_a_shift_beyond_the_width_shifts_everything_out():
    x = Tensor([5, -5])
    for amount in (32, 99, Tensor([32, 40])):
        assert (x << amount).tolist() == [0, 0]
        assert (x >> amount).tolist() == [0, -1]


@pytest.mark.parametrize("dtype", ["float32", "int16", "uint64", "bool", "float16"])
def test_comparisons_agree_with_numpy(rng, dtype):
    a, b = make_array(rng, (90,), dtype), make_array(rng, (90,), dtype)
    b[::3] = a[::3]
    for op in (operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne):
        check(op(Tensor(a), Tensor(b)), op(a, b))


def test_nan_infinities_and_signed_zeros_follow_ieee():
    a = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5], np.float32)
    x = Tensor(a)
    check(x.isnan(), np.isnan(a))
    check(x.isinf(), np.isinf(a))
    check(x.isfinite(), np.isfinite(a))
    check(x.signbit(), np.signbit(a))
    check(x == x, a == a)
    check(x.maximum(0), np.maximum(a, np.float32(0)))
    check(x.minimum(0), np.minimum(a, np.float32(0)))
    check(x.clip(-1, 1), np.clip(a, -1, 1))
    assert math.isnan(x.relu().tolist()[0])
    assert np.signbit((x - 0.0).numpy()).tolist()[4]
    assert np.signbit((-x).numpy()).tolist()[3]


def test_rounding_agrees_with_numpy(rng):
    a = np.concatenate([make_array(rng, (40,), "float32"), np.array([0.5, 1.5, -0.5, 2.5, -0.0], np.float32)])
    for name in ("floor", "ceil", "trunc", "sign", "abs"):
        check(getattr(Tensor(a), name)(), getattr(np, name)(a))
    check(Tensor(a).round(), np.round(a))
    check(Tensor(a).round(2), np.round(a, 2), rtol=1e-6)
    assert Tensor([3, 4]).floor().dtype is to_dtype("int32")


def test_where_selects_and_promotes(rng):
    a, b = make_array(rng, (4, 5), "float32"), make_array(rng, (5,), "float32")
    check((Tensor(a) > 0).where(Tensor(a), Tensor(b)), np.where(a > 0, a, b))
    check(Tensor.where(Tensor(a) > 0, 1, 0), np.where(a > 0, 1, 0).astype(np.int32))
    check((Tensor(a) > 0).where(1.0, Tensor(b)), np.where(a > 0, np.float32(1), b))
    assert (Tensor(a) > 0).where(Tensor([1], dtype="int8"), 2.5).dtype is to_dtype("float32")
    with pytest.raises(OperandError, match="a bool condition"):
        Tensor([1, 0]).where(1, 2)


def test_logic_takes_any_dtype(rng):
    a, b = np.array([0, 1, 2, 0]), np.array([0.0, 0.0, 3.5, 1.0], np.float32)
    check(Tensor(a).logical_and(Tensor(b)), np.logical_and(a, b))
    check(Tensor(a).logical_or(Tensor(b)), np.logical_or(a, b))
    check(Tensor(a).logical_xor(Tensor(b)), np.logical_xor(a, b))
    check(Tensor(a).logical_not(), np.logical_not(a))


@pytest.mark.parametrize("source", ["bool", "int8", "uint8", "int32", "int64", "float16", "float32", "float64"])
@pytest.mark.parametrize("target", ["bool", "int8", "uint8", "int32", "uint64", "float16", "float32", "float64"])
def test_casts_agree_with_numpy(rng, source, target):
    a = make_array(rng, (19,), source)
    if np.dtype(source).kind == "f" and np.dtype(target).kind == "u":
        a = np.abs(a)
    if np.dtype(source).kind == "f":
        a = np.clip(a, -100, 100).astype(source)
    with np.errstate(invalid="ignore"):
        check(Tensor(a).cast(target), a.astype(target))


def test_bitcast_reads_the_same_bits():
    check(Tensor([1.0, -2.5]).bitcast("int32"), np.array([1.0, -2.5], np.float32).view(np.int32))
    with pytest.raises(OperandError, match="bitcast"):
        Tensor([1.0]).bitcast("int64")


def test_operations_refuse_the_dtypes_that_numpy_refuses():
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


def test_a_non_finite_float_does_not_become_an_integer():
    for make in (
        lambda: Tensor.full((2,), math.nan, dtype="int32"),
        lambda: Tensor(math.inf, dtype="int8"),
        lambda: Tensor([1.0, math.nan], dtype="int64"),
        lambda: Tensor(np.array([np.inf]), dtype="int32"),
    ):
        with pytest.raises(NonFiniteCastError):
            make()


def test_numpy_operands_mix_with_tensors_on_both_sides(rng):
    a, b = make_array(rng, (3, 4), "float32"), make_array(rng, (4,), "float32")
    check(Tensor(a) + b, a + b)
    check(b + Tensor(a), a + b)
    check(np.float32(2) * Tensor(a), 2 * a)
    check(a @ Tensor(b), a @ b)


def test_reflected_operators_keep_their_order():
    x = Tensor([2, 3])
    assert (10 - x).tolist() == [8, 7]
    assert (7 // x).tolist() == [3, 2]
    assert (7 % x).tolist() == [1, 1]
    assert (2**x).tolist() == [4, 8]
    assert (1 << x).tolist() == [4, 8]
    assert [t.tolist() for t in divmod(x, 2)] == [[1, 1], [0, 1]]


def test_only_one_element_has_a_truth_value():
    assert bool(Tensor(3) > 2)
    with pytest.raises(AmbiguousTruthError):
        bool(Tensor([1, 2]) == Tensor([1, 2]))


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
    special = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 0.5, -2.5, 7.0, 300.0], dtype)
    x, y = (grid.ravel() for grid in np.meshgrid(special, special))
    with np.errstate(all="ignore"):
        for found, expected in ((Tensor(x) // Tensor(y), x // y), (Tensor(x) % Tensor(y), x % y)):
            check(found, expected)
            has_sign = ~np.isnan(expected)
            np.testing.assert_array_equal(np.signbit(found.numpy())[has_sign], np.signbit(expected)[has_sign])


def test_a_remainder_is_smaller_than_its_divisor_however_large_the_quotient():
    x = Tensor(np.array([1e30, -1e30, 3e38], np.float32)) % Tensor(np.array([2.5, 3.0, -7.0], np.float32))
    assert (np.abs(x.numpy()) < [2.5, 3.0, 7.0]).all()


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32", "int64", "uint64"])
def test_a_shift_right_by_the_width_leaves_only_the_sign(dtype):
    a = np.array([0, 1, 100, np.iinfo(dtype).max, np.iinfo(dtype).min], dtype)
    bits = np.iinfo(dtype).bits
    for amount in (bits - 1, bits, 100):
        check(Tensor(a) >> amount, a >> np.array(amount, dtype))
        check(Tensor(a) >> Tensor(np.full(5, amount, dtype)), a >> np.array(amount, dtype))


def test_a_number_that_an_integer_tensor_is_divided_by_need_not_fit_it():
    x = np.array([0, 128, 255], np.uint8)
    check(Tensor(x) / 256, (x / 256).astype(np.float32))
    check(300 / Tensor(x).maximum(1), np.float32(300) / np.maximum(x, 1).astype(np.float32))
    check(Tensor(x).hypot(-1000), np.hypot(x.astype(np.float32), np.float32(1000)), rtol=1e-6)


def test_an_integer_of_no_axes_stands_for_a_number():
    assert [10, 20, 30][Tensor(2)] == 30
    assert Tensor.arange(5)[: Tensor(3)].shape == (3,)
    for wrong in (Tensor(2.0), Tensor([2]), Tensor(True)):
        with pytest.raises(OperandError, match="takes one integer"):
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


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "float8_e4m3", "float8_e5m2"])
def test_nans_keep_their_signs(dtype):
    nan = float("nan")
    expected = [True, False]
    assert Tensor([-nan, nan], dtype=dtype).signbit().tolist() == expected
    assert [Tensor.full((), v, dtype=dtype).signbit().item() for v in (-nan, nan)] == expected
    assert [(Tensor([1.0], dtype=dtype).copysign(v)).tolist() for v in (-nan, nan)] == [[-1.0], [1.0]]
