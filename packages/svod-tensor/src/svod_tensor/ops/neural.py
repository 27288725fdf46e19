"""Functions of neural networks: activations, normalisations, attention, embedding.

Narrow floats (float16, bfloat16, float8) are computed in float32 and rounded once; results keep
the dtype of the input.
"""

from __future__ import annotations

import math
from typing import Self, TypeVar

from svod_dtype import float32, promote_types
from svod_ir.errors import OperandError, ShapeError
from svod_tensor.ops.naming import operations
from svod_tensor.ops.products import Products
from svod_tensor.ops.rounding import accumulation_dtype, rounds_once
from svod_tensor.shapes import Axes, concrete_shape, normalize_axis

__all__ = ["Neural"]

T = TypeVar("T", bound="Neural")

_SQRT_HALF = 1.0 / math.sqrt(2.0)
_SQRT_2_OVER_PI = math.sqrt(2.0 / math.pi)


@operations
class Neural(Products):
    """Activations, normalisations, attention, embedding."""

    __slots__ = ()

    def relu(self) -> Self:
        """`max(x, 0)`; NaN stays NaN."""
        return self.maximum(0)

    def relu6(self) -> Self:
        return self.clip(0, 6)

    @rounds_once
    def leaky_relu(self, slope: float = 0.01) -> Self:
        return self.lt(0).where(self.mul(slope), self)

    @rounds_once
    def elu(self, alpha: float = 1.0) -> Self:
        x = self._to_float()
        return x.gt(0).where(x, x.minimum(0.0).expm1().mul(alpha))

    @rounds_once
    def selu(self) -> Self:
        """Source: Klambauer et al., Self-Normalizing Neural Networks (2017), equation 2."""
        return self.elu(1.6732632423543772).mul(1.0507009873554805)

    @rounds_once
    def silu(self) -> Self:
        """`x * sigmoid(x)`."""
        return self._to_float().mul(self.sigmoid())

    swish = silu

    @rounds_once
    def gelu(self, approximate: str = "none") -> Self:
        """`x * Phi(x)`: exactly (`"none"`, by erf), or by the formula with tanh (`"tanh"`).

        Source: Hendrycks and Gimpel, Gaussian Error Linear Units (2016), section 2.
        """
        x = self._to_float()
        if approximate == "none":
            return x.mul(x.mul(_SQRT_HALF).erf().add(1)).mul(0.5)
        if approximate == "tanh":
            # (1 + tanh(a)) / 2 is sigmoid(2 a), in which nothing cancels.
            return x.mul(x.add(x.mul(x).mul(x).mul(0.044715)).mul(2 * _SQRT_2_OVER_PI).sigmoid())
        raise OperandError(operation="gelu", found=repr(approximate), expected='"none" or "tanh"')

    @rounds_once
    def softplus(self, beta: float = 1.0) -> Self:
        """`log(1 + exp(beta * x)) / beta` without overflow."""
        x = self._to_float().mul(beta)
        return x.maximum(0.0).add(x.abs().neg().exp().log1p()).div(beta)

    @rounds_once
    def mish(self) -> Self:
        return self._to_float().mul(self.softplus().tanh())

    @rounds_once
    def hardsigmoid(self) -> Self:
        return self._to_float().add(3).clip(0, 6).div(6)

    @rounds_once
    def hardswish(self) -> Self:
        return self._to_float().mul(self.hardsigmoid())

    @rounds_once
    def softsign(self) -> Self:
        x = self._to_float()
        return x.div(x.abs().add(1))

    @rounds_once
    def glu(self, axis: int = -1) -> Self:
        """The first half of `axis`, gated by the sigmoid of the second."""
        axis = normalize_axis("glu", axis, self.ndim)
        (size,) = concrete_shape("glu", (self.shape[axis],))
        if size % 2:
            raise ShapeError(operation="glu", shape=self.shape, problem=f"has the odd size {size} on axis {axis}")
        left, right = self.chunk(2, axis)
        return left.mul(right.sigmoid())

    @rounds_once
    def softmax(self, axis: int = -1) -> Self:
        """`exp(x)`, scaled to a sum of 1 along `axis`."""
        x = self._to_float()
        power = x.sub(x.max(axis, keepdims=True)).exp()
        return power.div(power.sum(axis, keepdims=True))

    @rounds_once
    def log_softmax(self, axis: int = -1) -> Self:
        """`log(softmax(x))`, accurate where the softmax is near 0."""
        x = self._to_float()
        shifted = x.sub(x.max(axis, keepdims=True))
        return shifted.sub(shifted.exp().sum(axis, keepdims=True).log())

    @rounds_once
    def layernorm(
        self, axis: Axes = -1, eps: float = 1e-5, weight: Self | None = None, bias: Self | None = None
    ) -> Self:
        """Mean 0 and variance 1 over `axis`, then `* weight + bias`."""
        x = self._to_float()
        centred = x.sub(x.mean(axis, keepdims=True))
        return _affine(centred.mul(centred.square().mean(axis, keepdims=True).add(eps).rsqrt()), weight, bias)

    @rounds_once
    def rms_norm(self, axis: Axes = -1, eps: float = 1e-6, weight: Self | None = None) -> Self:
        """Mean square 1 over `axis`, then `* weight`."""
        x = self._to_float()
        return _affine(x.mul(x.square().mean(axis, keepdims=True).add(eps).rsqrt()), weight, None)

    @rounds_once
    def group_norm(
        self, n_groups: int, eps: float = 1e-5, weight: Self | None = None, bias: Self | None = None
    ) -> Self:
        """`layernorm` over each of `n_groups` groups of channels, for a tensor of shape (batch, channels, ...)."""
        if self.ndim < 2:
            raise ShapeError(operation="group_norm", shape=self.shape, problem="has no axes of a batch and of channels")
        (channels,) = concrete_shape("group_norm", self.shape[1:2])
        if n_groups < 1 or channels % n_groups:
            raise ShapeError(
                operation="group_norm",
                shape=self.shape,
                problem=f"has {channels} channels, which {n_groups} groups do not divide",
            )
        normal = self.reshape(self.shape[0], n_groups, -1).layernorm(-1, eps).reshape(self.shape)
        aligned = [p if p is None else p.reshape(1, channels, *(1,) * (self.ndim - 2)) for p in (weight, bias)]
        return _affine(normal, *aligned)

    @rounds_once
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
        if not weight.ndim:
            raise ShapeError(operation="embedding", shape=weight.shape, problem="has no rows")
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

        A query that may look at no key gives zeros. Of float16 and bfloat16 the weights are rounded once more: they are an
        operand of the second product, and matrix units take such alone.
        """
        for operand in (self, key, value):
            if operand.ndim < 2:
                raise ShapeError(
                    operation="scaled_dot_product_attention", shape=operand.shape,
                    problem="has no axes of positions and of features",
                )  # fmt: skip
        (depth,) = concrete_shape("scaled_dot_product_attention", self.shape[-1:])
        factor = 1.0 / math.sqrt(depth) if scale is None else scale
        kind = promote_types(promote_types(self.dtype, key.dtype), value.dtype)
        kind = kind if kind.is_float else float32
        scores = self.matmul(key.transpose(-2, -1), dtype=accumulation_dtype(kind)).mul(factor)
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
        operand = weights.cast(kind) if kind.itemsize > 1 else weights
        return operand.matmul(value, dtype=accumulation_dtype(kind)).cast(kind)


def _affine(normal: T, weight: T | None, bias: T | None) -> T:
    scaled = normal if weight is None else normal.mul(weight)
    return scaled if bias is None else scaled.add(bias)
