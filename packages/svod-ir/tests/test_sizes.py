"""Symbolic sizes: equal sizes are one node, and bounds hold for all values of the variables."""

from __future__ import annotations

import operator
from collections.abc import Mapping

import pytest
from hypothesis import given, strategies as st

from svod_dtype import index
from svod_ir._size_text import format_shape, format_size
from svod_ir.errors import BroadcastError, OperandError, UndecidedError
from svod_ir.ops import Op
from svod_ir.sizes import (
    bounds_of_size,
    describe_size,
    divide_size,
    is_known_at_most,
    max_size,
    normalize_size,
    product,
)
from svod_ir.testing.nodes import bind
from svod_ir.uop import SInt, UOp

N, M = UOp.variable("n", 1, 12), UOp.variable("m", 0, 7)
VALUES = [{"n": n, "m": m} for n in (1, 2, 5, 12) for m in (0, 1, 3, 7)]
_OPS = {
    Op.ADD: operator.add,
    Op.SUB: operator.sub,
    Op.MUL: operator.mul,
    Op.IDIV: operator.floordiv,
    Op.MOD: operator.mod,
    Op.MAX: max,
    Op.MIN: min,
}


def value_of(size: SInt, values: Mapping[str, int]) -> int:
    if isinstance(size, int):
        return size
    match size.op:
        case Op.CONST:
            return size.arg
        case Op.DEFINE_VAR:
            return values[size.arg[0]]
        case Op.BIND:
            return value_of(size.src[0], values)
        case op:
            return _OPS[op](*(value_of(s, values) for s in size.src))


def sizes() -> st.SearchStrategy[UOp]:
    leaves = st.sampled_from([N, M]) | st.integers(-3, 9).map(lambda v: UOp.const(index, v))

    def combine(inner: st.SearchStrategy[UOp]) -> st.SearchStrategy[UOp]:
        pairs = st.tuples(st.sampled_from([Op.ADD, Op.SUB, Op.MUL, Op.MAX, Op.MIN]), inner, inner)
        divided = st.tuples(
            st.sampled_from([Op.IDIV, Op.MOD]),
            inner,
            st.integers(1, 5).map(lambda v: UOp.const(index, v)),
        )
        return (pairs | divided).map(lambda p: UOp(p[0], index, p[1:]))

    return st.recursive(leaves, combine, max_leaves=8)


@given(sizes())
def test_the_normal_form_has_the_same_value_and_is_idempotent(size: UOp) -> None:
    normal = normalize_size(size)
    assert [value_of(normal, v) for v in VALUES] == [value_of(size, v) for v in VALUES]
    assert isinstance(normal, int) or normalize_size(normal) is normal


@given(sizes())
def test_bounds_hold_for_all_values(size: UOp) -> None:
    low, high = bounds_of_size(size)
    assert all(low <= value_of(size, v) <= high for v in VALUES)
    assert max_size(size) >= max(value_of(size, v) for v in VALUES)


@given(sizes(), sizes())
def test_is_known_at_most_is_sound(size: UOp, limit: UOp) -> None:
    if is_known_at_most(size, limit):
        assert all(value_of(size, v) <= value_of(limit, v) for v in VALUES)


@given(sizes(), sizes())
def test_a_quotient_times_the_divisor_is_the_size(size: UOp, divisor: UOp) -> None:
    total = product((size, divisor))
    for expected in (size, total):
        quotient = divide_size(expected, divisor)
        if quotient is not None:
            assert all(
                value_of(quotient, v) * value_of(divisor, v) == value_of(expected, v)
                for v in VALUES
            )


@given(sizes())
def test_binding_variables_keeps_the_order_of_the_terms(size: UOp) -> None:
    bound = {v: bind(v, 5) for v in (N, M)}
    free = {b: v for v, b in bound.items()}
    normal = normalize_size(size.substitute(bound))
    assert isinstance(normal, int) or normal.substitute(free) is normalize_size(size)


@pytest.mark.parametrize(
    ("size", "text"),
    [
        ((N + 1) * 2 - N, "n + 2"),
        (N * 4 // 4, "n"),
        ((N * 2 + 5) // 2, "n + 2"),
        ((N * 6 + 5) % 3, "2"),
        (N.maximum(N + 1), "n + 1"),
        (N.minimum(N + 1), "n"),
        (N.minimum(20), "n"),
        (N - (N - 3).maximum(0), "min(3, n)"),
        (N - N.minimum(3), "max(n - 3, 0)"),
        (M + N.maximum(5) - M, "max(5, n)"),
        (N + (M - N).maximum(0), "max(m, n)"),
        (N.minimum(2) + (N - 2).maximum(0), "n"),
        (M.maximum(N) + M.minimum(N), "m + n"),
        (M - N, "m - n"),
        (N * M - M * N, "0"),
        ((N + M) * (N - M), "n*n - m*m"),
        (N // 3 * 3, "3*(n//3)"),
        ((N * M) // 3 % 2, "((m*n)//3) % 2"),
    ],
    ids=str,
)
def test_equal_sizes_have_one_form(size: UOp, text: str) -> None:
    assert format_size(normalize_size(size)) == text


def test_sizes_are_compared_through_divisions_and_choices() -> None:
    assert is_known_at_most(N // 2, N)
    assert is_known_at_most(N.minimum(M), M)
    assert is_known_at_most(M, N.maximum(M))
    assert is_known_at_most(N - 1, N)
    assert not is_known_at_most(M, N)
    assert divide_size(N * M * 6, N * 2) is normalize_size(M * 3)
    assert divide_size((N + 3) * 4, N + 3) == 4
    assert divide_size(N, 2) is None
    assert divide_size(6, 0) is None


def test_errors_show_sizes_as_they_are_written() -> None:
    assert format_shape((N, 3, N * 2 + 1)) == "(n, 3, 2*n + 1)"
    error = BroadcastError(left=(N, 3), right=(M, 3), axis=-2)
    assert str(error).startswith(
        "operands could not be broadcast together with shapes (n, 3) and (m, 3): axis -2 has sizes n and m"
    )
    assert format_shape((N * M,)) == "(m*n,)"


def test_a_size_of_bound_variables_shows_itself_and_its_value():
    n = bind(N, 3)
    assert repr((n, 4)) == "(n=3, 4)"
    assert repr((normalize_size(n * 2 + 1),)) == "(2*n + 1=7,)"
    assert describe_size(5) == "5"
    assert describe_size(N * 2) == "2*n"
    assert describe_size(N * 2, 6) == "2*n=6"
    # Nodes of kernels are displayed as nodes.
    assert repr(N + 1).startswith("ADD(DEFINE_VAR, CONST)")


def test_int_of_a_varying_size_is_an_error():
    n = UOp.variable("n", 1, 8)
    with pytest.raises(
        OperandError,
        match=r"^int: expected a constant, got the size 2\*n \+ 1\n  hint: use the size without int",
    ):
        int(n * 2 + 1)
    assert int(UOp.const(n.dtype, 3)) == 3


def test_a_comparison_in_an_if_must_be_decided_by_bounds():
    assert N < 1000
    assert not N * 2 > 1000
    assert (N == N) is True
    with pytest.raises(UndecidedError, match=r"^n < 5 holds for some values"):
        bool(N < 5)
    with pytest.raises(UndecidedError, match="n < 3"):
        max(N, 3)
    with pytest.raises(UndecidedError, match="n != m"):
        bool(N.ne(M))
