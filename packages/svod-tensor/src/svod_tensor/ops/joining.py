"""Joining tensors, taking one apart, and repeating."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Self, TypeVar, cast

from svod_dtype import promote_types
from svod_ir import (
    OperandError,
    ShapeError,
    SInt,
    UOp,
    format_shape,
    make_concat,
    make_empty,
    make_expand,
    make_reshape,
)
from svod_ir.placement import check_devices
from svod_ir.sizes import bounds_of_size
from svod_tensor._shapes import Shape, concrete_shape, normalize_axis, to_shape
from svod_tensor.ops.base import TensorBase
from svod_tensor.ops.naming import operations
from svod_tensor.ops.theme import Theme

__all__ = ["Joining"]

T = TypeVar("T", bound=Theme)


@operations
class Joining(Theme):
    """Joining, splitting and repeating."""

    __slots__ = ()

    def concat(self: T | Iterable[T], *others: T | Iterable[T] | int | None, axis: int | None = 0) -> T:
        """The tensors one after the other along an axis, in the dtype that all promote to.

        Args:
            others: tensors, one by one or as a sequence; the axis may stand behind them: `x.concat(y)`,
                `Tensor.concat(x, y, axis=1)` and `Tensor.concat([x, y], 1)`.
            axis: along which; None flattens them first.

        Raises:
            ShapeError: if there are no tensors, or their shapes differ on another axis.
            OperandError: if one is no tensor.

        Example:
            >>> Tensor.concat([Tensor([1, 2]), Tensor([3])]).tolist()
            [1, 2, 3]
        """
        parts, axis = _take_operands("concat", (self, *others), axis)
        if axis is None:
            parts, axis = [t.flatten() for t in parts], 0
        axis = normalize_axis("concat", axis, parts[0].ndim)
        _check_alike("concat", parts, axis)
        return parts[0].from_uop(_join(parts, axis))

    cat = concat

    def stack(self: T | Iterable[T], *others: T | Iterable[T] | int, axis: int = 0) -> T:
        """The tensors, all of one shape, side by side along a new axis, in the dtype that all promote to.

        Args:
            others: tensors, given as for `concat`.
            axis: where the new axis stands in the result.

        Raises:
            ShapeError: if there are no tensors, or their shapes differ.
            OperandError: if one is no tensor.

        Example:
            >>> Tensor.stack([Tensor([1, 2]), Tensor([3, 4])], axis=1).tolist()
            [[1, 3], [2, 4]]
        """
        parts, found = _take_operands("stack", (self, *others), axis)
        axis = normalize_axis("stack", 0 if found is None else found, parts[0].ndim + 1)
        _check_alike("stack", parts, None)
        return parts[0].from_uop(_join([t.unsqueeze(axis) for t in parts], axis))

    def split(self, sizes: int | Sequence[int], axis: int = 0) -> tuple[Self, ...]:
        """Parts of the given sizes along an axis: views.

        Args:
            sizes: of the parts; an int gives parts of that size, the last one possibly smaller.
            axis: along which.

        Raises:
            ShapeError: if the sizes do not add up to that of the axis.
            SymbolicShapeError: if the size of the axis is symbolic.

        Example:
            >>> [part.tolist() for part in Tensor([1, 2, 3, 4, 5]).split(2)]
            [[1, 2], [3, 4], [5]]
        """
        axis = normalize_axis("split", axis, self.ndim)
        (total,) = concrete_shape("split", (self.shape[axis],))
        if isinstance(sizes, int):
            if sizes < 1:
                raise ShapeError(
                    operation="split", shape=self.shape, problem=f"cannot be split into parts of size {sizes}"
                )
            sizes = [min(sizes, total - i) for i in range(0, max(total, 1), sizes)]
        if sum(sizes) != total:
            raise ShapeError(
                operation="split",
                shape=self.shape,
                problem=f"has size {total} on axis {axis}, but {list(sizes)} add up to {sum(sizes)}",
            )
        ends = [sum(sizes[: i + 1]) for i in range(len(sizes))]
        return tuple(self._slice_axis(axis, end - size, end) for size, end in zip(sizes, ends, strict=True))

    def chunk(self, n_parts: int, axis: int = 0) -> tuple[Self, ...]:
        """At most `n_parts` parts of equal size along `axis`, the last one possibly smaller: views.

        Raises:
            ShapeError: if `n_parts` is less than 1.
            SymbolicShapeError: if the size of the axis is symbolic.

        Example:
            >>> [part.tolist() for part in Tensor([1, 2, 3, 4, 5]).chunk(2)]
            [[1, 2, 3], [4, 5]]
        """
        axis = normalize_axis("chunk", axis, self.ndim)
        (total,) = concrete_shape("chunk", (self.shape[axis],))
        if n_parts < 1:
            raise ShapeError(operation="chunk", shape=self.shape, problem=f"cannot be cut into {n_parts} parts")
        return self.split(max(1, math.ceil(total / n_parts)), axis)

    def unbind(self, axis: int = 0) -> tuple[Self, ...]:
        """The slices along `axis`, each without it: views.

        Raises:
            SymbolicShapeError: if the size of the axis is symbolic.

        Example:
            >>> [row.tolist() for row in Tensor([[1, 2], [3, 4]]).unbind()]
            [[1, 2], [3, 4]]
        """
        axis = normalize_axis("unbind", axis, self.ndim)
        (total,) = concrete_shape("unbind", (self.shape[axis],))
        return tuple(self._slice_axis(axis, i, i + 1).squeeze(axis) for i in range(total))

    unstack = unbind

    def tile(self, *repetitions: SInt | Sequence[SInt]) -> Self:
        """The whole tensor again and again: `repetitions[i]` times along axis i.

        Args:
            repetitions: one for each axis, or for more, which are then added in front; one by one or as a sequence.

        Raises:
            ShapeError: if a count is negative.

        Example:
            >>> Tensor([1, 2]).tile(2, 2).tolist()
            [[1, 2, 1, 2], [1, 2, 1, 2]]
        """
        times = to_shape("tile", repetitions)
        if any(bounds_of_size(n)[0] < 0 for n in times):
            raise ShapeError(operation="tile", shape=times, problem="has a negative count")
        shape: Shape = (1,) * (len(times) - self.ndim) + self.shape
        times = (1,) * (len(shape) - len(times)) + times
        node = make_reshape(self.uop, tuple(n for s in shape for n in (1, s)))
        if any(isinstance(n, int) and n == 0 for n in times):
            return self._make(make_empty(self.dtype, tuple(n * s for n, s in zip(times, shape, strict=True))))
        node = make_expand(node, tuple(m for n, s in zip(times, shape, strict=True) for m in (n, s)))
        return self._make(make_reshape(node, tuple(s * n for n, s in zip(times, shape, strict=True))))

    def repeat(self, repeats: int | Sequence[int] | TensorBase, axis: int | None = None) -> Self:
        """Each element several times in a row; `tile` repeats the whole tensor.

        Args:
            repeats: how often, or how often each slice along the axis; a tensor is computed.
            axis: along which; None flattens first.

        Raises:
            ShapeError: if there are not as many numbers as slices, or one is negative.
            DataDependentShapeError: in a function that is captured, if the numbers are a tensor.

        Example:
            >>> Tensor([1, 2]).repeat(2).tolist()
            [1, 1, 2, 2]
        """
        if axis is None:
            return self.flatten().repeat(repeats, 0)
        axis = normalize_axis("repeat", axis, self.ndim)
        if not isinstance(repeats, int):
            return self._repeat_each(repeats, axis)
        shape = self.shape
        wide = self.unsqueeze(axis + 1)
        repeated = (
            wide.expand(*shape[: axis + 1], repeats, *shape[axis + 1 :])
            if repeats
            else wide._slice_axis(axis + 1, 0, 0)
        )
        return repeated.reshape(*shape[:axis], shape[axis] * repeats, *shape[axis + 1 :]).clone()

    repeat_interleave = repeat


def _take_operands(
    operation: str, given: Sequence[T | Iterable[T] | int | None], axis: int | None
) -> tuple[list[T], int | None]:
    """The tensors, given one by one or in sequences, and the axis, which may stand behind them."""
    if len(given) > 1 and (given[-1] is None or isinstance(given[-1], int)):
        given, axis = given[:-1], given[-1]
    tensors: list[object] = []
    for item in given:
        tensors.extend(item if isinstance(item, Iterable) and not isinstance(item, TensorBase) else (item,))
    others = [t for t in tensors if not isinstance(t, TensorBase)]
    if others:
        raise OperandError(
            operation=operation, found=type(others[0]).__name__, expected="tensors, one by one or as a sequence"
        )
    if not tensors:
        raise ShapeError(operation=operation, shape=(), problem="is missing: no tensors were given")
    return cast("list[T]", tensors), axis


def _join(tensors: Sequence[Theme], axis: int) -> UOp:
    """The tensors along an axis on which alone they may differ."""
    check_devices(*(t.uop for t in tensors))
    dtype = reduce(promote_types, (t.dtype for t in tensors))
    parts = [t.uop.cast(dtype) for t in tensors if t.shape[axis] != 0]
    return make_concat(parts, axis) if parts else tensors[0].uop.cast(dtype)


def _check_alike(operation: str, tensors: Sequence[Theme], axis: int | None) -> None:
    first = tensors[0]
    for other in tensors[1:]:
        if other.ndim != first.ndim or any(
            a != b for i, (a, b) in enumerate(zip(first.shape, other.shape, strict=True)) if i != axis
        ):
            where = "" if axis is None else f" on an axis other than {axis}"
            raise ShapeError(
                operation=operation, shape=other.shape, problem=f"differs from {format_shape(first.shape)}{where}"
            )
