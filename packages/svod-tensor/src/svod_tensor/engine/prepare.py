"""prepare: `Schedule` + loaded kernels → builder of a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from svod_device import Buffer, ProgramSpec, Variable
from svod_ir import Op, RepeatArg, UOp
from svod_runtime import (
    Binding,
    CachedKernel,
    Carried,
    CarriedIn,
    CarriedOut,
    ExecutionPlanBuilder,
    LoopBody,
    PreparedBufferView,
    PreparedCopy,
    PreparedCustomFunction,
    PreparedKernel,
    PreparedLoop,
    PreparedOp,
    Slice,
    Whole,
)
from svod_tensor.engine.arguments import has_partial_store, iter_arguments, list_slots
from svod_tensor.engine.schedule import (
    KernelTarget,
    Schedule,
    ScheduleItem,
    effect_of,
    find_param_slot,
    is_disk,
    kernel_target_of,
)
from svod_tensor.errors import (
    BufferNotFoundError,
    EmptyScheduleError,
    ProgramMetadataError,
    ViewBoundsError,
)

__all__ = ["prepare"]


def prepare(
    schedule: Schedule, kernels: Mapping[KernelTarget, CachedKernel]
) -> ExecutionPlanBuilder:
    """Build the plan of `schedule`: each item as a prepared op, with its arguments in the kernel's
    order.

    Raises:
        ViewBoundsError: if a view exceeds its base.
        ProgramMetadataError: if a compiled kernel contradicts its call.
        BufferNotFoundError: if no item fills an output.
        EmptyScheduleError: if the schedule is empty.
    """
    if not schedule.items:
        raise EmptyScheduleError(n_tensors=len(schedule.output_ids))
    items = schedule.items
    builder = ExecutionPlanBuilder(_main_device(items))
    table = _BufferTable(schedule)
    for buffer_id, buffer in zip(table.index_of, table.buffers, strict=True):
        builder.add_buffer(buffer_id, buffer)
    for item in items:
        builder.add_op(_prepare_op(item, table, kernels), item.dependencies)
    index_of = table.index_of
    missing = next((i for i in schedule.output_ids if i not in index_of), None)
    if missing is not None:
        raise BufferNotFoundError(node=f"output {missing}")
    outputs = [index_of[i] for i in schedule.output_ids]
    n_results = len(outputs) - schedule.n_guarded
    builder.set_output_buffers(outputs[:n_results])
    builder.set_guarded_buffers(outputs[n_results:])
    aliases = dict.fromkeys(i for item in items for i in item.alias_ids)
    builder.add_alias_ids(i for i in aliases if i not in index_of)
    owners = {index_of[output]: index_of[donated] for output, donated in schedule.owners.items()}
    builder.set_donated_buffers(
        (index_of[i] for i in schedule.donated_ids if i in index_of), owners
    )
    return builder


def _main_device(items: Sequence[ScheduleItem]) -> str:
    # A DISK device runs nothing.
    return next((b.device for item in items for b in item.buffers if not is_disk(b.device)), "CPU")


class _BufferTable:
    """The buffers of a schedule, including views, and their indices."""

    def __init__(self, schedule: Schedule) -> None:
        memory = {
            n: b
            for item in schedule.items
            for n, b in zip(item.buffer_ids, item.buffers, strict=True)
        }
        # Inputs that are outputs may be read by no item.
        memory |= schedule.kept
        self.index_of = {buffer_id: index for index, buffer_id in enumerate(memory)}
        self.buffers = list(memory.values())
        views: dict[int, Buffer] = {}
        for item in schedule.items:
            if item.body is None and effect_of(item.ast).op is Op.BUFFER_VIEW:
                view, base = item.buffer_ids[:2]
                # A view may be the base of another one.
                self.buffers[self.index_of[view]] = views[view] = _make_view(
                    item, views.get(base, item.buffers[1])
                )

    def list_indices(self, item: ScheduleItem) -> list[int]:
        return [self.index_of[buffer_id] for buffer_id in item.buffer_ids]


def _prepare_op(
    item: ScheduleItem, table: _BufferTable, kernels: Mapping[KernelTarget, CachedKernel]
) -> PreparedOp:
    indices = table.list_indices(item)
    if item.body is not None:
        return _prepare_loop(item, item.body, indices, kernels)
    # These three run without a compiled program; everything else is a kernel.
    effect = effect_of(item.ast)
    match effect.op:
        case Op.COPY:
            return PreparedCopy(item.kernel_id, tuple(indices))
        case Op.BUFFER_VIEW:
            offset, nbytes = _view_bytes(effect)
            return PreparedBufferView(item.kernel_id, tuple(indices), offset, nbytes)
        case Op.CUSTOM_FUNCTION:
            variables = tuple(Variable(*n.arg) for n in effect.iter_ops(Op.DEFINE_VAR))
            return PreparedCustomFunction(
                item.kernel_id,
                effect.arg,
                tuple(indices),
                effect.src,
                variables,
                _loop_values(item),
                values=item.fixedvars,
            )
        case _:
            return _prepare_launch(item, indices, kernels[kernel_target_of(item)])


def _prepare_loop(
    item: ScheduleItem,
    body: Schedule,
    indices: list[int],
    kernels: Mapping[KernelTarget, CachedKernel],
) -> PreparedLoop:
    repeat: RepeatArg = item.kernel.arg
    table = _BufferTable(body)
    ops: list[PreparedOp] = []
    for inner in body.items:
        # By id, since positions in a body are not positions in the plan.
        needed = tuple(body.items[position].kernel_id for position in inner.dependencies)
        ops.append(replace(_prepare_op(inner, table, kernels), dependencies=needed))
    n_results = repeat.n_carried + repeat.n_stacked
    n_written = n_results + len(repeat.spares)
    spares = {position: n_results + i for i, position in enumerate(repeat.spares)}
    count = item.count
    assert count is not None
    names = [variable.arg.name for variable in count.iter_ops(Op.DEFINE_VAR)]
    return PreparedLoop(
        item.kernel_id,
        buffer_indices=tuple(indices),
        output_indices=(
            *range(n_written),
            *(n_written + slot for slot in _list_overwritten(repeat, body)),
        ),
        body=LoopBody(
            tuple(table.buffers),
            tuple(ops),
            _list_bindings(repeat, body, table, n_written),
            tuple(Carried(n_written + k, k, spares.get(k)) for k in range(repeat.n_carried)),
            repeat.counter,
            repeat.is_reversed,
            table.index_of[body.output_ids[n_results]] if repeat.is_conditional else None,
        ),
        count=None if repeat.is_count_read else count,
        # A computed trip count is the last operand (`RepeatArg.is_count_read`).
        count_position=len(indices) - 1 if repeat.is_count_read else None,
        branch=repeat.branch,
        n_branches=repeat.n_branches,
        fixedvars=_loop_values(item),
        values={name: item.fixedvars[name] for name in names if name in item.fixedvars},
    )


def _list_overwritten(repeat: RepeatArg, body: Schedule) -> list[int]:
    """Operands that a body writes besides the carries: private copies, which no other item reads."""
    slots = {
        find_param_slot(use.id)
        for item in body.items
        for use in iter_arguments(item)
        if use.is_written
    }
    # A carry with a spare alternates between two buffers, and is not overwritten in place.
    in_place = set(range(repeat.n_carried)).difference(repeat.spares)
    return sorted(slot for slot in slots if slot is not None and slot not in in_place)


def _list_bindings(
    repeat: RepeatArg, body: Schedule, table: _BufferTable, first: int
) -> tuple[Binding | None, ...]:
    """The memory that each buffer of a body is bound to; `first` is the position of the first
    operand among the loop's buffers.
    """
    # None: an intermediate of the body, the same memory in each iteration.
    bindings: list[Binding | None] = [None] * len(table.buffers)
    for position, buffer_id in enumerate(body.output_ids[: repeat.n_carried + repeat.n_stacked]):
        is_carried = position < repeat.n_carried
        bindings[table.index_of[buffer_id]] = (
            CarriedOut(position) if is_carried else Slice(position)
        )
    for buffer_id, index in table.index_of.items():
        slot = find_param_slot(buffer_id)
        if slot is None:
            continue
        if slot < repeat.n_carried:
            bindings[index] = CarriedIn(slot)
        else:
            is_sliced = slot < repeat.n_carried + repeat.n_sliced
            bindings[index] = Slice(first + slot) if is_sliced else Whole(first + slot)
    return tuple(bindings)


def _make_view(item: ScheduleItem, base: Buffer) -> Buffer:
    """The view of `base` that a BUFFER_VIEW selects."""
    effect = effect_of(item.ast)
    offset, nbytes = _view_bytes(effect)
    if offset < 0 or offset + nbytes > base.nbytes:
        raise ViewBoundsError(
            kernel=item.kernel_id,
            base_id=item.buffer_ids[1],
            base_bytes=base.nbytes,
            offset_bytes=offset,
            size_bytes=nbytes,
        )
    return base.view(offset, nbytes, effect.dtype)


def _view_bytes(effect: UOp) -> tuple[int, int]:
    offset, size = effect.arg
    return offset, size * effect.dtype.itemsize


def _prepare_launch(item: ScheduleItem, indices: list[int], kernel: CachedKernel) -> PreparedKernel:
    spec = kernel.spec
    # Matched by slot: a compiled kernel may have fewer parameters than its call has arguments.
    index_of_slot = {slot: position for position, slot in enumerate(list_slots(item.kernel))}
    # A plan passes raw addresses. A wrong slot would corrupt memory instead of raising an error.
    _check_metadata(item, spec, index_of_slot)
    position_of = {slot: position for position, slot in enumerate(spec.globals)}
    return PreparedKernel(
        item.kernel_id,
        kernel,
        spec.device,
        buffer_indices=tuple(indices[index_of_slot[slot]] for slot in spec.globals),
        output_indices=tuple(sorted({position_of[slot] for slot in spec.outs})),
        values=tuple(item.fixedvars.get(name, _get_minimum(spec, name)) for name in spec.var_names),
        fixedvars=_loop_values(item),
        is_partial=item.ast.op is not Op.SINK or has_partial_store(item.ast),
    )


def _loop_values(item: ScheduleItem) -> dict[str, int]:
    return {name: item.fixedvars[name] for name in item.loop_var_names}


def _get_minimum(spec: ProgramSpec, name: str) -> int:
    # An unbound variable: any value within its bounds, until a caller sets one.
    return next(v.min for v in spec.variables if v.name == name)


def _check_metadata(
    item: ScheduleItem, spec: ProgramSpec, index_of_slot: Mapping[int, int]
) -> None:
    """Raise if a compiled kernel contradicts its call."""
    n_buffers = len(item.buffers)
    problem = None
    if n_buffers == 0:
        problem = "its call has no buffers"
    elif not spec.globals:
        problem = "it has no buffer parameters"
    elif not spec.outs:
        problem = "it writes nothing"
    elif missing := [slot for slot in spec.outs if slot not in spec.globals]:
        problem = f"it writes slot {missing[0]}, which is not among its parameters"
    elif beyond := [
        slot for slot in spec.globals if index_of_slot.get(slot, n_buffers) >= n_buffers
    ]:
        problem = f"it has a parameter for slot {beyond[0]}, which its call does not have"
    if problem is not None:
        raise ProgramMetadataError(
            problem=problem,
            kernel=spec.name,
            globals_=spec.globals,
            outs=spec.outs,
            n_buffers=n_buffers,
        )
