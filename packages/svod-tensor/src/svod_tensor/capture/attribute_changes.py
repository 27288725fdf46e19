"""Counter of attribute changes of observed classes: one comparison tells whether any of their
objects has changed.

A captured function that reads a network would have hundreds of attributes to compare before each
call. Instead, the network's class counts each change of an attribute: while the count is unchanged,
so are all attributes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any, Final, TypeVar

__all__ = ["changes", "is_observed", "is_observed_class", "observe_attributes"]

T = TypeVar("T", bound=type)


class _Changes:
    """Changes of attributes of observed objects.

    Attributes:
        last: the index of the last change.
    """

    __slots__ = ("_next", "last")

    def __init__(self) -> None:
        self.last, self._next = 0, count(1).__next__

    def add(self) -> None:
        """Count a change that the caller has made already: a thread that sees the new count then
        sees the new value too.
        """
        # `next` of a count is atomic in CPython: two threads never get the same number.
        self.last = self._next()


changes: Final = _Changes()
_observing: Final[set[object]] = set()


def observe_attributes(kind: T) -> T:
    """Class decorator: count each attribute that is set or deleted on an object of the class.

    Captured functions then check the attributes of all such objects with one comparison for each
    call, instead of one by one. Changes that bypass `__setattr__`, such as `vars(x)["a"] = 1`, are
    not seen. A subclass that overrides `__setattr__` or `__delattr__` is not observed.

    Example:
        >>> from svod_tensor import Tensor, jit, observe_attributes
        >>> @observe_attributes
        ... class Scale:
        ...     def __init__(self, factor):
        ...         self.factor = factor
        >>> scale = Scale(2.0)
        >>> f = jit(lambda x: x * scale.factor)
        >>> first = f(Tensor([1.0])).tolist()
        >>> scale.factor = 3.0
        >>> first, f(Tensor([1.0])).tolist()
        ([2.0], [3.0])
    """
    for name in ("__setattr__", "__delattr__"):
        setattr(kind, name, _count_calls(getattr(kind, name)))
    return kind


def is_observed(value: object) -> bool:
    """Whether attribute changes of `value` are counted."""
    return is_observed_class(type(value))


def is_observed_class(kind: type) -> bool:
    """Whether attribute changes of objects of a class are counted."""
    return kind.__setattr__ in _observing and kind.__delattr__ in _observing


def _count_calls(method: Callable[..., None]) -> Callable[..., None]:
    def change(self: object, name: str, *value: Any) -> None:
        try:
            method(self, name, *value)
        finally:
            # Also if the method raises: it may have changed the object before.
            changes.add()

    change.__name__, change.__qualname__ = method.__name__, method.__qualname__
    # A set of functions, not of classes: a subclass that overrides the method has another function,
    # and is then not taken for observed.
    _observing.add(change)
    return change
