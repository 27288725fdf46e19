"""Products of "com.microsoft": with weights of a few bits, and with an activation behind them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from svod_onnx._named_activations import NAMED_ACTIVATIONS
from svod_onnx._registry import operator
from svod_onnx._trace import Call
from svod_onnx.operators.convolutions import conv
from svod_onnx.operators.microsoft import MICROSOFT
from svod_onnx.operators.products import gemm
from svod_tensor import Tensor, stack

__all__ = ["fused_conv", "fused_gemm", "matmul_nbits"]


@operator("MatMulNBits", domain=MICROSOFT)
def matmul_nbits(
    node: Call, a: Tensor, b: Tensor, scales: Tensor, zero_points: Tensor | None = None, g_idx: Tensor | None = None,
    bias: Tensor | None = None, *, K: int, N: int, block_size: int, accuracy_level: int = 0, bits: int = 4,
    weight_prepacked: int = 0,
) -> Tensor:  # fmt: skip
    """`a @ weights.T`, of N rows of K integers in blocks with a scale and a zero point each; in the dtype of `a`.

    Args:
        b: of shape (N, blocks, block_size * bits / 8), the first integer of each byte in its low bits. Weights without elements give zeros.
        scales: of shape (N, blocks).
        zero_points: packed as `b` is, of shape (N, bytes), or of shape (N, blocks) and the dtype of the scales; None for the middle.
        g_idx: for each of the K columns the block whose scale and zero point it has.
        accuracy_level: how exactly onnxruntime computes at least; here it is in float32 or the dtype of `a`.
    """
    del accuracy_level
    if weight_prepacked:
        raise node.refuse("has weights in the order of a kernel for graphics cards ('weight_prepacked')")
    if bits not in (2, 4, 8):
        raise node.refuse(f"has weights of {bits} bits; there are those of 2, 4 and 8")
    exact = a if a.dtype.itemsize > 2 else a.cast("float32")
    if 0 in b.shape:
        product = Tensor.zeros(*a.shape[:-1], N, dtype=exact.dtype, device=str(a.device))
    else:
        n_blocks = -(-K // block_size)
        steps = _unpack(b.reshape(N, -1), bits).reshape(N, n_blocks * block_size)[:, :K].cast("float32")
        factors, zeros = scales.reshape(N, -1).cast("float32"), None
        if zero_points is not None and zero_points.dtype.is_int:
            zeros = _unpack(zero_points.reshape(N, -1), bits)[:, :n_blocks].cast("float32")
        elif zero_points is not None:
            zeros = zero_points.reshape(N, -1).cast("float32")

        def spread(parameter: Tensor) -> Tensor:
            if g_idx is not None:
                return parameter.take(g_idx, 1)
            return parameter.unsqueeze(-1).expand(N, n_blocks, block_size).reshape(N, -1)[:, :K]

        centred = steps - (float(1 << (bits - 1)) if zeros is None else spread(zeros))
        product = exact.matmul((centred * spread(factors)).cast(exact.dtype).transpose(0, 1))
    return (product if bias is None else product + bias).cast(a.dtype)


def _unpack(x: Tensor, bits: int) -> Tensor:
    """Rows of bytes as rows of integers of a few bits, the low ones first."""
    if bits == 8:
        return x
    parts = [x.rshift(shift).bitwise_and((1 << bits) - 1) for shift in range(0, 8, bits)]
    return stack(parts, axis=-1).reshape(x.shape[0], -1)


_FUSED: Final = (
    "Clip", "Elu", "HardSigmoid", "LeakyRelu", "Relu", "Sigmoid", "Softplus", "Softsign", "Tanh", "ThresholdedRelu",
)  # fmt: skip
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


@operator("FusedConv", domain=MICROSOFT)
def fused_conv(
    node: Call, x: Tensor, w: Tensor, b: Tensor | None = None, z: Tensor | None = None, *,
    activation: str = "", activation_params: list[float] | None = None, auto_pad: str = "NOTSET",
    dilations: list[int] | None = None, group: int = 1, kernel_shape: list[int] | None = None,
    pads: list[int] | None = None, strides: list[int] | None = None,
) -> Tensor:  # fmt: skip
    """The activation of a convolution and what is added to it."""
    result = conv(
        node, x, w, b, auto_pad=auto_pad, dilations=dilations, group=group, kernel_shape=kernel_shape, pads=pads,
        strides=strides,
    )  # fmt: skip
    return _activate(node, result if z is None else result + z, activation, activation_params or ())


@operator("FusedGemm", domain=MICROSOFT)
def fused_gemm(
    node: Call, a: Tensor, b: Tensor, c: Tensor | None = None, *, activation: str = "",
    activation_alpha: float | None = None, activation_beta: float | None = None, activation_gamma: float | None = None,
    alpha: float = 1.0, beta: float = 1.0, transA: int = 0, transB: int = 0,
) -> Tensor:  # fmt: skip
    """The activation of `alpha * A @ B + beta * C`."""
    numbers: list[Any] = [activation_alpha, activation_beta, activation_gamma]
    result = gemm(a, b, c, alpha=alpha, beta=beta, transA=transA, transB=transB)
    return _activate(node, result, activation, numbers)
