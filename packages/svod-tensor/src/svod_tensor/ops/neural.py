"""Functions of neural networks: activations, normalisations, attention, embedding.

Statistics of narrow floats (float16, bfloat16, float8) are computed in float32, and results keep
the dtype of the input.
"""

from __future__ import annotations

import math
from typing import Self, TypeVar

from svod_ir.errors import OperandError, ShapeError
from svod_tensor.ops.products import Products
from svod_tensor.ops.reduction import accumulation_dtype
from svod_tensor.shapes import Axes, concrete_shape

__all__ = ["Neural"]

T = TypeVar("T", bound="Neural")

_SQRT_HALF = 1.0 / math.sqrt(2.0)
_SQRT_2_OVER_PI = math.sqrt(2.0 / math.pi)


class Neural(Products):
    """Activations, normalisations, attention, embedding."""

    __slots__ = ()

    def relu(self) -> Self:
        """`max(x, 0)`; NaN stays NaN."""
        return self.maximum(0)

    def relu6(self) -> Self:
        return self.clip(0, 6)

    def leaky_relu(self, slope: float = 0.01) -> Self:
        return self.lt(0).where(self.mul(slope), self)

    def elu(self, alpha: float = 1.0) -> Self:
        x = self._to_float()
        return x.gt(0).where(x, x.minimum(0.0).expm1().mul(alpha))

    def selu(self) -> Self:
        """Source: Klambauer et al., Self-Normalizing Neural Networks (2017), equation 2."""
        return self.elu(1.6732632423543772).mul(1.0507009873554805)

    def silu(self) -> Self:
        """`x * sigmoid(x)`."""
        return self._to_float().mul(self.sigmoid())

    swish = silu

    def gelu(self, approximate: str = "none") -> Self:
        """`x * Phi(x)`: exactly (`"none"`, by erf), or by the formula with tanh (`"tanh"`).

        Source: Hendrycks and Gimpel, Gaussian Error Linear Units (2016), section 2.
        """
        x = self._to_float()
        if approximate == "none":
            return x.mul(x.mul(_SQRT_HALF).erf().add(1)).mul(0.5)
        if approximate == "tanh":
            inner = x.add(x.mul(x).mul(x).mul(0.044715)).mul(_SQRT_2_OVER_PI)
            return x.mul(inner.tanh().add(1)).mul(0.5)
        raise OperandError(operation="gelu", found=repr(approximate), expected='"none" or "tanh"')

    def softplus(self, beta: float = 1.0) -> Self:
        """`log(1 + exp(beta * x)) / beta` without overflow."""
        x = self._to_float().mul(beta)
        return x.maximum(0.0).add(x.abs().neg().exp().log1p()).div(beta)

    def mish(self) -> Self:
        return self._to_float().mul(self.softplus().tanh())

    def hardsigmoid(self) -> Self:
        return self._to_float().add(3).clip(0, 6).div(6)

    def hardswish(self) -> Self:
        return self._to_float().mul(self.hardsigmoid())

    def softsign(self) -> Self:
        x = self._to_float()
        return x.div(x.abs().add(1))

    def glu(self, axis: int = -1) -> Self:
        """The first half of `axis`, gated by the sigmoid of the second."""
        (size,) = concrete_shape("glu", (self.shape[axis],))
        if size % 2:
            raise ShapeError(operation="glu", shape=self.shape, problem=f"has the odd size {size} on axis {axis}")
        left, right = self.chunk(2, axis)
        return left.mul(right.sigmoid())

    def softmax(self, axis: int = -1) -> Self:
        """`exp(x)`, scaled to a sum of 1 along `axis`."""
        x = self._to_float()
        wide = x.cast(accumulation_dtype(x.dtype))
        power = wide.sub(wide.max(axis, keepdims=True)).exp()
        return power.div(power.sum(axis, keepdims=True)).cast(x.dtype)

    def log_softmax(self, axis: int = -1) -> Self:
        """`log(softmax(x))`, accurate where the softmax is near 0."""
        x = self._to_float()
        wide = x.cast(accumulation_dtype(x.dtype))
        shifted = wide.sub(wide.max(axis, keepdims=True))
        return shifted.sub(shifted.exp().sum(axis, keepdims=True).log()).cast(x.dtype)

    def layernorm(
        self, axis: Axes = -1, eps: float = 1e-5, weight: Self | None = None, bias: Self | None = None
    ) -> Self:
        """Mean 0 and variance 1 over `axis`, then `* weight + bias`."""
        x = self._to_float()
        wide = x.cast(accumulation_dtype(x.dtype))
        centred = wide.sub(wide.mean(axis, keepdims=True))
        normal = centred.mul(centred.square().mean(axis, keepdims=True).add(eps).rsqrt()).cast(x.dtype)
        return _affine(normal, weight, bias)

    def rms_norm(self, axis: Axes = -1, eps: float = 1e-6, weight: Self | None = None) -> Self:
        """Mean square 1 over `axis`, then `* weight`."""
        x = self._to_float()
        wide = x.cast(accumulation_dtype(x.dtype))
        normal = wide.mul(wide.square().mean(axis, keepdims=True).add(eps).rsqrt()).cast(x.dtype)
        return _affine(normal, weight, None)

    def group_norm(
        self, n_groups: int, eps: float = 1e-5, weight: Self | None = None, bias: Self | None = None
    ) -> Self:
        """`layernorm` over each of `n_groups` groups of channels, for a tensor of shape (batch, channels, ...)."""
        channels, *_ = concrete_shape("group_norm", self.shape[1:2])
        if channels % n_groups:
            raise ShapeError(
                operation="group_norm",
                shape=self.shape,
                problem=f"has {channels} channels, which {n_groups} groups do not divide",
            )
        normal = self.reshape(self.shape[0], n_groups, -1).layernorm(-1, eps).reshape(self.shape)
        aligned = [p if p is None else p.reshape(1, channels, *(1,) * (self.ndim - 2)) for p in (weight, bias)]
        return _affine(normal, *aligned)

    def batchnorm(
        self, mean: Self, variance: Self, weight: Self | None = None, bias: Self | None = None, eps: float = 1e-5
    ) -> Self:
        """Normalisation with given statistics for each channel, for a tensor of shape (batch, channels, ...)."""
        shape = (1, -1, *(1,) * (self.ndim - 2))
        scale = variance.add(eps).rsqrt()
        scale = scale if weight is None else scale.mul(weight)
        shifted = self.sub(mean.reshape(shape)).mul(scale.reshape(shape))
        return shifted if bias is None else shifted.add(bias.reshape(shape))

    def embedding(self, weight: Self) -> Self:
        """The rows of `weight` that this integer tensor names; a position out of range reads as zeros."""
        if not self.dtype.is_int:
            raise OperandError(operation="embedding", found=self.dtype, expected="integer positions")
        return weight._take(self, 0, "embedding")

    def scaled_dot_product_attention(
        self, key: Self, value: Self, mask: Self | None = None, *, is_causal: bool = False, scale: float | None = None
    ) -> Self:
        """`softmax(q @ k.T * scale + mask) @ v`, with this tensor as the queries of shape (..., n, d).

        Args:
            key: of shape (..., m, d).
            value: of shape (..., m, e).
            mask: bool, True where a query may look at a key, or numbers that are added; of shape (..., n, m).
            is_causal: whether query i sees only keys 0 to i.
            scale: by default `1 / sqrt(d)`.

        A query that may look at no key gives zeros.
        """
        (depth,) = concrete_shape("scaled_dot_product_attention", self.shape[-1:])
        factor = 1.0 / math.sqrt(depth) if scale is None else scale
        scores = self.matmul(key.transpose(-2, -1), dtype=accumulation_dtype(self.dtype)).mul(factor)
        allowed = mask if mask is not None and mask.dtype.is_bool else None
        if is_causal:
            causal = self.ones(*scores.shape[-2:], dtype="bool").tril()
            allowed = causal if allowed is None else allowed.logical_and(causal)
        if mask is not None and not mask.dtype.is_bool:
            scores = scores.add(mask)
        if allowed is not None:
            scores = allowed.where(scores, -math.inf)
            # A row without any allowed key would be NaN; it weighs nothing instead.
            peak = scores.max(-1, keepdims=True)
            power = scores.sub(peak.isfinite().where(peak, 0.0)).exp()
            total = power.sum(-1, keepdims=True)
            weights = power.div(total.eq(0).where(1.0, total))
        else:
            weights = scores.softmax(-1)
        return weights.cast(self.dtype).matmul(value)


def _affine(normal: T, weight: T | None, bias: T | None) -> T:
    scaled = normal if weight is None else normal.mul(weight)
    return scaled if bias is None else scaled.add(bias)
