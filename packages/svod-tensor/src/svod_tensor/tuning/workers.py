"""Workers that compile and run candidates, in child processes or in this process.

A fault of a candidate ends as its `Dropped`. A process that died, or was killed because it took too
long, is replaced at the next request. Devices whose plugins were registered without being
installed, or that only one process may open, exist only in this process: their candidates are
compiled and run here, where a crash is a crash of the program."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import TYPE_CHECKING, Final, Protocol, TypeVar, cast

from svod_codegen import CodegenOptions
from svod_codegen.errors import CompileTimeoutError
from svod_device import get_registry
from svod_ir import GraphError, print_graph
from svod_ir.options import make_child_environment
from svod_schedule.optimize.candidates import Dropped, DropReason
from svod_tensor.tuning.bench import Bench
from svod_tensor.tuning.child import Child, ChildDiedError, ChildFailedError, ChildLateError
from svod_tensor.tuning.serve import CompileRequest, compile_kernel

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from svod_device import Device
    from svod_ir import UOp
    from svod_schedule import OptimizerConfig
    from svod_tensor.tuning.buffer_data import BufferData
    from svod_tensor.tuning.time_box import TimeBox

__all__ = [
    "Compilers",
    "LocalCompilers",
    "LocalRunner",
    "ProcessCompilers",
    "ProcessRunner",
    "Runner",
    "can_isolate",
    "make_compilers",
    "make_runner",
]

T = TypeVar("T")

COMPILER_BYTES: Final = 8 << 30
"""Address space limit of a compiler process, most of which is never touched."""

STOPPED: Final = Dropped(DropReason.STOPPED)


def can_isolate(device: Device) -> bool:
    """True if another process can find and open the device: all its plugins are installed, and it
    is not exclusive.
    """
    plugins = [p for p in get_registry().iter_plugins() if p.kind == device.base_key]
    return bool(plugins) and all(p.is_installed for p in plugins) and not device.is_exclusive


def make_compilers(device: Device, config: OptimizerConfig) -> Compilers:
    """The compilers for a device."""
    if not can_isolate(device):
        return LocalCompilers(device, config.max_uops)
    n_workers = CodegenOptions.from_env().threads
    return ProcessCompilers(
        device, config.max_uops, n_workers=n_workers, max_tasks=config.tasks_per_worker
    )


def make_runner(
    device: Device, buffer_data: Sequence[BufferData], tolerance: float, config: OptimizerConfig
) -> Runner:
    """The runner of a kernel's candidates on a device."""
    if not can_isolate(device):
        return LocalRunner(device, buffer_data, tolerance)
    return ProcessRunner(device, buffer_data, tolerance, config.compile_seconds)


class Compilers(Protocol):
    """Compilers of candidates."""

    def compile(
        self, kernels: Sequence[UOp], seconds: float, box: TimeBox
    ) -> list[bytes | Dropped]:
        """Compile each optimized kernel to bytes for a `Runner`, within `seconds` each and within
        the time box.
        """
        ...

    def close(self) -> None: ...


class Runner(Protocol):
    """Runner of the compiled candidates of one kernel."""

    def time(self, key: str, kernel: bytes, n_launches: int, limit_s: float) -> float | Dropped:
        """Seconds of one launch, from a batch."""
        ...

    def compare(self, key: str, kernel: bytes, reference: bytes, limit_s: float) -> str | Dropped:
        """Describe how the results differ from the results of `reference`; empty if they agree."""
        ...

    def drop(self, keys: Sequence[str]) -> None:
        """Drop candidates that will not be timed again soon."""
        ...

    def close(self) -> None: ...


class ProcessCompilers:
    """Compiles in `n_workers` processes, each replaced after `max_tasks` candidates; 0 for no
    limit.
    """

    def __init__(
        self, device: Device, max_uops: int, *, n_workers: int, max_tasks: int = 0
    ) -> None:
        self._device, self._max_uops, self._max_tasks = device, max_uops, max_tasks
        self._idle: SimpleQueue[Child | None] = SimpleQueue()
        self._children: set[Child] = set()
        self._threads = ThreadPoolExecutor(n_workers, thread_name_prefix="svod-tune")
        self._is_closed = False
        for _ in range(n_workers):
            # None represents a worker whose process starts with its first task.
            self._idle.put(None)

    def compile(
        self, kernels: Sequence[UOp], seconds: float, box: TimeBox
    ) -> list[bytes | Dropped]:
        pending = [
            self._threads.submit(self._compile_one, kernel, seconds, box) for kernel in kernels
        ]
        return [result.result() for result in pending]

    def close(self) -> None:
        self._is_closed = True
        for child in list(self._children):
            # Killed first: threads that wait for an answer get an error at once, so that the pool
            # can end.
            child.kill()
        self._threads.shutdown(cancel_futures=True)
        for child in list(self._children):
            child.close()
        self._children.clear()

    def _compile_one(self, kernel: UOp, seconds: float, box: TimeBox) -> bytes | Dropped:
        if box.is_over() or self._is_closed:
            return STOPPED
        try:
            text = print_graph(kernel)
        except GraphError as error:
            return Dropped(DropReason.COMPILE, str(error))
        idle = self._idle.get()
        try:
            started = idle or self._start()
        except (ChildDiedError, ChildFailedError) as failure:
            self._idle.put(None)
            return Dropped(DropReason.CRASH, f"no process to compile in: {failure.detail}")
        child: Child | None = started
        try:
            remaining = box.remaining()
            result = self._ask(
                started, text, min(seconds, remaining), is_box_short=remaining < seconds
            )
            # `>`, since the request to start was answered too.
            if started.is_closed or (self._max_tasks and started.n_answers > self._max_tasks):
                self._end(started)
                child = None
            return result
        except BaseException:
            self._end(started)
            child = None
            raise
        finally:
            # In any case: another thread may be waiting for a worker.
            self._idle.put(child)

    def _ask(
        self, child: Child, text: str, limit_s: float, *, is_box_short: bool
    ) -> bytes | Dropped:
        request = CompileRequest(
            text, self._device.name, self._device.default_backend, self._max_uops
        )
        try:
            kernel, too_long = cast(
                "tuple[bytes, str]", child.ask("compile", *request, limit_s=limit_s)
            )
        except ChildFailedError as failure:
            return _drop_failure(failure.detail, DropReason.COMPILE)
        # If the time of the search ended, and not the candidate's, nothing is known about the
        # candidate.
        except ChildLateError:
            return (
                STOPPED
                if is_box_short
                else Dropped(DropReason.COMPILE_TIMEOUT, f"more than {limit_s:g} s")
            )
        except ChildDiedError as death:
            return (
                STOPPED
                if self._is_closed
                else Dropped(DropReason.CRASH, f"the compiler {death.detail}")
            )
        return Dropped(DropReason.UOPS, too_long) if too_long else kernel

    def _start(self) -> Child:
        # Disable the object cache: only one of many candidates is ever used.
        # No limit for a GPU, whose driver may reserve more address space than the compiler uses.
        limit = COMPILER_BYTES if self._device.allocator.is_host_addressable else 0
        child = Child(make_child_environment(SVOD_OBJECT_CACHE="0"), limit)
        self._children.add(child)
        try:
            child.ask("start", self._device.name, self._device.default_backend)
        except BaseException:
            self._end(child)
            raise
        return child

    def _end(self, child: Child) -> None:
        self._children.discard(child)
        child.close()


class ProcessRunner:
    """Runs candidates in a process of their own."""

    def __init__(
        self,
        device: Device,
        buffer_data: Sequence[BufferData],
        tolerance: float,
        load_seconds: float,
    ) -> None:
        self._device, self._buffer_data, self._tolerance = device, buffer_data, tolerance
        self._load_seconds = load_seconds
        self._child: Child | None = None
        self._loaded: set[str] = set()

    def time(self, key: str, kernel: bytes, n_launches: int, limit_s: float) -> float | Dropped:
        return self._run(
            lambda: cast("float", self._ask(limit_s, "time", self._load(key, kernel), n_launches)),
            limit_s,
        )

    def compare(self, key: str, kernel: bytes, reference: bytes, limit_s: float) -> str | Dropped:
        def compare() -> str:
            # The keys of candidates are hashes, so the empty key is free.
            reference_key = self._load("", reference)
            return cast(
                "str", self._ask(limit_s, "compare", self._load(key, kernel), reference_key)
            )

        return self._run(compare, limit_s)

    def drop(self, keys: Sequence[str]) -> None:
        for key in self._loaded.intersection(keys):
            self._loaded.discard(key)
            self._run(
                lambda key=key: self._ask(self._load_seconds, "drop", key), self._load_seconds
            )

    def close(self) -> None:
        if self._child is not None:
            self._child.close()
        self._child = None
        self._loaded.clear()

    def _run(self, run: Callable[[], T], limit_s: float) -> T | Dropped:
        try:
            return run()
        except ChildFailedError as failure:
            return _drop_failure(failure.detail, DropReason.RUN)
        except ChildLateError:
            self.close()
            return Dropped(DropReason.HANG, f"no end after {limit_s:.3g} s")
        except ChildDiedError as death:
            self.close()
            return Dropped(DropReason.CRASH, death.detail)

    def _load(self, key: str, kernel: bytes) -> str:
        if self._child is None:
            # Started without a time limit: imports and the filling of buffers are not the
            # candidate's time.
            self._child = Child(make_child_environment())
            name, backend = self._device.name, self._device.default_backend
            self._child.ask("start", name, backend)
            self._child.ask("open", name, backend, self._buffer_data, self._tolerance)
        if key not in self._loaded:
            self._ask(self._load_seconds, "load", key, kernel)
            self._loaded.add(key)
        return key

    def _ask(self, limit_s: float, *request: object) -> object:
        if self._child is None:
            raise ChildDiedError("the process was closed")
        return self._child.ask("bench", *request, limit_s=limit_s)


class LocalCompilers:
    """Compiles in this process, sequentially; no time limit is enforced."""

    def __init__(self, device: Device, max_uops: int) -> None:
        self._device, self._max_uops = device, max_uops

    def compile(
        self, kernels: Sequence[UOp], seconds: float, box: TimeBox
    ) -> list[bytes | Dropped]:
        return [self._compile_one(kernel, box) for kernel in kernels]

    def close(self) -> None:
        """Do nothing: there are no processes to end."""

    def _compile_one(self, kernel: UOp, box: TimeBox) -> bytes | Dropped:
        if box.is_over():
            return STOPPED
        try:
            compiled, too_long = compile_kernel(kernel, self._device, self._max_uops)
        except Exception as error:
            return _drop_failure(f"{type(error).__name__}: {error}", DropReason.COMPILE)
        return Dropped(DropReason.UOPS, too_long) if too_long else compiled


class LocalRunner:
    """Runs candidates in this process."""

    def __init__(self, device: Device, buffer_data: Sequence[BufferData], tolerance: float) -> None:
        self._bench = Bench(device, buffer_data, tolerance)
        self._loaded: set[str] = set()

    def time(self, key: str, kernel: bytes, n_launches: int, limit_s: float) -> float | Dropped:
        return self._run(lambda: self._bench.time(self._load(key, kernel), n_launches))

    def compare(self, key: str, kernel: bytes, reference: bytes, limit_s: float) -> str | Dropped:
        return self._run(
            lambda: self._bench.compare(self._load(key, kernel), self._load("", reference))
        )

    def drop(self, keys: Sequence[str]) -> None:
        for key in keys:
            self._loaded.discard(key)
            self._bench.drop(key)

    def close(self) -> None:
        """Do nothing: the buffers are freed with this object."""

    def _run(self, run: Callable[[], T]) -> T | Dropped:
        try:
            return run()
        except Exception as error:
            return _drop_failure(f"{type(error).__name__}: {error}", DropReason.RUN)

    def _load(self, key: str, kernel: bytes) -> str:
        if key not in self._loaded:
            self._bench.load(key, kernel)
            self._loaded.add(key)
        return key


def _drop_failure(detail: str, reason: DropReason) -> Dropped:
    # Errors of a child arrive as text, `Name: message`.
    if detail.startswith(CompileTimeoutError.__name__):
        reason = DropReason.COMPILE_TIMEOUT
    return Dropped(reason, detail.splitlines()[0])
