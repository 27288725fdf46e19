"""Compare estimators of scikit-learn, exported by skl2onnx, with onnxruntime.

`python onnx_estimators.py` prints a line for each estimator: whether the results are equal, and the
operators of its model. Labels must be equal, numbers within 1e-5. `--write` writes the table to
`onnx_estimators.md`. It exits with 1 if an estimator differs.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import svod_onnx

PAGE = Path(__file__).with_suffix(".md")
HEADING = """<!-- Written by onnx_estimators.py --write; change it instead. -->

# Estimators of scikit-learn as ONNX models

skl2onnx exports each estimator with its default options, so classifiers end in ZipMap. Labels must be
equal to the labels of onnxruntime, and numbers within 1e-5, for batches of 120, 7 and 1 rows.
"""
TOLERANCE = 1e-5
RANDOM = np.random.default_rng(3)
ROWS = RANDOM.normal(size=(120, 5)).astype(np.float32)
SCORES = ROWS @ np.array([1.0, -2.0, 0.5, 0.0, 1.5])
TARGETS = (SCORES + ROWS[:, 0] * ROWS[:, 1]).astype(np.float32)
PAIRS = np.stack([TARGETS, SCORES], axis=1)
BINARY = (SCORES > 0).astype(np.int64)
CLASSES = np.digitize(SCORES, [-1.0, 1.0]).astype(np.int64)
WORDS = np.array(["low", "middle", "high"])[CLASSES]
COUNTS = np.abs(ROWS * 3).round().astype(np.float32)
GAPS = np.where(RANDOM.random(ROWS.shape) < 0.2, np.nan, ROWS).astype(np.float32)
COLORS = np.array([["red", "green", "blue"][i % 3] for i in range(120)], object).reshape(-1, 1)
TEXTS = np.array(
    [
        f"{first} {second} and {first}"
        for first in ("a red fox", "The Blue sky", "green, green grass", "no one")
        for second in ("runs", "is high", "grows fast")
    ],
    object,
)
"""Short documents with repeated words, capitals and punctuation."""

Case = tuple[Any, dict[str, np.ndarray], Any]
"""Estimator without data, inputs by name, and targets."""


def make_cases() -> dict[str, Callable[[], Case]]:
    """Estimators by name, imported when they are made."""
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.cluster import KMeans
    from sklearn.compose import ColumnTransformer
    from sklearn.decomposition import PCA, TruncatedSVD
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    from sklearn.ensemble import (
        AdaBoostClassifier,
        BaggingClassifier,
        ExtraTreesRegressor,
        GradientBoostingClassifier,
        GradientBoostingRegressor,
        HistGradientBoostingClassifier,
        HistGradientBoostingRegressor,
        IsolationForest,
        RandomForestClassifier,
        RandomForestRegressor,
        StackingClassifier,
        VotingClassifier,
        VotingRegressor,
    )
    from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
    from sklearn.feature_selection import SelectKBest
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import (
        ElasticNet,
        LinearRegression,
        LogisticRegression,
        Perceptron,
        Ridge,
        SGDClassifier,
    )
    from sklearn.mixture import GaussianMixture
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.naive_bayes import BernoulliNB, GaussianNB, MultinomialNB
    from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
    from sklearn.neural_network import MLPClassifier, MLPRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import (
        Binarizer,
        KBinsDiscretizer,
        MaxAbsScaler,
        MinMaxScaler,
        Normalizer,
        OneHotEncoder,
        OrdinalEncoder,
        PolynomialFeatures,
        RobustScaler,
        StandardScaler,
    )
    from sklearn.svm import SVC, SVR, LinearSVC, NuSVC, NuSVR, OneClassSVM
    from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

    x = {"x": ROWS}
    colors = {"x": COLORS}
    texts = {"x": TEXTS.reshape(-1, 1)}

    def flatten(vectorizer: Any) -> Any:
        # Text vectorizers take a column, not a matrix.
        return ColumnTransformer([("text", vectorizer, 0)])

    mixed = {"numbers": GAPS, "colors": COLORS}
    columns = ColumnTransformer(
        [
            ("numbers", make_pipeline(SimpleImputer(), StandardScaler()), list(range(5))),
            ("colors", OneHotEncoder(handle_unknown="ignore"), [5]),
        ]
    )
    few = {"max_iter": 30}
    voters = [("a", LogisticRegression()), ("b", GaussianNB())]
    trees = {"n_estimators": 8}
    estimators: dict[str, tuple[Any, dict[str, np.ndarray], Any]] = {
        "LogisticRegression, binary": (LogisticRegression(), x, BINARY),
        "LogisticRegression, 3 classes": (LogisticRegression(), x, CLASSES),
        "LogisticRegression, strings": (LogisticRegression(), x, WORDS),
        "LinearSVC": (LinearSVC(), x, CLASSES),
        "LinearSVC, binary": (LinearSVC(), x, BINARY),
        "SGDClassifier": (SGDClassifier(), x, CLASSES),
        "SGDClassifier, log_loss": (SGDClassifier(loss="log_loss"), x, BINARY),
        "Perceptron": (Perceptron(), x, WORDS),
        "LinearDiscriminantAnalysis": (LinearDiscriminantAnalysis(), x, CLASSES),
        "SVC": (SVC(), x, CLASSES),
        "SVC, binary": (SVC(), x, BINARY),
        "SVC, strings": (SVC(), x, WORDS),
        "SVC, linear": (SVC(kernel="linear"), x, CLASSES),
        "SVC, poly": (SVC(kernel="poly", coef0=0.5), x, CLASSES),
        "SVC, sigmoid": (SVC(kernel="sigmoid"), x, CLASSES),
        "SVC, probability": (SVC(probability=True, random_state=0), x, CLASSES),
        "SVC, binary probability": (SVC(probability=True, random_state=0), x, BINARY),
        "SVC, string probability": (SVC(probability=True, random_state=0), x, WORDS),
        "NuSVC": (NuSVC(nu=0.2), x, CLASSES),
        "SVR": (SVR(), x, TARGETS),
        "SVR, poly": (SVR(kernel="poly"), x, TARGETS),
        "NuSVR": (NuSVR(kernel="linear"), x, TARGETS),
        "OneClassSVM": (OneClassSVM(), x, None),
        "DecisionTreeClassifier": (DecisionTreeClassifier(random_state=0), x, WORDS),
        "DecisionTreeRegressor": (DecisionTreeRegressor(random_state=0), x, TARGETS),
        "RandomForestClassifier": (RandomForestClassifier(**trees), x, CLASSES),
        "RandomForestClassifier, strings": (RandomForestClassifier(**trees), x, WORDS),
        "RandomForestRegressor": (RandomForestRegressor(**trees), x, TARGETS),
        "RandomForestRegressor, 2 targets": (RandomForestRegressor(**trees), x, PAIRS),
        "ExtraTreesRegressor": (ExtraTreesRegressor(**trees), x, TARGETS),
        "GradientBoostingClassifier": (GradientBoostingClassifier(**trees), x, CLASSES),
        "GradientBoostingClassifier, binary": (GradientBoostingClassifier(**trees), x, BINARY),
        "GradientBoostingRegressor": (GradientBoostingRegressor(**trees), x, TARGETS),
        "HistGradientBoostingClassifier": (HistGradientBoostingClassifier(max_iter=8), x, CLASSES),
        "HistGradientBoostingClassifier, strings": (
            HistGradientBoostingClassifier(max_iter=8),
            {"x": GAPS},
            WORDS,
        ),
        "HistGradientBoostingRegressor": (
            HistGradientBoostingRegressor(max_iter=8),
            {"x": GAPS},
            TARGETS,
        ),
        "AdaBoostClassifier": (AdaBoostClassifier(n_estimators=5), x, CLASSES),
        "BaggingClassifier": (BaggingClassifier(n_estimators=4), x, CLASSES),
        "IsolationForest": (IsolationForest(n_estimators=8, random_state=0), x, None),
        "VotingClassifier, hard": (
            VotingClassifier(voters, flatten_transform=False),
            x,
            CLASSES,
        ),
        "VotingClassifier, soft": (
            VotingClassifier(voters, voting="soft", flatten_transform=False),
            x,
            WORDS,
        ),
        "VotingRegressor": (VotingRegressor([("a", Ridge()), ("b", SVR())]), x, TARGETS),
        "StackingClassifier": (
            StackingClassifier([("a", LogisticRegression()), ("b", DecisionTreeClassifier())]),
            x,
            CLASSES,
        ),
        "CalibratedClassifierCV": (CalibratedClassifierCV(LinearSVC(), cv=2), x, CLASSES),
        "CalibratedClassifierCV, isotonic": (
            CalibratedClassifierCV(GaussianNB(), method="isotonic", cv=2),
            x,
            BINARY,
        ),
        "OneVsRestClassifier": (OneVsRestClassifier(LogisticRegression()), x, CLASSES),
        "KNeighborsClassifier": (KNeighborsClassifier(), x, CLASSES),
        "KNeighborsClassifier, strings": (KNeighborsClassifier(), x, WORDS),
        "KNeighborsRegressor": (KNeighborsRegressor(weights="distance"), x, TARGETS),
        "GaussianNB": (GaussianNB(), x, CLASSES),
        "MultinomialNB": (MultinomialNB(), {"x": COUNTS}, WORDS),
        "BernoulliNB": (BernoulliNB(), {"x": COUNTS}, BINARY),
        "MLPClassifier": (MLPClassifier(**few), x, CLASSES),
        "MLPClassifier, binary": (MLPClassifier(**few), x, BINARY),
        "MLPRegressor": (MLPRegressor(**few), x, TARGETS),
        "GaussianProcessRegressor": (
            GaussianProcessRegressor(alpha=0.1),
            # Its large weights of both signs cancel, which float32 has too few digits for.
            {"x": ROWS.astype(np.float64)},
            TARGETS,
        ),
        "GaussianMixture": (GaussianMixture(2, random_state=0), x, None),
        "KMeans": (KMeans(3, n_init=1, random_state=0), x, None),
        "LinearRegression": (LinearRegression(), x, TARGETS),
        "Ridge": (Ridge(), x, TARGETS),
        "ElasticNet": (ElasticNet(alpha=0.1), x, TARGETS),
        "PCA": (PCA(2), x, None),
        "TruncatedSVD": (TruncatedSVD(2), x, None),
        "StandardScaler": (StandardScaler(), x, None),
        "MinMaxScaler": (MinMaxScaler(), x, None),
        "MaxAbsScaler": (MaxAbsScaler(), x, None),
        "RobustScaler": (RobustScaler(), x, None),
        "Normalizer": (Normalizer(), x, None),
        "Binarizer": (Binarizer(threshold=0.3), x, None),
        "KBinsDiscretizer": (
            KBinsDiscretizer(3, encode="ordinal", quantile_method="averaged_inverted_cdf"),
            x,
            None,
        ),
        "PolynomialFeatures": (PolynomialFeatures(), x, None),
        "SimpleImputer": (SimpleImputer(), {"x": GAPS}, None),
        "SimpleImputer, strings": (
            SimpleImputer(strategy="most_frequent", missing_values="green"),
            colors,
            None,
        ),
        "SelectKBest": (SelectKBest(k=2), x, BINARY),
        "OneHotEncoder": (OneHotEncoder(handle_unknown="ignore"), colors, None),
        "OrdinalEncoder": (OrdinalEncoder(), colors, None),
        "CountVectorizer": (flatten(CountVectorizer()), texts, None),
        "TfidfVectorizer": (flatten(TfidfVectorizer()), texts, None),
        "TfidfVectorizer, bigrams": (
            flatten(TfidfVectorizer(ngram_range=(1, 2), stop_words=["and"], lowercase=False)),
            texts,
            None,
        ),
        "CountVectorizer, characters": (
            flatten(CountVectorizer(analyzer="char", ngram_range=(1, 2))),
            texts,
            None,
        ),
        "Pipeline of StandardScaler, PCA, SVC": (
            make_pipeline(StandardScaler(), PCA(3), SVC()),
            x,
            WORDS,
        ),
        "Pipeline of TfidfVectorizer, MultinomialNB": (
            make_pipeline(flatten(TfidfVectorizer()), MultinomialNB()),
            texts,
            np.arange(len(TEXTS)) % 3,
        ),
        "ColumnTransformer": (columns, mixed, None),
        "Pipeline of ColumnTransformer, LogisticRegression": (
            make_pipeline(columns, LogisticRegression()),
            mixed,
            WORDS,
        ),
    }
    return {name: lambda case=case: case for name, case in estimators.items()}


def export(estimator: Any, inputs: dict[str, np.ndarray], targets: Any) -> onnx.ModelProto:
    """Fit an estimator and export it with skl2onnx's default options."""
    from skl2onnx import to_onnx
    from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType, StringTensorType

    data: Any = next(iter(inputs.values()))
    if len(inputs) > 1:
        data = np.concatenate([value.astype(object) for value in inputs.values()], axis=1)
    estimator.fit(data, *(() if targets is None else (targets,)))
    kinds = {"O": StringTensorType, "f4": FloatTensorType, "f8": DoubleTensorType}
    types = [
        (name, kinds[value.dtype.str[1:]]([None, value.shape[1]])) for name, value in inputs.items()
    ]
    # The newest versions that skl2onnx knows all converters of.
    with accept_booleans():
        proto = to_onnx(estimator, initial_types=types, target_opset={"": 21, "ai.onnx.ml": 3})
    for node in proto.graph.node:
        if node.op_type == "StringNormalizer":
            # onnxruntime refuses a locale that the system lacks; the default is one too.
            kept = [attribute for attribute in node.attribute if attribute.name != "locale"]
            del node.attribute[:]
            node.attribute.extend([*kept, onnx.helper.make_attribute("locale", "C")])
    return proto


@contextmanager
def accept_booleans() -> Iterator[None]:
    """Allow skl2onnx lists of bools as attributes, which protobuf refuses from version 6 on.

    skl2onnx 1.20 does so for trees with missing values."""
    from skl2onnx.common import _container

    make_node = _container.make_node

    def make(*args: Any, **attributes: Any) -> Any:
        for name, value in attributes.items():
            if isinstance(value, list) and any(isinstance(item, bool | np.bool_) for item in value):
                attributes[name] = [int(item) for item in value]
        return make_node(*args, **attributes)

    _container.make_node = make
    try:
        yield
    finally:
        _container.make_node = make_node


def iter_differences(results: Any, expected: Any) -> Iterator[float]:
    """Differences of numbers, and infinity for different labels or keys."""
    if isinstance(expected, list):
        if len(results) != len(expected):
            yield np.inf
        for result, row in zip(results, expected, strict=False):
            yield from iter_differences(result, row)
    elif isinstance(expected, dict):
        if list(results) != list(expected):
            yield np.inf
        yield from iter_differences(list(results.values()), list(expected.values()))
    else:
        array = np.asarray(expected)
        result = np.asarray(results.numpy() if hasattr(results, "numpy") else results)
        if result.shape != array.shape or (result.dtype.kind in "OU") != (array.dtype.kind in "OU"):
            yield np.inf
        elif array.dtype.kind not in "fc":
            yield 0.0 if (result == array).all() else np.inf
        elif not np.array_equal(np.isnan(result), np.isnan(array)):
            yield np.inf
        else:
            differences = np.abs(result - array) / np.maximum(np.abs(array), 1.0)
            yield float(np.nanmax(differences, initial=0.0))


def compare(proto: onnx.ModelProto, inputs: dict[str, np.ndarray]) -> float:
    """Largest difference between svod and onnxruntime, relative for numbers above 1."""
    import onnxruntime

    session = onnxruntime.InferenceSession(proto.SerializeToString())
    model = svod_onnx.load(proto)
    largest = 0.0
    for n_rows in (len(next(iter(inputs.values()))), 7, 1):
        rows = {name: value[:n_rows] for name, value in inputs.items()}
        results: Any = model(**rows)
        expected = session.run(list(results), rows)
        largest = max(largest, *iter_differences(list(results.values()), expected))
    return largest


def measure(name: str, make: Callable[[], Case]) -> tuple[str, str, str]:
    """Row of the table: the name, the largest difference or the error, and the operators."""
    operators = ""
    try:
        estimator, inputs, targets = make()
        proto = export(estimator, inputs, targets)
        operators = ", ".join(sorted({node.op_type for node in proto.graph.node}))
        difference = compare(proto, inputs)
    except Exception as error:  # a row for each estimator, whatever its export raises
        return name, f"{type(error).__name__}: {error}".splitlines()[0][:120], operators
    return name, "equal" if difference <= TOLERANCE else f"differs by {difference:.1e}", operators


def main() -> int:
    warnings.filterwarnings("ignore")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("names", nargs="*", help="names of estimators; by default all of them")
    parser.add_argument("--write", action="store_true", help=f"write the table to {PAGE.name}")
    arguments = parser.parse_args()
    rows: list[tuple[str, str, str]] = []
    for name, make in make_cases().items():
        if arguments.names and name not in arguments.names:
            continue
        rows.append(measure(name, make))
        print(f"{rows[-1][0]}: {rows[-1][1]} ({rows[-1][2]})", flush=True)
    n_equal = sum(result == "equal" for _, result, _ in rows)
    summary = f"{n_equal} of {len(rows)} estimators agree with onnxruntime"
    print(summary)
    if arguments.write:
        head = ["| estimator | result | operators |", "|---|---|---|"]
        lines = [f"| {' | '.join(row)} |" for row in rows]
        text = f"{HEADING}\n{summary}.\n\n" + "\n".join([*head, *lines]) + "\n"
        PAGE.write_text(text, encoding="utf-8")
    return 0 if n_equal == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
