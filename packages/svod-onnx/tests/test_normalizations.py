"""Normalizations beyond the conformance suite: old versions, and dtypes of statistics."""

from __future__ import annotations

import numpy as np
import pytest

RNG = np.random.default_rng(0)


def _sample(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("version", [1, 6, 7, 9])
def test_declared_statistics_are_of_the_batch_up_to_version_9(run_node, version):
    x, weight, bias, mean, variance = (
        _sample(4, 3, 5),
        _sample(3),
        _sample(3),
        _sample(3),
        abs(_sample(3)),
    )
    options = {"consumed_inputs": [0, 0, 0, 1, 1]} if version == 1 else {}
    results = run_node(
        "BatchNormalization",
        [x, weight, bias, mean, variance],
        version,
        n_outputs=5,
        momentum=0.75,
        **options,
    )
    result, spread = x.mean((0, 2)), x.var((0, 2))
    expected = (x - result[:, None]) / np.sqrt(spread + 1e-5)[:, None] * weight[:, None] + bias[
        :, None
    ]
    statistics = [0.75 * mean + 0.25 * result, 0.75 * variance + 0.25 * spread, result, spread]
    for value, want in zip(results, [expected, *statistics], strict=True):
        np.testing.assert_allclose(value, want, rtol=1e-4, atol=1e-6)


def test_each_position_has_statistics_without_spatial(run_node):
    x, operands = (
        _sample(4, 3, 5),
        [_sample(3, 5), _sample(3, 5), _sample(3, 5), abs(_sample(3, 5))],
    )
    weight, bias, mean, variance = operands
    (value,) = run_node("BatchNormalization", [x, *operands], 7, spatial=0)
    np.testing.assert_allclose(
        value, (x - mean) / np.sqrt(variance + 1e-5) * weight + bias, rtol=1e-4, atol=1e-5
    )
    value, *_, result, spread = run_node(
        "BatchNormalization", [x, *operands], 7, n_outputs=5, spatial=0
    )
    np.testing.assert_allclose(result, x.mean(0), rtol=1e-5, atol=1e-6)
    expected = (x - x.mean(0)) / np.sqrt(x.var(0) + 1e-5) * weight + bias
    np.testing.assert_allclose(value, expected, rtol=1e-4, atol=1e-5)
    assert spread.shape == (3, 5)


@pytest.mark.parametrize("version", [1, 13])
@pytest.mark.parametrize("size", [1, 2, 3, 4, 7, 12])
def test_an_even_lrn_window_has_one_more_trailing_neighbour(run_node, size, version):
    x, alpha, beta, bias = _sample(2, 5, 3), 0.5, 0.7, 1.5
    (value,) = run_node("LRN", [x], version, size=size, alpha=alpha, beta=beta, bias=bias)
    expected = np.empty_like(x)
    for c in range(5):
        first, last = max(0, c - (size - 1) // 2), min(4, c + size // 2)
        total = (x[:, first : last + 1] ** 2).sum(1)
        expected[:, c] = x[:, c] / (bias + alpha / size * total) ** beta
    np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-6)


def test_a_vector_is_a_batch_of_one_channel(run_node):
    x = _sample(6)
    operands = [np.array([value], np.float32) for value in (2, 3, 1, 4)]
    (value,) = run_node("BatchNormalization", [x, *operands], 15, epsilon=0.0)
    np.testing.assert_allclose(value, (x - 1) / 2 * 2 + 3, rtol=1e-6)


def test_the_result_has_the_dtype_of_the_input(run_node):
    x = _sample(2, 3, 4).astype(np.float16)
    operands = [_sample(3), _sample(3), _sample(3), abs(_sample(3))]
    value, mean, _ = run_node(
        "BatchNormalization", [x, *operands], 15, n_outputs=3, training_mode=1
    )
    assert (value.dtype, mean.dtype) == (np.float16, np.float32)


def test_layer_statistics_have_the_stash_type(run_node):
    x, weight = _sample(2, 3, 4), _sample(4)
    for dtype in (np.float16, np.float32, np.float64):
        value, mean, deviation = run_node(
            "LayerNormalization", [x.astype(dtype), weight.astype(dtype)], 17, n_outputs=3
        )
        assert (value.dtype, mean.dtype, deviation.dtype) == (dtype, np.float32, np.float32)
        np.testing.assert_allclose(mean[..., 0], x.mean(-1), atol=1e-3)
        np.testing.assert_allclose(deviation[..., 0], 1 / np.sqrt(x.var(-1) + 1e-5), rtol=1e-2)


def test_scales_are_per_group_in_version_18_and_per_channel_in_21(run_node):
    x = _sample(2, 6, 3)
    groups = x.reshape(2, 2, 9)
    normal = (groups - groups.mean(-1, keepdims=True)) / np.sqrt(
        groups.var(-1, keepdims=True) + 1e-5
    )
    for version, each in ((18, 3), (21, 1)):
        weight, bias = _sample(6 // each), _sample(6 // each)
        (value,) = run_node("GroupNormalization", [x, weight, bias], version, num_groups=2)
        expected = (
            normal.reshape(2, 6, 3) * weight.repeat(each)[:, None] + bias.repeat(each)[:, None]
        )
        np.testing.assert_allclose(value, expected, rtol=1e-4, atol=1e-5)


def test_zero_vectors_stay_zero(run_node):
    x = np.array([[0.0, 0.0], [3.0, 4.0]], np.float32)
    np.testing.assert_allclose(
        run_node("LpNormalization", [x], 22)[0], [[0, 0], [0.6, 0.8]], rtol=1e-6
    )


@pytest.mark.parametrize(
    ("operator", "version", "sizes", "options"),
    [
        ("BatchNormalization", 15, [3, 3, 3, 3], {}),
        ("BatchNormalization", 7, [(3, 4), (3, 4), (3, 4), (3, 4)], {"spatial": 0}),
        ("GroupNormalization", 18, [1, 1], {"num_groups": 1}),
        ("InstanceNormalization", 22, [3, 3], {}),
        ("LayerNormalization", 17, [4], {}),
        ("LRN", 13, [], {"size": 3}),
    ],
)
def test_normalization_of_empty_tensors(run_node, operator, version, sizes, options):
    operands = [np.ones(size, np.float32) for size in sizes]
    (value,) = run_node(operator, [np.zeros((0, 3, 4), np.float32), *operands], version, **options)
    assert value.shape == (0, 3, 4)
