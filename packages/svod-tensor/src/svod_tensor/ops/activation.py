"""Activations of neural networks.

Narrow floats (float16, bfloat16, float8) are computed in float32 and rounded once; results keep
the dtype of the input.
"""

from __future__ import annotations

import math
from typing import Self

from svod_ir.errors import OperandError, ShapeError
from svod_tensor.ops.naming import operations
from svod_tensor.ops.rounding import rounds_once
from svod_tensor.ops.theme import Theme
from svod_tensor.shapes import concrete_shape, normalize_axis

__all__ = ["Activation"]


_SQRT_HALF = 1.0 / math.sqrt(2.0)


_SQRT_2_OVER_PI = math.sqrt(2.0 / math.pi)


@operations
class Activation(Theme):
    """Activations."""

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
