"""Rotary position embedding (RoPE) of queries and keys."""

from __future__ import annotations

import math
from typing import Any

from svod_nn._arguments import takes_tensors
from svod_nn.errors import LayerArgumentError
from svod_tensor import Tensor, float32

__all__ = ["rotary_embedding"]


@takes_tensors
def rotary_embedding(x: Tensor, position: Any = 0, base: float = 10000.0) -> Tensor:
    """Rotary position embedding: rotate pairs of features by angles proportional to the position.

    Dot products of rotated queries and keys depend only on their distance. Feature i is paired with
    feature `i + size / 2`, as in GPT-NeoX and Llama; its angle at position p is
    `p * base**(-2 i / size)`.

    Args:
        x: queries or keys of shape (..., positions, size), with an even size.
        position: index of the first position: an integer or a bound `Variable`.
        base: base of the frequencies; a larger base rotates the last pairs more slowly.

    Raises:
        LayerArgumentError: if the size is odd or symbolic.

    Source:
        Su et al., RoFormer: Enhanced transformer with rotary position embedding, 2021, equation 15.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> nn.rotary_embedding(Tensor([[1.0, 0.0], [1.0, 0.0]])).round(3).tolist()[0]
        [1.0, 0.0]
    """
    n, size = x.shape[-2], x.shape[-1]
    if not isinstance(size, int) or size % 2:
        raise LayerArgumentError(
            name="rotary_embedding",
            problem=f"the number of features must be even and constant, got {size}",
        )
    # In float32 for every type: bfloat16 cannot tell positions above 256 apart.
    frequencies = (Tensor.arange(size // 2, dtype=float32) * (-2 * math.log(base) / size)).exp()
    angles = (Tensor.arange(n) + position).cast(float32).unsqueeze(1) * frequencies
    cos, sin = angles.cos(), angles.sin()
    # Pairs are of the two halves, as in Llama's published weights, not of neighbors.
    first, second = x[..., : size // 2].cast(float32), x[..., size // 2 :].cast(float32)
    return (first * cos - second * sin).concat(second * cos + first * sin, axis=-1).cast(x.dtype)
