"""Biases of attention scores by the distance of query and key (com.microsoft)."""

from __future__ import annotations

import numpy as np

from svod_onnx._registry import Ints, operator
from svod_onnx._trace import Call
from svod_onnx.operators.attention import split_heads
from svod_onnx.operators.microsoft import MICROSOFT
from svod_tensor import Tensor, asarray

__all__ = ["gated_relative_position_bias", "relative_position_bias"]


@operator("RelativePositionBias", domain=MICROSOFT)
def relative_position_bias(
    node: Call,
    bias_table: Tensor,
    query_length: Ints,
    key_length: Ints,
    *,
    is_bidirectional: int = 0,
    max_distance: int,
) -> Tensor:
    """Bias for each head, query and key, of shape (1, heads, queries, keys), as in T5.

    Args:
        bias_table: of shape (buckets, heads), with its elements in column-major order.
        max_distance: distance from which on all distances share the last bucket.

    Source: C. Raffel et al.: Exploring the limits of transfer learning with a unified text-to-text
        transformer. JMLR 21 (2020), section 2.1; with the buckets of its implementation.
    """
    n_buckets, n_heads = bias_table.shape
    if not isinstance(n_buckets, int) or n_buckets < 4 or max_distance <= n_buckets // 2:
        raise node.refuse(
            f"expected 4 buckets or more, and max_distance above half of them, got a table of shape"
            f" {bias_table.shape} and max_distance {max_distance}"
        )
    distances = np.arange(key_length[0])[None] - np.arange(query_length[0])[:, None]
    buckets = _list_buckets(distances, n_buckets, max_distance, bool(is_bidirectional))
    by_head = bias_table.reshape(n_heads, n_buckets)
    return by_head.take(asarray(buckets), 1).unsqueeze(0)


def _list_buckets(
    distances: np.ndarray, n_buckets: int, max_distance: int, is_bidirectional: bool
) -> np.ndarray:
    """Bucket of each distance: small distances have one each, larger ones share them by their
    logarithm.
    """
    first = np.zeros_like(distances)
    if is_bidirectional:
        n_buckets //= 2
        # Keys after the query have the second half of the buckets.
        first, distances = (distances > 0) * n_buckets, np.abs(distances)
    else:
        distances = np.maximum(-distances, 0)
    n_exact = n_buckets // 2
    ratio = np.maximum(distances, n_exact).astype(np.float32) / np.float32(n_exact)
    share = np.log(ratio) / np.log(np.float32(max_distance / n_exact))
    shared = n_exact + (share * np.float32(n_buckets - n_exact)).astype(np.int64)
    return first + np.where(distances < n_exact, distances, np.minimum(shared, n_buckets - 1))


@operator("GatedRelativePositionBias", domain=MICROSOFT)
def gated_relative_position_bias(
    node: Call,
    query_layer: Tensor,
    query_bias: Tensor,
    rel_pos: Tensor,
    weight: Tensor,
    bias: Tensor,
    eco_a: Tensor,
    token_offset: Tensor | None = None,
    *,
    num_heads: int,
) -> Tensor:
    """`rel_pos` scaled for each head and query by a gate of the query.

    Args:
        query_layer: queries without their bias, of shape (batch, queries, heads * size).
        rel_pos: of shape (1, heads, queries, keys).
        weight: of shape (size, gates). The sums of the halves of the gates are the two gates.
        eco_a: of shape (1, heads, 1, 1).
    """
    if token_offset is not None:
        raise node.refuse("operand 'token_offset' is not supported; export without removed padding")
    queries = split_heads(query_layer + query_bias, num_heads)
    gates = queries @ weight + bias
    gate_u, gate_r = (half.sum(-1, keepdims=True).sigmoid() for half in gates.chunk(2, -1))
    return (gate_u * (gate_r * eco_a - 1.0) + 2.0) * rel_pos
