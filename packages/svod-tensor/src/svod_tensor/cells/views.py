"""Paths: movement steps from a cell to a view of it.

    x[2:, ::-1].T        Shrink, Flip, Permute

A step is applied to a node to read through it, and inverted to write a value through it. All steps
are basic indexing or movements for which numpy returns a view too."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

from svod_dtype import bool_
from svod_ir import (
    Op,
    SInt,
    UOp,
    make_alu,
    make_expand,
    make_flip,
    make_pad,
    make_permute,
    make_reshape,
    make_shrink,
)
from svod_ir.sizes import divide_size, normalize_size, product
from svod_tensor._shapes import Shape, broadcast_node, item_count
from svod_tensor._shards import place_like, shards_of
from svod_tensor.engine.bindings import resolve_size

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array: TypeAlias = NDArray[np.generic]

__all__ = [
    "Detach",
    "Every",
    "Expand",
    "Flip",
    "Path",
    "Permute",
    "Reshape",
    "Shard",
    "Shrink",
    "Step",
    "apply_path",
    "as_real_target",
    "is_reshape_a_view",
    "is_shard",
    "is_symbolic",
    "is_writable",
    "list_sizes",
    "make_target",
    "put",
    "read_array",
    "substitute_path",
]


class Reshape(NamedTuple):
    """The same elements in row-major order under another shape."""

    before: Shape
    shape: Shape

    def apply(self, node: UOp) -> UOp:
        return make_reshape(node, self.shape)

    def put(self, node: UOp) -> UOp:
        return make_reshape(node, self.before)

    def read(self, array: Array) -> Array:
        return array.reshape(tuple(map(resolve_size, self.shape)))

    def find_strides(self, strides: Shape) -> Shape | None:
        return _reshape_strides(self.before, strides, self.shape)


class Permute(NamedTuple):
    """Axis i is axis `axes[i]` of the source."""

    axes: tuple[int, ...]

    def apply(self, node: UOp) -> UOp:
        return make_permute(node, self.axes)

    def put(self, node: UOp) -> UOp:
        return make_permute(node, tuple(self.axes.index(a) for a in range(len(self.axes))))

    def read(self, array: Array) -> Array:
        return array.transpose(self.axes)

    def find_strides(self, strides: Shape) -> Shape | None:
        return tuple(strides[a] for a in self.axes)


class Shrink(NamedTuple):
    """The elements from `begin` up to `end` of each axis."""

    before: Shape
    bounds: tuple[tuple[SInt, SInt], ...]

    def apply(self, node: UOp) -> UOp:
        return make_shrink(node, self.bounds)

    def put(self, node: UOp) -> UOp:
        padding = [
            (b, normalize_size(s - e)) for (b, e), s in zip(self.bounds, self.before, strict=True)
        ]
        return make_pad(node, padding)

    def read(self, array: Array) -> Array:
        # Without the ellipsis, numpy would return a scalar for a 0-d array.
        return array[(..., *(slice(resolve_size(b), resolve_size(e)) for b, e in self.bounds))]

    def find_strides(self, strides: Shape) -> Shape | None:
        return strides


class Flip(NamedTuple):
    """The axes that are flagged in reverse order."""

    flags: tuple[bool, ...]

    def apply(self, node: UOp) -> UOp:
        return make_flip(node, self.flags)

    def put(self, node: UOp) -> UOp:
        return make_flip(node, self.flags)

    def read(self, array: Array) -> Array:
        return array[(..., *(slice(None, None, -1 if flag else 1) for flag in self.flags))]

    def find_strides(self, strides: Shape) -> Shape | None:
        return tuple(
            _multiply(s, -1) if flag else s for s, flag in zip(strides, self.flags, strict=True)
        )


class Every(NamedTuple):
    """Every `step`-th element of an axis, starting with the first."""

    before: Shape
    axis: int
    step: int

    def apply(self, node: UOp) -> UOp:
        # The IR has no strided slice: pad to a multiple of the step, split the axis into (count,
        # step), and keep the first of each group.
        size = node.shape[self.axis]
        count = item_count(0, size, self.step)
        padding: list[tuple[SInt, SInt]] = [(0, 0)] * len(node.shape)
        padding[self.axis] = (0, normalize_size(count * self.step - size))
        node = make_reshape(make_pad(node, padding), self._split(count))
        bounds: list[tuple[SInt, SInt]] = [(0, s) for s in node.shape]
        bounds[self.axis + 1] = (0, 1)
        return make_reshape(make_shrink(node, bounds), self._with_size(count))

    def put(self, node: UOp) -> UOp:
        count = node.shape[self.axis]
        padding = [(0, 0)] * (len(node.shape) + 1)
        padding[self.axis + 1] = (0, self.step - 1)
        split = list(self._split(count))
        split[self.axis + 1] = 1
        node = make_reshape(
            make_pad(make_reshape(node, split), padding), self._with_size(count * self.step)
        )
        return make_shrink(node, [(0, s) for s in self.before])

    def read(self, array: Array) -> Array:
        return array[(*(slice(None),) * self.axis, slice(None, None, self.step))]

    def find_strides(self, strides: Shape) -> Shape | None:
        return tuple(
            _multiply(s, self.step) if a == self.axis else s for a, s in enumerate(strides)
        )

    def _split(self, count: SInt) -> Shape:
        return (*self.before[: self.axis], count, self.step, *self.before[self.axis + 1 :])

    def _with_size(self, size: SInt) -> Shape:
        return (*self.before[: self.axis], size, *self.before[self.axis + 1 :])


class Expand(NamedTuple):
    """Axes of size 1 repeated."""

    before: Shape
    shape: Shape

    def apply(self, node: UOp) -> UOp:
        return make_expand(node, self.shape)

    def put(self, node: UOp) -> UOp:
        raise AssertionError("a repeated element cannot be written")

    def read(self, array: Array) -> Array:
        import numpy as np

        return np.broadcast_to(array, tuple(map(resolve_size, self.shape)))

    def find_strides(self, strides: Shape) -> Shape | None:
        return tuple(
            s if a == b else 0 for s, a, b in zip(strides, self.before, self.shape, strict=True)
        )


class Shard(NamedTuple):
    """The shard on one of several devices."""

    position: int
    shape: Shape

    def apply(self, node: UOp) -> UOp:
        return shards_of(node)[self.position]

    def put(self, node: UOp) -> UOp:
        raise AssertionError("a shard cannot be written separately")

    def read(self, array: Array) -> Array:
        raise AssertionError("an array has no shards")

    def find_strides(self, strides: Shape) -> Shape | None:
        return _contiguous_strides(self.shape)


class Detach(NamedTuple):
    """The same elements, as constants for differentiation."""

    def apply(self, node: UOp) -> UOp:
        return UOp(Op.DETACH, node.dtype, (node,))

    def put(self, node: UOp) -> UOp:
        return node

    def read(self, array: Array) -> Array:
        return array

    def find_strides(self, strides: Shape) -> Shape | None:
        return strides


Step: TypeAlias = Reshape | Permute | Shrink | Flip | Every | Expand | Shard | Detach
Path: TypeAlias = tuple[Step, ...]


def apply_path(path: Iterable[Step], node: UOp) -> UOp:
    """The view of `node` along `path`."""
    for step in path:
        node = step.apply(node)
    return node


def make_target(path: Path, node: UOp) -> UOp:
    """The view of `node` along `path`, as the target of a write."""
    # As in torch, a detached tensor shares the memory: a write through it changes that memory.
    return apply_path([step for step in path if step.__class__ is not Detach], node)


def as_real_target(target: UOp) -> UOp:
    """The real and imaginary parts of complex memory along a new last axis, as the target of a
    write.
    """
    if target.op is Op.AS_COMPLEX:
        return target.source
    # Every movement is repeated with an axis of size 2 at the end, which it leaves as it is.
    source = as_real_target(target.source)
    match target.op:
        case Op.RESHAPE:
            return make_reshape(source, (*target.shape, 2))
        case Op.PERMUTE:
            return make_permute(source, (*target.arg, len(target.arg)))
        case Op.SHRINK:
            sizes = target.sizes
            return make_shrink(source, [*zip(sizes[::2], sizes[1::2], strict=True), (0, 2)])
        case _:
            assert target.op is Op.FLIP, target
            return make_flip(source, (*target.arg, False))


def read_array(path: Iterable[Step], array: Array) -> Array:
    """The view of a numpy array along `path`, without a copy."""
    for step in path:
        array = step.read(array)
    return array


def put(path: Path, node: UOp, value: UOp) -> UOp:
    """`node` with `value` in the elements that `path` selects."""
    is_part = any(step.__class__ in (Shrink, Every) for step in path)
    # The mask follows the same steps as the value. Padding is False in it, and marks the elements
    # that keep their values.
    inside = broadcast_node(UOp.const(bool_, True), value.shape) if is_part else None
    for step in reversed(path):
        value = step.put(value)
        inside = None if inside is None else step.put(inside)
    if inside is not None:
        return make_alu(Op.WHERE, inside, value, node)
    # A constant has no device: the result stays on the device of `node`.
    return (
        place_like(value, node) if value.placement is None and node.placement is not None else value
    )


def is_writable(path: Path) -> bool:
    """True if no two elements along `path` share memory."""
    return not any(step.__class__ is Expand for step in path)


def is_shard(path: Path) -> bool:
    """True if `path` leads to one of several devices."""
    return any(step.__class__ is Shard for step in path)


def list_sizes(path: Path) -> list[UOp]:
    """The nodes that the bounds and shapes of steps depend on."""
    nodes: list[UOp] = []
    stack: list[object] = list(path)
    while stack:
        field = stack.pop()
        if isinstance(field, UOp):
            nodes.append(field)
        elif isinstance(field, tuple):
            stack.extend(cast("tuple[object, ...]", field))
    return nodes


def substitute_path(path: Path, replacements: Mapping[UOp, UOp]) -> Path:
    """`path` with nodes replaced in the bounds and shapes of its steps."""
    steps = [
        step.__class__(*cast("Any", [_substitute(field, replacements) for field in step]))
        for step in path
    ]
    return tuple(steps)


def _substitute(field: object, replacements: Mapping[UOp, UOp]) -> object:
    if isinstance(field, UOp):
        return field.substitute(replacements)
    if isinstance(field, tuple):
        return tuple(
            [_substitute(item, replacements) for item in cast("tuple[object, ...]", field)]
        )
    return field


def is_symbolic(path: Path) -> bool:
    """True if a step depends on variables."""
    return bool(list_sizes(path))


def is_reshape_a_view(path: Path, base: Shape, shape: Shape, new: Shape) -> bool:
    """True if the elements along `path` of a contiguous tensor of shape `base`, which have `shape`,
    can be reshaped to `new` without a copy.
    """
    # Axes of size 1 can be added and removed anywhere.
    if [s for s in shape if not _is_size(s, 1)] == [s for s in new if not _is_size(s, 1)]:
        return True
    if all(step.__class__ in (Reshape, Detach) for step in path):
        return True
    strides: Shape | None = _contiguous_strides(base)
    for step in path:
        strides = step.find_strides(strides)
        if strides is None:
            return False
    return _reshape_strides(shape, strides, new) is not None


def _reshape_strides(old: Shape, strides: Shape, new: Shape) -> Shape | None:
    """The strides of shape `new` over elements that have shape `old` and `strides`; None if no
    strides reach them in that order.
    """
    # Without elements, any strides are right.
    if any(isinstance(s, int) and s == 0 for s in old):
        return _contiguous_strides(new)
    axes = [
        (size, stride) for size, stride in zip(old, strides, strict=True) if not _is_size(size, 1)
    ]
    result: list[SInt] = []
    sizes = list(new)
    while sizes or axes:
        # No address depends on the stride of an axis of size 1, so it splits no group.
        if sizes and _is_size(sizes[0], 1):
            result.append(0)
            sizes.pop(0)
            continue
        group = _take_group(axes, sizes)
        if group is None:
            return None
        merged, n_new = group
        # Axes merge if each one steps over all elements of the next one, the rule of numpy's
        # `_attempt_nocopy_reshape`.
        if any(merged[i][1] != _multiply(*merged[i + 1]) for i in range(len(merged) - 1)):
            return None
        stride = merged[-1][1]
        inner: list[SInt] = []
        for size in reversed(sizes[:n_new]):
            inner.append(stride)
            stride = _multiply(stride, size)
        result += reversed(inner)
        del sizes[:n_new], axes[: len(merged)]
    return tuple(result)


def _take_group(
    axes: Sequence[tuple[SInt, SInt]], sizes: Sequence[SInt]
) -> tuple[list[tuple[SInt, SInt]], int] | None:
    """The fewest axes, and the number of `sizes`, with the same number of elements."""
    if not axes or not sizes:
        return None
    n_old, n_new = 1, 1
    left, right = axes[0][0], sizes[0]
    while left != right:
        # Extend the smaller side by an axis.
        if _is_smaller(right, left):
            if n_new == len(sizes):
                return None
            right, n_new = _multiply(right, sizes[n_new]), n_new + 1
        else:
            if n_old == len(axes):
                return None
            left, n_old = _multiply(left, axes[n_old][0]), n_old + 1
    return list(axes[:n_old]), n_new


def _is_smaller(left: SInt, right: SInt) -> bool:
    if isinstance(left, int) and isinstance(right, int):
        return left < right
    # Symbolic sizes have no order. A size that divides the other one is the smaller side; where
    # neither divides, the group does not end and the reshape is a copy.
    return divide_size(right, left) is not None


def _contiguous_strides(shape: Shape) -> Shape:
    return tuple(product(shape[axis + 1 :]) for axis in range(len(shape)))


def _multiply(left: SInt, right: SInt) -> SInt:
    return (
        left * right
        if isinstance(left, int) and isinstance(right, int)
        else normalize_size(left * right)
    )


def _is_size(size: SInt, value: int) -> bool:
    return isinstance(size, int) and size == value
