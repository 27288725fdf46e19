"""Transcribe a recording to notes with a pretrained ONNX model, and plot a piano roll.

    python examples/onnx_model.py [sound.wav] [--picture notes.png]

The model is in the PyPI package basic-pitch (`pip install --no-deps basic-pitch`). It is a
convolutional network that takes two seconds of sound. For each frame and each of the 88 piano keys
it predicts whether a note starts and whether a note sounds. The package itself runs the model in
another framework; here svod-onnx loads the file, and one plan computes all windows of a recording.
Without a file, the sound is a synthesized melody with known notes."""

from __future__ import annotations

import argparse
import importlib.util
import os
import wave
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

import svod_onnx
from svod_tensor import Tensor, jit

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SAMPLE_RATE = 22_050
WINDOW = 43_844
"""Input samples per window."""
FRAMES = 172
"""Output frames per window: one frame for each 256 samples."""
HOP = 256
OVERLAP = 30
"""Frames that two windows share. At a window's ends, a frame has context on only one side."""
STEP = (FRAMES - OVERLAP) * HOP
"""Samples between the starts of consecutive windows."""
LOWEST = 21
"""MIDI number of the lowest piano key."""
SOUNDING_THRESHOLD, START_THRESHOLD = 0.4, 0.5
SHORTEST = 8
"""Minimum length of a note in frames: 0.09 s."""

Sound = NDArray[np.float32]
Activations = NDArray[np.float32]


@dataclass(frozen=True)
class Note:
    """Note of a piano key (a MIDI number), with start and end in seconds."""

    key: int
    start: float
    end: float

    @property
    def name(self) -> str:
        letters = ("C", "C#", "D", "D#", "E", "F", "F#", "G", "G#", "A", "A#", "B")
        return f"{letters[self.key % 12]}{self.key // 12 - 1}"


MELODY = [
    Note(key, 0.1 + 0.42 * index, 0.1 + 0.42 * index + 0.36)
    for index, key in enumerate([60, 62, 64, 67, 64, 62, 60, 72, 69, 67])
] + [Note(48, 0.1, 1.6), Note(43, 1.8, 2.9), Note(48, 3.1, 4.25)]


def find_model() -> Path:
    """Return the path in `SVOD_DEMO_NOTES_MODEL`, or the path of the installed package's model.

    The package is located without importing it, since its import loads another framework.
    """
    path = os.environ.get("SVOD_DEMO_NOTES_MODEL")
    if path is not None:
        return Path(path)
    spec = importlib.util.find_spec("basic_pitch")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(
            "the model is in a package: pip install --no-deps basic-pitch", name="basic_pitch"
        )
    return Path(spec.origin).parent / "saved_models" / "icassp_2022" / "nmp.onnx"


def read_sound(path: str) -> Sound:
    """Read a mono WAV file of 16 bits and 22.05 kHz as samples from -1 to 1."""
    with wave.open(path, "rb") as file:
        layout = file.getnchannels(), file.getsampwidth(), file.getframerate()
        if layout != (1, 2, SAMPLE_RATE):
            raise ValueError(
                f"{path}: expected (channels, bytes, rate) (1, 2, {SAMPLE_RATE}), got {layout}"
            )
        return (
            np.frombuffer(file.readframes(file.getnframes()), np.int16).astype(np.float32) / 32768
        )


def synthesize(notes: Sequence[Note]) -> Sound:
    """Synthesize notes like a plucked string: six decaying harmonics and a little noise."""
    t = np.arange(int((max(note.end for note in notes) + 0.3) * SAMPLE_RATE)) / SAMPLE_RATE
    sound = 0.001 * np.random.default_rng(0).standard_normal(t.size)
    for note in notes:
        pitch = 440 * 2 ** ((note.key - 69) / 12)
        since = t - note.start
        loudness = np.where(
            (since >= 0) & (t < note.end), np.clip(since / 0.01, 0, 1) * np.exp(-2 * since), 0
        )
        sound += (
            0.2 * loudness * sum(np.sin(2 * np.pi * pitch * n * t) / n**1.5 for n in range(1, 7))
        )
    return sound.astype(np.float32)


def cut_windows(sound: Sound) -> Sound:
    """Split a sound into overlapping windows of shape (n, WINDOW, 1).

    The first window begins half an overlap before the sound.
    """
    before = OVERLAP // 2 * HOP
    n_windows = -(-sound.size // STEP)
    padded = np.pad(sound, (before, n_windows * STEP + WINDOW - sound.size))
    return np.stack([padded[n * STEP : n * STEP + WINDOW, None] for n in range(n_windows)])


def join_frames(frames: Activations, n_samples: int) -> Activations:
    """Concatenate the frames of windows, of shape (n, FRAMES, 88), without their overlap."""
    half = OVERLAP // 2
    return frames[:, half : FRAMES - half].reshape(-1, frames.shape[2])[: n_samples // HOP]


def find_notes(sounding: Activations, starting: Activations) -> list[Note]:
    """Find the notes in frames of shape (n, 88).

    A note lasts from its start until it stops sounding or the key starts again.
    """
    notes: list[Note] = []
    for key in range(sounding.shape[1]):
        column = starting[:, key]
        is_peak = (
            (column > START_THRESHOLD)
            & (column >= np.roll(column, 1))
            & (column > np.roll(column, -1))
        )
        starts = [*np.flatnonzero(is_peak).tolist(), len(column)]
        for start, limit in pairwise(starts):
            silent = np.flatnonzero(sounding[start + 1 : limit, key] < SOUNDING_THRESHOLD)
            end = start + 1 + int(silent[0]) if silent.size else limit
            if end - start >= SHORTEST:
                notes.append(Note(LOWEST + key, start * HOP / SAMPLE_RATE, end * HOP / SAMPLE_RATE))
    return sorted(notes, key=lambda note: (note.start, note.key))


def transcribe(
    model: Callable[[Tensor], tuple[Tensor, ...]], sound: Sound
) -> tuple[Activations, list[Note]]:
    """Return the probability that each key sounds, of shape (n, 88), and the notes."""
    starting, sounding, _ = (
        join_frames(result.numpy(), sound.size) if result.shape[2] == 88 else result.numpy()
        for result in model(Tensor(cut_windows(sound)))
    )
    return sounding, find_notes(sounding, starting)


def plot(figure: Figure, sounding: Activations, notes: Sequence[Note], path: Path) -> None:
    """Plot a piano roll: the probability that each key sounds, and boxes around the notes."""
    from matplotlib.patches import Rectangle

    axes = figure.add_subplot()
    extent = (0, len(sounding) * HOP / SAMPLE_RATE, LOWEST - 0.5, LOWEST + sounding.shape[1] - 0.5)
    image = axes.imshow(
        sounding.T, origin="lower", aspect="auto", extent=extent, cmap="magma", vmin=0, vmax=1
    )
    figure.colorbar(image, label="probability that the key sounds")
    for note in notes:
        axes.add_patch(
            Rectangle(
                (note.start, note.key - 0.5), note.end - note.start, 1, fill=False, edgecolor="cyan"
            )
        )
        axes.annotate(note.name, (note.start, note.key + 1), color="cyan", fontsize=8)
    keys = [note.key for note in notes] or [60]
    axes.set(xlabel="seconds", ylabel="key (MIDI number)", ylim=(min(keys) - 6, max(keys) + 6))
    figure.savefig(path, dpi=120)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Transcribe a recording to notes.")
    parser.add_argument("sound", nargs="?", help="a WAV file of one channel, 16 bits and 22.05 kHz")
    parser.add_argument(
        "--picture", type=Path, default=Path("notes.png"), help="path of the piano roll"
    )
    options = parser.parse_args(arguments)
    # Imported before the model runs, so that a missing package is reported at once.
    from matplotlib.figure import Figure

    figure = Figure((10, 5), layout="constrained")
    sound = read_sound(options.sound) if options.sound else synthesize(MELODY)
    model = jit(svod_onnx.load(find_model()).to_function())
    times: list[float] = []
    for _ in range(3):
        before = perf_counter()
        sounding, notes = transcribe(model, sound)
        times.append(perf_counter() - before)
    for note in notes:
        print(f"{note.start:6.2f} to {note.end:5.2f} s  {note.name}")
    plot(figure, sounding, notes, options.picture)
    (plan,) = model.plans()
    print(f"\n{plan.profile()}\n")
    print(
        f"{sound.size / SAMPLE_RATE:.1f} s of sound: {times[0]:.2f} s for the first call, then"
        f" {min(times):.3f} s"
    )
    print(f"wrote the piano roll to {options.picture}")


if __name__ == "__main__":
    main()
