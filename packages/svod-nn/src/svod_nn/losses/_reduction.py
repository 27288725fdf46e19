"""What the losses share: narrow floats computed in float32, elements reduced to one number, and
operands that must fit.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, Literal, ParamSpec, TypeAlias, cast

from svod_nn.errors import LayerArgumentError
from svod_tensor import Tensor, float32

__all__ = [
    "Reduction",
    "check_labels",
    "check_reduction",
    "check_same_shape",
    "reduce_loss",
    "rounds_once",
]

Reduction: TypeAlias = Literal["mean", "sum", "none"]
"""What becomes of the losses of single elements: their mean, their sum, or nothing."""

P = ParamSpec("P")


def rounds_once(
    loss: Callable[Concatenate[Tensor, P], Tensor],
) -> Callable[Concatenate[Tensor, P], Tensor]:
    """Let a loss get floats narrower than float32 as float32; one of such floats alone is rounded
    to their dtype at its end.
    """

    @wraps(loss)
    def compute(first: Tensor, /, *args: P.args, **kwargs: P.kwargs) -> Tensor:
        kinds = {
            t.dtype
            for t in (first, *args, *kwargs.values())
            if isinstance(t, Tensor) and t.dtype.is_float
        }
        if not any(kind.itemsize < 4 for kind in kinds):
            return loss(first, *args, **kwargs)
        wide = [_widen(argument) for argument in (first, *args)]
        named = {name: _widen(argument) for name, argument in kwargs.items()}
        result = cast("Callable[..., Tensor]", loss)(*wide, **named)
        # Two different ones promote to float32 or more.
        return result if len(kinds) > 1 else result.cast(kinds.pop())

    return compute


def _widen(value: object) -> object:
    if isinstance(value, Tensor) and value.dtype.is_float and value.dtype.itemsize < 4:
        return value.cast(float32)
    return value


def check_reduction(loss: str, reduction: str, *others: str) -> None:
    """Check the name of a reduction, which may also be one of `others`.

    Raises:
        LayerArgumentError: if there is no such reduction.
    """
    known = ("mean", "sum", "none", *others)
    if reduction not in known:
        raise LayerArgumentError(
            name=loss, problem=f"no reduction {reduction!r}", hint=f"there are {', '.join(known)}"
        )


def check_same_shape(loss: str, prediction: Tensor, target: Tensor) -> None:
    """Check that two tensors have one shape: broadcasting (n, 1) with (n,) would compare each with
    all.

    Raises:
        LayerArgumentError: if they have not.
    """
    if prediction.shape != target.shape:
        raise LayerArgumentError(
            name=loss,
            problem=f"shapes {prediction.shape} and {target.shape} differ",
            hint="what is to be repeated says so: target.expand(prediction.shape)",
        )


def check_labels(loss: str, scores: Tensor, labels: Tensor) -> int:
    """Check that there is a label for each position, and return the axis of the classes.

    Raises:
        LayerArgumentError: if the labels are no integers, or their shape is not that of the scores
            without the classes.
    """
    axis = 0 if scores.ndim == 1 else 1
    is_fitting = bool(scores.ndim) and labels.shape == (
        *scores.shape[:axis],
        *scores.shape[axis + 1 :],
    )
    if not (is_fitting and labels.dtype.is_int):
        raise LayerArgumentError(
            name=loss,
            problem=(
                f"the target is {labels.dtype} {labels.shape}, which does not fit scores of shape"
                f" {scores.shape}"
            ),
            hint=(
                "labels are integers of shape (batch, ...), and scores are of shape (batch,"
                " classes, ...)"
            ),
        )
    return axis


def reduce_loss(losses: Tensor, reduction: Reduction) -> Tensor:
    """The mean of the elements, their sum, or themselves."""
    if reduction == "none":
        return losses
    return losses.sum() if reduction == "sum" else losses.mean()
