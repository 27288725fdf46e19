"""Traversal of trees: nested lists, tuples and dicts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar, cast

__all__ = ["iter_leaves", "map_leaves"]

T = TypeVar("T")


def iter_leaves(value: object, kinds: tuple[type, ...], path: str) -> Iterator[tuple[str, object]]:
    """Yield the leaves of these types with their paths: keys and indices joined by dots."""
    if isinstance(value, kinds):
        yield path, value
    elif isinstance(value, (list, tuple)):
        for index, element in enumerate(cast("list[object]", value)):
            yield from iter_leaves(element, kinds, f"{path}.{index}")
    elif isinstance(value, dict):
        for key, element in cast("Mapping[object, object]", value).items():
            yield from iter_leaves(element, kinds, f"{path}.{key}")


def map_leaves(value: object, kind: type[T], function: Callable[[T], T]) -> object:
    """Apply a function to the leaves of a type; subtrees without changes are returned as they are."""
    if isinstance(value, kind):
        return function(value)
    if isinstance(value, (list, tuple)):
        before = list(cast("list[object]", value))
        after = [map_leaves(element, kind, function) for element in before]
        if all(a is b for a, b in zip(after, before, strict=True)):
            return cast("object", value)
        if isinstance(value, list):
            return after
        # A named tuple takes its fields as separate arguments.
        make = cast("Callable[..., object]", type(cast("object", value)))
        return make(*after) if hasattr(cast("object", value), "_fields") else tuple(after)
    if isinstance(value, dict):
        mapping = cast("dict[object, object]", value)
        changed = {key: map_leaves(element, kind, function) for key, element in mapping.items()}
        return changed if any(changed[key] is not mapping[key] for key in mapping) else mapping
    return value
