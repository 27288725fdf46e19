"""Layout of a forest's nodes for traversal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from svod_onnx._forests.forest import MODES, Forest

__all__ = ["COMPARISONS", "PackedNodes", "pack_nodes"]

COMPARISONS: Final = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_EQ", "BRANCH_MEMBER")
_POSITIVE_MODES: Final = dict(zip(COMPARISONS, COMPARISONS, strict=True)) | {
    "BRANCH_GT": "BRANCH_LEQ",
    "BRANCH_GTE": "BRANCH_LT",
    "BRANCH_NEQ": "BRANCH_EQ",
}
"""Each mode's comparison. Those of the last three are their negations."""


@dataclass(frozen=True, slots=True, eq=False)
class PackedNodes:
    """Nodes in the layout for traversal: the roots, then the pairs of children.

    Each step reads two numbers of a node. A comparison that holds leads to the second child of a
    pair. Tables for gathers are padded to a power of two, so that the bits of an index prove it to
    be in bounds.

    Attributes:
        words: bit fields: index of the first child, whether NaN leads to the second child, index
            into `COMPARISONS`, and input column.
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

    def get_children(self, level: np.ndarray) -> np.ndarray:
        """Both children of the nodes of a level, of shape (2 * nodes of a tree, trees)."""
        first = (self.words[level] & ((1 << self.shifts[0]) - 1)).astype(np.int64)
        # A leaf, which is its own child, has no second one.
        second = np.where(first == level, level, first | 1)
        return np.stack([first, second], axis=1).reshape(-1, level.shape[1])


def pack_nodes(
    forest: Forest, roots: np.ndarray, trees: np.ndarray, levels: np.ndarray
) -> PackedNodes:
    """Nodes in the layout for traversal.

    Args:
        roots: indices of the root nodes, in the order of the results.
        trees: tree of each node, from `label_nodes`.
        levels: level of each node.
    """
    n_nodes, is_inner = len(forest.features), forest.is_inner
    # The negated comparisons are those of `COMPARISONS` with the children swapped. Without
    # NaN, that is: BRANCH_GT with a split of NaN is false, and so is BRANCH_LEQ.
    modes = np.array(MODES)[forest.modes]
    is_negated = np.isin(modes, ("BRANCH_GTE", "BRANCH_GT")) & ~np.isnan(forest.splits)
    is_negated |= modes == "BRANCH_NEQ"
    comparisons = np.array([COMPARISONS.index(_POSITIVE_MODES[mode]) for mode in MODES])[
        forest.modes
    ]
    # BRANCH_NEQ is true for NaN, whatever the node says.
    tracks_second = np.where(is_negated, ~forest.on_missing, forest.on_missing)
    tracks_second &= is_inner & (modes != "BRANCH_NEQ")
    first = np.where(is_negated, forest.on_true, forest.on_false)
    second = np.where(is_negated, forest.on_false, forest.on_true)
    used = np.unique(comparisons[is_inner]).tolist()
    # If NaN leads to the second child everywhere, comparing for the opposite leads it to the
    # first one without a test for NaN.
    is_opposite = (
        len(used) == 1
        and used[0] in (COMPARISONS.index("BRANCH_LEQ"), COMPARISONS.index("BRANCH_LT"))
        and bool((tracks_second | ~is_inner).all())
        and not np.isnan(forest.splits[is_inner]).any()
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
    features = np.where(is_inner, forest.features, 0)[sources]
    dtype = np.uint32 if shifts[-1] + int(features.max()).bit_length() <= 32 else np.uint64
    words = (
        children
        | tracks.astype(np.int64) << shifts[0]
        | (comparisons[sources] if n_comparison_bits else 0) << shifts[1]
        | features << shifts[2]
    )
    return PackedNodes(
        words.astype(dtype),
        # Every comparison with NaN is false, so that rows stay at a leaf.
        np.where(is_inner, forest.splits, np.nan)[sources].astype(forest.splits.dtype),
        None if forest.members is None else forest.members[sources],
        sources,
        n_roots,
        [COMPARISONS[comparison] for comparison in used],
        shifts,
        bool(n_missing_bits),
        is_opposite,
    )
