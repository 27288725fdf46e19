"""Normalisations where the conformance suite has no case: old versions, and dtypes of
statistics.
"""

from __future__ import annotations

import numpy as np
import pytest

RNG = np.random.default_rng(0)


def _draw(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("version", [1, 6, 7, 9])
def test_whoever_reads_statistics_gets_those_of_the_batch_up_to_version_9(run_node, version):
    x, weight, bias, mean, variance = _draw(4, 3, 5), _draw(3), _draw(3), _draw(3), abs(_draw(3))
    options = {"consumed_inputs": [0, 0, 0, 1, 1]} if version == 1 else {}
    results = run_node(
        "BatchNormalization",
        [x, weight, bias, mean, variance],
        version,
        n_outputs=5,
        momentum=0.75,
        **options,
    )
    found, spread = x.mean((0, 2)), x.var((0, 2))
    wanted = (x - found[:, None]) / np.sqrt(spread + 1e-5)[:, None] * weight[:, None] + bias[
        :, None
    ]
    statistics = [0.75 * mean + 0.25 * found, 0.75 * variance + 0.25 * spread, found, spread]
    for value, want in zip(results, [wanted, *statistics], strict=True):
        np.testing.assert_allclose(value, want, rtol=1e-4, atol=1e-6)


def test_each_place_has_statistics_of_its_own_without_spatial(run_node):
    x, operands = _draw(4, 3, 5), [_draw(3, 5), _draw(3, 5), _draw(3, 5), abs(_draw(3, 5))]
    weight, bias, mean, variance = operands
    (value,) = run_node("BatchNormalization", [x, *operands], 7, spatial=0)
    np.testing.assert_allclose(
        value, (x - mean) / np.sqrt(variance + 1e-5) * weight + bias, rtol=1e-4, atol=1e-5
    )
    value, *_, found, spread = run_node(
        "BatchNormalization", [x, *operands], 7, n_outputs=5, spatial=0
    )
    np.testing.assert_allclose(found, x.mean(0), rtol=1e-5, atol=1e-6)
    wanted = (x - x.mean(0)) / np.sqrt(x.var(0) + 1e-5) * weight + bias
    np.testing.assert_allclose(value, wanted, rtol=1e-4, atol=1e-5)
    assert spread.shape == (3, 5)


@pytest.mark.parametrize("version", [1, 13])
@pytest.mark.parametrize("size", [1, 2, 3, 4, 7, 12])
def test_neighbours_of_an_even_number_are_one_more_behind_than_before(run_node, size, version):
    x, alpha, beta, bias = _draw(2, 5, 3), 0.5, 0.7, 1.5
    (value,) = run_node("LRN", [x], version, size=size, alpha=alpha, beta=beta, bias=bias)
    wanted = np.empty_like(x)
    for c in range(5):
        first, last = max(0, c - (size - 1) // 2), min(4, c + size // 2)
        total = (x[:, first : last + 1] ** 2).sum(1)
        wanted[:, c] = x[:, c] / (bias + alpha / size * total) ** beta
    np.testing.assert_allclose(value, wanted, rtol=1e-5, atol=1e-6)


def test_one_axis_is_that_of_the_batch(run_node):
    x = _draw(6)
    operands = [np.array([number], np.float32) for number in (2, 3, 1, 4)]
    (value,) = run_node("BatchNormalization", [x, *operands], 15, epsilon=0.0)
    np.testing.assert_allclose(value, (x - 1) / 2 * 2 + 3, rtol=1e-6)


def test_narrow_elements_and_wide_statistics_give_narrow_elements(run_node):
    x = _draw(2, 3, 4).astype(np.float16)
    operands = [_draw(3), _draw(3), _draw(3), abs(_draw(3))]
    value, mean, _ = run_node(
        "BatchNormalization", [x, *operands], 15, n_outputs=3, training_mode=1
    )
    assert (value.dtype, mean.dtype) == (np.float16, np.float32)


def test_statistics_of_layers_have_the_dtype_that_the_node_says(run_node):
    x, weight = _draw(2, 3, 4), _draw(4)
    for dtype in (np.float16, np.float32, np.float64):
        value, mean, deviation = run_node(
            "LayerNormalization", [x.astype(dtype), weight.astype(dtype)], 17, n_outputs=3
        )
        assert (value.dtype, mean.dtype, deviation.dtype) == (dtype, np.float32, np.float32)
        np.testing.assert_allclose(mean[..., 0], x.mean(-1), atol=1e-3)
        np.testing.assert_allclose(deviation[..., 0], 1 / np.sqrt(x.var(-1) + 1e-5), rtol=1e-2)


def test_groups_have_one_weight_in_version_18_and_channels_in_21(run_node):
    x = _draw(2, 6, 3)
    groups = x.reshape(2, 2, 9)
    normal = (groups - groups.mean(-1, keepdims=True)) / np.sqrt(
        groups.var(-1, keepdims=True) + 1e-5
    )
    for version, each in ((18, 3), (21, 1)):
        weight, bias = _draw(6 // each), _draw(6 // each)
        (value,) = run_node("GroupNormalization", [x, weight, bias], version, num_groups=2)
        wanted = normal.reshape(2, 6, 3) * weight.repeat(each)[:, None] + bias.repeat(each)[:, None]
        np.testing.assert_allclose(value, wanted, rtol=1e-4, atol=1e-5)


def test_zeros_have_no_direction(run_node):
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
def test_no_elements_are_normalized_to_none(run_node, operator, version, sizes, options):
    operands = [np.ones(size, np.float32) for size in sizes]
    (value,) = run_node(operator, [np.zeros((0, 3, 4), np.float32), *operands], version, **options)
    assert value.shape == (0, 3, 4)
