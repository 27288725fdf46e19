"""`Opening`: a device from its first use until it is lost or closed, and what guards a plugin's objects meanwhile.

All that a plugin made for a device is called through here. So whatever notices first that a device is gone, a
copy, a launch or a wait, raises a `DeviceLostError` that says what was being done, and from then on so does
everything else on that opening: no address of it reaches the plugin again, also after the device was opened anew.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING, NoReturn, cast

from svod_device.errors import DeviceLostError, OutOfMemoryError
from svod_device.protocols import (
    Allocator,
    Backend,
    BatchLauncher,
    ClosableAllocator,
    Compiler,
    Dims,
    Launch,
    Memory,
    Program,
    TimedProgram,
)
from svod_device.wrapped import WrappedAllocator

if TYPE_CHECKING:
    from svod_device.spec import CompiledSpec, ProgramSpec

__all__ = ["GuardedAllocator", "GuardedCompiler", "GuardedLauncher", "GuardedProgram", "Opening"]

_SHOWN_KERNELS = 4

_serials = count(1)
_openings: weakref.WeakSet[Opening] = weakref.WeakSet()


@dataclass(frozen=True, slots=True)
class _Loss:
    """Why an opening cannot be used any more; `operation` is what noticed it, None where nothing was going on."""

    problem: str
    operation: str | None


class Opening:
    """One opening of a device; `serial` is a number that no other one of this process has."""

    def __init__(self, device: str, synchronize: Callable[[], None]) -> None:
        self.device, self.serial = device, next(_serials)
        self._synchronize = synchronize
        self._loss: _Loss | None = None
        _openings.add(self)

    def __repr__(self) -> str:
        return f"Opening({self.device}, {'in use' if self._loss is None else self._loss.problem})"

    @property
    def is_lost(self) -> bool:
        """Whether it can never be used again."""
        return self._loss is not None

    def lose(self, problem: str, operation: str | None = None) -> None:
        """Let every use fail from now on; what was said first stays."""
        if self._loss is None:
            self._loss = _Loss(problem, operation)

    def check(self, operation: str) -> None:
        """Do nothing, as long as the device is there.

        Raises:
            DeviceLostError: if it is lost or was closed.
        """
        if self._loss is not None:
            problem, earlier = self._loss.problem, self._loss.operation
            raise DeviceLostError(device=self.device, problem=problem, operation=operation, earlier=earlier)

    def fail(self, operation: str, error: Exception, *, is_certain: bool = False) -> NoReturn:
        """Raise what a caller gets for an error of the plugin.

        An error of a device that can still be waited for is the operation's own, and is raised as it is.

        Raises:
            DeviceLostError: if the device is lost, as is certain, the error itself says, or waiting for the device shows.
        """
        if not is_certain and not isinstance(error, DeviceLostError) and self._can_wait():
            raise error
        problem = error.problem if isinstance(error, DeviceLostError) else _describe(error)
        if self._loss is None:
            self.lose(problem, operation)
        raise DeviceLostError(device=self.device, problem=problem, operation=operation) from error

    def _can_wait(self) -> bool:
        if self.is_lost:
            return False
        try:
            self._synchronize()
        except Exception:
            return False
        return True

    def guard(self, backend: Backend) -> Backend:
        """A backend of the device whose compiler, programs and launcher report a loss."""
        launcher = None if backend.launcher is None else GuardedLauncher(backend.launcher, self)
        loader = backend.loader

        def load(compiled: CompiledSpec) -> Program:
            operation = f"loading kernel {compiled.name}"
            self.check(operation)
            try:
                program = loader(compiled)
            except Exception as error:
                self.fail(operation, error)
            kind = _GuardedTimedProgram if isinstance(program, TimedProgram) else GuardedProgram
            return kind(program, self)

        return replace(backend, compiler=GuardedCompiler(backend.compiler, self), loader=load, launcher=launcher)


def _describe(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


class GuardedAllocator(WrappedAllocator):
    """The memory of a plugin's device during one opening; `inner` is the plugin's allocator."""

    __slots__ = ("_in_use", "_own_opening")

    def __init__(self, inner: Allocator) -> None:
        super().__init__(inner)
        self.opening = self._own_opening = Opening(inner.device, inner.synchronize)
        # By address: a finalizer may take a block out at any moment, which needs no lock this way.
        self._in_use: dict[int, int] = {}

    @property
    def in_use_bytes(self) -> int:
        """The bytes that are handed out."""
        return sum(list(self._in_use.values()))

    def allocate(self, nbytes: int) -> Memory:
        operation = f"allocating {nbytes} bytes on {self.device}"
        self._own_opening.check(operation)
        try:
            memory = self.inner.allocate(nbytes)
        except MemoryError as error:
            released = error.released if isinstance(error, OutOfMemoryError) else 0
            raise OutOfMemoryError(
                device=self.device, nbytes=nbytes, in_use=self.in_use_bytes, released=released
            ) from error
        except Exception as error:
            self._own_opening.fail(operation, error)
        self._in_use[memory.address] = memory.capacity
        return memory

    def free(self, memory: Memory) -> None:
        # The memory of a lost device is gone, and its address may mean something else to the next opening.
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
            # There is nothing that it could be the fault of but what the device did before.
            self._own_opening.fail(operation, error, is_certain=True)

    def close(self) -> None:
        """Let everything on this opening fail from now on, and the plugin let go of what it holds."""
        was_lost = self._own_opening.is_lost
        self._own_opening.lose("it was closed")
        if isinstance(self.inner, ClosableAllocator):
            try:
                self.inner.close()
            except Exception:
                # Of a lost device there may be nothing left to close.
                if not was_lost:
                    raise


class GuardedCompiler:
    """A plugin's compiler, `inner`, which may need the device."""

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
    """A plugin's program, `inner`, which was loaded for one opening of its device."""

    __slots__ = ("_call", "_opening", "inner")

    def __init__(self, inner: Program, opening: Opening) -> None:
        self.inner, self._opening, self._call = inner, opening, inner.__call__

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def entry(self) -> int | None:
        return self.inner.entry

    def __call__(
        self, buffers: Sequence[int], values: Sequence[int], global_size: Dims, local_size: Dims | None = None
    ) -> None:
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
    """A `GuardedProgram` of a device that keeps time."""

    __slots__ = ()

    def timed_call(
        self, buffers: Sequence[int], values: Sequence[int], global_size: Dims, local_size: Dims | None = None
    ) -> int:
        self._opening.check(self._operation)
        try:
            return cast("TimedProgram", self.inner).timed_call(buffers, values, global_size, local_size)
        except Exception as error:
            self._opening.fail(self._operation, error)


@dataclass(frozen=True, slots=True)
class _GuardedTable:
    inner: object
    operation: str


class GuardedLauncher:
    """A plugin's batch launcher, `inner`, which gets the plugin's own programs."""

    __slots__ = ("_opening", "inner")

    def __init__(self, inner: BatchLauncher, opening: Opening) -> None:
        self.inner, self._opening = inner, opening

    def make_table(self, launches: Sequence[Launch]) -> object:
        names = [launch.program.name for launch in launches]
        more = ", ..." if len(names) > _SHOWN_KERNELS else ""
        operation = f"launching kernels {', '.join(names[:_SHOWN_KERNELS])}{more}"
        self._opening.check(operation)
        try:
            return _GuardedTable(self.inner.make_table([_take_out(launch) for launch in launches]), operation)
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


def _take_out(launch: Launch) -> Launch:
    program = launch.program
    return launch._replace(program=program.inner) if isinstance(program, GuardedProgram) else launch


def _leave_to_parent() -> None:
    for opening in list(_openings):
        opening.lose("the process that opened it is the parent of this one, which os.fork made")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)
