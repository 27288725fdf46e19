"""Inputs and outputs of a call: element types without an svod dtype, byte orders, names, and inputs
with an initializer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper, numpy_helper

import svod_onnx
from svod_onnx.errors import ModelInputError

_HOST_TYPES = {
    TensorProto.INT2: ml_dtypes.int2,
    TensorProto.UINT2: ml_dtypes.uint2,
    TensorProto.INT4: ml_dtypes.int4,
    TensorProto.UINT4: ml_dtypes.uint4,
    TensorProto.FLOAT4E2M1: ml_dtypes.float4_e2m1fn,
    TensorProto.FLOAT8E4M3FNUZ: ml_dtypes.float8_e4m3fnuz,
    TensorProto.FLOAT8E5M2FNUZ: ml_dtypes.float8_e5m2fnuz,
    TensorProto.FLOAT8E8M0: ml_dtypes.float8_e8m0fnu,
}


def _make(
    nodes: Sequence[onnx.NodeProto],
    inputs: dict[str, int],
    outputs: dict[str, int],
    weights: dict[str, np.ndarray] | None = None,
    ir_version: int = 10,
    opset: int = 25,
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(name, kind, None) for name, kind in inputs.items()],
        [
            helper.make_tensor_value_info(name, kind, None)
            if kind
            else onnx.ValueInfoProto(name=name)
            for name, kind in outputs.items()
        ],
        [numpy_helper.from_array(value, name) for name, value in (weights or {}).items()],
    )
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir_version
    )


@pytest.mark.parametrize("element_type", _HOST_TYPES)
@pytest.mark.parametrize("is_declared", [True, False])
def test_an_output_of_a_narrow_type_is_an_array_of_its_dtype(
    element_type: int, is_declared: bool
) -> None:
    dtype = np.dtype(_HOST_TYPES[element_type])
    nodes = [
        helper.make_node("Cast", ["x"], ["narrow"], to=element_type),
        helper.make_node("Reshape", ["narrow", "shape"], ["y"]),
        helper.make_node("Cast", ["narrow"], ["z"], to=TensorProto.FLOAT),
    ]
    outputs = {"y": element_type if is_declared else 0, "z": TensorProto.FLOAT}
    model = svod_onnx.load(
        _make(nodes, {"x": TensorProto.FLOAT}, outputs, {"shape": np.array([2, 2])})
    )
    x = np.array([0, 1, 1, 1] if element_type != TensorProto.FLOAT8E8M0 else [1, 2, 4, 1], "f4")
    # A later call with the same shapes may take another way.
    for _ in range(3):
        result: Any = model(x=x)
        assert (result["y"].dtype, result["y"].shape) == (dtype, (2, 2))
        assert result["y"].astype(np.float32).ravel().tolist() == x.tolist()
        assert result["z"].tolist() == x.tolist()


@pytest.mark.parametrize("element_type", _HOST_TYPES)
def test_an_input_of_a_narrow_type_has_its_dtype(element_type: int) -> None:
    dtype = np.dtype(_HOST_TYPES[element_type])
    model = svod_onnx.load(
        _make(
            [
                helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT),
                helper.make_node("Identity", ["x"], ["same"]),
            ],
            {"x": element_type},
            {"y": TensorProto.FLOAT, "same": 0},
        )
    )
    x = np.array([1, 1, 1]).astype(dtype)
    for value in (x, [1, 1, 1]):
        result: Any = model(x=value)
        assert result["y"].tolist() == [1, 1, 1]
        assert result["same"].dtype == dtype
    with pytest.raises(ModelInputError, match=f"expected dtype {dtype}, got int8"):
        model(x=np.array([1, 9, 1], np.int8))


def test_a_narrow_array_is_no_input_of_its_carrier() -> None:
    model = svod_onnx.load(
        _make([helper.make_node("Neg", ["x"], ["y"])], {"x": TensorProto.INT8}, {"y": 0})
    )
    with pytest.raises(ModelInputError, match="expected dtype int8, got int4"):
        model(x=np.array([1, 2], ml_dtypes.int4))


def test_a_sequence_of_a_narrow_type_has_arrays_of_its_dtype() -> None:
    model = svod_onnx.load(
        onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 25]>
            g (float[n] x) => (seq(int4[n]) y) { a = Cast<to = 22>(x) y = SequenceConstruct(a, a) }
        """)
    )
    result: Any = model(x=np.array([1, -2], np.float32))["y"]
    assert [value.dtype for value in result] == [np.dtype(ml_dtypes.int4)] * 2
    assert [value.tolist() for value in result] == [[1, -2]] * 2


def test_the_bits_of_a_narrow_result_of_an_earlier_stage() -> None:
    model = svod_onnx.load(
        _make(
            [
                helper.make_node("Cast", ["x"], ["narrow"], to=TensorProto.FLOAT8E4M3FNUZ),
                helper.make_node("BitCast", ["narrow"], ["y"], to=TensorProto.UINT8),
            ],
            {"x": TensorProto.FLOAT},
            {"y": TensorProto.UINT8},
            opset=26,
        )
    )
    x = np.array([1.0, -2.0, 0.5], np.float32)
    expected = x.astype(ml_dtypes.float8_e4m3fnuz).view(np.uint8)
    for _ in range(2):
        assert model(x=x)["y"].tolist() == expected.tolist()


def _make_scaled(ir_version: int) -> onnx.ModelProto:
    """`x * reshape(scale * gain)`: two initializers among the inputs, of which none has to be
    passed.
    """
    kinds = {"x": TensorProto.FLOAT, "scale": TensorProto.FLOAT, "gain": TensorProto.FLOAT}
    nodes = [
        helper.make_node("Mul", ["scale", "gain"], ["factor"]),
        helper.make_node("Mul", ["x", "factor"], ["y"]),
    ]
    weights = {"scale": np.array([2, 3], np.float32), "gain": np.array([10], np.float32)}
    return _make(nodes, kinds, {"y": TensorProto.FLOAT}, weights, ir_version, opset=8)


@pytest.mark.parametrize("ir_version", [3, 10])
def test_a_call_may_override_initializers_among_the_inputs(ir_version: int) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    proto = _make_scaled(ir_version)
    model = svod_onnx.load(proto)
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    assert [info.name for info in model.inputs] == ["x"]
    assert [info.name for info in model.overridable_inputs] == ["scale", "gain"]
    x = np.array([1, 10], np.float32)
    scale, gain = np.array([5, 7], np.float32), np.array([1], np.float32)
    overrides = ({}, {"scale": scale}, {"gain": gain}, {"scale": scale, "gain": gain})
    # Each again, when its plan is cached.
    for override in overrides * 2:
        inputs = {"x": x, **override}
        if ir_version == 10:
            # onnxruntime has no overridable inputs for IR version 3.
            (expected,) = session.run(None, inputs)
        else:
            expected = x * override.get("scale", np.array([2, 3])) * override.get("gain", 10)
        assert model(**inputs)["y"].tolist() == expected.tolist()
        assert model.to_function()(x, **override).tolist() == expected.tolist()
    assert model(x=x, scale=None)["y"].tolist() == [20, 300]
    n_plans = len(model.plans())
    assert n_plans == 4
    model(x=x, scale=scale + 1)
    assert len(model.plans()) == n_plans


def test_an_override_is_checked() -> None:
    model = svod_onnx.load(_make_scaled(3))
    with pytest.raises(ModelInputError, match="'scale': expected dtype float32, got int64"):
        model(x=np.ones(2, np.float32), scale=np.array([1, 2]))
    with pytest.raises(ModelInputError, match="missing input 'x'"):
        model(scale=np.ones(2, np.float32))


def test_an_overridden_shape_selects_another_program() -> None:
    kinds = {"x": TensorProto.FLOAT, "shape": TensorProto.INT64}
    proto = _make(
        [helper.make_node("Reshape", ["x", "shape"], ["y"])],
        kinds,
        {"y": TensorProto.FLOAT},
        {"shape": np.array([2, 3])},
    )
    model = svod_onnx.load(proto)
    x = np.arange(6, dtype=np.float32)
    assert model(x=x)["y"].shape == (2, 3)
    assert model(x=x, shape=np.array([3, 2]))["y"].shape == (3, 2)
    assert model(x=x, shape=np.array([6, 1]))["y"].shape == (6, 1)
    assert model(x=x)["y"].shape == (2, 3)


@pytest.mark.parametrize("name", ["self", "inputs", "model", "spec"])
def test_an_input_may_have_any_name(name: str) -> None:
    model = svod_onnx.load(
        _make([helper.make_node("Neg", [name], ["y"])], {name: TensorProto.FLOAT}, {"y": 0})
    )
    x = np.array([1.0, 2.0], np.float32)
    for _ in range(2):
        assert model(**{name: x})["y"].tolist() == [-1, -2]
    assert model.to_function()(**{name: x}).tolist() == [-1, -2]


@pytest.mark.parametrize("dtype", ["f4", "i8", "f2", "c8"])
def test_arrays_of_another_byte_order_are_converted(dtype: str) -> None:
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    model = svod_onnx.load(
        _make([helper.make_node("Add", ["x", "x"], ["y"])], {"x": kind}, {"y": kind})
    )
    for order in (">", "<", ">", ">", "="):
        x = np.array([1, 2, 300], np.dtype(dtype).newbyteorder(order))
        result = model(x=x)["y"].numpy()
        assert result.dtype == np.dtype(dtype)
        assert result.tolist() == [2, 4, 600]


def test_a_size_of_another_byte_order_selects_a_program() -> None:
    model = svod_onnx.load(
        _make(
            [helper.make_node("Expand", ["x", "size"], ["y"])],
            {"x": TensorProto.FLOAT, "size": TensorProto.INT64},
            {"y": TensorProto.FLOAT},
        )
    )
    for size in (2, 3, 3):
        result = model(x=np.ones(1, np.float32), size=np.array([size], ">i8"))["y"]
        assert result.tolist() == [1.0] * size


@pytest.mark.parametrize("order", ["<", ">"])
def test_a_double_for_a_float_is_an_error(order: str) -> None:
    model = svod_onnx.load(
        _make([helper.make_node("Neg", ["x"], ["y"])], {"x": TensorProto.FLOAT}, {"y": 0})
    )
    model(x=np.ones(2, np.float32))
    with pytest.raises(ModelInputError, match="input 'x': expected dtype float32, got float64"):
        model(x=np.ones(2, order + "f8"))


def test_strings_for_an_input_of_numbers_are_rejected() -> None:
    model = svod_onnx.load(
        _make(
            [helper.make_node("Neg", ["x"], ["y"])],
            {"x": TensorProto.FLOAT},
            {"y": TensorProto.FLOAT},
        )
    )
    with pytest.raises(ModelInputError, match="input 'x': expected dtype float32, got object"):
        model(x=np.array(["a"], object))
