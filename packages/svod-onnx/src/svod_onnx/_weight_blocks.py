"""Constant weights of convolutions and matrix products, stored in the order in which a product reads
them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

import numpy as np

from svod_onnx._graph import DEFAULT_DOMAIN, Node, iter_reads
from svod_onnx._registry import Value
from svod_onnx._values import to_tensor
from svod_tensor import Tensor, float32

__all__ = ["store_weights_in_blocks"]

_BLOCK_SIZES: Final = (32, 64, 48, 24, 16)
"""Numbers of columns of a block, the best first."""

_MAX_MATRIX_BYTES: Final = 1 << 22
"""Maximum size of a matrix in blocks. Few rows times a larger one take as long as reading it from
memory, which is faster row by row: 8 rows by 2,048 x 2,048 took 1.6 times as long with blocks."""


def store_weights_in_blocks(
    nodes: Sequence[Node],
    values: dict[str, Value],
    outputs: Collection[str],
    device: str | None,
) -> None:
    """Replace the float32 weights in `values` that only Conv, MatMul and Gemm read.

    - Subnormal elements become 0. A multiplication by one of them takes as long as a hundred others,
      and its product is less than 2**-126 times the other factor.
    - Weights of a few filters, or columns of a matrix, form a block: it holds them side by side for
      each element of a window, or each row. A product reads a block from beginning to end.
    """
    axes: dict[str, set[int | None]] = {}
    read_otherwise = set(outputs)
    for node in nodes:
        reads = iter_reads(node)
        weight = node.inputs[1] if len(node.inputs) > 1 else ""
        if (
            node.operator in ("Conv", "MatMul", "Gemm")
            and node.domain == DEFAULT_DOMAIN
            and node.inputs.count(weight) == 1
        ):
            axes.setdefault(weight, set()).add(_find_column_axis(node))
            reads.discard(weight)
        read_otherwise |= reads
    for name in axes.keys() - read_otherwise:
        value, (axis, *more_axes) = values.get(name), axes[name]
        if isinstance(value, Tensor) and value.dtype == float32 and not more_axes and value.size:
            values[name] = _store(value, axis, device)


def _find_column_axis(node: Node) -> int | None:
    """The axis of a node's weight that the channels or columns of its result belong to; None if a
    result depends on a part of the channels.
    """
    if node.operator == "Conv":
        return 0 if node.attributes.get("group", 1) == 1 else None
    return 0 if node.attributes.get("transB") else 1


def _store(weight: Tensor, axis: int | None, device: str | None) -> Tensor:
    array = weight.numpy()
    normal = _flush_subnormals(array)
    size = None if axis is None else _find_block_size(array, axis)
    if size is None:
        return weight if normal is array else to_tensor(normal, device)
    rows = normal.T if axis == 1 else normal.reshape(len(normal), -1)
    blocks = rows.reshape(len(rows) // size, size, -1).swapaxes(1, 2)
    stored = to_tensor(np.ascontiguousarray(blocks), device)
    ordered = stored.transpose(0, 1) if axis == 1 else stored.transpose(1, 2)
    return ordered.reshape(array.shape)


def _flush_subnormals(array: np.ndarray) -> np.ndarray:
    """`array` with 0 for its subnormal elements; the same array if there are none."""
    magnitudes = np.abs(array)
    is_subnormal = (magnitudes < np.finfo(np.float32).tiny) & (magnitudes > 0)
    return np.where(is_subnormal, np.float32(0), array) if is_subnormal.any() else array


def _find_block_size(array: np.ndarray, axis: int) -> int | None:
    """Number of columns of a block of a weight; None if it stays in its order."""
    is_matrix = array.ndim == 2
    if array.ndim <= axis or (axis == 1 and not is_matrix):
        return None
    if is_matrix and array.nbytes > _MAX_MATRIX_BYTES:
        return None
    size = next((n for n in _BLOCK_SIZES if array.shape[axis] % n == 0), None)
    # A matrix of a single block has its order already.
    return None if axis == 1 and size == array.shape[1] else size
