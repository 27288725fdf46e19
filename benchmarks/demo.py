"""Forward pass of the demo model, examples/sentence_embedding.py, in numpy, svod and torch."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from encoder import Array, Layer, numpy_layer, torch_layer

__all__ = ["find_demo_encoder", "make_demo_inputs", "make_numpy_forward", "make_torch_forward"]

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
ROLES = (
    "attention.self.query",
    "attention.self.key",
    "attention.self.value",
    "attention.output.dense",
    "attention.output.LayerNorm",
    "intermediate.dense",
    "output.dense",
    "output.LayerNorm",
)


def find_demo_encoder() -> Any | None:
    """Return the example's SentenceEncoder, or None if the package with its weights is not
    installed.
    """
    sys.path.insert(0, str(EXAMPLES))
    try:
        import sentence_embedding

        return sentence_embedding.load_encoder(sentence_embedding.find_model())
    except ImportError:
        return None
    finally:
        sys.path.remove(str(EXAMPLES))


def make_demo_inputs(batch: int = 6, length: int = 16) -> tuple[Array, Array]:
    """Return token ids and the padding mask of sentences of different lengths."""
    generator = np.random.default_rng(3)
    ids = generator.integers(1000, 20000, (batch, length)).astype(np.int32)
    lengths = generator.integers(length // 2, length + 1, (batch, 1))
    lengths[0] = length
    return ids, np.arange(length) < lengths


def make_numpy_forward(encoder: Any) -> Callable[[Array, Array], Array]:
    weights = {name: np.asarray(tensor.numpy()) for name, tensor in encoder.weights.items()}

    def forward(ids: Array, mask: Array) -> Array:
        x = _embed(ids, weights)
        centred = x - x.mean(-1, keepdims=True)
        x = centred / np.sqrt(
            (centred * centred).mean(-1, keepdims=True) + np.float32(encoder.config.eps)
        )
        x = x * weights["embeddings.LayerNorm.weight"] + weights["embeddings.LayerNorm.bias"]
        for layer in range(encoder.config.n_layers):
            x = numpy_layer(
                x,
                _layer(weights, layer),
                encoder.config.n_heads,
                mask[:, None, None],
                encoder.config.eps,
            )
        return _pool(x, mask[..., None].astype(np.float32))

    return forward


def make_torch_forward(encoder: Any) -> Callable[[Any, Any], Any]:
    """The same on torch tensors. The first call imports torch and copies the weights."""
    weights: dict[str, Any] = {}

    def forward(ids: Any, mask: Any) -> Any:
        import torch
        from torch.nn import functional

        if not weights:
            weights.update(
                {name: torch.tensor(tensor.numpy()) for name, tensor in encoder.weights.items()}
            )
        x = _embed(ids, weights)
        norm, bias = weights["embeddings.LayerNorm.weight"], weights["embeddings.LayerNorm.bias"]
        x = functional.layer_norm(x, x.shape[-1:], norm, bias, encoder.config.eps)
        for layer in range(encoder.config.n_layers):
            x = torch_layer(
                x,
                _layer(weights, layer),
                encoder.config.n_heads,
                mask[:, None, None],
                encoder.config.eps,
            )
        return _pool(x, mask[..., None].to(torch.float32))

    return forward


def _embed(ids: Any, weights: Mapping[str, Any]) -> Any:
    words = weights["embeddings.word_embeddings.weight"][ids]
    positions = weights["embeddings.position_embeddings.weight"][: ids.shape[1]]
    return words + positions + weights["embeddings.token_type_embeddings.weight"][0]


def _layer(weights: Mapping[str, Any], layer: int) -> Layer:
    names = (
        f"encoder.layer.{layer}.{role}.{kind}" for role in ROLES for kind in ("weight", "bias")
    )
    return Layer(*(weights[name] for name in names))


def _pool(x: Any, weight: Any) -> Any:
    """Mean over the tokens without padding, scaled to norm 1."""
    mean = (x * weight).sum(1) / weight.sum(1)
    return mean / (mean * mean).sum(-1)[:, None] ** 0.5
