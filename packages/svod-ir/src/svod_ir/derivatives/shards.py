"""The derivatives of tensors that lie on several devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from svod_ir._sharding import Sharding
from svod_ir.build import make_constant_like, make_copy, make_shrink
from svod_ir.derivatives.rule import Derivative, Parts, Wanted
from svod_ir.ops import Op
from svod_ir.uop import UOp

__all__ = ["MULTI", "spread_cotangent"]


def _list_shards(node: UOp) -> Sequence[UOp]:
    return node.source.src


def _reverse_multi(node: UOp, cotangent: UOp, wanted: Wanted) -> Parts:
    place = node.placement
    assert isinstance(place, Sharding)
    if place.axis is None:
        # Each shard is the whole value: the first stands for all of them.
        return [make_copy(cotangent, place.devices[0]), *[None] * (len(wanted) - 1)]
    return list(_split(cotangent, place))


def _forward_multi(node: UOp, tangents: Parts) -> UOp | None:
    shards = node.source.src
    found = [
        make_constant_like(s, 0) if t is None else t for s, t in zip(shards, tangents, strict=True)
    ]
    return node.with_src((node.source.with_src(tuple(found)),))


def spread_cotangent(cotangent: UOp, place: Sharding) -> UOp:
    """The cotangent of shards from that of what they were joined to."""
    parts = _split(cotangent, place)
    return UOp(Op.MULTI, cotangent.dtype, (UOp(Op.MSTACK, cotangent.dtype, parts),), place.axis)


def _split(cotangent: UOp, place: Sharding) -> tuple[UOp, ...]:
    if place.axis is None:
        return tuple(make_copy(cotangent, device) for device in place.devices)
    shape = cotangent.shape
    return tuple(
        make_copy(
            make_shrink(
                cotangent,
                [place.bounds(n) if a == place.axis else (0, s) for a, s in enumerate(shape)],
            ),
            device,
        )
        for n, device in enumerate(place.devices)
    )


MULTI: Final = Derivative(_reverse_multi, _forward_multi, _list_shards)
