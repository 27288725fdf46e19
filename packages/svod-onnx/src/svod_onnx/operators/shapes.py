"""Other arrangements of the same elements, and what shapes are computed from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from svod_onnx._broadcasting import multiply_sizes
from svod_onnx._registry import Ints, Known, Value, operator
from svod_onnx._sizes import make_sizes
from svod_onnx._trace import Call
from svod_onnx._types import find_carrier
from svod_onnx._values import to_tensor
from svod_tensor import Tensor

__all__ = [
    "concatenate",
    "crop_or_pad_center",
    "depth_to_space",
    "expand",
    "flatten",
    "make_constant",
    "make_constant_of_shape",
    "make_identity_matrix",
    "make_range",
    "measure_shape",
    "measure_size",
    "repeat_axis",
    "repeat_tiles",
    "reshape",
    "reshape_by_attribute",
    "space_to_depth",
    "split_by_attribute",
    "split_by_operand",
    "split_evenly",
    "squeeze",
    "squeeze_by_attribute",
    "take_triangle",
    "transpose",
    "unsqueeze",
    "unsqueeze_by_attribute",
]


@operator("Constant")
def make_constant(
    *,
    value: Any = None,
    sparse_value: Any = None,
    value_float: float | None = None,
    value_floats: Sequence[float] | None = None,
    value_int: int | None = None,
    value_ints: Sequence[int] | None = None,
    value_string: str | None = None,
    value_strings: Sequence[str] | None = None,
) -> Value:
    """What one of the attributes says."""
    if value is not None:
        return value
    if sparse_value is not None:
        return sparse_value
    if value_float is not None or value_floats is not None:
        return np.array(value_float if value_floats is None else value_floats, np.float32)
    if value_int is not None or value_ints is not None:
        return np.array(value_int if value_ints is None else value_ints, np.int64)
    return np.array(value_string if value_strings is None else value_strings, object)


@operator("Reshape", since=5)
def reshape(x: Tensor, shape: Ints, *, allowzero: int = 0) -> Tensor:
    """A size of 0 stands for that of `x`, unless zeros are meant; -1 for what is left."""
    sizes = [x.shape[axis] if size == 0 and not allowzero else size for axis, size in enumerate(shape)]
    return x.reshape(sizes)


@operator("Reshape")
def reshape_by_attribute(x: Tensor, *, shape: list[int], consumed_inputs: list[int] | None = None) -> Tensor:
    del consumed_inputs
    return reshape(x, shape)


@operator("Transpose")
def transpose(x: Tensor, *, perm: list[int] | None = None) -> Tensor:
    return x.permute(*(reversed(range(x.ndim)) if perm is None else perm))


@operator("Flatten")
def flatten(x: Tensor, *, axis: int = 1) -> Tensor:
    """The axes before `axis` as one, and the others as one."""
    axis = axis + x.ndim if axis < 0 else axis
    return x.reshape(multiply_sizes(x.shape[:axis]), multiply_sizes(x.shape[axis:]))


@operator("Squeeze", since=13)
def squeeze(x: Tensor, axes: Ints | None = None) -> Tensor:
    return x.squeeze(tuple(axis for axis, size in enumerate(x.shape) if size == 1) if axes is None else tuple(axes))


@operator("Squeeze")
def squeeze_by_attribute(x: Tensor, *, axes: list[int] | None = None) -> Tensor:
    return squeeze(x, axes)


@operator("Unsqueeze", since=13)
def unsqueeze(x: Tensor, axes: Ints) -> Tensor:
    """Axes of size 1, at places that are counted in the result."""
    n_axes = x.ndim + len(axes)
    places = sorted(axis + n_axes if axis < 0 else axis for axis in axes)
    for place in places:
        x = x.unsqueeze(place)
    return x


@operator("Unsqueeze")
def unsqueeze_by_attribute(x: Tensor, *, axes: list[int]) -> Tensor:
    return unsqueeze(x, axes)


@operator("Concat")
def concatenate(*parts: Tensor, axis: int = 1) -> Tensor:
    first, *others = parts
    return first.concat(*others, axis=axis) if others else first


@operator("Split", since=18)
def split_evenly(
    node: Call, x: Tensor, split: Ints | None = None, *, axis: int = 0, num_outputs: int | None = None
) -> tuple[Tensor, ...]:
    """Parts of given sizes, or of equal ones, of which the last may be smaller."""
    if split is not None:
        return x.split(split, axis)
    size, n = x.shape[axis], num_outputs or node.n_outputs
    if not isinstance(size, int):
        part = size // n
        if part * n != size:
            raise ValueError(f"{size} elements are not known to be {n} equal parts")
        place = (slice(None),) * (axis % x.ndim)
        return tuple(x[(*place, slice(part * number, part * (number + 1)))] for number in range(n))
    part = -(-size // n)
    return x.split([max(min(part, size - number * part), 0) for number in range(n)], axis)


@operator("Split", since=13)
def split_by_operand(node: Call, x: Tensor, split: Ints | None = None, *, axis: int = 0) -> tuple[Tensor, ...]:
    return split_evenly(node, x, split, axis=axis)


@operator("Split")
def split_by_attribute(
    node: Call, x: Tensor, sizes: Ints | None = None, *, axis: int = 0, split: list[int] | None = None
) -> tuple[Tensor, ...]:
    """Version 1 takes the sizes as an operand or as an attribute."""
    return split_evenly(node, x, split if sizes is None else sizes, axis=axis)


@operator("Expand")
def expand(x: Tensor, shape: Ints) -> Tensor:
    """Broadcast with a shape: sizes of 1 on either side give way."""
    n_axes = max(x.ndim, len(shape))
    own = [1] * (n_axes - x.ndim) + list(x.shape)
    wanted = [1] * (n_axes - len(shape)) + list(shape)
    return x.broadcast_to([a if b == 1 else b for a, b in zip(own, wanted, strict=True)])


@operator("Tile", since=6)
def repeat_tiles(x: Tensor, repeats: Ints) -> Tensor:
    return x.tile(repeats)


@operator("Tile")
def repeat_axis(x: Tensor, tiles: Ints, axis: Ints) -> Tensor:
    """Version 1 repeats along one axis."""
    return x.tile([tiles[0] if number == axis[0] % x.ndim else 1 for number in range(x.ndim)])


@operator("Shape")
def measure_shape(x: Value, *, start: int = 0, end: int | None = None) -> Value:
    """The sizes of the axes from `start` to `end`, counted and cut off as in a slice."""
    assert x is not None
    assert not isinstance(x, list)
    return make_sizes(x.shape[start:end])


@operator("Size")
def measure_size(x: Value) -> Value:
    assert x is not None
    assert not isinstance(x, list)
    return make_sizes(multiply_sizes(x.shape))


@operator("Range")
def make_range(start: Known, limit: Known, delta: Known) -> Tensor:
    """Each element is `start` and a multiple of `delta`, rounded once; none reaches `limit`."""
    first, last, step = (array.item() for array in (start, limit, delta))
    if step == 0:
        raise ValueError("the difference between elements is 0")
    count = max(int(np.ceil((last - first) / step)), 0)
    dtype = find_carrier(_get_kind(start)) or "int64"
    exact = "float64" if isinstance(first, float) else "int64"
    return Tensor.arange(count, dtype=exact).mul(step).add(first).cast(dtype)


def _get_kind(array: np.ndarray) -> int:
    from svod_onnx._types import get_element_type

    return get_element_type(array.dtype)


@operator("ConstantOfShape")
def make_constant_of_shape(shape: Ints, *, value: Any = None) -> Tensor:
    found = np.zeros(1, np.float32) if value is None else value
    return to_tensor(np.reshape(found, ()), is_constant=True).broadcast_to(shape)


@operator("EyeLike")
def make_identity_matrix(x: Tensor, *, dtype: int | None = None, k: int = 0) -> Tensor:
    wanted = x.dtype if dtype is None else find_carrier(dtype)
    if wanted is None:
        raise ValueError(f"no tensor has elements of type {dtype}")
    return Tensor.eye(x.shape[0], x.shape[1], k=k, dtype=wanted)


@operator("Trilu")
def take_triangle(x: Tensor, k: Ints | None = None, *, upper: int = 1) -> Tensor:
    diagonal = k[0] if k else 0
    return x.triu(diagonal) if upper else x.tril(diagonal)


@operator("DepthToSpace")
def depth_to_space(x: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    """Channels become blocks of pixels: the block is the outer part of the channels (DCR), or the inner one (CRD)."""
    n, c, height, width = x.shape
    if mode == "DCR":
        blocks = x.reshape(n, blocksize, blocksize, c // blocksize**2, height, width).permute(0, 3, 4, 1, 5, 2)
    else:
        blocks = x.reshape(n, c // blocksize**2, blocksize, blocksize, height, width).permute(0, 1, 4, 2, 5, 3)
    return blocks.reshape(n, c // blocksize**2, height * blocksize, width * blocksize)


@operator("SpaceToDepth")
def space_to_depth(x: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    """Blocks of pixels become channels: the opposite of `depth_to_space`."""
    n, c, height, width = x.shape
    blocks = x.reshape(n, c, height // blocksize, blocksize, width // blocksize, blocksize)
    order = (0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4)
    return blocks.permute(order).reshape(n, c * blocksize**2, height // blocksize, width // blocksize)


@operator("CenterCropPad")
def crop_or_pad_center(x: Tensor, shape: Ints, *, axes: list[int] | None = None) -> Tensor:
    """The middle of each axis, or the axis in the middle of zeros."""
    padding = [(0, 0)] * x.ndim
    for axis, wanted in zip(range(x.ndim) if axes is None else axes, shape, strict=True):
        size: Any = x.shape[axis]
        if wanted >= size:
            before = (wanted - size) // 2
        else:
            before = -((size - wanted) // 2)
        padding[axis] = (before, wanted - size - before)
    return x.pad(padding)
