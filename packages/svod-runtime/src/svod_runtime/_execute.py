"""Steps: what a plan runs, call by call, and what changes about its kernels between executions.

A step is made when the plan is built and only run afterwards.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol, TypeVar

from svod_device import (
    BatchLauncher,
    Buffer,
    DeviceLostError,
    Launch,
    copy_buffer,
)
from svod_runtime._arrange import Arrangement
from svod_runtime._custom_function import get_custom_function
from svod_runtime._kernel_state import KernelState
from svod_runtime._prepared import PreparedBufferView, PreparedCopy, PreparedCustomFunction, describe_op
from svod_runtime._profile import KernelProfile
from svod_runtime.errors import ExecutionError, UnsupportedError

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor


__all__ = [
    "Step",
    "check_view",
    "make_steps",
]

T = TypeVar("T")


class Step(Protocol):
    """One call of the plan."""

    def run(self) -> None: ...

    def run_profiled(self) -> Iterable[KernelProfile]:
        """Run with nothing else going on, and time each kernel."""
        ...

    def run_each(self, run: Callable[[KernelState], None]) -> None:
        """Run with nothing else going on, and each kernel by `run`."""
        ...


class _Batch:
    """Kernels that a batch launcher runs in one call."""

    __slots__ = ("_run", "_states", "_table")

    def __init__(self, launcher: BatchLauncher, groups: Sequence[Sequence[KernelState]]) -> None:
        launches = [
            Launch(state.op.kernel.program, state.addresses, state.values, state.global_size, state.local_size, number)
            for number, group in enumerate(groups)
            for state in group
        ]
        self._states = [state for group in groups for state in group]
        self._table = launcher.make_table(launches)
        self._run = launcher.run

    def run(self) -> None:
        try:
            self._run(self._table)
        except DeviceLostError:
            raise
        except Exception as error:
            names = ", ".join(state.op.kernel.name for state in self._states[:4])
            more = ", ..." if len(self._states) > 4 else ""
            problem = f"{type(error).__name__}: {error}"
            raise ExecutionError(op=f"batch of kernels {names}{more}", problem=problem) from error

    def run_profiled(self) -> Iterable[KernelProfile]:
        return [state.run_profiled() for state in self._states]

    def run_each(self, run: Callable[[KernelState], None]) -> None:
        for state in self._states:
            run(state)


class _Parallel:
    """Independent kernels without a batch launcher, each called from a thread of its own."""

    __slots__ = ("_states",)

    def __init__(self, states: Sequence[KernelState]) -> None:
        self._states = list(states)

    def run(self) -> None:
        futures: list[Future[None]] = []
        try:
            futures.extend(_get_pool().submit(state.run) for state in self._states[1:])
            self._states[0].run()
        finally:
            errors = _wait_for_all(futures)
        for error in errors:
            if error is not None:
                raise error

    def run_profiled(self) -> Iterable[KernelProfile]:
        return [state.run_profiled() for state in self._states]

    def run_each(self, run: Callable[[KernelState], None]) -> None:
        for state in self._states:
            run(state)


def _wait_for_all(futures: Sequence[Future[None]]) -> list[BaseException | None]:
    """The error of each future, when all are done: also if Ctrl-C interrupts the wait, since they write to the plan's buffers."""
    interrupt: KeyboardInterrupt | None = None
    while True:
        try:
            errors = [future.exception() for future in futures]
        except KeyboardInterrupt as error:
            interrupt = error
            continue
        if interrupt is not None:
            raise interrupt
        return errors


class _Single:
    """One kernel, called by itself."""

    __slots__ = ("_state",)

    def __init__(self, state: KernelState) -> None:
        self._state = state

    def run(self) -> None:
        self._state.run()

    def run_profiled(self) -> Iterable[KernelProfile]:
        return [self._state.run_profiled()]

    def run_each(self, run: Callable[[KernelState], None]) -> None:
        run(self._state)


class _Copy:
    """A copy between two buffers."""

    __slots__ = ("_buffers", "_op")

    def __init__(self, op: PreparedCopy, buffers: Sequence[Buffer]) -> None:
        self._op, self._buffers = op, buffers

    def run(self) -> None:
        destination, source = self._op.buffer_indices
        try:
            copy_buffer(self._buffers[destination], self._buffers[source])
        except DeviceLostError:
            raise
        except Exception as error:
            raise ExecutionError(op=describe_op(self._op), problem=str(error)) from error

    def run_profiled(self) -> Iterable[KernelProfile]:
        self.run()
        return ()

    def run_each(self, run: Callable[[KernelState], None]) -> None:
        self.run()


class _Custom:
    """A call of a registered Python function."""

    __slots__ = ("_buffers", "_op", "_variables")

    def __init__(self, op: PreparedCustomFunction, buffers: Sequence[Buffer], variables: Mapping[str, int]) -> None:
        self._op, self._variables, self._buffers = op, variables, buffers

    def run(self) -> None:
        function = get_custom_function(self._op.kind)
        buffers = tuple([self._buffers[index] for index in self._op.buffer_indices])
        try:
            function(buffers, {**self._variables, **self._op.fixedvars}, self._op.attrs)
        except UnsupportedError:
            raise
        except Exception as error:
            # The caller's own error: it passes as it is.
            error.add_note(f"raised by {describe_op(self._op)}")
            raise

    def run_profiled(self) -> Iterable[KernelProfile]:
        self.run()
        return ()

    def run_each(self, run: Callable[[KernelState], None]) -> None:
        self.run()


def check_view(op: PreparedBufferView, buffers: Sequence[Buffer]) -> None:
    """Check that a view's buffer is the part of its base that it must be.

    Raises:
        ExecutionError: if it is not; the message shows both sides.
    """
    out, base = buffers[op.buffer_indices[0]], buffers[op.buffer_indices[1]]
    expected = (base.storage_id, base.offset + op.byte_offset, op.byte_size)
    found = (out.storage_id, out.offset, out.nbytes)
    if found != expected:
        show = "storage {}, offset {}, {} bytes"
        problem = f"the view is [{show.format(*found)}], its base gives [{show.format(*expected)}]"
        raise ExecutionError(op=describe_op(op), problem=problem)


def make_steps(
    arrangement: Arrangement, states: Sequence[KernelState], buffers: Sequence[Buffer], variables: Mapping[str, int]
) -> list[Step]:
    """The steps of a plan, in order. They see what `buffers`, `variables` and the states hold when they run."""
    steps: list[Step] = []
    for call in arrangement:
        match call:
            case PreparedCopy():
                steps.append(_Copy(call, buffers))
            case PreparedCustomFunction():
                steps.append(_Custom(call, buffers, variables))
            case _:
                groups = [[states[number] for number in group.numbers] for group in call]
                launcher = call[0].launcher
                if launcher is not None:
                    steps.append(_Batch(launcher, groups))
                else:
                    steps.append(_Single(groups[0][0]) if len(groups[0]) == 1 else _Parallel(groups[0]))
    return steps


@lru_cache(maxsize=1)
def _get_pool() -> ThreadPoolExecutor:
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(max_workers=os.cpu_count() or 1, thread_name_prefix="svod-runtime")


if hasattr(os, "register_at_fork"):
    # The executor's threads stay behind in the parent: the child would wait for them forever.
    os.register_at_fork(after_in_child=_get_pool.cache_clear)
