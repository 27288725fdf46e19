"""Coordinates: the element of an operand that an element of a result reads.

before → after, for a node at coordinates (i, j):

    PERMUTE (1, 0)      x at (j, i)
    RESHAPE (6,)->(2,3) x at ((i * 1), ...) split and merged by the sizes
    EXPAND              x at 0 where its size is 1
    SHRINK, FLIP        x at begin + i, size - 1 - i
    PAD                 x at i - before, valid where 0 <= i - before < size
    GATHER              x at (p, j), where p is the value of the indices at i
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from svod_dtype import bool_, index
from svod_ir import Op, SInt, UOp
from svod_ir.sizes import product
from svod_ir.uop import to_node
from svod_schedule.symbolic import simplify

__all__ = [
    "Coordinates",
    "flatten_index",
    "move",
    "move_reshape",
    "move_to_gather_indices",
    "move_to_gather_source",
    "move_to_scatter_indices",
]

_ZERO = UOp.const(index, 0)


class Coordinates(NamedTuple):
    """One index expression for each axis, and the condition under which they are in bounds (None:
    always).
    """

    indices: tuple[UOp, ...]
    valid: UOp | None = None

    def and_valid(self, condition: UOp) -> Coordinates:
        """Return these coordinates with `condition` added to `valid`."""
        condition = simplify(condition)
        # None stands for True, so that equal coordinates are equal keys.
        if condition.op is Op.CONST and condition.arg is True:
            return self
        both = condition if self.valid is None else simplify(self.valid & condition)
        return Coordinates(self.indices, both)


def move(node: UOp, at: Coordinates) -> Coordinates:
    """Map coordinates of a movement node to coordinates of its operand.

    For PAD the result is valid only inside the operand.
    """
    indices, valid = at
    source = node.source
    match node.op:
        case Op.RESHAPE:
            return Coordinates(move_reshape(source.shape, node.shape, indices), valid)
        case Op.PERMUTE:
            moved: list[UOp] = [_ZERO] * len(indices)
            for position, axis in enumerate(node.arg):
                moved[axis] = indices[position]
            return Coordinates(tuple(moved), valid)
        case Op.EXPAND:
            sizes = zip(indices, source.shape, node.shape, strict=True)
            return Coordinates(
                tuple(_ZERO if old == 1 and new != 1 else i for i, old, new in sizes), valid
            )
        case Op.FLIP:
            sizes = zip(indices, source.shape, node.arg, strict=True)
            return Coordinates(tuple(_last(s) - i if flag else i for i, s, flag in sizes), valid)
        case Op.SHRINK:
            return Coordinates(
                tuple(i + to_node(b) for i, b in zip(indices, node.sizes[::2], strict=True)), valid
            )
        case Op.PAD:
            return _move_pad(node, at)
        case _:
            raise AssertionError(f"{node.op} is no movement op")


def move_to_gather_indices(gather: UOp, at: Coordinates) -> Coordinates:
    """Map coordinates of a GATHER to coordinates of its indices."""
    axis: int = gather.arg
    return Coordinates(at.indices[axis : axis + len(gather.position.shape)], at.valid)


def move_to_gather_source(gather: UOp, at: Coordinates, position: UOp) -> Coordinates:
    """Map coordinates of a GATHER to coordinates of its source, given the value of the index."""
    axis: int = gather.arg
    n_axes = len(gather.position.shape)
    return Coordinates((*at.indices[:axis], position, *at.indices[axis + n_axes :]), at.valid)


def move_to_scatter_indices(scatter: UOp, at: Coordinates) -> Coordinates:
    """Map coordinates of the rows of a SCATTER to coordinates of its indices."""
    axis: int = scatter.arg.axis
    return Coordinates(at.indices[axis : axis + len(scatter.position.shape)], at.valid)


def _last(size: SInt) -> UOp:
    return to_node(size) - 1


def _move_pad(node: UOp, at: Coordinates) -> Coordinates:
    before = node.sizes[::2]
    after = node.sizes[1::2]
    moved: list[UOp] = []
    valid = UOp.const(bool_, True)
    for i, size, low, high in zip(at.indices, node.source.shape, before, after, strict=True):
        shifted = simplify(i - to_node(low))
        moved.append(shifted)
        # Only padded sides are checked: each comparison would be evaluated for every element.
        if low != 0:
            valid = valid & (shifted >= 0)
        if high != 0:
            valid = valid & (shifted < to_node(size))
    return Coordinates(tuple(moved), at.valid).and_valid(valid)


def move_reshape(
    old: Sequence[SInt], new: Sequence[SInt], indices: Sequence[UOp]
) -> tuple[UOp, ...]:
    """Map coordinates in shape `new` to coordinates in shape `old`.

    Runs of axes with equal products of sizes are mapped independently, so that axes that the
    reshape does not change keep their index expression.
    """
    moved: list[UOp] = []
    for old_run, new_run in _matching_runs(old, new):
        sizes = [old[a] for a in old_run]
        # The index as it is: a loop that stays visible can become lanes or be merged.
        if len(old_run) == 1 and len(new_run) == 1:
            moved.append(indices[new_run[0]])
            continue
        # An axis of size 1 has index 0, and would only lengthen the expression.
        live = [a for a in new_run if new[a] != 1]
        flat = flatten_index([indices[a] for a in live], [new[a] for a in live])
        moved.extend(_unflatten(flat, sizes))
    return tuple(moved)


def flatten_index(indices: Sequence[UOp], sizes: Sequence[SInt]) -> UOp:
    """Return the row-major offset of `indices` in an array of shape `sizes`."""
    flat = _ZERO
    for i, size in zip(indices, sizes, strict=True):
        flat = i if flat is _ZERO else flat * to_node(size) + i
    return simplify(flat)


def _unflatten(flat: UOp, sizes: Sequence[SInt]) -> list[UOp]:
    result: list[UOp] = []
    quotient = flat
    live = [a for a, s in enumerate(sizes) if s != 1]
    for axis in reversed(range(len(sizes))):
        if sizes[axis] == 1:
            result.append(_ZERO)
        # The outermost axis needs no remainder: the offset is below the product of the sizes.
        elif axis == live[0]:
            result.append(quotient)
        else:
            size = to_node(sizes[axis])
            # Simplified at once: the expression would grow with every reshape of a chain.
            result.append(simplify(quotient % size))
            quotient = simplify(quotient // size)
    return result[::-1]


def _matching_runs(old: Sequence[SInt], new: Sequence[SInt]) -> list[tuple[list[int], list[int]]]:
    """Split both shapes into runs of axes whose sizes have equal products, as short as possible."""
    if not (
        all(isinstance(s, int) and s > 0 for s in old)
        and all(isinstance(s, int) and s > 0 for s in new)
    ):
        return _symbolic_runs(old, new)
    runs: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(old) or j < len(new):
        old_run, new_run = [i] if i < len(old) else [], [j] if j < len(new) else []
        old_size, new_size = old[i] if old_run else 1, new[j] if new_run else 1
        i, j = i + len(old_run), j + len(new_run)
        while old_size != new_size:
            if old_size < new_size:  # pyright: ignore[reportOperatorIssue]
                old_run.append(i)
                old_size, i = old_size * old[i], i + 1
            else:
                new_run.append(j)
                new_size, j = new_size * new[j], j + 1
        runs.append((old_run, new_run))
    return runs


def _symbolic_runs(old: Sequence[SInt], new: Sequence[SInt]) -> list[tuple[list[int], list[int]]]:
    # A run ends where the sizes so far have equal products on both sides.
    runs: list[tuple[list[int], list[int]]] = []
    before = {product(old[:i]): i for i in reversed(range(len(old) + 1))}
    first_old = first_new = 0
    for last_new in range(1, len(new) + 1):
        last_old = before.get(product(new[:last_new]))
        if last_new == len(new):
            last_old = len(old)
        if last_old is not None and last_old > first_old:
            runs.append((list(range(first_old, last_old)), list(range(first_new, last_new))))
            first_old, first_new = last_old, last_new
    if first_new < len(new) or first_old < len(old):
        runs.append((list(range(first_old, len(old))), list(range(first_new, len(new)))))
    return runs
