"""Layers of transformers, and stacks of them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Literal, TypeVar

from svod_nn._empty import realize_derived
from svod_nn._module import Module
from svod_nn._walk import iter_leaves
from svod_nn.errors import LayerArgumentError
from svod_nn.layers.attention import MultiheadAttention
from svod_nn.layers.cache import KeyValueCache
from svod_nn.layers.dropout import Dropout
from svod_nn.layers.linear import Linear
from svod_nn.layers.normalization import LayerNorm
from svod_tensor import Generator, Tensor

__all__ = [
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
]

M = TypeVar("M", bound=Module)


class _FeedForward(Module):
    """What layers of encoders and decoders share.

    Args:
        d_model: the size of the last axis.
        nhead: how many heads.
        dim_feedforward: how wide the products between the attentions are.
        dropout: the probability with which, in training, elements are 0.
        activation: between the products: `relu`, `gelu`, or a function of tensors.
        layer_norm_eps: added to variances.
        batch_first: whether shapes are (batch, positions, d_model) instead of (positions, batch,
            d_model).
        norm_first: whether each block normalises what it reads, instead of what it gives.
        bias: whether products and normalisations have biases.
        generator: what first values, and then zeros, are drawn from.
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Literal["relu", "gelu"] | Callable[[Tensor], Tensor] = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        *,
        generator: Generator | None = None,
    ) -> None:
        self.norm_first, self.activation = norm_first, activation
        if isinstance(activation, str) and activation not in ("relu", "gelu"):
            raise LayerArgumentError(
                name=type(self).__name__, problem=f"activation={activation!r} is not relu or gelu"
            )
        self.self_attn = MultiheadAttention(
            d_model, nhead, dropout, bias, batch_first=batch_first, generator=generator
        )
        if self._has_memory():
            self.multihead_attn = MultiheadAttention(
                d_model, nhead, dropout, bias, batch_first=batch_first, generator=generator
            )
        self.linear1 = Linear(d_model, dim_feedforward, bias, generator=generator)
        self.dropout = Dropout(dropout, generator=generator)
        self.linear2 = Linear(dim_feedforward, d_model, bias, generator=generator)
        for number in range(1, 4 if self._has_memory() else 3):
            setattr(self, f"norm{number}", LayerNorm(d_model, layer_norm_eps, bias=bias))
            setattr(self, f"dropout{number}", Dropout(dropout, generator=generator))

    def _has_memory(self) -> bool:
        return False

    def _add_block(self, x: Tensor, number: int, block: Callable[[Tensor], Tensor]) -> Tensor:
        """A block with a way around it, and the normalisation before it or behind both."""
        norm, dropout = getattr(self, f"norm{number}"), getattr(self, f"dropout{number}")
        if self.norm_first:
            return x + dropout(block(norm(x)))
        return norm(x + dropout(block(x)))

    def _feed(self, x: Tensor) -> Tensor:
        x = self.linear1(x)
        x = (
            getattr(x, self.activation)()
            if isinstance(self.activation, str)
            else self.activation(x)
        )
        return self.linear2(self.dropout(x))


class TransformerEncoderLayer(_FeedForward):
    """Attention of positions to each other, and two products for each, with ways around both.

    Source:
        Vaswani et al., Attention Is All You Need, 2017, section 3.1, as
        `torch.nn.TransformerEncoderLayer` has it.

    Example:
        >>> layer = nn.TransformerEncoderLayer(8, 2, dim_feedforward=16, batch_first=True)
        >>> layer(Tensor.rand(3, 5, 8), is_causal=True).shape
        (3, 5, 8)
    """

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
        *,
        cache: KeyValueCache | None = None,
        position: Any = 0,
    ) -> Tensor:
        """The shape of `src`; the other arguments are those of `MultiheadAttention`."""

        def attend(x: Tensor) -> Tensor:
            return self.self_attn(
                x,
                x,
                x,
                src_key_padding_mask,
                src_mask,
                is_causal=is_causal,
                cache=cache,
                position=position,
            )[0]

        return self._add_block(self._add_block(src, 1, attend), 2, self._feed)


class TransformerDecoderLayer(_FeedForward):
    """Attention of positions to each other, attention to what an encoder gave, and two products,
    with ways around each.

    Source:
        Vaswani et al., Attention Is All You Need, 2017, section 3.1, as
        `torch.nn.TransformerDecoderLayer` has it.

    Example:
        >>> layer = nn.TransformerDecoderLayer(8, 2, dim_feedforward=16, batch_first=True)
        >>> layer(Tensor.rand(3, 5, 8), Tensor.rand(3, 7, 8), tgt_is_causal=True).shape
        (3, 5, 8)
    """

    def _has_memory(self) -> bool:
        return True

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        *,
        cache: KeyValueCache | None = None,
        position: Any = 0,
    ) -> Tensor:
        """The shape of `tgt`; the masks are those of `MultiheadAttention`, and `memory` is what the
        encoder gave.
        """

        def attend(x: Tensor) -> Tensor:
            return self.self_attn(
                x,
                x,
                x,
                tgt_key_padding_mask,
                tgt_mask,
                is_causal=tgt_is_causal,
                cache=cache,
                position=position,
            )[0]

        def look_up(x: Tensor) -> Tensor:
            return self.multihead_attn(x, memory, memory, memory_key_padding_mask, memory_mask)[0]

        x = self._add_block(self._add_block(tgt, 1, attend), 2, look_up)
        return self._add_block(x, 3, self._feed)


class TransformerEncoder(Module):
    """Several layers, which begin as copies of one, and a normalisation behind the last.

    Args:
        encoder_layer: what is copied; generators are not.
        num_layers: how many copies.
        norm: the normalisation, or None.

    Example:
        >>> layer = nn.TransformerEncoderLayer(8, 2, dim_feedforward=16, batch_first=True)
        >>> nn.TransformerEncoder(layer, 3)(Tensor.rand(2, 5, 8)).shape
        (2, 5, 8)
    """

    def __init__(
        self, encoder_layer: TransformerEncoderLayer, num_layers: int, norm: Module | None = None
    ) -> None:
        self.layers = [_copy(encoder_layer) for _ in range(num_layers)]
        self.norm = norm

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
        *,
        caches: list[KeyValueCache] | None = None,
        position: Any = 0,
    ) -> Tensor:
        """The shape of `src`; with `caches` one for each layer."""
        for number, layer in enumerate(self.layers):
            cache = None if caches is None else caches[number]
            src = layer(src, mask, src_key_padding_mask, is_causal, cache=cache, position=position)
        return src if self.norm is None else self.norm(src)


class TransformerDecoder(Module):
    """Several layers, which begin as copies of one, and a normalisation behind the last.

    Args:
        decoder_layer: what is copied; generators are not.
        num_layers: how many copies.
        norm: the normalisation, or None.

    Example:
        >>> layer = nn.TransformerDecoderLayer(8, 2, dim_feedforward=16, batch_first=True)
        >>> nn.TransformerDecoder(layer, 3)(Tensor.rand(2, 5, 8), Tensor.rand(2, 7, 8)).shape
        (2, 5, 8)
    """

    def __init__(
        self, decoder_layer: TransformerDecoderLayer, num_layers: int, norm: Module | None = None
    ) -> None:
        self.layers = [_copy(decoder_layer) for _ in range(num_layers)]
        self.norm = norm

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        *,
        caches: list[KeyValueCache] | None = None,
        position: Any = 0,
    ) -> Tensor:
        """The shape of `tgt`; with `caches` one for each layer."""
        for number, layer in enumerate(self.layers):
            cache = None if caches is None else caches[number]
            tgt = layer(
                tgt,
                memory,
                tgt_mask,
                memory_mask,
                tgt_key_padding_mask,
                memory_key_padding_mask,
                tgt_is_causal,
                cache=cache,
                position=position,
            )
        return tgt if self.norm is None else self.norm(tgt)


def _copy(module: M) -> M:
    """Return a copy of a module with tensors of its own and the same generators: copies of these
    would all sample the same.
    """
    generators = [
        value
        for part in module.modules()
        for value in vars(part).values()
        if isinstance(value, Generator)
    ]
    copied = copy.deepcopy(module, {id(generator): generator for generator in generators})
    leaves = [
        leaf for part in copied.modules() for _, leaf in iter_leaves(vars(part), (Tensor,), "")
    ]
    realize_derived([(leaf, leaf) for leaf in leaves if isinstance(leaf, Tensor)])
    return copied
