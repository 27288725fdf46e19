"""Models from onnxruntime's quantizer, in each of its formats, compared with onnxruntime."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

import svod_onnx

pytest.importorskip("onnxruntime")
quantization = pytest.importorskip("onnxruntime.quantization")

_RANDOM = np.random.default_rng(0)
# A declaration of the inputs and outputs, nodes, and the shapes of the weights; x is the input.
_MODELS: dict[str, tuple[str, str, dict[str, tuple[int, ...]]]] = {
    "Conv and Concat": (
        "(float[n, 3, 6, 6] x) => (float[n, 7, 6, 6] y)",
        "c = Conv<pads = [1, 1, 1, 1]>(x, w, b) r = Relu(c) y = Concat<axis = 1>(r, x)",
        {"w": (4, 3, 3, 3), "b": (4,)},
    ),
    "pools": (
        "(float[n, 3, 6, 6] x) => (float[n, 4, 1, 1] y)",
        """c = Conv<pads = [1, 1, 1, 1]>(x, w)
        a = AveragePool<kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]>(c)
        y = GlobalAveragePool(a)""",
        {"w": (4, 3, 3, 3)},
    ),
    "Gemm and Softmax": (
        "(float[n, 6] x) => (float[n, 4] y)",
        "g = Gemm<transB = 1>(x, w, b) y = Softmax<axis = -1>(g)",
        {"w": (4, 6), "b": (4,)},
    ),
    "MatMul, Add and Mul": (
        "(float[n, 6] x) => (float[n, 6] y)",
        """s = Sigmoid(x) m = MatMul(x, w) a = Add(s, m) l = LeakyRelu<alpha = 0.1>(a)
        y = Mul(l, m)""",
        {"w": (6, 6)},
    ),
    "Attention": (
        "(float[n, 4, 8] x) => (float[n, 4, 8] y)",
        "y = com.microsoft.Attention<num_heads = 2>(x, w, b)",
        {"w": (8, 24), "b": (24,)},
    ),
}


def _save(name: str, path: Path) -> None:
    declaration, nodes, weights = _MODELS[name]
    model = onnx.parser.parse_model(
        f"""<ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1]>
        g {declaration} {{ {nodes} }}"""
    )
    for weight, shape in weights.items():
        values = _RANDOM.normal(scale=0.3, size=shape).astype(np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(values, weight))
    onnx.save(model, path)


def _sample(path: Path) -> np.ndarray:
    dims = onnx.load(path).graph.input[0].type.tensor_type.shape.dim
    return _RANDOM.normal(size=[dim.dim_value or 3 for dim in dims]).astype(np.float32)


@pytest.fixture(autouse=True)
def _without_warnings() -> Iterator[None]:
    # The quantizer advises to preprocess each model.
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


def _compare(path: Path, x: np.ndarray) -> None:
    """Compare up to a few steps of 8 bits in the range of the result, one for each rounding."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    # As exported: fused integer arithmetic rounds differently.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    (expected,) = onnxruntime.InferenceSession(path, options).run(None, {"x": x})
    result: Any = svod_onnx.load(path)(x=x)["y"]
    step = max(np.ptp(expected), np.abs(expected).max()) / 64
    np.testing.assert_allclose(result.numpy(), expected, rtol=0, atol=step)


@pytest.mark.parametrize("name", _MODELS)
@pytest.mark.parametrize("quant_format", ["QDQ", "QOperator"])
@pytest.mark.parametrize("types", ["QUInt8 QUInt8", "QUInt8 QInt8", "QInt8 QInt8"])
@pytest.mark.parametrize("per_channel", [False, True])
def test_static_quantization(
    tmp_path: Path, name: str, quant_format: str, types: str, per_channel: bool
) -> None:
    source, target = tmp_path / "source.onnx", tmp_path / "target.onnx"
    _save(name, source)
    rows = iter([{"x": _sample(source)} for _ in range(4)])

    class Reader(quantization.CalibrationDataReader):
        def get_next(self) -> Any:
            return next(rows, None)

    activation_type, weight_type = (quantization.QuantType[kind] for kind in types.split())
    quantization.quantize_static(
        source,
        target,
        Reader(),
        quant_format=quantization.QuantFormat[quant_format],
        activation_type=activation_type,
        weight_type=weight_type,
        per_channel=per_channel,
    )
    _compare(target, _sample(source))


@pytest.mark.parametrize("name", _MODELS)
@pytest.mark.parametrize("weight_type", ["QUInt8", "QInt8"])
def test_dynamic_quantization(tmp_path: Path, name: str, weight_type: str) -> None:
    source, target = tmp_path / "source.onnx", tmp_path / "target.onnx"
    _save(name, source)
    kind = quantization.QuantType[weight_type]
    quantization.quantize_dynamic(source, target, weight_type=kind)
    _compare(target, _sample(source))
