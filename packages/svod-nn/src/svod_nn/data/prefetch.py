"""Prefetching: a thread makes items while the consumer uses earlier ones."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

__all__ = ["prefetch"]

T = TypeVar("T")


def prefetch(make: Callable[[int], T], indices: range, n_ahead: int) -> Iterator[T]:
    """Yield `make(index)` for each index, in order, with at most `n_ahead` items made ahead.

    The thread ends with the iterator: after the last item, an error, `break` or Ctrl-C. Errors of
    `make` are raised in the consumer, in place of the item."""
    if n_ahead < 1:
        yield from map(make, indices)
        return
    queue = _Queue[T](n_ahead)
    # A daemon, because an iterator that is never exhausted must not keep the process alive.
    thread = threading.Thread(
        target=_fill, args=(queue, make, indices), name="svod-nn batches", daemon=True
    )
    thread.start()
    try:
        for index in indices:
            item = queue.take(thread)
            # A forked child process has no such thread: it makes the items itself.
            yield make(index) if item is None else item.get()
    finally:
        queue.close()


class _Item(Generic[T]):
    """A value, or the error raised instead."""

    __slots__ = ("error", "value")

    def __init__(self, make: Callable[[int], T], index: int) -> None:
        self.value: T | None = None
        self.error: BaseException | None = None
        try:
            self.value = make(index)
        # Raised again in the loop of the user, who would not see an error of a thread.
        except BaseException as error:
            self.error = error

    def get(self) -> T:
        if self.error is not None:
            raise self.error
        return self.value  # pyright: ignore[reportReturnType]


class _Queue(Generic[T]):
    """Bounded queue between two threads that can be closed.

    `queue.Queue.shutdown` needs Python 3.13.
    """

    def __init__(self, size: int) -> None:
        self._size, self._is_closed = size, False
        self._items: deque[_Item[T]] = deque()
        self._changed = threading.Condition()

    def put(self, item: _Item[T]) -> bool:
        """Wait for space and append an item; return False if the queue was closed."""
        with self._changed:
            while len(self._items) >= self._size and not self._is_closed:
                self._changed.wait()
            # Also if closed: the item is then not taken, and the thread ends.
            self._items.append(item)
            self._changed.notify_all()
            return not self._is_closed

    def take(self, maker: threading.Thread) -> _Item[T] | None:
        """Wait for an item; return None if the producer thread is dead."""
        with self._changed:
            while not self._items:
                if not maker.is_alive():
                    return None
                # With a timeout, because a thread that dies does not notify.
                self._changed.wait(timeout=1)
            item = self._items.popleft()
            self._changed.notify_all()
            return item

    def close(self) -> None:
        """Discard the items, and make `put` return False."""
        with self._changed:
            self._is_closed = True
            self._items.clear()
            self._changed.notify_all()


def _fill(queue: _Queue[T], make: Callable[[int], T], indices: range) -> None:
    for index in indices:
        item = _Item(make, index)
        if not queue.put(item) or item.error is not None:
            return
