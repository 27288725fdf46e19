"""all-reduce: reduce the shards of several devices by copies and ordinary ops.

before → after, for the device of x0:

    ALLREDUCE(MSTACK(x0, x1), (ADD, d0))        ADD(x0, COPY(x1, d0))

Between more than three devices, each device reduces one chunk of the result and then copies the
other chunks (a reduce-scatter and an all-gather): every device receives 2 * (n - 1) / n times the
result instead of n - 1 times. The chunks are copied directly from device to device, not around a
ring: where all devices share one memory, or are all connected, a ring would only add steps.

Every device adds the shards in the same order, so that the results are bitwise equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import gcd, prod

from svod_ir import Op, Sharding, UOp, make_concat, make_shrink
from svod_ir.build import make_copy
from svod_ir.origins import make_images
from svod_ir.placement import split_evenly
from svod_ir.sizes import max_size

__all__ = ["all_reduce"]

MIN_SCATTERED = 1 << 16
"""Results of fewer elements are reduced on every device: more, smaller copies would take longer."""

MIN_SCATTERED_DEVICES = 4
"""Between fewer devices, chunks save hardly any transfers and add concatenations."""

PART_ELEMENTS = 64
"""Chunks begin at multiples of this many elements, so that vectors do not straddle them."""


def all_reduce(sink: UOp) -> UOp:
    """Replace the ALLREDUCE nodes of `sink` by copies and elementwise ops."""
    order = sink.toposort()
    if not any(node.op is Op.ALLREDUCE for node in order):
        return sink
    done = make_images()
    for node in order:
        new = node.with_images(done)
        done[node] = _write(new) if new.op is Op.ALLREDUCE else new
    return done[sink]


def _write(node: UOp) -> UOp:
    op, device = node.arg
    shards = node.source.src
    axis = _find_axis(node, len(shards))
    if axis is None:
        return _reduce_on(op, shards, device)
    return _reduce_scatter(op, shards, device, axis)


def _find_axis(node: UOp, n_devices: int) -> int | None:
    """Return the axis along which to reduce the result in chunks, or None if it is too small."""
    shape = node.shape
    splittable = [a for a, s in enumerate(shape) if isinstance(s, int) and s >= n_devices]
    is_large = prod(max_size(s) for s in shape) >= MIN_SCATTERED
    # Along the first axis, chunks are consecutive elements.
    return splittable[0] if splittable and is_large and n_devices >= MIN_SCATTERED_DEVICES else None


def _reduce_on(op: Op, shards: Sequence[UOp], device: str) -> UOp:
    """Copy all shards to one device and reduce them there."""
    return reduce(lambda x, y: UOp(op, x.dtype, (x, y)), [make_copy(s, device) for s in shards])


def _reduce_scatter(op: Op, shards: Sequence[UOp], device: str, axis: int) -> UOp:
    """Reduce one chunk on each device, and concatenate copies of the chunks on `device`."""
    devices = tuple(str(s.device) for s in shards)
    size = shards[0].shape[axis]
    assert isinstance(size, int)
    split = Sharding(
        devices,
        axis,
        _split_aligned(size, len(devices), prod(max_size(s) for s in shards[0].shape[axis + 1 :])),
    )
    chunks: list[UOp] = []
    for rank, owner in enumerate(devices):
        reduced = _reduce_on(op, [_slice_chunk(s, split, axis, rank) for s in shards], owner)
        # CONTIGUOUS, so that the owner computes the chunk once for all devices.
        chunks.append(make_copy(UOp(Op.CONTIGUOUS, reduced.dtype, (reduced,)), device))
    return make_concat(chunks, axis)


def _split_aligned(size: int, n_parts: int, row: int) -> tuple[int, ...]:
    """Split `size` rows into chunks that begin at multiples of PART_ELEMENTS elements, if there are
    enough rows.
    """
    step = PART_ELEMENTS // gcd(PART_ELEMENTS, row)
    n_steps = -(-size // step)
    if n_steps < n_parts:
        return split_evenly(size, n_parts)
    sizes = [step * n for n in split_evenly(n_steps, n_parts)]
    sizes[-1] -= sum(sizes) - size
    return tuple(sizes)


def _slice_chunk(x: UOp, split: Sharding, axis: int, rank: int) -> UOp:
    return make_shrink(
        x, [split.bounds(rank) if a == axis else (0, s) for a, s in enumerate(x.shape)]
    )
