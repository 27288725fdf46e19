"""Items that a thread makes while those before them are used."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

__all__ = ["prefetch"]

T = TypeVar("T")


def prefetch(make: Callable[[int], T], numbers: range, n_ahead: int) -> Iterator[T]:
    """`make(number)` for each number, in order; at most `n_ahead` are made before somebody asks for
    them.

    The thread ends with the iterator: after the last item, an error, `break` or Ctrl-C. What `make`
    raises is raised where the item would have been."""
    if n_ahead < 1:
        yield from map(make, numbers)
        return
    shelf = _Shelf[T](n_ahead)
    thread = threading.Thread(
        target=_fill, args=(shelf, make, numbers), name="svod-nn batches", daemon=True
    )
    thread.start()
    try:
        for number in numbers:
            item = shelf.take(thread)
            # The thread is not there any more in the child of a fork.
            yield make(number) if item is None else item.get()
    finally:
        shelf.close()


class _Item(Generic[T]):
    """A value, or the error that came instead."""

    __slots__ = ("error", "value")

    def __init__(self, make: Callable[[int], T], number: int) -> None:
        self.value: T | None = None
        self.error: BaseException | None = None
        try:
            self.value = make(number)
        except BaseException as error:
            self.error = error

    def get(self) -> T:
        if self.error is not None:
            raise self.error
        return self.value  # pyright: ignore[reportReturnType]


class _Shelf(Generic[T]):
    """Room for a few items between two threads."""

    def __init__(self, size: int) -> None:
        self._size, self._is_closed = size, False
        self._items: deque[_Item[T]] = deque()
        self._changed = threading.Condition()

    def put(self, item: _Item[T]) -> bool:
        """Wait for room and put an item there; False if nobody takes any more."""
        with self._changed:
            while len(self._items) >= self._size and not self._is_closed:
                self._changed.wait()
            self._items.append(item)
            self._changed.notify_all()
            return not self._is_closed

    def take(self, maker: threading.Thread) -> _Item[T] | None:
        """Wait for an item; None if nobody makes any more."""
        with self._changed:
            while not self._items:
                if not maker.is_alive():
                    return None
                self._changed.wait(timeout=1)
            item = self._items.popleft()
            self._changed.notify_all()
            return item

    def close(self) -> None:
        """Take no more."""
        with self._changed:
            self._is_closed = True
            self._items.clear()
            self._changed.notify_all()


def _fill(shelf: _Shelf[T], make: Callable[[int], T], numbers: range) -> None:
    for number in numbers:
        item = _Item(make, number)
        if not shelf.put(item) or item.error is not None:
            return
