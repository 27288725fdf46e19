"""The divergence of two distributions."""

from __future__ import annotations

from typing import Literal

from svod_nn.errors import LayerArgumentError
from svod_nn.losses._reduction import (
    Reduction,
    check_reduction,
    check_same_shape,
    reduce_loss,
    rounds_once,
)
from svod_tensor import Tensor

__all__ = ["kl_div"]


@rounds_once
def kl_div(
    log_probabilities: Tensor,
    target: Tensor,
    *,
    reduction: Reduction | Literal["batchmean"] = "mean",
    log_target: bool = False,
) -> Tensor:
    """The divergence of Kullback and Leibler: `target * (log(target) - log_probabilities)`, 0 where
    the target is.

    Args:
        log_probabilities: logarithms of the probabilities, of any shape.
        target: probabilities of the same shape.
        reduction: "batchmean", the divergence itself, divides the sum by the size of the first
            axis; "mean" by the number of elements.
        log_target: whether the target is logarithms too.

    Raises:
        LayerArgumentError: if the shapes differ, there is no first axis to divide by, or no such
            reduction.

    Source: Kullback and Leibler, On Information and Sufficiency (1951);
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
        losses = target.exp().mul(target.sub(log_probabilities))
    else:
        is_there = target.ne(0)
        # The logarithm of a number that is not 0: its derivative stays finite too.
        difference = is_there.where(target, 1.0).log().sub(log_probabilities)
        losses = is_there.where(target.mul(difference), 0.0)
    if reduction != "batchmean":
        return reduce_loss(losses, reduction)
    if not losses.ndim:
        raise LayerArgumentError(
            name="kl_div", problem="batchmean is over a first axis, and there is none"
        )
    return losses.sum().div(losses.shape[0])
