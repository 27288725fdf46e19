"""Detect speech with a pretrained recurrent network, in a stream of chunks or in a whole recording.

    python examples/voice_activity.py [sound.wav]

The weights are in the PyPI package silero-vad (`pip install --no-deps silero-vad`): 310,000
parameters, which take 32 ms of 16 kHz sound at a time. The state of the network is 2 x 128 numbers
and the end of the last chunk. It stays in tensors that each call of one plan reads and assigns, so
that a chunk costs little more than its arithmetic. For a recording, the chunks are convolved
together, and a loop inside the plan runs the recurrent layer over them. Without a file, the sound
is synthesized."""

from __future__ import annotations

import importlib.util
import os
import sys
import wave
from collections.abc import Iterator, Mapping
from pathlib import Path
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from svod_tensor import Tensor, jit, load_safetensors, lstm

SAMPLE_RATE = 16_000
CHUNK = 512
"""Samples per chunk."""
CONTEXT = 64
"""Samples of the preceding chunk that are prepended to a chunk."""
WIDTH = 128

Sound = NDArray[np.float32]


class VoiceDetector:
    """Detector of speech in the chunks of one stream, whose state it holds.

    Source: Silero Team, Silero VAD (2024), its layers in `silero_vad/tinygrad_model.py`.
    """

    def __init__(self, weights: Mapping[str, Tensor]) -> None:
        self.weights = weights
        self.lstm_weights = [
            weights[f"lstm_cell.{name}"]
            for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        ]
        self.hidden, self.cell = Tensor.zeros(1, WIDTH).realize(), Tensor.zeros(1, WIDTH).realize()
        self.context = Tensor.zeros(1, CONTEXT).realize()
        self.listen = jit(self.forward)

    def forward(self, chunks: Tensor) -> Tensor:
        """Return the probability of speech, of shape (n, 1), in the next chunks (n, CHUNK)."""
        ends = self.context.cat(chunks[:, -CONTEXT:])
        features = self.encode(ends[:-1].cat(chunks, axis=1))
        output, (hidden, cell) = lstm(features, self.lstm_weights, (self.hidden, self.cell))
        speech = self.conv("final_conv", output.relu().unsqueeze(-1)).sigmoid().squeeze(-1)
        self.context.assign(ends[-1:])
        self.hidden.assign(hidden)
        self.cell.assign(cell)
        return speech

    def encode(self, sound: Tensor) -> Tensor:
        """Return features of each chunk, of shape (n, WIDTH): spectrogram and convolutions."""
        mirrored = sound.cat(sound[:, -2 : -2 - CONTEXT : -1], axis=1)
        real, imaginary = (
            mirrored.unsqueeze(1)
            .conv2d(self.weights["stft_conv.weight"], stride=128)
            .chunk(2, axis=1)
        )
        x = (real.square() + imaginary.square()).sqrt()
        for name, stride in (("conv1", 1), ("conv2", 2), ("conv3", 2), ("conv4", 1)):
            x = self.conv(name, x, stride=stride, padding=1).relu()
        return x.squeeze(-1)

    def conv(self, name: str, x: Tensor, *, stride: int = 1, padding: int = 0) -> Tensor:
        weight, bias = self.weights[f"{name}.weight"], self.weights[f"{name}.bias"]
        return x.conv2d(weight, bias, stride=stride, padding=padding)


def find_weights() -> Path:
    """Return the path in `SVOD_DEMO_VOICE_MODEL`, or the path of the installed package's weights.

    The package is located without importing it, since its import loads another framework.
    """
    path = os.environ.get("SVOD_DEMO_VOICE_MODEL")
    if path is not None:
        return Path(path)
    spec = importlib.util.find_spec("silero_vad")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(
            "the weights are in a package: pip install --no-deps silero-vad", name="silero_vad"
        )
    return Path(spec.origin).parent / "data" / "silero_vad_16k.safetensors"


def read_sound(path: str) -> Sound:
    """Read a mono WAV file of 16 bits and 16 kHz as samples from -1 to 1."""
    with wave.open(path, "rb") as file:
        layout = file.getnchannels(), file.getsampwidth(), file.getframerate()
        if layout != (1, 2, SAMPLE_RATE):
            raise ValueError(
                f"{path}: expected (channels, bytes, rate) (1, 2, {SAMPLE_RATE}), got {layout}"
            )
        return (
            np.frombuffer(file.readframes(file.getnframes()), np.int16).astype(np.float32) / 32768
        )


def make_sound(seconds: float = 6.0) -> Sound:
    """Synthesize noise with a vowel in its middle third: 120 Hz harmonics with three formants."""
    t = np.arange(int(seconds * SAMPLE_RATE)) / SAMPLE_RATE
    pitch = 120 * t + 0.5 * np.sin(2 * np.pi * 4 * t)
    voice = np.zeros_like(t)
    for harmonic in range(1, 30):
        gain = sum(
            np.exp(-(((120 * harmonic - formant) / 150) ** 2)) for formant in (700, 1200, 2600)
        )
        voice += gain * np.sin(2 * np.pi * harmonic * pitch)
    syllables = np.clip(np.sin(2 * np.pi * 3 * t), 0, 1)
    is_spoken = (t > seconds / 3) & (t < 2 * seconds / 3)
    noise = np.random.default_rng(0).standard_normal(t.size)
    return (0.15 * voice * syllables * is_spoken + 0.003 * noise).astype(np.float32)


def iter_chunks(sound: Sound) -> Iterator[Sound]:
    """Yield chunks of shape (1, CHUNK), the last one padded with silence."""
    padded = np.pad(sound, (0, -sound.size % CHUNK))
    for begin in range(0, padded.size, CHUNK):
        yield padded[None, begin : begin + CHUNK]


def main(paths: list[str]) -> None:
    weights = load_safetensors(find_weights())
    chunks = list(iter_chunks(read_sound(paths[0]) if paths else make_sound()))
    detector = VoiceDetector(weights)
    times: list[float] = []
    for index, chunk in enumerate(chunks):
        before = perf_counter()
        speech = float(detector.listen(chunk).item())
        times.append(perf_counter() - before)
        if index % 4 == 0:
            print(f"{index * CHUNK / SAMPLE_RATE:6.2f} s {speech:5.2f} {'#' * round(40 * speech)}")
    (plan,) = detector.listen.plans()
    print(
        f"\nfirst call {1e3 * times[0]:.0f} ms, {plan.num_kernels} kernels, {1e6 * min(times):.0f}"
        " us for 32 ms of sound"
    )
    recording = Tensor(np.concatenate(chunks))
    detector = VoiceDetector(weights)
    detector.listen(recording)
    before = perf_counter()
    detector.listen(recording)
    print(
        f"a recording of {len(chunks)} chunks at once:"
        f" {1e6 * (perf_counter() - before) / len(chunks):.0f} us per chunk"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
