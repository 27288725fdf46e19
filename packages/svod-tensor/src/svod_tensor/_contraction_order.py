"""In which order the operands of a sum of products are multiplied, two at a time: that of the
fewest multiplications.

An operand is the set of its axes, as letters. A product of two has all of their letters, and keeps
those that others need. Of few operands every order is compared, by the best one of each part of
them. Of many, one pair after the other is chosen, by its multiplications or by the memory that it
adds, as in opt_einsum's greedy paths: the better one of both."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

__all__ = ["order_pairs"]

_MOST_COMPARED: Final = 7
"""Of so many operands, 3 ** 7 pairs of parts are compared in a few milliseconds."""

_Letters: TypeAlias = frozenset[str]
_NONE: Final[_Letters] = frozenset()
_Tree: TypeAlias = "int | tuple[_Tree, _Tree]"
"""An operand by its number, or two parts that are multiplied."""


def order_pairs(
    terms: Sequence[str], output: str, sizes: Mapping[str, int]
) -> list[tuple[int, int]]:
    """The pairs in order, as positions in a list from which both are taken and to whose end their
    product goes.

    Example:
        >>> order_pairs(["ij", "jk", "k"], "i", {"i": 10, "j": 20, "k": 30})
        [(1, 2), (0, 1)]
    """
    letters = [frozenset(term) for term in terms]
    if len(terms) <= _MOST_COMPARED:
        return _list_pairs(_make_best_tree(letters, frozenset(output), sizes), len(terms))
    return min(
        _choose_pairs(letters, frozenset(output), sizes, by_work=by_work)
        for by_work in (False, True)
    )[1]


def _make_best_tree(terms: Sequence[_Letters], output: _Letters, sizes: Mapping[str, int]) -> _Tree:
    """The tree with the fewest multiplications, then with the least memory.

    A set of operands is an int with a bit for each.
    """
    n = len(terms)
    everything = (1 << n) - 1
    kept = [
        _union(terms, part) & (output | _union(terms, everything & ~part)) for part in range(1 << n)
    ]
    best: dict[int, tuple[int, int, _Tree]] = {1 << i: (0, 0, i) for i in range(n)}
    for part in range(1, 1 << n):
        if part in best:
            continue
        memory = _count(kept[part], sizes)
        found: tuple[int, int, _Tree] | None = None
        left = (part - 1) & part
        # Of a part and the rest, the part with the lower number comes second, so that each pair is
        # seen once.
        while left > (right := part & ~left):
            (work, space, one), (more_work, more_space, other) = best[left], best[right]
            cost = (
                work + more_work + _count(kept[left] | kept[right], sizes),
                space + more_space + memory,
            )
            if found is None or cost < found[:2]:
                found = *cost, (other, one)
            left = (left - 1) & part
        assert found is not None
        best[part] = found
    return best[everything][2]


def _list_pairs(tree: _Tree, n: int) -> list[tuple[int, int]]:
    """The pairs of a tree, those inside before those around them."""
    present: list[_Tree] = list(range(n))
    pairs: list[tuple[int, int]] = []

    def visit(part: _Tree) -> None:
        if isinstance(part, int):
            return
        visit(part[0])
        visit(part[1])
        first, second = sorted(map(present.index, part))
        pairs.append((first, second))
        del present[second], present[first]
        present.append(part)

    visit(tree)
    return pairs


def _choose_pairs(
    terms: Sequence[_Letters], output: _Letters, sizes: Mapping[str, int], *, by_work: bool
) -> tuple[int, list[tuple[int, int]]]:
    """Pairs one after the other, and how many multiplications all take: next is the one with the
    fewest, or the one that adds the least memory; those that share no letter are last."""
    present, pairs, total = list(terms), list[tuple[int, int]](), 0
    while len(present) > 1:
        uses = Counter(itertools.chain(output, *present))
        found: tuple[tuple[bool, int, int], int, int] | None = None
        for first, second in itertools.combinations(range(len(present)), 2):
            x, y = present[first], present[second]
            work, memory = (
                _count(x | y, sizes),
                _count(_keep(x, y, uses), sizes) - _count(x, sizes) - _count(y, sizes),
            )
            rating = not x & y, *((work, memory) if by_work else (memory, work))
            if found is None or rating < found[0]:
                found = rating, first, second
        assert found is not None
        _, first, second = found
        pairs.append((first, second))
        total += _count(present[first] | present[second], sizes)
        product = _keep(present[first], present[second], uses)
        del present[second], present[first]
        present.append(product)
    return total, pairs


def _keep(x: _Letters, y: _Letters, uses: Mapping[str, int]) -> _Letters:
    """The letters of a product that are in the output or in another operand."""
    return frozenset(c for c in x | y if uses[c] > (c in x) + (c in y))


def _union(terms: Sequence[_Letters], part: int) -> _Letters:
    return _NONE.union(*(term for i, term in enumerate(terms) if part >> i & 1))


def _count(letters: _Letters, sizes: Mapping[str, int]) -> int:
    return math.prod(sizes[c] for c in letters)
