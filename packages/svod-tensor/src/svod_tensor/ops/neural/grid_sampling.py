"""Interpolation of images at given coordinates, as PyTorch's `grid_sample`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, get_args

from svod_dtype import int64, promote_types
from svod_ir import OperandError, ShapeError, format_shape
from svod_ir.sizes import product
from svod_tensor._shapes import concrete_shape
from svod_tensor.ops.core.operands import make_result, to_float
from svod_tensor.ops.core.operation import operation
from svod_tensor.ops.core.rounding import rounds_once
from svod_tensor.ops.indexing.gathering import gather_along_axis

if TYPE_CHECKING:
    from svod_tensor.tensor import Tensor

__all__ = [
    "SamplingMode",
    "SamplingPadding",
    "affine_grid",
    "grid_sample",
]


SamplingMode: TypeAlias = Literal["bilinear", "nearest", "bicubic"]
"""What is made of the elements around a place."""

SamplingPadding: TypeAlias = Literal["zeros", "border", "reflection"]
"""What is behind the borders."""


@operation(test="test_sampling.py::test_what_lies_between_elements_agrees_with_its_formula")
@rounds_once
def grid_sample(
    x: Tensor,
    /,
    grid: Tensor,
    *,
    mode: SamplingMode = "bilinear",
    padding_mode: SamplingPadding = "zeros",
    align_corners: bool = False,
) -> Tensor:
    """The values at the coordinates in `grid`, interpolated between the elements of this tensor of
    shape (batch, channels, *sizes), for any number of spatial axes: shape (batch, channels,
    *places).

    Integers become float32 unless the mode is `"nearest"`.

    Args:
        grid: places of shape (batch, *places, axes). On each axis -1 is one end and 1 the other;
            the coordinate along the last axis comes first. NaN counts as -1.
        mode: `"nearest"` for the nearest element (of two the even one), `"bilinear"` for straight
            lines between neighbours along each axis, `"bicubic"` for polynomials through four.
        padding_mode: `"zeros"` around `x`, its outermost elements (`"border"`), or those inside in
            reverse (`"reflection"`).
        align_corners: whether -1 and 1 are the middles of the outermost elements, or their outer
            ends.

    Raises:
        ShapeError: if the shapes do not fit each other, or an axis is empty.
        OperandError: if a mode is not known, or the places are no floats.

    Example:
        >>> import svod_tensor as sv
        >>> x = Tensor([[[[1.0, 3.0]]]])
        >>> sv.grid_sample(x, Tensor([[[[0.0, 0.0], [-0.5, 0.0]]]])).tolist()
        [[[[2.0, 1.0]]]]
    """
    n, name = x.ndim - 2, "grid_sample"
    if n < 1 or grid.ndim != x.ndim or grid.shape[0] != x.shape[0] or grid.shape[-1] != n:
        raise ShapeError(
            operation=name,
            shape=grid.shape,
            problem=(
                f"grid {format_shape(grid.shape)} does not match input"
                f" {format_shape(x.shape)}: expected (batch, *sizes, {n})"
            ),
        )
    sizes = concrete_shape(name, x.shape[2:])
    if 0 in sizes:
        raise ShapeError(
            operation=name,
            shape=x.shape,
            problem=f"input must not have empty axes: {format_shape(x.shape)}",
        )
    if (
        mode not in get_args(SamplingMode)
        or padding_mode not in get_args(SamplingPadding)
        or not grid.dtype.is_float
    ):
        raise OperandError(
            operation=name,
            found=f"mode {mode!r}, padding_mode {padding_mode!r}, places of {grid.dtype}",
            expected=f"{get_args(SamplingMode)}, {get_args(SamplingPadding)}, floats",
        )
    x = x if mode == "nearest" else to_float(x)
    batch, channels = x.shape[:2]
    count = product(grid.shape[1:-1])
    places = grid.isnan().where(-1, grid).reshape(batch, count, n)
    around = [
        _look_around(
            _scale(places[..., n - 1 - i], size, align_corners),
            size,
            mode,
            padding_mode,
            align_corners,
        )
        for i, size in enumerate(sizes)
    ]
    positions, weights = _combine(around, sizes)
    n_around = product(positions.shape[2:])
    flat = positions.reshape(batch, 1, count * n_around).expand(batch, channels, count * n_around)
    found = make_result(
        gather_along_axis(x.reshape(batch, channels, product(sizes)).uop, flat.uop, 2), x, grid
    )
    result = found.reshape(batch, channels, *grid.shape[1:-1], n_around)
    if weights is None:
        return result.squeeze(-1)
    dtype = promote_types(x.dtype, grid.dtype)
    shares = weights.reshape(batch, 1, *grid.shape[1:-1], n_around)
    return result.cast(dtype).mul(shares.cast(dtype.part)).sum(-1)


@operation(test="test_sampling.py::test_places_of_images_are_moved_by_matrices")
@rounds_once
def affine_grid(theta: Tensor, /, size: Sequence[int], align_corners: bool = False) -> Tensor:
    """The grid, as `grid_sample` takes it, of the affine maps with these matrices: shape (batch,
    *sizes, axes).

    Args:
        size: the shape of the image that is made: (batch, channels, *sizes).
        align_corners: whether -1 and 1 are the middles of the outermost elements, or their outer
            ends.

    Raises:
        ShapeError: if `theta` is not of shape (batch, axes, axes + 1) for an image of this size.

    Example:
        >>> import svod_tensor as sv
        >>> sv.affine_grid(Tensor([[[1.0, 0.0, 0.5], [0.0, 1.0, 0.0]]]), (1, 1, 1, 2)).tolist()
        [[[[0.0, 0.0], [1.0, 0.0]]]]
    """
    batch, _, *sizes = size if len(size) > 2 else (0, 0)
    n = len(sizes)
    if not n or theta.shape != (batch, n, n + 1) or min(sizes) < 1:
        raise ShapeError(
            operation="affine_grid",
            shape=theta.shape,
            problem=(
                f"theta {format_shape(theta.shape)} does not match size"
                f" {tuple(size)}: expected ({batch}, {n}, {n + 1})"
            ),
        )
    x = to_float(theta)
    total = x[:, :, n].reshape(batch, *(1,) * n, n)
    for i, length in enumerate(sizes):
        numbers = [
            2 * p / max(length - 1, 1) - (length > 1) if align_corners else (2 * p + 1) / length - 1
            for p in range(length)
        ]
        line = type(x)(numbers, dtype=x.dtype, device=str(x.device)).reshape(-1, *(1,) * (n - i))
        total = total.add(line.mul(x[:, :, n - 1 - i].reshape(batch, *(1,) * n, n)))
    return total


class _Around(NamedTuple):
    """The elements around places along an axis: tensors of shape (batch, places, n).

    Attributes:
        positions: which they are (int64), -1 where there is none.
        weights: how much of each counts; None where there is one alone.
    """

    positions: Tensor
    weights: Tensor | None


def _scale(x: Tensor, size: int, align_corners: bool) -> Tensor:
    """Coordinates from -1 to 1 as positions of elements."""
    return x.add(1).mul((size - 1) / 2) if align_corners else x.add(1).mul(size).sub(1).mul(0.5)


def _look_around(
    place: Tensor, size: int, mode: str, padding_mode: str, align_corners: bool
) -> _Around:
    is_cubic, inner = mode == "bicubic", place.dtype
    if padding_mode == "reflection":
        # What is infinitely far away is nowhere in particular.
        place = place.isfinite().where(place, 0)
    else:
        # Further away there is nothing else; and integers hold it.
        place = place.clip(-3, size + 2)
    if not is_cubic:
        place = _bring_inside(place, size, padding_mode, align_corners)
    if mode == "nearest":
        return _Around(
            _to_position(place.round(), size, padding_mode, align_corners).unsqueeze(-1), None
        )
    low = place.floor().detach()
    offsets = place.arange(-1, 3) if is_cubic else place.arange(2)
    distance = place.sub(low).unsqueeze(-1).sub(offsets.cast(inner)).abs()
    weights = _weigh_cubic(distance) if is_cubic else distance.neg().add(1)
    neighbours = low.unsqueeze(-1).add(offsets.cast(inner))
    if is_cubic:
        neighbours = _bring_inside(neighbours, size, padding_mode, align_corners)
    return _Around(_to_position(neighbours, size, padding_mode, align_corners), weights)


def _bring_inside(place: Tensor, size: int, padding_mode: str, align_corners: bool) -> Tensor:
    """Places behind the borders as those of the elements that stand for what is there."""
    if padding_mode == "zeros":
        return place
    if padding_mode == "reflection":
        start, span = (0.0, size - 1.0) if align_corners else (-0.5, float(size))
        if not span:
            return place.mul(0)
        distance = place.sub(start).abs()
        rest = distance.sub(distance.div(2 * span).floor().detach().mul(2 * span))
        place = rest.minimum(rest.neg().add(2 * span)).add(start)
    return place.clip(0, size - 1)


def _to_position(place: Tensor, size: int, padding_mode: str, align_corners: bool) -> Tensor:
    """Whole numbers as positions, -1 for those outside."""
    position = place.detach().cast(int64)
    if padding_mode != "zeros":
        return position.clip(0, size - 1)
    return position.ge(0).logical_and(position.lt(size)).where(position, -1)


def _weigh_cubic(distance: Tensor) -> Tensor:
    """Source:

    R. Keys, Cubic convolution interpolation for digital image processing, 1981, with a = -3/4.
    """
    a = -0.75
    near = distance.mul(a + 2).sub(a + 3).mul(distance).mul(distance).add(1)
    far = distance.sub(5).mul(distance).add(8).mul(distance).sub(4).mul(a)
    return distance.le(1).where(near, far)


def _combine(around: Sequence[_Around], sizes: Sequence[int]) -> tuple[Tensor, Tensor | None]:
    """The positions in row-major order of all elements around each place, and how much each
    counts.
    """
    n = len(sizes)
    position: Tensor | None = None
    weight: Tensor | None = None
    outside: Tensor | None = None
    for i, (positions, weights) in enumerate(around):
        batch, count, size = positions.shape
        shape = (batch, count, *(size if a == i else 1 for a in range(n)))
        each = positions.reshape(*shape)
        is_none = each.lt(0)
        position = each if position is None else position.mul(sizes[i]).add(each)
        outside = is_none if outside is None else outside.logical_or(is_none)
        if weights is not None:
            share = weights.reshape(*shape)
            weight = share if weight is None else weight.mul(share)
    assert position is not None and outside is not None
    return outside.where(-1, position), weight
