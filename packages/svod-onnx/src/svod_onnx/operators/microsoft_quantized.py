"""Quantized operators of "com.microsoft". Most of them compute with dequantized floats, and quantize
the result.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from svod_onnx._registry import Value, operator
from svod_onnx._trace import Call
from svod_onnx._windows import ConvAttributes, with_channels_first
from svod_onnx.operators.int8_matmul import matmul_int8, to_zero_point
from svod_onnx.operators.microsoft import MICROSOFT
from svod_onnx.operators.microsoft_attention import (
    MicrosoftAttentionAttributes,
    attend_projected,
    embed_layer_normalization,
)
from svod_onnx.operators.pooling import AveragePoolAttributes, average_pool
from svod_onnx.operators.quantization import (
    QuantizeLinearAttributes,
    dequantize_linear,
    qlinear_conv,
    quantize_linear,
    saturate_cast,
)
from svod_onnx.operators.reductions import flatten_from
from svod_tensor import Tensor, concat, where

__all__ = [
    "MicrosoftQLinearConvAttributes",
    "QAttentionAttributes",
    "QLinearAveragePoolAttributes",
    "microsoft_qlinear_conv",
    "q_attention",
    "q_embed_layer_normalization",
    "q_gemm",
    "qlinear_average_pool",
    "qlinear_binary",
    "qlinear_concat",
    "qlinear_global_average_pool",
    "qlinear_leaky_relu",
    "qlinear_reduce_mean",
    "qlinear_sigmoid",
    "qlinear_softmax",
    "qlinear_where",
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


@operator("QLinearWhere", domain=MICROSOFT)
def qlinear_where(
    node: Call,
    condition: Tensor,
    x: Tensor,
    x_scale: Tensor,
    x_zero_point: Tensor,
    y: Tensor,
    y_scale: Tensor,
    y_zero_point: Tensor,
    z_scale: Tensor,
    z_zero_point: Tensor,
) -> Tensor:
    """Quantized elements of the dequantized `x` where `condition` is true, otherwise of `y`."""
    left = dequantize_linear(x, x_scale, x_zero_point)
    right = dequantize_linear(y, y_scale, y_zero_point)
    return _quantize(node, where(condition, left, right), z_scale, z_zero_point, 1)


@operator("QLinearReduceMean", domain=MICROSOFT)
def qlinear_reduce_mean(
    node: Call,
    data: Tensor,
    data_scale: Tensor,
    data_zero_point: Tensor | None,
    reduced_scale: Tensor,
    reduced_zero_point: Tensor | None = None,
    *,
    axes: list[int],
    keepdims: int,
) -> Tensor:
    """Quantized mean over `axes` of the dequantized operand."""
    values = dequantize_linear(data, data_scale, data_zero_point)
    mean = values.mean(tuple(axes), keepdims=bool(keepdims))
    return _quantize(node, mean, reduced_scale, reduced_zero_point, 0)


@operator("QLinearSoftmax", domain=MICROSOFT)
def qlinear_softmax(
    node: Call,
    x: Tensor,
    x_scale: Tensor,
    x_zero_point: Tensor | None,
    y_scale: Tensor,
    y_zero_point: Tensor,
    *,
    axis: int = -1,
    opset: int,
) -> Tensor:
    """Quantized softmax of the dequantized operand, as Softmax of version `opset`."""
    values = dequantize_linear(x, x_scale, x_zero_point)
    if opset < 13:
        # Up to version 12, all axes from `axis` on share one sum.
        result = flatten_from(values, axis).softmax(-1).reshape(x.shape)
    else:
        result = values.softmax(axis)
    return _quantize(node, result, y_scale, y_zero_point, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class QLinearAveragePoolAttributes(AveragePoolAttributes):
    """Attributes of QLinearAveragePool."""

    channels_last: int = 0


@operator("QLinearAveragePool", domain=MICROSOFT)
def qlinear_average_pool(
    node: Call,
    x: Tensor,
    x_scale: Tensor,
    x_zero_point: Tensor | None,
    y_scale: Tensor,
    y_zero_point: Tensor | None = None,
    *,
    attributes: QLinearAveragePoolAttributes,
) -> Tensor:
    """Quantized mean of each window of the dequantized operand."""
    values = dequantize_linear(x, x_scale, x_zero_point)

    def pool(image: Tensor) -> Tensor:
        return average_pool(node, image, attributes=attributes)

    result = with_channels_first(pool, values) if attributes.channels_last else pool(values)
    return _quantize(node, result, y_scale, y_zero_point, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class MicrosoftQLinearConvAttributes(ConvAttributes):
    """Attributes of QLinearConv."""

    channels_last: int = 0


@operator("QLinearConv", domain=MICROSOFT, precomputes=True)
def microsoft_qlinear_conv(
    node: Call,
    x: Tensor,
    x_scale: Tensor,
    x_zero_point: Value,
    w: Tensor,
    w_scale: Tensor,
    w_zero_point: Value,
    y_scale: Tensor,
    y_zero_point: Tensor,
    b: Tensor | None = None,
    *,
    attributes: MicrosoftQLinearConvAttributes,
) -> Tensor:
    """QLinearConv, also of images with trailing channels. The filters are as for QLinearConv."""

    def convolve(image: Tensor) -> Tensor:
        return qlinear_conv(
            node,
            image,
            x_scale,
            x_zero_point,
            w,
            w_scale,
            w_zero_point,
            y_scale,
            y_zero_point,
            b,
            attributes=attributes,
        )

    return with_channels_first(convolve, x) if attributes.channels_last else convolve(x)


@operator("QGemm", domain=MICROSOFT, precomputes=True)
def q_gemm(
    node: Call,
    a: Tensor,
    a_scale: Tensor,
    a_zero_point: Value,
    b: Tensor,
    b_scale: Tensor,
    b_zero_point: Value,
    c: Tensor | None = None,
    y_scale: Tensor | None = None,
    y_zero_point: Tensor | None = None,
    *,
    alpha: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Tensor:
    """`alpha * (A @ B + C)` of 8-bit matrices, quantized if `y_scale` is given, otherwise in
    float32.

    C has the scale `alpha * a_scale * b_scale`."""
    left = a.transpose(0, 1) if transA else a
    right = b.transpose(0, 1) if transB else b
    sums = matmul_int8(
        node, left, right, to_zero_point(node, a_zero_point), to_zero_point(node, b_zero_point)
    )
    if c is not None:
        sums = sums + c
    factor = a_scale.cast("float32").reshape(()) * b_scale.cast("float32") * alpha
    if y_scale is None:
        return sums.cast("float32") * factor
    rounded = (sums.cast("float32") * (factor / y_scale.cast("float32"))).round()
    if y_zero_point is None:
        return saturate_cast(rounded, node.trace.get_element_type(node.node.inputs[0]))
    element_type = node.trace.get_element_type(node.node.inputs[8])
    return saturate_cast(rounded + y_zero_point.cast("float32"), element_type)


@dataclass(frozen=True, slots=True, kw_only=True)
class QAttentionAttributes:
    """Attributes of QAttention."""

    num_heads: int
    do_rotary: int = 0
    mask_filter_value: float = -10000.0
    past_present_share_buffer: int = 0
    scale: float | None = None
    unidirectional: int = 0


@operator("QAttention", domain=MICROSOFT, precomputes=True)
def q_attention(
    node: Call,
    input: Tensor,
    weight: Tensor,
    bias: Tensor,
    input_scale: Tensor,
    weight_scale: Tensor,
    mask_index: Tensor | None = None,
    input_zero_point: Value = None,
    weight_zero_point: Value = None,
    past: Tensor | None = None,
    *,
    attributes: QAttentionAttributes,
) -> tuple[Tensor, Tensor]:
    """Attention whose projection is a product of 8-bit integers."""
    sums = matmul_int8(
        node,
        input,
        weight,
        to_zero_point(node, input_zero_point),
        to_zero_point(node, weight_zero_point),
    )
    factor = input_scale.cast("float32").reshape(()) * _squeeze(weight_scale).cast("float32")
    projected = (sums.cast("float32") * factor + bias.cast("float32")).cast(bias.dtype)
    return attend_projected(
        node,
        projected,
        mask_index,
        past,
        attributes=MicrosoftAttentionAttributes(**asdict(attributes)),
    )


def _squeeze(parameter: Tensor) -> Tensor:
    return parameter.reshape(()) if parameter.size == 1 else parameter


@operator("QEmbedLayerNormalization", domain=MICROSOFT)
def q_embed_layer_normalization(
    input_ids: Tensor,
    segment_ids: Tensor | None,
    word_embedding_quant: Tensor,
    position_embedding_quant: Tensor,
    segment_embedding: Tensor | None,
    gamma_quant: Tensor,
    beta_quant: Tensor,
    mask: Tensor | None,
    word_embedding_scale: Tensor,
    position_embedding_scale: Tensor,
    segment_embedding_scale: Tensor | None,
    gamma_scale: Tensor,
    beta_scale: Tensor,
    word_embedding_zero_point: Tensor,
    position_embedding_zero_point: Tensor,
    segment_embedding_zero_point: Tensor | None,
    gamma_zero_point: Tensor,
    beta_zero_point: Tensor,
    *,
    epsilon: float = 1e-12,
) -> tuple[Tensor, Tensor]:
    """EmbedLayerNormalization with quantized embeddings and parameters."""
    segments = None
    if segment_embedding is not None and segment_embedding_scale is not None:
        segments = dequantize_linear(
            segment_embedding, segment_embedding_scale, segment_embedding_zero_point
        )
    value, n_unmasked, _ = embed_layer_normalization(
        input_ids,
        segment_ids,
        dequantize_linear(word_embedding_quant, word_embedding_scale, word_embedding_zero_point),
        dequantize_linear(
            position_embedding_quant, position_embedding_scale, position_embedding_zero_point
        ),
        segments,
        dequantize_linear(gamma_quant, gamma_scale, gamma_zero_point),
        dequantize_linear(beta_quant, beta_scale, beta_zero_point),
        mask,
        epsilon=epsilon,
    )
    return value, n_unmasked
