"""Caches of the compiler: their keys, counts, and a function to clear them.

| name | from | to | where |
|---|---|---|---|
| `schedule` | a graph, and what compiles for its devices | kernels in order | in the process |
| `outline` | a graph without its sizes | the sizes it was called with, and a graph with variables for sizes | in the process |
| `template` | a schedule, and the sharing and ownership of its memory | a plan without memory | in the process |
| `known_plan` | the structure of a small graph | its plan, which takes the memory of each such graph in turn | in the process |
| `kernel` | a kernel, its device and its options | a loaded program | in the process |
| `binary` | source code, the compiler and the kind of the device | object code, which all devices of a kind load | in the process |
| `decomposition` | a composed operation, and the shapes and dtypes of its operands | its graph | in the process |
| `stored_graph` | a graph, the targets of its devices, and the compiler's own source files | its kernels | on disk |
| `stored_kernel` | a kernel, its device, options and target, and the compiler's own source files | source and object code | on disk |
| `object` | source code and the compiler's identity | object code | on disk |
| `search` | a kernel, its device and the search's options | the best opts | on disk |

Caches in the process are bounded by the number of entries and evict the oldest entries first;
caches on disk are bounded by bytes.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from svod_device import CompiledSpec, get_device, release_memory
from svod_ir import CacheCounts
from svod_runtime import CachedKernel, PlanTemplate, find_sharing
from svod_tensor.engine.bounded_cache import BoundedCache
from svod_tensor.engine.choose_device import choose_device
from svod_tensor.engine.decompositions import DECOMPOSITIONS
from svod_tensor.engine.known_plans import KNOWN_PLANS
from svod_tensor.engine.preschedule import PreSchedule
from svod_tensor.engine.size_history import OUTLINES
from svod_tensor.options import read_opt_cache_max

if TYPE_CHECKING:
    from svod_codegen.disk_store import DiskStore
    from svod_device import Device, ProgramSpec
    from svod_ir import UOp
    from svod_tensor.engine.build import TensorGraph
    from svod_tensor.engine.job import Job
    from svod_tensor.options import PrepareConfig

__all__ = [
    "BINARIES",
    "KERNELS",
    "SCHEDULES",
    "TEMPLATES",
    "CacheCounts",
    "KernelKey",
    "caches",
    "clear_caches",
    "make_binary_key",
    "make_schedule_key",
    "make_template_key",
]

# An entry holds kernels and graphs but no memory of tensors, so the limits need not be tight.
MAX_SCHEDULES: Final = 1024
# Higher, since a schedule has a template for each sharing of its inputs and each memory planner.
MAX_TEMPLATES: Final = 4096
MAX_BINARIES: Final = 1024


class KernelKey(NamedTuple):
    """Cache key of a compiled kernel. The kernel's name is not part of it.

    `opening` identifies the opening of the device: a kernel that was loaded on one opening cannot
    run on another.
    """

    ast_hash: str
    device: str
    compiler: str
    config: str
    opening: int = 0


ScheduleKey: TypeAlias = "tuple[UOp, *tuple[Hashable, ...]]"
BinaryKey: TypeAlias = tuple[str, str, str]
TemplateKey: TypeAlias = tuple[PreSchedule, *tuple[Hashable, ...]]

SCHEDULES: Final = BoundedCache[ScheduleKey, PreSchedule](lambda: MAX_SCHEDULES)
TEMPLATES: Final = BoundedCache[TemplateKey, PlanTemplate](lambda: MAX_TEMPLATES)
KERNELS: Final = BoundedCache[KernelKey, CachedKernel](read_opt_cache_max)
BINARIES: Final = BoundedCache[BinaryKey, CompiledSpec](lambda: MAX_BINARIES)
_IN_PROCESS: Final = {
    "schedule": SCHEDULES,
    "outline": OUTLINES,
    "template": TEMPLATES,
    "known_plan": KNOWN_PLANS,
    "kernel": KERNELS,
    "binary": BINARIES,
    "decomposition": DECOMPOSITIONS,
}


def make_schedule_key(graph: TensorGraph, config: PrepareConfig) -> ScheduleKey:
    """Cache key of a graph's kernels. Source lines are part of it only if they are recorded."""
    compilers = [choose_device(name, config).compiler.cache_key for name in graph.devices]
    passes = None if config.passes is None else config.passes.serial
    # The graph itself: nodes are interned, so that comparing two keys compares references.
    # Sums are split over the cores that a kernel may use.
    threads = config.optimizer.threads
    return (graph.sink, graph.devices, *compilers, passes, threads, bool(graph.lines))


def make_binary_key(source: ProgramSpec, device: Device) -> BinaryKey:
    """Cache key of a kernel's object code. The name is part of the source."""
    # Without the device's index: devices of one kind load the same object code.
    return device.base_key, device.compiler.cache_key, source.source


def make_template_key(pre: PreSchedule, job: Job, config: PrepareConfig) -> TemplateKey:
    """Cache key of a plan without memory.

    Kernels depend on the fingerprint; the memory plan on the planner, donated inputs and outputs;
    and the order of the kernels on inputs that share memory. Kernels are loaded, and memory is
    allocated, on one opening of a device."""
    graph, inputs = job.graph, job.inputs
    return (
        pre,
        config.fingerprint,
        config.memory_planner,
        find_sharing(inputs.buffers),
        job.donated_slots,
        inputs.outputs,
        job.guard is not None,
        # A device that was lost and opened again has none of the kernels that were loaded before.
        tuple([get_device(device).opening for device in graph.devices]),
        # Buffers that are only outputs are not described by the graph.
        inputs.outputs
        and tuple([(b.nbytes, b.dtype, b.device) for b in inputs.buffers[len(graph.params) :]]),
    )


def caches() -> dict[str, CacheCounts]:
    """The counts of each cache since the process began, or since `clear_caches`.

    - `schedule`: graphs lowered to kernels.
    - `outline`: graphs apart from their sizes; a hit was called with other sizes before, whose kernels
      may be reusable.
    - `template`: plans without memory.
    - `known_plan`: plans of small graphs that were computed before, found without a look-up in the two
      caches above.
    - `kernel`: compiled kernels of the process.
    - `binary`: their object code, which all devices of a kind load.
    - `decomposition`: graphs of composed operations, which are built again for other operands.
    - `stored_graph`: graphs on disk, lowered to kernels, for later processes.
    - `stored_kernel`: whole kernels on disk, for later processes.
    - `object`: compiled objects on disk, for kernels with equal source from another version of svod.
    - `search`: results of searches and of `svod_tensor.tune`, on disk.

    Caches on disk are shared by all processes; the hits and misses are this process's.

    Example:
        >>> from svod_tensor import Tensor, caches, clear_caches
        >>> clear_caches()
        >>> x = (Tensor([1, 2]) * 3).realize()
        >>> caches()["schedule"].entries
        1"""
    return {name: cache.counts() for name, cache in (_IN_PROCESS | _get_stores()).items()}


def clear_caches(*, disk: bool = False) -> None:
    """Empty the caches of this process, and with `disk` the caches that processes share; plans stay
    as they are.

    Freed memory that is kept for new tensors goes back to its devices.

    Example:
        >>> from svod_tensor import caches, clear_caches
        >>> clear_caches()
        >>> caches()["kernel"].entries
        0
    """
    # Imported here: the search compiles kernels, so its modules import this one.
    from svod_tensor.tuning import records, tuned

    for cache in _IN_PROCESS.values():
        cache.clear()
    tuned.clear()
    records.clear()
    for store in _get_stores().values():
        store.clear(disk=disk)
    release_memory()


def _get_stores() -> dict[str, DiskStore]:
    from svod_codegen.disk_store import get_disk_store
    from svod_codegen.kernel_store import get_kernel_store
    from svod_tensor.tuning import tuned

    return {
        "stored_graph": get_disk_store("graphs"),
        "stored_kernel": get_kernel_store().store,
        "object": get_disk_store("objects"),
        "search": tuned.get_store(),
    }
