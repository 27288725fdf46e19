"""Attention of several heads."""

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
    """Each position of the queries takes a mean of values, weighted by how its query fits their
    keys, once for each head.

    Args:
        embed_dim: the size of the last axis of queries and results.
        num_heads: into how many heads it falls.
        dropout: the probability with which, in training, a weight of a value is 0.
        bias: whether the four products have biases.
        kdim: the size of the last axis of the keys, by default `embed_dim`.
        vdim: that of the values, by default `embed_dim`.
        batch_first: whether shapes are (batch, positions, ...) instead of (positions, batch, ...).
        num_kv_heads: how many heads keys and values have, each for several heads of the queries; by
            default as many.
        rotary_base: rotates queries and keys by their positions, see `rotary_embedding`; None for
            no positions.
        generator: what the first values are drawn from, those of `in_proj_weight` as Xavier and
            those of `out_proj` as `Linear` has them, and then the zeros of dropout.

    Attributes:
        in_proj_weight: of shape (embed_dim + 2 * key size, embed_dim): for queries, keys and
            values; None with `kdim` or `vdim`.
        q_proj_weight: with `kdim` or `vdim` instead of it, as `k_proj_weight` and `v_proj_weight`;
            None otherwise.
        in_proj_bias: of shape (embed_dim + 2 * key size,), or None.
        out_proj: the last product.

    Example:
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
                f"{embed_dim} features, {num_heads} heads and {self.num_kv_heads} heads of keys do"
                " not divide each other"
            )
            raise LayerArgumentError(name="MultiheadAttention", problem=problem)
        self.head_size = embed_dim // num_heads
        key_size = self.num_kv_heads * self.head_size
        self.in_proj_weight = self.q_proj_weight = self.k_proj_weight = self.v_proj_weight = None
        if kdim in (None, embed_dim) and vdim in (None, embed_dim):
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
        """The result, of the shape of the queries, and the weights, which are computed when
        somebody reads them.

        Args:
            query: of shape (positions, batch, embed_dim), or with `batch_first` (batch, positions,
                embed_dim); without a batch two axes.
            key: likewise, with `kdim` features.
            value: likewise, with `vdim` features, for the same positions as the keys.
            key_padding_mask: of shape (batch, positions of keys): keys that nobody looks at, or
                numbers that are added.
            attn_mask: of shape (positions, positions of keys), or (batch * heads, ...): where a
                query does not look at a key, or numbers that are added before the softmax.
            average_attn_weights: whether the weights are the means over the heads.
            is_causal: whether a query looks at no later key.
            cache: keys and values of earlier positions, which those of this call are added to.
            position: of the first query, and with a cache or rotations of the first key: an integer
                or a bound `Variable`.
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
            if query is key is value:
                inputs = [inputs[0]] * 3
        q, k, v = self._project(*inputs)
        if self.rotary_base is not None:
            q, k = (rotary_embedding(t, position, self.rotary_base) for t in (q, k))
        if cache is not None:
            k, v = cache.extend(k, v, position)
        offset = 0 if cache is None else position
        mask = self._combine_masks(q, k, key_padding_mask, attn_mask, offset if is_causal else None)
        mixed, weights = self._attend(q, k, v, mask)
        result = self.out_proj(mixed.transpose(1, 2).flatten(2))
        weights = weights.mean(1) if average_attn_weights else weights
        if not is_batched:
            return result.squeeze(0), weights.squeeze(0)
        return result if self.batch_first else result.transpose(0, 1), weights

    def _project(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values of shape (batch, heads, positions, head_size)."""
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
        made: list[Tensor] = []
        for x, weight, bias in zip((query, key, value), weights, biases, strict=True):
            assert weight is not None
            made.append(self._split_heads(x.linear(weight, bias)))
        return made[0], made[1], made[2]

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
        """One mask for (batch, heads, positions, positions of keys):

        True where a query may look, or numbers that are added.
        """
        parts: list[Tensor] = []
        if padding is not None:
            parts.append(padding.unsqueeze(1).unsqueeze(1))
        if mask is not None:
            parts.append(mask.unflatten(0, (-1, self.num_heads)) if mask.ndim == 3 else mask)
        if causal_from is not None:
            rows = (Tensor.arange(q.shape[2]) + causal_from).unsqueeze(1)
            parts.append(Tensor.arange(k.shape[2]) > rows)
        combined: Tensor | None = None
        for part in parts:
            if combined is None:
                combined = part
            elif combined.dtype == bool_ and part.dtype == bool_:
                combined = combined | part
            else:
                combined = _to_added(combined) + _to_added(part)
        return (
            combined.logical_not() if combined is not None and combined.dtype == bool_ else combined
        )

    def _attend(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """The mixed values of shape (batch, heads, positions, head_size), and the weights of
        (batch, heads, positions, keys).
        """
        n_groups = self.num_heads // self.num_kv_heads
        if n_groups > 1:
            k, v = (
                t.unsqueeze(2).expand(t.shape[0], t.shape[1], n_groups, *t.shape[2:]).flatten(1, 2)
                for t in (k, v)
            )
        scores = (q @ k.transpose(-2, -1)) * (1 / math.sqrt(self.head_size))
        if mask is not None:
            scores = (
                scores.masked_fill(mask.logical_not(), -math.inf)
                if mask.dtype == bool_
                else scores + mask
            )
        weights = scores.softmax(-1) if mask is None else _weigh(scores)
        if self.training and self.dropout:
            weights = weights.dropout(self.dropout, generator=self.generator)
            return weights @ v, weights
        return q.scaled_dot_product_attention(k, v, mask), weights

    def extra_repr(self) -> str:
        grouped = (
            "" if self.num_kv_heads == self.num_heads else f", num_kv_heads={self.num_kv_heads}"
        )
        return f"{self.embed_dim}, {self.num_heads}{grouped}"


def _weigh(scores: Tensor) -> Tensor:
    """Softmax over the keys, and zeros for a query that may look at no key, as
    `scaled_dot_product_attention` has it.
    """
    is_blind = scores.max(-1, keepdims=True) == -math.inf
    return is_blind.where(0.0, is_blind.where(0.0, scores).softmax(-1))


def _to_added(mask: Tensor) -> Tensor:
    """What is added where True says that a query does not look."""
    return mask.where(-math.inf, 0.0) if mask.dtype == bool_ else mask
