"""Golden cases of every pass: what it makes of a graph, and that each of its rules is fired by one
of them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from svod_dtype import find_dtype, int8, int32, uint8
from svod_ir import KernelInfo, Op, OptOp, Target, TensorCore, UOp, count_matches, parse_graph
from svod_ir.testing import GoldenCase, list_cases
from svod_ir.testing.pytest_plugin import CheckGolden
from svod_schedule.lower.decompose import FOR_MISSING, make_decompositions
from svod_schedule.optimize.emulate import make_emulation
from svod_schedule.pipeline import PIPELINES, Context

GOLDEN = Path(__file__).parent / "golden"
CASES = list_cases(GOLDEN)
ENDING = [c for c in CASES if not c.expected.startswith("error:")]
PASSES = {(pipeline, row.name): row for pipeline, rows in PIPELINES.items() for row in rows}
NOT_REPEATED = ("apply-opts", "split-reduce", "range-values", "cut-kernels")
"""Passes that would change their own result: they choose anew, or take a graph of another stage."""

CORES = (
    TensorCore((16, 1, 4), 4, (uint8, int8, int32)),
    TensorCore((4, 4, 8), 4, (uint8, int8, int32), tiles=8),
)
TARGETS = {
    "tensor-cores": replace(Target.generic(), tensor_cores=CORES),
    "workgroups": replace(
        Target.generic(), has_local=True, has_shared=True, shared_bytes=4096, max_local=64
    ),
}


def make_context(case: GoldenCase) -> Context:
    """What is written behind the pass: `workgroups` or `tensor-cores`, a target that has some;
    `+EXP`, `-MAX` or `+f16`, an op or a dtype more or less; `max_buffers=4`; and at the end
    `opts=(UPCAST(0, 4),)`."""
    words, _, opts = case.pass_name.partition("opts=")
    target = Target.generic()
    for word in words.split()[1:]:
        name, _, value = word.partition("=")
        dtype = find_dtype(name[1:])
        if name in TARGETS:
            target = TARGETS[name]
        elif name == "max_buffers":
            target = replace(target, max_buffers=int(value))
        elif dtype is not None:
            target = replace(target, native_dtypes=target.native_dtypes | {dtype})
        else:
            changed = {Op[name[1:]]}
            native = target.native_ops | changed if name[0] == "+" else target.native_ops - changed
            target = replace(target, native_ops=native)
    if not opts:
        return Context(target=target)
    info = parse_graph(f'%0 = SINK ["kernel", {opts}]').arg
    assert isinstance(info, KernelInfo)
    return Context(target=target, opts=info.applied_opts)


def run(case: GoldenCase, graph: UOp) -> UOp:
    return PASSES[case.path.parent.name, case.path.stem].run(graph, make_context(case))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_golden_case(case: GoldenCase, check_golden: CheckGolden) -> None:
    assert case.pass_name.split()[0] == case.path.stem
    check_golden(case, lambda graph: run(case, graph))


@pytest.mark.parametrize("case", [c for c in CASES if c.title.startswith("does not fire")], ids=str)
def test_a_negative_case_changes_nothing(case: GoldenCase) -> None:
    graph = parse_graph(case.before)
    assert run(case, graph) is graph


@pytest.mark.parametrize("case", [c for c in ENDING if c.path.stem not in NOT_REPEATED], ids=str)
def test_a_pass_leaves_its_own_result_alone(case: GoldenCase) -> None:
    once = run(case, parse_graph(case.before))
    assert run(case, once) is once


def test_every_pass_has_a_case_in_which_it_changes_the_graph() -> None:
    changed = {c.path for c in ENDING if run(c, graph := parse_graph(c.before)) is not graph}
    assert changed == {GOLDEN / pipeline / f"{name}.ir" for pipeline, name in PASSES}


def test_every_opt_has_a_golden_case() -> None:
    shown = {
        opt.op for c in CASES if c.path.stem == "apply-opts" for opt in make_context(c).opts or ()
    }
    assert shown == set(OptOp)


@cache
def fired_rules() -> Counter[str]:
    with count_matches() as counts:
        for case in CASES:
            if case.path.stem in ("decompose", "emulate"):
                run(case, parse_graph(case.before))
    return counts


@pytest.mark.parametrize(
    "rule",
    sorted(
        {r.name for r in make_decompositions(replace(Target.generic(), native_ops=frozenset(Op)))}
        | {r.name for r in make_emulation(Target.generic())}
        | {r.name for _, r in FOR_MISSING}
    ),
)
def test_every_rule_is_fired_by_a_golden_case(rule: str) -> None:
    assert fired_rules()[rule] > 0
