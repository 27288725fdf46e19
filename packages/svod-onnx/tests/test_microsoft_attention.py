"""Operators that onnxruntime fuses attention into, beside numpy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from svod_onnx.errors import NodeError

_DRAW = np.random.default_rng(0)
_HEADS, _SIZE = 2, 4


def _draw(*shape: int) -> np.ndarray:
    return _DRAW.standard_normal(shape).astype(np.float32)


def _attend(query: np.ndarray, key: np.ndarray, value: np.ndarray, added: np.ndarray | float = 0.0) -> np.ndarray:
    """Of operands of shape (batch, heads, steps, size), as (batch, steps, heads * size)."""
    scores = query.astype(np.float64) @ np.swapaxes(key, -1, -2) * query.shape[-1] ** -0.5 + added
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    result = weights / weights.sum(-1, keepdims=True) @ value
    return result.transpose(0, 2, 1, 3).reshape(query.shape[0], query.shape[2], -1)


def _split(x: np.ndarray, n_heads: int = _HEADS) -> np.ndarray:
    return x.reshape(*x.shape[:2], n_heads, -1).transpose(0, 2, 1, 3)


def _close(found: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def _causal(n_steps: int, n_keys: int, offset: int) -> np.ndarray:
    return np.where(np.arange(n_keys) <= np.arange(n_steps)[:, None] + offset, 0.0, -np.inf)


def test_attention_with_a_mask_and_with_a_past(run_node: Callable[..., list[np.ndarray]]) -> None:
    x, weights, bias = _draw(2, 3, 6), _draw(6, 24), _draw(24)
    query, key, value = (_split(part) for part in np.split(x @ weights + bias, 3, -1))
    mask = np.array([[1, 1, 0], [0, 1, 1]], np.int32)
    (found,) = run_node("Attention", [x, weights, bias, mask], 17, domain="com.microsoft", num_heads=_HEADS)
    _close(found, _attend(query, key, value, np.where(mask > 0, 0.0, -10000.0)[:, None, None]))
    past = _draw(2, 2, _HEADS, 4, _SIZE)
    keys, values = np.concatenate([past[0], key], 2), np.concatenate([past[1], value], 2)
    found, present = run_node(
        "Attention",
        [x, weights, bias, None, past],
        17,
        n_outputs=2,
        domain="com.microsoft",
        num_heads=_HEADS,
        unidirectional=1,
    )
    _close(found, _attend(query, keys, values, _causal(3, 7, 4)))
    _close(present, np.stack([keys, values]))


def test_heads_whose_queries_keys_and_values_are_packed(run_node: Callable[..., list[np.ndarray]]) -> None:
    packed, bias = _draw(2, 3, _HEADS, 3, _SIZE), _draw(3 * _HEADS * _SIZE)
    parts = packed.transpose(3, 0, 2, 1, 4) + bias.reshape(3, 1, _HEADS, 1, _SIZE)
    (found,) = run_node("MultiHeadAttention", [packed, None, None, bias], 17, domain="com.microsoft", num_heads=_HEADS)
    _close(found, _attend(*parts))


def test_new_keys_are_written_into_a_cache_with_room(run_node: Callable[..., list[np.ndarray]]) -> None:
    query, key, value = _draw(3, 2, 1, 8)
    past_key, past_value = _draw(2, 2, 2, 6, 4)
    length = np.array([3], np.int32)
    inputs = [query, key, value, None, None, None, past_key, past_value, length]
    found, keys, values = run_node(
        "MultiHeadAttention", inputs, 17, n_outputs=3, domain="com.microsoft", num_heads=_HEADS
    )
    past_key[:, :, 3:4], past_value[:, :, 3:4] = _split(key), _split(value)
    _close(found, _attend(_split(query), past_key[:, :, :4], past_value[:, :, :4]))
    _close(keys, past_key)
    _close(values, past_value)


def test_groups_of_queries_with_caches_of_several_lengths(run_node: Callable[..., list[np.ndarray]]) -> None:
    query, key, value, past_key, past_value = _draw(2, 1, 16), _draw(2, 1, 8), _draw(2, 1, 8), *_draw(2, 2, 2, 6, 4)
    last, total = np.array([4, 2], np.int32), np.array([5], np.int32)
    angles = _draw(8, 2)
    inputs = [query, key, value, past_key, past_value, last, total, np.cos(angles), np.sin(angles)]
    found, keys, _ = run_node(
        "GroupQueryAttention", inputs, 17, n_outputs=3, domain="com.microsoft", num_heads=4, kv_num_heads=2, do_rotary=1
    )

    def turn(x: np.ndarray, place: int) -> np.ndarray:
        cos, sin = np.cos(angles[place]), np.sin(angles[place])
        return np.concatenate([x[..., :2] * cos - x[..., 2:] * sin, x[..., :2] * sin + x[..., 2:] * cos], -1)

    for row, place in enumerate(last):
        past_key[row, :, place], past_value[row, :, place] = (
            turn(_split(key)[row, :, 0], place),
            _split(value)[row, :, 0],
        )
        used = [np.repeat(past[row : row + 1, :, : place + 1], 2, axis=1) for past in (past_key, past_value)]
        _close(found[row : row + 1], _attend(turn(_split(query, 4)[row : row + 1], place), *used))
    _close(keys, past_key)


def test_a_sink_takes_its_part_of_the_weights(run_node: Callable[..., list[np.ndarray]]) -> None:
    packed, sink = _draw(1, 3, 16), _draw(2)
    inputs = [packed, None, None, None, None, np.array([2], np.int32), np.array([3], np.int32), *[None] * 4, sink]
    found = run_node("GroupQueryAttention", inputs, 17, domain="com.microsoft", num_heads=2, kv_num_heads=1)[0]
    query, key, value = (_split(x, n) for x, n in zip(np.split(packed, [8, 12], -1), (2, 1, 1), strict=True))
    scores = query @ np.swapaxes(key, -1, -2) / 2 + _causal(3, 3, 0)
    weights = np.exp(scores) / (np.exp(scores).sum(-1, keepdims=True) + np.exp(sink).reshape(1, 2, 1, 1))
    _close(found, (weights @ value).transpose(0, 2, 1, 3).reshape(1, 3, 8))


def test_a_cache_of_integers_is_refused(run_node: Callable[..., list[np.ndarray]]) -> None:
    inputs = [_draw(1, 3, 16), *[None] * 4, np.array([2], np.int32), np.array([3], np.int32)]
    with pytest.raises(NodeError, match="quantised cache"):
        run_node(
            "GroupQueryAttention",
            inputs,
            17,
            domain="com.microsoft",
            num_heads=2,
            kv_num_heads=1,
            k_quant_type="PER_TENSOR",
        )


def test_an_embedding_without_segments(run_node: Callable[..., list[np.ndarray]]) -> None:
    words, table, places, gamma, beta = (
        np.array([[3, 1], [0, 2]], np.int32),
        _draw(5, 8),
        _draw(4, 8),
        _draw(8),
        _draw(8),
    )
    mask = np.array([[1, 0], [1, 1]], np.int32)
    inputs = [words, None, table, places, None, gamma, beta, mask]
    found, n_kept, total = run_node(
        "EmbedLayerNormalization", inputs, 17, n_outputs=3, domain="com.microsoft", epsilon=1e-5
    )
    expected = table[words] + places[:2]
    _close(total, expected)
    spread = np.sqrt(expected.var(-1, keepdims=True) + 1e-5)
    _close(found, (expected - expected.mean(-1, keepdims=True)) / spread * gamma + beta)
    assert n_kept.tolist() == [1, 2]


def test_a_root_mean_square_and_its_reciprocal(run_node: Callable[..., list[np.ndarray]]) -> None:
    x, scale = _draw(2, 3, 8), _draw(8)
    found, factor = run_node("SimplifiedLayerNormalization", [x, scale], 17, n_outputs=2, epsilon=1e-5)
    expected = 1 / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5)
    _close(factor, expected)
    _close(found, x * expected * scale)


def test_a_rotation_from_one_place_on(run_node: Callable[..., list[np.ndarray]]) -> None:
    x, angles = _draw(2, 3, 8), _draw(6, 2)
    inputs = [x, np.array([2], np.int64), np.cos(angles), np.sin(angles)]
    (found,) = run_node("RotaryEmbedding", inputs, 17, domain="com.microsoft")
    heads, turned = x.reshape(2, 3, 2, 4), angles[2:5].reshape(1, 3, 1, 2)
    first, second = heads[..., :2], heads[..., 2:]
    cos, sin = np.cos(turned), np.sin(turned)
    _close(found, np.concatenate([first * cos - second * sin, first * sin + second * cos], -1).reshape(x.shape))
