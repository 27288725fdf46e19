"""Losses of numbers: how far a prediction is from its target."""

from __future__ import annotations

from svod_nn.errors import LayerArgumentError
from svod_nn.losses._reduction import (
    Reduction,
    check_reduction,
    check_same_shape,
    reduce_loss,
    rounds_once,
)
from svod_tensor import Tensor

__all__ = ["huber_loss", "l1_loss", "mse_loss", "smooth_l1_loss"]


@rounds_once
def mse_loss(prediction: Tensor, target: Tensor, *, reduction: Reduction = "mean") -> Tensor:
    """The square of the difference.

    Args:
        prediction: of any shape.
        target: of the same shape: (n, 1) and (n,) are an error, not all pairs.
        reduction: what becomes of the elements.

    Raises:
        LayerArgumentError: if the shapes differ, or there is no such reduction.

    Example:
        >>> from svod_nn import mse_loss
        >>> from svod_tensor import Tensor
        >>> mse_loss(Tensor([1.0, 4.0]), Tensor([1.0, 2.0])).item()
        2.0
    """
    check_reduction("mse_loss", reduction)
    check_same_shape("mse_loss", prediction, target)
    return reduce_loss(prediction.sub(target).square(), reduction)


@rounds_once
def l1_loss(prediction: Tensor, target: Tensor, *, reduction: Reduction = "mean") -> Tensor:
    """The size of the difference. Its derivative is 0 where there is none.

    Args:
        prediction: of any shape.
        target: of the same shape.
        reduction: what becomes of the elements.

    Raises:
        LayerArgumentError: if the shapes differ, or there is no such reduction.

    Example:
        >>> from svod_nn import l1_loss
        >>> from svod_tensor import Tensor
        >>> l1_loss(Tensor([1.0, 4.0]), Tensor([1.0, 2.0])).item()
        1.0
    """
    check_reduction("l1_loss", reduction)
    check_same_shape("l1_loss", prediction, target)
    return reduce_loss(prediction.sub(target).abs(), reduction)


@rounds_once
def smooth_l1_loss(
    prediction: Tensor, target: Tensor, *, beta: float = 1.0, reduction: Reduction = "mean"
) -> Tensor:
    """Half the square of the difference over `beta` where that is smaller than `beta`, else the
    difference less `beta / 2`.

    Args:
        prediction: of any shape.
        target: of the same shape.
        beta: where the square becomes a line, at least 0; at 0 there is no square.
        reduction: what becomes of the elements.

    Raises:
        LayerArgumentError: if the shapes differ, there is no such reduction, or `beta` is negative.

    Source: Girshick, Fast R-CNN (2015), equation 3.

    Example:
        >>> from svod_nn import smooth_l1_loss
        >>> from svod_tensor import Tensor
        >>> smooth_l1_loss(Tensor([1.5, 4.0]), Tensor([1.0, 2.0]), reduction="none").tolist()
        [0.125, 1.5]
    """
    if not beta >= 0:
        raise LayerArgumentError(name="smooth_l1_loss", problem=f"beta is {beta}, not at least 0")
    if beta == 0:
        return l1_loss(prediction, target, reduction=reduction)
    check_reduction("smooth_l1_loss", reduction)
    check_same_shape("smooth_l1_loss", prediction, target)
    difference = prediction.sub(target)
    size = difference.abs()
    near = difference.square().mul(0.5 / beta)
    return reduce_loss(size.lt(beta).where(near, size.sub(0.5 * beta)), reduction)


@rounds_once
def huber_loss(
    prediction: Tensor, target: Tensor, *, delta: float = 1.0, reduction: Reduction = "mean"
) -> Tensor:
    """Half the square of the difference where that is at most `delta`, else `delta` times the
    difference less `delta / 2`.

    Args:
        prediction: of any shape.
        target: of the same shape.
        delta: where the square becomes a line, above 0.
        reduction: what becomes of the elements.

    Raises:
        LayerArgumentError: if the shapes differ, there is no such reduction, or `delta` is not
            above 0.

    Source: Huber, Robust Estimation of a Location Parameter (1964).

    Example:
        >>> from svod_nn import huber_loss
        >>> from svod_tensor import Tensor
        >>> huber_loss(Tensor([1.5, 5.0]), Tensor([1.0, 2.0]), delta=2.0, reduction="none").tolist()
        [0.125, 4.0]
    """
    if not delta > 0:
        raise LayerArgumentError(name="huber_loss", problem=f"delta is {delta}, not above 0")
    check_reduction("huber_loss", reduction)
    check_same_shape("huber_loss", prediction, target)
    difference = prediction.sub(target)
    size = difference.abs()
    far = size.sub(0.5 * delta).mul(delta)
    return reduce_loss(size.le(delta).where(difference.square().mul(0.5), far), reduction)
