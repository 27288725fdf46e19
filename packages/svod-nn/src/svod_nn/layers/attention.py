"""Multi-head attention."""

from __future__ import annotations

import math
from typing import Any

from svod_nn._module import Module
from svod_nn.errors import LayerArgumentError
from svod_nn.initializers import constant, xavier_uniform
from svod_nn.layers.cache import KeyValueCache
from svod_nn.layers.linear import Linear
from svod_nn.layers.rotary import rotary_embedding
from svod_tensor import Generator, Tensor, bool_

__all__ = ["MultiheadAttention"]


class MultiheadAttention(Module):
    """Multi-head attention, `concat(head_1, ..., head_n) @ out_proj`.

    Each head is `softmax(q @ k.T / sqrt(head_size)) @ v`, where q, k and v are projections of the
    query, key and value. Keys and values may have fewer heads than queries (grouped-query
    attention).

    Args:
        embed_dim: number of features of queries and results.
        num_heads: number of attention heads; divides `embed_dim`.
        dropout: dropout probability of the attention weights in training.
        bias: if True, the input and output projections have biases.
        kdim: number of features of the keys, by default `embed_dim`.
        vdim: number of features of the values, by default `embed_dim`.
        batch_first: if True, shapes are (batch, positions, features), else (positions, batch,
            features).
        num_kv_heads: number of heads of keys and values, each shared by a group of query heads; by
            default `num_heads`.
        rotary_base: base of a rotary embedding of queries and keys, see `rotary_embedding`; None
            for no positional embedding.
        generator: random generator of the initial values, which are Xavier uniform for the input
            projections and those of `Linear` for `out_proj`, and of dropout.

    Attributes:
        in_proj_weight: stacked input projections of shape (embed_dim + 2 * num_kv_heads *
            head_size, embed_dim), for queries, keys and values; None with `kdim` or `vdim`.
        q_proj_weight: separate input projection with `kdim` or `vdim`, like `k_proj_weight` and
            `v_proj_weight`; None otherwise.
        in_proj_bias: biases of the input projections, of shape (embed_dim + 2 * num_kv_heads *
            head_size,), or None.
        out_proj: output projection, a `Linear`.

    Raises:
        LayerArgumentError: if `num_heads` does not divide `embed_dim`, or `num_kv_heads` does not
            divide `num_heads`.

    Source: Vaswani et al., Attention Is All You Need, 2017, section 3.2; grouped queries as in
    Ainslie et al., GQA, 2023.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> layer = nn.MultiheadAttention(8, 2, batch_first=True)
        >>> x = Tensor.rand(3, 5, 8)
        >>> mixed, weights = layer(x, x, x, is_causal=True)
        >>> mixed.shape, weights.shape
        ((3, 5, 8), (3, 5, 5))
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        *,
        num_kv_heads: int | None = None,
        rotary_base: float | None = None,
        generator: Generator | None = None,
    ) -> None:
        self.embed_dim, self.num_heads = embed_dim, num_heads
        self.num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        self.dropout, self.batch_first, self.rotary_base = dropout, batch_first, rotary_base
        self.generator = generator
        if (
            num_heads < 1
            or embed_dim % num_heads
            or self.num_kv_heads < 1
            or num_heads % self.num_kv_heads
        ):
            problem = (
                "embed_dim must be divisible by num_heads, and num_heads by num_kv_heads, got"
                f" embed_dim={embed_dim}, num_heads={num_heads}, num_kv_heads={self.num_kv_heads}"
            )
            raise LayerArgumentError(name="MultiheadAttention", problem=problem)
        self.head_size = embed_dim // num_heads
        key_size = self.num_kv_heads * self.head_size
        self.in_proj_weight = self.q_proj_weight = self.k_proj_weight = self.v_proj_weight = None
        if kdim in (None, embed_dim) and vdim in (None, embed_dim):
            # As in torch, the three matrices are one, and the fans of the stack determine the
            # bound.
            self.in_proj_weight = xavier_uniform(
                (embed_dim + 2 * key_size, embed_dim), generator=generator
            )
        else:
            self.q_proj_weight = xavier_uniform((embed_dim, embed_dim), generator=generator)
            self.k_proj_weight = xavier_uniform((key_size, kdim or embed_dim), generator=generator)
            self.v_proj_weight = xavier_uniform((key_size, vdim or embed_dim), generator=generator)
        self.in_proj_bias = constant((embed_dim + 2 * key_size,), 0.0) if bias else None
        self.out_proj = Linear(embed_dim, embed_dim, bias, generator=generator)
        if self.out_proj.bias is not None:
            # As in torch, unlike the bias of other linear layers.
            self.out_proj.bias = constant((embed_dim,), 0.0)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
        *,
        cache: KeyValueCache | None = None,
        position: Any = 0,
    ) -> tuple[Tensor, Tensor]:
        """Compute attention.

        Args:
            query: queries of shape (queries, batch, embed_dim), or with `batch_first` (batch,
                queries, embed_dim); the batch axis may be absent.
            key: keys of shape (keys, batch, kdim), likewise.
            value: values of shape (keys, batch, vdim), likewise.
            key_padding_mask: mask of shape (batch, keys): True for keys to ignore, or floats that
                are added to the scores.
            attn_mask: mask of shape (queries, keys) or (batch * heads, queries, keys): True where a
                query must not attend to a key, or floats that are added to the scores.
            average_attn_weights: if True, average the returned weights over the heads.
            is_causal: if True, a query does not attend to later keys; needs no mask.
            cache: keys and values of earlier positions, which this call appends to.
            position: position of the first query, and with a cache or rotary embedding of the first
                key: an integer or a bound `Variable`.

        Returns:
            the result, of the shape of the queries, and the attention weights of shape (batch,
            queries, keys), or (batch, heads, queries, keys) without averaging; these are computed
            only if they are read. The weights of a query that may not attend to any key are 0.
        """
        is_batched = query.ndim == 3
        if not is_batched:
            inputs = [t.unsqueeze(0) for t in (query, key, value)]
            key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
        else:
            inputs = (
                [query, key, value]
                if self.batch_first
                else [t.transpose(0, 1) for t in (query, key, value)]
            )
            # Transposing has made three tensors of one: keep self-attention recognizable, so that
            # its input projections are one product.
            if query is key is value:
                inputs = [inputs[0]] * 3
        q, k, v = self._project(*inputs)
        if self.rotary_base is not None:
            # Before the cache, so that each cached key is rotated once, by its own position.
            q, k = (rotary_embedding(t, position, self.rotary_base) for t in (q, k))
        if cache is not None:
            k, v = cache.extend(k, v, position)
        offset = 0 if cache is None else position
        # After the cache, which makes the keys more than the queries.
        mask = self._combine_masks(q, k, key_padding_mask, attn_mask, offset if is_causal else None)
        mixed, weights = self._attend(q, k, v, mask)
        result = self.out_proj(mixed.transpose(1, 2).flatten(2))
        weights = weights.mean(1) if average_attn_weights else weights
        if not is_batched:
            return result.squeeze(0), weights.squeeze(0)
        return result if self.batch_first else result.transpose(0, 1), weights

    def _project(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries, keys and values of shape (batch, heads, positions, head_size)."""
        key_size = self.num_kv_heads * self.head_size
        sizes = [self.embed_dim, key_size, key_size]
        biases = [None] * 3 if self.in_proj_bias is None else list(self.in_proj_bias.split(sizes))
        if self.in_proj_weight is None:
            weights = [self.q_proj_weight, self.k_proj_weight, self.v_proj_weight]
        elif query is key is value:
            q, k, v = query.linear(self.in_proj_weight, self.in_proj_bias).split(sizes, -1)
            return self._split_heads(q), self._split_heads(k), self._split_heads(v)
        else:
            weights = list(self.in_proj_weight.split(sizes))
        projected: list[Tensor] = []
        for x, weight, bias in zip((query, key, value), weights, biases, strict=True):
            assert weight is not None
            projected.append(self._split_heads(x.linear(weight, bias)))
        return projected[0], projected[1], projected[2]

    def _split_heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (-1, self.head_size)).transpose(1, 2)

    def _combine_masks(
        self,
        q: Tensor,
        k: Tensor,
        padding: Tensor | None,
        mask: Tensor | None,
        causal_from: Any | None,
    ) -> Tensor | None:
        """Combine the masks to one that broadcasts with (batch, heads, queries, keys).

        The result is a bool mask that is True where a query may attend, or floats to be added to
        the scores; None without masks.
        """
        masks: list[Tensor] = []
        if padding is not None:
            masks.append(padding.unsqueeze(1).unsqueeze(1))
        if mask is not None:
            # As in torch, a mask of 3 axes is one for each batch element and head.
            masks.append(mask.unflatten(0, (-1, self.num_heads)) if mask.ndim == 3 else mask)
        if causal_from is not None:
            rows = (Tensor.arange(q.shape[2]) + causal_from).unsqueeze(1)
            masks.append(Tensor.arange(k.shape[2]) > rows)
        combined: Tensor | None = None
        for current in masks:
            if combined is None:
                combined = current
            elif combined.dtype == bool_ and current.dtype == bool_:
                # Boolean as long as possible: one byte per element instead of four.
                combined = combined | current
            else:
                combined = _to_additive(combined) + _to_additive(current)
        return (
            # True means masked in torch's layers, but kept in the operation.
            combined.logical_not() if combined is not None and combined.dtype == bool_ else combined
        )

    def _attend(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Return the attended values of shape (batch, heads, queries, head_size), and the weights
        of shape (batch, heads, queries, keys).
        """
        n_groups = self.num_heads // self.num_kv_heads
        if n_groups > 1:
            k, v = (
                # Views: heads of one group read the same keys.
                t.unsqueeze(2).expand(t.shape[0], t.shape[1], n_groups, *t.shape[2:]).flatten(1, 2)
                for t in (k, v)
            )
        # A product of n random terms has the variance n; the scale makes it 1, where softmax is not
        # saturated.
        scores = (q @ k.transpose(-2, -1)) * (1 / math.sqrt(self.head_size))
        if mask is not None:
            scores = (
                # As a number that is added, -inf would give NaN with an infinite score.
                scores.masked_fill(mask.logical_not(), -math.inf)
                if mask.dtype == bool_
                else scores + mask
            )
        weights = scores.softmax(-1) if mask is None else _masked_softmax(scores)
        # Dropout needs the weights; otherwise the fused operation leaves them uncomputed.
        if self.training and self.dropout:
            weights = weights.dropout(self.dropout, generator=self.generator)
            return weights @ v, weights
        return q.scaled_dot_product_attention(k, v, mask), weights

    def extra_repr(self) -> str:
        grouped = (
            "" if self.num_kv_heads == self.num_heads else f", num_kv_heads={self.num_kv_heads}"
        )
        return f"{self.embed_dim}, {self.num_heads}{grouped}"


def _masked_softmax(scores: Tensor) -> Tensor:
    """Return the softmax over the keys; 0 for a query whose keys are all masked, and not NaN.

    `scaled_dot_product_attention` does the same.
    """
    # A row that is masked throughout has weights of 0; its softmax would be 0 / 0. The scores are
    # replaced too: both branches of `where` are differentiated.
    is_masked = scores.max(-1, keepdims=True) == -math.inf
    return is_masked.where(0.0, is_masked.where(0.0, scores).softmax(-1))


def _to_additive(mask: Tensor) -> Tensor:
    """Convert a bool mask, True where a query must not attend, to floats added to the scores."""
    return mask.where(-math.inf, 0.0) if mask.dtype == bool_ else mask
