"""Guards around a plugin's objects: calls report device loss, and none reaches a lost device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from svod_device._loops import BatchItem, LoopingLauncher, Move, Repeat
from svod_device._opening import Opening
from svod_device._protocols import (
    Allocator,
    Backend,
    BatchLauncher,
    ClosableAllocator,
    Compiler,
    Dims,
    Memory,
    Program,
    TimedProgram,
)
from svod_device._wrapped import WrappedAllocator
from svod_device.errors import OutOfMemoryError

if TYPE_CHECKING:
    from svod_device._spec import CompiledSpec, ProgramSpec

__all__ = ["GuardedAllocator", "GuardedCompiler", "GuardedLauncher", "GuardedProgram", "guard"]

# Number of kernel names in the description of a batch; a plan may have thousands.
_SHOWN_KERNELS = 4


def guard(backend: Backend, opening: Opening) -> Backend:
    """Wrap a backend's compiler, loader and launcher so that they report device loss."""
    launcher = None if backend.launcher is None else GuardedLauncher(backend.launcher, opening)
    loader = backend.loader

    def load(compiled: CompiledSpec) -> Program:
        operation = f"loading kernel {compiled.name}"
        opening.check(operation)
        try:
            program = loader(compiled)
        except Exception as error:
            opening.fail(operation, error)
        # Callers test for `TimedProgram`, so the guard has `timed_call` only if the program does.
        kind = _GuardedTimedProgram if isinstance(program, TimedProgram) else GuardedProgram
        return kind(program, opening)

    return replace(
        backend, compiler=GuardedCompiler(backend.compiler, opening), loader=load, launcher=launcher
    )


class GuardedAllocator(WrappedAllocator):
    """Guard around a plugin's allocator, `inner`, for one opening of its device."""

    __slots__ = ("_in_use", "_own_opening")

    def __init__(self, inner: Allocator) -> None:
        super().__init__(inner)
        self.opening = self._own_opening = Opening(inner.device, inner.synchronize)
        # Keyed by address, since a finalizer may remove a block at any time: single dict operations
        # need no lock.
        self._in_use: dict[int, int] = {}

    @property
    def in_use_bytes(self) -> int:
        """Total bytes of allocated blocks."""
        return sum(list(self._in_use.values()))

    def allocate(self, nbytes: int) -> Memory:
        operation = f"allocating {nbytes} bytes on {self.device}"
        self._own_opening.check(operation)
        try:
            memory = self.inner.allocate(nbytes)
        except MemoryError as error:
            # Running out of memory is not a device loss. The new error has the bytes in use.
            released = error.released if isinstance(error, OutOfMemoryError) else 0
            raise OutOfMemoryError(
                device=self.device, nbytes=nbytes, in_use=self.in_use_bytes, released=released
            ) from error
        except Exception as error:
            self._own_opening.fail(operation, error)
        self._in_use[memory.address] = memory.capacity
        return memory

    def free(self, memory: Memory) -> None:
        # A lost device's memory no longer exists, and its address may belong to a different block
        # in the next opening.
        self._in_use.pop(memory.address, None)
        if not self._own_opening.is_lost:
            self.inner.free(memory)

    def copy_in(self, address: int, source: memoryview) -> None:
        operation = f"copying {source.nbytes} bytes to {self.device}"
        self._own_opening.check(operation)
        try:
            self.inner.copy_in(address, source)
        except Exception as error:
            self._own_opening.fail(operation, error)

    def copy_out(self, destination: memoryview, address: int) -> None:
        operation = f"copying {destination.nbytes} bytes from {self.device}"
        self._own_opening.check(operation)
        try:
            self.inner.copy_out(destination, address)
        except Exception as error:
            self._own_opening.fail(operation, error)

    def synchronize(self) -> None:
        operation = f"waiting for {self.device}"
        self._own_opening.check(operation)
        try:
            self.inner.synchronize()
        except Exception as error:
            # A wait has no arguments that could be wrong, so the error is that of earlier work.
            self._own_opening.fail(operation, error, is_certain=True)

    def close(self) -> None:
        """Mark this opening as lost, and close the plugin's allocator if it is closable."""
        was_lost = self._own_opening.is_lost
        self._own_opening.lose("it was closed")
        if isinstance(self.inner, ClosableAllocator):
            try:
                self.inner.close()
            except Exception:
                # A lost device may be unreachable, and its loss was reported before.
                if not was_lost:
                    raise


class GuardedCompiler:
    """Guard around a plugin's compiler, `inner`, which may use the device."""

    __slots__ = ("_opening", "inner")

    def __init__(self, inner: Compiler, opening: Opening) -> None:
        self.inner, self._opening = inner, opening

    @property
    def cache_key(self) -> str:
        return self.inner.cache_key

    def compile(self, spec: ProgramSpec) -> CompiledSpec:
        operation = f"compiling kernel {spec.name}"
        self._opening.check(operation)
        try:
            return self.inner.compile(spec)
        except Exception as error:
            self._opening.fail(operation, error)


class GuardedProgram:
    """Guard around a plugin's program, `inner`, loaded for one opening of its device."""

    __slots__ = ("_call", "_opening", "inner")

    def __init__(self, inner: Program, opening: Opening) -> None:
        # The method is looked up once: each launch from Python goes through this guard.
        self.inner, self._opening, self._call = inner, opening, inner.__call__

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def entry(self) -> int | None:
        return self.inner.entry

    def __call__(
        self,
        buffers: Sequence[int],
        values: Sequence[int],
        global_size: Dims,
        local_size: Dims | None = None,
    ) -> None:
        # The description is built only on failure, which keeps launches fast.
        if self._opening.is_lost:
            self._opening.check(self._operation)
        try:
            self._call(buffers, values, global_size, local_size)
        except Exception as error:
            self._opening.fail(self._operation, error)

    @property
    def _operation(self) -> str:
        return f"launching kernel {self.name}"


class _GuardedTimedProgram(GuardedProgram):
    """Guard around a `TimedProgram`."""

    __slots__ = ()

    def timed_call(
        self,
        buffers: Sequence[int],
        values: Sequence[int],
        global_size: Dims,
        local_size: Dims | None = None,
    ) -> int:
        self._opening.check(self._operation)
        try:
            return cast("TimedProgram", self.inner).timed_call(
                buffers, values, global_size, local_size
            )
        except Exception as error:
            self._opening.fail(self._operation, error)


@dataclass(frozen=True, slots=True)
class _GuardedTable:
    inner: object
    operation: str


class GuardedLauncher:
    """Guard around a plugin's batch launcher, `inner`, which is passed unguarded programs."""

    __slots__ = ("_opening", "inner", "runs_loops")

    def __init__(self, inner: BatchLauncher, opening: Opening) -> None:
        self.inner, self._opening = inner, opening
        self.runs_loops = isinstance(inner, LoopingLauncher) and inner.runs_loops

    def make_table(self, launches: Sequence[BatchItem]) -> object:
        names = list(_iter_names(launches))
        ellipsis = ", ..." if len(names) > _SHOWN_KERNELS else ""
        operation = f"launching kernels {', '.join(names[:_SHOWN_KERNELS])}{ellipsis}"
        self._opening.check(operation)
        try:
            # The cast is safe: `launches` has loops only if `runs_loops` is true.
            inner = cast("LoopingLauncher", self.inner)
            return _GuardedTable(inner.make_table([_unguard(item) for item in launches]), operation)
        except Exception as error:
            self._opening.fail(operation, error)

    def run(self, table: object) -> None:
        assert isinstance(table, _GuardedTable)
        if self._opening.is_lost:
            self._opening.check(table.operation)
        try:
            self.inner.run(table.inner)
        except Exception as error:
            self._opening.fail(table.operation, error)


def _iter_names(items: Sequence[BatchItem]) -> Iterator[str]:
    for item in items:
        if isinstance(item, Repeat):
            yield from _iter_names(item.body)
        elif not isinstance(item, Move):
            yield item.program.name


def _unguard(item: BatchItem) -> BatchItem:
    if isinstance(item, Repeat):
        return replace(item, body=tuple(_unguard(inner) for inner in item.body))
    if isinstance(item, Move) or not isinstance(item.program, GuardedProgram):
        return item
    return item._replace(program=item.program.inner)
