"""Calls of a captured function with one signature: its plan, and the binding of arguments and
results.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from threading import get_ident
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from svod_codegen import count_usable_cores
from svod_device import Buffer, OutOfMemoryError, copy_buffer, get_allocator
from svod_ir import Op, UOp
from svod_runtime import InterruptDelay
from svod_tensor._memory_views import view_prefix
from svod_tensor._shards import shards_of
from svod_tensor.capture.dependencies import Dependency, Guards, find_changed
from svod_tensor.capture.direct import DirectCall
from svod_tensor.capture.donation import (
    Donated,
    check_distinct,
    ensure_own_memory,
    find_base_of,
    get_donated_memory,
    invalidate_donated,
)
from svod_tensor.capture.recipes import Results
from svod_tensor.capture.signature import Argument
from svod_tensor.cells import overwriting, registry, tables
from svod_tensor.engine import memory_nodes, versions
from svod_tensor.engine.bindings import collect_bindings
from svod_tensor.tensor import Tensor

if TYPE_CHECKING:
    from svod_ir.forks import Lock
    from svod_runtime import ExecutionPlan, Lending
    from svod_tensor.cells.cell import Cell

__all__ = [
    "Captured",
    "FastPath",
    "HeldMemory",
    "Input",
    "Watched",
    "iter_symbolic",
    "list_storages",
]


MAX_RESIZED_CALLS: Final = 16
"""Number of calls on kernels with symbolic sizes after which kernels for these sizes are compiled.

Counted, and not timed: results are then the same in each run, although sums are rounded differently.
"""


@dataclass(slots=True)
class Input:
    """Input of a plan.

    Attributes:
        position: index among the tensors and variables of a call.
        memory: its placeholder BUFFER.
        argument: its name in messages.
        is_donated: whether its memory is donated.
        index: in the plan, if the plan uses it.
        is_written: whether the plan assigns to it.
        shard: index of its shard in the argument.
    """

    position: int
    memory: UOp
    argument: str
    is_donated: bool
    index: int | None = None
    is_written: bool = False
    shard: int = 0


class Watched(NamedTuple):
    """Held tensor without memory of its own, and its node when it became part of a plan."""

    cell: weakref.ref[Cell]
    node: UOp


class HeldMemory(NamedTuple):
    """Memory of a held tensor that a plan uses.

    Attributes:
        cell: the tensor's cell.
        storages: the storages at the capture, in the order of the shards.
        is_kept: whether the memory must not be lent to an array: the plan writes it, or results are
            on it.
    """

    cell: weakref.ref[Cell]
    storages: tuple[int, ...]
    is_kept: bool

    @property
    def has_moved(self) -> bool:
        """True if the tensor is in other memory now, or lent to an array although it must not be."""
        cell = self.cell()
        if cell is None or cell.is_donated:
            return False
        return (self.is_kept and cell.find_array() is not None) or list_storages(
            cell
        ) != self.storages


def list_storages(cell: Cell) -> tuple[int, ...]:
    """The storages of a cell that is memory, before or after pending writes."""
    memory = cell.memory
    if memory is not None:
        return (memory.storage_id,)
    buffers = map(memory_nodes.find_buffer, versions.iter_memories(cell.node))
    return tuple([buffer.storage_id for buffer in buffers if buffer is not None])


class FastPath(Protocol):
    """Fast path for calls with the same specs as an earlier call (`capture.quick`)."""

    @property
    def captured(self) -> Captured:
        """The plan with its guards."""
        ...

    @property
    def lending(self) -> Lending:
        """The buffers that each call lends the plan."""
        ...

    def run(self, args: Sequence[object]) -> object:
        """Return the results, or `UNUSUAL` if nothing was done."""
        ...


@dataclass(slots=True)
class Captured:
    """Plan of one signature.

    Attributes:
        name: name of the function.
        plan: computes the results; None without computation.
        inputs: the arguments that have memory.
        outputs: the placeholder of each result that the plan computes, with the index of its
            buffer.
        results: built on the memory of inputs and outputs.
        build: arranges results in the tree that the function returned.
        written: the memory that the plan assigns to.
        held: the buffers that the plan uses besides inputs and outputs, by their names in messages.
        bound: the bound variables that the function uses without getting them as arguments.
        lock: held while memory that outlives a call is written, and while a plan is added.
        plans: the plan, and its forks for concurrent calls.
        max_plans: maximum number of plans, each with memory of its own for intermediates; 0 until
            it is first needed.
        last_call: the index of the function's last call with this signature.
        takes_memory: whether a call writes memory of arguments or held tensors.
        watched: held tensors that must be unchanged for the plan to be valid.
        held_memory: memory of held tensors, which must not have moved for the plan to be valid.
        dependencies: the Python values for which the plan is valid.
        guards: checks of these values before each call; None without dependencies.
        held_written: the cells of held tensors that the function assigns to.
        direct: how most calls run, and how all calls make results; None if no call can be direct.
        quick: the fast path; None until a call was made that it can serve.
        is_checked: whether results are compared with the results of the plain function.
        last_write_id: the last write id when this plan last searched for pending writes to held
            tensors.
        is_resized: whether kernels have symbolic sizes.
        sizes: values of the dynamic sizes (`capture.dynamic_shapes`); inputs and results are then
            smaller than the plan's.
        base: the plan for all sizes that this one has the sizes of.
        owners: weak references to the arguments that are known by their identity; once one is dead,
            no call can use the plan.
    """

    name: str
    plan: ExecutionPlan | None
    inputs: list[Input]
    outputs: list[tuple[UOp, int]]
    results: Results
    build: Callable[[Iterator[object]], object]
    written: set[UOp]
    held: Mapping[str, Buffer]
    bound: Sequence[UOp]
    lock: Lock
    plans: list[ExecutionPlan] = field(default_factory=list["ExecutionPlan"])
    max_plans: int = 0
    arguments: tuple[Argument, ...] = ()
    reason: str = ""
    n_calls: int = 0
    last_call: int = 0
    has_variables: bool | None = None
    takes_memory: bool = False
    watched: Sequence[Watched] = ()
    held_memory: Sequence[HeldMemory] = ()
    dependencies: Sequence[Dependency] = ()
    guards: Guards | None = None
    held_written: Sequence[weakref.ref[Cell]] = ()
    direct: DirectCall | None = None
    quick: FastPath | None = None
    is_checked: bool = False
    last_write_id: int = 0
    is_resized: bool = False
    sizes: Mapping[str, int] = field(default_factory=dict[str, int])
    base: Captured | None = None
    owners: Sequence[weakref.ref[Any]] = ()

    def __post_init__(self) -> None:
        self.takes_memory = bool(self.written) or any(input_.is_donated for input_ in self.inputs)
        # A copy for other sizes shares the plan and its forks.
        if self.plan is not None and not self.plans:
            self.plans.append(self.plan)

    @property
    def n_quick_calls(self) -> int:
        """Number of fast-path calls, which are not among `n_calls`."""
        return 0 if self.quick is None else self.quick.lending.n_executions

    @property
    def n_kernels(self) -> int:
        return 0 if self.plan is None else self.plan.num_kernels

    @property
    def holds_tensors(self) -> bool:
        """Whether the plan uses memory of tensors that are not arguments."""
        return bool(self.held or self.held_memory)

    @property
    def is_outgrown(self) -> bool:
        """Whether there were so many calls that kernels for their sizes are worth compiling."""
        return self.is_resized and self.n_calls >= MAX_RESIZED_CALLS

    @property
    def can_change(self) -> bool:
        """Whether the plan depends on more than its arguments, so that a call must check
        `is_current`.
        """
        return bool(self.watched or self.held_memory or self.guards)

    @property
    def is_current(self) -> bool:
        """True if the Python values and held tensors are as they were at the capture."""
        return not self._has_moved and (self.guards is None or self.guards.hold())

    @property
    def has_lost_owner(self) -> bool:
        """True if an argument that every call needs no longer exists."""
        return any(owner() is None for owner in self.owners)

    @property
    def has_expired(self) -> bool:
        """True if no later call can use the plan: a tensor that it contains, or an object, was
        replaced.
        """
        return self._has_moved or any(
            not d.may_return and not d.is_current for d in self.dependencies
        )

    @property
    def _has_moved(self) -> bool:
        """True if a tensor that the plan contains has another node, or one that it reads is in
        other memory.
        """
        if any((cell := w.cell()) is not None and cell.node is not w.node for w in self.watched):
            return True
        # While no write id was taken, no cell has left its memory: one comparison for all held
        # tensors.
        return self.last_write_id != tables.get_last_write_id() and any(
            home.has_moved for home in self.held_memory
        )

    def describe_change(self) -> str | None:
        """Describe the first Python value that has changed; None if none has."""
        changed = find_changed(self.dependencies)
        return None if changed is None else changed.describe()

    def has_aliases(self, inputs: Sequence[Tensor | UOp]) -> bool:
        """True if a written tensor is passed or held under two names, which the plan would treat as
        two tensors.
        """
        if not self.written:
            return False
        cells = [id(value.content.cell) for value in inputs if isinstance(value, Tensor)]
        known = set(cells)
        return len(known) < len(cells) or any(id(ref()) in known for ref in self.held_written)

    def run(self, given: Sequence[Tensor | UOp], borrowed: Sequence[Tensor] = ()) -> object:
        """Run the plan on the tensors and variables of a call, some of them on borrowed memory that
        results must not share.

        Raises:
            VariableConflictError: if a variable has two values, which may be that of something that
                the function holds.
            BoundsConflictError: if two variables have one name.
        """
        direct, plan = self.direct, self.plan
        # The plan reads held memory by its address, so pending writes must be in it first.
        if self.holds_tensors and self.last_write_id != tables.get_last_write_id():
            self._commit_held_writes()
        if direct is not None and not direct.makes_results:
            direct = None
        if direct is not None and plan is not None and not self.written:
            lent = direct.find_buffers(given)
            if lent is not None:
                # Donated memory is written, so calls take turns; the plan has no forks.
                if direct.takes_memory:
                    with self.lock:
                        plan.execute_on(
                            dict(zip(direct.indices, lent, strict=True)), {}, lent=direct.indices
                        )
                # False if another thread runs the plan.
                elif not plan.execute_direct(direct.lending, lent):
                    self._execute(
                        plan,
                        dict(zip(direct.indices, lent, strict=True)),
                        self.sizes,
                        direct.indices,
                    )
                return self.build(iter(direct.make_results(lent)))
        # Decided once: all calls with one signature have variables at the same positions.
        if self.has_variables is None:
            self.has_variables = bool(self.bound) or any(_is_symbolic(value) for value in given)
        values = (
            collect_bindings(*iter_symbolic(given), *self.bound)
            if self.has_variables
            else self.sizes
        )
        pending = [
            t for t in given if isinstance(t, Tensor) and not t.content.is_realized and t.size != 0
        ]
        nodes: dict[UOp, UOp] = {}
        buffers: dict[int, Buffer] = {}
        if self.takes_memory:
            if pending:
                Tensor.realize_batch(pending)
            # Held for the whole call: a later call must read the elements that this one writes.
            with self.lock:
                computation = self._claim_memory(given, nodes)
                with InterruptDelay() if self._has_written_views(given) else nullcontext():
                    try:
                        self._bind_inputs(given, nodes, buffers)
                        if plan is not None:
                            self._allocate_outputs(plan, nodes, buffers)
                            self._execute_one(plan, buffers, values)
                    finally:
                        registry.end_computation(computation)
                    self._write_views_back(given, nodes)
        else:
            computation = _compute_arguments(pending) if pending else None
            try:
                self._bind_inputs(given, nodes, buffers)
                if plan is not None:
                    self._allocate_outputs(plan, nodes, buffers)
                    self._execute(plan, buffers, values)
            finally:
                if computation is not None:
                    registry.end_computation(computation)
        if direct is not None:
            return self.build(
                iter(direct.make_results([buffers[index] for index in direct.indices]))
            )
        if values:
            nodes.update({bind: _rebind(bind, values) for bind in self.results.binds})
        return self.build(iter(self.results.make(nodes, given, borrowed)))

    def _commit_held_writes(self) -> None:
        """Compute the pending writes to held tensors, which no read has asked for."""
        # Read before the search: a write that another thread begins meanwhile has a higher id, and
        # the next call searches again.
        write_id = tables.get_last_write_id()
        storages = {buffer.storage_id for buffer in self.held.values()}
        with registry.lock:
            assigned = [
                cell
                for cell in registry.iter_pending_cells()
                if not storages.isdisjoint(_list_assigned(cell))
            ]
        Tensor.realize_batch(map(Tensor.from_content, assigned))
        self.last_write_id = write_id

    def _execute(
        self,
        plan: ExecutionPlan,
        buffers: Mapping[int, Buffer],
        values: Mapping[str, int],
        lent: Collection[int] = (),
    ) -> None:
        """Execute an idle plan; if there are as many as allowed, wait for one."""
        if self.sizes and plan.template.spare_bytes is None:
            self._execute_one(plan, buffers, values)
            return
        is_sized = bool(self.sizes)
        for candidate in self.plans:
            if candidate.execute_on(
                buffers, values, may_wait=False, lent=lent, may_be_smaller=is_sized
            ):
                return
        self._get_plan(plan).execute_on(buffers, values, lent=lent, may_be_smaller=is_sized)

    def _execute_one(
        self, plan: ExecutionPlan, buffers: Mapping[int, Buffer], values: Mapping[str, int]
    ) -> None:
        """Execute this plan, and not a fork of it.

        Where a plan needs buffers of their largest sizes, smaller arguments are copied into them, and
        smaller results out of them: plans with loops, host functions, or copies between devices.
        """
        if not self.sizes or plan.template.spare_bytes is not None:
            plan.execute_on(buffers, values, may_be_smaller=bool(self.sizes))
            return
        planned = plan.template.planned_bytes
        whole = {i: buffer for i, buffer in buffers.items() if buffer.nbytes == planned[i]}
        smaller = {
            i: (buffer, plan.buffers[i].view(0, buffer.nbytes, buffer.dtype))
            for i, buffer in buffers.items()
            if i not in whole
        }
        outputs = {index for _, index in self.outputs}
        with self.lock:
            for i, (buffer, staged) in smaller.items():
                if i not in outputs:
                    copy_buffer(staged, buffer)
            plan.execute_on(whole, values)
            for i, (buffer, staged) in smaller.items():
                if i in outputs:
                    copy_buffer(buffer, staged)

    def _get_plan(self, plan: ExecutionPlan) -> ExecutionPlan:
        """A new fork for a thread that found no idle plan, or, at the maximum, one to wait for."""
        with self.lock:
            # Each running plan occupies a core: more plans would take memory and save no time.
            self.max_plans = self.max_plans or count_usable_cores()
            if len(self.plans) < self.max_plans:
                try:
                    self.plans.append(plan.fork())
                    return self.plans[-1]
                # A fork allocates all intermediates again. Without room for them, threads share the
                # plans that exist.
                except OutOfMemoryError:
                    self.max_plans = len(self.plans)
        # Spreads the waiting threads over the plans without a shared counter.
        return self.plans[get_ident() % len(self.plans)]

    def _bind_inputs(
        self, given: Sequence[Tensor | UOp], nodes: dict[UOp, UOp], buffers: dict[int, Buffer]
    ) -> None:
        """Bind a plan to the arguments of a call; `nodes` gets the BUFFER for each placeholder."""
        for i in self.inputs:
            node = nodes.get(i.memory) or _find_memory(i, given[i.position])
            if node is not None:
                nodes[i.memory] = node
                if i.index is not None:
                    buffer, size = _get_buffer(node), i.memory.arg.size
                    # The argument may have room for a larger symbolic size than the plan's.
                    buffers[i.index] = (
                        buffer
                        if buffer.size == size
                        else buffer.view(0, size * buffer.dtype.nbytes)
                    )

    def _claim_memory(
        self, given: Sequence[Tensor | UOp], nodes: dict[UOp, UOp]
    ) -> registry.Computation:
        """Claim the memory that the plan writes: wait for its readers and writers, and take over
        donated memory.

        Pending readers are computed first. `nodes` gets the memory of every written or donated
        input, or of a copy if the input is a view."""
        from svod_tensor._realize import keep_values
        from svod_tensor.options import resolve_config

        donated = self._list_donated(given)
        nodes.update((i.memory, donation.memory) for i, donation in donated)
        for i in self.inputs:
            tensor = given[i.position]
            if i.is_written and not i.is_donated and isinstance(tensor, Tensor):
                nodes[i.memory] = ensure_own_memory(tensor, i.shard)
        held = self.written - {i.memory for i in self.inputs}
        overwritten = {*map(registry.get_latest_version, held), *nodes.values()}
        computation, kept = None, None
        while computation is None:
            with registry.lock:
                # Another call may have written the memory meanwhile, which invalidates these
                # BUFFERs.
                latest = {memory: registry.get_latest_version(memory) for memory in overwritten}
                if any(old is not new for old, new in latest.items()):
                    overwritten = set(latest.values())
                    nodes.update(
                        (memory, latest[node])
                        for memory, node in list(nodes.items())
                        if node in latest
                    )
                    continue
                # Write-after-read hazard: pending readers must be computed before this call writes.
                readers = overwriting.list_readers(overwritten)
                if not readers:
                    storages = [_get_buffer(memory).storage_id for memory in overwritten]
                    computation = registry.start_computation(storages, storages, {})
                    if computation is None:
                        registry.wait_if_refused()
                    elif kept is not None:
                        new_buffers = overwriting.rebind_owners(
                            overwritten, kept.values, kept.copies
                        )
                        nodes.update(
                            (memory, new_buffers[node]) for memory, node in list(nodes.items())
                        )
            if readers:
                # Without the lock, since it compiles and runs kernels; then the readers are listed
                # again.
                kept = keep_values(readers, resolve_config(None), kept)
        if donated:
            self._take(
                given,
                nodes,
                [(i, donation._replace(memory=nodes[i.memory])) for i, donation in donated],
            )
        return computation

    def _list_donated(self, given: Sequence[Tensor | UOp]) -> list[tuple[Input, Donated]]:
        donated: list[tuple[Input, Donated]] = []
        for i in self.inputs:
            tensor = given[i.position]
            if i.is_donated and isinstance(tensor, Tensor):
                donated.append((i, get_donated_memory(self.name, tensor, i.shard, i.argument)))
        return donated

    def _take(
        self,
        given: Sequence[Tensor | UOp],
        nodes: dict[UOp, UOp],
        donated: Sequence[tuple[Input, Donated]],
    ) -> None:
        for i in self.inputs:
            if i.memory not in nodes and (node := _find_memory(i, given[i.position])) is not None:
                nodes[i.memory] = node
        other_buffers = {
            i.argument: _get_buffer(nodes[i.memory])
            for i in self.inputs
            if not i.is_donated and i.memory in nodes
        }
        taken = [donation for _, donation in donated]
        # Checked before anything is invalidated: after an error the caller's tensors are usable.
        check_distinct(self.name, taken, {**self.held, **other_buffers})
        invalidate_donated(taken, self.name)
        # Results own the donated memory, under new BUFFER nodes: the old ones are invalid.
        nodes.update(
            (i.memory, _make_memory(donation.memory, donation.buffer)) for i, donation in donated
        )

    def _has_written_views(self, given: Sequence[Tensor | UOp]) -> bool:
        """True if the plan writes to copies of views, so that Ctrl-C must be delayed until they are
        written back.
        """
        written = [given[i.position] for i in self.inputs if i.is_written and not i.is_donated]
        return any(isinstance(tensor, Tensor) and tensor.content.path for tensor in written)

    def _write_views_back(self, given: Sequence[Tensor | UOp], nodes: Mapping[UOp, UOp]) -> None:
        """Write the copies of views that the plan wrote back to the viewed tensors."""
        for i in self.inputs:
            tensor = given[i.position]
            if (
                i.is_written
                and not i.is_donated
                and isinstance(tensor, Tensor)
                and tensor.content.path
            ):
                node = nodes[i.memory]
                if tensor.sharding is None and memory_nodes.find_base(tensor.uop) is not node:
                    tensor.assign(Tensor.from_uop(view_prefix(node, tensor.shape, tensor.dtype)))

    def _allocate_outputs(
        self, plan: ExecutionPlan, nodes: dict[UOp, UOp], buffers: dict[int, Buffer]
    ) -> None:
        """Bind new memory to each output, so that earlier results keep theirs, or the donated
        input's memory.
        """
        donated = plan.donated_indices
        for memory, index in self.outputs:
            if index in donated:
                # The result is in the buffer that this call donates, not in the previous call's.
                buffer = buffers.get(index) or plan.buffers[index]
            else:
                buffer = buffers[index] = Buffer(
                    get_allocator(memory.arg.device), memory.dtype, memory.arg.size
                )
            nodes[memory] = _make_memory(memory, buffer)


def _list_assigned(cell: Cell) -> list[int]:
    """The storages that a cell owns and that computing it writes."""
    memories = [
        versions.memory_of(version)
        for version in versions.list_versions(cell.node)
        if versions.is_pending_version(version)
    ]
    return [
        buffer.storage_id
        for memory in memories
        if (buffer := memory_nodes.find_buffer(memory)) is not None
    ]


def _compute_arguments(pending: Sequence[Tensor]) -> registry.Computation | None:
    """Compute pending arguments.

    An argument that only shares memory of another tensor is read there, under a registered
    computation, so that no thread writes the memory meanwhile."""
    while True:
        Tensor.realize_batch(t for t in pending if not memory_nodes.is_buffer_identity(t.uop))
        with registry.lock:
            shared = [t for t in pending if not t.is_realized]
            if not shared:
                return None
            buffers = [
                memory_nodes.find_buffer(memory)
                for t in shared
                for memory in versions.iter_memories(t.uop)
            ]
            # A BUFFER without memory was invalidated by another thread's write: rebind, and look
            # again.
            if None in buffers:
                overwriting.resolve_stale_nodes()
            elif all(memory_nodes.is_buffer_identity(t.uop) for t in shared):
                computation = registry.start_computation(
                    [b.storage_id for b in buffers if b is not None], (), {}
                )
                if computation is not None:
                    return computation
                registry.wait_if_refused()


def _find_memory(input_: Input, tensor: Tensor | UOp) -> UOp | None:
    """The memory of an argument, or of a copy of a view; None without elements."""
    assert isinstance(tensor, Tensor)
    while True:
        # Fast path for memory on one device, which is nearly always the case.
        node = find_base_of(tensor, input_.shard)
        if node is not None and node.attached is not None:
            return node
        if 0 in shards_of(tensor.uop)[input_.shard].shape:
            return None
        # Another thread may have assigned to it meanwhile.
        tensor = tensor.clone().realize() if tensor.is_realized else tensor.realize()


def _make_memory(like: UOp, buffer: Buffer) -> UOp:
    """A new BUFFER with the spec of `like` and the storage `buffer`."""
    return memory_nodes.make_memory(like.dtype, like.arg.size, like.arg.device, buffer)


def _get_buffer(node: UOp) -> Buffer:
    buffer = memory_nodes.find_buffer(node)
    assert buffer is not None, node
    return buffer


def _is_symbolic(value: Tensor | UOp) -> bool:
    """True if an argument is a variable, or has one in its shape; the same for all calls with one
    signature.
    """
    return isinstance(value, UOp) or not all(isinstance(size, int) for size in value.shape)


def iter_symbolic(given: Sequence[Tensor | UOp]) -> Iterator[UOp]:
    """The bound variables among the inputs of a call, and the symbolic sizes in their shapes."""
    for value in given:
        if isinstance(value, UOp):
            yield value
        else:
            yield from (size for size in value.shape if not isinstance(size, int))


def _rebind(bind: UOp, values: Mapping[str, int]) -> UOp:
    variable = bind.symbol
    value = values.get(variable.arg.name)
    return (
        bind
        if value is None
        else UOp(Op.BIND, bind.dtype, (variable, UOp.const(bind.dtype, value)))
    )
