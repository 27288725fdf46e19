"""Placeholders: tensors that represent the arguments while a function is traced."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple, cast

from svod_device import Buffer, get_allocator
from svod_ir import UOp
from svod_ir.sizes import max_size
from svod_tensor._memory_views import view_prefix
from svod_tensor._shards import join_shards, shards_of
from svod_tensor.capture.keys import is_array
from svod_tensor.capture.nested import Objects, flatten_one_level, list_attributes
from svod_tensor.capture.outside_values import MISSING
from svod_tensor.engine import memory_nodes
from svod_tensor.errors import CaptureError
from svod_tensor.tensor import Tensor

__all__ = ["CopiedTree", "PlaceholderMap"]


class CopiedTree(NamedTuple):
    """A copied list, dict or object on placeholders, and its entries before the function ran."""

    tree: object
    content: dict[object, object]

    def check(self, function: str) -> None:
        """Raise if the function changed it: the argument of a later call would not be changed.

        Raises:
            CaptureError: if the function changed it.
        """
        before, after = self.content, _list_entries(self.tree)
        changed = [
            key
            for key in {**before, **after}
            if before.get(key, MISSING) is not after.get(key, MISSING)
        ]
        if not changed:
            return
        kind = type(self.tree).__name__
        is_container = isinstance(self.tree, (list, dict))
        where = (
            f"an element of a {kind}"
            if is_container
            else f"the attribute `{changed[0]}` of a {kind}"
        )
        raise CaptureError(
            function=function,
            problem=f"it sets {where} that is an argument",
            hint="return the new value, or write to a tensor that is there, as in x.assign(...)",
        )


def _list_entries(tree: object) -> dict[object, object]:
    if isinstance(tree, list):
        return dict(enumerate(cast("list[object]", tree)))
    if isinstance(tree, dict):
        return dict(cast("dict[object, object]", tree))
    return {**list_attributes(tree)}


class PlaceholderMap:
    """Copies of arguments, with placeholders for tensors and arrays and with the plan's bound
    variables.

    Attributes:
        placeholders: one for each tensor input, in order; None for a tensor without elements, which
            is not replaced.
        copies: the lists, dicts and objects that were copied.
    """

    def __init__(
        self, given: Sequence[Tensor | UOp], binds: Mapping[UOp, UOp], objects: Objects
    ) -> None:
        self._binds, self._objects = binds, objects
        tensors = [value for value in given if isinstance(value, Tensor)]
        self.placeholders = [_make_placeholder(t, binds) if t.size != 0 else None for t in tensors]
        self.copies: list[CopiedTree] = []
        self._tensors = iter(zip(tensors, self.placeholders, strict=True))
        # A tensor that occurs twice in trees is one input.
        self._known: dict[int, Tensor] = {}
        self._is_unique = len({id(t.content) for t in tensors}) == len(tensors)

    def replace(self, value: object) -> object:
        level = flatten_one_level(value, objects=self._objects)
        if level is not None:
            if level.is_object and not level.items:
                return value
            new = level.build([self.replace(item) for item in level.items])
            if level.is_object or type(value) in (list, dict):
                self.copies.append(CopiedTree(new, _list_entries(new)))
            return new
        if isinstance(value, UOp):
            return value.substitute(self._binds)
        if not isinstance(value, Tensor):
            return self._take_next() if is_array(value) else value
        if not self._is_unique:
            return self._take_next()
        key = id(value.content)
        if key not in self._known:
            self._known[key] = self._take_next()
        return self._known[key]

    def _take_next(self) -> Tensor:
        tensor, placeholder = next(self._tensors)
        return tensor if placeholder is None else placeholder


def _make_placeholder(tensor: Tensor, binds: Mapping[UOp, UOp]) -> Tensor:
    sharding = tensor.sharding
    if sharding is None:
        return Tensor.from_uop(_make_empty(tensor.uop, str(tensor.device), binds), owns=True)
    shards = [
        shard if 0 in shard.shape else _make_empty(shard, device, binds)
        for shard, device in zip(shards_of(tensor.uop), sharding.devices, strict=True)
    ]
    return Tensor.from_uop(join_shards(shards, sharding.arrangement), owns=True)


def _make_empty(like: UOp, device: str, binds: Mapping[UOp, UOp]) -> UOp:
    """New memory for `like` on one device, with `binds` for the variables in its shape."""
    dtype = like.dtype.part
    size = math.prod(max_size(s) for s in like.shape) * (like.dtype.itemsize // dtype.itemsize)
    buffer = Buffer(get_allocator(device), dtype, size)
    shape = tuple([s if isinstance(s, int) else s.substitute(binds) for s in like.shape])
    return view_prefix(memory_nodes.make_memory(dtype, size, device, buffer), shape, like.dtype)
