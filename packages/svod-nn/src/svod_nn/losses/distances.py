"""Regression losses: squared, absolute, smooth L1 and Huber."""

from __future__ import annotations

from svod_nn.errors import LayerArgumentError
from svod_nn.losses._reduction import (
    Reduction,
    check_reduction,
    check_same_shape,
    loss_function,
    reduce_loss,
)
from svod_tensor import Tensor

__all__ = ["huber_loss", "l1_loss", "mse_loss", "smooth_l1_loss"]


@loss_function
def mse_loss(prediction: Tensor, target: Tensor, *, reduction: Reduction = "mean") -> Tensor:
    """Mean squared error, `(prediction - target) ** 2`.

    Args:
        prediction: predictions of any shape.
        target: targets of the same shape; unlike in PyTorch, they do not broadcast.
        reduction: "mean", "sum" or "none".

    Raises:
        LayerArgumentError: if the shapes differ, or the reduction is unknown.

    Source: `torch.nn.functional.mse_loss`.

    Example:
        >>> from svod_nn import mse_loss
        >>> from svod_tensor import Tensor
        >>> mse_loss(Tensor([1.0, 4.0]), Tensor([1.0, 2.0])).item()
        2.0
    """
    check_reduction("mse_loss", reduction)
    check_same_shape("mse_loss", prediction, target)
    return reduce_loss(prediction.sub(target).square(), reduction)


@loss_function
def l1_loss(prediction: Tensor, target: Tensor, *, reduction: Reduction = "mean") -> Tensor:
    """Mean absolute error, `|prediction - target|`; its derivative is 0 at 0.

    Args:
        prediction: predictions of any shape.
        target: targets of the same shape.
        reduction: "mean", "sum" or "none".

    Raises:
        LayerArgumentError: if the shapes differ, or the reduction is unknown.

    Source: `torch.nn.functional.l1_loss`.

    Example:
        >>> from svod_nn import l1_loss
        >>> from svod_tensor import Tensor
        >>> l1_loss(Tensor([1.0, 4.0]), Tensor([1.0, 2.0])).item()
        1.0
    """
    check_reduction("l1_loss", reduction)
    check_same_shape("l1_loss", prediction, target)
    return reduce_loss(prediction.sub(target).abs(), reduction)


@loss_function
def smooth_l1_loss(
    prediction: Tensor, target: Tensor, *, beta: float = 1.0, reduction: Reduction = "mean"
) -> Tensor:
    """Smooth L1 loss: `d**2 / (2 * beta)` if `d < beta`, else `d - beta / 2`.

    `d` is the absolute difference `|prediction - target|`.

    Args:
        prediction: predictions of any shape.
        target: targets of the same shape.
        beta: threshold between the quadratic and the linear part, at least 0; 0 is `l1_loss`.
        reduction: "mean", "sum" or "none".

    Raises:
        LayerArgumentError: if the shapes differ, the reduction is unknown, or `beta` is negative.

    Source: Girshick, Fast R-CNN, 2015, equation 3, as in `torch.nn.functional.smooth_l1_loss`.

    Example:
        >>> from svod_nn import smooth_l1_loss
        >>> from svod_tensor import Tensor
        >>> smooth_l1_loss(Tensor([1.5, 4.0]), Tensor([1.0, 2.0]), reduction="none").tolist()
        [0.125, 1.5]
    """
    # Written so that NaN is refused too.
    if not beta >= 0:
        raise LayerArgumentError(
            name="smooth_l1_loss", problem=f"beta must be at least 0, got {beta}"
        )
    if beta == 0:
        # The limit; the quadratic part would divide by 0.
        return l1_loss(prediction, target, reduction=reduction)
    check_reduction("smooth_l1_loss", reduction)
    check_same_shape("smooth_l1_loss", prediction, target)
    difference = prediction.sub(target)
    distance = difference.abs()
    # The square of the difference and not of the distance: its derivative at 0 is 0 without the
    # sign function.
    quadratic = difference.square().mul(0.5 / beta)
    return reduce_loss(distance.lt(beta).where(quadratic, distance.sub(0.5 * beta)), reduction)


@loss_function
def huber_loss(
    prediction: Tensor, target: Tensor, *, delta: float = 1.0, reduction: Reduction = "mean"
) -> Tensor:
    """Huber loss: `d**2 / 2` if `d <= delta`, else `delta * (d - delta / 2)`.

    `d` is the absolute difference `|prediction - target|`.

    Args:
        prediction: predictions of any shape.
        target: targets of the same shape.
        delta: threshold between the quadratic and the linear part, positive.
        reduction: "mean", "sum" or "none".

    Raises:
        LayerArgumentError: if the shapes differ, the reduction is unknown, or `delta` is not
            positive.

    Source: Huber, Robust Estimation of a Location Parameter, 1964, as in
    `torch.nn.functional.huber_loss`.

    Example:
        >>> from svod_nn import huber_loss
        >>> from svod_tensor import Tensor
        >>> huber_loss(Tensor([1.5, 5.0]), Tensor([1.0, 2.0]), delta=2.0, reduction="none").tolist()
        [0.125, 4.0]
    """
    # Written so that NaN is refused too.
    if not delta > 0:
        raise LayerArgumentError(name="huber_loss", problem=f"delta must be positive, got {delta}")
    check_reduction("huber_loss", reduction)
    check_same_shape("huber_loss", prediction, target)
    difference = prediction.sub(target)
    distance = difference.abs()
    linear = distance.sub(0.5 * delta).mul(delta)
    # Both parts agree in value and slope at `delta`. Neither has an infinite derivative, which
    # `where` would turn into NaN.
    quadratic = difference.square().mul(0.5)
    return reduce_loss(distance.le(delta).where(quadratic, linear), reduction)
