"""From scores to what classical models give (ai.onnx.ml): transforms, and the class with the greatest score."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

import svod_tensor as sv
from svod_onnx._trace import Call
from svod_tensor import Tensor, asarray

__all__ = ["ML_DOMAIN", "apply_post_transform", "asarray_like", "choose_class"]

ML_DOMAIN: Final = "ai.onnx.ml"


def asarray_like(values: np.ndarray | Sequence[object], beside: Tensor, dtype: str | None = None) -> Tensor:
    """A tensor of what a node has in its attributes, on the device of an operand."""
    return asarray(values, dtype=dtype, device=beside.device if isinstance(beside.device, str) else None)


def apply_post_transform(node: Call, scores: Tensor, transform: str) -> Tensor:
    """`scores`, of shape (rows, targets), after a transform by its name."""
    match transform:
        case "NONE":
            return scores
        case "SOFTMAX":
            return scores.softmax(-1)
        case "LOGISTIC":
            return scores.sigmoid()
        case "SOFTMAX_ZERO":
            # Scores that are 0 stay 0, and take no share.
            is_zero = scores == 0
            parts = is_zero.where(0.0, (scores - scores.max(-1, keepdims=True)).exp())
            total = parts.sum(-1, keepdims=True)
            return parts / (total == 0).where(1.0, total)
        case "PROBIT":
            # The quantile of the normal distribution.
            return (scores * 2 - 1).erfinv() * 2**0.5
        case _:
            raise node.refuse(f"has no transform {transform!r}")


def choose_class(
    node: Call, scores: Tensor, labels: Sequence[int], transform: str, *, is_positive: bool = True
) -> tuple[Tensor, Tensor]:
    """The label of each row, and the scores of all classes.

    Args:
        node: whose results they are.
        scores: of shape (rows, classes); or (rows, 1), of the second of two classes.
        labels: of the classes.
        transform: of the scores, by its name.
        is_positive: of one score: whether it is a probability, so that the border is 0.5 and the other class has the rest; else the
            border is 0, and the other class has its negative.
    """
    names = asarray_like(list(labels), scores, "int64")
    if len(labels) == 2 and scores.shape[1] == 1:
        chosen = (scores[:, 0] > (0.5 if is_positive else 0.0)).cast("int64")
        if transform == "PROBIT":
            return names[chosen], apply_post_transform(node, scores, transform)
        both = sv.concat([1 - scores if is_positive else -scores, scores], axis=1)
        if transform == "LOGISTIC" and not is_positive:
            both = both.sigmoid()
        return names[chosen], both.cast("float32")
    return names[scores.argmax(-1)], apply_post_transform(node, scores, transform).cast("float32")
