"""`ExecutionPlan`: everything that one computation needs, prepared once and executed many times.

    builder = ExecutionPlanBuilder("CPU")
    out = builder.add_buffer(ast_id, buffer)              # -> index of the buffer in the plan
    builder.map_buffer(other_ast_id, out)                 # a second name of the same buffer
    builder.add_op(PreparedKernel(...))                   # in schedule order
    builder.add_op(op, instance_dependencies=(0, 3))      # which must run after ops 0 and 3 of the plan
    builder.set_output_buffers([out])
    builder.add_alias_ids([...])                          # ids to hand to release_*'s callback as well
    plan = builder.build()

    plan.execute()
    plan.execute_with_vars({"n": 7})
    for profile in plan.execute_profiled(): ...
    plan.output_buffer                                    # or output_buffer_at(1), output_buffers, num_outputs
    plan.buffer(ast_id).copyin(data)                      # new input data, in place
    plan.replace_buffer(index, buffer)                    # another buffer of equal size, dtype and device
    plan.kernels()                                        # name, source, device, sizes, buffers of each kernel
    plan.release_intermediate_buffers(registry.remove)

Ops need to declare only dependencies that their buffers do not show: two ops that touch the same
bytes keep their order in any case. Executing allocates nothing, and a run of kernels on a device
with a batch launcher is one foreign call. A plan keeps its buffers, and so their addresses, alive.
"""

from __future__ import annotations

import operator
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from svod_device import CORE_ID, Buffer, Dims, Variable, canonical_device
from svod_runtime.dependencies import find_hazards, make_levels, order_ops, resolve_dependencies
from svod_runtime.errors import PlanError, VariableBoundsError
from svod_runtime.execute import KernelState, Step, check_view, describe_op, make_steps
from svod_runtime.prepared import (
    CachedKernel,
    PreparedBufferView,
    PreparedCopy,
    PreparedCustomFunction,
    PreparedKernel,
    PreparedOp,
)
from svod_runtime.profile import KernelProfile

__all__ = ["ExecutionPlan", "ExecutionPlanBuilder", "PlannedKernel"]


@dataclass(frozen=True, slots=True)
class PlannedKernel:
    """A kernel of a plan as it would be launched now, for inspection."""

    op: PreparedKernel
    buffers: tuple[Buffer, ...]
    values: Mapping[str, int]
    global_size: Dims
    local_size: Dims | None

    @property
    def kernel(self) -> CachedKernel:
        return self.op.kernel

    @property
    def name(self) -> str:
        return self.op.kernel.name

    @property
    def source(self) -> str:
        return self.op.kernel.source

    @property
    def device(self) -> str:
        return self.op.device


class ExecutionPlan:
    """Prepared ops and their buffers; made by `ExecutionPlanBuilder`.

    Any thread may execute a plan; two that execute the same plan do so one after the other.
    """

    def __init__(
        self,
        device: str,
        ops: Sequence[PreparedOp],
        instance_dependencies: Sequence[Sequence[int]],
        buffers: Sequence[Buffer],
        ast_to_buffer: Mapping[int, int],
        output_indices: Sequence[int],
        alias_ids: Sequence[int],
    ) -> None:
        self.device = device
        self._ops, self._instance_dependencies = tuple(ops), tuple(map(tuple, instance_dependencies))
        self._buffers = list(buffers)
        self._ast_to_buffer, self._output_indices = dict(ast_to_buffer), tuple(output_indices)
        self._alias_ids = tuple(alias_ids)
        self._views = [op for op in ops if isinstance(op, PreparedBufferView)]
        self._storage_uses = Counter(buffer.storage_id for buffer in buffers)
        self._states = {
            index: KernelState(op, self._buffers) for index, op in enumerate(ops) if isinstance(op, PreparedKernel)
        }
        self._users = _find_users(self._states.values())
        self._held = {i for op in ops if not isinstance(op, PreparedKernel) for i in op.buffer_indices}
        self._variables = _initial_values(self._ops)
        self._bounds = _collect_bounds(self._ops)
        self._levels: list[list[int]] = []
        self._steps: list[Step] = []
        self._lock = threading.RLock()
        self._make_levels()
        self._make_steps()

    def __repr__(self) -> str:
        counts = f"{len(self._ops)} ops, {len(self._states)} kernels, {len(self._buffers)} buffers"
        return f"ExecutionPlan({counts}, {len(self._steps)} calls on {self.device})"

    def execute(self) -> None:
        """Run every op.

        Reading an output afterwards gives its result; a device that works asynchronously may still be
        busy when this returns.

        Raises:
            ExecutionError: if an op fails or a view is not what it must be.
            UnsupportedError: if a custom function has a kind that nothing implements.
        """
        with self._lock:
            for view in self._views:
                check_view(view, self._buffers)
            for step in self._steps:
                step.run()

    def execute_with_vars(self, values: Mapping[str, int]) -> None:
        """Set variables and run.

        Variables that are not named keep their last value; those that the schedule fixed, and
        `core_id`, are never touched. Names that no op uses have no effect.

        Raises:
            VariableBoundsError: if a value is outside its variable's bounds. Nothing has run or changed then.
        """
        with self._lock:
            self._set_variables(values)
            self.execute()

    def execute_profiled(self) -> list[KernelProfile]:
        """Run every op, each kernel by itself, and return one profile for each kernel in the order of execution."""
        with self._lock:
            for view in self._views:
                check_view(view, self._buffers)
            return [profile for step in self._steps for profile in step.run_profiled()]

    def execute_with_vars_profiled(self, values: Mapping[str, int]) -> list[KernelProfile]:
        """`execute_with_vars` with profiles."""
        with self._lock:
            self._set_variables(values)
            return self.execute_profiled()

    def _set_variables(self, values: Mapping[str, int]) -> None:
        changes = {name: operator.index(value) for name, value in values.items() if name != CORE_ID}
        for name, value in changes.items():
            for bounds in self._bounds.get(name, ()):
                if not bounds.min <= value <= bounds.max:
                    raise VariableBoundsError(name=name, value=value, min=bounds.min, max=bounds.max)
        symbolic = [state for state in self._states.values() if not state.has_constant_sizes]
        sizes = [state.resolve_sizes(changes) for state in symbolic]
        # Everything that can fail is behind us.
        self._variables.update(changes)
        for state in self._states.values():
            for position, name in enumerate(state.op.kernel.spec.var_names):
                if name in changes and name not in state.op.fixedvars:
                    state.values[position] = changes[name]
        changed = [(s, new) for s, new in zip(symbolic, sizes, strict=True) if (s.global_size, s.local_size) != new]
        for state, new in changed:
            state.global_size, state.local_size = new
        if changed:
            self._make_steps()

    def _make_levels(self) -> None:
        declared = resolve_dependencies(self._ops, self._instance_dependencies)
        order = order_ops(self._ops, declared)
        hazards = find_hazards(self._ops, order, self._buffers)
        self._levels = make_levels(order, [d | h for d, h in zip(declared, hazards, strict=True)])

    def _make_steps(self) -> None:
        self._steps = make_steps(self._ops, self._levels, self._states, self._buffers, self._variables)

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """Every buffer of the plan: inputs, intermediates and outputs."""
        return tuple(self._buffers)

    @property
    def num_outputs(self) -> int:
        return len(self._output_indices)

    @property
    def output_indices(self) -> tuple[int, ...]:
        """The index of each output in `buffers`."""
        return self._output_indices

    @property
    def output_buffer(self) -> Buffer | None:
        """The first output, or None if the plan has none."""
        return self.output_buffer_at(0)

    def output_buffer_at(self, position: int) -> Buffer | None:
        """The output at a position, in the order of the SINK, or None if there is none."""
        if not 0 <= position < len(self._output_indices):
            return None
        return self._buffers[self._output_indices[position]]

    @property
    def output_buffers(self) -> tuple[Buffer, ...]:
        return tuple(self._buffers[index] for index in self._output_indices)

    def buffer(self, ast_id: int) -> Buffer | None:
        """The buffer of an AST id, for reading it or copying new data in, or None."""
        index = self._ast_to_buffer.get(ast_id)
        return None if index is None else self._buffers[index]

    @property
    def ast_to_buffer(self) -> Mapping[int, int]:
        """AST id -> index in `buffers`."""
        return dict(self._ast_to_buffer)

    def replace_buffer(self, index: int, buffer: Buffer) -> None:
        """Let the plan use another buffer from now on: new inputs without a copy.

        Raises:
            PlanError: if there is no such index, or the buffer differs in size, dtype or device.
        """
        with self._lock:
            if not 0 <= index < len(self._buffers):
                raise PlanError(op="plan", problem=f"no buffer {index}, there are {len(self._buffers)}")
            old = self._buffers[index]
            if buffer is old:
                return
            if (buffer.nbytes, buffer.dtype, buffer.device) != (old.nbytes, old.dtype, old.device):
                raise PlanError(op="plan", problem=f"buffer {index} is {old}, which {buffer} cannot replace")
            if old.is_writable and not buffer.is_writable and self._is_written(index):
                raise PlanError(op="plan", problem=f"buffer {index} is written, but {buffer} is read-only")
            buffer.ensure_allocated()
            self._buffers[index] = buffer
            self._storage_uses[old.storage_id] -= 1
            self._storage_uses[buffer.storage_id] += 1
            for state, position in self._users.get(index, ()):
                state.buffers[position], state.addresses[position] = buffer, buffer.address
            self._remake_steps(old, buffer, index)

    def _remake_steps(self, old: Buffer, new: Buffer, index: int) -> None:
        # Batches read addresses from the states, so that new steps are needed only where buffers
        # are held by a step, or where other buffers share the storage and hazards may differ.
        is_shared = self._storage_uses[old.storage_id] > 0 or self._storage_uses[new.storage_id] > 1
        if is_shared:
            self._make_levels()
        if is_shared or index in self._held:
            self._make_steps()

    def _is_written(self, index: int) -> bool:
        for op in self._ops:
            match op:
                case PreparedKernel():
                    written = [op.buffer_indices[position] for position in op.output_indices]
                case PreparedCopy():
                    written = [op.buffer_indices[0]]
                case _:
                    written = []
            if index in written:
                return True
        return False

    def release_intermediate_buffers(self, remove: Callable[[int], None]) -> None:
        """Call `remove` with each AST id whose buffer is no output, and with each alias id.

        The plan itself keeps its buffers: it can be executed again.
        """
        self._release(remove, {self._buffers[index].storage_id for index in self._output_indices})

    def release_all_buffers(self, remove: Callable[[int], None]) -> None:
        """Call `remove` with each AST id and each alias id."""
        self._release(remove, set())

    def _release(self, remove: Callable[[int], None], kept_storages: set[int]) -> None:
        for ast_id, index in self._ast_to_buffer.items():
            if self._buffers[index].storage_id not in kept_storages:
                remove(ast_id)
        for alias_id in self._alias_ids:
            remove(alias_id)

    @property
    def prepared_ops(self) -> tuple[PreparedOp, ...]:
        """Every op in schedule order."""
        return self._ops

    @property
    def levels(self) -> tuple[tuple[int, ...], ...]:
        """Indices into `prepared_ops` by level: ops of one level do not depend on each other."""
        return tuple(map(tuple, self._levels))

    @property
    def num_kernels(self) -> int:
        return len(self._states)

    @property
    def num_calls(self) -> int:
        """How many calls one execution makes: a batch of kernels is one."""
        return len(self._steps)

    def kernels(self) -> list[PlannedKernel]:
        """Every kernel in schedule order."""
        with self._lock:
            return [
                PlannedKernel(s.op, tuple(s.buffers), s.variables, s.global_size, s.local_size)
                for s in self._states.values()
            ]


def _find_users(states: Iterable[KernelState]) -> dict[int, list[tuple[KernelState, int]]]:
    """For each buffer the kernels that take it, and the position at which they do."""
    users: dict[int, list[tuple[KernelState, int]]] = {}
    for state in states:
        for position, index in enumerate(state.op.buffer_indices):
            users.setdefault(index, []).append((state, position))
    return users


def _initial_values(ops: Iterable[PreparedOp]) -> dict[str, int]:
    values: dict[str, int] = {}
    for op in ops:
        match op:
            case PreparedKernel():
                values.update(zip(op.kernel.spec.var_names, op.values, strict=True))
            case PreparedCustomFunction():
                values.update(op.values)
            case _:
                pass
    return values


def _collect_bounds(ops: Iterable[PreparedOp]) -> dict[str, set[Variable]]:
    """The bounds of each variable that a caller may set."""
    bounds: dict[str, set[Variable]] = {}
    for op in ops:
        if isinstance(op, (PreparedKernel, PreparedCustomFunction)):
            variables = op.kernel.spec.variables if isinstance(op, PreparedKernel) else op.variables
            for variable in variables:
                if variable.name not in op.fixedvars and variable.name != CORE_ID:
                    bounds.setdefault(variable.name, set()).add(variable)
    return bounds


class ExecutionPlanBuilder:
    """Collects buffers and ops, in schedule order, and checks them all when the plan is built."""

    def __init__(self, device: str) -> None:
        self.device = canonical_device(device)
        self._ops: list[PreparedOp] = []
        self._instance_dependencies: list[tuple[int, ...]] = []
        self._buffers: list[Buffer] = []
        self._ast_to_buffer: dict[int, int] = {}
        self._output_indices: list[int] = []
        self._alias_ids: list[int] = []

    def add_buffer(self, ast_id: int, buffer: Buffer) -> int:
        """Add a buffer under an AST id and return its index."""
        self._buffers.append(buffer)
        self._ast_to_buffer[ast_id] = len(self._buffers) - 1
        return len(self._buffers) - 1

    def map_buffer(self, ast_id: int, index: int) -> None:
        """Give the buffer at `index` another AST id."""
        self._ast_to_buffer[ast_id] = index

    def replace_buffer(self, index: int, buffer: Buffer) -> None:
        """Use another buffer at `index`, as for a view whose base came later."""
        self._buffers[index] = buffer

    def add_op(self, op: PreparedOp, instance_dependencies: Iterable[int] = ()) -> int:
        """Add an op and return its index; `instance_dependencies` are indices of ops that must run before it."""
        self._ops.append(op)
        self._instance_dependencies.append(tuple(instance_dependencies))
        return len(self._ops) - 1

    def set_output_buffers(self, indices: Iterable[int]) -> None:
        """Say which buffers are the outputs, in order."""
        self._output_indices = list(indices)

    def set_output_buffer(self, index: int) -> None:
        """Say which buffer is the only output."""
        self._output_indices = [index]

    def add_alias_ids(self, ids: Iterable[int]) -> None:
        """Add ids that releasing reports besides the buffers' own."""
        self._alias_ids.extend(ids)

    def build(self) -> ExecutionPlan:
        """Check everything, get the memory of every buffer, and make the plan.

        Raises:
            PlanError: if an index, a size or a device does not fit, or outputs were not set.
            DependencyError: if dependencies are unknown or circular.
            OutOfMemoryError: if a buffer gets no memory.
        """
        self._check_outputs()
        for op in self._ops:
            self._check_op(op)
        for buffer in self._buffers:
            buffer.ensure_allocated()
        return ExecutionPlan(
            self.device,
            self._ops,
            self._instance_dependencies,
            self._buffers,
            self._ast_to_buffer,
            self._output_indices,
            self._alias_ids,
        )

    def _check_outputs(self) -> None:
        if not self._output_indices and self._buffers:
            raise PlanError(op="plan", problem="output buffers must be set explicitly")
        self._check_indices("outputs", self._output_indices)
        self._check_indices("AST ids", self._ast_to_buffer.values())

    def _check_indices(self, what: str, indices: Iterable[int]) -> None:
        for index in indices:
            if not 0 <= index < len(self._buffers):
                raise PlanError(op=what, problem=f"no buffer {index}, there are {len(self._buffers)}")

    def _check_op(self, op: PreparedOp) -> None:
        name = describe_op(op)
        self._check_indices(name, op.buffer_indices)
        match op:
            case PreparedKernel():
                self._check_kernel(name, op)
            case PreparedCopy():
                self._check_pair(name, op, "destination and source")
                self._check_copy(name, op)
            case PreparedBufferView():
                self._check_pair(name, op, "view and base")
            case PreparedCustomFunction():
                pass

    def _check_kernel(self, name: str, op: PreparedKernel) -> None:
        spec = op.kernel.spec
        if not op.output_indices:
            raise PlanError(op=name, problem="has no output")
        for position in op.output_indices:
            if not 0 <= position < len(op.buffer_indices):
                problem = f"output position {position} is out of range: it has {len(op.buffer_indices)} buffers"
                raise PlanError(op=name, problem=problem)
        if len(op.buffer_indices) != spec.n_buffers:
            problem = f"takes {spec.n_buffers} buffers (slots {spec.globals}), got {len(op.buffer_indices)}"
            raise PlanError(op=name, problem=problem)
        if len(op.values) != len(spec.var_names):
            problem = f"has {len(spec.var_names)} variables {spec.var_names}, but {len(op.values)} values {op.values}"
            raise PlanError(op=name, problem=problem)
        self._check_devices(name, op)

    def _check_devices(self, name: str, op: PreparedKernel) -> None:
        outputs = [self._buffers[op.buffer_indices[position]] for position in op.output_indices]
        for buffer in outputs:
            if not buffer.is_writable:
                raise PlanError(op=name, problem=f"writes {buffer}, which is read-only")
        is_on_host = outputs[0].is_host_addressable
        for index in op.buffer_indices:
            buffer = self._buffers[index]
            if buffer.device != canonical_device(op.device) and not (is_on_host and buffer.is_host_addressable):
                raise PlanError(op=name, problem=f"runs on {op.device}, which cannot address {buffer}")

    def _check_pair(self, name: str, op: PreparedCopy | PreparedBufferView, roles: str) -> None:
        if len(op.buffer_indices) != 2:
            raise PlanError(op=name, problem=f"takes two buffers, {roles}, got {len(op.buffer_indices)}")

    def _check_copy(self, name: str, op: PreparedCopy) -> None:
        destination, source = (self._buffers[index] for index in op.buffer_indices)
        if destination.nbytes != source.nbytes:
            raise PlanError(op=name, problem=f"copies {source.nbytes} bytes into {destination.nbytes}")
        if not destination.is_writable:
            raise PlanError(op=name, problem=f"writes {destination}, which is read-only")
