"""Plans that keep state from execution to execution: a decoder's caches, an optimizer's moments, a
running mean.
"""

from __future__ import annotations

import numpy as np
import pytest

from svod_tensor import Tensor, Variable, jit

D, HEADS, LAYERS, VOCABULARY, ROOM, LONGEST = 16, 2, 2, 11, 32, 8
Weights = dict[str, np.ndarray]


def make_weights() -> Weights:
    rng = np.random.default_rng(0)
    shapes = {"embedding": (VOCABULARY, D), "position": (ROOM, D)}
    for layer in range(LAYERS):
        shapes |= {f"{name}{layer}": (D, D) for name in "qkvo"} | {
            f"up{layer}": (D, 2 * D),
            f"down{layer}": (2 * D, D),
        }
    return {
        name: (rng.standard_normal(shape) / 4).astype(np.float32) for name, shape in shapes.items()
    }


def norm(x: np.ndarray) -> np.ndarray:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def split_heads(x: np.ndarray) -> np.ndarray:
    return x.reshape(len(x), HEADS, -1).swapaxes(0, 1)


def recompute(w: Weights, tokens: list[int]) -> np.ndarray:
    """The scores of what follows, from all tokens at once and without a cache."""
    x = w["embedding"][tokens] + w["position"][: len(tokens)]
    mask = np.tril(np.ones((len(tokens),) * 2, bool))
    for i in range(LAYERS):
        h = norm(x)
        q, k, v = (split_heads(h @ w[f"{name}{i}"]) for name in "qkv")
        scores = np.where(mask, q @ k.swapaxes(1, 2) / np.sqrt(np.float32(D // HEADS)), -np.inf)
        x = x + (softmax(scores) @ v).swapaxes(0, 1).reshape(len(x), D) @ w[f"o{i}"]
        x = x + np.maximum(norm(x) @ w[f"up{i}"], 0) @ w[f"down{i}"]
    return norm(x[-1:]) @ w["embedding"].T


class Decoder:
    """Reads `n` tokens at position `at`, and keeps their keys and values."""

    def __init__(self, weights: Weights) -> None:
        self.w = {name: Tensor(w).realize() for name, w in weights.items()}
        self.caches = [Tensor.zeros(2, HEADS, ROOM, D // HEADS).realize() for _ in range(LAYERS)]
        self.n, self.at = Variable("n", 1, LONGEST), Variable("at", 0, ROOM - LONGEST)

    def score(self, tokens: Tensor, n: object, at: object) -> Tensor:
        w, end = self.w, at + n
        new = tokens[:n]
        x = w["embedding"].take(new, 0) + w["position"][at:end]
        rows, columns = Tensor.arange(at, end).unsqueeze(1), Tensor.arange(end)
        for i, cache in enumerate(self.caches):
            h = x.layernorm()
            q, k, v = (
                h.matmul(w[f"{name}{i}"]).reshape(n, HEADS, D // HEADS).transpose(0, 1)
                for name in "qkv"
            )
            cache[0, :, at:end], cache[1, :, at:end] = k, v
            mixed = q.scaled_dot_product_attention(
                cache[0, :, :end], cache[1, :, :end], mask=columns.le(rows)
            )
            x = x + mixed.transpose(0, 1).reshape(n, D).matmul(w[f"o{i}"])
            x = x + x.layernorm().matmul(w[f"up{i}"]).relu().matmul(w[f"down{i}"])
        return x[n - 1 : n].layernorm().matmul(w["embedding"].T)


def continue_with(scores: np.ndarray, tokens: list[int]) -> None:
    # A little noise keeps the sequence from repeating itself.
    tokens.append(
        int((scores[0] + np.random.default_rng(len(tokens)).standard_normal(VOCABULARY)).argmax())
    )


def test_one_plan_reads_a_prompt_and_decodes_twenty_tokens_after_it() -> None:
    weights = make_weights()
    decoder = Decoder(weights)
    given = Tensor(np.zeros(LONGEST, np.int32)).realize()
    scores = decoder.score(given, decoder.n.bind(1), decoder.at.bind(0))
    plan = Tensor.prepare_batch([scores, *decoder.caches])
    tokens, start = [3, 1, 4, 1, 5], 0
    for _ in range(20):
        new = tokens[start:]
        given.assign(Tensor(np.array(new + [0] * (LONGEST - len(new)), np.int32))).realize()
        plan.execute_with_vars({"n": len(new), "at": start})
        np.testing.assert_allclose(scores.numpy(), recompute(weights, tokens), rtol=1e-3, atol=1e-4)
        start = len(tokens)
        continue_with(scores.numpy(), tokens)
    assert len(tokens) == 25


def test_a_jitted_decoder_is_captured_once_for_all_lengths() -> None:
    weights = make_weights()
    decoder = Decoder(weights)
    step = jit(decoder.score)
    tokens, start = [2, 7], 0
    for _ in range(6):
        new = tokens[start:]
        given = np.array(new + [0] * (LONGEST - len(new)), np.int32)
        scores = step(Tensor(given), decoder.n.bind(len(new)), decoder.at.bind(start)).numpy()
        np.testing.assert_allclose(scores, recompute(weights, tokens), rtol=1e-3, atol=1e-4)
        start = len(tokens)
        continue_with(scores, tokens)
    assert step.n_captures == 1


def test_an_optimizers_moments_live_in_the_plan_of_a_step() -> None:
    rng = np.random.default_rng(0)
    a, b = (
        rng.standard_normal((16, 4)).astype(np.float32),
        rng.standard_normal((16,)).astype(np.float32),
    )
    w = Tensor(np.zeros(4, np.float32)).realize()
    mean, spread, count = (Tensor(np.zeros(s, np.float32)).realize() for s in ((4,), (4,), ()))
    x, y = Tensor(a).realize(), Tensor(b).realize()
    gradient = x.T @ (x @ w - y) * (2 / 16)
    mean.assign(mean * 0.9 + gradient * 0.1)
    spread.assign(spread * 0.99 + gradient.square() * 0.01)
    count.assign(count + 1)
    update = (
        mean / (1 - Tensor(0.9) ** count) / ((spread / (1 - Tensor(0.99) ** count)).sqrt() + 1e-8)
    )
    w.assign(w - update * 0.1)
    plan = Tensor.prepare_batch([w, mean, spread, count])

    w0, m, v = (np.zeros(4) for _ in range(3))
    for step in range(1, 30):
        plan.execute()
        g = a.T @ (a @ w0 - b) * (2 / 16)
        m, v = m * 0.9 + g * 0.1, v * 0.99 + g * g * 0.01
        w0 = w0 - 0.1 * m / (1 - 0.9**step) / (np.sqrt(v / (1 - 0.99**step)) + 1e-8)
        np.testing.assert_allclose(w.numpy(), w0, rtol=1e-3, atol=1e-4)
    assert count.item() == 29


def test_a_running_mean_of_any_number_of_rows() -> None:
    n = Variable("n", 1, 6)
    rows = Tensor(np.zeros((6, 3), np.float32)).realize()
    mean, count = (
        Tensor(np.zeros(3, np.float32)).realize(),
        Tensor(np.zeros((), np.float32)).realize(),
    )
    new = rows[: n.bind(2)]
    total = count + Tensor(n.bind(2)).cast("float32")
    mean.assign(mean + (new - mean).sum(0) / total)
    count.assign(total)
    plan = Tensor.prepare_batch([mean, count])
    seen = np.zeros((0, 3), np.float32)
    rng = np.random.default_rng(0)
    for size in (2, 6, 1, 5):
        values = rng.standard_normal((6, 3)).astype(np.float32)
        rows.assign(Tensor(values)).realize()
        plan.execute_with_vars({"n": size})
        seen = np.concatenate([seen, values[:size]])
        np.testing.assert_allclose(mean.numpy(), seen.mean(0), rtol=1e-4, atol=1e-5)
        assert count.item() == len(seen)


@pytest.mark.parametrize(
    "part", [slice(None, None, 2), slice(None, None, -1), slice(3, 0, -2), (..., None), ()]
)
def test_slices_of_a_cache_are_written_at_each_execution(part: object) -> None:
    x = Tensor(np.arange(6, dtype=np.float32)).realize()
    expected = np.arange(6, dtype=np.float32)
    x[part] = x[part] * 2 + 1
    plan = x.prepare()
    for _ in range(3):
        plan.execute()
        expected[part] = expected[part] * 2 + 1
        np.testing.assert_array_equal(x.numpy(), expected)


def test_steps_over_the_rows_of_a_tensor_are_one_kernel_with_an_internal_variable():
    rows = np.arange(60, dtype=np.float32).reshape(10, 6)
    x, total, expected = Tensor(rows), Tensor(np.ones(6, np.float32)), np.ones(6, np.float32)
    for step in range(10):
        total = (total * 0.5 + x[step]).contiguous()
        expected = expected * np.float32(0.5) + rows[step]
    plan = total.prepare()
    kernels = {id(k.kernel) for k in plan.kernels()}
    assert len(plan.kernels()) == 10 and len(kernels) == 1
    assert plan.variables == {}
    for _ in range(2):
        plan.execute()
        assert (total.numpy() == expected).all()
