"""Mutated models of ONNX: a fixed sample of the mutations of `onnx_mutations`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_mutated_models_work_or_raise_documented_errors() -> None:
    script = Path(__file__).with_name("onnx_mutations.py")
    arguments = ["--bases", "small", "--seed", "0", "--count", "400"]
    result = subprocess.run(
        [sys.executable, str(script), *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "400 mutants" in result.stdout
