"""Models of one node, for tests of operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx
import pytest
from onnx import helper

import svod_onnx


def _make_model(
    operator: str,
    inputs: Sequence[np.ndarray | None],
    version: int,
    n_outputs: int = 1,
    domain: str = "",
    constants: Sequence[int] = (),
    **attributes: object,
) -> onnx.ModelProto:
    """A model of one node, whose inputs are `x0`, `x1`, ..., and whose outputs are `y0`, `y1`, ...

    Args:
        operator: its name.
        inputs: the operands; None for one that is left out.
        version: of the opset.
        n_outputs: how many results have a name.
        domain: of the operator.
        constants: the numbers of the operands that belong to the model.
        attributes: of the node.
    """
    names = ["" if value is None else f"x{number}" for number, value in enumerate(inputs)]
    node = helper.make_node(
        operator,
        names,
        [f"y{number}" for number in range(n_outputs)],
        "node",
        domain=domain,
        **attributes,
    )
    given = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape
        )
        for number, (name, value) in enumerate(zip(names, inputs, strict=True))
        if value is not None and number not in constants
    ]
    weights = [onnx.numpy_helper.from_array(inputs[number], names[number]) for number in constants]
    outputs = [onnx.ValueInfoProto(name=name) for name in node.output]
    opsets = [helper.make_opsetid("", version)] + (
        [helper.make_opsetid(domain, 1)] if domain else []
    )
    graph = helper.make_graph([node], "graph", given, outputs, weights)
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


@pytest.fixture
def make_node_model() -> Callable[..., onnx.ModelProto]:
    return _make_model


@pytest.fixture
def run_node() -> Callable[..., list[np.ndarray]]:
    """A function of what `make_node_model` takes: the results of the node."""

    def run(
        operator: str, inputs: Sequence[np.ndarray | None], version: int, **options: object
    ) -> list[np.ndarray]:
        model = svod_onnx.load(_make_model(operator, inputs, version, **options))
        constants = options.get("constants", ())
        given = {
            f"x{number}": value
            for number, value in enumerate(inputs)
            if value is not None and number not in constants
        }
        return [value.numpy() for value in model(**given).values()]

    return run
