"""The derivatives of linear ops (movement, copies): the op itself in forward mode, its transpose in
reverse mode.
"""

from __future__ import annotations

from typing import Final

from svod_ir._sharding import Sharding
from svod_ir.build import (
    make_copy,
    make_flip,
    make_pad,
    make_permute,
    make_reshape,
    make_shrink,
)
from svod_ir.derivatives.rule import Derivative, Parts, Wanted, add_up
from svod_ir.derivatives.shards import distribute
from svod_ir.ops import Op
from svod_ir.sizes import normalize_size
from svod_ir.uop import UOp

__all__ = ["LINEAR", "SAME", "forward_first", "forward_same_op"]


def forward_same_op(node: UOp, tangents: Parts) -> UOp | None:
    """The tangent of an op that is linear in its first operand: the same op of that operand's
    tangent.
    """
    return None if tangents[0] is None else node.with_src((tangents[0], *node.src[1:]))


def _first(node: UOp, cotangent: UOp) -> Parts:
    """The cotangents of the operands: `cotangent`, then None for sizes and indices."""
    return [cotangent, *[None] * (len(node.src) - 1)]


def _reverse_reshape(node: UOp, cotangent: UOp, _: Wanted) -> Parts:
    return _first(node, make_reshape(cotangent, node.source.shape))


def _reverse_expand(node: UOp, cotangent: UOp, _: Wanted) -> Parts:
    pairs = zip(node.source.shape, node.shape, strict=True)
    return _first(
        node,
        add_up(cotangent, [axis for axis, (before, after) in enumerate(pairs) if before != after]),
    )


def _reverse_permute(node: UOp, cotangent: UOp, _: Wanted) -> Parts:
    axes: tuple[int, ...] = node.arg
    # The inverse permutation.
    return _first(node, make_permute(cotangent, [axes.index(axis) for axis in range(len(axes))]))


def _reverse_pad(node: UOp, cotangent: UOp, _: Wanted) -> Parts:
    before = node.sizes[::2]
    bounds = [
        (b, normalize_size(b + size)) for b, size in zip(before, node.source.shape, strict=True)
    ]
    # The padding is constant, so its cotangent goes nowhere.
    return _first(node, make_shrink(cotangent, bounds))


def _reverse_shrink(node: UOp, cotangent: UOp, _: Wanted) -> Parts:
    begins, ends = node.sizes[::2], node.sizes[1::2]
    triples = zip(begins, ends, node.source.shape, strict=True)
    return _first(
        node,
        make_pad(cotangent, [(begin, normalize_size(size - end)) for begin, end, size in triples]),
    )


def _reverse_flip(node: UOp, cotangent: UOp, _: Wanted) -> Parts:
    return _first(node, make_flip(cotangent, node.arg))


def _reverse_copy(node: UOp, cotangent: UOp, _: Wanted) -> Parts:
    placement = node.source.placement
    if isinstance(placement, Sharding):
        # The copy joined the shards; each device gets its slice of the cotangent.
        return [distribute(cotangent, placement)]
    return [cotangent if placement is None else make_copy(cotangent, placement)]


def _reverse_same(node: UOp, cotangent: UOp, _: Wanted) -> Parts:
    return _first(node, cotangent)


def forward_first(_: UOp, tangents: Parts) -> UOp | None:
    """The tangent of the first input."""
    return tangents[0]


SAME: Final = Derivative(_reverse_same, forward_first)
"""Derivative of ops that return their first operand."""

LINEAR: Final[dict[Op, Derivative]] = {
    Op.RESHAPE: Derivative(_reverse_reshape, forward_same_op),
    Op.EXPAND: Derivative(_reverse_expand, forward_same_op),
    Op.PERMUTE: Derivative(_reverse_permute, forward_same_op),
    Op.PAD: Derivative(_reverse_pad, forward_same_op),
    Op.SHRINK: Derivative(_reverse_shrink, forward_same_op),
    Op.FLIP: Derivative(_reverse_flip, forward_same_op),
    Op.COPY: Derivative(_reverse_copy, forward_same_op),
    Op.CONTIGUOUS: SAME,
}
