"""What graphs have in common that differ in sizes alone: their outline, and the numbers that it
leaves open.

    RESHAPE(PARAM [0, 448], [7, 64])    outline RESHAPE(PARAM [0, _], [_, _]), numbers 448, 7, 64
    RESHAPE(PARAM [0, 704], [11, 64])   the same outline, numbers 704, 11, 64

Sizes of 0 and 1, which decide what is broadcast and what is empty, belong to the outline, as all
other arguments do. Constants that may come from a size are left open, too: `mean` divides by one.

Graphs have an outline if they are of elementwise operations, movement and reductions on one device.
Products of matrices have none: their kernels are made for the sizes of their tiles."""

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
"""Longer graphs take longer to look at, and their sizes come back more often."""

_SIZED: Final = frozenset({Op.RESHAPE, Op.EXPAND, Op.PAD, Op.SHRINK})
_PLAIN: Final = ELEMENTWISE | {Op.PERMUTE, Op.FLIP, Op.CONTIGUOUS, Op.SINK}
_THROUGH: Final = frozenset({Op.CAST, Op.RESHAPE, Op.PERMUTE, Op.FLIP, Op.SHRINK, Op.PAD})


class GraphOutline(NamedTuple):
    """A graph without its numbers, and these in the order of its nodes."""

    key: Hashable
    numbers: tuple[int, ...]


def find_outline(sink: UOp) -> GraphOutline | None:
    """The outline of a graph; None if it has none."""
    nodes = sink.toposort()
    if len(nodes) > MAX_NODES:
        return None
    place = {node: number for number, node in enumerate(nodes)}
    lengths: set[int] | None = None
    key: list[Hashable] = []
    numbers: list[int] = []
    for node in nodes:
        if node.op is Op.CONST:
            lengths = _list_lengths(nodes) if lengths is None else lengths
        if not _has_outline(node):
            return None
        open_numbers = tuple(_iter_numbers(node, lengths or ()))
        numbers += [number for number in open_numbers if number > 1]
        key.append(
            (
                node.op,
                node.dtype,
                tuple([place[s] for s in node.src]),
                tuple([number if number < 2 else None for number in open_numbers]),
                _get_rest(node, is_open=bool(open_numbers)),
            )
        )
    return GraphOutline(tuple(key), tuple(numbers))


def resize(sink: UOp, numbers: Sequence[SInt]) -> UOp | None:
    """A graph with other numbers in the places of its own; None where its shapes do not fit
    together then.

    Memory of a symbolic size is the first part of a PARAM that has room for the largest one.
    """
    nodes = sink.toposort()
    lengths = _list_lengths(nodes)
    new = iter(numbers)
    done: dict[UOp, UOp] = {}
    for node in nodes:
        given = [next(new) if number > 1 else number for number in _iter_numbers(node, lengths)]
        made = _rebuild(node, [done[s] for s in node.src], given)
        if made is None:
            return None
        done[node] = made
    return done[sink]


def _has_outline(node: UOp) -> bool:
    match node.op:
        case Op.PARAM | Op.CONST:
            return True
        case Op.IOTA | Op.RESHAPE | Op.EXPAND | Op.PAD | Op.SHRINK:
            return len(node.src) <= (node.op is not Op.IOTA)
        case Op.CHECK:
            return node.arg.axis is None
        case Op.REDUCE_AXIS:
            return not _is_contraction(node.source)
        case op:
            return op in _PLAIN


def _is_contraction(summed: UOp) -> bool:
    """Whether a reduction adds up products of what is repeated along different axes, as a product
    of matrices does.
    """
    while summed.op is Op.CAST:
        summed = summed.source
    return summed.op is Op.MUL and all(map(_is_repeated, summed.src))


def _is_repeated(node: UOp) -> bool:
    while node.op in _THROUGH:
        node = node.source
    return node.op is Op.EXPAND


def _iter_numbers(node: UOp, lengths: Sequence[int] | set[int]) -> Iterator[int]:
    """The sizes that a node names."""
    if node.op in _SIZED:
        yield from node.arg
    elif node.op is Op.PARAM:
        yield node.arg.size
    elif node.op is Op.IOTA:
        yield node.arg
    elif node.op is Op.CONST and _may_be_length(node) and int(node.arg) in lengths:
        yield int(node.arg)


def _may_be_length(const: UOp) -> bool:
    """Whether a constant is a number that a conversion from a size gives exactly."""
    value, dtype = const.arg, const.dtype
    is_exact = not isinstance(value, bool) and 1 < value < 1 << 24 and value == int(value)
    return is_exact and dtype.itemsize >= 4 and (dtype.is_float or dtype.is_int)


def _list_lengths(nodes: Sequence[UOp]) -> set[int]:
    """What a constant may be that comes from a size: how many elements there are along axes, and
    one less.
    """
    found: set[int] = set()
    for node in nodes:
        if node.op is Op.REDUCE_AXIS:
            axes: tuple[int, ...] = node.arg.axes
            found.add(max_size(product([node.source.shape[axis] for axis in axes])))
        elif node.op is Op.IOTA:
            found.add(node.arg)
    return found | {length - 1 for length in found}


def _get_rest(node: UOp, *, is_open: bool) -> Hashable:
    """What else a node says."""
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


def _rebuild(node: UOp, operands: list[UOp], numbers: Sequence[SInt]) -> UOp | None:
    match node.op:
        case Op.PARAM:
            return _make_param(node, numbers[0])
        case Op.IOTA:
            return node if isinstance(numbers[0], int) else UOp(Op.IOTA, node.dtype, (numbers[0],))
        case Op.CONST:
            return (
                node
                if not numbers or isinstance(numbers[0], int)
                else _convert(numbers[0], node.dtype)
            )
        case Op.RESHAPE | Op.EXPAND | Op.PAD | Op.SHRINK:
            return (
                with_sizes(node.op, operands[0], numbers)
                if _fits(node.op, operands[0].shape, numbers)
                else None
            )
        case _:
            shapes = {shape for s in operands if (shape := s.find_shape())}
            is_alike = node.op not in ELEMENTWISE or len(shapes) < 2
            return UOp(node.op, node.dtype, tuple(operands), node.arg) if is_alike else None


def _fits(op: Op, shape: Sequence[SInt], numbers: Sequence[SInt]) -> bool:
    """Whether it is known, whatever the values of variables, that memory of this shape may be moved
    so.
    """
    match op:
        case Op.RESHAPE:
            return product(shape) == product(numbers)
        case Op.EXPAND:
            return all(
                old in (1, normalize_size(new)) for old, new in zip(shape, numbers, strict=True)
            )
        case Op.SHRINK:
            parts = zip(shape, numbers[::2], numbers[1::2], strict=True)
            return all(
                is_known_at_most(begin, end) and is_known_at_most(end, size)
                for size, begin, end in parts
            )
        case _:
            return True


def _make_param(param: UOp, size: SInt) -> UOp:
    if isinstance(size, int):
        return param
    whole = UOp(
        Op.PARAM, param.dtype, (), ParamArg(param.arg.slot, max_size(size), param.arg.device)
    )
    return with_sizes(Op.SHRINK, whole, (0, size))


def _convert(size: UOp, dtype: DType) -> UOp:
    assert size.dtype is index
    return UOp(Op.CAST, dtype, (to_node(size),))
