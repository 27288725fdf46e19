"""Fine-tune a pretrained sentence encoder to classify docstrings of Python's standard library.

The label of a sentence is the package that it documents.

    python examples/fine_tune.py                    # some minutes
    python examples/fine_tune.py --steps 5 --sentences 32

The encoder is the model of `sentence_embedding.py`. The sentences are the first lines of docstrings
in this Python's packages. At first the encoder is frozen, and only a linear layer on top of it is
trained; then its last layers are trained too."""

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
"""Number of tokens per sentence."""


class Sentences(NamedTuple):
    """Token ids and padding mask (False for padding), of shape (n, LENGTH), and labels (n,)."""

    ids: NDArray[np.int32]
    mask: NDArray[np.bool_]
    labels: NDArray[np.int32]


def read_sentences() -> tuple[list[str], list[int]]:
    """Return the distinct first lines of docstrings, and the indices of their packages."""
    library = Path(sysconfig.get_paths()["stdlib"])
    label_by_line: dict[str, int] = {}
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
                        label_by_line.setdefault(line, label)
    return list(label_by_line), list(label_by_line.values())


def make_sentences(
    folder: Path, texts: Sequence[str], labels: Sequence[int], count: int | None
) -> tuple[Sentences, Sentences]:
    """Tokenize sentences and split them into a training set and a held-out fifth."""
    order = np.random.default_rng(0).permutation(len(texts))[:count]
    ids, mask = tokenize(folder, [texts[n] for n in order])
    truncated = np.zeros((len(order), LENGTH), np.int32), np.zeros((len(order), LENGTH), np.bool_)
    for padded, tokens in zip(truncated, (ids, mask), strict=True):
        padded[:, : tokens.shape[1]] = tokens[:, :LENGTH]
    shuffled = Sentences(*truncated, np.array(labels, np.int32)[order])
    n_held_out = len(order) // 5
    return Sentences(*(array[n_held_out:] for array in shuffled)), Sentences(
        *(array[:n_held_out] for array in shuffled)
    )


class Classifier(nn.Module):
    """Logits of the packages, of shape (n, 10), from tokens."""

    def __init__(self, folder: Path) -> None:
        # Copy the weights to memory, since the mapped file cannot be written.
        self.encoder = {
            name: weight.to("CPU")
            for name, weight in load_safetensors(folder / "model.safetensors").items()
        }
        self.config = Config.read(folder / "config.json")
        self.head = nn.Linear(384, len(PACKAGES))

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        # The embeddings have norm 1, which is small as input of a linear layer.
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
    """Train the model and return the loss of each step."""
    n_warmup = max(steps // 10, 1)
    schedule = schedules.warm_up(
        schedules.cosine(learning_rate, max(steps - n_warmup, 1)), n_warmup
    )
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
        for minibatch in nn.batches(sentences, batch, generator=generator, drop_last=True):
            losses.append(step(*minibatch).item())
            if len(losses) == steps:
                break
    return losses


def measure(model: Classifier, sentences: Sentences, batch: int) -> float:
    """Return the accuracy: the fraction of sentences with the right package."""
    predict = jit(lambda ids, mask: model(ids, mask).argmax(-1))
    n_correct = 0
    for ids, mask, labels in nn.batches(sentences, batch, shuffle=False):
        n_correct += int((predict(ids, mask).numpy() == labels.numpy()).sum())
    return n_correct / len(sentences.labels)


def plot(losses: dict[str, list[float]], accuracies: dict[str, float], path: str) -> None:
    """Plot the losses against the step."""
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 4))
    for name, values in losses.items():
        axes.plot(values, label=f"{name}: {accuracies[name]:.1%} of held-out sentences")
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
        "--sentences", type=int, default=None, help="number of sentences (default: all)"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plot", default="fine_tune.png", help="path of the plot")
    options = parser.parse_args()
    # Imported before the training, so that a missing package is reported at once.
    import matplotlib

    matplotlib.use("Agg")
    folder = find_model()
    training, held_out = make_sentences(folder, *read_sentences(), options.sentences)
    print(
        f"{len(training.labels)} training sentences, {len(held_out.labels)} held out,"
        f" {len(PACKAGES)} packages"
    )
    manual_seed(options.seed)
    model = Classifier(folder)
    model.freeze("encoder")
    losses: dict[str, list[float]] = {}
    accuracies: dict[str, float] = {}
    for name, learning_rate in (("only the linear layer", 1e-2), ("and the last two layers", 2e-4)):
        started = perf_counter()
        losses[name] = train(
            model,
            training,
            steps=options.steps,
            batch=options.batch,
            learning_rate=learning_rate,
            seed=options.seed,
        )
        elapsed = perf_counter() - started
        accuracies[name] = measure(model, held_out, options.batch)
        n_trained = sum(parameter.size for parameter in model.trainable_parameters().values())
        print(
            f"{name}: {n_trained:,} parameters, {elapsed:.1f} s, {accuracies[name]:.1%} of the"
            " held-out sentences are right"
        )
        model.unfreeze("encoder.encoder.layer.4", "encoder.encoder.layer.5")
    plot(losses, accuracies, options.plot)


if __name__ == "__main__":
    main()
