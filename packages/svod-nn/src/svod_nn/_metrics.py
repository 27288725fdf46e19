"""Classification metrics of scores and labels, and a running mean over batches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from svod_nn._arguments import takes_tensors
from svod_nn.errors import LayerArgumentError
from svod_tensor import Tensor, float32

__all__ = [
    "MeanMetric",
    "PrecisionRecall",
    "accuracy",
    "confusion_matrix",
    "precision_recall_f1",
    "top_k_accuracy",
]


@takes_tensors
def accuracy(scores: Tensor, labels: Tensor) -> Tensor:
    """Fraction of the samples whose label has the largest score.

    Args:
        scores: logits or probabilities, of shape (..., classes).
        labels: class indices, integers of shape (...).

    Raises:
        LayerArgumentError: if the shapes do not fit.

    Example:
        >>> from svod_nn import accuracy
        >>> from svod_tensor import Tensor
        >>> accuracy(Tensor([[0.1, 0.9], [0.8, 0.2]]), Tensor([1, 1])).item()
        0.5
    """
    _check_labels("accuracy", scores, labels)
    return scores.argmax(-1).eq(labels).cast(float32).mean()


@takes_tensors
def top_k_accuracy(scores: Tensor, labels: Tensor, k: int = 5) -> Tensor:
    """Fraction of the samples whose label is among the `k` classes with the largest scores.

    Ties are broken in favor of the lower class index.

    Args:
        scores: logits or probabilities, of shape (..., classes).
        labels: class indices, integers of shape (...).
        k: number of top classes.

    Raises:
        LayerArgumentError: if the shapes do not fit.

    Example:
        >>> from svod_nn import top_k_accuracy
        >>> from svod_tensor import Tensor
        >>> top_k_accuracy(Tensor([[0.5, 0.3, 0.2], [0.5, 0.3, 0.2]]), Tensor([1, 2]), k=2).item()
        0.5
    """
    _check_labels("top_k_accuracy", scores, labels)
    indices = labels.unsqueeze(-1)
    label_score = scores.take_along_axis(indices, -1)
    is_lower_class = Tensor.arange(scores.shape[-1]).lt(indices)
    # Ties are in the order of classes, as in `argmax`, so that k=1 agrees with `accuracy`.
    is_tie_before = scores.eq(label_score).logical_and(is_lower_class)
    # The rank is a count of better classes, in one pass over the scores; sorting them all would
    # cost more.
    rank = scores.gt(label_score).logical_or(is_tie_before).sum(-1)
    return rank.lt(k).cast(float32).mean()


@takes_tensors
def confusion_matrix(predicted: Tensor, labels: Tensor, n_classes: int) -> Tensor:
    """Confusion matrix: the number of samples of each pair of label and predicted class.

    Add up the matrices of several batches to get the matrix of all their samples.

    Args:
        predicted: predicted classes, integers of any shape.
        labels: true classes, integers of the same shape.
        n_classes: number of classes.

    Returns:
        integers of shape (n_classes, n_classes), with labels as rows and predictions as columns.

    Raises:
        LayerArgumentError: if the shapes differ, or an operand is not of integers.

    Example:
        >>> from svod_nn import confusion_matrix
        >>> from svod_tensor import Tensor
        >>> confusion_matrix(Tensor([0, 1, 1]), Tensor([0, 0, 1]), 2).tolist()
        [[1, 1], [0, 1]]
    """
    if predicted.shape != labels.shape or not (predicted.dtype.is_int and labels.dtype.is_int):
        raise LayerArgumentError(
            name="confusion_matrix",
            problem=(
                "expected predictions and labels of integers of one shape, got"
                f" {predicted.dtype} {predicted.shape} and {labels.dtype} {labels.shape}"
            ),
            hint="write scores.argmax(-1) for the predictions",
        )
    # The pair of classes as one number, so that one histogram counts all pairs.
    cells = labels.mul(n_classes).add(predicted).flatten()
    return cells.bincount(n_bins=n_classes * n_classes).reshape(n_classes, n_classes)


class PrecisionRecall(NamedTuple):
    """Result of `precision_recall_f1`: tensors of shape (classes,).

    Attributes:
        precision: fraction of the predictions of a class that are correct.
        recall: fraction of the samples of a class that are predicted correctly.
        f1: harmonic mean of precision and recall.

    Example:
        >>> from svod_nn import precision_recall_f1
        >>> from svod_tensor import Tensor
        >>> precision_recall_f1(Tensor([[3, 1], [0, 4]])).recall.tolist()
        [0.75, 1.0]
    """

    precision: Tensor
    recall: Tensor
    f1: Tensor


@takes_tensors
def precision_recall_f1(confusion: Tensor) -> PrecisionRecall:
    """Precision, recall and F1 score of each class; 0 where the denominator is 0.

    `f1.mean()` is the macro average. The micro averages all equal the accuracy, `confusion.trace()
    / confusion.sum()`.

    Args:
        confusion: result of `confusion_matrix`, of shape (labels, predictions).

    Example:
        >>> from svod_nn import precision_recall_f1
        >>> from svod_tensor import Tensor
        >>> [values.tolist() for values in precision_recall_f1(Tensor([[1, 1], [0, 2]]))]
        [[1.0, 0.6666666865348816], [0.5, 1.0], [0.6666666865348816, 0.800000011920929]]
    """
    correct, predicted, actual = confusion.diagonal(), confusion.sum(0), confusion.sum(1)
    return PrecisionRecall(
        _divide(correct, predicted),
        _divide(correct, actual),
        # From the counts and not from precision and recall, of which both may be 0.
        _divide(correct.mul(2), predicted.add(actual)),
    )


class MeanMetric:
    """Running weighted mean of a value over batches.

    The sums are tensors: a captured step can update them without waiting for a value.

    Example:
        >>> from svod_nn import MeanMetric
        >>> from svod_tensor import Tensor
        >>> loss = MeanMetric()
        >>> loss.update(Tensor(2.0), 3)  # the mean of three rows
        >>> loss.update(Tensor(6.0), 1)
        >>> loss.compute().item()
        3.0
        >>> resumed = MeanMetric()
        >>> resumed.load_state_dict(loss.state_dict())
        >>> loss.reset()
        >>> resumed.compute().item(), loss.compute().item()
        (3.0, nan)
    """

    def __init__(self) -> None:
        # Realized buffers of its own: a constant's memory may be shared, and these are assigned to.
        self._total, self._weight = Tensor.zeros(()).realize(), Tensor.zeros(()).realize()

    @takes_tensors
    def update(self, value: Tensor, weight: Tensor | float = 1.0) -> None:
        """Add a value, the mean over `weight` samples."""
        # Sums stay on the device: reading each value would wait for the step that computes it.
        self._total.assign(self._total.add(value.cast(float32).mul(weight)))
        self._weight.assign(self._weight.add(weight))

    def compute(self) -> Tensor:
        """Return the mean of the added values; NaN if there are none."""
        return self._total.div(self._weight)

    def reset(self) -> None:
        """Discard the added values."""
        self._total.assign(0.0)
        self._weight.assign(0.0)

    def state_dict(self) -> dict[str, Tensor]:
        """Return the state as a dict, for `load_state_dict`."""
        return {"total": self._total, "weight": self._weight}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore a state returned by `state_dict`."""
        self._total.assign(state["total"])
        self._weight.assign(state["weight"])


def _divide(numerator: Tensor, count: Tensor) -> Tensor:
    # `where` computes both branches: the divisor is bounded too.
    return count.eq(0).where(0.0, numerator.cast(float32).div(count.maximum(1)))


def _check_labels(metric: str, scores: Tensor, labels: Tensor) -> None:
    if not scores.ndim or scores.shape[:-1] != labels.shape or not labels.dtype.is_int:
        raise LayerArgumentError(
            name=metric,
            problem=(
                f"expected labels of integers of shape {scores.shape[:-1]} for scores of shape"
                f" {scores.shape}, got {labels.dtype} {labels.shape}"
            ),
            hint="labels are integers of shape (...), and scores are of shape (..., classes)",
        )
