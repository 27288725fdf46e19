"""Output of the command for a model and a run."""

from __future__ import annotations

import json
import logging
import re
from dataclasses import replace
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnx
import onnx.parser
import pytest

from svod_ir import get_logger
from svod_onnx import _registry
from svod_onnx._command import main
from svod_onnx._progress import show_progress
from svod_onnx._reference_comparison import Difference, _measure
from svod_tensor import clear_caches

MODEL = """<ir_version: 10, opset_import: ["" : 21, "strange" : 1]>
main (float[n, 3] x) => (float[n, 3] y) <float[3] w = {1, 2, 3}> { a = Add(x, w)  y = Mul(a, a) }"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    onnx.save(onnx.parser.parse_model(MODEL), tmp_path / "model.onnx")
    return tmp_path / "model.onnx"


def test_the_command_describes_a_model(path: Path) -> None:
    out = StringIO()
    assert main([str(path)], out) == 0
    assert out.getvalue().splitlines() == [
        "inputs:",
        "  x: float32(n, 3)",
        "outputs:",
        "  y: float32(n, 3)",
        "operators: 2 nodes",
        "      1  Add (version 14)",
        "      1  Mul (version 14)",
        "parameters: 3 in 1 tensors, 0.0 MiB",
    ]


def test_an_unsupported_operator_is_marked(path: Path) -> None:
    onnx.save(onnx.parser.parse_model(MODEL.replace("Mul(", "strange.Mix(")), path)
    out = StringIO()
    assert main([str(path)], out) == 0
    assert "strange.Mix (version 1): not supported" in out.getvalue()


def test_a_run_with_sizes_and_arrays(path: Path, tmp_path: Path) -> None:
    out = StringIO()
    assert main([str(path), "--run", "--size", "n=4"], out) == 0
    assert "y: float32(4, 3)" in out.getvalue()
    np.save(tmp_path / "x.npy", np.zeros((2, 3), np.float32))
    assert main([str(path), "--run", "--input", f"x={tmp_path / 'x.npy'}"], out) == 0
    assert out.getvalue().endswith("  y: float32(2, 3), 1.0 to 9.0\n")


def test_the_first_run_reports_the_compiled_kernels(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clear_caches()
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("SVOD_CACHE_DIR", folder)
        assert main([str(path), "--run"], StringIO()) == 0
        assert capsys.readouterr().err == "1 kernel compiled\n"
        assert main([str(path), "--run"], StringIO()) == 0
        assert capsys.readouterr().err == ""


def test_a_terminal_shows_a_progress_bar() -> None:
    class Terminal(StringIO):
        def isatty(self) -> bool:
            return True

    out = Terminal()
    with show_progress(out):
        get_logger("tensor").info("compile.kernel", name="r_4")
        get_logger("tensor").info("realize.done")
    assert "compiling kernel 1" in out.getvalue()
    assert out.getvalue().endswith("1 kernel compiled\n")
    assert not logging.getLogger("svod.tensor").isEnabledFor(logging.INFO)


def test_kernels_are_tuned(path: Path) -> None:
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("SVOD_CACHE_DIR", folder)
        clear_caches()
        out = StringIO()
        assert main([str(path), "--tune", "--size", "n=64", "--seconds", "2"], out) == 0
    lines = out.getvalue().splitlines()
    assert any(line.split()[:3] == ["kernel", "before", "after"] for line in lines), lines
    assert any(line.startswith("  y: float32(64, 3)") for line in lines)


def test_errors_go_to_stderr(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(path), "--run", "--size", "n"], StringIO()) == 2
    assert "NAME=VALUE" in capsys.readouterr().err
    assert main([str(path.parent / "none.onnx")], StringIO()) == 2
    assert "none.onnx" in capsys.readouterr().err


def test_a_profile_lists_the_time_by_operator(path: Path, tmp_path: Path) -> None:
    out, trace = StringIO(), tmp_path / "trace.json"
    assert main([str(path), "--profile", "--trace", str(trace), "--size", "n=50"], out) == 0
    text = out.getvalue()
    assert "GFLOP/s" in text
    assert text.splitlines()[-1].split()[1:] == ["us", "Add", "+", "Mul"]
    assert json.loads(trace.read_text())


@pytest.fixture
def wrong_tanh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace Tanh by a wrong function."""
    (row,) = _registry._operators["", "Tanh"]
    monkeypatch.setitem(
        _registry._operators,
        ("", "Tanh"),
        [replace(row, function=lambda x: x.tanh() + 0.01, takes_node=False)],
    )


CHAIN = """<ir_version: 10, opset_import: ["" : 21]>
g (float[n, 3] x) => (float[n, 3] y) { a = Exp(x)  b = Tanh(a)  y = Neg(b) }"""


def test_equal_results_have_no_first_difference(tmp_path: Path) -> None:
    onnx.save(onnx.parser.parse_model(CHAIN), tmp_path / "model.onnx")
    out = StringIO()
    assert main([str(tmp_path / "model.onnx"), "--bisect"], out) == 0
    title, output, result = out.getvalue().splitlines()[-3:]
    assert title.startswith("compared with onnx")
    assert output.startswith("  y: largest difference ")
    assert result.startswith("no node differs by more than 0.0001")


@pytest.mark.usefixtures("wrong_tanh")
def test_the_first_node_that_differs_is_found(tmp_path: Path) -> None:
    onnx.save(onnx.parser.parse_model(CHAIN), tmp_path / "model.onnx")
    out = StringIO()
    assert main([str(tmp_path / "model.onnx"), "--compare", "--bisect"], out) == 0
    node, difference = out.getvalue().splitlines()[-2:]
    assert node == "first node that differs: 'b' (Tanh):"
    assert difference.startswith("  b: largest difference 0.01, 0.01")


def test_different_shapes_and_nans_are_differences() -> None:
    nothing = np.array([np.nan, 1], np.float32)
    assert _measure("y", nothing, nothing) == Difference("y", 0.0, 0.0)
    assert _measure("y", nothing, np.array([2, 1], np.float32)).is_large
    assert _measure("y", np.zeros(3), np.zeros(2)).is_large
    assert _measure("y", np.array([2, 4]), np.array([2, 5])) == Difference("y", 1.0, 0.2)
    assert not _measure("y", np.zeros((0, 2)), np.zeros((0, 2))).is_large


def test_a_benchmark_prints_a_row_per_library(
    path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    out = StringIO()
    assert main([str(path), "--bench", "--size", "n=4"], out) == 0
    *_, header, own, other = out.getvalue().splitlines()
    assert header.split() == ["load", "first", "call", "call", "peak", "memory"]
    assert re.fullmatch(r"svod_onnx( +[0-9.,]+ ms){3} +[0-9.,]+ MiB", own)
    assert re.fullmatch(r"onnxruntime( +not installed|( +[0-9.,]+ ms){3} +[0-9.,]+ MiB)", other)
    monkeypatch.setattr("svod_onnx._benchmark.find_spec", lambda name: None)
    out = StringIO()
    assert main([str(path), "--bench"], out) == 0
    assert out.getvalue().splitlines()[-1].split() == ["onnxruntime", "not", "installed"]


def test_a_benchmark_of_a_model_that_fails(path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    onnx.save(onnx.parser.parse_model(MODEL.replace("Mul(", "strange.Mix(")), path)
    out = StringIO()
    assert main([str(path), "--bench"], out) == 0
    assert out.getvalue().splitlines()[-2].split() == ["svod_onnx", "failed"]
    assert "unsupported operators: strange.Mix" in capfd.readouterr().err
