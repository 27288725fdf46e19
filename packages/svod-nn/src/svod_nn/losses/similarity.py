"""Losses of pairs and triples of vectors."""

from __future__ import annotations

from typing import Final

from svod_nn.errors import LayerArgumentError
from svod_nn.losses._reduction import (
    Reduction,
    check_reduction,
    check_same_shape,
    reduce_loss,
    rounds_once,
)
from svod_tensor import Tensor

__all__ = ["cosine_embedding_loss", "cosine_similarity", "triplet_margin_loss"]

_TINY: Final = 1e-12
"""What torch adds to the squares of lengths in `cosine_embedding_loss`."""


@rounds_once
def cosine_similarity(x: Tensor, y: Tensor, *, axis: int = 1, eps: float = 1e-8) -> Tensor:
    """The cosine of the angle between vectors along `axis`; 0 for a vector of zeros.

    Args:
        x: vectors.
        y: vectors; they broadcast.
        axis: of the elements of a vector.
        eps: the smallest length of a vector that is divided by.

    Source: `torch.nn.functional.cosine_similarity`.

    Example:
        >>> from svod_nn import cosine_similarity
        >>> from svod_tensor import Tensor
        >>> cosine_similarity(Tensor([[1.0, 0.0], [3.0, 4.0]]), Tensor([[2.0, 0.0], [4.0, -3.0]])).tolist()
        [1.0, 0.0]
    """
    product = x.mul(y).sum(axis)
    if x.ndim != y.ndim or x.shape[axis] != y.shape[axis]:
        # Elements that repeat along the axis count each time, and `axis` is one of the common
        # shape.
        x, y = Tensor.broadcast_arrays(x, y)
    return product.div(_get_length(x, axis, eps).mul(_get_length(y, axis, eps)))


@rounds_once
def cosine_embedding_loss(
    x: Tensor, y: Tensor, target: Tensor, *, margin: float = 0.0, reduction: Reduction = "mean"
) -> Tensor:
    """`1 - cos` of pairs whose target is 1, and `max(0, cos - margin)` of those whose target is -1.

    Args:
        x: of shape (batch, features), or (features,).
        y: of the same shape.
        target: 1 or -1, of shape (batch,), or ().
        margin: the cosine from which on a pair that should differ costs something.
        reduction: what becomes of the pairs.

    Raises:
        LayerArgumentError: if the shapes do not fit, or there is no such reduction.

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
            problem=f"a target of shape {target.shape} does not fit pairs of shape {x.shape}",
            hint="there is one number for each pair: pairs are of shape (batch, features)",
        )
    lengths = x.square().sum(-1).add(_TINY).mul(y.square().sum(-1).add(_TINY)).sqrt()
    cosine = x.mul(y).sum(-1).div(lengths)
    apart = target.eq(-1).where(cosine.sub(margin).maximum(0.0), 0.0)
    return reduce_loss(target.eq(1).where(cosine.neg().add(1.0), apart), reduction)


@rounds_once
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
    """`max(0, distance(anchor, positive) - distance(anchor, negative) + margin)`, along the last
    axis.

    Args:
        anchor: of shape (..., features).
        positive: of the same shape: what is to be near.
        negative: of the same shape: what is to be far.
        margin: how much nearer.
        p: which norm of the difference is the distance.
        eps: added to each difference, so that the distance of equal vectors has a derivative.
        swap: whether the negative one's distance is that to the anchor or to the positive one,
            whichever is smaller.
        reduction: what becomes of the triples.

    Raises:
        LayerArgumentError: if the shapes differ, or there is no such reduction.

    Source: Balntas et al., Learning shallow convolutional feature descriptors with triplet losses
    (2016); `torch.nn.functional.triplet_margin_loss`.

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
        far = far.minimum(_get_distance(positive, negative, p, eps))
    return reduce_loss(near.sub(far).add(margin).maximum(0.0), reduction)


def _get_length(x: Tensor, axis: int, eps: float) -> Tensor:
    # Of the square: the root of 0 has no finite derivative.
    return x.square().sum(axis).maximum(eps * eps).sqrt()


def _get_distance(x: Tensor, y: Tensor, p: float, eps: float) -> Tensor:
    return x.sub(y).add(eps).norm(-1, ord=p)
