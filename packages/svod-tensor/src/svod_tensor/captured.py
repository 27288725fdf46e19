"""A captured function with one signature: its plan, and how arguments and results are wired to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from threading import get_ident
from typing import TYPE_CHECKING

from svod_codegen.cores import count_usable_cores
from svod_device import Buffer, OutOfMemoryError, get_allocator
from svod_ir.ops import Op
from svod_ir.uop import UOp
from svod_tensor import registry, states
from svod_tensor.donation import Donated, check_distinct, find_memory, find_readers, give_away
from svod_tensor.ops.base import find_form
from svod_tensor.shards import parts_of
from svod_tensor.signature import Argument
from svod_tensor.tensor import Tensor
from svod_tensor.variable import collect_bindings

if TYPE_CHECKING:
    from svod_ir.forks import Lock
    from svod_runtime import ExecutionPlan

__all__ = ["Captured", "Input", "Results", "iter_symbolic"]


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


class Results:
    """Graphs over placeholders, made again on the memory of each call.

    Attributes:
        binds: the bound variables in them.
    """

    __slots__ = ("_changing", "_forms", "_nodes", "binds")

    def __init__(self, nodes: Sequence[UOp], placeholders: Iterable[UOp]) -> None:
        self._nodes = tuple(nodes)
        # Whatever the arguments of a signature are, a result has one form.
        self._forms = [find_form(node) for node in nodes]
        self.binds = [bind for node in nodes for bind in node.iter_ops(Op.BIND)]
        changing = {*placeholders, *self.binds}
        self._changing: list[UOp] = []
        for node in UOp.sink(*nodes).toposort(stop=changing)[:-1]:
            if node not in changing and not changing.isdisjoint(node.src):
                changing.add(node)
                self._changing.append(node)

    def make(self, made: dict[UOp, UOp]) -> list[Tensor]:
        """The results on what `made` has for each placeholder and bound variable; the nodes between are added to it."""
        for node in self._changing:
            made[node] = node.with_src(tuple([made.get(operand, operand) for operand in node.src]))
        return [Tensor.from_uop(made.get(n, n), form) for n, form in zip(self._nodes, self._forms, strict=True)]


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
        max_plans: how many there may be, each with memory of its own for intermediates; 0 until somebody asks.
        last_call: the number of the function's last call with this signature.
        takes_memory: whether it writes memory of arguments, or of tensors that the function holds.
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

    def __post_init__(self) -> None:
        self.takes_memory = bool(self.written) or any(given.is_donated for given in self.inputs)
        if self.plan is not None:
            self.plans.append(self.plan)

    @property
    def n_kernels(self) -> int:
        return 0 if self.plan is None else self.plan.num_kernels

    def run(self, given: Sequence[Tensor | UOp]) -> object:
        """Run the plan on the tensors and variables of a call.

        Raises:
            VariableConflictError: if a variable has two values, which may be that of something that the function holds.
            BoundsConflictError: if two variables have one name.
        """
        if self.has_variables is None:
            self.has_variables = bool(self.bound) or any(_is_symbolic(value) for value in given)
        values = collect_bindings(*iter_symbolic(given), *self.bound) if self.has_variables else {}
        find_base = registry.find_base
        pending = [t for t in given if isinstance(t, Tensor) and find_base(t.uop) is None and not t.is_realized]
        if pending:
            Tensor.realize_batch(pending)
        nodes: dict[UOp, UOp] = {}
        buffers: dict[int, Buffer] = {}
        if self.takes_memory:
            # Who comes later reads what this call leaves.
            with self.lock:
                self._find_inputs(given, nodes, buffers)
                computation = self._take_over(nodes)
                try:
                    if self.plan is not None:
                        self._feed_outputs(self.plan, nodes, buffers)
                        self.plan.execute_on(buffers, values)
                finally:
                    registry.end_computation(computation)
        else:
            self._find_inputs(given, nodes, buffers)
            if self.plan is not None:
                self._feed_outputs(self.plan, nodes, buffers)
            for plan in self.plans:
                if plan.execute_on(buffers, values, may_wait=False):
                    break
            else:
                if self.plan is not None:
                    self._find_plan(self.plan).execute_on(buffers, values)
        if values:
            nodes.update({bind: _rebind(bind, values) for bind in self.results.binds})
        return self.build(iter(self.results.make(nodes)))

    def _find_plan(self, plan: ExecutionPlan) -> ExecutionPlan:
        """A new plan for a thread that found all at work, or one to wait for where there are enough."""
        with self.lock:
            self.max_plans = self.max_plans or count_usable_cores()
            if len(self.plans) < self.max_plans:
                try:
                    self.plans.append(plan.fork())
                    return self.plans[-1]
                except OutOfMemoryError:
                    self.max_plans = len(self.plans)
        return self.plans[get_ident() % len(self.plans)]

    def _find_inputs(self, given: Sequence[Tensor | UOp], nodes: dict[UOp, UOp], buffers: dict[int, Buffer]) -> None:
        """Let a plan read, and write, the arguments of a call; `nodes` gets the BUFFER that each placeholder stands for."""
        for i in self.inputs:
            found = self._find_memory(i, given[i.position])
            if found is not None:
                nodes[i.memory], buffer = found
                if i.index is not None:
                    # A size that depends on variables may be that of the first part of larger memory.
                    is_part = buffer.size != i.memory.arg.size
                    buffers[i.index] = buffer.view(0, i.memory.arg.size * buffer.dtype.nbytes) if is_part else buffer

    def _take_over(self, nodes: dict[UOp, UOp]) -> registry.Computation:
        """Compute what others still want to read from memory that the plan writes, wait for those who do, and take what is donated."""
        given = [
            (i, Donated(nodes[i.memory], _get_buffer(nodes[i.memory]), i.argument))
            for i in self.inputs
            if i.memory in nodes
        ]
        donated = [one for i, one in given if i.is_donated]
        if donated:
            others = {one.argument: one.buffer for i, one in given if not i.is_donated}
            check_distinct(self.name, donated, {**self.held, **others})
        overwritten = {nodes.get(memory, memory) for memory in self.written} | {one.memory for one in donated}
        computation = None
        while computation is None:
            with registry.lock:
                # What reads this memory and is not computed yet would read something else.
                readers = find_readers(overwritten)
                if not readers:
                    storages = [_get_buffer(memory).storage_id for memory in overwritten]
                    computation = registry.start_computation(storages, storages, {})
            Tensor.realize_batch(readers)
        if donated:
            give_away(donated, self.name)
            # Results read what was donated as memory of their own.
            nodes.update((i.memory, _make_memory(one.memory, one.buffer)) for i, one in given if i.is_donated)
        return computation

    def _find_memory(self, wanted: Input, tensor: Tensor | UOp) -> tuple[UOp, Buffer] | None:
        """The memory of an argument; None if it has no elements."""
        assert isinstance(tensor, Tensor)
        if not self.takes_memory:
            # Memory on one device that is only read, as nearly all of it.
            node = registry.find_base(tensor.uop)
            if node is not None and node.attached is not None:
                return node, _get_buffer(node)
        if wanted.is_donated:
            donated = find_memory(self.name, parts_of(tensor.uop)[wanted.part], wanted.argument, wanted.memory.arg.size)
            return donated.memory, donated.buffer
        if wanted.is_written:
            states.make_writable(parts_of(tensor.uop)[wanted.part])
        while True:
            # On one device, as nearly always, the tensor is its only part.
            part = tensor.uop
            node = registry.find_base(part) or registry.find_base(part := parts_of(part)[wanted.part])
            buffer = None if node is None else registry.find_buffer(node)
            if node is not None and buffer is not None:
                return node, buffer
            if 0 in part.shape:
                return None
            # Another thread assigned to it meanwhile.
            tensor.realize()

    def _feed_outputs(self, plan: ExecutionPlan, nodes: dict[UOp, UOp], buffers: dict[int, Buffer]) -> None:
        """New memory for each output, so that earlier results keep theirs, unless it comes with a donated input."""
        given = plan.donated_indices
        for memory, index in self.outputs:
            if index in given:
                # A donated buffer holds the result: this call's, not the one before it.
                buffer = buffers.get(index) or plan.buffers[index]
            else:
                buffer = buffers[index] = Buffer(get_allocator(memory.arg.device), memory.dtype, memory.arg.size)
            nodes[memory] = _make_memory(memory, buffer)


def _make_memory(like: UOp, buffer: Buffer) -> UOp:
    """A BUFFER of its own with the size of another one, for what `buffer` holds."""
    return registry.make_memory(like.dtype, like.arg.size, like.arg.device, buffer)


def _get_buffer(node: UOp) -> Buffer:
    buffer = registry.find_buffer(node)
    assert buffer is not None, node
    return buffer


def _is_symbolic(value: Tensor | UOp) -> bool:
    """Whether an argument is a variable, or has one in its shape; the same for all calls with one signature."""
    return isinstance(value, UOp) or not all(isinstance(size, int) for size in value.shape)


def iter_symbolic(given: Sequence[Tensor | UOp]) -> Iterator[UOp]:
    """The bound variables among the inputs of a call, and the sizes in their shapes that depend on variables."""
    for value in given:
        if isinstance(value, UOp):
            yield value
        else:
            yield from (size for size in value.shape if not isinstance(size, int))


def _rebind(bind: UOp, values: Mapping[str, int]) -> UOp:
    variable = bind.src[0]
    value = values.get(variable.arg[0])
    return bind if value is None else UOp(Op.BIND, bind.dtype, (variable, UOp.const(bind.dtype, value)))
