"""Matrix products and determinants."""

from __future__ import annotations

import svod_tensor as sv
from svod_onnx._registry import Ints, operator
from svod_tensor import Tensor

__all__ = [
    "col2im",
    "det",
    "einsum",
    "gemm",
    "gemm_since_1",
    "matmul",
]


@operator("MatMul")
def matmul(a: Tensor, b: Tensor) -> Tensor:
    """Matrix product in the dtype of `a`."""
    return a.matmul(b).cast(a.dtype)


@operator("Gemm", since=7)
def gemm(
    a: Tensor,
    b: Tensor,
    c: Tensor | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Tensor:
    """`alpha * A @ B + beta * C` in the dtype of A. Factors of integers are truncated."""
    left, right = (a.transpose(0, 1) if transA else a), (b.transpose(0, 1) if transB else b)
    product = _scale(left.matmul(right), alpha)
    # With beta 0, C is not read, as in BLAS: its NaNs do not matter.
    return (product if c is None or beta == 0 else product + _scale(c, beta)).cast(a.dtype)


def _scale(x: Tensor, factor: float) -> Tensor:
    # A float factor would make integers floats; the specification keeps their dtype.
    return x if factor == 1 else x * (factor if x.dtype.is_float else int(factor))


@operator("Gemm")
def gemm_since_1(
    a: Tensor,
    b: Tensor,
    c: Tensor,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
    broadcast: int = 0,
) -> Tensor:
    """Gemm up to version 6: `C` broadcasts only with `broadcast` 1."""
    result = gemm(a, b, c, alpha=alpha, beta=beta, transA=transA, transB=transB)
    if not broadcast and c.shape != result.shape:
        raise ValueError(
            f"C has shape {c.shape}, expected {result.shape}; set broadcast to 1 to broadcast it"
        )
    return result


@operator("Einsum")
def einsum(*inputs: Tensor, equation: str) -> Tensor:
    """Einstein summation in the dtype of the first operand."""
    # ONNX allows blanks anywhere in the equation.
    return Tensor.einsum(equation.replace(" ", ""), *inputs).cast(inputs[0].dtype)


@operator("Det")
def det(x: Tensor) -> Tensor:
    """Determinant of each matrix."""
    return sv.linalg.det(x)


@operator("Col2Im")
def col2im(
    input: Tensor,
    image_shape: Ints,
    block_shape: Ints,
    *,
    dilations: list[int] | None = None,
    pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:
    """Images of shape (batch, channels, *image_shape), the sums of overlapping blocks."""
    n_axes = len(image_shape)
    flat_pads = pads or [0] * 2 * n_axes
    padding = [(flat_pads[axis], flat_pads[axis + n_axes]) for axis in range(n_axes)]
    return input.fold(
        image_shape, block_shape, stride=strides or 1, padding=padding, dilation=dilations or 1
    )
