"""Which cells and views are alive, and the lock on what they hold.

Entries are weak: what nobody refers to leaves its table. A new cell is entered without the lock;
see `registry`."""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable, Hashable
from functools import partial
from threading import get_ident
from typing import Any, Final

from svod_ir.forks import hold_across_fork

__all__ = [
    "LOOK_INTERVAL",
    "Table",
    "add",
    "add_settled",
    "captured",
    "count_new",
    "get_last_number",
    "is_locked_here",
    "live",
    "lock",
    "look",
    "next_look",
    "note_new_node",
    "pending",
    "remove",
    "set_look",
    "set_next_look",
    "take_number",
]

Table = dict[int, "weakref.ref[Hashable]"]
"""By id: who is looked up is alive, so that its id is nobody else's."""

lock: Final = hold_across_fork(threading.RLock())
"""Held while a tensor's node is replaced, and while it is decided what to compute."""

live: Final[Table] = {}

pending: Final[Table] = {}
"""Those that need computing or share memory, and new ones that nobody looked at: a process has
thousands that need none.
"""

_ALL: Final = (live, pending)

captured: Final[dict[int, list[Table]]] = {}
"""By the thread that captures functions, what each of them makes: the innermost is the last."""


LOOK_INTERVAL: Final = 127
"""New cells between two looks at how far graphs have grown: a prime, so that a loop is seen at
another line each time.
"""

count_new: Final = itertools.count(1).__next__
next_look = LOOK_INTERVAL
"""The number of new cells after which the newest is looked at; see `growth`."""


def _pass(_cell: object) -> None:
    """Do nothing: until something was computed, no graph has outgrown one program."""


look: Callable[[Any], None] = _pass
"""The function that looks at a new cell."""


def set_look(function: Callable[[Any], None]) -> None:
    """Register the function that looks at a new cell, which stands above this module."""
    global look
    look = function


def set_next_look(after: int) -> None:
    """Look at a new cell when at least `after` more were built."""
    global next_look
    next_look = count_new() + max(after, LOOK_INTERVAL)


_numbers: Final = itertools.count(1)
_last_number = 0


def take_number() -> int:
    """A number that was never taken before, for an assignment to memory, or as a cell goes to other
    memory.
    """
    global _last_number
    _last_number = next(_numbers)
    return _last_number


def get_last_number() -> int:
    """The number that was taken last: as long as it is the same, no memory was assigned to, and no
    cell has left its memory.
    """
    return _last_number


def is_locked_here() -> bool:
    """Whether this thread holds `lock`."""
    return lock._is_owned()  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]


def add(one: Hashable) -> None:
    """Let a cell or a view see later realizations of nodes in its graph."""
    key = id(one)
    if captured and (found := captured.get(get_ident())) is not None:
        table = found[-1]
        table[key] = weakref.ref(one, partial(_leave, (table,), key))
    else:
        live[key] = pending[key] = weakref.ref(one, partial(_leave, _ALL, key))


def add_settled(one: Hashable) -> None:
    """`add` for a cell in memory of its own, which was there before any function that is captured
    now.
    """
    key = id(one)
    live[key] = weakref.ref(one, partial(_leave, _ALL, key))


def _leave(tables: tuple[Table, ...], key: int, _: object = None) -> None:
    # Told which tables: when Python ends, tensors may outlive the names of this module.
    for table in tables:
        table.pop(key, None)


def remove(one: Hashable) -> None:
    """Let `one` be none of the live ones any more."""
    _leave(_ALL, id(one))


def note_new_node(one: Hashable) -> None:
    """Look at `one` again, which stands for another node now; the caller holds `lock`."""
    key = id(one)
    ref = live.get(key)
    if ref is not None:
        pending[key] = ref
    elif not any(key in table for found in captured.values() for table in found):
        # Tests forget what is alive.
        add(one)
