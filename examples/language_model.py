"""Train a transformer on the bytes of Python's standard library, and generate text with it.

    python examples/language_model.py                       # 4 layers of width 256, some minutes
    python examples/language_model.py --steps 20 --layers 1 --width 32 --context 32 --batch 4

A training step (forward, backward, clipping, AdamW) is one execution plan, and so is each generated
byte: keys and values of earlier bytes are cached, and a variable holds the current position."""

from __future__ import annotations

import argparse
import math
import sysconfig
from pathlib import Path
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

import svod_nn as nn
from svod_nn import schedules
from svod_tensor import Generator, Tensor, Variable, jit, manual_seed

N_BYTES = 256


class Attention(nn.Module):
    """Causal self-attention."""

    def __init__(self, width: int, n_heads: int) -> None:
        self.n_heads = n_heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def forward(
        self,
        x: Tensor,
        cache: tuple[Tensor, Tensor] | None = None,
        position: Variable | None = None,
    ) -> Tensor:
        batch, length, width = x.shape
        heads = self.qkv(x).reshape(batch, length, 3, self.n_heads, width // self.n_heads)
        query, key, value = heads.permute(2, 0, 3, 1, 4)
        if cache is None or position is None:
            attended = query.scaled_dot_product_attention(key, value, is_causal=True)
        else:
            keys, values = cache
            keys[:, :, position : position + 1] = key
            values[:, :, position : position + 1] = value
            attended = query.scaled_dot_product_attention(
                keys[:, :, : position + 1], values[:, :, : position + 1]
            )
        return self.out(attended.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self, width: int, n_heads: int) -> None:
        self.norm1 = nn.LayerNorm(width)
        self.attention = Attention(width, n_heads)
        self.norm2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(
        self,
        x: Tensor,
        cache: tuple[Tensor, Tensor] | None = None,
        position: Variable | None = None,
    ) -> Tensor:
        x = x + self.attention(self.norm1(x), cache, position)
        return x + self.down(self.up(self.norm2(x)).gelu(approximate="tanh"))


class LanguageModel(nn.Module):
    """Logits of the next byte, of shape (batch, length, 256), from bytes (batch, length).

    Source: Radford et al., Language Models are Unsupervised Multitask Learners (2019), section 2.3.
    """

    def __init__(self, n_layers: int, width: int, n_heads: int, context: int) -> None:
        self.context = context
        self.bytes = nn.Embedding(N_BYTES, width)
        self.positions = nn.Embedding(context, width)
        self.blocks = [Block(width, n_heads) for _ in range(n_layers)]
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, N_BYTES, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.bytes(ids) + self.positions.weight[: ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))

    def next(self, byte: Tensor, position: Variable, caches: list[tuple[Tensor, Tensor]]) -> Tensor:
        """Return the logits after one more byte, of shape (1, 256).

        `caches` hold the keys and values of the bytes before `position`.
        """
        x = self.bytes(byte) + self.positions.weight[position : position + 1]
        for block, cache in zip(self.blocks, caches, strict=True):
            x = block(x, cache, position)
        return self.head(self.norm(x))[:, -1]


def read_corpus() -> NDArray[np.uint8]:
    """Return the concatenated source files of this Python's standard library."""
    paths = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))
    return np.frombuffer(b"".join(path.read_bytes() for path in paths), np.uint8)


def sample_windows(
    corpus: NDArray[np.uint8], count: int, length: int, seed: int
) -> NDArray[np.int32]:
    """Sample windows of `length` + 1 bytes at random offsets, of shape (count, length + 1)."""
    starts = np.random.default_rng(seed).integers(0, len(corpus) - length - 1, count)
    return corpus[starts[:, None] + np.arange(length + 1)].astype(np.int32)


def get_loss(model: LanguageModel, windows: Tensor) -> Tensor:
    """Mean cross-entropy in nats per byte, over windows of shape (batch, length + 1).

    The first byte of each window is not predicted.
    """
    return nn.cross_entropy(model(windows[:, :-1]).reshape(-1, N_BYTES), windows[:, 1:].reshape(-1))


def train(
    model: LanguageModel,
    corpus: NDArray[np.uint8],
    *,
    steps: int,
    batch: int,
    learning_rate: float,
    seed: int,
) -> list[float]:
    """Train the model and return the bits per byte at each step."""
    n_warmup = max(steps // 20, 1)
    schedule = schedules.warm_up(
        schedules.cosine(learning_rate, max(steps - n_warmup, 1)), n_warmup
    )
    optimizer = nn.AdamW(model, schedule, weight_decay=0.1)

    @jit
    def step(windows: Tensor) -> Tensor:
        value, gradients = nn.value_and_grad(model, get_loss)(windows)
        gradients, _ = nn.clip_by_norm(gradients, 1.0)
        optimizer.update(gradients)
        return value

    windows = sample_windows(corpus, steps * batch, model.context, seed)
    bits: list[float] = []
    started = perf_counter()
    for index, (batch_windows,) in enumerate(nn.progress(nn.batches((windows,), batch), steps)):
        bits.append(step(batch_windows).item() / math.log(2))
        if index in (0, steps - 1) or index % 100 == 99:
            print(
                f"step {index + 1}: {bits[-1]:.3f} bits per byte, {perf_counter() - started:.1f} s"
            )
    return bits


def generate(
    model: LanguageModel, prompt: bytes, count: int, *, temperature: float, seed: int
) -> bytes:
    """Return `prompt` and `count` bytes sampled from the model, limited to its context length."""
    n_heads = model.blocks[0].attention.n_heads
    width = model.head.weight.shape[1]
    shape = 1, n_heads, model.context, width // n_heads
    caches = [(Tensor.zeros(shape).realize(), Tensor.zeros(shape).realize()) for _ in model.blocks]
    generator = Generator(seed)
    position = Variable("position", 0, model.context - 1)

    @jit
    def step(byte: Tensor, position: Variable) -> Tensor:
        logits = model.next(byte, position, caches)
        return (logits / temperature).softmax(-1).multinomial(1, generator=generator).cast("int32")

    text = bytearray(prompt)
    for index in range(min(len(prompt) + count, model.context) - 1):
        sample = step(Tensor([[text[index]]], dtype="int32"), position.bind(index))
        if index + 1 == len(text):
            text.append(sample.item())
    return bytes(text)


def plot(bits: list[float], path: str) -> None:
    """Plot the bits per byte against the step."""
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 4))
    axes.plot(range(1, len(bits) + 1), bits)
    axes.set(
        xlabel="step",
        ylabel="bits per byte",
        title="Transformer on Python's standard library",
        ylim=(0, None),
    )
    figure.tight_layout()
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--context", type=int, default=128)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plot", default="language_model.png", help="path of the plot")
    options = parser.parse_args()
    # Imported before the training, so that a missing package is reported at once.
    import matplotlib

    matplotlib.use("Agg")
    manual_seed(options.seed)
    model = LanguageModel(options.layers, options.width, options.heads, options.context)
    n_parameters = sum(parameter.size for parameter in model.parameters())
    corpus = read_corpus()
    print(f"{n_parameters:,} parameters, {len(corpus):,} bytes")
    bits = train(
        model,
        corpus,
        steps=options.steps,
        batch=options.batch,
        learning_rate=options.learning_rate,
        seed=options.seed,
    )
    plot(bits, options.plot)
    print(
        generate(model, b"def ", 200, temperature=0.8, seed=options.seed).decode(errors="replace")
    )


if __name__ == "__main__":
    main()
