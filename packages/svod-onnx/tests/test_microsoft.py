"""Operators of the domain "com.microsoft", compared with numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import svod_onnx

_DRAW = np.random.default_rng(0)


def _run(operator: str, *operands: np.ndarray, **attributes: Any) -> np.ndarray:
    names = [f"x{i}" for i in range(len(operands))]
    infos = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
        )
        for name, array in zip(names, operands, strict=True)
    ]
    node = helper.make_node(operator, names, ["y"], domain="com.microsoft", **attributes)
    graph = helper.make_graph([node], "g", infos, [onnx.ValueInfoProto(name="y")])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = svod_onnx.load(helper.make_model(graph, opset_imports=opsets))
    return model(**dict(zip(names, operands, strict=True)))["y"].numpy()


def _sample(*shape: int) -> np.ndarray:
    return _DRAW.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize(("first", "second"), [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_fused_matmul(first: int, second: int) -> None:
    a, b = _sample(2, 4, 3), _sample(2, 3, 5)
    operands_ = [
        np.swapaxes(x, -1, -2).copy() if is_turned else x
        for x, is_turned in ((a, first), (b, second))
    ]
    result = _run("FusedMatMul", *operands_, transA=first, transB=second, alpha=0.5)
    np.testing.assert_allclose(result, 0.5 * (a @ b), rtol=1e-5, atol=1e-6)


def test_gelu_variants() -> None:
    x, bias = _sample(3, 8), _sample(8)
    total = (x + bias).astype(np.float64)
    tanh = 0.5 * total * (1 + np.tanh(np.sqrt(2 / np.pi) * (total + 0.044715 * total**3)))
    np.testing.assert_allclose(_run("FastGelu", x, bias), tanh, rtol=1e-5, atol=1e-6)
    quick = x / (1 + np.exp(-1.702 * x.astype(np.float64)))
    np.testing.assert_allclose(_run("QuickGelu", x), quick, rtol=1e-5, atol=1e-6)


def test_skip_layer_normalization() -> None:
    x, skip, gamma, beta = _sample(2, 3, 8), _sample(2, 3, 8), _sample(8), _sample(8)
    total = (x + skip).astype(np.float64)
    spread = np.sqrt(total.var(-1, keepdims=True) + 1e-5)
    expected = (total - total.mean(-1, keepdims=True)) / spread * gamma + beta
    result = _run("SkipLayerNormalization", x, skip, gamma, beta, epsilon=1e-5)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


def test_matmul_integer_to_float() -> None:
    a = _DRAW.integers(0, 256, (4, 16)).astype(np.uint8)
    b = _DRAW.integers(-128, 128, (16, 5)).astype(np.int8)
    a_scale, b_scale = np.array(0.02, np.float32), np.full(5, 0.01, np.float32)
    a_zero, b_zero = np.array(120, np.uint8), np.array(3, np.int8)
    expected = ((a.astype(int) - 120) @ (b.astype(int) - 3)) * 0.02 * 0.01
    result = _run("MatMulIntegerToFloat", a, b, a_scale, b_scale, a_zero, b_zero)
    np.testing.assert_allclose(result, expected, rtol=1e-5)
