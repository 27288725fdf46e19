"""What a device plugin implements: an allocator, a renderer, a compiler, a loader, perhaps a batch
launcher.

A plugin needs no base class of ours; it registers two factories by entry point (see
`svod_device._registry`) and the objects that they return have these methods.

Example:
    An allocator may say more than it must, and is asked for what it says:

    >>> from svod_device import HostAllocator
    >>> class CardMemory(HostAllocator):
    ...     default_backend, is_permanent, is_exclusive = "llvm", False, True
    ...     def close(self):
    ...         pass
    >>> memory = CardMemory("CARD")
    >>> [isinstance(memory, kind) for kind in (Allocator, ChoosingAllocator, ExclusiveAllocator)]
    [True, True, True]
    >>> [isinstance(memory, kind) for kind in (PermanentAllocator, ClosableAllocator)]
    [True, True]
    >>> block = memory.allocate(64)
    >>> isinstance(block, Memory), block.capacity
    (True, 64)

    Two launches of a kernel as a batch, of which the second reads what the first one writes:

    >>> import numpy as np
    >>> from svod_device import Buffer, get_device
    >>> from svod_device.testing import build, get_case
    >>> from svod_dtype import int64
    >>> cpu = get_device("CPU")
    >>> program = build(get_case(cpu.target, "variables"), cpu.backend, "CPU").program  # y = x * scale + shift
    >>> a, b, c = (Buffer(cpu.allocator, int64, 13) for _ in range(3))
    >>> a.copyin(np.arange(13))
    >>> def launch(y, x, scale, shift, group):
    ...     addresses, values = array("Q", [y.locate(), x.locate()]), array("q", [scale, shift])
    ...     return Launch(program, addresses, values, (1, 1, 1), (1, 1, 1), group)
    >>> launcher: BatchLauncher = cpu.launcher
    >>> launcher.run(launcher.make_table([launch(b, a, 2, 0, 0), launch(c, b, 1, 100, 1)]))
    >>> c.as_numpy()[:4].tolist()
    [100, 102, 104, 106]
    >>> isinstance(program, TimedProgram)
    True
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from svod_device._launch_size import Dims

if TYPE_CHECKING:
    from svod_device._spec import CompiledSpec, ProgramSpec
    from svod_ir import Target, UOp

__all__ = [
    "Allocator",
    "Backend",
    "BatchLauncher",
    "ChoosingAllocator",
    "ClosableAllocator",
    "Compiler",
    "Dims",
    "ExclusiveAllocator",
    "Launch",
    "Loader",
    "Memory",
    "PermanentAllocator",
    "Program",
    "Renderer",
    "TimedProgram",
]


class Memory(NamedTuple):
    """A block of a device's memory; `owner` is whatever keeps the block alive.

    `address + n` denotes the n-th byte in the device's own address space, so that a view is an
    addition. `capacity` is at least the size that was asked for.
    """

    address: int
    capacity: int
    owner: object = None


@runtime_checkable
class Allocator(Protocol):
    """The memory of one device. All methods may be called from several threads at once.

    A device that is lost, or on which an earlier launch failed, raises `DeviceLostError`, at once
    or from the next method that waits (`allocate`, `copy_in`, `copy_out`, `synchronize`), and from
    each one after it."""

    @property
    def device(self) -> str:
        """The canonical device name."""
        ...

    @property
    def is_host_addressable(self) -> bool:
        """True if the addresses are ordinary addresses of this process."""
        ...

    @property
    def is_writable(self) -> bool: ...

    def allocate(self, nbytes: int) -> Memory:
        """A block of `nbytes` > 0 bytes, aligned to 64 bytes, not cleared.

        Raises:
            OutOfMemoryError: or any MemoryError, if there is no such block.
        """
        ...

    def free(self, memory: Memory) -> None:
        """Take a block back, when the launches that were queued before and use it are done.

        Called from finalizers: must neither raise nor wait for a lock that any other method holds.
        """
        ...

    def copy_in(self, address: int, source: memoryview) -> None:
        """Write host bytes at a device address, after the work queued so far; `source` may change
        afterwards.
        """
        ...

    def copy_out(self, destination: memoryview, address: int) -> None:
        """Read device bytes into host memory, after the work queued so far."""
        ...

    def synchronize(self) -> None:
        """Wait for the work queued so far."""
        ...


@runtime_checkable
class ExclusiveAllocator(Protocol):
    """An allocator that says whether one process alone may have its device open; without this any
    number may.
    """

    @property
    def is_exclusive(self) -> bool:
        """True if no second process may open the device.

        A search then compiles and measures in this one.
        """
        ...


@runtime_checkable
class ChoosingAllocator(Protocol):
    """An allocator that says which backend makes kernels for its device; without this it is the
    first by name.
    """

    @property
    def default_backend(self) -> str | None:
        """The backend's name, as in `llvm` for `CPU.llvm`; another is used where this one is not
        installed or not wanted.
        """
        ...


@runtime_checkable
class PermanentAllocator(Protocol):
    """An allocator that says whether its memory can be lost or closed; without this it can be."""

    @property
    def is_permanent(self) -> bool:
        """True if the memory is there as long as the process, and in its forks: ordinary memory, or
        files.
        """
        ...


@runtime_checkable
class ClosableAllocator(Protocol):
    """An allocator that is told when its device is closed; an optional addition to `Allocator`."""

    def close(self) -> None:
        """Let go of all blocks and of what leads to the device; no method but this one is called
        any more.
        """
        ...


@runtime_checkable
class Program(Protocol):
    """A loaded kernel: stateless and reentrant."""

    @property
    def name(self) -> str: ...

    @property
    def entry(self) -> int | None:
        """The address of `void entry(void **buffers, const int64_t *values, int64_t core_id)`, or
        None.

        None says that the kernel has no native entry point of the uniform CPU form and can only be
        called."""
        ...

    def __call__(
        self,
        buffers: Sequence[int],
        values: Sequence[int],
        global_size: Dims,
        local_size: Dims | None = None,
    ) -> None:
        """Run the kernel once and return when its results may be read by later calls on this
        device.

        It may raise `DeviceLostError` for an earlier launch.

        Args:
            buffers: device addresses, in the order of `ProgramSpec.globals`.
            values: the values of `ProgramSpec.var_names`, in that order. `core_id` is never among
                them: a CPU program runs its entry for core_id = 0 to global_size[0] - 1, on any
                threads.
            global_size: the grid: workgroups where there is a `local_size`, else single items.
            local_size: items in a workgroup, or None.
        """
        ...


@runtime_checkable
class TimedProgram(Protocol):
    """A program whose device keeps time; an optional addition to `Program`, for profiling and
    search.
    """

    def timed_call(
        self,
        buffers: Sequence[int],
        values: Sequence[int],
        global_size: Dims,
        local_size: Dims | None = None,
    ) -> int:
        """Run the kernel to its end, and return the nanoseconds that the device worked on it."""
        ...


class Launch(NamedTuple):
    """One kernel launch of a batch.

    `buffers` is an array('Q') of addresses and `values` an array('q'). Their *contents* change
    between runs of one table (new inputs, new variables); their length and place in memory do not.
    So a table keeps `buffers.buffer_info()[0]` and reads through it at each run. `dims` never
    change.

    `group` never decreases along a batch. Launches of one group are independent of each other and
    may run at the same time; a launch may start only when all launches of earlier groups are done.
    """

    program: Program
    buffers: array[int]
    values: array[int]
    global_size: Dims
    local_size: Dims | None
    group: int

    @property
    def n_parts(self) -> int:
        """How many times a CPU kernel's entry is called, with core_id = 0 to n_parts - 1."""
        return self.global_size[0]


class BatchLauncher(Protocol):
    """Runs a whole sequence of launches in one call: a native loop on the CPU, a recorded graph on
    a GPU.
    """

    def make_table(self, launches: Sequence[Launch]) -> object:
        """Prepare a sequence of launches (at least one); the table keeps what it needs of them
        alive.

        Raises:
            ValueError: if a program cannot be launched in a batch (a CPU program without `entry`).
        """
        ...

    def run(self, table: object) -> None:
        """Run the table to its end.

        Two tables may be run at once from two threads, one table never is.
        """
        ...


class Renderer(Protocol):
    """Writes a linear program as source text."""

    def render(self, linear: Sequence[UOp], name: str) -> str:
        """The source of a kernel called `name`; `linear` is what `svod_schedule.linearize`
        gives.
        """
        ...


class Compiler(Protocol):
    """Turns source text into what the loader takes."""

    @property
    def cache_key(self) -> str:
        """Names the compiler, its version and its target: equal keys give interchangeable
        results.
        """
        ...

    def compile(self, spec: ProgramSpec) -> CompiledSpec: ...


Loader = Callable[["CompiledSpec"], Program]


@dataclass(frozen=True, slots=True)
class Backend:
    """One way to make kernels for a device. Factories of `svod.compilers` return this.

    `is_host_parallel_safe` says that its kernels run on the threads which launch them, so that
    those that do not depend on each other are launched at the same time, from several threads.
    Without it a kernel is launched when the one before has been."""

    renderer: Renderer
    compiler: Compiler
    loader: Loader
    target: Target
    launcher: BatchLauncher | None = None
    is_host_parallel_safe: bool = False
