"""Finds and exchanges what stands in nested lists, tuples and dicts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar, cast

__all__ = ["exchange_leaves", "iter_leaves"]

T = TypeVar("T")


def iter_leaves(value: object, kinds: tuple[type, ...], path: str) -> Iterator[tuple[str, object]]:
    """What is of these kinds, with its path: keys and numbers of elements behind dots, as in
    `layers.0`.
    """
    if isinstance(value, kinds):
        yield path, value
    elif isinstance(value, (list, tuple)):
        for number, element in enumerate(cast("list[object]", value)):
            yield from iter_leaves(element, kinds, f"{path}.{number}")
    elif isinstance(value, dict):
        for key, element in cast("Mapping[object, object]", value).items():
            yield from iter_leaves(element, kinds, f"{path}.{key}")


def exchange_leaves(value: object, kind: type[T], exchange: Callable[[T], T]) -> object:
    """The same structure with what `exchange` makes of its leaves; the object itself where none of
    them changes.
    """
    if isinstance(value, kind):
        return exchange(value)
    if isinstance(value, (list, tuple)):
        before = list(cast("list[object]", value))
        after = [exchange_leaves(element, kind, exchange) for element in before]
        if all(a is b for a, b in zip(after, before, strict=True)):
            return cast("object", value)
        if isinstance(value, list):
            return after
        # A named tuple takes its fields one by one.
        make = cast("Callable[..., object]", type(cast("object", value)))
        return make(*after) if hasattr(cast("object", value), "_fields") else tuple(after)
    if isinstance(value, dict):
        mapping = cast("dict[object, object]", value)
        changed = {
            key: exchange_leaves(element, kind, exchange) for key, element in mapping.items()
        }
        return changed if any(changed[key] is not mapping[key] for key in mapping) else mapping
    return value
