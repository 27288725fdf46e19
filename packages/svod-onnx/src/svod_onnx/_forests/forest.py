"""Trees with their nodes in one table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from svod_onnx._trace import Call

__all__ = ["MODES", "Forest", "check_bounds"]

MODES: Final = (
    "BRANCH_LEQ",
    "BRANCH_LT",
    "BRANCH_GTE",
    "BRANCH_GT",
    "BRANCH_EQ",
    "BRANCH_NEQ",
    "BRANCH_MEMBER",
)


@dataclass(frozen=True, slots=True, eq=False)
class Forest:
    """Trees with their nodes in a single table. A leaf is its own child, so rows stay there.

    Attributes:
        roots: indices of the root nodes.
        features: input column that a node compares.
        splits: value that a node compares with.
        modes: comparison, an index into `MODES`.
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

    def get_depths(self, node: Call) -> np.ndarray:
        """Number of steps after which every row is at a leaf, of each tree."""
        n_nodes = len(self.features)
        depths = np.zeros(len(self.roots), np.int64)
        trees, nodes, depth = np.arange(len(self.roots)), self.roots, 0
        while True:
            # Leaves are their own children; only inner nodes continue.
            is_inner = self.on_true[nodes] != nodes
            trees, nodes = trees[is_inner], nodes[is_inner]
            if not nodes.size:
                return depths
            depth += 1
            depths[trees] = depth
            if depth > n_nodes:
                raise node.refuse("the trees have a cycle")
            children = np.concatenate([self.on_true[nodes], self.on_false[nodes]])
            # A node that is reached on several paths counts once.
            trees, nodes = np.divmod(np.unique(np.tile(trees, 2) * n_nodes + children), n_nodes)

    def check(self, node: Call, n_features: object) -> None:
        """Check that all indices are in bounds."""
        for label, indices in (
            ("node", self.on_true),
            ("node", self.on_false),
            ("root", self.roots),
        ):
            check_bounds(node, label, indices, len(self.features))
        # Leaves have features too, which are never read and may hold anything.
        # A symbolic number of features has no bound to check.
        n_known = n_features if isinstance(n_features, int) else np.iinfo(np.int64).max
        check_bounds(node, "feature", self.features[self.is_inner], n_known)

    @property
    def is_inner(self) -> np.ndarray:
        """Whether a node compares."""
        return self.on_true != np.arange(len(self.features))

    def find_separate_targets(self, trees: np.ndarray) -> np.ndarray | None:
        """Target of each tree if a tree has weights for one target, and each target as many trees.

        Args:
            trees: tree of each node, from `label_nodes`.
        """
        n_targets = self.weights.shape[1]
        inner = np.flatnonzero((trees >= 0) & self.is_inner)
        is_shared = (trees[inner] != trees[self.on_true[inner]]) | (
            trees[inner] != trees[self.on_false[inner]]
        )
        if is_shared.any() or (trees[self.roots] != np.arange(len(self.roots))).any():
            return None
        leaves, targets = np.nonzero(self.is_weighted & ((trees >= 0) & ~self.is_inner)[:, None])
        pairs = np.unique(np.stack([trees[leaves], targets]), axis=1)
        counts = np.bincount(pairs[1], minlength=n_targets)
        is_separate = np.array_equal(pairs[0], np.arange(len(self.roots)))
        return pairs[1] if is_separate and (counts == counts[0]).all() else None

    def label_nodes(self) -> tuple[np.ndarray, np.ndarray]:
        """Tree and level of each node, -1 and 0 for nodes without a path from a root."""
        n_nodes = len(self.features)
        trees, levels = np.full(n_nodes, -1), np.zeros(n_nodes, np.int64)
        trees[self.roots] = np.arange(len(self.roots))
        current, level = np.unique(self.roots), 0
        while current.size:
            levels[current] = level
            parents = current[self.is_inner[current]]
            children = np.concatenate([self.on_true[parents], self.on_false[parents]])
            parents = np.tile(parents, 2)
            # A node with several parents gets the tree and the level of the first one.
            is_new = trees[children] < 0
            trees[children[is_new]] = trees[parents[is_new]]
            current, level = np.unique(children[is_new]), level + 1
        return trees, levels


def check_bounds(node: Call, label: str, indices: np.ndarray, size: int) -> None:
    """Refuse an index that is negative or not less than `size`."""
    is_outside = (indices < 0) | (indices >= size)
    if is_outside.any():
        raise node.refuse(
            f"{label} index {int(indices[is_outside][0])} is out of bounds for size {size}"
        )
