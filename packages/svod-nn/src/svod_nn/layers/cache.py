"""What attention keeps of earlier positions, so that a decoder reads each token once."""

from __future__ import annotations

from typing import Any

from svod_tensor import DType, Tensor, float32

__all__ = ["KeyValueCache"]


class KeyValueCache:
    """The keys and values of the positions so far, in memory for the most there may be.

    Args:
        batch: how many sequences.
        heads: of keys and values.
        room: how many positions at most.
        head_size: how many elements a key or a value has.
        dtype: of the keys and values.

    Attributes:
        keys: of shape (batch, heads, room, head_size).
        values: likewise.

    Example:
        >>> cache = nn.KeyValueCache(1, 2, room=8, head_size=4)
        >>> keys, values = cache.extend(Tensor.ones(1, 2, 3, 4), Tensor.ones(1, 2, 3, 4), 0)
        >>> keys.shape
        (1, 2, 3, 4)
    """

    def __init__(
        self, batch: int, heads: int, room: int, head_size: int, dtype: DType | str = float32
    ) -> None:
        self.keys = Tensor.zeros(batch, heads, room, head_size, dtype=dtype).realize()
        self.values = Tensor.zeros(batch, heads, room, head_size, dtype=dtype).realize()

    def extend(self, keys: Tensor, values: Tensor, position: Any) -> tuple[Tensor, Tensor]:
        """Write the keys and values of the positions from `position` on, and give all up to the
        last of them.

        Args:
            keys: of shape (batch, heads, n, head_size).
            values: likewise.
            position: how many positions were written before: an integer or a bound `Variable`, with
                which one plan serves every position.
        """
        end = position + keys.shape[2]
        self.keys[:, :, position:end] = keys.cast(self.keys.dtype)
        self.values[:, :, position:end] = values.cast(self.values.dtype)
        return self.keys[:, :, :end], self.values[:, :, :end]
