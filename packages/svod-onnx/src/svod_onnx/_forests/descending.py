"""Descent of rows through packed trees.

All rows descend all trees at once, one level per step. The first steps select among the nodes of a
level, the later ones gather from node tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from svod_onnx._forests.packing import COMPARISONS, PackedNodes
from svod_onnx._scores import asarray_like
from svod_tensor import Tensor

__all__ = ["descend"]

# Measured on AVX-512: with 3 levels, forests of depth 4 to 10 are 1.15 to 1.3 times as fast as
# without; 4 and 5 levels are slower again.
_N_SELECTED_LEVELS: Final = 3
"""Number of levels whose nodes are all read, contiguously for all trees, and selected among."""


def descend(
    packed: PackedNodes, x: Tensor, n_steps: int, roots: np.ndarray | None = None
) -> Tensor:
    """Leaf of each row in each tree, or in the trees of `roots`, of shape (rows, trees)."""
    size = 1 << packed.shifts[0]
    words = asarray_like(_pad(packed.words, size), x)
    splits = asarray_like(_pad(packed.splits, size), x).cast(x.dtype)
    members = None if packed.members is None else asarray_like(packed.members, x).cast(x.dtype)
    level = (np.arange(packed.n_roots) if roots is None else roots)[None]
    nodes = asarray_like(level, x, "int32").expand(x.shape[0], level.shape[1])
    path = list[Tensor]()
    for step in range(n_steps if packed.comparisons else 0):
        if step < _N_SELECTED_LEVELS:
            word, split = (
                _select([asarray_like(table[row], x).reshape(1, -1) for row in level], path)
                for table in (packed.words, packed.splits)
            )
            word, split = word.expand(*nodes.shape), split.cast(x.dtype).expand(*nodes.shape)
            level = packed.get_children(level)
        else:
            word, split = words[nodes], splits[nodes]
        value = x.gather(1, _get_features(packed, word, x))
        sets = None if members is None else members[nodes]
        holds = _compare(packed, packed.comparisons[0], value, split, sets)
        for comparison in packed.comparisons[1:]:
            is_used = ((word >> packed.shifts[1]) & 3) == COMPARISONS.index(comparison)
            holds = is_used.where(_compare(packed, comparison, value, split, sets), holds)
        if packed.has_missing:
            holds = holds | (value.isnan() & (((word >> packed.shifts[0]) & 1) != 0))
        nodes = ((word & (size - 1)) | holds.cast(word.dtype)).cast("int32")
        path.append(holds)
    return nodes


def _get_features(packed: PackedNodes, words: Tensor, x: Tensor) -> Tensor:
    """Input columns that nodes compare."""
    features, n_features = words >> packed.shifts[2], x.shape[1]
    # A clipped index needs no check; `Forest.check` has refused indices that are out of bounds.
    return (features.minimum(n_features - 1) if isinstance(n_features, int) else features).cast(
        "int32"
    )


def _compare(
    packed: PackedNodes, comparison: str, value: Tensor, split: Tensor, members: Tensor | None
) -> Tensor:
    """Whether values lead to the second child."""
    match comparison:
        case "BRANCH_LEQ":
            return value > split if packed.is_opposite else value <= split
        case "BRANCH_LT":
            return value >= split if packed.is_opposite else value < split
        case "BRANCH_EQ":
            return value == split
        case _:
            assert members is not None
            return (value.unsqueeze(-1) == members).any(-1)


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
