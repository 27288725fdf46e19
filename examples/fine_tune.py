"""Teach a pretrained sentence encoder to say which package of Python's standard library a sentence
documents.

    python examples/fine_tune.py                    # some minutes
    python examples/fine_tune.py --steps 5 --sentences 32

The encoder is that of `sentence_embedding.py`. The sentences are the first lines of docstrings of
this Python's packages. At first the encoder is frozen, and only a linear layer on top of it learns;
then its last layers learn too."""

from __future__ import annotations

import argparse
import ast
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import svod_nn as nn
from sentence_embedding import Config, SentenceEncoder, find_model, tokenize
from svod_nn import schedules
from svod_tensor import Generator, Tensor, jit, load_safetensors, manual_seed

PACKAGES = (
    "asyncio",
    "email",
    "http",
    "idlelib",
    "logging",
    "multiprocessing",
    "tkinter",
    "unittest",
    "urllib",
    "xml",
)
LENGTH = 32
"""Tokens of a sentence."""


class Sentences(NamedTuple):
    """Token numbers and which of them are no padding, (n, LENGTH) each, and the number of the
    package (n,).
    """

    ids: NDArray[np.int32]
    mask: NDArray[np.bool_]
    labels: NDArray[np.int32]


def read_sentences() -> tuple[list[str], list[int]]:
    """First lines of docstrings, each once, and the numbers of their packages."""
    library = Path(sysconfig.get_paths()["stdlib"])
    found: dict[str, int] = {}
    for label, package in enumerate(PACKAGES):
        for path in sorted((library / package).rglob("*.py")):
            if "test" in path.parts:
                continue
            for node in ast.walk(ast.parse(path.read_text(errors="replace"))):
                if isinstance(
                    node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
                ):
                    line = (ast.get_docstring(node) or "").strip().partition("\n")[0]
                    if 20 <= len(line) <= 120:
                        found.setdefault(line, label)
    return list(found), list(found.values())


def make_sentences(
    folder: Path, texts: Sequence[str], labels: Sequence[int], count: int | None
) -> tuple[Sentences, Sentences]:
    """Four fifths to train with, and the fifth that is held out."""
    order = np.random.default_rng(0).permutation(len(texts))[:count]
    ids, mask = tokenize(folder, [texts[n] for n in order])
    short = np.zeros((len(order), LENGTH), np.int32), np.zeros((len(order), LENGTH), np.bool_)
    for made, given in zip(short, (ids, mask), strict=True):
        made[:, : given.shape[1]] = given[:, :LENGTH]
    everything = Sentences(*short, np.array(labels, np.int32)[order])
    n_held_out = len(order) // 5
    return Sentences(*(part[n_held_out:] for part in everything)), Sentences(
        *(part[:n_held_out] for part in everything)
    )


class Classifier(nn.Module):
    """Scores of the packages, of shape (n, 10), from tokens."""

    def __init__(self, folder: Path) -> None:
        # What is trained is in memory, not in the file.
        self.encoder = {
            name: weight.to("CPU")
            for name, weight in load_safetensors(folder / "model.safetensors").items()
        }
        self.config = Config.read(folder / "config.json")
        self.head = nn.Linear(384, len(PACKAGES))

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        # The embeddings have length 1, which is little for a linear layer.
        return self.head(SentenceEncoder(self.encoder, self.config)(ids, mask) * 10)


def get_loss(model: Classifier, ids: Tensor, mask: Tensor, labels: Tensor) -> Tensor:
    return nn.cross_entropy(model(ids, mask), labels)


def train(
    model: Classifier,
    sentences: Sentences,
    *,
    steps: int,
    batch: int,
    learning_rate: float,
    seed: int,
) -> list[float]:
    """The loss of each step."""
    n_warm = max(steps // 10, 1)
    schedule = schedules.warm_up(schedules.cosine(learning_rate, max(steps - n_warm, 1)), n_warm)
    optimizer = nn.AdamW(model, schedule)

    @jit
    def step(ids: Tensor, mask: Tensor, labels: Tensor) -> Tensor:
        value, gradients = nn.value_and_grad(model, get_loss)(ids, mask, labels)
        gradients, _ = nn.clip_by_norm(gradients, 1.0)
        optimizer.update(gradients)
        return value

    losses: list[float] = []
    generator = Generator(seed)
    while len(losses) < steps:
        for given in nn.batches(sentences, batch, generator=generator, drop_last=True):
            losses.append(step(*given).item())
            if len(losses) == steps:
                break
    return losses


def measure(model: Classifier, sentences: Sentences, batch: int) -> float:
    """The share of sentences whose package is found."""
    answer = jit(lambda ids, mask: model(ids, mask).argmax(-1))
    right = 0
    for ids, mask, labels in nn.batches(sentences, batch, shuffle=False):
        right += int((answer(ids, mask).numpy() == labels.numpy()).sum())
    return right / len(sentences.labels)


def plot(losses: dict[str, list[float]], accuracies: dict[str, float], path: str) -> None:
    """Save how the losses fell."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 4))
    for name, values in losses.items():
        axes.plot(values, label=f"{name}: {accuracies[name]:.1%} of those held out")
    axes.set(xlabel="step", ylabel="loss", title="Which package does a sentence document?")
    axes.legend()
    figure.tight_layout()
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument(
        "--sentences", type=int, default=None, help="how many are used; by default all"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plot", default="fine_tune.png", help="where the picture is saved")
    given = parser.parse_args()
    folder = find_model()
    known, held_out = make_sentences(folder, *read_sentences(), given.sentences)
    print(
        f"{len(known.labels)} sentences to learn from, {len(held_out.labels)} held out,"
        f" {len(PACKAGES)} packages"
    )
    manual_seed(given.seed)
    model = Classifier(folder)
    model.freeze("encoder")
    losses: dict[str, list[float]] = {}
    accuracies: dict[str, float] = {}
    for name, learning_rate in (("linear layer alone", 1e-2), ("and the last two layers", 2e-4)):
        started = perf_counter()
        losses[name] = train(
            model,
            known,
            steps=given.steps,
            batch=given.batch,
            learning_rate=learning_rate,
            seed=given.seed,
        )
        elapsed = perf_counter() - started
        accuracies[name] = measure(model, held_out, given.batch)
        n_trained = sum(parameter.size for parameter in model.trainable_parameters().values())
        print(
            f"{name}: {n_trained:,} parameters, {elapsed:.1f} s, {accuracies[name]:.1%} of those"
            " held out are right"
        )
        model.unfreeze("encoder.encoder.layer.4", "encoder.encoder.layer.5")
    plot(losses, accuracies, given.plot)


if __name__ == "__main__":
    main()
