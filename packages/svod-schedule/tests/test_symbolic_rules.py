"""Each rule of the symbolic sets, fired by one example and kept from firing by others."""

from __future__ import annotations

import pytest

from svod_ir import Rule, UOp, count_matches, graph_rewrite, parse_graph
from svod_schedule.symbolic import GUARDED, REDUCTIONS, SYMBOLIC

NODES = """
    %v = DEFINE_VAR index ["v", -100, 100]
    %w = DEFINE_VAR index ["w", -100, 100]
    %n = DEFINE_VAR index ["n", 1, 50]
    %k = RANGE index 16 [0, LOOP]
    %j = RANGE index 4 [1, LOOP]
    %r = RANGE index %n [2, LOOP]
    %a = DEFINE_VAR bool ["a", 0, 1]
    %b = DEFINE_VAR bool ["b", 0, 1]
    %x = DEFINE_VAR i32 ["x", -100, 100]
    %y = DEFINE_VAR i32 ["y", -100, 100]
    %s = DEFINE_VAR i8 ["s", -128, 127]
    %t = DEFINE_VAR i8 ["t", -128, 127]
    %u = DEFINE_VAR u8 ["u", 0, 255]
    %big = DEFINE_VAR i32 ["big", 0, 300]
    %memory = DEFINE_REG f32 [0, 1]
    %other = DEFINE_REG f32 [1, 1]
    %half = DEFINE_REG f16 [2, 1]
    %f = load(%memory[0])
    %g = load(%other[0])
    %h = load(%half[0])
"""
RULES: dict[str, Rule] = {r.name: r for r in (SYMBOLIC + GUARDED + REDUCTIONS)}


def read(text: str) -> UOp:
    return parse_graph(f"{NODES}\n%result = {text}")


FIRES = [
    ("fold_constants", "index(3) + 4", "index(7)"),
    ("fold_constants", "i8(3) - -128", "i8(-125)"),
    (
        "fold_vector_constants",
        "(VCONST i32x2 [1, 2]) + (VCONST i32x2 [1, 2])",
        "VCONST i32x2 [2, 4]",
    ),
    ("broadcast_constant", "BROADCAST i32x2 3", "VCONST i32x2 [3, 3]"),
    ("collapse_single_value", "%k < 16", "true"),
    ("collapse_single_value", "RANGE index 1 [0, LOOP]", "index(0)"),
    ("drop_constant_counter", "REDUCE f32 %f, %k, index(0) [ADD]", "REDUCE f32 %f, %k [ADD]"),
    ("drop_constant_counter", "REDUCE f32 %f, index(0) [ADD]", "%f"),
    ("drop_zero", "%x + 0", "%x"),
    ("drop_zero", "%x << 0", "%x"),
    ("drop_one", "%x * 1", "%x"),
    ("absorb_zero", "%x * 0", "i32(0)"),
    ("absorb_zero", "%a & false", "false"),
    ("cancel_itself", "%x - %x", "i32(0)"),
    ("cancel_itself", "%a ^ %a", "false"),
    ("combine_with_itself", "max(%f, %f)", "%f"),
    ("combine_twice", "max(max(%x, %y), %x)", "max(%x, %y)"),
    ("combine_twice", "(%x | %y) & %x", "%x"),
    ("drop_mask", "%k & 15", "%k"),
    ("drop_mask", "%u & 255", "%u"),
    ("drop_mask", "%x & -1", "%x"),
    ("absorb_ones", "%x | -1", "i32(-1)"),
    ("combine_constants", "%x & 12 & 6", "%x & (i32(12) & 6)"),
    ("undo_twice", "~~%a", "%a"),
    ("undo_twice", "--%f", "%f"),
    ("maximum_by_bounds", "max(%k, -1)", "%k"),
    ("minimum_by_bounds", "min(%k, 15)", "%k"),
    ("absolute_of_positive", "abs(%k)", "%k"),
    ("shift_left_of_index", "%v << 3", "%v * 8"),
    ("shift_right_of_index", "%v >> 3", "%v // 8"),
    ("mask_of_index", "%v & 7", "%v % 8"),
    ("small_power", "%x ** 2", "%x * %x"),
    ("small_power", "%x ** 0", "i32(1)"),
    ("drop_truth", "%a & true", "%a"),
    ("absorb_truth", "%a | true", "true"),
    ("exclusive_truth", "%a ^ true", "~%a"),
    ("product_of_bools", "%a * %b", "%a & %b"),
    ("sum_of_bools", "max(%a, %b)", "%a | %b"),
    ("order_of_bools", "%a < %b", "~%a & %b"),
    ("weak_order_of_bools", "%a <= %b", "~%a | %b"),
    ("normalize_chain", "%a & %b & %a", "%a & %b"),
    ("normalize_chain", "%a | %b | ~%a", "true"),
    ("normalize_chain", "(%v < 4) & (%v < 7)", "%v < 4"),
    ("normalize_chain", "(%v < 4) | (%v < 7)", "%v < 7"),
    ("normalize_chain", "(%v < 4) & ~(%v < 7)", "false"),
    ("normalize_chain", "(%v < 7) | ~(%v < 4)", "true"),
    ("normalize_chain", "~(%v < 4) & ~(%v < 7)", "~(%v < 7)"),
    ("choose_by_constant", "where(true, %f, %g)", "%f"),
    ("choose_the_same", "where(%a, %f, %f)", "%f"),
    ("choose_by_negation", "where(~%a, %f, %g)", "where(%a, %g, %f)"),
    ("choose_twice", "where(%a, where(%a, %f, %g), %g)", "where(%a, %f, %g)"),
    ("choose_twice", "where(%a, %f, where(%a, %f, %g))", "where(%a, %f, %g)"),
    ("choose_by_both", "where(%a, where(%b, %f, %g), %g)", "where(%a & %b, %f, %g)"),
    ("choose_truth", "where(%a, %b, false)", "%a & %b"),
    ("choose_truth", "where(%a, false, true)", "~%a & true"),
    ("choose_truth", "where(%a, true, %b)", "%a | %b"),
    ("choose_truth", "where(%a, %b, true)", "~%a | %b"),
    ("choose_among_results", "where(%a, index(1), 2) + 3", "where(%a, index(1) + 3, index(2) + 3)"),
    ("choose_among_results", "3 < where(%a, index(1), 2)", "where(%a, index(3) < 1, index(3) < 2)"),
    ("never_less_than_itself", "%f < %f", "false"),
    ("never_less_than_itself", "%x != %x", "false"),
    ("always_equal_to_itself", "%x <= %x", "true"),
    ("less_or_equal", "%x <= %y", "~(%y < %x)"),
    ("compare_by_difference", "%v < %v + 1", "true"),
    ("compare_by_difference", "%v + %k < %v", "false"),
    ("move_terms", "%v + 3 < %w + 5", "%v < %w + 2"),
    ("move_terms", "%v * 4 < 10", "%v < 3"),
    ("move_terms", "%v * 4 + %j < 8", "%v < 2"),
    ("move_terms", "%v // 4 < 3", "%v < 12"),
    ("move_terms", "3 < %v", "~(%v < 4)"),
    ("move_terms", "1 < %v // 4", "~(%v < 8)"),
    ("move_terms", "%x + 1 < 8", "%x < 7"),
    ("move_equal_terms", "%v * 2 + 1 == %w * 2 + 9", "%v == %w + 4"),
    ("move_equal_terms", "%v * 2 == 5", "false"),
    ("move_equal_terms", "%v + 1 != %v", "true"),
    ("negate_equality", "~(%f == %g)", "%f != %g"),
    ("compare_with_truth", "%a == false", "~%a"),
    ("compare_with_truth", "%a != false", "%a"),
    ("compare_casts", "i32(%v) < i32(%w)", "%v < %w"),
    ("compare_cast_with_constant", "i32(%v) < 5", "%v < 5"),
    ("compare_constant_with_cast", "5 < i32(%v)", "5 < %v"),
    ("put_constant_right", "3 + %x", "%x + 3"),
    ("put_constant_right", "2 * %f", "%f * 2"),
    ("put_in_order", "max(%w, %v)", "max(%v, %w)"),
    ("normalize_sum", "%v * 2 + (%w + %v * 3) + 1 + 1", "%v * 5 + %w + 2"),
    ("normalize_sum", "(%v + 3) * 4", "%v * 4 + 12"),
    ("normalize_sum", "(%v + 1) * (%w + 1)", "%v * %w + %v + %w + 1"),
    ("normalize_sum", "%v - %w", "%v + %w * -1"),
    ("normalize_sum", "%v // 4 * 4 + %v % 4", "%v"),
    ("normalize_sum", "%v + %v // 4 * -4", "%v % 4"),
    ("normalize_sum", "%v + %v % 4 * -1", "%v // 4 * 4"),
    ("normalize_sum", "%v // 4 % 3 * 4 + %v % 4", "%v % 12"),
    ("normalize_sum", "%v // 12 * 12 + %v // 4 % 3 * 4 + %v % 4", "%v"),
    ("normalize_sum", "%v // 4 + %v // 12 * -3", "%v // 4 % 3"),
    ("normalize_sum", "%v // %n * %n + %v % %n", "%v"),
    ("merge_terms", "%x * 2 + %x * 3", "%x * 5"),
    ("merge_terms", "%x + 3 + 4", "%x + 7"),
    ("merge_terms", "%s + %s", "%s * 2"),
    ("merge_terms", "%x // 4 * 4 + %x % 4", "%x"),
    ("multiply_twice", "%x * 3 * 4", "%x * (i32(3) * 4)"),
    ("divide_by_one", "%v // 1", "%v"),
    ("modulo_one", "%v % 1", "index(0)"),
    ("divide_by_zero", "%v // 0", "index(0)"),
    ("divide_by_interval", "%j // 4", "index(0)"),
    ("divide_by_interval", "(%j * -1 + -1) // 4", "index(-1)"),
    ("modulo_by_interval", "%j % 4", "%j"),
    ("modulo_by_interval", "(%j + 8) % 4", "%j"),
    ("divide_multiples_away", "(%v * 4 + %j) // 4", "%v"),
    ("divide_multiples_away", "(%v * -4 + %j * -1 + 3) // 4", "%v * -1"),
    ("modulo_multiples_away", "(%v * 4 + %j) % 4", "%j"),
    ("divide_off_multiples", "(%v * 4 + %w + 5) // 4", "%v + (%w + 1) // 4 + 1"),
    ("modulo_off_multiples", "(%v * 7 + %w) % 4", "(%v * 3 + %w) % 4"),
    ("divide_by_common_factor", "(%v * 4 + %j) // 12", "%v // 3"),
    ("modulo_by_common_factor", "(%v * 4 + %j) % 12", "%j + %v % 3 * 4"),
    ("divide_by_negative", "%v // -4", "%v * -1 // 4"),
    ("modulo_negative", "%v % -4", "%v * -1 % 4 * -1"),
    ("divide_quotient", "%v // 4 // 3", "%v // 12"),
    ("divide_quotient", "(%v // 4 + 2) // 3", "(%v + 8) // 12"),
    ("divide_remainder", "%v % 12 // 4", "%v // 4 % 3"),
    ("modulo_remainder", "%v % 12 % 4", "%v % 4"),
    ("modulo_remainder", "(%v % 6 * 2 + %w) % 4", "(%v * 2 + %w) % 4"),
    ("divide_by_itself", "%n // %n", "index(1)"),
    ("modulo_itself", "%v % %v", "index(0)"),
    ("modulo_twice", "%v % %w % %w", "%v % %w"),
    ("divide_by_symbol", "(%v * %n + %r) // %n", "%v"),
    ("divide_by_symbol", "(%v * %n + %w) // %n", "%v + %w // %n"),
    ("modulo_symbol", "(%v * %n + %r) % %n", "%r"),
    ("modulo_symbol", "(%v * %n + %w) % %n", "%w % %n"),
    ("cast_to_same", "f32(%f)", "%f"),
    ("cast_of_cast", "f16(f32(%h))", "f16(%h)"),
    ("cast_of_cast", "f32(i64(%x))", "f32(%x)"),
    ("bitcast_of_bitcast", "BITCAST f32 (BITCAST i32 %f)", "BITCAST f32 %f"),
    ("cast_operands_to_index", "index(%x + %y)", "index(%x) + index(%y)"),
    ("cast_division_to_index", "index(%x // 4)", "index(%x) // index(i32(4))"),
    ("drop_float_zero", "%f + -0.0", "%f"),
    ("drop_float_zero", "%f - 0", "%f"),
    ("drop_float_one", "%f * 1", "%f"),
    ("drop_float_one", "%f / 1", "%f"),
    ("negate_float", "%f * -1", "-%f"),
    ("negate_float", "-0.0 - %f", "-%f"),
    ("drop_infinity", "max(%f, -inf)", "%f"),
    ("drop_infinity", "min(%f, inf)", "%f"),
    ("add_negated", "%f + -%g", "%f - %g"),
    ("subtract_negated", "%f - -%g", "%f + %g"),
    ("cancel_signs", "-%f * -%g", "%f * %g"),
    ("absolute_twice", "abs(-%f)", "abs(%f)"),
    ("absolute_twice", "abs(abs(%u))", "abs(%u)"),
    ("round_twice", "floor(trunc(%f))", "trunc(%f)"),
    ("float_power", "%f ** 2", "%f * %f"),
    ("float_power", "%f ** 0", "f32(1.0)"),
    ("float_power", "%f ** 0.5", "where(%f == -inf, inf, sqrt(%f) + 0)"),
    ("multiply_by_condition", "%x * i32(%a)", "where(%a, %x, 0)"),
    ("reduce_invariant", "REDUCE f32 %f, %k [MAX]", "%f"),
    (
        "select_by_counter",
        "REDUCE f32 where(%k == %v, %memory[%k], 0), %k [ADD]",
        "where(~(%v < 0) & (%v < 16), %memory[%v if ~(%v < 0) & (%v < 16)] + 0, 0)",
    ),
    (
        "count_by_counter",
        "REDUCE index where(%k < %v, %w, 0), %k [ADD]",
        "%w * index(max(min(16, %v), 0))",
    ),
    ("compare_choice", "where(%a, %x, 9) < 7", "%a & (%x < 7)"),
    ("compare_choice", "where(%a, 9, %x) < 7", "~%a & (%x < 7)"),
    ("negate_compared_choice", "~(where(%a, %x, -1) < 0)", "%a & ~(%x < 0)"),
    ("negate_compared_choice", "~(where(%a, -1, %x) < 0)", "~%a & ~(%x < 0)"),
    ("guard_branch", "where(%k < 5, (%k + 3) % 8, 0)", "where(%k < 5, %k + 3, 0)"),
    ("guard_branch", "where(%x < %y, where(%x < %y, %x, 3) + 1, 0)", "where(%x < %y, %x + 1, 0)"),
    ("guard_branch", "where(~%a, where(%a, %x, %y) + 1, 0)", "where(~%a, %y + 1, 0)"),
    (
        "guard_index",
        "%memory[%v // 8 if (%v < 8) & ~(%v < 0)]",
        "%memory[0 if (%v < 8) & ~(%v < 0)]",
    ),
    ("guard_clauses", "(%v < 5) & (%v + %j < 20)", "%v < 5"),
    ("guard_clauses", "%a & (where(%a, %v, 0) < 200)", "%a"),
]

DECLINES = [
    ("drop_float_zero", "-0.0 + 0.0 is 0.0", "%f + 0"),
    ("drop_float_zero", "-0.0 - -0.0 is 0.0", "%f - -0.0"),
    ("absorb_zero", "NaN * 0.0 is NaN", "%f * 0"),
    ("cancel_itself", "inf - inf is NaN", "%f - %f"),
    ("combine_twice", "min(max(x, NaN), x) is NaN", "min(max(%f, %g), %f)"),
    ("never_less_than_itself", "NaN != NaN", "%f != %f"),
    ("always_equal_to_itself", "NaN == NaN is false", "%f == %f"),
    ("drop_infinity", "max(-1, inf) is inf", "max(%f, inf)"),
    ("drop_mask", "7 does not cover 15", "%k & 7"),
    ("drop_mask", "5 is no mask of ones", "(RANGE index 5 [0, LOOP]) & 5"),
    ("move_terms", "s + 1 may wrap", "%s + 1 < 8"),
    ("move_terms", "s // 4 * 4 may be less than s", "%s < 12"),
    ("move_equal_terms", "s * 2 may wrap", "%s * 2 == 6"),
    ("divide_multiples_away", "s * 4 may wrap", "%s * 4 // 4"),
    ("divide_off_multiples", "s + 4 may wrap", "(%s + 4) // 4"),
    ("divide_by_negative", "-(-128) wraps", "%s // -4"),
    ("divide_by_itself", "0 // 0 is 0", "%v // %v"),
    ("divide_by_symbol", "w may be zero or negative", "%v * %w // %w"),
    ("divide_quotient", "4 * 50 is no int8", "%s // 4 // 50"),
    ("divide_remainder", "6 is no multiple of 4", "%v % 6 // 4"),
    ("modulo_remainder", "6 is no multiple of 4", "%v % 6 % 4"),
    ("divide_by_common_factor", "w may be larger than 4", "(%v * 4 + %w) // 12"),
    ("cast_of_cast", "int8 does not hold x", "i32(i8(%big))"),
    ("cast_of_cast", "a float beyond int8 becomes the nearest int8", "i8(f64(%big))"),
    ("cast_of_cast", "float16 rounds", "f32(f16(%f))"),
    (
        "cast_of_cast",
        "float32 rounds large integers",
        'f64(f32((DEFINE_VAR i32 ["big", 0, 1073741824])))',
    ),
    ("cast_operands_to_index", "s + t may wrap", "index(%s + %t)"),
    ("cast_operands_to_index", "u * u may wrap", "index(%u * %u)"),
    ("cast_operands_to_index", "s + t wraps, though s + t - t does not", "index(%s + %t - %t)"),
    ("compare_casts", "the cast may wrap", 'i8((DEFINE_VAR index ["big", 0, 300])) < i8(%v)'),
    ("merge_terms", "nothing merges", "%x + %y"),
    ("choose_by_both", "the branches differ", "where(%a, where(%b, %f, %g), %f)"),
    ("undo_twice", "one NEG is left alone", "-%f"),
    ("absolute_twice", "-45 wraps to 211, whose size is 211", "abs(-%u)"),
    ("compare_choice", "9 < 10 where the condition is false", "where(%a, %x, 9) < 10"),
    ("negate_compared_choice", "0 >= 0 where the condition is false", "~(where(%a, %x, 0) < 0)"),
    ("guard_branch", "the condition says nothing about the branch", "where(%j < 2, %k // 4, 0)"),
]


@pytest.mark.parametrize(("name", "before", "after"), FIRES)
def test_a_rule_fires(name: str, before: str, after: str) -> None:
    assert RULES[name].apply(read(before)) is read(after)


@pytest.mark.parametrize(("name", "reason", "before"), DECLINES)
def test_a_rule_does_not_fire_where_it_would_be_wrong(name: str, reason: str, before: str) -> None:
    assert RULES[name].apply(read(before)) is None, reason


@pytest.mark.parametrize("part", ["index(4) // 3", "index(4) % 3"])
def test_a_sum_with_a_division_of_constants_has_a_normal_form(part: str) -> None:
    assert RULES["normalize_sum"].apply(read(f"{part} + {part}")) is read(f"({part}) * 2")


def test_every_rule_has_an_example() -> None:
    assert {name for name, *_ in FIRES} == set(RULES)


def test_every_rule_has_a_name_of_its_own_and_states_itself() -> None:
    assert len(RULES) == len(SYMBOLIC) + len(GUARDED) + len(REDUCTIONS)
    assert all("->" in r.doc for r in RULES.values())


def test_rules_are_counted_by_name() -> None:
    with count_matches() as counts:
        graph_rewrite(SYMBOLIC, read("(%v * 4 + %j) // 4"))
    assert counts == {"divide_multiples_away": 1}
