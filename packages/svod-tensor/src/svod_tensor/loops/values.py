"""Inputs and outputs of loop bodies: trees of tensors, arrays and numbers as leaves that are nodes."""

from __future__ import annotations

from typing import NamedTuple

from svod_dtype import DType
from svod_ir import Sharding, SInt, UOp, format_shape
from svod_ir.sizes import normalize_size, unbind
from svod_tensor._data import copy_to_device
from svod_tensor._shards import distribute
from svod_tensor._trees import Structure, flatten
from svod_tensor._variable import Variable
from svod_tensor.errors import LoopArgumentError
from svod_tensor.options import DEFAULT_DEVICE
from svod_tensor.tensor import Tensor

__all__ = [
    "FlatTree",
    "Leaf",
    "cast",
    "describe",
    "is_number",
    "read_leaf",
    "read_tree",
    "transfer",
    "unbind_shape",
]


class Leaf(NamedTuple):
    """A leaf of a tree.

    Attributes:
        node: the value.
        path: the path from the root, in Python syntax.
        is_weak: whether the value was a Python number, whose dtype yields to a tensor's.
    """

    node: UOp
    path: str
    is_weak: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether it has no elements, so that no memory and no placeholder represents it."""
        return 0 in self.node.shape


class FlatTree(NamedTuple):
    """A flattened tree: its leaves and its structure."""

    leaves: tuple[Leaf, ...]
    structure: Structure


def is_number(value: object) -> bool:
    """Whether a value is a Python number."""
    return isinstance(value, (bool, int, float, complex))


def read_tree(operation: str, name: str, tree: object) -> FlatTree:
    """Flatten an argument or result of a loop, and convert its leaves to nodes or numbers.

    Args:
        operation: name of the loop function, for errors.
        name: name of the argument or result, for errors.
        tree: nested containers of tensors, arrays and numbers.

    Raises:
        LoopArgumentError: if a leaf is not a tensor, array or number.
    """
    leaves, structure = flatten(tree)
    nodes = [
        read_leaf(operation, name + path, leaf)
        for leaf, path in zip(leaves, structure.paths, strict=True)
    ]
    return FlatTree(tuple(nodes), structure)


def read_leaf(operation: str, path: str, value: object) -> Leaf:
    """A value as a leaf.

    Raises:
        LoopArgumentError: if it is not a tensor, array or number.
    """
    if isinstance(value, Tensor):
        return Leaf(value.uop, path)
    if isinstance(value, (bool, int, float, complex, UOp)) or hasattr(value, "__array_interface__"):
        # Weak, as in JAX: the dtype of a Python number yields to the dtype that an iteration
        # returns.
        return Leaf(Tensor(value).uop, path, is_number(value))  # pyright: ignore[reportArgumentType]
    if isinstance(value, Variable):
        return Leaf(Tensor(value.uop).uop, path)
    raise LoopArgumentError(
        operation=operation,
        problem=f"{path} is {type(value).__name__}, which is not a tensor",
        hint=(
            "pass tensors, arrays and numbers, in lists, tuples and dicts; the function can read"
            " other objects as globals or from its closure"
        ),
    )


def describe(node: UOp, *, with_device: bool = False) -> str:
    """Display a value in messages, such as `float32 (3,)`."""
    text = f"{node.dtype} {format_shape(node.shape)}"
    return f"{text} on {_describe_placement(node)}" if with_device else text


def _describe_placement(node: UOp) -> str:
    placement = node.placement
    if not isinstance(placement, Sharding):
        return placement or DEFAULT_DEVICE
    if placement.layout is not None:
        return repr(placement.layout)
    devices = " + ".join(placement.devices)
    return devices if placement.axis is None else f"{devices} along axis {placement.axis}"


def transfer(node: UOp, placement: str | Sharding | None) -> UOp:
    """`node` on the devices of `placement`."""
    if placement is None or node.placement == placement:
        return node
    if isinstance(placement, str):
        return copy_to_device(node, placement)
    return distribute(node, placement)


def unbind_shape(node: UOp) -> tuple[SInt, ...]:
    """The shape with variables instead of their bound values."""
    # A shape is the same for all values of its variables, so shapes are compared without them.
    return tuple([s if isinstance(s, int) else normalize_size(unbind(s)) for s in node.shape])


def cast(leaf: Leaf, dtype: DType) -> UOp:
    """The node of a leaf, cast to a dtype."""
    return leaf.node if leaf.node.dtype is dtype else leaf.node.cast(dtype)
