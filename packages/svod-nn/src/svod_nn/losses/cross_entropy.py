"""Losses of classes: what the probability of the right one costs."""

from __future__ import annotations

import math
from typing import Final

from svod_nn.errors import LayerArgumentError
from svod_nn.losses._reduction import Reduction, check_labels, check_reduction, rounds_once
from svod_tensor import Tensor

__all__ = ["IGNORED", "cross_entropy", "nll_loss"]

IGNORED: Final = -100
"""The label of positions that count for nothing."""


@rounds_once
def cross_entropy(
    logits: Tensor,
    target: Tensor,
    *,
    weight: Tensor | None = None,
    ignore_index: int = IGNORED,
    reduction: Reduction = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """`-log(softmax(logits))` of the right class, computed without the softmax.

    Args:
        logits: of shape (batch, classes, ...), or (classes,).
        target: the labels, integers of shape (batch, ...), or the probabilities of the classes, in
            the shape of `logits`. The loss of a label that is no class is NaN.
        weight: of each class, of shape (classes,).
        ignore_index: the label of positions that count for nothing; probabilities have none.
        reduction: with labels, "mean" divides by the weights of the labels, with probabilities by
            the number of positions.
        label_smoothing: the part of the probability that is shared equally among all classes.

    Returns:
        one number, or with "none" the loss of each position, (batch, ...). The mean over no labels
        is NaN.

    Raises:
        LayerArgumentError: if the target is neither integers nor floats of the shape of `logits`,
            something else does not fit, or there is no such reduction.

    Source: `torch.nn.functional.cross_entropy`, whose arguments these are.

    Example:
        >>> from svod_nn import cross_entropy
        >>> from svod_tensor import Tensor
        >>> cross_entropy(Tensor([[2.0, 0.0], [0.0, 0.0]]), Tensor([0, 1])).round(4).numpy()
        array(0.41, dtype=float32)
    """
    check_reduction("cross_entropy", reduction)
    if target.dtype.is_float and target.shape == logits.shape:
        return _of_probabilities(logits, target, weight, reduction, label_smoothing)
    axis = check_labels("cross_entropy", logits, target)
    below, total = _normalize(logits, axis)
    kept, labels = _read_labels(target, ignore_index)
    right = total.sub(_look_up(below, labels, axis))
    weights = _weigh(weight, labels, kept)
    losses = kept.where(right if weight is None else right.mul(weights), 0.0)
    if label_smoothing:
        # -log(p) summed over the classes.
        n_classes = logits.shape[axis]
        scale = _along(weight, below, axis)
        counts = total.mul(n_classes if scale is None else scale.sum())
        others = counts.sub((below if scale is None else below.mul(scale)).sum(axis))
        shared = others.div(n_classes).mul(label_smoothing)
        losses = losses.mul(1.0 - label_smoothing).add(kept.where(shared, 0.0))
    return _reduce(losses, weights, reduction)


@rounds_once
def nll_loss(
    log_probabilities: Tensor,
    target: Tensor,
    *,
    weight: Tensor | None = None,
    ignore_index: int = IGNORED,
    reduction: Reduction = "mean",
) -> Tensor:
    """Minus the log-probability of the right class, for what `log_softmax(1)` gives.

    Args:
        log_probabilities: of shape (batch, classes, ...), or (classes,).
        target: the labels, integers of shape (batch, ...). The loss of a label that is no class is
            NaN.
        weight: of each class, of shape (classes,).
        ignore_index: the label of positions that count for nothing.
        reduction: "mean" divides by the weights of the labels.

    Returns:
        one number, or with "none" the loss of each position, (batch, ...). The mean over no labels
        is NaN.

    Raises:
        LayerArgumentError: if the shapes do not fit, the labels are no integers, or there is no
            such reduction.

    Source: `torch.nn.functional.nll_loss`, whose arguments these are.

    Example:
        >>> from svod_nn import nll_loss
        >>> from svod_tensor import Tensor
        >>> nll_loss(Tensor([[-0.25, -1.5], [-2.0, -0.125]]), Tensor([0, 0]), reduction="none").tolist()
        [0.25, 2.0]
    """
    check_reduction("nll_loss", reduction)
    axis = check_labels("nll_loss", log_probabilities, target)
    kept, labels = _read_labels(target, ignore_index)
    right = _look_up(log_probabilities, labels, axis).neg()
    weights = _weigh(weight, labels, kept)
    return _reduce(
        kept.where(right if weight is None else right.mul(weights), 0.0), weights, reduction
    )


def _of_probabilities(
    logits: Tensor,
    target: Tensor,
    weight: Tensor | None,
    reduction: Reduction,
    label_smoothing: float,
) -> Tensor:
    if not logits.ndim:
        raise LayerArgumentError(name="cross_entropy", problem="the logits have no axis of classes")
    axis = 0 if logits.ndim == 1 else 1
    below, total = _normalize(logits, axis)
    costs = total.unsqueeze(axis).sub(below)
    scale = _along(weight, below, axis)
    costs = costs if scale is None else costs.mul(scale)
    if label_smoothing:
        even = Tensor(label_smoothing, dtype=logits.dtype).div(logits.shape[axis])
        target = target.mul(1.0 - label_smoothing).add(even)
    # A class that is impossible, and has no probability, costs nothing. Others have a derivative by
    # a probability of 0.
    losses = target.eq(0).logical_and(costs.isinf()).where(0.0, costs.mul(target)).sum(axis)
    return losses if reduction == "none" else losses.sum() if reduction == "sum" else losses.mean()


def _normalize(logits: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """How far each logit is below the largest, and the log of the sum of the exponentials of that,
    without the axis.

    The loss is their difference: that of the logits and their `logsumexp` would cancel where they
    are large. The largest is no part of the derivative, in which it cancels."""
    below = logits.sub(logits.detach().max(axis, keepdims=True))
    return below, below.exp().sum(axis).log()


def _read_labels(target: Tensor, ignore_index: int) -> tuple[Tensor, Tensor]:
    """Which labels count, and all labels, with 0 for those that do not."""
    kept = target.ne(ignore_index)
    return kept, kept.where(target, 0)


def _look_up(scores: Tensor, labels: Tensor, axis: int) -> Tensor:
    """The score of each label; NaN for one that is no class, which indexing would count from the
    end, or read as 0.
    """
    is_class = labels.ge(0).logical_and(labels.lt(scores.shape[axis]))
    return is_class.where(
        scores.take_along_axis(labels.unsqueeze(axis), axis).squeeze(axis), math.nan
    )


def _weigh(weight: Tensor | None, labels: Tensor, kept: Tensor) -> Tensor:
    """The weight of each label: 0 for one that does not count."""
    return kept if weight is None else kept.where(weight.take(labels, 0), 0.0)


def _along(weight: Tensor | None, scores: Tensor, axis: int) -> Tensor | None:
    return None if weight is None else weight.reshape(-1, *(1,) * (scores.ndim - axis - 1))


def _reduce(losses: Tensor, weights: Tensor, reduction: Reduction) -> Tensor:
    if reduction == "none":
        return losses
    return losses.sum() if reduction == "sum" else losses.sum().div(weights.sum())
