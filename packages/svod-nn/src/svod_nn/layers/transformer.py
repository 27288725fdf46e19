"""Transformer encoder and decoder layers, and stacks of them."""

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
    """Base class of encoder and decoder layers."""

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
        """Initialize the layer.

        Args:
            d_model: number of features of the inputs and results.
            nhead: number of attention heads.
            dim_feedforward: number of features of the hidden layer of the feed-forward network.
            dropout: dropout probability in training.
            activation: activation of the feed-forward network: "relu", "gelu", or a function of
                tensors.
            layer_norm_eps: term added to variances for numerical stability.
            batch_first: if True, shapes are (batch, positions, d_model), else (positions, batch,
                d_model).
            norm_first: if True, normalize the input of each block (pre-norm), else its result added
                to the input (post-norm).
            bias: if True, linear layers and normalizations have biases.
            generator: random generator of the initial values and of dropout.
        """
        self.norm_first, self.activation = norm_first, activation
        if isinstance(activation, str) and activation not in ("relu", "gelu"):
            raise LayerArgumentError(
                name=type(self).__name__,
                problem=f"activation must be 'relu', 'gelu' or a function, got {activation!r}",
            )
        self.self_attn = MultiheadAttention(
            d_model, nhead, dropout, bias, batch_first=batch_first, generator=generator
        )
        if self._has_memory():
            # torch's name for the attention to the memory.
            self.multihead_attn = MultiheadAttention(
                d_model, nhead, dropout, bias, batch_first=batch_first, generator=generator
            )
        self.linear1 = Linear(d_model, dim_feedforward, bias, generator=generator)
        self.dropout = Dropout(dropout, generator=generator)
        self.linear2 = Linear(dim_feedforward, d_model, bias, generator=generator)
        for block in range(1, 4 if self._has_memory() else 3):
            # torch's names, norm1 to norm3, so that its state dicts load.
            setattr(self, f"norm{block}", LayerNorm(d_model, layer_norm_eps, bias=bias))
            setattr(self, f"dropout{block}", Dropout(dropout, generator=generator))

    def _has_memory(self) -> bool:
        return False

    def _add_block(self, x: Tensor, index: int, block: Callable[[Tensor], Tensor]) -> Tensor:
        """Apply a block with a residual connection, and normalize before the block or after both."""
        norm, dropout = getattr(self, f"norm{index}"), getattr(self, f"dropout{index}")
        if self.norm_first:
            # Nothing but additions lies on the path of x, which lets deep stacks train without
            # warm-up.
            return x + dropout(block(norm(x)))
        return norm(x + dropout(block(x)))

    def _feed_forward(self, x: Tensor) -> Tensor:
        x = self.linear1(x)
        x = (
            getattr(x, self.activation)()
            if isinstance(self.activation, str)
            else self.activation(x)
        )
        # This dropout is inside of the block; `_add_block` has another one for the block's result.
        return self.linear2(self.dropout(x))


class TransformerEncoderLayer(_FeedForward):
    """Transformer encoder layer: self-attention and a feed-forward network.

    Both are residual blocks with layer normalization.

    Source:
        Vaswani et al., Attention Is All You Need, 2017, section 3.1, as in
        `torch.nn.TransformerEncoderLayer`.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
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
        """Return a tensor of the shape of `src`.

        Args:
            src: inputs of shape (positions, batch, d_model), or with `batch_first` (batch,
                positions, d_model); the batch axis may be absent.
            src_mask: mask of the attention, `attn_mask` of `MultiheadAttention`.
            src_key_padding_mask: mask of shape (batch, positions): True for positions to ignore.
            is_causal: if True, a position does not attend to later positions; needs no mask.
            cache: keys and values of earlier positions, which this call appends to.
            position: position of the first element: an integer or a bound `Variable`.
        """

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

        return self._add_block(self._add_block(src, 1, attend), 2, self._feed_forward)


class TransformerDecoderLayer(_FeedForward):
    """Transformer decoder layer: self-attention, cross-attention and a feed-forward network.

    The three are residual blocks with layer normalization.

    Source:
        Vaswani et al., Attention Is All You Need, 2017, section 3.1, as in
        `torch.nn.TransformerDecoderLayer`.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
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
        """Return a tensor of the shape of `tgt`.

        Args:
            tgt: targets of shape (targets, batch, d_model), or with `batch_first` (batch, targets,
                d_model); the batch axis may be absent.
            memory: result of the encoder, of shape (positions, batch, d_model), likewise.
            tgt_mask: mask of the self-attention, `attn_mask` of `MultiheadAttention`.
            memory_mask: mask of the attention to `memory`, likewise.
            tgt_key_padding_mask: mask of shape (batch, targets): True for targets to ignore.
            memory_key_padding_mask: mask of shape (batch, positions): True for positions of
                `memory` to ignore.
            tgt_is_causal: if True, a target does not attend to later targets; needs no mask.
            cache: keys and values of earlier targets, which this call appends to.
            position: position of the first target: an integer or a bound `Variable`.
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

        def cross_attend(x: Tensor) -> Tensor:
            # Without the cache: the memory is the same at each step.
            return self.multihead_attn(x, memory, memory, memory_key_padding_mask, memory_mask)[0]

        x = self._add_block(self._add_block(tgt, 1, attend), 2, cross_attend)
        return self._add_block(x, 3, self._feed_forward)


class TransformerEncoder(Module):
    """Stack of transformer encoder layers, initialized as copies of one.

    Args:
        encoder_layer: layer to copy; the copies share its generators.
        num_layers: number of layers.
        norm: normalization after the last layer, or None.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> layer = nn.TransformerEncoderLayer(8, 2, dim_feedforward=16, batch_first=True)
        >>> nn.TransformerEncoder(layer, 3)(Tensor.rand(2, 5, 8)).shape
        (2, 5, 8)
    """

    def __init__(
        self, encoder_layer: TransformerEncoderLayer, num_layers: int, norm: Module | None = None
    ) -> None:
        # As in torch, the layers are copies and begin with equal weights.
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
        """Return a tensor of the shape of `src`.

        Args:
            src: inputs, as in `TransformerEncoderLayer`.
            mask: mask of the attention in each layer, `attn_mask` of `MultiheadAttention`.
            src_key_padding_mask: mask of shape (batch, positions): True for positions to ignore.
            is_causal: if True, a position does not attend to later positions; needs no mask.
            caches: caches of earlier positions, one for each layer.
            position: position of the first element: an integer or a bound `Variable`.
        """
        for index, layer in enumerate(self.layers):
            cache = None if caches is None else caches[index]
            src = layer(src, mask, src_key_padding_mask, is_causal, cache=cache, position=position)
        return src if self.norm is None else self.norm(src)


class TransformerDecoder(Module):
    """Stack of transformer decoder layers, initialized as copies of one.

    Args:
        decoder_layer: layer to copy; the copies share its generators.
        num_layers: number of layers.
        norm: normalization after the last layer, or None.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> layer = nn.TransformerDecoderLayer(8, 2, dim_feedforward=16, batch_first=True)
        >>> nn.TransformerDecoder(layer, 3)(Tensor.rand(2, 5, 8), Tensor.rand(2, 7, 8)).shape
        (2, 5, 8)
    """

    def __init__(
        self, decoder_layer: TransformerDecoderLayer, num_layers: int, norm: Module | None = None
    ) -> None:
        # As in torch, the layers are copies and begin with equal weights.
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
        """Return a tensor of the shape of `tgt`.

        Args:
            tgt: targets, as in `TransformerDecoderLayer`.
            memory: result of the encoder, likewise.
            tgt_mask: mask of the self-attention, `attn_mask` of `MultiheadAttention`.
            memory_mask: mask of the attention to `memory`, likewise.
            tgt_key_padding_mask: mask of shape (batch, targets): True for targets to ignore.
            memory_key_padding_mask: mask of shape (batch, positions): True for positions of
                `memory` to ignore.
            tgt_is_causal: if True, a target does not attend to later targets; needs no mask.
            caches: caches of earlier targets, one for each layer.
            position: position of the first target: an integer or a bound `Variable`.
        """
        for index, layer in enumerate(self.layers):
            cache = None if caches is None else caches[index]
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
    """Return a copy of a module with its own tensors and the same generators.

    Copies of a generator would all produce the same samples.
    """
    generators = [
        value
        for child in module.modules()
        for value in vars(child).values()
        if isinstance(value, Generator)
    ]
    # Generators are shared: copies would drop the same elements in each layer.
    copied = copy.deepcopy(module, {id(generator): generator for generator in generators})
    leaves = [
        leaf for child in copied.modules() for _, leaf in iter_leaves(vars(child), (Tensor,), "")
    ]
    # In one batch: copies are lazy, and each would otherwise be computed where it is first read.
    realize_derived([(leaf, leaf) for leaf in leaves if isinstance(leaf, Tensor)])
    return copied
