"""Attention, and what turns its queries and keys."""

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
    """Each query's mean of the values, weighted by how its key fits; a query that may see nothing
    gives zeros.

    Tensors have the shape (batch, heads, steps, size), or (batch, steps, heads * size) with the
    heads as attributes. Several heads of queries may share one of keys and values.
    `nonpad_kv_seqlen` says how many keys each row of the batch has."""
    is_flat = q.ndim == 3
    if is_flat:
        if attributes.q_num_heads is None or attributes.kv_num_heads is None:
            raise node.refuse("has inputs of three axes, and no 'q_num_heads' and 'kv_num_heads'")
        q = split_heads(q, attributes.q_num_heads)
        k, v = split_heads(k, attributes.kv_num_heads), split_heads(v, attributes.kv_num_heads)
    keys = k if past_key is None else past_key.concat(k, axis=2)
    values = v if past_value is None else past_value.concat(v, axis=2)
    batch, n_heads, n_queries, size = q.shape
    n_shared, n_keys = keys.shape[1], keys.shape[2]
    exact = find_carrier(attributes.softmax_precision) if attributes.softmax_precision else None
    factor = attributes.scale if attributes.scale is not None else _get_number(size) ** -0.5
    grouped = q.reshape(batch, n_shared, -1, n_queries, size)
    scores = (grouped @ keys.unsqueeze(2).transpose(-1, -2) * factor).reshape(
        batch, n_heads, n_queries, n_keys
    )
    shown = [scores]
    if attributes.softcap:
        scores = (scores / attributes.softcap).tanh() * attributes.softcap
    shown.append(scores)
    offset: Any = 0
    if past_key is not None:
        offset = past_key.shape[2]
    elif nonpad_kv_seqlen is not None:
        offset = nonpad_kv_seqlen.reshape(-1, 1, 1, 1).cast("int64") - n_queries
    scores = _add_mask(scores, attn_mask)
    allowed = _list_visible(
        n_queries,
        n_keys,
        offset,
        bool(attributes.is_causal),
        attributes.left_window_size,
        attributes.right_window_size,
    )
    if nonpad_kv_seqlen is not None:
        allowed.append(
            Tensor.arange(n_keys, dtype="int64")
            < nonpad_kv_seqlen.reshape(-1, 1, 1, 1).cast("int64")
        )
    for one in allowed:
        scores = one.where(scores, float("-inf"))
    shown.append(scores)
    weights = _normalize(scores if exact is None else scores.cast(exact)).cast(q.dtype)
    shown.append(weights)
    rows = weights.reshape(batch, n_shared, -1, n_queries, n_keys)
    result = (rows @ values.unsqueeze(2)).reshape(batch, n_heads, n_queries, values.shape[3])
    if is_flat:
        result = result.transpose(1, 2).reshape(batch, n_queries, -1)
    return result.cast(q.dtype), keys, values, shown[attributes.qk_matmul_output_mode].cast(q.dtype)


def split_heads(x: Tensor, n_heads: int) -> Tensor:
    """From (batch, steps, heads * size) to (batch, heads, steps, size)."""
    return x.reshape(x.shape[0], x.shape[1], n_heads, -1).transpose(1, 2)


def _get_number(size: Any) -> float:
    if not isinstance(size, int):
        raise TypeError(f"needs the size of a head, and got {size}")
    return float(size)


def _add_mask(scores: Tensor, mask: Tensor | None) -> Tensor:
    """What a mask of numbers adds, and what one of truth values lets through; keys beyond its end
    are not seen.
    """
    if mask is None:
        return scores
    missing: Any = scores.shape[-1] - mask.shape[-1]
    if not isinstance(missing, int) or missing:
        nothing = False if mask.dtype.is_bool else float("-inf")
        mask = mask.pad([(0, 0)] * (mask.ndim - 1) + [(0, missing)], constant_values=nothing)
    return mask.where(scores, float("-inf")) if mask.dtype.is_bool else scores + mask


def _list_visible(
    n_queries: Any, n_keys: Any, offset: Any, is_causal: bool, left: int, right: int
) -> list[Tensor]:
    """Which keys each query may see: none after it, and none far from it."""
    if not is_causal and left < 0 and right < 0:
        return []
    place = Tensor.arange(n_queries, dtype="int64").reshape(-1, 1) + offset
    distance = place - Tensor.arange(n_keys, dtype="int64")
    found: list[Tensor] = []
    if is_causal:
        found.append(distance >= 0)
    if left >= 0:
        found.append(distance <= left)
    if right >= 0:
        found.append(-distance <= right)
    return found


def _normalize(scores: Tensor) -> Tensor:
    """Softmax along the last axis; a row without any key is zeros."""
    greatest = scores.max(-1, keepdims=True)
    parts = (scores - (greatest == float("-inf")).where(0, greatest)).exp()
    total = parts.sum(-1, keepdims=True)
    return parts / (total == 0).where(1, total)


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
    """Pairs of elements of each head turned by angles that grow with the place; the first
    `rotary_embedding_dim` of them.

    `x` has the shape (batch, heads, steps, size), or (batch, steps, heads * size) with the number
    of heads as an attribute. The tables have a row for each place, which `position_ids` chooses, or
    one for each step of the batch."""
    is_flat = x.ndim == 3
    if is_flat and not num_heads:
        raise node.refuse("has an input of three axes, and no 'num_heads'")
    heads = x.reshape(x.shape[0], x.shape[1], num_heads, -1) if is_flat else x.transpose(1, 2)
    size: Any = rotary_embedding_dim or heads.shape[-1]
    turned, kept = heads[..., :size], heads[..., size:]
    cos, sin = (
        (table if position_ids is None else table.take(position_ids, 0)).unsqueeze(2)[
            ..., : size // 2
        ]
        for table in (cos_cache, sin_cache)
    )
    if interleaved:
        first, second = turned[..., 0::2], turned[..., 1::2]
    else:
        first, second = turned[..., : size // 2], turned[..., size // 2 :]
    parts = first * cos - second * sin, first * sin + second * cos
    made = (
        sv.stack(parts, axis=-1).reshape(turned.shape) if interleaved else sv.concat(parts, axis=-1)
    )
    result = made.concat(kept, axis=-1) if rotary_embedding_dim else made
    return (result.reshape(x.shape) if is_flat else result.transpose(1, 2)).cast(x.dtype)
