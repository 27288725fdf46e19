"""Observers of the compiler: an observer is called with every artifact of every word, and disables
the caches.

    def show(word, subject, artifact):
        print(word, subject, type(artifact))

    with observing(show):
        (x @ y).realize()

Words and artifacts are listed in `svod_tensor.engine.compute`; the subject is "graph", or the name
of a kernel.

Example:
    >>> from svod_tensor import Tensor
    >>> from svod_tensor.engine.observe import get_observer, ignore, is_observed, observing
    >>> words = []
    >>> with observing(lambda word, subject, artifact: words.append(word)):
    ...     is_observed()
    ...     _ = (Tensor([1.0, 2.0]) + 1).realize()
    True
    >>> words[:3]
    ['build', 'rangeify', 'kernelize']
    >>> get_observer() is ignore
    True
    >>> from svod_tensor.engine.observe import GRAPH, Observer
    >>> def list_kernels(names: list[str]) -> Observer:
    ...     return lambda word, subject, artifact: None if subject == GRAPH else names.append(subject)
    >>> with observing(list_kernels(names := [])):
    ...     _ = (Tensor([1.0, 2.0]) + 1).realize()
    >>> len(set(names))
    1
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TypeAlias

from svod_ir.forks import make_lock
from svod_ir.rewrite import is_watched

__all__ = ["GRAPH", "Observer", "describing", "get_observer", "ignore", "is_observed", "observing"]

Observer: TypeAlias = Callable[[str, str, object], None]
"""Function of the word, the subject and the artifact."""

GRAPH = "graph"
"""Subject of artifacts that do not belong to one kernel."""

# A tuple that is replaced, never changed: it is read without the lock.
_observers: tuple[Observer, ...] = ()
_lock = make_lock()


# Threads compute different graphs at the same time.
class _Described(threading.local):
    graph = GRAPH


_described = _Described()


@contextmanager
def describing(graph: str) -> Generator[None]:
    """Use this subject instead of "graph" for computations of this thread in the block.

    Example:
        >>> from svod_tensor import Tensor
        >>> from svod_tensor.engine.observe import describing, observing
        >>> subjects = []
        >>> with observing(lambda word, subject, artifact: subjects.append(subject)), describing("the first half"):
        ...     _ = (Tensor([1.0, 2.0]) * 3).realize()
        >>> subjects[0]
        'the first half'
    """
    before, _described.graph = _described.graph, graph
    try:
        yield
    finally:
        _described.graph = before


def ignore(_word: str, _subject: str, _artifact: object) -> None:
    """Observer that does nothing."""


def get_observer() -> Observer:
    """A function that calls all present observers; `ignore` without observers."""
    watching = _observers
    if not watching:
        return ignore
    description = _described.graph
    if len(watching) == 1 and description == GRAPH:
        return watching[0]

    def tell(word: str, subject: str, artifact: object) -> None:
        for observer in watching:
            observer(word, description if subject == GRAPH else subject, artifact)

    return tell


def is_observed() -> bool:
    """True if there is an observer or a watcher of rewrites, which must see every step."""
    return bool(_observers) or is_watched()


@contextmanager
def observing(observer: Observer) -> Generator[None]:
    """Call `observer` for computations of all threads of this process in the block."""
    global _observers
    with _lock:
        _observers = (*_observers, observer)
    try:
        yield
    finally:
        with _lock:
            _observers = tuple(
                registered for registered in _observers if registered is not observer
            )
