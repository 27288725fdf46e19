"""Launch-size expressions: values, and every error."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svod_device import LaunchSizeError, evaluate_expression, evaluate_launch_sizes, format_expression, is_constant
from svod_dtype import float32, index, int32, int64, void
from svod_ir.ops import Op
from svod_ir.testing.nodes import alu, bind, cast
from svod_ir.uop import UOp

N = UOp.variable("n", 1, 100)
M = UOp.variable("m", -50, 50)
_LEAST = -(1 << 63)
VALUES = st.integers(-50, 50)


def const(value: int) -> UOp:
    return UOp.const(index, value)


def binary(op: Op, x: UOp, y: UOp) -> UOp:
    return UOp(op, index, (x, y))


@given(st.integers(1, 100), VALUES)
def test_operators_mean_what_they_mean_in_python(n: int, m: int) -> None:
    values = {"n": n, "m": m}
    table = {
        Op.ADD: n + m, Op.SUB: n - m, Op.MUL: n * m, Op.MAX: max(n, m), Op.MIN: min(n, m),
    }  # fmt: skip
    for op, expected in table.items():
        assert evaluate_expression(binary(op, N, M), values) == expected
    assert evaluate_expression(binary(Op.IDIV, M, N), values) == m // n
    assert evaluate_expression(binary(Op.MOD, M, N), values) == m % n
    quotient = evaluate_expression(binary(Op.CDIV, M, N), values)
    assert quotient == int(m / n)
    assert evaluate_expression(binary(Op.CMOD, M, N), values) == m - n * quotient
    assert evaluate_expression(alu(Op.NEG, M), values) == -m
    assert evaluate_expression(alu(Op.ABS, M), values) == abs(m)


def test_casts_and_after_pass_their_operand_through() -> None:
    chain = UOp(Op.AFTER, int32, (cast(UOp(Op.BITCAST, int64, (N,)), int32), UOp(Op.NOOP, void)))
    assert evaluate_expression(chain, {"n": 5}) == 5


def test_a_bind_has_its_own_value() -> None:
    assert evaluate_expression(bind(N, const(7)), {}) == 7
    with pytest.raises(LaunchSizeError) as caught:
        evaluate_expression(bind(N, const(101)), {})
    assert str(caught.value) == "launch size n=101: variable n = 101 is outside its bounds [1, 100]"


def test_a_long_chain_is_evaluated_without_recursion() -> None:
    chain = N
    for _ in range(20_000):
        chain = binary(Op.ADD, chain, N)
    assert evaluate_expression(chain, {"n": 2}) == 40_002
    assert len(format_expression(chain)) <= 200


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        (binary(Op.MUL, const(1 << 62), const(2)), f"{1 << 62} * 2: {1 << 62} * 2 = {1 << 63} overflows 64 bits"),
        (binary(Op.ADD, const(-_LEAST - 1), N), f"{-_LEAST - 1} + n: {-_LEAST - 1} + n = {-_LEAST + 2} overflows 64 bits"),
        (binary(Op.SUB, const(_LEAST), N), f"{_LEAST} - n: {_LEAST} - n = {_LEAST - 3} overflows 64 bits"),
        (binary(Op.CDIV, const(_LEAST), const(-1)), f"cdiv({_LEAST}, -1): cdiv({_LEAST}, -1) = {-_LEAST} overflows 64 bits"),
        (binary(Op.MAX, binary(Op.MUL, const(1 << 62), N), N),
         f"max(({1 << 62} * n), n): {1 << 62} * n = {3 << 62} overflows 64 bits"),
        (alu(Op.NEG, const(_LEAST)), f"-{_LEAST}: -{_LEAST} = {-_LEAST} overflows 64 bits"),
        (alu(Op.ABS, const(_LEAST)), f"abs({_LEAST}): abs({_LEAST}) = {-_LEAST} overflows 64 bits"),
        (binary(Op.IDIV, N, const(0)), "n // 0: n // 0 divides by zero"),
        (binary(Op.MOD, N, const(0)), "n % 0: n % 0 divides by zero"),
        (binary(Op.CDIV, N, const(0)), "cdiv(n, 0): cdiv(n, 0) divides by zero"),
        (binary(Op.CMOD, N, const(0)), "cmod(n, 0): cmod(n, 0) divides by zero"),
        (binary(Op.ADD, N, binary(Op.IDIV, const(1), binary(Op.SUB, N, N))), "n + (1 // (n - n)): 1 // (n - n) divides by zero"),
        (UOp.const(float32, 1.5), "1.5: 1.5 is a float, sizes are integers"),
        (cast(N, float32), "n: n is a float, sizes are integers"),
        (M, "m: variable m has no value"),
        (binary(Op.XOR, N, N), "xor(n, n): XOR is no operation of launch sizes"),
        (UOp.variable("k", 0, 3), "k: variable k = 9 is outside its bounds [0, 3]"),
    ],
)  # fmt: skip
def test_what_has_no_value_is_an_error_that_shows_the_expression(expression: UOp, problem: str) -> None:
    with pytest.raises(LaunchSizeError) as caught:
        evaluate_expression(expression, {"n": 3, "k": 9})
    assert str(caught.value) == f"launch size {problem}"


def test_sizes_are_positive() -> None:
    assert evaluate_launch_sizes((N, 4, const(2)), {"n": 3}) == (3, 4, 2)
    with pytest.raises(LaunchSizeError, match=r"launch size n - 3: dimension 1 is 0, not positive"):
        evaluate_launch_sizes((1, binary(Op.SUB, N, const(3)), 1), {"n": 3})
    with pytest.raises(LaunchSizeError, match=r"launch size -1: dimension 2 is -1, not positive"):
        evaluate_launch_sizes((1, 1, -1), {})


def test_constant_sizes_are_known_as_such() -> None:
    assert is_constant(None)
    assert is_constant((1, const(2), 3))
    assert not is_constant((1, N, 3))


def test_expressions_are_shown_in_infix_notation() -> None:
    expression = binary(Op.IDIV, binary(Op.ADD, N, const(3)), const(4))
    assert format_expression(expression) == "(n + 3) // 4"
    assert format_expression(binary(Op.MAX, N, expression)) == "max(n, ((n + 3) // 4))"
    assert format_expression(12) == "12"
