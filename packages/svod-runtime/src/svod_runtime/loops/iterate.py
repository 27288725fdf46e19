"""The iterations of a loop that Python runs: what its local buffers are in each, and what is copied
before and after.
"""

from __future__ import annotations

from collections.abc import Iterator

from svod_device import Buffer, copy_buffer
from svod_runtime.loops.loop_state import LoopState
from svod_runtime.ops.loop_bindings import Carried, CarriedIn, CarriedOut

__all__ = ["iterate"]


def iterate(state: LoopState) -> Iterator[int]:
    """The numbers of the iterations; the ops of the body run while the generator waits."""
    op = state.form.op
    count = state.read_count()
    if op.branch is not None and count == 0:
        return  # another branch fills the results
    state.begin()
    try:
        yield from _iterate(state, count)
    finally:
        state.end()


def _iterate(state: LoopState, count: int) -> Iterator[int]:
    body = state.form.body
    values = [_CarriedValue(state, number, carried) for number, carried in enumerate(body.carried)]
    for value in values:
        value.begin(count)
    for number in range(count):
        for value in values:
            value.enter()
        for index, position in state.form.slices:
            state.bind_slice(index, position, count - 1 - number if body.is_reversed else number)
        _set_counter(state, number)
        yield number
        for value in values:
            value.leave()
        if not state.goes_on():
            break
    for value in values:
        value.end()


def _set_counter(state: LoopState, number: int) -> None:
    name = state.form.body.counter
    if name is None:
        return
    state.counters[name] = number
    for kernel in state.iter_kernels():
        position = kernel.find_value(name)
        if position is not None:
            kernel.values[position] = number
        if kernel.launcher is None and not kernel.has_constant_sizes:
            kernel.renew_sizes()
    for loop in state.iter_loops():
        if loop.form.has_varying_count:
            loop.values[0] = loop.resolve_count({})


class _CarriedValue:
    """Where a carried value is, and where the iteration writes it next."""

    __slots__ = ("_ins", "_outs", "_result", "_source", "_spare", "_state", "_target")

    def __init__(self, state: LoopState, number: int, carried: Carried) -> None:
        form, buffers = state.form, state.buffers
        self._state = state
        self._ins, self._outs = (
            form.get_bound(CarriedIn(number)),
            form.get_bound(CarriedOut(number)),
        )
        self._result = buffers[carried.result]
        self._spare = self._result if carried.spare is None else buffers[carried.spare]
        self._source, self._target = buffers[carried.initial], self._spare

    def begin(self, count: int) -> None:
        """Choose where the first iteration writes, so that the last one writes the result, if that
        can be.
        """
        if self._spare is self._result:
            self._source = _move(self._result, self._source)
        elif count % 2 and not _are_same(self._result, self._source):
            self._target = self._result

    def enter(self) -> None:
        """Bind the local buffers for an iteration."""
        for index in self._ins:
            self._state.bind(index, self._source)
        for index in self._outs:
            self._state.bind(index, self._target)

    def leave(self) -> None:
        """What was written is what comes in next."""
        self._source, self._target = (
            self._target,
            self._spare if self._target is self._result else self._result,
        )

    def end(self) -> None:
        """Put what came last into the result."""
        _move(self._result, self._source)


def _move(destination: Buffer, source: Buffer) -> Buffer:
    if not _are_same(destination, source):
        copy_buffer(destination, source)
    return destination


def _are_same(one: Buffer, other: Buffer) -> bool:
    return one.nbytes == 0 or (one.device == other.device and one.address == other.address)
