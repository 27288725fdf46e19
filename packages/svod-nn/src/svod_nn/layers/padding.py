"""Layers that make the last axes longer."""

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
"""What stands outside: zeros, the elements mirrored at the first and the last one, those
themselves, or the other end.
"""


def check_mode(name: str, mode: str) -> None:
    """Check that there is such a way of padding.

    Raises:
        LayerArgumentError: if there is not.
    """
    if mode not in get_args(PaddingMode):
        raise LayerArgumentError(
            name=name,
            problem=f"padding_mode={mode!r} is none of {', '.join(get_args(PaddingMode))}",
        )


def pad_axes(
    x: Tensor, amounts: Sequence[tuple[int, int]], mode: PaddingMode, value: float = 0.0
) -> Tensor:
    """Pad the last axes by amounts before and behind each.

    Raises:
        LayerArgumentError: if an axis has too few elements to be mirrored or repeated.
    """
    lead = x.ndim - len(amounts)
    if mode == "zeros":
        return x.pad(*((0, 0),) * lead, *amounts, constant_values=value)
    for axis, (before, behind) in enumerate(amounts, lead):
        size = x.shape[axis]
        most = {"reflect": size - 1, "circular": size, "replicate": None}[mode]
        if most is not None and isinstance(most, int) and max(before, behind) > most:
            problem = (
                f"cannot add {max(before, behind)} elements to an axis of {size} with"
                f" padding_mode={mode!r}"
            )
            raise LayerArgumentError(name="padding", problem=problem)
        around = [
            _make_part(x, axis, mode, before, is_first=True),
            x,
            _make_part(x, axis, mode, behind, is_first=False),
        ]
        parts = [part for part, amount in zip(around, (before, 1, behind), strict=True) if amount]
        x = parts[0].concat(*parts[1:], axis=axis) if len(parts) > 1 else x
    return x


def _make_part(x: Tensor, axis: int, mode: PaddingMode, n: int, *, is_first: bool) -> Tensor:
    """The n elements before the first one of an axis, or behind the last one."""
    if mode == "replicate":
        edge = x[_at(axis, slice(0, 1) if is_first else slice(-1, None))]
        return edge.expand(*(n if k == axis else size for k, size in enumerate(edge.shape)))
    if mode == "circular":
        return x[_at(axis, slice(-n, None) if is_first else slice(0, n))]
    return x[_at(axis, slice(1, n + 1) if is_first else slice(-n - 1, -1))].flip(axis)


def _at(axis: int, part: slice) -> tuple[slice, ...]:
    return (*(slice(None),) * axis, part)


class _Padding(Module):
    """What the layers of this file share.

    Args:
        padding: a number for all sides, or two for each axis, before and behind it, the last axis
            first.
    """

    n_axes: ClassVar[int] = 1
    mode: ClassVar[PaddingMode] = "zeros"

    def __init__(self, padding: Sizes) -> None:
        sides = 2 * self.n_axes
        self.padding = (padding,) * sides if isinstance(padding, int) else tuple(padding)
        if len(self.padding) != sides or any(amount < 0 for amount in self.padding):
            problem = f"padding={padding!r} is not {sides} numbers of at least 0"
            raise LayerArgumentError(name=type(self).__name__, problem=problem)

    def forward(self, x: Tensor) -> Tensor:
        """Any axes before the padded ones stay."""
        pairs = [
            (self.padding[2 * k], self.padding[2 * k + 1]) for k in reversed(range(self.n_axes))
        ]
        return pad_axes(x, pairs, self.mode, self._get_value())

    def _get_value(self) -> float:
        return 0.0

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ConstantPadding(_Padding):
    """Padding with a number."""

    def __init__(self, padding: Sizes, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def _get_value(self) -> float:
        return self.value

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class ZeroPad1d(_Padding):
    """The last axis, padded with zeros.

    Example:
        >>> nn.ZeroPad1d(1)(Tensor([[1.0, 2.0, 3.0]])).tolist()
        [[0.0, 1.0, 2.0, 3.0, 0.0]]
    """


class ZeroPad2d(_Padding):
    """The last two axes, padded with zeros.

    Example:
        >>> nn.ZeroPad2d(1)(Tensor.ones(1, 2, 2)).shape
        (1, 4, 4)
    """

    n_axes = 2


class ZeroPad3d(_Padding):
    """The last three axes, padded with zeros.

    Example:
        >>> nn.ZeroPad3d(1)(Tensor.ones(1, 2, 2, 2)).shape
        (1, 4, 4, 4)
    """

    n_axes = 3


class ConstantPad1d(_ConstantPadding):
    """The last axis, padded with a number.

    Example:
        >>> nn.ConstantPad1d(1, 9.0)(Tensor([[1.0, 2.0, 3.0]])).tolist()
        [[9.0, 1.0, 2.0, 3.0, 9.0]]
    """


class ConstantPad2d(_ConstantPadding):
    """The last two axes, padded with a number.

    Example:
        >>> nn.ConstantPad2d(1, 9.0)(Tensor.ones(1, 2, 2)).shape
        (1, 4, 4)
    """

    n_axes = 2


class ConstantPad3d(_ConstantPadding):
    """The last three axes, padded with a number.

    Example:
        >>> nn.ConstantPad3d(1, 9.0)(Tensor.ones(1, 2, 2, 2)).shape
        (1, 4, 4, 4)
    """

    n_axes = 3


class ReflectionPad1d(_Padding):
    """The last axis, padded with the elements mirrored at the first and the last one.

    Example:
        >>> nn.ReflectionPad1d(1)(Tensor([[1.0, 2.0, 3.0]])).tolist()
        [[2.0, 1.0, 2.0, 3.0, 2.0]]
    """

    mode = "reflect"


class ReflectionPad2d(_Padding):
    """The last two axes, padded with the elements mirrored at the first and the last one.

    Example:
        >>> nn.ReflectionPad2d(1)(Tensor.ones(1, 2, 2)).shape
        (1, 4, 4)
    """

    n_axes = 2
    mode = "reflect"


class ReflectionPad3d(_Padding):
    """The last three axes, padded with the elements mirrored at the first and the last one.

    Example:
        >>> nn.ReflectionPad3d(1)(Tensor.ones(1, 2, 2, 2)).shape
        (1, 4, 4, 4)
    """

    n_axes = 3
    mode = "reflect"


class ReplicationPad1d(_Padding):
    """The last axis, padded with the first and the last element.

    Example:
        >>> nn.ReplicationPad1d(1)(Tensor([[1.0, 2.0, 3.0]])).tolist()
        [[1.0, 1.0, 2.0, 3.0, 3.0]]
    """

    mode = "replicate"


class ReplicationPad2d(_Padding):
    """The last two axes, padded with the first and the last element.

    Example:
        >>> nn.ReplicationPad2d(1)(Tensor.ones(1, 2, 2)).shape
        (1, 4, 4)
    """

    n_axes = 2
    mode = "replicate"


class ReplicationPad3d(_Padding):
    """The last three axes, padded with the first and the last element.

    Example:
        >>> nn.ReplicationPad3d(1)(Tensor.ones(1, 2, 2, 2)).shape
        (1, 4, 4, 4)
    """

    n_axes = 3
    mode = "replicate"


class CircularPad1d(_Padding):
    """The last axis, padded with the elements of the other end.

    Example:
        >>> nn.CircularPad1d(1)(Tensor([[1.0, 2.0, 3.0]])).tolist()
        [[3.0, 1.0, 2.0, 3.0, 1.0]]
    """

    mode = "circular"


class CircularPad2d(_Padding):
    """The last two axes, padded with the elements of the other end.

    Example:
        >>> nn.CircularPad2d(1)(Tensor.ones(1, 2, 2)).shape
        (1, 4, 4)
    """

    n_axes = 2
    mode = "circular"


class CircularPad3d(_Padding):
    """The last three axes, padded with the elements of the other end.

    Example:
        >>> nn.CircularPad3d(1)(Tensor.ones(1, 2, 2, 2)).shape
        (1, 4, 4, 4)
    """

    n_axes = 3
    mode = "circular"
