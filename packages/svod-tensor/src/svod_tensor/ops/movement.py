"""Views: the same elements in another shape or order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from svod_ir import AxisError, ShapeError, SInt, format_shape, format_size
from svod_ir.sizes import divide_size, product
from svod_tensor._shapes import Axes, Shape, broadcast_shapes, normalize_axes, normalize_axis, to_shape
from svod_tensor.cells.views import Expand, Flip, Permute, Reshape, Step
from svod_tensor.ops.naming import operations
from svod_tensor.ops.theme import Theme

__all__ = ["Movement"]


@operations
class Movement(Theme):
    """Reshaping, reordering and expanding."""

    __slots__ = ()

    def reshape(self, *shape: SInt | Sequence[SInt], copy: bool | None = None) -> Self:
        """The same elements in row-major order as a tensor of `shape`: a view where numpy makes one, else a copy.

        Args:
            shape: sizes, or one sequence of them; one may be -1 and is then inferred.
            copy: True gives values of their own, False an error where there is no view.

        Raises:
            ShapeError: if the shape holds another number of elements, or no view has it and `copy` is False.

        Example:
            >>> Tensor([1, 2, 3, 4]).reshape(2, -1).tolist()
            [[1, 2], [3, 4]]
        """
        wanted = _infer_size(self.shape, to_shape("reshape", shape))
        found = self.along(Reshape(self.shape, wanted))
        if copy:
            return found.clone()
        if copy is False and found.content.cell is not self.content.cell:
            raise ShapeError(
                operation="reshape", shape=self.shape, problem=f"has no view of shape {format_shape(wanted)}",
                hint="leave copy out",
            )  # fmt: skip
        return found

    view = reshape

    def flatten(self, start_axis: int = 0, end_axis: int = -1) -> Self:
        """The axes from `start_axis` to `end_axis`, both included, as one.

        Raises:
            AxisError: if there is no such axis.
            ShapeError: if the end is before the start.

        Example:
            >>> Tensor([[1, 2], [3, 4]]).flatten().tolist()
            [1, 2, 3, 4]
        """
        if self.ndim == 0:
            return self.reshape(1)
        start, end = (normalize_axis("flatten", a, self.ndim) for a in (start_axis, end_axis))
        if start > end:
            raise ShapeError(operation="flatten", shape=self.shape, problem=f"has no axes from {start} to {end}")
        return self.reshape(*self.shape[:start], product(self.shape[start : end + 1]), *self.shape[end + 1 :])

    ravel = flatten

    def unflatten(self, axis: int, sizes: Sequence[int]) -> Self:
        """This tensor with `axis` split into axes of `sizes`, one of which may be -1 and is then inferred.

        Raises:
            ShapeError: if the sizes hold another number of elements.

        Example:
            >>> Tensor([1, 2, 3, 4]).unflatten(0, (2, 2)).tolist()
            [[1, 2], [3, 4]]
        """
        axis = normalize_axis("unflatten", axis, self.ndim)
        inner = _infer_size((self.shape[axis],), to_shape("unflatten", sizes))
        return self.reshape(*self.shape[:axis], *inner, *self.shape[axis + 1 :])

    def squeeze(self, axis: Axes = None) -> Self:
        """This tensor without axes of size 1: a view. `axis` is one axis, several, or None for all that have size 1.

        Raises:
            ShapeError: if a named axis has another size.

        Example:
            >>> Tensor([[[1], [2]]]).squeeze(0).shape
            (2, 1)
        """
        axes = normalize_axes("squeeze", axis, self.ndim)
        for a in axes:
            if axis is not None and self.shape[a] != 1:
                raise ShapeError(
                    operation="squeeze", shape=self.shape, problem=f"has size {self.shape[a]} on axis {a}, not 1"
                )
        return self.reshape(tuple(s for i, s in enumerate(self.shape) if not (i in axes and s == 1)))

    def unsqueeze(self, axis: int | Sequence[int]) -> Self:
        """This tensor with an axis of size 1 at `axis`, or at each of several: a view.

        Args:
            axis: where the result has the new axes.

        Raises:
            AxisError: if the result has no such axis.
            ShapeError: if an axis is named twice.

        Example:
            >>> Tensor([1, 2]).unsqueeze(1).tolist()
            [[1], [2]]
        """
        several = tuple(axis) if isinstance(axis, Sequence) else (axis,)
        ndim = self.ndim + len(several)
        new, sizes = normalize_axes("unsqueeze", several, ndim), iter(self.shape)
        return self.reshape(tuple(1 if number in new else next(sizes) for number in range(ndim)))

    expand_dims = unsqueeze

    def permute(self, *axes: int | Sequence[int]) -> Self:
        """This tensor with its axes in another order: a view. Axis i of the result is axis `axes[i]` of this tensor.

        Raises:
            AxisError: if there is no such axis.
            ShapeError: if not each axis is named once.

        Example:
            >>> Tensor.zeros(2, 3, 4).permute(2, 0, 1).shape
            (4, 2, 3)
        """
        given: tuple[int, ...] = tuple(axes[0]) if len(axes) == 1 and isinstance(axes[0], Sequence) else axes  # pyright: ignore[reportAssignmentType]
        return self.along(Permute(tuple(normalize_axis("permute", a, self.ndim) for a in given)))

    permute_dims = permute

    def transpose(self, axis0: int | Sequence[int] | None = None, axis1: int | None = None) -> Self:
        """This tensor with its axes in reverse order, or with two of them swapped: a view.

        Args:
            axis0: one of two axes; or all of them in the order that is wanted, as `permute` takes it.
            axis1: the other one.

        Raises:
            AxisError: if there is no such axis.
            ShapeError: if one axis is named alone.

        Example:
            >>> Tensor([[1, 2], [3, 4]]).transpose().tolist()
            [[1, 3], [2, 4]]
        """
        if axis0 is None and axis1 is None:
            return self.T
        if isinstance(axis0, Sequence) and axis1 is None:
            return self.permute(axis0)
        if not isinstance(axis0, int) or axis1 is None:
            problem = "is not transposed along one axis: name two, or all in their new order"
            raise ShapeError(operation="transpose", shape=self.shape, problem=problem)
        first, second = (normalize_axis("transpose", a, self.ndim) for a in (axis0, axis1))
        axes = list(range(self.ndim))
        axes[first], axes[second] = axes[second], axes[first]
        return self.along(Permute(tuple(axes)))

    swapaxes = transpose

    def matrix_transpose(self) -> Self:
        """This tensor with the last two axes swapped: a view.

        Raises:
            AxisError: if there are less than two axes.

        Example:
            >>> Tensor.zeros(2, 3, 4).matrix_transpose().shape
            (2, 4, 3)
        """
        return self.swapaxes(-1, -2)

    def moveaxis(self, source: int | Sequence[int], destination: int | Sequence[int]) -> Self:
        """This tensor with axis `source`, or each of several, at place `destination`; the others keep their order: a view.

        Raises:
            AxisError: if there is no such axis.
            ShapeError: if there are not as many places as axes, or one is named twice.

        Example:
            >>> Tensor.zeros(2, 3, 4).moveaxis(0, -1).shape
            (3, 4, 2)
        """
        given, places = (
            [normalize_axis("moveaxis", a, self.ndim) for a in ((ends,) if isinstance(ends, int) else ends)]
            for ends in (source, destination)
        )
        if len(given) != len(places) or len(set(given)) < len(given) or len(set(places)) < len(places):
            problem = f"has no place {destination} for {source}: name each axis and each place once"
            raise ShapeError(operation="moveaxis", shape=self.shape, problem=problem)
        axes = [a for a in range(self.ndim) if a not in given]
        for place, axis in sorted(zip(places, given, strict=True)):
            axes.insert(place, axis)
        return self.along(Permute(tuple(axes)))

    @property
    def T(self) -> Self:
        """This tensor with its axes in reverse order: a view.

        Example:
            >>> Tensor([[1, 2], [3, 4]]).T.tolist()
            [[1, 3], [2, 4]]
        """
        return self.along(Permute(tuple(reversed(range(self.ndim)))))

    @property
    def mT(self) -> Self:
        """This tensor with its last two axes swapped: a view.

        Raises:
            AxisError: if there are less than two axes.

        Example:
            >>> Tensor.zeros(2, 3, 4).mT.shape
            (2, 4, 3)
        """
        if self.ndim < 2:
            raise AxisError(operation="mT", axis=-2, ndim=self.ndim)
        return self.transpose(-2, -1)

    def flip(self, axis: Axes = None) -> Self:
        """This tensor with the elements along an axis in reverse order: a view. `axis` is one axis, several, or None for
        all.

        Raises:
            AxisError: if there is no such axis.

        Example:
            >>> Tensor([[1, 2], [3, 4]]).flip(0).tolist()
            [[3, 4], [1, 2]]
        """
        axes = normalize_axes("flip", axis, self.ndim)
        return self.along(Flip(tuple(a in axes for a in range(self.ndim))))

    def expand(self, *shape: SInt | Sequence[SInt]) -> Self:
        """This tensor with axes of size 1 repeated, and axes added in front: a view, which cannot be assigned to.

        Args:
            shape: of the result, as sizes or one sequence; -1 keeps a size.

        Raises:
            ShapeError: if an axis that is not of size 1 would get another one.

        Example:
            >>> Tensor([[1], [2]]).expand(-1, 3).tolist()
            [[1, 1, 1], [2, 2, 2]]
        """
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
        """This tensor, repeated to `shape` by the rules of broadcasting: a view, which cannot be assigned to where
        elements are repeated.

        Raises:
            BroadcastError: if it does not broadcast to that shape.

        Example:
            >>> Tensor([1, 2]).broadcast_to(2, 2).tolist()
            [[1, 2], [1, 2]]
        """
        sizes = to_shape("broadcast_to", shape)
        if broadcast_shapes(self.shape, sizes) != sizes:
            raise ShapeError(operation="broadcast_to", shape=self.shape, problem=f"does not broadcast to {sizes}")
        return self._expand(sizes)

    @classmethod
    def broadcast_arrays(cls, *tensors: Self) -> tuple[Self, ...]:
        """All of `tensors` with the shape that they broadcast to: views.

        Raises:
            BroadcastError: if they do not broadcast.

        Example:
            >>> x, y = Tensor.broadcast_arrays(Tensor([1, 2]), Tensor([[5], [6]]))
            >>> x.tolist(), y.tolist()
            ([[1, 2], [1, 2]], [[5, 5], [6, 6]])
        """
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
