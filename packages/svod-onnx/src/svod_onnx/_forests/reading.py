"""Forests from the attributes of operators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from svod_onnx._forests.forest import MODES, Forest, check_bounds
from svod_onnx._trace import Call

__all__ = ["IdentifiedNodes", "list_members", "make_weights", "pick", "read_forest"]

_LEAF: Final = "LEAF"
# 1 GiB in float32.
_MAX_TABLE: Final = 1 << 28
"""Largest number of elements of the leaf weights, nodes times targets."""


def make_weights(
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
    check_bounds(node, "target", targets, n_targets)
    table = np.zeros((n_nodes, n_targets), weights.dtype)
    is_weighted = np.zeros((n_nodes, n_targets), bool)
    # A leaf may have several weights for a target, which add up.
    np.add.at(table, (leaves, targets), weights)
    is_weighted[leaves, targets] = True
    return table, is_weighted


def list_members(
    node: Call, modes: np.ndarray, n_leaves: int, values: np.ndarray | None
) -> np.ndarray | None:
    """Sets of the membership nodes. `values` concatenates the sets, each with a NaN as its end."""
    membership_nodes = np.flatnonzero(modes == MODES.index("BRANCH_MEMBER"))
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


@dataclass(frozen=True, slots=True, eq=False)
class _NodeIndices:
    """Indices of nodes by tree and id.

    Attributes:
        trees: sorted ids of the trees.
        least: smallest id of a node.
        span: number of possible ids in a tree.
        keys: sorted numbers of the nodes' trees and ids.
        order: indices of the nodes, sorted by key.
    """

    trees: np.ndarray
    least: int
    span: int
    keys: np.ndarray
    order: np.ndarray

    @classmethod
    def build(cls, node: Call, trees: np.ndarray, ids: np.ndarray) -> _NodeIndices:
        """Check that ids are unique, and sort them."""
        if trees.size and trees.shape == ids.shape:
            tree_ids, ranks = np.unique(trees, return_inverse=True)
            least = int(ids.min())
            span = int(ids.max()) - least + 1
            keys = ranks * span + (ids - least)
            order = np.argsort(keys, kind="stable")
            keys = keys[order]
            if (keys[1:] != keys[:-1]).all():
                return cls(tree_ids, least, span, keys, order)
        raise node.refuse(
            "node ids must be unique within a tree, and there must be at least one node"
        )

    def find(self, trees: np.ndarray, ids: np.ndarray) -> np.ndarray:
        """Indices of nodes, -1 for an unknown one."""
        ranks = np.searchsorted(self.trees, trees).clip(max=len(self.trees) - 1)
        keys = ranks * self.span + (ids - self.least)
        slots = np.searchsorted(self.keys, keys).clip(max=len(self.keys) - 1)
        is_known = (self.trees[ranks] == trees) & (self.keys[slots] == keys)
        is_known &= (ids >= self.least) & (ids - self.least < self.span)
        return np.where(is_known, self.order[slots], -1)


@dataclass(frozen=True, slots=True, kw_only=True)
class IdentifiedNodes:
    """Attributes that TreeEnsembleRegressor and TreeEnsembleClassifier share. Their nodes have ids
    within a tree.
    """

    nodes_treeids: list[int]
    nodes_nodeids: list[int]
    nodes_featureids: list[int]
    nodes_modes: list[str]
    nodes_truenodeids: list[int]
    nodes_falsenodeids: list[int]
    nodes_values: list[float] | None = None
    nodes_values_as_tensor: np.ndarray | None = None
    nodes_missing_value_tracks_true: list[int] | None = None
    nodes_hitrates: list[float] | None = None
    nodes_hitrates_as_tensor: np.ndarray | None = None
    base_values: list[float] | None = None
    base_values_as_tensor: np.ndarray | None = None
    post_transform: str = "NONE"

    @property
    def base(self) -> np.ndarray:
        """Values that the scores of the targets start with."""
        return pick(self.base_values, self.base_values_as_tensor)


def read_forest(
    node: Call,
    attributes: IdentifiedNodes,
    n_targets: int,
    *,
    trees: list[int],
    ids: list[int],
    targets: list[int],
    weights: np.ndarray,
) -> Forest:
    """Forest of an operator whose leaves are nodes of mode LEAF.

    Args:
        node: operator.
        attributes: attributes of the nodes.
        n_targets: number of targets.
        trees: tree of the leaf of each weight.
        ids: node id of the leaf.
        targets: target of the weight.
        weights: weights of the leaves.
    """
    tree_ids = np.asarray(attributes.nodes_treeids, np.int64)
    indices = _NodeIndices.build(node, tree_ids, np.asarray(attributes.nodes_nodeids, np.int64))
    n_nodes = len(tree_ids)
    is_leaf = np.array([mode == _LEAF for mode in attributes.nodes_modes])
    unknown = {*attributes.nodes_modes} - {*MODES[:-1], _LEAF}
    branches = (attributes.nodes_truenodeids, attributes.nodes_falsenodeids)
    columns = (attributes.nodes_modes, attributes.nodes_featureids, *branches)
    if unknown or {n_nodes, *map(len, columns)} != {n_nodes}:
        raise node.refuse(
            f"the attributes of nodes have unknown modes {sorted(unknown)} or different lengths"
        )

    if len({len(trees), len(ids), len(targets), len(weights)}) > 1:
        raise node.refuse("the attributes of weights have different lengths")
    leaves = indices.find(np.asarray(trees, np.int64), np.asarray(ids, np.int64))
    if (leaves < 0).any():
        unknown_leaf = int(np.argmax(leaves < 0))
        raise node.refuse(
            "a weight refers to an unknown node (tree, id):"
            f" {(trees[unknown_leaf], ids[unknown_leaf])}"
        )
    table, is_weighted = make_weights(
        node, n_nodes, n_targets, leaves, np.asarray(targets, np.int64), weights
    )
    # -1 for an unknown child: `check` reports it, as all indices that are out of bounds.
    children = (indices.find(tree_ids, np.asarray(branch, np.int64)) for branch in branches)
    on_true, on_false = (np.where(is_leaf, np.arange(n_nodes), child) for child in children)
    # A root is the first node of its tree.
    roots = np.unique(tree_ids, return_index=True)[1]
    numbers = {mode: number for number, mode in enumerate(MODES)} | {_LEAF: 0}
    modes = np.array([numbers[mode] for mode in attributes.nodes_modes], np.int64)
    return Forest(
        np.sort(roots),
        np.asarray(attributes.nodes_featureids, np.int64),
        pick(attributes.nodes_values, attributes.nodes_values_as_tensor),
        modes,
        on_true,
        on_false,
        np.asarray(attributes.nodes_missing_value_tracks_true or [0] * n_nodes, bool),
        table,
        is_weighted,
    )


def pick(floats: list[float] | None, tensor: np.ndarray | None) -> np.ndarray:
    """Attribute that is either a list of floats or a tensor."""
    # Lists of floats are float32 in the file; only a tensor may hold doubles.
    return np.asarray(tensor) if tensor is not None else np.asarray(floats or [], np.float32)
