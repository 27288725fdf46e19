"""Prepared ops of an execution plan: kernels, copies, views, custom functions and loops, ready to
run.

Prepared ops refer to buffers by index into the plan's buffers, and to each other by `id`. They hold
no tensor, no schedule and no renderer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

from svod_device import BatchLauncher, Buffer, Program, ProgramSpec, Variable
from svod_ir import UOp
from svod_runtime.ops.loop_bindings import Binding, Carried

__all__ = [
    "CachedKernel",
    "LocalView",
    "LoopBody",
    "Phase",
    "PreparedBufferView",
    "PreparedCopy",
    "PreparedCustomFunction",
    "PreparedKernel",
    "PreparedLoop",
    "PreparedOp",
    "describe_op",
    "get_phase",
    "get_written",
    "list_local_views",
]


Phase: TypeAlias = Literal["start", "wait"]
"""Part of work that goes on beside a plan."""


# Compared by identity: equal specs may have different programs, which cannot be compared.
@dataclass(frozen=True, slots=True, eq=False)
class CachedKernel:
    """Loaded kernel with its spec, shared by every plan that launches it.

    `launcher` is the batch launcher of its backend, if there is one. A kernel that is not
    `is_host_parallel_safe` never runs concurrently with another.
    """

    program: Program
    spec: ProgramSpec
    launcher: BatchLauncher | None = None
    is_host_parallel_safe: bool = True

    @property
    def name(self) -> str:
        """Name of the kernel."""
        return self.spec.name

    @property
    def source(self) -> str:
        """Source code of the kernel."""
        return self.spec.source


@dataclass(frozen=True, slots=True)
class PreparedKernel:
    """Launch of a kernel.

    Attributes:
        id: id of the op in the schedule; repeated if a schedule loop was unrolled.
        kernel: the loaded kernel.
        device: device that runs it.
        buffer_indices: indices into the plan's buffers, in the order of `kernel.spec.globals`.
        output_indices: positions in `buffer_indices` that the kernel writes.
        values: initial values of `kernel.spec.var_names`, in that order.
        fixedvars: values fixed by the schedule (loop counters); callers cannot override them.
        dependencies: ids of ops that must run before.
        is_partial: whether it stores under a condition, so that its outputs may keep old data.
        phase: whether it starts work that goes on beside the plan, and runs early, or waits for such
            work, and runs late.
        blocking: replaces a start that is waited for at once.
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
    phase: Phase | None = None
    blocking: PreparedKernel | None = None


@dataclass(frozen=True, slots=True)
class PreparedCopy:
    """Copy of all bytes between two buffers: `buffer_indices` is (destination, source)."""

    id: int
    buffer_indices: tuple[int, ...]
    dependencies: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class PreparedBufferView:
    """Declaration that buffer `buffer_indices[0]` is a view of buffer `buffer_indices[1]`.

    The view has `byte_size` bytes from `byte_offset` on.

    Example:
        >>> import numpy as np
        >>> from svod_device import Buffer, get_allocator
        >>> from svod_dtype import float32
        >>> from svod_runtime import ExecutionPlanBuilder, PreparedBufferView
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
    """Call of the Python function that is registered for `kind`.

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


# Compared by identity: equality would compare every op of the body.
@dataclass(frozen=True, slots=True, eq=False)
class LoopBody:
    """Ops of one iteration, on local buffers.

    Attributes:
        buffers: local buffers. A bound buffer covers its storage, and only its size, dtype and
            device matter. An unbound buffer has no memory yet, or is a part of a bound one.
        ops: on indices of `buffers`; `dependencies` name ops of this body.
        bindings: memory of each local buffer; None for intermediates of an iteration and for parts.
        carried: the carries.
        counter: name of the variable that holds the iteration index, counted from 0 in execution
            order.
        is_reversed: whether iteration t has slice count - 1 - t.
        go_on: index of a local buffer, one bool: the loop ends after an iteration that sets it to
            false.
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
    """Loop over a body, `count` times or until its condition is false.

    Attributes:
        id: id of the op in the schedule. Ops of the body with ids of their own may have their own
            origins.
        buffer_indices: indices into the plan's buffers: operands, results, spares and the computed
            count.
        output_indices: positions in `buffer_indices` that the loop writes, including spares.
        body: ops of each iteration.
        count: maximum trip count, an integer or an expression of variables; None if it is an int64
            in memory.
        count_position: position of the buffer that holds the trip count, read when the loop begins;
            a negative count runs no iteration.
        branch: index of this branch of a switch, which runs one branch once. The count, clamped to
            the number of branches, selects the branch.
        n_branches: number of branches of the switch.
        fixedvars: values fixed by the schedule; callers cannot override them.
        dependencies: ids of ops that must run before.
        values: initial values of the variables of `count`, if they are not the minimum.
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
"""Any op of a plan."""


def get_written(op: PreparedOp) -> list[int]:
    """Return the buffers that a kernel, a copy or a loop writes; writes of custom functions are
    unknown.
    """
    match op:
        # By position in the op's list, since one buffer may be both read and written.
        case PreparedKernel() | PreparedLoop():
            return [op.buffer_indices[position] for position in op.output_indices]
        case PreparedCopy():
            # The destination comes first.
            return [op.buffer_indices[0]]
        case _:
            return []


def get_phase(op: PreparedOp) -> Phase | None:
    """The part of work beside the plan that an op is; None for most ops."""
    return op.phase if isinstance(op, PreparedKernel) else None


def describe_op(op: PreparedOp) -> str:
    """Name of an op in error messages."""
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


class LocalView(NamedTuple):
    """Local buffer on the memory of a bound one, and its offset in bytes."""

    local: int
    offset: int


def list_local_views(body: LoopBody) -> dict[int, list[LocalView]]:
    """For each bound local buffer, the buffers on its memory: itself and its parts."""
    owners = {
        buffer.storage_id: i
        for i, buffer in enumerate(body.buffers)
        # Only bound buffers get other memory in each iteration; their views must follow.
        if body.bindings[i] is not None
    }
    views: dict[int, list[LocalView]] = {index: [] for index in owners.values()}
    for index, buffer in enumerate(body.buffers):
        if buffer.storage_id in owners:
            views[owners[buffer.storage_id]].append(LocalView(index, buffer.offset))
    return views
