"""Metrics agree with their formulas."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import svod_nn as nn
from svod_nn.errors import LayerArgumentError
from svod_tensor import Tensor, jit

RNG = np.random.default_rng(3)


@pytest.mark.parametrize("shape", [(7, 4), (3, 2, 5), (1, 1), (4,)])
def test_accuracies_agree_with_sorting(shape: tuple[int, ...]) -> None:
    # Small integers: some scores are equal.
    scores = RNG.integers(0, 4, shape).astype(np.float32)
    labels = np.asarray(RNG.integers(0, shape[-1], shape[:-1]))
    order = np.argsort(-scores, axis=-1, kind="stable")
    for k in range(1, shape[-1] + 1):
        wanted = (order[..., :k] == labels[..., None]).any(-1).mean()
        assert nn.top_k_accuracy(Tensor(scores), Tensor(labels), k).item() == pytest.approx(wanted)
        if k == 1:
            assert nn.accuracy(Tensor(scores), Tensor(labels)).item() == pytest.approx(wanted)


def test_the_confusion_matrix_counts_pairs() -> None:
    predicted, labels = np.random.default_rng(0).integers(0, 3, (2, 4, 10))
    wanted = np.zeros((3, 3), int)
    np.add.at(wanted, (labels.ravel(), predicted.ravel()), 1)
    found = nn.confusion_matrix(Tensor(predicted), Tensor(labels), 3)
    assert found.tolist() == wanted.tolist()
    precision, recall, f1 = (values.numpy() for values in nn.precision_recall_f1(found))
    for c in range(3):
        right = ((predicted == c) & (labels == c)).sum()
        assert precision[c] == pytest.approx(right / (predicted == c).sum())
        assert recall[c] == pytest.approx(right / (labels == c).sum())
        assert f1[c] == pytest.approx(2 / (1 / precision[c] + 1 / recall[c]))


def test_a_class_without_rows_and_predictions_has_zeros() -> None:
    for values in nn.precision_recall_f1(Tensor([[2, 0], [0, 0]])):
        assert values.tolist() == [1, 0]


def test_a_mean_is_counted_in_a_captured_step() -> None:
    metric = nn.MeanMetric()
    assert math.isnan(metric.compute().item())

    @jit
    def step(x: Tensor) -> None:
        metric.update(x.mean(), x.shape[0])

    for rows in ([1.0, 2.0], [4.0], [5.0]):
        step(Tensor(rows))
    assert metric.compute().item() == 3
    other = nn.MeanMetric()
    other.load_state_dict(metric.state_dict())
    metric.reset()
    metric.update(Tensor(7.0))
    assert (metric.compute().item(), other.compute().item()) == (7, 3)


def test_early_stopping_counts_what_is_no_better() -> None:
    stopping = nn.EarlyStopping(2, min_delta=0.1, mode="max")
    assert [stopping.update(v) for v in (1.0, 1.05, math.nan)] == [True, False, False]
    assert stopping.should_stop
    again = nn.EarlyStopping(2, mode="max")
    again.load_state_dict(stopping.state_dict())
    assert again.should_stop
    assert again.update(Tensor(2.0))
    assert not again.should_stop


def test_invalid_arguments_of_metrics_are_errors() -> None:
    with pytest.raises(LayerArgumentError, match="expected labels of integers"):
        nn.accuracy(Tensor.zeros(2, 3), Tensor([0, 1, 2]))
    with pytest.raises(LayerArgumentError, match="one shape"):
        nn.confusion_matrix(Tensor([0.5]), Tensor([1]), 2)
    with pytest.raises(LayerArgumentError, match="invalid mode"):
        nn.EarlyStopping(1, mode="best")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("value", [3, [1], np.ones(2, np.int64), None])
def test_metrics_of_something_else_than_a_tensor_say_so(value: object) -> None:
    scores, labels = Tensor.zeros(2, 3), Tensor([0, 1])
    calls: list[tuple[str, Callable[[Any], object]]] = [
        ("accuracy", lambda x: nn.accuracy(x, labels)),
        ("accuracy", lambda x: nn.accuracy(scores, x)),
        ("top_k_accuracy", lambda x: nn.top_k_accuracy(scores, labels=x)),
        ("confusion_matrix", lambda x: nn.confusion_matrix(x, labels, 2)),
        ("confusion_matrix", lambda x: nn.confusion_matrix(labels, x, 2)),
        ("precision_recall_f1", lambda x: nn.precision_recall_f1(x)),
    ]
    for name, call in calls:
        with pytest.raises(LayerArgumentError, match=f"^{name}: expected a tensor as"):
            call(value)
    with pytest.raises(
        LayerArgumentError, match=r"^MeanMetric\.update: expected a tensor as value"
    ):
        nn.MeanMetric().update(value)  # pyright: ignore[reportArgumentType]
