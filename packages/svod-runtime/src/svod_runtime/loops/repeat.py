"""Conversion of a loop to the `Repeat` of a batch launcher: the words that change between
iterations.
"""

from __future__ import annotations

from collections.abc import Iterator

from svod_device import BatchItem, Launch, LoopCarried, LoopSlice, Move, Repeat, Word
from svod_runtime.kernels.arrangement import CopyUnit, Group
from svod_runtime.kernels.kernel_state import KernelState
from svod_runtime.loops.loop_state import LoopState
from svod_runtime.ops.loop_bindings import Carried, CarriedIn, CarriedOut

__all__ = ["make_launch", "make_repeat"]


def make_launch(state: KernelState, group: int) -> Launch:
    """Launch of a kernel, on the arrays that the plan updates."""
    return Launch(
        state.op.kernel.program,
        state.addresses,
        state.values,
        state.global_size,
        state.local_size,
        group,
    )


def make_repeat(state: LoopState, group: int) -> Repeat:
    """`Repeat` of a loop for its launcher, on the arrays that the plan updates."""
    op, body = state.form.op, state.form.body
    is_read = op.count is None
    slices = [
        LoopSlice(
            # Words and not addresses: a plan may rebind its operands after the launcher's table is
            # built.
            Word(state.addresses, position),
            body.buffers[index].nbytes,
            tuple(state.list_local_words(index)),
        )
        for index, position in state.form.slices
    ]
    return Repeat(
        body=tuple(_iter_items(state)),
        group=group,
        count=None if is_read else Word(state.values, 0),
        count_address=Word(state.addresses, op.count_position or 0) if is_read else None,
        branch=op.branch,
        n_branches=op.n_branches,
        counters=tuple(_iter_counters(state, body.counter)) if body.counter is not None else (),
        slices=tuple(slices),
        carried=tuple(
            _make_carried(state, index, carried) for index, carried in enumerate(body.carried)
        ),
        is_reversed=body.is_reversed,
        go_on=None if state.condition is None else Word(state.condition.addresses, 0),
    )


def _iter_items(state: LoopState) -> Iterator[BatchItem]:
    """Items of an iteration: each group waits for the previous one."""
    group = 0
    for call in state.arrange():
        if isinstance(call, CopyUnit):
            arguments = state.copies[call.index]
            # An empty copy would take a group of its own, and each group is a barrier.
            if arguments.buffers[0].nbytes:
                addresses = Word(arguments.addresses, 0), Word(arguments.addresses, 1)
                yield Move(*addresses, arguments.buffers[0].nbytes, group)
                group += 1
            continue
        # `LoopForm._find_launcher` rejects bodies with custom functions, the only other kind of
        # call.
        assert isinstance(call, list), f"a launcher runs no {call}"
        for unit in call:
            if isinstance(unit, Group):
                yield from (make_launch(state.kernels[index], group) for index in unit.indices)
            else:
                yield make_repeat(state.loops[unit.index], group)
            group += 1


def _make_carried(state: LoopState, index: int, carried: Carried) -> LoopCarried:
    addresses = state.addresses
    return LoopCarried(
        Word(addresses, carried.initial),
        Word(addresses, carried.result),
        None if carried.spare is None else Word(addresses, carried.spare),
        state.buffers[carried.result].nbytes,
        tuple(state.list_local_words(*state.form.get_bound(CarriedIn(index)))),
        tuple(state.list_local_words(*state.form.get_bound(CarriedOut(index)))),
    )


def _iter_counters(state: LoopState, name: str) -> Iterator[Word]:
    """Words that hold a counter: kernel arguments and trip counts of inner loops."""
    for kernel in state.iter_kernels():
        position = kernel.find_value(name)
        if position is not None:
            yield Word(kernel.values, position)
    for loop in state.iter_loops():
        # A trip count that is another expression of the counter never gets here: Python runs such a
        # loop.
        if loop is not state and loop.form.copied_counter == name:
            yield Word(loop.values, 0)
