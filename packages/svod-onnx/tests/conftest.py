"""Fixtures with single-node models, for tests of operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx
import pytest
from onnx import helper

import svod_onnx
from svod_tensor import Tensor


def _make_model(
    operator: str,
    inputs: Sequence[np.ndarray | None],
    version: int,
    n_outputs: int = 1,
    domain: str = "",
    constants: Sequence[int] = (),
    **attributes: object,
) -> onnx.ModelProto:
    """Single-node model with inputs `x0`, `x1`, ..., and outputs `y0`, `y1`, ...

    Args:
        operator: operator of the node.
        inputs: operands; None for an omitted operand.
        version: opset version.
        n_outputs: i of declared outputs.
        domain: domain of the operator.
        constants: indices of the operands that are initializers.
        attributes: attributes of the node.
    """
    names = ["" if value is None else f"x{i}" for i, value in enumerate(inputs)]
    node = helper.make_node(
        operator, names, [f"y{i}" for i in range(n_outputs)], "node", domain=domain, **attributes
    )
    input_values = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape
        )
        for i, (name, value) in enumerate(zip(names, inputs, strict=True))
        if value is not None and i not in constants
    ]
    weights = [onnx.numpy_helper.from_array(inputs[i], names[i]) for i in constants]
    outputs = [onnx.ValueInfoProto(name=name) for name in node.output]
    opsets = [helper.make_opsetid("", version)] + (
        [helper.make_opsetid(domain, 1)] if domain else []
    )
    graph = helper.make_graph([node], "graph", input_values, outputs, weights)
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


@pytest.fixture
def make_node_model() -> Callable[..., onnx.ModelProto]:
    return _make_model


@pytest.fixture
def run_node() -> Callable[..., list[np.ndarray]]:
    """Function with the parameters of `make_node_model` that returns the node's results."""

    def run(
        operator: str, inputs: Sequence[np.ndarray | None], version: int, **options: object
    ) -> list[np.ndarray]:
        model = svod_onnx.load(_make_model(operator, inputs, version, **options))
        constants = options.get("constants", ())
        input_values = {
            f"x{i}": value
            for i, value in enumerate(inputs)
            if value is not None and i not in constants
        }
        return [
            # A narrow element type is an array, since svod has no such dtype.
            value.numpy() if isinstance(value, Tensor) else value
            for value in model(**input_values).values()
        ]

    return run
