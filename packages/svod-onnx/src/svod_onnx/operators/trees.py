"""Tree ensembles (ai.onnx.ml).

All rows descend all trees at once, one level per step. The first steps select among the nodes of a
level, the later ones gather from node tables.
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
_COMPARISONS: Final = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_EQ", "BRANCH_MEMBER")
_POSITIVE_MODES: Final = dict(zip(_COMPARISONS, _COMPARISONS, strict=True)) | {
    "BRANCH_GT": "BRANCH_LEQ",
    "BRANCH_GTE": "BRANCH_LT",
    "BRANCH_NEQ": "BRANCH_EQ",
}
"""Each mode's comparison. Those of the last three are their negations."""
_LEAF: Final = "LEAF"
_AGGREGATES: Final = ("AVERAGE", "SUM", "MIN", "MAX")
_POSTS: Final = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
# Measured on AVX-512: with 3 levels, forests of depth 4 to 10 are 1.15 to 1.3 times as fast as
# without; 4 and 5 levels are slower again.
_N_SELECTED_LEVELS: Final = 3
"""Number of levels whose nodes are all read, contiguously for all trees, and selected among."""
_N_LANES: Final = 16
"""Multiple of the number of trees in a group."""
# In about the time of a kernel's launch, one row takes as many steps.
_LEAST_SAVED_STEPS: Final = 256
"""Number of steps of one row that a group of trees has to save."""
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
            _check_bounds(node, label, indices, len(self.features))
        # Leaves have features too, which are never read and may hold anything.
        # A symbolic number of features has no bound to check.
        n_known = n_features if isinstance(n_features, int) else np.iinfo(np.int64).max
        _check_bounds(node, "feature", self.features[self.is_inner], n_known)

    @property
    def is_inner(self) -> np.ndarray:
        """Whether a node compares."""
        return self.on_true != np.arange(len(self.features))

    def score(self, node: Call, x: Tensor, aggregate: str) -> Tensor:
        """Aggregated leaf weights of each row, of shape (rows, targets)."""
        self.check(node, x.shape[1])
        depths = self.get_depths(node)
        if aggregate in ("SUM", "AVERAGE"):
            total = self.sum_weights(x, depths)
            return total / len(self.roots) if aggregate == "AVERAGE" else total
        packed = self.pack(self.roots, *self.label_nodes())
        leaves = packed.descend(x, depths.max(initial=0))
        weights = asarray_like(self.weights[packed.sources], x)[leaves]
        is_weighted = asarray_like(self.is_weighted[packed.sources], x)[leaves]
        is_min = aggregate == "MIN"
        # A leaf without a weight for a target takes no part in its extremum; its 0 would.
        candidates = is_weighted.where(weights, float("inf" if is_min else "-inf"))
        extremes = candidates.min(1) if is_min else candidates.max(1)
        return is_weighted.any(1).where(extremes, 0.0).cast(weights.dtype)

    def sum_weights(self, x: Tensor, depths: np.ndarray) -> Tensor:
        """Sum of the leaf weights of each row, of shape (rows, targets)."""
        trees, levels = self.label_nodes()
        n_targets = self.weights.shape[1]
        targets = self.find_separate_targets(trees) if n_targets > 1 else None
        if targets is not None:
            # Boosted trees of several classes: only one column of the weights is read for a tree.
            packed = self.pack(self.roots[np.argsort(targets, kind="stable")], trees, levels)
            leaves = packed.descend(x, int(depths.max(initial=0)))
            weights = asarray_like(self.weights.sum(1)[packed.sources], x)[leaves]
            return weights.reshape(x.shape[0], n_targets, -1).sum(2)
        packed = self.pack(self.roots, trees, levels)
        weights = asarray_like(self.weights[packed.sources], x)
        # The nodes of all groups are in one table, so a group reads rows of it.
        sums = [
            weights[packed.descend(x, int(depths[group[0]]), group)].sum(1)
            for group in _group_by_depth(depths)
        ]
        return sum(sums[1:], sums[0])

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

    def pack(self, roots: np.ndarray, trees: np.ndarray, levels: np.ndarray) -> _PackedNodes:
        """Nodes in the layout for traversal.

        Args:
            roots: indices of the root nodes, in the order of the results.
            trees: tree of each node, from `label_nodes`.
            levels: level of each node.
        """
        n_nodes, is_inner = len(self.features), self.is_inner
        # The negated comparisons are those of `_COMPARISONS` with the children swapped. Without
        # NaN, that is: BRANCH_GT with a split of NaN is false, and so is BRANCH_LEQ.
        modes = np.array(_MODES)[self.modes]
        is_negated = np.isin(modes, ("BRANCH_GTE", "BRANCH_GT")) & ~np.isnan(self.splits)
        is_negated |= modes == "BRANCH_NEQ"
        comparisons = np.array([_COMPARISONS.index(_POSITIVE_MODES[mode]) for mode in _MODES])[
            self.modes
        ]
        # BRANCH_NEQ is true for NaN, whatever the node says.
        tracks_second = np.where(is_negated, ~self.on_missing, self.on_missing)
        tracks_second &= is_inner & (modes != "BRANCH_NEQ")
        first = np.where(is_negated, self.on_true, self.on_false)
        second = np.where(is_negated, self.on_false, self.on_true)
        used = np.unique(comparisons[is_inner]).tolist()
        # If NaN leads to the second child everywhere, comparing for the opposite leads it to the
        # first one without a test for NaN.
        is_opposite = (
            len(used) == 1
            and used[0] in (_COMPARISONS.index("BRANCH_LEQ"), _COMPARISONS.index("BRANCH_LT"))
            and bool((tracks_second | ~is_inner).all())
            and not np.isnan(self.splits[is_inner]).any()
        )
        if is_opposite:
            first, second = second, first
            tracks_second = np.zeros_like(tracks_second)
        # Children come in pairs, which start at even indices, so that the index of the second child
        # is that of the first one with bit 0 set.
        inner = np.flatnonzero(is_inner & (trees >= 0))
        # By tree and level: the first levels, which all rows read, are close in memory.
        inner = inner[np.lexsort((levels[inner], trees[inner]))]
        n_roots = len(roots)
        sources = np.concatenate(
            [roots, roots[: n_roots % 2], np.stack([first, second], 1)[inner].ravel()]
        ).astype(np.int64)
        first_pair = n_roots + n_roots % 2
        pairs = np.zeros(n_nodes, np.int64)
        pairs[inner] = first_pair + 2 * np.arange(len(inner))
        # A leaf is its own child.
        children = np.where(is_inner[sources], pairs[sources], np.arange(len(sources)))
        n_child_bits = max(len(sources) - 1, 1).bit_length()
        n_comparison_bits = 2 if len(used) > 1 else 0
        tracks = tracks_second[sources]
        n_missing_bits = int(tracks.any())
        shifts = np.cumsum([n_child_bits, n_missing_bits, n_comparison_bits]).tolist()
        features = np.where(is_inner, self.features, 0)[sources]
        dtype = np.uint32 if shifts[-1] + int(features.max()).bit_length() <= 32 else np.uint64
        words = (
            children
            | tracks.astype(np.int64) << shifts[0]
            | (comparisons[sources] if n_comparison_bits else 0) << shifts[1]
            | features << shifts[2]
        )
        return _PackedNodes(
            words.astype(dtype),
            # Every comparison with NaN is false, so that rows stay at a leaf.
            np.where(is_inner, self.splits, np.nan)[sources].astype(self.splits.dtype),
            None if self.members is None else self.members[sources],
            sources,
            n_roots,
            [_COMPARISONS[comparison] for comparison in used],
            shifts,
            bool(n_missing_bits),
            is_opposite,
        )


@dataclass(frozen=True, slots=True, eq=False)
class _PackedNodes:
    """Nodes in the layout for traversal: the roots, then the pairs of children.

    Each step reads two numbers of a node. A comparison that holds leads to the second child of a
    pair. Tables for gathers are padded to a power of two, so that the bits of an index prove it to
    be in bounds.

    Attributes:
        words: bit fields: index of the first child, whether NaN leads to the second child, index
            into `_COMPARISONS`, and input column.
        splits: value that a node compares with, NaN for leaves.
        members: sets of the membership nodes, padded with NaN; None without such nodes.
        sources: node of the forest.
        n_roots: number of trees.
        comparisons: comparisons of the inner nodes.
        shifts: positions of the second, third and fourth field of a word. An unused field has no
            bits.
        has_missing: whether NaN leads to the second child of a node.
        is_opposite: whether the opposite of the comparison leads to the second child.
    """

    words: np.ndarray
    splits: np.ndarray
    members: np.ndarray | None
    sources: np.ndarray
    n_roots: int
    comparisons: list[str]
    shifts: list[int]
    has_missing: bool
    is_opposite: bool

    def descend(self, x: Tensor, n_steps: int, roots: np.ndarray | None = None) -> Tensor:
        """Leaf of each row in each tree, or in the trees of `roots`, of shape (rows, trees)."""
        size = 1 << self.shifts[0]
        words = asarray_like(_pad(self.words, size), x)
        splits = asarray_like(_pad(self.splits, size), x).cast(x.dtype)
        members = None if self.members is None else asarray_like(self.members, x).cast(x.dtype)
        level = (np.arange(self.n_roots) if roots is None else roots)[None]
        nodes = asarray_like(level, x, "int32").expand(x.shape[0], level.shape[1])
        path = list[Tensor]()
        for step in range(n_steps if self.comparisons else 0):
            if step < _N_SELECTED_LEVELS:
                word, split = (
                    _select([asarray_like(table[row], x).reshape(1, -1) for row in level], path)
                    for table in (self.words, self.splits)
                )
                word, split = word.expand(*nodes.shape), split.cast(x.dtype).expand(*nodes.shape)
                level = self.get_children(level)
            else:
                word, split = words[nodes], splits[nodes]
            value = x.gather(1, self.get_features(word, x))
            sets = None if members is None else members[nodes]
            holds = self.compare(self.comparisons[0], value, split, sets)
            for comparison in self.comparisons[1:]:
                is_used = ((word >> self.shifts[1]) & 3) == _COMPARISONS.index(comparison)
                holds = is_used.where(self.compare(comparison, value, split, sets), holds)
            if self.has_missing:
                holds = holds | (value.isnan() & (((word >> self.shifts[0]) & 1) != 0))
            nodes = ((word & (size - 1)) | holds.cast(word.dtype)).cast("int32")
            path.append(holds)
        return nodes

    def get_children(self, level: np.ndarray) -> np.ndarray:
        """Both children of the nodes of a level, of shape (2 * nodes of a tree, trees)."""
        first = (self.words[level] & ((1 << self.shifts[0]) - 1)).astype(np.int64)
        # A leaf, which is its own child, has no second one.
        second = np.where(first == level, level, first | 1)
        return np.stack([first, second], axis=1).reshape(-1, level.shape[1])

    def get_features(self, words: Tensor, x: Tensor) -> Tensor:
        """Input columns that nodes compare."""
        features, n_features = words >> self.shifts[2], x.shape[1]
        # A clipped index needs no check; `_Forest.check` has refused indices that are out of bounds.
        return (features.minimum(n_features - 1) if isinstance(n_features, int) else features).cast(
            "int32"
        )

    def compare(
        self, comparison: str, value: Tensor, split: Tensor, members: Tensor | None
    ) -> Tensor:
        """Whether values lead to the second child."""
        match comparison:
            case "BRANCH_LEQ":
                return value > split if self.is_opposite else value <= split
            case "BRANCH_LT":
                return value >= split if self.is_opposite else value < split
            case "BRANCH_EQ":
                return value == split
            case _:
                assert members is not None
                return (value.unsqueeze(-1) == members).any(-1)


def _group_by_depth(depths: np.ndarray) -> list[np.ndarray]:
    """Indices of trees in groups of similar depth, the deepest tree of a group first.

    All trees of a group take as many steps as its deepest one. A group costs a kernel.
    """

    def split(order: np.ndarray) -> list[np.ndarray]:
        sizes = np.arange(_N_LANES, len(order) - _N_LANES + 1, _N_LANES)
        if not sizes.size:
            return [order]
        deepest = depths[order[0]]
        n_saved = (len(order) - sizes) * (deepest - depths[order[sizes]])
        best = int(n_saved.argmax())
        if n_saved[best] < max(_LEAST_SAVED_STEPS, 0.15 * len(order) * deepest):
            return [order]
        return split(order[: sizes[best]]) + split(order[sizes[best] :])

    return split(np.argsort(-depths, kind="stable"))


def _select(choices: Sequence[Tensor], path: Sequence[Tensor]) -> Tensor:
    """Choice that a path leads to: its last comparison tells apart neighbors."""
    if not path:
        return choices[0]
    pairs = zip(choices[::2], choices[1::2], strict=True)
    return _select([path[-1].where(second, first) for first, second in pairs], path[:-1])


def _pad(table: np.ndarray, n_rows: int) -> np.ndarray:
    """Table with zeros appended, of `n_rows` rows."""
    return np.concatenate(
        [table, np.zeros((n_rows - len(table), *table.shape[1:]), table.dtype)], axis=0
    )


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
    tree_ids = np.asarray(nodes_treeids, np.int64)
    indices = _NodeIndices.build(node, tree_ids, np.asarray(nodes_nodeids, np.int64))
    n_nodes = len(tree_ids)
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
        # -1 for an unknown child: `check` reports it, as all indices that are out of bounds.
        children = indices.find(tree_ids, np.asarray(ids, np.int64))
        return np.where(is_leaf, np.arange(n_nodes), children)

    trees, ids, targets, weights = weighted
    if len({len(trees), len(ids), len(targets), len(weights)}) > 1:
        raise node.refuse("the attributes of weights have different lengths")
    leaves = indices.find(np.asarray(trees, np.int64), np.asarray(ids, np.int64))
    if (leaves < 0).any():
        unknown_leaf = int(np.argmax(leaves < 0))
        raise node.refuse(
            "a weight refers to an unknown node (tree, id):"
            f" {(trees[unknown_leaf], ids[unknown_leaf])}"
        )
    table, is_weighted = _make_weights(
        node, n_nodes, n_targets, leaves, np.asarray(targets, np.int64), weights
    )
    on_true, on_false = lead(nodes_truenodeids), lead(nodes_falsenodeids)
    # A root is the first node of its tree.
    roots = np.unique(tree_ids, return_index=True)[1]
    numbers = {mode: number for number, mode in enumerate(_MODES)} | {_LEAF: 0}
    modes = np.array([numbers[mode] for mode in nodes_modes], np.int64)
    return _Forest(
        np.sort(roots),
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
