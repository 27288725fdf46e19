"""Cumulative functions by `associative_scan`."""

from __future__ import annotations

from svod_tensor._shapes import normalize_axis
from svod_tensor.loops.associative import associative_scan
from svod_tensor.ops.core.rounding import rounds_once
from svod_tensor.tensor import Tensor

__all__ = ["logcumsumexp"]


@rounds_once
def logcumsumexp(x: Tensor, axis: int | None = None) -> Tensor:
    """`log(cumsum(exp(x)))` without overflow, in the shape of `x`. Integers become float32.

    Args:
        x: tensor of any shape.
        axis: the axis to accumulate along; None flattens `x` first.

    Raises:
        AxisError: if there is no such axis.

    Example:
        >>> from svod_tensor import Tensor, logcumsumexp
        >>> logcumsumexp(Tensor([1000.0, 1000.0, -float("inf")])).round(2).numpy()
        array([1000.  , 1000.69, 1000.69], dtype=float32)
    """
    if axis is None:
        return logcumsumexp(x.flatten(), 0)
    axis = normalize_axis("logcumsumexp", axis, x.ndim)
    exponents = x if x.dtype.is_float else x.cast("float32")
    constants = exponents.detach()
    # 1, with the derivative of exp(x). The running maximum is detached: equal elements would share
    # its derivative.
    ones = exponents.isfinite().where(exponents.sub(constants), 0.0).exp()
    peak, total = associative_scan(_add_powers, (constants, ones), axis=axis)
    return peak.add(total.log())


def _add_powers(left: tuple[Tensor, Tensor], right: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """Sum of two sums of powers, each a pair of the largest exponent m and the sum divided by exp(m)."""
    (a, x), (b, y) = left, right
    is_first = a.ge(b)
    # The difference of two equal infinities would be NaN.
    scale = a.eq(b).where(0.0, a.sub(b).abs().neg()).exp()
    return a.maximum(b), is_first.where(x.add(y.mul(scale)), x.mul(scale).add(y))
