"""Quantized operators of "com.microsoft": they compute with dequantized floats, and quantize the
result.
"""

from __future__ import annotations

from svod_onnx._registry import operator
from svod_onnx._trace import Call
from svod_onnx.operators.microsoft import MICROSOFT
from svod_onnx.operators.quantization import (
    QuantizeLinearAttributes,
    dequantize_linear,
    quantize_linear,
)
from svod_tensor import Tensor, concat

__all__ = [
    "qlinear_binary",
    "qlinear_concat",
    "qlinear_global_average_pool",
    "qlinear_leaky_relu",
    "qlinear_sigmoid",
]


def _quantize(
    node: Call, x: Tensor, scale: Tensor, zero_point: Tensor | None, operand: int
) -> Tensor:
    """Quantize floats to the element type of the operand with index `operand`."""
    # Not the type of the zero point, which may be omitted.
    element_type = node.trace.get_element_type(node.node.inputs[operand])
    return quantize_linear(
        node, x, scale, zero_point, attributes=QuantizeLinearAttributes(output_dtype=element_type)
    )


@operator("QLinearAdd", "QLinearMul", domain=MICROSOFT)
def qlinear_binary(
    node: Call,
    a: Tensor,
    a_scale: Tensor,
    a_zero_point: Tensor | None,
    b: Tensor,
    b_scale: Tensor,
    b_zero_point: Tensor | None,
    c_scale: Tensor,
    c_zero_point: Tensor | None = None,
) -> Tensor:
    """Quantized sum or product of dequantized operands."""
    left, right = (
        dequantize_linear(a, a_scale, a_zero_point),
        dequantize_linear(b, b_scale, b_zero_point),
    )
    return _quantize(
        node,
        # In floats: the operands have different scales, so their integers do not add up.
        left + right if node.operator == "QLinearAdd" else left * right,
        c_scale,
        c_zero_point,
        0,
    )


@operator("QLinearSigmoid", domain=MICROSOFT)
def qlinear_sigmoid(
    node: Call,
    x: Tensor,
    x_scale: Tensor,
    x_zero_point: Tensor | None,
    y_scale: Tensor,
    y_zero_point: Tensor | None = None,
) -> Tensor:
    """Quantized sigmoid of the dequantized operand."""
    return _quantize(
        node, dequantize_linear(x, x_scale, x_zero_point).sigmoid(), y_scale, y_zero_point, 0
    )


@operator("QLinearLeakyRelu", domain=MICROSOFT)
def qlinear_leaky_relu(
    node: Call,
    x: Tensor,
    x_scale: Tensor,
    x_zero_point: Tensor | None,
    y_scale: Tensor,
    y_zero_point: Tensor | None = None,
    *,
    alpha: float = 0.01,
) -> Tensor:
    """Quantized leaky ReLU of the dequantized operand."""
    return _quantize(
        node,
        dequantize_linear(x, x_scale, x_zero_point).leaky_relu(alpha),
        y_scale,
        y_zero_point,
        0,
    )


@operator("QLinearConcat", domain=MICROSOFT)
def qlinear_concat(
    node: Call, y_scale: Tensor, y_zero_point: Tensor, *inputs: Tensor, axis: int
) -> Tensor:
    """Quantized concatenation.

    The operands are triples of a tensor, its scale and its zero point.
    """
    # Operands after the first two are variadic, so the schema does not check their number.
    if not inputs or len(inputs) % 3:
        raise node.refuse(
            f"expected a scale and a zero point for each tensor, got {len(inputs)} operands"
        )
    tensors = [dequantize_linear(*inputs[index : index + 3]) for index in range(0, len(inputs), 3)]
    # Operand 1 is the zero point of the result, which this operator requires.
    return _quantize(node, concat(tensors, axis=axis), y_scale, y_zero_point, 1)


@operator("QLinearGlobalAveragePool", domain=MICROSOFT)
def qlinear_global_average_pool(
    node: Call,
    x: Tensor,
    x_scale: Tensor,
    x_zero_point: Tensor,
    y_scale: Tensor,
    y_zero_point: Tensor,
    *,
    channels_last: int = 0,
) -> Tensor:
    """Quantized mean over the spatial axes of the dequantized operand."""
    # The batch is the first axis in both layouts.
    axes = tuple(range(1, x.ndim - 1)) if channels_last else tuple(range(2, x.ndim))
    return _quantize(
        node,
        dequantize_linear(x, x_scale, x_zero_point).mean(axes, keepdims=True),
        y_scale,
        y_zero_point,
        0,
    )
