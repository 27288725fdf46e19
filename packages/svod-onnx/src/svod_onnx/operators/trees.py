"""Tree ensembles (ai.onnx.ml).

All rows descend all trees at once, one level per step, by gathers from node tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

import svod_tensor as sv
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

_MODES: Final = (
    "BRANCH_LEQ",
    "BRANCH_LT",
    "BRANCH_GTE",
    "BRANCH_GT",
    "BRANCH_EQ",
    "BRANCH_NEQ",
    "BRANCH_MEMBER",
)
_LEAF: Final = "LEAF"
_AGGREGATES: Final = ("AVERAGE", "SUM", "MIN", "MAX")
_POSTS: Final = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
# 1 GiB in float32.
_MAX_TABLE: Final = 1 << 28
"""Largest number of elements of the leaf weights, nodes times targets."""


@dataclass(frozen=True, slots=True, eq=False)
class _Forest:
    """Trees with their nodes in a single table. A leaf is its own child, so rows stay there.

    Attributes:
        roots: indices of the root nodes.
        features: input column that a node compares.
        splits: value that a node compares with.
        modes: comparison, an index into `_MODES`.
        on_true: child if the comparison is true.
        on_false: child if it is false.
        on_missing: result of the comparison for NaN.
        weights: leaf weights, of shape (nodes, targets).
        is_weighted: whether a leaf has a weight for a target, of the same shape.
        members: sets of the membership nodes, of shape (nodes, largest set), padded with NaN; None
            without such nodes.
    """

    roots: np.ndarray
    features: np.ndarray
    splits: np.ndarray
    modes: np.ndarray
    on_true: np.ndarray
    on_false: np.ndarray
    on_missing: np.ndarray
    weights: np.ndarray
    is_weighted: np.ndarray
    members: np.ndarray | None = None

    def get_depth(self, node: Call) -> int:
        """Number of steps after which every row is at a leaf."""
        current, depth = np.unique(self.roots), 0
        while True:
            current = np.unique(np.concatenate([self.on_true[current], self.on_false[current]]))
            # Leaves are their own children; only inner nodes continue.
            current = current[self.on_true[current] != current]
            depth += 1
            if not current.size:
                return depth
            if depth > len(self.features):
                raise node.refuse("the trees have a cycle")

    def check(self, node: Call, n_features: object) -> None:
        """Check that all indices are in bounds."""
        for label, indices in (
            ("node", self.on_true),
            ("node", self.on_false),
            ("root", self.roots),
        ):
            _check_bounds(node, label, indices, len(self.features))
        # Leaves have features too, which are never read and may hold anything.
        is_inner = self.on_true != np.arange(len(self.features))
        # A symbolic number of features has no bound to check.
        n_known = n_features if isinstance(n_features, int) else np.iinfo(np.int64).max
        _check_bounds(node, "feature", self.features[is_inner], n_known)

    def score(self, node: Call, x: Tensor, aggregate: str) -> Tensor:
        """Aggregated leaf weights of each row, of shape (rows, targets)."""
        self.check(node, x.shape[1])
        leaves = self.traverse(node, x)
        weights = asarray_like(self.weights, x)[leaves]
        if aggregate in ("SUM", "AVERAGE"):
            total = weights.sum(1)
            return total / len(self.roots) if aggregate == "AVERAGE" else total
        is_weighted = asarray_like(self.is_weighted, x)[leaves]
        is_min = aggregate == "MIN"
        # A leaf without a weight for a target takes no part in its extremum; its 0 would.
        candidates = is_weighted.where(weights, float("inf" if is_min else "-inf"))
        extremes = candidates.min(1) if is_min else candidates.max(1)
        return is_weighted.any(1).where(extremes, 0.0).cast(weights.dtype)

    def traverse(self, node: Call, x: Tensor) -> Tensor:
        """Leaf of each row in each tree, of shape (rows, trees)."""
        features, on_true, on_false, on_missing, modes = (
            asarray_like(table, x)
            for table in (self.features, self.on_true, self.on_false, self.on_missing, self.modes)
        )
        splits = asarray_like(self.splits, x).cast(x.dtype)
        nodes = asarray_like(self.roots, x).reshape(1, -1).expand(x.shape[0], len(self.roots))
        # Modes of leaves do not matter.
        used = sorted(set(self.modes[self.on_true != np.arange(len(self.modes))].tolist()))
        for _ in range(self.get_depth(node) if used else 0):
            value, split = x.gather(1, features[nodes]), splits[nodes]
            # Most ensembles use one mode; each further mode costs a comparison per level.
            holds = self.compare(used[0], value, split, nodes)
            for mode in used[1:]:
                holds = (modes[nodes] == mode).where(self.compare(mode, value, split, nodes), holds)
            # NaN compares as false, except for BRANCH_NEQ, so the node decides.
            holds = value.isnan().where(on_missing[nodes] | holds, holds)
            nodes = holds.where(on_true[nodes], on_false[nodes])
        return nodes

    def compare(self, mode: int, value: Tensor, split: Tensor, nodes: Tensor) -> Tensor:
        """Evaluate the comparison `mode` of the current nodes."""
        match _MODES[mode]:
            case "BRANCH_LEQ":
                return value <= split
            case "BRANCH_LT":
                return value < split
            case "BRANCH_GTE":
                return value >= split
            case "BRANCH_GT":
                return value > split
            case "BRANCH_EQ":
                return value == split
            case "BRANCH_NEQ":
                return value != split
            case _:
                assert self.members is not None
                members = asarray_like(self.members, value).cast(value.dtype)[nodes]
                return (value.unsqueeze(-1) == members).any(-1)


def _check_bounds(node: Call, label: str, indices: np.ndarray, size: int) -> None:
    is_outside = (indices < 0) | (indices >= size)
    if is_outside.any():
        raise node.refuse(
            f"{label} index {int(indices[is_outside][0])} is out of bounds for size {size}"
        )


def _make_weights(
    node: Call,
    n_nodes: int,
    n_targets: int,
    leaves: np.ndarray,
    targets: np.ndarray,
    weights: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Tables of the leaf weights, and of the leaves and targets that have a weight."""
    if n_nodes * n_targets > _MAX_TABLE:
        raise node.refuse(
            f"a table of {n_nodes} nodes by {n_targets} targets exceeds {_MAX_TABLE} elements"
        )
    _check_bounds(node, "target", targets, n_targets)
    table = np.zeros((n_nodes, n_targets), weights.dtype)
    is_weighted = np.zeros((n_nodes, n_targets), bool)
    # A leaf may have several weights for a target, which add up.
    np.add.at(table, (leaves, targets), weights)
    is_weighted[leaves, targets] = True
    return table, is_weighted


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
    _check_bounds(node, "node mode", modes, len(_MODES))

    def lead(targets: Sequence[int], is_leaf: Sequence[int]) -> np.ndarray:
        return np.concatenate(
            # Leaves follow the inner nodes in the table, and are their own children.
            [np.asarray(targets, np.int64) + n_inner * np.asarray(is_leaf, bool), leaves]
        )

    def fill(values: np.ndarray) -> np.ndarray:
        return np.concatenate([values, np.zeros(n_leaves, values.dtype)])

    missing = np.asarray(attributes.nodes_missing_value_tracks_true or [0] * n_inner, bool)
    weights, is_weighted = _make_weights(
        node,
        n_inner + n_leaves,
        attributes.n_targets,
        leaves,
        np.asarray(attributes.leaf_targetids, np.int64),
        np.asarray(attributes.leaf_weights),
    )
    forest = _Forest(
        np.asarray(attributes.tree_roots, np.int64),
        fill(np.asarray(attributes.nodes_featureids, np.int64)),
        fill(np.asarray(attributes.nodes_splits)),
        fill(modes),
        lead(attributes.nodes_truenodeids, attributes.nodes_trueleafs),
        lead(attributes.nodes_falsenodeids, attributes.nodes_falseleafs),
        fill(missing),
        weights,
        is_weighted,
        _list_members(node, modes, n_leaves, attributes.membership_values),
    )
    if not (
        0 <= attributes.aggregate_function < len(_AGGREGATES)
        and 0 <= attributes.post_transform < len(_POSTS)
    ):
        raise node.refuse(
            f"expected aggregate_function from 0 to {len(_AGGREGATES) - 1} and post_transform from"
            f" 0 to {len(_POSTS) - 1}, got {attributes.aggregate_function} and"
            f" {attributes.post_transform}"
        )
    scores = forest.score(node, x, _AGGREGATES[attributes.aggregate_function])
    return apply_post_transform(node, scores, _POSTS[attributes.post_transform]).cast(x.dtype)


def _list_members(
    node: Call, modes: np.ndarray, n_leaves: int, values: np.ndarray | None
) -> np.ndarray | None:
    """Sets of the membership nodes. `values` concatenates the sets, each with a NaN as its end."""
    membership_nodes = np.flatnonzero(modes == _MODES.index("BRANCH_MEMBER"))
    if not membership_nodes.size:
        return None
    flat = np.asarray([] if values is None else values)
    ends = np.flatnonzero(np.isnan(flat))
    if len(ends) < len(membership_nodes):
        raise node.refuse(
            f"expected {len(membership_nodes)} sets of membership values, got {len(ends)}"
        )
    sets = np.split(flat, ends + 1)[: len(membership_nodes)]
    # Padded with NaN, which equals no value.
    table = np.full((len(modes) + n_leaves, max(map(len, sets))), np.nan, flat.dtype)
    for index, members in zip(membership_nodes, sets, strict=True):
        table[index, : len(members)] = members
    return table


def _index_nodes(
    node: Call, trees: Sequence[int], ids: Sequence[int]
) -> dict[tuple[int, int], int]:
    """Index of each node by its tree and its id."""
    keys = list(zip(trees, ids, strict=True))
    indices = {key: index for index, key in enumerate(keys)}
    if len(indices) < len(keys) or not keys:
        raise node.refuse(
            "node ids must be unique within a tree, and there must be at least one node"
        )
    return indices


def _read_forest(
    node: Call,
    n_targets: int,
    *,
    nodes_treeids: list[int],
    nodes_nodeids: list[int],
    nodes_featureids: list[int],
    nodes_modes: list[str],
    nodes_truenodeids: list[int],
    nodes_falsenodeids: list[int],
    nodes_values: np.ndarray,
    missing: list[int] | None,
    weighted: tuple[list[int], list[int], list[int], np.ndarray],
) -> _Forest:
    """Forest of the older operators, whose nodes have ids within their tree, and whose leaves are
    nodes of mode LEAF.
    """
    indices = _index_nodes(node, nodes_treeids, nodes_nodeids)
    n_nodes = len(indices)
    is_leaf = np.array([mode == _LEAF for mode in nodes_modes])
    unknown = {*nodes_modes} - {*_MODES[:-1], _LEAF}
    if (
        unknown
        or len(
            {
                n_nodes,
                *map(len, (nodes_modes, nodes_featureids, nodes_truenodeids, nodes_falsenodeids)),
            }
        )
        > 1
    ):
        raise node.refuse(
            f"the attributes of nodes have unknown modes {sorted(unknown)} or different lengths"
        )

    def lead(ids: Sequence[int]) -> np.ndarray:
        keys = zip(nodes_treeids, ids, is_leaf, range(n_nodes), strict=True)
        return np.array(
            [
                # -1 for an unknown child: `check` reports it, as all indices that are out of
                # bounds.
                index if leaf else indices.get((tree, node_id), -1)
                for tree, node_id, leaf, index in keys
            ],
            np.int64,
        )

    trees, ids, targets, weights = weighted
    try:
        leaves = np.array([indices[key] for key in zip(trees, ids, strict=True)], np.int64)
    except KeyError as error:
        raise node.refuse(f"a weight refers to an unknown node (tree, id): {error}") from error
    table, is_weighted = _make_weights(
        node, n_nodes, n_targets, leaves, np.asarray(targets, np.int64), weights
    )
    on_true, on_false = lead(nodes_truenodeids), lead(nodes_falsenodeids)
    # A root is the first node of its tree; reversed, so that the first node overwrites the later
    # ones.
    roots = list({tree: index for (tree, _), index in reversed(indices.items())}.values())
    modes = np.array(
        [
            0 if leaf else _MODES.index(mode)
            for mode, leaf in zip(nodes_modes, is_leaf, strict=True)
        ],
        np.int64,
    )
    return _Forest(
        np.array(sorted(roots), np.int64),
        np.asarray(nodes_featureids, np.int64),
        nodes_values,
        modes,
        on_true,
        on_false,
        np.asarray(missing or [0] * n_nodes, bool),
        table,
        is_weighted,
    )


def _pick(floats: list[float] | None, tensor: np.ndarray | None) -> np.ndarray:
    """Attribute that is either a list of floats or a tensor."""
    # Lists of floats are float32 in the file; only a tensor may hold doubles.
    return np.asarray(tensor) if tensor is not None else np.asarray(floats or [], np.float32)


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeEnsembleRegressorAttributes:
    """Attributes of TreeEnsembleRegressor."""

    nodes_treeids: list[int]
    nodes_nodeids: list[int]
    nodes_featureids: list[int]
    nodes_modes: list[str]
    nodes_truenodeids: list[int]
    nodes_falsenodeids: list[int]
    target_treeids: list[int]
    target_nodeids: list[int]
    target_ids: list[int]
    n_targets: int = 1
    nodes_values: list[float] | None = None
    nodes_values_as_tensor: np.ndarray | None = None
    target_weights: list[float] | None = None
    target_weights_as_tensor: np.ndarray | None = None
    base_values: list[float] | None = None
    base_values_as_tensor: np.ndarray | None = None
    nodes_missing_value_tracks_true: list[int] | None = None
    nodes_hitrates: list[float] | None = None
    nodes_hitrates_as_tensor: np.ndarray | None = None
    aggregate_function: str = "SUM"
    post_transform: str = "NONE"


@operator("TreeEnsembleRegressor", domain=ML_DOMAIN)
def tree_ensemble_regressor(
    node: Call,
    x: Tensor,
    *,
    attributes: TreeEnsembleRegressorAttributes,
) -> Tensor:
    """Scores of rows, of shape (rows, targets), in float32."""
    forest = _read_forest(
        node,
        attributes.n_targets,
        nodes_treeids=attributes.nodes_treeids,
        nodes_nodeids=attributes.nodes_nodeids,
        nodes_featureids=attributes.nodes_featureids,
        nodes_modes=attributes.nodes_modes,
        nodes_truenodeids=attributes.nodes_truenodeids,
        nodes_falsenodeids=attributes.nodes_falsenodeids,
        nodes_values=_pick(attributes.nodes_values, attributes.nodes_values_as_tensor),
        missing=attributes.nodes_missing_value_tracks_true,
        weighted=(
            attributes.target_treeids,
            attributes.target_nodeids,
            attributes.target_ids,
            _pick(attributes.target_weights, attributes.target_weights_as_tensor),
        ),
    )
    if attributes.aggregate_function not in _AGGREGATES:
        raise node.refuse(
            f"unknown aggregate_function {attributes.aggregate_function!r}; expected one of {', '.join(_AGGREGATES)}"
        )
    scores = forest.score(node, _widen(x), attributes.aggregate_function)
    base = _pick(attributes.base_values, attributes.base_values_as_tensor)
    if base.size:
        scores = scores + asarray_like(base, x)
    return apply_post_transform(node, scores, attributes.post_transform).cast("float32")


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeEnsembleClassifierAttributes:
    """Attributes of TreeEnsembleClassifier."""

    nodes_treeids: list[int]
    nodes_nodeids: list[int]
    nodes_featureids: list[int]
    nodes_modes: list[str]
    nodes_truenodeids: list[int]
    nodes_falsenodeids: list[int]
    class_treeids: list[int]
    class_nodeids: list[int]
    class_ids: list[int]
    nodes_values: list[float] | None = None
    nodes_values_as_tensor: np.ndarray | None = None
    class_weights: list[float] | None = None
    class_weights_as_tensor: np.ndarray | None = None
    base_values: list[float] | None = None
    base_values_as_tensor: np.ndarray | None = None
    nodes_missing_value_tracks_true: list[int] | None = None
    nodes_hitrates: list[float] | None = None
    nodes_hitrates_as_tensor: np.ndarray | None = None
    classlabels_int64s: list[int] | None = None
    classlabels_strings: list[str] | None = None
    post_transform: str = "NONE"


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
    weights = _pick(attributes.class_weights, attributes.class_weights_as_tensor)
    forest = _read_forest(
        node,
        max(len(labels), 1),
        nodes_treeids=attributes.nodes_treeids,
        nodes_nodeids=attributes.nodes_nodeids,
        nodes_featureids=attributes.nodes_featureids,
        nodes_modes=attributes.nodes_modes,
        nodes_truenodeids=attributes.nodes_truenodeids,
        nodes_falsenodeids=attributes.nodes_falsenodeids,
        nodes_values=_pick(attributes.nodes_values, attributes.nodes_values_as_tensor),
        missing=attributes.nodes_missing_value_tracks_true,
        weighted=(
            attributes.class_treeids,
            attributes.class_nodeids,
            attributes.class_ids,
            weights,
        ),
    )
    scores = forest.score(node, _widen(x), "SUM")
    base = _pick(attributes.base_values, attributes.base_values_as_tensor)
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
