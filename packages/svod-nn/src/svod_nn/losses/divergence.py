"""Kullback-Leibler divergence of two distributions."""

from __future__ import annotations

from typing import Literal

from svod_nn.errors import LayerArgumentError
from svod_nn.losses._reduction import (
    Reduction,
    check_reduction,
    check_same_shape,
    loss_function,
    reduce_loss,
)
from svod_tensor import Tensor

__all__ = ["kl_div"]


@loss_function
def kl_div(
    log_probabilities: Tensor,
    target: Tensor,
    *,
    reduction: Reduction | Literal["batchmean"] = "mean",
    log_target: bool = False,
) -> Tensor:
    """Kullback-Leibler divergence, `target * (log(target) - log_probabilities)`.

    An element is 0 if its target is 0.

    Args:
        log_probabilities: log-probabilities of the prediction, of any shape.
        target: target probabilities of the same shape.
        reduction: "batchmean", "mean", "sum" or "none". "batchmean" divides the sum by the size of
            the first axis, which is the divergence as defined; "mean" by the number of elements.
        log_target: if True, the target consists of log-probabilities.

    Raises:
        LayerArgumentError: if the shapes differ, the reduction is unknown, or it is "batchmean" and
            the operands are 0-d.

    Source: Kullback and Leibler, On Information and Sufficiency, 1951, as in
    `torch.nn.functional.kl_div`.

    Example:
        >>> from svod_nn import kl_div
        >>> from svod_tensor import Tensor
        >>> kl_div(Tensor([[0.5, 0.5]]).log(), Tensor([[1.0, 0.0]]), reduction="batchmean").round(4).numpy()
        array(0.6931, dtype=float32)
    """
    check_reduction("kl_div", reduction, "batchmean")
    check_same_shape("kl_div", log_probabilities, target)
    if log_target:
        # No logarithm is taken, so that small targets need no care; -inf gives NaN, as in torch.
        losses = target.exp().mul(target.sub(log_probabilities))
    else:
        is_nonzero = target.ne(0)
        # The operand of the logarithm is replaced too: the derivative of log(0) would be NaN * 0.
        difference = is_nonzero.where(target, 1.0).log().sub(log_probabilities)
        losses = is_nonzero.where(target.mul(difference), 0.0)
    if reduction != "batchmean":
        return reduce_loss(losses, reduction)
    if not losses.ndim:
        raise LayerArgumentError(
            name="kl_div", problem="reduction='batchmean' needs a batch axis, got 0-d operands"
        )
    return losses.sum().div(losses.shape[0])
