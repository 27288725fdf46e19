"""The example that transcribes music with an ONNX model: windows, notes, and the whole program."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    return import_module("onnx_model")


def test_windows_cover_a_sound_once(example: ModuleType) -> None:
    for n_samples in (1, 10_000, example.WINDOW, 100_003):
        sound = np.arange(n_samples, dtype=np.float32) + 1
        windows = example.cut_windows(sound)
        assert windows.shape[1:] == (example.WINDOW, 1)
        # Output of a model that repeats the first sample of each frame for all keys.
        frames = windows[:, : example.FRAMES * example.HOP : example.HOP]
        frames = np.pad(frames, ((0, 0), (0, example.FRAMES - frames.shape[1]), (0, 0))).repeat(
            88, 2
        )
        joined = example.join_frames(frames, n_samples)
        assert joined.shape == (n_samples // example.HOP, 88)
        assert joined[:, 0].tolist() == sound[:: example.HOP][: len(joined)].tolist()


def test_notes_end_where_they_stop_sounding_or_start_again(example: ModuleType) -> None:
    sounding, starting = np.zeros((2, 60, 88), np.float32)
    sounding[5:45, 39] = 0.9
    starting[5, 39], starting[20, 39] = 0.8, 0.7
    sounding[50:53, 40], starting[50, 40] = 0.9, 0.9  # too short
    seconds = example.HOP / example.SAMPLE_RATE
    notes = example.find_notes(sounding, starting)
    assert [(note.name, note.start, note.end) for note in notes] == [
        ("C4", 5 * seconds, 20 * seconds),
        ("C4", 20 * seconds, 45 * seconds),
    ]


def test_the_model_transcribes_the_melody(
    example: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        example.find_model()
    except ModuleNotFoundError:
        pytest.skip("the model comes from the package basic-pitch")
    pytest.importorskip("matplotlib")
    example.main(["--picture", str(tmp_path / "notes.png")])
    assert "GFLOP/s" in capsys.readouterr().out
    assert (tmp_path / "notes.png").stat().st_size > 10_000
    import svod_onnx

    model = svod_onnx.load(example.find_model()).to_function()
    _, notes = example.transcribe(model, example.synthesize(example.MELODY))
    actual = {(note.key, round(note.start, 1)) for note in notes}
    expected = {(note.key, round(note.start, 1)) for note in example.MELODY}
    near = {
        key for key, start in expected if any(k == key and abs(s - start) < 0.11 for k, s in actual)
    }
    assert near == {key for key, _ in expected}
