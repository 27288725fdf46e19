"""Prepared ops of an execution plan: kernels, copies, views, custom functions and loops, ready to
run.

Prepared ops refer to buffers by index into the plan's buffers, and to each other by `id`. They hold
no tensor, no schedule and no renderer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from svod_device import BatchLauncher, Buffer, Program, ProgramSpec, Variable
from svod_ir import UOp
from svod_runtime.ops.loop_bindings import Binding, Carried

__all__ = [
    "CachedKernel",
    "LoopBody",
    "Part",
    "PreparedBufferView",
    "PreparedCopy",
    "PreparedCustomFunction",
    "PreparedKernel",
    "PreparedLoop",
    "PreparedOp",
    "describe_op",
    "get_written",
    "list_parts",
]


@dataclass(frozen=True, slots=True, eq=False)
class CachedKernel:
    """A loaded kernel with its facts, shared by every plan that launches it.

    `launcher` is the batch launcher of the backend that made it, if it has one. A kernel that is
    not `is_host_parallel_safe` never runs at the same time as another."""

    program: Program
    spec: ProgramSpec
    launcher: BatchLauncher | None = None
    is_host_parallel_safe: bool = True

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def source(self) -> str:
        return self.spec.source


@dataclass(frozen=True, slots=True)
class PreparedKernel:
    """One launch of a kernel.

    Attributes:
        id: of the op in the schedule; repeated where a schedule loop was unrolled.
        kernel: the loaded kernel.
        device: where it runs.
        buffer_indices: indices into the plan's buffers, in the order of `kernel.spec.globals`.
        output_indices: positions within `buffer_indices` that the kernel writes.
        values: initial values of `kernel.spec.var_names`, in that order.
        fixedvars: values that the schedule fixed (loop counters); no caller overrides them.
        dependencies: ids of ops that must have run before.
        is_partial: whether it stores under a condition, so that what it writes may keep old
            content.
    """

    id: int
    kernel: CachedKernel
    device: str
    buffer_indices: tuple[int, ...]
    output_indices: tuple[int, ...]
    values: tuple[int, ...] = ()
    fixedvars: Mapping[str, int] = field(default_factory=dict[str, int])
    dependencies: tuple[int, ...] = ()
    is_partial: bool = False


@dataclass(frozen=True, slots=True)
class PreparedCopy:
    """Copy all bytes of one buffer to another: `buffer_indices` is (destination, source)."""

    id: int
    buffer_indices: tuple[int, ...]
    dependencies: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class PreparedBufferView:
    """State that buffer `buffer_indices[0]` is `byte_size` bytes of `buffer_indices[1]` from
    `byte_offset` on.

    Example:
        >>> import numpy as np
        >>> from svod_device import get_allocator
        >>> from svod_dtype import float32
        >>> from svod_runtime import ExecutionPlanBuilder
        >>> whole = Buffer(get_allocator("CPU"), float32, 4)
        >>> builder = ExecutionPlanBuilder("CPU")
        >>> base, part = builder.add_buffer(1, whole), builder.add_buffer(2, whole.view(8, 8))
        >>> _ = builder.add_op(PreparedBufferView(id=0, buffer_indices=(part, base), byte_offset=8, byte_size=8))
        >>> builder.set_output_buffer(part)
        >>> plan = builder.build()
        >>> plan.buffer(1).copyin(np.array([1, 2, 3, 4], "float32"))
        >>> plan.execute()
        >>> plan.output_buffer.as_numpy().tolist()
        [3.0, 4.0]
    """

    id: int
    buffer_indices: tuple[int, ...]
    byte_offset: int
    byte_size: int
    dependencies: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class PreparedCustomFunction:
    """Call the Python function that is registered for `kind` with buffers and variables.

    `attrs` are operands of the IR node, `variables` the bounds of the variables that the function
    reads, and `values` their initial values.
    """

    id: int
    kind: str
    buffer_indices: tuple[int, ...]
    attrs: tuple[UOp, ...] = ()
    variables: tuple[Variable, ...] = ()
    fixedvars: Mapping[str, int] = field(default_factory=dict[str, int])
    dependencies: tuple[int, ...] = ()
    values: Mapping[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True, slots=True, eq=False)
class LoopBody:
    """The ops of one iteration, on buffers of their own numbering.

    Attributes:
        buffers: local buffers. Of one that is bound, size, dtype and device count alone, and it is
            all of its storage; one that is not bound has no memory yet, or is a part of one that is
            bound.
        ops: on indices of `buffers`; `dependencies` name ops of this body.
        bindings: for each local buffer what memory it is; None for what lives within an iteration,
            and for parts.
        carried: the carried values.
        counter: the variable that is the number of the iteration, from 0 on in the order of
            execution.
        is_reversed: whether iteration t has slice count - 1 - t.
        go_on: the index of a local buffer, one bool: after an iteration that leaves it false the
            loop ends.
    """

    buffers: tuple[Buffer, ...]
    ops: tuple[PreparedOp, ...]
    bindings: tuple[Binding | None, ...]
    carried: tuple[Carried, ...] = ()
    counter: str | None = None
    is_reversed: bool = False
    go_on: int | None = None


@dataclass(frozen=True, slots=True)
class PreparedLoop:
    """Run a body `count` times, or until it says that it is done.

    Attributes:
        id: of the op in the schedule. Ops of the body with ids of their own may have origins of
            their own.
        buffer_indices: indices of the plan's buffers that it touches: operands, results, spares,
            and the computed count.
        output_indices: positions within `buffer_indices` that it writes, spares among them.
        body: what runs in each iteration.
        count: how many iterations there are at most, a number or an expression of variables; None
            if it is an int64 in memory.
        count_position: the position of the buffer which that number is read from when the loop
            begins; below 0 is none.
        branch: of several loops of which one runs, once: the number of this one. The count, clamped
            to those that there are, then says which one runs.
        n_branches: how many of them there are.
        fixedvars: values of variables that the schedule fixed; no caller overrides them.
        dependencies: ids of ops that must have run before.
        values: initial values of the variables of `count`, where they are not the smallest ones.
    """

    id: int
    buffer_indices: tuple[int, ...]
    output_indices: tuple[int, ...]
    body: LoopBody
    count: UOp | int | None
    count_position: int | None = None
    branch: int | None = None
    n_branches: int = 0
    fixedvars: Mapping[str, int] = field(default_factory=dict[str, int])
    dependencies: tuple[int, ...] = ()
    values: Mapping[str, int] = field(default_factory=dict[str, int])


PreparedOp = (
    PreparedKernel | PreparedCopy | PreparedBufferView | PreparedCustomFunction | PreparedLoop
)


def get_written(op: PreparedOp) -> list[int]:
    """The buffers that a kernel, a copy or a loop writes; what a custom function writes is not
    known.
    """
    match op:
        case PreparedKernel() | PreparedLoop():
            return [op.buffer_indices[position] for position in op.output_indices]
        case PreparedCopy():
            return [op.buffer_indices[0]]
        case _:
            return []


def describe_op(op: PreparedOp) -> str:
    """How error messages name an op."""
    match op:
        case PreparedKernel():
            return f"kernel {op.kernel.name} (op {op.id})"
        case PreparedCopy():
            return f"copy (op {op.id})"
        case PreparedBufferView():
            return f"buffer view (op {op.id})"
        case PreparedCustomFunction():
            return f"custom function {op.kind!r} (op {op.id})"
        case PreparedLoop():
            return f"loop (op {op.id})"


class Part(NamedTuple):
    """A local buffer on the memory of another one, from a byte on."""

    local: int
    offset: int


def list_parts(body: LoopBody) -> dict[int, list[Part]]:
    """For each local buffer that is bound what lies on it: itself, and its parts."""
    owners = {
        buffer.storage_id: i
        for i, buffer in enumerate(body.buffers)
        if body.bindings[i] is not None
    }
    parts: dict[int, list[Part]] = {index: [] for index in owners.values()}
    for index, buffer in enumerate(body.buffers):
        if buffer.storage_id in owners:
            parts[owners[buffer.storage_id]].append(Part(index, buffer.offset))
    return parts
