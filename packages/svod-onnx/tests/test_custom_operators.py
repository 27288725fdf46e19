"""Custom operators, with evaluated annotations: this file does not import `annotations` from
`__future__`.
"""

import numpy as np
import onnx.parser
import pytest

import svod_onnx
from svod_tensor import Tensor


@svod_onnx.operator("Rows", domain="tests.own")
def rows(
    x: Tensor, which: list[int], bias: Tensor | None, weights: np.ndarray, *, factor: float = 1.0
) -> Tensor:
    assert isinstance(which, list)
    assert isinstance(weights, np.ndarray)
    y = x[which] * weights * factor
    return y if bias is None else y + bias


@pytest.mark.parametrize("bias", ["", "bias"])
def test_operands_are_converted_by_their_annotations(bias: str) -> None:
    text = f"""<ir_version: 10, opset_import: ["" : 21, "tests.own" : 1]>
        g (float[3] x, float[2] bias) => (float[2] y)
        <int64[2] which = {{2, 0}}, float[2] weights = {{10, 100}}>
        {{ y = tests.own.Rows<factor = 2.0>(x, which, {bias}, weights) }}
    """
    model = svod_onnx.load(onnx.parser.parse_model(text))
    expected = np.array([60.0, 200.0]) + (np.array([1.0, 2.0]) if bias else 0)
    assert model(x=[1.0, 2.0, 3.0], bias=[1.0, 2.0])["y"].tolist() == expected.tolist()


@svod_onnx.operator("Add", domain="tests.own")
def add_three_times(x: Tensor, y: Tensor) -> Tensor:
    return x + y * 3


def test_an_operator_with_the_name_of_a_standard_one_computes_with_symbolic_sizes() -> None:
    text = """<ir_version: 10, opset_import: ["" : 21, "tests.own" : 1]>
        g (float[n] x) => (int64[1] y) { s = Shape(x) y = tests.own.Add(s, s) }
    """
    model = svod_onnx.load(onnx.parser.parse_model(text), sizes={"n": 8})
    for n in (3, 5):
        assert model(x=np.ones(n, np.float32))["y"].tolist() == [4 * n]


def test_an_unsupported_annotation_is_rejected() -> None:
    with pytest.raises(
        TypeError,
        match="wrong: unsupported annotation <class 'int'> of operand 'x'; expected one of Tensor",
    ):

        @svod_onnx.operator("Wrong", domain="tests.own")
        def wrong(x: int) -> Tensor:
            raise NotImplementedError
