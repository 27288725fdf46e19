"""Operators of the domain "com.microsoft", which onnxruntime's optimiser and quantisation put into models."""

from __future__ import annotations

from typing import Final

import numpy as np

from svod_onnx._registry import Value, operator
from svod_onnx._trace import Call
from svod_onnx.operators.activations import gelu
from svod_onnx.operators.int8_matmul import ZeroPoint, matmul_int8, to_zero_point
from svod_onnx.operators.quantization import (
    QuantizeLinearAttributes,
    dequantize_linear,
    dynamic_quantize_linear,
    quantize_linear,
)
from svod_onnx.operators.recurrence import LstmAttributes, finish_layer, make_layer, run_lstm_steps
from svod_tensor import Tensor

__all__ = [
    "MICROSOFT",
    "bias_gelu",
    "dynamic_quantize_lstm",
    "dynamic_quantize_matmul",
    "fast_gelu",
    "fused_matmul",
    "matmul_integer_to_float",
    "microsoft_dequantize_linear",
    "microsoft_gelu",
    "microsoft_quantize_linear",
    "quick_gelu",
    "skip_layer_normalization",
    "skip_simplified_layer_normalization",
]

MICROSOFT: Final = "com.microsoft"


def _multiply_by_range(node: Call, x: Tensor, weight: Tensor, scale: Tensor, zero_point: ZeroPoint) -> Tensor:
    """`x @ weight` in float32, where `x` is quantised by the range of its elements.

    Args:
        node: whose weights are arranged once.
        x: floats, of shape (..., depth).
        weight: 8-bit integers, of shape (..., depth, columns).
        scale: of the weight: one, or one for each column.
        zero_point: likewise.
    """
    steps, step, zero = dynamic_quantize_linear(x.cast("float32"))
    # Each step is read once for every few columns.
    total = matmul_int8(node, steps.contiguous(), weight, zero.cast("int32"), zero_point)
    return total.cast("float32") * (step * _drop_one(scale).cast("float32"))


def _drop_one(parameter: Tensor) -> Tensor:
    """A scale or zero point, without axes where there is one."""
    return parameter.reshape(()) if parameter.size == 1 else parameter


@operator("DynamicQuantizeLSTM", domain=MICROSOFT, precomputes=True)
def dynamic_quantize_lstm(
    node: Call,
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    sequence_lens: Tensor | None = None,
    initial_h: Tensor | None = None,
    initial_c: Tensor | None = None,
    p: Tensor | None = None,
    w_scale: Tensor | None = None,
    w_zero_point: Value = None,
    r_scale: Tensor | None = None,
    r_zero_point: Value = None,
    *,
    attributes: LstmAttributes,
) -> tuple[Tensor, ...]:
    """An LSTM with weights of 8 bits, of shape (directions, inputs, 4 * width); inputs and each state are quantised by their ranges."""
    if w_scale is None or r_scale is None:
        raise node.refuse("has no scales of its weights")

    def pick(label: str, source: Tensor, number: int) -> Tensor:
        def compute(source: Tensor) -> Tensor:
            return source[number].contiguous()

        return node.precompute(f"{label}{number}", compute, source)

    def multiply_inputs(values: Tensor, number: int) -> Tensor:
        weight, zero = pick("inputs", w, number), to_zero_point(node, _pick(w_zero_point, number))
        return _multiply_by_range(node, values, weight, w_scale[number], zero)

    def multiply_state(h: Tensor, number: int) -> Tensor:
        weight, zero = pick("states", r, number), to_zero_point(node, _pick(r_zero_point, number))
        return _multiply_by_range(node, h, weight, r_scale[number], zero)

    layer = make_layer(
        node,
        (x, w.transpose(1, 2), r.transpose(1, 2), b, sequence_lens),
        [initial_h, initial_c],
        ["Sigmoid", "Tanh", "Tanh"],
        attributes,
        (multiply_inputs, multiply_state),
    )
    return finish_layer(layer, *run_lstm_steps(layer, p, couples=bool(attributes.input_forget)))


def _pick(parameter: Value, number: int) -> Value:
    return parameter[number] if isinstance(parameter, Tensor | np.ndarray) else None


@operator("DynamicQuantizeMatMul", domain=MICROSOFT, precomputes=True)
def dynamic_quantize_matmul(
    node: Call, a: Tensor, b: Tensor, b_scale: Tensor, b_zero_point: Value = None, bias: Tensor | None = None
) -> Tensor:
    """A product of floats, which are quantised by their range, with integers; in float32."""
    product = _multiply_by_range(node, a, b, b_scale, to_zero_point(node, b_zero_point))
    return product if bias is None else product + bias


@operator("MatMulIntegerToFloat", domain=MICROSOFT, precomputes=True)
def matmul_integer_to_float(
    node: Call,
    a: Tensor,
    b: Tensor,
    a_scale: Tensor,
    b_scale: Tensor,
    a_zero_point: Value = None,
    b_zero_point: Value = None,
    bias: Tensor | None = None,
) -> Tensor:
    """A product of 8-bit integers, in the dtype of the scales."""
    total = matmul_int8(node, a, b, to_zero_point(node, a_zero_point), to_zero_point(node, b_zero_point))
    factor = a_scale.cast("float32").reshape(()) * _drop_one(b_scale.cast("float32"))
    product = total.cast("float32") * factor
    return (product if bias is None else product + bias).cast(a_scale.dtype)


@operator("QuantizeLinear", domain=MICROSOFT)
def microsoft_quantize_linear(
    node: Call, x: Tensor, y_scale: Tensor, y_zero_point: Tensor | None = None, *, axis: int = 1, block_size: int = 0
) -> Tensor:
    attributes = QuantizeLinearAttributes(axis=axis, block_size=block_size)
    return quantize_linear(node, x, y_scale, y_zero_point, attributes=attributes)


@operator("DequantizeLinear", domain=MICROSOFT)
def microsoft_dequantize_linear(
    x: Tensor, x_scale: Tensor, x_zero_point: Tensor | None = None, *, axis: int = 1, block_size: int = 0
) -> Tensor:
    return dequantize_linear(x, x_scale, x_zero_point, axis=axis, block_size=block_size)


@operator("FusedMatMul", "TransposeMatMul", domain=MICROSOFT)
def fused_matmul(
    a: Tensor,
    b: Tensor,
    *,
    alpha: float = 1.0,
    transA: int = 0,
    transB: int = 0,
    transBatchA: int = 0,
    transBatchB: int = 0,
) -> Tensor:
    """`alpha * A @ B`; `transBatch` says that the first axis is to be the last but one."""
    left, right = _transpose(a, transA, transBatchA), _transpose(b, transB, transBatchB)
    return (left.matmul(right) * alpha).cast(a.dtype)


def _transpose(x: Tensor, transposes: int, is_batch_behind: int) -> Tensor:
    if is_batch_behind:
        x = x.moveaxis(0, -2)
    return x.transpose(-1, -2) if transposes and x.ndim > 1 else x


@operator("Gelu", domain=MICROSOFT)
def microsoft_gelu(x: Tensor) -> Tensor:
    return gelu(x)


@operator("BiasGelu", domain=MICROSOFT)
def bias_gelu(a: Tensor, b: Tensor) -> Tensor:
    return gelu(a + b)


@operator("FastGelu", domain=MICROSOFT)
def fast_gelu(x: Tensor, bias: Tensor | None = None) -> Tensor:
    return gelu(x if bias is None else x + bias, approximate="tanh")


@operator("QuickGelu", domain=MICROSOFT)
def quick_gelu(x: Tensor, *, alpha: float = 1.702) -> Tensor:
    """`x * sigmoid(alpha * x)`."""
    wide = x.cast("float32") if x.dtype.itemsize < 4 else x
    return (wide * (wide * alpha).sigmoid()).cast(x.dtype)


@operator("SkipLayerNormalization", domain=MICROSOFT)
def skip_layer_normalization(
    node: Call,
    input: Tensor,
    skip: Tensor,
    gamma: Tensor,
    beta: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    epsilon: float = 1e-12,
) -> tuple[Tensor, ...]:
    """The normalised sum of `input`, `skip` and a bias; and the mean, the reciprocal of the deviation, and the sum."""
    total, wide = _add_skip(input, skip, bias)
    value = total.layernorm(-1, epsilon, gamma, beta).cast(input.dtype)
    if not (node.has_output(1) or node.has_output(2)):
        return value, total, total, total
    deviation = wide.var(-1, keepdims=True).add(epsilon).rsqrt()
    return value, wide.mean(-1, keepdims=True), deviation, total


@operator("SkipSimplifiedLayerNormalization", domain=MICROSOFT)
def skip_simplified_layer_normalization(
    input: Tensor, skip: Tensor, gamma: Tensor, bias: Tensor | None = None, *, epsilon: float = 1e-12
) -> tuple[Tensor, ...]:
    """As `SkipLayerNormalization`, by the root of the mean square."""
    total, wide = _add_skip(input, skip, bias)
    value = total.rms_norm(-1, epsilon, gamma).cast(input.dtype)
    size = wide.square().mean(-1, keepdims=True)
    return value, wide.mean(-1, keepdims=True), size.add(epsilon).rsqrt(), total


def _add_skip(x: Tensor, skip: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor]:
    """The sum, and the same in float32 at least."""
    total = x + skip if bias is None else x + skip + bias
    return total, (total if total.dtype.itemsize > 2 else total.cast("float32"))
