"""From tensors to results: fourteen words, each a function from one artifact to the next.

    build        nodes of tensors                 → TensorGraph      `engine/build.py`, from the operations in `ops/`
    rangeify     TensorGraph                      → RangedGraph      `svod_schedule/rangeify/`
    kernelize    RangedGraph                      → KernelGraph      `svod_schedule/kernelize/`
    preschedule  KernelGraph                      → PreSchedule      `engine/preschedule.py`
    instantiate  PreSchedule, memory              → Schedule         `engine/instantiate.py`
    optimize     Kernel                           → OptimizedKernel  `svod_schedule/optimize/`
    lower        OptimizedKernel                  → LoweredKernel    `svod_schedule/lower/`
    linearize    LoweredKernel                    → LinearProgram    `svod_schedule/linearize/`
    render       LinearProgram                    → ProgramSpec      `svod_codegen/llvm/`, `svod_codegen/c/`
    compile      ProgramSpec                      → CompiledSpec     the same
    load         CompiledSpec                     → CachedKernel     `svod_codegen/_loader.py`, or a device's own
    prepare      Schedule, CachedKernels          → builder          `engine/prepare.py`
    plan         builder                          → ExecutionPlan    `svod_runtime/memory/` and `plan/`
    execute      ExecutionPlan                    → results          `svod_runtime/plan/execute.py`

`python -m svod_tensor.explain script.py lower` prints the artifact of a word. An observer
(`observe.py`) sees every artifact; while there is one, nothing comes from the caches (`caches.py`),
which wrap the steps here and nowhere else. Nothing below this module knows tensors: they
come as nodes and leave as memory."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

from svod_codegen.steps import linearize, render
from svod_ir.origins import record_labels
from svod_schedule import OptError
from svod_schedule.estimate import estimate_work
from svod_schedule.steps import kernelize, lower, optimize, rangeify
from svod_tensor.engine.build import TensorGraph, build
from svod_tensor.engine.caches import SCHEDULES, TEMPLATES, make_schedule_key, make_template_key
from svod_tensor.engine.claims import KernelClaims
from svod_tensor.engine.instantiate import instantiate
from svod_tensor.engine.kernel_origins import get_kernel_origins, number_nodes
from svod_tensor.engine.kernels import (
    KernelTask,
    find_kernel,
    keep_kernel,
    load,
    make_graph_context,
    make_tasks,
    start_compiling,
)
from svod_tensor.engine.observe import GRAPH, Observer, get_observer, ignore, is_observed
from svod_tensor.engine.prepare import prepare
from svod_tensor.engine.preschedule import PreSchedule, preschedule
from svod_tensor.engine.size_history import MAX_SPARE_BYTES, find_resized
from svod_tensor.engine.stored_graphs import find_stored_graph, store_graph
from svod_tensor.engine.stored_kernels import wait_for_kernel

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from svod_device import ProgramSpec
    from svod_runtime import CachedKernel, ExecutionPlan, PlanTemplate
    from svod_tensor.engine.job import Job
    from svod_tensor.engine.schedule import KernelTarget, Schedule
    from svod_tensor.options import PrepareConfig

__all__ = [
    "build",
    "execute",
    "make_kernels",
    "make_plan",
    "make_pre_schedule",
    "make_source",
    "make_template",
    "plan",
]


def make_plan(job: Job, config: PrepareConfig, *, may_resize: bool = False) -> ExecutionPlan:
    """The plan of a job. The schedule and the plan template of an earlier equal job are reused.

    With `may_resize`, for a plan that is executed rarely, it may use kernels with symbolic sizes,
    which other sizes share.
    """
    see = get_observer()
    if not (config.disable_schedule_cache or is_observed()):
        key = make_schedule_key(job.graph, config)
        pre = SCHEDULES.find(key)
        if pre is None:
            # A plan that is executed often is worth kernels for its own sizes.
            resized = _find_resized_plan(job, config) if may_resize else None
            if resized is not None:
                return resized
            pre = SCHEDULES.add(key, make_pre_schedule(job.graph, config))
        template = _get_template(pre, job, config)
    else:
        pre = make_pre_schedule(job.graph, config, see)
        template = make_template(pre, job, config, see)
    bound = plan(template, pre, job, config)
    see("plan", GRAPH, bound)
    return bound


def _find_resized_plan(job: Job, config: PrepareConfig) -> ExecutionPlan | None:
    """The plan of a job with symbolic-size kernels, or None."""
    resized = find_resized(job, config)
    if resized is None:
        return None
    graph = resized.job.graph
    pre = SCHEDULES.get(make_schedule_key(graph, config), lambda: make_pre_schedule(graph, config))
    template = _get_template(pre, resized.job, config)
    # Intermediates have room for the largest sizes: if that is much, kernels for these sizes are
    # better.
    if template.spare_bytes is None or template.spare_bytes > MAX_SPARE_BYTES:
        return None
    return template.bind(
        job.inputs.buffers, resized.values, job.inputs.ids, output_sizes=resized.output_sizes
    )


def _get_template(pre: PreSchedule, job: Job, config: PrepareConfig) -> PlanTemplate:
    return TEMPLATES.get(
        make_template_key(pre, job, config), lambda: make_template(pre, job, config)
    )


def make_pre_schedule(
    graph: TensorGraph, config: PrepareConfig, see: Observer = ignore
) -> PreSchedule:
    """Build the kernels of a graph in order, or read them from disk if an earlier process built an
    equal graph.
    """
    context = make_graph_context(graph.devices, config)
    labels = number_nodes(graph.sink) if graph.lines else None
    with nullcontext() if labels is None else record_labels(labels):
        see("build", GRAPH, graph)
        # Kernel graphs are stored, and not later artifacts, since they have a text form that parses
        # back to the same nodes.
        kernels = find_stored_graph(graph, context, config, labels)
        if kernels is None:
            ranged = rangeify(graph.sink, context)
            see("rangeify", GRAPH, ranged)
            kernels = kernelize(ranged, context)
            see("kernelize", GRAPH, kernels)
            store_graph(graph, context, config, kernels, labels)
        pre = preschedule(kernels, graph.sink)
        see("preschedule", GRAPH, pre)
        return pre


def make_template(
    pre: PreSchedule, job: Job, config: PrepareConfig, see: Observer = ignore
) -> PlanTemplate:
    """Make a plan without memory from kernels in order."""
    schedule = instantiate(pre, job)
    see("instantiate", GRAPH, schedule)
    builder = prepare(schedule, make_kernels(schedule, config, see))
    see("prepare", GRAPH, builder)
    return builder.build_template(job.inputs.buffers, job.inputs.ids, config.memory_planner)


def make_kernels(
    schedule: Schedule, config: PrepareConfig, see: Observer = ignore
) -> Mapping[KernelTarget, CachedKernel]:
    """The program of each kernel of a schedule, from a cache or compiled now.

    Several kernels are compiled concurrently, by threads and by other processes that need them."""
    tasks = make_tasks(schedule, config)
    if is_observed():
        return _compile(tasks, see)
    kernels = _get_known(tasks)
    with KernelClaims() as claims:
        kernels |= _compile(_omit(tasks, kernels), may_compile=claims.claim)
    others = _omit(tasks, kernels)
    for task in others.values():
        if not wait_for_kernel(task.key, task.device):
            break  # a process that is late, perhaps stopped by a debugger, is not waited for again
    kernels |= _get_known(others)
    # Unless a process died or was late, nothing is left.
    return kernels | _compile(_omit(tasks, kernels))


def _omit(
    tasks: Mapping[KernelTarget, KernelTask], kernels: Mapping[KernelTarget, CachedKernel]
) -> Mapping[KernelTarget, KernelTask]:
    return {target: task for target, task in tasks.items() if target not in kernels}


def _get_known(tasks: Mapping[KernelTarget, KernelTask]) -> dict[KernelTarget, CachedKernel]:
    known = {target: find_kernel(task) for target, task in tasks.items()}
    return {target: kernel for target, kernel in known.items() if kernel is not None}


def _compile(
    tasks: Mapping[KernelTarget, KernelTask],
    see: Observer = ignore,
    may_compile: Callable[[KernelTask], bool] = lambda _task: True,
) -> dict[KernelTarget, CachedKernel]:
    """Compile the kernels that `may_compile` selects when it is their turn."""
    compiling = [
        (target, *start_compiling(*make_source(task, see), len(tasks)))
        for target, task in tasks.items()
        if may_compile(task)
    ]
    kernels: dict[KernelTarget, CachedKernel] = {}
    # A second loop: every compilation has started before the first one is waited for.
    for target, task, source, finish in compiling:
        with task.noting_origins():
            binary = finish()
            see("compile", task.subject, binary)
            loaded = load(source, binary, task.device)
            see("load", task.subject, loaded)
        # Kernels that an observer sees must not enter the cache: another run would skip their steps.
        kernels[target] = loaded if is_observed() else keep_kernel(task, loaded, binary)
    return kernels


def make_source(task: KernelTask, see: Observer = ignore) -> tuple[KernelTask, ProgramSpec]:
    """Compile a kernel to source. A task with tuned opts that no longer apply is replaced by one
    without them.
    """
    context = task.context
    try:
        with task.noting_origins():
            optimized = optimize(task.kernel, context)
            see("optimize", task.subject, optimized)
            lowered = lower(optimized, context)
            see("lower", task.subject, lowered)
            linear = linearize(lowered, task.device.name)
            see("linearize", task.subject, linear)
            reasons = tuple(map(str, optimized.reasons))
            work = estimate_work(task.kernel)
            source = replace(
                render(linear, task.device.renderer), reasons=reasons, **work._asdict()
            )
            see("render", task.subject, source)
            return task, source
    except OptError:
        # The opts were found by another version of the compiler.
        plain = task.reject_opts()
        if plain is None:
            raise
    return make_source(plain, see)


def plan(
    template: PlanTemplate, pre: PreSchedule, job: Job, config: PrepareConfig
) -> ExecutionPlan:
    """Bind a plan template to memory."""
    graph, inputs = job.graph, job.inputs
    # Not part of the template: equal graphs on other source lines share it.
    origins = get_kernel_origins(pre, graph.sink, graph.lines)
    watched = None if config.check_floats == "off" else config.check_floats
    return template.bind(inputs.buffers, graph.values, inputs.ids, origins, job.guard, watched)


def execute(bound: ExecutionPlan) -> None:
    """Run a plan, which fills its outputs."""
    bound.execute()
