"""Losses of classifiers."""

from __future__ import annotations

from svod_onnx._registry import operator
from svod_tensor import Tensor

__all__ = ["negative_log_likelihood_loss", "softmax_cross_entropy_loss"]


@operator("NegativeLogLikelihoodLoss")
def negative_log_likelihood_loss(
    input: Tensor,
    target: Tensor,
    weights: Tensor | None = None,
    *,
    ignore_index: int | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The negative logarithms at the labels, along the second axis; those of `ignore_index` do not
    count.

    The mean is weighted.
    """
    whole = target.cast("int64")
    counts = None if ignore_index is None else whole != ignore_index
    places = whole if counts is None else counts.where(whole, 0)
    found = -input.take_along_axis(places.unsqueeze(1), 1).squeeze(1)
    weight = (
        Tensor.full(places.shape, 1, dtype=input.dtype)
        if weights is None
        else weights.take(places, 0)
    )
    if counts is not None:
        weight = counts.where(weight, 0)
    losses = found * weight
    match reduction:
        case "none":
            return losses.cast(input.dtype)
        case "sum":
            return losses.sum().cast(input.dtype)
        case "mean":
            return (losses.sum() / weight.sum()).cast(input.dtype)
        case _:
            raise ValueError(f"has no reduction {reduction!r}; there are none, sum and mean")


@operator("SoftmaxCrossEntropyLoss")
def softmax_cross_entropy_loss(
    scores: Tensor,
    labels: Tensor,
    weights: Tensor | None = None,
    *,
    ignore_index: int | None = None,
    reduction: str = "mean",
) -> tuple[Tensor, Tensor]:
    """The loss, and the logarithms of the probabilities."""
    logarithms = scores.log_softmax(1)
    return negative_log_likelihood_loss(
        logarithms, labels, weights, ignore_index=ignore_index, reduction=reduction
    ), logarithms
