"""Cross-entropy and negative log-likelihood, for classification."""

from __future__ import annotations

import math
from typing import Final

from svod_nn.errors import LayerArgumentError
from svod_nn.losses._reduction import Reduction, check_labels, check_reduction, loss_function
from svod_tensor import Tensor

__all__ = ["IGNORED", "cross_entropy", "nll_loss"]

IGNORED: Final = -100
"""Default label of positions that are ignored, as in torch."""


@loss_function
def cross_entropy(
    logits: Tensor,
    target: Tensor,
    *,
    weight: Tensor | None = None,
    ignore_index: int = IGNORED,
    reduction: Reduction = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """Cross-entropy between logits and labels or class probabilities, `-log(softmax(logits))`.

    Args:
        logits: unnormalized scores, of shape (batch, classes, ...), or (classes,).
        target: class labels, integers of shape (batch, ...), or class probabilities, floats of the
            shape of `logits`. The loss of a label that is out of range is NaN.
        weight: weight of each class, of shape (classes,).
        ignore_index: label of positions that do not contribute to the loss; only with labels.
        reduction: "mean", "sum" or "none". "mean" divides by the sum of the weights of the labels,
            or with probabilities by the number of positions.
        label_smoothing: fraction of the target probability that is spread uniformly over all
            classes.

    Returns:
        a 0-d tensor, or with "none" the loss of each position, of shape (batch, ...). The mean is
        NaN if all labels are ignored.

    Raises:
        LayerArgumentError: if the target is neither integers nor floats of the shape of `logits`,
            the shapes do not match, or the reduction is unknown.

    Source: `torch.nn.functional.cross_entropy`, whose arguments these are.

    Example:
        >>> from svod_nn import cross_entropy
        >>> from svod_tensor import Tensor
        >>> cross_entropy(Tensor([[2.0, 0.0], [0.0, 0.0]]), Tensor([0, 1])).round(4).numpy()
        array(0.41, dtype=float32)
    """
    check_reduction("cross_entropy", reduction)
    if target.dtype.is_float and target.shape == logits.shape:
        return _cross_entropy_of_probabilities(logits, target, weight, reduction, label_smoothing)
    axis = check_labels("cross_entropy", logits, target)
    shifted, log_sum = _shift_logits(logits, axis)
    kept, labels = _mask_ignored(target, ignore_index)
    nll = log_sum.sub(_gather_scores(shifted, labels, axis))
    weights = _gather_weights(weight, labels, kept)
    # Chosen rather than multiplied by 0: an infinite loss of an ignored label would give NaN.
    losses = kept.where(nll if weight is None else nll.mul(weights), 0.0)
    if label_smoothing:
        # The uniform part of the target: the weighted mean of -log(p) over the classes.
        n_classes = logits.shape[axis]
        class_weight = _broadcast_weight(weight, shifted, axis)
        log_sums = log_sum.mul(n_classes if class_weight is None else class_weight.sum())
        weighted = shifted if class_weight is None else shifted.mul(class_weight)
        smooth = log_sums.sub(weighted.sum(axis)).div(n_classes).mul(label_smoothing)
        losses = losses.mul(1.0 - label_smoothing).add(kept.where(smooth, 0.0))
    return _reduce(losses, weights, reduction)


@loss_function
def nll_loss(
    log_probabilities: Tensor,
    target: Tensor,
    *,
    weight: Tensor | None = None,
    ignore_index: int = IGNORED,
    reduction: Reduction = "mean",
) -> Tensor:
    """Negative log-likelihood loss, `-log_probabilities[label]`, for log-probabilities such as
    `log_softmax(1)` returns.

    Args:
        log_probabilities: log-probabilities of shape (batch, classes, ...), or (classes,).
        target: class labels, integers of shape (batch, ...). The loss of a label that is out of
            range is NaN.
        weight: weight of each class, of shape (classes,).
        ignore_index: label of positions that do not contribute to the loss.
        reduction: "mean", "sum" or "none". "mean" divides by the sum of the weights of the labels.

    Returns:
        a 0-d tensor, or with "none" the loss of each position, of shape (batch, ...). The mean is
        NaN if all labels are ignored.

    Raises:
        LayerArgumentError: if the shapes do not match, the labels are not integers, or the
            reduction is unknown.

    Source: `torch.nn.functional.nll_loss`, whose arguments these are.

    Example:
        >>> from svod_nn import nll_loss
        >>> from svod_tensor import Tensor
        >>> nll_loss(Tensor([[-0.25, -1.5], [-2.0, -0.125]]), Tensor([0, 0]), reduction="none").tolist()
        [0.25, 2.0]
    """
    check_reduction("nll_loss", reduction)
    axis = check_labels("nll_loss", log_probabilities, target)
    kept, labels = _mask_ignored(target, ignore_index)
    nll = _gather_scores(log_probabilities, labels, axis).neg()
    weights = _gather_weights(weight, labels, kept)
    losses = kept.where(nll if weight is None else nll.mul(weights), 0.0)
    return _reduce(losses, weights, reduction)


def _cross_entropy_of_probabilities(
    logits: Tensor,
    target: Tensor,
    weight: Tensor | None,
    reduction: Reduction,
    label_smoothing: float,
) -> Tensor:
    if not logits.ndim:
        raise LayerArgumentError(name="cross_entropy", problem="the logits have no class axis")
    axis = 0 if logits.ndim == 1 else 1
    shifted, log_sum = _shift_logits(logits, axis)
    nll = log_sum.unsqueeze(axis).sub(shifted)
    class_weight = _broadcast_weight(weight, shifted, axis)
    nll = nll if class_weight is None else nll.mul(class_weight)
    if label_smoothing:
        uniform = Tensor(label_smoothing, dtype=logits.dtype).div(logits.shape[axis])
        target = target.mul(1.0 - label_smoothing).add(uniform)
    # 0 * inf is 0 for a class with logit -inf and target 0. Only there: elsewhere a target of 0
    # needs its derivative.
    losses = target.eq(0).logical_and(nll.isinf()).where(0.0, nll.mul(target)).sum(axis)
    return losses if reduction == "none" else losses.sum() if reduction == "sum" else losses.mean()


def _shift_logits(logits: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """Return the logits minus their maximum, and the log-sum-exp of that along the axis.

    The loss is computed from these two: the difference of large logits and their `logsumexp` would
    cancel. The maximum is detached, because its derivative cancels."""
    # The exponentials of shifted logits cannot overflow. The maximum cancels out of the result, so
    # it needs no derivative.
    shifted = logits.sub(logits.detach().max(axis, keepdims=True))
    return shifted, shifted.exp().sum(axis).log()


def _mask_ignored(target: Tensor, ignore_index: int) -> tuple[Tensor, Tensor]:
    """Return the mask of labels that are not ignored, and the labels with 0 for the ignored."""
    kept = target.ne(ignore_index)
    # The ignored label may be outside of the classes; class 0 is read instead.
    return kept, kept.where(target, 0)


def _gather_scores(scores: Tensor, labels: Tensor, axis: int) -> Tensor:
    """Gather the score of each label; NaN for a label that is out of range.

    Plain indexing would count negative labels from the end, and read 0 beyond it.
    """
    is_class = labels.ge(0).logical_and(labels.lt(scores.shape[axis]))
    # A label that is no class gives NaN: values are not known here, and a wrong loss would go
    # unnoticed.
    return is_class.where(
        scores.take_along_axis(labels.unsqueeze(axis), axis).squeeze(axis), math.nan
    )


def _gather_weights(weight: Tensor | None, labels: Tensor, kept: Tensor) -> Tensor:
    """Gather the class weight of each label; 0 for ignored labels."""
    return kept if weight is None else kept.where(weight.take(labels, 0), 0.0)


def _broadcast_weight(weight: Tensor | None, scores: Tensor, axis: int) -> Tensor | None:
    return None if weight is None else weight.reshape(-1, *(1,) * (scores.ndim - axis - 1))


def _reduce(losses: Tensor, weights: Tensor, reduction: Reduction) -> Tensor:
    if reduction == "none":
        return losses
    # As in torch, the mean is weighted: ignored labels do not dilute it.
    return losses.sum() if reduction == "sum" else losses.sum().div(weights.sum())
