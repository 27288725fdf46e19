"""Aggregated leaf weights of the leaves that rows reach."""

from __future__ import annotations

from typing import Final

import numpy as np

from svod_onnx._forests.descending import descend
from svod_onnx._forests.forest import Forest
from svod_onnx._forests.packing import pack_nodes
from svod_onnx._scores import asarray_like
from svod_onnx._trace import Call
from svod_tensor import Tensor

__all__ = ["AGGREGATES", "score"]

AGGREGATES: Final = ("AVERAGE", "SUM", "MIN", "MAX")
_N_LANES: Final = 16
"""Multiple of the number of trees in a group."""
# In about the time of a kernel's launch, one row takes as many steps.
_LEAST_SAVED_STEPS: Final = 256
"""Number of steps of one row that a group of trees has to save."""


def score(forest: Forest, node: Call, x: Tensor, aggregate: str) -> Tensor:
    """Aggregated leaf weights of each row, of shape (rows, targets)."""
    forest.check(node, x.shape[1])
    depths = forest.get_depths(node)
    if aggregate in ("SUM", "AVERAGE"):
        total = _sum_weights(forest, x, depths)
        return total / len(forest.roots) if aggregate == "AVERAGE" else total
    packed = pack_nodes(forest, forest.roots, *forest.label_nodes())
    leaves = descend(packed, x, depths.max(initial=0))
    weights = asarray_like(forest.weights[packed.sources], x)[leaves]
    is_weighted = asarray_like(forest.is_weighted[packed.sources], x)[leaves]
    is_min = aggregate == "MIN"
    # A leaf without a weight for a target takes no part in its extremum; its 0 would.
    candidates = is_weighted.where(weights, float("inf" if is_min else "-inf"))
    extremes = candidates.min(1) if is_min else candidates.max(1)
    return is_weighted.any(1).where(extremes, 0.0).cast(weights.dtype)


def _sum_weights(forest: Forest, x: Tensor, depths: np.ndarray) -> Tensor:
    """Sum of the leaf weights of each row, of shape (rows, targets)."""
    trees, levels = forest.label_nodes()
    n_targets = forest.weights.shape[1]
    targets = forest.find_separate_targets(trees) if n_targets > 1 else None
    if targets is not None:
        # Boosted trees of several classes: only one column of the weights is read for a tree.
        packed = pack_nodes(forest, forest.roots[np.argsort(targets, kind="stable")], trees, levels)
        leaves = descend(packed, x, int(depths.max(initial=0)))
        weights = asarray_like(forest.weights.sum(1)[packed.sources], x)[leaves]
        return weights.reshape(x.shape[0], n_targets, -1).sum(2)
    packed = pack_nodes(forest, forest.roots, trees, levels)
    weights = asarray_like(forest.weights[packed.sources], x)
    # The nodes of all groups are in one table, so a group reads rows of it.
    sums = [
        weights[descend(packed, x, int(depths[group[0]]), group)].sum(1)
        for group in _group_by_depth(depths)
    ]
    return sum(sums[1:], sums[0])


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
