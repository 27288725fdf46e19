"""Operations that move elements and compute nothing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Self, TypeAlias, TypeVar, cast

from svod_dtype import bool_, int64
from svod_ir.build import (
    make_alu,
    make_expand,
    make_pad,
    make_reshape,
)
from svod_ir.concat import make_concat, make_empty, make_positions
from svod_ir.errors import AxisError, OperandError, ShapeError
from svod_ir.ops import Op
from svod_ir.sizes import bounds_of_size, divide_size, format_shape, format_size, normalize_size, product
from svod_ir.uop import SInt, UOp, to_node
from svod_tensor.cells.views import Detach, Expand, Flip, Permute, Reshape, Shrink, Step
from svod_tensor.data import make_constant
from svod_tensor.engine import memory_nodes
from svod_tensor.ops.base import TensorBase
from svod_tensor.ops.naming import operations
from svod_tensor.shapes import (
    Axes,
    Shape,
    broadcast_node,
    broadcast_shapes,
    check_within,
    concrete_shape,
    normalize_axes,
    normalize_axis,
    to_shape,
)  # fmt: skip

if TYPE_CHECKING:
    from typing_extensions import TypeIs

__all__ = ["Movement"]

T = TypeVar("T", bound="Movement")

Amounts: TypeAlias = "SInt | Sequence[SInt] | None"
"""How much is added to one axis: on both sides alike, before and after it, or nothing."""


@operations
class Movement(TensorBase):
    """Reshaping, reordering, repeating, cutting and joining."""

    __slots__ = ()

    def reshape(self, *shape: SInt | Sequence[SInt]) -> Self:
        """The same elements in row-major order; one size may be -1 and is then inferred."""
        return self.along(Reshape(self.shape, _infer_size(self.shape, to_shape("reshape", shape))))

    view = reshape

    def flatten(self, start_axis: int = 0, end_axis: int = -1) -> Self:
        """Merge the axes from `start_axis` to `end_axis`, both included."""
        if self.ndim == 0:
            return self.reshape(1)
        start, end = (normalize_axis("flatten", a, self.ndim) for a in (start_axis, end_axis))
        if start > end:
            raise ShapeError(operation="flatten", shape=self.shape, problem=f"has no axes from {start} to {end}")
        return self.reshape(*self.shape[:start], product(self.shape[start : end + 1]), *self.shape[end + 1 :])

    def unflatten(self, axis: int, sizes: Sequence[int]) -> Self:
        """Split one axis into several; one of `sizes` may be -1."""
        axis = normalize_axis("unflatten", axis, self.ndim)
        inner = _infer_size((self.shape[axis],), to_shape("unflatten", sizes))
        return self.reshape(*self.shape[:axis], *inner, *self.shape[axis + 1 :])

    def squeeze(self, axis: Axes = None) -> Self:
        """Drop axes of size 1: all of them, or those named."""
        axes = normalize_axes("squeeze", axis, self.ndim)
        for a in axes:
            if axis is not None and self.shape[a] != 1:
                raise ShapeError(
                    operation="squeeze", shape=self.shape, problem=f"has size {self.shape[a]} on axis {a}, not 1"
                )
        return self.reshape(tuple(s for i, s in enumerate(self.shape) if not (i in axes and s == 1)))

    def unsqueeze(self, axis: int) -> Self:
        """Insert an axis of size 1 at `axis`."""
        axis = normalize_axis("unsqueeze", axis, self.ndim + 1)
        return self.reshape((*self.shape[:axis], 1, *self.shape[axis:]))

    expand_dims = unsqueeze

    def permute(self, *axes: int | Sequence[int]) -> Self:
        """Axis i of the result is axis `axes[i]` of this tensor."""
        given: tuple[int, ...] = tuple(axes[0]) if len(axes) == 1 and isinstance(axes[0], Sequence) else axes  # pyright: ignore[reportAssignmentType]
        return self.along(Permute(tuple(normalize_axis("permute", a, self.ndim) for a in given)))

    def transpose(self, axis0: int = -2, axis1: int = -1) -> Self:
        """Swap two axes, by default the last two."""
        first, second = (normalize_axis("transpose", a, self.ndim) for a in (axis0, axis1))
        axes = list(range(self.ndim))
        axes[first], axes[second] = axes[second], axes[first]
        return self.along(Permute(tuple(axes)))

    swapaxes = transpose

    def moveaxis(self, source: int, destination: int) -> Self:
        """Move one axis to another place; the others keep their order."""
        source, destination = (normalize_axis("moveaxis", a, self.ndim) for a in (source, destination))
        axes = [a for a in range(self.ndim) if a != source]
        axes.insert(destination, source)
        return self.along(Permute(tuple(axes)))

    @property
    def T(self) -> Self:
        """The tensor with its axes in reverse order."""
        return self.along(Permute(tuple(reversed(range(self.ndim)))))

    @property
    def mT(self) -> Self:
        """The tensor with its last two axes swapped."""
        if self.ndim < 2:
            raise AxisError(operation="mT", axis=-2, ndim=self.ndim)
        return self.transpose(-2, -1)

    def flip(self, axis: Axes = None) -> Self:
        """Reverse the named axes, by default all."""
        axes = normalize_axes("flip", axis, self.ndim)
        return self.along(Flip(tuple(a in axes for a in range(self.ndim))))

    def roll(self, shift: int | Sequence[int], axis: Axes = None) -> Self:
        """Move elements by `shift` along `axis`, those that leave at the end coming back at the start."""
        if axis is None:
            return self.flatten().roll(shift, 0).reshape(self.shape) if self.ndim else self.clone()
        axes = normalize_axes("roll", axis, self.ndim)
        shifts = (shift,) * len(axes) if isinstance(shift, int) else tuple(shift)
        if len(shifts) != len(axes):
            raise ShapeError(operation="roll", shape=shifts, problem=f"does not match the axes {axes}")
        result = self.clone()
        for amount, a in zip(shifts, axes, strict=True):
            size = self.shape[a]
            cut = normalize_size(-amount % _at_least_one(size))
            if not isinstance(cut, int) or cut:
                result = result._slice_axis(a, cut, size).cat(result._slice_axis(a, 0, cut), axis=a)
        return result

    def expand(self, *shape: SInt | Sequence[SInt]) -> Self:
        """Repeat axes of size 1, and add axes in front; -1 keeps a size."""
        sizes = to_shape("expand", shape)
        offset = len(sizes) - self.ndim
        if offset < 0:
            raise ShapeError(operation="expand", shape=self.shape, problem=f"has more axes than {sizes}")
        wanted = tuple(
            self.shape[i - offset] if isinstance(s, int) and s == -1 and i >= offset else s for i, s in enumerate(sizes)
        )
        return self._expand(wanted)

    def broadcast_to(self, *shape: SInt | Sequence[SInt]) -> Self:
        """Repeat to `shape` by the rules of broadcasting."""
        sizes = to_shape("broadcast_to", shape)
        if broadcast_shapes(self.shape, sizes) != sizes:
            raise ShapeError(operation="broadcast_to", shape=self.shape, problem=f"does not broadcast to {sizes}")
        return self._expand(sizes)

    def _expand(self, shape: Shape) -> Self:
        before = (1,) * (len(shape) - self.ndim) + self.shape
        steps: list[Step] = [] if before == self.shape else [Reshape(self.shape, before)]
        return self.along(*steps, Expand(before, shape)) if shape != before else self.along(*steps)

    def repeat(self, *counts: SInt | Sequence[SInt]) -> Self:
        """The whole tensor again and again: `counts[i]` times along axis i (numpy's `tile`)."""
        times = to_shape("repeat", counts)
        if any(bounds_of_size(n)[0] < 0 for n in times):
            raise ShapeError(operation="repeat", shape=times, problem="has a negative count")
        shape: Shape = (1,) * (len(times) - self.ndim) + self.shape
        times = (1,) * (len(shape) - len(times)) + times
        node = make_reshape(self.uop, tuple(n for s in shape for n in (1, s)))
        if any(isinstance(n, int) and n == 0 for n in times):
            return self._make(make_empty(self.dtype, tuple(n * s for n, s in zip(times, shape, strict=True))))
        node = make_expand(node, tuple(m for n, s in zip(times, shape, strict=True) for m in (n, s)))
        return self._make(make_reshape(node, tuple(s * n for n, s in zip(times, shape, strict=True))))

    tile = repeat

    def repeat_interleave(self, count: int, axis: int | None = None) -> Self:
        """Each element `count` times in a row (numpy's `repeat`)."""
        if axis is None:
            return self.flatten().repeat_interleave(count, 0)
        axis = normalize_axis("repeat_interleave", axis, self.ndim)
        shape = self.shape
        wide = self.unsqueeze(axis + 1)
        repeated = (
            wide.expand(*shape[: axis + 1], count, *shape[axis + 1 :]) if count else wide._slice_axis(axis + 1, 0, 0)
        )
        return repeated.reshape(*shape[:axis], shape[axis] * count, *shape[axis + 1 :]).clone()

    def shrink(self, *bounds: tuple[SInt, SInt] | None) -> Self:
        """The part from `begin` up to `end` of each axis; None keeps an axis whole."""
        if len(bounds) != self.ndim:
            raise ShapeError(
                operation="shrink", shape=self.shape, problem=f"needs {self.ndim} pairs, not {len(bounds)}"
            )
        pairs = tuple((0, s) if b is None else b for s, b in zip(self.shape, bounds, strict=True))
        for axis, (size, (begin, end)) in enumerate(zip(self.shape, pairs, strict=True)):
            if not all(isinstance(n, int) for n in (size, begin, end)):
                check_within("shrink", axis, begin, 0, end)
                check_within("shrink", axis, end, begin, size)
        return self.along(Shrink(self.shape, pairs))

    def split(self, sizes: int | Sequence[int], axis: int = 0) -> tuple[Self, ...]:
        """Parts of the given sizes along `axis`; an int gives parts of that size, the last one smaller."""
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
        """At most `n_parts` parts of equal size along `axis`, the last one possibly smaller."""
        axis = normalize_axis("chunk", axis, self.ndim)
        (total,) = concrete_shape("chunk", (self.shape[axis],))
        if n_parts < 1:
            raise ShapeError(operation="chunk", shape=self.shape, problem=f"cannot be cut into {n_parts} parts")
        return self.split(max(1, math.ceil(total / n_parts)), axis)

    def unbind(self, axis: int = 0) -> tuple[Self, ...]:
        """The slices along `axis`, each without it."""
        axis = normalize_axis("unbind", axis, self.ndim)
        (total,) = concrete_shape("unbind", (self.shape[axis],))
        return tuple(self._slice_axis(axis, i, i + 1).squeeze(axis) for i in range(total))

    def diagonal(self) -> Self:
        """The elements `[..., i, i]` of the last two axes, as values of their own."""
        if self.ndim < 2:
            raise AxisError(operation="diagonal", axis=-2, ndim=self.ndim)
        rows, columns = self.shape[-2:]
        n = normalize_size(to_node(rows).minimum(columns))
        batch = self.shape[:-2]
        square = self.shrink(*(None,) * len(batch), (0, n), (0, n)).reshape(*batch, n * n)
        padded = square.pad(*((0, 0),) * len(batch), (0, n)).reshape(*batch, n, n + 1)
        return padded._slice_axis(len(batch) + 1, 0, 1).squeeze(-1).clone()

    def _slice_axis(self, axis: int, begin: SInt, end: SInt) -> Self:
        pairs = tuple((begin, end) if a == axis else (0, s) for a, s in enumerate(self.shape))
        return self.along(Shrink(self.shape, pairs))

    def pad(self, *padding: Amounts | Sequence[Amounts], value: bool | int | float = 0) -> Self:
        """Add `value` before and after each axis; None leaves an axis, negative amounts crop it.

        Args:
            padding: a pair `(before, after)` for each axis, one by one or as a sequence; one pair alone is that of all axes,
                and a number stands for a pair of it, as in numpy.
            value: what is added.
        """
        pairs = _to_pairs(padding, self.shape)
        cropped = self._crop(pairs)
        pairs = tuple((_positive_part(i, b), _positive_part(i, a)) for i, (b, a) in enumerate(pairs))
        return self._make(_pad_node(cropped.uop, pairs, make_constant(value, self.dtype)))

    def _crop(self, pairs: Sequence[tuple[SInt, SInt]]) -> Self:
        if not any(isinstance(n, int) and n < 0 for pair in pairs for n in pair):
            return self
        bounds: list[tuple[SInt, SInt]] = []
        for size, (before, after) in zip(self.shape, pairs, strict=True):
            begin = -before if isinstance(before, int) and before < 0 else 0
            bounds.append((begin, size + after if isinstance(after, int) and after < 0 else size))
        return self.shrink(*bounds)

    def concat(self: T | Iterable[T], *others: T | Iterable[T] | int | None, axis: int | None = 0) -> T:
        """The tensors one after the other along `axis`; None flattens them first.

        They are given one by one or as a sequence, and the axis by name or behind them: `x.concat(y)`,
        `Tensor.concat(x, y, axis=1)` and `Tensor.concat([x, y], 1)`.

        Raises:
            ShapeError: if there are no tensors, or their shapes differ on another axis.
            OperandError: if one is no tensor.
        """
        parts, axis = _take_operands("concat", (self, *others), axis)
        if axis is None:
            parts, axis = [t.flatten() for t in parts], 0
        axis = normalize_axis("concat", axis, parts[0].ndim)
        _check_alike("concat", parts, axis)
        return parts[0]._join(parts, axis)

    cat = concat

    def stack(self: T | Iterable[T], *others: T | Iterable[T] | int, axis: int = 0) -> T:
        """The tensors, all of one shape, side by side along a new axis; they are given as for `concat`."""
        parts, found = _take_operands("stack", (self, *others), axis)
        axis = normalize_axis("stack", 0 if found is None else found, parts[0].ndim + 1)
        _check_alike("stack", parts, None)
        return parts[0]._join([t.unsqueeze(axis) for t in parts], axis)

    def _join(self, tensors: Sequence[Self], axis: int) -> Self:
        """The tensors, of which this is the first, along an axis on which alone they may differ."""
        dtype = _common_dtype(tensors)
        parts = [t.uop.cast(dtype) for t in tensors if t.shape[axis] != 0]
        node = make_concat(parts, axis) if parts else self.uop.cast(dtype)
        return self._make(node, *tensors[1:])

    def triu(self, diagonal: int = 0) -> Self:
        """The elements on and above a diagonal of the last two axes, zero below it."""
        return self._triangle("triu", diagonal, is_upper=True)

    def tril(self, diagonal: int = 0) -> Self:
        """The elements on and below a diagonal of the last two axes, zero above it."""
        return self._triangle("tril", diagonal, is_upper=False)

    def _triangle(self, operation: str, diagonal: int, *, is_upper: bool) -> Self:
        if self.ndim < 2:
            raise AxisError(operation=operation, axis=-2, ndim=self.ndim)
        rows, columns = self.shape[-2:]
        row = make_positions((rows, columns), 0, int64) + UOp.const(int64, diagonal)
        column = make_positions((rows, columns), 1, int64)
        keep = make_alu(Op.LE, row, column) if is_upper else make_alu(Op.LE, column, row)
        mask = broadcast_node(keep, self.shape)
        return self._make(make_alu(Op.WHERE, mask, self.uop, make_constant(0, self.dtype)))

    def contiguous(self) -> Self:
        """The same values as a tensor of its own that is computed into a buffer, and read from there."""
        if self.uop.op is Op.CONTIGUOUS or memory_nodes.is_buffer_identity(self.uop) or self.size == 0:
            return self.clone()
        return self._make(UOp(Op.CONTIGUOUS, self.dtype, (self.uop,)))

    def detach(self) -> Self:
        """The same elements, taken as a constant where gradients are computed."""
        return self.along(Detach())


def _infer_size(old: Shape, new: Shape) -> Shape:
    if not any(isinstance(s, int) and s == -1 for s in new):
        return new
    holes = [i for i, s in enumerate(new) if isinstance(s, int) and s == -1]
    if len(holes) > 1:
        raise ShapeError(operation="reshape", shape=new, problem="has more than one -1")
    known = product(tuple(s for s in new if not (isinstance(s, int) and s == -1)))
    missing = divide_size(product(old), known)
    if missing is None:
        problem = f"holds {format_size(product(old))} elements, which {format_shape(new)} does not divide"
        raise ShapeError(operation="reshape", shape=old, problem=problem)
    return (*new[: holes[0]], missing, *new[holes[0] + 1 :])


def _to_pairs(padding: Sequence[Amounts | Sequence[Amounts]], shape: Shape) -> tuple[tuple[SInt, SInt], ...]:
    """How much is added before and after each axis."""
    given: Sequence[object] = padding
    if len(padding) == 1 and _is_sequence(padding[0]) and any(p is None or _is_sequence(p) for p in padding[0]):
        given = padding[0]
    if len(given) > 1 and any(isinstance(p, (int, UOp)) for p in given):
        raise OperandError(operation="pad", found=given, expected="a pair (before, after) for each axis")
    pairs = tuple(_to_pair(p) for p in given)
    pairs = pairs * len(shape) if len(pairs) == 1 else pairs
    if len(pairs) != len(shape):
        raise ShapeError(operation="pad", shape=shape, problem=f"needs {len(shape)} pairs, not {len(pairs)}")
    return pairs


def _to_pair(amounts: object) -> tuple[SInt, SInt]:
    values = to_shape("pad", tuple(amounts) if _is_sequence(amounts) else (0 if amounts is None else amounts,))  # pyright: ignore[reportArgumentType]
    if len(values) not in (1, 2):
        raise OperandError(operation="pad", found=amounts, expected="a pair (before, after) for each axis")
    return values[0], values[-1]


def _is_sequence(value: object) -> TypeIs[Sequence[object]]:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _positive_part(axis: int, amount: SInt) -> SInt:
    if isinstance(amount, int):
        return max(amount, 0)
    check_within("pad", axis, amount, 0, None)
    return amount


def _at_least_one(size: SInt) -> SInt:
    """`size`, or 1 where it is 0, to divide by."""
    return max(size, 1) if isinstance(size, int) else size.maximum(1)


def _pad_node(node: UOp, pairs: Sequence[tuple[SInt, SInt]], value: UOp) -> UOp:
    if any(isinstance(s, int) and s == 0 for s in node.shape):
        # Nothing of the tensor shows in the result, which may yet have elements.
        shape = tuple(s + b + a for s, (b, a) in zip(node.shape, pairs, strict=True))
        return broadcast_node(value, shape)
    padded = make_pad(node, pairs)
    if padded is node or _is_positive_zero(value):
        return padded
    inside = make_pad(broadcast_node(UOp.const(bool_, True), node.shape), pairs)
    return make_alu(Op.WHERE, inside, padded, value)


def _is_positive_zero(value: UOp) -> bool:
    return value.arg == 0 and not (isinstance(value.arg, float) and math.copysign(1.0, value.arg) < 0)


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


def _check_alike(operation: str, tensors: Sequence[Movement], axis: int | None) -> None:
    first = tensors[0]
    for other in tensors[1:]:
        if other.ndim != first.ndim or any(
            a != b for i, (a, b) in enumerate(zip(first.shape, other.shape, strict=True)) if i != axis
        ):
            where = "" if axis is None else f" on an axis other than {axis}"
            raise ShapeError(
                operation=operation, shape=other.shape, problem=f"differs from {format_shape(first.shape)}{where}"
            )


def _common_dtype(tensors: Sequence[TensorBase]):
    from functools import reduce

    from svod_dtype import promote_types

    return reduce(promote_types, (t.dtype for t in tensors))
