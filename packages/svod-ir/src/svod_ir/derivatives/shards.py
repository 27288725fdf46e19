"""The derivatives of tensors sharded over several devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from svod_ir._sharding import Sharding
from svod_ir.build import make_constant_like, make_copy, make_shrink
from svod_ir.derivatives.rule import Derivative, Parts, Wanted
from svod_ir.errors import NotDifferentiableError
from svod_ir.ops import Op
from svod_ir.uop import UOp

__all__ = ["MSELECT", "MULTI", "distribute", "replicate_first_axis"]


def _list_shards(node: UOp) -> Sequence[UOp]:
    return node.source.src


def _reverse_multi(node: UOp, cotangent: UOp, wanted: Wanted) -> Parts:
    placement = node.placement
    assert isinstance(placement, Sharding)
    if placement.is_replicated:
        # The tensor is replicated: the whole cotangent goes to the first replica.
        first, *_ = _split(cotangent, placement)
        return [first, *[None] * (len(wanted) - 1)]
    return list(_split(cotangent, placement))


def _forward_multi(node: UOp, tangents: Parts) -> UOp | None:
    shards = node.source.src
    shard_tangents = [
        make_constant_like(s, 0) if t is None else t for s, t in zip(shards, tangents, strict=True)
    ]
    return node.with_src((node.source.with_src(tuple(shard_tangents)),))


def replicate_first_axis(x: UOp) -> UOp:
    """`x`, replicated if it is sharded along its first axis, which a loop slices."""
    placement = x.placement
    if not isinstance(placement, Sharding) or not placement.splits(0):
        return x
    return distribute(x, placement.replicated)


def distribute(cotangent: UOp, placement: Sharding) -> UOp:
    """Distribute a value to devices, as the sharding `placement` says."""
    if placement.layout is not None:
        return UOp(Op.RESHARD, cotangent.dtype, (cotangent,), placement.layout)
    shards = _split(cotangent, placement)
    return UOp(
        Op.MULTI, cotangent.dtype, (UOp(Op.MSTACK, cotangent.dtype, shards),), placement.axis
    )


def _split(cotangent: UOp, placement: Sharding) -> tuple[UOp, ...]:
    if placement.layout is not None:
        laid_out = distribute(cotangent, placement)
        return (UOp(Op.MSELECT, cotangent.dtype, (laid_out,), 0),)
    if placement.axis is None:
        return tuple(make_copy(cotangent, device) for device in placement.devices)
    shape = cotangent.shape
    return tuple(
        make_copy(
            # Sliced before the copy, so that each device receives only its part.
            make_shrink(
                cotangent,
                [
                    placement.bounds(n) if a == placement.axis else (0, s)
                    for a, s in enumerate(shape)
                ],
            ),
            device,
        )
        for n, device in enumerate(placement.devices)
    )


def _reverse_select(node: UOp, cotangent: UOp, _: Wanted) -> Parts:
    return [_join_own(node, cotangent)]


def _forward_select(node: UOp, tangents: Parts) -> UOp | None:
    (tangent,) = tangents
    placement = node.source.placement
    assert isinstance(placement, Sharding)
    if tangent is None:
        return None
    return node.with_src((distribute(tangent, placement),))


def _join_own(node: UOp, shard: UOp) -> UOp:
    """The value whose shard in this process is `shard`; each process has its own."""
    placement = node.source.placement
    if not isinstance(placement, Sharding) or placement.layout is None:
        raise NotDifferentiableError(
            operation="MSELECT",
            reason="it is a single shard, which cannot be told from the other shards",
        )
    stack = UOp(Op.MSTACK, shard.dtype, (shard,))
    return UOp(Op.MULTI, shard.dtype, (stack,), placement.layout)


MSELECT: Final = Derivative(_reverse_select, _forward_select)
"""Derivative of the shard of this process."""

MULTI: Final = Derivative(_reverse_multi, _forward_multi, _list_shards)
