"""Placement of nodes: on one device, sharded over several (`Sharding`), or on none yet.

A placement is derived from the memory below a node, as a shape is:

    BUFFER, PARAM, COPY         the device in their arg
    CONST, IOTA, ...            none: they are computed on the device of their readers
    MULTI(MSTACK(x, y), axis)   the devices of the shards
    RESHARD(x)                  the layout on a mesh in its arg
    RESULT                      the placement of the value in the body of the loop or switch
    any other node              the placement of its operands, which must agree

Devices compute on a sharded tensor as SPMD: the same program on each shard. On a mesh, each process
has the graph of the whole tensors and the memory of its own shards alone.

`lay_out` alone decides, for each op, how its result is sharded when its operands are, and how each
operand must be sharded for that. Every device computes an op on the whole tensors if it cannot work
on shards, so every op has a layout.

DISK stores bytes and cannot compute: a value computed from a file has no device yet, except for a
reshaped view of the file.

Example:
    >>> from svod_dtype import float32
    >>> from svod_ir import BufferArg, Op, UOp
    >>> from svod_ir.placement import check_devices, infer_placement, is_file, lay_out, split_evenly
    >>> x = UOp(Op.BUFFER, float32, (), BufferArg(1, 12, "CPU"))
    >>> infer_placement(x + 1.0), is_file("CPU"), split_evenly(7, 3)
    ('CPU', False, (3, 2, 2))
    >>> check_devices(x, x)
    >>> from svod_ir.placement import Placement
    >>> def count_devices(placement: Placement) -> int:
    ...     return 0 if placement is None else 1 if isinstance(placement, str) else len(placement.devices)
    >>> count_devices(x.placement), count_devices(UOp.const(float32, 1.0).placement)
    (1, 0)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from math import prod
from typing import Final, NamedTuple

from svod_dtype import void
from svod_ir._constant import is_zero
from svod_ir._sharding import Mesh, MeshLayout, Placement, Sharding, split_evenly
from svod_ir.errors import DeviceMismatchError
from svod_ir.loops import get_result_placement
from svod_ir.ops import COMPLEX_PARTS, ELEMENTWISE, MARKS, MOVEMENT, Op
from svod_ir.uop import SInt, UOp, defines

__all__ = [
    "Mesh",
    "MeshLayout",
    "Partition",
    "Placement",
    "Sharding",
    "check_devices",
    "infer_placement",
    "is_file",
    "is_on_mesh",
    "keep_between",
    "lay_out",
    "split_evenly",
]


class Partition(NamedTuple):
    """Layout of a node: the placement of its result, and of each operand (None: unchanged).

    Example:
        >>> from svod_dtype import float32
        >>> from svod_ir import Op, UOp
        >>> from svod_ir.placement import Partition, lay_out
        >>> from svod_ir.testing.nodes import buffer, stack
        >>> copies = UOp(Op.MULTI, float32, (stack(buffer(1), buffer(2, device="CPU:1")),), None)
        >>> layout = lay_out(copies + 1.0)
        >>> isinstance(layout, Partition), layout.result.devices, layout.operands[0]
        (True, ('CPU', 'CPU:1'), Sharding(devices=('CPU', 'CPU:1'), axis=None, sizes=()))
    """

    result: Placement
    operands: tuple[Sharding | None, ...]


_Rule = Callable[[UOp, Sharding, Sequence[Placement]], Partition]
"""A node, the first sharding among its operands, and the placements of all."""

_COMMON: Final = (MOVEMENT - {Op.RESHAPE, Op.MULTI}) | {Op.CONST, Op.REDUCE_AXIS} | COMPLEX_PARTS


@defines("_placement")
def infer_placement(node: UOp) -> Placement:
    """The placement of `node`, from the placements of its operands.

    Raises:
        DeviceMismatchError: if operands are on different devices.
    """
    # First, since most nodes are of these ops.
    if node.op in ELEMENTWISE or node.op in _COMMON:
        return _common_placement(node)
    match node.op:
        case Op.BUFFER | Op.PARAM | Op.BUFFERIZE:
            return node.arg.device
        case Op.COPY:
            return node.arg
        case Op.ALLREDUCE:
            return node.arg.device
        case Op.MSTACK:
            devices = [s.placement for s in node.src]
            return Sharding(tuple(d if isinstance(d, str) else "" for d in devices))
        case Op.MSELECT:
            return _devices(node.src[0].placement)[int(node.arg)]
        case Op.MULTI:
            stack, axis = node.src[0], node.arg
            devices = _devices(stack.placement)
            if isinstance(axis, MeshLayout):
                return Sharding(devices, layout=axis)
            return (
                Sharding(devices)
                if axis is None
                else Sharding(devices, axis, _shard_sizes(stack, axis))
            )
        case Op.RESHARD:
            return Sharding((node.arg.mesh.device,), layout=node.arg)
        case Op.RESULT:
            return get_result_placement(node)
        case Op.RESHAPE | Op.BUFFER_VIEW if is_file(node.src[0].placement):
            return node.src[0].placement
        case _ if node.dtype is void:
            return None
        case _:
            return _common_placement(node)


def _common_placement(node: UOp) -> Placement:
    common: Placement = None
    for operand in node.src:
        placement = operand.placement
        if common is None:
            common = placement
        elif placement is not None and placement != common:
            # Operands differ: either they are sharded differently, or `lay_out` raises.
            return lay_out(node).result
    return lay_out(node).result if isinstance(common, Sharding) or is_file(common) else common


def is_file(placement: Placement) -> bool:
    """True if a placement is a file, which kernels of other devices read."""
    return isinstance(placement, str) and placement.startswith("DISK:")


def keep_between(sizes: Sequence[int], begin: int, end: int) -> tuple[int, ...]:
    """Number of elements of each part of an axis that lie between two bounds.

    Example:
        >>> from svod_ir.placement import keep_between
        >>> keep_between((3, 3, 2), 2, 5)
        (1, 2, 0)
    """
    ends = accumulate(sizes)
    return tuple(max(0, min(end, e) - max(begin, e - s)) for e, s in zip(ends, sizes, strict=True))


def is_on_mesh(placement: Placement) -> bool:
    """True if a placement is over the processes of a mesh, where a value on the device of each
    process may be an operand too.

    Example:
        >>> from svod_ir import Mesh, Sharding
        >>> from svod_ir.placement import is_on_mesh
        >>> layout = Mesh(("data",), (2,), (0,)).lay_out({"data": 0}, (8,))
        >>> is_on_mesh(Sharding(("CPU",), layout=layout)), is_on_mesh("CPU")
        (True, False)
    """
    return isinstance(placement, Sharding) and placement.layout is not None


def lay_out(node: UOp) -> Partition:
    """The layout of a node that computes on tensors.

    Raises:
        DeviceMismatchError: if operands are on different devices.

    Example:
        >>> from svod_dtype import float32
        >>> from svod_ir import Op, UOp
        >>> from svod_ir.build import make_reduce_axis, make_reshape
        >>> from svod_ir.placement import Partition, lay_out
        >>> from svod_ir.testing.nodes import buffer, stack
        >>> rows = [make_reshape(buffer(n, 8, device=device), (2, 4)) for n, device in enumerate(("CPU", "CPU:1"))]
        >>> x = UOp(Op.MULTI, float32, (stack(*rows),), 0)  # 4 rows, 2 on each device
        >>> lay_out(x * 2.0).result.sizes
        (2, 2)
        >>> layout = lay_out(make_reduce_axis(x, Op.ADD, (1,)))
        >>> isinstance(layout, Partition), layout.result == x.placement
        (True, True)
    """
    if node.op is Op.RESHARD:
        own = Sharding((node.arg.mesh.device,), layout=node.arg)
        return Partition(own, (own,))
    # A file is read by kernels of any device, so it does not decide where they run.
    placements = [None if is_file(p := s.placement) else p for s in node.src]
    if node.op in (Op.AFTER, Op.BIND, Op.GRADIENT, Op.CONTROL_DEPENDENCY):
        # The other operands are effects, not tensors, or are not read by the computation.
        placements[1:] = [None] * (len(placements) - 1)
    first = _get_first(placements)
    if not isinstance(first, Sharding):
        return Partition(first, (None,) * len(node.src))
    if first.layout is not None:
        return _lay_out_on_mesh(node, first.layout, first.devices, placements)
    return _get_rule(node)(node, first, placements)


def _get_rule(node: UOp) -> _Rule:
    if node.op in ELEMENTWISE or node.op in COMPLEX_PARTS:
        return _lay_out_elementwise
    return _RULES.get(node.op, _lay_out_whole)


def _lay_out_on_mesh(
    node: UOp, like: MeshLayout, devices: tuple[str, ...], placements: Sequence[Placement]
) -> Partition:
    """Lay out along each axis of the mesh as over several devices.

    A value that is not sharded is the same in all processes, as they run the same program.
    """
    rule = _get_rule(node)
    layouts = [p.layout if isinstance(p, Sharding) else None for p in placements]
    result = like.replicated
    operands: list[MeshLayout | None] = [None] * len(node.src)
    for mesh_axis in range(len(like.axes)):
        projected = [None if x is None else x.along(mesh_axis) for x in layouts]
        first = next((p for p in projected if p is not None), like.along(mesh_axis))
        part = rule(node, first, projected)
        pairs = [(part.result, result), *zip(part.operands, operands, strict=True)]
        if node.op is Op.SHRINK and isinstance(part.result, Sharding) and 0 in part.result.sizes:
            # The operand stays where it is: what is left of it is gathered.
            part = Partition(first.replicated, part.operands)
        elif any(_is_taken(along, layout) for along, layout in pairs):
            part = _lay_out_whole(node, first, projected)
        result = _set_along(result, mesh_axis, part.result)
        operands = [
            x if along is None else _set_along(x or like.replicated, mesh_axis, along)
            for x, along in zip(operands, part.operands, strict=True)
        ]
    return Partition(
        Sharding(devices, layout=result),
        tuple(None if x is None else Sharding(devices, layout=x) for x in operands),
    )


def _is_taken(along: Placement, layout: MeshLayout | None) -> bool:
    """Whether another axis of the mesh splits the same axis, or a part has no elements.

    Each process has a part of each result, so that all of them take the same steps.
    """
    if not isinstance(along, Sharding) or along.axis is None:
        return False
    return 0 in along.sizes or (layout is not None and along.axis in layout.axes)


def _set_along(layout: MeshLayout, mesh_axis: int, along: Placement) -> MeshLayout:
    assert isinstance(along, Sharding)
    return layout.with_axis(mesh_axis, along.axis, along.sizes)


def check_devices(*nodes: UOp) -> None:
    """Check that nodes can be operands of one op.

    Raises:
        DeviceMismatchError: if they are on different devices.
    """
    _get_first([None if is_file(p := node.placement) else p for node in nodes])


def _get_first(placements: Sequence[Placement]) -> Placement:
    known = [p for p in placements if p is not None]
    on_mesh = next((p for p in known if is_on_mesh(p)), None)
    if isinstance(on_mesh, Sharding):
        # Each process has its own copy of what is on its device.
        known = [on_mesh, *(p for p in known if p != on_mesh.devices[0])]
    for placement in known:
        if placement is not known[0] and _identify(placement) != _identify(known[0]):
            raise DeviceMismatchError(left=_describe(known[0]), right=_describe(placement))
    return known[0] if known else None


def _identify(placement: Placement) -> object:
    if isinstance(placement, Sharding) and placement.layout is not None:
        return placement.layout.mesh
    return _devices(placement)


def _describe(placement: Placement) -> tuple[str, ...]:
    if isinstance(placement, Sharding) and placement.layout is not None:
        return (f"the mesh {', '.join(placement.layout.mesh.describe_axes())}",)
    return _devices(placement)


def _devices(placement: Placement) -> tuple[str, ...]:
    if isinstance(placement, Sharding):
        return placement.devices
    return () if placement is None else (placement,)


def _shard_sizes(stack: UOp, axis: int) -> tuple[int, ...]:
    sizes = [s.shape[axis] for s in stack.src]
    return tuple(s for s in sizes if isinstance(s, int))


def _lay_out_elementwise(node: UOp, first: Sharding, placements: Sequence[Placement]) -> Partition:
    """Shard the operands like the first one that has a sharded axis; replicate 0-d operands."""
    # Splitting a replica is a local slice, while replicating a split operand is a transfer.
    shardings = (p for p in placements if isinstance(p, Sharding))
    split = next((p for p in shardings if p.axis is not None), first)
    return Partition(split, tuple(split if s.shape else split.replicated for s in node.src))


def _lay_out_whole(node: UOp, first: Sharding, placements: Sequence[Placement]) -> Partition:
    """Replicate the operands: every device computes the whole result."""
    replicated = first.replicated
    return Partition(
        replicated, tuple(replicated if s.find_shape() is not None else None for s in node.src)
    )


def _lay_out_first(node: UOp, first: Sharding, placements: Sequence[Placement]) -> Partition:
    """Shard the result like the first operand."""
    return Partition(first, (first, *(None,) * (len(node.src) - 1)))


def _lay_out_move(node: UOp, first: Sharding, placements: Sequence[Placement]) -> Partition:
    """Map the sharded axis through the movement op; all-gather the operand if it has no image."""
    moved = first if first.axis is None else _MOVES[node.op](node, first, first.axis)
    unchanged = (None,) * (len(node.src) - 1)
    return (
        Partition(first.replicated, (first.replicated, *unchanged))
        if moved is None
        else Partition(moved, (first, *unchanged))
    )


def _lay_out_reduce(node: UOp, first: Sharding, placements: Sequence[Placement]) -> Partition:
    """Replicate the result of a reduction over the sharded axis (an all-reduce)."""
    return Partition(first.replicated if first.axis in node.arg.axes else first, (first,))


def _lay_out_scan(node: UOp, first: Sharding, placements: Sequence[Placement]) -> Partition:
    """Replicate the operand of a scan along the sharded axis."""
    return (
        _lay_out_whole(node, first, placements)
        if first.axis == node.arg.axis
        else Partition(first, (first,))
    )


def _lay_out_pairs(node: UOp, first: Sharding, placements: Sequence[Placement]) -> Partition:
    """Keep the two parts of each complex number on one device."""
    return (
        _lay_out_whole(node, first, placements)
        if first.axis == len(node.shape)
        else Partition(first, (first,))
    )


def _lay_out_gather(node: UOp, first: Sharding, placements: Sequence[Placement]) -> Partition:
    """Shard along an axis of the source other than the gathered one, or along the indices."""
    source, indices = placements
    axis, n_axes = node.arg, len(node.src[1].shape)
    replicated = first.replicated
    # An axis that is not gathered: each device gathers in its own part, without a transfer.
    if isinstance(source, Sharding) and source.axis is not None and source.axis != axis:
        moved = source.axis if source.axis < axis else source.axis + n_axes - 1
        return Partition(source._replace(axis=moved), (source, replicated))
    source_axis = source.axis if isinstance(source, Sharding) else None
    if source_axis is None and isinstance(indices, Sharding) and indices.axis is not None:
        return Partition(indices._replace(axis=axis + indices.axis), (replicated, indices))
    # A source sharded along the gathered axis: any index may be on any device.
    return Partition(replicated, (replicated, replicated))


def _lay_out_scatter(node: UOp, first: Sharding, placements: Sequence[Placement]) -> Partition:
    """Shard along an axis other than the scattered one. Sums to zeros are sharded along the indices
    too: each device then sums its share of the whole result.
    """
    value, indices, base = placements
    axis, n_axes = node.arg.axis, len(node.src[1].shape)
    replicated = first.replicated
    # An axis of the rows: each device writes to its own part, without a transfer.
    if isinstance(base, Sharding) and base.axis not in (None, axis):
        moved = base.axis if base.axis < axis else base.axis + n_axes - 1
        return Partition(base, (base._replace(axis=moved), replicated, base))
    split = value.axis if isinstance(value, Sharding) else None
    if isinstance(value, Sharding) and split is not None and not axis <= split < axis + n_axes:
        part = value._replace(axis=split if split < axis else split - n_axes + 1)
        return Partition(part, (value, replicated, part))
    if node.arg.op is Op.ADD and is_zero(node.src[2]):
        if isinstance(value, Sharding) and split is not None:
            return Partition(replicated, (value, value._replace(axis=split - axis), replicated))
        if isinstance(indices, Sharding) and indices.axis is not None:
            rows = indices._replace(axis=axis + indices.axis)
            return Partition(replicated, (rows, indices, replicated))
    # A base sharded along the scattered axis: any row may be on any device.
    return Partition(replicated, (replicated, replicated, replicated))


_RULES: Final[dict[Op, _Rule]] = {
    **dict.fromkeys(
        (Op.CONTIGUOUS, Op.CHECK, Op.AFTER, Op.CONTROL_DEPENDENCY, Op.AS_REAL, *MARKS),
        _lay_out_first,
    ),
    **dict.fromkeys((Op.RESHAPE, Op.PERMUTE, Op.EXPAND, Op.PAD, Op.SHRINK, Op.FLIP), _lay_out_move),
    Op.AS_COMPLEX: _lay_out_pairs,
    Op.REDUCE_AXIS: _lay_out_reduce,
    Op.SCAN_AXIS: _lay_out_scan,
    Op.GATHER: _lay_out_gather,
    Op.SCATTER: _lay_out_scatter,
}


def _permuted(node: UOp, first: Sharding, axis: int) -> Sharding:
    return first._replace(axis=node.arg.index(axis))


def _expanded(node: UOp, first: Sharding, axis: int) -> Sharding | None:
    # A sharded axis of size 1 is repeated: all devices need the element of one.
    return first if node.src[0].shape[axis] == node.shape[axis] else None


def _flipped(node: UOp, first: Sharding, axis: int) -> Sharding:
    return first._replace(sizes=first.sizes[::-1]) if node.arg[axis] else first


def _padded(node: UOp, first: Sharding, axis: int) -> Sharding | None:
    """Assign the padding to the first and the last shard."""
    before, after = node.sizes[2 * axis : 2 * axis + 2]
    if not (isinstance(before, int) and isinstance(after, int)):
        return None
    sizes = list(first.sizes)
    # The ends of the axis are on these devices, so padding moves no element.
    sizes[0] += before
    sizes[-1] += after
    return first._replace(sizes=tuple(sizes))


def _shrunk(node: UOp, first: Sharding, axis: int) -> Sharding | None:
    """Keep the remaining elements on their devices; a shard may become empty."""
    begin, end = node.sizes[2 * axis : 2 * axis + 2]
    if not (isinstance(begin, int) and isinstance(end, int)):
        return None
    return first._replace(sizes=keep_between(first.sizes, begin, end))


def _reshaped(node: UOp, first: Sharding, axis: int) -> Sharding | None:
    """Map the sharded axis if it is the outermost merged axis; its image is the outermost
    split axis.
    """
    old, new = node.src[0].shape, node.shape
    kept = _unchanged_axis(old, new, axis)
    # This case needs no products, and so works beside symbolic axes.
    if kept is not None:
        return first._replace(axis=kept)
    known_old, known_new = _known(old), _known(new)
    # Divisibility cannot be decided for symbolic sizes, and products of a shape with a 0 say
    # nothing.
    if known_old is None or known_new is None or 0 in known_old:
        return None
    outer, inner = prod(known_old[:axis]), prod(known_old[axis + 1 :])
    for new_axis, size in enumerate(known_new):
        # The image begins after as many elements as the axis did; an axis of size 1 cannot be
        # split.
        if size == 1 or prod(known_new[:new_axis]) != outer:
            continue
        # Each shard must be a whole number of rows of the new axis.
        row = prod(known_new[new_axis + 1 :])
        if all(s * inner % row == 0 for s in first.sizes):
            return Sharding(first.devices, new_axis, tuple(s * inner // row for s in first.sizes))
    return None


def _unchanged_axis(old: Sequence[SInt], new: Sequence[SInt], axis: int) -> int | None:
    """Index of an axis after a reshape that changes only axes on one side of it."""
    if tuple(old[: axis + 1]) == tuple(new[: axis + 1]):
        return axis
    n_trailing = len(old) - axis
    return (
        len(new) - n_trailing
        if n_trailing <= len(new) and tuple(old[axis:]) == tuple(new[-n_trailing:])
        else None
    )


def _known(shape: Sequence[SInt]) -> list[int] | None:
    sizes = [s for s in shape if isinstance(s, int)]
    return sizes if len(sizes) == len(shape) else None


_MOVES: Final[dict[Op, Callable[[UOp, Sharding, int], Sharding | None]]] = {
    Op.RESHAPE: _reshaped,
    Op.PERMUTE: _permuted,
    Op.EXPAND: _expanded,
    Op.PAD: _padded,
    Op.SHRINK: _shrunk,
    Op.FLIP: _flipped,
}
