"""The rules of the compiler, proved in the narrow dtypes; and that the prover notices rules that
are wrong.
"""

from __future__ import annotations

import re
from importlib import import_module

import pytest

from svod_dtype import DType, bool_, float8_e5m2, float16, float64, index, int8, int32, uint8
from svod_ir import Op, Rule, RuleSet, UOp, make_constant_like, rule
from svod_ir.compare import find_difference, list_special
from svod_ir.pattern import FLOAT, INT, const, node, var
from svod_ir.testing.nodes import cast
from svod_schedule.errors import UnknownRuleError

pytest.importorskip("z3")

from svod_schedule.prove import QUICK, Effort, list_rule_sets, prove_rules
from svod_schedule.prove.__main__ import get_rules, main
from svod_schedule.prove.mutants import make_mutants

# What every run of the tests proves; `python -m svod_schedule.prove` takes all dtypes and more
# instances.
EFFORT = Effort(n_plain=8, n_structured=1500, max_fired=2, n_samples=256)
DTYPES = (bool_, int8, uint8, index, float8_e5m2)

DECLINES = {
    "always_equal_to_itself": {"float"},  # NaN is not equal to itself
    "compare_casts": {"bool", "float"},  # the pattern names the dtype before the cast alone
    "not_less": {"float"},
    "not_less_or_equal": {"float"},
    "divide_by_negative": {"uint"},  # there is no negative divisor
    "modulo_negative": {"uint"},
    "cast_division_to_index": {"bool"},
    "fuse_multiply_add": {"float"},  # only of float32 and float64, which EFFORT leaves out
    "fold_vector_constants": {"bool", "int", "uint", "index", "float"},  # only of vectors
    "broadcast_constant": {"bool", "int", "uint", "index", "float"},
    "select_by_counter": {
        "bool",
        "int",
        "uint",
    },  # a one-hot sum is drawn once in some hundred instances
    "threefry": {"uint"},  # only of uint64
}
"""The kinds of dtype that a rule's pattern takes and its function always declines."""

RULES = [(name, r) for name, rules in list_rule_sets().items() for r in rules]


@pytest.mark.parametrize(("name", "tried"), RULES, ids=[f"{n}-{r.name}" for n, r in RULES])
def test_a_rule_keeps_the_value_for_every_value_of_the_variables(name: str, tried: Rule) -> None:
    (report,) = prove_rules([tried], EFFORT, dtypes=DTYPES, tensors=False).rules
    assert not report.counterexamples, "\n".join(map(str, report.counterexamples))
    assert report.declined <= DECLINES.get(tried.name, set())
    assert (
        report.fired or tried.name in DECLINES or tried.name == "narrow_double_to_half"
    )  # only of float64


MUTANTS: list[tuple[str, str, str, str]] = [
    (
        "symbolic.identities",
        "drop_mask",
        "drop_mask",
        (
            "mask & mask + 1 == 0 and x.vmin >= 0 and (x.vmax <= mask) -> mask & mask + 1 == 0 and"
            " True and (x.vmax <= mask)"
        ),
    ),
    (
        "symbolic.identities",
        "drop_mask",
        "drop_mask",
        "mask & mask + 1 == 0 -> mask & mask + 1 != 0",
    ),
    ("symbolic.identities", "shift_right_of_index", "shift_right_of_index", "1 -> 2"),
    (
        "symbolic.divmod",
        "_split_by_interval",
        "divide_by_interval",
        "quotient != high // d -> quotient == high // d",
    ),
    (
        "symbolic.divmod",
        "_split_by_factor",
        "divide_by_common_factor",
        "multiples and k == high // g -> multiples and True",
    ),
    (
        "symbolic.divmod",
        "divide_by_itself",
        "divide_by_itself",
        "x is y and (not x.vmin <= 0 <= x.vmax) -> x is y and True",
    ),
    (
        "symbolic.divmod",
        "divide_by_itself",
        "divide_by_itself",
        "x.vmin <= 0 <= x.vmax -> x.vmin < 0 <= x.vmax",
    ),
    ("symbolic.divmod", "modulo_negative", "modulo_negative", "-1 -> +1"),
    (
        "symbolic.comparisons",
        "_divide_order",
        "move_terms",
        "-(-(limit - low) // g) -> +(-(limit - low) // g)",
    ),
    ("symbolic.comparisons", "move_equal_terms", "move_equal_terms", "high < 0 -> high <= 0"),
    (
        "symbolic.comparisons",
        "move_equal_terms",
        "move_equal_terms",
        "factor and constant % factor -> factor and True",
    ),
    (
        "symbolic.casts",
        "_is_exact",
        "cast_operands_to_index",
        "node.op is Op.MAX -> node.op is not Op.MAX",
    ),
    ("symbolic.logic", "choose_truth", "choose_truth", "True -> False"),
    ("symbolic.logic", "_tighten", "normalize_chain", "limits[key] is not o -> limits[key] is o"),
    (
        "symbolic.reductions",
        "_find_interval",
        "count_by_counter",
        "solution.sign == 1 -> solution.sign != 1",
    ),
    (
        "symbolic.floats",
        "absolute_twice",
        "absolute_twice",
        "inner.op is Op.NEG -> inner.op is not Op.NEG",
    ),
    (
        "lower.arithmetic.division",
        "_floor_by_positive",
        "divide_by_constant",
        "x + splat_like(x, steps * divisor) -> x - splat_like(x, steps * divisor)",
    ),
    (
        "lower.arithmetic.division",
        "get_magic",
        "divide_by_constant",
        "hardest * excess -> hardest + excess",
    ),
    ("lower.decompose", "fuse_shift_add", "fuse_shift_add", "(x << c) + z -> (x << c) - z"),
    ("lower.decompose", "sign", "sign", "x < 0 -> x <= 0"),
]
"""Module, changed function, rule to prove, and the change: signs, bounds, conditions and
operands.
"""


@pytest.mark.parametrize(
    ("module", "function", "proved", "change"), MUTANTS, ids=[f"{f}: {c}" for _, f, _, c in MUTANTS]
)
def test_a_changed_rule_has_a_counterexample(
    module: str, function: str, proved: str, change: str
) -> None:
    source = import_module(f"svod_schedule.{module}")
    mutant = next(m for m in make_mutants(source, frozenset({function})) if m.change == change)
    found = prove_rules([mutant.rules[proved]], EFFORT, dtypes=DTYPES).counterexamples
    assert found
    assert all(c.is_confirmed for c in found)


x, c = var("x"), const("c", INT)


@rule(node(Op.MAX, x, c, kinds=INT))
def clamp_wrongly(x: UOp, c: UOp) -> UOp | None:
    """max(x, c) -> x when x >= c - 9, which is too far below."""
    return x if x.vmin >= c.arg - 9 else None


@rule(node(Op.ADD, x, node(Op.NEG, x), kinds=FLOAT))
def cancel_wrongly(x: UOp) -> UOp:
    """x + -x -> 0.0, which is NaN for infinities."""
    return UOp.const(x.dtype, 0.0)


@rule(node(Op.NOT, x, kinds=INT))
def change_dtype(x: UOp) -> UOp:
    """~x -> x : i32, of another dtype."""
    return cast(x, int32)


@rule(node(Op.NEG, x, kinds=INT))
def never(x: UOp) -> UOp | None:
    """-x -> nothing."""
    return None if x.dtype.is_int else x


WRONG = RuleSet("wrong", (clamp_wrongly, cancel_wrongly, change_dtype, never))


def test_a_wrong_rule_is_shown_as_a_graph_with_values() -> None:
    (found,) = prove_rules([clamp_wrongly], EFFORT, dtypes=[int8]).counterexamples
    assert found.is_confirmed
    assert "clamp_wrongly: the values differ at v1 = " in str(found)
    assert "MAX i8" in str(found)


def test_a_float_rule_is_sampled_at_the_special_values() -> None:
    (report,) = prove_rules([cancel_wrongly], EFFORT, dtypes=[float16]).rules
    assert report.verdict == "wrong"
    assert (report.proved, report.undecided) == (0, 0)


def test_a_rule_that_changes_the_dtype_is_wrong() -> None:
    (found,) = prove_rules([change_dtype], EFFORT, dtypes=[int8]).counterexamples
    assert "the dtype changes from int8 to int32" in str(found)


def test_a_rule_that_never_fires_is_named() -> None:
    report = prove_rules([never], EFFORT, dtypes=[int8])
    assert report.unfired == ["never"]
    assert report.rules[0].verdict == "never fired"
    assert report.rules[0].declined == {"int"}


@rule(node(Op.POW, var("x"), 0.5, kinds=FLOAT))
def root_with_signed_zero(x: UOp) -> UOp:
    """x ** 0.5 -> sqrt(x), wrong for -0.0 and -inf."""
    return UOp(Op.SQRT, x.dtype, (x,))


@rule(node(Op.POW, var("x"), 3.0, kinds=FLOAT))
def power_by_logarithm(x: UOp) -> UOp:
    """x ** 3.0 -> 2 ** (2 * log2(abs(x))) * x, which loses the last bits."""
    logarithm = UOp(Op.LOG2, x.dtype, (UOp(Op.ABS, x.dtype, (x,)),))
    return UOp(Op.EXP2, x.dtype, (logarithm * 2.0,)) * x


def test_powers_in_float64_may_differ_by_the_error_of_pow() -> None:
    report = prove_rules(
        get_rules(["float_power"]), QUICK, dtypes=[float16, float64], tensors=False
    )
    assert not report.counterexamples
    assert report.rules[0].sampled > 10


@pytest.mark.parametrize("wrong", [root_with_signed_zero, power_by_logarithm])
@pytest.mark.parametrize("dtype", [float16, float64])
def test_powers_that_differ_by_more_are_found(wrong: Rule, dtype: DType) -> None:
    assert prove_rules([wrong], QUICK, dtypes=[dtype], tensors=False).counterexamples


def test_two_runs_give_the_same_report() -> None:
    first, second = (
        str(prove_rules(get_rules(["drop_mask"]), EFFORT, dtypes=DTYPES)) for _ in range(2)
    )
    assert first == second


def test_the_command_proves_rules_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--quick", "order_of_bools"]) == 0
    assert "| `order_of_bools` | proved |" in capsys.readouterr().out


def test_the_command_fails_for_rules_that_are_wrong_or_never_fire(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import svod_schedule.symbolic

    monkeypatch.setattr(svod_schedule.symbolic, "WRONG", WRONG, raising=False)
    assert main(["--quick", "svod_schedule.symbolic:WRONG"]) == 1
    assert "error: never never fired" in capsys.readouterr().out


def test_a_name_that_no_rule_has_is_an_error_with_the_nearest() -> None:
    with pytest.raises(
        UnknownRuleError, match="no rule or rule set is called 'drop_zeros'"
    ) as error:
        get_rules(["drop_zeros"])
    assert "did you mean 'drop_zero'?" in str(error.value)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "drop_zeros",
            "no rule or rule set is called 'drop_zeros'\n  hint: did you mean 'drop_zero'?",
        ),
        ("no.such.module:RULES", "'no.such.module:RULES': No module named 'no'"),
        ("svod_schedule.symbolic:SYMBOLICS", "did you mean 'svod_schedule.symbolic:SYMBOLIC'?"),
        (
            "svod_schedule.symbolic:__all__",
            "no rule or rule set is called 'svod_schedule.symbolic:__all__'",
        ),
    ],
)
def test_the_command_says_what_is_wrong_with_a_name(
    name: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([name])
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def test_rules_get_the_context_that_is_given() -> None:
    @rule(var("x", INT) * const("c"))
    def keep_or_drop(ctx: str, x: UOp, c: UOp) -> UOp | None:
        return x * c + 0 * x if ctx == "keep" else x if ctx == "drop" else None

    verdicts = [
        prove_rules([keep_or_drop], EFFORT, dtypes=[int32], ctx=ctx).rules[0].verdict
        for ctx in ("keep", "drop", "")
    ]
    assert verdicts == ["proved", "wrong", "never fired"]


def test_an_error_of_a_rule_names_the_rule_and_the_graph() -> None:
    @rule(var("x", INT) * 0)
    def fails(x: UOp) -> UOp | None:
        raise KeyError("mine")

    with pytest.raises(KeyError) as caught:
        prove_rules([fails], EFFORT, dtypes=[int32])
    assert caught.value.__notes__[0].startswith("raised by rule fails for\n%0 =")


def test_the_special_values_are_there_in_every_format() -> None:
    special = list_special(float16).astype(float).tolist()
    assert {0.0, 2.0**-24, 2.0**-14, 0.5, 1.0, 65504.0, float("inf")} <= set(special)


def test_zeros_differ_by_their_signs() -> None:
    f = UOp.variable("f", float16.min, float16.max, float16)
    assert find_difference(f + 0.0, f, 0, 64) is not None
    assert find_difference(f + -0.0, f, 0, 64) is None


@rule(var("x", INT) * const("zero", when=lambda c: c.arg == 0))
def times_zero(x: UOp, zero: UOp) -> UOp:
    """x * 0 -> 0, of which a tensor x has more than one."""
    del x
    return zero


@rule(var("x", INT) * const("zero", when=lambda c: c.arg == 0))
def times_zero_everywhere(x: UOp, zero: UOp) -> UOp:
    """x * 0 -> 0 in the shape of x."""
    return make_constant_like(x, zero.arg)


@rule(node(Op.RESHAPE, node(Op.RESHAPE, var("x"), name="inner"), name="outer"))
def reshape_of_reshape(x: UOp, inner: UOp, outer: UOp) -> UOp:
    """reshape(reshape(x, s), t) -> reshape(x, t)."""
    del inner
    return outer.with_src((x,))


@rule(node(Op.FLIP, node(Op.FLIP, var("x"), name="inner"), name="outer"))
def flip_of_flip(x: UOp, inner: UOp, outer: UOp) -> UOp:
    """flip(flip(x, a), b) -> flip(x, b), which forgets a."""
    del inner
    return outer.with_src((x,))


@rule(node(Op.REDUCE_AXIS, -var("x"), name="reduced"))
def reduce_negated(x: UOp, reduced: UOp) -> UOp | None:
    """sum(-x) -> -sum(x)."""
    return -reduced.with_src((x,)) if reduced.arg.op is Op.ADD else None


def test_a_rule_that_loses_the_shape_of_tensors_is_wrong_unless_it_is_only_for_kernels() -> None:
    (report,) = prove_rules([times_zero], EFFORT, dtypes=[int8]).rules
    (found,) = report.counterexamples
    assert re.match(
        r"times_zero: the shape changes from \(.+\) to \(\); `make_constant_like` makes constants"
        r" that keep it\n",
        str(found),
    )
    (report,) = prove_rules([times_zero], EFFORT, dtypes=[int8], tensors=False).rules
    assert (report.verdict, report.tensors) == ("proved", 0)


@pytest.mark.parametrize(
    "kept", [times_zero_everywhere, reshape_of_reshape, reduce_negated], ids=lambda r: r.name
)
def test_a_rule_that_holds_for_tensors_is_tried_on_them(kept: Rule) -> None:
    (report,) = prove_rules([kept], EFFORT, dtypes=[int8, int32]).rules
    assert not report.counterexamples, "\n".join(map(str, report.counterexamples))
    assert report.tensors >= 2
    assert report.verdict == ("proved" if kept is times_zero_everywhere else "sampled")


def test_a_rule_that_moves_elements_wrongly_is_found() -> None:
    (report,) = prove_rules([flip_of_flip], EFFORT, dtypes=[int8]).rules
    assert report.verdict == "wrong"
    assert "the values differ" in str(report.counterexamples[0])


def test_the_columns_of_a_report_are_explained() -> None:
    text = str(prove_rules([times_zero_everywhere], EFFORT, dtypes=[int8]))
    for column in text.splitlines()[0].strip("| ").split(" | ")[2:]:
        assert re.search(rf"^  {column} +\w|^kinds, declined: ", text, re.MULTILINE), column
