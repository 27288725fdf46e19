"""Reshaping, splitting and joining, and constants and shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from svod_onnx._broadcasting import multiply_sizes
from svod_onnx._registry import Ints, Known, Value, operator
from svod_onnx._symbolic_sizes import make_sizes
from svod_onnx._trace import Call
from svod_onnx._types import find_carrier, get_element_type
from svod_onnx._values import to_tensor
from svod_tensor import Tensor

__all__ = [
    "center_crop_pad",
    "concat",
    "constant",
    "constant_of_shape",
    "depth_to_space",
    "expand",
    "eye_like",
    "flatten",
    "range_",
    "reshape",
    "reshape_since_1",
    "shape",
    "size",
    "space_to_depth",
    "split",
    "split_since_1",
    "split_since_13",
    "squeeze",
    "squeeze_since_1",
    "tile",
    "tile_since_1",
    "transpose",
    "trilu",
    "unsqueeze",
    "unsqueeze_since_1",
]


@operator("Constant")
def constant(
    *,
    value: np.ndarray | None = None,
    sparse_value: np.ndarray | None = None,
    value_float: float | None = None,
    value_floats: Sequence[float] | None = None,
    value_int: int | None = None,
    value_ints: Sequence[int] | None = None,
    value_string: str | None = None,
    value_strings: Sequence[str] | None = None,
) -> Value:
    """Value of the attribute that is set."""
    values: list[np.ndarray] = [x for x in (value, sparse_value) if x is not None]
    # Of two attributes, runtimes would choose different ones.
    for dtype, alternatives in (
        (np.float32, (value_float, value_floats)),
        (np.int64, (value_int, value_ints)),
        (object, (value_string, value_strings)),
    ):
        values += [np.array(x, dtype) for x in alternatives if x is not None]
    if len(values) != 1:
        raise ValueError(f"expected one value, got {len(values)}")
    return values[0]


@operator("Reshape", since=5)
def reshape(data: Tensor, shape: Ints, *, allowzero: int = 0) -> Tensor:
    """Reshape. A size of 0 copies the size of `data`, unless `allowzero` is set; -1 is inferred."""
    sizes = [
        data.shape[axis] if size == 0 and not allowzero else size for axis, size in enumerate(shape)
    ]
    return data.reshape(sizes)


@operator("Reshape")
def reshape_since_1(
    data: Tensor, *, shape: list[int], consumed_inputs: list[int] | None = None
) -> Tensor:
    """Reshape up to version 4, with the shape as an attribute."""
    del consumed_inputs
    return reshape(data, shape)


@operator("Transpose")
def transpose(data: Tensor, *, perm: list[int] | None = None) -> Tensor:
    """Permute axes, by default reverse them."""
    return data.permute(*(reversed(range(data.ndim)) if perm is None else perm))


@operator("Flatten")
def flatten(input: Tensor, *, axis: int = 1) -> Tensor:
    """Flatten the axes before `axis`, and the axes from `axis` on."""
    # Not modulo the rank: `axis` may equal the rank, and then all axes come before it.
    axis = axis + input.ndim if axis < 0 else axis
    return input.reshape(multiply_sizes(input.shape[:axis]), multiply_sizes(input.shape[axis:]))


@operator("Squeeze", since=13)
def squeeze(data: Tensor, axes: Ints | None = None) -> Tensor:
    """Remove axes of size 1, by default all of them."""
    return data.squeeze(
        tuple(axis for axis, size in enumerate(data.shape) if size == 1)
        if axes is None
        else tuple(axes)
    )


@operator("Squeeze")
def squeeze_since_1(data: Tensor, *, axes: list[int] | None = None) -> Tensor:
    """Squeeze up to version 12, with the axes as an attribute."""
    return squeeze(data, axes)


@operator("Unsqueeze", since=13)
def unsqueeze(data: Tensor, axes: Ints) -> Tensor:
    """Insert axes of size 1. `axes` are indices in the result."""
    n_axes = data.ndim + len(axes)
    indices = sorted(axis + n_axes if axis < 0 else axis for axis in axes)
    # In ascending order, so that earlier insertions do not shift later indices.
    for index in indices:
        data = data.unsqueeze(index)
    return data


@operator("Unsqueeze")
def unsqueeze_since_1(data: Tensor, *, axes: list[int]) -> Tensor:
    """Unsqueeze up to version 12, with the axes as an attribute."""
    return unsqueeze(data, axes)


@operator("Concat")
def concat(*inputs: Tensor, axis: int = 1) -> Tensor:
    """Concatenate along `axis`."""
    first, *following = inputs
    return first.concat(*following, axis=axis) if following else first


@operator("Split", since=18)
def split(
    node: Call,
    input: Tensor,
    split: Ints | None = None,
    *,
    axis: int = 0,
    num_outputs: int | None = None,
) -> tuple[Tensor, ...]:
    """Split into parts of given sizes, or into equal parts, the last of which may be smaller."""
    return _split(node, input, split, axis, num_outputs)


@operator("Split", since=13)
def split_since_13(
    node: Call, input: Tensor, split: Ints | None = None, *, axis: int = 0
) -> tuple[Tensor, ...]:
    """Split up to version 17: parts of given sizes, or equal parts."""
    return _split(node, input, split, axis)


@operator("Split")
def split_since_1(
    node: Call,
    input: Tensor,
    sizes: Ints | None = None,
    *,
    axis: int = 0,
    split: list[int] | None = None,
) -> tuple[Tensor, ...]:
    """Split up to version 12, with the sizes as an operand (version 1) or an attribute."""
    return _split(node, input, split if sizes is None else sizes, axis)


def _split(
    node: Call, x: Tensor, sizes: Sequence[int] | None, axis: int, n_parts: int | None = None
) -> tuple[Tensor, ...]:
    if sizes is not None:
        return x.split(sizes, axis)
    length, n = x.shape[axis], n_parts or node.n_outputs
    if not isinstance(length, int):
        # Unequal parts of a symbolic size would need its value.
        size = length // n
        if size * n != length:
            raise ValueError(f"cannot split the symbolic size {length} into {n} equal parts")
        leading = (slice(None),) * (axis % x.ndim)
        return tuple(x[(*leading, slice(size * index, size * (index + 1)))] for index in range(n))
    # Rounded up: all parts are equal except the last, which may be empty.
    size = -(-length // n)
    return x.split([max(min(size, length - index * size), 0) for index in range(n)], axis)


@operator("Expand")
def expand(input: Tensor, shape: Ints) -> Tensor:
    """Broadcast with a shape; size 1 on either side broadcasts."""
    n_axes = max(input.ndim, len(shape))
    # Expand is bidirectional, unlike `broadcast_to`: a target size of 1 keeps the size of the
    # operand.
    old_shape = [1] * (n_axes - input.ndim) + list(input.shape)
    new_shape = [1] * (n_axes - len(shape)) + list(shape)
    return input.broadcast_to(
        [a if b == 1 else b for a, b in zip(old_shape, new_shape, strict=True)]
    )


@operator("Tile", since=6)
def tile(input: Tensor, repeats: Ints) -> Tensor:
    """Repeat along each axis."""
    return input.tile(repeats)


@operator("Tile")
def tile_since_1(input: Tensor, tiles: Ints, axis: Ints) -> Tensor:
    """Tile of version 1, which repeats along a single axis."""
    return input.tile(
        [tiles[0] if index == axis[0] % input.ndim else 1 for index in range(input.ndim)]
    )


@operator("Shape")
def shape(data: Value, *, start: int = 0, end: int | None = None) -> Value:
    """Sizes of the axes from `start` to `end`, with the semantics of a slice."""
    assert data is not None
    assert not isinstance(data, list | dict)
    # Computed from the spec of the tensor, so the node reads no element.
    return make_sizes(data.shape[start:end])


@operator("Size")
def size(data: Value) -> Value:
    """Number of elements."""
    assert data is not None
    assert not isinstance(data, list | dict)
    return make_sizes(multiply_sizes(data.shape))


@operator("Range")
def range_(start: Known, limit: Known, delta: Known) -> Tensor:
    """Evenly spaced elements `start + i * delta` before `limit`, each rounded once."""
    first, last, step = (array.item() for array in (start, limit, delta))
    if step == 0:
        raise ValueError("delta must not be 0")
    # A range in the wrong direction is empty, as in numpy.
    count = max(int(np.ceil((last - first) / step)), 0)
    dtype = find_carrier(get_element_type(start.dtype)) or "int64"
    # A running sum would accumulate rounding errors.
    wide_dtype = "float64" if isinstance(first, float) else "int64"
    return Tensor.arange(count, dtype=wide_dtype).mul(step).add(first).cast(dtype)


@operator("ConstantOfShape")
def constant_of_shape(input: Ints, *, value: np.ndarray | None = None) -> Tensor:
    """Tensor of a shape filled with `value`, by default 0 in float32."""
    element = np.zeros(1, np.float32) if value is None else value
    # Broadcast lazily, instead of allocating a buffer of the shape.
    return to_tensor(np.reshape(element, ()), is_constant=True).broadcast_to(input)


@operator("EyeLike")
def eye_like(input: Tensor, *, dtype: int | None = None, k: int = 0) -> Tensor:
    """Identity matrix in the shape of `input`, with ones on diagonal `k`."""
    dtype_ = input.dtype if dtype is None else find_carrier(dtype)
    if dtype_ is None:
        raise ValueError(f"unsupported element type {dtype}")
    return Tensor.eye(input.shape[0], input.shape[1], k=k, dtype=dtype_)


@operator("Trilu")
def trilu(input: Tensor, k: Ints | None = None, *, upper: int = 1) -> Tensor:
    """Upper or lower triangle from diagonal `k` on."""
    diagonal = k[0] if k else 0
    return input.triu(diagonal) if upper else input.tril(diagonal)


@operator("DepthToSpace")
def depth_to_space(input: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    """Rearrange channels into spatial blocks.

    The block is the outer part of the channels (DCR) or the inner part (CRD).
    """
    n, c, height, width = input.shape
    if mode == "DCR":
        blocks = input.reshape(n, blocksize, blocksize, c // blocksize**2, height, width).permute(
            0, 3, 4, 1, 5, 2
        )
    else:
        blocks = input.reshape(n, c // blocksize**2, blocksize, blocksize, height, width).permute(
            0, 1, 4, 2, 5, 3
        )
    return blocks.reshape(n, c // blocksize**2, height * blocksize, width * blocksize)


@operator("SpaceToDepth")
def space_to_depth(input: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    """Rearrange spatial blocks into channels, the inverse of `depth_to_space`."""
    n, c, height, width = input.shape
    blocks = input.reshape(n, c, height // blocksize, blocksize, width // blocksize, blocksize)
    order = (0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4)
    return blocks.permute(order).reshape(
        n, c * blocksize**2, height // blocksize, width // blocksize
    )


@operator("CenterCropPad")
def center_crop_pad(input_data: Tensor, shape: Ints, *, axes: list[int] | None = None) -> Tensor:
    """Crop or zero-pad each axis around its center."""
    padding = [(0, 0)] * input_data.ndim
    for axis, target in zip(range(input_data.ndim) if axes is None else axes, shape, strict=True):
        size: Any = input_data.shape[axis]
        # Rounded toward 0 on both sides: an odd element is cropped, or added, at the end.
        if target >= size:
            n_before = (target - size) // 2
        else:
            n_before = -((size - target) // 2)
        padding[axis] = (n_before, target - size - n_before)
    return input_data.pad(padding)
