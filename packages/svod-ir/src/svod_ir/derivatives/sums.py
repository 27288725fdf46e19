"""Cotangents of operands that all iterations read: sums over the iterations.

    REDUCE(MUL(EXPAND(h), EXPAND(d))) added in each iteration     REDUCE of the products of all h
    and all d, after the loop

Small terms are stacked, and the sum is one reduction over the stacks: for matrix products, one
product. Otherwise the loop carries the sum."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from math import inf
from typing import Final

from svod_ir.build import make_alu, make_cast, make_reshape
from svod_ir.derivatives.residuals import count_elements
from svod_ir.derivatives.rule import add_up
from svod_ir.loops import get_bodies
from svod_ir.ops import COMPLEX_PARTS, ELEMENTWISE, MARKS, MOVEMENT, Op
from svod_ir.uop import UOp

__all__ = ["StackedSums"]

_SAME: Final = ELEMENTWISE | COMPLEX_PARTS | {Op.RESHAPE, Op.PERMUTE, Op.FLIP, Op.EXPAND}
"""Ops that can be computed for all iterations at once from stacked operands."""
_BATCHED: Final = (
    ELEMENTWISE
    | COMPLEX_PARTS
    | MOVEMENT
    | MARKS
    | {Op.CONST, Op.VCONST, Op.IOTA, Op.PARAM, Op.CONTIGUOUS, Op.REDUCE_AXIS}
)
_LINEAR: Final = frozenset({Op.RESHAPE, Op.PERMUTE, Op.FLIP, Op.CAST, Op.NEG})


class StackedSums:
    """Values that a loop stacks so that sums over its iterations can be computed after it.

    Attributes:
        stacked: the values stacked over the iterations.
        terms: the nodes computed from stacked values for all iterations, then summed.
    """

    def __init__(self, varying: Collection[UOp], counter: str | None) -> None:
        self.stacked: dict[UOp, None] = {}
        self.terms: dict[UOp, None] = {}
        self._varying, self._counter = varying, counter
        self._costs: dict[UOp, float] = {}

    def take(self, value: UOp) -> Callable[[Callable[[UOp], UOp]], UOp] | None:
        """Return a function that builds the sum of `value` from stacked terms; None if carrying is
        better.
        """
        # Values that were stacked for an earlier sum are free for this one.
        self._costs.clear()
        split = self._split(value)
        if split is None:
            return None
        terms, make = split
        cost = sum(self._get_cost(term) for term in terms)
        size = count_elements(value)
        # Stacking costs `cost` elements per iteration, a carry costs `size`: take the smaller.
        if (cost and cost >= size) or cost == inf or not all(map(self._is_batched, terms)):
            return None
        for term in terms:
            self._cut(term)
            self.terms[term] = None
        return make

    def _split(
        self, value: UOp
    ) -> tuple[Sequence[UOp], Callable[[Callable[[UOp], UOp]], UOp]] | None:
        """Terms, and a function that builds the sum of `value` from the stacked terms."""
        # Costs compare numbers of elements, which a symbolic size does not have.
        if not all(isinstance(size, int) for size in value.shape):
            return None
        if value.op is Op.ADD and value in self._varying:
            first, second = self._split(value.left), self._split(value.right)
            if first is None or second is None:
                return None
            return [*first[0], *second[0]], lambda get: make_alu(
                Op.ADD, first[1](get), second[1](get)
            )
        # A sum of integers may wrap where the sum of their floats does not, so such a cast stays
        # below.
        if value.op in _LINEAR and not (value.op is Op.CAST and not value.source.dtype.is_inexact):
            below = self._split(value.source)
            return None if below is None else (below[0], lambda get: _apply(value, below[1](get)))
        if value.op is Op.REDUCE_AXIS and value.arg.op is Op.ADD:
            axes = [0, *(axis + 1 for axis in value.arg.axes)]
            return [value.source], lambda get: make_reshape(
                add_up(get(value.source), axes), value.shape
            )
        return [value], lambda get: make_reshape(add_up(get(value), [0]), value.shape)

    def _get_cost(self, root: UOp) -> float:
        """Number of elements of an iteration to stack so that `root` can be computed from them."""
        for node in root.toposort():
            if node not in self._varying or node in self.stacked:
                self._costs[node] = 0.0
            elif node not in self._costs:
                below = (
                    sum(self._costs[s] for s in dict.fromkeys(node.src))
                    if node.op in _SAME
                    else inf
                )
                self._costs[node] = min(count_elements(node), below)
        return self._costs[root]

    def _cut(self, root: UOp) -> None:
        stack = [root]
        while stack:
            node = stack.pop()
            if node not in self._varying or node in self.stacked:
                continue
            if count_elements(node) <= self._costs[node]:
                self.stacked[node] = None
            else:
                stack.extend(node.src)

    def _is_batched(self, term: UOp) -> bool:
        """True if a term can be computed for all iterations at once from stacked values."""
        stack, seen = [term], {term}
        while stack:
            node = stack.pop()
            if node in self._varying and count_elements(node) <= self._costs[node]:
                continue
            if node not in self._varying and node.op in (Op.RESULT, Op.AFTER):
                continue
            is_variable = node.op is Op.DEFINE_VAR and node.arg.name != self._counter
            if (node.op not in _BATCHED and not is_variable) or get_bodies(node):
                return False
            if any(not isinstance(size, int) for size in node.find_shape() or ()):
                return False
            new = [s for s in node.src if s not in seen]
            seen.update(new)
            stack.extend(new)
        return True


def _apply(node: UOp, value: UOp) -> UOp:
    if node.op is Op.RESHAPE:
        return make_reshape(value, node.shape)
    if node.op is Op.CAST:
        return make_cast(value, node.dtype)
    return node.with_src((value, *node.src[1:]))
