"""Upsampling by nearest-neighbor and linear interpolation."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Literal, TypeAlias, get_args

from svod_nn._module import Module
from svod_nn.errors import LayerArgumentError
from svod_nn.layers.sizes import Sizes, to_sizes
from svod_tensor import Tensor
from svod_tensor.errors import SymbolicShapeError

__all__ = ["Interpolation", "Upsample"]

Interpolation: TypeAlias = Literal["nearest", "linear", "bilinear", "trilinear"]
"""Interpolation mode: the nearest element, or linear interpolation over one, two or three axes."""

_N_LINEAR = {"linear": 1, "bilinear": 2, "trilinear": 3}


class Upsample(Module):
    """Upsampling, or downsampling, of the spatial axes by interpolation.

    A call takes a tensor of shape (batch, channels, *sizes) with one or more spatial axes. The
    sizes of the result are `size`, or `sizes * scale_factor` rounded down.

    Args:
        size: sizes of the result: a number for all axes, or one for each.
        scale_factor: factor of the sizes, if `size` is None: a number for all axes, or one for
            each.
        mode: "nearest", or "linear", "bilinear" or "trilinear" for one, two or three spatial axes.
        align_corners: if True, linear modes align the centers of the corner elements of input and
            result; otherwise they align the outer edges of these elements.

    Raises:
        LayerArgumentError: if not exactly one of `size` and `scale_factor` is set, the mode is
            unknown, or `align_corners` is set with mode "nearest"; from a call, if the number of
            axes does not match the mode.

    Source: `torch.nn.Upsample`.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> nn.Upsample(scale_factor=2)(Tensor([[[1.0, 2.0]]])).tolist()
        [[[1.0, 1.0, 2.0, 2.0]]]
        >>> nn.Upsample(3, mode="linear", align_corners=True)(Tensor([[[1.0, 2.0]]])).tolist()
        [[[1.0, 1.5, 2.0]]]
    """

    def __init__(
        self,
        size: Sizes | None = None,
        scale_factor: float | Sequence[float] | None = None,
        mode: Interpolation = "nearest",
        align_corners: bool | None = None,
    ) -> None:
        if (size is None) == (scale_factor is None):
            raise LayerArgumentError(
                name="Upsample", problem="expected either size or scale_factor"
            )
        if mode not in get_args(Interpolation):
            raise LayerArgumentError(
                name="Upsample",
                problem=f"mode={mode!r} is not one of {', '.join(get_args(Interpolation))}",
            )
        if align_corners is not None and mode == "nearest":
            raise LayerArgumentError(
                name="Upsample", problem="align_corners is only supported by linear modes"
            )
        self.size, self.scale_factor = size, scale_factor
        self.mode: Interpolation = mode
        self.align_corners = bool(align_corners)

    def forward(self, x: Tensor) -> Tensor:
        """Resize a tensor of shape (batch, channels, *sizes) to (batch, channels, *new_sizes)."""
        n = x.ndim - 2
        if n < 1 or n != _N_LINEAR.get(self.mode, n):
            raise LayerArgumentError(
                name="Upsample",
                problem=(
                    f"mode={self.mode!r} expects input of {_N_LINEAR.get(self.mode, 1) + 2} axes,"
                    f" got shape {x.shape}"
                ),
            )
        for axis, (size, step) in enumerate(self._get_sizes(x.shape[2:]), 2):
            if size != x.shape[axis] or step != 1:
                x = self._resize(x, axis, size, step)
        return x

    def _get_sizes(self, sizes: Sequence[object]) -> list[tuple[int, Fraction]]:
        """Return, for each axis, its new size and the spacing of results in input elements."""
        before = [size for size in sizes if isinstance(size, int)]
        if len(before) != len(sizes):
            raise SymbolicShapeError(operation="Upsample", shape=tuple(sizes))
        if self.scale_factor is None:
            assert self.size is not None
            after = to_sizes("Upsample", "size", self.size, len(sizes))
            # As in torch, a given size determines the step, and a given factor does even if the
            # size was rounded.
            return [(new, Fraction(old, new)) for old, new in zip(before, after, strict=True)]
        factors = self.scale_factor
        axis_factors = (
            [float(factors)] * len(before)
            if isinstance(factors, (int, float))
            else [float(f) for f in factors]
        )
        # Exact fractions: positions computed with them in integers do not depend on rounding.
        exact = [Fraction(factor).limit_denominator(4096) for factor in axis_factors]
        return [(int(old * factor), 1 / factor) for old, factor in zip(before, exact, strict=True)]

    def _resize(self, x: Tensor, axis: int, size: int, step: Fraction) -> Tensor:
        before = x.shape[axis]
        assert isinstance(before, int)
        index = Tensor.arange(size)
        if self.mode == "nearest":
            if step.numerator == 1 and size == before * step.denominator:
                # Whole factors need no computed indices.
                return x.repeat_interleave(step.denominator, axis)
            return x.take((index * step.numerator // step.denominator).minimum(before - 1), axis)
        # The position in the input as a fraction of integers, so that it is exact.
        if self.align_corners:
            numerator, denominator = index * (before - 1), max(size - 1, 1)
        else:
            numerator = ((index * 2 + 1) * step.numerator - step.denominator).maximum(0)
            denominator = 2 * step.denominator
        first = (numerator // denominator).minimum(before - 1)
        weight = (numerator % denominator).cast(x.dtype) / denominator
        weight = weight.reshape(-1, *(1,) * (x.ndim - 1 - axis))
        low, high = x.take(first, axis), x.take((first + 1).minimum(before - 1), axis)
        return low + (high - low) * weight

    def extra_repr(self) -> str:
        size = f"size={self.size}" if self.size is not None else f"scale_factor={self.scale_factor}"
        return f"{size}, mode={self.mode!r}"
