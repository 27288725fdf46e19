"""Products of "com.microsoft": with weights of a few bits, and with an activation behind them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from svod_onnx._named_activations import NAMED_ACTIVATIONS
from svod_onnx._registry import operator
from svod_onnx._trace import Call
from svod_onnx._windows import ConvAttributes
from svod_onnx.operators.convolutions import conv
from svod_onnx.operators.linear_algebra import gemm
from svod_onnx.operators.microsoft import MICROSOFT
from svod_tensor import Tensor, stack

__all__ = [
    "FusedConvAttributes",
    "FusedGemmAttributes",
    "MatMulNBitsAttributes",
    "fused_conv",
    "fused_gemm",
    "matmul_nbits",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class MatMulNBitsAttributes:
    """Attributes of MatMulNBits."""

    K: int
    N: int
    block_size: int
    accuracy_level: int = 0
    bits: int = 4
    weight_prepacked: int = 0


@operator("MatMulNBits", domain=MICROSOFT)
def matmul_nbits(
    node: Call,
    a: Tensor,
    b: Tensor,
    scales: Tensor,
    zero_points: Tensor | None = None,
    g_idx: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    attributes: MatMulNBitsAttributes,
) -> Tensor:
    """`a @ weights.T`, of N rows of K integers in blocks with a scale and a zero point each; in the dtype of `a`.

    Args:
        b: of shape (N, blocks, block_size * bits / 8), the first integer of each byte in its low bits. Weights without elements give zeros.
        scales: of shape (N, blocks).
        zero_points: packed as `b` is, of shape (N, bytes), or of shape (N, blocks) and the dtype of the scales; None for the middle.
        g_idx: for each of the K columns the block whose scale and zero point it has.
        accuracy_level: how exactly onnxruntime computes at least; here it is in float32 or the dtype of `a`.
    """
    if attributes.weight_prepacked:
        raise node.refuse("has weights in the order of a kernel for graphics cards ('weight_prepacked')")
    if attributes.bits not in (2, 4, 8):
        raise node.refuse(f"has weights of {attributes.bits} bits; there are those of 2, 4 and 8")
    exact = a if a.dtype.itemsize > 2 else a.cast("float32")
    if 0 in b.shape:
        product = Tensor.zeros(*a.shape[:-1], attributes.N, dtype=exact.dtype, device=str(a.device))
    else:
        n_blocks = -(-attributes.K // attributes.block_size)
        steps = (
            _unpack(b.reshape(attributes.N, -1), attributes.bits)
            .reshape(attributes.N, n_blocks * attributes.block_size)[:, : attributes.K]
            .cast("float32")
        )
        factors, zeros = scales.reshape(attributes.N, -1).cast("float32"), None
        if zero_points is not None and zero_points.dtype.is_int:
            zeros = _unpack(zero_points.reshape(attributes.N, -1), attributes.bits)[:, :n_blocks].cast("float32")
        elif zero_points is not None:
            zeros = zero_points.reshape(attributes.N, -1).cast("float32")

        def spread(parameter: Tensor) -> Tensor:
            if g_idx is not None:
                return parameter.take(g_idx, 1)
            return (
                parameter.unsqueeze(-1)
                .expand(attributes.N, n_blocks, attributes.block_size)
                .reshape(attributes.N, -1)[:, : attributes.K]
            )

        centred = steps - (float(1 << (attributes.bits - 1)) if zeros is None else spread(zeros))
        product = exact.matmul((centred * spread(factors)).cast(exact.dtype).transpose(0, 1))
    return (product if bias is None else product + bias).cast(a.dtype)


def _unpack(x: Tensor, bits: int) -> Tensor:
    """Rows of bytes as rows of integers of a few bits, the low ones first."""
    if bits == 8:
        return x
    parts = [x.rshift(shift).bitwise_and((1 << bits) - 1) for shift in range(0, 8, bits)]
    return stack(parts, axis=-1).reshape(x.shape[0], -1)


_FUSED: Final = (
    "Clip",
    "Elu",
    "HardSigmoid",
    "LeakyRelu",
    "Relu",
    "Sigmoid",
    "Softplus",
    "Softsign",
    "Tanh",
    "ThresholdedRelu",
)
"""The activations that operators are fused with."""


def _activate(node: Call, x: Tensor, name: str, given: Sequence[float | None]) -> Tensor:
    """The activation of `x`, with the parameters that the node has, or those that it has where nothing is said."""
    if not name:
        return x
    if name not in _FUSED:
        raise node.refuse(f"has the activation {name!r}; there are {', '.join(_FUSED)}")
    alpha, beta = [*given, None, None][:2]
    if name == "Clip":
        return x.maximum(float("-inf") if alpha is None else alpha).minimum(float("inf") if beta is None else beta)
    function = NAMED_ACTIVATIONS[name.lower()]
    return function.make(function.alpha if alpha is None else alpha, function.beta if beta is None else beta)(x)


@dataclass(frozen=True, slots=True, kw_only=True)
class FusedConvAttributes(ConvAttributes):
    """Attributes of FusedConv."""

    activation: str = ""
    activation_params: list[float] | None = None


@operator("FusedConv", domain=MICROSOFT)
def fused_conv(
    node: Call,
    x: Tensor,
    w: Tensor,
    b: Tensor | None = None,
    z: Tensor | None = None,
    *,
    attributes: FusedConvAttributes,
) -> Tensor:
    """The activation of a convolution and what is added to it."""
    result = conv(
        node,
        x,
        w,
        b,
        attributes=attributes,
    )
    return _activate(
        node, result if z is None else result + z, attributes.activation, attributes.activation_params or ()
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FusedGemmAttributes:
    """Attributes of FusedGemm."""

    activation: str = ""
    activation_alpha: float | None = None
    activation_beta: float | None = None
    activation_gamma: float | None = None
    alpha: float = 1.0
    beta: float = 1.0
    transA: int = 0
    transB: int = 0


@operator("FusedGemm", domain=MICROSOFT)
def fused_gemm(
    node: Call,
    a: Tensor,
    b: Tensor,
    c: Tensor | None = None,
    *,
    attributes: FusedGemmAttributes,
) -> Tensor:
    """The activation of `alpha * A @ B + beta * C`."""
    numbers: list[Any] = [attributes.activation_alpha, attributes.activation_beta, attributes.activation_gamma]
    result = gemm(
        a, b, c, alpha=attributes.alpha, beta=attributes.beta, transA=attributes.transA, transB=attributes.transB
    )
    return _activate(node, result, attributes.activation, numbers)
