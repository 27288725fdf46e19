"""Protocols of a device plugin: allocator, renderer, compiler, loader, and optional batch launcher.

A plugin needs no base class. It registers two factories by entry point (see
`svod_device._registry`), which return objects with these methods.

Example:
    An allocator may implement optional protocols:

    >>> from array import array
    >>> from svod_device import Allocator, BatchLauncher, ChoosingAllocator, ClosableAllocator, ExclusiveAllocator
    >>> from svod_device import HostAllocator, Launch, Memory, PermanentAllocator, TimedProgram
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

    A batch of two launches; the second launch reads the output of the first:

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
    """Block of device memory. `owner` is an object that keeps the block alive.

    `address + n` is the address of byte n in the device's address space, so that views are
    additions. `capacity` is at least the requested size.
    """

    address: int
    capacity: int
    owner: object = None


@runtime_checkable
class Allocator(Protocol):
    """Memory of one device. All methods are thread-safe.

    If the device is lost or an earlier launch failed, the next method that waits (`allocate`,
    `copy_in`, `copy_out` or `synchronize`) raises `DeviceLostError`, and so does every later call.

    Example:
        >>> from svod_device import Allocator, HostAllocator
        >>> def echo(allocator: Allocator, data: bytes) -> bytes:
        ...     memory, result = allocator.allocate(len(data)), bytearray(len(data))
        ...     allocator.copy_in(memory.address, memoryview(data))
        ...     allocator.copy_out(memoryview(result), memory.address)  # waits for the copy above
        ...     allocator.free(memory)
        ...     return bytes(result)
        >>> echo(HostAllocator(), b"1234")
        b'1234'
    """

    @property
    def device(self) -> str:
        """Canonical device name."""
        ...

    @property
    def is_host_addressable(self) -> bool:
        """True if addresses are valid in this process."""
        ...

    @property
    def is_writable(self) -> bool: ...

    def allocate(self, nbytes: int) -> Memory:
        """Allocate `nbytes` > 0 bytes, aligned to 64 bytes and uninitialized.

        Raises:
            OutOfMemoryError: or any MemoryError, if the allocation fails.
        """
        ...

    def free(self, memory: Memory) -> None:
        """Free a block, once queued launches that use it are done.

        Finalizers call this method, so it must not raise, and must not wait for a lock that another
        method holds.
        """
        ...

    def copy_in(self, address: int, source: memoryview) -> None:
        """Copy host bytes to a device address, after the queued work. The caller may modify
        `source` once the call returns.
        """
        ...

    def copy_out(self, destination: memoryview, address: int) -> None:
        """Copy device bytes to host memory, after the queued work."""
        ...

    def synchronize(self) -> None:
        """Wait until all queued work is done."""
        ...


@runtime_checkable
class ExclusiveAllocator(Protocol):
    """Optional protocol of allocators whose device may be limited to one process."""

    @property
    def is_exclusive(self) -> bool:
        """True if only one process may have the device open.

        Kernel search then compiles and measures in this process instead of in child processes.
        """
        ...


@runtime_checkable
class ChoosingAllocator(Protocol):
    """Optional protocol of allocators with a preferred backend. The default is the first by name."""

    @property
    def default_backend(self) -> str | None:
        """Name of the preferred backend, such as `llvm` for `CPU.llvm`. The user's options take
        precedence, and an unavailable backend is ignored.
        """
        ...


@runtime_checkable
class PermanentAllocator(Protocol):
    """Optional protocol of allocators whose memory cannot be lost or closed."""

    @property
    def is_permanent(self) -> bool:
        """True if the memory lives as long as the process and in its forks, as host memory and
        files do.
        """
        ...


@runtime_checkable
class ClosableAllocator(Protocol):
    """Optional protocol of allocators that release resources when their device is closed.

    Example:
        >>> from svod_device import ClosableAllocator, HostAllocator
        >>> class Connection(HostAllocator):
        ...     def close(self):
        ...         print("connection closed")
        >>> isinstance(Connection(), ClosableAllocator), isinstance(HostAllocator(), ClosableAllocator)
        (True, False)
        >>> Connection().close()
        connection closed
    """

    def close(self) -> None:
        """Release all blocks and the connection to the device. No other method is called
        afterwards.
        """
        ...


@runtime_checkable
class Program(Protocol):
    """Loaded kernel: stateless and reentrant."""

    @property
    def name(self) -> str: ...

    @property
    def entry(self) -> int | None:
        """Address of `void entry(void **buffers, const int64_t *values, int64_t core_id)`, or None.

        None means that the kernel has no native entry point with this signature, so that it can
        only be called from Python.
        """
        ...

    def __call__(
        self,
        buffers: Sequence[int],
        values: Sequence[int],
        global_size: Dims,
        local_size: Dims | None = None,
    ) -> None:
        """Launch the kernel. The call may return before the kernel is done, if later calls on this
        device see its results.

        It may raise `DeviceLostError` for an earlier launch.

        Args:
            buffers: device addresses, in the order of `ProgramSpec.globals`.
            values: values of `ProgramSpec.var_names`, in order. They never include `core_id`: a CPU
                program calls its entry for core_id = 0 to global_size[0] - 1, on any threads.
            global_size: grid size: workgroups if `local_size` is set, else work-items.
            local_size: work-items of a workgroup, or None.
        """
        ...


@runtime_checkable
class TimedProgram(Protocol):
    """Optional protocol of programs that the device can time, for profiling and kernel search.

    Example:
        >>> from array import array
        >>> from svod_device import Dims, Launch, Program, TimedProgram
        >>> class ClockedProgram(Program):
        ...     name, entry = "kernel", None
        ...     def __call__(self, buffers, values, global_size: Dims, local_size: Dims | None = None):
        ...         self.timed_call(buffers, values, global_size, local_size)
        ...     def timed_call(self, buffers, values, global_size: Dims, local_size: Dims | None = None):
        ...         return 1500  # of the device's clock
        >>> def measure(launch: Launch) -> float:
        ...     assert isinstance(launch.program, TimedProgram)
        ...     sizes = launch.global_size, launch.local_size
        ...     return launch.program.timed_call(launch.buffers, launch.values, *sizes) / 1000
        >>> measure(Launch(ClockedProgram(), array("Q"), array("q"), (4, 1, 1), None, group=0))
        1.5
    """

    def timed_call(
        self,
        buffers: Sequence[int],
        values: Sequence[int],
        global_size: Dims,
        local_size: Dims | None = None,
    ) -> int:
        """Run the kernel to completion and return its device time in nanoseconds.

        Args:
            buffers: device addresses, in the order of `ProgramSpec.globals`.
            values: values of `ProgramSpec.var_names`, in order.
            global_size: grid size: workgroups if `local_size` is set, else work-items.
            local_size: work-items of a workgroup, or None.
        """
        ...


class Launch(NamedTuple):
    """Kernel launch in a batch.

    `buffers` is an array('Q') of addresses, `values` an array('q'). Their *elements* change between
    runs of a table (new inputs, new variables), but they are never resized or moved in memory. So a
    table may keep `buffers.buffer_info()[0]` and read through it at each run. The sizes never
    change.

    `group` never decreases along a batch. Launches of one group are independent and may run
    concurrently; a launch starts only after all launches of earlier groups are done.
    """

    program: Program
    buffers: array[int]
    values: array[int]
    global_size: Dims
    local_size: Dims | None
    group: int

    @property
    def n_parts(self) -> int:
        """Number of calls of a CPU kernel's entry, with core_id = 0 to n_parts - 1."""
        return self.global_size[0]


class BatchLauncher(Protocol):
    """Launcher of batches: a native loop on the CPU, a recorded graph on a GPU."""

    def make_table(self, launches: Sequence[Launch]) -> object:
        """Prepare a non-empty sequence of launches. The table keeps them alive.

        Raises:
            ValueError: if a program cannot be batched, such as a CPU program without `entry`.
        """
        ...

    def run(self, table: object) -> None:
        """Run the table to completion.

        Different tables may run concurrently, the same table never does.
        """
        ...


class Renderer(Protocol):
    """Renderer of linear programs to source text."""

    def render(self, linear: Sequence[UOp], name: str) -> str:
        """Return the source of a kernel called `name`. `linear` is the output of
        `svod_schedule.linearize`.
        """
        ...


class Compiler(Protocol):
    """Compiler of rendered source text."""

    @property
    def cache_key(self) -> str:
        """Identifier of compiler, version, flags and target. Equal keys imply interchangeable
        binaries.
        """
        ...

    def compile(self, spec: ProgramSpec) -> CompiledSpec:
        """Compile a rendered kernel to a loadable binary."""
        ...


Loader = Callable[["CompiledSpec"], Program]
"""Function that loads a compiled kernel as a program."""


@dataclass(frozen=True, slots=True)
class Backend:
    """Toolchain of a device: renderer, compiler, loader and optional launcher. Factories of
    `svod.compilers` return it.

    `is_host_parallel_safe` is true if kernels run on the launching thread, so that plans launch
    independent kernels concurrently from several threads. Otherwise launches are sequential.
    """

    renderer: Renderer
    compiler: Compiler
    loader: Loader
    target: Target
    launcher: BatchLauncher | None = None
    is_host_parallel_safe: bool = False
