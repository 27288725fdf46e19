"""Checks of loops: bindings name existing buffers of sufficient size, and nothing is
written twice.
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
    list_parts,
)

__all__ = ["check_bindings", "check_writes"]


def check_bindings(name: str, op: PreparedLoop, taken: Sequence[Buffer]) -> None:
    """Check what the loop takes, and what its local buffers are.

    Args:
        name: of the loop, for errors.
        op: the loop.
        taken: its operands.
    """
    body = op.body
    _check_count(name, op, taken)
    for number, carried in enumerate(body.carried):
        positions = [position for position in carried if position is not None]
        _check_positions(name, f"carried value {number}", positions, taken)
        facts = {(taken[p].nbytes, taken[p].device) for p in positions}
        if len(facts) > 1:
            raise PlanError(
                op=name, problem=f"carried value {number} is in buffers of several sizes or devices"
            )
    if len(body.bindings) != len(body.buffers):
        problem = f"has {len(body.buffers)} local buffers, but {len(body.bindings)} bindings"
        raise PlanError(op=name, problem=problem)
    bound: set[int] = set()
    for index, (buffer, binding) in enumerate(zip(body.buffers, body.bindings, strict=True)):
        if binding is not None:
            if buffer.nbytes != buffer.storage_nbytes or buffer.storage_id in bound:
                problem = (
                    f"local buffer {index} is bound to {_show(binding)}, but no storage of its own"
                )
                raise PlanError(op=name, problem=problem)
            bound.add(buffer.storage_id)
            _check_binding(name, op, index, binding, taken)
    for index, buffer in enumerate(body.buffers):
        if buffer.is_allocated and buffer.storage_id not in bound:
            raise PlanError(
                op=name, problem=f"local buffer {index}, {buffer}, has memory but is not bound"
            )
    if body.go_on is not None:
        if not 0 <= body.go_on < len(body.buffers):
            raise PlanError(
                op=name, problem=f"goes on by local buffer {body.go_on} of {len(body.buffers)}"
            )
        if body.buffers[body.go_on].nbytes != 1:
            raise PlanError(
                op=name, problem=f"goes on by {body.buffers[body.go_on]}, which is no bool"
            )


def _check_count(name: str, op: PreparedLoop, taken: Sequence[Buffer]) -> None:
    if op.count is None:
        if op.count_position is None:
            raise PlanError(op=name, problem="has no number of iterations")
        _check_positions(name, "the number of iterations", [op.count_position], taken)
        if taken[op.count_position].nbytes != 8:
            raise PlanError(
                op=name, problem=f"counts to {taken[op.count_position]}, which is no int64"
            )
        if any(isinstance(binding, Slice) for binding in op.body.bindings) and op.branch is None:
            raise PlanError(
                op=name, problem="has slices, but how many there are is only known when it runs"
            )
    if op.branch is not None and not 0 <= op.branch < op.n_branches:
        raise PlanError(op=name, problem=f"is branch {op.branch} of {op.n_branches}")


def _check_positions(
    name: str, what: str, positions: Sequence[int], taken: Sequence[Buffer]
) -> None:
    for position in positions:
        if not 0 <= position < len(taken):
            raise PlanError(
                op=name,
                problem=f"{what} is at position {position}, but it has {len(taken)} buffers",
            )


def _check_binding(
    name: str, op: PreparedLoop, index: int, binding: Binding, taken: Sequence[Buffer]
) -> None:
    body, local = op.body, op.body.buffers[index]
    what = f"local buffer {index}, {_show(binding)},"
    match binding:
        case Whole(position) | Slice(position):
            _check_positions(name, what, [position], taken)
        case CarriedIn(number) | CarriedOut(number):
            if not 0 <= number < len(body.carried):
                raise PlanError(
                    op=name, problem=f"{what} is none of {len(body.carried)} carried values"
                )
            position = body.carried[number].result
    base = taken[position]
    if local.device != base.device and not (local.is_host_addressable and base.is_host_addressable):
        raise PlanError(op=name, problem=f"{what} is on {local.device}, but {base} is not")
    is_slice = isinstance(binding, Slice)
    needed = local.nbytes * (_get_most_iterations(op) if is_slice else 1)
    if needed > base.nbytes or (not is_slice and needed != base.nbytes):
        raise PlanError(
            op=name, problem=f"{what} takes {needed} bytes, but {base} has {base.nbytes}"
        )


def _get_most_iterations(op: PreparedLoop) -> int:
    """How many iterations there are at most, of a loop whose number of iterations is an expression
    of variables.
    """
    if op.branch is not None:
        return 1
    count = op.count
    return max(0, int(count.vmax) if isinstance(count, UOp) else count or 0)


def check_writes(name: str, op: PreparedLoop, taken: Sequence[Buffer]) -> None:
    """Check that an iteration writes only what it may, and operands where nobody else looks; its
    ops are checked before.
    """
    body = op.body
    binding_of = {
        part.local: (owner, body.bindings[owner])
        for owner, parts in list_parts(body).items()
        for part in parts
    }
    written: set[int] = set()
    for inner in body.ops:
        if isinstance(inner, PreparedBufferView):
            _check_view(name, inner, body)
        for index in get_written(inner):
            owner, binding = binding_of.get(index, (index, None))
            written.add(owner)
            _check_write(name, op, index, binding)
        if isinstance(inner, PreparedCustomFunction):
            written.update(
                binding_of.get(index, (index, None))[0] for index in inner.buffer_indices
            )
    for number, carried in enumerate(body.carried):
        outs = {i for i, b in enumerate(body.bindings) if b == CarriedOut(number)}
        if carried.spare is not None and written.isdisjoint(outs):
            raise PlanError(op=name, problem=f"nothing writes what carried value {number} is next")
        for position in (carried.result, carried.spare):
            if position is not None and position not in op.output_indices:
                raise PlanError(
                    op=name,
                    problem=(
                        f"carried value {number} is written, but position {position} is no output"
                    ),
                )
    _check_overlaps(name, op, taken)


def _check_write(name: str, op: PreparedLoop, index: int, binding: Binding | None) -> None:
    match binding:
        case Whole(position) | Slice(position) if position not in op.output_indices:
            problem = (
                f"writes local buffer {index}, {_show(binding)}, but position {position} is no"
                " output"
            )
        case CarriedIn(number) if op.body.carried[number].spare is not None and not _may_change(
            op, number
        ):
            problem = (
                f"writes local buffer {index}, which is carried value {number} as it comes in: it"
                " has a spare to write to, and what it begins with is no output"
            )
        case _:
            return
    raise PlanError(op=name, problem=problem)


def _may_change(op: PreparedLoop, number: int) -> bool:
    """Whether the memory that a carried value begins in belongs to the loop; its result and spare
    do in any case.
    """
    return op.body.carried[number].initial in op.output_indices


def _check_view(name: str, view: PreparedBufferView, body: LoopBody) -> None:
    part, base = (body.buffers[index] for index in view.buffer_indices)
    if body.bindings[view.buffer_indices[0]] is not None:
        raise PlanError(
            op=name, problem=f"local buffer {view.buffer_indices[0]} is a view, and bound as well"
        )
    expected = base.storage_id, base.offset + view.byte_offset, view.byte_size
    if (part.storage_id, part.offset, part.nbytes) != expected:
        raise PlanError(
            op=name, problem=f"{part} is no view of {base} from byte {view.byte_offset} on"
        )


def _check_overlaps(name: str, op: PreparedLoop, taken: Sequence[Buffer]) -> None:
    """Check that what is written is no other operand, except that a result may be where its initial
    value is.
    """
    body = op.body
    read_throughout = {b.position for b in body.bindings if isinstance(b, (Whole, Slice))}
    in_place = {
        frozenset((v.initial, v.result))
        for v in body.carried
        if v.initial not in read_throughout or v.initial == v.result
    }
    for one, other in combinations(range(len(taken)), 2):
        pair = frozenset((one, other))
        if pair.isdisjoint(op.output_indices) or op.count_position in pair or pair in in_place:
            continue
        if taken[one].overlaps(taken[other]):
            raise PlanError(
                op=name, problem=f"operands {one} and {other} overlap, and it writes one of them"
            )
    kept = {
        position for v in body.carried for position in (v.result, v.spare) if position is not None
    }
    if both := sorted(kept & read_throughout):
        raise PlanError(
            op=name, problem=f"operand {both[0]} is bound, but a carried value changes it"
        )


def _show(binding: Binding) -> str:
    number = binding.position if isinstance(binding, (Whole, Slice)) else binding.number
    return f"{type(binding).__name__}({number})"
