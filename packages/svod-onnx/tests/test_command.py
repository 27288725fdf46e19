"""What the command prints of a model, and of a run."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest

from svod_onnx._command import main

MODEL = """<ir_version: 10, opset_import: ["" : 21, "strange" : 1]>
main (float[n, 3] x) => (float[n, 3] y) <float[3] w = {1, 2, 3}> { a = Add(x, w)  y = Mul(a, a) }"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    onnx.save(onnx.parser.parse_model(MODEL), tmp_path / "model.onnx")
    return tmp_path / "model.onnx"


def test_a_model_is_described(path: Path) -> None:
    out = StringIO()
    assert main([str(path)], out) == 0
    assert out.getvalue().splitlines() == [
        "inputs:", "  x: float32(n, 3)", "outputs:", "  y: float32(n, 3)",
        "operators: 2 nodes", "      1  Add (version 14)", "      1  Mul (version 14)",
        "parameters: 3 in 1 tensors, 0.0 MiB",
    ]  # fmt: skip


def test_an_operator_that_is_missing_is_marked(path: Path) -> None:
    onnx.save(onnx.parser.parse_model(MODEL.replace("Mul(", "strange.Mix(")), path)
    out = StringIO()
    assert main([str(path)], out) == 0
    assert "strange.Mix (version 1): svod-onnx has it not" in out.getvalue()


def test_a_run_takes_sizes_and_arrays(path: Path, tmp_path: Path) -> None:
    out = StringIO()
    assert main([str(path), "--run", "--size", "n=4"], out) == 0
    assert "y: float32(4, 3)" in out.getvalue()
    np.save(tmp_path / "x.npy", np.zeros((2, 3), np.float32))
    assert main([str(path), "--run", "--input", f"x={tmp_path / 'x.npy'}"], out) == 0
    assert out.getvalue().endswith("  y: float32(2, 3), 1.0 to 9.0\n")


def test_what_cannot_be_is_said(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(path), "--run", "--size", "n"], StringIO()) == 2
    assert "NAME=VALUE" in capsys.readouterr().err
    assert main([str(path.parent / "none.onnx")], StringIO()) == 2
    assert "none.onnx" in capsys.readouterr().err
