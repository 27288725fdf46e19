"""`PlanForm`: what holds for every plan of a template: ops, levels, who takes which buffer, and how
much memory there must be.
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
from svod_runtime.memory.plan_parts import PlanParts
from svod_runtime.ops.prepared import PreparedBufferView, PreparedKernel, PreparedLoop, get_written
from svod_runtime.ops.variables import collect_bounds, get_initial_values

if TYPE_CHECKING:
    from svod_runtime.ops.dependencies import Dependencies

__all__ = ["PlanForm", "find_sharing"]


class PlanForm:
    """Prepared ops, in order, and what holds for every plan made of them.

    Attributes:
        device: the plan's own.
        ops: in schedule order.
        n_buffers: of a plan, the inputs included.
        output_indices: the index of each output among them.
        kernels: the index of each kernel in `ops`, the kernel, and its launch sizes where they are
            always the same.
        dependencies: who waits for whom.
        views: the ops that must be verified at each run.
        view_indices: the buffers that are views.
        loops: the index of each loop in `ops`, and what is known of it.
        users: for each buffer the kernels (their number) that take it, and the position at which
            they do.
        loop_users: the same of loops.
        written: the buffers that kernels, copies and loops write.
        writes_inputs: whether memory is among them that was there before, and is not given away.
        bounds: of each variable that a caller may set.
        values: of each variable as long as no caller set it.
        uneven_names: the variables that have several such values.
        levels: indices into `ops`; the ops of one level do not depend on each other.
        memory_report: what the memory planner made of the intermediates.
        donated_indices: the inputs that an execution may overwrite.
        guarded_indices: the buffers that a plan's guard looks at.
    """

    def __init__(
        self,
        parts: PlanParts,
        dependencies: Dependencies,
        inputs: Sequence[Buffer],
        input_ids: Sequence[int] | None = None,
    ) -> None:
        ops, buffers = tuple(parts.ops), parts.buffers
        self.device, self.ops, self.memory_report = parts.device, ops, parts.memory_report
        self.donated_indices, self.guarded_indices = (
            tuple(parts.donated_indices),
            tuple(parts.guarded_indices),
        )
        self.n_buffers, self.output_indices = len(buffers), tuple(parts.output_indices)
        position_of = {ast_id: position for position, ast_id in enumerate(input_ids or ())}
        self._aliases = [(ast_id, position_of.get(ast_id)) for ast_id in parts.alias_ids]
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
        self._forms = [_form_of(buffer) for buffer in inputs]
        self._sharing = find_sharing(inputs)
        self._makers, self._places = _describe_memory(buffers, inputs)
        self._written_inputs = [
            p.base for i, p in enumerate(self._places) if i in self.written and p.base < len(inputs)
        ]
        given_away = {self._places[index].base for index in self.donated_indices}
        self.writes_inputs = not given_away.issuperset(self._written_inputs)
        self._input_indices = self._get_input_indices(buffers, inputs)
        named = set(self._input_indices)
        self._ids = dict(parts.ast_to_buffer)
        self._other_ids = {
            ast_id: index for ast_id, index in self._ids.items() if index not in named
        }

    def __repr__(self) -> str:
        counts = f"{len(self.ops)} ops, {len(self.kernels)} kernels, {len(self._forms)} inputs"
        return f"{type(self).__name__}({counts} on {self.device})"

    def retire(self, plan: object) -> None:
        """Take back a plan that nobody else has any more.

        A form makes no plans, and has no use for it.
        """

    @cached_property
    def spare_bytes(self) -> int | None:
        """The memory of a plan that is neither input nor output, where inputs and outputs may be
        smaller; None where they may not.

        They may where there are only kernels, and inputs and outputs are no parts of other memory.
        """
        n_inputs, n_parts = len(self._forms), Counter(place.base for place in self._places)
        outputs = self._sized_outputs
        named = {n_inputs + number for number in outputs if number is not None}
        is_whole = all(
            part is None and (base < n_inputs or n_parts[base] == 1)
            for base, part in self._places
            if base < n_inputs or base in named
        )
        is_own = None not in outputs and len(named) == len(outputs)
        if not (is_whole and is_own) or len(self.kernels) < len(self.ops) or self.donated_indices:
            return None
        return sum(
            make().nbytes
            for number, make in enumerate(self._makers)
            if n_inputs + number not in named
        )

    @cached_property
    def _sized_outputs(self) -> list[int | None]:
        """For each output, which new memory it is."""
        n_inputs, bases = (
            len(self._forms),
            [self._places[index].base for index in self.output_indices],
        )
        return [base - n_inputs if base >= n_inputs else None for base in bases]

    def place(
        self, inputs: Sequence[Buffer], output_sizes: Sequence[int] | None = None
    ) -> list[Buffer]:
        """The buffers of a plan on these inputs, with new memory for everything else.

        Args:
            inputs: each like the one that the form was made with.
            output_sizes: the elements of each output, where `spare_bytes` is a number; inputs may
                then be smaller, too.

        Raises:
            PlanError: if an input has another size, dtype or device, is written but read-only, or
                if inputs share memory with each other in another way than those that the form was
                made with.
            OutOfMemoryError: if a buffer gets no memory.
        """
        self._check_inputs(inputs, may_be_smaller=output_sizes is not None)
        made = [make() for make in self._makers]
        for number, size in zip(self._sized_outputs, output_sizes or (), strict=False):
            assert number is not None
            made[number] = Buffer(made[number].allocator, made[number].dtype, size)
        bases = [*inputs, *made]
        return [_take_part(bases[base], part) for base, part in self._places]

    def copy_buffers(self, buffers: Sequence[Buffer]) -> list[Buffer]:
        """From the buffers of a plan those of another one: the same inputs, new memory for
        everything else.
        """
        n_inputs = len(self._forms)
        new = [make() for make in self._makers]
        pairs = zip(buffers, self._places, strict=True)
        return [
            own if base < n_inputs else _take_part(new[base - n_inputs], part)
            for own, (base, part) in pairs
        ]

    def _check_inputs(self, inputs: Sequence[Buffer], *, may_be_smaller: bool = False) -> None:
        if len(inputs) != len(self._forms):
            raise PlanError(
                op="plan", problem=f"takes {len(self._forms)} inputs, got {len(inputs)}"
            )
        for position, (buffer, form) in enumerate(zip(inputs, self._forms, strict=True)):
            nbytes = form[0] if may_be_smaller and buffer.nbytes < form[0] else buffer.nbytes
            if (nbytes, buffer.dtype, buffer.device) != form:
                raise PlanError(
                    op="plan",
                    problem=f"input {position} is {_show_form(form)}, which {buffer} cannot be",
                )
        for position in self._written_inputs:
            if not inputs[position].is_writable:
                raise PlanError(
                    op="plan",
                    problem=f"input {position} is written, but {inputs[position]} is read-only",
                )
        if find_sharing(inputs) != self._sharing:
            raise PlanError(op="plan", problem="inputs share memory with each other in another way")

    def _get_input_indices(
        self, buffers: Sequence[Buffer], inputs: Sequence[Buffer]
    ) -> list[int | None]:
        """The index of each input among the buffers; equal ones have one, and one that no op uses
        has none.
        """
        index_of = {
            _identify(b): i
            for i, b in reversed(list(enumerate(buffers)))
            if i not in self.view_indices
        }
        return [index_of.get(_identify(buffer)) for buffer in inputs]

    def arrange(self, levels: list[list[int]], states: Sequence[KernelState]) -> Arrangement:
        """What each call of a plan runs; the same for all plans unless launch sizes, or levels of
        their own, say otherwise.
        """
        if levels is not self.levels or not self._has_constant_sizes:
            return arrange(self.ops, levels, states, [form.launcher for _, form in self.loops])
        if self._arrangement is None:
            self._arrangement = arrange(
                self.ops, levels, states, [form.launcher for _, form in self.loops]
            )
        return self._arrangement

    def map_ids(self, input_ids: Sequence[int] | None) -> dict[int, int]:
        """AST id -> index of the buffer, with these ids for the inputs."""
        if input_ids is None:
            return dict(self._ids)
        indices = zip(input_ids, self._input_indices, strict=True)
        return {
            **{ast_id: index for ast_id, index in indices if index is not None},
            **self._other_ids,
        }

    def map_aliases(self, input_ids: Sequence[int] | None) -> list[int]:
        """The ids that releasing reports besides the buffers' own, with these ids for the
        inputs.
        """
        if input_ids is None:
            return [ast_id for ast_id, _ in self._aliases]
        return [
            ast_id if position is None else input_ids[position]
            for ast_id, position in self._aliases
        ]


Sharing = tuple[tuple[int, int, int], ...]
Form = tuple[int, DType, str]


def find_sharing(buffers: Sequence[Buffer]) -> Sharing | None:
    """How buffers share memory with each other: None if they do not.

    Otherwise for each the first one on its storage, the distance between the two, and its size.
    """
    if len(buffers) < 2 or len({buffer.storage_id for buffer in buffers}) == len(buffers):
        return None
    first: dict[int, int] = {}
    places = [
        first.setdefault(buffer.storage_id, position) for position, buffer in enumerate(buffers)
    ]
    return tuple(
        (p, b.offset - buffers[p].offset, b.nbytes) for p, b in zip(places, buffers, strict=True)
    )


def _form_of(buffer: Buffer) -> Form:
    return buffer.nbytes, buffer.dtype, buffer.device


def _identify(buffer: Buffer) -> tuple[int, int, Form]:
    return buffer.storage_id, buffer.offset, _form_of(buffer)


def _show_form(form: Form) -> str:
    return f"{form[0]} bytes of {form[1]} on {form[2]}"


class _Place(NamedTuple):
    """Where a buffer is: all of an input or of new memory (numbered after the inputs), or a part of
    it.
    """

    base: int
    part: tuple[int, int, DType] | None


def _take_part(base: Buffer, part: tuple[int, int, DType] | None) -> Buffer:
    return (base if part is None else base.view(*part)).ensure_allocated()


def _describe_memory(
    buffers: Sequence[Buffer], inputs: Sequence[Buffer]
) -> tuple[list[Callable[[], Buffer]], list[_Place]]:
    """How to make the memory that is no input, and where each buffer is."""
    makers: list[Callable[[], Buffer]] = []
    new: dict[int, tuple[int, DType]] = {}
    position_of = {id(buffer): position for position, buffer in reversed(list(enumerate(inputs)))}
    on_storage: dict[int, list[int]] = {}
    for position, buffer in enumerate(inputs):
        on_storage.setdefault(buffer.storage_id, []).append(position)
    places: list[_Place] = []
    for buffer in buffers:
        position = position_of.get(id(buffer))
        if position is None:
            beside = on_storage.get(buffer.storage_id, ())
            position = next((p for p in beside if _contains(inputs[p], buffer)), None)
        if position is not None:
            base, offset, whole = (
                position,
                buffer.offset - inputs[position].offset,
                _form_of(inputs[position]),
            )
        else:
            if buffer.storage_id not in new:
                is_whole = buffer.nbytes == buffer.storage_nbytes
                new[buffer.storage_id] = (
                    len(inputs) + len(makers),
                    buffer.dtype if is_whole else uint8,
                )
                makers.append(_make_maker(buffer, new[buffer.storage_id][1]))
            base, dtype = new[buffer.storage_id]
            offset, whole = buffer.offset, (buffer.storage_nbytes, dtype, buffer.device)
        part = None if _form_of(buffer) == whole else (offset, buffer.nbytes, buffer.dtype)
        places.append(_Place(base, part))
    return makers, places


def _contains(outer: Buffer, inner: Buffer) -> bool:
    """Whether one buffer is part of another on the same storage."""
    return (
        outer.offset <= inner.offset and inner.offset + inner.nbytes <= outer.offset + outer.nbytes
    )


def _make_maker(buffer: Buffer, dtype: DType) -> Callable[[], Buffer]:
    allocator, size = buffer.allocator, buffer.storage_nbytes // dtype.nbytes
    return lambda: Buffer(allocator, dtype, size)


def _get_users(ops: Iterable[PreparedKernel | PreparedLoop]) -> dict[int, list[tuple[int, int]]]:
    users: dict[int, list[tuple[int, int]]] = {}
    for number, op in enumerate(ops):
        for position, index in enumerate(op.buffer_indices):
            users.setdefault(index, []).append((number, position))
    return users
