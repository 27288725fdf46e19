"""A captured function with one signature: its plan, and how arguments and results are wired
to it.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from threading import get_ident
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from svod_codegen import count_usable_cores
from svod_device import Buffer, OutOfMemoryError, get_allocator
from svod_ir import Op, UOp
from svod_runtime import InterruptDelay
from svod_tensor._memory_views import view_prefix
from svod_tensor._shards import parts_of
from svod_tensor.capture.dependencies import Dependency, Guards, find_changed
from svod_tensor.capture.direct import DirectCall
from svod_tensor.capture.donation import (
    Donated,
    check_distinct,
    find_base_of,
    get_memory,
    give_away,
    take_own,
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

__all__ = ["Captured", "FastPath", "Home", "Input", "Watched", "iter_symbolic", "list_storages"]


@dataclass(slots=True)
class Input:
    """An input of the plan.

    Attributes:
        position: among the tensors and variables of a call.
        memory: the BUFFER that stood for it.
        argument: what messages call it.
        is_donated: whether its memory is given away.
        index: in the plan, if that uses it.
        is_written: whether the plan assigns to it.
        part: which of the shards of the argument it is.
    """

    position: int
    memory: UOp
    argument: str
    is_donated: bool
    index: int | None = None
    is_written: bool = False
    part: int = 0


class Watched(NamedTuple):
    """A tensor without memory of its own that a function holds, and what it was when it became part
    of a plan.
    """

    cell: weakref.ref[Cell]
    node: UOp


class Home(NamedTuple):
    """Memory of a tensor that a function holds, which is in its plan.

    Attributes:
        cell: the tensor's.
        storages: where it was when it became part of the plan, in order of its shards.
        is_kept: whether its memory must be no array's: the plan writes it, or results are on it.
    """

    cell: weakref.ref[Cell]
    storages: tuple[int, ...]
    is_kept: bool

    @property
    def has_moved(self) -> bool:
        """Whether the tensor is somewhere else now, or an array shows what must be no array's."""
        cell = self.cell()
        if cell is None or cell.is_donated:
            return False
        return (self.is_kept and cell.find_array() is not None) or list_storages(
            cell
        ) != self.storages


def list_storages(cell: Cell) -> tuple[int, ...]:
    """The storages of a cell that is memory, also after assignments."""
    memory = cell.memory
    if memory is not None:
        return (memory.storage_id,)
    buffers = map(memory_nodes.find_buffer, versions.iter_memories(cell.node))
    return tuple([buffer.storage_id for buffer in buffers if buffer is not None])


class FastPath(Protocol):
    """How calls go that are like one that was made before (`capture.quick`)."""

    @property
    def captured(self) -> Captured:
        """The plan and what it depends on."""
        ...

    @property
    def lending(self) -> Lending:
        """What it lends the plan at each call."""
        ...

    def run(self, args: Sequence[object]) -> object:
        """The results, or that nothing was done."""
        ...


@dataclass(slots=True)
class Captured:
    """One signature's plan.

    Attributes:
        name: of the function.
        plan: what computes the results; None if there is nothing to compute.
        inputs: the arguments that have memory.
        outputs: the memory of each result that the plan computes, with the index of its buffer.
        results: over the memory of inputs and of outputs.
        build: arranges results as the function did.
        written: the memory that the plan assigns to.
        held: the buffers that the plan uses besides inputs and outputs, by what messages call them.
        bound: the bound variables that the function uses without getting them as arguments.
        lock: held while memory that outlives a call is written, and while a plan is added.
        plans: the plan, and its forks for threads that found it at work.
        max_plans: how many there may be, each with memory of its own for intermediates; 0 until
            somebody asks.
        last_call: the number of the function's last call with this signature.
        takes_memory: whether it writes memory of arguments, or of tensors that the function holds.
        watched: what of the plan is only right as long as these are what they were.
        homes: the memory of tensors that the function holds, which is theirs as long as no array or
            other tensor keeps it.
        dependencies: the Python values for which the plan is valid.
        guards: checks of these values before each call; None where there is none.
        held_written: the cells of tensors that the function holds and assigns to.
        direct: how most calls go; None where no call can.
        quick: how calls go that are like the one before; None until there was one that can.
        is_checked: whether results are compared with those of the plain function.
        last_seen: the number of the last assignment to anything before this plan last looked for
            some to what it holds.
        owners: weak references to the arguments that are known by their identity; once one is gone,
            the plan is for no call.
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
    homes: Sequence[Home] = ()
    dependencies: Sequence[Dependency] = ()
    guards: Guards | None = None
    held_written: Sequence[weakref.ref[Cell]] = ()
    direct: DirectCall | None = None
    quick: FastPath | None = None
    is_checked: bool = False
    last_seen: int = 0
    owners: Sequence[weakref.ref[Any]] = ()

    def __post_init__(self) -> None:
        self.takes_memory = bool(self.written) or any(given.is_donated for given in self.inputs)
        if self.plan is not None:
            self.plans.append(self.plan)

    @property
    def n_quick_calls(self) -> int:
        """How many calls went quickly, which are not among `n_calls`."""
        return 0 if self.quick is None else self.quick.lending.n_executions

    @property
    def n_kernels(self) -> int:
        return 0 if self.plan is None else self.plan.num_kernels

    @property
    def holds_tensors(self) -> bool:
        """Whether it uses memory of tensors that are no arguments."""
        return bool(self.held or self.homes)

    @property
    def can_change(self) -> bool:
        """Whether it depends on anything but its arguments, so that a call must see whether it
        `is_current`.
        """
        return bool(self.watched or self.homes or self.guards)

    @property
    def is_current(self) -> bool:
        """Whether the Python values, and the tensors that are in the plan, are what they were."""
        return not self._has_moved and (self.guards is None or self.guards.hold())

    @property
    def has_lost_owner(self) -> bool:
        """Whether an argument that every call has is gone."""
        return any(owner() is None for owner in self.owners)

    @property
    def has_expired(self) -> bool:
        """Whether it is right for no call any more: a tensor that is computed in the plan, or an
        object, is another one now.
        """
        return self._has_moved or any(
            not d.may_return and not d.is_current for d in self.dependencies
        )

    @property
    def _has_moved(self) -> bool:
        """Whether a tensor that is computed in the plan is another one now, or one that it reads is
        in other memory.
        """
        if any((cell := w.cell()) is not None and cell.node is not w.node for w in self.watched):
            return True
        return self.last_seen != tables.get_last_write_id() and any(
            home.has_moved for home in self.homes
        )

    def describe_change(self) -> str | None:
        """Which Python value is not what it was."""
        changed = find_changed(self.dependencies)
        return None if changed is None else changed.describe()

    def has_aliases(self, given: Sequence[Tensor | UOp]) -> bool:
        """Whether what is written is given, or held, under two names, which a plan takes for two
        things.
        """
        if not self.written:
            return False
        cells = [id(value.content.cell) for value in given if isinstance(value, Tensor)]
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
        if self.holds_tensors and self.last_seen != tables.get_last_write_id():
            self._finish_assignments()
        if direct is not None and plan is not None:
            found = direct.find_buffers(given)
            if found is not None:
                if direct.takes_memory:
                    with self.lock:
                        plan.execute_on(
                            dict(zip(direct.places, found, strict=True)), {}, lent=direct.places
                        )
                elif not plan.execute_direct(direct.lending, found):
                    self._execute(
                        plan, dict(zip(direct.places, found, strict=True)), {}, direct.places
                    )
                return self.build(iter(direct.make_results(found)))
        if self.has_variables is None:
            self.has_variables = bool(self.bound) or any(_is_symbolic(value) for value in given)
        values = collect_bindings(*iter_symbolic(given), *self.bound) if self.has_variables else {}
        pending = [
            t for t in given if isinstance(t, Tensor) and not t.content.is_realized and t.size != 0
        ]
        nodes: dict[UOp, UOp] = {}
        buffers: dict[int, Buffer] = {}
        if self.takes_memory:
            if pending:
                Tensor.realize_batch(pending)
            # Who comes later reads what this call leaves.
            with self.lock:
                computation = self._claim(given, nodes)
                with InterruptDelay() if self._has_written_views(given) else nullcontext():
                    try:
                        self._bind_inputs(given, nodes, buffers)
                        if plan is not None:
                            self._feed_outputs(plan, nodes, buffers)
                            plan.execute_on(buffers, values)
                    finally:
                        registry.end_computation(computation)
                    self._write_back(given, nodes)
        else:
            computation = _compute(pending) if pending else None
            try:
                self._bind_inputs(given, nodes, buffers)
                if plan is not None:
                    self._feed_outputs(plan, nodes, buffers)
                    self._execute(plan, buffers, values)
            finally:
                if computation is not None:
                    registry.end_computation(computation)
        if direct is not None:
            return self.build(
                iter(direct.make_results([buffers[place] for place in direct.places]))
            )
        if values:
            nodes.update({bind: _rebind(bind, values) for bind in self.results.binds})
        return self.build(iter(self.results.make(nodes, given, borrowed)))

    def _finish_assignments(self) -> None:
        """Do the assignments to what the function holds that nobody has waited for yet."""
        number = tables.get_last_write_id()
        storages = {buffer.storage_id for buffer in self.held.values()}
        with registry.lock:
            assigned = [
                cell
                for cell in registry.iter_pending_cells()
                if not storages.isdisjoint(_list_assigned(cell))
            ]
        Tensor.realize_batch(map(Tensor.from_content, assigned))
        self.last_seen = number

    def _execute(
        self,
        plan: ExecutionPlan,
        buffers: Mapping[int, Buffer],
        values: Mapping[str, int],
        lent: Collection[int] = (),
    ) -> None:
        """Execute a plan that no other thread has at work; where there are enough of them, wait for
        one.
        """
        for free in self.plans:
            if free.execute_on(buffers, values, may_wait=False, lent=lent):
                return
        self._get_plan(plan).execute_on(buffers, values, lent=lent)

    def _get_plan(self, plan: ExecutionPlan) -> ExecutionPlan:
        """A new plan for a thread that found all at work, or one to wait for where there are
        enough.
        """
        with self.lock:
            self.max_plans = self.max_plans or count_usable_cores()
            if len(self.plans) < self.max_plans:
                try:
                    self.plans.append(plan.fork())
                    return self.plans[-1]
                except OutOfMemoryError:
                    self.max_plans = len(self.plans)
        return self.plans[get_ident() % len(self.plans)]

    def _bind_inputs(
        self, given: Sequence[Tensor | UOp], nodes: dict[UOp, UOp], buffers: dict[int, Buffer]
    ) -> None:
        """Let a plan read, and write, the arguments of a call; `nodes` gets the BUFFER that each
        placeholder stands for.
        """
        for i in self.inputs:
            node = nodes.get(i.memory) or _find_memory(i, given[i.position])
            if node is not None:
                nodes[i.memory] = node
                if i.index is not None:
                    buffer, size = _get_buffer(node), i.memory.arg.size
                    # A size that depends on variables may be that of the first part of larger
                    # memory.
                    buffers[i.index] = (
                        buffer
                        if buffer.size == size
                        else buffer.view(0, size * buffer.dtype.nbytes)
                    )

    def _claim(self, given: Sequence[Tensor | UOp], nodes: dict[UOp, UOp]) -> registry.Computation:
        """Let what the plan writes belong to nobody else, wait for those who read it, and take
        donated memory.

        What others still want to read there is computed. `nodes` gets the memory of all that is
        written or donated, of views a copy."""
        from svod_tensor._realize import keep_values
        from svod_tensor.options import resolve_config

        donated = self._list_donated(given)
        nodes.update((i.memory, one.memory) for i, one in donated)
        for i in self.inputs:
            tensor = given[i.position]
            if i.is_written and not i.is_donated and isinstance(tensor, Tensor):
                nodes[i.memory] = take_own(tensor, i.part)
        held = self.written - {i.memory for i in self.inputs}
        overwritten = {*map(registry.get_latest_version, held), *nodes.values()}
        computation, kept = None, None
        while computation is None:
            with registry.lock:
                # Another call may have written it, and so made another version of it, meanwhile.
                latest = {memory: registry.get_latest_version(memory) for memory in overwritten}
                if any(old is not new for old, new in latest.items()):
                    overwritten = set(latest.values())
                    nodes.update(
                        (memory, latest[node])
                        for memory, node in list(nodes.items())
                        if node in latest
                    )
                    continue
                # What reads this memory and is not computed yet would read something else.
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
                kept = keep_values(readers, resolve_config(None), kept)
        if donated:
            self._take(
                given, nodes, [(i, one._replace(memory=nodes[i.memory])) for i, one in donated]
            )
        return computation

    def _list_donated(self, given: Sequence[Tensor | UOp]) -> list[tuple[Input, Donated]]:
        found: list[tuple[Input, Donated]] = []
        for i in self.inputs:
            tensor = given[i.position]
            if i.is_donated and isinstance(tensor, Tensor):
                found.append((i, get_memory(self.name, tensor, i.part, i.argument)))
        return found

    def _take(
        self,
        given: Sequence[Tensor | UOp],
        nodes: dict[UOp, UOp],
        donated: Sequence[tuple[Input, Donated]],
    ) -> None:
        for i in self.inputs:
            if i.memory not in nodes and (node := _find_memory(i, given[i.position])) is not None:
                nodes[i.memory] = node
        others = {
            i.argument: _get_buffer(nodes[i.memory])
            for i in self.inputs
            if not i.is_donated and i.memory in nodes
        }
        taken = [one for _, one in donated]
        check_distinct(self.name, taken, {**self.held, **others})
        give_away(taken, self.name)
        # Results read what was donated as memory of their own.
        nodes.update((i.memory, _make_memory(one.memory, one.buffer)) for i, one in donated)

    def _has_written_views(self, given: Sequence[Tensor | UOp]) -> bool:
        """Whether something is written to copies of views, so that Ctrl-C may come before it is
        written back.
        """
        written = [given[i.position] for i in self.inputs if i.is_written and not i.is_donated]
        return any(isinstance(tensor, Tensor) and tensor.content.path for tensor in written)

    def _write_back(self, given: Sequence[Tensor | UOp], nodes: Mapping[UOp, UOp]) -> None:
        """Write what the plan wrote to copies of views to what they are views of."""
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

    def _feed_outputs(
        self, plan: ExecutionPlan, nodes: dict[UOp, UOp], buffers: dict[int, Buffer]
    ) -> None:
        """New memory for each output, so that earlier results keep theirs, unless it comes with a
        donated input.
        """
        given = plan.donated_indices
        for memory, index in self.outputs:
            if index in given:
                # A donated buffer holds the result: this call's, not the one before it.
                buffer = buffers.get(index) or plan.buffers[index]
            else:
                buffer = buffers[index] = Buffer(
                    get_allocator(memory.arg.device), memory.dtype, memory.arg.size
                )
            nodes[memory] = _make_memory(memory, buffer)


def _list_assigned(cell: Cell) -> list[int]:
    """The storages that a cell owns and that are assigned to once it is computed."""
    memories = [
        versions.memory_of(state)
        for state in versions.list_versions(cell.node)
        if versions.is_pending_version(state)
    ]
    return [
        buffer.storage_id
        for memory in memories
        if (buffer := memory_nodes.find_buffer(memory)) is not None
    ]


def _compute(pending: Sequence[Tensor]) -> registry.Computation | None:
    """Compute arguments.

    What only shares the memory of another tensor is read there; nobody writes that meanwhile.
    """
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
            if None in buffers:
                overwriting.resolve_stale_nodes()
            elif all(memory_nodes.is_buffer_identity(t.uop) for t in shared):
                computation = registry.start_computation(
                    [b.storage_id for b in buffers if b is not None], (), {}
                )
                if computation is not None:
                    return computation
                registry.wait_if_refused()


def _find_memory(wanted: Input, tensor: Tensor | UOp) -> UOp | None:
    """The memory of an argument, of a view a copy; None if it has no elements."""
    assert isinstance(tensor, Tensor)
    while True:
        # Memory on one device, as nearly all of it.
        node = find_base_of(tensor, wanted.part)
        if node is not None and node.attached is not None:
            return node
        if 0 in parts_of(tensor.uop)[wanted.part].shape:
            return None
        # Another thread may have assigned to it meanwhile.
        tensor = tensor.clone().realize() if tensor.is_realized else tensor.realize()


def _make_memory(like: UOp, buffer: Buffer) -> UOp:
    """A BUFFER of its own with the size of another one, for what `buffer` holds."""
    return memory_nodes.make_memory(like.dtype, like.arg.size, like.arg.device, buffer)


def _get_buffer(node: UOp) -> Buffer:
    buffer = memory_nodes.find_buffer(node)
    assert buffer is not None, node
    return buffer


def _is_symbolic(value: Tensor | UOp) -> bool:
    """Whether an argument is a variable, or has one in its shape; the same for all calls with one
    signature.
    """
    return isinstance(value, UOp) or not all(isinstance(size, int) for size in value.shape)


def iter_symbolic(given: Sequence[Tensor | UOp]) -> Iterator[UOp]:
    """The bound variables among the inputs of a call, and the sizes in their shapes that depend on
    variables.
    """
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
