"""Checks of the ops of a plan at build time, so that an execution needs none."""

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
    """Check that an op matches its buffers.

    Args:
        op: op of a plan or of a loop body.
        buffers: buffers of the plan or of the body.
        counters: counters of the enclosing loops.

    Raises:
        PlanError: if an index, a size or a device does not match.
    """
    name = describe_op(op)
    check_indices(name, op.buffer_indices, len(buffers))
    arguments = [buffers[index] for index in op.buffer_indices]
    match op:
        case PreparedKernel():
            _check_kernel(name, op, arguments)
        case PreparedCopy():
            _check_pair(name, arguments, "destination and source")
            _check_copy(name, *arguments)
        case PreparedBufferView():
            # The offset is checked at each run instead: either buffer may be replaced.
            _check_pair(name, arguments, "view and base")
        case PreparedLoop():
            _check_loop(name, op, arguments, counters)
        # Its function decides which buffers it accepts.
        case PreparedCustomFunction():
            pass


def check_indices(what: str, indices: Iterable[int], n_buffers: int) -> None:
    """Raise PlanError if a buffer index is out of range."""
    for index in indices:
        # Negative indices too, which Python would take as counted from the end.
        if not 0 <= index < n_buffers:
            raise PlanError(
                op=what, problem=f"buffer index {index} is out of bounds for {n_buffers} buffers"
            )


def _check_kernel(name: str, op: PreparedKernel, arguments: Sequence[Buffer]) -> None:
    spec = op.kernel.spec
    if not op.output_indices:
        # Nothing could depend on it, and it would run in no defined order.
        raise PlanError(op=name, problem="has no output: output_indices is empty")
    _check_output_positions(name, op)
    if len(arguments) != spec.n_buffers:
        problem = f"expected {spec.n_buffers} buffers (slots {spec.globals}), got {len(arguments)}"
        raise PlanError(op=name, problem=problem)
    if len(op.values) != len(spec.var_names):
        problem = (
            f"expected {len(spec.var_names)} values for variables {spec.var_names}, got"
            f" {len(op.values)}: {op.values}"
        )
        raise PlanError(op=name, problem=problem)
    # Host devices share one address space, so a CPU kernel may read DISK's mapped files.
    is_on_host = arguments[op.output_indices[0]].is_host_addressable
    for position in op.output_indices:
        _check_writable(name, arguments[position])
    for buffer in arguments:
        # Checked before a run: an address of another device would end the process.
        if buffer.device != canonical_device(op.device) and not (
            is_on_host and buffer.is_host_addressable
        ):
            raise PlanError(op=name, problem=f"runs on {op.device}, which cannot address {buffer}")


def _check_pair(name: str, arguments: Sequence[Buffer], roles: str) -> None:
    if len(arguments) != 2:
        raise PlanError(op=name, problem=f"expected two buffers, {roles}, got {len(arguments)}")


def _check_copy(name: str, destination: Buffer, source: Buffer) -> None:
    if destination.nbytes != source.nbytes:
        raise PlanError(
            op=name,
            problem=f"source has {source.nbytes} bytes, but destination has {destination.nbytes}",
        )
    _check_writable(name, destination)


def _check_writable(name: str, buffer: Buffer) -> None:
    if not buffer.is_writable:
        raise PlanError(op=name, problem=f"writes {buffer}, which is read-only")


def _check_loop(
    name: str, op: PreparedLoop, arguments: Sequence[Buffer], counters: frozenset[str]
) -> None:
    _check_output_positions(name, op)
    for position in op.output_indices:
        _check_writable(name, arguments[position])
    if op.body.counter in counters:
        raise PlanError(
            op=name,
            problem=f"counter {op.body.counter} is already the counter of an enclosing loop",
        )
    check_bindings(name, op, arguments)
    # Counters are variables by name: an inner loop with an outer loop's counter would overwrite it.
    inner = counters if op.body.counter is None else counters | {op.body.counter}
    for inner_op in op.body.ops:
        try:
            check_op(inner_op, op.body.buffers, inner)
        except PlanError as error:
            raise PlanError(op=f"{name}, {error.op}", problem=error.problem) from None
    check_writes(name, op, arguments)


def _check_output_positions(name: str, op: PreparedKernel | PreparedLoop) -> None:
    for position in op.output_indices:
        if not 0 <= position < len(op.buffer_indices):
            problem = (
                f"output position {position} is out of bounds for {len(op.buffer_indices)} buffers"
            )
            raise PlanError(op=name, problem=problem)
