from __future__ import annotations

import gc

import pytest

from svod_dtype import index
from svod_ir.errors import RewriteError, RuleError
from svod_ir.ops import Op
from svod_ir.pattern import const, node, var
from svod_ir.rewrite import Match, clear_rewrite_cache, count_matches, graph_rewrite, watch_matches
from svod_ir.ruleset import Rule, RuleSet, rule
from svod_ir.testing.nodes import alu
from svod_ir.uop import UOp

x, c, d = var("x"), const("c"), const("d")
V = UOp.variable("v", 0, 9)
W = UOp.variable("w", 0, 9)


def number(value: int) -> UOp:
    return UOp.const(index, value)


def add(first: UOp, second: UOp) -> UOp:
    return alu(Op.ADD, first, second)


def unary(op: Op, operand: UOp) -> UOp:
    return UOp(op, index, (operand,))


@rule(x + 0)
def add_zero(x: UOp) -> UOp:
    """x + 0 -> x."""
    return x


@rule((x + c) + d)
def add_twice(x: UOp, c: UOp, d: UOp) -> UOp:
    """(x + c) + d -> x + (c + d)."""
    return add(x, add(c, d))


@rule(c + d)
def fold(c: UOp, d: UOp) -> UOp:
    """c + d -> their sum."""
    return number(c.arg + d.arg)


@rule(node(Op.NEG, x))
def divide_by_zero(x: UOp) -> UOp:
    """-x -> an error."""
    return number(1 // 0)


@rule(node(Op.NEG, x))
def neg_to_abs(x: UOp) -> UOp:
    """-x -> abs(x)."""
    return unary(Op.ABS, x)


@rule(node(Op.ABS, x))
def abs_to_neg(x: UOp) -> UOp:
    """abs(x) -> -x."""
    return unary(Op.NEG, x)


@rule(node(Op.SQRT, name="n"))
def wrap(n: UOp) -> UOp:
    """sqrt(x) -> sqrt(sqrt(x))."""
    return unary(Op.SQRT, n)


@rule(node(Op.EXP, x + c))
def grow(x: UOp, c: UOp) -> UOp:
    """exp(x + c) -> exp(x + (c + 1))."""
    return unary(Op.EXP, add(x, number(c.arg + 1)))


SUMS = RuleSet("sums", (add_zero, fold, add_twice))
BOTH_WAYS = pytest.mark.parametrize("bottom_up", [False, True])


def test_rewriting_reaches_a_fixed_point() -> None:
    graph = add(add(add(V, number(1)), number(2)), number(-3))
    assert graph_rewrite(SUMS, graph) is V


def test_a_node_that_no_rule_matches_is_kept() -> None:
    graph = UOp.sink(add(V, W), unary(Op.NEG, V))
    assert graph_rewrite(SUMS, graph) is graph


def test_every_use_of_a_node_gets_its_result_and_rules_fire_once_for_it() -> None:
    calls: list[UOp] = []

    @rule(node(Op.NEG, x))
    def drop(x: UOp) -> UOp:
        calls.append(x)
        return x

    shared = unary(Op.NEG, V)
    graph = UOp.sink(add(shared, W), add(W, shared), shared)
    assert graph_rewrite(RuleSet("drop", (drop,)), graph) is UOp.sink(add(V, W), add(W, V), V)
    assert calls == [V]


def test_rules_see_rewritten_operands() -> None:
    @rule(node(Op.ABS, name="n"))
    def look(ctx: list[UOp], n: UOp) -> None:
        ctx.append(n.src[0])

    seen: list[UOp] = []
    graph_rewrite(SUMS + RuleSet("look", (look,)), unary(Op.ABS, add(V, number(0))), seen)
    assert seen == [V]


def test_bottom_up_rules_see_original_operands_first() -> None:
    @rule(node(Op.ABS, name="n"))
    def look(ctx: list[UOp], n: UOp) -> None:
        ctx.append(n.src[0])

    seen: list[UOp] = []
    operand = add(V, number(0))
    graph_rewrite(SUMS + RuleSet("look", (look,)), unary(Op.ABS, operand), seen, bottom_up=True)
    assert seen == [operand, V]


@BOTH_WAYS
def test_replacements_are_rewritten_too(bottom_up: bool) -> None:
    @rule(node(Op.NEG, x))
    def expand(x: UOp) -> UOp:
        return add(add(x, number(1)), number(-1))

    assert (
        graph_rewrite(
            SUMS + RuleSet("expand", (expand,)),
            unary(Op.NEG, unary(Op.NEG, V)),
            bottom_up=bottom_up,
        )
        is V
    )


@BOTH_WAYS
@pytest.mark.parametrize(
    ("rules", "start", "named"),
    [
        ((neg_to_abs, abs_to_neg), unary(Op.NEG, V), {"neg_to_abs", "abs_to_neg"}),
        ((wrap,), unary(Op.SQRT, V), {"wrap"}),
        ((grow,), unary(Op.EXP, add(V, number(0))), {"grow"}),
        (
            (neg_to_abs, abs_to_neg),
            UOp.sink(V, add(unary(Op.ABS, V), W)),
            {"neg_to_abs", "abs_to_neg"},
        ),
    ],
)
def test_rules_that_do_not_terminate_are_named(
    rules: tuple[Rule, ...], start: UOp, named: set[str], bottom_up: bool
) -> None:
    with pytest.raises(RewriteError, match="rewriting with endless does not terminate") as raised:
        graph_rewrite(RuleSet("endless", rules), start, bottom_up=bottom_up)
    assert set(raised.value.rules) == named


@BOTH_WAYS
def test_a_rule_that_puts_a_node_under_itself_does_not_hang(bottom_up: bool) -> None:
    @rule(node(Op.NEG, name="n"))
    def nest(n: UOp) -> UOp:
        return unary(Op.ABS, add(W, n))

    with pytest.raises(RewriteError):
        graph_rewrite(RuleSet("nest", (nest,)), unary(Op.NEG, V), bottom_up=bottom_up)


@BOTH_WAYS
def test_a_deep_graph_is_rewritten_without_recursion(bottom_up: bool) -> None:
    graph = V
    for _ in range(20_000):
        graph = unary(Op.ABS, add(graph, number(0)))
    assert graph_rewrite(SUMS, graph, bottom_up=bottom_up).src[0].op is Op.ABS


@pytest.mark.parametrize("bottom_up", [False, True])
def test_atoms_stay_with_all_that_is_below_them(bottom_up: bool) -> None:
    inside = add(V, number(0))
    atom = unary(Op.ABS, inside)
    rules = RuleSet("atoms", (add_zero,), is_pure=True)
    graph = add(add(atom, number(0)), inside)
    assert graph_rewrite(rules, graph, bottom_up=bottom_up, atoms=frozenset({Op.ABS})) is add(
        atom, V
    )
    # Cached results of one rule set are not used for the other.
    assert graph_rewrite(rules, graph, bottom_up=bottom_up) is add(unary(Op.ABS, V), V)
    assert graph_rewrite(rules, graph, bottom_up=bottom_up, atoms=frozenset({Op.ABS})) is add(
        atom, V
    )


def test_bodies_of_calls_are_rewritten_only_on_request() -> None:
    body = UOp.sink(add(V, number(0)))
    call = UOp(Op.CALL, UOp.sink().dtype, (body, add(W, number(0))))
    assert graph_rewrite(SUMS, call).src == (body, W)
    assert graph_rewrite(SUMS, call, enter_calls=True).src == (UOp.sink(V), W)


def test_matches_are_counted_on_request() -> None:
    with count_matches() as counts:
        graph_rewrite(SUMS, add(add(V, number(1)), number(-1)))
    assert counts == {"add_twice": 1, "fold": 1, "add_zero": 1}
    graph_rewrite(SUMS, add(V, number(0)))
    assert counts["add_zero"] == 1


def test_each_match_is_reported_with_its_rule_and_both_sides() -> None:
    matches: list[Match] = []
    with count_matches() as counts, watch_matches(matches.append):
        graph_rewrite(SUMS, UOp.sink(add(V, number(0)), add(W, number(0))))
    assert set(matches) == {Match(SUMS.name, "add_zero", add(n, number(0)), n) for n in (V, W)}
    assert counts == {"add_zero": 2}


def test_a_rule_that_returns_no_node_is_an_error_that_names_it() -> None:
    @rule(x + 0)
    def forgetful(x: UOp) -> UOp:
        return 3  # type: ignore[return-value]

    with pytest.raises(RuleError, match="rule forgetful returned 3 for ADD"):
        graph_rewrite(RuleSet("mine", (forgetful,)), add(V, number(0)))


class TestRemembering:
    @pytest.fixture
    def calls(self) -> list[UOp]:
        clear_rewrite_cache()
        return []

    def make(self, calls: list[UOp], *, is_pure: bool) -> RuleSet:
        @rule(node(Op.NEG, x))
        def drop(x: UOp) -> UOp:
            calls.append(x)
            return x

        return RuleSet("drop", (drop,), is_pure=is_pure)

    def test_results_of_pure_rules_are_cached_between_calls(self, calls: list[UOp]) -> None:
        rules, graph = self.make(calls, is_pure=True), unary(Op.NEG, V)
        assert graph_rewrite(rules, graph) is V
        assert graph_rewrite(rules, UOp.sink(graph, W)) is UOp.sink(V, W)
        assert calls == [V]

    def test_results_of_other_rules_are_not(self, calls: list[UOp]) -> None:
        rules, graph = self.make(calls, is_pure=False), unary(Op.NEG, V)
        graph_rewrite(rules, graph)
        graph_rewrite(rules, graph)
        assert calls == [V, V]

    def test_rewriting_with_a_context_is_not_cached(self, calls: list[UOp]) -> None:
        rules, graph = self.make(calls, is_pure=True), unary(Op.NEG, V)
        graph_rewrite(rules, graph, ctx=1)
        graph_rewrite(rules, graph, ctx=2)
        assert calls == [V, V]

    def test_the_cache_keeps_no_node_alive(self, calls: list[UOp]) -> None:
        rules = self.make(calls, is_pure=True)
        from svod_ir.uop import count_interned

        gc.collect()
        before = count_interned()
        graph_rewrite(
            rules, add(unary(Op.NEG, UOp.variable("gone", 0, 1)), UOp.variable("too", 0, 1))
        )
        calls.clear()
        gc.collect()
        assert count_interned() == before


@pytest.mark.parametrize("bottom_up", [False, True])
def test_a_rule_that_raises_is_named_with_its_node(bottom_up: bool):
    rules = RuleSet("mine", (add_zero, divide_by_zero))
    with pytest.raises(ZeroDivisionError) as caught:
        graph_rewrite(rules, add(unary(Op.NEG, V), number(3)), bottom_up=bottom_up)
    assert caught.value.__notes__ == [
        "in rule divide_by_zero of mine, on the node NEG(DEFINE_VAR):index"
    ]
