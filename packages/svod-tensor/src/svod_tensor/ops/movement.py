"""Views: the same elements in another shape or order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from svod_ir.errors import AxisError, ShapeError
from svod_ir.size_text import format_shape, format_size
from svod_ir.sizes import divide_size, product
from svod_ir.uop import SInt
from svod_tensor.cells.views import Expand, Flip, Permute, Reshape, Step
from svod_tensor.ops.naming import operations
from svod_tensor.ops.theme import Theme
from svod_tensor.shapes import Axes, Shape, broadcast_shapes, normalize_axes, normalize_axis, to_shape

__all__ = ["Movement"]


@operations
class Movement(Theme):
    """Reshaping, reordering and expanding."""

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

    ravel = flatten

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

    permute_dims = permute

    def transpose(self, axis0: int = -2, axis1: int = -1) -> Self:
        """Swap two axes, by default the last two."""
        first, second = (normalize_axis("transpose", a, self.ndim) for a in (axis0, axis1))
        axes = list(range(self.ndim))
        axes[first], axes[second] = axes[second], axes[first]
        return self.along(Permute(tuple(axes)))

    swapaxes = transpose

    def matrix_transpose(self) -> Self:
        """The last two axes exchanged."""
        return self.swapaxes(-1, -2)

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

    def _expand(self, shape: Shape) -> Self:
        before = (1,) * (len(shape) - self.ndim) + self.shape
        steps: list[Step] = [] if before == self.shape else [Reshape(self.shape, before)]
        return self.along(*steps, Expand(before, shape)) if shape != before else self.along(*steps)

    def broadcast_to(self, *shape: SInt | Sequence[SInt]) -> Self:
        """Repeat to `shape` by the rules of broadcasting."""
        sizes = to_shape("broadcast_to", shape)
        if broadcast_shapes(self.shape, sizes) != sizes:
            raise ShapeError(operation="broadcast_to", shape=self.shape, problem=f"does not broadcast to {sizes}")
        return self._expand(sizes)

    @classmethod
    def broadcast_arrays(cls, *tensors: Self) -> tuple[Self, ...]:
        """The tensors, all with the shape that they broadcast to."""
        shape = broadcast_shapes(*(t.shape for t in tensors))
        return tuple(t.broadcast_to(shape) for t in tensors)


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
