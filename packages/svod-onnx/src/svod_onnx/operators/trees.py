"""Tree ensembles (ai.onnx.ml)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

import svod_tensor as sv
from svod_onnx._forests.forest import MODES, Forest, check_bounds
from svod_onnx._forests.reading import (
    IdentifiedNodes,
    list_members,
    make_weights,
    pick,
    read_forest,
)
from svod_onnx._forests.scoring import AGGREGATES, score
from svod_onnx._inlining import Inline
from svod_onnx._registry import operator
from svod_onnx._scores import ML_DOMAIN, apply_post_transform, asarray_like, choose_class
from svod_onnx._string_labels import expand_string_labels
from svod_onnx._trace import Call
from svod_tensor import Tensor

__all__ = [
    "TreeEnsembleAttributes",
    "TreeEnsembleClassifierAttributes",
    "TreeEnsembleRegressorAttributes",
    "tree_ensemble",
    "tree_ensemble_classifier",
    "tree_ensemble_regressor",
]

_POSTS: Final = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeEnsembleAttributes:
    """Attributes of TreeEnsemble."""

    nodes_splits: np.ndarray
    nodes_featureids: list[int]
    nodes_modes: np.ndarray
    nodes_truenodeids: list[int]
    nodes_falsenodeids: list[int]
    nodes_trueleafs: list[int]
    nodes_falseleafs: list[int]
    leaf_targetids: list[int]
    leaf_weights: np.ndarray
    tree_roots: list[int]
    n_targets: int = 1
    aggregate_function: int = 1
    post_transform: int = 0
    membership_values: np.ndarray | None = None
    nodes_missing_value_tracks_true: list[int] | None = None
    nodes_hitrates: np.ndarray | None = None


@operator("TreeEnsemble", since=5, domain=ML_DOMAIN)
def tree_ensemble(
    node: Call,
    x: Tensor,
    *,
    attributes: TreeEnsembleAttributes,
) -> Tensor:
    """Scores of rows, of shape (rows, targets).

    The node table has the inner nodes first, then the leaves.
    """
    n_inner, n_leaves = len(attributes.nodes_featureids), len(attributes.leaf_targetids)
    leaves = np.arange(n_leaves) + n_inner
    modes = np.asarray(attributes.nodes_modes).astype(np.int64)
    branches = (
        attributes.nodes_truenodeids,
        attributes.nodes_falsenodeids,
        attributes.nodes_trueleafs,
        attributes.nodes_falseleafs,
    )
    if {n_inner, len(modes), *map(len, branches)} != {n_inner}:
        raise node.refuse("the attributes of nodes have different lengths")
    check_bounds(node, "node mode", modes, len(MODES))

    def lead(targets: Sequence[int], is_leaf: Sequence[int]) -> np.ndarray:
        return np.concatenate(
            # Leaves follow the inner nodes in the table, and are their own children.
            [np.asarray(targets, np.int64) + n_inner * np.asarray(is_leaf, bool), leaves]
        )

    def fill(values: np.ndarray) -> np.ndarray:
        return np.concatenate([values, np.zeros(n_leaves, values.dtype)])

    missing = np.asarray(attributes.nodes_missing_value_tracks_true or [0] * n_inner, bool)
    weights, is_weighted = make_weights(
        node,
        n_inner + n_leaves,
        attributes.n_targets,
        leaves,
        np.asarray(attributes.leaf_targetids, np.int64),
        np.asarray(attributes.leaf_weights),
    )
    forest = Forest(
        np.asarray(attributes.tree_roots, np.int64),
        fill(np.asarray(attributes.nodes_featureids, np.int64)),
        fill(np.asarray(attributes.nodes_splits)),
        fill(modes),
        lead(attributes.nodes_truenodeids, attributes.nodes_trueleafs),
        lead(attributes.nodes_falsenodeids, attributes.nodes_falseleafs),
        fill(missing),
        weights,
        is_weighted,
        list_members(node, modes, n_leaves, attributes.membership_values),
    )
    if not (
        0 <= attributes.aggregate_function < len(AGGREGATES)
        and 0 <= attributes.post_transform < len(_POSTS)
    ):
        raise node.refuse(
            f"expected aggregate_function from 0 to {len(AGGREGATES) - 1} and post_transform from"
            f" 0 to {len(_POSTS) - 1}, got {attributes.aggregate_function} and"
            f" {attributes.post_transform}"
        )
    scores = score(forest, node, x, AGGREGATES[attributes.aggregate_function])
    return apply_post_transform(node, scores, _POSTS[attributes.post_transform]).cast(x.dtype)


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeEnsembleRegressorAttributes(IdentifiedNodes):
    """Attributes of TreeEnsembleRegressor."""

    target_treeids: list[int]
    target_nodeids: list[int]
    target_ids: list[int]
    target_weights: list[float] | None = None
    target_weights_as_tensor: np.ndarray | None = None
    n_targets: int = 1
    aggregate_function: str = "SUM"


@operator("TreeEnsembleRegressor", domain=ML_DOMAIN)
def tree_ensemble_regressor(
    node: Call,
    x: Tensor,
    *,
    attributes: TreeEnsembleRegressorAttributes,
) -> Tensor:
    """Scores of rows, of shape (rows, targets), in float32."""
    forest = read_forest(
        node,
        attributes,
        attributes.n_targets,
        trees=attributes.target_treeids,
        ids=attributes.target_nodeids,
        targets=attributes.target_ids,
        weights=pick(attributes.target_weights, attributes.target_weights_as_tensor),
    )
    if attributes.aggregate_function not in AGGREGATES:
        raise node.refuse(
            f"unknown aggregate_function {attributes.aggregate_function!r}; expected one of {', '.join(AGGREGATES)}"
        )
    scores = score(forest, node, _widen(x), attributes.aggregate_function)
    if attributes.base.size:
        scores = scores + asarray_like(attributes.base, x)
    return apply_post_transform(node, scores, attributes.post_transform).cast("float32")


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeEnsembleClassifierAttributes(IdentifiedNodes):
    """Attributes of TreeEnsembleClassifier."""

    class_treeids: list[int]
    class_nodeids: list[int]
    class_ids: list[int]
    class_weights: list[float] | None = None
    class_weights_as_tensor: np.ndarray | None = None
    classlabels_int64s: list[int] | None = None
    classlabels_strings: list[str] | None = None


@operator("TreeEnsembleClassifier", domain=ML_DOMAIN)
def tree_ensemble_classifier(
    node: Call,
    x: Tensor,
    *,
    attributes: TreeEnsembleClassifierAttributes,
) -> tuple[Tensor, Tensor] | Inline:
    """Class of each row, and the scores, of shape (rows, classes)."""
    if attributes.classlabels_strings:
        return expand_string_labels(
            node,
            x,
            attributes.classlabels_strings,
            strings="classlabels_strings",
            integers="classlabels_int64s",
        )
    labels = attributes.classlabels_int64s or []
    weights = pick(attributes.class_weights, attributes.class_weights_as_tensor)
    forest = read_forest(
        node,
        attributes,
        max(len(labels), 1),
        trees=attributes.class_treeids,
        ids=attributes.class_nodeids,
        targets=attributes.class_ids,
        weights=weights,
    )
    scores, base = score(forest, node, _widen(x), "SUM"), attributes.base
    # Binary ensembles may have weights for one class only. As in onnxruntime, the score of the first
    # class then belongs to the second one, from which the first one follows; but with weights for
    # the second class only, the first one keeps the score 0.
    is_positive = bool((weights >= 0).all())
    is_binary = len(labels) == 2 and len(set(attributes.class_ids)) == 1
    if is_binary and attributes.class_ids[0] == 0:
        only = scores[:, :1] + float(base[0]) if base.size else scores[:, :1]
        return choose_class(node, only, labels, attributes.post_transform, is_positive=is_positive)
    if is_binary:
        # onnxruntime ignores a single base value, which would belong to the first class.
        second = scores[:, 1] + float(base[1]) if base.size == 2 else scores[:, 1]
        chosen = (second > (0.5 if is_positive else 0.0)).cast("int64")
        pair = sv.stack([second.zeros_like(), second], axis=1)
        return asarray_like(labels, x, "int64")[chosen], apply_post_transform(
            node, pair, attributes.post_transform
        ).cast("float32")
    return choose_class(
        node,
        scores + asarray_like(base, x) if base.size else scores,
        labels,
        attributes.post_transform,
    )


def _widen(x: Tensor) -> Tensor:
    """Rows as floats; integers become float32."""
    return x if x.dtype.is_float else x.cast("float32")
