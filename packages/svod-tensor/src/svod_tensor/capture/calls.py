"""Calls of a captured function with one signature: its plan, and the binding of arguments and
results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from svod_device import Buffer, get_allocator
from svod_ir import Op, UOp
from svod_tensor.capture.direct import DirectCall
from svod_tensor.capture.inputs import Input
from svod_tensor.capture.memory_writes import MemoryWrites
from svod_tensor.capture.plan_forks import PlanForks
from svod_tensor.capture.recipes import Results
from svod_tensor.capture.signature import Argument
from svod_tensor.capture.validity import Validity
from svod_tensor.cells import overwriting, registry
from svod_tensor.engine import memory_nodes, versions
from svod_tensor.engine.bindings import collect_bindings
from svod_tensor.tensor import Tensor

if TYPE_CHECKING:
    from svod_runtime import ExecutionPlan, Lending

__all__ = ["Captured", "FastPath", "is_symbolic_input", "iter_symbolic"]


MAX_RESIZED_CALLS: Final = 16
"""Number of calls on kernels with symbolic sizes after which kernels for these sizes are compiled.

Counted, and not timed: results are then the same in each run, although sums are rounded differently.
"""


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


class _Bound(NamedTuple):
    """Memory of one call: for each placeholder its BUFFER, and buffers by index in the plan."""

    nodes: dict[UOp, UOp]
    buffers: dict[int, Buffer]


@dataclass(slots=True)
class Captured:
    """Plan of one signature.

    Attributes:
        name: name of the function.
        forks: the plan that computes the results, with its forks; None without computation.
        inputs: the arguments that have memory.
        outputs: the placeholder of each result that the plan computes, with the index of its
            buffer.
        results: built on the memory of inputs and outputs.
        build: arranges results in the tree that the function returned.
        validity: what the plan depends on besides the arguments.
        writes: the memory of arguments and held tensors that a call writes; None if it writes none.
        bound: the bound variables that the function uses without getting them as arguments.
        has_variables: whether a call has values of variables.
        arguments: the arguments of the captured call.
        reason: why it was captured.
        n_calls: number of calls but for those of the fast path.
        last_call: the index of the function's last call with this signature.
        direct: how most calls run, and how all calls make results; None if no call can be direct.
        quick: the fast path; None until a call was made that it can serve.
        is_checked: whether results are compared with the results of the plain function.
        is_resized: whether kernels have symbolic sizes.
        sizes: values of the dynamic sizes (`capture.dynamic_shapes`); inputs and results are then
            smaller than the plan's.
        base: the plan for all sizes that this one has the sizes of.
    """

    name: str
    forks: PlanForks | None
    inputs: list[Input]
    outputs: list[tuple[UOp, int]]
    results: Results
    build: Callable[[Iterator[object]], object]
    validity: Validity
    writes: MemoryWrites | None
    bound: Sequence[UOp]
    has_variables: bool
    arguments: tuple[Argument, ...] = ()
    reason: str = ""
    n_calls: int = 0
    last_call: int = 0
    direct: DirectCall | None = None
    quick: FastPath | None = None
    is_checked: bool = False
    is_resized: bool = False
    sizes: Mapping[str, int] = field(default_factory=dict[str, int])
    base: Captured | None = None

    @property
    def plan(self) -> ExecutionPlan | None:
        """The plan; None without computation."""
        return None if self.forks is None else self.forks.plan

    @property
    def n_quick_calls(self) -> int:
        """Number of fast-path calls, which are not among `n_calls`."""
        return 0 if self.quick is None else self.quick.lending.n_executions

    @property
    def n_kernels(self) -> int:
        return 0 if self.plan is None else self.plan.num_kernels

    @property
    def assigns(self) -> bool:
        """Whether the function assigns to arguments or held tensors."""
        return self.writes is not None and bool(self.writes.assigned)

    @property
    def is_outgrown(self) -> bool:
        """Whether there were so many calls that kernels for their sizes are worth compiling."""
        return self.is_resized and self.n_calls >= MAX_RESIZED_CALLS

    def with_sizes(
        self,
        sizes: Mapping[str, int],
        inputs: list[Input],
        outputs: list[tuple[UOp, int]],
        results: Results,
    ) -> Captured:
        """The same plan for calls with other sizes of inputs and results, which share its forks."""
        return Captured(
            self.name,
            self.forks,
            inputs,
            outputs,
            results,
            self.build,
            self.validity,
            None if self.writes is None else self.writes.with_inputs(inputs),
            self.bound,
            has_variables=False,
            arguments=self.arguments,
            reason=self.reason,
            last_call=self.last_call,
            is_checked=self.is_checked,
            is_resized=self.is_resized,
            sizes=sizes,
            base=self,
        )

    def run(self, given: Sequence[Tensor | UOp], borrowed: Sequence[Tensor] = ()) -> object:
        """Run the plan on the tensors and variables of a call, some of them on borrowed memory that
        results must not share.

        Raises:
            VariableConflictError: if a variable has two values, which may be that of something that
                the function holds.
            BoundsConflictError: if two variables have one name.
        """
        self.validity.compute_held_writes()
        tensors = self._run_direct(given)
        if tensors is None:
            tensors = self._run_on_nodes(given, borrowed)
        return self.build(iter(tensors))

    def _run_direct(self, given: Sequence[Tensor | UOp]) -> list[Tensor] | None:
        """The results of a call on whole buffers; None if it did nothing."""
        direct, forks = self.direct, self.forks
        if direct is None or forks is None or not direct.makes_results or self.assigns:
            return None
        lent = direct.find_buffers(given)
        if lent is None:
            return None
        if self.writes is not None:
            # Donated memory is written, so calls take turns.
            with self.writes.lock:
                forks.plan.execute_on(
                    dict(zip(direct.indices, lent, strict=True)), {}, lent=direct.indices
                )
        # False if another thread runs the plan.
        elif not forks.plan.execute_direct(direct.lending, lent):
            forks.execute(
                dict(zip(direct.indices, lent, strict=True)),
                self.sizes,
                is_sized=bool(self.sizes),
                lent=direct.indices,
            )
        return direct.make_results(lent)

    def _run_on_nodes(
        self, given: Sequence[Tensor | UOp], borrowed: Sequence[Tensor]
    ) -> list[Tensor]:
        """The results of any call."""
        values = (
            collect_bindings(*iter_symbolic(given), *self.bound)
            if self.has_variables
            else self.sizes
        )
        pending = [
            t for t in given if isinstance(t, Tensor) and not t.content.is_realized and t.size != 0
        ]
        bound = (
            self._execute_reading(given, pending, values)
            if self.writes is None
            else self._execute_writing(self.writes, given, pending, values)
        )
        if self.direct is not None and self.direct.makes_results:
            return self.direct.make_results([bound.buffers[i] for i in self.direct.indices])
        if values:
            bound.nodes.update({bind: _rebind(bind, values) for bind in self.results.binds})
        return self.results.make(bound.nodes, given, borrowed)

    def _execute_reading(
        self,
        given: Sequence[Tensor | UOp],
        pending: Sequence[Tensor],
        values: Mapping[str, int],
    ) -> _Bound:
        """Execute the plan of a function that writes nothing but its results."""
        computation = _compute_arguments(pending) if pending else None
        try:
            bound = self._bind(given, {})
            if self.forks is not None:
                self.forks.execute(bound.buffers, values, is_sized=bool(self.sizes))
        finally:
            if computation is not None:
                registry.end_computation(computation)
        return bound

    def _execute_writing(
        self,
        writes: MemoryWrites,
        given: Sequence[Tensor | UOp],
        pending: Sequence[Tensor],
        values: Mapping[str, int],
    ) -> _Bound:
        """Execute the plan of a function that writes memory of arguments or held tensors."""
        if pending:
            Tensor.realize_batch(pending)
        with writes.claim(given) as nodes:
            bound = self._bind(given, nodes)
            if self.forks is not None:
                # Calls take turns, so no fork is needed, and donated results are in buffers of the plan.
                self.forks.execute_first(bound.buffers, values, is_sized=bool(self.sizes))
        return bound

    def _bind(self, given: Sequence[Tensor | UOp], nodes: dict[UOp, UOp]) -> _Bound:
        """Find the memory of each input that `nodes` does not have, and make memory for each output,
        so that earlier results keep theirs.
        """
        buffers: dict[int, Buffer] = {}
        for i in self.inputs:
            node = nodes.get(i.memory) or i.find_memory(given)
            if node is not None:
                nodes[i.memory] = node
                if i.index is not None:
                    buffer, size = memory_nodes.get_buffer(node), i.memory.arg.size
                    # The argument may have room for a larger symbolic size than the plan's.
                    buffers[i.index] = (
                        buffer
                        if buffer.size == size
                        else buffer.view(0, size * buffer.dtype.nbytes)
                    )
        plan = self.plan
        if plan is None:
            return _Bound(nodes, buffers)
        for memory, index in self.outputs:
            if index in plan.donated_indices:
                # The result is in the buffer that this call donates, not in the previous call's.
                buffer = buffers.get(index) or plan.buffers[index]
            else:
                buffer = buffers[index] = Buffer(
                    get_allocator(memory.arg.device), memory.dtype, memory.arg.size
                )
            nodes[memory] = memory_nodes.make_memory_like(memory, buffer)
        return _Bound(nodes, buffers)


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


def is_symbolic_input(value: Tensor | UOp) -> bool:
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
