"""Recognition of contractions: sums of products of two operands with different output axes, as in
matrix products and convolutions.
"""

from __future__ import annotations

from math import prod

from svod_ir import Op, UOp
from svod_ir.ops import ELEMENTWISE, MOVEMENT
from svod_ir.sizes import max_size

__all__ = ["count_rows", "has_narrow_factors", "is_contraction"]


def is_contraction(node: UOp) -> bool:
    """Whether a reduction is a sum of products in which each factor lacks an output axis of the
    other, as in a matmul.
    """
    left, right = _own_axes(node)
    return bool(left) and bool(right)


def has_narrow_factors(node: UOp) -> bool:
    """Whether both factors of a contraction are widened to the dtype of the sum, so that a tensor core
    may multiply them.
    """
    return all(map(_is_widened, _get_summed(node).src))


def _is_widened(factor: UOp) -> bool:
    while factor.op in MOVEMENT:
        factor = factor.source
    return factor.op is Op.CAST and factor.source.dtype.itemsize < factor.dtype.itemsize


def count_rows(node: UOp) -> int:
    """Minimum number of results that share an element of an operand of a contraction; 1 for other
    reductions.
    """
    return min(prod(max_size(node.source.shape[a]) for a in axes) for axes in _own_axes(node))


def _own_axes(node: UOp) -> tuple[set[int], set[int]]:
    """Return the output axes that only the left factor of a sum of products depends on, and the
    axes that only the right one depends on.
    """
    product = _get_summed(node)
    if node.arg.op is not Op.ADD or product.op is not Op.MUL:
        return set(), set()
    kept = [a for a, s in enumerate(product.shape) if a not in node.arg.axes and s != 1]
    left, right = (_broadcast_axes(s, kept) for s in product.src)
    return right - left, left - right


def _get_summed(node: UOp) -> UOp:
    """Return what a reduction reduces, without casts and masks: a sum of narrow products is widened
    before it is added up, and products with padding are masked.
    """
    product = node.source
    while product.op is Op.CAST or _is_gated(product):
        product = product.if_true if product.op is Op.WHERE else product.source
    return product


def _is_gated(node: UOp) -> bool:
    """Whether a node is WHERE(condition, x, 0), as the masked products of a padded convolution."""
    return node.op is Op.WHERE and node.if_false.op is Op.CONST and node.if_false.arg == 0


def _broadcast_axes(node: UOp, axes: list[int]) -> set[int]:
    """Return those of `axes` that `node` is broadcast along, by the EXPANDs above its first op that
    is neither elementwise nor a PERMUTE.
    """
    constant = set(axes)
    stack = [(node, tuple(axes))]
    seen: set[tuple[UOp, tuple[int, ...]]] = set()
    while stack and constant:
        current, source_axes = item = stack.pop()
        # Shared nodes would be visited once for each path, of which there can be exponentially
        # many.
        if item in seen or not current.shape:
            continue
        seen.add(item)
        if current.op in ELEMENTWISE:
            stack.extend([(s, source_axes) for s in current.src])
        elif current.op is Op.EXPAND:
            source = current.source.shape
            constant &= {a for a, b in zip(axes, source_axes, strict=True) if source[b] == 1}
        elif current.op is Op.PERMUTE:
            stack.append((current.source, tuple(current.arg[a] for a in source_axes)))
        else:
            return set()
    return constant
