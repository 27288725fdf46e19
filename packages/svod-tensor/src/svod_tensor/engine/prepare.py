"""prepare: `Schedule` + loaded kernels → what a plan is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from svod_device import Buffer, ProgramSpec, Variable
from svod_ir import Op, UOp
from svod_runtime import (
    CachedKernel,
    ExecutionPlanBuilder,
    PreparedBufferView,
    PreparedCopy,
    PreparedCustomFunction,
    PreparedKernel,
    PreparedOp,
)
from svod_tensor.engine.arguments import has_partial_store, list_slots
from svod_tensor.engine.schedule import Place, Schedule, ScheduleItem, effect_of, is_disk, place_of
from svod_tensor.errors import BufferNotFoundError, EmptyScheduleError, ProgramMetadataError, ViewBoundsError

__all__ = ["prepare"]


def prepare(schedule: Schedule, kernels: Mapping[Place, CachedKernel]) -> ExecutionPlanBuilder:
    """What runs `schedule`: each item as a prepared op, with its arguments in the kernel's order.

    Raises:
        ViewBoundsError: if a view leaves its base.
        ProgramMetadataError: if a compiled kernel contradicts its call.
        BufferNotFoundError: if nothing fills an output.
        EmptyScheduleError: if there is nothing to run.
    """
    if not schedule.items:
        raise EmptyScheduleError(n_tensors=len(schedule.output_ids))
    items = schedule.items
    builder = ExecutionPlanBuilder(_main_device(items))
    memory = {number: b for item in items for number, b in zip(item.buffer_ids, item.buffers, strict=True)}
    index_of = {number: builder.add_buffer(number, buffer) for number, buffer in (memory | dict(schedule.kept)).items()}
    views: dict[int, Buffer] = {}
    for item in items:
        indices = [index_of[i] for i in item.buffer_ids]
        if effect_of(item.ast).op is Op.BUFFER_VIEW:
            # A view may be the base of another one.
            views[indices[0]] = _make_view(item, views.get(indices[1], item.buffers[1]))
            builder.replace_buffer(indices[0], views[indices[0]])
        builder.add_op(_prepare_op(item, indices, kernels.get(place_of(item))), item.dependencies)
    missing = next((i for i in schedule.output_ids if i not in index_of), None)
    if missing is not None:
        raise BufferNotFoundError(node=f"output {missing}")
    outputs = [index_of[i] for i in schedule.output_ids]
    n_results = len(outputs) - schedule.n_guarded
    builder.set_output_buffers(outputs[:n_results])
    builder.set_guarded_buffers(outputs[n_results:])
    aliases = dict.fromkeys(i for item in items for i in item.alias_ids)
    builder.add_alias_ids(i for i in aliases if i not in index_of)
    owners = {index_of[output]: index_of[given] for output, given in schedule.owners.items()}
    builder.set_donated_buffers((index_of[i] for i in schedule.donated_ids if i in index_of), owners)
    return builder


def _main_device(items: Sequence[ScheduleItem]) -> str:
    return next((b.device for item in items for b in item.buffers if not is_disk(b.device)), "CPU")


def _prepare_op(item: ScheduleItem, indices: list[int], kernel: CachedKernel | None) -> PreparedOp:
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
                item.kernel_id, effect.arg, tuple(indices), effect.src, variables, _loop_values(item), values=item.fixedvars
            )  # fmt: skip
        case _:
            assert kernel is not None
            return _prepare_launch(item, indices, kernel)


def _make_view(item: ScheduleItem, base: Buffer) -> Buffer:
    """The part of `base` that a BUFFER_VIEW names."""
    effect = effect_of(item.ast)
    offset, nbytes = _view_bytes(effect)
    if offset < 0 or offset + nbytes > base.nbytes:
        raise ViewBoundsError(
            kernel=item.kernel_id, base_id=item.buffer_ids[1], base_bytes=base.nbytes, offset_bytes=offset, size_bytes=nbytes
        )  # fmt: skip
    return base.view(offset, nbytes, effect.dtype)


def _view_bytes(effect: UOp) -> tuple[int, int]:
    offset, size = effect.arg
    return offset, size * effect.dtype.itemsize


def _prepare_launch(item: ScheduleItem, indices: list[int], kernel: CachedKernel) -> PreparedKernel:
    spec = kernel.spec
    place = {slot: position for position, slot in enumerate(list_slots(item.kernel))}
    _check_metadata(item, spec, place)
    position_of = {slot: position for position, slot in enumerate(spec.globals)}
    return PreparedKernel(
        item.kernel_id, kernel, spec.device,
        buffer_indices=tuple(indices[place[slot]] for slot in spec.globals),
        output_indices=tuple(sorted({position_of[slot] for slot in spec.outs})),
        values=tuple(item.fixedvars.get(name, _lowest(spec, name)) for name in spec.var_names),
        fixedvars=_loop_values(item),
        is_partial=item.ast.op is not Op.SINK or has_partial_store(item.ast),
    )  # fmt: skip


def _loop_values(item: ScheduleItem) -> dict[str, int]:
    return {name: item.fixedvars[name] for name in item.loop_var_names}


def _lowest(spec: ProgramSpec, name: str) -> int:
    # A variable that nobody bound: any value within its bounds, until a caller sets one.
    return next(v.min for v in spec.variables if v.name == name)


def _check_metadata(item: ScheduleItem, spec: ProgramSpec, place: Mapping[int, int]) -> None:
    """Each inconsistency between a compiled kernel and its call is an error of its own."""
    n_buffers = len(item.buffers)
    problem = None
    if n_buffers == 0:
        problem = "its call has no buffers"
    elif not spec.globals:
        problem = "it takes no buffers"
    elif not spec.outs:
        problem = "it writes nothing"
    elif missing := [slot for slot in spec.outs if slot not in spec.globals]:
        problem = f"it writes slot {missing[0]}, which it does not take"
    elif beyond := [slot for slot in spec.globals if place.get(slot, n_buffers) >= n_buffers]:
        problem = f"it takes slot {beyond[0]}, which its call does not have"
    if problem is not None:
        raise ProgramMetadataError(
            problem=problem, kernel=spec.name, globals_=spec.globals, outs=spec.outs, n_buffers=n_buffers
        )
