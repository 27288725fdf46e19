"""Networks whose training is measured, each written once on `training_interface.py`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from training_interface import AdamW, Array, Library, Network, Sgd, Weights

__all__ = ["iter_networks"]

_BLOCKS = 2


def iter_networks(*, is_quick: bool = False) -> Iterator[Network]:
    """Yield every network, created lazily."""
    yield _make_mlp(64 if is_quick else 512)
    yield _make_resnet(*((2, 8, 16) if is_quick else (32, 64, 32)))
    small = {"n_layers": 2, "width": 32, "n_heads": 2, "n_tokens": 64, "batch": 2, "length": 16}
    medium = {"n_layers": 6, "width": 384, "n_heads": 6, "n_tokens": 256, "batch": 8, "length": 128}
    gpt2 = {"n_layers": 12, "width": 768, "n_heads": 12, "n_tokens": 50257, "batch": 1}
    sizes = small if is_quick else medium
    yield _make_transformer("transformer", **sizes)
    yield _make_transformer("transformer, recomputed", recomputes=True, **sizes)
    yield _make_transformer("gpt2", **(small if is_quick else {**gpt2, "length": 256}))
    yield _make_lstm(*((8, 4, 32) if is_quick else (64, 32, 256)))


class _Draws:
    """Sampler of weights and data from a seeded generator."""

    def __init__(self, seed: int) -> None:
        self._generator = np.random.default_rng(seed)

    def normal(self, *shape: int, scale: float = 1.0) -> Array:
        return self._generator.standard_normal(shape, dtype=np.float32) * np.float32(scale)

    def scaled(self, *shape: int) -> Array:
        """Sample weights that preserve the variance of their input."""
        return self.normal(*shape, scale=float(np.prod(shape[1:])) ** -0.5)

    def integers(self, n: int, *shape: int) -> Array:
        return self._generator.integers(0, n, shape, np.int32)


def _ones(n: int) -> Array:
    return np.ones(n, np.float32)


def _zeros(n: int) -> Array:
    return np.zeros(n, np.float32)


def _make_mlp(batch: int) -> Network:
    draws, widths = _Draws(1), (784, 512, 512, 10)
    weights: dict[str, Array] = {}
    for layer_index, (inputs, outputs) in enumerate(pairwise(widths)):
        weights |= {
            f"weight{layer_index}": draws.scaled(outputs, inputs),
            f"bias{layer_index}": _zeros(outputs),
        }

    def loss(library: Library, w: Weights, x: Any, labels: Any) -> Any:
        for layer_index in range(len(widths) - 2):
            x = library.relu(library.linear(x, w[f"weight{layer_index}"], w[f"bias{layer_index}"]))
        last = len(widths) - 2
        return library.cross_entropy(
            library.linear(x, w[f"weight{last}"], w[f"bias{last}"]), labels
        )

    n_products = sum(a * b for a, b in pairwise(widths))
    return Network(
        name="mlp",
        weights=weights,
        batch=(draws.normal(batch, widths[0]), draws.integers(widths[-1], batch)),
        loss=loss,
        optimizer=Sgd(0.01),
        flops=2.0 * batch * (3 * n_products - widths[0] * widths[1]),
    )


def _make_resnet(batch: int, width: int, size: int) -> Network:
    """ResNet-18 for small images: a 3x3 stem with stride 1 and no pooling, and batch normalization.

    Source: He et al., Deep Residual Learning for Image Recognition (2015), sections 3.3 and 4.2.
    """
    draws = _Draws(2)
    weights: dict[str, Array] = {}
    n_products = 0

    def add(name: str, outputs: int, inputs: int, window: int, places: int) -> None:
        nonlocal n_products
        weights[name] = draws.normal(
            outputs, inputs, window, window, scale=(2 / (inputs * window**2)) ** 0.5
        )
        weights[f"{name}.weight"], weights[f"{name}.bias"] = _ones(outputs), _zeros(outputs)
        n_products += weights[name].size * places

    add("stem", width, 3, 3, size**2)
    channels, side = width, size
    for stage in range(4):
        outputs, side = width << stage, side // (1 if stage == 0 else 2)
        for block in range(_BLOCKS):
            add(f"{stage}.{block}.first", outputs, channels, 3, side**2)
            add(f"{stage}.{block}.second", outputs, outputs, 3, side**2)
            if channels != outputs:
                add(f"{stage}.{block}.short", outputs, channels, 1, side**2)
            channels = outputs
    weights |= {"head": draws.scaled(10, channels), "head.bias": _zeros(10)}
    return Network(
        name="resnet18",
        weights=weights,
        batch=(draws.normal(batch, 3, size, size), draws.integers(10, batch)),
        loss=_resnet_loss,
        optimizer=Sgd(0.01, 0.9),
        flops=2.0 * batch * (3 * n_products - weights["stem"].size * size**2),
    )


def _resnet_loss(library: Library, w: Weights, x: Any, labels: Any) -> Any:
    def conv(name: str, x: Any, stride: int = 1) -> Any:
        return library.batch_norm(
            library.conv2d(x, w[name], stride), w[f"{name}.weight"], w[f"{name}.bias"]
        )

    x = library.relu(conv("stem", x))
    for stage in range(4):
        for block in range(_BLOCKS):
            stride = 2 if stage and not block else 1
            inner = library.relu(conv(f"{stage}.{block}.first", x, stride))
            inner = conv(f"{stage}.{block}.second", inner)
            x = library.relu(
                inner + (conv(f"{stage}.{block}.short", x, stride) if stride > 1 else x)
            )
    return library.cross_entropy(
        library.linear(library.mean(x, (2, 3)), w["head"], w["head.bias"]), labels
    )


def _make_transformer(
    name: str,
    *,
    n_layers: int,
    width: int,
    n_heads: int,
    n_tokens: int,
    batch: int,
    length: int,
    recomputes: bool = False,
) -> Network:
    """Decoder like GPT-2, with pre-normalization, and with embeddings tied to the last layer.

    With `recomputes`, the backward pass saves only the inputs of each layer, and recomputes the
    rest.

    Source: Radford et al., Language Models are Unsupervised Multitask Learners (2019), section 2.3.
    """
    draws = _Draws(3)
    weights = {
        "tokens": draws.normal(n_tokens, width, scale=0.02),
        "positions": draws.normal(length, width, scale=0.02),
    }
    for layer in range(n_layers):
        for matrix, outputs, inputs in (
            ("qkv", 3 * width, width),
            ("attended", width, width),
            ("inner", 4 * width, width),
            ("outer", width, 4 * width),
        ):
            weights[f"{layer}.{matrix}"] = draws.normal(outputs, inputs, scale=0.02)
            weights[f"{layer}.{matrix}.bias"] = _zeros(outputs)
        for norm in ("norm1", "norm2"):
            weights |= {f"{layer}.{norm}": _ones(width), f"{layer}.{norm}.bias": _zeros(width)}
    weights |= {"norm": _ones(width), "norm.bias": _zeros(width)}
    tokens = draws.integers(n_tokens, batch, length + 1)
    per_layer = 12 * width**2 + 2 * length * width
    return Network(
        name=name,
        weights=weights,
        batch=(tokens[:, :-1].copy(), tokens[:, 1:].copy()),
        loss=partial(_transformer_loss, n_layers=n_layers, n_heads=n_heads, recomputes=recomputes),
        optimizer=AdamW(3e-4),
        flops=6.0 * batch * length * (n_layers * per_layer + n_tokens * width),
    )


def _transformer_loss(
    library: Library,
    w: Weights,
    tokens: Any,
    targets: Any,
    *,
    n_layers: int,
    n_heads: int,
    recomputes: bool,
) -> Any:
    batch, length = tokens.shape
    width = w["positions"].shape[-1]

    def linear(name: str, x: Any) -> Any:
        return library.linear(x, w[name], w[f"{name}.bias"])

    def norm(name: str, x: Any) -> Any:
        return library.layer_norm(x, w[name], w[f"{name}.bias"])

    def run_layer(layer: int, x: Any) -> Any:
        qkv = linear(f"{layer}.qkv", norm(f"{layer}.norm1", x)).reshape(
            batch, length, 3, n_heads, width // n_heads
        )
        query, key, value = (library.swap(qkv[:, :, role], 1, 2) for role in range(3))
        attended = library.swap(library.attend_causally(query, key, value), 1, 2).reshape(
            batch, length, width
        )
        x = x + linear(f"{layer}.attended", attended)
        return x + linear(
            f"{layer}.outer", library.gelu(linear(f"{layer}.inner", norm(f"{layer}.norm2", x)))
        )

    x = library.embed(w["tokens"], tokens) + w["positions"]
    for layer in range(n_layers):
        run = partial(run_layer, layer)
        x = library.recompute(run, x) if recomputes else run(x)
    scores = library.linear(norm("norm", x).reshape(batch * length, width), w["tokens"], None)
    return library.cross_entropy(scores, targets.reshape(-1))


def _make_lstm(length: int, batch: int, width: int) -> Network:
    """Recurrent model of bytes that predicts the next byte at each of `length` steps."""
    draws, n_tokens = _Draws(4), 256
    weights = {
        "tokens": draws.normal(n_tokens, width, scale=0.1),
        "weight_ih_l0": draws.scaled(4 * width, width),
        "weight_hh_l0": draws.scaled(4 * width, width),
        "bias_ih_l0": _zeros(4 * width),
        "bias_hh_l0": _zeros(4 * width),
        "head": draws.scaled(n_tokens, width),
        "head.bias": _zeros(n_tokens),
    }

    def loss(library: Library, w: Weights, tokens: Any, targets: Any) -> Any:
        names = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
        outputs = library.lstm(
            library.embed(w["tokens"], tokens), {name: w[name] for name in names}
        )
        scores = library.linear(outputs.reshape(length * batch, width), w["head"], w["head.bias"])
        return library.cross_entropy(scores, targets.reshape(-1))

    tokens = draws.integers(n_tokens, length + 1, batch)
    return Network(
        name="lstm",
        weights=weights,
        batch=(tokens[:-1].copy(), tokens[1:].copy()),
        loss=loss,
        optimizer=AdamW(1e-3),
        flops=6.0 * length * batch * (8 * width**2 + n_tokens * width),
    )
