"""Stacked values that are the same elements in another order are stacked once: a step of
simplify-loops.

before → after, for a loop that stacks y and its transpose:

    RESULT[0](LOOP(4), its body SINK(y, PERMUTE(y, (1, 0))))
    RESULT[1](LOOP(4), its body SINK(y, PERMUTE(y, (1, 0))))

    RESULT[0](LOOP(4), its body SINK(y))
    PERMUTE(RESULT[0](LOOP(4), its body SINK(y)), (0, 2, 1))

So what a gradient needs of an iteration in several orders, as a sum of products and the product
that goes back do, is written once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from svod_ir import Op, SInt, UOp, make_permute, make_reshape
from svod_schedule.rangeify.loops.loop_draft import LoopDraft

__all__ = ["SharedStack", "add_shared", "share_stacks"]

_Step: TypeAlias = Callable[[UOp], UOp]
"""From all iterations' values to the same in another shape or order."""


class SharedStack(NamedTuple):
    """How a stack is made of another one.

    Attributes:
        position: of the result that is the other one.
        steps: in the order in which they are taken.
    """

    position: int
    steps: tuple[_Step, ...]

    def make(self, results: Mapping[int, UOp]) -> UOp:
        """The stack, of what stands for the results."""
        made = results[self.position]
        for step in self.steps:
            made = step(made)
        return made


def share_stacks(draft: LoopDraft) -> dict[int, SharedStack]:
    """Leave of each group of such values the first; gives how the others are made of it."""
    firsts: dict[UOp, tuple[int, Sequence[UOp]]] = {}
    shared: dict[int, SharedStack] = {}
    for position in [p for p in draft.values if p not in draft.carried]:
        root, moves = _strip(draft.values[position])
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
    """`results` with those that are made of others."""
    return {**results, **{position: found.make(results) for position, found in shared.items()}}


def _strip(value: UOp) -> tuple[UOp, list[UOp]]:
    """What a value is in another shape or order, and the movements that lead from there to it."""
    moves: list[UOp] = []
    while (
        value.op in (Op.RESHAPE, Op.PERMUTE)
        and _is_known(value.shape)
        and _is_known(value.source.shape)
    ):
        moves.append(value)
        value = value.source
    return value, moves[::-1]


def _is_known(shape: tuple[SInt, ...]) -> bool:
    return all(isinstance(size, int) for size in shape)


def _repeat(move: UOp) -> _Step:
    """What `move` does, for all iterations."""
    if move.op is Op.RESHAPE:
        return lambda stack: make_reshape(stack, (stack.shape[0], *move.shape))
    return lambda stack: make_permute(stack, (0, *(axis + 1 for axis in move.arg)))


def _undo(move: UOp) -> _Step:
    if move.op is Op.RESHAPE:
        return lambda stack: make_reshape(stack, (stack.shape[0], *move.source.shape))
    order: tuple[int, ...] = move.arg
    return lambda stack: make_permute(
        stack, (0, *(order.index(axis) + 1 for axis in range(len(order))))
    )
