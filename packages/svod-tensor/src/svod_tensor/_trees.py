"""Nested lists, tuples, dicts and Nones of anything, as a flat list of leaves and a structure that
puts others in place.

The items of a list or a tuple come in order, those of a dict in the order of its sorted keys, so
that two dicts that are equal have their leaves in one order however they were made; what is put
together has its keys in the first order. None is a container without items. Anything else is a
leaf."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, cast

from svod_tensor.capture.nested import Parts, flatten_one_level

__all__ = ["Difference", "Structure", "flatten"]


class Difference(NamedTuple):
    """Where two structures first differ.

    Attributes:
        path: of the part, such as `['w'][1]`; empty for the whole.
        left: what it is in the one, such as `tuple of 2`.
        right: what it is in the other.
    """

    path: str
    left: str
    right: str


@dataclass(frozen=True, slots=True)
class Structure:
    """How leaves are arranged. Equal for values of the same nested types, lengths and keys.

    Attributes:
        kind: what a container of this structure is; None for a leaf.
        names: how each item is reached from the container, such as `[0]`, `['x']` or `.low`.
        items: the structure of each.
        n_leaves: how many there are in all.
    """

    kind: tuple[object, ...] | None
    names: tuple[str, ...] = ()
    items: tuple[Structure, ...] = ()
    n_leaves: int = 1
    _build: Callable[[Sequence[object]], object] | None = field(
        default=None, compare=False, repr=False
    )

    @property
    def paths(self) -> tuple[str, ...]:
        """How each leaf is reached, as it is written in Python behind the name of the whole."""
        if self.kind is None:
            return ("",)
        pairs = zip(self.names, self.items, strict=True)
        return tuple(f"{name}{path}" for name, item in pairs for path in item.paths)

    def unflatten(self, leaves: Sequence[object]) -> object:
        """The nested value with these leaves.

        Raises:
            ValueError: if their number is another.
        """
        if len(leaves) != self.n_leaves:
            raise ValueError(f"{self.n_leaves} leaves are asked for, not {len(leaves)}: {self}")
        return self._put_together(iter(leaves))

    def find_difference(self, other: Structure) -> Difference | None:
        """The first part that is not of the same kind in another structure; None if they
        are equal.
        """
        if (self.kind, self.names) != (other.kind, other.names):
            return Difference("", _describe(self), _describe(other))
        for name, item, its in zip(self.names, self.items, other.items, strict=True):
            found = item.find_difference(its)
            if found is not None:
                return found._replace(path=name + found.path)
        return None

    def _put_together(self, leaves: Iterator[object]) -> object:
        if self.kind is None:
            return next(leaves)
        made = [item._put_together(leaves) for item in self.items]
        return None if self._build is None else self._build(made)

    def __str__(self) -> str:
        """The structure as it is written in Python, with `*` for a leaf."""
        texts = [str(item) for item in self.items]
        match self.kind:
            case None:
                return "*"
            case (kind, tuple()) if kind is dict:
                pairs = zip(self.names, texts, strict=True)
                return "{" + ", ".join(f"{name[1:-1]}: {text}" for name, text in pairs) + "}"
            case (kind, _) if kind is list:
                return f"[{', '.join(texts)}]"
            case (kind, _) if kind is tuple:
                return f"({', '.join(texts)}{',' if len(texts) == 1 else ''})"
            case (kind, _, *_):
                named = [
                    f"{n[1:]}={t}" if n.startswith(".") else t
                    for n, t in zip(self.names, texts, strict=True)
                ]
                return f"{_name(kind)}({', '.join(named)})"
            case _:
                return "None"


def flatten(tree: object) -> tuple[list[object], Structure]:
    """The leaves of a nested value, and how they are arranged.

    Example:
        >>> leaves, structure = flatten({"w": [1, (2, None)], "b": 3})
        >>> leaves, structure.paths, str(structure)
        ([3, 1, 2], ("['b']", "['w'][0]", "['w'][1][0]"), "{'b': *, 'w': [*, (*, None)]}")
        >>> structure.unflatten("xyz")
        {'w': ['y', ('z', None)], 'b': 'x'}
    """
    leaves: list[object] = []
    return leaves, _flatten(tree, leaves)


_LEAF = Structure(None)
_NONE = Structure((type(None),), n_leaves=0)


def _flatten(tree: object, leaves: list[object]) -> Structure:
    if tree is None:
        return _NONE
    parts = flatten_one_level(tree)
    if parts is None:
        leaves.append(tree)
        return _LEAF
    if parts.kind[0] is dict:
        parts = _sort(parts)
    items = tuple([_flatten(item, leaves) for item in parts.items])
    return Structure(
        parts.kind, parts.names, items, sum(item.n_leaves for item in items), parts.build
    )


def _sort(parts: Parts) -> Parts:
    """The parts of a dict in the order of its keys."""
    # Keys of any type, of which Python says whether they have an order.
    _, keys = cast("tuple[type, tuple[str, ...]]", parts.kind)
    try:
        order = sorted(range(len(keys)), key=lambda position: keys[position])
    except TypeError:
        # Keys of several types have no order of their own.
        order = sorted(range(len(keys)), key=lambda position: parts.names[position])
    places = {position: place for place, position in enumerate(order)}
    # A structure must not keep the leaves that it was found in.
    put_together = parts.build

    def build(made: Sequence[object]) -> object:
        return put_together([made[places[position]] for position in range(len(keys))])

    return Parts(
        tuple(parts.names[p] for p in order),
        tuple(parts.items[p] for p in order),
        (dict, tuple(keys[p] for p in order)),
        build,
    )


def _describe(structure: Structure) -> str:
    match structure.kind:
        case None:
            return "a leaf"
        case (kind, tuple()) if kind is dict:
            return f"dict of {', '.join(name[1:-1] for name in structure.names) or 'nothing'}"
        case (kind, int(length), *_):
            return f"{_name(kind)} of {length}"
        case (kind, tuple(), *_):
            return (
                f"{_name(kind)} of"
                f" {', '.join(name[1:] for name in structure.names) or 'no tensors'}"
            )
        case _:
            return "None"


def _name(kind: object) -> str:
    return kind.__qualname__ if isinstance(kind, type) else str(kind)
