"""The page of the fourteen words: what each makes, in which order, and who sees it."""

from __future__ import annotations

import io
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from svod_device import CompiledSpec, ProgramSpec, get_device
from svod_ir import Op, UOp
from svod_runtime import CachedKernel, ExecutionPlan, ExecutionPlanBuilder
from svod_schedule import OptimizerConfig
from svod_schedule.steps import OptimizedKernel
from svod_tensor import Tensor, caches, clear_caches, jit
from svod_tensor.engine import compute
from svod_tensor.engine.build import TensorGraph
from svod_tensor.engine.observe import get_observer, ignore, observing
from svod_tensor.engine.preschedule import PreSchedule
from svod_tensor.engine.schedule import Schedule
from svod_tensor.explain import WORDS, main

OF_THE_GRAPH = ["build", "rangeify", "kernelize", "preschedule", "instantiate"]
OF_A_KERNEL = ["optimize", "lower", "linearize", "render"]
TYPES = {
    "build": TensorGraph,
    "rangeify": UOp,
    "kernelize": UOp,
    "preschedule": PreSchedule,
    "instantiate": Schedule,
    "optimize": OptimizedKernel,
    "lower": UOp,
    "linearize": UOp,
    "render": ProgramSpec,
    "compile": CompiledSpec,
    "load": CachedKernel,
    "prepare": ExecutionPlanBuilder,
    "plan": ExecutionPlan,
}


class Recorder:
    """An observer that remembers."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, object]] = []

    def __call__(self, word: str, subject: str, artifact: object) -> None:
        self.seen.append((word, subject, artifact))

    @property
    def words(self) -> list[str]:
        return [word for word, *_ in self.seen]


def test_each_step_is_on_the_page() -> None:
    assert compute.__doc__ is not None
    listed = [line.split()[0] for line in compute.__doc__.splitlines() if "→" in line]
    assert tuple(listed) == WORDS
    for word in WORDS:
        assert hasattr(compute, {"compile": "start_compiling"}.get(word, word)), word


def test_an_observer_sees_each_artifact_in_order_and_by_its_type() -> None:
    recorder = Recorder()
    with observing(recorder):
        x = Tensor([1.0, 2.0, 3.0])
        ((x * 2).contiguous() + x).realize()
    # The kernels are rendered one after the other, and compiled at the same time.
    expected = [*OF_THE_GRAPH, *OF_A_KERNEL * 2, *["compile", "load"] * 2, "prepare", "plan"]
    assert recorder.words == expected
    for word, subject, artifact in recorder.seen:
        assert isinstance(artifact, TYPES[word])
        assert (
            subject == "graph" if TYPES[word] in (TensorGraph, Schedule, ExecutionPlan) else subject
        )
    assert Counter(subject for _, subject, _ in recorder.seen) == {
        "graph": 7,
        "kernel 0": 6,
        "kernel 1": 6,
    }
    assert get_observer() is ignore


@pytest.mark.parametrize("way", ["realize", "prepare", "jit"])
def test_every_computation_is_observed(way: str) -> None:
    recorder, x = Recorder(), Tensor([1.0, 2.0])
    with observing(recorder):
        if way == "realize":
            (x * 3 + 1).realize()
        elif way == "prepare":
            (x * 3 + 1).prepare()
        else:
            jit(lambda t: t * 3 + 1)(x)
    assert [*OF_THE_GRAPH, *OF_A_KERNEL, "compile", "load", "prepare", "plan"] == recorder.words


@pytest.mark.usefixtures("own_stores")
def test_observed_computations_neither_read_nor_fill_the_caches() -> None:
    clear_caches()

    def compute_it() -> list[float]:
        return (Tensor([1.0, 2.0]) * 5.5).sum().tolist()  # type: ignore[return-value]

    found = compute_it()
    before = {name: counts.entries for name, counts in caches().items()}
    for _ in range(2):
        recorder = Recorder()
        with observing(recorder):
            assert compute_it() == found
        assert recorder.words.count("render") == 1
    assert {name: counts.entries for name, counts in caches().items()} == before
    hits = caches()["template"].hits
    assert compute_it() == found
    assert caches()["template"].hits == hits + 1


def test_observers_are_called_in_order_and_removed_independently() -> None:
    first, second = Recorder(), Recorder()
    with observing(first):
        with observing(second):
            (Tensor([1.0]) * 7).realize()
        (Tensor([1.0]) * 8).realize()
    assert first.words == second.words * 2


def test_an_exception_of_an_observer_ends_the_computation_and_leaves_the_tensor_unchanged() -> None:
    def refuse(word: str, _subject: str, _artifact: object) -> None:
        if word == "lower":
            raise RuntimeError("enough")

    x = Tensor([1.0, 2.0]) * 9
    with observing(refuse), pytest.raises(RuntimeError, match="enough"):
        x.realize()
    assert x.tolist() == [9.0, 18.0]


def test_explaining_runs_no_kernel_twice(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(
        "from svod_tensor import Tensor, jit\n"
        "state = Tensor([0.0, 0.0]).realize()\n"
        "@jit\n"
        "def step(x):\n"
        "    state.assign(state + x)\n"
        "    return state * 2\n"
        "x = Tensor([1.0, 2.0])\n"
        "results = [step(x).tolist() for _ in range(3)]\n"
        "plan = (x * 4).prepare()\n"
        "plan.execute()\n"
        "state.assign(state + 1)\n"
        "print(results, state.tolist())\n"
    )
    out = io.StringIO()
    assert main([str(script), "build", "plan", "execute", "--lines", "0"], out) == 0
    text = out.getvalue()
    # The function, the plan, and the last assignment.
    assert (
        text.count("==  1 build: graph")
        == text.count("== 13 plan: graph")
        == text.count("== 14 execute: graph")
        == 3
    )


def test_a_script_computes_the_same_while_it_is_explained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "program.py"
    script.write_text(
        "from svod_tensor import Tensor\n"
        "x = Tensor([1.0, 2.0]).realize()\n"
        "for _ in range(3):\n"
        "    x.assign(x + 1)\n"
        "    x.realize()\n"
        "print(x.tolist())\n"
    )
    assert main([str(script)], io.StringIO()) == 0
    assert capsys.readouterr().out == "[4.0, 5.0]\n"


def test_stages_that_are_graphs_are_graphs_of_their_stage() -> None:
    recorder = Recorder()
    with observing(recorder):
        (Tensor(np.ones((4, 4), np.float32)) @ Tensor(np.ones((4, 4), np.float32))).realize()
    made = {word: artifact for word, _, artifact in recorder.seen}
    graph, ranged, kernels = made["build"], made["rangeify"], made["kernelize"]
    assert isinstance(graph, TensorGraph) and isinstance(ranged, UOp) and isinstance(kernels, UOp)
    assert any(graph.sink.iter_ops(Op.REDUCE_AXIS)) and not any(graph.sink.iter_ops(Op.BUFFER))
    assert any(ranged.iter_ops(Op.REDUCE)) and not any(ranged.iter_ops(Op.CALL))
    assert any(kernels.iter_ops(Op.CALL))


def test_kernels_run_on_as_many_threads_as_the_configuration_allows() -> None:
    target = get_device("CPU").target
    if target.cores < 2:
        pytest.skip("the machine has one core")
    x = Tensor(np.ones((512, 512), np.float32)).realize()
    counts = {}
    for threads in (0, 1, 2):
        config = OptimizerConfig(threads=threads)
        plan = (x @ x).sum().prepare_with(config)
        plan.execute()
        assert plan.output_buffer is not None
        assert plan.output_buffer.as_numpy().tolist() == [512.0**3]
        counts[threads] = max(kernel.global_size[0] for kernel in plan.kernels())
    assert counts[1] == 1
    # Where all threads may run, they share more parts.
    assert 2 <= counts[0] <= target.max_parts
    assert counts[2] == (counts[0] if target.cores == 2 else 2)
