"""Lists, tuples and dicts of anything: taken apart, and put together from other parts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from typing_extensions import TypeIs

__all__ = ["Parts", "list_items", "take_apart"]


class Parts(NamedTuple):
    """What a container holds.

    Attributes:
        names: how each item is reached from the container, such as `[0]`, `['x']` or `.low`.
        items: the items.
        kind: what else a container must have in common to be of one kind with this one.
        build: makes a container of this kind from other items.
    """

    names: tuple[str, ...]
    items: tuple[object, ...]
    kind: tuple[object, ...]
    build: Callable[[Sequence[object]], object]


def take_apart(value: object) -> Parts | None:
    """The parts of a list, a tuple (a named one too) or a dict; None for anything else."""
    found = list_items(value)
    if found is None:
        return None
    kind, items = found
    if _is_dict(value):
        keys = tuple(value)
        return Parts(tuple(f"[{k!r}]" for k in keys), tuple(items), kind, _get_dict_build(keys))
    fields = getattr(type(value), "_fields", None)
    names = tuple([f"[{n}]" for n in range(len(items))] if fields is None else [f".{name}" for name in fields])
    return Parts(names, tuple(items), kind, _get_build(type(value)))


def list_items(value: object) -> tuple[tuple[object, ...], Collection[object]] | None:
    """The kind and the items of `take_apart`: all that a signature needs, at each call."""
    if _is_sequence(value):
        return (type(value), len(value)), value
    if _is_dict(value):
        return (dict, tuple(value)), value.values()
    return None


def _get_dict_build(keys: Sequence[object]) -> Callable[[Sequence[object]], object]:
    def build(made: Sequence[object]) -> object:
        return dict(zip(keys, made, strict=True))

    return build


def _get_build(kind: Callable[..., object]) -> Callable[[Sequence[object]], object]:
    def build(made: Sequence[object]) -> object:
        # A named tuple takes its fields one by one.
        return kind(*made) if hasattr(kind, "_fields") else kind(made)

    return build


def _is_dict(value: object) -> TypeIs[dict[object, object]]:
    return isinstance(value, dict)


def _is_sequence(value: object) -> TypeIs[list[object] | tuple[object, ...]]:
    return isinstance(value, (list, tuple))
