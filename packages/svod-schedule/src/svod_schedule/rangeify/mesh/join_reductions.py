"""Small reductions over a mesh that follow each other, as one of their joined elements.

before → after, where y does not depend on the sum of x:

    sum x over the processes; sum y over the processes      sum CONCAT(x, y) over the processes

The gradients of a network are many such sums, and each call costs a message and its latency.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import NamedTuple

from svod_dtype import DType
from svod_ir import Mesh, Op, UOp, make_concat, make_reshape
from svod_ir.custom_function import ArraySpec, make_custom_function, read_signature
from svod_ir.origins import make_images
from svod_schedule.rangeify.mesh.calls import drop_shape, make_call, narrow, store

__all__ = ["MAX_JOINED_BYTES", "MAX_SMALL_BYTES", "Reduction", "can_join", "join_reductions"]

MAX_SMALL_BYTES = 1 << 16
"""Larger results are reduced alone: to join them costs more than a message."""

MAX_JOINED_BYTES = 1 << 20
"""Results that are reduced together have at most this many bytes."""


class Reduction(NamedTuple):
    """A reduction over a mesh.

    Attributes:
        call: the custom function.
        part: what this process contributes.
        kind: what reductions that are joined have in common: the mesh, the name of the collective,
            the axes of the mesh and the dtype.
        number: the number of the call.
        before: the call before it.
    """

    call: UOp
    part: UOp
    kind: tuple[Mesh, str, tuple[int, ...], DType]
    number: int
    before: UOp | None

    @property
    def n_elements(self) -> int | None:
        """Number of elements, or None if it is symbolic."""
        sizes = [s for s in self.part.shape if isinstance(s, int)]
        return prod(sizes) if len(sizes) == len(self.part.shape) else None


def can_join(group: Sequence[Reduction], new: Reduction) -> bool:
    """Whether a reduction that depends on none of a group may join it.

    All processes of the reduction decide alike, since their parts have one shape.
    """
    sizes = [member.n_elements for member in (*group, new)]
    known = [size * new.part.dtype.itemsize for size in sizes if size is not None]
    return (
        group[0].kind == new.kind
        and len(known) == len(sizes)
        and max(known) <= MAX_SMALL_BYTES
        and sum(known) <= MAX_JOINED_BYTES
    )


def join_reductions(sink: UOp, groups: Sequence[Sequence[Reduction]]) -> UOp:
    """Replace each group by one reduction. The groups are in the order of their calls, and no member
    depends on another one of its group but for that order.
    """
    if all(len(group) == 1 for group in groups):
        return sink
    done = make_images()
    calls: dict[UOp, UOp] = {}

    def rewrite(root: UOp) -> UOp:
        for node in root.toposort(stop=done):
            if node not in done:
                done[node] = _follow(node, node.with_images(done), calls)
        return done[root]

    for group in groups:
        if len(group) == 1:
            continue
        first = group[0]
        (mesh, name, along, dtype) = first.kind
        sizes = [member.n_elements or 0 for member in group]
        parts = [
            make_reshape(rewrite(member.part), (size,))
            for member, size in zip(group, sizes, strict=True)
        ]
        before = None if first.before is None else rewrite(first.before)
        joined = make_concat(parts, 0)
        spec = ArraySpec(dtype, joined.shape)
        call = make_call(mesh, name, along, spec, [joined], (first.number,), before)
        end = 0
        for member, size in zip(group, sizes, strict=True):
            begin, end = end, end + size
            done[member.call] = make_reshape(narrow(call, 0, begin, end), member.call.shape)
            calls[member.call] = call
        done[call] = call
    return rewrite(sink)


def _follow(node: UOp, new: UOp, calls: Mapping[UOp, UOp]) -> UOp:
    """A call after one that was joined to others reads all of the joined result, no part of it."""
    if node.op is not Op.CUSTOM_FUNCTION:
        return new
    *inputs, before = read_signature(node).arrays
    joined = calls.get(drop_shape(before))
    # The first call of all has an input, and nothing before it.
    if joined is None or not inputs:
        return new
    signature = read_signature(new)
    arrays = [*signature.arrays[:-1], store(joined)]
    return make_custom_function(node.arg, signature.outputs, arrays, signature.scalars)
