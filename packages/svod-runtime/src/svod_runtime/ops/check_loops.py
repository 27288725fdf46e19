"""Checks of loops: bindings refer to existing buffers of sufficient size, and writes do not
conflict.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from svod_device import Buffer
from svod_ir import UOp
from svod_runtime.errors import PlanError
from svod_runtime.ops.loop_bindings import Binding, CarriedIn, CarriedOut, Slice, Whole
from svod_runtime.ops.prepared import (
    LoopBody,
    PreparedBufferView,
    PreparedCustomFunction,
    PreparedLoop,
    get_written,
    list_local_views,
)

__all__ = ["check_bindings", "check_writes"]


def check_bindings(name: str, op: PreparedLoop, operands: Sequence[Buffer]) -> None:
    """Check the operands of a loop and the bindings of its local buffers.

    Args:
        name: name of the loop, for errors.
        op: the loop.
        operands: buffers of the loop.
    """
    body = op.body
    _check_count(name, op, operands)
    for carry, carried in enumerate(body.carried):
        positions = [position for position in carried if position is not None]
        _check_positions(name, f"carry {carry}", positions, operands)
        # The buffers of a carry alternate as source and target, so each must hold the value.
        facts = {(operands[p].nbytes, operands[p].device) for p in positions}
        if len(facts) > 1:
            raise PlanError(op=name, problem=f"buffers of carry {carry} differ in size or device")
    if len(body.bindings) != len(body.buffers):
        problem = (
            f"expected {len(body.buffers)} bindings, one per local buffer, got {len(body.bindings)}"
        )
        raise PlanError(op=name, problem=problem)
    bound: set[int] = set()
    for index, (buffer, binding) in enumerate(zip(body.buffers, body.bindings, strict=True)):
        if binding is not None:
            # A binding replaces a whole storage in each iteration: other handles on it are its
            # parts, at fixed offsets, and it cannot follow two bindings.
            if buffer.nbytes != buffer.storage_nbytes or buffer.storage_id in bound:
                problem = (
                    f"local buffer {index} is bound to {_format_binding(binding)}, but"
                    " does not cover its own storage"
                )
                raise PlanError(op=name, problem=problem)
            bound.add(buffer.storage_id)
            _check_binding(name, op, index, binding, operands)
    for index, buffer in enumerate(body.buffers):
        # A body is shared by all plans of a template, so memory in it would be shared by concurrent
        # executions.
        if buffer.is_allocated and buffer.storage_id not in bound:
            raise PlanError(
                op=name, problem=f"local buffer {index}, {buffer}, has memory but is not bound"
            )
    if body.go_on is not None:
        if not 0 <= body.go_on < len(body.buffers):
            raise PlanError(
                op=name,
                problem=f"go_on {body.go_on} is out of bounds for {len(body.buffers)} local"
                " buffers",
            )
        if body.buffers[body.go_on].nbytes != 1:
            raise PlanError(
                op=name, problem=f"go_on must be one bool, got {body.buffers[body.go_on]}"
            )


def _check_count(name: str, op: PreparedLoop, operands: Sequence[Buffer]) -> None:
    if op.count is None:
        if op.count_position is None:
            raise PlanError(op=name, problem="has no trip count: set count or count_position")
        _check_positions(name, "the trip count", [op.count_position], operands)
        if operands[op.count_position].nbytes != 8:
            raise PlanError(
                op=name,
                problem=f"the trip count must be an int64, got {operands[op.count_position]}",
            )
        # Operands are checked against the number of slices here, since nothing checks it at run
        # time. A branch runs at most once, so it has one slice.
        if any(isinstance(binding, Slice) for binding in op.body.bindings) and op.branch is None:
            raise PlanError(
                op=name, problem="slices need a trip count that is known before the loop runs"
            )
    if op.branch is not None and not 0 <= op.branch < op.n_branches:
        raise PlanError(
            op=name, problem=f"branch {op.branch} is out of bounds for {op.n_branches} branches"
        )


def _check_positions(
    name: str, what: str, positions: Sequence[int], operands: Sequence[Buffer]
) -> None:
    for position in positions:
        if not 0 <= position < len(operands):
            raise PlanError(
                op=name,
                problem=f"{what} is at position {position}, out of bounds for {len(operands)}"
                " operands",
            )


def _check_binding(
    name: str, op: PreparedLoop, index: int, binding: Binding, operands: Sequence[Buffer]
) -> None:
    body, local = op.body, op.body.buffers[index]
    what = f"local buffer {index}, {_format_binding(binding)},"
    match binding:
        case Whole(position) | Slice(position):
            _check_positions(name, what, [position], operands)
        case CarriedIn(carry) | CarriedOut(carry):
            if not 0 <= carry < len(body.carried):
                raise PlanError(
                    op=name, problem=f"{what} is out of bounds for {len(body.carried)} carries"
                )
            position = body.carried[carry].result
    base = operands[position]
    # Host devices share one address space: CPU kernels read DISK's mapped files.
    if local.device != base.device and not (local.is_host_addressable and base.is_host_addressable):
        raise PlanError(op=name, problem=f"{what} is on {local.device}, but its operand is {base}")
    is_slice = isinstance(binding, Slice)
    needed = local.nbytes * (_get_max_count(op) if is_slice else 1)
    if needed > base.nbytes or (not is_slice and needed != base.nbytes):
        raise PlanError(
            op=name, problem=f"{what} needs {needed} bytes, but {base} has {base.nbytes}"
        )


def _get_max_count(op: PreparedLoop) -> int:
    """Maximum trip count of a loop whose trip count is not read from memory."""
    if op.branch is not None:
        return 1
    count = op.count
    return max(0, int(count.vmax) if isinstance(count, UOp) else count or 0)


def check_writes(name: str, op: PreparedLoop, operands: Sequence[Buffer]) -> None:
    """Check that an iteration writes only outputs, and that no other operand overlaps them.

    The ops of the body must have been checked before.
    """
    body = op.body
    binding_of = {
        view.local: (owner, body.bindings[owner])
        for owner, views in list_local_views(body).items()
        for view in views
    }
    written: set[int] = set()
    for inner in body.ops:
        if isinstance(inner, PreparedBufferView):
            _check_view(name, inner, body)
        for index in get_written(inner):
            owner, binding = binding_of.get(index, (index, None))
            written.add(owner)
            _check_write(name, op, index, binding)
        # A custom function may write any of its buffers, so each counts as written, but none is an
        # error.
        if isinstance(inner, PreparedCustomFunction):
            written.update(
                binding_of.get(index, (index, None))[0] for index in inner.buffer_indices
            )
    for carry, carried in enumerate(body.carried):
        outs = {i for i, b in enumerate(body.bindings) if b == CarriedOut(carry)}
        if carried.spare is not None and written.isdisjoint(outs):
            raise PlanError(op=name, problem=f"no op writes CarriedOut({carry})")
        for position in (carried.result, carried.spare):
            if position is not None and position not in op.output_indices:
                raise PlanError(
                    op=name,
                    problem=(
                        f"carry {carry} is written, but position {position} is not in"
                        " output_indices"
                    ),
                )
    _check_overlaps(name, op, operands)


def _check_write(name: str, op: PreparedLoop, index: int, binding: Binding | None) -> None:
    match binding:
        case Whole(position) | Slice(position) if position not in op.output_indices:
            problem = (
                f"writes local buffer {index}, {_format_binding(binding)}, but"
                f" position {position} is not in output_indices"
            )
        case CarriedIn(carry) if op.body.carried[carry].spare is not None and not _may_change(
            op, carry
        ):
            problem = (
                f"writes local buffer {index}, CarriedIn({carry}): write"
                " CarriedOut, since the carry has a spare and its initial value is not an output"
            )
        case _:
            return
    raise PlanError(op=name, problem=problem)


def _may_change(op: PreparedLoop, carry: int) -> bool:
    """True if the loop may overwrite a carry's initial value, as it may its result and spare."""
    return op.body.carried[carry].initial in op.output_indices


def _check_view(name: str, view: PreparedBufferView, body: LoopBody) -> None:
    view_buffer, base = (body.buffers[index] for index in view.buffer_indices)
    if body.bindings[view.buffer_indices[0]] is not None:
        raise PlanError(
            op=name,
            problem=f"local buffer {view.buffer_indices[0]} is a view, so it must not be bound",
        )
    expected = base.storage_id, base.offset + view.byte_offset, view.byte_size
    if (view_buffer.storage_id, view_buffer.offset, view_buffer.nbytes) != expected:
        raise PlanError(
            op=name,
            problem=f"{view_buffer} is not the view of {base} at byte offset {view.byte_offset}",
        )


def _check_overlaps(name: str, op: PreparedLoop, operands: Sequence[Buffer]) -> None:
    """Check that a written operand overlaps no other, except a result its initial value."""
    body = op.body
    # An initial value that is also bound as an operand is read in later iterations, when the result
    # already holds other data.
    read_throughout = {b.position for b in body.bindings if isinstance(b, (Whole, Slice))}
    in_place = {
        frozenset((v.initial, v.result))
        for v in body.carried
        if v.initial not in read_throughout or v.initial == v.result
    }
    for first, second in combinations(range(len(operands)), 2):
        pair = frozenset((first, second))
        # The trip count is read before the first write, so it may overlap an output.
        if pair.isdisjoint(op.output_indices) or op.count_position in pair or pair in in_place:
            continue
        if operands[first].overlaps(operands[second]):
            raise PlanError(
                op=name,
                problem=f"operands {first} and {second} overlap, and the loop writes one of them",
            )
    kept = {
        position for v in body.carried for position in (v.result, v.spare) if position is not None
    }
    if conflicts := sorted(kept & read_throughout):
        raise PlanError(
            op=name, problem=f"operand {conflicts[0]} is bound, but a carry overwrites it"
        )


def _format_binding(binding: Binding) -> str:
    index = binding.position if isinstance(binding, (Whole, Slice)) else binding.index
    return f"{type(binding).__name__}({index})"
