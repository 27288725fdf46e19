"""Operators that onnxruntime's optimizer emits for images and transformers.

onnxruntime has no kernels for most of them on CPUs, so operators of the default domain and
definitions in numpy are the reference."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from svod_onnx.errors import NodeError

RunNode = Callable[..., list[np.ndarray]]
_RANDOM = np.random.default_rng(0)
_DOMAIN = "com.microsoft"


def _sample(*shape: int) -> np.ndarray:
    return _RANDOM.standard_normal(shape).astype(np.float32)


def _assert_close(result: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


def _to_last(x: np.ndarray) -> np.ndarray:
    return np.moveaxis(x, 1, -1).copy()


def _gelu(x: np.ndarray) -> np.ndarray:
    return x * 0.5 * (1 + np.vectorize(math.erf)(x / 2**0.5))


def test_nhwc_conv(run_node: RunNode) -> None:
    x, w, b = _sample(2, 4, 6, 5), _sample(6, 2, 3, 3), _sample(6)
    attributes: dict[str, Any] = {"pads": [1, 0, 1, 0], "strides": [2, 1], "group": 2}
    (expected,) = run_node("Conv", [x, w, b], 21, **attributes)
    (result,) = run_node(
        "NhwcConv", [_to_last(x), _to_last(w), b], 21, domain=_DOMAIN, **attributes
    )
    _assert_close(result, _to_last(expected))


def test_nhwc_fused_conv(run_node: RunNode) -> None:
    x, w, b, z = _sample(2, 4, 6, 5), _sample(6, 4, 3, 3), _sample(6), _sample(2, 6, 4, 3)
    (expected,) = run_node("Conv", [x, w, b], 21)
    (result,) = run_node(
        "NhwcFusedConv",
        [_to_last(x), w, b, _to_last(z)],
        21,
        domain=_DOMAIN,
        activation="Relu",
    )
    _assert_close(result, _to_last(np.maximum(expected + z, 0)))


def test_nhwc_max_pool(run_node: RunNode) -> None:
    x = _RANDOM.integers(0, 256, (2, 4, 6, 5)).astype(np.uint8)
    attributes: dict[str, Any] = {"kernel_shape": [3, 2], "strides": [2, 1]}
    (expected,) = run_node("MaxPool", [x], 21, **attributes)
    (result,) = run_node("NhwcMaxPool", [_to_last(x)], 21, domain=_DOMAIN, **attributes)
    np.testing.assert_array_equal(result, _to_last(expected))


def _normalize_groups(x: np.ndarray, gamma: np.ndarray, beta: np.ndarray) -> np.ndarray:
    grouped = x.reshape(x.shape[0], 2, -1).astype(np.float64)
    mean, deviation = grouped.mean(-1, keepdims=True), grouped.std(-1, keepdims=True)
    normalized = ((grouped - mean) / (deviation**2 + 1e-5) ** 0.5).reshape(x.shape)
    return normalized * gamma[:, None, None] + beta[:, None, None]


@pytest.mark.parametrize("activation", [0, 1])
@pytest.mark.parametrize("channels_last", [0, 1])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_group_norm(run_node: RunNode, activation: int, channels_last: int, dtype: str) -> None:
    x, gamma, beta = _sample(2, 4, 3, 5).astype(dtype), _sample(4), _sample(4)
    expected = _normalize_groups(x, gamma, beta)
    if activation:
        expected = expected / (1 + np.exp(-expected))
    (result,) = run_node(
        "GroupNorm",
        [_to_last(x) if channels_last else x, gamma, beta],
        21,
        domain=_DOMAIN,
        groups=2,
        activation=activation,
        channels_last=channels_last,
    )
    assert result.dtype == dtype
    tolerance = 1e-4 if dtype == "float32" else 5e-3
    expected = _to_last(expected) if channels_last else expected
    np.testing.assert_allclose(result, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("skip_shape", [(2, 3, 5, 4), (2, 1, 1, 4), (2, 4)])
@pytest.mark.parametrize("has_bias", [False, True])
def test_skip_group_norm(run_node: RunNode, skip_shape: tuple[int, ...], has_bias: bool) -> None:
    x, gamma, beta, skip, bias = (
        _sample(2, 3, 5, 4),
        _sample(4),
        _sample(4),
        _sample(*skip_shape),
        _sample(4),
    )
    total = x + (skip[:, None, None] if skip.ndim == 2 else skip) + (bias if has_bias else 0)
    value, result = run_node(
        "SkipGroupNorm",
        [x, gamma, beta, skip, *([bias] if has_bias else [])],
        21,
        n_outputs=2,
        domain=_DOMAIN,
        groups=2,
        activation=0,
    )
    _assert_close(result, total)
    _assert_close(value, _to_last(_normalize_groups(np.moveaxis(total, -1, 1), gamma, beta)))


def test_group_norm_rejects_other_groups(run_node: RunNode) -> None:
    operands = [_sample(1, 2, 2, 4), _sample(4), _sample(4)]
    with pytest.raises(NodeError, match="groups 3 must divide the 4 channels"):
        run_node("GroupNorm", operands, 21, domain=_DOMAIN, groups=3, activation=0)
    with pytest.raises(NodeError, match="unknown activation 2"):
        run_node("GroupNorm", operands, 21, domain=_DOMAIN, groups=2, activation=2)


def test_biases_of_diffusion_models(run_node: RunNode) -> None:
    x, bias, skip = _sample(2, 3, 8), _sample(8), _sample(2, 3, 8)
    (result,) = run_node("BiasAdd", [x, bias, skip], 21, domain=_DOMAIN)
    _assert_close(result, x + bias + skip)
    (result,) = run_node("BiasSplitGelu", [x, bias], 21, domain=_DOMAIN)
    left, right = np.split(x + bias, 2, axis=-1)
    _assert_close(result, left * _gelu(right))


def test_gemm_fast_gelu(run_node: RunNode) -> None:
    x, w, bias = _sample(2, 3, 8), _sample(8, 5), _sample(5)
    total = x @ w + bias
    expected = total * 0.5 * (1 + np.tanh(0.7978845608 * (total + 0.044715 * total**3)))
    (result,) = run_node("GemmFastGelu", [x, w, bias], 21, domain=_DOMAIN)
    _assert_close(result, expected)


@pytest.mark.parametrize(
    ("shape", "is_inner_broadcast"), [((2, 1, 1, 5), 1), ((1, 1, 4, 5), 0), ((2, 3, 4, 5), 1)]
)
def test_bias_softmax(run_node: RunNode, shape: tuple[int, ...], is_inner_broadcast: int) -> None:
    data, bias = _sample(2, 3, 4, 5), _sample(*shape)
    (result,) = run_node(
        "BiasSoftmax",
        [data, bias],
        21,
        domain=_DOMAIN,
        axis=3,
        is_inner_broadcast=is_inner_broadcast,
    )
    exponentials = np.exp(data + bias)
    _assert_close(result, exponentials / exponentials.sum(-1, keepdims=True))


def _find_bucket(distance: int, n_buckets: int, max_distance: int, is_bidirectional: int) -> int:
    """Bucket of a distance by the formula of T5."""
    bucket = 0
    if is_bidirectional:
        n_buckets //= 2
        bucket = n_buckets if distance > 0 else 0
        distance = abs(distance)
    else:
        distance = max(-distance, 0)
    n_exact = n_buckets // 2
    if distance < n_exact:
        return bucket + distance
    share = math.log(distance / n_exact) / math.log(max_distance / n_exact)
    return bucket + min(n_exact + int(share * (n_buckets - n_exact) + 1e-6), n_buckets - 1)


@pytest.mark.parametrize("is_bidirectional", [0, 1])
def test_relative_position_bias(run_node: RunNode, is_bidirectional: int) -> None:
    table = _sample(8, 2)
    (result,) = run_node(
        "RelativePositionBias",
        [table.T.reshape(8, 2).copy(), np.array([20]), np.array([20])],
        21,
        domain=_DOMAIN,
        is_bidirectional=is_bidirectional,
        max_distance=16,
    )
    buckets = np.array(
        [[_find_bucket(k - q, 8, 16, is_bidirectional) for k in range(20)] for q in range(20)]
    )
    assert result.shape == (1, 2, 20, 20)
    _assert_close(result[0], np.moveaxis(table[buckets], -1, 0))


def test_gated_relative_position_bias(run_node: RunNode) -> None:
    query, query_bias, rel_pos = _sample(2, 5, 12), _sample(12), _sample(1, 3, 5, 5)
    weight, bias, eco_a = _sample(4, 8), _sample(8), _sample(1, 3, 1, 1)
    operands = [query, query_bias, rel_pos, weight, bias, eco_a]
    (result,) = run_node("GatedRelativePositionBias", operands, 21, domain=_DOMAIN, num_heads=3)
    heads = (query + query_bias).reshape(2, 5, 3, 4).transpose(0, 2, 1, 3)
    sums = (heads @ weight + bias).reshape(2, 3, 5, 2, 4).sum(-1)
    gates = 1 / (1 + np.exp(-sums))
    gate = gates[..., :1] * (gates[..., 1:] * eco_a - 1) + 2
    _assert_close(result, gate * rel_pos)
