"""What the program of a table with loops consists of: records of 64-bit words, which the IR of
`loops` reads.

Everything that is called an address is one; `..._at` is the address of a word of a plan, which is
read at each run."""

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
"""Run launches of one part each, from `first` up to `last`, one after the other in this thread."""
REPEAT: Final = 1
"""The end of an iteration of the loop at `first`."""
REGION: Final = 2
"""Run the group of launches at `first` on all threads."""
COPY: Final = 3
"""Do what the Copy at `first` says."""
ENTER: Final = 4
"""Begin the loop at `first`; its body follows."""
DONE: Final = 5
"""The end of the program."""


class State(NamedTuple):
    """Where a program is."""

    first_step: int = 0
    next_step: int = 0  # where it returned to Python
    n_left: int = 0  # iterations before the next look at the clock
    n_between: int = 0  # iterations between two looks
    looked_at: int = 0  # nanoseconds


class Step(NamedTuple):
    """What to do; the next one follows it."""

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
    """A loop: what its iterations change, how many there are, and where it is."""

    updates: int
    updates_of_carried: int
    updates_end: int
    carried: int
    carried_end: int
    go_on_at: int  # 0 where the loop runs for `count` iterations in any case
    go_on_offset: int
    count_at: int
    count_offset: int
    is_count_in_memory: int  # then the word is the address of an int64
    branch: int
    n_branches: int  # 0 for what is no branch
    body: int = 0  # first step
    after: int = 0  # step after the loop
    n_left: int = 0  # iterations, with the one that runs
    n_at_most: int = 0  # iterations


class Update(NamedTuple):
    """A word of a plan that changes between iterations: it gets `next`, which becomes (next +
    stride) ^ mask.
    """

    target: int
    next: int = 0
    stride: int = 0
    mask: int = 0  # of the two addresses of a carried value, which alternate
    base_at: int = 0  # the first value is what lies here, and base_offset more
    base_offset: int = 0
    step: int = 0  # the stride of a loop that is not reversed
    is_reversed: int = 0


class Carried(NamedTuple):
    """A value that iterations hand on."""

    initial_at: int
    initial_offset: int
    result_at: int
    result_offset: int
    spare_at: int  # 0 for a value that changes in place
    spare_offset: int
    nbytes: int
    reads: int  # updates
    writes: int
    writes_end: int
    first: int = 0  # the address that the first iteration writes to
    second: int = 0


RECORDS: Final = (State, Step, Copy, Loop, Update, Carried)
