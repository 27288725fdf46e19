"""Replacing parts of a tensor, as new values: no memory is written, and other tensors never change.

`x.with_items(index, value)` is a graph in which the named elements are replaced. Slices, integers,
masks (of any tensor), and integer arrays whose values are known can be replaced; where an integer array
names a place twice, the last value stays, as in numpy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Self, cast

from svod_dtype import bool_
from svod_ir.build import make_alu, make_flip, make_gather, make_pad, make_reshape, make_shrink
from svod_ir.errors import ShapeError
from svod_ir.ops import Op
from svod_ir.sizes import normalize_size
from svod_ir.uop import SInt, UOp
from svod_tensor.data import make_array_node
from svod_tensor.errors import DataDependentShapeError
from svod_tensor.ops.base import TensorBase
from svod_tensor.ops.indexing import expand_index, index_shape, is_array_index, item_count, resolve_item
from svod_tensor.ops.neural import Neural
from svod_tensor.shapes import Shape, broadcast_node, broadcast_shapes, concrete_shape
from svod_tensor.shards import bring_to

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from svod_tensor.ops.elementwise import Operand
    from svod_tensor.ops.indexing import Index, IndexItem

__all__ = ["Updating", "check_value"]


class Updating(Neural):
    """Replacing elements."""

    __slots__ = ()

    def with_items(self, index: Index, value: Operand) -> Self:
        """This tensor with the elements at `index` replaced by `value`, which broadcasts to their shape.

        Raises:
            DataDependentShapeError: if the index is an integer tensor, whose values are not known yet.
            BroadcastError: if the value does not broadcast.
        """
        new = self._to_value(value)
        if isinstance(index, TensorBase) and index.dtype.is_bool:
            return self._with_masked(self._wrap(index), new)
        items = expand_index(index if isinstance(index, tuple) else (index,), self.ndim)
        if any(is_array_index(item) for item in items):
            return self._with_arrays(index, items, new)
        return self._with_slices(items, new)

    def _to_value(self, value: Operand) -> Self:
        """What is assigned to elements of this tensor, in its dtype and, if it is the caller's data, on its device."""
        if isinstance(value, TensorBase):
            return self._wrap(value).cast(self.dtype)
        return self.from_uop(bring_to(type(self)(value, dtype=self.dtype).uop, self._uop))

    def _with_masked(self, mask: Self, value: Self) -> Self:
        if mask.shape != self.shape[: mask.ndim]:
            raise ShapeError(
                operation="assignment to x[mask]", shape=mask.shape, problem=f"is no beginning of {self.shape}"
            )
        wide = mask.reshape(*mask.shape, *(1,) * (self.ndim - mask.ndim)).broadcast_to(self.shape)
        if value.ndim > self.ndim - mask.ndim:
            raise DataDependentShapeError(
                operation="assignment to x[mask]", hint="assign one value, or use mask.where(value, x)"
            )
        return wide.where(value.broadcast_to(self.shape), self)

    def _with_slices(self, items: Sequence[IndexItem], value: Self) -> Self:
        """The value where it belongs and a mask of these places, each by the inverse of slicing."""
        selected = index_shape(items, self.shape)
        check_value("x[index]", value.shape, selected)
        placed = _place(broadcast_node(value.uop, selected), items, self.shape)
        inside = _place(broadcast_node(UOp.const(bool_, True), selected), items, self.shape)
        return self._make(make_alu(Op.WHERE, inside, placed, self._uop), value)

    def _with_arrays(self, index: Index, items: Sequence[IndexItem], value: Self) -> Self:
        """Each element looks up which value, if any, it gets: the inverse of the index, found now."""
        import numpy as np

        if any(isinstance(item, TensorBase) for item in items):
            raise DataDependentShapeError(
                operation="assignment to x[integer tensor]", hint="index with indices.numpy() where they are known"
            )
        # Checks the index, and gives what it selects.
        self[index]
        shape = concrete_shape("assignment", self.shape)
        everything = np.arange(math.prod(shape)).reshape(shape)
        places = cast("NDArray[np.int64]", everything[index])  # pyright: ignore[reportArgumentType, reportCallIssue]
        source = np.full(math.prod(shape), -1, np.int64)
        source[places.reshape(-1)] = np.arange(places.size)
        check_value("x[index]", value.shape, places.shape)
        values = make_reshape(broadcast_node(value.uop, places.shape), (places.size,))
        lookup = bring_to(make_array_node(source.reshape(shape), may_share=True), self._uop)
        found = make_alu(Op.LE, UOp.const(lookup.dtype, 0), lookup)
        return self._make(make_alu(Op.WHERE, found, make_gather(values, lookup, 0), self._uop), value)


def check_value(what: str, value: Shape, selected: Shape) -> None:
    if broadcast_shapes(value, selected) != selected:
        raise ShapeError(operation=f"assignment to {what}", shape=value, problem=f"does not broadcast to {selected}")


def _place(node: UOp, items: Sequence[IndexItem], shape: Shape) -> UOp:
    """The inverse of a basic index: `node` at the places that it names in `shape`, zeros elsewhere."""
    axes = [item for item in items if item is not None]
    resolved = [resolve_item(item, size, axis) for axis, (item, size) in enumerate(zip(axes, shape, strict=True))]
    node = make_reshape(node, tuple(item_count(*r) for r in resolved))
    for axis, (begin, end, step) in enumerate(resolved):
        node = _spread(node, axis, abs(step), normalize_size(end - begin))
    flips = [step < 0 for _, _, step in resolved]
    node = make_flip(node, flips)
    padding: list[tuple[SInt, SInt]] = [
        (begin, normalize_size(size - end)) for (begin, end, _), size in zip(resolved, shape, strict=True)
    ]
    return make_pad(node, padding)


def _spread(node: UOp, axis: int, step: int, extent: SInt) -> UOp:
    """Each element of an axis followed by `step` - 1 zeros, `extent` elements in all."""
    size = node.shape[axis]
    if step == 1 or (isinstance(size, int) and size <= 1):
        return node
    before, after = node.shape[:axis], node.shape[axis + 1 :]
    node = make_reshape(node, (*before, size, 1, *after))
    padding = [(0, 0)] * len(node.shape)
    padding[axis + 1] = (0, step - 1)
    node = make_reshape(make_pad(node, padding), (*before, size * step, *after))
    bounds: list[tuple[SInt, SInt]] = [(0, s) for s in node.shape]
    bounds[axis] = (0, extent)
    return make_shrink(node, bounds)
