"""Locks and `os.fork`: the child has one thread, and would wait forever for a lock that another
thread held.

Three ways out. A lock that is held for long, and guards what can be computed again, is made by
`make_lock` and is free in the child. One that is held for moments, and guards a table that must not
be seen half changed, is given to `hold_across_fork`: a fork waits until nobody holds it. Either is
reentrant, since a finalizer may run in the middle of any step of a thread, and look into the same
table. A call into native code that takes locks of its own, which nobody can renew, is made inside
`delaying_forks`: a fork waits until it has returned. It also waits for imports of svod's modules
and of those that these use (see `import_locks`).

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
    """What the locks of `threading` have.

    Example:
        >>> def call_locked(lock: Lock, work):
        ...     with lock:
        ...         return work()
        >>> call_locked(make_lock(), lambda: 3)
        3
    """

    def acquire(self, blocking: bool = ..., timeout: float = ...) -> bool: ...
    def release(self) -> None: ...
    def __enter__(self) -> bool: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None: ...


class _Renewable(Lock, Protocol):
    def _at_fork_reinit(self) -> None: ...
    def _is_owned(self) -> bool: ...


L = TypeVar("L", bound=Lock)

_PATIENCE_SECONDS: Final = 1.0

_renewed: set[weakref.ref[Lock]] = set()
_held: dict[int, weakref.ref[Lock]] = {}


def make_lock() -> Lock:
    """A reentrant lock that is free in the child of a fork, unless the thread that forks
    holds it.
    """
    lock: Lock = threading.RLock()
    _renewed.add(weakref.ref(lock, _renewed.discard))
    return lock


_adding: Final = threading.RLock()
"""Held by a thread that forks, so that no lock comes to `_held` between its look at that and the
fork.
"""

_forking: Final = set[int]()
"""The threads that fork, or wait until they may."""

_may_enter = threading.Event()
"""Set while there is none of them."""
_may_enter.set()


def hold_across_fork(lock: L) -> L:
    """Let forks wait until `lock` is free, and return it.

    Example:
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
    """What belongs to one thread.

    Attributes:
        taken: the locks that it holds while it forks.
        delaying: held while it is inside `delaying_forks`, `depth` blocks deep.
    """

    def __init__(self) -> None:
        self.taken: list[Lock] = []
        self.delaying = hold_across_fork(threading.RLock())
        self.depth = 0


_own: Final = _Own()


@contextmanager
def delaying_forks() -> Generator[None]:
    """Let forks of other threads wait until this block ends; several threads may be in such blocks
    at a time.
    """
    # Threads that enter in turn would keep a fork waiting forever, which therefore comes first. But
    # the thread that forks may wait for what this one holds.
    if not _own.depth:
        _may_enter.wait(_PATIENCE_SECONDS)
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
    # Who holds one of them may wait for another, or for an import: what cannot be had at once is
    # waited for with empty hands.
    missing: Lock | None = _adding
    while missing is not None:
        _release_taken()
        missing.acquire()
        _own.taken.append(missing)
        missing = _acquire_others(missing)
        if missing is None and (name := find_import()) is not None and name not in awaited:
            _release_taken()
            # Once: what is still there afterwards is an import that waits for this thread.
            awaited.add(name)
            wait_for_import(name)
            missing = _adding


def _acquire_others(first: Lock) -> Lock | None:
    """Take all locks but `first`, and return the one that somebody has."""
    others = [_adding, *(lock for ref in list(_held.values()) if (lock := ref()) is not None)]
    for lock in others:
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


def _renew() -> None:
    global _may_enter
    _forking.clear()
    _may_enter = threading.Event()  # another thread may have been about to change it
    _release_held()
    for ref in list(_renewed):
        lock = cast("_Renewable | None", ref())
        # What this thread holds itself, it will release.
        if lock is not None and not lock._is_owned():  # pyright: ignore[reportPrivateUsage]
            lock._at_fork_reinit()  # pyright: ignore[reportPrivateUsage]


if hasattr(os, "register_at_fork"):
    # These take a lock before a fork and release it after it. If another thread imported one of
    # them while a fork waits for imports, a lock would be released that nobody took.
    for _name in ("concurrent.futures.thread", "logging"):
        import_module(_name)
    os.register_at_fork(before=_acquire_held, after_in_parent=_release_held, after_in_child=_renew)
