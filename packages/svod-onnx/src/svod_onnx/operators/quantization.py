"""Quantised tensors: integers that stand for `(x - zero_point) * scale`."""

from __future__ import annotations

from typing import Any, Final

import onnx

import svod_tensor as sv
from svod_onnx._narrow_types import NARROW_INTEGERS
from svod_onnx._registry import operator
from svod_onnx._trace import Call
from svod_onnx._types import find_carrier
from svod_onnx.operators.casting import convert
from svod_onnx.operators.convolutions import convolve
from svod_tensor import Tensor

__all__ = [
    "convolve_integers",
    "convolve_quantized",
    "dequantize",
    "fit",
    "multiply_integers",
    "multiply_quantized",
    "quantize",
    "quantize_by_range",
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


@operator("QuantizeLinear")
def quantize(
    node: Call, x: Tensor, scale: Tensor, zero_point: Tensor | None = None, *, axis: int = 1, block_size: int = 0,
    output_dtype: int = 0, precision: int = 0, saturate: int = 1,
) -> Tensor:  # fmt: skip
    """`round(x / scale) + zero_point`, of two equally near integers the even one, within the limits of the type."""
    kind = output_dtype or (_T.UINT8 if zero_point is None else node.trace.get_element_type(node.node.inputs[2]))
    exact = find_carrier(precision) if precision else None
    if exact is None:
        exact = "float64" if "float64" in (str(x.dtype), str(scale.dtype)) else "float32"
    steps = x.cast(exact) / _place(scale, x, axis, block_size).cast(exact)
    if kind not in NARROW_INTEGERS and not _is_integer(kind):
        return convert(steps, kind, saturate=bool(saturate))
    rounded = steps.round()
    if zero_point is not None:
        rounded = rounded + _place(zero_point, x, axis, block_size).cast(exact)
    return fit(rounded, kind)


def _is_integer(kind: int) -> bool:
    carrier = find_carrier(kind)
    return carrier is not None and carrier.is_int


@operator("DequantizeLinear")
def dequantize(
    x: Tensor,
    scale: Tensor,
    zero_point: Tensor | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
) -> Tensor:
    """`(x - zero_point) * scale`, in the dtype of the scale or the one that is asked for."""
    dtype = (find_carrier(output_dtype) if output_dtype else None) or scale.dtype
    exact = "float64" if str(scale.dtype) == "float64" else "float32"
    values = x.cast(exact)
    if zero_point is not None and x.dtype.is_int:
        values = (x.cast("int32") - _place(zero_point, x, axis, block_size).cast("int32")).cast(exact)
    return (values * _place(scale, x, axis, block_size).cast(exact)).cast(dtype)


@operator("DynamicQuantizeLinear")
def quantize_by_range(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """As uint8, by the range of the elements and zero; the scale and the zero point are found with it."""
    least, greatest = x.min().minimum(0), x.max().maximum(0)
    scale = (greatest - least) / 255
    steps = (scale == 0).where(1, scale)
    zero_point = fit((-least / steps).round(), _T.UINT8)
    return fit((x / steps).round() + zero_point.cast("float32"), _T.UINT8), scale, zero_point


def _multiply_whole(a: Tensor, b: Tensor, a_zero: Tensor | None, b_zero: Tensor | None) -> Tensor:
    """`(a - a_zero) @ (b - b_zero)` in int32, by the processor's product of uint8 with int8.

    Zero points are taken out of the sums afterwards: one of `a` by the sums of `b`, and the other way round.

    Args:
        a: 8-bit integers.
        b: likewise.
        a_zero: one, or one for each row.
        b_zero: one, or one for each column.
    """
    left, shift_left = (a, 0) if a.dtype == sv.uint8 else (a.bitcast("uint8").bitwise_xor(128), 128)
    right, shift_right = (b, 0) if b.dtype == sv.int8 else (b.bitwise_xor(128).bitcast("int8"), -128)
    total = left.matmul(right, dtype="int32")
    of_a = shift_left if a_zero is None else a_zero.cast("int32") + shift_left
    of_b = shift_right if b_zero is None else b_zero.cast("int32") + shift_right
    if isinstance(of_a, Tensor) and of_a.ndim == 1 and of_a.size != 1:
        of_a = of_a.unsqueeze(-1)
    depth: Any = a.shape[-1]
    is_a_moved, is_b_moved = isinstance(of_a, Tensor) or of_a != 0, isinstance(of_b, Tensor) or of_b != 0
    if is_a_moved:
        total = total - right.cast("int32").sum(-2, keepdims=right.ndim > 1) * of_a
    if is_b_moved:
        total = total - left.cast("int32").sum(-1, keepdims=left.ndim > 1) * of_b
    # A depth that is a variable is an int64.
    return (total + of_a * of_b * depth).cast("int32") if is_a_moved and is_b_moved else total


@operator("MatMulInteger")
def multiply_integers(
    a: Tensor, b: Tensor, a_zero_point: Tensor | None = None, b_zero_point: Tensor | None = None
) -> Tensor:
    return _multiply_whole(a, b, a_zero_point, b_zero_point)


@operator("QLinearMatMul")
def multiply_quantized(
    node: Call, a: Tensor, a_scale: Tensor, a_zero: Tensor, b: Tensor, b_scale: Tensor, b_zero: Tensor, y_scale: Tensor,
    y_zero: Tensor,
) -> Tensor:  # fmt: skip
    kind = node.trace.get_element_type(node.node.inputs[7])
    if not (a.dtype.is_int and b.dtype.is_int):
        product = dequantize(a, a_scale).matmul(dequantize(b, b_scale)).cast("float32")
        return convert(product / y_scale.cast("float32"), kind)
    total = _multiply_whole(a, b, a_zero, b_zero)
    rows = a_scale.unsqueeze(-1) if a_scale.ndim == 1 and a_scale.size != 1 else a_scale
    factor = rows.cast("float32") * b_scale.cast("float32") / y_scale.cast("float32")
    return fit((total.cast("float32") * factor).round() + y_zero.cast("float32"), kind)


@operator("ConvInteger")
def convolve_integers(
    node: Call, x: Tensor, weight: Tensor, x_zero_point: Tensor | None = None, weight_zero_point: Tensor | None = None, *,
    auto_pad: str = "NOTSET", dilations: list[int] | None = None, group: int = 1, kernel_shape: list[int] | None = None,
    pads: list[int] | None = None, strides: list[int] | None = None,
) -> Tensor:  # fmt: skip
    """In int32; what is padded stands for zero."""
    image, filters = x.cast("int32"), weight.cast("int32")
    if x_zero_point is not None:
        image = image - x_zero_point.cast("int32").reshape(())
    if weight_zero_point is not None:
        filters = filters - _place(weight_zero_point, weight, 0, 0).cast("int32")
    return convolve(
        node, image, filters, auto_pad=auto_pad, dilations=dilations, group=group, kernel_shape=kernel_shape, pads=pads,
        strides=strides,
    )  # fmt: skip


@operator("QLinearConv")
def convolve_quantized(
    node: Call, x: Tensor, x_scale: Tensor, x_zero: Tensor, weight: Tensor, weight_scale: Tensor, weight_zero: Tensor,
    y_scale: Tensor, y_zero: Tensor, bias: Tensor | None = None, *, auto_pad: str = "NOTSET",
    dilations: list[int] | None = None, group: int = 1, kernel_shape: list[int] | None = None,
    pads: list[int] | None = None, strides: list[int] | None = None,
) -> Tensor:  # fmt: skip
    """The bias has the scale of the products."""
    kind = node.trace.get_element_type(node.node.inputs[7])
    total = convolve_integers(
        node, x, weight, x_zero, weight_zero, auto_pad=auto_pad, dilations=dilations, group=group,
        kernel_shape=kernel_shape, pads=pads, strides=strides,
    )  # fmt: skip
    if bias is not None:
        total = total + _place(bias, total, 1, 0)
    factor = x_scale.cast("float32") * weight_scale.cast("float32") / y_scale.cast("float32")
    return fit((total.cast("float32") * _place(factor, total, 1, 0)).round() + y_zero.cast("float32").reshape(()), kind)
