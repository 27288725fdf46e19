"""Reads of square tiles whose rows are contiguous across the lanes: the rows are loaded as vectors and
transposed in registers.

before → after, for lanes u of 8 and copies v of 8 of `p[u * 585 + v]`, with l as new lanes and c as new
copies:

    VECTORIZE(p[c * 585 + l], c, v, u)

Such a VECTORIZE exists in the pass `expand` only: copy v of it has lane v of each copy c of the read.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from svod_ir import AxisType, FreshIds, Op, UOp, max_trips
from svod_schedule._linear_index import MAX_STRIDE, find_stride

__all__ = [
    "TRANSPOSED_COST",
    "TransposedReads",
    "find_contiguous_axis",
    "is_transposed_read",
    "transpose",
    "transpose_reads",
]

TRANSPOSED_COST = 0.5
"""Memory accesses and shuffles per element of a transposed tile, in scalar accesses."""


class TransposedReads(NamedTuple):
    """A kernel with transposed reads.

    Attributes:
        sink: the kernel.
        lanes: the new axes that are lanes of reads.
        copied: the new axes that reads are copied along.
    """

    sink: UOp
    lanes: list[UOp]
    copied: list[UOp]


def find_contiguous_axis(read: UOp, axis: UOp, axes: Collection[UOp]) -> UOp | None:
    """Find the axis among `axes` along which a read of elements that are far apart along `axis` is
    contiguous, and that has as many iterations; None if there is none, or the read has a gate.
    """
    stride, size = find_stride(read.position, axis), max_trips(axis)
    if read.gate is not None or stride is None or abs(stride) <= MAX_STRIDE or size & (size - 1):
        return None
    return next(
        (
            a
            for a in axes
            if a is not axis
            and a.arg.kind is AxisType.UPCAST
            and max_trips(a) == size
            and find_stride(read.position, a) == 1
        ),
        None,
    )


def transpose_reads(
    sink: UOp, lane_axes: Collection[UOp], axes: Collection[UOp]
) -> TransposedReads:
    """Rewrite the reads that are contiguous along a copied axis instead of their lane axis."""
    written = {n.location for n in sink.iter_ops(Op.STORE)}
    copied = [a for a in axes if a not in lane_axes]
    fresh = FreshIds(sink)
    exchanged: dict[tuple[UOp, UOp], tuple[UOp, UOp]] = {}
    done: dict[UOp, UOp] = {}
    for node in sink.toposort():
        new = node.with_images(done)
        lane_axis = next(
            (a for a in lane_axes if node.op is Op.INDEX and a in node.position.ranges), None
        )
        if lane_axis is not None and node not in written:
            along = find_contiguous_axis(node, lane_axis, copied)
            if along is not None:
                pair = (lane_axis, along)
                if pair not in exchanged:
                    size = lane_axis.stop
                    exchanged[pair] = (
                        fresh.make_range(size, AxisType.UPCAST),
                        fresh.make_range(size, AxisType.UPCAST),
                    )
                lanes, copies = exchanged[pair]
                read = new.substitute({along: lanes, lane_axis: copies})
                new = UOp(Op.VECTORIZE, node.dtype, (read, copies, along, lane_axis))
        done[node] = new
    return TransposedReads(
        done[sink], [lanes for lanes, _ in exchanged.values()], [c for _, c in exchanged.values()]
    )


def is_transposed_read(node: UOp) -> bool:
    """Whether a node is `VECTORIZE(read, copies, along, lane_axis)`."""
    if node.op is not Op.VECTORIZE or len(node.src) != 4:
        return False
    _, copies, _, _ = node.src
    return copies.op is Op.RANGE


def transpose(rows: Sequence[UOp]) -> list[UOp]:
    """The columns of a square of vectors, by interleaving pairs of them."""
    rows, size = list(rows), len(rows)
    dtype, half = rows[0].dtype, size // 2
    low = tuple(i // 2 + size * (i % 2) for i in range(size))
    high = tuple(i + half for i in low)
    for _ in range(half.bit_length()):
        pairs = [
            UOp(Op.CAT, dtype.scalar.vec(2 * size), (rows[i], rows[i + half])) for i in range(half)
        ]
        rows = [UOp(Op.GEP, dtype, (pair,), lanes) for pair in pairs for lanes in (low, high)]
    return rows
