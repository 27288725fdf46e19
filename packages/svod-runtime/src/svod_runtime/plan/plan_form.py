"""`PlanForm`: properties shared by all plans of a template: ops, levels, users of each buffer, and
the memory layout.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from svod_device import Buffer
from svod_dtype import DType, uint8
from svod_runtime.errors import PlanError
from svod_runtime.kernels.arrangement import Arrangement, arrange
from svod_runtime.kernels.kernel_state import KernelState, find_constant_sizes
from svod_runtime.loops.loop_form import list_loop_forms
from svod_runtime.memory.plan_draft import PlanDraft
from svod_runtime.ops.prepared import PreparedBufferView, PreparedKernel, PreparedLoop, get_written
from svod_runtime.ops.variables import collect_bounds, get_initial_values

if TYPE_CHECKING:
    from svod_runtime.ops.dependencies import Dependencies

__all__ = ["PlanForm", "find_sharing"]


class PlanForm:
    """Prepared ops in order, and properties shared by every plan of them.

    Attributes:
        device: device of the plan.
        ops: in schedule order.
        n_buffers: number of buffers of a plan, including inputs.
        planned_bytes: size of each buffer in bytes, for the largest values of variables.
        output_indices: buffer index of each output.
        kernels: index of each kernel in `ops`, the kernel, and its launch sizes if they are
            constant.
        dependencies: dependencies between the ops.
        views: ops that are verified at each run.
        view_indices: buffers that are views.
        loops: index of each loop in `ops`, and its form.
        users: for each buffer, the indices of the kernels that take it, and the argument positions.
        loop_users: for each buffer, the same for loops.
        written: buffers that kernels, copies and loops write.
        writes_inputs: whether an execution writes inputs that are not donated.
        bounds: bounds of each settable variable.
        values: initial value of each variable.
        uneven_names: variables with several initial values.
        levels: indices into `ops`; ops of one level are independent.
        memory_report: result of memory planning.
        donated_indices: inputs that an execution may overwrite.
        guarded_indices: buffers that the guard of a plan reads.
    """

    def __init__(
        self,
        draft: PlanDraft,
        dependencies: Dependencies,
        inputs: Sequence[Buffer],
        input_ids: Sequence[int] | None = None,
    ) -> None:
        ops, buffers = tuple(draft.ops), draft.buffers
        self.device, self.ops, self.memory_report = draft.device, ops, draft.memory_report
        self.donated_indices, self.guarded_indices = (
            tuple(draft.donated_indices),
            tuple(draft.guarded_indices),
        )
        self.n_buffers, self.output_indices = len(buffers), tuple(draft.output_indices)
        self.planned_bytes = [buffer.nbytes for buffer in buffers]
        position_of = {ast_id: position for position, ast_id in enumerate(input_ids or ())}
        # An alias id that is the id of an input belongs to this first plan only, so its position is
        # stored instead.
        self._aliases = [(ast_id, position_of.get(ast_id)) for ast_id in draft.alias_ids]
        kernels = [(index, op) for index, op in enumerate(ops) if isinstance(op, PreparedKernel)]
        self.kernels = [(index, op, find_constant_sizes(op)) for index, op in kernels]
        self.loops = list_loop_forms(ops)
        self._has_constant_sizes = all(sizes is not None for *_, sizes in self.kernels)
        self._arrangement: Arrangement | None = None
        self.views = [op for op in ops if isinstance(op, PreparedBufferView)]
        self.view_indices = {op.buffer_indices[0] for op in self.views}
        self.users = _get_users(op for _, op in kernels)
        self.loop_users = _get_users(form.op for _, form in self.loops)
        self.written = {index for op in ops for index in get_written(op)}
        self.bounds, (self.values, self.uneven_names) = collect_bounds(ops), get_initial_values(ops)
        self.dependencies = dependencies
        self.levels = dependencies.get_levels(buffers)
        self._specs = [_spec_of(buffer) for buffer in inputs]
        self._sharing = find_sharing(inputs)
        self._factories, self._locations = _describe_memory(buffers, inputs)
        self._written_inputs = [
            p.base
            for i, p in enumerate(self._locations)
            if i in self.written and p.base < len(inputs)
        ]
        # Compared by memory: an op may write a view of a donated input.
        donated = {self._locations[index].base for index in self.donated_indices}
        self.writes_inputs = not donated.issuperset(self._written_inputs)
        self._input_indices = self._get_input_indices(buffers, inputs)
        named = set(self._input_indices)
        self._ids = dict(draft.ast_to_buffer)
        self._non_input_ids = {
            ast_id: index for ast_id, index in self._ids.items() if index not in named
        }

    def __repr__(self) -> str:
        counts = f"{len(self.ops)} ops, {len(self.kernels)} kernels, {len(self._specs)} inputs"
        return f"{type(self).__name__}({counts} on {self.device})"

    def recycle(self, plan: object) -> None:
        """Ignore a plan without other references: a form builds no plans that could reuse it."""

    @cached_property
    def spare_bytes(self) -> int | None:
        """Bytes of the intermediates, if inputs and outputs may be smaller than planned; else None.

        They may be smaller if all ops are kernels, and no input or output shares memory with other
        buffers.
        """
        n_inputs, n_users = len(self._specs), Counter(location.base for location in self._locations)
        outputs = self._sized_outputs
        named = {n_inputs + index for index in outputs if index is not None}
        is_whole = all(
            view is None and (base < n_inputs or n_users[base] == 1)
            for base, view in self._locations
            if base < n_inputs or base in named
        )
        # Two outputs on one memory, or one in an input, cannot change their sizes independently.
        is_own = None not in outputs and len(named) == len(outputs)
        if not (is_whole and is_own) or len(self.kernels) < len(self.ops) or self.donated_indices:
            return None
        return sum(
            make().nbytes
            for index, make in enumerate(self._factories)
            if n_inputs + index not in named
        )

    @cached_property
    def _sized_outputs(self) -> list[int | None]:
        """Index of each output's memory among the allocations; None for an output in an input."""
        n_inputs, bases = (
            len(self._specs),
            [self._locations[index].base for index in self.output_indices],
        )
        return [base - n_inputs if base >= n_inputs else None for base in bases]

    def allocate_buffers(
        self, inputs: Sequence[Buffer], output_sizes: Sequence[int] | None = None
    ) -> list[Buffer]:
        """Return the buffers of a plan on these inputs, with new memory for all other buffers.

        Args:
            inputs: each equal in size, dtype and device to the input of the form.
            output_sizes: number of elements of each output, only with `spare_bytes`; inputs may
                then be smaller, too.

        Raises:
            PlanError: if an input has another size, dtype or device, is written but read-only, or
                if inputs share memory with each other differently than the inputs of the form.
            OutOfMemoryError: if a buffer cannot be allocated.
        """
        # Before any allocation, so that an error leaves no memory behind.
        self._check_inputs(inputs, may_be_smaller=output_sizes is not None)
        allocated = [make() for make in self._factories]
        for index, size in zip(self._sized_outputs, output_sizes or (), strict=False):
            assert index is not None
            allocated[index] = Buffer(allocated[index].allocator, allocated[index].dtype, size)
        bases = [*inputs, *allocated]
        return [_make_view(bases[base], view) for base, view in self._locations]

    def copy_buffers(self, buffers: Sequence[Buffer]) -> list[Buffer]:
        """Return buffers for another plan: the same inputs, new memory for all other buffers."""
        n_inputs = len(self._specs)
        new = [make() for make in self._factories]
        copies: list[Buffer] = []
        for own, (base, view) in zip(buffers, self._locations, strict=True):
            if base < n_inputs:
                copies.append(own)
            elif view is None and own.size < new[base - n_inputs].size:
                # An output that the values of variables make smaller than the template's.
                copies.append(Buffer.make_factory(own.allocator, own.dtype, own.size)())
            else:
                copies.append(_make_view(new[base - n_inputs], view))
        return copies

    def _check_inputs(self, inputs: Sequence[Buffer], *, may_be_smaller: bool = False) -> None:
        if len(inputs) != len(self._specs):
            raise PlanError(
                op="plan", problem=f"expected {len(self._specs)} inputs, got {len(inputs)}"
            )
        for position, (buffer, spec) in enumerate(zip(inputs, self._specs, strict=True)):
            # Only the maximum size is known here: exact sizes depend on the values of variables.
            nbytes = spec[0] if may_be_smaller and buffer.nbytes < spec[0] else buffer.nbytes
            if (nbytes, buffer.dtype, buffer.device) != spec:
                raise PlanError(
                    op="plan", problem=f"input {position} must be {_show_spec(spec)}, got {buffer}"
                )
        for position in self._written_inputs:
            if not inputs[position].is_writable:
                raise PlanError(
                    op="plan",
                    problem=f"input {position} is written, but {inputs[position]} is read-only",
                )
        # Levels follow from the hazards of this sharing. With another, ops of one level might
        # conflict.
        if find_sharing(inputs) != self._sharing:
            raise PlanError(
                op="plan",
                problem="inputs share memory with each other differently than the"
                " template's inputs",
            )

    def _get_input_indices(
        self, buffers: Sequence[Buffer], inputs: Sequence[Buffer]
    ) -> list[int | None]:
        """Buffer index of each input: equal inputs share an index, an unused input has None."""
        index_of = {
            _identify(b): i
            # Reversed, so that the first of several equal buffers wins.
            for i, b in reversed(list(enumerate(buffers)))
            if i not in self.view_indices
        }
        return [index_of.get(_identify(buffer)) for buffer in inputs]

    def arrange(self, levels: list[list[int]], states: Sequence[KernelState]) -> Arrangement:
        """Arrangement of the ops; shared by all plans unless launch sizes vary or a plan has its
        own levels.
        """
        # Compared by identity: only a plan with a sharing pattern of its own has other levels.
        if levels is not self.levels or not self._has_constant_sizes:
            return arrange(self.ops, levels, states, [form.launcher for _, form in self.loops])
        # Made with the first plan, since it needs kernel states; it depends on nothing else of
        # them.
        if self._arrangement is None:
            self._arrangement = arrange(
                self.ops, levels, states, [form.launcher for _, form in self.loops]
            )
        return self._arrangement

    def map_ids(self, input_ids: Sequence[int] | None) -> dict[int, int]:
        """Return the mapping from AST id to buffer index, with these ids for the inputs."""
        if input_ids is None:
            return dict(self._ids)
        indices = zip(input_ids, self._input_indices, strict=True)
        return {
            **{ast_id: index for ast_id, index in indices if index is not None},
            **self._non_input_ids,
        }

    def map_aliases(self, input_ids: Sequence[int] | None) -> list[int]:
        """Return the additional ids that `release_*` reports, with these ids for the inputs."""
        if input_ids is None:
            return [ast_id for ast_id, _ in self._aliases]
        return [
            ast_id if position is None else input_ids[position]
            for ast_id, position in self._aliases
        ]


Sharing = tuple[tuple[int, int, int], ...]
Spec = tuple[int, DType, str]


def find_sharing(buffers: Sequence[Buffer]) -> Sharing | None:
    """Describe how buffers share memory with each other; None if they do not.

    Returns:
        for each buffer, the index of the first buffer on its storage, the offset from that buffer in
        bytes, and the size in bytes.
    """
    # The usual case, on the path of every `realize`, without the table below.
    if len(buffers) < 2 or len({buffer.storage_id for buffer in buffers}) == len(buffers):
        return None
    first: dict[int, int] = {}
    first_positions = [
        first.setdefault(buffer.storage_id, position) for position, buffer in enumerate(buffers)
    ]
    return tuple(
        (p, b.offset - buffers[p].offset, b.nbytes)
        for p, b in zip(first_positions, buffers, strict=True)
    )


def _spec_of(buffer: Buffer) -> Spec:
    return buffer.nbytes, buffer.dtype, buffer.device


def _identify(buffer: Buffer) -> tuple[int, int, Spec]:
    return buffer.storage_id, buffer.offset, _spec_of(buffer)


def _show_spec(spec: Spec) -> str:
    return f"{spec[0]} bytes of {spec[1]} on {spec[2]}"


class _Location(NamedTuple):
    """Memory of a buffer: an input or a new allocation (numbered after the inputs), or a part of
    one.
    """

    base: int
    view: tuple[int, int, DType] | None


def _make_view(base: Buffer, view: tuple[int, int, DType] | None) -> Buffer:
    return (base if view is None else base.view(*view)).ensure_allocated()


def _describe_memory(
    buffers: Sequence[Buffer], inputs: Sequence[Buffer]
) -> tuple[list[Callable[[], Buffer]], list[_Location]]:
    """Factories of the memory that is not an input, and the location of each buffer."""
    factories: list[Callable[[], Buffer]] = []
    new: dict[int, tuple[int, DType]] = {}
    # Reversed, so that the first of several equal inputs wins.
    position_of = {id(buffer): position for position, buffer in reversed(list(enumerate(inputs)))}
    on_storage: dict[int, list[int]] = {}
    for position, buffer in enumerate(inputs):
        on_storage.setdefault(buffer.storage_id, []).append(position)
    locations: list[_Location] = []
    for buffer in buffers:
        position = position_of.get(id(buffer))
        if position is None:
            candidates = on_storage.get(buffer.storage_id, ())
            position = next((p for p in candidates if _contains(inputs[p], buffer)), None)
        if position is not None:
            base, offset, base_spec = (
                position,
                buffer.offset - inputs[position].offset,
                _spec_of(inputs[position]),
            )
        else:
            if buffer.storage_id not in new:
                is_whole = buffer.nbytes == buffer.storage_nbytes
                new[buffer.storage_id] = (
                    len(inputs) + len(factories),
                    # If the first handle is a view, its dtype need not divide the storage; bytes
                    # always do.
                    buffer.dtype if is_whole else uint8,
                )
                factories.append(_make_factory(buffer, new[buffer.storage_id][1]))
            base, dtype = new[buffer.storage_id]
            offset, base_spec = buffer.offset, (buffer.storage_nbytes, dtype, buffer.device)
        view = None if _spec_of(buffer) == base_spec else (offset, buffer.nbytes, buffer.dtype)
        locations.append(_Location(base, view))
    return factories, locations


def _contains(outer: Buffer, inner: Buffer) -> bool:
    """True if `inner` lies within `outer`, on the same storage."""
    return (
        outer.offset <= inner.offset and inner.offset + inner.nbytes <= outer.offset + outer.nbytes
    )


def _make_factory(buffer: Buffer, dtype: DType) -> Callable[[], Buffer]:
    # Read here, so that the factory does not hold the buffer: a template keeps no memory alive.
    allocator, size = buffer.allocator, buffer.storage_nbytes // dtype.nbytes
    return lambda: Buffer(allocator, dtype, size)


def _get_users(ops: Iterable[PreparedKernel | PreparedLoop]) -> dict[int, list[tuple[int, int]]]:
    users: dict[int, list[tuple[int, int]]] = {}
    for user, op in enumerate(ops):
        for position, index in enumerate(op.buffer_indices):
            users.setdefault(index, []).append((user, position))
    return users
