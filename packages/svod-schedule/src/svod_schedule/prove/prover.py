"""Proofs of rules: each rule is applied to instances of its own patterns, and both sides are compared.

`prove_rules` is the entry point. Rules are not restated for the prover: the pattern itself is
instantiated, and the rule's function is called, so the proof is about the actual code."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from svod_dtype import DType, float64
from svod_ir import Op, Pattern, Rule, UOp, format_shape, print_graph
from svod_ir.compare import differ_at, find_difference
from svod_ir.ops import FUNCTIONS
from svod_schedule.prove.instances import MAIN_DTYPES, iter_instances, iter_tensor_instances
from svod_schedule.prove.solve import decide_equal

__all__ = ["QUICK", "THOROUGH", "Counterexample", "Effort", "Report", "RuleReport", "prove_rules"]


@dataclass(frozen=True, slots=True)
class Effort:
    """Number of instances per pattern and dtype, and the number of firings after which to stop (four
    times as many for structured operands).
    """

    n_plain: int
    n_structured: int
    max_fired: int
    n_samples: int = 4096


_STRUCTURED: Final = 4
_N_TENSORS: Final = 100
QUICK: Final = Effort(n_plain=8, n_structured=800, max_fired=2, n_samples=512)
"""Few instances of each pattern: the effort of `--quick`."""
THOROUGH: Final = Effort(n_plain=40, n_structured=1500, max_fired=3)
"""Many instances of each pattern."""


@dataclass(frozen=True, slots=True)
class Counterexample:
    """Values for which a rule changes the result; `is_confirmed` if `svod_ir.evaluate` reproduces it."""

    rule: str
    before: UOp
    after: UOp
    values: dict[UOp, Any]
    is_confirmed: bool
    problem: str | None = None
    """Description of a difference other than values (dtype or shape)."""

    def __str__(self) -> str:
        values = ", ".join(
            f"{_name(leaf)} = {value}"
            for leaf, value in self.values.items()
            if leaf.op is not Op.PARAM
        )
        how = "" if self.is_confirmed else " (not confirmed by evaluate)"
        problem = self.problem or f"the values differ{how} at {values or 'every value'}"
        return (
            f"{self.rule}:"
            f" {problem}\nbefore:\n{print_graph(self.before)}\nafter:\n{print_graph(self.after)}"
        )


def _name(leaf: UOp) -> str:
    if leaf.op is Op.DEFINE_VAR:
        return leaf.arg.name
    return f"{leaf.op.name} {leaf.arg.slot if leaf.op is Op.PARAM else leaf.arg.id}"


@dataclass(slots=True)
class RuleReport:
    """Result of the proofs of one rule.

    `matched` and `fired` are the kinds of dtype of the instances that the pattern matched, and for
    which the function did not return None. `undecided` counts firings that were sampled because z3
    gave up; `sampled` counts firings with floats or effects, which are not translated to z3;
    `tensors` counts firings on whole tensors, whose shapes and sampled values were compared."""

    rule: Rule
    proved: int = 0
    sampled: int = 0
    undecided: int = 0
    tensors: int = 0
    matched: set[str] = field(default_factory=set[str])
    fired: set[str] = field(default_factory=set[str])
    counterexamples: list[Counterexample] = field(default_factory=list[Counterexample])

    @property
    def verdict(self) -> Literal["wrong", "never fired", "proved", "proved and sampled", "sampled"]:
        if self.counterexamples:
            return "wrong"
        if not self.fired:
            return "never fired"
        if self.proved and not self.sampled and not self.undecided:
            return "proved"
        return "proved and sampled" if self.proved else "sampled"

    @property
    def declined(self) -> set[str]:
        """Kinds of dtype that the pattern matches and the function always declined."""
        return self.matched - self.fired


@dataclass(frozen=True, slots=True)
class Report:
    """Results of the proofs of all rules."""

    rules: tuple[RuleReport, ...]

    @property
    def counterexamples(self) -> list[Counterexample]:
        return [c for r in self.rules for c in r.counterexamples]

    @property
    def unfired(self) -> list[str]:
        return [r.rule.name for r in self.rules if not r.fired]

    def __str__(self) -> str:
        lines = [
            "| rule | verdict | proved | sampled | undecided | tensors | kinds | declined |",
            "|---|---|---|---|---|---|---|---|",
        ]
        for r in self.rules:
            kinds, declined = " ".join(sorted(r.fired)), " ".join(sorted(r.declined))
            lines.append(
                f"| `{r.rule.name}` | {r.verdict} | {r.proved} | {r.sampled} | {r.undecided} |"
                f" {r.tensors} | {kinds} | {declined} |"
            )
        return "\n".join([*lines, "", *_LEGEND, *(f"\n{c}" for c in self.counterexamples)])


_LEGEND: Final = (
    "proved, sampled, undecided, tensors: number of firings of the rule that were compared, by method.",
    "  proved     by z3, for every value of the variables",
    (
        "  sampled    at special and random values, since floats and effects are not translated"
        " to z3"
    ),
    "  undecided  at special and random values, since z3 gave up",
    "  tensors    on whole tensors: their shapes, and random values",
    (
        "kinds, declined: the kinds of dtype that the rule fired for, and the kinds that its pattern"
        " matches but the rule always declined."
    ),
)


def prove_rules(
    rules: Iterable[Rule],
    effort: Effort = THOROUGH,
    *,
    dtypes: Iterable[DType] = MAIN_DTYPES,
    stop_at_first: bool = True,
    ctx: object = None,
    tensors: bool = True,
) -> Report:
    """Prove each rule for each dtype that its patterns match, or find a counterexample.

    Integers and bools are proved with z3 over all values of the variables, for sampled constants,
    bounds and structures (the same in every run). Floats are compared at special and random
    values, to the last bit except for the results of `pow` in float64, which may differ by an ulp.

    Args:
        rules: a `RuleSet`, or any rules.
        effort: number of instances of each pattern.
        dtypes: dtypes of the operands, unless a pattern restricts them.
        stop_at_first: whether to continue with the next rule after the first counterexample.
        ctx: value of the parameter `ctx` of rules that have one.
        tensors: whether the rules must hold for whole tensors too, and preserve their shapes. Rules
            that are used only in kernels need not, since kernels have no shaped nodes.
    """
    return Report(
        tuple(
            _prove_rule(rule, effort, tuple(dtypes), stop_at_first, ctx, tensors) for rule in rules
        )
    )


def _prove_rule(
    rule: Rule,
    effort: Effort,
    dtypes: tuple[DType, ...],
    stop_at_first: bool,
    ctx: object,
    has_tensors: bool,
) -> RuleReport:
    report = RuleReport(rule)
    for i, pattern in enumerate(rule.patterns):
        for dtype in dtypes:
            seed = f"{rule.name}/{i}/{dtype.short}"
            _prove_pattern(report, pattern, dtype, effort, seed, ctx)
            if (
                has_tensors
                and not report.counterexamples
                and dtype.lanes == 1
                and dtype.kind != "index"
            ):
                _try_tensors(report, pattern, dtype, effort, seed, ctx)
            if report.counterexamples and stop_at_first:
                return report
    return report


def _prove_pattern(
    report: RuleReport, pattern: Pattern, dtype: DType, effort: Effort, seed: str, ctx: object
) -> None:
    seen: set[UOp] = set()
    # Plain and structured operands are counted separately: the conditions of rules concern
    # structured operands.
    for n_plain, n_structured in ((effort.n_plain, 0), (0, effort.n_structured)):
        n_fired = 0
        for before in iter_instances(pattern, dtype, f"{seed}/{n_plain}", n_plain, n_structured):
            if before in seen or dtype not in {n.dtype for n in before.toposort()}:
                continue
            seen.add(before)
            report.matched.add(dtype.kind)
            after = _apply(report.rule, before, ctx)
            if after is None:
                continue
            report.fired.add(dtype.kind)
            _compare(report, before, after, effort, len(seen))
            n_fired += 1
            if report.counterexamples:
                return
            if n_fired >= (effort.max_fired if n_plain else _STRUCTURED * effort.max_fired):
                break


def _try_tensors(
    report: RuleReport, pattern: Pattern, dtype: DType, effort: Effort, seed: str, ctx: object
) -> None:
    n_fired = 0
    for before in dict.fromkeys(
        iter_tensor_instances(pattern, dtype, f"{seed}/tensors", _N_TENSORS)
    ):
        report.matched.add(dtype.kind)
        after = _apply(report.rule, before, ctx)
        if after is None:
            continue
        report.fired.add(dtype.kind)
        report.tensors += 1
        _compare_tensors(report, before, after, effort, n_fired)
        n_fired += 1
        if report.counterexamples or n_fired == effort.max_fired:
            return


def _compare_tensors(
    report: RuleReport, before: UOp, after: UOp, effort: Effort, seed: int
) -> None:
    name = report.rule.name
    problem, values = None, None
    if after.dtype is not before.dtype:
        problem = f"the dtype changes from {before.dtype} to {after.dtype}"
    elif after.find_shape() != before.shape:
        shapes = format_shape(before.shape), format_shape(after.find_shape() or ())
        problem = (
            f"the shape changes from {shapes[0]} to {shapes[1]}; `make_constant_like` makes"
            " constants that keep it"
        )
    else:
        values = _sample(name, before, after, effort, seed)
    if problem is not None:
        report.counterexamples.append(Counterexample(name, before, after, {}, True, problem))
    elif values is not None:
        report.counterexamples.append(Counterexample(name, before, after, values, True))


def _apply(rule: Rule, before: UOp, ctx: object) -> UOp | None:
    try:
        return rule.apply(before, ctx)
    except Exception as error:
        error.add_note(f"raised by rule {rule.name} for\n{print_graph(before)}")
        raise


def _compare(report: RuleReport, before: UOp, after: UOp, effort: Effort, seed: int) -> None:
    name = report.rule.name
    if after.dtype is not before.dtype:
        problem = f"the dtype changes from {before.dtype} to {after.dtype}"
        report.counterexamples.append(Counterexample(name, before, after, {}, True, problem))
        return
    answer = decide_equal(before, after)
    if answer.verdict == "equal":
        report.proved += 1
        return
    if answer.verdict == "different":
        is_confirmed = differ_at(before, after, answer.values)
        report.counterexamples.append(
            Counterexample(name, before, after, dict(answer.values), is_confirmed)
        )
        return
    if _is_outside_of_z3(before):
        report.sampled += 1
    else:
        report.undecided += 1
    values = _sample(name, before, after, effort, seed)
    if values is not None:
        report.counterexamples.append(Counterexample(name, before, after, values, True))


def _sample(name: str, before: UOp, after: UOp, effort: Effort, seed: int) -> dict[UOp, Any] | None:
    """Find values for which the sides of a rule differ."""
    n_roundings, ulps = _count_roundings(name, before), _get_accuracy(before)
    return find_difference(before, after, seed, effort.n_samples, n_roundings, ulps=ulps)


def _is_outside_of_z3(before: UOp) -> bool:
    return any(n.dtype.is_float or n.dtype.kind == "void" for n in before.toposort())


def _count_roundings(name: str, before: UOp) -> int:
    """Number of roundings by which the sides of a rule may differ; 0 if the rule is exact."""
    if name == "arithmetic_in_float32":
        return 1 if before.op in _ROUNDED_TWICE else 0
    return _ROUNDED.get(name, 0)


def _get_accuracy(before: UOp) -> int:
    """Accuracy of the reference in ulps; 0 if it rounds the result of the root correctly.

    The `pow` of the C library is off by less than one ulp, so that a rule that replaces it by a
    correctly rounded operation (sqrt, a product, a quotient) may change the last bit. For narrower
    dtypes the reference rounds the `pow` of float64, which is compared to the last bit."""
    return 1 if before.op is Op.POW and before.dtype.scalar is float64 else 0


_ROUNDED: Final[dict[str, int]] = {
    "fuse_multiply_add": 2,  # the product is not rounded
    "reciprocal_root": 2,  # the root is rounded before it divides
}
# These functions are rounded twice when computed in float32. Double rounding is innocuous for sums,
# products, quotients and roots of narrow floats.
_ROUNDED_TWICE: Final = FUNCTIONS | {Op.MULACC}
