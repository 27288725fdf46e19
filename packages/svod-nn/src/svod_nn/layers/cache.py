"""Key-value cache of attention, with which a decoder processes each token once."""

from __future__ import annotations

from typing import Any

from svod_nn._arguments import takes_tensors
from svod_tensor import DType, Tensor, float32

__all__ = ["KeyValueCache"]


class KeyValueCache:
    """Keys and values of earlier positions, in preallocated memory.

    Args:
        batch: number of sequences.
        heads: number of heads of keys and values.
        room: maximum number of positions.
        head_size: number of features of a key or value.
        dtype: dtype of the keys and values.

    Attributes:
        keys: keys of shape (batch, heads, room, head_size).
        values: values of the same shape.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> cache = nn.KeyValueCache(1, 2, room=8, head_size=4)
        >>> keys, values = cache.extend(Tensor.ones(1, 2, 3, 4), Tensor.ones(1, 2, 3, 4), 0)
        >>> keys.shape
        (1, 2, 3, 4)
    """

    def __init__(
        self, batch: int, heads: int, room: int, head_size: int, dtype: DType | str = float32
    ) -> None:
        # Realized, because writing to a part of it works in place only in memory of its own.
        self.keys = Tensor.zeros(batch, heads, room, head_size, dtype=dtype).realize()
        self.values = Tensor.zeros(batch, heads, room, head_size, dtype=dtype).realize()

    @takes_tensors
    def extend(self, keys: Tensor, values: Tensor, position: Any) -> tuple[Tensor, Tensor]:
        """Append keys and values, and return all up to the last position.

        Args:
            keys: new keys of shape (batch, heads, n, head_size).
            values: new values of the same shape.
            position: number of positions written before: an integer or a bound `Variable`, with
                which one plan serves every position.

        Returns:
            keys and values of shape (batch, heads, position + n, head_size).
        """
        end = position + keys.shape[2]
        self.keys[:, :, position:end] = keys.cast(self.keys.dtype)
        self.values[:, :, position:end] = values.cast(self.values.dtype)
        # `position` may be a variable: one compiled step then serves all positions.
        return self.keys[:, :, :end], self.values[:, :, :end]
