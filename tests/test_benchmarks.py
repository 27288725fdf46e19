"""Benchmarks with small sizes: each workload runs and agrees with numpy in float64."""

from __future__ import annotations

import dataclasses
import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"
PEERS = ("torch", "jax", "onnxruntime")
FAMILIES = (
    "products",
    "batched products",
    "einsum",
    "convolutions",
    "attention",
    "reductions",
    "elementwise",
    "movement",
    "positions",
    "order",
    "graphs",
    "optimizers",
)


@pytest.fixture
def families(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("families")


def test_the_benchmark_has_these_families(families: Any) -> None:
    assert tuple(families.FAMILIES) == FAMILIES


@pytest.mark.parametrize("family", FAMILIES)
def test_every_kind_of_a_family_agrees_with_numpy(families: Any, family: str) -> None:
    for workload in families.iter_family(
        family, seed=5, n_rows=len(families.FAMILIES[family]), scale=8
    ):
        row = families.measure_workload(workload, seconds=0.0, without=PEERS)
        assert row["wrong"] == [], row["name"]
        assert row["plan"] > 0
        assert row["jit"] > 0


def test_a_row_depends_only_on_seed_and_index(families: Any) -> None:
    def list_names(seed: int, n_rows: int) -> list[str]:
        return [
            workload.name for workload in families.iter_family("products", seed, n_rows, scale=8)
        ]

    assert list_names(3, 2) == list_names(3, 4)[:2]
    assert list_names(3, 4) != list_names(4, 4)


def test_a_wrong_result_is_reported_with_its_library(families: Any) -> None:
    (workload,) = families.iter_family("graphs", seed=1, n_rows=1, scale=8)
    doubled = dataclasses.replace(workload, numpy=lambda *inputs: 2 * workload.numpy(*inputs))
    row = families.measure_workload(doubled, seconds=0.0, without=PEERS)
    assert row["wrong"] == ["plan is 0.5 away from float64", "jit is 0.5 away from float64"]


def test_summaries_have_the_means_and_fractions_of_the_ratios(families: Any) -> None:
    rows = [
        {"family": "a", "peer": "torch", "ratio_plan": 2.0, "ratio_jit": 0.5},
        {"family": "a", "peer": "jax", "ratio_plan": 8.0, "ratio_jit": 0.8},
        {"family": "b", "peer": "jax", "ratio_plan": 0.5, "ratio_jit": 1.0},
        {"family": "b"},
    ]
    first, second, everything = families.summarize(rows)
    assert (first["rows"], second["rows"], everything["rows"]) == (2, 1, 3)
    assert first["mean_plan"] == pytest.approx(4.0)
    assert everything["mean_plan"] == pytest.approx(2.0)
    assert (first["slow_jit"], first["cliffs_jit"]) == (1.0, 0.5)
    assert everything["slow_plan"] == pytest.approx(1 / 3)


def run_script(name: str, *arguments: str) -> tuple[str, Any]:
    """Run a script, and return its output and its report, whose file is removed."""
    command = [sys.executable, name, *arguments]
    result = subprocess.run(command, cwd=BENCHMARKS, check=False, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    path = Path(
        next(line for line in reversed(result.stdout.splitlines()) if line.endswith(".json"))
    )
    report = json.loads(path.read_text())
    path.unlink()
    return result.stdout, report


def test_families_write_a_table_and_a_report() -> None:
    printed, report = run_script(
        "families.py", "--quick", "--seed", "9", "--threads", "1", "order", "graphs"
    )
    assert "seed 9" in printed
    assert {row["family"] for row in report["rows"]} == {"order", "graphs"}
    assert len(report["rows"]) == 4
    assert [line["family"] for line in report["summaries"]] == ["order", "graphs", "all"]


def test_an_unknown_family_is_refused() -> None:
    command = [sys.executable, "families.py", "--quick", "no-such"]
    result = subprocess.run(command, cwd=BENCHMARKS, check=False, capture_output=True, text=True)
    assert result.returncode == 2
    assert "no families no-such" in result.stderr


def test_a_decoder_agrees_with_numpy_and_reports_its_share_of_read_bandwidth() -> None:
    printed, report = run_script(
        "decoder.py", "--quick", "--alone", "--threads", "1", "--layers", "3"
    )
    assert "tokens a second" in printed
    assert report["sizes"]["layers"] == 3
    assert report["distance"]["svod"] < 0.05
    assert report["share"]["svod"] == pytest.approx(
        report["read_bytes"] / report["bandwidth"] / report["seconds"]["svod"]
    )


def test_random_weights_have_the_right_shapes_and_preserve_the_scale_of_activations(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    decoder = importlib.import_module("decoder")
    sizes = decoder.QUICK._replace(width=256, inner=500)
    weights = decoder.sample_weights(sizes)
    assert [array.shape for array in weights.arrays] == sizes.list_shapes()
    assert all(array.ctypes.data % 16 == 0 for array in weights.arrays)
    for array in weights.arrays[1:]:
        values = (array.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
        gain = np.sqrt((values**2).mean() * (array.shape[-1] if array.ndim > 1 else 1))
        assert 0.7 < gain < 1.45


def test_widths_are_measured_for_every_program() -> None:
    _, report = run_script("widths.py", "--widths", "16", "17", "--seconds", "0.001")
    assert all(
        set(times) == {"16", "17"} and min(times.values()) > 0 for times in report["rows"].values()
    )
    assert len(report["rows"]) == 6


def test_movements_agree_with_numpy() -> None:
    names = ("transpose uint8", "concat uint8 rows of 3", "pad float32 rows of 17")
    _, report = run_script("movement.py", "--quick", "--threads", "1", *names)
    assert len(report["workloads"]) == 5
    for workload in report["workloads"]:
        assert workload["name"].startswith(names)
        assert min(workload["svod"], workload["numpy"]) > 0
