"""The parts of a tensor that lies on several devices.

A tensor is one node, wherever it lies; what has memory is each of its shards. So whatever computes,
reads or writes memory takes a tensor apart first, into nodes of one device each: `parts_of`. A
tensor on one device is its only part."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from svod_dtype import DType
from svod_ir import Op, Sharding, UOp, make_empty, make_shrink
from svod_ir.build import make_copy
from svod_ir.placement import is_file
from svod_tensor._data import copy_to_device
from svod_tensor._shapes import Shape

__all__ = ["bring_to", "iter_parts", "join_parts", "parts_of", "place_like", "spread"]


def parts_of(node: UOp) -> tuple[UOp, ...]:
    """The shards of a node in the order of its devices, or the node itself where it is on one
    device.
    """
    if node.op is Op.MULTI:
        return node.source.src
    placement = node.placement
    return spread(node, placement) if isinstance(placement, Sharding) else (node,)


def iter_parts(nodes: Iterable[UOp]) -> Iterable[UOp]:
    """The parts of all nodes, each once, without those that have no elements."""
    return dict.fromkeys(part for node in nodes for part in parts_of(node) if 0 not in part.shape)


def spread(node: UOp, sharding: Sharding) -> tuple[UOp, ...]:
    """The shards of `node` as `sharding` splits it."""
    parts = [_part(node, sharding, position) for position in range(len(sharding.devices))]
    # What is written to a shard is not written to `node`.
    return tuple(
        UOp(Op.CONTIGUOUS, part.dtype, (part,)) if part is node else part for part in parts
    )


def place_like(node: UOp, other: UOp) -> UOp:
    """`node`, which is on no device, where `other` is, which has its shape."""
    placement = other.placement
    if isinstance(placement, Sharding):
        return join_parts(spread(node, placement), placement.axis)
    return node if placement is None or is_file(placement) else copy_to_device(node, placement)


def bring_to(node: UOp, other: UOp) -> UOp:
    """`node`, made from the caller's own data, on the device that `other` is on, or on each of its
    devices.
    """
    placement = other.placement
    if node.placement is None or placement is None or is_file(placement):
        return node
    if isinstance(placement, Sharding):
        return join_parts(spread(node, placement.replicated), None)
    return copy_to_device(node, placement)


def join_parts(parts: Sequence[UOp], axis: int | None) -> UOp:
    """The tensor that consists of these shards."""
    dtype = parts[0].dtype
    return UOp(Op.MULTI, dtype, (UOp(Op.MSTACK, dtype, tuple(parts)),), axis)


def _part(node: UOp, sharding: Sharding, position: int) -> UOp:
    device, axis = sharding.devices[position], sharding.axis
    if axis is None:
        part = node
    else:
        bounds = sharding.bounds(position)
        if bounds[0] == bounds[1]:
            return _nowhere(
                node.dtype, tuple(0 if a == axis else s for a, s in enumerate(node.shape)), device
            )
        part = make_shrink(
            node, [bounds if a == axis else (0, s) for a, s in enumerate(node.shape)]
        )
    return make_copy(part, device)


def _nowhere(dtype: DType, shape: Shape, device: str) -> UOp:
    """A shard without elements."""
    return make_copy(make_empty(dtype, shape), device)
