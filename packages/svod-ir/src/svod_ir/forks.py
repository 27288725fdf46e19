"""Locks and `os.fork`: the child has one thread, and would wait forever for a lock that another thread held.

Two ways out. A lock that is held for long, and guards what can be computed again, is made by `make_lock` and is
free in the child. One that is held for moments, and guards a table that must not be seen half changed, is
given to `hold_across_fork`: a fork waits until nobody holds it. Either is reentrant, since a finalizer may run in the
middle of any step of a thread, and look into the same table.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import TYPE_CHECKING, Protocol, TypeVar, cast

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["Lock", "hold_across_fork", "make_lock"]


class Lock(Protocol):
    """What the locks of `threading` have."""

    def acquire(self, blocking: bool = ..., timeout: float = ...) -> bool: ...
    def release(self) -> None: ...
    def __enter__(self) -> bool: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...


class _Renewable(Lock, Protocol):
    def _at_fork_reinit(self) -> None: ...


L = TypeVar("L", bound=Lock)

_renewed: set[weakref.ref[Lock]] = set()
_held: dict[int, weakref.ref[Lock]] = {}


def make_lock() -> Lock:
    """A reentrant lock that is free in the child of a fork."""
    lock: Lock = threading.RLock()
    _renewed.add(weakref.ref(lock, _renewed.discard))
    return lock


def hold_across_fork(lock: L) -> L:
    """Let forks wait until `lock` is free, and return it."""
    key = id(lock)
    _held[key] = weakref.ref(lock, lambda _: _held.pop(key, None))
    return lock


def _acquire_held() -> None:
    # Who holds one of them may wait for another: what cannot be had at once is waited for with empty hands.
    while True:
        taken: list[Lock] = []
        for lock in [lock for ref in list(_held.values()) if (lock := ref()) is not None]:
            if lock.acquire(blocking=False):
                taken.append(lock)
                continue
            for other in taken:
                other.release()
            with lock:
                break
        else:
            _taken.extend(taken)
            return


_taken: list[Lock] = []
"""The locks that the thread that forks holds meanwhile."""


def _release_held() -> None:
    while _taken:
        _taken.pop().release()


def _renew() -> None:
    _release_held()
    for ref in list(_renewed):
        lock = ref()
        if lock is not None:
            cast("_Renewable", lock)._at_fork_reinit()  # pyright: ignore[reportPrivateUsage]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_acquire_held, after_in_parent=_release_held, after_in_child=_renew)
