"""prepare: `ScheduleItem`s → `ExecutionPlan`.

The second of the two spines: it calls optimize, lower, linearize, render, compile, load and plan.

Equal kernels are made once, in the process's kernel cache; the compilation of different ones overlaps.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from svod_device import Buffer, CompiledSpec, Device, ProgramSpec, Variable, get_device
from svod_dtype import InternalError
from svod_ir.log import get_logger
from svod_ir.ops import Op
from svod_ir.options import IROptions
from svod_ir.origins import Origin, format_origins
from svod_ir.rewrite import is_watched
from svod_ir.uop import UOp
from svod_runtime import (
    CachedKernel,
    ExecutionPlan,
    ExecutionPlanBuilder,
    Load,
    PlanTemplate,
    PreparedBufferView,
    PreparedCopy,
    PreparedCustomFunction,
    PreparedKernel,
    PreparedOp,
)  # fmt: skip
from svod_schedule.errors import OptError
from svod_tensor.engine import kernel_cache
from svod_tensor.engine.donated_memory import place_outputs
from svod_tensor.engine.instantiate import ScheduleItem, ScheduleResult, is_disk
from svod_tensor.engine.kernel_cache import KernelKey
from svod_tensor.engine.memory_planner import plan_memory
from svod_tensor.engine.stored_kernels import find_stored_kernel, reject_stored_kernel, store_kernel
from svod_tensor.errors import BufferNotFoundError, EmptyScheduleError, ProgramMetadataError, ViewBoundsError
from svod_tensor.python_functions.register import register_built_in
from svod_tensor.tuning.tuned import find_tuned, reject_tuned

if TYPE_CHECKING:
    from svod_ir.args import Opt
    from svod_schedule.pipeline import Context
    from svod_tensor.options import PrepareConfig
    from svod_tensor.tuning.choose import Subject

__all__ = [
    "PreparedSource",
    "device_of",
    "effect_of",
    "find_device",
    "is_kernel",
    "make_context",
    "prepare_plan",
    "prepare_template",
    "render_kernel",
]

_log = get_logger("tensor")

register_built_in()


def prepare_plan(schedule: ScheduleResult, config: PrepareConfig) -> ExecutionPlan:
    """The plan that runs `schedule` on its own buffers: those of tensors, and whatever has memory already."""
    owned = {n: b for item in schedule.items for n, b in zip(item.buffer_ids, item.buffers, strict=True)}
    inputs = [buffer for number, buffer in owned.items() if number > 0 or buffer.is_allocated]
    origins = {item.kernel_id: item.origins for item in schedule.items}
    return prepare_template(schedule, inputs, config).bind(inputs, origins=origins)


def prepare_template(
    schedule: ScheduleResult, inputs: Sequence[Buffer], config: PrepareConfig, input_ids: Sequence[int] | None = None
) -> PlanTemplate:
    """What runs `schedule` with any `inputs`: memory shared, kernels compiled, arguments in the kernels' order.

    `input_ids` are the numbers of the inputs' nodes, for templates that are bound to other nodes too.

    Raises:
        EmptyScheduleError: if there is nothing to run.
        ViewBoundsError: if a view leaves its base.
        ProgramMetadataError: if a compiled kernel contradicts its call.
    """
    if not schedule.items:
        raise EmptyScheduleError(n_tensors=len(schedule.output_ids))
    placed, owners = place_outputs(schedule)
    kernels = _prepare_kernels(placed, config)
    loads = [_find_load(item, kernels.get(_kernel_place(item)), config) for item in placed]
    items, report = plan_memory(replace(schedule, items=placed), config.memory_planner, loads, owners)
    builder = ExecutionPlanBuilder(_main_device(items))
    builder.set_memory_report(report)
    index_of = _add_buffers(builder, items, schedule.kept)
    views: dict[int, Buffer] = {}
    for item in items:
        indices = [index_of[i] for i in item.buffer_ids]
        if effect_of(item.ast).op is Op.BUFFER_VIEW:
            # A view may be the base of another one.
            views[indices[0]] = _make_view(item, views.get(indices[1], item.buffers[1]))
            builder.replace_buffer(indices[0], views[indices[0]])
        builder.add_op(_prepare_op(item, indices, kernels.get(_kernel_place(item))), item.instance_dependencies)
    missing = next((i for i in schedule.output_ids if i not in index_of), None)
    if missing is not None:
        raise BufferNotFoundError(node=f"output {missing}")
    outputs = [index_of[i] for i in schedule.output_ids]
    n_results = len(outputs) - schedule.n_guarded
    builder.set_output_buffers(outputs[:n_results])
    builder.set_guarded_buffers(outputs[n_results:])
    aliases = dict.fromkeys(i for item in items for i in item.alias_ids)
    builder.add_alias_ids(i for i in aliases if i not in index_of)
    builder.set_donated_buffers(index_of[i] for i in schedule.donated_ids if i in index_of)
    return builder.build_template(inputs, input_ids)


def _find_load(item: ScheduleItem, kernel: CachedKernel | None, config: PrepareConfig) -> Load | None:
    """What a kernel does to the cores, with variables at their largest; None for what never runs beside a kernel."""
    if kernel is None or not kernel.is_host_parallel_safe or find_device(kernel.spec.device, config).target.cores < 2:
        return None
    spec = kernel.spec
    largest = {v.name: v.max for v in spec.variables} | item.fixedvars
    n_bytes = spec.n_bytes or sum(buffer.nbytes for buffer in item.buffers)
    is_threaded = spec.launch_dims(largest).global_size[0] > 1
    return Load(kernel.launcher, is_threaded, max(n_bytes, spec.n_operations))


def _main_device(items: Sequence[ScheduleItem]) -> str:
    return next((b.device for item in items for b in item.buffers if not is_disk(b.device)), "CPU")


def _add_buffers(
    builder: ExecutionPlanBuilder, items: Sequence[ScheduleItem], kept: Mapping[int, Buffer]
) -> dict[int, int]:
    """Each buffer once, by storage identity; the outputs of views stay apart, since they are replaced later."""
    views = {item.buffer_ids[0] for item in items if effect_of(item.ast).op is Op.BUFFER_VIEW}
    index_of: dict[int, int] = {}
    by_storage: dict[tuple[int, int, int, object], int] = {}
    used = [pair for item in items for pair in zip(item.buffer_ids, item.buffers, strict=True)]
    for number, buffer in (*used, *kept.items()):
        if number in index_of:
            continue
        key = (buffer.storage_id, buffer.offset, buffer.nbytes, buffer.dtype)
        if number in views or key not in by_storage:
            index_of[number] = builder.add_buffer(number, buffer)
            if number not in views:
                by_storage[key] = index_of[number]
        else:
            index_of[number] = by_storage[key]
            builder.map_buffer(number, index_of[number])
    return index_of


def effect_of(ast: UOp) -> UOp:
    """What a body does, under an END that repeats it: its COPY, BUFFER_VIEW or CUSTOM_FUNCTION, or the body itself."""
    inner = ast.src[0] if ast.op is Op.END and ast.src else ast
    return inner if inner.op in (Op.COPY, Op.BUFFER_VIEW, Op.CUSTOM_FUNCTION) else ast


def is_kernel(ast: UOp) -> bool:
    """Whether a body is compiled, and no copy, view or custom function."""
    return effect_of(ast).op not in (Op.COPY, Op.BUFFER_VIEW, Op.CUSTOM_FUNCTION)


def _prepare_op(item: ScheduleItem, indices: list[int], kernel: CachedKernel | None) -> PreparedOp:
    effect = effect_of(item.ast)
    match effect.op:
        case Op.COPY:
            return PreparedCopy(item.kernel_id, tuple(indices), item.dependencies)
        case Op.BUFFER_VIEW:
            offset, nbytes = _view_bytes(effect)
            return PreparedBufferView(item.kernel_id, tuple(indices), offset, nbytes, item.dependencies)
        case Op.CUSTOM_FUNCTION:
            variables = tuple(Variable(*n.arg) for n in effect.iter_ops(Op.DEFINE_VAR))
            return PreparedCustomFunction(
                item.kernel_id, effect.arg, tuple(indices), effect.src, variables, _loop_values(item), item.dependencies,
                values=item.fixedvars,
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
    slots = [slot for slot, argument in enumerate(item.kernel.src[1:]) if argument.op is not Op.BIND]
    place = {slot: position for position, slot in enumerate(slots)}
    _check_metadata(item, spec, place)
    position_of = {slot: position for position, slot in enumerate(spec.globals)}
    return PreparedKernel(
        item.kernel_id, kernel, spec.device,
        buffer_indices=tuple(indices[place[slot]] for slot in spec.globals),
        output_indices=tuple(sorted({position_of[slot] for slot in spec.outs})),
        values=tuple(item.fixedvars.get(name, _lowest(spec, name)) for name in spec.var_names),
        fixedvars=_loop_values(item),
        dependencies=item.dependencies,
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


@dataclass(frozen=True, slots=True)
class PreparedSource:
    """A kernel between render and compile, with the artifact of each step for inspection."""

    optimized: UOp
    lowered: UOp
    linear: tuple[UOp, ...]
    spec: ProgramSpec


def find_device(name: str, config: PrepareConfig) -> Device:
    """The device of this name, with the backend that the configuration asks for.

    Raises:
        UnknownBackendError: if the device has no such backend.
    """
    return get_device(name).with_backend(config.find_backend(name))


def make_context(device: Device, config: PrepareConfig) -> Context:
    """What the passes may look at when they compile for `device`."""
    from svod_schedule.pipeline import PIPELINES, Context

    return Context(
        target=config.optimizer.restrict(device.target), device=device.name, opts=config.fixed_opts, options=IROptions.from_env(),
        passes=config.passes or PIPELINES,
    )  # fmt: skip


def render_kernel(ast: UOp, device: Device, context: Context) -> PreparedSource:
    """Optimize, lower, linearize and render one kernel."""
    from svod_codegen.program import linearize_program, make_program, render_program
    from svod_schedule.estimate import estimate_work
    from svod_schedule.pipeline import run_pipeline

    optimized = run_pipeline("optimize", ast, context)
    lowered = run_pipeline("lower", optimized, context)
    linearized = linearize_program(make_program(lowered, device.name))
    program = render_program(linearized, device.renderer)
    spec = replace(ProgramSpec.from_program(program), **estimate_work(ast)._asdict())
    return PreparedSource(optimized, lowered, linearized.src[1].src, spec)


class _Place(NamedTuple):
    """A kernel on a device."""

    ast: UOp
    device: str


def _kernel_place(item: ScheduleItem) -> _Place:
    return _Place(item.ast, device_of(item.buffers))


def device_of(buffers: Sequence[Buffer]) -> str:
    """Where a kernel runs: on the device of its first buffer that is on no disk."""
    return next((b.device for b in buffers if not is_disk(b.device)), "CPU")


def _prepare_kernels(items: Sequence[ScheduleItem], config: PrepareConfig) -> dict[_Place, CachedKernel]:
    """The kernel of each body on each device, compiled at the same time where several are new."""
    origins = _collect_origins(items)
    places = list(origins)
    configs = _choose_configs(items, places, config)
    kernels: dict[_Place, CachedKernel] = {}
    missing: list[tuple[_Place, KernelKey]] = []
    for place in places:
        key = _make_key(*place, configs[place])
        found = None if is_watched() else kernel_cache.find_kernel(key)
        if found is None:
            missing.append((place, key))
        else:
            kernels[place] = found
    pending: list[tuple[_Place, KernelKey, ProgramSpec, Future[CompiledSpec] | CompiledSpec]] = []
    for place, key in missing:
        device = find_device(place.device, config)
        context = make_context(device, configs[place])
        stored = None if config.passes is not None else _load_stored_kernel(key, device, context.options)
        if stored is not None:
            kernels[place] = kernel_cache.add_kernel(key, stored)
            continue
        try:
            with _noting(origins[place]):
                spec = render_kernel(place.ast, device, context).spec
        except OptError:
            if configs[place] is config:
                raise
            # Found by another state of the compiler: opts mean something else now.
            _reject_choice(place, device, config)
            return _prepare_kernels(items, config)
        with _noting(origins[place]):
            compiled = device.compile(spec) if len(missing) == 1 else _pool().submit(device.compile, spec)
        pending.append((place, key, spec, compiled))
    for place, key, spec, compiled in pending:
        device = find_device(place.device, config)
        with _noting(origins[place]):
            binary = compiled.result() if isinstance(compiled, Future) else compiled
        kernels[place] = kernel_cache.add_kernel(key, _load_kernel(device, spec, binary))
        if config.passes is None:
            store_kernel(key, device, spec, binary)
        lines = {"origins": [str(o) for o in origins[place]]} if origins[place] else {}
        _log.info("compile.kernel", name=spec.name, device=spec.device, source_bytes=len(spec.source), **lines)
    return kernels


def _collect_origins(items: Iterable[ScheduleItem]) -> dict[_Place, tuple[Origin, ...]]:
    """The lines that each kernel comes from; equal kernels are one."""
    found: dict[_Place, tuple[Origin, ...]] = {}
    for item in items:
        if is_kernel(item.ast):
            found[_kernel_place(item)] = (*found.get(_kernel_place(item), ()), *item.origins)
    return found


@contextmanager
def _noting(origins: Sequence[Origin]) -> Generator[None]:
    """Let errors about a kernel say where it comes from."""
    try:
        yield
    except Exception as error:
        if origins:
            error.add_note(f"about a kernel that comes from {format_origins(origins, max_shown=4)}")
        raise


def _choose_configs(
    items: Sequence[ScheduleItem], places: Sequence[_Place], config: PrepareConfig
) -> dict[_Place, PrepareConfig]:
    """For each kernel the configuration with the opts that a search found for it, now or earlier."""
    if config.is_searched:
        from svod_tensor.tuning.choose import search_all

        subjects = _make_subjects(items, config)
        found: Iterable[tuple[Opt, ...] | None] = search_all([subjects[p] for p in places], config.optimizer)
    elif config.is_tuned:
        found = [find_tuned(p.ast.content_hash, find_device(p.device, config)) for p in places]
    else:
        found = [None] * len(places)
    return {p: config if opts is None else replace(config, opts=opts) for p, opts in zip(places, found, strict=True)}


def _make_subjects(items: Sequence[ScheduleItem], config: PrepareConfig) -> dict[_Place, Subject]:
    from svod_tensor.tuning.choose import Subject

    subjects: dict[_Place, Subject] = {}
    for item in items:
        if not is_kernel(item.ast):
            continue
        place = _kernel_place(item)
        if place in subjects:
            subjects[place] = replace(subjects[place], n_launches=subjects[place].n_launches + 1)
        else:
            device = find_device(place.device, config)
            slots = [slot for slot, argument in enumerate(item.kernel.src[1:]) if argument.op is not Op.BIND]
            buffers = dict(zip(slots, item.buffers, strict=True))
            subjects[place] = Subject(place.ast, device, make_context(device, config), buffers)
    return subjects


def _reject_choice(place: _Place, device: Device, config: PrepareConfig) -> None:
    from svod_tensor.tuning.records import make_record_key, reject_record

    ast_hash = place.ast.content_hash
    reject_tuned(ast_hash, device)
    reject_record(make_record_key(ast_hash, device, config.optimizer))


def _load_stored_kernel(key: KernelKey, device: Device, options: IROptions) -> CachedKernel | None:
    stored = find_stored_kernel(key, device, options)
    try:
        return None if stored is None else _load_kernel(device, stored.spec, stored.compiled)
    except InternalError:
        # Of another machine, whatever its key says: the kernel is made anew.
        reject_stored_kernel(key, device)
        return None


def _load_kernel(device: Device, spec: ProgramSpec, compiled: CompiledSpec) -> CachedKernel:
    is_parallel_safe = device.backend.is_host_parallel_safe
    return CachedKernel(device.loader(compiled), spec, device.launcher, is_host_parallel_safe=is_parallel_safe)


def _make_key(ast: UOp, device: str, config: PrepareConfig) -> KernelKey:
    owner = find_device(device, config)
    return KernelKey(ast.content_hash, device, owner.compiler.cache_key, config.fingerprint, owner.opening)


@cache
def _pool() -> ThreadPoolExecutor:
    from svod_codegen.options import CodegenOptions

    return ThreadPoolExecutor(CodegenOptions.from_env().threads, thread_name_prefix="svod-compile")


if hasattr(os, "register_at_fork"):
    # The executor's threads stay behind in the parent: the child would wait for them forever.
    os.register_at_fork(after_in_child=_pool.cache_clear)
