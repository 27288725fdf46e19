from __future__ import annotations

import math

import pytest

from svod_dtype import float32, index, int32
from svod_ir.errors import RuleError
from svod_ir.ops import AxisType, Op
from svod_ir.pattern import BOOL, FLOAT, INT, const, node, splat, splat_value, var
from svod_ir.ruleset import Rule, RuleSet, rule
from svod_ir.testing import nodes
from svod_ir.testing.nodes import alu
from svod_ir.uop import UOp

x, y, c = var("x"), var("y"), const("c")
V = UOp.variable("v", 0, 9)
W = UOp.variable("w", 0, 9)


def number(value: int) -> UOp:
    return UOp.const(index, value)


def add(first: UOp, second: UOp) -> UOp:
    return alu(Op.ADD, first, second)


def test_a_rule_takes_its_name_and_text_from_its_function() -> None:
    @rule(x + 0)
    def add_zero(x: UOp) -> UOp:
        """x + 0 -> x."""
        return x

    assert (add_zero.name, add_zero.doc) == ("add_zero", "x + 0 -> x.")
    assert add_zero.apply(add(V, number(0))) is V


def test_captures_are_passed_by_name_in_any_order() -> None:
    @rule((x * c) + y)
    def pick(y: UOp, c: UOp, x: UOp) -> UOp:
        return UOp.sink(y, c, x)

    actual = pick.apply(add(alu(Op.MUL, V, number(3)), W))
    assert actual is not None
    assert actual.src == (W, number(3), V)


def test_commutative_operands_match_in_both_orders() -> None:
    @rule(x + c)
    def take(x: UOp, c: UOp) -> UOp:
        return x

    assert take.apply(add(V, number(3))) is V
    assert take.apply(add(number(3), V)) is V


def test_ordered_operands_match_as_written() -> None:
    @rule((x + c).ordered())
    def take(x: UOp, c: UOp) -> UOp:
        return x

    assert take.apply(add(number(3), V)) is None


def test_subtraction_does_not_commute() -> None:
    @rule(x - c)
    def take(x: UOp, c: UOp) -> UOp:
        return x

    assert take.apply(alu(Op.SUB, number(3), V)) is None


def test_the_other_order_is_tried_if_a_function_declines_one() -> None:
    @rule(x + y)
    def larger_first(x: UOp, y: UOp) -> UOp | None:
        return x if x is W else None

    assert larger_first.apply(add(V, W)) is W


def test_inner_orders_are_tried_when_an_outer_subpattern_does_not_match() -> None:
    @rule(node(Op.MUL, x + y, x))
    def found(x: UOp, y: UOp) -> UOp:
        return y

    assert found.apply(alu(Op.MUL, add(V, W), W)) is V
    assert found.apply(alu(Op.MUL, W, add(W, V))) is V


def test_a_repeated_name_matches_the_same_node() -> None:
    @rule(x + x)
    def double(x: UOp) -> UOp:
        return x

    assert double.apply(add(V, V)) is V
    assert double.apply(add(V, W)) is None


def test_numbers_match_constants_of_their_value() -> None:
    @rule(x + 0)
    def add_zero(x: UOp) -> UOp:
        return x

    floating = nodes.register(0, 1)
    assert add_zero.apply(add(floating, UOp.const(float32, 0.0))) is floating
    assert add_zero.apply(add(floating, UOp.const(float32, -0.0))) is None
    assert add_zero.apply(add(floating, UOp.const(float32, math.nan))) is None
    assert add_zero.apply(add(V, number(1))) is None


def test_numbers_match_vectors_with_that_value_in_every_lane() -> None:
    @rule(x * 1)
    def times_one(x: UOp) -> UOp:
        return x

    vector = UOp(Op.BROADCAST, int32.vec(2), (UOp.variable("i", 0, 1, int32),))
    assert times_one.apply(alu(Op.MUL, vector, UOp.const(vector.dtype, 1))) is vector
    uneven = UOp(Op.VCONST, vector.dtype, (), (1, 2))
    assert times_one.apply(alu(Op.MUL, vector, uneven)) is None


def test_a_splat_has_one_value_in_all_lanes() -> None:
    assert splat_value(number(3)) == 3
    assert splat_value(UOp.const(float32.vec(4), 2.0)) == 2.0
    assert splat_value(UOp(Op.VCONST, float32.vec(2), (), (0.0, -0.0))) is None
    assert splat_value(UOp(Op.VCONST, int32.vec(2), (), (1, 2))) is None
    assert splat_value(V) is None

    @rule(node(Op.NEG, splat("c", FLOAT)))
    def take(c: UOp) -> UOp:
        return c

    assert take.apply(alu(Op.NEG, number(3))) is None


def test_kinds_and_conditions_restrict_a_match() -> None:
    @rule(node(Op.EQ, var("x", INT), var("y", when=lambda n: n.vmax == 9), kinds=BOOL))
    def take(x: UOp, y: UOp) -> UOp:
        return x

    floating = nodes.register(0, 1)
    assert take.apply(alu(Op.EQ, V, W)) is V
    assert take.apply(alu(Op.EQ, floating, floating)) is None
    assert take.apply(alu(Op.EQ, V, number(3))) is number(3)


def test_a_pattern_without_operands_takes_any_number_of_them() -> None:
    @rule(node(Op.SINK, name="n"))
    def first(n: UOp) -> UOp:
        return n.src[0]

    assert first.apply(UOp.sink(V)) is V
    assert RuleSet("one", (first,)).find_replacement(UOp.sink(V, W, V, W, V, W, V)) == (V, first)


def test_has_more_allows_more_operands() -> None:
    @rule(node(Op.INDEX, x, y, name="n", has_more=True))
    def memory(n: UOp, x: UOp, y: UOp) -> UOp:
        return x

    register = nodes.register(0, 1)
    assert memory.apply(register.index(V, gate=V < 3)) is register
    assert memory.apply(register.index(V)) is register
    assert memory.apply(UOp(Op.INDEX, float32, (register,))) is None


def test_a_set_of_ops_matches_each_of_them() -> None:
    @rule(node(frozenset({Op.MAX, Op.MIN}), x, x))
    def same(x: UOp) -> UOp:
        return x

    assert same.apply(alu(Op.MIN, V, V)) is V
    assert same.apply(alu(Op.ADD, V, V)) is None


def test_an_arg_is_compared() -> None:
    @rule(node(Op.RANGE, x, arg=(1, AxisType.LOOP)))
    def take(x: UOp) -> UOp:
        return x

    assert take.apply(UOp.range(4, 1, AxisType.LOOP)) is number(4)
    assert take.apply(UOp.range(4, 2, AxisType.LOOP)) is None


def test_the_context_is_passed_to_rules_that_ask_for_it() -> None:
    @rule(x + 0)
    def log(ctx: list[UOp], x: UOp) -> UOp:
        ctx.append(x)
        return x

    seen: list[UOp] = []
    log.apply(add(V, number(0)), seen)
    assert seen == [V]


def test_several_patterns_may_share_a_function() -> None:
    @rule(x + 0, x * 1)
    def neutral(x: UOp) -> UOp:
        return x

    assert neutral.apply(add(V, number(0))) is V
    assert neutral.apply(alu(Op.MUL, V, number(1))) is V


def test_every_operator_makes_a_pattern_of_its_op() -> None:
    built = {
        Op.ADD: x + y,
        Op.SUB: x - y,
        Op.MUL: x * y,
        Op.IDIV: x // y,
        Op.MOD: x % y,
        Op.FDIV: x / y,
        Op.AND: x & y,
        Op.OR: x | y,
        Op.XOR: x ^ y,
        Op.SHL: x << y,
        Op.SHR: x >> y,
        Op.LT: x < y,
        Op.LE: x <= y,
        Op.NEG: -x,
        Op.NOT: ~x,
        Op.EQ: x.eq(y),
        Op.NE: x.ne(y),
        Op.MAX: x.maximum(y),
        Op.MIN: x.minimum(y),
        Op.WHERE: x.where(x, y),
        Op.CAST: x.cast(),
    }
    assert all(pattern.ops == {op} for op, pattern in built.items())


class TestRuleSet:
    @staticmethod
    def make(name: str, result: UOp) -> Rule:
        @rule(x + c)
        def found(x: UOp, c: UOp) -> UOp:
            return result

        return Rule(name, found.patterns, found.fn, found.doc)

    def test_the_left_set_comes_first_in_a_sum(self) -> None:
        first, second = self.make("first", V), self.make("second", W)
        both = RuleSet("a", (first,)) + RuleSet("b", (second,))
        assert both.name == "a+b"
        assert both.find_replacement(add(V, number(3))) == (V, first)

    def test_a_rule_stands_in_a_sum_once(self) -> None:
        first = self.make("first", V)
        assert len(RuleSet("a", (first,)) + RuleSet("b", (first,))) == 1

    def test_a_sum_is_pure_where_both_sides_are(self) -> None:
        pure, impure = RuleSet("a", (), is_pure=True), RuleSet("b", ())
        assert (pure + pure).is_pure
        assert not (pure + impure).is_pure

    def test_a_rule_that_returns_the_node_itself_declines(self) -> None:
        @rule(node(Op.ADD, name="n"))
        def nothing(n: UOp) -> UOp:
            return n

        assert RuleSet("a", (nothing,)).find_replacement(add(V, number(3))) is None

    def test_rules_whose_operands_cannot_match_are_not_called(self) -> None:
        asked: list[UOp] = []

        @rule(node(Op.ADD, node(Op.MUL, name="m"), const(when=lambda n: asked.append(n) is None)))
        def product(m: UOp) -> UOp:
            return m

        rules = RuleSet("a", (product,))
        assert rules.find_replacement(add(V, number(3))) is None
        assert not asked
        times = alu(Op.MUL, V, W)
        assert rules.find_replacement(add(number(3), times)) == (times, product)
        assert asked == [number(3)]

    def test_kinds_of_the_root_are_part_of_the_look_up(self) -> None:
        @rule(node(Op.ADD, x, y, kinds=FLOAT))
        def first(x: UOp, y: UOp) -> UOp:
            return x

        rules = RuleSet("a", (first,))
        assert rules.find_replacement(add(V, W)) is None
        floating = nodes.register(0, 1)
        assert rules.find_replacement(add(floating, floating)) == (floating, first)


def test_a_parameter_that_the_pattern_does_not_capture_is_an_error() -> None:
    def wrong(ctx: object, x: UOp, z: UOp) -> UOp:
        return x

    with pytest.raises(RuleError) as caught:
        rule(x + y)(wrong)
    assert str(caught.value) == (
        "rule wrong has the parameter 'z', which its pattern does not capture\n"
        "  hint: captured are: x, y; a first parameter `ctx` takes the context"
    )


def test_a_rule_without_a_pattern_is_an_error() -> None:
    def wrong(x: UOp) -> UOp:
        return x

    for patterns in ((), (wrong,)):
        with pytest.raises(RuleError, match="has no pattern"):
            rule(*patterns)  # type: ignore[arg-type]
