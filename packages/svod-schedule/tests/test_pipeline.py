"""Every pipeline keeps the meaning of random graphs."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import Literal

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from svod_ir import IROptions, Op, OptionError, Target, UOp
from svod_ir.options import PassSelector
from svod_ir.testing import assert_same, count_examples, graphs
from svod_schedule.errors import (
    PassOrderError,
    PassResultError,
    UnknownPassError,
)
from svod_schedule.linearize import linearize
from svod_schedule.pipeline import PIPELINES, Context, Pass, PassTable, run_pipeline

TARGETS = {
    "avx2": Target.generic(cores=2),
    "avx512": replace(
        Target.generic(cores=1),
        vector_bits=512,
        vector_registers=32,
        has_masked_access=True,
        has_gather=True,
    ),
    "sse": replace(Target.generic(cores=1), vector_bits=128),
    "few buffers": replace(Target.generic(cores=1), max_buffers=4),
}


def check(what: str, before: UOp, after: UOp | tuple[UOp, ...]) -> None:
    try:
        assert_same(before, after)
    except Exception as error:
        raise AssertionError(f"{what}: {error}") from error


@pytest.mark.parametrize("target", TARGETS)
@settings(max_examples=count_examples(15), deadline=None, suppress_health_check=list(HealthCheck))
@given(graph=graphs(max_elements=64), is_optimized=st.booleans())
def test_each_pipeline_keeps_what_a_random_graph_means(
    target: str, graph: UOp, is_optimized: bool
) -> None:
    context = Context(target=TARGETS[target], opts=None if is_optimized else ())
    if 0 in graph.shape:
        return
    sink = UOp.sink(graph)
    ranged = run_pipeline("rangeify", sink, context)
    check("rangeify", sink, ranged)
    kernels = run_pipeline("kernelize", ranged, context)
    check("kernelize", ranged, kernels)
    for call in kernels.iter_ops(Op.CALL):
        kernel = call.src[0]
        if kernel.op is Op.SINK:
            assert (
                context.max_buffers is None
                or len(set(kernel.iter_ops(Op.PARAM))) <= context.max_buffers
            )
            optimized = run_pipeline("optimize", kernel, context)
            check("optimize", kernel, optimized)
            check("lower", kernel, linearize(run_pipeline("lower", optimized, context)))


def test_a_pipeline_stops_after_the_pass_that_the_options_name() -> None:
    options = IROptions(stop_after=PassSelector.parse("rangeify:mark-results", "SVOD_STOP_AFTER"))
    variable = UOp.sink(UOp.variable("n", 0, 3))
    assert run_pipeline("rangeify", variable, Context(options=options)).src[0].op is Op.CONTIGUOUS


def test_options_with_unknown_passes_are_refused() -> None:
    options = IROptions(dump=PassSelector.parse("lower:expand,lower:expnad", "SVOD_DUMP"))
    with pytest.raises(OptionError) as caught:
        run_pipeline("optimize", UOp.sink(), Context(options=options))
    assert (
        str(caught.value) == "SVOD_DUMP='lower:expnad' is not a pipeline or a pass; `python -m"
        " svod_schedule.pipeline` lists them\n  hint: unset SVOD_DUMP to use the default"
    )


class TestTables:
    """A table with passes of one's own."""

    @staticmethod
    def make_pass(name: str, *, after: tuple[str, ...] = ()) -> Pass:
        return Pass(name, lambda graph, _: graph, "does nothing", "kernel", after)

    def list_names(self, table: PassTable, pipeline: str = "optimize") -> list[str]:
        return [row.name for row in table[pipeline]]

    def test_a_pass_is_inserted_before_another_or_at_the_end(self) -> None:
        names = self.list_names(PIPELINES)
        assert self.list_names(PIPELINES.with_pass("optimize", self.make_pass("mine"))) == [
            *names,
            "mine",
        ]
        first = PIPELINES.with_pass("optimize", self.make_pass("mine"), before=names[0])
        assert self.list_names(first) == ["mine", *names]
        assert self.list_names(PIPELINES) == names
        assert first["lower"] is PIPELINES["lower"]

    def test_a_pass_with_an_existing_name_replaces_it(self) -> None:
        mine = self.make_pass("merge-loops")
        table = PIPELINES.with_pass("optimize", mine)
        assert self.list_names(table) == self.list_names(PIPELINES)
        assert mine in table["optimize"]

    def test_a_pass_that_others_come_after_can_be_removed(self) -> None:
        table = PIPELINES.without_pass("optimize", "merge-loops")
        assert self.list_names(table) == [
            n for n in self.list_names(PIPELINES) if n != "merge-loops"
        ]

    def test_a_pipeline_runs_the_passes_of_its_context(self) -> None:
        seen: list[str] = []
        mine = Pass("mine", lambda graph, _: graph.with_arg("mine"), "marks the graph", "graph")
        table = PIPELINES.with_pass("rangeify", mine, before="split-complex")
        context = Context(
            passes=table,
            observe=lambda pipeline, name, graph, seconds: seen.append(f"{name} {graph.arg}"),
        )
        run_pipeline("rangeify", UOp.sink(), context)
        assert seen[:2] == ["mine mine", "split-complex mine"]

    @pytest.mark.parametrize(
        ("pipeline", "before", "message"),
        [
            ("optimise", None, "no pipeline is called 'optimise'"),
            ("optimize", "expand", "no pass of optimize is called 'expand'"),
        ],
    )
    def test_unknown_names_are_refused(
        self, pipeline: str, before: str | None, message: str
    ) -> None:
        with pytest.raises(UnknownPassError, match=message):
            PIPELINES.with_pass(pipeline, self.make_pass("mine"), before=before)
        with pytest.raises(UnknownPassError, match=message):
            PIPELINES.without_pass(pipeline, before or "merge-loops")

    def test_an_unknown_stage_is_refused(self) -> None:
        with pytest.raises(UnknownPassError) as caught:
            Pass("mine", lambda graph, _: graph, "does nothing", stage="lowerin")
        assert str(caught.value) == (
            "no stage is called 'lowerin'\n"
            "  note: known names: graph, ranged, kernel graph, kernel, lowering, lowered, program"
        )

    @pytest.mark.parametrize("check", [False, "1"])
    def test_a_pass_that_returns_no_graph_is_named(self, check: Literal[False, "1"]) -> None:
        forgetful = Pass("mine", lambda _graph, _: None, "forgets to return", "graph")  # type: ignore[arg-type, return-value]  # pyright: ignore[reportArgumentType]
        table = PIPELINES.with_pass("rangeify", forgetful, before="split-complex")
        with pytest.raises(PassResultError) as caught:
            run_pipeline(
                "rangeify", UOp.sink(), Context(passes=table, options=IROptions(check=check))
            )
        assert str(caught.value) == (
            "pass 'mine' of rangeify returned None, which is not a graph\n"
            "  hint: return the graph that it gets where there is nothing to change"
        )

    def test_a_pass_that_raises_is_named(self) -> None:
        failing = Pass("mine", lambda _graph, _: 1 // 0, "fails", "graph")  # type: ignore[arg-type, return-value]  # pyright: ignore[reportArgumentType]
        table = PIPELINES.with_pass("rangeify", failing, before="split-complex")
        with pytest.raises(ZeroDivisionError) as caught:
            run_pipeline("rangeify", UOp.sink(), Context(passes=table))
        assert caught.value.__notes__ == ["in pass rangeify:mine"]

    def test_an_order_that_passes_do_not_allow_is_refused(self) -> None:
        mine = self.make_pass("mine", after=("merge-loops",))
        with pytest.raises(PassOrderError) as caught:
            PIPELINES.with_pass("optimize", mine, before="simplify-kernel")
        assert (
            str(caught.value) == "pass 'mine' of optimize must come after 'merge-loops'\n"
            "  hint: insert it later, or remove the names from the `after` of 'mine'"
        )
        with pytest.raises(PassOrderError, match="two passes called 'simplify-kernel'"):
            PIPELINES.with_pass("optimize", self.make_pass("simplify-kernel"), before="merge-loops")


def test_the_prover_names_the_package_that_is_missing() -> None:
    # In a process of its own: this one keeps the modules that it has imported.
    code = (
        "import sys; sys.modules['z3'] = None\n"
        "import svod_schedule.prove as prove\n"
        "print(hasattr(prove, 'prove_all'))\n"
        "try:\n    from svod_schedule.prove import prove_rules\n"
        "except ModuleNotFoundError as error:\n    print(type(error).__name__, error.name, error)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == (
        "False\nMissingPackageError z3 svod_schedule.prove needs z3-solver, which is not installed\n"
        "  hint: pip install z3-solver\n"
    )


def test_the_command_of_the_prover_names_the_package_that_is_missing() -> None:
    code = (
        "import runpy, sys; sys.modules['z3'] = None;"
        " runpy.run_module('svod_schedule.prove', run_name='__main__', alter_sys=True)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout, run.stderr) == (
        2,
        "",
        "error: svod_schedule.prove needs z3-solver, which is not installed; hint: pip install"
        " z3-solver\n",
    )
