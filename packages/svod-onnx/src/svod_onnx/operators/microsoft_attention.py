"""What onnxruntime fuses the attention of transformers into: operators of "com.microsoft", and one that it adds to the default domain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import onnx

from svod_onnx._registry import Ints, operator
from svod_onnx._trace import Call
from svod_onnx.operators.attention import AttentionAttributes, attention, rotary_embedding, split_heads
from svod_onnx.operators.microsoft import MICROSOFT
from svod_onnx.operators.normalizations import rms_normalization
from svod_tensor import Tensor, concat, stack

__all__ = [
    "GroupQueryAttentionAttributes",
    "MicrosoftAttentionAttributes",
    "MicrosoftRotaryEmbeddingAttributes",
    "MultiHeadAttentionAttributes",
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
    node: Call, x: Tensor, scale: Tensor, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> Tensor | tuple[Tensor, Tensor]:
    """RMSNormalization, and the reciprocal of the root of the mean square."""
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
    """The normalised sum of the rows for words, positions and segments; how many words the mask keeps; and the sum.

    `input_ids`, `segment_ids` and `mask` have the shape (batch, steps), `position_ids` that or (1, steps).
    """
    del mask_index_type
    places = Tensor.arange(input_ids.shape[1], dtype="int64").unsqueeze(0) if position_ids is None else position_ids
    total = word_embedding.take(input_ids, 0) + position_embedding.take(places, 0)
    if segment_ids is not None and segment_embedding is not None:
        total = total + segment_embedding.take(segment_ids, 0)
    n_kept = input_ids.zeros_like(dtype="int32").sum(1) if mask is None else mask.eq(1).cast("int32").sum(1)
    return total.layernorm(-1, epsilon, gamma, beta).cast(total.dtype), n_kept.cast("int32"), total


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
    """As `RotaryEmbedding`, where one place is that of the first step.

    Without a number of heads each has twice as many elements as a row of the tables. Packed batches differ in nothing that is
    computed, and onnxruntime does not look at the scale.
    """
    is_flat = input.ndim == 3
    steps: Any = input.shape[1 if is_flat else 2]
    n_heads: Any = attributes.num_heads
    if is_flat and not (attributes.num_heads and attributes.rotary_embedding_dim):
        n_heads = input.shape[2] // (2 * cos_cache.shape[1])
    if position_ids.ndim < 2:
        position_ids = (position_ids.reshape(1, 1).cast("int64") + Tensor.arange(steps, dtype="int64")).expand(
            input.shape[0], steps
        )
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
    """Attention of `input`, of shape (batch, steps, inputs), to itself; and the keys and values, (2, batch, heads, keys, size).

    `weights` make queries, keys and values side by side. `mask_index` is one of those that `_expand_mask` takes.
    """
    if attributes.do_rotary:
        raise node.refuse("has 'do_rotary', and no tables of angles; RotaryEmbedding takes them")
    made = input.matmul(weights) if bias is None else input.matmul(weights) + bias
    sizes: list[Any] = attributes.qkv_hidden_sizes or [weights.shape[1] // 3] * 3
    query, key, value = (split_heads(part, attributes.num_heads) for part in made.split(sizes, -1))
    old_key, old_value = (None, None) if past is None else (past[0], past[1])
    length = past_sequence_length if attributes.past_present_share_buffer else None
    result, keys, values, _ = _attend_with_cache(
        node,
        query,
        key,
        value,
        old_key,
        old_value,
        length,
        mask_index,
        attention_bias,
        attributes.mask_filter_value,
        bool(attributes.unidirectional),
        attributes.scale,
    )
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
    """Attention; the keys; the values; and the scores.

    Queries have the shape (batch, steps, heads * size), or with keys and values (batch, steps, heads, 3, size); keys have that of
    the queries, or with values (batch, keys, heads, 2, size), or (batch, heads, keys, size), where the bias is for the queries alone.
    """
    if cache_indirection is not None:
        raise node.refuse("has a cache of several beams, and svod-onnx takes one of a single one")
    is_apart = key is not None and key.ndim == 4
    if query.ndim == 5:
        parts = [query[:, :, :, number].transpose(1, 2) for number in range(3)]
    elif key is None:
        raise node.refuse("has no keys, and queries without them")
    elif key.ndim == 5:
        parts = [
            split_heads(query, attributes.num_heads),
            *(key[:, :, :, number].transpose(1, 2) for number in range(2)),
        ]
    elif value is None:
        raise node.refuse("has keys, and no values")
    else:
        parts = [split_heads(x, attributes.num_heads) if x.ndim == 3 else x for x in (query, key, value)]
    if bias is not None:
        sizes: list[Any] = [attributes.num_heads * part.shape[3] for part in parts]
        if is_apart and bias.shape[0] == sizes[0]:
            sizes = sizes[:1]
        added = [part.reshape(1, attributes.num_heads, 1, -1) for part in bias.split(sizes, 0)]
        parts = [x if is_apart and number else x + added[number] for number, x in enumerate(parts)]
    return _attend_with_cache(
        node,
        parts[0],
        parts[1],
        parts[2],
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
    """What `attention` returns, with the heads of the result side by side.

    Args:
        past_length: how many rows of the past ones are filled, which then have room for the new ones too; None for all, where the
            new ones are put behind them.
        masked: what is added to the scores of what the mask leaves out.
    """
    n_steps: Any = query.shape[2]
    added = attention_bias
    keys, values, n_past = key, value, Tensor.zeros(1, dtype="int64")
    if past_key is not None and past_value is not None:
        if past_length is None:
            keys, values = past_key.concat(key, axis=2), past_value.concat(value, axis=2)
            n_past = n_past + past_key.shape[2]
        else:
            n_past = past_length.reshape(-1).cast("int64")
            keys, values = (
                _write_cache(past_key, key, n_past, n_steps),
                _write_cache(past_value, value, n_past, n_steps),
            )
    n_keys: Any = keys.shape[2]
    if mask is not None:
        placed = _expand_mask(node, mask, query.shape[0], n_steps, n_keys, n_past).where(0.0, masked)
        added = placed if added is None else _pad_keys(added, n_keys) + placed
    if past_length is not None or is_causal:
        visible = _make_visibility_mask(n_steps, n_keys, n_past, n_past + n_steps, is_causal)
        added = visible.where(0.0 if added is None else _pad_keys(added, n_keys), float("-inf"))
    return _attend(node, query, keys, values, added, scale, 1)


def _attend(
    node: Call,
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    added: Tensor | None,
    scale: float | None,
    shown: int,
    softcap: float = 0.0,
) -> tuple[Tensor, ...]:
    """`attention`, with what is added to scores; the scores are after that, and the result is (batch, steps, heads * size).

    Args:
        shown: 1 for the scores as the last result, 2 for the weights.
    """
    result, keys, values, scores = attention(
        node,
        query,
        keys,
        values,
        None if added is None else added.cast(query.dtype),
        attributes=AttentionAttributes(
            scale=scale or None,
            softcap=softcap,
            qk_matmul_output_mode=shown + 1,
            softmax_precision=_FLOAT if query.dtype.itemsize < 4 else None,
        ),
    )
    return result.transpose(1, 2).reshape(query.shape[0], query.shape[2], -1), keys, values, scores


def _pad_keys(added: Tensor, n_keys: Any) -> Tensor:
    """Numbers for some keys, with zeros for those behind."""
    missing = n_keys - added.shape[-1]
    return added if isinstance(missing, int) and not missing else added.pad(*(None,) * (added.ndim - 1), (0, missing))


def _write_cache(past: Tensor, new: Tensor, start: Tensor, n_new: Any) -> Tensor:
    """`past` with the first `n_new` rows of `new` from row `start` on.

    Args:
        past: of shape (batch, heads, rows, size).
        new: of shape (batch, heads, steps, size).
        start: one for each of the batch, or for all.
        n_new: likewise, as a tensor or a number.
    """
    count = n_new.reshape(-1, 1, 1, 1) if isinstance(n_new, Tensor) else n_new
    place = Tensor.arange(past.shape[2], dtype="int64").reshape(1, 1, -1, 1) - start.reshape(-1, 1, 1, 1)
    source = place.maximum(0).minimum(new.shape[2] - 1).expand(*past.shape)
    return ((place >= 0) & (place < count)).where(new.cast(past.dtype).gather(2, source), past)


def _make_visibility_mask(
    n_steps: Any, n_keys: Any, n_past: Tensor, total: Tensor, is_causal: bool, window: int = -1
) -> Tensor:
    """Which of the keys each step may see, of shape (batch or 1, 1, steps, keys): those that are there, none after it or far before."""
    place = n_past.reshape(-1, 1, 1, 1) + Tensor.arange(n_steps, dtype="int64").reshape(-1, 1)
    key = Tensor.arange(n_keys, dtype="int64")
    found = (key < total.reshape(-1, 1, 1, 1)).expand(total.shape[0], 1, n_steps, n_keys)
    if is_causal:
        found = found & (key <= place)
    return found & (key > place - window) if window >= 0 else found


def _expand_mask(node: Call, mask: Tensor, n_batch: Any, n_steps: Any, n_keys: Any, n_past: Tensor) -> Tensor:
    """Which keys a mask keeps, of shape (batch, 1, steps or 1, keys).

    Args:
        mask: numbers that are above 0 for what is kept, of shape (batch, keys), (batch, steps, keys) or (batch, 1, places, places);
            or the ends of (batch,), the ends and the starts of (2 * batch,), or of (3 * batch + 2,) lengths and two runs of starts.
    """
    if mask.ndim == 1:
        key = Tensor.arange(n_keys, dtype="int64")
        ends = mask[:n_batch].cast("int64").reshape(-1, 1, 1, 1)
        kept = key < ends
        if n_batch * 2 == mask.shape[0]:
            kept = kept & (key >= mask[n_batch:].cast("int64").reshape(-1, 1, 1, 1))
        return kept
    if mask.ndim == 4:
        steps = n_past.reshape(-1, 1, 1, 1) + Tensor.arange(n_steps, dtype="int64").reshape(-1, 1)
        rows = steps.expand(mask.shape[0], mask.shape[1], n_steps, mask.shape[3])
        return mask.gather(2, rows)[..., :n_keys] > 0
    if mask.ndim == 2:
        return mask.reshape(-1, 1, 1, mask.shape[1]) > 0
    if mask.ndim == 3:
        return mask.unsqueeze(1) > 0
    raise node.refuse(f"has a mask of {mask.ndim} axes")


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
    """Attention where several heads of queries share one of keys and values; the keys, the values, and the scores or weights.

    Scores are -inf where a step may not see a key.

    Args:
        query: of shape (batch, steps, heads * size), or with keys and values side by side.
        past_key: of shape (batch, shared heads, rows, size); the result has room for `total_sequence_length` rows at least.
        seqlens_k: for each of the batch the number of its last key.
        head_sink: for each head a score of nothing, whose weight is lost.
        query_lengths: for each of the batch how many of the steps there are; the others are unspecified.
    """
    del k_scale, v_scale
    if {attributes.k_quant_type, attributes.v_quant_type} != {"NONE"}:
        raise node.refuse("has a quantised cache, and svod-onnx takes one of floats")
    if attributes.sliding_window_cache:
        raise node.refuse(
            "has a cache that drops old rows ('sliding_window_cache'), and svod-onnx takes one that keeps them"
        )
    parts = _split_packed(node, query, key, value, attributes.num_heads, attributes.kv_num_heads)
    if query_weight is not None and key_weight is not None:
        epsilons = [
            attributes.qk_norm_epsilon if given is None else given
            for given in (attributes.q_norm_epsilon, attributes.k_norm_epsilon)
        ]
        parts[0] = parts[0].rms_norm(-1, epsilons[0], query_weight).cast(query.dtype)
        parts[1] = parts[1].rms_norm(-1, epsilons[1], key_weight).cast(query.dtype)
    n_steps: Any = query.shape[1]
    total = seqlens_k.reshape(-1).cast("int64") + 1
    lengths = total.minimum(n_steps) if query_lengths is None else query_lengths.reshape(-1).cast("int64")
    n_past = total - lengths
    if attributes.do_rotary:
        if cos_cache is None or sin_cache is None:
            raise node.refuse("has 'do_rotary', and no tables of angles")
        if position_ids is None:
            steps = n_past.reshape(-1, 1) + Tensor.arange(n_steps, dtype="int64")
            position_ids = steps.minimum(cos_cache.shape[0] - 1)
        size: Any = 2 * cos_cache.shape[1]
        for number in range(2):
            parts[number] = rotary_embedding(
                node,
                parts[number],
                cos_cache,
                sin_cache,
                position_ids,
                interleaved=attributes.rotary_interleaved,
                rotary_embedding_dim=size,
            )
    keys, values = (
        _write_cache(_pad_cache(past, new, total_sequence_length[0]), new, n_past, lengths)
        for past, new in ((past_key, parts[1]), (past_value, parts[2]))
    )
    n_keys: Any = keys.shape[2]
    added: Any = 0.0 if attention_bias is None else _pad_keys(attention_bias, n_keys)
    added = _make_visibility_mask(
        n_steps, n_keys, n_past, total, bool(attributes.causal), attributes.local_window_size
    ).where(added, float("-inf"))
    seen_keys, seen_values = keys, values
    if attributes.smooth_softmax or head_sink is not None:
        # A key of zeros has the score 0 before the sink is added, and its value of zeros takes no part in the mean.
        seen_keys, seen_values = (x.pad(None, None, (0, 1), None) for x in (keys, values))
        column = Tensor.zeros(1, dtype="float32") if head_sink is None else head_sink.cast("float32")
        column = column.reshape(1, -1, 1, 1).expand(query.shape[0], attributes.num_heads, n_steps, 1)
        added = concat([added.expand(query.shape[0], attributes.num_heads, n_steps, n_keys), column], axis=-1)
    result, _, _, shown = _attend(
        node,
        parts[0],
        seen_keys,
        seen_values,
        added,
        attributes.scale,
        max(attributes.qk_output, 1),
        attributes.softcap,
    )
    return result, keys, values, shown[..., : total_sequence_length[0]]


def _split_packed(
    node: Call, query: Tensor, key: Tensor | None, value: Tensor | None, n_heads: int, n_shared: int
) -> list[Tensor]:
    """Queries, keys and values, of shape (batch, heads, steps, size)."""
    if key is not None and value is not None:
        given = [query, key, value]
    elif key is None and value is None:
        size: Any = query.shape[2] // (n_heads + 2 * n_shared)
        given = list(query.split([n_heads * size, n_shared * size, n_shared * size], -1))
    else:
        raise node.refuse("has keys or values, and not both")
    return [split_heads(x, number) for x, number in zip(given, (n_heads, n_shared, n_shared), strict=True)]


def _pad_cache(past: Tensor | None, new: Tensor, n_rows: int) -> Tensor:
    """Rows for `n_rows` keys at least: the past ones, and zeros."""
    if past is None:
        return Tensor.zeros(new.shape[0], new.shape[1], n_rows, new.shape[3], dtype=new.dtype, device=str(new.device))
    missing: Any = n_rows - past.shape[2]
    return past.pad(None, None, (0, missing), None) if missing > 0 else past
