"""Cosine similarity, and losses of pairs and triplets of vectors."""

from __future__ import annotations

from typing import Final

from svod_nn.errors import LayerArgumentError
from svod_nn.losses._reduction import (
    Reduction,
    check_reduction,
    check_same_shape,
    loss_function,
    reduce_loss,
)
from svod_tensor import Tensor

__all__ = ["cosine_embedding_loss", "cosine_similarity", "triplet_margin_loss"]

_TINY: Final = 1e-12
"""Term added to squared norms in `cosine_embedding_loss`, as in torch."""


@loss_function
def cosine_similarity(x: Tensor, y: Tensor, *, axis: int = 1, eps: float = 1e-8) -> Tensor:
    """Cosine similarity `sum(x * y) / (norm(x) * norm(y))` of vectors along an axis; 0 for a zero
    vector.

    Args:
        x: vectors.
        y: vectors, of a shape that broadcasts with the shape of `x`.
        axis: axis of the vectors' elements.
        eps: lower bound of the norms in the denominator.

    Source: `torch.nn.functional.cosine_similarity`.

    Example:
        >>> from svod_nn import cosine_similarity
        >>> from svod_tensor import Tensor
        >>> cosine_similarity(Tensor([[1.0, 0.0], [3.0, 4.0]]), Tensor([[2.0, 0.0], [4.0, -3.0]])).tolist()
        [1.0, 0.0]
    """
    product = x.mul(y).sum(axis)
    if x.ndim != y.ndim or x.shape[axis] != y.shape[axis]:
        # Norms are taken after broadcasting: repeated elements count in the norm each time, and
        # `axis` refers to the common shape.
        x, y = Tensor.broadcast_arrays(x, y)
    return product.div(_get_norm(x, axis, eps).mul(_get_norm(y, axis, eps)))


@loss_function
def cosine_embedding_loss(
    x: Tensor, y: Tensor, target: Tensor, *, margin: float = 0.0, reduction: Reduction = "mean"
) -> Tensor:
    """Cosine embedding loss: `1 - cos` for target 1, and `max(0, cos - margin)` for target -1.

    Args:
        x: vectors of shape (batch, features), or (features,).
        y: vectors of the same shape.
        target: 1 for similar and -1 for dissimilar pairs, of shape (batch,), or ().
        margin: cosine below which a dissimilar pair has no loss.
        reduction: "mean", "sum" or "none".

    Raises:
        LayerArgumentError: if the shapes do not match, or the reduction is unknown.

    Source: `torch.nn.functional.cosine_embedding_loss`.

    Example:
        >>> from svod_nn import cosine_embedding_loss
        >>> from svod_tensor import Tensor
        >>> x, y = Tensor([[1.0, 0.0], [1.0, 0.0]]), Tensor([[0.0, 1.0], [1.0, 0.0]])
        >>> cosine_embedding_loss(x, y, Tensor([1, -1]), reduction="none").tolist()
        [1.0, 1.0]
    """
    check_reduction("cosine_embedding_loss", reduction)
    check_same_shape("cosine_embedding_loss", x, y)
    if not x.ndim or target.shape != x.shape[:-1]:
        raise LayerArgumentError(
            name="cosine_embedding_loss",
            problem=f"target of shape {target.shape} does not match inputs of shape {x.shape}",
            hint="inputs are of shape (batch, features), and the target is of shape (batch,)",
        )
    norms = x.square().sum(-1).add(_TINY).mul(y.square().sum(-1).add(_TINY)).sqrt()
    cosine = x.mul(y).sum(-1).div(norms)
    # As in torch, a target other than 1 and -1 costs nothing.
    dissimilar = target.eq(-1).where(cosine.sub(margin).maximum(0.0), 0.0)
    return reduce_loss(target.eq(1).where(cosine.neg().add(1.0), dissimilar), reduction)


@loss_function
def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: Reduction = "mean",
) -> Tensor:
    """Triplet margin loss, `max(0, d(anchor, positive) - d(anchor, negative) + margin)`.

    `d` is the p-norm of the difference along the last axis.

    Args:
        anchor: vectors of shape (..., features).
        positive: vectors of the same shape that should be near the anchor.
        negative: vectors of the same shape that should be far from the anchor.
        margin: required difference of the distances.
        p: order of the norm.
        eps: added to each difference, so that the distance of equal vectors has a derivative.
        swap: if True, use the smaller of `d(anchor, negative)` and `d(positive, negative)`.
        reduction: "mean", "sum" or "none".

    Raises:
        LayerArgumentError: if the shapes differ, or the reduction is unknown.

    Source: Balntas et al., Learning shallow convolutional feature descriptors with triplet losses,
    2016, as in `torch.nn.functional.triplet_margin_loss`.

    Example:
        >>> from svod_nn import triplet_margin_loss
        >>> from svod_tensor import Tensor
        >>> anchor, near, far = Tensor([[0.0, 0.0]]), Tensor([[3.0, 4.0]]), Tensor([[0.0, 5.5]])
        >>> triplet_margin_loss(anchor, near, far).round(4).numpy()
        array(0.5, dtype=float32)
    """
    check_reduction("triplet_margin_loss", reduction)
    check_same_shape("triplet_margin_loss", anchor, positive)
    check_same_shape("triplet_margin_loss", anchor, negative)
    near, far = _get_distance(anchor, positive, p, eps), _get_distance(anchor, negative, p, eps)
    if swap:
        # The negative is compared with the nearer of both similar ones, which gives harder
        # triplets.
        far = far.minimum(_get_distance(positive, negative, p, eps))
    return reduce_loss(near.sub(far).add(margin).maximum(0.0), reduction)


def _get_norm(x: Tensor, axis: int, eps: float) -> Tensor:
    # The square is bounded, not the root: the derivative of sqrt is infinite at 0.
    return x.square().sum(axis).maximum(eps * eps).sqrt()


def _get_distance(x: Tensor, y: Tensor, p: float, eps: float) -> Tensor:
    # As in torch, eps is added to the difference, which keeps the norm of equal vectors
    # differentiable.
    return x.sub(y).add(eps).norm(-1, ord=p)
