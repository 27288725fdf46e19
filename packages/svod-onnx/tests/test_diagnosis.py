"""Errors of plans name the node: indices out of bounds, integer division by 0, and memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

import svod_onnx
from svod_onnx.errors import NodeError

X = np.arange(6, dtype=np.float32).reshape(2, 3)
ROW = np.ones((1, 3), np.float32)


def _ints(*values: Any) -> np.ndarray:
    return np.array(values, np.int64)


@pytest.mark.parametrize(
    ("operator", "operands", "wrong"),
    [
        ("Gather", [X, _ints(0, -2)], _ints(0, -3)),
        ("GatherND", [X, _ints([0, 2], [1, 1])], _ints([0, 3], [1, 1])),
        ("GatherElements", [X, _ints([0, 1, 1])], _ints([0, 2, 1])),
        ("ScatterND", [X, _ints([0, 2]), ROW[0, :1]], _ints([0, 3])),
        ("ScatterND", [X, _ints([1, 0]), ROW[0, :1]], _ints([-3, 0])),
        ("ScatterElements", [X, _ints([0, 1, 1]), ROW], _ints([0, -3, 1])),
    ],
)
def test_an_index_out_of_bounds_names_the_node(
    make_node_model: Callable[..., onnx.ModelProto],
    operator: str,
    operands: list[np.ndarray],
    wrong: np.ndarray,
) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    proto = make_node_model(operator, operands, 18)
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    inputs = {f"x{i}": value for i, value in enumerate(operands)}
    bad = {**inputs, "x1": wrong}
    (expected,) = session.run(None, inputs)
    with pytest.raises(Exception, match="node"):
        session.run(None, bad)
    model = svod_onnx.load(proto, check_indices=True)
    # In the first call, and with a cached plan.
    for _ in range(3):
        with pytest.raises(NodeError, match=f"{operator} in node 'node': .*out of bounds"):
            model(**bad)
        assert model(**inputs)["y0"].tolist() == expected.tolist()


def test_an_index_out_of_bounds_of_scatter_nd_writes_no_other_row(
    run_node: Callable[..., list[np.ndarray]],
) -> None:
    # In the flattened tensor, each of these tuples has the index of an element.
    indices = _ints([-3, 0], [0, 4], [0, -4])
    (result,) = run_node("ScatterND", [X, indices, np.full(3, 9, np.float32)], 18)
    assert result.tolist() == X.tolist()


def test_an_index_in_a_later_stage_names_the_node() -> None:
    model = svod_onnx.load(
        onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 21]>
            g (float[n] x, int64[m] i) => (float[k] y) {
                found = NonZero(x)
                rows = Squeeze(found)
                many = Gather(x, rows)
                [pick] y = Gather(many, i)
            }
        """),
        check_indices=True,
    )
    x = np.array([1.0, 0.0, 2.0], np.float32)
    assert model(x=x, i=_ints(1, 0))["y"].tolist() == [2, 1]
    with pytest.raises(NodeError, match=r"Gather in node 'pick': .* is 2, out of bounds"):
        model(x=x, i=_ints(1, 2))


def test_an_integer_division_by_0_names_the_node(
    make_node_model: Callable[..., onnx.ModelProto],
) -> None:
    operands = [_ints(4, 6), _ints(2, 0)]
    model = svod_onnx.load(make_node_model("Div", operands, 14), check_indices=True)
    with pytest.raises(NodeError, match=r"Div in node 'node': .*divisor is 0"):
        model(x0=operands[0], x1=operands[1])


_HUGE = 1 << 44


@pytest.mark.parametrize(
    ("text", "node"),
    [
        (
            f"""g (float[3] x) => (float[n] y) <int64[1] s = {{{_HUGE}}}> {{
                zero = Constant<value_int = 0>()
                [big] c = ConstantOfShape(s)
                y = CumSum(c, zero)
                z = Neg(x)
            }}""",
            "ConstantOfShape in node 'big'",
        ),
        (
            """g (float[3] x) => (float[n] y) {
                size = Constant<value_ints = [17592186044416]>()
                many = NonZero(x)
                rank = Shape(many)
                [big] wide = Expand(rank, size)
                zero = Constant<value_int = 0>()
                y = CumSum(wide, zero)
            }""".replace("rank = Shape(many)", "rank = Shape<start = 1>(many)"),
            "Expand in node 'big'",
        ),
    ],
)
def test_an_error_of_memory_names_the_node_of_the_largest_value(text: str, node: str) -> None:
    model = svod_onnx.load(
        onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> {text}')
    )
    with pytest.raises(NodeError, match=f"{node}: out of memory on CPU.*largest value") as info:
        model(x=np.ones(3, np.float32))
    assert isinstance(info.value.__cause__, MemoryError)
