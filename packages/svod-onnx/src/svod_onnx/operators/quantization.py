"""Quantized tensors: integers that represent `(x - zero_point) * scale`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import onnx

from svod_onnx._narrow_types import NARROW_INTEGERS
from svod_onnx._registry import Value, operator
from svod_onnx._trace import Call
from svod_onnx._types import find_carrier
from svod_onnx._windows import ConvAttributes, make_windows
from svod_onnx.operators.casting import convert
from svod_onnx.operators.convolutions import conv, get_kernel
from svod_onnx.operators.int8_convolution import can_conv_int8, conv_int8
from svod_onnx.operators.int8_matmul import is_int8, matmul_int8, to_zero_point
from svod_tensor import Tensor

__all__ = [
    "QuantizeLinearAttributes",
    "conv_integer",
    "dequantize_linear",
    "dynamic_quantize_linear",
    "qlinear_conv",
    "qlinear_matmul",
    "quantize_linear",
    "saturate_cast",
]

_T: Final = onnx.TensorProto


def _broadcast_parameter(parameter: Tensor, x: Tensor, axis: int, block_size: int) -> Tensor:
    """Broadcast a scale or zero point to `x`: per tensor, per slice along an axis, or per block."""
    if block_size:
        # The last block may be partial.
        return parameter.repeat(block_size, axis).shrink(*((0, size) for size in x.shape))
    if parameter.size == 1:
        return parameter.reshape(*(1,) * x.ndim) if x.ndim else parameter.reshape(())
    return parameter.reshape(*(-1 if index == axis % x.ndim else 1 for index in range(x.ndim)))


def saturate_cast(x: Tensor, element_type: int) -> Tensor:
    """Cast rounded values to an integer type, clamped to its range."""
    n_bits, is_signed = NARROW_INTEGERS.get(element_type, (0, False))
    carrier = find_carrier(element_type)
    assert carrier is not None
    low = -(1 << (n_bits - 1)) if is_signed else 0
    high = (1 << (n_bits - 1 if is_signed else n_bits)) - 1
    if not n_bits:
        low, high = int(carrier.min), int(carrier.max)
    return x.maximum(low).minimum(high).cast(carrier)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantizeLinearAttributes:
    """Attributes of QuantizeLinear."""

    axis: int = 1
    block_size: int = 0
    output_dtype: int = 0
    precision: int = 0
    saturate: int = 1


@operator("QuantizeLinear")
def quantize_linear(
    node: Call,
    x: Tensor,
    y_scale: Tensor,
    y_zero_point: Tensor | None = None,
    *,
    attributes: QuantizeLinearAttributes,
) -> Tensor:
    """`round(x / scale) + zero_point` with ties to even, clamped to the range of the type."""
    element_type = attributes.output_dtype or (
        _T.UINT8 if y_zero_point is None else node.trace.get_element_type(node.node.inputs[2])
    )
    node.set_element_type(element_type)
    dtype = find_carrier(attributes.precision) if attributes.precision else None
    if dtype is None:
        # Half-precision quotients would round twice.
        dtype = "float64" if "float64" in (str(x.dtype), str(y_scale.dtype)) else "float32"
    scaled = x.cast(dtype) / _broadcast_parameter(
        y_scale, x, attributes.axis, attributes.block_size
    ).cast(dtype)
    if element_type not in NARROW_INTEGERS and not _is_integer(element_type):
        return convert(scaled, element_type, saturate=bool(attributes.saturate))
    rounded = scaled.round()
    if y_zero_point is not None:
        rounded = rounded + _broadcast_parameter(
            y_zero_point, x, attributes.axis, attributes.block_size
        ).cast(dtype)
    return saturate_cast(rounded, element_type)


def _is_integer(element_type: int) -> bool:
    carrier = find_carrier(element_type)
    return carrier is not None and carrier.is_int


@operator("DequantizeLinear")
def dequantize_linear(
    x: Tensor,
    x_scale: Tensor,
    x_zero_point: Tensor | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
) -> Tensor:
    """`(x - zero_point) * scale`, in the dtype of the scale or in `output_dtype`."""
    dtype = (find_carrier(output_dtype) if output_dtype else None) or x_scale.dtype
    wide = "float64" if str(x_scale.dtype) == "float64" else "float32"
    values = x.cast(wide)
    # Subtract in int32, since the difference may exceed 8 bits.
    if x_zero_point is not None and x.dtype.is_int:
        values = (
            x.cast("int32") - _broadcast_parameter(x_zero_point, x, axis, block_size).cast("int32")
        ).cast(wide)
    return (values * _broadcast_parameter(x_scale, x, axis, block_size).cast(wide)).cast(dtype)


@operator("DynamicQuantizeLinear")
def dynamic_quantize_linear(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Quantize to uint8 by the range of the elements and 0.

    Return the integers, the scale and the zero point.
    """
    # With 0 in the range, zeros (such as padding) are represented exactly.
    least, greatest = x.min().minimum(0), x.max().maximum(0)
    scale = (greatest - least) / 255
    # All elements are 0; a scale of 0 would make them NaN.
    divisor = (scale == 0).where(1, scale)
    zero_point = saturate_cast((-least / divisor).round(), _T.UINT8)
    return (
        saturate_cast((x / divisor).round() + zero_point.cast("float32"), _T.UINT8),
        scale,
        zero_point,
    )


@operator("QLinearMatMul", precomputes=True)
def qlinear_matmul(
    node: Call,
    a: Tensor,
    a_scale: Tensor,
    a_zero_point: Value,
    b: Tensor,
    b_scale: Tensor,
    b_zero_point: Value,
    y_scale: Tensor,
    y_zero_point: Tensor,
) -> Tensor:
    """Quantized product of quantized matrices."""
    element_type = node.trace.get_element_type(node.node.inputs[7])
    # Operands of type float8 have no integer product.
    if not (a.dtype.is_int and b.dtype.is_int):
        product = (
            dequantize_linear(a, a_scale).matmul(dequantize_linear(b, b_scale)).cast("float32")
        )
        return convert(product / y_scale.cast("float32"), element_type)
    sums = matmul_int8(
        node, a, b, to_zero_point(node, a_zero_point), to_zero_point(node, b_zero_point)
    )
    # A vector of scales has one per row of `a`.
    rows = a_scale.unsqueeze(-1) if a_scale.ndim == 1 and a_scale.size != 1 else a_scale
    factor = rows.cast("float32") * b_scale.cast("float32") / y_scale.cast("float32")
    return saturate_cast(
        (sums.cast("float32") * factor).round() + y_zero_point.cast("float32"), element_type
    )


@operator("ConvInteger", precomputes=True)
def conv_integer(
    node: Call,
    x: Tensor,
    w: Tensor,
    x_zero_point: Value = None,
    w_zero_point: Value = None,
    *,
    attributes: ConvAttributes,
) -> Tensor:
    """Convolution of integers in int32. Padding has the value of the zero point."""
    x_zero, weight_zero = to_zero_point(node, x_zero_point), to_zero_point(node, w_zero_point)
    if is_int8(x, w) and can_conv_int8(x, w, attributes.group):
        windows = make_windows(node, x, get_kernel(node, w, attributes.kernel_shape), attributes)
        return conv_int8(node, x, w, x_zero, weight_zero, windows)
    by_filter = (
        weight_zero if isinstance(weight_zero, int) else _broadcast_parameter(weight_zero, w, 0, 0)
    )
    # General case: groups, symbolic sizes and wider integers.
    # Zero points are subtracted first, so that padding with 0 means padding with the zero point.
    image, filters = x.cast("int32") - x_zero, w.cast("int32") - by_filter
    return conv(node, image, filters, attributes=attributes)


@operator("QLinearConv", precomputes=True)
def qlinear_conv(
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
    attributes: ConvAttributes,
) -> Tensor:
    """Quantized convolution of quantized operands. The bias has the scale `x_scale * w_scale`."""
    element_type = node.trace.get_element_type(node.node.inputs[7])
    sums = conv_integer(node, x, w, x_zero_point, w_zero_point, attributes=attributes)
    if b is not None:
        sums = sums + _broadcast_parameter(b, sums, 1, 0)
    factor = x_scale.cast("float32") * w_scale.cast("float32") / y_scale.cast("float32")
    return saturate_cast(
        (sums.cast("float32") * _broadcast_parameter(factor, sums, 1, 0)).round()
        + y_zero_point.cast("float32").reshape(()),
        element_type,
    )
