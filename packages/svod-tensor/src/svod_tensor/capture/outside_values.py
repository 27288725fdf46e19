"""Outside values: values besides its arguments that a function can read, found by following the
access paths in its code.

The walk begins at the function: its globals, closure variables, and bound object. Each path in its
code is followed through objects, dicts, lists and modules, and each function or method on the way
is analyzed in turn. If the path of a value is unknown (an element of an iteration, a local
variable), all attributes that the code reads from such values are followed. So the walk may find
more than one call reads. It never executes code of the program: properties are analyzed, not
called.

Code of the standard library, of numpy and of svod's own lower layers is not followed."""

from __future__ import annotations

import sys
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property, lru_cache, partial, partialmethod
from types import (
    BuiltinFunctionType,
    CellType,
    FunctionType,
    GetSetDescriptorType,
    MappingProxyType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)
from typing import Any, Final, NamedTuple, cast

from svod_ir import UOp
from svod_tensor.capture.access_paths import CodeAccess, PathStep, Root, analyze_code
from svod_tensor.capture.attribute_changes import is_observed
from svod_tensor.capture.keys import is_array, is_plain
from svod_tensor.capture.nested import OPAQUE_PACKAGES, list_attributes
from svod_tensor.tensor import Tensor

__all__ = [
    "MISSING",
    "Edge",
    "get_entries",
    "is_leaf",
    "list_elements",
    "list_outside_values",
    "read_cell",
]

MISSING: Final = object()
"""Value of an attribute, an item or a variable that does not exist."""

_LIBRARIES: Final = OPAQUE_PACKAGES | {
    "_pytest",
    "cffi",
    "llvmlite",
    "matplotlib",
    "ml_dtypes",
    "pandas",
    "pytest",
    "sklearn",
    "structlog",
}
"""Packages whose functions read nothing that a program changes between calls."""

_CONTAINERS: Final = (list, tuple, dict, set, frozenset, deque, MappingProxyType)
# Methods of containers that return none of the elements.
_WRITERS: Final = frozenset(
    {
        "append",
        "appendleft",
        "extend",
        "extendleft",
        "insert",
        "add",
        "update",
        "clear",
        "remove",
        "discard",
        "sort",
        "reverse",
    }
)
# Attributes that only describe an object.
_DESCRIPTIONS: Final = frozenset(
    {"__module__", "__doc__", "__name__", "__qualname__", "__annotations__", "__class__"}
)
# Special methods that no operation on an existing object calls implicitly.
_NEVER_IMPLICIT: Final = frozenset(
    {
        "__init__",
        "__new__",
        "__repr__",
        "__str__",
        "__del__",
        "__init_subclass__",
        "__class_getitem__",
        "__getattr__",
        "__setattr__",
        "__delattr__",
        "__post_init__",
        "__dir__",
        "__reduce__",
        "__getstate__",
        "__setstate__",
    }
)


class Edge(NamedTuple):
    """Value that code reads, and the object that it is read from.

    Attributes:
        name: path of the value, as it is written in Python.
        kind: "global" (an entry of a namespace), "nonlocal" (a closure's cell), "attribute" (an
            entry of an object's `__dict__`), "static" (an attribute that is found on the class, or
            in a slot), "item" (by key) or "elements" (all of a container).
        owner: the namespace, cell, object or container.
        key: name, key or index; None for "elements" and "nonlocal".
        value: the value at the capture; a tuple for "elements".
        owner_ref: weak reference to the owner, in which case `owner` is None: the owner is an
            argument that the edge does not keep alive.
    """

    name: str
    kind: str
    owner: object
    key: object
    value: object
    owner_ref: weakref.ref[Any] | None = None

    def weaken(self) -> Edge:
        """Return the same edge without a reference that keeps the owner alive."""
        return self._replace(owner=None, owner_ref=weakref.ref(self.owner))

    def find_owner(self) -> object | None:
        """Return the owner; None once it is gone."""
        return self.owner if self.owner_ref is None else self.owner_ref()

    def read(self) -> object:
        """Return the present value; `MISSING` once the owner is gone."""
        owner = self.find_owner()
        if owner is None:
            return MISSING
        match self.kind:
            case "global":
                return cast("dict[object, object]", owner).get(self.key, MISSING)
            case "nonlocal":
                return read_cell(cast("CellType", owner))
            case "attribute":
                return get_entries(owner).get(cast("str", self.key), MISSING)
            case "static":
                return getattr(owner, cast("str", self.key), MISSING)
            case "item":
                return _get_item(owner, self.key)
            case _:
                return list_elements(owner)


def list_outside_values(
    function: Callable[..., object], arguments: Mapping[str, object], others: Iterable[object] = ()
) -> list[Edge]:
    """Return the values that `function` can read besides its arguments.

    Args:
        function: a function, method or other callable.
        arguments: objects that it gets, by parameter, whose attributes count as outside of the
            arguments.
        others: objects that it gets in containers, and classes of its arguments.
    """
    walk = _ReachabilityWalk()
    for value in others:
        walk.mark_reachable(value, "an argument")
    for name, value in arguments.items():
        walk.mark_reachable(value, name)
    walk.follow_function(function, "", arguments)
    walk.finish()
    return list(walk.edges.values())


def list_elements(container: object) -> tuple[object, ...]:
    """Return the elements of a container; of a dict, all keys and then all values."""
    if _is_a(container, (dict, MappingProxyType)):
        mapping = cast("Mapping[object, object]", container)
        return (*mapping.keys(), *mapping.values())
    return tuple(cast("Iterable[object]", container))


class _ReachabilityWalk:
    """Breadth-first walk over the values that code can reach.

    Attributes:
        edges: each value that was read, by the id of its owner and by its key.
        attributes: names that code reads from values of unknown path.
        layer_attributes: names that code of svod's layers reads so: attributes of layers.
        is_dynamic: whether code reads attributes by computed names.
        opened: objects and classes of which any attribute in `attributes` may be read: each with
            its path, and the names that were already followed.
    """

    def __init__(self) -> None:
        self.edges: dict[tuple[int, str, object], Edge] = {}
        self.attributes: set[str] = set()
        self.layer_attributes: set[str] = set()
        self.is_dynamic = False
        self.opened: dict[int, tuple[object, str, set[str]]] = {}
        self._reachable: dict[int, object] = {}
        self._functions: set[tuple[object, int]] = set()
        # `__dict__` of a class is another object each time that it is read.
        self._namespaces: dict[type, Mapping[str, object]] = {}
        # Worklists: a program may be nested deeper than Python's stack.
        self._pending: list[tuple[object, str]] = []
        self._calls: list[tuple[object, str, Mapping[str, object]]] = []

    def finish(self) -> None:
        """Follow everything until no new value, function or name turns up."""
        changed = True
        while changed:
            changed = self._drain()
            for owner, name, done in list(self.opened.values()):
                if (
                    self.is_dynamic
                    and "__dict__" not in done
                    and not isinstance(owner, (type, ModuleType))
                ):
                    # Any attribute may be read, a later one too.
                    done.add("__dict__")
                    self.mark_reachable(get_entries(owner), f"{name}.__dict__")
                    changed = True
                names = self._list_names(owner) - done
                done |= names
                for attribute in sorted(names):
                    self._guess_attribute(owner, attribute, name)
                    changed = True

    def _drain(self) -> bool:
        changed = bool(self._pending or self._calls)
        while self._pending or self._calls:
            if self._pending:
                self._open_value(*self._pending.pop())
            else:
                self.follow_function(*self._calls.pop())
        return changed

    def _list_names(self, owner: object) -> set[str]:
        names = self.attributes
        if isinstance(owner, (type, ModuleType)):
            return names
        if is_observed(owner):
            # A network lists its tensors and layers by walking over its attributes.
            public = (
                name
                for name, value in get_entries(owner).items()
                if name[0] != "_" and not is_plain(value)
            )
            names = names.union(self.layer_attributes, public)
        # All entries of `__dict__` are followed together.
        return (
            names | (list_attributes(owner).keys() - get_entries(owner).keys())
            if self.is_dynamic
            else names
        )

    def mark_reachable(self, value: object, name: str) -> None:
        """Record that code may read anything reachable from `value`."""
        if is_leaf(value) or id(value) in self._reachable:
            return
        # The reference keeps the value alive, so that no other object gets its id during the walk.
        self._reachable[id(value)] = value
        self._pending.append((value, name))

    def _open_value(self, value: object, name: str) -> None:
        if _is_a(value, _CONTAINERS):
            elements = list_elements(value)
            if not _is_a(value, (tuple, frozenset)):
                self._add(Edge(f"an element of `{name}`", "elements", value, None, elements))
            for text, element in _iter_named(value, name):
                self.mark_reachable(element, text)
            if type(value) in _CONTAINERS:
                return
        if isinstance(value, (FunctionType, MethodType)):
            self.follow_function(value, name, {})
        elif isinstance(value, partial):
            inner = cast("partial[object]", value)
            for member, text in (
                (inner.func, "func"),
                (inner.args, "args"),
                (inner.keywords, "keywords"),
            ):
                self.mark_reachable(member, f"{name}.{text}")
        elif isinstance(value, BuiltinFunctionType):
            self.mark_reachable(value.__self__, f"{name}.__self__")
        elif isinstance(value, ModuleType):
            if not _is_library(value.__name__):
                self.opened.setdefault(id(value), (value, name, set()))
        elif _is_library(_get_module(value)):
            # A wrapper of svod or of the standard library holds the wrapped function in an
            # attribute.
            for key, member in get_entries(value).items():
                if callable(member) and not isinstance(member, type):
                    self.mark_reachable(member, name if key == "function" else f"{name}.{key}")
        else:
            self.opened.setdefault(id(value), (value, name, set()))
            self._follow_special_methods(value, name)

    def follow_function(self, function: object, name: str, arguments: Mapping[str, object]) -> None:
        """Read every path in the code of a function or method."""
        while isinstance(function, (MethodType, partial)):
            if isinstance(function, MethodType):
                bound = function.__self__
                function = function.__func__
                first = next(iter(_get_parameters(function)), None)
                if first is not None and not is_leaf(bound):
                    arguments = {first: bound, **arguments}
                self._follow_special_methods(bound, name or first or "self")
            else:
                inner = cast("partial[object]", function)
                self.mark_reachable(inner.args, f"{name}.args")
                self.mark_reachable(inner.keywords, f"{name}.keywords")
                function = inner.func
        if not isinstance(function, FunctionType):
            self.mark_reachable(function, name)
            return
        # Closures made by one decorator share a code object but differ in their variables.
        key = (
            function if function.__closure__ else function.__code__,
            id(next(iter(arguments.values()), None)),
        )
        if key in self._functions:
            return
        self._functions.add(key)
        self._reachable.setdefault(id(function), function)
        if _is_library(function.__module__ or ""):
            for cell in function.__closure__ or ():
                value = read_cell(cell)
                if callable(value) and not isinstance(value, type):
                    self.mark_reachable(value, name)
            return
        for default in (function.__defaults__ or (), (function.__kwdefaults__ or {}).values()):
            for value in default:
                self.mark_reachable(value, f"a default of {function.__qualname__}")
        access = analyze_code(function.__code__)
        if _is_layer_code(function.__module__ or ""):
            self.layer_attributes |= access.attributes
        else:
            self.attributes |= access.attributes
            self.is_dynamic |= access.is_dynamic
        for module in access.imports:
            if module in sys.modules:
                self.mark_reachable(sys.modules[module], module)
        self._follow_paths(function, access, arguments, name.rpartition(".")[0])

    def _follow_special_methods(self, value: object, name: str) -> None:
        """Follow the special methods of an object's class, which operators call without naming
        them.
        """
        if (
            not is_leaf(value)
            and not isinstance(value, ModuleType)
            and not _is_library(_get_module(value))
        ):
            for attribute in _list_special_methods(
                value if isinstance(value, type) else type(value)
            ):
                if isinstance(value, type) or attribute not in _NEVER_IMPLICIT:
                    self._guess_attribute(value, attribute, name)

    def _follow_paths(
        self,
        function: FunctionType,
        access: CodeAccess,
        arguments: Mapping[str, object],
        owner: str,
    ) -> None:
        cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
        for (root, steps), is_used in access.paths.items():
            value, name = self._read_root(root, function, cells, arguments)
            if value is MISSING:
                continue
            if root.kind == "parameter":
                name = owner or name
            for index, step in enumerate(steps):
                value, name = self._read_step(value, step, name)
                if value is MISSING:
                    # The path is unknown from here on, for example because a property computes the
                    # value.
                    names = (
                        self.layer_attributes
                        if _is_layer_code(function.__module__ or "")
                        else self.attributes
                    )
                    names.update(
                        str(later.key) for later in steps[index + 1 :] if later.kind == "attribute"
                    )
                    break
            else:
                if is_used:
                    self.mark_reachable(value, name)

    def _read_root(
        self,
        root: Root,
        function: FunctionType,
        cells: Mapping[str, CellType],
        arguments: Mapping[str, object],
    ) -> tuple[object, str]:
        match root.kind:
            case "parameter":
                return arguments.get(root.name, MISSING), root.name
            case "nonlocal":
                cell = cells.get(root.name)
                if cell is None or root.name == "__class__":
                    return MISSING, root.name
                value = read_cell(cell)
                if not _is_layer_code(function.__module__ or ""):
                    self._add(Edge(f"`{root.name}`", "nonlocal", cell, None, value))
                return value, root.name
            case _:
                names = function.__globals__
                value = names.get(root.name, MISSING)
                if _is_layer_code(function.__module__ or ""):
                    # Module-level containers of layer code are constants.
                    return MISSING if type(value) in _CONTAINERS else value, root.name
                if value is not MISSING:
                    self._add(Edge(f"the global `{root.name}`", "global", names, root.name, value))
                return value, root.name

    def _read_step(self, owner: object, step: PathStep, name: str) -> tuple[object, str]:
        if step.kind == "attribute":
            return self._read_attribute(owner, cast("str", step.key), name), f"{name}.{step.key}"
        text = f"{name}[{step.key!r}]"
        if type(owner) in _CONTAINERS or _is_a(owner, (dict, list)):
            value = _get_item(owner, step.key)
            if not _is_a(owner, (tuple, frozenset)):
                self._add(Edge(f"`{text}`", "item", owner, step.key, value))
            return value, text
        self.mark_reachable(owner, name)
        return MISSING, text

    def _guess_attribute(self, owner: object, key: str, name: str) -> None:
        """Follow an attribute that code may read, and everything reachable from it."""
        value = self._read_attribute(owner, key, name, is_guess=True)
        if value is not MISSING:
            self.mark_reachable(value, f"{name}.{key}")

    def _read_attribute(
        self, owner: object, key: str, name: str, *, is_guess: bool = False
    ) -> object:
        """Read one attribute without running code of the program; return MISSING for a value that
        only such code can compute.
        """
        if is_leaf(owner) or key in _DESCRIPTIONS:
            return MISSING
        if key == "__dict__":
            return get_entries(owner)
        text = f"{name}.{key}"
        if isinstance(owner, ModuleType):
            return self._read_module(owner, key, text)
        if _is_a(owner, _CONTAINERS):
            if key not in _WRITERS:
                self.mark_reachable(owner, name)
            if type(owner) in _CONTAINERS:
                return MISSING
        if _is_a(owner, (FunctionType, MethodType, BuiltinFunctionType, partial)):
            self.mark_reachable(owner, name)
            return MISSING
        if isinstance(owner, type):
            return self._read_class(owner, owner, key, text)
        on_class = _get_on_class(type(owner), key)
        # The getter is not called, since it may have side effects: its code is analyzed.
        if _is_a(on_class, (property, cached_property)):
            self._guard_member(type(owner), key)
            self._follow_member(on_class, owner, text)
        if is_guess:
            for base in type(owner).__mro__:
                # `super().run()` may call the method of any base class.
                self._follow_member(base.__dict__.get(key), owner, text)
        if isinstance(on_class, (property, GetSetDescriptorType)):
            return MISSING
        if isinstance(on_class, MemberDescriptorType):
            value = getattr(owner, key, MISSING)
            self._add(Edge(f"`{text}`", "static", owner, key, value))
        else:
            value = get_entries(owner).get(key, MISSING)
            if value is MISSING and on_class is not MISSING:
                return self._read_class(type(owner), owner, key, text)
            if value is MISSING and is_guess:
                return MISSING
            self._add(Edge(f"`{text}`", "attribute", owner, key, value))
            if value is MISSING:
                getter = _get_on_class(type(owner), "__getattr__")
                self._follow_member(getter, owner, text)
        return value

    def _read_module(self, module: ModuleType, key: str, text: str) -> object:
        value = vars(module).get(key, MISSING)
        if value is MISSING or (_is_library(module.__name__) and not isinstance(value, ModuleType)):
            return MISSING
        self._add(Edge(f"`{text}`", "global", vars(module), key, value))
        return value

    def _read_class(self, kind: type, owner: object, key: str, text: str) -> object:
        """Read an attribute of a class, for an object of it or for the class itself."""
        value = _get_on_class(kind, key)
        is_member = _is_a(
            value,
            (FunctionType, staticmethod, classmethod, property, cached_property, partialmethod),
        )
        is_library = _is_library(kind.__module__)
        if (
            is_member
            and owner is not kind
            and not isinstance(value, property)
            and (is_observed(owner) or not is_library)
        ):
            # An attribute of the object hides the method, once there is one.
            self._add(Edge(f"`{text}`", "attribute", owner, key, MISSING))
        if value is MISSING or is_library:
            return MISSING
        if is_member:
            self._guard_member(kind, key)
            self._follow_member(value, MISSING if owner is kind else owner, text)
            return MISSING
        if hasattr(type(value), "__get__"):
            # A decorated method, such as one under `jit`, or a descriptor that reads the object.
            for member in get_entries(value).values():
                self._follow_member(member, MISSING if owner is kind else owner, text)
            self.mark_reachable(value, text)
            self.mark_reachable(owner, text.rpartition(".")[0])
            return MISSING
        if owner is not kind:
            # Reads the object's own attribute, once it has one.
            self._add(Edge(f"`{text}`", "static", owner, key, value))
        if owner is kind or (is_observed(owner) and not _is_layer_code(kind.__module__)):
            self._add(Edge(f"`{kind.__qualname__}.{key}`", "static", kind, key, value))
        return value

    def _guard_member(self, kind: type, key: str) -> None:
        """Add the edge from the class of a program that defines a method or a property."""
        base = next(base for base in kind.__mro__ if key in base.__dict__)
        if _is_library(base.__module__) or _is_layer_code(base.__module__):
            return
        namespace = self._namespaces.setdefault(base, base.__dict__)
        self._add(Edge(f"`{base.__qualname__}.{key}`", "global", namespace, key, namespace[key]))

    def _follow_member(self, member: object, owner: object, text: str) -> None:
        for function in _list_functions(member):
            bound = owner is not MISSING and not isinstance(member, staticmethod)
            first = next(iter(_get_parameters(function)), None)
            self._calls.append(
                (function, text, {first: owner} if bound and first is not None else {})
            )

    def _add(self, edge: Edge) -> None:
        # Modules are assumed not to be replaced.
        if edge.kind == "global" and isinstance(edge.value, ModuleType):
            return
        self.edges.setdefault((id(edge.owner), edge.kind, edge.key), edge)


def _is_a(value: object, kinds: type | tuple[type, ...]) -> bool:
    """`isinstance` without type narrowing, which would make the elements' types unknown to the type
    checker.
    """
    return isinstance(value, kinds)


def is_leaf(value: object) -> bool:
    """True if no state of the program is reachable from `value`."""
    return (
        value is MISSING or isinstance(value, (Tensor, UOp)) or is_plain(value) or is_array(value)
    )


def _iter_named(container: object, name: str) -> Iterator[tuple[str, object]]:
    if _is_a(container, (dict, MappingProxyType)):
        mapping = cast("Mapping[object, object]", container)
        yield from ((f"{name}[{key!r}]", value) for key, value in mapping.items())
        return
    yield from (
        (f"{name}[{index}]", value)
        for index, value in enumerate(cast("Iterable[object]", container))
    )


def _get_item(container: object, key: object) -> object:
    try:
        return cast("dict[object, object]", container)[key]
    except (LookupError, TypeError):
        return MISSING


def read_cell(cell: CellType) -> object:
    """Return the value of a closure's variable; MISSING while it has none."""
    try:
        return cell.cell_contents
    except ValueError:  # nothing is assigned to the name
        return MISSING


def get_entries(value: object) -> dict[str, object]:
    """Return the entries of an object's `__dict__`."""
    try:
        return object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}


def _get_on_class(kind: type, key: str) -> object:
    for base in kind.__mro__:
        if key in base.__dict__:
            return base.__dict__[key]
    return MISSING


@lru_cache(maxsize=4096)
def _list_special_methods(kind: type) -> tuple[str, ...]:
    """Names of the special methods that a class of the program defines."""
    names: dict[str, None] = {}
    for base in kind.__mro__:
        if not _is_library(base.__module__):
            special = (
                name for name, member in base.__dict__.items() if isinstance(member, FunctionType)
            )
            names.update(
                dict.fromkeys(n for n in special if n.startswith("__") and n.endswith("__"))
            )
    return tuple(names)


def _list_functions(member: object) -> list[FunctionType]:
    match member:
        case property():
            candidates: tuple[object, ...] = (member.fget,)
        case cached_property():
            candidates = (cast("cached_property[object]", member).func,)
        case staticmethod() | classmethod():
            candidates = (cast("classmethod[object, ..., object]", member).__func__,)
        case partialmethod():
            candidates = (cast("partialmethod[object]", member).func,)
        case _:
            candidates = (member,)
    return [candidate for candidate in candidates if isinstance(candidate, FunctionType)]


def _get_parameters(function: object) -> tuple[str, ...]:
    if not isinstance(function, FunctionType):
        return ()
    return function.__code__.co_varnames[: function.__code__.co_argcount]


def _get_module(value: object) -> str:
    return str((value if isinstance(value, type) else type(value)).__module__)


@lru_cache(maxsize=4096)
def _is_library(module: str) -> bool:
    return module.partition(".")[0] in _LIBRARIES


@lru_cache(maxsize=4096)
def _is_layer_code(module: str) -> bool:
    """Whether a module is part of svod's layers, whose globals do not change."""
    return module.partition(".")[0] == "svod_nn"
