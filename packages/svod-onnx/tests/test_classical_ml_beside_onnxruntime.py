"""Encoders and scalers (ai.onnx.ml) in every dtype, compared with onnxruntime."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import svod_onnx
from svod_tensor import Tensor

onnxruntime = pytest.importorskip("onnxruntime")

FLOATS = np.array([[1, -2, 3], [0, 0, 0], [-4, 5, np.nan]], np.float32)
WHOLE = np.array([[1, -2, 3], [0, 0, 0], [-4, 5, 2]], np.int64)
WORDS = np.array([["a", "b", "?"], ["", "c", "a"]], object)


def _check(
    operator: str,
    *inputs: np.ndarray,
    version: int = 3,
    tolerance: float = 1e-6,
    **attributes: Any,
) -> None:
    names = [f"x{i}" for i in range(len(inputs))]
    node = helper.make_node(operator, names, ["y"], domain="ai.onnx.ml", **attributes)
    kinds = [
        onnx.TensorProto.STRING
        if array.dtype == object
        else helper.np_dtype_to_tensor_dtype(array.dtype)
        for array in inputs
    ]
    graph = helper.make_graph(
        [node],
        "g",
        [
            helper.make_tensor_value_info(name, kind, array.shape)
            for name, kind, array in zip(names, kinds, inputs, strict=True)
        ],
        [onnx.ValueInfoProto(name="y")],
    )
    opsets = [helper.make_opsetid("ai.onnx.ml", version), helper.make_opsetid("", 21)]
    proto = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    options = onnxruntime.SessionOptions()
    # Without warnings about shapes of vectors, which onnx infers as those of rows.
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options)
    feeds = dict(zip(names, inputs, strict=True))
    (expected,) = session.run(None, feeds)
    result: Any = svod_onnx.load(proto)(**feeds)["y"]
    array = result.numpy() if isinstance(result, Tensor) else result
    assert array.shape == expected.shape
    if expected.dtype == object:
        assert array.tolist() == expected.tolist()
    else:
        assert array.dtype == expected.dtype
        np.testing.assert_allclose(array, expected, rtol=tolerance)


_KEYS: dict[str, tuple[list[Any], np.ndarray]] = {
    "int64s": ([3, -2, 0], WHOLE),
    # onnxruntime matches NaN from version 4 on only; svod and onnx's reference do so always.
    "floats": ([3.0, -2.0, 0.0], FLOATS),
    "strings": (["a", "c", ""], WORDS),
}
_VALUES: dict[str, tuple[list[Any], str, Any]] = {
    "int64s": ([7, 8, 9], "default_int64", 5),
    "floats": ([0.5, 1.5, -2.5], "default_float", 0.25),
    "strings": (["x", "y", "z"], "default_string", "none"),
}


@pytest.mark.parametrize(("key", "value"), list(product(_KEYS, _VALUES)))
@pytest.mark.parametrize("has_default", [False, True])
def test_label_encoder_of_version_2(key: str, value: str, has_default: bool) -> None:
    keys, x = _KEYS[key]
    values, name, default = _VALUES[value]
    attributes = {f"keys_{key}": keys, f"values_{value}": values}
    attributes |= {name: default} if has_default else {}
    _check("LabelEncoder", x, version=2, **attributes)


_SUPPORTED = [
    ("int64", "int64"),
    ("int64", "float32"),
    ("int64", "object"),
    ("float32", "float32"),
    ("float32", "int64"),
    ("float32", "object"),
    ("float64", "float64"),
    ("float64", "object"),
    ("object", "float64"),
    ("object", "int64"),
    ("object", "float32"),
    ("object", "int16"),
    ("object", "object"),
]
"""Pairs of dtypes that onnxruntime has kernels for."""


def _make_tensor(name: str, values: np.ndarray) -> onnx.TensorProto:
    if values.dtype != object:
        return onnx.numpy_helper.from_array(values, name)
    texts = [str(value).encode() for value in values.tolist()]
    return helper.make_tensor(name, onnx.TensorProto.STRING, values.shape, texts)


@pytest.mark.parametrize(("key", "value"), _SUPPORTED)
@pytest.mark.parametrize("has_default", [False, True])
def test_label_encoder_of_version_4(key: str, value: str, has_default: bool) -> None:
    words, numbers = np.array(["a", "c", ""], object), np.array([3, -2, 0])
    keys = words if key == "object" else numbers.astype(key)
    if key.startswith("float"):
        keys[1] = np.nan
    values = np.array(["x", "y", "z"], object) if value == "object" else np.array([7, 8, -9], value)
    default = np.array(["none"], object) if value == "object" else np.array([5], value)
    numeric = FLOATS if key.startswith("float") else WHOLE
    x = WORDS if key == "object" else numeric.astype(key)
    attributes = {
        "keys_tensor": _make_tensor("keys", keys),
        "values_tensor": _make_tensor("values", values),
    }
    if has_default:
        attributes["default_tensor"] = _make_tensor("default", default)
    _check("LabelEncoder", x, version=4, **attributes)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
def test_scalers_of_every_dtype(dtype: str) -> None:
    x = WHOLE.astype(dtype)
    _check("Scaler", x, offset=[1.0, 0.5, 2.0], scale=[2.0, 1.0, 0.25])
    _check("Scaler", x, offset=[1.0], scale=[2.0])
    for norm in ("MAX", "L1", "L2"):
        _check("Normalizer", x, norm=norm)
        _check("Normalizer", x[0], norm=norm)
    for axis in ([0], [2, 0], [1, 1]):
        _check("ArrayFeatureExtractor", x, np.array(axis))
    _check("FeatureVectorizer", x, x[:, :2].copy(), inputdimensions=[3, 2])
    _check("FeatureVectorizer", x, x[:, :2].copy(), inputdimensions=[2, 4])


def test_other_preprocessing() -> None:
    _check("Binarizer", FLOATS[:2], threshold=0.5)
    _check("Imputer", FLOATS, imputed_value_floats=[9.0], replaced_value_float=float("nan"))
    _check("Imputer", FLOATS, imputed_value_floats=[9.0, 8.0, 7.0], replaced_value_float=0.0)
    _check("Imputer", WHOLE, imputed_value_int64s=[9, 8, 7], replaced_value_int64=0)
    _check("ArrayFeatureExtractor", WORDS, np.array([2, 0]))
    _check("ArrayFeatureExtractor", FLOATS[0], np.array([2, 0]))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
@pytest.mark.parametrize("shape", [(9,), (9, 1), (3, 3)])
def test_one_hot_encoder(dtype: str, shape: tuple[int, ...]) -> None:
    _check("OneHotEncoder", WHOLE.astype(dtype).reshape(shape), cats_int64s=[3, 0, -2], zeros=1)


@pytest.mark.parametrize("shape", [(6,), (6, 1), (2, 3)])
def test_one_hot_encoder_of_strings(shape: tuple[int, ...]) -> None:
    _check("OneHotEncoder", WORDS.reshape(shape), cats_strings=["c", "a"], zeros=1)


@pytest.mark.parametrize("transform", ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"])
def test_linear_regressor(transform: str) -> None:
    rows = np.random.default_rng(0).random((4, 3)).astype(np.float32)
    weights = [0.25, 0.5, 0.125, 0.25, 0.25, 0.375]
    _check(
        "LinearRegressor",
        rows,
        coefficients=weights,
        intercepts=[0.0625, 0.03125],
        targets=2,
        post_transform=transform,
        # onnxruntime approximates the inverse error function by a short formula.
        tolerance=2e-4 if transform == "PROBIT" else 1e-6,
    )
    _check("LinearRegressor", rows, coefficients=weights[:3], intercepts=[0.5], targets=1)
