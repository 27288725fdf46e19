"""Losses of two classes, or of several that exclude nothing: cross-entropies of a probability, or
of its logit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from svod_nn.losses._reduction import (
    Reduction,
    check_reduction,
    check_same_shape,
    reduce_loss,
    rounds_once,
)
from svod_tensor import Tensor, custom_gradient

__all__ = ["binary_cross_entropy", "binary_cross_entropy_with_logits"]

_SMALLEST_LOG: Final = -100.0
"""Where torch bounds the logarithm of a probability, so that a probability of 0 costs 100."""

_SMALLEST_VARIANCE: Final = 1e-12
"""What it divides by at least in the derivative, which is finite so."""


@rounds_once
def binary_cross_entropy(
    probability: Tensor,
    target: Tensor,
    *,
    weight: Tensor | None = None,
    reduction: Reduction = "mean",
) -> Tensor:
    """`-(target * log(p) + (1 - target) * log(1 - p))`, of logarithms that are at least -100.

    What comes from a sigmoid is better given as logits: probabilities near 1 have lost what the
    loss depends on. The derivative is `(p - target) / max(p * (1 - p), 1e-12)`: large where a
    prediction is certain and wrong, not 0 as that of a bounded logarithm.

    Args:
        probability: in [0, 1], of any shape.
        target: in [0, 1], of the same shape.
        weight: of each element; it broadcasts.
        reduction: "mean" divides by the number of elements, whatever their weights.

    Raises:
        LayerArgumentError: if the shapes differ, or there is no such reduction.

    Source: `torch.nn.functional.binary_cross_entropy`.

    Example:
        >>> from svod_nn import binary_cross_entropy
        >>> from svod_tensor import Tensor
        >>> binary_cross_entropy(Tensor([0.5, 0.0]), Tensor([1.0, 1.0]), reduction="none").round(4).numpy()
        array([  0.6931, 100.    ], dtype=float32)
    """
    check_reduction("binary_cross_entropy", reduction)
    check_same_shape("binary_cross_entropy", probability, target)
    losses: Tensor = _get_cost(probability, target)
    return reduce_loss(losses if weight is None else losses.mul(weight), reduction)


@rounds_once
def binary_cross_entropy_with_logits(
    logits: Tensor,
    target: Tensor,
    *,
    weight: Tensor | None = None,
    pos_weight: Tensor | None = None,
    reduction: Reduction = "mean",
) -> Tensor:
    """`binary_cross_entropy` of `sigmoid(logits)`, accurate for logits of any size.

    Args:
        logits: of any shape.
        target: in [0, 1], of the same shape.
        weight: of each element; it broadcasts.
        pos_weight: how much more a positive target counts than a negative one; it broadcasts.
        reduction: "mean" divides by the number of elements, whatever their weights.

    Raises:
        LayerArgumentError: if the shapes differ, or there is no such reduction.

    Source: `torch.nn.functional.binary_cross_entropy_with_logits`.

    Example:
        >>> from svod_nn import binary_cross_entropy_with_logits
        >>> from svod_tensor import Tensor
        >>> logits, target = Tensor([0.0, 1000.0, -1000.0]), Tensor([1.0, 1.0, 1.0])
        >>> binary_cross_entropy_with_logits(logits, target, reduction="none").round(4).numpy()
        array([6.931e-01, 0.000e+00, 1.000e+03], dtype=float32)
    """
    check_reduction("binary_cross_entropy_with_logits", reduction)
    check_same_shape("binary_cross_entropy_with_logits", logits, target)
    # log(1 + exp(-x)): what a positive target costs. A negative one costs that and x.
    cost = logits.neg().softplus()
    if pos_weight is not None:
        cost = cost.mul(target.mul(pos_weight.sub(1.0)).add(1.0))
    losses = target.neg().add(1.0).mul(logits).add(cost)
    return reduce_loss(losses if weight is None else losses.mul(weight), reduction)


@custom_gradient
def _get_cost(
    probability: Tensor, target: Tensor
) -> tuple[Tensor, Callable[[Tensor], tuple[Tensor, Tensor]]]:
    yes = probability.log().maximum(_SMALLEST_LOG)
    no = probability.neg().log1p().maximum(_SMALLEST_LOG)

    def derive(cotangent: Tensor) -> tuple[Tensor, Tensor]:
        variance = probability.mul(probability.neg().add(1.0)).maximum(_SMALLEST_VARIANCE)
        return cotangent.mul(probability.sub(target).div(variance)), cotangent.mul(no.sub(yes))

    return target.mul(yes).add(target.neg().add(1.0).mul(no)).neg(), derive
