"""Memory for what lives within an iteration: intermediates in the body of a loop become operands of
the loop.

    body:  a, b, c  not bound          body:  a, b, c  parts of m, which is Whole(p)
    loop:  operands 0 .. p - 1    ->   loop:  operand p, as much memory as they need at the same time

They share memory as those of a plan do, level by level. What they share is one intermediate more
around the loop, so that it has memory while the loop runs, and other intermediates have it before
and after. Inner loops come first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from svod_device import Buffer
from svod_dtype import uint8
from svod_runtime.loops.body_order import BodyDependencies
from svod_runtime.memory.joining import join_initials
from svod_runtime.memory.lives import list_lives
from svod_runtime.memory.memory_report import PlannerMode
from svod_runtime.memory.placing import date_lives, place_lives
from svod_runtime.ops.loop_bindings import Binding, Whole
from svod_runtime.ops.prepared import PreparedLoop, PreparedOp

__all__ = ["Saved", "place_bodies"]


@dataclass(slots=True)
class Saved:
    """What sharing within bodies gained.

    Attributes:
        n_buffers: how many intermediates share memory there, less the operands that they became.
        n_bytes: what they would take by themselves, less the bytes of these.
    """

    n_buffers: int = 0
    n_bytes: int = 0


def place_bodies(
    ops: Sequence[PreparedOp], buffers: Sequence[Buffer], mode: PlannerMode, saved: Saved
) -> tuple[list[PreparedOp], list[Buffer]]:
    """The ops with all local buffers bound, and the buffers with those that loops need besides."""
    placed: list[PreparedOp] = []
    extended = list(buffers)
    for op in ops:
        if isinstance(op, PreparedLoop):
            placed.append(_place_body(op, extended, mode, saved))
        else:
            placed.append(op)
    return placed, extended


def _place_body(
    loop: PreparedLoop, around: list[Buffer], mode: PlannerMode, saved: Saved
) -> PreparedLoop:
    body = loop.body
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
        fixed = {
            index
            for index, buffer in enumerate(local)
            if buffer.storage_id in bound or index == body.go_on
        }
        ops, _ = join_initials(ops, BodyDependencies(loop).order, local, fixed)
        body = replace(body, ops=tuple(ops))
        loop = replace(loop, body=body)
    levels = BodyDependencies(loop).get_levels(body.buffers)
    if _can_move(ops):
        # Who waits for whom on shared memory follows from the order of the ops: those that share it
        # must come one level later.
        body = replace(body, ops=tuple(ops[index] for level in levels for index in level))
        loop = replace(loop, body=body)
    touched = {index for op in body.ops for index in op.buffer_indices} | {body.go_on}
    own = [
        index
        for index, buffer in enumerate(local)
        if buffer.storage_id not in bound and index in touched
    ]
    if not own:
        return loop
    new = [*local]
    for index, buffer in _share(loop, own, mode, saved).items():
        new[index] = buffer
    position = len(loop.buffer_indices)
    indices: list[int] = []
    bases: dict[int, Buffer] = {}
    for index in own:
        part = new[index]
        if part.storage_id not in bases:
            bases[part.storage_id] = base = Buffer(part.allocator, uint8, part.storage_nbytes)
            new.append(base)
            bindings.append(Whole(position + len(indices)))
            indices.append(len(around))
            around.append(Buffer(part.allocator, uint8, part.storage_nbytes))
        new[index] = bases[part.storage_id].view(part.offset, part.nbytes, part.dtype)
    return replace(
        loop,
        buffer_indices=(*loop.buffer_indices, *indices),
        output_indices=(*loop.output_indices, *range(position, position + len(indices))),
        body=replace(body, buffers=tuple(new), bindings=tuple(bindings)),
    )


def _share(
    loop: PreparedLoop, own: Sequence[int], mode: PlannerMode, saved: Saved
) -> Mapping[int, Buffer]:
    """Where intermediates of a body lie that share memory, one iteration like the other."""
    body = loop.body
    dependencies = BodyDependencies(loop)
    local = set(own)
    n_handles = Counter(buffer.storage_id for buffer in body.buffers)
    fixed = [
        i
        for i, buffer in enumerate(body.buffers)
        if i not in local or n_handles[buffer.storage_id] > 1
    ]
    if body.go_on is not None:
        fixed.append(body.go_on)
    lives = list_lives(body.ops, dependencies.order, body.buffers, fixed)
    if not lives or mode == "disabled" or not _can_move(body.ops):
        return {}
    date_lives(lives, dependencies.get_levels(body.buffers))
    placed: dict[int, Buffer] = {}
    for device in dict.fromkeys(life.buffer.device for life in lives):
        placed.update(place_lives([life for life in lives if life.buffer.device == device], mode))
    after = {buffer.storage_id: buffer.storage_nbytes for buffer in placed.values()}
    saved.n_buffers += len(lives) - len(after)
    saved.n_bytes += sum(life.buffer.nbytes for life in lives) - sum(after.values())
    return placed


def _can_move(ops: Sequence[PreparedOp]) -> bool:
    """Whether an id means the same op in any order."""
    return len({op.id for op in ops}) == len(ops) or not any(op.dependencies for op in ops)
