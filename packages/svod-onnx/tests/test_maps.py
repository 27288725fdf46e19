"""Maps (ai.onnx.ml) as inputs and outputs, compared with onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper

import svod_onnx
from svod_onnx.errors import ModelInputError, NodeError

ROWS = np.array([[1, -2, 3], [0, 0.5, 0.25], [4, 5, 6]], np.float32)


def _parse(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(
        f'<ir_version: 10, opset_import: ["" : 21, "ai.onnx.ml" : 3]> {text}'
    )


def _run_onnxruntime(proto: onnx.ModelProto, inputs: dict[str, Any]) -> list[Any]:
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    return session.run(None, inputs)


@pytest.mark.parametrize(
    "labels", ["classlabels_int64s = [7, 8, 9]", 'classlabels_strings = ["a", "b", "c"]']
)
def test_zip_map_of_rows(labels: str) -> None:
    key = "string" if "strings" in labels else "int64"
    proto = _parse(
        f"""g (float[n, 3] x) => (seq(map({key}, float)) y, float[n, 3] z)
        {{ z = Sigmoid(x) y = ai.onnx.ml.ZipMap<{labels}>(z) }}"""
    )
    model = svod_onnx.load(proto)
    for rows in (ROWS, ROWS[:1], ROWS[1:], ROWS):
        results: Any = model(x=rows)
        expected, scores = _run_onnxruntime(proto, {"x": rows})
        assert [list(row) for row in results["y"]] == [list(row) for row in expected]
        for result, row in zip(results["y"], expected, strict=True):
            assert list(result.values()) == pytest.approx(list(row.values()), rel=1e-6)
            assert all(isinstance(value, float) for value in result.values())
        np.testing.assert_allclose(results["z"].numpy(), scores, rtol=1e-6)


def test_zip_map_of_a_vector() -> None:
    proto = _parse(
        """g (float[3] x) => (seq(map(int64, float)) y)
        { y = ai.onnx.ml.ZipMap<classlabels_int64s = [7, 8, 9]>(x) }"""
    )
    results: Any = svod_onnx.load(proto)(x=ROWS[0])
    assert results["y"] == [{7: 1.0, 8: -2.0, 9: 3.0}]
    assert results["y"] == _run_onnxruntime(proto, {"x": ROWS[0]})[0]


def test_zip_map_of_constant_rows() -> None:
    proto = _parse(
        """g (float[n] x) => (seq(map(int64, float)) y, float[n] z) <float[1, 2] rows = {1, 2}>
        { y = ai.onnx.ml.ZipMap<classlabels_int64s = [7, 8]>(rows) z = Neg(x) }"""
    )
    results: Any = svod_onnx.load(proto)(x=ROWS[0])
    assert results["y"] == [{7: 1.0, 8: 2.0}]


def test_zip_map_with_another_number_of_labels_is_rejected() -> None:
    proto = _parse(
        """g (float[n, 3] x) => (seq(map(int64, float)) y)
        { y = ai.onnx.ml.ZipMap<classlabels_int64s = [7, 8]>(x) }"""
    )
    with pytest.raises(
        NodeError, match=r"expected rows of 2 scores, one per label, got shape \(3, 3\)"
    ):
        svod_onnx.load(proto)(x=ROWS)


def test_declared_maps_are_described() -> None:
    proto = _parse(
        """g (map(string, int64) x, float[n, 3] s) => (int64[1, 2] y, seq(map(int64, float)) z)
        {
            y = ai.onnx.ml.DictVectorizer<string_vocabulary = ["a", "b"]>(x)
            z = ai.onnx.ml.ZipMap<classlabels_int64s = [7, 8, 9]>(s)
        }"""
    )
    model = svod_onnx.load(proto)
    assert str(model.inputs[0]) == "x: map(string, int64)"
    assert str(model.outputs[1]) == "z: sequence of map(int64, float32)"


def _make_map_model(node: onnx.NodeProto, key: int, value: int, output: int) -> onnx.ModelProto:
    value_type = helper.make_tensor_type_proto(value, None)
    map_type = helper.make_map_type_proto(key, value_type)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_value_info("x", map_type)],
        [helper.make_tensor_value_info("y", output, [1, None])],
    )
    opsets = [helper.make_opsetid("ai.onnx.ml", 3), helper.make_opsetid("", 21)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def _run_map(proto: onnx.ModelProto, items: dict[Any, Any]) -> np.ndarray:
    (result,) = svod_onnx.load(proto)(x=items).values()
    return np.asarray(result if isinstance(result, np.ndarray) else result.numpy())


# onnxruntime's Python interface has only maps to float32 as inputs.
_MAPS = [
    (TensorProto.STRING, TensorProto.FLOAT, {"b": 0.5, "?": 3.0}, [[0.0, 0.5, 0.0]]),
    (TensorProto.INT64, TensorProto.FLOAT, {1: 0.5, 9: 3.0}, [[0.0, 0.5, 0.0]]),
    (TensorProto.STRING, TensorProto.INT64, {"b": 2, "c": 3}, [[0, 2, 3]]),
    (TensorProto.STRING, TensorProto.INT64, {}, [[0, 0, 0]]),
    (TensorProto.INT64, TensorProto.DOUBLE, {3: 0.5}, [[0.5, 0.0, 0.0]]),
    (TensorProto.INT64, TensorProto.STRING, {1: "x", 9: "y"}, [["", "x", ""]]),
]


@pytest.mark.parametrize(("key", "value", "items", "expected"), _MAPS)
def test_dict_vectorizer(key: int, value: int, items: dict[Any, Any], expected: Any) -> None:
    attributes: dict[str, Any] = (
        {"string_vocabulary": ["a", "b", "c"]}
        if key == TensorProto.STRING
        else {"int64_vocabulary": [3, 1, 2]}
    )
    node = helper.make_node("DictVectorizer", ["x"], ["y"], domain="ai.onnx.ml", **attributes)
    proto = _make_map_model(node, key, value, value)
    result = _run_map(proto, items)
    assert result.tolist() == expected
    if value != TensorProto.STRING:
        assert result.dtype == helper.tensor_dtype_to_np_dtype(value)
    if value == TensorProto.FLOAT:
        assert result.tolist() == _run_onnxruntime(proto, {"x": items})[0].tolist()


_NUMBERS = {3: 2.75, 1: -0.5, 4: 100.0}
_DIGITS = {3: "2", 1: "-5", 4: "7"}


@pytest.mark.parametrize(
    ("items", "cast_to", "output", "expected"),
    [
        (_NUMBERS, "TO_FLOAT", TensorProto.FLOAT, [-0.5, 2.75, 100.0]),
        (_NUMBERS, "TO_INT64", TensorProto.INT64, [0, 2, 100]),
        (_NUMBERS, "TO_STRING", TensorProto.STRING, ["-0.500000", "2.750000", "100.000000"]),
        (_DIGITS, "TO_STRING", TensorProto.STRING, ["-5", "2", "7"]),
        (_DIGITS, "TO_FLOAT", TensorProto.FLOAT, [-5.0, 2.0, 7.0]),
        (_DIGITS, "TO_INT64", TensorProto.INT64, [-5, 2, 7]),
    ],
)
@pytest.mark.parametrize("map_form", ["DENSE", "SPARSE"])
def test_cast_map(
    items: dict[Any, Any], cast_to: str, output: int, expected: list[Any], map_form: str
) -> None:
    value = TensorProto.FLOAT if items is _NUMBERS else TensorProto.STRING
    attributes: dict[str, Any] = {"cast_to": cast_to, "map_form": map_form, "max_map": 5}
    node = helper.make_node("CastMap", ["x"], ["y"], domain="ai.onnx.ml", **attributes)
    proto = _make_map_model(node, TensorProto.INT64, value, output)
    result = _run_map(proto, items).tolist()
    if map_form == "SPARSE":
        padding = "0.f" if cast_to == "TO_STRING" else 0
        expected = [padding, expected[0], padding, *expected[1:]]
    assert result == [expected]
    if value == TensorProto.FLOAT:
        assert result == _run_onnxruntime(proto, {"x": items})[0].tolist()


def test_other_inputs_for_maps_are_rejected() -> None:
    node = helper.make_node("CastMap", ["x"], ["y"], domain="ai.onnx.ml")
    model = svod_onnx.load(_make_map_model(node, TensorProto.INT64, TensorProto.FLOAT, 1))
    for value in (ROWS, {"a": 1.0}, [1.0]):
        with pytest.raises(ModelInputError, match="'x': expected a dict with int keys"):
            model(x=value)
