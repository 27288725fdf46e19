"""Golden cases of the passes that are functions of their own.

Those that are sets of rules have `test_golden_lower`; what branch-rare writes is too long to read, and has `test_lower_branch`.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from svod_dtype import int8, int32, uint8
from svod_ir.args import KernelInfo, OptOp
from svod_ir.ops import Op
from svod_ir.target import Target, TensorCore
from svod_ir.testing import GoldenCase, find_cases
from svod_ir.testing.pytest_plugin import CheckGolden
from svod_ir.text import parse_graph
from svod_ir.uop import UOp
from svod_schedule.pipeline import PIPELINES, Context, Pass

RULE_SETS = ("decompose", "emulate", "index-dtype")
CASES = [c for c in find_cases(Path(__file__).parent / "golden") if c.path.stem not in RULE_SETS]
NOT_REPEATED = ("apply-opts", "split-reduce", "range-values", "cut-kernels")
"""Passes that would change their own result: they choose anew, or take a graph of another stage."""


CORES = (TensorCore((16, 1, 4), 4, (uint8, int8, int32)), TensorCore((4, 4, 8), 4, (uint8, int8, int32), tiles=8))


def make_context(case: GoldenCase) -> Context:
    """`--- apply-opts opts=(UPCAST(0, 4),)`: with these opts; `--- apply-opts workgroups opts=...`: on a target that has
    workgroups, or `tensor-cores`; `--- limit-buffers max_buffers=4`; `--- decompose-math +EXP`: on a target with one op more."""
    _, _, rest = case.pass_name.partition(" ")
    target = Target.generic()
    if rest.startswith("tensor-cores"):
        target = replace(target, tensor_cores=CORES)
        rest = rest.removeprefix("tensor-cores").lstrip()
    if rest.startswith("workgroups "):
        target = replace(target, has_local=True, has_shared=True, shared_bytes=4096, max_local=64)
        rest = rest.removeprefix("workgroups ")
    if rest.startswith("max_buffers="):
        target, rest = replace(target, max_buffers=int(rest.removeprefix("max_buffers="))), ""
    opts = None
    if rest.startswith("opts="):
        info = parse_graph(f'%0 = SINK ["kernel", {rest.removeprefix("opts=")}]').arg
        assert isinstance(info, KernelInfo)
        opts = info.applied_opts
    elif rest:
        target = replace(target, native_ops=target.native_ops | {Op[name.removeprefix("+")] for name in rest.split()})
    return Context(target=target, opts=opts)


def find_pass(case: GoldenCase) -> Pass:
    return next(row for row in PIPELINES[case.path.parent.name] if row.name == case.path.stem)


def run(case: GoldenCase, graph: UOp) -> UOp:
    return find_pass(case).run(graph, make_context(case))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_golden_case(case: GoldenCase, check_golden: CheckGolden) -> None:
    assert case.pass_name.split()[0] == case.path.stem
    check_golden(case, lambda graph: run(case, graph))


@pytest.mark.parametrize("case", [c for c in CASES if c.title.startswith("does not fire")], ids=str)
def test_a_negative_case_changes_nothing(case: GoldenCase) -> None:
    graph = parse_graph(case.before)
    assert run(case, graph) is graph


REPEATED = [c for c in CASES if c.path.stem not in NOT_REPEATED and not c.expected.startswith("error:")]


@pytest.mark.parametrize("case", REPEATED, ids=str)
def test_a_pass_leaves_its_own_result_alone(case: GoldenCase) -> None:
    once = run(case, parse_graph(case.before))
    assert run(case, once) is once


def test_every_pass_has_golden_cases() -> None:
    passes = {(pipeline, row.name) for pipeline, rows in PIPELINES.items() for row in rows}
    tested = {(c.path.parent.name, c.path.stem) for c in find_cases(Path(__file__).parent / "golden")}
    assert {name for _, name in passes} - {"branch-rare"} <= {name for _, name in tested}
    assert {(p, n) for p, n in tested if n not in RULE_SETS} <= passes


def test_every_pass_has_a_case_in_which_it_changes_the_graph() -> None:
    changed = {c.path.stem for c in CASES if parse_graph(c.before) is not run_or_none(c)}
    assert changed == {c.path.stem for c in CASES}


def run_or_none(case: GoldenCase) -> UOp | None:
    return None if case.expected.startswith("error:") else run(case, parse_graph(case.before))


def test_every_opt_has_a_golden_case() -> None:
    shown = {opt.op for c in CASES if c.path.stem == "apply-opts" for opt in make_context(c).opts or ()}
    assert shown == set(OptOp)
