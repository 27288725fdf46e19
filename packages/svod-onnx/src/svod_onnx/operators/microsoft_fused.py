"""Products and convolutions of "com.microsoft": with low-bit weights, and with fused
activations.
"""

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
    """`a @ weights.T` in the dtype of `a`, with N rows of K integers in blocks with a scale and a
    zero point each.

    Args:
        b: of shape (N, blocks, block_size * bits / 8), the first integer of a byte in its low bits.
            Empty weights give zeros.
        scales: of shape (N, blocks).
        zero_points: packed like `b`, of shape (N, bytes), or in the dtype of the scales, of shape
            (N, blocks); None for the middle.
        g_idx: for each of the K columns, the block of its scale and zero point.
        accuracy_level: minimum accuracy in onnxruntime. svod computes in float32 or in the dtype of
            `a`.
    """
    if attributes.weight_prepacked:
        raise node.refuse(
            "attribute 'weight_prepacked' is not supported; export the model without prepacked weights"
        )
    if attributes.bits not in (2, 4, 8):
        raise node.refuse(f"unsupported number of bits {attributes.bits}; expected 2, 4 or 8")
    activations = a if a.dtype.itemsize > 2 else a.cast("float32")
    # Empty weights have no blocks to unpack.
    if 0 in b.shape:
        product = Tensor.zeros(
            *a.shape[:-1], attributes.N, dtype=activations.dtype, device=str(a.device)
        )
    else:
        n_blocks = -(-attributes.K // attributes.block_size)
        # The last block may be partial, so the padded columns are cut off.
        integers = (
            _unpack(b.reshape(attributes.N, -1), attributes.bits)
            .reshape(attributes.N, n_blocks * attributes.block_size)[:, : attributes.K]
            .cast("float32")
        )
        block_scales, block_zeros = scales.reshape(attributes.N, -1).cast("float32"), None
        # Zero points are packed like the weights, or floats with one element for each block.
        if zero_points is not None and zero_points.dtype.is_int:
            block_zeros = _unpack(zero_points.reshape(attributes.N, -1), attributes.bits)[
                :, :n_blocks
            ].cast("float32")
        elif zero_points is not None:
            block_zeros = zero_points.reshape(attributes.N, -1).cast("float32")

        def spread(parameter: Tensor) -> Tensor:
            if g_idx is not None:
                # Quantizers that reorder columns (GPTQ with act-order) have blocks of columns that
                # are not adjacent.
                return parameter.take(g_idx, 1)
            return (
                parameter.unsqueeze(-1)
                .expand(attributes.N, n_blocks, attributes.block_size)
                .reshape(attributes.N, -1)[:, : attributes.K]
            )

        # Without zero points the integers are centered: 2^(bits - 1) represents 0.
        centred = integers - (
            float(1 << (attributes.bits - 1)) if block_zeros is None else spread(block_zeros)
        )
        product = activations.matmul(
            (centred * spread(block_scales)).cast(activations.dtype).transpose(0, 1)
        )
    return (product if bias is None else product + bias).cast(a.dtype)


def _unpack(x: Tensor, bits: int) -> Tensor:
    """Unpack rows of bytes to rows of low-bit integers, low bits first."""
    if bits == 8:
        return x
    fields = [x.rshift(shift).bitwise_and((1 << bits) - 1) for shift in range(0, 8, bits)]
    return stack(fields, axis=-1).reshape(x.shape[0], -1)


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
"""Activations that fused operators support."""


def _activate(node: Call, x: Tensor, name: str, parameters: Sequence[float | None]) -> Tensor:
    """Apply an activation by name. Parameters that are None have the activation's defaults."""
    if not name:
        return x
    if name not in _FUSED:
        raise node.refuse(f"unknown activation {name!r}; expected one of {', '.join(_FUSED)}")
    alpha, beta = [*parameters, None, None][:2]
    # Not in the table, since its parameters are optional limits.
    if name == "Clip":
        return x.maximum(float("-inf") if alpha is None else alpha).minimum(
            float("inf") if beta is None else beta
        )
    function = NAMED_ACTIVATIONS[name.lower()]
    return function.make(
        function.alpha if alpha is None else alpha, function.beta if beta is None else beta
    )(x)


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
    """Activation of a convolution plus `z`."""
    result = conv(node, x, w, b, attributes=attributes)
    return _activate(
        node,
        # The sum comes before the activation, as in a residual block.
        result if z is None else result + z,
        attributes.activation,
        attributes.activation_params or (),
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
    node: Call, a: Tensor, b: Tensor, c: Tensor | None = None, *, attributes: FusedGemmAttributes
) -> Tensor:
    """Activation of `alpha * A @ B + beta * C`."""
    parameters: list[Any] = [
        attributes.activation_alpha,
        attributes.activation_beta,
        attributes.activation_gamma,
    ]
    result = gemm(
        a,
        b,
        c,
        alpha=attributes.alpha,
        beta=attributes.beta,
        transA=attributes.transA,
        transB=attributes.transB,
    )
    return _activate(node, result, attributes.activation, parameters)
