"""scikit-learn computes the same on tensors, with `array_api_dispatch=True`, as on numpy arrays.

Each estimator and metric gets equal data in both forms. Results are tensors where scikit-learn
returns arrays for numpy.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from svod_tensor import Tensor

sklearn = pytest.importorskip("sklearn", reason="scikit-learn is not installed: tox run -e interop")
metrics = pytest.importorskip("sklearn.metrics")
decomposition = pytest.importorskip("sklearn.decomposition")
discriminant_analysis = pytest.importorskip("sklearn.discriminant_analysis")
kernel_approximation = pytest.importorskip("sklearn.kernel_approximation")
linear_model = pytest.importorskip("sklearn.linear_model")
mixture = pytest.importorskip("sklearn.mixture")
model_selection = pytest.importorskip("sklearn.model_selection")
naive_bayes = pytest.importorskip("sklearn.naive_bayes")
preprocessing = pytest.importorskip("sklearn.preprocessing")

Convert = Callable[[np.ndarray], Any]
Case = Callable[[Convert], Any]

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 5)).astype(np.float32)
HEIGHTS = (X @ RNG.standard_normal(5) + 0.1 * RNG.standard_normal(60)).astype(np.float32)
CLASSES = (HEIGHTS > 0).astype(np.int64)
GUESSES = (RNG.random(60) > 0.4).astype(np.int64)
SCORES = RNG.random(60).astype(np.float32)


def fit(make: Callable[[], Any], result: str, y: np.ndarray | None = None) -> Case:
    """Fit an estimator, and apply its method `result` to the training data."""

    def case(convert: Convert) -> object:
        x = convert(X)
        estimator = make().fit(x) if y is None else make().fit(x, convert(y))
        return getattr(estimator, result)(x)

    return case


def measure(name: str, true: np.ndarray, found: np.ndarray) -> Case:
    return lambda convert: getattr(metrics, name)(convert(true), convert(found))


def pair(name: str) -> Case:
    return lambda convert: getattr(metrics.pairwise, name)(
        convert(np.abs(X)), convert(np.abs(X) + 1)
    )


CASES: dict[str, Case] = {
    "StandardScaler": fit(preprocessing.StandardScaler, "transform"),
    "MinMaxScaler": fit(preprocessing.MinMaxScaler, "transform"),
    "MaxAbsScaler": fit(preprocessing.MaxAbsScaler, "transform"),
    "Normalizer": fit(preprocessing.Normalizer, "transform"),
    "Binarizer": fit(preprocessing.Binarizer, "transform"),
    "PolynomialFeatures": fit(preprocessing.PolynomialFeatures, "transform"),
    "KernelCenterer": lambda convert: preprocessing.KernelCenterer().fit_transform(
        convert(X @ X.T)
    ),
    "PCA, full": fit(lambda: decomposition.PCA(2, svd_solver="full"), "transform"),
    "PCA, covariances": fit(
        lambda: decomposition.PCA(2, svd_solver="covariance_eigh"), "transform"
    ),
    "PCA, randomized": fit(
        lambda: decomposition.PCA(
            2, svd_solver="randomized", power_iteration_normalizer="QR", random_state=0
        ),
        "transform",
    ),
    "Ridge": fit(lambda: linear_model.Ridge(solver="svd"), "predict", HEIGHTS),
    "RidgeCV": fit(linear_model.RidgeCV, "predict", HEIGHTS),
    "RidgeClassifier": fit(lambda: linear_model.RidgeClassifier(solver="svd"), "predict", CLASSES),
    "LinearDiscriminantAnalysis": fit(
        discriminant_analysis.LinearDiscriminantAnalysis, "predict", CLASSES
    ),
    "LogisticRegression": fit(linear_model.LogisticRegression, "predict_proba", CLASSES),
    "GaussianMixture": fit(
        lambda: mixture.GaussianMixture(2, init_params="random", random_state=0), "predict"
    ),
    "GaussianNB": fit(naive_bayes.GaussianNB, "predict", CLASSES),
    "Nystroem": fit(
        lambda: kernel_approximation.Nystroem(n_components=5, random_state=0), "transform"
    ),
    "LabelEncoder": lambda convert: preprocessing.LabelEncoder().fit_transform(convert(CLASSES)),
    "LabelBinarizer": lambda convert: preprocessing.LabelBinarizer().fit_transform(
        convert(CLASSES)
    ),
    "train_test_split": lambda convert: model_selection.train_test_split(
        convert(X), convert(CLASSES), random_state=0
    ),
    "cross_val_predict": lambda convert: model_selection.cross_val_predict(
        linear_model.Ridge(solver="svd"), convert(X), convert(HEIGHTS)
    ),
    **{
        name: measure(name, CLASSES, GUESSES)
        for name in (
            "accuracy_score",
            "balanced_accuracy_score",
            "confusion_matrix",
            "cohen_kappa_score",
            "f1_score",
            "hamming_loss",
            "jaccard_score",
            "multilabel_confusion_matrix",
            "precision_score",
            "recall_score",
            "zero_one_loss",
            "precision_recall_fscore_support",
        )
    },
    **{
        name: measure(name, CLASSES, SCORES)
        for name in (
            "log_loss",
            "brier_score_loss",
            "precision_recall_curve",
            "det_curve",
            "average_precision_score",
        )
    },
    **{
        name: measure(name, np.abs(HEIGHTS) + 0.1, np.abs(HEIGHTS) + SCORES + 0.1)
        for name in (
            "mean_absolute_error",
            "mean_squared_error",
            "root_mean_squared_error",
            "mean_squared_log_error",
            "mean_absolute_percentage_error",
            "mean_pinball_loss",
            "mean_tweedie_deviance",
            "r2_score",
            "max_error",
            "explained_variance_score",
            "d2_tweedie_score",
            "d2_absolute_error_score",
            "median_absolute_error",
        )
    },
    **{
        name: pair(name)
        for name in (
            "cosine_similarity",
            "cosine_distances",
            "euclidean_distances",
            "linear_kernel",
            "rbf_kernel",
            "polynomial_kernel",
            "sigmoid_kernel",
            "laplacian_kernel",
            "additive_chi2_kernel",
            "chi2_kernel",
            "paired_cosine_distances",
            "paired_euclidean_distances",
            "pairwise_distances",
        )
    },
}

ANY_SIGN = ("PCA",)
"""Estimators whose vectors are determined up to sign."""


@pytest.mark.parametrize("name", CASES)
def test_the_numbers_are_those_of_numpy(name: str) -> None:
    case = CASES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = [np.asarray(part) for part in parts_of(case(lambda array: array))]
        with sklearn.config_context(array_api_dispatch=True):
            found = parts_of(case(Tensor))
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected, strict=True):
        assert (
            isinstance(ours, Tensor) or not theirs.ndim or name in ("confusion_matrix", "Binarizer")
        ), type(ours)
        values = np.asarray(ours)
        if theirs.dtype == object:
            assert values.tolist() == theirs.tolist()
        elif name.startswith(ANY_SIGN):
            np.testing.assert_allclose(np.abs(values), np.abs(theirs), rtol=2e-3, atol=2e-4)
        else:
            np.testing.assert_allclose(values, theirs, rtol=2e-3, atol=2e-4)


def parts_of(result: object) -> list[object]:
    return (
        [one for part in result for one in parts_of(part)]
        if isinstance(result, (tuple, list))
        else [result]
    )
