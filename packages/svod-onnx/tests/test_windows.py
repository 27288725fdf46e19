"""Convolutions and pools beyond the conformance suite."""

from __future__ import annotations

import numpy as np
import pytest

from svod_onnx.errors import NodeError

RNG = np.random.default_rng(0)


def test_max_pool_indices_in_column_major_order(run_node):
    x = RNG.standard_normal((2, 3, 4, 5, 6)).astype(np.float32)
    value, result = run_node(
        "MaxPool", [x], 12, n_outputs=2, kernel_shape=[2, 3, 2], strides=[2, 1, 2], storage_order=1
    )
    turned = x.transpose(0, 1, 4, 3, 2).reshape(-1)
    np.testing.assert_array_equal(turned[result], value)
    assert result.dtype == np.int64


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.float16, np.float64])
def test_pools_keep_the_dtype(run_node, dtype):
    x = np.arange(12, dtype=dtype).reshape(1, 1, 3, 4)
    (value,) = run_node(
        "MaxPool", [x], 12, kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2], ceil_mode=1
    )
    assert value.dtype == dtype
    np.testing.assert_array_equal(value[0, 0], np.array([[5, 7, 7], [9, 11, 11]], dtype))


def test_a_kernel_of_another_rank_is_rejected(run_node):
    with pytest.raises(
        NodeError,
        match=r"MaxPool in node 'node': a kernel of shape \[2, 2\] needs an input of rank 4, got \(1, 1, 4\)",
    ):
        run_node("MaxPool", [np.zeros((1, 1, 4), np.float32)], 12, kernel_shape=[2, 2])


def test_conv_transpose_with_auto_pad_same_scales_by_the_strides(run_node):
    x, weight = (
        RNG.standard_normal((1, 1, 3)).astype(np.float32),
        np.array([[[1.0, 2.0]]], np.float32),
    )
    (value,) = run_node("ConvTranspose", [x, weight], 11, auto_pad="SAME_UPPER", strides=[3])
    expected = np.stack([x[0, 0], 2 * x[0, 0], 0 * x[0, 0]], 1).reshape(1, 1, 9)
    np.testing.assert_allclose(value, expected)


def test_conv_transpose_has_the_output_shape(run_node):
    x = RNG.standard_normal((2, 4, 5)).astype(np.float32)
    weight, bias = (
        RNG.standard_normal((4, 3, 3)).astype(np.float32),
        RNG.standard_normal(6).astype(np.float32),
    )
    options = {"strides": [2], "group": 2}
    (whole,) = run_node("ConvTranspose", [x, weight, bias], 11, **options)
    for size in (8, 9, 10, 11):
        cut = 11 - size
        (upper,) = run_node(
            "ConvTranspose",
            [x, weight, bias],
            11,
            output_shape=[size],
            auto_pad="SAME_UPPER",
            **options,
        )
        (lower,) = run_node("ConvTranspose", [x, weight, bias], 11, output_shape=[size], **options)
        np.testing.assert_allclose(upper, whole[:, :, cut // 2 : cut // 2 + size], rtol=1e-5)
        np.testing.assert_allclose(lower, whole[:, :, cut - cut // 2 :][:, :, :size], rtol=1e-5)


def test_global_pools_without_spatial_axes_are_the_identity(run_node):
    x = RNG.standard_normal((2, 3)).astype(np.float32)
    for operator in ("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"):
        np.testing.assert_allclose(
            run_node(operator, [x], 11)[0], abs(x) if "Lp" in operator else x
        )
