"""Locks that survive `os.fork`: the child has only the forking thread, and would deadlock on a lock
that another thread held.

There are three remedies. `make_lock` is for a lock that is held for long and guards data that can
be recomputed: it is free in the child. `hold_across_fork` is for a lock that is held briefly and
guards a table that must not be seen half changed: a fork waits until the lock is free. Both kinds
must be reentrant, since a finalizer may run at any step of a thread and use the same table.
`delaying_forks` is for calls into native code with its own locks, which Python cannot reinitialize:
a fork waits until such calls have returned. A fork also waits for imports of svod's modules and of
modules that these import (see `_import_locks`).

Example:
    >>> from svod_ir.forks import delaying_forks, hold_across_fork, make_lock
    >>> lock = make_lock()
    >>> with lock, delaying_forks():
    ...     pass
"""

from __future__ import annotations

import os
import threading
import weakref
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Final, Protocol, TypeVar, cast

from svod_ir._import_locks import find_import, wait_for_import

if TYPE_CHECKING:
    from collections.abc import Generator
    from types import TracebackType

__all__ = ["Lock", "delaying_forks", "hold_across_fork", "make_lock"]


class Lock(Protocol):
    """The interface of the locks of `threading`.

    Example:
        >>> from svod_ir.forks import Lock, make_lock
        >>> def call_locked(lock: Lock, work):
        ...     with lock:
        ...         return work()
        >>> call_locked(make_lock(), lambda: 3)
        3
        >>> lock = make_lock()
        >>> lock.acquire(blocking=False)
        True
        >>> lock.release()
    """

    def acquire(self, blocking: bool = ..., timeout: float = ...) -> bool:
        """Acquire the lock; False if it was not free in time."""
        ...

    def release(self) -> None:
        """Release the lock."""
        ...

    def __enter__(self) -> bool: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None: ...


class _ReinitializableLock(Lock, Protocol):
    def _at_fork_reinit(self) -> None: ...
    def _is_owned(self) -> bool: ...


L = TypeVar("L", bound=Lock)

_MAX_WAIT_SECONDS: Final = 1.0

_reinitialized: set[weakref.ref[Lock]] = set()
_held: dict[int, weakref.ref[Lock]] = {}


def make_lock() -> Lock:
    """A reentrant lock that is free in a forked child, unless the forking thread holds it."""
    lock: Lock = threading.RLock()
    _reinitialized.add(weakref.ref(lock, _reinitialized.discard))
    return lock


_adding: Final = threading.RLock()
"""Held by a forking thread, so that no lock is added to `_held` between its acquiring all of them
and the fork.
"""

_forking: Final = set[int]()
"""Threads that are forking, or waiting to fork."""

_may_enter = threading.Event()
"""Set while `_forking` is empty."""
_may_enter.set()


def hold_across_fork(lock: L) -> L:
    """Register `lock` so that forks wait until it is free, and return it.

    Example:
        >>> import threading
        >>> from svod_ir.forks import hold_across_fork
        >>> table, lock = {}, hold_across_fork(threading.RLock())
        >>> with lock:  # a fork waits: the child sees both entries, or none
        ...     table["x"] = 1
        ...     table["y"] = 2
    """
    key = id(lock)
    with _adding:
        _held[key] = weakref.ref(lock, lambda _: _held.pop(key, None))
    return lock


class _Own(threading.local):
    """State of one thread.

    Attributes:
        taken: the locks that the thread holds while it forks.
        delaying: held while the thread is inside `delaying_forks`, nested `depth` blocks deep.
    """

    def __init__(self) -> None:
        self.taken: list[Lock] = []
        self.delaying = hold_across_fork(threading.RLock())
        self.depth = 0


_own: Final = _Own()


@contextmanager
def delaying_forks() -> Generator[None]:
    """Context in which other threads do not fork; several threads may be in such contexts at once."""
    # Entering threads wait for pending forks first, since threads that enter in turn would starve a
    # fork. The wait is bounded, since the forking thread may wait for a lock that this one holds.
    if not _own.depth:
        _may_enter.wait(_MAX_WAIT_SECONDS)
    with _own.delaying:
        _own.depth += 1
        try:
            yield
        finally:
            _own.depth -= 1


def _acquire_held() -> None:
    _forking.add(threading.get_ident())
    _may_enter.clear()
    awaited: set[str] = set()
    # A holder of one lock may wait for another lock, or for an import. To avoid a deadlock, release
    # all locks before blocking on one that is not free.
    missing: Lock | None = _adding
    while missing is not None:
        _release_taken()
        missing.acquire()
        _own.taken.append(missing)
        missing = _acquire_remaining(missing)
        if missing is None and (name := find_import()) is not None and name not in awaited:
            _release_taken()
            # Wait once for each import: one that is still running may be waiting for this thread.
            awaited.add(name)
            wait_for_import(name)
            missing = _adding


def _acquire_remaining(first: Lock) -> Lock | None:
    """Acquire all locks but `first` without blocking; return the first one that is not free."""
    locks = [_adding, *(lock for ref in list(_held.values()) if (lock := ref()) is not None)]
    for lock in locks:
        if lock is not first:
            if not lock.acquire(blocking=False):
                return lock
            _own.taken.append(lock)
    return None


def _release_taken() -> None:
    while _own.taken:
        _own.taken.pop().release()


def _release_held() -> None:
    _release_taken()
    _forking.discard(threading.get_ident())
    if not _forking:
        _may_enter.set()


def _reinitialize() -> None:
    global _may_enter
    _forking.clear()
    _may_enter = threading.Event()  # another thread may have been changing it during the fork
    _release_held()
    for ref in list(_reinitialized):
        lock = cast("_ReinitializableLock | None", ref())
        # Locks that this thread holds stay locked; this thread will release them.
        if lock is not None and not lock._is_owned():  # pyright: ignore[reportPrivateUsage]
            lock._at_fork_reinit()  # pyright: ignore[reportPrivateUsage]


if hasattr(os, "register_at_fork"):
    # These modules take a lock before a fork and release it afterwards. If another thread imported
    # one while a fork waits for imports, the release would have no matching acquire.
    for _name in ("concurrent.futures.thread", "logging"):
        import_module(_name)
    os.register_at_fork(
        before=_acquire_held, after_in_parent=_release_held, after_in_child=_reinitialize
    )
