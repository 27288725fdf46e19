"""Golden cases of the late lowering, and that each of its rules is fired by one of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from svod_dtype import find_dtype
from svod_ir.ops import Op
from svod_ir.rewrite import count_matches, graph_rewrite
from svod_ir.ruleset import RuleSet
from svod_ir.target import Target
from svod_ir.testing import GoldenCase, find_cases
from svod_ir.testing.pytest_plugin import CheckGolden
from svod_ir.text import parse_graph
from svod_ir.uop import UOp
from svod_schedule.lower.decompose import FOR_MISSING, make_decompositions
from svod_schedule.lower.emulate import make_emulation
from svod_schedule.lower.index_dtype import lower_index_dtype

CASES = [
    c
    for c in find_cases(Path(__file__).parent / "golden" / "lower")
    if c.path.stem in ("decompose", "emulate", "index-dtype")
]


def target_of(case: GoldenCase) -> Target:
    """`--- decompose +MULACC -MAX`: the generic target with an op more and one less; `+f16`: with a dtype more."""
    target = Target.generic()
    for change in case.pass_name.split()[1:]:
        dtype = find_dtype(change[1:])
        if dtype is not None:
            target = replace(target, native_dtypes=target.native_dtypes | {dtype})
            continue
        op = {Op[change[1:]]}
        native = target.native_ops | op if change[0] == "+" else target.native_ops - op
        target = replace(target, native_ops=native)
    return target


def rules_of(case: GoldenCase) -> RuleSet | None:
    match case.pass_name.split()[0]:
        case "decompose":
            return make_decompositions(target_of(case))
        case "emulate":
            return make_emulation(target_of(case))
        case _:
            return None


def run(case: GoldenCase, graph: UOp) -> UOp:
    rules = rules_of(case)
    return lower_index_dtype(graph) if rules is None else graph_rewrite(rules, graph)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_golden_case(case: GoldenCase, check_golden: CheckGolden) -> None:
    check_golden(case, lambda graph: run(case, graph))


@pytest.mark.parametrize("case", [c for c in CASES if not c.expected.startswith("error:")], ids=str)
def test_what_a_pass_made_is_left_alone_by_it(case: GoldenCase) -> None:
    once = run(case, parse_graph(case.before))
    assert run(case, once) is once


@cache
def fired_rules() -> Counter[str]:
    with count_matches() as counts:
        for case in CASES:
            run(case, parse_graph(case.before))
    return counts


@pytest.mark.parametrize(
    "rule",
    sorted(
        {
            r.name
            for r in (
                *make_decompositions(replace(Target.generic(), native_ops=frozenset(Op))),
                *make_emulation(Target.generic()),
            )
        }
        | {r.name for _, r in FOR_MISSING}
    ),
)
def test_every_rule_is_fired_by_a_golden_case(rule: str) -> None:
    assert fired_rules()[rule] > 0
