"""Recurrent layers with sequence lengths: each row has the result that it has in a batch of one."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import svod_onnx

STEPS, BATCH, INPUTS, WIDTH = 6, 3, 3, 5
N_GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


def _make_proto(
    operator: str, direction: str, *, has_lengths: bool, n_outputs: int, **attributes: int
) -> onnx.ModelProto:
    names = [
        "x",
        "w",
        "r",
        "b",
        "lengths" if has_lengths else "",
        "h",
        *(["c"] if operator == "LSTM" else []),
    ]
    outputs = ["y", "y_h", "y_c"][:n_outputs]
    node = helper.make_node(
        operator, names, outputs, hidden_size=WIDTH, direction=direction, **attributes
    )
    kinds = {
        name: TensorProto.INT32 if name == "lengths" else TensorProto.FLOAT
        for name in names
        if name
    }
    inputs = [helper.make_tensor_value_info(name, kind, None) for name, kind in kinds.items()]
    results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
    graph = helper.make_graph([node], "g", inputs, results)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)])


def _make(operator: str, direction: str, **options: Any) -> svod_onnx.Model:
    return svod_onnx.load(_make_proto(operator, direction, **options))


@pytest.mark.parametrize(
    ("operator", "direction", "linear_before_reset"),
    [
        *itertools.product(["RNN", "GRU", "LSTM"], ["forward", "reverse", "bidirectional"], [1]),
        ("GRU", "bidirectional", 0),
    ],
)
def test_a_row_has_its_result_independent_of_the_batch(
    operator: str, direction: str, linear_before_reset: int
) -> None:
    attributes = {"linear_before_reset": linear_before_reset} if operator == "GRU" else {}
    n_directions, gates = 2 if direction == "bidirectional" else 1, N_GATES[operator]
    rng = np.random.default_rng(0)

    def fill(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(np.float32)

    x = fill(STEPS, BATCH, INPUTS)
    weights = {
        "w": fill(n_directions, gates * WIDTH, INPUTS),
        "r": fill(n_directions, gates * WIDTH, WIDTH),
        "b": fill(n_directions, 2 * gates * WIDTH),
    }
    states = {
        name: fill(n_directions, BATCH, WIDTH)
        for name in ("h", "c")[: 2 if operator == "LSTM" else 1]
    }
    lengths = np.array([6, 4, 0], np.int32)
    x[4:, 1] = np.nan
    for n_outputs in (2, 3) if operator == "LSTM" else (2,):
        model = _make(operator, direction, has_lengths=True, n_outputs=n_outputs, **attributes)
        alone = _make(operator, direction, has_lengths=False, n_outputs=n_outputs, **attributes)
        result = {
            name: value.numpy()
            for name, value in model(x=x, lengths=lengths, **weights, **states).items()
        }
        for row, length in enumerate(lengths):
            np.testing.assert_array_equal(result["y"][length:, :, row], 0)
            begin = {name: state[:, row : row + 1] for name, state in states.items()}
            if length == 0:
                # As in onnxruntime, and not the initial states.
                for name in ("y_h", "y_c")[: n_outputs - 1]:
                    np.testing.assert_array_equal(result[name][:, row], 0)
                continue
            expected = alone(x=x[:length, row : row + 1], **weights, **begin)
            np.testing.assert_allclose(
                result["y"][:length, :, row], expected["y"].numpy()[:, :, 0], rtol=2e-5, atol=2e-6
            )
            for name in ("y_h", "y_c")[: n_outputs - 1]:
                np.testing.assert_allclose(
                    result[name][:, row], expected[name].numpy()[:, 0], rtol=2e-5, atol=2e-6
                )


@pytest.mark.parametrize("operator", ["RNN", "GRU", "LSTM"])
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
@pytest.mark.parametrize("has_all_outputs", [True, False])
def test_empty_rows_have_the_results_of_onnxruntime(
    operator: str, direction: str, has_all_outputs: bool
) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    n_directions, gates = 2 if direction == "bidirectional" else 1, N_GATES[operator]
    rng = np.random.default_rng(1)
    shapes = {
        "x": (STEPS, BATCH, INPUTS),
        "w": (n_directions, gates * WIDTH, INPUTS),
        "r": (n_directions, gates * WIDTH, WIDTH),
        "b": (n_directions, 2 * gates * WIDTH),
        "h": (n_directions, BATCH, WIDTH),
        **({"c": (n_directions, BATCH, WIDTH)} if operator == "LSTM" else {}),
    }
    inputs = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    inputs["lengths"] = np.array([6, 0, 2], np.int32)
    n_outputs = 3 if operator == "LSTM" and has_all_outputs else 2
    proto = _make_proto(operator, direction, has_lengths=True, n_outputs=n_outputs)
    proto.ir_version = 10
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    results = svod_onnx.load(proto)(**inputs)
    for result, expected in zip(results.values(), session.run(None, inputs), strict=True):
        np.testing.assert_allclose(result.numpy(), expected, rtol=2e-5, atol=2e-6)
