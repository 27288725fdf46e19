"""A layer that makes axes longer, with values in between."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Literal, TypeAlias, get_args

from svod_nn._module import Module
from svod_nn.errors import LayerArgumentError
from svod_nn.layers.sizes import Sizes, to_sizes
from svod_tensor import Tensor

__all__ = ["Interpolation", "Upsample"]

Interpolation: TypeAlias = Literal["nearest", "linear", "bilinear", "trilinear"]
"""The element below, or the line, plane or volume through the elements around."""

_N_LINEAR = {"linear": 1, "bilinear": 2, "trilinear": 3}


class Upsample(Module):
    """Longer, or shorter, spatial axes of a tensor of shape (batch, channels, *sizes).

    Args:
        size: of the results: a number for all axes, or one for each.
        scale_factor: by how much they are longer than those of the operand, where `size` is None.
        mode: what stands between the elements; the linear ones say the number of axes.
        align_corners: whether the corners of linear results are those of the operand; otherwise
            elements are areas, and the borders of the outermost areas stay where they are.

    Example:
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
            raise LayerArgumentError(name="Upsample", problem="takes either size or scale_factor")
        if mode not in get_args(Interpolation):
            raise LayerArgumentError(
                name="Upsample",
                problem=f"mode={mode!r} is none of {', '.join(get_args(Interpolation))}",
            )
        if align_corners is not None and mode == "nearest":
            raise LayerArgumentError(name="Upsample", problem="align_corners is for linear modes")
        self.size, self.scale_factor = size, scale_factor
        self.mode: Interpolation = mode
        self.align_corners = bool(align_corners)

    def forward(self, x: Tensor) -> Tensor:
        """Of shape (batch, channels, *new sizes)."""
        n = x.ndim - 2
        if n < 1 or n != _N_LINEAR.get(self.mode, n):
            raise LayerArgumentError(
                name="Upsample",
                problem=(
                    f"a tensor of shape {x.shape} has other spatial axes than mode={self.mode!r}"
                ),
            )
        for axis, (size, step) in enumerate(self._get_sizes(x.shape[2:]), 2):
            if size != x.shape[axis] or step != 1:
                x = self._resize(x, axis, size, step)
        return x

    def _get_sizes(self, sizes: Sequence[object]) -> list[tuple[int, Fraction]]:
        """For each axis, its new size and how far apart results are in elements of the operand."""
        before = [size for size in sizes if isinstance(size, int)]
        if self.scale_factor is None:
            assert self.size is not None
            after = to_sizes("Upsample", "size", self.size, len(sizes))
            return [(new, Fraction(old, new)) for old, new in zip(before, after, strict=True)]
        factors = self.scale_factor
        every = (
            [float(factors)] * len(before)
            if isinstance(factors, (int, float))
            else [float(f) for f in factors]
        )
        exact = [Fraction(factor).limit_denominator(4096) for factor in every]
        return [(int(old * factor), 1 / factor) for old, factor in zip(before, exact, strict=True)]

    def _resize(self, x: Tensor, axis: int, size: int, step: Fraction) -> Tensor:
        before = x.shape[axis]
        assert isinstance(before, int)
        place = Tensor.arange(size)
        if self.mode == "nearest":
            if step.numerator == 1 and size == before * step.denominator:
                return x.repeat_interleave(step.denominator, axis)
            return x.take((place * step.numerator // step.denominator).minimum(before - 1), axis)
        # The place in the operand as a fraction: of integers, so that it is exact.
        if self.align_corners:
            top, bottom = place * (before - 1), max(size - 1, 1)
        else:
            top = ((place * 2 + 1) * step.numerator - step.denominator).maximum(0)
            bottom = 2 * step.denominator
        first = (top // bottom).minimum(before - 1)
        share = ((top % bottom).cast(x.dtype) / bottom).reshape(-1, *(1,) * (x.ndim - 1 - axis))
        low, high = x.take(first, axis), x.take((first + 1).minimum(before - 1), axis)
        return low + (high - low) * share

    def extra_repr(self) -> str:
        what = f"size={self.size}" if self.size is not None else f"scale_factor={self.scale_factor}"
        return f"{what}, mode={self.mode!r}"
