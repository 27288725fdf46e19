"""Quantised tensors: integers that stand for `(x - zero_point) * scale`."""

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
    "fit",
    "qlinear_conv",
    "qlinear_matmul",
    "quantize_linear",
]

_T: Final = onnx.TensorProto


def _place(parameter: Tensor, x: Tensor, axis: int, block_size: int) -> Tensor:
    """A scale or zero point beside the elements that it is for: all, those along an axis, or blocks of these."""
    if block_size:
        return parameter.repeat(block_size, axis).shrink(*((0, size) for size in x.shape))
    if parameter.size == 1:
        return parameter.reshape(*(1,) * x.ndim) if x.ndim else parameter.reshape(())
    return parameter.reshape(*(-1 if number == axis % x.ndim else 1 for number in range(x.ndim)))


def fit(x: Tensor, kind: int) -> Tensor:
    """Whole numbers as elements of an integer type: the nearest that it has."""
    n_bits, is_signed = NARROW_INTEGERS.get(kind, (0, False))
    carrier = find_carrier(kind)
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
    """`round(x / scale) + zero_point`, of two equally near integers the even one, within the limits of the type."""
    kind = attributes.output_dtype or (
        _T.UINT8 if y_zero_point is None else node.trace.get_element_type(node.node.inputs[2])
    )
    exact = find_carrier(attributes.precision) if attributes.precision else None
    if exact is None:
        exact = "float64" if "float64" in (str(x.dtype), str(y_scale.dtype)) else "float32"
    steps = x.cast(exact) / _place(y_scale, x, attributes.axis, attributes.block_size).cast(exact)
    if kind not in NARROW_INTEGERS and not _is_integer(kind):
        return convert(steps, kind, saturate=bool(attributes.saturate))
    rounded = steps.round()
    if y_zero_point is not None:
        rounded = rounded + _place(y_zero_point, x, attributes.axis, attributes.block_size).cast(exact)
    return fit(rounded, kind)


def _is_integer(kind: int) -> bool:
    carrier = find_carrier(kind)
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
    """`(x - zero_point) * scale`, in the dtype of the scale or the one that is asked for."""
    dtype = (find_carrier(output_dtype) if output_dtype else None) or x_scale.dtype
    exact = "float64" if str(x_scale.dtype) == "float64" else "float32"
    values = x.cast(exact)
    if x_zero_point is not None and x.dtype.is_int:
        values = (x.cast("int32") - _place(x_zero_point, x, axis, block_size).cast("int32")).cast(exact)
    return (values * _place(x_scale, x, axis, block_size).cast(exact)).cast(dtype)


@operator("DynamicQuantizeLinear")
def dynamic_quantize_linear(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """As uint8, by the range of the elements and zero; the scale and the zero point are found with it."""
    least, greatest = x.min().minimum(0), x.max().maximum(0)
    scale = (greatest - least) / 255
    steps = (scale == 0).where(1, scale)
    zero_point = fit((-least / steps).round(), _T.UINT8)
    return fit((x / steps).round() + zero_point.cast("float32"), _T.UINT8), scale, zero_point


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
    kind = node.trace.get_element_type(node.node.inputs[7])
    if not (a.dtype.is_int and b.dtype.is_int):
        product = dequantize_linear(a, a_scale).matmul(dequantize_linear(b, b_scale)).cast("float32")
        return convert(product / y_scale.cast("float32"), kind)
    total = matmul_int8(node, a, b, to_zero_point(node, a_zero_point), to_zero_point(node, b_zero_point))
    rows = a_scale.unsqueeze(-1) if a_scale.ndim == 1 and a_scale.size != 1 else a_scale
    factor = rows.cast("float32") * b_scale.cast("float32") / y_scale.cast("float32")
    return fit((total.cast("float32") * factor).round() + y_zero_point.cast("float32"), kind)


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
    """In int32; what is padded stands for zero."""
    x_zero, weight_zero = to_zero_point(node, x_zero_point), to_zero_point(node, w_zero_point)
    if is_int8(x, w) and can_conv_int8(x, w, attributes.group):
        places = make_windows(node, x, get_kernel(node, w, attributes.kernel_shape), attributes)
        return conv_int8(node, x, w, x_zero, weight_zero, places)
    by_filter = weight_zero if isinstance(weight_zero, int) else _place(weight_zero, w, 0, 0)
    image, filters = x.cast("int32") - x_zero, w.cast("int32") - by_filter
    return conv(
        node,
        image,
        filters,
        attributes=attributes,
    )


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
    """The bias has the scale of the products."""
    kind = node.trace.get_element_type(node.node.inputs[7])
    total = conv_integer(
        node,
        x,
        w,
        x_zero_point,
        w_zero_point,
        attributes=attributes,
    )
    if b is not None:
        total = total + _place(b, total, 1, 0)
    factor = x_scale.cast("float32") * w_scale.cast("float32") / y_scale.cast("float32")
    return fit(
        (total.cast("float32") * _place(factor, total, 1, 0)).round() + y_zero_point.cast("float32").reshape(()), kind
    )
