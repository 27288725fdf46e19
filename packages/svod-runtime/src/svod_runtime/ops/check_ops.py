"""Checks of the ops of a plan when it is built, so that executing checks nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from svod_device import Buffer, canonical_device
from svod_runtime.errors import PlanError
from svod_runtime.ops.check_loops import check_bindings, check_writes
from svod_runtime.ops.prepared import (
    PreparedBufferView,
    PreparedCopy,
    PreparedCustomFunction,
    PreparedKernel,
    PreparedLoop,
    PreparedOp,
    describe_op,
)

__all__ = ["check_indices", "check_op"]


def check_op(
    op: PreparedOp, buffers: Sequence[Buffer], counters: frozenset[str] = frozenset()
) -> None:
    """Check that an op fits the buffers that it takes.

    Args:
        op: of a plan, or of the body of a loop.
        buffers: those of the plan or the body.
        counters: those of the loops that it is in.

    Raises:
        PlanError: if an index, a size or a device does not fit.
    """
    name = describe_op(op)
    check_indices(name, op.buffer_indices, len(buffers))
    taken = [buffers[index] for index in op.buffer_indices]
    match op:
        case PreparedKernel():
            _check_kernel(name, op, taken)
        case PreparedCopy():
            _check_pair(name, taken, "destination and source")
            _check_copy(name, *taken)
        case PreparedBufferView():
            _check_pair(name, taken, "view and base")
        case PreparedLoop():
            _check_loop(name, op, taken, counters)
        case PreparedCustomFunction():
            pass


def check_indices(what: str, indices: Iterable[int], n_buffers: int) -> None:
    """Raises PlanError if an index is none of a buffer."""
    for index in indices:
        if not 0 <= index < n_buffers:
            raise PlanError(op=what, problem=f"no buffer {index}, there are {n_buffers}")


def _check_kernel(name: str, op: PreparedKernel, taken: Sequence[Buffer]) -> None:
    spec = op.kernel.spec
    if not op.output_indices:
        raise PlanError(op=name, problem="has no output")
    _check_output_positions(name, op)
    if len(taken) != spec.n_buffers:
        problem = f"takes {spec.n_buffers} buffers (slots {spec.globals}), got {len(taken)}"
        raise PlanError(op=name, problem=problem)
    if len(op.values) != len(spec.var_names):
        problem = (
            f"has {len(spec.var_names)} variables {spec.var_names}, but {len(op.values)} values"
            f" {op.values}"
        )
        raise PlanError(op=name, problem=problem)
    is_on_host = taken[op.output_indices[0]].is_host_addressable
    for position in op.output_indices:
        _check_writable(name, taken[position])
    for buffer in taken:
        if buffer.device != canonical_device(op.device) and not (
            is_on_host and buffer.is_host_addressable
        ):
            raise PlanError(op=name, problem=f"runs on {op.device}, which cannot address {buffer}")


def _check_pair(name: str, taken: Sequence[Buffer], roles: str) -> None:
    if len(taken) != 2:
        raise PlanError(op=name, problem=f"takes two buffers, {roles}, got {len(taken)}")


def _check_copy(name: str, destination: Buffer, source: Buffer) -> None:
    if destination.nbytes != source.nbytes:
        raise PlanError(op=name, problem=f"copies {source.nbytes} bytes into {destination.nbytes}")
    _check_writable(name, destination)


def _check_writable(name: str, buffer: Buffer) -> None:
    if not buffer.is_writable:
        raise PlanError(op=name, problem=f"writes {buffer}, which is read-only")


def _check_loop(
    name: str, op: PreparedLoop, taken: Sequence[Buffer], counters: frozenset[str]
) -> None:
    _check_output_positions(name, op)
    for position in op.output_indices:
        _check_writable(name, taken[position])
    if op.body.counter in counters:
        raise PlanError(op=name, problem=f"counts by {op.body.counter}, as a loop around it does")
    check_bindings(name, op, taken)
    inner = counters if op.body.counter is None else counters | {op.body.counter}
    for one in op.body.ops:
        try:
            check_op(one, op.body.buffers, inner)
        except PlanError as error:
            raise PlanError(op=f"{name}, {error.op}", problem=error.problem) from None
    check_writes(name, op, taken)


def _check_output_positions(name: str, op: PreparedKernel | PreparedLoop) -> None:
    for position in op.output_indices:
        if not 0 <= position < len(op.buffer_indices):
            problem = (
                f"output position {position} is out of range: it has {len(op.buffer_indices)}"
                " buffers"
            )
            raise PlanError(op=name, problem=problem)
