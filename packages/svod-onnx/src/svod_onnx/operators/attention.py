"""Attention and rotary position embedding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import svod_tensor as sv
from svod_onnx._registry import operator
from svod_onnx._trace import Call
from svod_onnx._types import find_carrier
from svod_tensor import Tensor

__all__ = ["AttentionAttributes", "attention", "rotary_embedding", "split_heads"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionAttributes:
    """Attributes of Attention."""

    is_causal: int = 0
    kv_num_heads: int | None = None
    left_window_size: int = -1
    q_num_heads: int | None = None
    qk_matmul_output_mode: int = 0
    right_window_size: int = -1
    scale: float | None = None
    softcap: float = 0.0
    softmax_precision: int | None = None


@operator("Attention")
def attention(
    node: Call,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    attn_mask: Tensor | None = None,
    past_key: Tensor | None = None,
    past_value: Tensor | None = None,
    nonpad_kv_seqlen: Tensor | None = None,
    *,
    attributes: AttentionAttributes,
) -> tuple[Tensor, ...]:
    """Scaled dot-product attention. A query without a visible key gives zeros.

    Tensors have the shape (batch, heads, steps, size), or (batch, steps, heads * size) with the
    number of heads as attributes. Several query heads may share a key and value head.
    `nonpad_kv_seqlen` is the number of valid keys of each row of the batch."""
    is_flat = q.ndim == 3
    if is_flat:
        if attributes.q_num_heads is None or attributes.kv_num_heads is None:
            raise node.refuse(
                "inputs of rank 3 need the attributes 'q_num_heads' and 'kv_num_heads'"
            )
        q = split_heads(q, attributes.q_num_heads)
        k, v = split_heads(k, attributes.kv_num_heads), split_heads(v, attributes.kv_num_heads)
    keys = k if past_key is None else past_key.concat(k, axis=2)
    values = v if past_value is None else past_value.concat(v, axis=2)
    batch, n_heads, n_queries, size = q.shape
    n_kv_heads, n_keys = keys.shape[1], keys.shape[2]
    softmax_dtype = (
        find_carrier(attributes.softmax_precision) if attributes.softmax_precision else None
    )
    factor = attributes.scale if attributes.scale is not None else _get_known_size(size) ** -0.5
    # Groups of query heads broadcast against their shared key head, which is not repeated.
    grouped_queries = q.reshape(batch, n_kv_heads, -1, n_queries, size)
    scores = (grouped_queries @ keys.unsqueeze(2).transpose(-1, -2) * factor).reshape(
        batch, n_heads, n_queries, n_keys
    )
    # The operator may return the scores of any of these stages.
    stages = [scores]
    if attributes.softcap:
        # Before the mask: the tanh of -inf would be finite and unmask the key.
        scores = (scores / attributes.softcap).tanh() * attributes.softcap
    stages.append(scores)
    # Position of the first query among the keys, where the causal diagonal starts.
    offset: Any = 0
    if past_key is not None:
        offset = past_key.shape[2]
    elif nonpad_kv_seqlen is not None:
        # The queries belong to the last valid keys of each row.
        offset = nonpad_kv_seqlen.reshape(-1, 1, 1, 1).cast("int64") - n_queries
    scores = _add_mask(scores, attn_mask)
    masks = _list_visible(
        n_queries,
        n_keys,
        offset,
        bool(attributes.is_causal),
        attributes.left_window_size,
        attributes.right_window_size,
    )
    if nonpad_kv_seqlen is not None:
        masks.append(
            Tensor.arange(n_keys, dtype="int64")
            < nonpad_kv_seqlen.reshape(-1, 1, 1, 1).cast("int64")
        )
    for is_visible in masks:
        scores = is_visible.where(scores, float("-inf"))
    stages.append(scores)
    weights = _normalize(scores if softmax_dtype is None else scores.cast(softmax_dtype)).cast(
        q.dtype
    )
    stages.append(weights)
    grouped_weights = weights.reshape(batch, n_kv_heads, -1, n_queries, n_keys)
    result = (grouped_weights @ values.unsqueeze(2)).reshape(
        batch, n_heads, n_queries, values.shape[3]
    )
    if is_flat:
        result = result.transpose(1, 2).reshape(batch, n_queries, -1)
    return (
        result.cast(q.dtype),
        keys,
        values,
        stages[attributes.qk_matmul_output_mode].cast(q.dtype),
    )


def split_heads(x: Tensor, n_heads: int) -> Tensor:
    """Reshape (batch, steps, heads * size) to (batch, heads, steps, size)."""
    return x.reshape(x.shape[0], x.shape[1], n_heads, -1).transpose(1, 2)


def _get_known_size(size: Any) -> float:
    if not isinstance(size, int):
        raise TypeError(f"the head size must be known, got {size}")
    return float(size)


def _add_mask(scores: Tensor, mask: Tensor | None) -> Tensor:
    """Add a float mask, or mask scores by a boolean one. Keys beyond the mask's size are masked."""
    if mask is None:
        return scores
    n_missing: Any = scores.shape[-1] - mask.shape[-1]
    if not isinstance(n_missing, int) or n_missing:
        # Padding must hide the keys: -inf for an additive mask, False for a boolean one.
        masked = False if mask.dtype.is_bool else float("-inf")
        mask = mask.pad([(0, 0)] * (mask.ndim - 1) + [(0, n_missing)], constant_values=masked)
    return mask.where(scores, float("-inf")) if mask.dtype.is_bool else scores + mask


def _list_visible(
    n_queries: Any, n_keys: Any, offset: Any, is_causal: bool, left: int, right: int
) -> list[Tensor]:
    """Masks of the visible keys of each query: causal, and within the window."""
    if not is_causal and left < 0 and right < 0:
        return []
    position = Tensor.arange(n_queries, dtype="int64").reshape(-1, 1) + offset
    distance = position - Tensor.arange(n_keys, dtype="int64")
    masks: list[Tensor] = []
    if is_causal:
        masks.append(distance >= 0)
    if left >= 0:
        masks.append(distance <= left)
    if right >= 0:
        masks.append(-distance <= right)
    return masks


def _normalize(scores: Tensor) -> Tensor:
    """Softmax along the last axis; a row without a visible key is zeros."""
    maximum_ = scores.max(-1, keepdims=True)
    # A row of -inf would subtract -inf from itself, which is NaN.
    exponentials = (scores - (maximum_ == float("-inf")).where(0, maximum_)).exp()
    total = exponentials.sum(-1, keepdims=True)
    return exponentials / (total == 0).where(1, total)


@operator("RotaryEmbedding")
def rotary_embedding(
    node: Call,
    x: Tensor,
    cos_cache: Tensor,
    sin_cache: Tensor,
    position_ids: Tensor | None = None,
    *,
    interleaved: int = 0,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
) -> Tensor:
    """Rotate pairs of elements of each head by angles that grow with the position.

    `rotary_embedding_dim` limits the rotation to the first elements of a head. `x` has the shape
    (batch, heads, steps, size), or (batch, steps, heads * size) with the number of heads as an
    attribute. The tables have a row for each position, which `position_ids` selects, or a row for
    each step of the batch."""
    is_flat = x.ndim == 3
    if is_flat and not num_heads:
        raise node.refuse("an input of rank 3 needs the attribute 'num_heads'")
    heads = x.reshape(x.shape[0], x.shape[1], num_heads, -1) if is_flat else x.transpose(1, 2)
    size: Any = rotary_embedding_dim or heads.shape[-1]
    rotated_input, unrotated = heads[..., :size], heads[..., size:]
    # The tables may be wider than half of the rotated size.
    cos, sin = (
        (table if position_ids is None else table.take(position_ids, 0)).unsqueeze(2)[
            ..., : size // 2
        ]
        for table in (cos_cache, sin_cache)
    )
    if interleaved:
        first, second = rotated_input[..., 0::2], rotated_input[..., 1::2]
    else:
        first, second = rotated_input[..., : size // 2], rotated_input[..., size // 2 :]
    rotated_pair = first * cos - second * sin, first * sin + second * cos
    rotated = (
        sv.stack(rotated_pair, axis=-1).reshape(rotated_input.shape)
        if interleaved
        else sv.concat(rotated_pair, axis=-1)
    )
    result = rotated.concat(unrotated, axis=-1) if rotary_embedding_dim else rotated
    return (result.reshape(x.shape) if is_flat else result.transpose(1, 2)).cast(x.dtype)
