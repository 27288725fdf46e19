"""Deduplication of stacked values that differ only in shape or axis order: a step of
simplify-loops.

before → after, for a loop that stacks y and its transpose:

    RESULT[0](LOOP(4), its body SINK(y, PERMUTE(y, (1, 0))))
    RESULT[1](LOOP(4), its body SINK(y, PERMUTE(y, (1, 0))))

    RESULT[0](LOOP(4), its body SINK(y))
    PERMUTE(RESULT[0](LOOP(4), its body SINK(y)), (0, 2, 1))

So a residual that a gradient reads in several axis orders, as the two products of a matmul's
gradient do, is stored once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from svod_ir import Op, UOp, make_permute, make_reshape
from svod_schedule.rangeify.loops.loop_draft import LoopDraft, has_known_sizes

__all__ = ["SharedStack", "add_shared", "share_stacks"]

_Step: TypeAlias = Callable[[UOp], UOp]
"""A function from a stack to the same elements in another shape or axis order."""


class SharedStack(NamedTuple):
    """Recipe for a stack from another one.

    Attributes:
        position: the position of the other stack's result.
        steps: the movements to apply to it, in order.
    """

    position: int
    steps: tuple[_Step, ...]

    def make(self, results: Mapping[int, UOp]) -> UOp:
        """Build the stack from the replacements of the results."""
        stack = results[self.position]
        for step in self.steps:
            stack = step(stack)
        return stack


def share_stacks(draft: LoopDraft) -> dict[int, SharedStack]:
    """Keep the first of each group of equal stacked values. Returns the recipes for the others, by
    position.
    """
    firsts: dict[UOp, tuple[int, Sequence[UOp]]] = {}
    shared: dict[int, SharedStack] = {}
    for position in [p for p in draft.values if p not in draft.carried]:
        root, moves = _strip(draft.values[position])
        # The first one is stored as its reader wants it; a recipe undoes its movements, then
        # applies the others.
        first = firsts.setdefault(root, (position, moves))
        if first[0] != position:
            steps = (
                *(_undo(move) for move in reversed(first[1])),
                *(_repeat(move) for move in moves),
            )
            shared[position] = SharedStack(first[0], steps)
            del draft.values[position]
    return shared


def add_shared(results: Mapping[int, UOp], shared: Mapping[int, SharedStack]) -> dict[int, UOp]:
    """Add the stacks that are built from others to `results`."""
    return {**results, **{position: stack.make(results) for position, stack in shared.items()}}


def _strip(value: UOp) -> tuple[UOp, list[UOp]]:
    """Return the value below RESHAPEs and PERMUTEs, and these, innermost first."""
    moves: list[UOp] = []
    # Only movements that keep all elements, so that each has an inverse.
    while (
        value.op in (Op.RESHAPE, Op.PERMUTE)
        and has_known_sizes(value.shape)
        and has_known_sizes(value.source.shape)
    ):
        moves.append(value)
        value = value.source
    return value, moves[::-1]


def _repeat(move: UOp) -> _Step:
    """Apply `move` to each value of a stack."""
    if move.op is Op.RESHAPE:
        return lambda stack: make_reshape(stack, (stack.shape[0], *move.shape))
    return lambda stack: make_permute(stack, (0, *(axis + 1 for axis in move.arg)))


def _undo(move: UOp) -> _Step:
    """Apply the inverse of `move` to each value of a stack."""
    if move.op is Op.RESHAPE:
        return lambda stack: make_reshape(stack, (stack.shape[0], *move.source.shape))
    order: tuple[int, ...] = move.arg
    return lambda stack: make_permute(
        stack, (0, *(order.index(axis) + 1 for axis in range(len(order))))
    )
