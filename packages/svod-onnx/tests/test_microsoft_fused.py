"""Fused and quantized operators of "com.microsoft", compared with numpy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from svod_onnx.errors import NodeError

_DRAW = np.random.default_rng(0)


def _sample(*shape: int) -> np.ndarray:
    return _DRAW.standard_normal(shape).astype(np.float32)


def _assert_close(result: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


def test_matmul_nbits(run_node: Callable[..., list[np.ndarray]]) -> None:
    a, steps, scales = _sample(3, 40), _DRAW.integers(0, 16, (5, 48)), _sample(5, 3)
    zeros = _DRAW.integers(0, 16, (5, 4))
    pack = (steps[:, ::2] + 16 * steps[:, 1::2]).astype(np.uint8).reshape(5, 3, 8)
    packed = (zeros[:, ::2] + 16 * zeros[:, 1::2]).astype(np.uint8)
    (result,) = run_node(
        "MatMulNBits",
        [a, pack, scales, packed],
        17,
        domain="com.microsoft",
        K=40,
        N=5,
        bits=4,
        block_size=16,
    )
    weights = (steps - np.repeat(zeros[:, :3], 16, 1)) * np.repeat(scales, 16, 1)
    np.testing.assert_allclose(result, a @ weights[:, :40].T, rtol=1e-4, atol=1e-3)


def test_fused_gemm(run_node: Callable[..., list[np.ndarray]]) -> None:
    a, b, c = _sample(3, 4), _sample(5, 4), _sample(5)
    (result,) = run_node(
        "FusedGemm",
        [a, b, c],
        17,
        domain="com.microsoft",
        transB=1,
        activation="LeakyRelu",
        activation_alpha=0.25,
    )
    total = a @ b.T + c
    _assert_close(result, np.where(total > 0, total, 0.25 * total))
    with pytest.raises(NodeError, match="Sinus"):
        run_node("FusedGemm", [a, b, c], 17, domain="com.microsoft", transB=1, activation="Sinus")


def test_qlinear_add(run_node: Callable[..., list[np.ndarray]]) -> None:
    a, b = _DRAW.integers(0, 256, (2, 3, 4)).astype(np.uint8)
    parameters = [np.array(value, np.float32) for value in (0.02, 0.03, 0.05)]
    inputs = [
        a,
        parameters[0],
        np.array(5, np.uint8),
        b,
        parameters[1],
        None,
        parameters[2],
        np.array(9, np.uint8),
    ]
    (result,) = run_node("QLinearAdd", inputs, 17, domain="com.microsoft")
    expected = np.clip(((a.astype(int) - 5) * 0.02 + b * 0.03) / 0.05 + 9, 0, 255)
    assert np.abs(result - expected).max() < 0.51
