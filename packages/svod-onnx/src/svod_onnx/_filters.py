"""Constant filters of convolutions, as a convolution reads them fastest."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from svod_onnx._graph import DEFAULT_DOMAIN, Node, iter_reads
from svod_onnx._registry import Value
from svod_onnx._values import to_tensor
from svod_tensor import Tensor, float32

__all__ = ["prepare_filters"]

_BLOCKS = (32, 64, 48, 24, 16)
"""Numbers of filters of a block, the best first."""


def prepare_filters(
    nodes: Sequence[Node],
    values: dict[str, Value],
    outputs: Collection[str],
    device: str | None,
) -> None:
    """Replace the float32 filters in `values` that only convolutions read.

    - Subnormal elements become 0. A multiplication by one of them takes as long as a hundred others,
      and changes a result by less than 2**-126 times an input.
    - Filters are stored in blocks: for each element of a window, a block holds the weights of a few
      filters side by side, and these follow each other. A convolution reads them from beginning to
      end, as vectors.
    """
    n_groups: dict[str, object] = {}
    others = set(outputs)
    for node in nodes:
        reads = iter_reads(node)
        filters = node.inputs[1] if len(node.inputs) > 1 else ""
        is_conv = node.operator == "Conv" and node.domain == DEFAULT_DOMAIN
        if is_conv and node.inputs.count(filters) == 1:
            n_groups[filters] = node.attributes.get("group", 1)
            reads.discard(filters)
        others |= reads
    for name in n_groups.keys() - others:
        value = values.get(name)
        if isinstance(value, Tensor) and value.dtype == float32:
            values[name] = _prepare(value, device, in_blocks=n_groups[name] == 1)


def _prepare(filters: Tensor, device: str | None, *, in_blocks: bool) -> Tensor:
    array = filters.numpy()
    magnitudes = np.abs(array)
    is_subnormal = (magnitudes < np.finfo(np.float32).tiny) & (magnitudes > 0)
    has_subnormal = bool(is_subnormal.any())
    if has_subnormal:
        array = np.where(is_subnormal, np.float32(0), array)
    n_filters = len(array)
    size = next((n for n in _BLOCKS if n_filters % n == 0), None) if in_blocks else None
    if size is None:
        return to_tensor(array, device) if has_subnormal else filters
    rows = array.reshape(n_filters // size, size, -1)
    blocks = to_tensor(np.ascontiguousarray(rows.swapaxes(1, 2)), device)
    return blocks.transpose(1, 2).reshape(array.shape)
