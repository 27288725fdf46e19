"""Memory of loop bodies: intermediates of an iteration become operands of the loop.

    body:  a, b, c  not bound          body:  a, b, c  parts of m, which is Whole(p)
    loop:  operands 0 .. p - 1    ->   loop:  operand p, the peak memory of a, b and c

They share memory level by level, as the intermediates of a plan do. Their block `m` is one more
intermediate of the enclosing ops, so its memory serves other intermediates before and after the
loop. Inner loops are planned first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from svod_device import Buffer
from svod_dtype import uint8
from svod_runtime.loops.body_order import BodyDependencies
from svod_runtime.memory.coalescing import coalesce_carries
from svod_runtime.memory.live_ranges import list_live_ranges
from svod_runtime.memory.memory_report import PlannerMode
from svod_runtime.memory.placing import place_live_ranges, set_levels
from svod_runtime.ops.loop_bindings import Binding, Whole
from svod_runtime.ops.prepared import PreparedLoop, PreparedOp

__all__ = ["Savings", "place_bodies"]


@dataclass(slots=True)
class Savings:
    """Savings from sharing memory within loop bodies.

    Attributes:
        n_buffers: number of intermediates that share memory, minus the operands that replace them.
        n_bytes: sum of their sizes, minus the bytes of these operands.
    """

    n_buffers: int = 0
    n_bytes: int = 0


def place_bodies(
    ops: Sequence[PreparedOp], buffers: Sequence[Buffer], mode: PlannerMode, saved: Savings
) -> tuple[list[PreparedOp], list[Buffer]]:
    """Bind all local buffers; return the ops, and the buffers extended by new loop operands."""
    placed: list[PreparedOp] = []
    extended = list(buffers)
    for op in ops:
        if isinstance(op, PreparedLoop):
            placed.append(_place_body(op, extended, mode, saved))
        else:
            placed.append(op)
    return placed, extended


def _place_body(
    loop: PreparedLoop, outer_buffers: list[Buffer], mode: PlannerMode, saved: Savings
) -> PreparedLoop:
    body = loop.body
    # Inner loops first: their blocks become local buffers of this body, and share its memory.
    ops, local = place_bodies(body.ops, body.buffers, mode, saved)
    bindings: list[Binding | None] = [*body.bindings, *([None] * (len(local) - len(body.buffers)))]
    body = replace(body, ops=tuple(ops), buffers=tuple(local), bindings=tuple(bindings))
    loop = replace(loop, body=body)
    bound = {
        buffer.storage_id
        for buffer, binding in zip(local, bindings, strict=True)
        if binding is not None
    }
    if mode != "disabled":
        # The condition is read after the last op of an iteration, so its memory stays reserved.
        fixed = {
            index
            for index, buffer in enumerate(local)
            if buffer.storage_id in bound or index == body.go_on
        }
        # Before levels are computed, since a coalesced carry orders ops that were independent.
        ops, _ = coalesce_carries(ops, BodyDependencies(loop).order, local, fixed)
        body = replace(body, ops=tuple(ops))
        loop = replace(loop, body=body)
    levels = BodyDependencies(loop).get_levels(body.buffers)
    if _can_move(ops):
        # Hazards on shared memory follow the order of the ops. Sorted by level, an op that reuses
        # memory comes after every op of the earlier live range.
        body = replace(body, ops=tuple(ops[index] for level in levels for index in level))
        loop = replace(loop, body=body)
    touched = {index for op in body.ops for index in op.buffer_indices} | {body.go_on}
    unbound = [
        index
        for index, buffer in enumerate(local)
        if buffer.storage_id not in bound and index in touched
    ]
    if not unbound:
        return loop
    new = [*local]
    for index, buffer in _share(loop, unbound, mode, saved).items():
        new[index] = buffer
    position = len(loop.buffer_indices)
    indices: list[int] = []
    bases: dict[int, Buffer] = {}
    for index in unbound:
        buffer = new[index]
        if buffer.storage_id not in bases:
            # Two handles without memory: the local one is the operand within the body, the
            # outer one gets the memory when a plan is bound.
            bases[buffer.storage_id] = base = Buffer(buffer.allocator, uint8, buffer.storage_nbytes)
            new.append(base)
            bindings.append(Whole(position + len(indices)))
            indices.append(len(outer_buffers))
            outer_buffers.append(Buffer(buffer.allocator, uint8, buffer.storage_nbytes))
        new[index] = bases[buffer.storage_id].view(buffer.offset, buffer.nbytes, buffer.dtype)
    return replace(
        loop,
        buffer_indices=(*loop.buffer_indices, *indices),
        output_indices=(*loop.output_indices, *range(position, position + len(indices))),
        body=replace(body, buffers=tuple(new), bindings=tuple(bindings)),
    )


def _share(
    loop: PreparedLoop, unbound: Sequence[int], mode: PlannerMode, saved: Savings
) -> Mapping[int, Buffer]:
    """Shared memory of a body's intermediates, the same in each iteration."""
    body = loop.body
    dependencies = BodyDependencies(loop)
    local = set(unbound)
    n_handles = Counter(buffer.storage_id for buffer in body.buffers)
    # Aliased buffers are excluded: their live ranges would have to be merged.
    fixed = [
        i
        for i, buffer in enumerate(body.buffers)
        if i not in local or n_handles[buffer.storage_id] > 1
    ]
    if body.go_on is not None:
        fixed.append(body.go_on)
    ranges = list_live_ranges(body.ops, dependencies.order, body.buffers, fixed)
    if not ranges or mode == "disabled" or not _can_move(body.ops):
        return {}
    set_levels(ranges, dependencies.get_levels(body.buffers))
    placed: dict[int, Buffer] = {}
    for device in dict.fromkeys(live_range.buffer.device for live_range in ranges):
        placed.update(
            place_live_ranges(
                [live_range for live_range in ranges if live_range.buffer.device == device], mode
            )
        )
    after = {buffer.storage_id: buffer.storage_nbytes for buffer in placed.values()}
    saved.n_buffers += len(ranges) - len(after)
    saved.n_bytes += sum(live_range.buffer.nbytes for live_range in ranges) - sum(after.values())
    return placed


def _can_move(ops: Sequence[PreparedOp]) -> bool:
    """True if ops may be reordered: each id identifies one op, or no op names an id."""
    return len({op.id for op in ops}) == len(ops) or not any(op.dependencies for op in ops)
