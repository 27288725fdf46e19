"""Contraction order of a sum of products: the pairwise order with the fewest multiplications.

An operand is the set of its axes, as letters. The product of a pair has the letters of both, and
keeps the letters that the output or other operands need. With few operands every order is compared,
by dynamic programming over subsets. With many, pairs are chosen greedily, by their multiplications
or by the memory that they add, as in opt_einsum's greedy paths, and the better of both orders is
taken."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

__all__ = ["order_pairs"]

_MAX_EXHAUSTIVE: Final = 7
"""Maximum number of operands for the exhaustive search, which compares 3 ** 7 pairs of subsets in a
few milliseconds.
"""

_Letters: TypeAlias = frozenset[str]
_NONE: Final[_Letters] = frozenset()
_Tree: TypeAlias = "int | tuple[_Tree, _Tree]"
"""An operand by its index, or a pair of subtrees that are multiplied."""


def order_pairs(
    terms: Sequence[str], output: str, sizes: Mapping[str, int]
) -> list[tuple[int, int]]:
    """The pairs in order, as positions in a list: both operands are removed and their product is
    appended.

    Example:
        >>> from svod_tensor._contraction_order import order_pairs
        >>> order_pairs(["ij", "jk", "k"], "i", {"i": 10, "j": 20, "k": 30})
        [(1, 2), (0, 1)]
    """
    letters = [frozenset(term) for term in terms]
    if len(terms) <= _MAX_EXHAUSTIVE:
        return _list_pairs(_make_best_tree(letters, frozenset(output), sizes), len(terms))
    return min(
        _choose_pairs(letters, frozenset(output), sizes, by_work=by_work)
        for by_work in (False, True)
    )[1]


def _make_best_tree(terms: Sequence[_Letters], output: _Letters, sizes: Mapping[str, int]) -> _Tree:
    """The tree with the fewest multiplications, then with the least memory.

    A set of operands is an int with a bit for each."""
    n = len(terms)
    everything = (1 << n) - 1
    kept = [
        _union(terms, subset) & (output | _union(terms, everything & ~subset))
        for subset in range(1 << n)
    ]
    best: dict[int, tuple[int, int, _Tree]] = {1 << i: (0, 0, i) for i in range(n)}
    for subset in range(1, 1 << n):
        if subset in best:
            continue
        memory = _count(kept[subset], sizes)
        cheapest: tuple[int, int, _Tree] | None = None
        left = (subset - 1) & subset
        # The half with the smaller bit set comes second, so that each pair is seen once.
        while left > (right := subset & ~left):
            (work, space, left_tree), (more_work, more_space, right_tree) = best[left], best[right]
            cost = (
                work + more_work + _count(kept[left] | kept[right], sizes),
                space + more_space + memory,
            )
            if cheapest is None or cost < cheapest[:2]:
                cheapest = *cost, (right_tree, left_tree)
            left = (left - 1) & subset
        assert cheapest is not None
        best[subset] = cheapest
    return best[everything][2]


def _list_pairs(tree: _Tree, n: int) -> list[tuple[int, int]]:
    """The pairs of a tree, inner pairs first."""
    present: list[_Tree] = list(range(n))
    pairs: list[tuple[int, int]] = []

    def visit(subtree: _Tree) -> None:
        if isinstance(subtree, int):
            return
        visit(subtree[0])
        visit(subtree[1])
        first, second = sorted(map(present.index, subtree))
        pairs.append((first, second))
        del present[second], present[first]
        present.append(subtree)

    visit(tree)
    return pairs


def _choose_pairs(
    terms: Sequence[_Letters], output: _Letters, sizes: Mapping[str, int], *, by_work: bool
) -> tuple[int, list[tuple[int, int]]]:
    """Greedy pairs, and the number of multiplications of all: the next pair has the fewest, or adds
    the least memory; pairs without a common letter come last.
    """
    present, pairs, total = list(terms), list[tuple[int, int]](), 0
    while len(present) > 1:
        uses = Counter(itertools.chain(output, *present))
        cheapest: tuple[tuple[bool, int, int], int, int] | None = None
        for first, second in itertools.combinations(range(len(present)), 2):
            x, y = present[first], present[second]
            work, memory = (
                _count(x | y, sizes),
                _count(_keep(x, y, uses), sizes) - _count(x, sizes) - _count(y, sizes),
            )
            rating = not x & y, *((work, memory) if by_work else (memory, work))
            if cheapest is None or rating < cheapest[0]:
                cheapest = rating, first, second
        assert cheapest is not None
        _, first, second = cheapest
        pairs.append((first, second))
        total += _count(present[first] | present[second], sizes)
        product = _keep(present[first], present[second], uses)
        del present[second], present[first]
        present.append(product)
    return total, pairs


def _keep(x: _Letters, y: _Letters, uses: Mapping[str, int]) -> _Letters:
    """The letters of a product that are in the output or in another operand."""
    return frozenset(c for c in x | y if uses[c] > (c in x) + (c in y))


def _union(terms: Sequence[_Letters], subset: int) -> _Letters:
    return _NONE.union(*(term for i, term in enumerate(terms) if subset >> i & 1))


def _count(letters: _Letters, sizes: Mapping[str, int]) -> int:
    return math.prod(sizes[c] for c in letters)
