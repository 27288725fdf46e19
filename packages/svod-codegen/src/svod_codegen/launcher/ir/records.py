"""Records of a table with loops: 64-bit words, which the IR of `loops` interprets.

Fields named `..._at` are the addresses of words of a plan, which are read at each run."""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = [
    "COPY",
    "DONE",
    "ENTER",
    "RECORDS",
    "REGION",
    "REPEAT",
    "RUN",
    "Carried",
    "Copy",
    "Loop",
    "State",
    "Step",
    "Update",
]

RUN: Final = 0
"""Run launches of one part each, from `first` up to `last`, sequentially in this thread."""
REPEAT: Final = 1
"""The end of an iteration of the loop at `first`."""
REGION: Final = 2
"""Run the group of launches at `first` on all threads."""
COPY: Final = 3
"""Execute the Copy at `first`."""
ENTER: Final = 4
"""Enter the loop at `first`; its body follows."""
DONE: Final = 5
"""The end of the program."""


class State(NamedTuple):
    """Execution state of a program."""

    first_step: int = 0
    next_step: int = 0  # the step to resume at
    n_left: int = 0  # iterations before the next reading of the clock
    n_between: int = 0  # iterations between two readings
    looked_at: int = 0  # nanoseconds


class Step(NamedTuple):
    """An instruction of the program."""

    kind: int
    first: int = 0
    last: int = 0


class Copy(NamedTuple):
    """A copy of bytes."""

    to_at: int
    to_offset: int
    from_at: int
    from_offset: int
    nbytes: int


class Loop(NamedTuple):
    """A loop: the updates between iterations, the trip count, and the execution state."""

    updates: int
    updates_of_carried: int
    updates_end: int
    carried: int
    carried_end: int
    go_on_at: int  # 0 if the loop has no condition and always runs `count` iterations
    go_on_offset: int
    count_at: int
    count_offset: int
    is_count_in_memory: int  # whether the word is the address of an int64
    branch: int
    n_branches: int  # 0 if the loop is not a branch
    body: int = 0  # first step
    after: int = 0  # step after the loop
    n_left: int = 0  # remaining iterations, including the current one
    n_at_most: int = 0  # iterations


class Update(NamedTuple):
    """A word of a plan that changes between iterations: it is set to `next`, which becomes (next +
    stride) ^ mask.
    """

    target: int
    next: int = 0
    stride: int = 0
    mask: int = 0  # XOR of the two alternating addresses of a carried value
    base_at: int = 0  # the initial value is this word plus base_offset
    base_offset: int = 0
    step: int = 0  # the stride of a loop that is not reversed
    is_reversed: int = 0


class Carried(NamedTuple):
    """A loop-carried value."""

    initial_at: int
    initial_offset: int
    result_at: int
    result_offset: int
    spare_at: int  # second buffer; 0 for a value that is updated in-place
    spare_offset: int
    nbytes: int
    reads: int  # updates
    writes: int
    writes_end: int
    first: int = 0  # the address that the first iteration writes to
    second: int = 0


RECORDS: Final = (State, Step, Copy, Loop, Update, Carried)
