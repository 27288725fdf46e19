"""Fused attention operators of onnxruntime, compared with numpy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from svod_onnx.errors import NodeError

_DRAW = np.random.default_rng(0)
_HEADS, _SIZE = 2, 4


def _sample(*shape: int) -> np.ndarray:
    return _DRAW.standard_normal(shape).astype(np.float32)


def _attend(
    query: np.ndarray, key: np.ndarray, value: np.ndarray, added: np.ndarray | float = 0.0
) -> np.ndarray:
    """Attention of operands of shape (batch, heads, steps, size), as (batch, steps, heads *
    size).
    """
    scores = query.astype(np.float64) @ np.swapaxes(key, -1, -2) * query.shape[-1] ** -0.5 + added
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    result = weights / weights.sum(-1, keepdims=True) @ value
    return result.transpose(0, 2, 1, 3).reshape(query.shape[0], query.shape[2], -1)


def _split(x: np.ndarray, n_heads: int = _HEADS) -> np.ndarray:
    return x.reshape(*x.shape[:2], n_heads, -1).transpose(0, 2, 1, 3)


def _assert_close(attended: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_allclose(attended, expected, rtol=1e-4, atol=1e-5)


def _causal(n_steps: int, n_keys: int, offset: int) -> np.ndarray:
    return np.where(np.arange(n_keys) <= np.arange(n_steps)[:, None] + offset, 0.0, -np.inf)


def test_attention_with_a_mask_and_a_cache(run_node: Callable[..., list[np.ndarray]]) -> None:
    x, weights, bias = _sample(2, 3, 6), _sample(6, 24), _sample(24)
    query, key, value = (_split(x_) for x_ in np.split(x @ weights + bias, 3, -1))
    mask = np.array([[1, 1, 0], [0, 1, 1]], np.int32)
    (attended,) = run_node(
        "Attention", [x, weights, bias, mask], 17, domain="com.microsoft", num_heads=_HEADS
    )
    _assert_close(
        attended, _attend(query, key, value, np.where(mask > 0, 0.0, -10000.0)[:, None, None])
    )
    past = _sample(2, 2, _HEADS, 4, _SIZE)
    keys, values = np.concatenate([past[0], key], 2), np.concatenate([past[1], value], 2)
    attended, present = run_node(
        "Attention",
        [x, weights, bias, None, past],
        17,
        n_outputs=2,
        domain="com.microsoft",
        num_heads=_HEADS,
        unidirectional=1,
    )
    _assert_close(attended, _attend(query, keys, values, _causal(3, 7, 4)))
    _assert_close(present, np.stack([keys, values]))


def test_packed_queries_keys_and_values(run_node: Callable[..., list[np.ndarray]]) -> None:
    packed, bias = _sample(2, 3, _HEADS, 3, _SIZE), _sample(3 * _HEADS * _SIZE)
    qkv = packed.transpose(3, 0, 2, 1, 4) + bias.reshape(3, 1, _HEADS, 1, _SIZE)
    (attended,) = run_node(
        "MultiHeadAttention",
        [packed, None, None, bias],
        17,
        domain="com.microsoft",
        num_heads=_HEADS,
    )
    _assert_close(attended, _attend(*qkv))


def test_new_keys_are_written_into_a_preallocated_cache(
    run_node: Callable[..., list[np.ndarray]],
) -> None:
    query, key, value = _sample(3, 2, 1, 8)
    past_key, past_value = _sample(2, 2, 2, 6, 4)
    length = np.array([3], np.int32)
    inputs = [query, key, value, None, None, None, past_key, past_value, length]
    attended, keys, values = run_node(
        "MultiHeadAttention", inputs, 17, n_outputs=3, domain="com.microsoft", num_heads=_HEADS
    )
    past_key[:, :, 3:4], past_value[:, :, 3:4] = _split(key), _split(value)
    _assert_close(attended, _attend(_split(query), past_key[:, :, :4], past_value[:, :, :4]))
    _assert_close(keys, past_key)
    _assert_close(values, past_value)


def test_group_query_attention_with_cache_lengths(
    run_node: Callable[..., list[np.ndarray]],
) -> None:
    query, key, value, past_key, past_value = (
        _sample(2, 1, 16),
        _sample(2, 1, 8),
        _sample(2, 1, 8),
        *_sample(2, 2, 2, 6, 4),
    )
    last, total = np.array([4, 2], np.int32), np.array([5], np.int32)
    angles = _sample(8, 2)
    inputs = [query, key, value, past_key, past_value, last, total, np.cos(angles), np.sin(angles)]
    attended, keys, _ = run_node(
        "GroupQueryAttention",
        inputs,
        17,
        n_outputs=3,
        domain="com.microsoft",
        num_heads=4,
        kv_num_heads=2,
        do_rotary=1,
    )

    def rotate(x: np.ndarray, position: int) -> np.ndarray:
        cos, sin = np.cos(angles[position]), np.sin(angles[position])
        return np.concatenate(
            [x[..., :2] * cos - x[..., 2:] * sin, x[..., :2] * sin + x[..., 2:] * cos], -1
        )

    for row, position in enumerate(last):
        past_key[row, :, position], past_value[row, :, position] = (
            rotate(_split(key)[row, :, 0], position),
            _split(value)[row, :, 0],
        )
        used = [
            np.repeat(past[row : row + 1, :, : position + 1], 2, axis=1)
            for past in (past_key, past_value)
        ]
        _assert_close(
            attended[row : row + 1],
            _attend(rotate(_split(query, 4)[row : row + 1], position), *used),
        )
    _assert_close(keys, past_key)


def test_an_attention_sink_takes_a_share_of_the_weights(
    run_node: Callable[..., list[np.ndarray]],
) -> None:
    packed, sink = _sample(1, 3, 16), _sample(2)
    inputs = [
        packed,
        None,
        None,
        None,
        None,
        np.array([2], np.int32),
        np.array([3], np.int32),
        *[None] * 4,
        sink,
    ]
    attended = run_node(
        "GroupQueryAttention", inputs, 17, domain="com.microsoft", num_heads=2, kv_num_heads=1
    )[0]
    query, key, value = (
        _split(x, n) for x, n in zip(np.split(packed, [8, 12], -1), (2, 1, 1), strict=True)
    )
    scores = query @ np.swapaxes(key, -1, -2) / 2 + _causal(3, 3, 0)
    weights = np.exp(scores) / (
        np.exp(scores).sum(-1, keepdims=True) + np.exp(sink).reshape(1, 2, 1, 1)
    )
    _assert_close(attended, (weights @ value).transpose(0, 2, 1, 3).reshape(1, 3, 8))


def test_a_quantized_cache_is_rejected(run_node: Callable[..., list[np.ndarray]]) -> None:
    inputs = [_sample(1, 3, 16), *[None] * 4, np.array([2], np.int32), np.array([3], np.int32)]
    with pytest.raises(NodeError, match="a quantized cache is not supported"):
        run_node(
            "GroupQueryAttention",
            inputs,
            17,
            domain="com.microsoft",
            num_heads=2,
            kv_num_heads=1,
            k_quant_type="PER_TENSOR",
        )


def test_embed_layer_normalization_without_segments(
    run_node: Callable[..., list[np.ndarray]],
) -> None:
    words, table, positions, gamma, beta = (
        np.array([[3, 1], [0, 2]], np.int32),
        _sample(5, 8),
        _sample(4, 8),
        _sample(8),
        _sample(8),
    )
    mask = np.array([[1, 0], [1, 1]], np.int32)
    inputs = [words, None, table, positions, None, gamma, beta, mask]
    attended, n_words, total = run_node(
        "EmbedLayerNormalization", inputs, 17, n_outputs=3, domain="com.microsoft", epsilon=1e-5
    )
    expected = table[words] + positions[:2]
    _assert_close(total, expected)
    spread = np.sqrt(expected.var(-1, keepdims=True) + 1e-5)
    _assert_close(attended, (expected - expected.mean(-1, keepdims=True)) / spread * gamma + beta)
    assert n_words.tolist() == [1, 2]


def test_simplified_layer_normalization(run_node: Callable[..., list[np.ndarray]]) -> None:
    x, scale = _sample(2, 3, 8), _sample(8)
    attended, factor = run_node(
        "SimplifiedLayerNormalization", [x, scale], 17, n_outputs=2, epsilon=1e-5
    )
    expected = 1 / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5)
    _assert_close(factor, expected)
    _assert_close(attended, x * expected * scale)


def test_rotary_embedding_from_a_position_on(run_node: Callable[..., list[np.ndarray]]) -> None:
    x, angles = _sample(2, 3, 8), _sample(6, 2)
    inputs = [x, np.array([2], np.int64), np.cos(angles), np.sin(angles)]
    (attended,) = run_node("RotaryEmbedding", inputs, 17, domain="com.microsoft")
    heads, turned = x.reshape(2, 3, 2, 4), angles[2:5].reshape(1, 3, 1, 2)
    first, second = heads[..., :2], heads[..., 2:]
    cos, sin = np.cos(turned), np.sin(turned)
    _assert_close(
        attended,
        np.concatenate([first * cos - second * sin, first * sin + second * cos], -1).reshape(
            x.shape
        ),
    )
