"""The approximations against true values: numpy's float64 for float32, mpmath for float64.

The graphs are evaluated on whole numpy arrays, once with fma rounded once and once as a product and
a sum, each rounded."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Final, Literal

import mpmath
import numpy as np
import numpy.typing as npt
import pytest

from svod_dtype import DType, bfloat16, float16, float32, float64
from svod_ir import Op, Target, UOp
from svod_schedule.lower.transcendental import TRANSCENDENTAL, decompose_transcendental

Array = npt.NDArray[np.generic]

UNARY: Final = tuple(op for op in TRANSCENDENTAL if op is not Op.POW)
NEEDS_FMA: Final = (Op.SIN, Op.COS, Op.TAN, Op.POW)
SPECIAL: Final = (math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.0)
TRUE_FLOAT32: Final[dict[Op, Callable[[Array], Array]]] = {
    Op.EXP: np.exp,
    Op.EXP2: np.exp2,
    Op.LOG: np.log,
    Op.LOG2: np.log2,
    Op.SIN: np.sin,
    Op.COS: np.cos,
    Op.TAN: np.tan,
    Op.TANH: np.tanh,
    Op.EXPM1: np.expm1,
    Op.LOG1P: np.log1p,
    Op.SINH: np.sinh,
    Op.COSH: np.cosh,
    Op.ERF: np.vectorize(math.erf, otypes=[np.float64]),
}
TRUE_FLOAT64: Final = {
    Op.EXP: mpmath.exp,
    Op.EXP2: lambda x: mpmath.power(2, x),
    Op.LOG: mpmath.log,
    Op.LOG2: lambda x: mpmath.log(x, 2),
    Op.SIN: mpmath.sin,
    Op.COS: mpmath.cos,
    Op.TAN: mpmath.tan,
    Op.TANH: mpmath.tanh,
    Op.ERF: mpmath.erf,
    Op.EXPM1: mpmath.expm1,
    Op.LOG1P: mpmath.log1p,
    Op.SINH: mpmath.sinh,
    Op.COSH: mpmath.cosh,
}
# Where results are finite and not constant, by op: (low, high) for float32 and for float64.
INTERESTING: Final = {
    Op.EXP: ((-104.0, 89.0), (-746.0, 710.0)),
    Op.EXP2: ((-150.0, 128.0), (-1075.0, 1024.0)),
    Op.TANH: ((-10.0, 10.0),) * 2,
    Op.EXPM1: ((-20.0, 89.0), (-40.0, 710.0)),
    Op.LOG1P: ((-0.9, 5.0),) * 2,
    Op.SINH: ((-5.0, 5.0),) * 2,
    Op.COSH: ((-90.0, 90.0), (-711.0, 711.0)),
    Op.ERF: ((-6.0, 6.0),) * 2,
    Op.LOG: ((0.3, 3.0),) * 2,
    Op.LOG2: ((0.3, 3.0),) * 2,
    Op.SIN: ((-4e3, 4e3), (-2e6, 2e6)),
    Op.COS: ((-4e3, 4e3), (-2e6, 2e6)),
    Op.TAN: ((-4e3, 4e3), (-2e6, 2e6)),
}


LOWEST: Final = {Op.LOG: 0.0, Op.LOG2: 0.0, Op.LOG1P: -1.0}
EXPONENTIAL: Final = frozenset({Op.EXP, Op.EXP2, Op.EXPM1, Op.SINH, Op.COSH, Op.TANH, Op.ERF})
BINARY: Final = {
    Op.ADD: operator.add,
    Op.SUB: operator.sub,
    Op.MUL: operator.mul,
    Op.FDIV: operator.truediv,
    Op.AND: operator.and_,
    Op.OR: operator.or_,
    Op.XOR: operator.xor,
    Op.SHL: operator.lshift,
    Op.SHR: operator.rshift,
    Op.LT: operator.lt,
    Op.LE: operator.le,
    Op.EQ: operator.eq,
    Op.NE: operator.ne,
}
UNARY_FUNCTIONS: Final = {
    Op.NEG: np.negative,
    Op.NOT: np.invert,
    Op.ABS: np.abs,
    Op.TRUNC: np.trunc,
}


def evaluate(
    root: UOp,
    inputs: Mapping[UOp, Array],
    *,
    has_fma: bool,
    underflow: Literal["ignore", "raise"] = "ignore",
) -> Array:
    """The value of `root` at every element of the inputs."""
    values: dict[UOp, Array] = dict(inputs)
    with np.errstate(all="ignore", under=underflow):
        for node in root.toposort():
            if node not in values:
                values[node] = apply(node, [values[s] for s in node.src], has_fma=has_fma)
    return values[root]


def apply(node: UOp, operands: list[Array], *, has_fma: bool) -> Array:
    if node.op in BINARY:
        return BINARY[node.op](*operands)
    if node.op in UNARY_FUNCTIONS:
        return UNARY_FUNCTIONS[node.op](operands[0])
    match node.op:
        case Op.CONST:
            return np.array([node.arg]).astype(node.dtype.numpy)
        case Op.WHERE:
            return np.where(*operands)
        case Op.CAST:
            return operands[0].astype(node.dtype.numpy)
        case Op.BITCAST:
            return operands[0].view(node.dtype.numpy)
        case Op.MULACC if not has_fma:
            return operands[0] * operands[1] + operands[2]
        case Op.MULACC if node.dtype is float32:
            # The product is exact in float64; rounding its sum twice is wrong in about one of 2^29
            # cases.
            x, y, z = (operand.astype(np.float64) for operand in operands)
            return (x * y + z).astype(np.float32)
        case Op.MULACC:
            return fma64(*np.broadcast_arrays(*operands))
        case _:
            raise NotImplementedError(node.op)


def fma64(x: Array, y: Array, z: Array) -> Array:
    """x * y + z from the exact errors of the product (Dekker) and of the sum (Knuth)."""
    product = x * y
    (x_high, x_low), (y_high, y_low) = split(x), split(y)
    product_error = ((x_high * y_high - product) + x_high * y_low + x_low * y_high) + x_low * y_low
    total = product + z
    z_part = total - product
    sum_error = (product - (total - z_part)) + (z - z_part)
    result = total + (sum_error + product_error)
    return np.where(np.isfinite(result), result, total)


def split(x: Array) -> tuple[Array, Array]:
    scaled = 134217729.0 * x
    high = scaled - (scaled - x)
    return high, x - high


def arguments(op: Op, dtype: DType, n: int) -> Array:
    """Random bit patterns, the interesting interval, numbers around 0 of every magnitude, and the
    special ones.
    """
    rng = np.random.default_rng(7)
    unsigned = np.uint32 if dtype is float32 else np.uint64
    bits = rng.integers(0, np.iinfo(unsigned).max, n // 4, dtype=unsigned).view(dtype.numpy)
    interesting = rng.uniform(*INTERESTING[op][dtype is float64], n // 2)
    around = 2.0 ** rng.uniform(-40.0, 20.0, n // 4) * rng.choice([-1.0, 1.0], n // 4)
    exponents = 2.0 ** np.arange(*((-149, 128) if dtype is float32 else (-1074, 1024)))
    limits = np.array([89.0, -104.0, 128.0, -150.0, 710.0, -746.0, 1024.0, -1075.0, *SPECIAL])
    return np.concatenate(
        [
            bits,
            *(
                part.astype(dtype.numpy)
                for part in (interesting, around, exponents, -exponents, limits)
            ),
        ]
    )


def worst_error(got: Array, true: Array, low: Array, dtype: DType) -> float:
    """The largest distance in units in the last place of the true value, given as a sum; inf where
    a special value is wrong.
    """
    info = np.finfo(dtype.numpy)
    with np.errstate(all="ignore"):
        rounded = true.astype(dtype.numpy)
        is_special = ~np.isfinite(rounded) | (true == 0.0)
        matches = (got == rounded) & (np.signbit(got) == np.signbit(rounded)) | (
            np.isnan(got) & np.isnan(rounded)
        )
        # The largest finite number and infinity are neighbours.
        matches |= (
            np.isinf(rounded)
            & (np.abs(got) == info.max)
            & (np.abs(true) < float(info.max) * (1.0 + float(info.eps)))
        )
        exponent = np.maximum(np.frexp(true)[1] - 1, info.minexp)
        error = np.abs(
            np.ldexp(got.astype(np.float64) - true, info.nmant - exponent)
            - np.ldexp(low, info.nmant - exponent)
        )
    return float(
        np.max(
            np.where(
                is_special,
                np.where(matches, 0.0, math.inf),
                np.where(np.isnan(error), math.inf, error),
            )
        )
    )


def in_two_parts(value: object) -> tuple[float, float]:
    """An mpmath number as the nearest float64 and what is missing; complex results are NaN."""
    if not isinstance(value, mpmath.mpf):
        return math.nan, 0.0
    high = float(value)
    return high, float(value - mpmath.mpf(high)) if math.isfinite(high) else 0.0


def true_values64(function: Callable[..., object], *columns: Array) -> tuple[Array, Array]:
    parts: list[tuple[float, float]] = []
    with mpmath.workprec(160):
        for numbers in zip(*columns, strict=True):
            try:
                parts.append(in_two_parts(function(*(mpmath.mpf(float(x)) for x in numbers))))
            except (ValueError, ZeroDivisionError):
                parts.append((math.nan, 0.0))
    high, low = np.array(parts).T
    return high, low


def build(op: Op, *operands: UOp, has_fma: bool) -> UOp:
    return TRANSCENDENTAL[op](*operands, **({"has_fma": has_fma} if op in NEEDS_FMA else {}))


@pytest.mark.parametrize("has_fma", [True, False])
@pytest.mark.parametrize("op", UNARY)
def test_float32_is_within_one_ulp_of_the_true_value(op: Op, has_fma: bool) -> None:
    x = UOp.variable("x", 0, 1, float32)
    points = arguments(op, float32, 200_000)
    got = evaluate(build(op, x, has_fma=has_fma), {x: points}, has_fma=has_fma)
    with np.errstate(all="ignore"):
        true = TRUE_FLOAT32[op](points.astype(np.float64))
    # Without fma, each fma here rounds twice.
    assert worst_error(got, true, np.zeros_like(true), float32) <= (1.0 if has_fma else 1.6)


@pytest.mark.parametrize("has_fma", [True, False])
@pytest.mark.parametrize("op", UNARY)
def test_float64_is_within_two_ulp_of_the_true_value(op: Op, has_fma: bool) -> None:
    x = UOp.variable("x", 0, 1, float64)
    points = arguments(op, float64, 3000)
    points = points[np.isfinite(points) & (points != 0.0) & (points > LOWEST.get(op, -math.inf))]
    # mpmath would compute powers of two with huge exponents in full.
    points = np.clip(points, -1.0e4, 1.0e4) if op in EXPONENTIAL else points
    got = evaluate(build(op, x, has_fma=has_fma), {x: points}, has_fma=has_fma)
    assert worst_error(got, *true_values64(TRUE_FLOAT64[op], points), float64) <= 2.0


@pytest.mark.parametrize("dtype", [float32, float64])
@pytest.mark.parametrize("op", [Op.EXP, Op.EXP2])
def test_masked_scores_cause_no_underflow(op: Op, dtype: DType) -> None:
    x = UOp.variable("x", 0, 1, dtype)
    points = np.array([-math.inf, np.finfo(dtype.numpy).min, -1.0e9, -1.0e4], dtype.numpy)
    got = evaluate(TRANSCENDENTAL[op](x), {x: points}, has_fma=False, underflow="raise")
    assert got.tolist() == [0.0] * 4


@pytest.mark.parametrize("dtype", [float32, float64])
def test_powers_of_zero_cause_no_underflow(dtype: DType) -> None:
    x, y = UOp.variable("x", 0, 1, dtype), UOp.variable("y", 0, 1, dtype)
    inputs = {x: np.zeros(2, dtype.numpy), y: np.array([2.5, 1.0e9], dtype.numpy)}
    got = evaluate(build(Op.POW, x, y, has_fma=False), inputs, has_fma=False, underflow="raise")
    assert got.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("has_fma", [True, False])
def test_powers_of_float32_are_within_one_ulp(has_fma: bool) -> None:
    bases, exponents = power_arguments(float32, 100_000)
    x, y = UOp.variable("x", 0, 1, float32), UOp.variable("y", 0, 1, float32)
    got = evaluate(build(Op.POW, x, y, has_fma=has_fma), {x: bases, y: exponents}, has_fma=has_fma)
    with np.errstate(all="ignore"):
        true = bases.astype(np.float64) ** exponents.astype(np.float64)
    assert worst_error(got, true, np.zeros_like(true), float32) <= 1.0


@pytest.mark.parametrize("has_fma", [True, False])
def test_powers_of_float64_are_within_two_ulp(has_fma: bool) -> None:
    bases, exponents = power_arguments(float64, 3000)
    x, y = UOp.variable("x", 0, 1, float64), UOp.variable("y", 0, 1, float64)
    got = evaluate(build(Op.POW, x, y, has_fma=has_fma), {x: bases, y: exponents}, has_fma=has_fma)
    assert worst_error(got, *true_values64(mpmath.power, bases, exponents), float64) <= 2.0


def power_arguments(dtype: DType, n: int) -> tuple[Array, Array]:
    """Positive bases, and exponents that spread the results over the range."""
    rng = np.random.default_rng(3)
    low, high = (-149.0, 128.0) if dtype is float32 else (-1070.0, 1024.0)
    parts = [
        2.0 ** rng.uniform(low, high - 1.0, n),
        rng.uniform(0.9, 1.1, n),
        rng.uniform(0.1, 9.0, n),
    ]
    bases = np.concatenate(parts).astype(dtype.numpy)
    with np.errstate(divide="ignore"):
        exponents = rng.uniform(low, high, 3 * n) / np.log2(bases.astype(np.float64))
    return bases, np.where(np.isfinite(exponents), exponents, 1.0).astype(dtype.numpy)


@pytest.mark.parametrize("dtype", [float32, float64])
@pytest.mark.parametrize(
    ("op", "expected"),
    [
        (Op.EXP, "nan inf 0.0 1.0 1.0"),
        (Op.EXP2, "nan inf 0.0 1.0 1.0"),
        (Op.LOG, "nan inf nan -inf -inf"),
        (Op.LOG2, "nan inf nan -inf -inf"),
        (Op.SIN, "nan nan nan 0.0 -0.0"),
        (Op.COS, "nan nan nan 1.0 1.0"),
        (Op.TAN, "nan nan nan 0.0 -0.0"),
        (Op.TANH, "nan 1.0 -1.0 0.0 -0.0"),
        (Op.EXPM1, "nan inf -1.0 0.0 -0.0"),
        (Op.LOG1P, "nan inf nan 0.0 -0.0"),
        (Op.SINH, "nan inf -inf 0.0 -0.0"),
        (Op.COSH, "nan inf inf 1.0 1.0"),
        (Op.ERF, "nan 1.0 -1.0 0.0 -0.0"),
    ],
)
def test_nan_infinities_and_zeros_give_what_the_standards_say(
    op: Op, expected: str, dtype: DType
) -> None:
    x = UOp.variable("x", 0, 1, dtype)
    got = evaluate(TRANSCENDENTAL[op](x), {x: np.array(SPECIAL[:5], dtype.numpy)}, has_fma=True)
    assert " ".join(str(float(value)) for value in got) == expected


def power_of_c(x: float, y: float) -> float:
    """C17, F.10.4.4, of which Python's pow differs in raising errors."""
    try:
        return math.pow(x, y)
    except OverflowError:
        return -math.inf if x < 0.0 and y % 2.0 == 1.0 else math.inf
    except ValueError:
        if x != 0.0:
            return math.nan
        return math.copysign(math.inf, x) if y % 2.0 == 1.0 else math.inf


@pytest.mark.parametrize("dtype", [float32, float64])
def test_powers_of_special_values_are_those_of_the_c_standard(dtype: DType) -> None:
    numbers = np.array(
        [
            *SPECIAL,
            2.0,
            -2.0,
            0.5,
            -0.5,
            3.0,
            -3.0,
            2.5,
            -2.5,
            1e30,
            -1e30,
            1e-40,
            -1e-40,
            16777216.0,
            16777217.0,
        ],
        dtype.numpy,
    )
    bases, exponents = (grid.ravel() for grid in np.meshgrid(numbers, numbers))
    x, y = UOp.variable("x", 0, 1, dtype), UOp.variable("y", 0, 1, dtype)
    got = evaluate(TRANSCENDENTAL[Op.POW](x, y), {x: bases, y: exponents}, has_fma=True)
    with np.errstate(over="ignore", under="ignore"):
        true = np.array(
            [power_of_c(float(a), float(b)) for a, b in zip(bases, exponents, strict=True)]
        ).astype(dtype.numpy)
    assert np.array_equal(np.isnan(got), np.isnan(true))
    assert np.array_equal(np.signbit(got)[~np.isnan(true)], np.signbit(true)[~np.isnan(true)])
    np.testing.assert_allclose(got, true, rtol=2.0**-22)


def test_a_sine_of_an_argument_next_to_a_multiple_of_pi_keeps_its_digits() -> None:
    # The float64 that comes closest to a multiple of pi / 2 (Muller, "Elementary Functions", table
    # 10.1).
    argument = math.ldexp(6381956970095103.0, 797)
    x = UOp.variable("x", 0, 1, float64)
    got = evaluate(TRANSCENDENTAL[Op.COS](x), {x: np.array([argument])}, has_fma=True)
    with mpmath.workprec(1200):
        assert float(got[0]) == pytest.approx(float(mpmath.cos(mpmath.mpf(argument))), rel=2.0**-51)


@pytest.mark.parametrize(
    ("op", "most"),
    [
        (Op.EXP, 22),
        (Op.EXP2, 20),
        (Op.LOG, 32),
        (Op.LOG2, 30),
        (Op.TANH, 32),
        (Op.ERF, 38),
        (Op.EXPM1, 38),
        (Op.LOG1P, 44),
        (Op.SINH, 40),
        (Op.COSH, 38),
    ],
)
def test_float32_takes_few_operations(op: Op, most: int) -> None:
    x = UOp.variable("x", 0, 1, float32)
    free = (Op.CONST, Op.DEFINE_VAR, Op.BITCAST)
    assert sum(node.op not in free for node in TRANSCENDENTAL[op](x).toposort()) <= most


@pytest.mark.parametrize("op", UNARY)
def test_vectors_are_computed_lane_by_lane_with_the_same_operations(op: Op) -> None:
    scalar, vector = UOp.variable("x", 0, 1, float32), UOp.variable("x", 0, 1, float32.vec(8))
    ops = [
        [
            node.op
            for node in TRANSCENDENTAL[op](x).toposort()
            if node.op not in (Op.CONST, Op.VCONST)
        ]
        for x in (scalar, vector)
    ]
    assert ops[0] == ops[1]
    assert TRANSCENDENTAL[op](vector).dtype is float32.vec(8)


@pytest.mark.parametrize("dtype", [float16, bfloat16])
def test_narrow_floats_are_computed_in_float32(dtype: DType) -> None:
    x = UOp.variable("x", 0, 1, dtype)
    result = decompose_transcendental(x.alu(Op.EXP), Target.generic())
    assert result is not None
    assert result.dtype is dtype
    assert result.op is Op.CAST
    assert result.src[0].dtype is float32


def test_a_native_op_is_unchanged() -> None:
    class HasExp:
        native_ops = frozenset({Op.EXP})
        has_fma = True

    x = UOp.variable("x", 0, 1, float32)
    assert decompose_transcendental(x.alu(Op.EXP), HasExp()) is None
    assert decompose_transcendental(x.alu(Op.LOG), HasExp()) is not None
    assert decompose_transcendental(x + 1.0, HasExp()) is None
