"""Fused attention operators of onnxruntime, in the domain "com.microsoft", and one in the default
domain.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import onnx

from svod_onnx._registry import Ints, operator
from svod_onnx._trace import Call
from svod_onnx.operators.attention import (
    AttentionAttributes,
    attention,
    rotary_embedding,
    split_heads,
)
from svod_onnx.operators.microsoft import MICROSOFT
from svod_onnx.operators.normalizations import rms_normalization
from svod_tensor import Tensor, concat, stack

__all__ = [
    "GroupQueryAttentionAttributes",
    "MicrosoftAttentionAttributes",
    "MicrosoftRotaryEmbeddingAttributes",
    "MultiHeadAttentionAttributes",
    "attend_projected",
    "embed_layer_normalization",
    "group_query_attention",
    "microsoft_attention",
    "microsoft_rotary_embedding",
    "multi_head_attention",
    "simplified_layer_normalization",
]

_FLOAT: Final = onnx.TensorProto.FLOAT


@operator("SimplifiedLayerNormalization")
def simplified_layer_normalization(
    node: Call,
    x: Tensor,
    scale: Tensor,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
) -> Tensor | tuple[Tensor, Tensor]:
    """RMSNormalization, and the reciprocal root mean square."""
    value = rms_normalization(node, x, scale, axis=axis, epsilon=epsilon, stash_type=stash_type)
    if not node.has_output(1):
        return value
    wide = x if x.dtype.itemsize > 2 else x.cast("float32")
    axes = tuple(range(axis % x.ndim, x.ndim))
    return value, wide.square().mean(axes, keepdims=True).add(epsilon).rsqrt()


@operator("EmbedLayerNormalization", domain=MICROSOFT)
def embed_layer_normalization(
    input_ids: Tensor,
    segment_ids: Tensor | None,
    word_embedding: Tensor,
    position_embedding: Tensor,
    segment_embedding: Tensor | None,
    gamma: Tensor,
    beta: Tensor,
    mask: Tensor | None = None,
    position_ids: Tensor | None = None,
    *,
    epsilon: float = 1e-12,
    mask_index_type: int = 0,
) -> tuple[Tensor, Tensor, Tensor]:
    """Normalized sum of word, position and segment embeddings; the number of unmasked words; and
    the sum.

    `input_ids`, `segment_ids` and `mask` have the shape (batch, steps), `position_ids` the same or
    (1, steps)."""
    del mask_index_type
    positions = (
        Tensor.arange(input_ids.shape[1], dtype="int64").unsqueeze(0)
        if position_ids is None
        else position_ids
    )
    total = word_embedding.take(input_ids, 0) + position_embedding.take(positions, 0)
    if segment_ids is not None and segment_embedding is not None:
        total = total + segment_embedding.take(segment_ids, 0)
    n_unmasked = (
        input_ids.zeros_like(dtype="int32").sum(1)
        if mask is None
        else mask.eq(1).cast("int32").sum(1)
    )
    return (
        total.layernorm(-1, epsilon, gamma, beta).cast(total.dtype),
        n_unmasked.cast("int32"),
        total,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MicrosoftRotaryEmbeddingAttributes:
    """Attributes of RotaryEmbedding."""

    interleaved: int = 0
    is_packed_batching: int = 0
    num_heads: int = 0
    rotary_embedding_dim: int = 0
    scale: float = 1.0


@operator("RotaryEmbedding", domain=MICROSOFT)
def microsoft_rotary_embedding(
    node: Call,
    input: Tensor,
    position_ids: Tensor,
    cos_cache: Tensor,
    sin_cache: Tensor,
    *,
    attributes: MicrosoftRotaryEmbeddingAttributes,
) -> Tensor:
    """Rotary embedding. A single position is the position of the first step.

    Without a number of heads, a head has twice the size of a table row. Packed batching does not
    change the result, and onnxruntime ignores `scale`."""
    is_flat = input.ndim == 3
    steps: Any = input.shape[1 if is_flat else 2]
    n_heads: Any = attributes.num_heads
    if is_flat and not (attributes.num_heads and attributes.rotary_embedding_dim):
        # Each table row has one angle for a pair of elements.
        n_heads = input.shape[2] // (2 * cos_cache.shape[1])
    # A single position is the offset of the first step.
    if position_ids.ndim < 2:
        position_ids = (
            position_ids.reshape(1, 1).cast("int64") + Tensor.arange(steps, dtype="int64")
        ).expand(input.shape[0], steps)
    return rotary_embedding(
        node,
        input,
        cos_cache,
        sin_cache,
        position_ids,
        interleaved=attributes.interleaved,
        num_heads=n_heads,
        rotary_embedding_dim=attributes.rotary_embedding_dim,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MicrosoftAttentionAttributes:
    """Attributes of Attention."""

    num_heads: int
    do_rotary: int = 0
    mask_filter_value: float = -10000.0
    past_present_share_buffer: int = 0
    qkv_hidden_sizes: list[int] | None = None
    rotary_embedding_dim: int = 0
    scale: float | None = None
    unidirectional: int = 0


@operator("Attention", domain=MICROSOFT)
def microsoft_attention(
    node: Call,
    input: Tensor,
    weights: Tensor,
    bias: Tensor | None = None,
    mask_index: Tensor | None = None,
    past: Tensor | None = None,
    attention_bias: Tensor | None = None,
    past_sequence_length: Tensor | None = None,
    *,
    attributes: MicrosoftAttentionAttributes,
) -> tuple[Tensor, Tensor]:
    """Self-attention of `input`, of shape (batch, steps, inputs), and the keys and values, of shape
    (2, batch, heads, keys, size).

    `weights` project to concatenated queries, keys and values. `_expand_mask` describes
    `mask_index`."""
    projected = input.matmul(weights) if bias is None else input.matmul(weights) + bias
    return attend_projected(
        node,
        projected,
        mask_index,
        past,
        attention_bias,
        past_sequence_length,
        attributes=attributes,
    )


def attend_projected(
    node: Call,
    projected: Tensor,
    mask_index: Tensor | None,
    past: Tensor | None,
    attention_bias: Tensor | None = None,
    past_sequence_length: Tensor | None = None,
    *,
    attributes: MicrosoftAttentionAttributes,
) -> tuple[Tensor, Tensor]:
    """Attention of concatenated queries, keys and values. See `microsoft_attention`."""
    if attributes.do_rotary:
        raise node.refuse(
            "attribute 'do_rotary' is not supported; use RotaryEmbedding, which takes the tables"
        )
    # Without the attribute, queries, keys and values have the same size.
    sizes: list[Any] = attributes.qkv_hidden_sizes or [projected.shape[-1] // 3] * 3
    query, key, value = (
        split_heads(projection, attributes.num_heads) for projection in projected.split(sizes, -1)
    )
    past_key, past_value = (None, None) if past is None else (past[0], past[1])
    # Only a shared buffer has room beyond the filled rows.
    past_length = past_sequence_length if attributes.past_present_share_buffer else None
    result, keys, values, _ = _attend_with_cache(
        node,
        query,
        key,
        value,
        past_key,
        past_value,
        past_length,
        mask_index,
        attention_bias,
        attributes.mask_filter_value,
        bool(attributes.unidirectional),
        attributes.scale,
    )
    # Stacking copies the cache, so skip it if the output is unused.
    return result, (stack([keys, values]) if node.has_output(1) else keys)


@dataclass(frozen=True, slots=True, kw_only=True)
class MultiHeadAttentionAttributes:
    """Attributes of MultiHeadAttention."""

    num_heads: int
    mask_filter_value: float = -10000.0
    scale: float | None = None
    unidirectional: int = 0


@operator("MultiHeadAttention", domain=MICROSOFT)
def multi_head_attention(
    node: Call,
    query: Tensor,
    key: Tensor | None = None,
    value: Tensor | None = None,
    bias: Tensor | None = None,
    key_padding_mask: Tensor | None = None,
    attention_bias: Tensor | None = None,
    past_key: Tensor | None = None,
    past_value: Tensor | None = None,
    past_sequence_length: Tensor | None = None,
    cache_indirection: Tensor | None = None,
    *,
    attributes: MultiHeadAttentionAttributes,
) -> tuple[Tensor, ...]:
    """Attention. Return the result, the keys, the values, and the scores.

    Queries have the shape (batch, steps, heads * size), or packed with keys and values (batch,
    steps, heads, 3, size). Keys have the shape of queries, or packed with values (batch, keys,
    heads, 2, size), or (batch, heads, keys, size), where the bias is for queries only."""
    if cache_indirection is not None:
        raise node.refuse("operand 'cache_indirection' (beam search) is not supported")
    has_split_keys = key is not None and key.ndim == 4
    if query.ndim == 5:
        qkv = [query[:, :, :, i].transpose(1, 2) for i in range(3)]
    elif key is None:
        raise node.refuse("operand 'key' is required unless 'query' packs queries, keys and values")
    elif key.ndim == 5:
        qkv = [
            split_heads(query, attributes.num_heads),
            *(key[:, :, :, i].transpose(1, 2) for i in range(2)),
        ]
    elif value is None:
        raise node.refuse("operand 'value' is required unless 'key' packs keys and values")
    else:
        qkv = [
            split_heads(x, attributes.num_heads) if x.ndim == 3 else x for x in (query, key, value)
        ]
    if bias is not None:
        sizes: list[Any] = [attributes.num_heads * x.shape[3] for x in qkv]
        if has_split_keys and bias.shape[0] == sizes[0]:
            # Keys and values with separate heads are projected already, and include their biases.
            sizes = sizes[:1]
        biases = [x.reshape(1, attributes.num_heads, 1, -1) for x in bias.split(sizes, 0)]
        qkv = [x if has_split_keys and i else x + biases[i] for i, x in enumerate(qkv)]
    return _attend_with_cache(
        node,
        qkv[0],
        qkv[1],
        qkv[2],
        past_key,
        past_value,
        past_sequence_length,
        key_padding_mask,
        attention_bias,
        attributes.mask_filter_value,
        bool(attributes.unidirectional),
        attributes.scale,
    )


def _attend_with_cache(
    node: Call,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    past_key: Tensor | None,
    past_value: Tensor | None,
    past_length: Tensor | None,
    mask: Tensor | None,
    attention_bias: Tensor | None,
    masked: float,
    is_causal: bool,
    scale: float | None,
) -> tuple[Tensor, ...]:
    """Append new keys and values to the cache, and attend. Return the results of `_attend`.

    Args:
        past_length: number of filled cache rows, after which there is room for the new ones; None
            to append to a full cache.
        masked: value added to the scores of masked keys.
    """
    n_steps: Any = query.shape[2]
    score_bias = attention_bias
    keys, values, n_past = key, value, Tensor.zeros(1, dtype="int64")
    if past_key is not None and past_value is not None:
        if past_length is None:
            keys, values = past_key.concat(key, axis=2), past_value.concat(value, axis=2)
            # A tensor even if it is known, since a filled length is one too.
            n_past = n_past + past_key.shape[2]
        else:
            n_past = past_length.reshape(-1).cast("int64")
            keys, values = (
                _write_cache(past_key, key, n_past, n_steps),
                _write_cache(past_value, value, n_past, n_steps),
            )
    n_keys: Any = keys.shape[2]
    if mask is not None:
        # A finite bias, as in onnxruntime: a row whose keys are all masked attends uniformly.
        mask_bias = _expand_mask(node, mask, query.shape[0], n_steps, n_keys, n_past).where(
            0.0, masked
        )
        score_bias = mask_bias if score_bias is None else _pad_keys(score_bias, n_keys) + mask_bias
    if past_length is not None or is_causal:
        visibility = _make_visibility_mask(n_steps, n_keys, n_past, n_past + n_steps, is_causal)
        score_bias = visibility.where(
            0.0 if score_bias is None else _pad_keys(score_bias, n_keys), float("-inf")
        )
    return _attend(node, query, keys, values, score_bias, scale, 1)


def _attend(
    node: Call,
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    score_bias: Tensor | None,
    scale: float | None,
    score_output: int,
    softcap: float = 0.0,
) -> tuple[Tensor, ...]:
    """`attention` with an additive `score_bias`. The result has the shape (batch, steps, heads *
    size).

    Args:
        score_output: 1 to return the biased scores as the last result, 2 to return the weights.
    """
    result, keys, values, scores = attention(
        node,
        query,
        keys,
        values,
        None if score_bias is None else score_bias.cast(query.dtype),
        attributes=AttentionAttributes(
            # onnxruntime takes 0, its default, for an attribute that is not set.
            scale=scale or None,
            softcap=softcap,
            # Stages 2 and 3 of `attention`: scores with bias, and weights.
            qk_matmul_output_mode=score_output + 1,
            # The sum of many half-precision exponentials would lose its last terms.
            softmax_precision=_FLOAT if query.dtype.itemsize < 4 else None,
        ),
    )
    return result.transpose(1, 2).reshape(query.shape[0], query.shape[2], -1), keys, values, scores


def _pad_keys(score_bias: Tensor, n_keys: Any) -> Tensor:
    """Pad the axis of keys with zeros."""
    n_missing = n_keys - score_bias.shape[-1]
    return (
        score_bias
        if isinstance(n_missing, int) and not n_missing
        else score_bias.pad(*(None,) * (score_bias.ndim - 1), (0, n_missing))
    )


def _write_cache(past: Tensor, new: Tensor, start: Tensor, n_new: Any) -> Tensor:
    """`past` with the first `n_new` rows of `new` written from row `start` on.

    Args:
        past: of shape (batch, heads, rows, size).
        new: of shape (batch, heads, steps, size).
        start: one per row of the batch, or a scalar.
        n_new: likewise, as a tensor or an integer.
    """
    count = n_new.reshape(-1, 1, 1, 1) if isinstance(n_new, Tensor) else n_new
    index = Tensor.arange(past.shape[2], dtype="int64").reshape(1, 1, -1, 1) - start.reshape(
        -1, 1, 1, 1
    )
    # A gather and a select, since the start of the rows is not known. Clamping keeps unused indices
    # in bounds.
    source = index.maximum(0).minimum(new.shape[2] - 1).expand(*past.shape)
    return ((index >= 0) & (index < count)).where(new.cast(past.dtype).gather(2, source), past)


def _make_visibility_mask(
    n_steps: Any, n_keys: Any, n_past: Tensor, total: Tensor, is_causal: bool, window: int = -1
) -> Tensor:
    """Mask of the keys that each step may attend to, of shape (batch or 1, 1, steps, keys).

    Visible keys exist, and are neither after the step nor before its window.
    """
    position = n_past.reshape(-1, 1, 1, 1) + Tensor.arange(n_steps, dtype="int64").reshape(-1, 1)
    key = Tensor.arange(n_keys, dtype="int64")
    # Rows of the batch may have filled their caches to different lengths.
    mask = (key < total.reshape(-1, 1, 1, 1)).expand(total.shape[0], 1, n_steps, n_keys)
    if is_causal:
        mask = mask & (key <= position)
    return mask & (key > position - window) if window >= 0 else mask


def _expand_mask(
    node: Call, mask: Tensor, n_batch: Any, n_steps: Any, n_keys: Any, n_past: Tensor
) -> Tensor:
    """Mask of the kept keys, of shape (batch, 1, steps or 1, keys).

    Args:
        mask: positive for kept keys, of shape (batch, keys), (batch, steps, keys) or (batch, 1,
            positions, positions). Of rank 1: the key ends of shape (batch,), ends and starts of
            shape (2 * batch,), or lengths and two lists of starts of shape (3 * batch + 2,).
    """
    if mask.ndim == 1:
        key = Tensor.arange(n_keys, dtype="int64")
        ends = mask[:n_batch].cast("int64").reshape(-1, 1, 1, 1)
        # The form with 3 * batch + 2 elements begins with lengths too; its starts are for packed
        # inputs.
        is_kept = key < ends
        if n_batch * 2 == mask.shape[0]:
            is_kept = is_kept & (key >= mask[n_batch:].cast("int64").reshape(-1, 1, 1, 1))
        return is_kept
    if mask.ndim == 4:
        steps = n_past.reshape(-1, 1, 1, 1) + Tensor.arange(n_steps, dtype="int64").reshape(-1, 1)
        # A mask over all positions has the rows of past steps too.
        rows = steps.expand(mask.shape[0], mask.shape[1], n_steps, mask.shape[3])
        return mask.gather(2, rows)[..., :n_keys] > 0
    if mask.ndim == 2:
        return mask.reshape(-1, 1, 1, mask.shape[1]) > 0
    if mask.ndim == 3:
        return mask.unsqueeze(1) > 0
    raise node.refuse(f"expected a mask of rank 1 to 4, got shape {mask.shape}")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupQueryAttentionAttributes:
    """Attributes of GroupQueryAttention."""

    num_heads: int
    kv_num_heads: int
    causal: int = 1
    do_rotary: int = 0
    k_norm_epsilon: float | None = None
    k_quant_type: str = "NONE"
    kv_cache_bit_width: int = 0
    local_window_size: int = -1
    q_norm_epsilon: float | None = None
    qk_norm_epsilon: float = 1e-06
    qk_output: int = 0
    rotary_interleaved: int = 0
    scale: float | None = None
    sliding_window_cache: int = 0
    smooth_softmax: int = 0
    softcap: float = 0.0
    v_quant_type: str = "NONE"


@operator("GroupQueryAttention", domain=MICROSOFT)
def group_query_attention(
    node: Call,
    query: Tensor,
    key: Tensor | None,
    value: Tensor | None,
    past_key: Tensor | None,
    past_value: Tensor | None,
    seqlens_k: Tensor,
    total_sequence_length: Ints,
    cos_cache: Tensor | None = None,
    sin_cache: Tensor | None = None,
    position_ids: Tensor | None = None,
    attention_bias: Tensor | None = None,
    head_sink: Tensor | None = None,
    k_scale: Tensor | None = None,
    v_scale: Tensor | None = None,
    query_weight: Tensor | None = None,
    key_weight: Tensor | None = None,
    query_lengths: Tensor | None = None,
    *,
    attributes: GroupQueryAttentionAttributes,
) -> tuple[Tensor, ...]:
    """Attention whose query heads share key and value heads. Return the result, the keys, the
    values, and the scores or weights.

    Scores are -inf for keys that a step may not attend to.

    Args:
        query: of shape (batch, steps, heads * size), or packed with keys and values.
        past_key: of shape (batch, shared heads, rows, size); the result has room for at least
            `total_sequence_length` rows.
        seqlens_k: index of the last key of each row of the batch.
        head_sink: attention sink, the score of a virtual key for each head; its weight is dropped.
        query_lengths: number of steps of each row of the batch; results of further steps are
            unspecified.
    """
    # Scales of a quantized cache, which is refused below.
    del k_scale, v_scale
    if {attributes.k_quant_type, attributes.v_quant_type} != {"NONE"}:
        raise node.refuse(
            "a quantized cache is not supported; expected k_quant_type and v_quant_type NONE"
        )
    if attributes.sliding_window_cache:
        raise node.refuse(
            "attribute 'sliding_window_cache' is not supported; expected a cache that keeps all rows"
        )
    qkv = _split_packed(node, query, key, value, attributes.num_heads, attributes.kv_num_heads)
    if query_weight is not None and key_weight is not None:
        # The separate epsilons override the shared one.
        epsilons = [
            attributes.qk_norm_epsilon if epsilon is None else epsilon
            for epsilon in (attributes.q_norm_epsilon, attributes.k_norm_epsilon)
        ]
        qkv[0] = qkv[0].rms_norm(-1, epsilons[0], query_weight).cast(query.dtype)
        qkv[1] = qkv[1].rms_norm(-1, epsilons[1], key_weight).cast(query.dtype)
    n_steps: Any = query.shape[1]
    total = seqlens_k.reshape(-1).cast("int64") + 1
    lengths = (
        # A row of a first call has no more steps than keys; in later calls all steps are new.
        total.minimum(n_steps) if query_lengths is None else query_lengths.reshape(-1).cast("int64")
    )
    n_past = total - lengths
    if attributes.do_rotary:
        if cos_cache is None or sin_cache is None:
            raise node.refuse(
                "attribute 'do_rotary' needs the operands 'cos_cache' and 'sin_cache'"
            )
        if position_ids is None:
            steps = n_past.reshape(-1, 1) + Tensor.arange(n_steps, dtype="int64")
            # Steps beyond the valid ones would read past the table; their results are unspecified.
            position_ids = steps.minimum(cos_cache.shape[0] - 1)
        size: Any = 2 * cos_cache.shape[1]
        for i in range(2):
            qkv[i] = rotary_embedding(
                node,
                qkv[i],
                cos_cache,
                sin_cache,
                position_ids,
                interleaved=attributes.rotary_interleaved,
                rotary_embedding_dim=size,
            )
    keys, values = (
        _write_cache(_pad_cache(past, new, total_sequence_length[0]), new, n_past, lengths)
        for past, new in ((past_key, qkv[1]), (past_value, qkv[2]))
    )
    n_keys: Any = keys.shape[2]
    # Zeros for rows of the cache beyond the bias, which the mask below hides.
    score_bias: Any = 0.0 if attention_bias is None else _pad_keys(attention_bias, n_keys)
    score_bias = _make_visibility_mask(
        n_steps, n_keys, n_past, total, bool(attributes.causal), attributes.local_window_size
    ).where(score_bias, float("-inf"))
    keys_and_sink, values_and_sink = keys, values
    if attributes.smooth_softmax or head_sink is not None:
        # The sink is a key of zeros, with score 0 before the bias, and a value of zeros, which adds
        # nothing to the result.
        keys_and_sink, values_and_sink = (x.pad(None, None, (0, 1), None) for x in (keys, values))
        column = (
            Tensor.zeros(1, dtype="float32") if head_sink is None else head_sink.cast("float32")
        )
        column = column.reshape(1, -1, 1, 1).expand(
            query.shape[0], attributes.num_heads, n_steps, 1
        )
        score_bias = concat(
            [score_bias.expand(query.shape[0], attributes.num_heads, n_steps, n_keys), column],
            axis=-1,
        )
    result, _, _, scores = _attend(
        node,
        qkv[0],
        keys_and_sink,
        values_and_sink,
        score_bias,
        attributes.scale,
        max(attributes.qk_output, 1),
        attributes.softcap,
    )
    # Without the sink, and without rows of the cache that are not filled.
    return result, keys, values, scores[..., : total_sequence_length[0]]


def _split_packed(
    node: Call,
    query: Tensor,
    key: Tensor | None,
    value: Tensor | None,
    n_heads: int,
    n_kv_heads: int,
) -> list[Tensor]:
    """Queries, keys and values, each of shape (batch, heads, steps, size)."""
    if key is not None and value is not None:
        projections = [query, key, value]
    elif key is None and value is None:
        size: Any = query.shape[2] // (n_heads + 2 * n_kv_heads)
        projections = list(query.split([n_heads * size, n_kv_heads * size, n_kv_heads * size], -1))
    else:
        raise node.refuse("operands 'key' and 'value' must be given together")
    return [
        split_heads(x, n)
        for x, n in zip(projections, (n_heads, n_kv_heads, n_kv_heads), strict=True)
    ]


def _pad_cache(past: Tensor | None, new: Tensor, n_rows: int) -> Tensor:
    """Cache with at least `n_rows` rows, padded with zeros."""
    if past is None:
        return Tensor.zeros(
            new.shape[0],
            new.shape[1],
            n_rows,
            new.shape[3],
            dtype=new.dtype,
            device=str(new.device),
        )
    n_missing: Any = n_rows - past.shape[2]
    return past.pad(None, None, (0, n_missing), None) if n_missing > 0 else past
