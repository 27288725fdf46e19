"""Entropies and products with logarithms, with their limits at the boundary of the domain."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from svod_tensor.ops.core.operands import first_operand, promote_to_float, to_tensor
from svod_tensor.ops.core.rounding import rounds_once

if TYPE_CHECKING:
    from svod_tensor.ops.core.base import Operand
    from svod_tensor.tensor import Tensor

__all__ = ["entr", "kl_div", "log_expit", "rel_entr", "xlog1py"]


def entr(x: Operand, /) -> Tensor:
    """`-x * log(x)` of positive elements, 0 at 0, and -inf below. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.special.entr([0.0, 1.0, -1.0]).tolist()
        [0.0, 0.0, -inf]
    """
    return _entropy(to_tensor(x))


def rel_entr(x: Operand, y: Operand, /) -> Tensor:
    """`x * log(x / y)` of positive elements, 0 where `x` is 0 and `y` is not negative, and inf
    elsewhere.

    Shapes broadcast and dtypes promote; integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.special.rel_entr([1.0, 0.0, -1.0], [1.0, 2.0, 1.0]).tolist()
        [0.0, 0.0, inf]
    """
    return _relative_entropy(*_to_pair(x, y))


def kl_div(x: Operand, y: Operand, /) -> Tensor:
    """`x * log(x / y) - x + y` of positive elements, `y` where `x` is 0 and `y` is not negative,
    and inf elsewhere.

    Shapes broadcast and dtypes promote; integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.special.kl_div([1.0, 0.0, -1.0], [1.0, 2.0, 1.0]).tolist()
        [0.0, 2.0, inf]
    """
    return _divergence(*_to_pair(x, y))


def xlog1py(x: Operand, y: Operand, /) -> Tensor:
    """`x * log(1 + y)`, and 0 where `x` is 0 unless `y` is NaN. Shapes broadcast and dtypes
    promote; integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.special.xlog1py([0.0, 2.0], [-1.0, 0.0]).tolist()
        [0.0, 0.0]
    """
    return _multiply_log1p(*_to_pair(x, y))


def log_expit(x: Operand, /) -> Tensor:
    """`log(1 / (1 + exp(-x)))` without overflow. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.special.log_expit([1000.0, -1000.0]).tolist()
        [0.0, -1000.0]
    """
    return to_tensor(x).neg().softplus().neg()


def _to_pair(x: Operand, y: Operand) -> tuple[Tensor, Tensor]:
    return promote_to_float(first_operand(x, y), y)


@rounds_once
def _entropy(x: Tensor) -> Tensor:
    return x.lt(0).where(-math.inf, x.xlogy(x).neg())


@rounds_once
def _relative_entropy(x: Tensor, y: Tensor) -> Tensor:
    is_positive = x.gt(0).logical_and(y.gt(0))
    # Other elements get their values below; here they must not make NaN in derivatives.
    a, b = is_positive.where(x, 1.0), is_positive.where(y, 1.0)
    ratio = a.div(b)
    # Near 1 the quotient cancels, and log1p of the difference does not. A quotient that overflows or
    # underflows still has a logarithm, as a difference of logarithms.
    near = a.sub(b).div(b).log1p()
    far = a.log().sub(b.log())
    is_near, is_normal = (
        ratio.gt(0.5).logical_and(ratio.lt(2)),
        ratio.gt(1e-30).logical_and(ratio.lt(1e30)),
    )
    logarithm = is_near.where(near, is_normal.where(ratio.log(), far))
    return _with_borders(x, y, a.mul(logarithm), y.zeros_like())


@rounds_once
def _divergence(x: Tensor, y: Tensor) -> Tensor:
    return _with_borders(x, y, _relative_entropy(x, y).sub(x).add(y), y)


def _with_borders(x: Tensor, y: Tensor, inside: Tensor, at_zero: Tensor) -> Tensor:
    """`inside` for positive elements, and the values of the entropies elsewhere."""
    is_positive = x.gt(0).logical_and(y.gt(0))
    is_zero = x.eq(0).logical_and(y.ge(0))
    outside = is_zero.where(at_zero, x.isnan().logical_or(y.isnan()).where(math.nan, math.inf))
    return is_positive.where(inside, outside)


@rounds_once
def _multiply_log1p(x: Tensor, y: Tensor) -> Tensor:
    value = x.mul(y.log1p())
    return x.eq(0).logical_and(y.isnan().logical_not()).where(0.0, value)
