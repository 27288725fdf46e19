"""Steps of a plan: one per call, built with the plan and run at each execution."""

from __future__ import annotations

import os
import time
from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol, cast

from svod_device import BatchItem, BatchLauncher, Buffer, DeviceLostError, copy_buffer
from svod_runtime.errors import ExecutionError, NonFiniteError, UnsupportedError
from svod_runtime.kernels.arrangement import Arrangement, CopyUnit, LoopUnit
from svod_runtime.kernels.kernel_state import KernelState
from svod_runtime.loops.iterate import iterate
from svod_runtime.loops.loop_state import LoopState
from svod_runtime.loops.repeat import make_launch, make_repeat
from svod_runtime.ops.custom_functions import get_custom_function
from svod_runtime.ops.prepared import (
    PreparedBufferView,
    PreparedCopy,
    PreparedCustomFunction,
    describe_op,
)
from svod_runtime.profile.kernel_profile import FunctionProfile, KernelProfile, LaunchSums

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor


__all__ = ["HostLoop", "Step", "check_view", "make_steps"]


class Step(Protocol):
    """Call of the plan.

    Attributes:
        is_whole: whether no Python code runs between its writes, so that Ctrl-C cannot interrupt
            them.
        takes_addresses: whether it finds all memory through the addresses in kernel states.
    """

    is_whole: bool

    @property
    def takes_addresses(self) -> bool: ...

    def run(self) -> None: ...

    def run_profiled(self) -> Iterable[KernelProfile | FunctionProfile]:
        """Run with no concurrent work, and measure each kernel and each custom function."""
        ...

    def run_each(self, run: Callable[[KernelState], None]) -> None:
        """Run with no concurrent work, and launch each kernel through `run`."""
        ...


class _Batch:
    """Kernels and loops that a batch launcher runs in one call."""

    __slots__ = ("_groups", "_run", "_table", "_units", "is_whole")

    def __init__(
        self, launcher: BatchLauncher, groups: Sequence[Sequence[KernelState] | LoopState]
    ) -> None:
        # Launches with the same group index may run concurrently; groups run in order.
        items: list[BatchItem] = []
        for index, group in enumerate(groups):
            if isinstance(group, LoopState):
                items.append(make_repeat(group, index))
            else:
                items += [make_launch(state, index) for state in group]
        self._groups = groups
        self.is_whole = not any(isinstance(group, LoopState) for group in groups)
        self._units: list[KernelState | HostLoop] = []
        # `arrange` passes loops only to launchers that run loops, so the cast is safe.
        self._table = cast("Callable[[Sequence[BatchItem]], object]", launcher.make_table)(items)
        self._run = launcher.run

    @property
    def takes_addresses(self) -> bool:
        return self.is_whole

    def run(self) -> None:
        try:
            self._run(self._table)
        # The device failed, not a kernel: `ExecutionError` would hide that the buffers are lost as
        # well.
        except DeviceLostError:
            raise
        except Exception as error:
            kernels = [
                s
                for g in self._groups
                for s in (g.iter_kernels() if isinstance(g, LoopState) else g)
            ]
            # A batch may hold hundreds of kernels, and the launcher does not say which one failed.
            names = ", ".join(state.op.kernel.name for state in kernels[:4])
            more = ", ..." if len(kernels) > 4 else ""
            problem = f"{type(error).__name__}: {error}"
            raise ExecutionError(op=f"batch of kernels {names}{more}", problem=problem) from error

    def run_profiled(self) -> Iterable[KernelProfile | FunctionProfile]:
        for unit in self._list_units():
            if isinstance(unit, HostLoop):
                yield from unit.run_profiled()
            else:
                yield unit.run_profiled()

    def run_each(self, run: Callable[[KernelState], None]) -> None:
        for unit in self._list_units():
            if isinstance(unit, HostLoop):
                unit.run_each(run)
            else:
                run(unit)

    def _list_units(self) -> Sequence[KernelState | HostLoop]:
        """Kernels and loops to run sequentially when each kernel is launched on its own."""
        # Built on first use: an execution without profile or watch needs none.
        if not self._units:
            for group in self._groups:
                self._units += [HostLoop(group)] if isinstance(group, LoopState) else group
        return self._units


class _Parallel:
    """Independent kernels without a batch launcher, each called from its own thread."""

    __slots__ = ("_states",)
    is_whole, takes_addresses = False, True

    def __init__(self, states: Sequence[KernelState]) -> None:
        self._states = list(states)

    def run(self) -> None:
        futures: list[Future[None]] = []
        try:
            futures.extend(_get_pool().submit(state.run) for state in self._states[1:])
            # The calling thread would only wait, so it runs one kernel itself.
            self._states[0].run()
        finally:
            # Also if a kernel failed: the other threads still write to the plan's buffers.
            errors = _wait_for_all(futures)
        for error in errors:
            if error is not None:
                raise error

    def run_profiled(self) -> Iterable[KernelProfile | FunctionProfile]:
        return [state.run_profiled() for state in self._states]

    def run_each(self, run: Callable[[KernelState], None]) -> None:
        for state in self._states:
            run(state)


def _wait_for_all(futures: Sequence[Future[None]]) -> list[BaseException | None]:
    """Wait for all futures and return their errors.

    Ctrl-C is raised only after all are done, since they write to the plan's buffers.
    """
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
    """Single kernel launch."""

    __slots__ = ("_state",)
    is_whole, takes_addresses = True, True

    def __init__(self, state: KernelState) -> None:
        self._state = state

    def run(self) -> None:
        self._state.run()

    def run_profiled(self) -> Iterable[KernelProfile | FunctionProfile]:
        return [self._state.run_profiled()]

    def run_each(self, run: Callable[[KernelState], None]) -> None:
        run(self._state)


class _Copy:
    """Copy between two buffers."""

    __slots__ = ("_buffers", "_op")
    is_whole, takes_addresses = True, False

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

    def run_profiled(self) -> Iterable[KernelProfile | FunctionProfile]:
        self.run()
        return ()

    def run_each(self, run: Callable[[KernelState], None]) -> None:
        self.run()


class _Custom:
    """Call of a registered Python function."""

    __slots__ = ("_buffers", "_op", "_variables")
    is_whole, takes_addresses = False, False

    def __init__(
        self, op: PreparedCustomFunction, buffers: Sequence[Buffer], variables: Mapping[str, int]
    ) -> None:
        self._op, self._variables, self._buffers = op, variables, buffers

    def run(self) -> None:
        # Looked up at each run, so that a function may be registered after the plan is built.
        function = get_custom_function(self._op.kind)
        buffers = tuple([self._buffers[index] for index in self._op.buffer_indices])
        try:
            function(buffers, {**self._variables, **self._op.fixedvars}, self._op.attrs)
        # Already names the op's kind.
        except UnsupportedError:
            raise
        except Exception as error:
            # User code raised this error, so it keeps its type.
            error.add_note(f"raised by {describe_op(self._op)}")
            raise

    def run_profiled(self) -> Iterable[KernelProfile | FunctionProfile]:
        buffers = [self._buffers[index] for index in self._op.buffer_indices]
        start = time.perf_counter_ns()
        self.run()
        elapsed = time.perf_counter_ns() - start
        # A function may have no arrays, and then runs on the host.
        device = buffers[0].device if buffers else "CPU"
        n_bytes = sum(buffer.nbytes for buffer in buffers)
        return [FunctionProfile(self._op.kind, device, len(buffers), elapsed, n_bytes, start)]

    def run_each(self, run: Callable[[KernelState], None]) -> None:
        self.run()


def check_view(op: PreparedBufferView, buffers: Sequence[Buffer]) -> None:
    """Check that a view lies at its declared offset in its base.

    Raises:
        ExecutionError: if it does not; the message shows both intervals.
    """
    out, base = buffers[op.buffer_indices[0]], buffers[op.buffer_indices[1]]
    expected = (base.storage_id, base.offset + op.byte_offset, op.byte_size)
    actual = (out.storage_id, out.offset, out.nbytes)
    if actual != expected:
        show = "storage {}, offset {}, {} bytes"
        problem = f"view is [{show.format(*actual)}], expected [{show.format(*expected)}]"
        raise ExecutionError(op=describe_op(op), problem=problem)


class HostLoop:
    """Loop whose iterations Python runs."""

    __slots__ = ("_state", "_steps")
    is_whole, takes_addresses = False, False

    def __init__(self, state: LoopState) -> None:
        self._state = state
        # A live view, since counters change in each iteration.
        variables = ChainMap(state.counters, state.variables)
        self._steps = make_steps(
            state.arrange(), state.kernels, state.loops, state.local_buffers, variables
        )

    def run(self) -> None:
        for _ in iterate(self._state):
            for step in self._steps:
                step.run()

    def run_profiled(self) -> Iterable[KernelProfile | FunctionProfile]:
        """Return one profile per kernel or custom function, with all of its launches as if they
        were contiguous.
        """
        sums = LaunchSums(time.perf_counter_ns())
        for _ in iterate(self._state):
            for step in self._steps:
                for profile in step.run_profiled():
                    sums.add(profile)
        return sums.list_profiles()

    def run_each(self, run: Callable[[KernelState], None]) -> None:
        for iteration in iterate(self._state):
            try:
                for step in self._steps:
                    step.run_each(run)
            except NonFiniteError as error:
                error.add_note(f"in iteration {iteration} of {describe_op(self._state.form.op)}")
                raise


def make_steps(
    arrangement: Arrangement,
    states: Sequence[KernelState],
    loops: Sequence[LoopState],
    buffers: Sequence[Buffer],
    variables: Mapping[str, int],
) -> list[Step]:
    """Build the steps of a plan, in order.

    Steps read `buffers`, `variables` and the states when they run.
    """
    steps: list[Step] = []
    for call in arrangement:
        match call:
            case CopyUnit():
                steps.append(_Copy(call.op, buffers))
            case PreparedCustomFunction():
                steps.append(_Custom(call, buffers, variables))
            case _:
                groups = [
                    loops[u.index] if isinstance(u, LoopUnit) else [states[n] for n in u.indices]
                    for u in call
                ]
                steps.extend(_make_batches(call[0].launcher, groups))
    return steps


def _make_batches(
    launcher: BatchLauncher | None, groups: Sequence[Sequence[KernelState] | LoopState]
) -> Iterable[Step]:
    """One batch, or several steps if the launcher rejects it.

    Units that the launcher accepts on their own remain batches.
    """
    if launcher is not None:
        try:
            return [_Batch(launcher, groups)]
        except ValueError:
            # The launcher does not say which group it rejects, so each is tried on its own.
            if len(groups) > 1:
                return [step for group in groups for step in _make_batches(launcher, [group])]
    group = groups[0]
    if isinstance(group, LoopState):
        # Python is the fallback: it runs any loop, only slower.
        return [HostLoop(group)]
    return [_Single(group[0]) if len(group) == 1 else _Parallel(group)]


@lru_cache(maxsize=1)
def _get_pool() -> ThreadPoolExecutor:
    from concurrent.futures import ThreadPoolExecutor

    # Created on first use: plans with batch launchers need no threads.
    return ThreadPoolExecutor(max_workers=os.cpu_count() or 1, thread_name_prefix="svod-runtime")


if hasattr(os, "register_at_fork"):
    # Threads do not survive a fork: the child would wait for the parent's workers forever.
    os.register_at_fork(after_in_child=_get_pool.cache_clear)
