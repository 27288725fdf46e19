"""Operators of the domain "com.microsoft", which onnxruntime's optimizer and quantizer emit."""

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
from svod_onnx.operators.reductions import flatten_from
from svod_tensor import Tensor

__all__ = [
    "MICROSOFT",
    "bias_gelu",
    "bias_softmax",
    "dynamic_quantize_lstm",
    "dynamic_quantize_matmul",
    "fast_gelu",
    "fused_matmul",
    "gemm_fast_gelu",
    "matmul_integer_to_float",
    "microsoft_dequantize_linear",
    "microsoft_gelu",
    "microsoft_quantize_linear",
    "quick_gelu",
    "skip_layer_normalization",
    "skip_simplified_layer_normalization",
]

MICROSOFT: Final = "com.microsoft"


def _matmul_dynamic(
    node: Call, x: Tensor, weight: Tensor, scale: Tensor, zero_point: ZeroPoint
) -> Tensor:
    """`x @ weight` in float32, with `x` quantized dynamically by the range of its elements.

    Args:
        node: node whose weights are prepared once.
        x: floats of shape (..., depth).
        weight: 8-bit integers of shape (..., depth, columns).
        scale: scale of the weight, a scalar or one per column.
        zero_point: zero point of the weight, likewise.
    """
    integers, x_scale, x_zero = dynamic_quantize_linear(x.cast("float32"))
    # Stored, since the product would otherwise quantize each element again for every few columns.
    sums = matmul_int8(node, integers.contiguous(), weight, x_zero.cast("int32"), zero_point)
    # The scales are multiplied first, so that each element takes one multiplication.
    return sums.cast("float32") * (x_scale * _squeeze_scalar(scale).cast("float32"))


def _squeeze_scalar(parameter: Tensor) -> Tensor:
    """Reshape a scale or zero point with one element to a scalar."""
    # Shape (1,) would add an axis to results of scalars.
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
    """LSTM with 8-bit weights of shape (directions, inputs, 4 * width).

    Inputs and states are quantized dynamically.
    """
    if w_scale is None or r_scale is None:
        raise node.refuse("missing operands: the scales of W and R are required")

    def pick(label: str, source: Tensor, direction: int) -> Tensor:
        # Stored contiguously once, as the product of each step reads the weights again.
        def compute(source: Tensor) -> Tensor:
            return source[direction].contiguous()

        return node.precompute(f"{label}{direction}", compute, source)

    def multiply_inputs(values: Tensor, direction: int) -> Tensor:
        weight, zero = (
            pick("inputs", w, direction),
            to_zero_point(node, _pick(w_zero_point, direction)),
        )
        return _matmul_dynamic(node, values, weight, w_scale[direction], zero)

    def multiply_state(h: Tensor, direction: int) -> Tensor:
        weight, zero = (
            pick("states", r, direction),
            to_zero_point(node, _pick(r_zero_point, direction)),
        )
        return _matmul_dynamic(node, h, weight, r_scale[direction], zero)

    layer = make_layer(
        node,
        # LSTM has its weights as (outputs, inputs). Only their shapes are read here, since the two
        # functions below multiply.
        (x, w.transpose(1, 2), r.transpose(1, 2), b, sequence_lens),
        [initial_h, initial_c],
        ["Sigmoid", "Tanh", "Tanh"],
        attributes,
        (multiply_inputs, multiply_state),
    )
    return finish_layer(layer, *run_lstm_steps(layer, p, is_coupled=bool(attributes.input_forget)))


def _pick(parameter: Value, direction: int) -> Value:
    return parameter[direction] if isinstance(parameter, Tensor | np.ndarray) else None


@operator("DynamicQuantizeMatMul", domain=MICROSOFT, precomputes=True)
def dynamic_quantize_matmul(
    node: Call,
    a: Tensor,
    b: Tensor,
    b_scale: Tensor,
    b_zero_point: Value = None,
    bias: Tensor | None = None,
) -> Tensor:
    """Product in float32 of a dynamically quantized matrix with an integer matrix, plus `bias`."""
    product = _matmul_dynamic(node, a, b, b_scale, to_zero_point(node, b_zero_point))
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
    """Product of 8-bit integer matrices, scaled to the dtype of the scales, plus `bias`."""
    sums = matmul_int8(
        node, a, b, to_zero_point(node, a_zero_point), to_zero_point(node, b_zero_point)
    )
    factor = a_scale.cast("float32").reshape(()) * _squeeze_scalar(b_scale.cast("float32"))
    product = sums.cast("float32") * factor
    return (product if bias is None else product + bias).cast(a_scale.dtype)


@operator("QuantizeLinear", domain=MICROSOFT)
def microsoft_quantize_linear(
    node: Call,
    x: Tensor,
    y_scale: Tensor,
    y_zero_point: Tensor | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
) -> Tensor:
    """QuantizeLinear, as `quantize_linear`."""
    attributes = QuantizeLinearAttributes(axis=axis, block_size=block_size)
    return quantize_linear(node, x, y_scale, y_zero_point, attributes=attributes)


@operator("DequantizeLinear", domain=MICROSOFT)
def microsoft_dequantize_linear(
    x: Tensor,
    x_scale: Tensor,
    x_zero_point: Tensor | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
) -> Tensor:
    """DequantizeLinear, as `dequantize_linear`."""
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
    """`alpha * A @ B`.

    `transBatchA` and `transBatchB` move the leading axis to the second last position.
    """
    left, right = _transpose(a, transA, transBatchA), _transpose(b, transB, transBatchB)
    return (left.matmul(right) * alpha).cast(a.dtype)


def _transpose(x: Tensor, swaps: int, moves_batch: int) -> Tensor:
    """Move the batch axis for `transBatch`, then swap the trailing axes for `trans`."""
    if moves_batch:
        x = x.moveaxis(0, -2)
    return x.transpose(-1, -2) if swaps and x.ndim > 1 else x


@operator("Gelu", domain=MICROSOFT)
def microsoft_gelu(x: Tensor) -> Tensor:
    """Exact GELU."""
    return gelu(x)


@operator("BiasGelu", domain=MICROSOFT)
def bias_gelu(a: Tensor, b: Tensor) -> Tensor:
    """`gelu(a + b)`."""
    return gelu(a + b)


@operator("FastGelu", domain=MICROSOFT)
def fast_gelu(x: Tensor, bias: Tensor | None = None) -> Tensor:
    """GELU of `x + bias` by the tanh approximation."""
    return gelu(x if bias is None else x + bias, approximate="tanh")


@operator("GemmFastGelu", domain=MICROSOFT)
def gemm_fast_gelu(x: Tensor, w: Tensor, bias: Tensor | None = None) -> Tensor:
    """GELU of `x @ w + bias` by the tanh approximation."""
    return fast_gelu(x @ w, bias)


@operator("BiasSoftmax", domain=MICROSOFT)
def bias_softmax(data: Tensor, bias: Tensor, *, axis: int = 1, is_inner_broadcast: int) -> Tensor:
    """Softmax of `data + bias` over all axes from `axis` on."""
    # The attribute says which axes of the bias have size 1, as its shape does.
    del is_inner_broadcast
    total = data + bias
    return flatten_from(total, axis).softmax(-1).reshape(data.shape)


@operator("QuickGelu", domain=MICROSOFT)
def quick_gelu(x: Tensor, *, alpha: float = 1.702) -> Tensor:
    """`x * sigmoid(alpha * x)`."""
    # Half precision would round the sigmoid before the product.
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
    """LayerNormalization of `input + skip + bias`.

    Return it, the mean, the reciprocal deviation, and the sum.
    """
    sum_, wide = _add_skip(input, skip, bias)
    value = sum_.layernorm(-1, epsilon, gamma, beta).cast(input.dtype)
    if not (node.has_output(1) or node.has_output(2)):
        # Placeholders at the outputs that the node does not declare.
        return value, sum_, sum_, sum_
    # Computed only on request: the fused kernel does not store its statistics.
    deviation = wide.var(-1, keepdims=True).add(epsilon).rsqrt()
    return value, wide.mean(-1, keepdims=True), deviation, sum_


@operator("SkipSimplifiedLayerNormalization", domain=MICROSOFT)
def skip_simplified_layer_normalization(
    input: Tensor,
    skip: Tensor,
    gamma: Tensor,
    bias: Tensor | None = None,
    *,
    epsilon: float = 1e-12,
) -> tuple[Tensor, ...]:
    """RMSNormalization of `input + skip + bias`.

    Return it, the mean, the reciprocal root mean square, and the sum.
    """
    sum_, wide = _add_skip(input, skip, bias)
    value = sum_.rms_norm(-1, epsilon, gamma).cast(input.dtype)
    mean_square = wide.square().mean(-1, keepdims=True)
    return value, wide.mean(-1, keepdims=True), mean_square.add(epsilon).rsqrt(), sum_


def _add_skip(x: Tensor, skip: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor]:
    """The sum in the dtype of the operands, and in at least float32."""
    sum_ = x + skip if bias is None else x + skip + bias
    # Means and squares of half-precision elements would overflow or lose digits.
    return sum_, (sum_ if sum_.dtype.itemsize > 2 else sum_.cast("float32"))
