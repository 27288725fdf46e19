"""Running results of an associative function: pairs of neighbours are combined, then those of the pairs, and so on.

Source: Blelloch, Prefix sums and their applications (1990), section 1.2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeAlias, TypeVar

from svod_tensor.ops.theme import Theme

__all__ = ["Combine", "scan_pairs"]

T = TypeVar("T", bound=Theme)

Combine: TypeAlias = Callable[[list[T], list[T]], list[T]]
"""Of the parts of what stands first, and of what stands behind: associative, for any number of elements along the axes."""


def scan_pairs(combine: Combine[T], xs: Sequence[T], axes: Sequence[int], n: int) -> list[T]:
    """The results over the first 1, 2, ... of `n` elements, each of which has a part in each of the tensors.

    Args:
        combine: is called some `2 * log2(n)` times, in all on less than `2 * n` elements.
        xs: the parts.
        axes: along which the elements stand, in each of them.
        n: how many there are, at least one.
    """
    # Stored, as the pairs below are: each is read by the next step and for the places between, and would be computed there
    # again and again.
    return _Scan(combine, axes).run([x if x.is_realized else x.contiguous() for x in xs], n)


class _Scan(Generic[T]):
    def __init__(self, combine: Combine[T], axes: Sequence[int]) -> None:
        self._combine, self._axes = combine, axes

    def run(self, xs: list[T], n: int) -> list[T]:
        """The results for `n` elements. Those at odd places are the results for pairs of neighbours."""
        if n == 1:
            return xs
        pairs = self._combine(self._take(xs, 0, n - 1, 2), self._take(xs, 1, n, 2))
        odd = self.run([t.contiguous() for t in pairs], n // 2)
        first = self._take(xs, 0, 1)
        if n == 2:
            return self._join(first, odd)
        even = self._combine(self._take(odd, 0, (n - 1) // 2), self._take(xs, 2, n, 2))
        return [t.contiguous() for t in self._interleave(self._join(first, even), odd, n)]

    def _take(self, xs: list[T], begin: int, end: int, step: int = 1) -> list[T]:
        return [t[(*(slice(None),) * a, slice(begin, end, step))] for t, a in zip(xs, self._axes, strict=True)]

    def _join(self, xs: list[T], ys: list[T]) -> list[T]:
        return [x.concat(y, axis=a) for x, y, a in zip(xs, ys, self._axes, strict=True)]

    def _interleave(self, even: list[T], odd: list[T], n: int) -> list[T]:
        """What stands at even and at odd places, in turn."""
        if n % 2:
            odd = self._join(odd, self._take(even, 0, 1))
        pairs = [x.stack(y, axis=a + 1) for x, y, a in zip(even, odd, self._axes, strict=True)]
        return self._take([t.flatten(a, a + 1) for t, a in zip(pairs, self._axes, strict=True)], 0, n)
