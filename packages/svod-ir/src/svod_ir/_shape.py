"""Shape inference of every op."""

from __future__ import annotations

from svod_dtype import void
from svod_ir._sharding import MeshLayout, Sharding
from svod_ir._size_text import format_shape
from svod_ir.errors import GraphError
from svod_ir.loops import get_result_shape
from svod_ir.ops import COMPLEX_PARTS, ELEMENTWISE, MARKS, Op
from svod_ir.sizes import max_size, normalize_size
from svod_ir.uop import SInt, UOp, defines

__all__ = ["infer_shape", "max_size"]

_SCALAR = frozenset(
    {
        Op.CONST,
        Op.VCONST,
        Op.DEFINE_VAR,
        Op.SPECIAL,
        Op.RANGE,
        Op.INDEX,
        Op.LOAD,
        Op.REDUCE,
        Op.SCAN,
        Op.VECTORIZE,
        Op.BROADCAST,
        Op.GEP,
        Op.CAT,
        Op.WMMA,
        Op.CUSTOM,
        Op.CARRY,
    }
)
_EFFECTS = frozenset(
    {Op.STORE, Op.END, Op.SINK, Op.GROUP, Op.CALL, Op.ADVANCE, Op.LEAVE, Op.LOOP, Op.SWITCH}
)
_LIKE_FIRST = (
    frozenset(
        {
            Op.BIND,
            Op.COPY,
            Op.MSTACK,
            Op.ALLREDUCE,
            Op.SCAN_AXIS,
            Op.AFTER,
            Op.CONTROL_DEPENDENCY,
            Op.RESHARD,
            Op.ASSIGN,
            Op.CHECK,
            Op.CONTIGUOUS,
        }
    )
    | MARKS
)


@defines("_shape")
def infer_shape(node: UOp) -> tuple[SInt, ...] | None:
    """The shape of `node`, from the shapes of its operands; None for effects and structure."""
    # Sets first: most nodes are in one of them, and `match` compares its cases one by one.
    op = node.op
    if op in _SCALAR:
        return ()
    if op in _LIKE_FIRST:
        return node.src[0].find_shape()
    if op in ELEMENTWISE or op in COMPLEX_PARTS:
        return _elementwise(node)
    if op in _EFFECTS:
        return None
    match op:
        case Op.BUFFER | Op.PARAM | Op.BUFFER_VIEW | Op.DEFINE_LOCAL | Op.DEFINE_REG:
            return (node.arg.size,)
        case Op.IOTA:
            return node.src if node.src else (node.arg,)
        case Op.RESHAPE | Op.EXPAND:
            return node.sizes
        case Op.PERMUTE:
            axes: tuple[int, ...] = node.arg
            return tuple(node.src[0].shape[axis] for axis in axes)
        case Op.FLIP:
            return node.src[0].shape
        case Op.PAD:
            sizes = node.sizes
            return tuple(
                # In normal form, so that equal symbolic sizes are one node and compare by identity.
                normalize_size(s + sizes[2 * i] + sizes[2 * i + 1])
                for i, s in enumerate(node.src[0].shape)
            )
        case Op.SHRINK:
            return tuple(
                _extent(begin, end)
                for begin, end in zip(node.sizes[::2], node.sizes[1::2], strict=True)
            )
        case Op.AS_COMPLEX:
            return node.src[0].shape[:-1]
        case Op.AS_REAL:
            return (*node.src[0].shape, 2)
        case Op.MULTI:
            return _join_shards(node)
        case Op.MSELECT:
            source = node.src[0]
            placement = source.placement
            # Of an MSTACK, all shards of which have the shape of the first but for one axis.
            if source.op is Op.MSTACK or not isinstance(placement, Sharding):
                return source.shape
            return placement.shard_shape(source.shape, node.arg)
        case Op.GATHER:
            source, indices = node.src[0].shape, node.src[1].shape
            return (*source[: node.arg], *indices, *source[node.arg + 1 :])
        case Op.SCATTER:
            return node.src[2].shape
        case Op.REDUCE_AXIS:
            return tuple(1 if a in node.arg.axes else s for a, s in enumerate(node.src[0].shape))
        case Op.CUSTOM_FUNCTION if node.dtype is not void:
            from svod_ir.custom_function import read_signature

            return read_signature(node).memory.shape
        case Op.RESULT:
            return get_result_shape(node)
        case Op.BUFFERIZE:
            return tuple(_range_size(r) for r in node.src[1:])
        case _:
            return None


def _elementwise(node: UOp) -> tuple[SInt, ...] | None:
    shape: tuple[SInt, ...] = ()
    for operand in node.src:
        operand_shape = operand.find_shape()
        if operand_shape is None:
            return None
        # A scalar combines with any shape; there is no other broadcasting in a graph.
        if operand_shape and shape and operand_shape != shape:
            raise GraphError(
                rule="elementwise operands have one shape or none",
                node=node,
                notes=(f"{format_shape(shape)} and {format_shape(operand_shape)}",),
            )
        # The first operand that has axes decides; scalars have none.
        shape = shape or operand_shape
    return shape


def _join_shards(node: UOp) -> tuple[SInt, ...]:
    shape = node.src[0].shape
    arrangement: int | MeshLayout | None = node.arg
    if arrangement is None:
        return shape
    if isinstance(arrangement, MeshLayout):
        whole = list(shape)
        for axis, parts in zip(arrangement.axes, arrangement.sizes, strict=True):
            if axis is not None:
                whole[axis] = sum(parts)
        return tuple(whole)
    axis = arrangement
    sizes = [shard.shape[axis] for shard in node.src[0].src]
    return (*shape[:axis], sum(s for s in sizes if isinstance(s, int)), *shape[axis + 1 :])


def _extent(begin: SInt, end: SInt) -> SInt:
    return normalize_size(end - begin)


def _range_size(node: UOp) -> SInt:
    # A BUFFERIZE axis is a RANGE, or a constant index on an axis of size 1.
    if node.op is Op.RANGE:
        end = node.src[0]
        return end.arg if end.op is Op.CONST else end
    return node.vmax + 1
