"""Kernels of a schedule: the choice of opts, cache keys, and loading."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING

from svod_device import Device
from svod_dtype import InternalError
from svod_ir import IROptions, UOp, get_logger
from svod_ir.origins import Origin, format_origins
from svod_runtime import CachedKernel
from svod_schedule.pipeline import PIPELINES, Context
from svod_tensor.engine.arguments import list_slots
from svod_tensor.engine.caches import BINARIES, KERNELS, KernelKey, make_binary_key
from svod_tensor.engine.choose_device import choose_device
from svod_tensor.engine.observe import is_observed
from svod_tensor.engine.schedule import KernelTarget, Schedule, kernel_target_of
from svod_tensor.engine.stored_kernels import find_stored_kernel, reject_stored_kernel, store_kernel
from svod_tensor.tuning.tuned import find_tuned, reject_tuned

if TYPE_CHECKING:
    from svod_device import CompiledSpec, ProgramSpec
    from svod_ir import Opt
    from svod_tensor.options import PrepareConfig
    from svod_tensor.tuning.choose import Subject

__all__ = [
    "KernelTask",
    "find_kernel",
    "keep_kernel",
    "load",
    "make_context",
    "make_graph_context",
    "make_tasks",
    "start_compiling",
]

_log = get_logger("tensor")


def make_graph_context(devices: Sequence[str], config: PrepareConfig) -> Context:
    """Context of the passes over a graph on `devices`; the first device computes values that depend
    on no memory.
    """
    targets = {
        device: config.optimizer.restrict_cores(choose_device(device, config).target)
        for device in devices
    }
    return Context(
        target=targets[devices[0]],
        device=devices[0],
        targets=targets,
        options=IROptions.from_env(),
        passes=config.passes or PIPELINES,
    )


def make_context(device: Device, config: PrepareConfig) -> Context:
    """Context of the passes that compile for `device`."""
    return Context(
        target=config.optimizer.restrict(device.target),
        device=device.name,
        opts=config.fixed_opts,
        options=IROptions.from_env(),
        passes=config.passes or PIPELINES,
    )


@dataclass(frozen=True, slots=True)
class KernelTask:
    """A kernel to compile: one for each body and device of a schedule.

    Attributes:
        kernel: the body.
        device: where it runs, with the backend that compiles it.
        config: how it is compiled, with tuned opts if a search found some.
        subject: its name for observers.
        origins: its source lines.
        plain: the configuration without tuned opts, if there are any.
    """

    kernel: UOp
    device: Device
    config: PrepareConfig
    subject: str
    origins: tuple[Origin, ...] = ()
    plain: PrepareConfig | None = None

    @property
    def key(self) -> KernelKey:
        """Cache key of the program."""
        device = self.device
        return KernelKey(
            # A hash instead of the node: entries keep no graph alive, and caches on disk have the
            # same key.
            self.kernel.content_hash,
            device.name,
            device.compiler.cache_key,
            self.config.fingerprint,
            device.opening,
        )

    @property
    def is_stored(self) -> bool:
        """Whether other processes may use the program: custom passes are code without a key."""
        return self.config.passes is None

    @property
    def context(self) -> Context:
        """Context of the passes."""
        return make_context(self.device, self.config)

    def reject_opts(self) -> KernelTask | None:
        """This task without tuned opts, which do not apply and are forgotten; None if it has none."""
        if self.plain is None:
            return None
        from svod_tensor.tuning.records import make_record_key, reject_record

        ast_hash = self.kernel.content_hash
        reject_tuned(ast_hash, self.device)
        reject_record(make_record_key(ast_hash, self.device, self.plain.optimizer))
        return replace(self, config=self.plain, plain=None)

    @contextmanager
    def noting_origins(self) -> Generator[None]:
        """Add a note with the source lines to errors about this kernel."""
        try:
            yield
        except Exception as error:
            if self.origins:
                error.add_note(
                    f"about a kernel that comes from {format_origins(self.origins, max_shown=4)}"
                )
            raise


def make_tasks(schedule: Schedule, config: PrepareConfig) -> dict[KernelTarget, KernelTask]:
    """The kernels of a schedule, each once; equal kernels get the lines of all of them.

    Opts are searched now if the configuration asks for it."""
    tasks: dict[KernelTarget, KernelTask] = {}
    for item in schedule.iter_kernels():
        target = kernel_target_of(item)
        # Equal bodies are one kernel, whatever they are called with.
        task = tasks.get(target)
        if task is None:
            device = choose_device(target.device, config)
            tasks[target] = KernelTask(
                item.ast, device, config, f"kernel {item.kernel_id}", item.origins
            )
        elif item.origins:
            tasks[target] = replace(task, origins=(*task.origins, *item.origins))
    opts_of = _choose_opts(schedule, tasks, config)
    for (target, task), opts in zip(tasks.items(), opts_of, strict=True):
        if opts is not None:
            # `plain` is used if the opts, which another version of the compiler may have found, do
            # not apply.
            tasks[target] = replace(task, config=replace(config, opts=opts), plain=config)
    return tasks


def _choose_opts(
    schedule: Schedule, tasks: dict[KernelTarget, KernelTask], config: PrepareConfig
) -> Iterable[tuple[Opt, ...] | None]:
    """The tuned opts of each kernel, searched now or earlier."""
    # A search goes first: it looks up earlier results itself.
    if config.is_searched:
        from svod_tensor.tuning.choose import search_all

        subjects = _make_subjects(schedule, tasks)
        return search_all([subjects[target] for target in tasks], config.optimizer)
    if config.is_tuned:
        return [find_tuned(task.kernel.content_hash, task.device) for task in tasks.values()]
    return [None] * len(tasks)


def _make_subjects(
    schedule: Schedule, tasks: dict[KernelTarget, KernelTask]
) -> dict[KernelTarget, Subject]:
    from svod_tensor.tuning.choose import Subject
    from svod_tensor.tuning.plan_uses import find_plan_use

    use = find_plan_use()
    subjects: dict[KernelTarget, Subject] = {}
    for item in schedule.iter_kernels():
        target = kernel_target_of(item)
        if target in subjects:
            subjects[target] = replace(subjects[target], n_launches=subjects[target].n_launches + 1)
        else:
            buffers = dict(zip(list_slots(item.kernel), item.buffers, strict=True))
            subjects[target] = Subject(
                item.ast, tasks[target].device, tasks[target].context, buffers, use=use
            )
    return subjects


def start_compiling(
    task: KernelTask, source: ProgramSpec, n_beside: int
) -> tuple[KernelTask, ProgramSpec, Callable[[], CompiledSpec]]:
    """Start to compile a kernel, in a thread if there are several; return the arguments with a
    function that waits for the result.
    """
    # A single kernel would only wait for the pool.
    if n_beside == 1:
        return task, source, partial(_compile, source, task.device)
    return task, source, _pool().submit(_compile, source, task.device).result


def _compile(source: ProgramSpec, device: Device) -> CompiledSpec:
    compiler = device.compiler
    if is_observed():
        return compiler.compile(source)
    # Drop the graph, which the cache would keep alive.
    return BINARIES.get(
        make_binary_key(source, device), lambda: replace(compiler.compile(source), ast=None)
    )


@cache
def _pool() -> ThreadPoolExecutor:
    from svod_codegen import CodegenOptions

    return ThreadPoolExecutor(CodegenOptions.from_env().threads, thread_name_prefix="svod-compile")


if hasattr(os, "register_at_fork"):
    # The executor's threads stay behind in the parent: the child would wait for them forever.
    os.register_at_fork(after_in_child=_pool.cache_clear)


def load(source: ProgramSpec, binary: CompiledSpec, device: Device) -> CachedKernel:
    """Load a compiled kernel for launching."""
    is_parallel_safe = device.backend.is_host_parallel_safe and device.target.cores > 1
    return CachedKernel(
        device.loader(binary), source, device.launcher, is_host_parallel_safe=is_parallel_safe
    )


def find_kernel(task: KernelTask) -> CachedKernel | None:
    """The program of a kernel that this process or, on disk, an earlier one compiled."""
    key, device = task.key, task.device
    kernel = KERNELS.find(key)
    if kernel is not None or not task.is_stored:
        return kernel
    stored = find_stored_kernel(key, device, IROptions.from_env())
    if stored is None:
        return None
    try:
        return KERNELS.add(key, load(stored.spec, stored.compiled, device))
    except InternalError:
        # The stored kernel does not load here although its key matches: compile it again.
        reject_stored_kernel(key, device)
        return None


def keep_kernel(task: KernelTask, loaded: CachedKernel, compiled: CompiledSpec) -> CachedKernel:
    """Store the program of a kernel for this process and later ones, and return the stored one."""
    source = loaded.spec
    lines = {"origins": [str(o) for o in task.origins]} if task.origins else {}
    _log.info(
        "compile.kernel",
        name=source.name,
        device=source.device,
        source_bytes=len(source.source),
        **lines,
    )
    if task.is_stored:
        store_kernel(task.key, task.device, source, compiled)
    return KERNELS.add(task.key, loaded)
