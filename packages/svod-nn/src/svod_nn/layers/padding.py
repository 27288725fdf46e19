"""Padding of the last axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal, TypeAlias, get_args

from svod_nn._module import Module
from svod_nn.errors import LayerArgumentError
from svod_nn.layers.sizes import Sizes
from svod_tensor import Tensor

__all__ = [
    "CircularPad1d",
    "CircularPad2d",
    "CircularPad3d",
    "ConstantPad1d",
    "ConstantPad2d",
    "ConstantPad3d",
    "PaddingMode",
    "ReflectionPad1d",
    "ReflectionPad2d",
    "ReflectionPad3d",
    "ReplicationPad1d",
    "ReplicationPad2d",
    "ReplicationPad3d",
    "ZeroPad1d",
    "ZeroPad2d",
    "ZeroPad3d",
    "check_mode",
    "pad_axes",
]

PaddingMode: TypeAlias = Literal["zeros", "reflect", "replicate", "circular"]
"""Padding values: zeros, the reflection at the edges, the edge elements, or the opposite end."""


def check_mode(name: str, mode: str) -> None:
    """Check a padding mode.

    Raises:
        LayerArgumentError: if the mode is unknown.
    """
    if mode not in get_args(PaddingMode):
        raise LayerArgumentError(
            name=name,
            problem=f"padding_mode={mode!r} is not one of {', '.join(get_args(PaddingMode))}",
        )


def pad_axes(
    x: Tensor, amounts: Sequence[tuple[int, int]], mode: PaddingMode, value: float = 0.0
) -> Tensor:
    """Pad the last axes by the amounts before and after each.

    Raises:
        LayerArgumentError: if the tensor has fewer axes than amounts, or an axis is too short to be
            reflected, wrapped or replicated by these amounts.
    """
    lead = x.ndim - len(amounts)
    if lead < 0:
        raise LayerArgumentError(
            name="padding", problem=f"expected at least {len(amounts)} axes, got shape {x.shape}"
        )
    if mode == "zeros":
        return x.pad(*((0, 0),) * lead, *amounts, constant_values=value)
    # One axis after another: the corners are padding of padding.
    for axis, (before, after) in enumerate(amounts, lead):
        size = x.shape[axis]
        # Reflection does not repeat the edge element.
        limit = {"reflect": size - 1, "circular": size, "replicate": None}[mode]
        # The size may be a variable, which has no value yet.
        if limit is not None and isinstance(limit, int) and max(before, after) > limit:
            problem = (
                f"padding {max(before, after)} is too large for axis {axis} with size {size} and"
                f" padding_mode={mode!r}"
            )
            raise LayerArgumentError(name="padding", problem=problem)
        if mode == "replicate" and size == 0 and max(before, after) > 0:
            problem = f"axis {axis} of shape {x.shape} is empty: no edge to replicate"
            raise LayerArgumentError(name="padding", problem=problem)
        segments = [
            _make_padding(x, axis, mode, before, is_before=True),
            x,
            _make_padding(x, axis, mode, after, is_before=False),
        ]
        # Without empty segments: slice(-0, None) would be all of the axis.
        segments = [s for s, n in zip(segments, (before, 1, after), strict=True) if n]
        x = segments[0].concat(*segments[1:], axis=axis) if len(segments) > 1 else x
    return x


def _make_padding(x: Tensor, axis: int, mode: PaddingMode, n: int, *, is_before: bool) -> Tensor:
    """Return the n elements of padding before or after an axis."""
    if mode == "replicate":
        edge = x[_index_axis(axis, slice(0, 1) if is_before else slice(-1, None))]
        # A view: the repeated elements take no memory of their own.
        return edge.expand(*(n if k == axis else size for k, size in enumerate(edge.shape)))
    if mode == "circular":
        return x[_index_axis(axis, slice(-n, None) if is_before else slice(0, n))]
    mirrored = slice(1, n + 1) if is_before else slice(-n - 1, -1)
    return x[_index_axis(axis, mirrored)].flip(axis)


def _index_axis(axis: int, index: slice) -> tuple[slice, ...]:
    return (*(slice(None),) * axis, index)


class _Padding(Module):
    """Base class of padding layers."""

    n_axes: ClassVar[int] = 1
    mode: ClassVar[PaddingMode] = "zeros"

    def __init__(self, padding: Sizes) -> None:
        """Initialize the layer.

        Args:
            padding: number of elements added to every side, or to each of (left, right), (left,
                right, top, bottom) or (left, right, top, bottom, front, back).

        Raises:
            LayerArgumentError: if `padding` is negative or has another number of values.
        """
        sides = 2 * self.n_axes
        self.padding = (padding,) * sides if isinstance(padding, int) else tuple(padding)
        if len(self.padding) != sides or any(amount < 0 for amount in self.padding):
            problem = f"padding must be an integer or {sides} integers, at least 0, got {padding!r}"
            raise LayerArgumentError(name=type(self).__name__, problem=problem)

    def forward(self, x: Tensor) -> Tensor:
        """Pad the last axes; leading axes are unchanged.

        Raises:
            LayerArgumentError: if the tensor has fewer axes than are padded, or the padding is too
                large for an axis: for reflection, it must be less than the size, for circular
                padding at most the size, and for replication the axis must not be empty.
        """
        # As in torch, pairs begin with the last axis.
        pairs = [
            (self.padding[2 * k], self.padding[2 * k + 1]) for k in reversed(range(self.n_axes))
        ]
        return pad_axes(x, pairs, self.mode, self._get_value())

    def _get_value(self) -> float:
        return 0.0

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ConstantPadding(_Padding):
    """Base class of padding with a constant value."""

    def __init__(self, padding: Sizes, value: float) -> None:
        """Initialize the layer.

        Args:
            padding: number of elements added to every side, or to each of (left, right), (left,
                right, top, bottom) or (left, right, top, bottom, front, back).
            value: value of the padding.

        Raises:
            LayerArgumentError: if `padding` is negative or has another number of values.
        """
        super().__init__(padding)
        self.value = value

    def _get_value(self) -> float:
        return self.value

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class ZeroPad1d(_Padding):
    """Zero padding of the last axis.

    A call takes a tensor of shape (..., size), with any number of leading axes.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> nn.ZeroPad1d(1)(Tensor([[1.0, 2.0, 3.0]])).tolist()
        [[0.0, 1.0, 2.0, 3.0, 0.0]]
    """


class ZeroPad2d(_Padding):
    """Zero padding of the last two axes.

    A call takes a tensor of shape (..., height, width), with any number of leading axes.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> nn.ZeroPad2d(1)(Tensor.ones(1, 2, 2)).shape
        (1, 4, 4)
    """

    n_axes = 2


class ZeroPad3d(_Padding):
    """Zero padding of the last three axes.

    A call takes a tensor of shape (..., depth, height, width), with any number of leading axes.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> nn.ZeroPad3d(1)(Tensor.ones(1, 2, 2, 2)).shape
        (1, 4, 4, 4)
    """

    n_axes = 3


class ConstantPad1d(_ConstantPadding):
    """Padding of the last axis with a constant value.

    A call takes a tensor of shape (..., size), with any number of leading axes.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> nn.ConstantPad1d(1, 9.0)(Tensor([[1.0, 2.0, 3.0]])).tolist()
        [[9.0, 1.0, 2.0, 3.0, 9.0]]
    """


class ConstantPad2d(_ConstantPadding):
    """Padding of the last two axes with a constant value.

    A call takes a tensor of shape (..., height, width), with any number of leading axes.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> nn.ConstantPad2d(1, 9.0)(Tensor.ones(1, 2, 2)).shape
        (1, 4, 4)
    """

    n_axes = 2


class ConstantPad3d(_ConstantPadding):
    """Padding of the last three axes with a constant value.

    A call takes a tensor of shape (..., depth, height, width), with any number of leading axes.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> nn.ConstantPad3d(1, 9.0)(Tensor.ones(1, 2, 2, 2)).shape
        (1, 4, 4, 4)
    """

    n_axes = 3


class ReflectionPad1d(_Padding):
    """Padding of the last axis by reflection at its edges, without repeating the edge elements.

    A call takes a tensor of shape (..., size), with any number of leading axes.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> nn.ReflectionPad1d(1)(Tensor([[1.0, 2.0, 3.0]])).tolist()
        [[2.0, 1.0, 2.0, 3.0, 2.0]]
    """

    mode = "reflect"


class ReflectionPad2d(_Padding):
    """Padding of the last two axes by reflection at their edges, without repeating the edge
    elements.

    A call takes a tensor of shape (..., height, width), with any number of leading axes.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> nn.ReflectionPad2d(1)(Tensor.ones(1, 2, 2)).shape
        (1, 4, 4)
    """

    n_axes = 2
    mode = "reflect"


class ReflectionPad3d(_Padding):
    """Padding of the last three axes by reflection at their edges, without repeating the edge
    elements.

    A call takes a tensor of shape (..., depth, height, width), with any number of leading axes.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> nn.ReflectionPad3d(1)(Tensor.ones(1, 2, 2, 2)).shape
        (1, 4, 4, 4)
    """

    n_axes = 3
    mode = "reflect"


class ReplicationPad1d(_Padding):
    """Padding of the last axis by replication of its edge elements.

    A call takes a tensor of shape (..., size), with any number of leading axes.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> nn.ReplicationPad1d(1)(Tensor([[1.0, 2.0, 3.0]])).tolist()
        [[1.0, 1.0, 2.0, 3.0, 3.0]]
    """

    mode = "replicate"


class ReplicationPad2d(_Padding):
    """Padding of the last two axes by replication of their edge elements.

    A call takes a tensor of shape (..., height, width), with any number of leading axes.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> nn.ReplicationPad2d(1)(Tensor.ones(1, 2, 2)).shape
        (1, 4, 4)
    """

    n_axes = 2
    mode = "replicate"


class ReplicationPad3d(_Padding):
    """Padding of the last three axes by replication of their edge elements.

    A call takes a tensor of shape (..., depth, height, width), with any number of leading axes.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> nn.ReplicationPad3d(1)(Tensor.ones(1, 2, 2, 2)).shape
        (1, 4, 4, 4)
    """

    n_axes = 3
    mode = "replicate"


class CircularPad1d(_Padding):
    """Circular padding of the last axis, with the elements of the opposite end.

    A call takes a tensor of shape (..., size), with any number of leading axes.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> nn.CircularPad1d(1)(Tensor([[1.0, 2.0, 3.0]])).tolist()
        [[3.0, 1.0, 2.0, 3.0, 1.0]]
    """

    mode = "circular"


class CircularPad2d(_Padding):
    """Circular padding of the last two axes, with the elements of the opposite ends.

    A call takes a tensor of shape (..., height, width), with any number of leading axes.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> nn.CircularPad2d(1)(Tensor.ones(1, 2, 2)).shape
        (1, 4, 4)
    """

    n_axes = 2
    mode = "circular"


class CircularPad3d(_Padding):
    """Circular padding of the last three axes, with the elements of the opposite ends.

    A call takes a tensor of shape (..., depth, height, width), with any number of leading axes.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> nn.CircularPad3d(1)(Tensor.ones(1, 2, 2, 2)).shape
        (1, 4, 4, 4)
    """

    n_axes = 3
    mode = "circular"
