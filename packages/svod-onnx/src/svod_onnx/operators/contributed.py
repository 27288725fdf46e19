"""Operators of the domain "com.microsoft", which onnxruntime's optimiser and quantisation put into models."""

from __future__ import annotations

from typing import Final

import numpy as np

from svod_onnx._registry import Value, operator
from svod_onnx._trace import Call
from svod_onnx.operators.activations import apply_gelu
from svod_onnx.operators.integer_products import Zero, multiply_whole, to_zero
from svod_onnx.operators.quantization import dequantize, quantize, quantize_by_range
from svod_onnx.operators.recurrence import finish_layer, make_layer, run_memory_steps
from svod_tensor import Tensor

__all__ = [
    "CONTRIBUTED",
    "add_biased_gelu",
    "apply_fast_gelu",
    "apply_plain_gelu",
    "apply_quick_gelu",
    "dequantize_contributed",
    "multiply_dynamically",
    "multiply_to_floats",
    "multiply_transposed",
    "normalize_skipped",
    "normalize_skipped_root_mean_square",
    "quantize_contributed",
    "run_quantized_memory",
]

CONTRIBUTED: Final = "com.microsoft"


def _multiply_by_range(node: Call, x: Tensor, weight: Tensor, scale: Tensor, zero_point: Zero) -> Tensor:
    """`x @ weight` in float32, where `x` is quantised by the range of its elements.

    Args:
        node: whose weights are arranged once.
        x: floats, of shape (..., depth).
        weight: 8-bit integers, of shape (..., depth, columns).
        scale: of the weight: one, or one for each column.
        zero_point: likewise.
    """
    steps, step, zero = quantize_by_range(x.cast("float32"))
    # Each step is read once for every few columns.
    total = multiply_whole(node, steps.contiguous(), weight, zero.cast("int32"), zero_point)
    return total.cast("float32") * (step * _drop_one(scale).cast("float32"))


def _drop_one(parameter: Tensor) -> Tensor:
    """A scale or zero point, without axes where there is one."""
    return parameter.reshape(()) if parameter.size == 1 else parameter


@operator("DynamicQuantizeLSTM", domain=CONTRIBUTED, arranges=True)
def run_quantized_memory(
    node: Call, x: Tensor, weights: Tensor, recurrence: Tensor, biases: Tensor | None = None,
    lengths: Tensor | None = None, initial_h: Tensor | None = None, initial_c: Tensor | None = None,
    peepholes: Tensor | None = None, weights_scale: Tensor | None = None, weights_zero: Value = None,
    recurrence_scale: Tensor | None = None, recurrence_zero: Value = None, *,
    activations: list[str] | None = None, activation_alpha: list[float] | None = None,
    activation_beta: list[float] | None = None, clip: float | None = None, direction: str = "forward",
    hidden_size: int = 0, input_forget: int = 0,
) -> tuple[Tensor, ...]:  # fmt: skip
    """An LSTM with weights of 8 bits, of shape (directions, inputs, 4 * width); inputs and each state are quantised by their ranges."""
    del hidden_size
    if weights_scale is None or recurrence_scale is None:
        raise node.refuse("has no scales of its weights")

    def pick(label: str, source: Tensor, number: int) -> Tensor:
        def compute(source: Tensor) -> Tensor:
            return source[number].contiguous()

        return node.arrange(f"{label}{number}", compute, source)

    def multiply_inputs(values: Tensor, number: int) -> Tensor:
        weight, zero = pick("inputs", weights, number), to_zero(node, _pick(weights_zero, number))
        return _multiply_by_range(node, values, weight, weights_scale[number], zero)

    def multiply_state(h: Tensor, number: int) -> Tensor:
        weight, zero = pick("states", recurrence, number), to_zero(node, _pick(recurrence_zero, number))
        return _multiply_by_range(node, h, weight, recurrence_scale[number], zero)

    layer = make_layer(
        node, x, weights.transpose(1, 2), recurrence.transpose(1, 2), biases, lengths, [initial_h, initial_c],
        activations or ["Sigmoid", "Tanh", "Tanh"] * (2 if direction == "bidirectional" else 1), activation_alpha, activation_beta, clip,
        direction, 0, (multiply_inputs, multiply_state),
    )  # fmt: skip
    return finish_layer(layer, *run_memory_steps(layer, peepholes, couples=bool(input_forget)), 0)


def _pick(parameter: Value, number: int) -> Value:
    return parameter[number] if isinstance(parameter, Tensor | np.ndarray) else None


@operator("DynamicQuantizeMatMul", domain=CONTRIBUTED, arranges=True)
def multiply_dynamically(
    node: Call, a: Tensor, b: Tensor, b_scale: Tensor, b_zero_point: Value = None, bias: Tensor | None = None
) -> Tensor:
    """A product of floats, which are quantised by their range, with integers; in float32."""
    product = _multiply_by_range(node, a, b, b_scale, to_zero(node, b_zero_point))
    return product if bias is None else product + bias


@operator("MatMulIntegerToFloat", domain=CONTRIBUTED, arranges=True)
def multiply_to_floats(
    node: Call, a: Tensor, b: Tensor, a_scale: Tensor, b_scale: Tensor, a_zero_point: Value = None,
    b_zero_point: Value = None, bias: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """A product of 8-bit integers, in the dtype of the scales."""
    total = multiply_whole(node, a, b, to_zero(node, a_zero_point), to_zero(node, b_zero_point))
    factor = a_scale.cast("float32").reshape(()) * _drop_one(b_scale.cast("float32"))
    product = total.cast("float32") * factor
    return (product if bias is None else product + bias).cast(a_scale.dtype)


@operator("QuantizeLinear", domain=CONTRIBUTED)
def quantize_contributed(
    node: Call, x: Tensor, scale: Tensor, zero_point: Tensor | None = None, *, axis: int = 1, block_size: int = 0
) -> Tensor:
    return quantize(node, x, scale, zero_point, axis=axis, block_size=block_size)


@operator("DequantizeLinear", domain=CONTRIBUTED)
def dequantize_contributed(
    x: Tensor, scale: Tensor, zero_point: Tensor | None = None, *, axis: int = 1, block_size: int = 0
) -> Tensor:
    return dequantize(x, scale, zero_point, axis=axis, block_size=block_size)


@operator("FusedMatMul", "TransposeMatMul", domain=CONTRIBUTED)
def multiply_transposed(
    a: Tensor, b: Tensor, *, alpha: float = 1.0, transA: int = 0, transB: int = 0, transBatchA: int = 0,
    transBatchB: int = 0,
) -> Tensor:  # fmt: skip
    """`alpha * A @ B`; `transBatch` says that the first axis is to be the last but one."""
    left, right = _arrange(a, transA, transBatchA), _arrange(b, transB, transBatchB)
    return (left.matmul(right) * alpha).cast(a.dtype)


def _arrange(x: Tensor, transposes: int, is_batch_behind: int) -> Tensor:
    if is_batch_behind:
        x = x.moveaxis(0, -2)
    return x.transpose(-1, -2) if transposes and x.ndim > 1 else x


@operator("Gelu", domain=CONTRIBUTED)
def apply_plain_gelu(x: Tensor) -> Tensor:
    return apply_gelu(x)


@operator("BiasGelu", domain=CONTRIBUTED)
def add_biased_gelu(x: Tensor, bias: Tensor) -> Tensor:
    return apply_gelu(x + bias)


@operator("FastGelu", domain=CONTRIBUTED)
def apply_fast_gelu(x: Tensor, bias: Tensor | None = None) -> Tensor:
    return apply_gelu(x if bias is None else x + bias, approximate="tanh")


@operator("QuickGelu", domain=CONTRIBUTED)
def apply_quick_gelu(x: Tensor, *, alpha: float = 1.702) -> Tensor:
    """`x * sigmoid(alpha * x)`."""
    wide = x.cast("float32") if x.dtype.itemsize < 4 else x
    return (wide * (wide * alpha).sigmoid()).cast(x.dtype)


@operator("SkipLayerNormalization", domain=CONTRIBUTED)
def normalize_skipped(
    node: Call, x: Tensor, skip: Tensor, gamma: Tensor, beta: Tensor | None = None, bias: Tensor | None = None, *,
    epsilon: float = 1e-12,
) -> tuple[Tensor, ...]:  # fmt: skip
    """The normalised sum of `x`, `skip` and a bias; and the mean, the reciprocal of the deviation, and the sum."""
    total, wide = _add_skip(x, skip, bias)
    value = total.layernorm(-1, epsilon, gamma, beta).cast(x.dtype)
    if not (node.wants(1) or node.wants(2)):
        return value, total, total, total
    deviation = wide.var(-1, keepdims=True).add(epsilon).rsqrt()
    return value, wide.mean(-1, keepdims=True), deviation, total


@operator("SkipSimplifiedLayerNormalization", domain=CONTRIBUTED)
def normalize_skipped_root_mean_square(
    x: Tensor, skip: Tensor, gamma: Tensor, bias: Tensor | None = None, *, epsilon: float = 1e-12
) -> tuple[Tensor, ...]:
    """As `SkipLayerNormalization`, by the root of the mean square."""
    total, wide = _add_skip(x, skip, bias)
    value = total.rms_norm(-1, epsilon, gamma).cast(x.dtype)
    size = wide.square().mean(-1, keepdims=True)
    return value, wide.mean(-1, keepdims=True), size.add(epsilon).rsqrt(), total


def _add_skip(x: Tensor, skip: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor]:
    """The sum, and the same in float32 at least."""
    total = x + skip if bias is None else x + skip + bias
    return total, (total if total.dtype.itemsize > 2 else total.cast("float32"))
