"""Operators of "com.microsoft" on images with trailing channels (NHWC), and other operators that
onnxruntime's optimizer emits for diffusion models.
"""

from __future__ import annotations

from typing import Any

from svod_onnx._registry import operator
from svod_onnx._trace import Call
from svod_onnx._windows import ConvAttributes, with_channels_first
from svod_onnx.operators.activations import gelu
from svod_onnx.operators.convolutions import conv
from svod_onnx.operators.microsoft import MICROSOFT
from svod_onnx.operators.microsoft_fused import FusedConvAttributes, fused_conv
from svod_onnx.operators.pooling import MaxPoolAttributes, max_pool
from svod_tensor import Tensor

__all__ = [
    "bias_add",
    "bias_split_gelu",
    "group_norm",
    "nhwc_conv",
    "nhwc_fused_conv",
    "nhwc_max_pool",
    "skip_group_norm",
]


@operator("NhwcConv", domain=MICROSOFT)
def nhwc_conv(
    node: Call, x: Tensor, w: Tensor, b: Tensor | None = None, *, attributes: ConvAttributes
) -> Tensor:
    """Convolution of images with trailing channels. The filters have trailing channels too."""
    filters = w.moveaxis(-1, 1)
    return with_channels_first(
        lambda image: conv(node, image, filters, b, attributes=attributes), x
    )


@operator("NhwcFusedConv", domain=MICROSOFT)
def nhwc_fused_conv(
    node: Call,
    x: Tensor,
    w: Tensor,
    b: Tensor | None = None,
    z: Tensor | None = None,
    *,
    attributes: FusedConvAttributes,
) -> Tensor:
    """FusedConv of images with trailing channels. The filters have the layout of Conv."""
    addend = None if z is None else z.moveaxis(-1, 1)
    return with_channels_first(
        lambda image: fused_conv(node, image, w, b, addend, attributes=attributes), x
    )


@operator("NhwcMaxPool", domain=MICROSOFT)
def nhwc_max_pool(node: Call, x: Tensor, *, attributes: MaxPoolAttributes) -> Tensor:
    """Maximum of each window of images with trailing channels."""

    def pool(image: Tensor) -> Tensor:
        result = max_pool(node, image, attributes=attributes)
        # The operator has a single output, without indices.
        assert isinstance(result, Tensor)
        return result

    return with_channels_first(pool, x)


@operator("GroupNorm", domain=MICROSOFT)
def group_norm(
    node: Call,
    x: Tensor,
    gamma: Tensor,
    beta: Tensor,
    *,
    activation: int,
    channels_last: int = 1,
    epsilon: float = 1e-5,
    groups: int,
) -> Tensor:
    """Normalize each group of channels, with a scale and a bias for each channel.

    `activation` 1 applies SiLU to the result.
    """
    channels: Any = x.shape[-1 if channels_last else 1]
    if activation not in (0, 1):
        raise node.refuse(f"unknown activation {activation}; expected 0 or 1")
    if groups < 1 or channels % groups:
        raise node.refuse(f"groups {groups} must divide the {channels} channels")

    def normalize(image: Tensor) -> Tensor:
        # Statistics of half-precision elements lose digits.
        wide = image.cast("float32") if image.dtype.itemsize < 4 else image
        return wide.group_norm(groups, epsilon, gamma, beta)

    value = with_channels_first(normalize, x) if channels_last else normalize(x)
    return (value.silu() if activation else value).cast(x.dtype)


@operator("SkipGroupNorm", domain=MICROSOFT)
def skip_group_norm(
    node: Call,
    x: Tensor,
    gamma: Tensor,
    beta: Tensor,
    skip: Tensor,
    bias: Tensor | None = None,
    *,
    activation: int,
    channels_last: int = 1,
    epsilon: float = 1e-5,
    groups: int,
) -> tuple[Tensor, Tensor]:
    """GroupNorm of `x + skip + bias`, and the sum.

    `skip` has the shape of `x`, or one element for each channel of a sample.
    """
    if not channels_last:
        raise node.refuse("attribute 'channels_last' 0 is not supported")
    if skip.ndim == 2:
        skip = skip.unsqueeze(1).unsqueeze(1)
    total = x + skip if bias is None else x + skip + bias
    value = group_norm(
        node,
        total,
        gamma,
        beta,
        activation=activation,
        channels_last=channels_last,
        epsilon=epsilon,
        groups=groups,
    )
    return value, total


@operator("BiasAdd", domain=MICROSOFT)
def bias_add(x: Tensor, bias: Tensor, skip: Tensor) -> Tensor:
    """`x + bias + skip`."""
    return x + bias + skip


@operator("BiasSplitGelu", domain=MICROSOFT)
def bias_split_gelu(x: Tensor, bias: Tensor) -> Tensor:
    """First half of the channels of `x + bias`, times the GELU of the second half."""
    left, right = (x + bias).chunk(2, -1)
    return left * gelu(right)
