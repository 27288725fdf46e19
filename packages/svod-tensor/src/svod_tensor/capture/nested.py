"""Trees: lists, tuples, dicts and objects that can be flattened into items and rebuilt
(unflattened) from others.

An object is a tree if it is a dataclass, an attrs class, a network, has only attributes that are
tensors, arrays, plain values and trees of these, or if its class is registered. The attributes with
tensors are its items, the other attributes are part of its kind."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import Enum, IntEnum
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, cast

from svod_dtype import DType
from svod_ir import UOp
from svod_tensor.capture.attribute_changes import is_observed_class
from svod_tensor.capture.keys import Identity, is_array, is_plain, key_of
from svod_tensor.ops.core.base import TensorBase

if TYPE_CHECKING:
    from typing_extensions import TypeIs

__all__ = [
    "OPAQUE_PACKAGES",
    "Objects",
    "Parts",
    "flatten_one_level",
    "has_objects",
    "list_attributes",
    "list_items",
    "register_pytree_node",
]

T = TypeVar("T")

OPAQUE_PACKAGES: Final = sys.stdlib_module_names | {
    "jax",
    "jaxlib",
    "numpy",
    "onnx",
    "onnxruntime",
    "scipy",
    "svod_codegen",
    "svod_device",
    "svod_dtype",
    "svod_ir",
    "svod_onnx",
    "svod_runtime",
    "svod_schedule",
    "svod_tensor",
    "torch",
} - {"__main__"}
"""Packages whose objects are never trees."""

_HEAP_TYPE: Final = 1 << 9  # Py_TPFLAGS_HEAPTYPE: a class that a program defined

_MAX_DEPTH: Final = 64
"""Maximum nesting depth of objects; a longer chain, such as a linked list, is opaque."""

# Bit flags of `_get_content`: the value contains tensors; it contains opaque objects.
_HAS_INPUTS: Final = 1
_HAS_OPAQUE: Final = 2


class Objects(IntEnum):
    """Set of objects that are trees.

    By default, objects of observed classes, such as networks, are compared by identity: checking
    all their attributes takes one comparison, while flattening a network of a hundred parameters in
    each call would take longer than many a network. If a function is called with many networks,
    they become trees too, so that one plan serves all networks of equal structure."""

    NONE = 0
    UNOBSERVED = 1
    ALL = 2


class Parts(NamedTuple):
    """Items of a tree, and a function that rebuilds it.

    Attributes:
        names: the path from the tree to each item, such as `[0]`, `['x']` or `.low`.
        items: the items.
        kind: everything else that trees of the same structure have in common.
        build: makes a tree of this kind from other items.
        is_object: whether the tree is an object whose items are attributes.
    """

    names: tuple[str, ...]
    items: tuple[object, ...]
    kind: tuple[object, ...]
    build: Callable[[Sequence[object]], object]
    is_object: bool = False


class _Registered(NamedTuple):
    flatten: Callable[[Any], tuple[Iterable[object], Any]]
    unflatten: Callable[[Any, Sequence[object]], object]


class _Split(NamedTuple):
    """Attributes of an object that contain tensors, and its other attributes."""

    items: dict[str, object]
    static: dict[str, object]


_registered: Final[dict[type, _Registered]] = {}


def register_pytree_node(
    nodetype: type[T],
    flatten_func: Callable[[T], tuple[Iterable[object], Any]],
    unflatten_func: Callable[[Any, Sequence[Any]], T],
) -> None:
    """Register a class whose objects are trees: arguments, results and carries of `jit`, `grad`,
    `scan` and others.

    Dataclasses, attrs classes, networks, and objects that hold tensors and plain values only, need
    no registration.

    Args:
        nodetype: the class; its subclasses are not registered with it.
        flatten_func: returns the children, which are tensors and trees, and auxiliary data, which
            is hashable and compared by `==`.
        unflatten_func: makes an object from the auxiliary data and children.

    Example:
        >>> from svod_tensor import Tensor, jit, register_pytree_node
        >>> class Pair(list):
        ...     pass
        >>> register_pytree_node(Pair, lambda pair: (pair, None), lambda _, children: Pair(children))
        >>> jit(lambda pair: Pair([pair[1], pair[0]]))(Pair([Tensor(1.0), Tensor(2.0)]))[0].item()
        2.0
    """
    _registered[nodetype] = _Registered(flatten_func, unflatten_func)


def flatten_one_level(value: object, *, objects: Objects = Objects.ALL) -> Parts | None:
    """Return the items of a tree; None for any other value.

    `objects` selects the objects that are trees.
    """
    kind: type = type(value)
    if kind in _registered:
        return _flatten_registered(kind, value)
    if _is_sequence(value):
        fields = getattr(kind, "_fields", None)
        names = tuple(
            [f"[{n}]" for n in range(len(value))]
            if fields is None
            else [f".{name}" for name in fields]
        )
        return Parts(names, tuple(value), (kind, len(value)), _get_build(kind))
    if _is_dict(value):
        keys = tuple(value)
        return Parts(
            tuple(f"[{k!r}]" for k in keys),
            tuple(value.values()),
            (dict, keys),
            _get_dict_build(keys),
        )
    split = _split(value, (), objects)
    if split is None:
        return None
    names = tuple(split.items)
    return Parts(
        tuple(f".{name}" for name in names),
        tuple(split.items.values()),
        _get_object_kind(kind, split, objects),
        _get_object_build(kind, names, split.static),
        is_object=True,
    )


def list_items(
    value: object, *, objects: Objects = Objects.ALL
) -> tuple[tuple[object, ...], Collection[object]] | None:
    """Return the kind and the items of `flatten_one_level`, without the rest: the only ones that a
    signature needs, at each call.
    """
    kind: type = type(value)
    if kind in _registered:
        level = _flatten_registered(kind, value)
        return level.kind, level.items
    if _is_sequence(value):
        return (kind, len(value)), value
    if _is_dict(value):
        return (dict, tuple(value)), value.values()
    split = _split(value, (), objects)
    return None if split is None else (_get_object_kind(kind, split, objects), split.items.values())


def has_objects(value: object, objects: Objects) -> bool:
    """Whether an argument of a captured function is an object that is a tree, or contains one."""
    level = flatten_one_level(value, objects=objects)
    return level is not None and (
        level.is_object or any(has_objects(item, objects) for item in level.items)
    )


def list_attributes(value: object) -> dict[str, object]:
    """Return the attributes of an object: the entries of its `__dict__`, and its slots."""
    attributes: dict[str, object] = {}
    for base in type(value).__mro__:
        slots = base.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else cast("Iterable[str]", slots):
            if name not in ("__dict__", "__weakref__") and hasattr(value, name):
                attributes[name] = getattr(value, name)
    attributes.update(getattr(value, "__dict__", {}))
    return attributes


def _flatten_registered(kind: type, value: object) -> Parts:
    registered = _registered[kind]
    children, data = registered.flatten(value)
    items = tuple(children)
    return Parts(
        tuple(f"[{n}]" for n in range(len(items))),
        items,
        (kind, len(items), data, None),
        partial(registered.unflatten, data),
    )


@lru_cache(maxsize=4096)
def _is_opaque(kind: type[Any]) -> bool:
    """True if objects of a class are never trees."""
    if kind.__module__.partition(".")[0] in OPAQUE_PACKAGES or issubclass(kind, (type, Enum)):
        return True
    # An object that is rebuilt without `__init__` must have no state besides its attributes, and
    # no resources to release.
    is_ordinary = all(base is object or base.__flags__ & _HEAP_TYPE for base in kind.__mro__)
    members = {name for base in kind.__mro__ for name in base.__dict__}
    return not is_ordinary or not members.isdisjoint(
        ("__del__", "__array__", "__dlpack__", "__next__")
    )


@lru_cache(maxsize=4096)
def _is_always_tree(kind: type) -> bool:
    return (
        hasattr(kind, "__dataclass_fields__")
        or hasattr(kind, "__attrs_attrs__")
        or is_observed_class(kind)
    )


def _split(value: object, above: tuple[object, ...], objects: Objects) -> _Split | None:
    """Split the attributes of an object that is a tree; `above` are the objects around it, which it
    must not hold.
    """
    kind: type = type(value)
    if objects is Objects.NONE or _is_opaque(kind) or len(above) > _MAX_DEPTH:
        return None
    # A cycle: a rebuilt object would refer to the original one.
    if any(outer is value for outer in above):
        return None
    # One comparison guards all attributes of these objects (`attribute_changes`).
    if objects is Objects.UNOBSERVED and is_observed_class(kind):
        return None
    items: dict[str, object] = {}
    static: dict[str, object] = {}
    above, is_always_tree = (*above, value), _is_always_tree(kind)
    for name, attribute in list_attributes(value).items():
        flags = _get_flags(attribute, above, objects)
        # A copy would share the opaque object, and the function could tell that it has a copy.
        if flags & _HAS_OPAQUE and not is_always_tree:
            return None
        (items if flags & _HAS_INPUTS else static)[name] = attribute
    return _Split(items, static) if items or static or is_always_tree else None


def _get_flags(value: object, above: tuple[object, ...], objects: Objects) -> int:
    """Return the bit flags of a value."""
    if isinstance(value, (TensorBase, UOp)) or is_array(value):
        return _HAS_INPUTS
    if is_plain(value) or isinstance(value, (DType, Enum, type)):
        return 0
    if _is_sequence(value):
        return _join_flags(value, above, objects)
    if _is_dict(value):
        return _join_flags(value.values(), above, objects)
    if type(value) in _registered:
        return _join_flags(_flatten_registered(type(value), value).items, above, objects)
    split = _split(value, above, objects)
    if split is None:
        return _HAS_OPAQUE
    return _HAS_INPUTS if split.items else 0


def _join_flags(values: Iterable[object], above: tuple[object, ...], objects: Objects) -> int:
    flags = 0
    for value in values:
        flags |= _get_flags(value, above, objects)
    return flags


def _get_object_kind(kind: type, split: _Split, objects: Objects) -> tuple[object, ...]:
    return (
        kind,
        tuple(split.items),
        tuple([(name, _make_key(value, objects)) for name, value in split.static.items()]),
    )


def _make_key(value: object, objects: Objects) -> object:
    """Return the key of a value without tensors."""
    if _is_sequence(value):
        return (type(value), *[_make_key(item, objects) for item in value])
    if _is_dict(value):
        # In the dict's own order, which the function may depend on.
        return (dict, *((key, _make_key(item, objects)) for key, item in value.items()))
    if is_plain(value):
        return key_of(value)
    split = _split(value, (), objects)
    return Identity(value) if split is None else _get_object_kind(type(value), split, objects)


def _get_dict_build(keys: Sequence[object]) -> Callable[[Sequence[object]], object]:
    def build(made: Sequence[object]) -> object:
        return dict(zip(keys, made, strict=True))

    return build


def _get_build(kind: Callable[..., object]) -> Callable[[Sequence[object]], object]:
    def build(made: Sequence[object]) -> object:
        # A named tuple takes its fields as separate arguments.
        return kind(*made) if hasattr(kind, "_fields") else kind(made)

    return build


def _get_object_build(
    kind: type[Any], names: Sequence[str], static: Mapping[str, object]
) -> Callable[[Sequence[object]], object]:
    def build(made: Sequence[object]) -> object:
        new: object = object.__new__(kind)
        # Bypasses `__setattr__`, which a frozen dataclass defines to raise.
        for name, value in (*static.items(), *zip(names, made, strict=True)):
            object.__setattr__(new, name, value)
        return new

    return build


def _is_dict(value: object) -> TypeIs[dict[object, object]]:
    return isinstance(value, dict)


def _is_sequence(value: object) -> TypeIs[list[object] | tuple[object, ...]]:
    return isinstance(value, (list, tuple))
