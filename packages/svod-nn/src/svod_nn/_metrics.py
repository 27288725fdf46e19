"""How good predictions are: functions of scores or labels, and a mean over batches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

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


def accuracy(scores: Tensor, labels: Tensor) -> Tensor:
    """The part of the rows whose largest score is that of their label.

    Args:
        scores: of shape (..., classes): logits or probabilities.
        labels: integers of shape (...).

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


def top_k_accuracy(scores: Tensor, labels: Tensor, k: int = 5) -> Tensor:
    """The part of the rows whose label is among those of the `k` largest scores; of equal scores
    the first is larger.

    Args:
        scores: of shape (..., classes).
        labels: integers of shape (...).
        k: how many labels may be named.

    Raises:
        LayerArgumentError: if the shapes do not fit.

    Example:
        >>> from svod_nn import top_k_accuracy
        >>> from svod_tensor import Tensor
        >>> top_k_accuracy(Tensor([[0.5, 0.3, 0.2], [0.5, 0.3, 0.2]]), Tensor([1, 2]), k=2).item()
        0.5
    """
    _check_labels("top_k_accuracy", scores, labels)
    places = labels.unsqueeze(-1)
    own = scores.take_along_axis(places, -1)
    is_first = Tensor.arange(scores.shape[-1]).lt(places)
    n_before = scores.gt(own).logical_or(scores.eq(own).logical_and(is_first)).sum(-1)
    return n_before.lt(k).cast(float32).mean()


def confusion_matrix(predicted: Tensor, labels: Tensor, n_classes: int) -> Tensor:
    """How often each class was predicted for each label: the sums of several batches are those of
    all their rows.

    Args:
        predicted: classes, integers of any shape.
        labels: the right ones, of the same shape.
        n_classes: how many there are.

    Returns:
        integers of shape (labels, predictions).

    Raises:
        LayerArgumentError: if the shapes differ, or something is no integers.

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
                f"predictions {predicted.dtype} {predicted.shape} and labels {labels.dtype}"
                f" {labels.shape}"
            ),
            hint="both are integers of one shape: scores.argmax(-1) predicts",
        )
    places = labels.mul(n_classes).add(predicted).flatten()
    return places.bincount(n_bins=n_classes * n_classes).reshape(n_classes, n_classes)


class PrecisionRecall(NamedTuple):
    """What `precision_recall_f1` gives, for each class.

    Attributes:
        precision: the part of the predictions of a class that is right.
        recall: the part of the rows of a class that is predicted.
        f1: the harmonic mean of both.

    Example:
        >>> from svod_nn import precision_recall_f1
        >>> precision_recall_f1(Tensor([[3, 1], [0, 4]])).recall.tolist()
        [0.75, 1.0]
    """

    precision: Tensor
    recall: Tensor
    f1: Tensor


def precision_recall_f1(confusion: Tensor) -> PrecisionRecall:
    """Precision, recall and their harmonic mean of each class, of what `confusion_matrix` gives; 0
    where they are of nothing.

    `f1.mean()` is what is called macro; the micro ones are all the accuracy, `confusion.trace() /
    confusion.sum()`.

    Args:
        confusion: of shape (labels, predictions).

    Example:
        >>> from svod_nn import precision_recall_f1
        >>> from svod_tensor import Tensor
        >>> [values.tolist() for values in precision_recall_f1(Tensor([[1, 1], [0, 2]]))]
        [[1.0, 0.6666666865348816], [0.5, 1.0], [0.6666666865348816, 0.800000011920929]]
    """
    right, predicted, there = confusion.diagonal(), confusion.sum(0), confusion.sum(1)
    return PrecisionRecall(
        _divide(right, predicted),
        _divide(right, there),
        _divide(right.mul(2), predicted.add(there)),
    )


class MeanMetric:
    """The mean of what comes batch by batch, in tensors: a captured step may update it, and nothing
    waits for a value.

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
        # 0.0 might be memory of other constants too.
        self._total, self._weight = Tensor.zeros(()).realize(), Tensor.zeros(()).realize()

    def update(self, value: Tensor, weight: Tensor | float = 1.0) -> None:
        """Count a value, the mean of `weight` rows."""
        self._total.assign(self._total.add(value.cast(float32).mul(weight)))
        self._weight.assign(self._weight.add(weight))

    def compute(self) -> Tensor:
        """The mean of all that was counted; NaN if that is nothing."""
        return self._total.div(self._weight)

    def reset(self) -> None:
        """Begin again."""
        self._total.assign(0.0)
        self._weight.assign(0.0)

    def state_dict(self) -> dict[str, Tensor]:
        """What `load_state_dict` goes on from."""
        return {"total": self._total, "weight": self._weight}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from what `state_dict` gave."""
        self._total.assign(state["total"])
        self._weight.assign(state["weight"])


def _divide(part: Tensor, whole: Tensor) -> Tensor:
    return whole.eq(0).where(0.0, part.cast(float32).div(whole.maximum(1)))


def _check_labels(metric: str, scores: Tensor, labels: Tensor) -> None:
    if not scores.ndim or scores.shape[:-1] != labels.shape or not labels.dtype.is_int:
        raise LayerArgumentError(
            name=metric,
            problem=(
                f"labels {labels.dtype} {labels.shape} do not fit scores of shape {scores.shape}"
            ),
            hint="labels are integers of shape (...), and scores are of shape (..., classes)",
        )
