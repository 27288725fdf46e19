"""Values besides its arguments for which a captured function's plan is valid, and guards that check them before each call.

They are the values outside of the function that its code can read (`outside_values`), and the reads of `depend_on`. A plan
serves calls as long as none of them has changed since the capture.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from operator import is_
from types import CellType
from typing import NamedTuple, TypeVar, cast

from svod_tensor.capture.attribute_changes import changes, is_observed
from svod_tensor.capture.keys import is_plain, key_of
from svod_tensor.capture.outside_values import MISSING, Edge, get_entries, list_elements, read_cell
from svod_tensor.cells import registry

__all__ = ["Dependency", "Guards", "depend_on", "find_changed"]

T = TypeVar("T")


class Dependency(NamedTuple):
    """A value that was read while a function was captured.

    Attributes:
        name: its name in messages.
        read: returns the present value.
        value: the value at the capture; for the elements of a container a tuple.
        is_elements: whether it is the elements of a container.
    """

    name: str
    read: Callable[[], object]
    value: object
    is_elements: bool = False

    @classmethod
    def on(cls, edge: Edge) -> Dependency:
        """Return the dependency on a value that code reads."""
        return cls(edge.name, edge.read, edge.value, edge.kind == "elements")

    @property
    def is_current(self) -> bool:
        """Whether the value is an equal number or text, or the same object, as at the capture."""
        return self._find_difference() is None

    @property
    def may_return(self) -> bool:
        """Whether the value at the capture may return: numbers and texts do; an object that was replaced is not put back."""
        return self.value is MISSING or is_plain(self.value)

    def describe(self) -> str:
        """Describe the difference from the value at the capture."""
        difference = self._find_difference()
        if difference is None:
            return f"{self.name} has not changed"
        now, before = difference
        if now is MISSING or before is MISSING:
            return f"{self.name} is {'missing' if now is MISSING else 'new'}"
        if is_plain(now) and is_plain(before):
            return f"{self.name} is {now!r} instead of {before!r}"
        return f"{self.name} is another object"

    def _find_difference(self) -> tuple[object, object] | None:
        """Return the present value and the one at the capture, if these differ."""
        now = self.read()
        if not self.is_elements:
            return None if _is_same(now, self.value) else (now, self.value)
        elements, before = cast("tuple[object, ...]", now), cast("tuple[object, ...]", self.value)
        if len(elements) != len(before):
            return len(elements), len(before)
        return next((pair for pair in zip(elements, before, strict=True) if not _is_same(*pair)), None)


class _Entries:
    """Entries of a namespace, of a dict or of an object's attributes, looked up together."""

    __slots__ = ("_get", "_keys", "_owner", "_owner_ref", "_values")

    def __init__(self, edge: Edge) -> None:
        # A program may give an object another `__dict__`.
        self._get = None if edge.kind == "attribute" else cast("Mapping[object, object]", edge.owner).get
        self._owner, self._owner_ref = edge.owner, edge.owner_ref
        self._keys: list[object] = []
        self._values: list[object] = []

    def add(self, key: object, value: object) -> None:
        self._keys.append(key)
        self._values.append(value)

    def hold(self) -> bool:
        # None stands for a missing entry too: code that read None before raises where it is missing.
        get = self._get
        if get is None:
            owner = self._owner if self._owner_ref is None else self._owner_ref()
            get = cast("Callable[[object], object]", get_entries(owner).get)
        if all(map(is_, map(get, self._keys), self._values)):
            return True
        now = list(map(get, self._keys))
        if not all(map(_is_same, now, self._values)):
            return False
        # An equal number is another object: compare with that one from now on.
        self._values = now
        return True


class Guards:
    """Checks of all dependencies of a plan, in few steps: `hold` runs before each call.

    Attributes of observed objects, such as networks, are checked only after some attribute was set. Lists and dicts of objects
    that are equal only to themselves are compared as a whole, which Python does by identity first. Entries of one namespace or
    object are looked up together.
    """

    __slots__ = ("_change_count", "_checks", "_container_copies", "_containers", "_observed")

    def __init__(self, edges: Iterable[Edge], reads: Sequence[Dependency]) -> None:
        containers: list[object] = []
        copies: list[object] = []
        entries: dict[tuple[int, str], _Entries] = {}
        absent: dict[int, tuple[Edge, set[object]]] = {}
        observed: list[Dependency] = []
        checks: list[Callable[[], bool]] = []
        for edge in edges:
            kind, value = edge.kind, edge.value
            owner = edge.find_owner()
            type_of_owner: type = type(owner)
            if kind in ("attribute", "static") and is_observed(owner):
                observed.append(Dependency.on(edge))
            elif kind == "attribute" and value is MISSING:
                absent.setdefault(id(owner), (edge, set()))[1].add(edge.key)
            elif value is not MISSING and (
                kind in ("global", "attribute") or (kind == "item" and type_of_owner is dict)
            ):
                entries.setdefault((id(owner), kind), _Entries(edge)).add(edge.key, value)
            elif kind == "elements" and type_of_owner in (list, dict) and _is_compared_by_identity(value):
                containers.append(owner)
                copies.append(cast("list[object]", owner).copy())
            elif kind == "elements" and edge.owner_ref is None:
                checks.append(_check_elements(owner, cast("tuple[object, ...]", value)))
            elif kind == "nonlocal":
                checks.append(partial(_holds_variable, cast("CellType", owner), value))
            else:
                checks.append(partial(_is_current, Dependency.on(edge)))
        checks += [group.hold for group in entries.values()]
        checks += [partial(_lacks, edge, frozenset(names)) for edge, names in absent.values()]
        checks += [partial(_is_current, read) for read in reads]
        self._checks = tuple(checks)
        self._observed = tuple(observed)
        self._containers, self._container_copies = tuple(containers), tuple(copies)
        # The values were read before the function ran, which may have set attributes.
        self._change_count = -1 if self._observed else changes.last

    def hold(self) -> bool:
        """Whether no dependency has changed."""
        if self._observed:
            count = changes.last
            if count != self._change_count:
                if find_changed(self._observed) is not None:
                    return False
                self._change_count = count
        if self._containers != self._container_copies:
            return False
        for check in self._checks:  # noqa: SIM110 (a generator takes longer than the checks)
            if not check():
                return False
        return True


def depend_on(name: str, read: Callable[[], T]) -> T:
    """Read a Python value on which a computation depends, such as a setting behind a C extension.

    A captured function that does this is captured anew for calls in which `read` returns another value; outside of captures it only
    calls `read`. Numbers and texts are compared by value, other objects by identity. Most values need no `depend_on`: globals,
    attributes, and items of dicts and lists are compared anyway.

    Args:
        name: name of the value in `explain`.
        read: returns the value; it is called at every call of the captured function.

    Returns:
        the present value.

    Example:
        >>> from svod_tensor import Tensor, depend_on, jit
        >>> settings = {"scale": 2}
        >>> @jit
        ... def scale(x):
        ...     return x * depend_on("the scale", lambda: settings["scale"])
        >>> first = scale(Tensor([1.0])).item()
        >>> settings["scale"] = 3
        >>> first, scale(Tensor([1.0])).item()
        (2.0, 3.0)
    """
    value = read()
    capture = registry.find_capture()
    if capture is not None:
        while capture.outer is not None:
            capture = capture.outer
        capture.dependencies.append((name, read, value))
    return value


def find_changed(dependencies: Iterable[Dependency]) -> Dependency | None:
    """Return the first dependency that has changed; None where a plan is valid."""
    for dependency in dependencies:
        if not dependency.is_current:
            return dependency
    return None


def _is_same(now: object, before: object) -> bool:
    return now is before or (is_plain(before) and is_plain(now) and key_of(now) == key_of(before))


def _is_current(dependency: Dependency) -> bool:
    return dependency.is_current


def _lacks(edge: Edge, names: frozenset[object]) -> bool:
    owner = edge.find_owner()
    return get_entries(owner).keys().isdisjoint(names)


def _holds_variable(cell: CellType, value: object) -> bool:
    return _is_same(read_cell(cell), value)


def _holds_elements(container: object, elements: tuple[object, ...]) -> bool:
    now = list_elements(container)
    return len(now) == len(elements) and all(map(_is_same, now, elements))


def _holds_list(container: list[object], elements: tuple[object, ...]) -> bool:
    if len(container) == len(elements) and all(map(is_, container, elements)):
        return True
    return _holds_elements(container, elements)


def _holds_dict(container: dict[object, object], keys: tuple[object, ...], values: tuple[object, ...]) -> bool:
    if len(container) == len(keys) and all(map(is_, container.values(), values)) and all(map(is_, container, keys)):
        return True
    return _holds_elements(container, (*keys, *values))


def _check_elements(container: object, elements: tuple[object, ...]) -> Callable[[], bool]:
    """Return the fastest check of the elements of a container."""
    kind: type = type(container)
    if kind is list:
        return partial(_holds_list, cast("list[object]", container), elements)
    if kind is dict:
        n = len(elements) // 2
        return partial(_holds_dict, cast("dict[object, object]", container), elements[:n], elements[n:])
    return partial(_holds_elements, container, elements)


def _is_compared_by_identity(elements: object) -> bool:
    """Whether all elements are objects that are equal only to themselves, or texts."""
    return all(
        type(element) is str or type(element).__eq__ is object.__eq__
        for element in cast("tuple[object, ...]", elements)
    )
