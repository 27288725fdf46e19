"""Tables of live cells and views, and the lock that guards their nodes.

Entries are weak: a tensor without references leaves its table. A new cell is entered without the
lock; see `registry`."""

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
    "CHECK_INTERVAL",
    "Table",
    "add",
    "add_realized",
    "captured",
    "check_growth",
    "count_new",
    "count_nodes",
    "get_last_write_id",
    "is_locked_here",
    "live",
    "lock",
    "mark_pending",
    "next_check",
    "pending",
    "remove",
    "set_growth_check",
    "set_next_check",
    "take_write_id",
]

Table = dict[int, "weakref.ref[Hashable]"]
"""Weak references by id. Looked-up tensors are alive, so that no other object has their id."""

lock: Final = hold_across_fork(threading.RLock())
"""Held while the node of a tensor is replaced, and while a thread decides what to compute."""

live: Final[Table] = {}

pending: Final[Table] = {}
"""Tensors that must be computed or share memory, and new tensors not yet inspected. Kept apart from
`live`, since a process has thousands of tensors that need nothing.
"""

_ALL: Final = (live, pending)

captured: Final[dict[int, list[Table]]] = {}
"""For each capturing thread, the tables of tensors that its captures create, the innermost capture
last.
"""


CHECK_INTERVAL: Final = 127
"""Number of new cells between two checks of how far graphs have grown. A prime, so that in a loop
the checks fall on a different line of its body each time.
"""

count_new: Final = itertools.count(1).__next__
next_check: int = CHECK_INTERVAL
"""Count of new cells at which `check_growth` is called next; see `growth`."""


def _do_nothing(_cell: object) -> None:
    """Do nothing: initial `check_growth`, before `svod_tensor._realize` is imported."""


check_growth: Callable[[Any], None] = _do_nothing
"""Function that is called with every n-th new cell."""


def set_growth_check(function: Callable[[Any], None]) -> None:
    """Register the function that checks the graphs of new cells; its module imports this one."""
    global check_growth
    check_growth = function


def set_next_check(after: int) -> None:
    """Schedule the next growth check after at least `after` new cells."""
    global next_check
    next_check = count_new() + max(after, CHECK_INTERVAL)


def count_nodes(n: int) -> None:
    """Count `n` nodes that were built without cells as new cells, so that growth is checked as often."""
    global next_check
    next_check -= n


_write_ids: Final = itertools.count(1)
_last_write_id = 0


def take_write_id() -> int:
    """Return a new unique id, for a write to memory or the move of a cell to other memory."""
    global _last_write_id
    _last_write_id = next(_write_ids)
    return _last_write_id


def get_last_write_id() -> int:
    """The last id that was taken. While it is unchanged, no memory was assigned to and no cell has
    left its memory.
    """
    return _last_write_id


def is_locked_here() -> bool:
    """Whether this thread holds `lock`."""
    return lock._is_owned()  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]


def add(tensor: Hashable) -> None:
    """Enter a new cell or view, so that its node follows replacements."""
    key = id(tensor)
    if captured and (stack := captured.get(get_ident())) is not None:
        table = stack[-1]
        table[key] = weakref.ref(tensor, partial(_remove_from, (table,), key))
    else:
        live[key] = pending[key] = weakref.ref(tensor, partial(_remove_from, _ALL, key))


def add_realized(tensor: Hashable) -> None:
    """Enter a cell in memory of its own that existed before any running capture."""
    key = id(tensor)
    live[key] = weakref.ref(tensor, partial(_remove_from, _ALL, key))


def _remove_from(tables: tuple[Table, ...], key: int, _: object = None) -> None:
    # The tables are arguments: at interpreter exit, tensors may outlive the globals of this module.
    for table in tables:
        table.pop(key, None)


def remove(tensor: Hashable) -> None:
    """Remove a cell or view from the tables."""
    _remove_from(_ALL, id(tensor))


def mark_pending(tensor: Hashable) -> None:
    """Enter a tensor whose node was replaced in the table of pending tensors; the caller holds
    `lock`.
    """
    key = id(tensor)
    ref = live.get(key)
    if ref is not None:
        pending[key] = ref
    elif not any(key in table for stack in captured.values() for table in stack):
        # Only after a test has cleared the tables.
        add(tensor)
