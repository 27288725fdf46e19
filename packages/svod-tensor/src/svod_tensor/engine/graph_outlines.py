"""Outlines: structures of graphs that differ only in sizes, with the sizes left open.

    RESHAPE(PARAM [0, 448], [7, 64])    outline RESHAPE(PARAM [0, _], [_, _]), numbers 448, 7, 64
    RESHAPE(PARAM [0, 704], [11, 64])   the same outline, numbers 704, 11, 64

Sizes of 0 and 1, which determine broadcasting and emptiness, belong to the outline, as all other
arguments do. Constants that may come from a size are left open, too: `mean` divides by one.

A graph has an outline if it consists of elementwise operations, movement and reductions on one
device. Matrix products have none: their kernels are specialized to the tile sizes."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Final, NamedTuple

from svod_dtype import DType, index
from svod_ir import Op, ParamArg, SInt, UOp
from svod_ir.build import with_sizes
from svod_ir.ops import ELEMENTWISE
from svod_ir.sizes import is_known_at_most, max_size, normalize_size, product
from svod_ir.uop import to_node

__all__ = ["GraphOutline", "find_outline", "resize"]

MAX_NODES: Final = 512
"""Maximum number of nodes. Longer graphs take longer to walk, and their sizes recur more often."""

_SIZED: Final = frozenset({Op.RESHAPE, Op.EXPAND, Op.PAD, Op.SHRINK})
_PLAIN: Final = ELEMENTWISE | {Op.PERMUTE, Op.FLIP, Op.CONTIGUOUS, Op.SINK}
_THROUGH: Final = frozenset({Op.CAST, Op.RESHAPE, Op.PERMUTE, Op.FLIP, Op.SHRINK, Op.PAD})


class GraphOutline(NamedTuple):
    """A graph without its sizes, and the sizes in topological order."""

    key: Hashable
    sizes: tuple[int, ...]


def find_outline(sink: UOp) -> GraphOutline | None:
    """The outline of a graph, or None."""
    nodes = sink.toposort()
    if len(nodes) > MAX_NODES:
        return None
    index_of = {node: index for index, node in enumerate(nodes)}
    lengths: set[int] | None = None
    key: list[Hashable] = []
    sizes: list[int] = []
    for node in nodes:
        if node.op is Op.CONST:
            # Only graphs with constants need the lengths, which takes another walk.
            lengths = _list_lengths(nodes) if lengths is None else lengths
        if not _has_outline(node):
            return None
        open_sizes = tuple(_iter_sizes(node, lengths or ()))
        sizes += [size for size in open_sizes if size > 1]
        key.append(
            (
                node.op,
                node.dtype,
                tuple([index_of[s] for s in node.src]),
                tuple([size if size < 2 else None for size in open_sizes]),
                _get_fixed_attributes(node, is_open=bool(open_sizes)),
            )
        )
    return GraphOutline(tuple(key), tuple(sizes))


def resize(sink: UOp, sizes: Sequence[SInt]) -> UOp | None:
    """The graph with other sizes; None if its shapes are inconsistent then.

    Memory of a symbolic size is the first part of a PARAM that has room for the largest one."""
    nodes = sink.toposort()
    lengths = _list_lengths(nodes)
    new = iter(sizes)
    done: dict[UOp, UOp] = {}
    for node in nodes:
        node_sizes = [next(new) if size > 1 else size for size in _iter_sizes(node, lengths)]
        resized = _rebuild(node, [done[s] for s in node.src], node_sizes)
        if resized is None:
            return None
        done[node] = resized
    return done[sink]


def _has_outline(node: UOp) -> bool:
    match node.op:
        case Op.PARAM | Op.CONST:
            return True
        case Op.IOTA | Op.RESHAPE | Op.EXPAND | Op.PAD | Op.SHRINK:
            # A further operand is a size that is symbolic already.
            return len(node.src) <= (node.op is not Op.IOTA)
        case Op.CHECK:
            return node.arg.axis is None
        case Op.REDUCE_AXIS:
            return not _is_contraction(node.source)
        case op:
            return op in _PLAIN


def _is_contraction(summed: UOp) -> bool:
    """True if a reduction sums products of operands that are repeated along different axes, as a
    matrix product does.
    """
    while summed.op is Op.CAST:
        summed = summed.source
    return summed.op is Op.MUL and all(map(_is_repeated, summed.src))


def _is_repeated(node: UOp) -> bool:
    while node.op in _THROUGH:
        node = node.source
    return node.op is Op.EXPAND


def _iter_sizes(node: UOp, lengths: Sequence[int] | set[int]) -> Iterator[int]:
    """The sizes in a node's argument."""
    if node.op in _SIZED:
        yield from node.arg
    elif node.op is Op.PARAM:
        yield node.arg.size
    elif node.op is Op.IOTA:
        yield node.arg
    elif node.op is Op.CONST and _may_be_length(node) and int(node.arg) in lengths:
        yield int(node.arg)


def _may_be_length(const: UOp) -> bool:
    """True if a constant is a number that a conversion from a size gives exactly."""
    value, dtype = const.arg, const.dtype
    # float32 represents integers exactly up to 2**24; smaller floats, far fewer.
    is_exact = not isinstance(value, bool) and 1 < value < 1 << 24 and value == int(value)
    return is_exact and dtype.itemsize >= 4 and (dtype.is_float or dtype.is_int)


def _list_lengths(nodes: Sequence[UOp]) -> set[int]:
    """Values of constants that may come from a size: the number of elements along reduced axes, and
    one less.
    """
    lengths: set[int] = set()
    for node in nodes:
        if node.op is Op.REDUCE_AXIS:
            axes: tuple[int, ...] = node.arg.axes
            lengths.add(max_size(product([node.source.shape[axis] for axis in axes])))
        elif node.op is Op.IOTA:
            lengths.add(node.arg)
    # `mean` divides by the length; `std` and `argmax` use one less.
    return lengths | {length - 1 for length in lengths}


def _get_fixed_attributes(node: UOp, *, is_open: bool) -> Hashable:
    """Attributes of a node apart from sizes."""
    match node.op:
        case Op.PARAM:
            return node.arg.slot, node.arg.device
        case Op.CONST:
            # Equal numbers may be different constants: 0.0 and -0.0, 1 and True. The node tells
            # them apart.
            return None if is_open else node
        case Op.RESHAPE | Op.EXPAND | Op.PAD | Op.SHRINK | Op.IOTA:
            return None
        case _:
            return node.arg


def _rebuild(node: UOp, operands: list[UOp], sizes: Sequence[SInt]) -> UOp | None:
    match node.op:
        case Op.PARAM:
            return _make_param(node, sizes[0])
        case Op.IOTA:
            return node if isinstance(sizes[0], int) else UOp(Op.IOTA, node.dtype, (sizes[0],))
        case Op.CONST:
            return (
                node if not sizes or isinstance(sizes[0], int) else _convert(sizes[0], node.dtype)
            )
        case Op.RESHAPE | Op.EXPAND | Op.PAD | Op.SHRINK:
            return (
                with_sizes(node.op, operands[0], sizes)
                if _fits(node.op, operands[0].shape, sizes)
                else None
            )
        case _:
            shapes = {shape for s in operands if (shape := s.find_shape())}
            # Sizes that were equal by coincidence are different expressions now.
            is_alike = node.op not in ELEMENTWISE or len(shapes) < 2
            return UOp(node.op, node.dtype, tuple(operands), node.arg) if is_alike else None


def _fits(op: Op, shape: Sequence[SInt], sizes: Sequence[SInt]) -> bool:
    """Whether it is known, whatever the values of variables, that memory of this shape may be moved
    so.
    """
    match op:
        case Op.RESHAPE:
            return product(shape) == product(sizes)
        case Op.EXPAND:
            return all(
                old in (1, normalize_size(new)) for old, new in zip(shape, sizes, strict=True)
            )
        case Op.SHRINK:
            parts = zip(shape, sizes[::2], sizes[1::2], strict=True)
            return all(
                is_known_at_most(begin, end) and is_known_at_most(end, size)
                for size, begin, end in parts
            )
        case _:
            return True


def _make_param(param: UOp, size: SInt) -> UOp:
    if isinstance(size, int):
        return param
    param_ = UOp(
        Op.PARAM, param.dtype, (), ParamArg(param.arg.slot, max_size(size), param.arg.device)
    )
    return with_sizes(Op.SHRINK, param_, (0, size))


def _convert(size: UOp, dtype: DType) -> UOp:
    assert size.dtype is index
    return UOp(Op.CAST, dtype, (to_node(size),))
