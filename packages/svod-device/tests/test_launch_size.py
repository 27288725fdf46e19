"""Launch-size expressions: values and errors."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from svod_device import (
    LaunchSizeError,
    evaluate_expression,
    evaluate_launch_sizes,
    format_expression,
    is_constant,
)
from svod_ir import Op, UOp, parse_graph
from svod_ir.testing.nodes import alu

LEAST = -(1 << 63)
VALUES = st.integers(-50, 50)
NODES = """
    %n = DEFINE_VAR index ["n", 1, 100]
    %m = DEFINE_VAR index ["m", -50, 50]
    %k = DEFINE_VAR index ["k", 0, 3]
"""


def read(text: str) -> UOp:
    return parse_graph(f"{NODES}\n%result = {text}")


N = read("%n")


@given(st.integers(1, 100), VALUES)
def test_operators_have_python_semantics(n: int, m: int) -> None:
    quotient = int(m / n)
    table = {
        "%n + %m": n + m,
        "%n - %m": n - m,
        "%n * %m": n * m,
        "max(%n, %m)": max(n, m),
        "min(%n, %m)": min(n, m),
        "%m // %n": m // n,
        "%m % %n": m % n,
        "cdiv(%m, %n)": quotient,
        "cmod(%m, %n)": m - n * quotient,
        "-%m": -m,
        "abs(%m)": abs(m),
    }
    for text, expected in table.items():
        assert evaluate_expression(read(text), {"n": n, "m": m}) == expected, text


def test_casts_and_after_pass_their_operand_through() -> None:
    assert evaluate_expression(read("after(i32((BITCAST i64 %n)), (NOOP))"), {"n": 5}) == 5


def test_a_bind_takes_its_bound_value() -> None:
    assert evaluate_expression(read("BIND index %n, 7"), {}) == 7
    with pytest.raises(LaunchSizeError) as caught:
        evaluate_expression(read("BIND index %n, 101"), {})
    assert str(caught.value) == "launch size n=101: variable n = 101 is out of bounds [1, 100]"


def test_a_long_chain_is_evaluated_without_recursion() -> None:
    chain = N
    for _ in range(20_000):
        chain = alu(Op.ADD, chain, N)
    assert evaluate_expression(chain, {"n": 2}) == 40_002
    assert len(format_expression(chain)) <= 200


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (f"index({1 << 62}) * 2", f"{1 << 62} * 2: {1 << 62} * 2 = {1 << 63} overflows 64 bits"),
        (
            f"{-LEAST - 1} + %n",
            f"{-LEAST - 1} + n: {-LEAST - 1} + n = {-LEAST + 2} overflows 64 bits",
        ),
        (f"{LEAST} - %n", f"{LEAST} - n: {LEAST} - n = {LEAST - 3} overflows 64 bits"),
        (
            f"cdiv(index({LEAST}), -1)",
            f"cdiv({LEAST}, -1): cdiv({LEAST}, -1) = {-LEAST} overflows 64 bits",
        ),
        (
            f"max({1 << 62} * %n, %n)",
            f"max(({1 << 62} * n), n): {1 << 62} * n = {3 << 62} overflows 64 bits",
        ),
        (f"-index({LEAST})", f"-{LEAST}: -{LEAST} = {-LEAST} overflows 64 bits"),
        (f"abs(index({LEAST}))", f"abs({LEAST}): abs({LEAST}) = {-LEAST} overflows 64 bits"),
        ("%n // 0", "n // 0: n // 0 divides by zero"),
        ("%n % 0", "n % 0: n % 0 divides by zero"),
        ("cdiv(%n, 0)", "cdiv(n, 0): cdiv(n, 0) divides by zero"),
        ("cmod(%n, 0)", "cmod(n, 0): cmod(n, 0) divides by zero"),
        ("%n + 1 // (%n - %n)", "n + (1 // (n - n)): 1 // (n - n) divides by zero"),
        ("f32(1.5)", "1.5: 1.5 is a float; launch sizes are integers"),
        ("f32(%n)", "n: n is a float; launch sizes are integers"),
        ("%m", "m: variable m has no value"),
        ("%n ^ %n", "xor(n, n): XOR is not supported in launch sizes"),
        ("%k", "k: variable k = 9 is out of bounds [0, 3]"),
    ],
)
def test_an_expression_without_a_value_is_an_error_that_shows_it(text: str, problem: str) -> None:
    with pytest.raises(LaunchSizeError) as caught:
        evaluate_expression(read(text), {"n": 3, "k": 9})
    assert str(caught.value) == f"launch size {problem}"


def test_sizes_are_positive() -> None:
    assert evaluate_launch_sizes((N, 4, read("index(2)")), {"n": 3}) == (3, 4, 2)
    with pytest.raises(LaunchSizeError, match=r"launch size n - 3: dimension 1 is 0, not positive"):
        evaluate_launch_sizes((1, read("%n - 3"), 1), {"n": 3})
    with pytest.raises(LaunchSizeError, match=r"launch size -1: dimension 2 is -1, not positive"):
        evaluate_launch_sizes((1, 1, -1), {})


def test_constant_sizes_are_recognized() -> None:
    assert is_constant(None)
    assert is_constant((1, read("index(2)"), 3))
    assert not is_constant((1, N, 3))


def test_expressions_are_formatted_in_infix_notation() -> None:
    assert format_expression(read("(%n + 3) // 4")) == "(n + 3) // 4"
    assert format_expression(read("max(%n, (%n + 3) // 4)")) == "max(n, ((n + 3) // 4))"
    assert format_expression(12) == "12"
