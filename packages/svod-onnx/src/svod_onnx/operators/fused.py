"""Fused operators, which the rewrites of a graph create."""

from __future__ import annotations

from dataclasses import dataclass

from svod_onnx._registry import Value, operator
from svod_onnx._rewrites import FUSED
from svod_onnx._trace import Call
from svod_onnx.operators.int8_matmul import is_int8, matmul_int8, to_zero_point
from svod_onnx.operators.quantization import dequantize_linear
from svod_tensor import Tensor

__all__ = ["DequantizedGemmAttributes", "dequantized_gemm", "dequantized_matmul"]


@operator("MatMul", domain=FUSED, precomputes=True)
def dequantized_matmul(
    node: Call,
    a: Tensor,
    a_scale: Tensor,
    a_zero_point: Value | None,
    b: Tensor,
    b_scale: Tensor,
    b_zero_point: Value = None,
    *,
    a_axis: int = 1,
    b_axis: int = 1,
) -> Tensor:
    """Product of two dequantized matrices: of 8-bit integers, scaled afterwards, if the dtypes and
    scales allow it.
    """
    by_column = b_scale.size == 1 or (b.ndim > 1 and b_axis % b.ndim == b.ndim - 1)
    # Scales along the summed axis cannot be factored out of the sum.
    if not (is_int8(a, b) and a_scale.size == 1 and by_column):
        left, right = (
            _dequantize(node, a, a_scale, a_zero_point, a_axis),
            _dequantize(node, b, b_scale, b_zero_point, b_axis),
        )
        return left.matmul(right).cast(a_scale.dtype)
    sums = matmul_int8(
        node, a, b, to_zero_point(node, a_zero_point), to_zero_point(node, b_zero_point)
    )
    # Multiplied with each other first, so that each element takes one multiplication.
    factor = a_scale.cast("float32").reshape(()) * (
        b_scale.reshape(()) if b_scale.size == 1 else b_scale
    ).cast("float32")
    return (sums.cast("float32") * factor).cast(a_scale.dtype)


@dataclass(frozen=True, slots=True, kw_only=True)
class DequantizedGemmAttributes:
    """Attributes of DequantizedGemm."""

    alpha: float = 1.0
    beta: float = 1.0
    transA: int = 0
    transB: int = 0
    a_axis: int = 1
    b_axis: int = 1


@operator("Gemm", domain=FUSED, precomputes=True)
def dequantized_gemm(
    node: Call,
    a: Tensor,
    a_scale: Tensor,
    a_zero_point: Value | None,
    b: Tensor,
    b_scale: Tensor,
    b_zero_point: Value | None,
    c: Tensor | None = None,
    *,
    attributes: DequantizedGemmAttributes,
) -> Tensor:
    """`alpha * A @ B + beta * C` of dequantized matrices."""
    left, right = (
        (a.transpose(0, 1) if attributes.transA else a),
        (b.transpose(0, 1) if attributes.transB else b),
    )
    # Transposition exchanges the axes of the scales.
    axes = (
        (1 - attributes.a_axis % 2 if attributes.transA else attributes.a_axis % 2),
        (1 - attributes.b_axis % 2 if attributes.transB else attributes.b_axis % 2),
    )
    product = dequantized_matmul(
        node,
        left,
        a_scale,
        a_zero_point,
        right,
        b_scale,
        b_zero_point,
        a_axis=axes[0],
        b_axis=axes[1],
    )
    product = product if attributes.alpha == 1 else product * attributes.alpha
    return (
        product
        # With a factor of 0, C is not read, as in BLAS: its NaNs do not matter.
        if c is None or attributes.beta == 0
        else (product + (c if attributes.beta == 1 else c * attributes.beta)).cast(a_scale.dtype)
    )


def _dequantize(node: Call, x: Tensor, scale: Tensor, zero_point: Value, axis: int) -> Tensor:
    return dequantize_linear(
        x, scale, None if zero_point is None else node.tensors(zero_point)[0], axis=axis
    )
