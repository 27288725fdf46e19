"""Binary cross-entropies of probabilities and of logits, for binary and multi-label targets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from svod_nn.losses._reduction import (
    Reduction,
    check_reduction,
    check_same_shape,
    loss_function,
    reduce_loss,
)
from svod_tensor import Tensor, custom_gradient

__all__ = ["binary_cross_entropy", "binary_cross_entropy_with_logits"]

_SMALLEST_LOG: Final = -100.0
"""Lower bound of logarithms, as in torch: a probability of 0 costs 100, not infinity."""

_SMALLEST_VARIANCE: Final = 1e-12
"""Lower bound of `p * (1 - p)` in the derivative, as in torch, which keeps it finite."""


@loss_function
def binary_cross_entropy(
    probability: Tensor,
    target: Tensor,
    *,
    weight: Tensor | None = None,
    reduction: Reduction = "mean",
) -> Tensor:
    """Binary cross-entropy, `-(target * log(p) + (1 - target) * log(1 - p))`.

    Logarithms are clamped to at least -100. Prefer `binary_cross_entropy_with_logits` to a sigmoid
    before this loss: probabilities near 1 are rounded. The derivative is `(p - target) / max(p * (1
    - p), 1e-12)`, which is large for a confident wrong prediction, and not 0 like the derivative of
    a clamped logarithm.

    Args:
        probability: probabilities in [0, 1], of any shape.
        target: targets in [0, 1], of the same shape.
        weight: weight of each element; broadcast to the shape of the loss.
        reduction: "mean", "sum" or "none". "mean" divides by the number of elements, not by the sum
            of the weights.

    Raises:
        LayerArgumentError: if the shapes differ, or the reduction is unknown.

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


@loss_function
def binary_cross_entropy_with_logits(
    logits: Tensor,
    target: Tensor,
    *,
    weight: Tensor | None = None,
    pos_weight: Tensor | None = None,
    reduction: Reduction = "mean",
) -> Tensor:
    """Binary cross-entropy of p = `sigmoid(logits)`,
    `-(target * log(p) + (1 - target) * log(1 - p))`, numerically stable for logits of any
    magnitude.

    Args:
        logits: logits of any shape.
        target: targets in [0, 1], of the same shape.
        weight: weight of each element; broadcast to the shape of the loss.
        pos_weight: weight of positive targets relative to negative ones; broadcast likewise.
        reduction: "mean", "sum" or "none". "mean" divides by the number of elements, not by the sum
            of the weights.

    Raises:
        LayerArgumentError: if the shapes differ, or the reduction is unknown.

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
    # The loss of a positive target is log(1 + exp(-x)), and the loss of a negative one is x more.
    cost = logits.neg().softplus()
    if pos_weight is not None:
        cost = cost.mul(target.mul(pos_weight.sub(1.0)).add(1.0))
    losses = target.neg().add(1.0).mul(logits).add(cost)
    return reduce_loss(losses if weight is None else losses.mul(weight), reduction)


@custom_gradient
def _get_cost(
    probability: Tensor, target: Tensor
) -> tuple[Tensor, Callable[[Tensor], tuple[Tensor, Tensor]]]:
    # A gradient of its own: the one through `maximum` is 0 for a bounded logarithm, so the worst
    # predictions would not be corrected.
    yes = probability.log().maximum(_SMALLEST_LOG)
    # log1p keeps the digits of small probabilities, which 1 - p would round away.
    no = probability.neg().log1p().maximum(_SMALLEST_LOG)

    def derive(cotangent: Tensor) -> tuple[Tensor, Tensor]:
        variance = probability.mul(probability.neg().add(1.0)).maximum(_SMALLEST_VARIANCE)
        return cotangent.mul(probability.sub(target).div(variance)), cotangent.mul(no.sub(yes))

    return target.mul(yes).add(target.neg().add(1.0).mul(no)).neg(), derive
