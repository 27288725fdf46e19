"""Classification losses."""

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
    """Weighted negative log likelihood of the targets, with classes along axis 1.

    Targets equal to `ignore_index` do not count. The mean divides by the sum of the weights.
    """
    classes = target.cast("int64")
    is_counted = None if ignore_index is None else classes != ignore_index
    # `ignore_index` may be out of bounds, so gather index 0 instead.
    indices = classes if is_counted is None else is_counted.where(classes, 0)
    log_losses = -input.take_along_axis(indices.unsqueeze(1), 1).squeeze(1)
    weight = (
        Tensor.full(indices.shape, 1, dtype=input.dtype)
        if weights is None
        else weights.take(indices, 0)
    )
    if is_counted is not None:
        # Ignored targets count neither in the sum nor in the mean's divisor.
        weight = is_counted.where(weight, 0)
    losses = log_losses * weight
    match reduction:
        case "none":
            return losses.cast(input.dtype)
        case "sum":
            return losses.sum().cast(input.dtype)
        case "mean":
            # The weighted mean: dividing by the number of targets would depend on the weights'
            # scale.
            return (losses.sum() / weight.sum()).cast(input.dtype)
        case _:
            raise ValueError(f"unknown reduction {reduction!r}; expected none, sum or mean")


@operator("SoftmaxCrossEntropyLoss")
def softmax_cross_entropy_loss(
    scores: Tensor,
    labels: Tensor,
    weights: Tensor | None = None,
    *,
    ignore_index: int | None = None,
    reduction: str = "mean",
) -> tuple[Tensor, Tensor]:
    """Cross-entropy loss, and the log probabilities."""
    logarithms = scores.log_softmax(1)
    return negative_log_likelihood_loss(
        logarithms, labels, weights, ignore_index=ignore_index, reduction=reduction
    ), logarithms
