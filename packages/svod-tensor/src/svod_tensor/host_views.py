"""Views of memory of the host, read where they are: nothing is compiled, and nothing is cut off from what it is a view of."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from svod_ir.ops import Op
from svod_ir.uop import UOp
from svod_tensor import registry, storage
from svod_tensor.variable import resolve_size

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["find_host_view"]

_MOVES = frozenset({Op.RESHAPE, Op.SHRINK, Op.PERMUTE, Op.FLIP, Op.EXPAND, Op.DETACH})


def find_host_view(node: UOp) -> NDArray[np.generic] | None:
    """The elements of `node` where they are, if it is a view of memory that the host can read; else None."""
    moves: list[UOp] = []
    while node.op in _MOVES:
        moves.append(node)
        node = node.src[0]
    buffer = registry.find_buffer(node) if node.op is Op.BUFFER else None
    if buffer is None or not storage.reads_files(buffer.device):
        return None
    array = buffer.as_numpy()[: math.prod(map(resolve_size, node.shape))]
    for move in reversed(moves):
        array = _move(move, array)
    return array


def _move(move: UOp, array: NDArray[np.generic]) -> NDArray[np.generic]:
    import numpy as np

    match move.op:
        case Op.RESHAPE:
            return array.reshape(tuple(map(resolve_size, move.shape)))
        case Op.EXPAND:
            return np.broadcast_to(array, tuple(map(resolve_size, move.shape)))
        case Op.PERMUTE:
            return array.transpose(move.arg)
        case Op.FLIP:
            return array[tuple(slice(None, None, -1 if flag else 1) for flag in move.arg)]
        case Op.SHRINK:
            bounds = list(map(resolve_size, move.sizes))
            return array[tuple(slice(b, e) for b, e in zip(bounds[::2], bounds[1::2], strict=True))]
        case _:
            return array
