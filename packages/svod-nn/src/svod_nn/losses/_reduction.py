"""Common parts of the losses: computation in float32, reductions and argument checks."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Literal, ParamSpec, TypeAlias, cast

from svod_nn._arguments import takes_tensors
from svod_nn._widening import widen
from svod_nn.errors import LayerArgumentError
from svod_tensor import Tensor
from svod_tensor.errors import UserError

__all__ = [
    "Reduction",
    "check_labels",
    "check_reduction",
    "check_same_shape",
    "loss_function",
    "reduce_loss",
]

Reduction: TypeAlias = Literal["mean", "sum", "none"]
"""Reduction of the elementwise losses: their mean, their sum, or no reduction."""

P = ParamSpec("P")


def loss_function(loss: Callable[P, Tensor]) -> Callable[P, Tensor]:
    """Decorate a loss to compute narrow floats in float32, and to name itself in errors.

    Operands narrower than float32 are widened. If all operands have one narrow dtype, the result is
    rounded to it once, at the end. An error of an operation inside of the loss names the loss, which
    the user called.
    """
    compute = takes_tensors(loss)

    @wraps(loss)
    def call(*args: P.args, **kwargs: P.kwargs) -> Tensor:
        dtypes = {
            t.dtype for t in (*args, *kwargs.values()) if isinstance(t, Tensor) and t.dtype.is_float
        }
        try:
            # float32 and float64 need no casts, which would only add to the graph.
            if not any(dtype.itemsize < 4 for dtype in dtypes):
                return compute(*args, **kwargs)
            wide = [widen(argument) for argument in args]
            named = {name: widen(argument) for name, argument in kwargs.items()}
            result = cast("Callable[..., Tensor]", compute)(*wide, **named)
        except UserError as error:
            error.name_operation(loss.__name__)
            raise
        # Two different dtypes, as of float16 and bfloat16, promote to float32 or more.
        return result if len(dtypes) > 1 else result.cast(dtypes.pop())

    return call


def check_reduction(loss: str, reduction: str, *additional: str) -> None:
    """Check the name of a reduction; `additional` lists further names that the loss accepts.

    Raises:
        LayerArgumentError: if the reduction is unknown.
    """
    known = ("mean", "sum", "none", *additional)
    if reduction not in known:
        raise LayerArgumentError(
            name=loss,
            problem=f"invalid reduction {reduction!r}",
            hint=f"use one of {', '.join(known)}",
        )


def check_same_shape(loss: str, prediction: Tensor, target: Tensor) -> None:
    """Check that prediction and target have the same shape.

    Broadcasting (n, 1) with (n,) would compare all pairs, which is seldom meant.

    Raises:
        LayerArgumentError: if the shapes differ.
    """
    # Refused although they broadcast: (n, 1) against (n,) silently gives the mean of n * n
    # differences.
    if prediction.shape != target.shape:
        raise LayerArgumentError(
            name=loss,
            problem=f"shapes {prediction.shape} and {target.shape} differ",
            hint="write target.expand(prediction.shape) to broadcast",
        )


def check_labels(loss: str, scores: Tensor, labels: Tensor) -> int:
    """Check that labels are integers of the shape of the scores without the class axis.

    Returns:
        the class axis of the scores.

    Raises:
        LayerArgumentError: if they are not.
    """
    axis = 0 if scores.ndim == 1 else 1
    # As in torch, classes are on axis 1 of a batch, also if more axes follow.
    is_fitting = bool(scores.ndim) and labels.shape == (
        *scores.shape[:axis],
        *scores.shape[axis + 1 :],
    )
    if not (is_fitting and labels.dtype.is_int):
        raise LayerArgumentError(
            name=loss,
            problem=(
                f"target {labels.dtype} {labels.shape} does not match scores of shape"
                f" {scores.shape}"
            ),
            hint=(
                "labels are integers of shape (batch, ...), and scores are of shape (batch,"
                " classes, ...)"
            ),
        )
    return axis


def reduce_loss(losses: Tensor, reduction: Reduction) -> Tensor:
    """Reduce elementwise losses to their mean or sum, or return them unchanged."""
    if reduction == "none":
        return losses
    return losses.sum() if reduction == "sum" else losses.mean()
