"""Flattening of nested lists, tuples, dicts and None into a list of leaves and a structure that
rebuilds them.

The items of a list or a tuple come in order, the items of a dict in the order of its sorted keys:
equal dicts have their leaves in the same order. A rebuilt dict has its keys in the original order.
None is a container without items. Any other value is a leaf."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, cast

from svod_tensor.capture.nested import Parts, flatten_one_level

__all__ = ["Difference", "Structure", "flatten"]


class Difference(NamedTuple):
    """First difference between two structures.

    Attributes:
        path: path of the item, such as `['w'][1]`; empty for the root.
        left: description of the item in the left structure, such as `tuple of 2`.
        right: description of the item in the right structure.
    """

    path: str
    left: str
    right: str


@dataclass(frozen=True, slots=True)
class Structure:
    """Arrangement of leaves. Equal for values of the same nested types, lengths and keys.

    Attributes:
        kind: the kind of container; None for a leaf.
        names: the path from the container to each item, such as `[0]`, `['x']` or `.low`.
        items: the structure of each item.
        n_leaves: the total number of leaves.
    """

    kind: tuple[object, ...] | None
    names: tuple[str, ...] = ()
    items: tuple[Structure, ...] = ()
    n_leaves: int = 1
    _build: Callable[[Sequence[object]], object] | None = field(
        # Two structures are equal although each has functions of its own.
        default=None,
        compare=False,
        repr=False,
    )

    @property
    def paths(self) -> tuple[str, ...]:
        """Path from the root to each leaf, as it is written in Python."""
        if self.kind is None:
            return ("",)
        pairs = zip(self.names, self.items, strict=True)
        return tuple(f"{name}{path}" for name, item in pairs for path in item.paths)

    def unflatten(self, leaves: Sequence[object]) -> object:
        """The nested value with these leaves.

        Raises:
            ValueError: if the number of leaves differs.
        """
        if len(leaves) != self.n_leaves:
            raise ValueError(f"expected {self.n_leaves} leaves, got {len(leaves)}: {self}")
        return self._unflatten(iter(leaves))

    def find_difference(self, other: Structure) -> Difference | None:
        """The first item of another kind in another structure; None if they are equal."""
        if (self.kind, self.names) != (other.kind, other.names):
            return Difference("", _describe(self), _describe(other))
        for name, item, its in zip(self.names, self.items, other.items, strict=True):
            difference = item.find_difference(its)
            if difference is not None:
                return difference._replace(path=name + difference.path)
        return None

    def _unflatten(self, leaves: Iterator[object]) -> object:
        if self.kind is None:
            return next(leaves)
        items = [item._unflatten(leaves) for item in self.items]
        return None if self._build is None else self._build(items)

    def __str__(self) -> str:
        """The structure in Python syntax, with `*` for a leaf."""
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
    """The leaves of a nested value, and its structure.

    Example:
        >>> from svod_tensor._trees import flatten
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
    level = flatten_one_level(tree)
    if level is None:
        leaves.append(tree)
        return _LEAF
    # Sorted as in JAX: dicts that are equal match, whatever the order of insertion.
    if level.kind[0] is dict:
        level = _sort(level)
    items = tuple([_flatten(item, leaves) for item in level.items])
    return Structure(
        level.kind, level.names, items, sum(item.n_leaves for item in items), level.build
    )


def _sort(level: Parts) -> Parts:
    """The items of a dict in the order of its keys."""
    # Keys may be of any type; Python decides whether they have an order.
    _, keys = cast("tuple[type, tuple[str, ...]]", level.kind)
    try:
        order = sorted(range(len(keys)), key=lambda position: keys[position])
    except TypeError:
        # Keys of several types are unordered: sort by their text.
        order = sorted(range(len(keys)), key=lambda position: level.names[position])
    index_of = {position: index for index, position in enumerate(order)}
    # Capture only the function: the structure must not keep the flattened leaves alive.
    unflatten = level.build

    def build(items: Sequence[object]) -> object:
        return unflatten([items[index_of[position]] for position in range(len(keys))])

    return Parts(
        tuple(level.names[p] for p in order),
        tuple(level.items[p] for p in order),
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
