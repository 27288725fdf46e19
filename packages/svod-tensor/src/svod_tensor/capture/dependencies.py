"""Dependencies of a captured function's plan besides its arguments, and the guards that check them
before each call.

Dependencies are the outside values that the function's code can read (`outside_values`), and the
reads of `depend_on`. A plan serves calls as long as none of them has changed since the capture."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from keyword import iskeyword
from operator import is_
from typing import NamedTuple, TypeVar, cast

from svod_tensor.capture.attribute_changes import changes, is_observed
from svod_tensor.capture.keys import is_plain, key_of
from svod_tensor.capture.outside_values import MISSING, Edge, list_elements
from svod_tensor.cells import registry

__all__ = ["Dependency", "Guards", "depend_on", "find_changed"]

T = TypeVar("T")


class Dependency(NamedTuple):
    """Value that was read while a function was captured.

    Attributes:
        name: its name in messages.
        read: returns the present value.
        value: the value at the capture; for the elements of a container a tuple.
        is_elements: whether the value is all elements of a container.
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
        """True if the value is an equal number or text, or the same object, as at the capture."""
        return self._find_difference() is None

    @property
    def may_return(self) -> bool:
        """True if the value at the capture may return. Numbers and texts do; a replaced object is
        assumed gone.
        """
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
        return next(
            (pair for pair in zip(elements, before, strict=True) if not _is_same(*pair)), None
        )


class Guards:
    """Checks of all dependencies of a plan: `hold` runs before each call.

    The checks are one generated expression that compares each value by identity, as in
    `g0["scale"] is v0 and o1.__dict__["w"] is v1 and list2 == copy2`. Where it is False or raises,
    the dependencies are compared one by one. Attributes of observed objects, such as networks, are
    checked only after some attribute was set."""

    __slots__ = ("_change_count", "_compared", "_holds_by_identity", "_observed", "_values")

    def __init__(self, edges: Iterable[Edge], reads: Sequence[Dependency]) -> None:
        observed: list[Dependency] = []
        compared: list[tuple[str, Dependency]] = []
        values: dict[str, object] = {}
        terms: list[str] = []
        for edge in edges:
            dependency = Dependency.on(edge)
            if edge.kind in ("attribute", "static") and is_observed(edge.find_owner()):
                observed.append(dependency)
            else:
                name = f"v{len(compared)}"
                compared.append((name, dependency))
                terms.append(_write_check(edge, name, values))
        for read in reads:
            name = f"v{len(compared)}"
            compared.append((name, read))
            terms.append(_write_call(partial(_is_current, read), name, values))
        self._observed = tuple(observed)
        self._compared, self._values = tuple(compared), values
        # Generated, since it takes 20 to 30 ns a value: for a network it takes 0.2 us, where a loop
        # over objects that compare their fields took 2.1 us.
        self._holds_by_identity: Callable[[], bool] = eval(
            f"lambda: {' and '.join(terms) or 'True'}", values
        )
        # The values were read before the function ran, which may have set attributes.
        self._change_count = -1 if self._observed else changes.last

    def hold(self) -> bool:
        """Whether no dependency has changed."""
        if self._observed:
            # Read before the comparison: an attribute that another thread sets meanwhile is found
            # by the next call.
            count = changes.last
            if count != self._change_count:
                if find_changed(self._observed) is not None:
                    return False
                self._change_count = count
        try:
            if self._holds_by_identity():
                return True
        except (AttributeError, LookupError, ValueError):
            # An entry, an attribute or a variable is missing, or its owner is gone.
            pass
        return self._hold_by_value()

    def _hold_by_value(self) -> bool:
        """Compare the dependencies one by one.

        Numbers that are equal are compared with their present objects from now on.
        """
        for name, dependency in self._compared:
            if not dependency.is_current:
                return False
            if name in self._values and not dependency.is_elements:
                self._values[name] = dependency.read()
        return True


def _write_check(edge: Edge, name: str, values: dict[str, object]) -> str:
    """Return an expression that is true while the value of `edge` is the same object.

    Args:
        edge: the value.
        name: name of the value in the expression, which is unique among all checks.
        values: gets the value of each name in the expression.
    """
    kind, key, value, owner = edge.kind, edge.key, edge.value, edge.find_owner()
    type_of_owner: type = type(owner)
    holder = f"owner_of_{name}"
    values[holder] = owner if edge.owner_ref is None else edge.owner_ref
    # An argument that is known by its identity is referred to weakly, so that the plan does not
    # keep it alive.
    source = holder if edge.owner_ref is None else f"{holder}()"
    # A class with a `__getattribute__` of its own may compute any attribute, so `__dict__` does not
    # tell what code reads from its objects.
    is_attribute = kind == "attribute" and type_of_owner.__getattribute__ is object.__getattribute__
    if value is MISSING:
        return (
            f"{key!r} not in {source}.__dict__"
            if is_attribute
            else _write_call(_make_check(edge), name, values)
        )
    if kind == "elements" and type_of_owner in (list, dict) and _is_compared_by_identity(value):
        # Python compares elements by identity first.
        values[f"copy_of_{name}"] = cast("list[object]", owner).copy()
        return f"{source} == copy_of_{name}"
    if kind == "nonlocal":
        text = f"{source}.cell_contents"
    elif is_attribute:
        text = f"{source}.__dict__[{key!r}]"
    elif kind == "static" and isinstance(key, str) and key.isidentifier() and not iskeyword(key):
        text = f"{source}.{key}"
    elif kind == "global" or (
        # The repr of any other key need not be an expression for that key.
        kind == "item" and type_of_owner in (dict, list) and type(key) in (str, int)
    ):
        text = f"{source}[{key!r}]"
    else:
        return _write_call(_make_check(edge), name, values)
    values[name] = value
    return f"{text} is {name}"


def _write_call(check: Callable[[], bool], name: str, values: dict[str, object]) -> str:
    values[f"check_of_{name}"] = check
    return f"check_of_{name}()"


def _make_check(edge: Edge) -> Callable[[], bool]:
    if edge.kind == "elements" and edge.owner_ref is None:
        return _check_elements(edge.owner, cast("tuple[object, ...]", edge.value))
    return partial(_is_current, Dependency.on(edge))


def depend_on(name: str, read: Callable[[], T]) -> T:
    """Read a Python value on which a computation depends, such as a setting behind a C extension.

    A captured function that does this is captured anew for calls in which `read` returns another
    value; outside of captures it only calls `read`. Numbers and texts are compared by value, other
    objects by identity. Most values need no `depend_on`: globals, attributes, and items of dicts
    and lists are compared anyway.

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
        # Guards belong to the plan, and only the outermost capture makes one.
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


def _holds_elements(container: object, elements: tuple[object, ...]) -> bool:
    now = list_elements(container)
    return len(now) == len(elements) and all(map(_is_same, now, elements))


def _holds_list(container: list[object], elements: tuple[object, ...]) -> bool:
    if len(container) == len(elements) and all(map(is_, container, elements)):
        return True
    return _holds_elements(container, elements)


def _holds_dict(
    container: dict[object, object], keys: tuple[object, ...], values: tuple[object, ...]
) -> bool:
    if (
        len(container) == len(keys)
        and all(map(is_, container.values(), values))
        and all(map(is_, container, keys))
    ):
        return True
    return _holds_elements(container, (*keys, *values))


def _check_elements(container: object, elements: tuple[object, ...]) -> Callable[[], bool]:
    """Return the fastest check of the elements of a container."""
    kind: type = type(container)
    if kind is list:
        return partial(_holds_list, cast("list[object]", container), elements)
    if kind is dict:
        n = len(elements) // 2
        return partial(
            _holds_dict, cast("dict[object, object]", container), elements[:n], elements[n:]
        )
    return partial(_holds_elements, container, elements)


def _is_compared_by_identity(elements: object) -> bool:
    """Whether all elements are objects that are equal only to themselves, or texts."""
    return all(
        # Any other `__eq__` may be expensive or return no bool, as for arrays and tensors.
        type(element) is str or type(element).__eq__ is object.__eq__
        for element in cast("tuple[object, ...]", elements)
    )
