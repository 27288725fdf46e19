"""Each rule of the symbolic sets, fired by one example and kept from firing by others."""

from __future__ import annotations

import math

import pytest

from svod_dtype import DType, bool_, float16, float32, float64, index, int8, int32, int64, uint8
from svod_ir.ops import COMPARISON, AxisType, Op
from svod_ir.rewrite import count_matches, graph_rewrite
from svod_ir.ruleset import Rule
from svod_ir.testing.nodes import reduce_over, register
from svod_ir.uop import UOp
from svod_schedule.symbolic import GUARDED, REDUCTIONS, SYMBOLIC

V = UOp.variable("v", -100, 100)
W = UOp.variable("w", -100, 100)
N = UOp.variable("n", 1, 50)
K = UOp.range(16, 0, AxisType.LOOP)
J = UOp.range(4, 1, AxisType.LOOP)
R = UOp.range(N, 2, AxisType.LOOP)
A, B = UOp.variable("a", 0, 1, bool_), UOp.variable("b", 0, 1, bool_)
X, Y = UOp.variable("x", -100, 100, int32), UOp.variable("y", -100, 100, int32)
S, T = UOp.variable("s", -128, 127, int8), UOp.variable("t", -128, 127, int8)
U = UOp.variable("u", 0, 255, uint8)
F = UOp(Op.LOAD, float32, (register(0, 1).index(UOp.const(index, 0)),))
G = UOp(Op.LOAD, float32, (register(1, 1).index(UOp.const(index, 0)),))
H = UOp(Op.LOAD, float16, (register(2, 1, float16).index(UOp.const(index, 0)),))

RULES: dict[str, Rule] = {r.name: r for r in (SYMBOLIC + GUARDED + REDUCTIONS)}


def apply(op: Op, *operands: UOp | bool | int | float) -> UOp:
    """A node without any folding; numbers take the dtype of the last node."""
    dtype = next(o.dtype for o in reversed(operands) if isinstance(o, UOp))
    src = tuple(o if isinstance(o, UOp) else UOp.const(dtype, o) for o in operands)
    return UOp(op, bool_ if op in COMPARISON else dtype, src)


def add(*operands: UOp | int | float) -> UOp:
    total, *others = operands
    for other in others:
        total = apply(Op.ADD, total, other)
    assert isinstance(total, UOp)
    return total


def mul(x: UOp, y: UOp | int | float) -> UOp:
    return apply(Op.MUL, x, y)


def div(x: UOp, y: UOp | int) -> UOp:
    return apply(Op.IDIV, x, y)


def mod(x: UOp, y: UOp | int) -> UOp:
    return apply(Op.MOD, x, y)


def lt(x: UOp | int, y: UOp | int) -> UOp:
    return apply(Op.LT, x, y)


def no(x: UOp) -> UOp:
    return UOp(Op.NOT, x.dtype, (x,))


def neg(x: UOp) -> UOp:
    return UOp(Op.NEG, x.dtype, (x,))


def where(condition: UOp, x: UOp | bool | int | float, y: UOp | bool | int | float) -> UOp:
    dtype = next((o.dtype for o in (x, y) if isinstance(o, UOp)), index)
    return UOp(Op.WHERE, dtype, (condition, *(o if isinstance(o, UOp) else UOp.const(dtype, o) for o in (x, y))))


def to(x: UOp, dtype: DType) -> UOp:
    return UOp(Op.CAST, dtype, (x,))


def number(value: int, dtype: DType = index) -> UOp:
    return UOp.const(dtype, value)


TRUE, FALSE = UOp.const(bool_, True), UOp.const(bool_, False)
MEMORY = F.src[0].src[0]
INSIDE = apply(Op.AND, no(lt(V, 0)), lt(V, 16))
LANES = UOp(Op.VCONST, int32.vec(2), (), (1, 2))

FIRES: list[tuple[str, UOp, UOp]] = [
    ("fold_constants", add(number(3), number(4)), number(7)),
    ("fold_constants", apply(Op.SUB, number(3, int8), number(-128, int8)), number(-125, int8)),
    ("fold_vector_constants", UOp(Op.ADD, LANES.dtype, (LANES, LANES)), UOp(Op.VCONST, LANES.dtype, (), (2, 4))),
    ("broadcast_constant", UOp(Op.BROADCAST, int32.vec(2), (number(3, int32),)), UOp.const(int32.vec(2), 3)),
    ("collapse_single_value", lt(K, 16), TRUE),
    ("collapse_single_value", UOp.range(1, 0, AxisType.LOOP), number(0)),
    ("drop_constant_counter", reduce_over(F, K, number(0)), reduce_over(F, K)),
    ("drop_constant_counter", reduce_over(F, number(0)), F),
    ("drop_zero", add(X, 0), X),
    ("drop_zero", apply(Op.SHL, X, 0), X),
    ("drop_one", mul(X, 1), X),
    ("absorb_zero", mul(X, 0), number(0, int32)),
    ("absorb_zero", apply(Op.AND, A, FALSE), FALSE),
    ("cancel_itself", apply(Op.SUB, X, X), number(0, int32)),
    ("cancel_itself", apply(Op.XOR, A, A), FALSE),
    ("combine_with_itself", apply(Op.MAX, F, F), F),
    ("combine_twice", apply(Op.MAX, apply(Op.MAX, X, Y), X), apply(Op.MAX, X, Y)),
    ("combine_twice", apply(Op.AND, apply(Op.OR, X, Y), X), X),
    ("drop_mask", apply(Op.AND, K, 15), K),
    ("drop_mask", apply(Op.AND, U, 255), U),
    ("drop_mask", apply(Op.AND, X, -1), X),
    ("absorb_ones", apply(Op.OR, X, -1), number(-1, int32)),
    ("combine_constants", apply(Op.AND, apply(Op.AND, X, 12), 6), UOp(Op.AND, int32, (X, apply(Op.AND, number(12, int32), 6)))),
    ("undo_twice", no(no(A)), A),
    ("undo_twice", neg(neg(F)), F),
    ("maximum_by_bounds", apply(Op.MAX, K, -1), K),
    ("minimum_by_bounds", apply(Op.MIN, K, 15), K),
    ("absolute_of_positive", UOp(Op.ABS, index, (K,)), K),
    ("shift_left_of_index", apply(Op.SHL, V, 3), mul(V, 8)),
    ("shift_right_of_index", apply(Op.SHR, V, 3), div(V, 8)),
    ("mask_of_index", apply(Op.AND, V, 7), mod(V, 8)),
    ("small_power", apply(Op.POW, X, 2), mul(X, X)),
    ("small_power", apply(Op.POW, X, 0), number(1, int32)),
    ("drop_truth", apply(Op.AND, A, TRUE), A),
    ("absorb_truth", apply(Op.OR, A, TRUE), TRUE),
    ("exclusive_truth", apply(Op.XOR, A, TRUE), no(A)),
    ("product_of_bools", mul(A, B), apply(Op.AND, A, B)),
    ("sum_of_bools", apply(Op.MAX, A, B), apply(Op.OR, A, B)),
    ("order_of_bools", lt(A, B), apply(Op.AND, no(A), B)),
    ("weak_order_of_bools", apply(Op.LE, A, B), apply(Op.OR, no(A), B)),
    ("normalize_chain", apply(Op.AND, apply(Op.AND, A, B), A), apply(Op.AND, A, B)),
    ("normalize_chain", apply(Op.OR, apply(Op.OR, A, B), no(A)), TRUE),
    ("normalize_chain", apply(Op.AND, lt(V, 4), lt(V, 7)), lt(V, 4)),
    ("normalize_chain", apply(Op.OR, lt(V, 4), lt(V, 7)), lt(V, 7)),
    ("normalize_chain", apply(Op.AND, lt(V, 4), no(lt(V, 7))), FALSE),
    ("normalize_chain", apply(Op.OR, lt(V, 7), no(lt(V, 4))), TRUE),
    ("normalize_chain", apply(Op.AND, no(lt(V, 4)), no(lt(V, 7))), no(lt(V, 7))),
    ("choose_by_constant", where(TRUE, F, G), F),
    ("choose_the_same", where(A, F, F), F),
    ("choose_by_negation", where(no(A), F, G), where(A, G, F)),
    ("choose_twice", where(A, where(A, F, G), G), where(A, F, G)),
    ("choose_twice", where(A, F, where(A, F, G)), where(A, F, G)),
    ("choose_by_both", where(A, where(B, F, G), G), where(apply(Op.AND, A, B), F, G)),
    ("choose_truth", where(A, B, FALSE), apply(Op.AND, A, B)),
    ("choose_truth", where(A, FALSE, TRUE), apply(Op.AND, no(A), TRUE)),
    ("choose_truth", where(A, TRUE, B), apply(Op.OR, A, B)),
    ("choose_truth", where(A, B, TRUE), apply(Op.OR, no(A), B)),
    ("choose_among_results", add(where(A, 1, 2), 3), where(A, add(number(1), 3), add(number(2), 3))),
    ("choose_among_results", lt(3, where(A, 1, 2)), UOp(Op.WHERE, bool_, (A, lt(3, number(1)), lt(3, number(2))))),
    ("never_less_than_itself", lt(F, F), FALSE),
    ("never_less_than_itself", apply(Op.NE, X, X), FALSE),
    ("always_equal_to_itself", apply(Op.LE, X, X), TRUE),
    ("less_or_equal", apply(Op.LE, X, Y), no(lt(Y, X))),
    ("compare_by_difference", lt(V, add(V, 1)), TRUE),
    ("compare_by_difference", lt(add(V, K), V), FALSE),
    ("move_terms", lt(add(V, 3), add(W, 5)), lt(V, add(W, 2))),
    ("move_terms", lt(mul(V, 4), 10), lt(V, 3)),
    ("move_terms", lt(add(mul(V, 4), J), 8), lt(V, 2)),
    ("move_terms", lt(div(V, 4), 3), lt(V, 12)),
    ("move_terms", lt(3, V), no(lt(V, 4))),
    ("move_terms", lt(1, div(V, 4)), no(lt(V, 8))),
    ("move_terms", lt(add(X, 1), 8), lt(X, 7)),
    ("move_equal_terms", apply(Op.EQ, add(mul(V, 2), 1), add(mul(W, 2), 9)), apply(Op.EQ, V, add(W, 4))),
    ("move_equal_terms", apply(Op.EQ, mul(V, 2), number(5)), FALSE),
    ("move_equal_terms", apply(Op.NE, add(V, 1), V), TRUE),
    ("negate_equality", no(apply(Op.EQ, F, G)), apply(Op.NE, F, G)),
    ("compare_with_truth", apply(Op.EQ, A, FALSE), no(A)),
    ("compare_with_truth", apply(Op.NE, A, FALSE), A),
    ("compare_casts", lt(to(V, int32), to(W, int32)), lt(V, W)),
    ("compare_cast_with_constant", lt(to(V, int32), number(5, int32)), lt(V, 5)),
    ("compare_constant_with_cast", lt(number(5, int32), to(V, int32)), lt(5, V)),
    ("put_constant_right", add(number(3, int32), X), add(X, 3)),
    ("put_constant_right", mul(UOp.const(float32, 2.0), F), mul(F, 2.0)),
    ("put_in_order", apply(Op.MAX, W, V), apply(Op.MAX, V, W)),
    ("normalize_sum", add(mul(V, 2), add(W, mul(V, 3)), 1, 1), add(mul(V, 5), W, 2)),
    ("normalize_sum", mul(add(V, 3), 4), add(mul(V, 4), 12)),
    ("normalize_sum", mul(add(V, 1), add(W, 1)), add(mul(V, W), V, W, 1)),
    ("normalize_sum", apply(Op.SUB, V, W), add(V, mul(W, -1))),
    ("normalize_sum", add(mul(div(V, 4), 4), mod(V, 4)), V),
    ("normalize_sum", add(V, mul(div(V, 4), -4)), mod(V, 4)),
    ("normalize_sum", add(V, mul(mod(V, 4), -1)), mul(div(V, 4), 4)),
    ("normalize_sum", add(mul(mod(div(V, 4), 3), 4), mod(V, 4)), mod(V, 12)),
    ("normalize_sum", add(mul(div(V, 12), 12), mul(mod(div(V, 4), 3), 4), mod(V, 4)), V),
    ("normalize_sum", add(div(V, 4), mul(div(V, 12), -3)), mod(div(V, 4), 3)),
    ("normalize_sum", add(mul(div(V, N), N), mod(V, N)), V),
    ("merge_terms", add(mul(X, 2), mul(X, 3)), mul(X, 5)),
    ("merge_terms", add(add(X, 3), 4), add(X, 7)),
    ("merge_terms", add(S, S), mul(S, 2)),
    ("merge_terms", add(mul(div(X, 4), 4), mod(X, 4)), X),
    ("multiply_twice", mul(mul(X, 3), 4), UOp(Op.MUL, int32, (X, mul(number(3, int32), 4)))),
    ("divide_by_one", div(V, 1), V),
    ("modulo_one", mod(V, 1), number(0)),
    ("divide_by_zero", div(V, 0), number(0)),
    ("divide_by_interval", div(J, 4), number(0)),
    ("divide_by_interval", div(add(mul(J, -1), -1), 4), number(-1)),
    ("modulo_by_interval", mod(J, 4), J),
    ("modulo_by_interval", mod(add(J, 8), 4), J),
    ("divide_multiples_away", div(add(mul(V, 4), J), 4), V),
    ("divide_multiples_away", div(add(mul(V, -4), mul(J, -1), 3), 4), mul(V, -1)),
    ("modulo_multiples_away", mod(add(mul(V, 4), J), 4), J),
    ("divide_off_multiples", div(add(mul(V, 4), W, 5), 4), add(V, div(add(W, 1), 4), 1)),
    ("modulo_off_multiples", mod(add(mul(V, 7), W), 4), mod(add(mul(V, 3), W), 4)),
    ("divide_by_common_factor", div(add(mul(V, 4), J), 12), div(V, 3)),
    ("modulo_by_common_factor", mod(add(mul(V, 4), J), 12), add(J, mul(mod(V, 3), 4))),
    ("divide_by_negative", div(V, -4), div(mul(V, -1), 4)),
    ("modulo_negative", mod(V, -4), mul(mod(mul(V, -1), 4), -1)),
    ("divide_quotient", div(div(V, 4), 3), div(V, 12)),
    ("divide_quotient", div(add(div(V, 4), 2), 3), div(add(V, 8), 12)),
    ("divide_remainder", div(mod(V, 12), 4), mod(div(V, 4), 3)),
    ("modulo_remainder", mod(mod(V, 12), 4), mod(V, 4)),
    ("modulo_remainder", mod(add(mul(mod(V, 6), 2), W), 4), mod(add(mul(V, 2), W), 4)),
    ("divide_by_itself", div(N, N), number(1)),
    ("modulo_itself", mod(V, V), number(0)),
    ("modulo_twice", mod(mod(V, W), W), mod(V, W)),
    ("divide_by_symbol", div(add(mul(V, N), R), N), V),
    ("divide_by_symbol", div(add(mul(V, N), W), N), add(V, div(W, N))),
    ("modulo_symbol", mod(add(mul(V, N), R), N), R),
    ("modulo_symbol", mod(add(mul(V, N), W), N), mod(W, N)),
    ("cast_to_same", to(F, float32), F),
    ("cast_of_cast", to(to(H, float32), float16), UOp(Op.CAST, float16, (H,))),
    ("cast_of_cast", to(to(X, int64), float32), to(X, float32)),
    ("bitcast_of_bitcast", UOp(Op.BITCAST, float32, (UOp(Op.BITCAST, int32, (F,)),)), UOp(Op.BITCAST, float32, (F,))),
    ("cast_operands_to_index", to(add(X, Y), index), add(to(X, index), to(Y, index))),
    ("cast_division_to_index", to(div(X, 4), index), div(to(X, index), to(number(4, int32), index))),
    ("drop_float_zero", add(F, -0.0), F),
    ("drop_float_zero", apply(Op.SUB, F, 0.0), F),
    ("drop_float_one", mul(F, 1.0), F),
    ("drop_float_one", apply(Op.FDIV, F, 1.0), F),
    ("negate_float", mul(F, -1.0), neg(F)),
    ("negate_float", apply(Op.SUB, UOp.const(float32, -0.0), F), neg(F)),
    ("drop_infinity", apply(Op.MAX, F, -math.inf), F),
    ("drop_infinity", apply(Op.MIN, F, math.inf), F),
    ("add_negated", add(F, neg(G)), apply(Op.SUB, F, G)),
    ("subtract_negated", apply(Op.SUB, F, neg(G)), add(F, G)),
    ("cancel_signs", mul(neg(F), neg(G)), mul(F, G)),
    ("absolute_twice", UOp(Op.ABS, float32, (neg(F),)), UOp(Op.ABS, float32, (F,))),
    ("absolute_twice", UOp(Op.ABS, uint8, (UOp(Op.ABS, uint8, (U,)),)), UOp(Op.ABS, uint8, (U,))),
    ("round_twice", UOp(Op.FLOOR, float32, (UOp(Op.TRUNC, float32, (F,)),)), UOp(Op.TRUNC, float32, (F,))),
    ("float_power", apply(Op.POW, F, 2.0), mul(F, F)),
    ("float_power", apply(Op.POW, F, 0.0), UOp.const(float32, 1.0)),
    ("multiply_by_condition", mul(X, to(A, int32)), where(A, X, 0)),
    ("reduce_invariant", reduce_over(F, K, op=Op.MAX), F),
    ("select_by_counter", reduce_over(where(apply(Op.EQ, K, V), MEMORY.index(K), 0.0), K),
     where(INSIDE, add(MEMORY.index(V, gate=INSIDE), 0.0), 0.0)),
    ("count_by_counter", reduce_over(where(lt(K, V), W, 0), K),
     mul(W, to(apply(Op.MAX, apply(Op.MIN, number(16), V), 0), index))),
    ("guard_branch", where(lt(K, 5), mod(add(K, 3), 8), number(0)), where(lt(K, 5), add(K, 3), number(0))),
    ("guard_index", F.src[0].src[0].index(div(V, 8), gate=apply(Op.AND, lt(V, 8), no(lt(V, 0)))),
     F.src[0].src[0].index(number(0), gate=apply(Op.AND, lt(V, 8), no(lt(V, 0))))),
    ("guard_clauses", apply(Op.AND, lt(V, 5), lt(add(V, J), 20)), lt(V, 5)),
]  # fmt: skip

DECLINES: list[tuple[str, str, UOp]] = [
    ("drop_float_zero", "-0.0 + 0.0 is 0.0", add(F, 0.0)),
    ("drop_float_zero", "-0.0 - -0.0 is 0.0", apply(Op.SUB, F, -0.0)),
    ("absorb_zero", "NaN * 0.0 is NaN", mul(F, 0.0)),
    ("cancel_itself", "inf - inf is NaN", apply(Op.SUB, F, F)),
    ("combine_twice", "min(max(x, NaN), x) is NaN", apply(Op.MIN, apply(Op.MAX, F, G), F)),
    ("never_less_than_itself", "NaN != NaN", apply(Op.NE, F, F)),
    ("always_equal_to_itself", "NaN == NaN is false", apply(Op.EQ, F, F)),
    ("drop_infinity", "max(-1, inf) is inf", apply(Op.MAX, F, math.inf)),
    ("drop_mask", "7 does not cover 15", apply(Op.AND, K, 7)),
    ("drop_mask", "5 is no mask of ones", apply(Op.AND, UOp.range(5, 0, AxisType.LOOP), 5)),
    ("move_terms", "s + 1 may wrap", lt(add(S, 1), 8)),
    ("move_terms", "s // 4 * 4 may be less than s", lt(S, 12)),
    ("move_equal_terms", "s * 2 may wrap", apply(Op.EQ, mul(S, 2), number(6, int8))),
    ("divide_multiples_away", "s * 4 may wrap", div(mul(S, 4), 4)),
    ("divide_off_multiples", "s + 4 may wrap", div(add(S, 4), 4)),
    ("divide_by_negative", "-(-128) wraps", div(S, -4)),
    ("divide_by_itself", "0 // 0 is 0", div(V, V)),
    ("divide_by_symbol", "w may be zero or negative", div(mul(V, W), W)),
    ("divide_quotient", "4 * 50 is no int8", div(div(S, 4), 50)),
    ("divide_remainder", "6 is no multiple of 4", div(mod(V, 6), 4)),
    ("modulo_remainder", "6 is no multiple of 4", mod(mod(V, 6), 4)),
    ("divide_by_common_factor", "w may be larger than 4", div(add(mul(V, 4), W), 12)),
    ("cast_of_cast", "int8 does not hold x", to(to(UOp.variable("big", 0, 300, int32), int8), int32)),
    ("cast_of_cast", "a float beyond int8 becomes the nearest int8", to(to(UOp.variable("big", 0, 300, int32), float64), int8)),
    ("cast_of_cast", "float16 rounds", to(to(F, float16), float32)),
    ("cast_of_cast", "float32 rounds large integers", to(to(UOp.variable("big", 0, 1 << 30, int32), float32), float64)),
    ("cast_operands_to_index", "s + t may wrap", to(add(S, T), index)),
    ("cast_operands_to_index", "u * u may wrap", to(mul(U, U), index)),
    ("cast_operands_to_index", "s + t wraps, though s + t - t does not", to(apply(Op.SUB, add(S, T), T), index)),
    ("compare_casts", "the cast may wrap", lt(to(UOp.variable("big", 0, 300), int8), to(V, int8))),
    ("merge_terms", "nothing merges", add(X, Y)),
    ("choose_by_both", "the branches differ", where(A, where(B, F, G), F)),
    ("undo_twice", "one NEG is left alone", neg(F)),
    ("absolute_twice", "-45 wraps to 211, whose size is 211", UOp(Op.ABS, uint8, (neg(U),))),
    ("guard_branch", "the condition says nothing about the branch", where(lt(J, 2), div(K, 4), number(0))),
]  # fmt: skip


@pytest.mark.parametrize(("name", "before", "after"), FIRES, ids=[f"{n}-{i}" for i, (n, *_) in enumerate(FIRES)])
def test_a_rule_fires(name: str, before: UOp, after: UOp) -> None:
    assert RULES[name].apply(before) is after


@pytest.mark.parametrize(("name", "reason", "before"), DECLINES, ids=[f"{n}: {why}" for n, why, _ in DECLINES])
def test_a_rule_does_not_fire_where_it_would_be_wrong(name: str, reason: str, before: UOp) -> None:
    assert RULES[name].apply(before) is None, reason


@pytest.mark.parametrize("op", [Op.IDIV, Op.MOD], ids=str)
def test_a_sum_with_a_division_of_constants_has_a_normal_form(op: Op) -> None:
    part = apply(op, number(4), 3)
    assert RULES["normalize_sum"].apply(add(part, part)) is mul(part, 2)


def test_every_rule_has_an_example() -> None:
    assert {name for name, *_ in FIRES} == set(RULES)


def test_every_rule_has_a_name_of_its_own_and_states_itself() -> None:
    assert len(RULES) == len(SYMBOLIC) + len(GUARDED) + len(REDUCTIONS)
    assert all("->" in r.doc for r in RULES.values())


def test_rules_are_counted_by_name() -> None:
    with count_matches() as counts:
        graph_rewrite(SYMBOLIC, div(add(mul(V, 4), J), 4))
    assert counts == {"divide_multiples_away": 1}
