"""The example voice detector agrees with its definition in numpy, over a stream of chunks."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from numpy.typing import NDArray

from svod_tensor import Tensor, load_safetensors

Array = NDArray[np.floating]
Weights = Mapping[str, Array]

SHAPES = {
    "stft_conv": (258, 1, 256),
    "conv1": (128, 129, 3),
    "conv2": (64, 128, 3),
    "conv3": (64, 64, 3),
    "conv4": (128, 64, 3),
    "final_conv": (1, 128, 1),
}


def load_example() -> ModuleType:
    path = Path(__file__).parent.parent / "examples" / "voice_activity.py"
    spec = importlib.util.spec_from_file_location("voice_activity", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def convolve(
    x: Array, weight: Array, bias: Array | None = None, stride: int = 1, padding: int = 0
) -> Array:
    padded = np.pad(x, ((0, 0), (padding, padding)))
    places = range(0, padded.shape[1] - weight.shape[2] + 1, stride)
    columns = [(weight * padded[:, p : p + weight.shape[2]]).sum((1, 2)) for p in places]
    return np.stack(columns, 1) + (0 if bias is None else bias[:, None])


def detect(weights: Weights, chunks: Array) -> list[float]:
    """Probability of speech for each chunk, in float64, from the definition."""
    context, hidden, cell = np.zeros(64), np.zeros(128), np.zeros(128)
    found: list[float] = []
    for chunk in chunks.astype(np.float64):
        sound = np.pad(np.concatenate([context, chunk]), (0, 64), "reflect")
        spectrum = convolve(sound[None], weights["stft_conv.weight"], stride=128)
        x = np.hypot(spectrum[:129], spectrum[129:])
        for name, stride in (("conv1", 1), ("conv2", 2), ("conv3", 2), ("conv4", 1)):
            x = np.maximum(
                convolve(x, weights[f"{name}.weight"], weights[f"{name}.bias"], stride, 1), 0
            )
        gates = sum(
            weights[f"lstm_cell.weight_{n}"] @ y + weights[f"lstm_cell.bias_{n}"]
            for n, y in (("ih", x[:, 0]), ("hh", hidden))
        )
        enter, keep, candidate, leave = np.split(gates, 4)
        cell = sigmoid(keep) * cell + sigmoid(enter) * np.tanh(candidate)
        hidden = sigmoid(leave) * np.tanh(cell)
        score = (
            weights["final_conv.weight"][0, :, 0] @ np.maximum(hidden, 0)
            + weights["final_conv.bias"][0]
        )
        found.append(float(sigmoid(score)))
        context = chunk[-64:]
    return found


def check_stream(weights: Mapping[str, Tensor], chunks: Array) -> None:
    detector = load_example().VoiceDetector(weights)
    found = [float(detector.listen(chunk[None]).item()) for chunk in chunks]
    expected = detect(
        {name: tensor.numpy().astype(np.float64) for name, tensor in weights.items()}, chunks
    )
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert len(detector.listen.plans()) == 1
    assert np.ptp(expected) > 1e-3
    recording = load_example().VoiceDetector(weights)
    at_once = [recording.listen(part).numpy() for part in (chunks[:2], chunks[2:])]
    np.testing.assert_allclose(np.concatenate(at_once)[:, 0], expected, atol=1e-5)


def test_a_detector_keeps_state_between_chunks() -> None:
    rng = np.random.default_rng(5)
    shapes = {f"{name}.weight": shape for name, shape in SHAPES.items()}
    shapes |= {f"{name}.bias": shape[:1] for name, shape in SHAPES.items() if name != "stft_conv"}
    shapes |= {f"lstm_cell.weight_{n}": (512, 128) for n in ("ih", "hh")} | {
        f"lstm_cell.bias_{n}": (512,) for n in ("ih", "hh")
    }
    weights = {
        n: Tensor.from_numpy(rng.standard_normal(s, np.float32) / np.float32(np.prod(s[1:]) ** 0.5))
        for n, s in shapes.items()
    }
    check_stream(weights, rng.standard_normal((6, 512), np.float32))


def test_the_pretrained_detector_detects_speech() -> None:
    example = load_example()
    try:
        weights = load_safetensors(example.find_weights())
    except ModuleNotFoundError:
        pytest.skip("the weights come from the package silero-vad")
    sound = example.make_sound(1.5)
    chunks = np.concatenate(list(example.iter_chunks(sound)))
    check_stream(weights, chunks)
    detector = example.VoiceDetector(weights)
    speech = [float(detector.listen(chunk[None]).item()) for chunk in chunks]
    assert max(speech[10:13]) < 0.2 < 0.8 < max(speech[16:30])
