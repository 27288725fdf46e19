"""Ensembles of trees (ai.onnx.ml): all rows walk down all trees at once, one level in each step, by gathers from tables of nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from svod_onnx._registry import operator
from svod_onnx._scores import ML_DOMAIN, apply_post_transform, asarray_like, choose_class
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

_MODES: Final = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER")
_LEAF: Final = "LEAF"
_AGGREGATES: Final = ("AVERAGE", "SUM", "MIN", "MAX")
_POSTS: Final = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
_MAX_TABLE: Final = 1 << 28
"""Elements of the table of the leaves' weights: nodes times targets."""


@dataclass(frozen=True, slots=True, eq=False)
class _Forest:
    """Trees whose nodes stand in one list; a leaf leads to itself, so that a row stays there.

    Attributes:
        roots: of the trees.
        features: which column of the input a node compares.
        splits: with what.
        modes: how: a place in `_MODES`.
        on_true: the next node where the comparison holds.
        on_false: where it does not.
        on_missing: whether it holds for NaN.
        weights: of the leaves, of shape (nodes, targets).
        is_weighted: likewise, where a leaf says something of a target.
        members: of the sets that nodes compare with, of shape (nodes, greatest number), filled up with NaN; None without sets.
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
        """The number of steps after which every row is at a leaf."""
        current, depth = np.unique(self.roots), 0
        while True:
            current = np.unique(np.concatenate([self.on_true[current], self.on_false[current]]))
            current = current[self.on_true[current] != current]
            depth += 1
            if not current.size:
                return depth
            if depth > len(self.features):
                raise node.refuse("has trees that lead in a circle")

    def check(self, node: Call, n_features: object) -> None:
        """See that no table is read beyond its end."""
        for what, places in (("node", self.on_true), ("node", self.on_false), ("root", self.roots)):
            if places.size and not (places.min() >= 0 and places.max() < len(self.features)):
                raise node.refuse(f"names a {what} that is not there")
        is_read = self.on_true != np.arange(len(self.features))
        read = self.features[is_read]
        if read.size and not (read.min() >= 0 and (not isinstance(n_features, int) or read.max() < n_features)):
            raise node.refuse(f"compares feature {int(read.max())} of {n_features}")

    def score(self, node: Call, x: Tensor, aggregate: str) -> Tensor:
        """What the leaves say of each row, of shape (rows, targets)."""
        self.check(node, x.shape[1])
        place = self.traverse(node, x)
        weights = asarray_like(self.weights, x)[place]
        if aggregate in ("SUM", "AVERAGE"):
            total = weights.sum(1)
            return total / len(self.roots) if aggregate == "AVERAGE" else total
        is_weighted = asarray_like(self.is_weighted, x)[place]
        is_least = aggregate == "MIN"
        shown = is_weighted.where(weights, float("inf" if is_least else "-inf"))
        found = shown.min(1) if is_least else shown.max(1)
        return is_weighted.any(1).where(found, 0.0).cast(weights.dtype)

    def traverse(self, node: Call, x: Tensor) -> Tensor:
        """The leaf of each row in each tree, of shape (rows, trees)."""
        features, on_true, on_false, on_missing, modes = (
            asarray_like(table, x)
            for table in (self.features, self.on_true, self.on_false, self.on_missing, self.modes)
        )
        splits = asarray_like(self.splits, x).cast(x.dtype)
        place = asarray_like(self.roots, x).reshape(1, -1).expand(x.shape[0], len(self.roots))
        used = sorted(set(self.modes[self.on_true != np.arange(len(self.modes))].tolist()))
        for _ in range(self.get_depth(node) if used else 0):
            value, split = x.gather(1, features[place]), splits[place]
            holds = self.compare(used[0], value, split, place)
            for mode in used[1:]:
                holds = (modes[place] == mode).where(self.compare(mode, value, split, place), holds)
            holds = value.isnan().where(on_missing[place] | holds, holds)
            place = holds.where(on_true[place], on_false[place])
        return place

    def compare(self, mode: int, value: Tensor, split: Tensor, place: Tensor) -> Tensor:
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
                members = asarray_like(self.members, value).cast(value.dtype)[place]
                return (value.unsqueeze(-1) == members).any(-1)


def _make_weights(
    node: Call, n_nodes: int, n_targets: int, places: np.ndarray, targets: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    if n_nodes * n_targets > _MAX_TABLE:
        raise node.refuse(f"has {n_nodes} nodes and {n_targets} targets, which would be a table too large")
    if targets.size and not (targets.min() >= 0 and targets.max() < n_targets):
        raise node.refuse(f"gives a weight to target {int(targets.max())} of {n_targets}")
    table = np.zeros((n_nodes, n_targets), weights.dtype)
    is_weighted = np.zeros((n_nodes, n_targets), bool)
    np.add.at(table, (places, targets), weights)
    is_weighted[places, targets] = True
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
    """What trees say of rows, of shape (rows, targets). The list of a forest has the inner nodes first, then the leaves."""
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
        raise node.refuse("has attributes of nodes that have different lengths")
    if modes.size and not (modes.min() >= 0 and modes.max() < len(_MODES)):
        raise node.refuse(f"compares in mode {int(modes.max())}, which there is not")

    def lead(targets: Sequence[int], is_leaf: Sequence[int]) -> np.ndarray:
        return np.concatenate([np.asarray(targets, np.int64) + n_inner * np.asarray(is_leaf, bool), leaves])

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
    if not (0 <= attributes.aggregate_function < len(_AGGREGATES) and 0 <= attributes.post_transform < len(_POSTS)):
        raise node.refuse("has an aggregate function or a transform that there is not")
    scores = forest.score(node, x, _AGGREGATES[attributes.aggregate_function])
    return apply_post_transform(node, scores, _POSTS[attributes.post_transform]).cast(x.dtype)


def _list_members(node: Call, modes: np.ndarray, n_leaves: int, values: np.ndarray | None) -> np.ndarray | None:
    """The sets of the nodes that compare with one: in `values`, one after the other, each with a NaN behind it."""
    comparing = np.flatnonzero(modes == _MODES.index("BRANCH_MEMBER"))
    if not comparing.size:
        return None
    flat = np.asarray([] if values is None else values)
    ends = np.flatnonzero(np.isnan(flat))
    if len(ends) < len(comparing):
        raise node.refuse(f"has {len(comparing)} nodes that compare with a set, and {len(ends)} sets")
    sets = np.split(flat, ends + 1)[: len(comparing)]
    table = np.full((len(modes) + n_leaves, max(map(len, sets))), np.nan, flat.dtype)
    for place, members in zip(comparing, sets, strict=True):
        table[place, : len(members)] = members
    return table


def _number_nodes(node: Call, trees: Sequence[int], numbers: Sequence[int]) -> dict[tuple[int, int], int]:
    keys = list(zip(trees, numbers, strict=True))
    found = {key: place for place, key in enumerate(keys)}
    if len(found) < len(keys) or not keys:
        raise node.refuse("has two nodes of one number, or none")
    return found


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
    """The trees of the older operators, whose nodes have a number within their tree, and leaves are nodes with a mode of their own."""
    places = _number_nodes(node, nodes_treeids, nodes_nodeids)
    n_nodes = len(places)
    is_leaf = np.array([mode == _LEAF for mode in nodes_modes])
    unknown = {*nodes_modes} - {*_MODES[:-1], _LEAF}
    if unknown or len({n_nodes, *map(len, (nodes_modes, nodes_featureids, nodes_truenodeids, nodes_falsenodeids))}) > 1:
        raise node.refuse(f"has unknown modes {sorted(unknown)}, or attributes of different lengths")

    def lead(numbers: Sequence[int]) -> np.ndarray:
        keys = zip(nodes_treeids, numbers, is_leaf, range(n_nodes), strict=True)
        return np.array([own if leaf else places.get((tree, number), -1) for tree, number, leaf, own in keys], np.int64)

    trees, numbers, targets, weights = weighted
    try:
        leaves = np.array([places[key] for key in zip(trees, numbers, strict=True)], np.int64)
    except KeyError as error:
        raise node.refuse(f"gives a weight to node {error}, which is not there") from error
    table, is_weighted = _make_weights(node, n_nodes, n_targets, leaves, np.asarray(targets, np.int64), weights)
    on_true, on_false = lead(nodes_truenodeids), lead(nodes_falsenodeids)
    # A root is the first node of its tree.
    roots = list({tree: place for (tree, _), place in reversed(places.items())}.values())
    modes = np.array(
        [0 if leaf else _MODES.index(mode) for mode, leaf in zip(nodes_modes, is_leaf, strict=True)], np.int64
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
    """An attribute that is either a list of floats or a tensor."""
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
    """What trees say of rows, of shape (rows, targets), in float32."""
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
        raise node.refuse(f"has no aggregate function {attributes.aggregate_function!r}")
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
) -> tuple[Tensor, Tensor]:
    """The class of each row, and its scores, of shape (rows, classes)."""
    if attributes.classlabels_strings:
        raise node.refuse("has classes that are named by strings, which svod-onnx does not give: name them by numbers")
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
        weighted=(attributes.class_treeids, attributes.class_nodeids, attributes.class_ids, weights),
    )
    scores = forest.score(node, _widen(x), "SUM")
    base = _pick(attributes.base_values, attributes.base_values_as_tensor)
    is_binary = len(labels) == 2 and len(set(attributes.class_ids)) == 1
    if is_binary:
        only = scores[:, attributes.class_ids[0] : attributes.class_ids[0] + 1]
        only = only + float(base[0]) if base.size == 1 else only
        return choose_class(node, only, labels, attributes.post_transform, is_positive=bool((weights >= 0).all()))
    return choose_class(
        node, scores + asarray_like(base, x) if base.size else scores, labels, attributes.post_transform
    )


def _widen(x: Tensor) -> Tensor:
    """Rows of floats: integers are compared as float32."""
    return x if x.dtype.is_float else x.cast("float32")
