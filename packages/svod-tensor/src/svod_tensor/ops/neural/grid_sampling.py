"""Sampling of images at given coordinates, as PyTorch's `grid_sample` and `affine_grid`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, get_args

from svod_dtype import int64, promote_types
from svod_ir import OperandError, ShapeError, format_shape
from svod_ir.sizes import product
from svod_tensor._shapes import concrete_shape
from svod_tensor.ops.core.operands import make_result, move_beside, to_float
from svod_tensor.ops.core.operation import operation
from svod_tensor.ops.core.reuse import reuse_graph
from svod_tensor.ops.core.rounding import rounds_once
from svod_tensor.ops.indexing.gathering import gather_along_axis
from svod_tensor.ops.neural import cubic_convolution

if TYPE_CHECKING:
    from svod_tensor.tensor import Tensor

__all__ = [
    "SamplingMode",
    "SamplingPadding",
    "affine_grid",
    "grid_sample",
]


SamplingMode: TypeAlias = Literal["bilinear", "nearest", "bicubic"]
"""Interpolation modes."""

SamplingPadding: TypeAlias = Literal["zeros", "border", "reflection"]
"""Padding modes for coordinates outside of the image."""


@operation(test="test_sampling.py::test_grid_sample_agrees_with_its_formula")
@reuse_graph
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
    """Sample this tensor of shape (batch, channels, *sizes) at the coordinates in `grid`, with
    interpolation, for any number of spatial axes: shape (batch, channels, *grid_sizes).

    Integers become float32 unless the mode is `"nearest"`.

    Args:
        grid: coordinates of shape (batch, *grid_sizes, axes), in [-1, 1] from one end of an axis to
            the other; the coordinate of the last axis comes first. NaN is treated as -1.
        mode: `"nearest"` (ties to even), `"bilinear"` for linear interpolation along each axis, or
            `"bicubic"`.
        padding_mode: values outside of `x`: `"zeros"`, its border elements (`"border"`), or its
            reflection (`"reflection"`).
        align_corners: whether -1 and 1 are the centers of the corner elements, or their outer edges.

    Raises:
        ShapeError: if the shapes do not match, or an axis is empty.
        OperandError: if a mode is unknown, or the grid is not floating-point.

    Example:
        >>> import svod_tensor as sv
        >>> x = sv.Tensor([[[[1.0, 3.0]]]])
        >>> sv.grid_sample(x, sv.Tensor([[[[0.0, 0.0], [-0.5, 0.0]]]])).tolist()
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
            found=f"mode={mode!r}, padding_mode={padding_mode!r}, a grid of {grid.dtype}",
            expected=(
                f"mode in {get_args(SamplingMode)}, padding_mode in {get_args(SamplingPadding)} and"
                " a floating-point grid"
            ),
        )
    x = x if mode == "nearest" else to_float(x)
    batch, channels = x.shape[:2]
    count = product(grid.shape[1:-1])
    coordinates = grid.isnan().where(-1, grid).reshape(batch, count, n)
    neighbors = [
        _get_neighbors(
            _scale(coordinates[..., n - 1 - i], size, align_corners),
            size,
            mode,
            padding_mode,
            align_corners,
        )
        for i, size in enumerate(sizes)
    ]
    indices, weights = _combine(neighbors, sizes)
    n_neighbors = product(indices.shape[2:])
    flat = indices.reshape(batch, 1, count * n_neighbors).expand(
        batch, channels, count * n_neighbors
    )
    gathered = make_result(
        gather_along_axis(x.reshape(batch, channels, product(sizes)).uop, flat.uop, 2), x, grid
    )
    result = gathered.reshape(batch, channels, *grid.shape[1:-1], n_neighbors)
    if weights is None:
        return result.squeeze(-1)
    dtype = promote_types(x.dtype, grid.dtype)
    shares = weights.reshape(batch, 1, *grid.shape[1:-1], n_neighbors)
    return result.cast(dtype).mul(shares.cast(dtype.part)).sum(-1)


@operation(test="test_sampling.py::test_affine_grid_agrees_with_its_formula")
@rounds_once
def affine_grid(theta: Tensor, /, size: Sequence[int], align_corners: bool = False) -> Tensor:
    """Generate a sampling grid for `grid_sample` from affine matrices: shape (batch, *sizes, axes).

    Args:
        size: shape of the output image: (batch, channels, *sizes).
        align_corners: whether -1 and 1 are the centers of the corner elements, or their outer edges.

    Raises:
        ShapeError: if the shape of `theta` is not (batch, axes, axes + 1).

    Example:
        >>> import svod_tensor as sv
        >>> sv.affine_grid(sv.Tensor([[[1.0, 0.0, 0.5], [0.0, 1.0, 0.0]]]), (1, 1, 1, 2)).tolist()
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
        coordinates = [
            2 * p / max(length - 1, 1) - (length > 1) if align_corners else (2 * p + 1) / length - 1
            for p in range(length)
        ]
        line = move_beside(type(x)(coordinates, dtype=x.dtype), x).reshape(-1, *(1,) * (n - i))
        total = total.add(line.mul(x[:, :, n - 1 - i].reshape(batch, *(1,) * n, n)))
    return total


class _Neighbors(NamedTuple):
    """Neighbors of coordinates along an axis: tensors of shape (batch, coordinates, n).

    Attributes:
        indices: indices of the neighbors (int64), -1 outside of the image.
        weights: interpolation weights; None for a single neighbor.
    """

    indices: Tensor
    weights: Tensor | None


def _scale(x: Tensor, size: int, align_corners: bool) -> Tensor:
    """Map coordinates in [-1, 1] to fractional indices."""
    # PyTorch's two conventions: -1 and 1 are centers of elements, or outer edges half an element
    # further out.
    return x.add(1).mul((size - 1) / 2) if align_corners else x.add(1).mul(size).sub(1).mul(0.5)


def _get_neighbors(
    index: Tensor, size: int, mode: str, padding_mode: str, align_corners: bool
) -> _Neighbors:
    is_cubic, inner = mode == "bicubic", index.dtype
    if padding_mode == "reflection":
        # The reflection of infinity is undefined: use index 0.
        index = index.isfinite().where(index, 0)
    else:
        # Clipped to the range in which results differ, which also fits int64.
        index = index.clip(-3, size + 2)
    # Cubic interpolation has neighbors beyond the image, so each of its four indices is mapped,
    # below.
    if not is_cubic:
        index = _apply_padding_mode(index, size, padding_mode, align_corners)
    if mode == "nearest":
        return _Neighbors(
            _to_index(index.round(), size, padding_mode, align_corners).unsqueeze(-1), None
        )
    # Piecewise constant: the derivative flows through the weights only.
    low = index.floor().detach()
    offsets = index.arange(-1, 3) if is_cubic else index.arange(2)
    distance = index.sub(low).unsqueeze(-1).sub(offsets.cast(inner)).abs()
    weights = _cubic_weights(distance) if is_cubic else distance.neg().add(1)
    neighbours = low.unsqueeze(-1).add(offsets.cast(inner))
    if is_cubic:
        neighbours = _apply_padding_mode(neighbours, size, padding_mode, align_corners)
    return _Neighbors(_to_index(neighbours, size, padding_mode, align_corners), weights)


def _apply_padding_mode(index: Tensor, size: int, padding_mode: str, align_corners: bool) -> Tensor:
    """Map indices outside of the image to those of the padding mode."""
    if padding_mode == "zeros":
        return index
    if padding_mode == "reflection":
        start, span = (0.0, size - 1.0) if align_corners else (-0.5, float(size))
        if not span:
            return index.mul(0)
        distance = index.sub(start).abs()
        remainder = distance.sub(distance.div(2 * span).floor().detach().mul(2 * span))
        index = remainder.minimum(remainder.neg().add(2 * span)).add(start)
    return index.clip(0, size - 1)


def _to_index(index: Tensor, size: int, padding_mode: str, align_corners: bool) -> Tensor:
    """Convert integral floats to int64 indices; -1 outside of the image."""
    integer_index = index.detach().cast(int64)
    if padding_mode != "zeros":
        return integer_index.clip(0, size - 1)
    return integer_index.ge(0).logical_and(integer_index.lt(size)).where(integer_index, -1)


def _cubic_weights(distance: Tensor) -> Tensor:
    near, far = cubic_convolution.get_pieces(distance, cubic_convolution.SLOPE)
    return distance.le(1).where(near, far)


def _combine(neighbors: Sequence[_Neighbors], sizes: Sequence[int]) -> tuple[Tensor, Tensor | None]:
    """Combine the neighbors along each axis to flat row-major indices and weights."""
    n = len(sizes)
    flat_index: Tensor | None = None
    weight: Tensor | None = None
    outside: Tensor | None = None
    for i, (axis_indices, axis_weights) in enumerate(neighbors):
        batch, count, size = axis_indices.shape
        shape = (batch, count, *(size if a == i else 1 for a in range(n)))
        axis_index = axis_indices.reshape(*shape)
        is_outside = axis_index.lt(0)
        flat_index = axis_index if flat_index is None else flat_index.mul(sizes[i]).add(axis_index)
        outside = is_outside if outside is None else outside.logical_or(is_outside)
        if axis_weights is not None:
            axis_weight = axis_weights.reshape(*shape)
            weight = axis_weight if weight is None else weight.mul(axis_weight)
    assert flat_index is not None and outside is not None
    # A gather reads 0 at -1, the padding of the mode `zeros`.
    return outside.where(-1, flat_index), weight
