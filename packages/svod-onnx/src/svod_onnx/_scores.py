"""Scores of classical models (ai.onnx.ml): post-transforms and the choice of the best class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

import svod_tensor as sv
from svod_onnx._trace import Call
from svod_tensor import Tensor, asarray

__all__ = ["ML_DOMAIN", "apply_post_transform", "asarray_like", "choose_class"]

ML_DOMAIN: Final = "ai.onnx.ml"


def asarray_like(
    values: np.ndarray | Sequence[object], operand: Tensor, dtype: str | None = None
) -> Tensor:
    """Tensor of attribute values, on the device of an operand."""
    return asarray(
        values, dtype=dtype, device=operand.device if isinstance(operand.device, str) else None
    )


def apply_post_transform(node: Call, scores: Tensor, transform: str) -> Tensor:
    """Apply a post-transform, by name, to `scores` of shape (rows, targets)."""
    match transform:
        case "NONE":
            return scores
        case "SOFTMAX":
            return scores.softmax(-1)
        case "LOGISTIC":
            return scores.sigmoid()
        case "SOFTMAX_ZERO":
            # Scores of 0 stay 0 and do not count in the sum.
            is_zero = scores == 0
            exponentials = is_zero.where(0.0, (scores - scores.max(-1, keepdims=True)).exp())
            total = exponentials.sum(-1, keepdims=True)
            return exponentials / (total == 0).where(1.0, total)
        case "PROBIT":
            # The quantile function of the normal distribution.
            return (scores * 2 - 1).erfinv() * 2**0.5
        case _:
            raise node.refuse(
                f"unknown post_transform {transform!r}; expected NONE, SOFTMAX, LOGISTIC, SOFTMAX_ZERO or PROBIT"
            )


def choose_class(
    node: Call, scores: Tensor, labels: Sequence[int], transform: str, *, is_positive: bool = True
) -> tuple[Tensor, Tensor]:
    """Return the label of each row, and the scores of all classes.

    Args:
        node: node that returns them.
        scores: of shape (rows, classes), or of shape (rows, 1) for the second of two classes.
        labels: class labels.
        transform: name of the post-transform.
        is_positive: whether a single score is a probability, with threshold 0.5 and `1 - score` for
            the first class. Otherwise the threshold is 0, and the first class has the score
            `-score`.
    """
    names = asarray_like(list(labels), scores, "int64")
    if len(labels) == 2 and scores.shape[1] == 1:
        chosen = (scores[:, 0] > (0.5 if is_positive else 0.0)).cast("int64")
        if transform == "PROBIT":
            return names[chosen], apply_post_transform(node, scores, transform)
        # Only without the logistic function is a positive score itself a probability.
        is_probability = is_positive and transform != "LOGISTIC"
        pair = sv.concat([1 - scores if is_probability else -scores, scores], axis=1)
        if transform == "LOGISTIC":
            pair = pair.sigmoid()
        return names[chosen], pair.cast("float32")
    return names[scores.argmax(-1)], apply_post_transform(node, scores, transform).cast("float32")
