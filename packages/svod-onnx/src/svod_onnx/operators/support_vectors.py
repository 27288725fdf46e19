"""Support vector machines (ai.onnx.ml).

A classifier has a score for each pair of classes, in the order (0, 1), (0, 2), ..., (1, 2), ....
The score's sign is a vote for one of the two."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Final

import numpy as np

import svod_tensor as sv
from svod_onnx._inlining import Inline
from svod_onnx._registry import operator
from svod_onnx._scores import ML_DOMAIN, apply_post_transform, asarray_like
from svod_onnx._string_labels import expand_string_labels
from svod_onnx._trace import Call
from svod_tensor import Tensor

__all__ = ["SVMClassifierAttributes", "SVMRegressorAttributes", "svm_classifier", "svm_regressor"]

_KERNELS: Final = ("LINEAR", "POLY", "RBF", "SIGMOID")
_MAX_ROUNDS: Final = 100
_LEAST_PROBABILITY: Final = 1e-7


@dataclass(frozen=True, slots=True)
class _Kernel:
    """Kernel function of rows and support vectors.

    Attributes:
        name: one of `_KERNELS`.
        parameters: gamma, coef0 and degree.
    """

    name: str
    parameters: tuple[float, float, float]

    def multiply(self, rows: Tensor, vectors: Tensor) -> Tensor:
        """Kernel of each row with each vector, of shape (rows, vectors)."""
        gamma, coef0, degree = self.parameters
        if self.name == "RBF":
            # Not by products: their difference loses digits for vectors close to a row.
            squares = (rows.unsqueeze(1) - vectors.unsqueeze(0)).square().sum(-1)
            return (squares * -gamma).exp()
        products = rows @ vectors.transpose(0, 1)
        match self.name:
            case "POLY":
                # An integer exponent, since the base may be negative.
                exponent = int(degree) if degree == int(degree) else degree
                return (products * gamma + coef0) ** exponent
            case "SIGMOID":
                return (products * gamma + coef0).tanh()
            case _:
                return products


def _make_kernel(node: Call, kernel_type: str, kernel_params: list[float] | None) -> _Kernel:
    if kernel_type not in _KERNELS:
        raise node.refuse(
            f"unknown kernel_type {kernel_type!r}; expected one of {', '.join(_KERNELS)}"
        )
    gamma, coef0, degree = kernel_params or (0.0, 0.0, 0.0)
    return _Kernel(kernel_type, (gamma, coef0, degree))


def _to_rows(x: Tensor) -> Tensor:
    """Rows in float32. A vector is one row in this domain."""
    rows = x.cast("float32")
    return rows.reshape(1, -1) if x.ndim == 1 else rows


def _make_vectors(node: Call, support_vectors: list[float] | None, n: int, rows: Tensor) -> Tensor:
    """Support vectors, of shape (n, columns)."""
    elements = support_vectors or []
    if len(elements) != n * rows.shape[1]:
        raise node.refuse(
            f"expected {n} x {rows.shape[1]} elements of 'support_vectors', got {len(elements)}"
        )
    return asarray_like(elements, rows, "float32").reshape(n, -1)


def _multiply_linear(
    node: Call, rows: Tensor, coefficients: list[float], rho: list[float], n_scores: int
) -> Tensor:
    """Scores of a model without support vectors, of shape (rows, n_scores)."""
    if len(coefficients) != n_scores * rows.shape[1] or not rho:
        raise node.refuse(
            f"expected {n_scores} x {rows.shape[1]} coefficients and a value of 'rho',"
            f" got {len(coefficients)} and {len(rho)}"
        )
    table = asarray_like(coefficients, rows, "float32").reshape(n_scores, -1)
    return rows @ table.transpose(0, 1) + rho[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class SVMRegressorAttributes:
    """Attributes of SVMRegressor."""

    coefficients: list[float]
    rho: list[float]
    kernel_params: list[float] | None = None
    kernel_type: str = "LINEAR"
    n_supports: int = 0
    one_class: int = 0
    post_transform: str = "NONE"
    support_vectors: list[float] | None = None


@operator("SVMRegressor", domain=ML_DOMAIN)
def svm_regressor(node: Call, x: Tensor, *, attributes: SVMRegressorAttributes) -> Tensor:
    """Scores of rows, of shape (rows, 1); their signs for `one_class`."""
    if attributes.post_transform != "NONE":
        # onnxruntime ignores the attribute, and onnx does not say whether it applies to the signs.
        raise node.refuse(
            f"unsupported post_transform {attributes.post_transform!r}; expected NONE"
        )
    rows = _to_rows(x)
    n_supports = attributes.n_supports
    if n_supports:
        kernel = _make_kernel(node, attributes.kernel_type, attributes.kernel_params)
        vectors = _make_vectors(node, attributes.support_vectors, n_supports, rows)
        if len(attributes.coefficients) != n_supports or not attributes.rho:
            raise node.refuse(
                f"expected {n_supports} coefficients and a value of 'rho',"
                f" got {len(attributes.coefficients)} and {len(attributes.rho)}"
            )
        weights = asarray_like(attributes.coefficients, rows, "float32").reshape(-1, 1)
        scores = kernel.multiply(rows, vectors) @ weights + attributes.rho[0]
    else:
        scores = _multiply_linear(node, rows, attributes.coefficients, attributes.rho, 1)
    return (scores > 0).where(1.0, -1.0).cast("float32") if attributes.one_class else scores


@dataclass(frozen=True, slots=True, kw_only=True)
class SVMClassifierAttributes:
    """Attributes of SVMClassifier."""

    coefficients: list[float]
    rho: list[float]
    classlabels_ints: list[int] | None = None
    classlabels_strings: list[str] | None = None
    kernel_params: list[float] | None = None
    kernel_type: str = "LINEAR"
    post_transform: str = "NONE"
    prob_a: list[float] | None = None
    prob_b: list[float] | None = None
    support_vectors: list[float] | None = None
    vectors_per_class: list[int] | None = None


@operator("SVMClassifier", domain=ML_DOMAIN)
def svm_classifier(
    node: Call, x: Tensor, *, attributes: SVMClassifierAttributes
) -> tuple[Tensor, Tensor] | Inline:
    """Class of each row, and the scores.

    The scores are probabilities of the classes if the model has `prob_a` and `prob_b`, otherwise
    those of the pairs of classes. A single pair has two scores, for either class."""
    if attributes.classlabels_strings:
        return expand_string_labels(
            node,
            x,
            attributes.classlabels_strings,
            strings="classlabels_strings",
            integers="classlabels_ints",
        )
    labels = attributes.classlabels_ints or []
    rows = _to_rows(x)
    names = asarray_like(labels, rows, "int64")
    if not sum(attributes.vectors_per_class or []):
        scores = _multiply_linear(node, rows, attributes.coefficients, attributes.rho, len(labels))
        return names[_choose_linear(scores, attributes)], apply_post_transform(
            node, scores, attributes.post_transform
        )
    scores = _score_pairs(node, rows, attributes, len(labels))
    chosen = _count_votes(scores, len(labels)).argmax(-1)
    if attributes.prob_a or attributes.prob_b:
        scores = _estimate_probabilities(node, scores, attributes, len(labels))
    elif len(labels) == 2:
        return names[chosen], _add_first_class(scores, attributes.post_transform)
    return names[chosen], apply_post_transform(node, scores, attributes.post_transform)


def _add_first_class(scores: Tensor, transform: str) -> Tensor:
    """Scores of two classes from their only pair's score, which is positive for the first class.

    As in onnxruntime, the pair's own score is in the second column.
    """
    match transform:
        case "NONE":
            return sv.concat([-scores, scores], axis=1)
        case "LOGISTIC":
            return sv.concat([-scores, scores], axis=1).sigmoid()
        case _:
            # onnxruntime applies no other transform to a single score.
            return sv.concat([1 - scores, scores], axis=1)


def _choose_linear(scores: Tensor, attributes: SVMClassifierAttributes) -> Tensor:
    """Index of the class of each row for a model without support vectors, as in onnxruntime."""
    best = scores.argmax(-1)
    if scores.shape[1] != 2 or attributes.prob_a:
        return best
    # Of two classes, the second one wins if any score exceeds the threshold.
    is_positive = all(value >= 0 for value in attributes.coefficients)
    largest = scores.max(-1)
    is_second = largest >= 0.5 if is_positive else largest > 0
    return is_second.where(1, best)


def _score_pairs(
    node: Call, rows: Tensor, attributes: SVMClassifierAttributes, n_classes: int
) -> Tensor:
    """Scores of the pairs of classes, of shape (rows, pairs)."""
    counts = attributes.vectors_per_class or []
    if len(counts) != n_classes:
        raise node.refuse(f"expected {n_classes} numbers of 'vectors_per_class', got {len(counts)}")
    n_vectors = sum(counts)
    pairs = list(combinations(range(n_classes), 2))
    coefficients, rho = attributes.coefficients, attributes.rho
    if len(coefficients) < (n_classes - 1) * n_vectors:
        raise node.refuse(
            f"expected {n_classes - 1} x {n_vectors} coefficients or more, got {len(coefficients)}"
        )
    if len(rho) < len(pairs):
        raise node.refuse(
            f"expected {len(pairs)} values of 'rho' or more, one for each pair of classes, got {len(rho)}"
        )
    table = np.array(coefficients[: (n_classes - 1) * n_vectors], np.float32).reshape(-1, n_vectors)
    # Row j - 1 has the coefficients of class i against class j for the vectors of class i, and row
    # i those for the vectors of class j. As a matrix, the pairs become one product.
    ends = np.cumsum(counts)
    weights = np.zeros((n_vectors, len(pairs)), np.float32)
    for index, (i, j) in enumerate(pairs):
        of_i, of_j = (slice(ends[k] - counts[k], ends[k]) for k in (i, j))
        weights[of_i, index] = table[j - 1, of_i]
        weights[of_j, index] = table[i, of_j]
    kernel = _make_kernel(node, attributes.kernel_type, attributes.kernel_params)
    vectors = _make_vectors(node, attributes.support_vectors, n_vectors, rows)
    products = kernel.multiply(rows, vectors) @ asarray_like(weights, rows)
    return products + asarray_like(rho[: len(pairs)], rows, "float32")


def _count_votes(scores: Tensor, n_classes: int) -> Tensor:
    """Number of pairs that each class wins, of shape (rows, classes)."""
    first, second = np.array(list(combinations(range(n_classes), 2))).T
    classes = np.arange(n_classes)
    is_first, is_second = (
        asarray_like(side[:, None] == classes, scores) for side in (first, second)
    )
    wins = (scores > 0).unsqueeze(-1)
    return wins.where(is_first, is_second).cast("int32").sum(1)


def _estimate_probabilities(
    node: Call, scores: Tensor, attributes: SVMClassifierAttributes, n_classes: int
) -> Tensor:
    """Probabilities of the classes from the scores of pairs, of shape (rows, classes)."""
    prob_a, prob_b = attributes.prob_a or [], attributes.prob_b or []
    n_pairs: int = n_classes * (n_classes - 1) // 2
    if not len(prob_a) == len(prob_b) >= n_pairs:
        raise node.refuse(
            f"expected {n_pairs} values of 'prob_a' and 'prob_b' or more, one for each pair of"
            f" classes, got {len(prob_a)} and {len(prob_b)}"
        )
    slopes, shifts = (
        asarray_like(values[:n_pairs], scores, "float32") for values in (prob_a, prob_b)
    )
    wins = 1 - (scores * slopes + shifts).sigmoid()
    wins = wins.maximum(_LEAST_PROBABILITY).minimum(1 - _LEAST_PROBABILITY)
    return _couple(wins, n_classes)


def _couple(wins: Tensor, n_classes: int) -> Tensor:
    """Probabilities of classes from those of pairs, by the method of Wu, Lin and Weng.

    The method stops before it converges, so that its results depend on the limit of its error.

    Args:
        wins: probability that the first class of a pair wins, of shape (rows, pairs).
        n_classes: number of classes.

    Source: T.-F. Wu, C.-J. Lin, R. C. Weng: Probability estimates for multi-class classification by
        pairwise coupling. JMLR 5 (2004), algorithm 2; with the limits of libsvm.
    """
    indices = {pair: index for index, pair in enumerate(combinations(range(n_classes), 2))}
    # beats[i][j]: probability that class i wins against class j.
    beats = [
        [
            wins[:, indices[i, j]]
            if i < j
            else 1 - wins[:, indices[j, i]]
            if i > j
            else wins[:, 0] * 0
            for j in range(n_classes)
        ]
        for i in range(n_classes)
    ]
    r = sv.stack([sv.stack(row, axis=-1) for row in beats], axis=1)
    lost = r.transpose(1, 2)
    diagonal = lost.square().sum(-1)
    identity = asarray_like(np.eye(n_classes, dtype=np.float32), wins)
    # Stored, since each round of the loop reads it.
    q = (identity * diagonal.unsqueeze(-1) - lost * r).contiguous()
    limit = 0.005 / n_classes

    def get_product(p: Tensor) -> tuple[Tensor, Tensor]:
        product = (q * p.unsqueeze(1)).sum(-1)
        return product, (p * product).sum(-1, keepdims=True)

    def is_far(p: Tensor) -> Tensor:
        """Rows whose error is not below the limit."""
        product, total = get_product(p)
        return (product - total).abs().max(-1, keepdims=True) >= limit

    def sweep(p: Tensor) -> Tensor:
        product, total = get_product(p)
        changed = p
        for k in range(n_classes):
            row = q[:, k]
            pivot = row[:, k : k + 1]
            step = (total - product[:, k : k + 1]) / pivot
            grown = 1 + step
            total = (total + step * (step * pivot + 2 * product[:, k : k + 1])) / grown / grown
            product = (product + step * row) / grown
            changed = (changed + step * identity[k]) / grown
        return is_far(p).where(changed, p)

    first = (wins[:, :1] * 0 + 1 / n_classes).expand(wins.shape[0], n_classes).contiguous()
    state = {"p": first, "round": sv.zeros((), dtype="int32")}
    result = sv.while_loop(
        lambda value: is_far(value["p"]).any() & (value["round"] < _MAX_ROUNDS),
        lambda value: {"p": sweep(value["p"]), "round": value["round"] + 1},
        state,
    )
    return result["p"]
