"""A captured function with one signature: its plan, and how arguments and results are wired to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from svod_device import Buffer, get_allocator
from svod_ir.args import BufferArg
from svod_ir.ops import Op
from svod_ir.uop import UOp
from svod_tensor import registry, states
from svod_tensor.donation import Donated, check_distinct, find_memory, find_readers, give_away
from svod_tensor.shards import parts_of
from svod_tensor.signature import Argument
from svod_tensor.tensor import Tensor
from svod_tensor.variable import collect_bindings

if TYPE_CHECKING:
    from svod_ir.forks import Lock
    from svod_runtime import ExecutionPlan

__all__ = ["Captured", "Input", "make_memory"]


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


@dataclass(slots=True)
class Captured:
    """One signature's plan.

    Attributes:
        name: of the function.
        plan: what computes the results; None if there is nothing to compute.
        inputs: the arguments that have memory.
        outputs: the memory of each result that the plan computes, with the index of its buffer.
        results: graphs over the memory of inputs and of outputs.
        build: arranges results as the function did.
        written: the memory that the plan assigns to.
        held: the buffers that the plan uses besides inputs and outputs, by what messages call them.
    """

    name: str
    plan: ExecutionPlan | None
    inputs: list[Input]
    outputs: list[tuple[UOp, int]]
    results: list[UOp]
    build: Callable[[Iterator[object]], object]
    written: set[UOp]
    held: Mapping[str, Buffer]
    lock: Lock
    arguments: tuple[Argument, ...] = ()
    reason: str = ""
    n_calls: int = 0
    has_variables: bool | None = None

    @property
    def n_kernels(self) -> int:
        return 0 if self.plan is None else self.plan.num_kernels

    def run(self, given: Sequence[Tensor | UOp]) -> object:
        """Run the plan on the tensors and variables of a call."""
        if self.has_variables is None:
            self.has_variables = any(_is_symbolic(value) for value in given)
        values = _bind(given) if self.has_variables else {}
        pending = [t for t in given if isinstance(t, Tensor) and not t.is_realized]
        if pending:
            Tensor.realize_batch(pending)
        with self.lock:
            self.n_calls += 1
            buffers: dict[int, Buffer] = {}
            nodes = self._feed(given, buffers)
            if self.plan is not None:
                self._feed_outputs(self.plan, nodes, buffers)
                self.plan.replace_buffers(buffers)
                self.plan.execute_with_vars(values) if values else self.plan.execute()
        if values:
            nodes.update({n: _rebind(n, values) for node in self.results for n in node.iter_ops(Op.BIND)})
        made = (Tensor.from_uop(node.substitute(nodes)) for node in self.results)
        return self.build(iter(made))

    def _feed(self, given: Sequence[Tensor | UOp], buffers: dict[int, Buffer]) -> dict[UOp, UOp]:
        """Let the plan read, and write, the memory of the arguments; the BUFFER that each placeholder stands for."""
        memory = {
            i.memory: found for i in self.inputs if (found := self._find_memory(i, given[i.position])) is not None
        }
        donated = [memory[i.memory] for i in self.inputs if i.is_donated and i.memory in memory]
        if donated or self.written:
            self._take_over(memory, donated)
        nodes: dict[UOp, UOp] = {}
        for i in self.inputs:
            found = memory.get(i.memory)
            if found is not None:
                nodes[i.memory] = make_memory(found.memory, found.buffer) if i.is_donated else found.memory
                if i.index is not None:
                    buffers[i.index] = found.buffer
        return nodes

    def _take_over(self, memory: Mapping[UOp, Donated], donated: Sequence[Donated]) -> None:
        """Compute what others still want to read from memory that the plan writes, and take what is donated."""
        if donated:
            others = {
                i.argument: memory[i.memory].buffer for i in self.inputs if not i.is_donated and i.memory in memory
            }
            check_distinct(self.name, donated, {**self.held, **others})
        overwritten = {memory[m].memory if m in memory else m for m in self.written} | {d.memory for d in donated}
        # What reads this memory and is not computed yet would read something else.
        Tensor.realize_batch(find_readers(overwritten))
        if donated:
            give_away(donated, self.name)

    def _find_memory(self, wanted: Input, tensor: Tensor | UOp) -> Donated | None:
        """The memory of an argument; None if it has no elements."""
        assert isinstance(tensor, Tensor)
        if wanted.is_donated:
            return find_memory(self.name, parts_of(tensor.uop)[wanted.part], wanted.argument)
        if wanted.is_written:
            states.make_writable(parts_of(tensor.uop)[wanted.part])
        # On one device, as nearly always, the tensor is its only part.
        node = registry.find_base(tensor.uop) or registry.find_base(parts_of(tensor.uop)[wanted.part])
        buffer = None if node is None else registry.find_buffer(node)
        return None if node is None or buffer is None else Donated(node, buffer, wanted.argument)

    def _feed_outputs(self, plan: ExecutionPlan, nodes: dict[UOp, UOp], buffers: dict[int, Buffer]) -> None:
        """New memory for each output, so that earlier results keep theirs, unless it comes with a donated input."""
        given = plan.donated_indices
        for memory, index in self.outputs:
            if index in given:
                # A donated buffer holds the result: this call's, not the one before it.
                buffer = buffers.get(index) or plan.buffers[index]
            else:
                buffer = buffers[index] = Buffer(get_allocator(memory.arg.device), memory.dtype, memory.arg.size)
            nodes[memory] = make_memory(memory, buffer)


def make_memory(like: UOp, buffer: Buffer | None = None) -> UOp:
    """A BUFFER of its own with the size of another one, for what `buffer` holds."""
    node = UOp(Op.BUFFER, like.dtype, (), BufferArg(registry.make_buffer_id(), like.arg.size, like.arg.device))
    if buffer is not None:
        registry.add_buffer(node, buffer)
    return node


def _is_symbolic(value: Tensor | UOp) -> bool:
    """Whether an argument is a variable, or has one in its shape; the same for all calls with one signature."""
    return isinstance(value, UOp) or not all(isinstance(size, int) for size in value.shape)


def _bind(given: Sequence[Tensor | UOp]) -> dict[str, int]:
    """The values of the variables among the inputs of a call, and in their shapes."""
    values: dict[str, int] = {}
    for value in given:
        if isinstance(value, UOp):
            values.update(collect_bindings(value))
            continue
        for size in value.shape:
            if not isinstance(size, int):
                values.update(collect_bindings(size))
    return values


def _rebind(bind: UOp, values: Mapping[str, int]) -> UOp:
    variable = bind.src[0]
    value = values.get(variable.arg[0])
    return bind if value is None else UOp(Op.BIND, bind.dtype, (variable, UOp.const(bind.dtype, value)))
