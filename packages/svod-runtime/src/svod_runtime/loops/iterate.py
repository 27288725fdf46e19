"""Iteration of a loop in Python: bindings of the local buffers, and copies before and after the
loop.
"""

from __future__ import annotations

from collections.abc import Iterator

from svod_device import Buffer, copy_buffer
from svod_runtime.loops.loop_state import LoopState
from svod_runtime.ops.loop_bindings import Carried, CarriedIn, CarriedOut

__all__ = ["iterate"]


def iterate(state: LoopState) -> Iterator[int]:
    """Yield the index of each iteration; the caller runs the ops of the body before resuming."""
    op = state.form.op
    count = state.read_count()
    if op.branch is not None and count == 0:
        return  # the selected branch fills the results
    state.begin()
    try:
        yield from _iterate(state, count)
    finally:
        # Also after an error: the plan may replace the operands before the next run.
        state.end()


def _iterate(state: LoopState, count: int) -> Iterator[int]:
    body = state.form.body
    values = [_CarriedValue(state, index, carried) for index, carried in enumerate(body.carried)]
    for value in values:
        value.begin(count)
    for iteration in range(count):
        for value in values:
            value.enter()
        for index, position in state.form.slices:
            state.bind_slice(
                index, position, count - 1 - iteration if body.is_reversed else iteration
            )
        _set_counter(state, iteration)
        yield iteration
        for value in values:
            value.leave()
        if not state.goes_on():
            break
    for value in values:
        value.end()


def _set_counter(state: LoopState, iteration: int) -> None:
    name = state.form.body.counter
    if name is None:
        return
    state.counters[name] = iteration
    for kernel in state.iter_kernels():
        position = kernel.find_value(name)
        if position is not None:
            kernel.values[position] = iteration
        if kernel.launcher is None and not kernel.has_constant_sizes:
            kernel.renew_sizes()
    for loop in state.iter_loops():
        if loop.form.has_varying_count:
            loop.values[0] = loop.resolve_count({})


class _CarriedValue:
    """Double buffer of a carry: current source, and target of the next iteration."""

    __slots__ = ("_ins", "_outs", "_result", "_source", "_spare", "_state", "_target")

    def __init__(self, state: LoopState, index: int, carried: Carried) -> None:
        form, buffers = state.form, state.buffers
        self._state = state
        self._ins, self._outs = (
            form.get_bound(CarriedIn(index)),
            form.get_bound(CarriedOut(index)),
        )
        self._result = buffers[carried.result]
        self._spare = self._result if carried.spare is None else buffers[carried.spare]
        self._source, self._target = buffers[carried.initial], self._spare

    def begin(self, count: int) -> None:
        """Choose the first target such that the last iteration writes the result, if possible."""
        if self._spare is self._result:
            self._source = _move(self._result, self._source)
        # Targets alternate, so after an odd count the first target is also the last. A result
        # that aliases its initial value cannot be first: the first iteration still reads it.
        elif count % 2 and not _are_same(self._result, self._source):
            self._target = self._result

    def enter(self) -> None:
        """Bind the local buffers for an iteration."""
        for index in self._ins:
            self._state.bind(index, self._source)
        for index in self._outs:
            self._state.bind(index, self._target)

    def leave(self) -> None:
        """Swap the buffers: the value just written is the next input."""
        self._source, self._target = (
            self._target,
            self._spare if self._target is self._result else self._result,
        )

    def end(self) -> None:
        """Copy the last value to the result unless it is there."""
        _move(self._result, self._source)


def _move(destination: Buffer, source: Buffer) -> Buffer:
    if not _are_same(destination, source):
        copy_buffer(destination, source)
    return destination


def _are_same(first: Buffer, second: Buffer) -> bool:
    return first.nbytes == 0 or (first.device == second.device and first.address == second.address)
