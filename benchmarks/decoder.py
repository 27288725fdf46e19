"""Measure a decoder that computes one token at a time, and compare with the time to read its
weights.

    python benchmarks/decoder.py                          # 1.1 billion parameters in bfloat16: 2.2 GB
    python benchmarks/decoder.py --layers 4 --prompt 500  # other sizes
    python benchmarks/decoder.py --quick                  # tiny sizes, to check that results agree

The decoder is like Llama: rotary embeddings, grouped-query attention, a gated feed-forward network,
and a cache for keys and values whose length is a `Variable`. Its weights are random; svod and torch
(eager, bfloat16) read them without a copy. The first logits of both are compared with numpy's in
float32, and the script fails if they differ too much. The machine's read bandwidth is measured
alongside, as sums over all weights. The minimum time counts.
"""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np

from encoder import Array
from measure import measure_long, restart_with_threads
from peers import Calls, inference_mode
from report import describe_machine, format_machine, format_table, write_json

__all__ = ["Sizes", "Weights", "measure_decoder", "sample_weights"]

ALIGNMENT = 64
"""Alignment of weights in bytes, as in files."""

EPSILON, BASE = 1e-5, 10000.0
TOLERANCE = 0.1
N_TOKENS = 4


class Sizes(NamedTuple):
    """Sizes of a decoder."""

    layers: int = 22
    width: int = 2048
    heads: int = 32
    key_heads: int = 4
    inner: int = 5632
    words: int = 32000
    room: int = 1024
    prompt: int = 128

    @property
    def head_size(self) -> int:
        return self.width // self.heads

    def list_shapes(self) -> list[tuple[int, ...]]:
        """Shapes of all weights in order: embedding, layers, final norm, head."""
        width, keys = self.width, self.key_heads * self.head_size
        layer = [
            (width,),
            (width, width),
            (keys, width),
            (keys, width),
            (width, width),
            (width,),
            (self.inner, width),
            (self.inner, width),
            (width, self.inner),
        ]
        return [(self.words, width), *layer * self.layers, (width,), (self.words, width)]


N_PER_LAYER = 9
QUICK = Sizes(layers=2, width=64, heads=4, key_heads=2, inner=96, words=100, room=32, prompt=9)


class Weights(NamedTuple):
    """Bits of bfloat16 numbers, as uint16.

    Attributes:
        bits: all weights in one array.
        arrays: views of `bits`, one for each weight.
        keys: keys of the prompt for each layer, of shape (1, key heads, prompt, head size).
        values: values of the prompt, of the same shape.
    """

    bits: Array
    arrays: list[Array]
    keys: list[Array]
    values: list[Array]

    @property
    def read_bytes(self) -> int:
        """Minimum number of bytes read per token: all weights except the embedding, which reads one
        row.
        """
        return sum(array.nbytes for array in self.arrays[1:])


def sample_weights(sizes: Sizes, seed: int = 0) -> Weights:
    """Sample weights that preserve the scale of activations.

    Signs and mantissas are random; the exponent follows from the size.
    """
    rng = np.random.Generator(np.random.SFC64(seed))
    shapes = sizes.list_shapes()
    step = ALIGNMENT // 2
    starts = np.cumsum([0, *(-(-math.prod(shape) // step) * step for shape in shapes)])
    bits = np.empty(int(starts[-1]), np.uint16)
    chunk = 1 << 24
    for start in range(0, bits.size, chunk):
        bits[start : start + chunk] = _draw_bits(rng, min(chunk, bits.size - start))
    arrays = [
        bits[start:][: math.prod(shape)].reshape(shape)
        for start, shape in zip(starts, shapes, strict=False)
    ]
    for array in arrays:
        _set_sizes(
            array,
            is_signed=array.ndim > 1,
            scale=1 / math.sqrt(array.shape[-1]) if array.ndim > 1 else 1.0,
        )
    # The norm of an embedding row is the scale of an activation, not of a weight.
    _set_sizes(arrays[0], is_signed=True, scale=1.0)
    shape = (1, sizes.key_heads, sizes.prompt, sizes.head_size)
    cached = [_draw_bits(rng, math.prod(shape)).reshape(shape) for _ in range(2 * sizes.layers)]
    for array in cached:
        _set_sizes(array, is_signed=True, scale=1.0)
    return Weights(bits, arrays, cached[::2], cached[1::2])


def _draw_bits(rng: np.random.Generator, n: int) -> Array:
    return rng.integers(0, 1 << 64, -(-n // 4), dtype=np.uint64).view(np.uint16)[:n]


def _set_sizes(bits: Array, *, is_signed: bool, scale: float) -> None:
    """Set the exponents so that magnitudes lie between `scale` and about twice `scale`.

    The power of two is chosen for the root mean square.
    """
    exponent = round(math.log2(scale / math.sqrt(7 / 3))) + 127
    bits &= np.uint16(0x807F if is_signed else 0x007F)
    bits |= np.uint16(exponent << 7)


def _widen(bits: Array) -> Array:
    """Convert bfloat16 bits to float32."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


class Words(NamedTuple):
    """Operations of the decoder in one library.

    Attributes:
        linear: product of rows and a weight with shape (outputs, inputs).
        normalize: RMS norm of rows, times a weight.
        silu: `x * sigmoid(x)`.
        attend: attention of queries to keys and values.
        concat: concatenation of two arrays along the last axis.
        narrow: cast of float32 to the dtype of activations.
        extend: write keys and values of a layer at a position, and return the cache up to there.
    """

    linear: Callable[[Any, Any], Any]
    normalize: Callable[[Any, Any], Any]
    silu: Callable[[Any], Any]
    attend: Callable[[Any, Any, Any], Any]
    concat: Callable[[Any, Any], Any]
    narrow: Callable[[Any], Any]
    extend: Callable[[int, Any, Any, Any], tuple[Any, Any]]


def decode(
    words: Words,
    sizes: Sizes,
    weights: Sequence[Any],
    turns: tuple[Any, Any],
    token: Any,
    position: Any,
) -> Any:
    """Return the logits of the token after `token`, which is at `position`.

    `turns` are the rotary cosines and sines of all positions.
    """
    embedding, *layers, last_norm, head = weights
    cos, sin = (table[position] for table in turns)
    x = embedding[token].reshape(1, sizes.width)
    for layer_index, layer in enumerate(_iter_layers(layers)):
        norm, query, key, value, out, inner_norm, gate, up, down = layer
        h = words.normalize(x, norm)
        q, k, v = (
            words.linear(h, weight).reshape(1, -1, 1, sizes.head_size)
            for weight in (query, key, value)
        )
        q, k = (_rotate(words, rows, cos, sin) for rows in (q, k))
        keys, values = words.extend(layer_index, k, v, position)
        # The query heads that share a key head are rows of one product.
        mixed = words.attend(q.reshape(1, sizes.key_heads, -1, sizes.head_size), keys, values)
        x = x + words.linear(mixed.reshape(1, sizes.width), out)
        h = words.normalize(x, inner_norm)
        x = x + words.linear(words.silu(words.linear(h, gate)) * words.linear(h, up), down)
    return words.linear(words.normalize(x, last_norm), head)


def _iter_layers(weights: Sequence[Any]) -> Iterator[Sequence[Any]]:
    for start in range(0, len(weights), N_PER_LAYER):
        yield weights[start : start + N_PER_LAYER]


def _rotate(words: Words, x: Any, cos: Any, sin: Any) -> Any:
    half = x.shape[-1] // 2
    first, second = x[..., :half], x[..., half:]
    return words.narrow(words.concat(first * cos - second * sin, second * cos + first * sin))


def _make_turns(sizes: Sizes) -> tuple[Array, Array]:
    half = sizes.head_size // 2
    angles = np.arange(sizes.room)[:, None] * BASE ** -(np.arange(half) / half)
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


class Decoder(NamedTuple):
    """A library's decoder.

    Attributes:
        step: function from a token and its position to logits and the next token.
        first: first token, as an array of the library.
        read: conversion of logits to a float32 array of numpy.
    """

    step: Callable[[Any, int], tuple[Any, Any]]
    first: Any
    read: Callable[[Any], Array]


def _make_svod(sizes: Sizes, weights: Weights) -> Decoder:
    import svod_nn as nn
    from svod_tensor import Tensor, Variable, jit

    def share(bits: Array) -> Tensor:
        return Tensor.from_numpy(bits, copy=False).bitcast("bfloat16")

    caches: list[nn.KeyValueCache] = []
    for keys, values in zip(weights.keys, weights.values, strict=True):
        caches.append(nn.KeyValueCache(1, sizes.key_heads, sizes.room, sizes.head_size, "bfloat16"))
        caches[-1].extend(share(keys), share(values), 0)
        Tensor.realize_batch([caches[-1].keys, caches[-1].values])
    arrays, turns = (
        [share(array) for array in weights.arrays],
        tuple(Tensor(table).realize() for table in _make_turns(sizes)),
    )
    words = Words(
        linear=lambda x, w: x.linear(w),
        normalize=lambda x, w: x.rms_norm(-1, EPSILON, w),
        silu=lambda x: x.silu(),
        attend=lambda q, k, v: q.scaled_dot_product_attention(k, v),
        concat=lambda x, y: x.concat(y, axis=-1),
        narrow=lambda x: x.cast("bfloat16"),
        extend=lambda layer_index, k, v, position: caches[layer_index].extend(k, v, position),
    )

    @jit
    def step(token: Tensor, position: Any) -> tuple[Tensor, Tensor]:
        logits = decode(words, sizes, arrays, turns, token, position)
        return logits, logits.argmax(-1)

    position_variable = Variable("position", 0, sizes.room - 1)
    return Decoder(
        step=lambda token, position: step(token, position_variable.bind(position)),
        first=Tensor([1]).realize(),
        read=lambda logits: logits.cast("float32").numpy(),
    )


def _make_torch(sizes: Sizes, weights: Weights) -> Decoder:
    import torch
    from torch.nn import functional

    def share(bits: Array) -> torch.Tensor:
        return torch.from_numpy(bits.view(np.int16)).view(torch.bfloat16)

    shape = (1, sizes.key_heads, sizes.room, sizes.head_size)
    caches = [
        [torch.zeros(shape, dtype=torch.bfloat16) for _ in range(2)] for _ in range(sizes.layers)
    ]
    for pair, *prompt in zip(caches, weights.keys, weights.values, strict=True):
        for cache, bits in zip(pair, prompt, strict=True):
            cache[:, :, : sizes.prompt] = share(bits)

    def extend(layer_index: int, key: Any, value: Any, position: int) -> Any:
        for cache, rows in zip(caches[layer_index], (key, value), strict=True):
            cache[:, :, position : position + 1] = rows
        return [cache[:, :, : position + 1] for cache in caches[layer_index]]

    arrays, turns = (
        [share(array) for array in weights.arrays],
        tuple(torch.from_numpy(table) for table in _make_turns(sizes)),
    )
    words = Words(
        linear=functional.linear,
        normalize=lambda x, w: functional.rms_norm(x, x.shape[-1:], w, EPSILON),
        silu=functional.silu,
        attend=functional.scaled_dot_product_attention,
        concat=lambda x, y: torch.cat((x, y), -1),
        narrow=lambda x: x.to(torch.bfloat16),
        extend=extend,
    )

    def step(token: Any, position: int) -> tuple[Any, Any]:
        logits = decode(words, sizes, arrays, turns, token, position)
        return logits, logits.argmax(-1)

    return Decoder(step=step, first=torch.tensor([1]), read=lambda logits: logits.float().numpy())


def _compute_expected(sizes: Sizes, weights: Weights) -> Array:
    """First logits in float32; each weight is widened only when it is used."""

    def normalize(x: Array, w: Array) -> Array:
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + np.float32(EPSILON)) * _widen(w)

    def attend(q: Array, k: Array, v: Array) -> Array:
        scores = q @ k.mT * np.float32(q.shape[-1] ** -0.5)
        power = np.exp(scores - scores.max(-1, keepdims=True))
        return power / power.sum(-1, keepdims=True) @ v

    def extend(layer_index: int, *rows: Any) -> Any:
        before = (weights.keys[layer_index], weights.values[layer_index])
        return [
            np.concatenate((_widen(bits), new), 2) for bits, new in zip(before, rows, strict=False)
        ]

    words = Words(
        linear=lambda x, w: x @ _widen(w).T,
        normalize=normalize,
        silu=lambda x: x / (1 + np.exp(-x)),
        attend=attend,
        concat=lambda x, y: np.concatenate((x, y), -1),
        narrow=lambda x: x,
        extend=extend,
    )
    arrays = [_widen(weights.arrays[0][1:2]), *weights.arrays[1:]]
    return decode(words, sizes, arrays, _make_turns(sizes), 0, sizes.prompt)


def measure_decoder(sizes: Sizes, seconds: float, *, is_alone: bool = False) -> dict[str, Any]:
    """Decode with svod and, unless `is_alone`, with torch if it is installed.

    Returns:
        `parameters`; `read_bytes` per token; `distance` of each library's first logits from
        float32, relative to their root mean square; `seconds` per token; `bandwidth`, bytes per
        second of sums over the weights; and `share`, the time to read the weights at that bandwidth
        over the time per token.
    """
    weights = sample_weights(sizes)
    decoders = {"svod": _make_svod(sizes, weights)}
    calls = _make_readers(weights, is_alone=is_alone)
    if not is_alone:
        try:
            decoders["torch"] = _make_torch(sizes, weights)
        except ImportError:
            print("without torch: it is not installed")
    expected = _compute_expected(sizes, weights)
    size = float(np.sqrt((expected**2).mean()))
    distance: dict[str, float] = {}
    with nullcontext() if is_alone else inference_mode():
        for name, decoder in decoders.items():
            actual = decoder.read(decoder.step(decoder.first, sizes.prompt)[0])
            distance[name] = float(np.sqrt(((actual - expected) ** 2).mean())) / size
            calls[name] = _make_run(decoder, sizes)
        times = measure_long(calls, seconds)
    n_tokens = _count_tokens(sizes)
    spent = {name: times[name] / n_tokens for name in decoders}
    bandwidth = max(
        weights.bits.nbytes / spent for name, spent in times.items() if name.startswith("read")
    )
    return {
        "sizes": sizes._asdict(),
        "parameters": sum(array.size for array in weights.arrays),
        "read_bytes": weights.read_bytes,
        "distance": distance,
        "seconds": spent,
        "bandwidth": bandwidth,
        "share": {
            name: weights.read_bytes / bandwidth / seconds for name, seconds in spent.items()
        },
    }


def _count_tokens(sizes: Sizes) -> int:
    return min(N_TOKENS, sizes.room - sizes.prompt)


def _make_run(decoder: Decoder, sizes: Sizes) -> Callable[[], object]:
    """Decode tokens greedily from the end of the prompt."""

    def run() -> object:
        token = decoder.first
        for position in range(sizes.prompt, sizes.prompt + _count_tokens(sizes)):
            _, token = decoder.step(token, position)
        return token

    return run


def _make_readers(weights: Weights, *, is_alone: bool) -> Calls:
    """Sums of all weights' bits by library; the fastest sum defines the read bandwidth."""
    from svod_tensor import Tensor

    numbers = weights.bits.view(np.int64)
    calls: Calls = {"read, svod": Tensor.from_numpy(numbers).sum().prepare().execute}
    if not is_alone:
        try:
            import torch
        except ImportError:
            return calls
        calls["read, torch"] = torch.from_numpy(numbers).sum
    return calls


def main() -> int:
    arguments = _parse_arguments()
    restart_with_threads(arguments.threads)
    machine = describe_machine()
    print(f"{format_machine(machine)}\n{arguments.threads} threads", flush=True)
    chosen = {
        name: value for name in Sizes._fields if (value := getattr(arguments, name)) is not None
    }
    sizes = (QUICK if arguments.quick else Sizes())._replace(**chosen)
    measured = measure_decoder(sizes, arguments.seconds, is_alone=arguments.alone)
    print(_format(measured))
    print(write_json("decoder", {"machine": machine, "threads": arguments.threads, **measured}))
    wrong = [name for name, away in measured["distance"].items() if not away <= TOLERANCE]
    for name in wrong:
        print(
            f"WRONG: the logits of {name} are {measured['distance'][name]:.2g} away from those in"
            " float32"
        )
    return 1 if wrong else 0


def _format(measured: dict[str, Any]) -> str:
    lines = [
        [
            name,
            f"{spent * 1e3:.4g} ms",
            f"{1 / spent:.1f}",
            f"{measured['share'][name]:.2f}",
            f"{measured['distance'][name]:.3f}",
        ]
        for name, spent in measured["seconds"].items()
    ]
    ratio = measured["seconds"].get("torch", math.nan) / measured["seconds"]["svod"]
    return (
        f"{measured['parameters'] / 1e9:.3g} billion parameters, of which a token reads"
        f" {measured['read_bytes'] / 1e9:.3g} GB; the machine reads"
        f" {measured['bandwidth'] / 1e9:.1f} GB/s: {measured['bandwidth'] / measured['read_bytes']:.1f} tokens a second\n"
        + format_table(
            ["", "a token", "tokens a second", "share of reading", "away from float32"], lines
        )
        + (f"\ntorch / svod: {ratio:.2f}" if math.isfinite(ratio) else "")
    )


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, value in Sizes()._asdict().items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, help=f"(default: {value})")
    parser.add_argument("--quick", action="store_true", help="tiny sizes and a short measurement")
    parser.add_argument("--alone", action="store_true", help="measure svod without torch")
    parser.add_argument(
        "--threads",
        type=int,
        default=len(os.sched_getaffinity(0)),
        help="threads of every library (default: all cores)",
    )
    parser.add_argument(
        "--seconds", type=float, default=10.0, help="seconds of measuring (default: 10)"
    )
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.seconds = 0.1
    return arguments


if __name__ == "__main__":
    raise SystemExit(main())
