"""The values that go into a loop and come out of its body: tensors, arrays and numbers, in nested
lists, tuples and dicts.
"""

from __future__ import annotations

from typing import NamedTuple

from svod_dtype import DType
from svod_ir import Sharding, SInt, UOp, format_shape
from svod_ir.sizes import normalize_size, unbind
from svod_tensor._data import copy_to_device
from svod_tensor._shards import join_shards, spread
from svod_tensor._trees import Structure, flatten
from svod_tensor._variable import Variable
from svod_tensor.errors import LoopArgumentError
from svod_tensor.options import DEFAULT_DEVICE
from svod_tensor.tensor import Tensor

__all__ = [
    "Given",
    "Leaf",
    "cast",
    "describe",
    "is_number",
    "name_function",
    "place",
    "read_given",
    "read_leaf",
    "unbind_shape",
]


class Leaf(NamedTuple):
    """A value as a node.

    Attributes:
        node: it.
        path: how it is reached, as it is written in Python.
        is_weak: whether it was a number of Python, whose dtype gives way to that of a tensor.
    """

    node: UOp
    path: str
    is_weak: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether it has no elements: nothing stands for it in a graph."""
        return 0 in self.node.shape


class Given(NamedTuple):
    """What a caller gave: its leaves, and how they are arranged."""

    leaves: tuple[Leaf, ...]
    structure: Structure


def is_number(value: object) -> bool:
    """Whether a value is a number of Python."""
    return isinstance(value, (bool, int, float, complex))


def read_given(operation: str, name: str, tree: object) -> Given:
    """The leaves of what the caller calls `name`.

    Raises:
        LoopArgumentError: if a leaf is no tensor, array or number.
    """
    leaves, structure = flatten(tree)
    found = [
        read_leaf(operation, name + path, leaf)
        for leaf, path in zip(leaves, structure.paths, strict=True)
    ]
    return Given(tuple(found), structure)


def read_leaf(operation: str, path: str, value: object) -> Leaf:
    """A value as a leaf.

    Raises:
        LoopArgumentError: if it is no tensor, array or number.
    """
    if isinstance(value, Tensor):
        return Leaf(value.uop, path)
    if isinstance(value, (bool, int, float, complex, UOp)) or hasattr(value, "__array_interface__"):
        return Leaf(Tensor(value).uop, path, is_number(value))  # pyright: ignore[reportArgumentType]
    if isinstance(value, Variable):
        return Leaf(Tensor(value.uop).uop, path)
    raise LoopArgumentError(
        operation=operation,
        problem=f"{path} is {type(value).__name__}, which is no tensor",
        hint=(
            "give tensors, arrays and numbers, in lists, tuples and dicts; anything else the"
            " function can use as it is"
        ),
    )


def describe(node: UOp, *, with_place: bool = False) -> str:
    """A value for messages, such as `float32 (3,)`."""
    text = f"{node.dtype} {format_shape(node.shape)}"
    return f"{text} on {_show_place(node)}" if with_place else text


def _show_place(node: UOp) -> str:
    placement = node.placement
    if not isinstance(placement, Sharding):
        return placement or DEFAULT_DEVICE
    devices = " + ".join(placement.devices)
    return devices if placement.axis is None else f"{devices} along axis {placement.axis}"


def place(node: UOp, placement: str | Sharding | None) -> UOp:
    """`node` where `placement` says."""
    if placement is None or node.placement == placement:
        return node
    if isinstance(placement, str):
        return copy_to_device(node, placement)
    return join_shards(spread(node, placement), placement.axis)


def unbind_shape(node: UOp) -> tuple[SInt, ...]:
    """The shape with variables in the place of their values."""
    return tuple([s if isinstance(s, int) else normalize_size(unbind(s)) for s in node.shape])


def cast(leaf: Leaf, dtype: DType) -> UOp:
    """The node of a leaf with a dtype."""
    return leaf.node if leaf.node.dtype is dtype else leaf.node.cast(dtype)


def name_function(function: object) -> str:
    """What messages call a function."""
    return getattr(function, "__qualname__", repr(function)).rpartition("<locals>.")[2]
