"""Hashable keys of Python values, equal for values that have the same effect on a trace."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import cast

from svod_ir import UOp
from svod_ir.sizes import unbind

__all__ = ["Identity", "is_array", "is_plain", "key_of", "list_weak_objects"]


class Identity:
    """Key of an object that is equal only to itself. It does not keep the object alive if the
    object supports weak references.
    """

    __slots__ = ("_get", "_hash")

    def __init__(self, value: object) -> None:
        self._hash = id(value)
        try:
            self._get = weakref.ref(value)
        except TypeError:
            self._get = lambda: value

    @property
    def value(self) -> object:
        """The object; None once it is gone."""
        return self._get()

    @property
    def is_weak(self) -> bool:
        """Whether the object may go while the key is kept."""
        return isinstance(self._get, weakref.ref)

    def __eq__(self, other: object) -> bool:
        # Once the object is gone, a new object may have its id.
        return (
            isinstance(other, Identity)
            and (value := self._get()) is not None
            and value is other._get()
        )

    def __hash__(self) -> int:
        return self._hash


def is_array(value: object) -> bool:
    """Whether a value is an array of numpy or has numpy's array interface."""
    # Of the class: an object with a `__getattr__` of its own would be asked in each call.
    return hasattr(type(value), "__array_interface__")


def is_plain(value: object) -> bool:
    """Whether a value is a number, a text or None, or a tuple or frozenset of these: values that
    are compared by value.
    """
    if isinstance(value, (tuple, frozenset)):
        return all(map(is_plain, cast("Iterable[object]", value)))
    return isinstance(value, (int, float, complex, str, bytes, type(None)))


def key_of(value: object) -> tuple[object, ...]:
    """Return the key of a value that is neither a container nor a tensor."""
    match value:
        case UOp():
            return (unbind(value),)
        case float():
            # 0.0 == -0.0, but they are different constants.
            return (float, value.hex())
        case complex():
            return (complex, value.real.hex(), value.imag.hex())
        case None | bool() | int() | str() | bytes():
            return (type(value), value)
        case _:
            if is_plain(value):
                keys = map(key_of, cast("Iterable[object]", value))
                return (tuple, *keys) if isinstance(value, tuple) else (frozenset, frozenset(keys))
            return (Identity(value),)


def list_weak_objects(key: object) -> list[object]:
    """Return the objects that a (nested) key identifies without keeping them alive."""
    if isinstance(key, Identity):
        return [key.value] if key.is_weak else []
    if isinstance(key, (tuple, frozenset)):
        return [
            value for item in cast("Iterable[object]", key) for value in list_weak_objects(item)
        ]
    return []
