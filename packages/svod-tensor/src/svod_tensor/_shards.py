"""Shards of a tensor on several devices.

A tensor is one node, wherever it is, but memory belongs to its shards. Code that computes, reads or
writes memory therefore first splits a tensor into nodes of one device each: `shards_of`. A tensor
on one device is its only shard."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from svod_dtype import DType
from svod_ir import MeshLayout, Op, Sharding, UOp, make_empty, make_shrink
from svod_ir.build import make_copy
from svod_ir.placement import is_file
from svod_tensor._data import copy_to_device
from svod_tensor._shapes import Shape

__all__ = [
    "distribute",
    "iter_shards",
    "join_like",
    "join_shards",
    "move_like",
    "place_like",
    "shards_of",
    "spread",
]


def shards_of(node: UOp) -> tuple[UOp, ...]:
    """The shards of a node in the order of its devices, or the node itself if it is on one device."""
    if node.op is Op.MULTI:
        return node.source.src
    placement = node.placement
    return spread(node, placement) if isinstance(placement, Sharding) else (node,)


def iter_shards(nodes: Iterable[UOp]) -> Iterable[UOp]:
    """The shards of all nodes, each once, without empty ones."""
    # A dict keeps the order, which a set would not.
    return dict.fromkeys(
        shard for node in nodes for shard in shards_of(node) if 0 not in shard.shape
    )


def spread(node: UOp, sharding: Sharding) -> tuple[UOp, ...]:
    """The shards of `node` under `sharding`."""
    if sharding.layout is not None:
        return (UOp(Op.MSELECT, node.dtype, (distribute(node, sharding),), 0),)
    shards = [_make_shard(node, sharding, index) for index in range(len(sharding.devices))]
    # A replicated shard must be a copy: writes to it must not be visible in `node`.
    return tuple(
        UOp(Op.CONTIGUOUS, shard.dtype, (shard,)) if shard is node else shard for shard in shards
    )


def distribute(node: UOp, sharding: Sharding) -> UOp:
    """`node` under `sharding`."""
    if sharding.layout is not None:
        return (
            node
            if node.placement == sharding
            else UOp(Op.RESHARD, node.dtype, (node,), sharding.layout)
        )
    return join_shards(spread(node, sharding), sharding.axis)


def place_like(node: UOp, other: UOp) -> UOp:
    """`node`, which has no device, placed like `other`, which has the same shape."""
    placement = other.placement
    if isinstance(placement, Sharding):
        return distribute(node, placement)
    return node if placement is None or is_file(placement) else copy_to_device(node, placement)


def move_like(node: UOp, other: UOp) -> UOp:
    """`node`, made from the caller's own data, moved to the device or devices of `other`."""
    placement = other.placement
    if node.placement is None or placement is None or is_file(placement):
        return node
    if isinstance(placement, Sharding):
        return distribute(node, placement.replicated)
    return copy_to_device(node, placement)


def join_shards(shards: Sequence[UOp], arrangement: int | MeshLayout | None) -> UOp:
    """The tensor with these shards, arranged as `Sharding.arrangement` says."""
    dtype = shards[0].dtype
    return UOp(Op.MULTI, dtype, (UOp(Op.MSTACK, dtype, tuple(shards)),), arrangement)


def join_like(node: UOp, shards: Sequence[UOp]) -> UOp:
    """The tensor with these shards, placed like `node`."""
    placement = node.placement
    return (
        join_shards(shards, placement.arrangement) if isinstance(placement, Sharding) else shards[0]
    )


def _make_shard(node: UOp, sharding: Sharding, index: int) -> UOp:
    device, axis = sharding.devices[index], sharding.axis
    if axis is None:
        shard = node
    else:
        bounds = sharding.bounds(index)
        if bounds[0] == bounds[1]:
            return _make_empty_shard(
                node.dtype, tuple(0 if a == axis else s for a, s in enumerate(node.shape)), device
            )
        shard = make_shrink(
            node, [bounds if a == axis else (0, s) for a, s in enumerate(node.shape)]
        )
    return make_copy(shard, device)


def _make_empty_shard(dtype: DType, shape: Shape, device: str) -> UOp:
    """A shard without elements."""
    # A constant: nothing is transferred.
    return make_copy(make_empty(dtype, shape), device)
