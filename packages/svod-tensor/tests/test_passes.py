"""Passes of one's own compile tensor programs, and touch nothing that others share."""

from __future__ import annotations

import numpy as np
import pytest

from svod_codegen.kernel_store import get_kernel_store
from svod_ir import MiscompilationError, Op, RuleSet, UOp, count_matches, graph_rewrite, rule
from svod_ir.pattern import FLOAT, const, node, splat, var
from svod_schedule import ConfigError, OptimizerConfig
from svod_schedule.pipeline import PIPELINES, Context, Pass, PassTable
from svod_tensor import PrepareConfig, Tensor, Variable
from svod_tensor.explain import explain


@rule(node(Op.ADD, node(Op.INDEX, name="x", has_more=True), const("c")))
def double_constant(x: UOp, c: UOp) -> UOp | None:
    """x + 0.5 -> x + 1: wrong on purpose, so that results show where it ran."""
    return x + 1.0 if c.arg == 0.5 else None


WRONG = RuleSet("wrong", (double_constant,))


def make_table(seen: list[str], pipeline: str = "optimize") -> PassTable:
    def run(graph: UOp, context: Context) -> UOp:
        seen.append(context.device)
        return graph_rewrite(WRONG, graph)

    return PIPELINES.with_pass(pipeline, Pass("wrong", run, "adds too much", "kernel"))


def compute(passes: PassTable | None) -> object:
    return (Tensor([1.0, 2.0, 3.0]) + 0.5).realize_with(PrepareConfig(passes=passes)).tolist()


@pytest.mark.parametrize("pipeline", ["rangeify", "optimize"])
def test_a_custom_pass_runs_once_for_each_of_its_pipelines_only(pipeline: str):
    seen: list[str] = []
    first, second = make_table(seen, pipeline), make_table(seen, pipeline)
    assert compute(None) == [1.5, 2.5, 3.5]
    assert [compute(first), compute(first), compute(second)] == [[2.0, 3.0, 4.0]] * 3
    assert seen == ["CPU", "CPU"]
    assert compute(None) == [1.5, 2.5, 3.5]


def test_kernels_of_custom_passes_are_not_stored_on_disk(monkeypatch: pytest.MonkeyPatch):
    def refuse(*_arguments: object) -> None:
        raise AssertionError("the store is for the compiler's own kernels")

    monkeypatch.setattr(get_kernel_store(), "find", refuse)
    monkeypatch.setattr(get_kernel_store(), "add", refuse)
    assert compute(make_table([])) == [2.0, 3.0, 4.0]


def plant(pipeline: str) -> PassTable:
    """A wrong rule at the end of a pipeline."""

    @rule(var("x", FLOAT) + splat(value=0.5))
    def add_too_much(x: UOp) -> UOp:
        """x + 0.5 -> x + 1."""
        return x + UOp.const(x.dtype, 1.0)

    rules = RuleSet("planted", (add_too_much,))
    stage = PIPELINES[pipeline][-1].stage
    run = Pass(
        "wrong",
        lambda graph, _: graph_rewrite(rules, graph, enter_calls=True),
        "adds too much",
        stage,
    )
    return PIPELINES.with_pass(pipeline, run)


@pytest.mark.parametrize("pipeline", [name for name, _ in PIPELINES.items()])
def test_a_check_of_values_names_the_wrong_rule(pipeline: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SVOD_CHECK", "values")
    with pytest.raises(MiscompilationError) as caught:
        compute(plant(pipeline))
    assert (caught.value.pass_name, caught.value.rule) == (
        f"{pipeline}:wrong",
        "add_too_much of planted",
    )
    assert " + 0.5)" in str(caught.value.node) or "vconst" in str(caught.value.node)


def test_the_compiler_passes_a_check_of_values(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("SVOD_CHECK", "values")
    x = np.arange(60, dtype=np.float32).reshape(5, 12) / 60
    tensor = Tensor(x)
    logits = (tensor @ tensor[:, ::-1].T).exp()
    found = (logits / logits.sum(1, keepdims=True)).cumsum(0)[1:].max(0)
    expected = np.exp(x @ x[:, ::-1].T)
    expected = (expected / expected.sum(1, keepdims=True)).cumsum(0)[1:].max(0)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5)
    assert "not compared" not in capsys.readouterr().err


def test_sizes_that_depend_on_variables_pass_a_check_of_values(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("SVOD_CHECK", "values")
    n = Variable("n", 1, 9)
    x = np.arange(20, dtype=np.float32).reshape(10, 2)
    found = (Tensor(x)[: n.bind(4)] * 2 + 1).cumsum(0)
    np.testing.assert_array_equal(found.numpy(), (x[:4] * 2 + 1).cumsum(0))
    assert "not compared" not in capsys.readouterr().err


def test_views_that_are_written_pass_a_check_of_values(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    x = Tensor([1.0, 2.0, 3.0, 4.0]).realize()
    monkeypatch.setenv("SVOD_CHECK", "values")
    tens = x * 10
    x[1:3] = x.flip(0)[:2] + 1
    assert [x.tolist(), tens.tolist()] == [[1.0, 5.0, 4.0, 4.0], [10.0, 20.0, 30.0, 40.0]]
    assert "not compared" not in capsys.readouterr().err


def test_shards_and_copies_on_several_devices_pass_a_check_of_values(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    rows = np.arange(15, dtype=np.float32).reshape(5, 3)
    devices = ["CPU:1", "CPU:2"]
    split, copied = (
        Tensor(rows).shard(devices, axis=0).realize(),
        Tensor(rows[0]).shard(devices).realize(),
    )
    monkeypatch.setenv("SVOD_CHECK", "values")
    np.testing.assert_array_equal((split * copied).numpy(), rows * rows[0])
    np.testing.assert_array_equal((split * copied).sum(0).numpy(), (rows * rows[0]).sum(0))
    assert "not compared" not in capsys.readouterr().err


def test_explain_shows_the_results_of_configured_passes():
    seen: list[str] = []
    config = PrepareConfig(passes=make_table(seen))
    optimized = next(
        a.text for a in explain([Tensor([1.0, 2.0]) + 0.5], config) if a.word == "optimize"
    )
    assert "CONST f32 [1.0]" in optimized
    assert seen


def test_a_search_has_the_compiler_s_own_passes():
    with pytest.raises(
        ConfigError, match=r"optimizer\.strategy='beam' is not possible with passes of your own"
    ):
        PrepareConfig(passes=make_table([]), optimizer=OptimizerConfig(strategy="beam"))


def test_matches_are_counted_where_the_kernel_is_known_already():
    def run() -> None:
        rows = Tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
        assert (rows[:, ::-1] * 3.0).sum(1).tolist() == [18.0, 45.0]

    counts: list[dict[str, int]] = []
    for _ in range(3):
        with count_matches() as found:
            run()
        counts.append(dict(found))
        run()
    assert counts[0] == counts[1] == counts[2]
    assert sum(counts[0].values()) > 5
