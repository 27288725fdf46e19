"""Operators of "com.microsoft" on quantised elements: floats are computed with, and rounded to the integers of the result."""

from __future__ import annotations

from svod_onnx._registry import operator
from svod_onnx._trace import Call
from svod_onnx.operators.contributed import CONTRIBUTED
from svod_onnx.operators.quantization import dequantize, quantize
from svod_tensor import Tensor, concat

__all__ = ["apply_quantized", "average_quantized", "combine_quantized", "concatenate_quantized", "rectify_quantized"]


def _quantize(node: Call, x: Tensor, scale: Tensor, zero_point: Tensor | None, operand: int) -> Tensor:
    """Floats as integers of the type that an operand of the node has."""
    kind = node.trace.get_element_type(node.node.inputs[operand])
    return quantize(node, x, scale, zero_point, output_dtype=kind)


@operator("QLinearAdd", "QLinearMul", domain=CONTRIBUTED)
def combine_quantized(
    node: Call, a: Tensor, a_scale: Tensor, a_zero: Tensor | None, b: Tensor, b_scale: Tensor, b_zero: Tensor | None,
    y_scale: Tensor, y_zero: Tensor | None = None,
) -> Tensor:  # fmt: skip
    left, right = dequantize(a, a_scale, a_zero), dequantize(b, b_scale, b_zero)
    return _quantize(node, left + right if node.operator == "QLinearAdd" else left * right, y_scale, y_zero, 0)


@operator("QLinearSigmoid", domain=CONTRIBUTED)
def apply_quantized(
    node: Call, x: Tensor, x_scale: Tensor, x_zero: Tensor | None, y_scale: Tensor, y_zero: Tensor | None = None
) -> Tensor:
    return _quantize(node, dequantize(x, x_scale, x_zero).sigmoid(), y_scale, y_zero, 0)


@operator("QLinearLeakyRelu", domain=CONTRIBUTED)
def rectify_quantized(
    node: Call, x: Tensor, x_scale: Tensor, x_zero: Tensor | None, y_scale: Tensor, y_zero: Tensor | None = None, *,
    alpha: float = 0.01,
) -> Tensor:  # fmt: skip
    return _quantize(node, dequantize(x, x_scale, x_zero).leaky_relu(alpha), y_scale, y_zero, 0)


@operator("QLinearConcat", domain=CONTRIBUTED)
def concatenate_quantized(node: Call, y_scale: Tensor, y_zero: Tensor, *operands: Tensor, axis: int) -> Tensor:
    """Operands are a tensor, its scale and its zero point, and the next three."""
    if not operands or len(operands) % 3:
        raise node.refuse(f"has {len(operands)} operands, and takes three for each tensor")
    parts = [dequantize(*operands[number : number + 3]) for number in range(0, len(operands), 3)]
    return _quantize(node, concat(parts, axis=axis), y_scale, y_zero, 1)


@operator("QLinearGlobalAveragePool", domain=CONTRIBUTED)
def average_quantized(
    node: Call, x: Tensor, x_scale: Tensor, x_zero: Tensor, y_scale: Tensor, y_zero: Tensor, *, channels_last: int = 0
) -> Tensor:
    axes = tuple(range(1, x.ndim - 1)) if channels_last else tuple(range(2, x.ndim))
    return _quantize(node, dequantize(x, x_scale, x_zero).mean(axes, keepdims=True), y_scale, y_zero, 0)
