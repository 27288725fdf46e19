"""Recurrent layers: `rnn`, `gru` and `lstm` of `svod_tensor` with parameters."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal

from svod_nn._module import Module
from svod_nn.errors import LayerArgumentError
from svod_nn.initializers import uniform
from svod_tensor import Generator, Tensor, gru, lstm, rnn

__all__ = ["GRU", "LSTM", "RNN"]

_KINDS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")


class _Recurrent(Module):
    """Base class of recurrent layers."""

    n_gates: ClassVar[int] = 1

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        *,
        generator: Generator | None = None,
    ) -> None:
        """Initialize the layer.

        Args:
            input_size: number of input features.
            hidden_size: number of features of the hidden state.
            num_layers: number of stacked layers; each reads the outputs of the previous one.
            bias: if True, there are learned biases.
            batch_first: if True, shapes are (batch, steps, features), else (steps, batch,
                features).
            dropout: dropout probability of the outputs between layers in training.
            bidirectional: if True, each layer also runs in reverse, and the outputs are
                concatenated.
            generator: random generator of the initial values, which are uniform between plus and
                minus `1 / sqrt(hidden_size)`, and of dropout.

        Raises:
            LayerArgumentError: if `num_layers` or `hidden_size` is less than 1, or `dropout` is not
                a probability.
        """
        # The initial values are bounded by 1 / sqrt(hidden_size).
        if num_layers < 1 or hidden_size < 1 or not 0 <= dropout <= 1:
            problem = f"num_layers={num_layers}, hidden_size={hidden_size}, dropout={dropout}"
            raise LayerArgumentError(name=type(self).__name__, problem=problem)
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.batch_first, self.dropout, self.bidirectional = batch_first, dropout, bidirectional
        self.generator = generator
        # As in torch, all weights and biases have the bound of the hidden size, whatever the input
        # size.
        bound, rows = 1 / math.sqrt(hidden_size), self.n_gates * hidden_size
        for layer in range(num_layers):
            # Later layers read the outputs of both directions.
            width = input_size if layer == 0 else hidden_size * (2 if bidirectional else 1)
            # As in torch, two biases: their sum would do, but its state dicts have both.
            shapes = ((rows, width), (rows, hidden_size), (rows,), (rows,))[: 4 if bias else 2]
            for suffix in self._get_suffixes(layer):
                for kind, shape in zip(_KINDS, shapes, strict=False):
                    setattr(
                        self, f"{kind}_{suffix}", uniform(shape, -bound, bound, generator=generator)
                    )

    def _get_suffixes(self, layer: int) -> list[str]:
        # torch's names, so that its state dicts load.
        return [f"l{layer}", f"l{layer}_reverse"][: 2 if self.bidirectional else 1]

    def _get_weights(self, first: int, end: int) -> dict[str, Tensor]:
        """Return the weights of the layers from `first` up to `end`, renumbered from 0."""
        weights: dict[str, Tensor] = {}
        for layer in range(first, end):
            # Renamed as if the first layer were layer 0, which the operation expects.
            for suffix, name in zip(
                self._get_suffixes(layer), self._get_suffixes(layer - first), strict=True
            ):
                for kind in _KINDS:
                    if hasattr(self, f"{kind}_{suffix}"):
                        weights[f"{kind}_{name}"] = getattr(self, f"{kind}_{suffix}")
        return weights

    def _run(
        self, x: Tensor, hx: Any, weights: dict[str, Tensor], n_layers: int
    ) -> tuple[Tensor, Any]:
        raise NotImplementedError

    def forward(self, x: Tensor, hx: Any = None) -> tuple[Tensor, Any]:
        """Run the layers over a sequence.

        Args:
            x: inputs of shape (steps, batch, input_size), or (batch, steps, input_size) if
                `batch_first`; the batch axis may be absent.
            hx: initial state of shape (num_layers * directions, batch, hidden_size), for LSTM a
                pair of such; zeros by default.

        Returns:
            the outputs of the last layer, of shape (steps, batch, directions * hidden_size), and
            the final state, of the shape of `hx`.
        """
        # Dropout between the layers: run them one by one.
        if not (self.training and self.dropout and self.num_layers > 1):
            return self._run(x, hx, self._get_weights(0, self.num_layers), self.num_layers)
        n = 2 if self.bidirectional else 1
        finals: list[Any] = []
        for layer in range(self.num_layers):
            # As in torch, dropout is between layers: neither before the first nor after the last.
            if layer:
                x = x.dropout(self.dropout, generator=self.generator)
            initial = None if hx is None else _slice_states(hx, layer * n, (layer + 1) * n)
            x, final = self._run(x, initial, self._get_weights(layer, layer + 1), 1)
            finals.append(final)
        return x, _concat_states(finals)

    def extra_repr(self) -> str:
        options = {"num_layers": 1, "batch_first": False, "dropout": 0.0, "bidirectional": False}
        shown = [
            f"{name}={getattr(self, name)}"
            for name, default in options.items()
            if getattr(self, name) != default
        ]
        return ", ".join([f"{self.input_size}, {self.hidden_size}", *shown])


class LSTM(_Recurrent):
    """Long short-term memory (LSTM); see `svod_tensor.lstm` for the equations.

    Attributes:
        weight_ih_l0: input weights of the first layer, of shape (4 * hidden_size, input_size).
        weight_hh_l0: hidden weights, of shape (4 * hidden_size, hidden_size).
        bias_ih_l0: input bias, of shape (4 * hidden_size,); absent without `bias`.
        bias_hh_l0: hidden bias, likewise.

    Layer k has the suffix `_lk`, and its reverse direction `_lk_reverse`. The input size of later
    layers is `directions * hidden_size`.

    Source: S. Hochreiter, J. Schmidhuber, Long short-term memory, 1997, as in `torch.nn.LSTM`.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> output, (h, c) = nn.LSTM(3, 5, num_layers=2)(Tensor.ones(7, 2, 3))
        >>> output.shape, h.shape, c.shape
        ((7, 2, 5), (2, 2, 5), (2, 2, 5))
    """

    n_gates = 4

    def _run(
        self, x: Tensor, hx: Any, weights: dict[str, Tensor], n_layers: int
    ) -> tuple[Tensor, Any]:
        return lstm(
            x,
            weights,
            hx,
            num_layers=n_layers,
            bidirectional=self.bidirectional,
            batch_first=self.batch_first,
        )


class GRU(_Recurrent):
    """Gated recurrent unit (GRU); see `svod_tensor.gru` for the equations.

    Attributes:
        weight_ih_l0: input weights of the first layer, of shape (3 * hidden_size, input_size).
        weight_hh_l0: hidden weights, of shape (3 * hidden_size, hidden_size).
        bias_ih_l0: input bias, of shape (3 * hidden_size,); absent without `bias`.
        bias_hh_l0: hidden bias, likewise.

    Layer k has the suffix `_lk`, and its reverse direction `_lk_reverse`. The input size of later
    layers is `directions * hidden_size`.

    Source: K. Cho et al., Learning phrase representations using RNN encoder-decoder, 2014, as in
    `torch.nn.GRU`.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> output, h = nn.GRU(3, 5, bidirectional=True)(Tensor.ones(7, 2, 3))
        >>> output.shape, h.shape
        ((7, 2, 10), (2, 2, 5))
    """

    n_gates = 3

    def _run(
        self, x: Tensor, hx: Any, weights: dict[str, Tensor], n_layers: int
    ) -> tuple[Tensor, Any]:
        return gru(
            x,
            weights,
            hx,
            num_layers=n_layers,
            bidirectional=self.bidirectional,
            batch_first=self.batch_first,
        )


class RNN(_Recurrent):
    """Elman RNN, `h = tanh(x @ weight_ih.T + bias_ih + h @ weight_hh.T + bias_hh)`.

    Args:
        input_size: number of input features.
        hidden_size: number of features of the hidden state.
        num_layers: number of stacked layers; each reads the outputs of the previous one.
        nonlinearity: "tanh" or "relu".
        bias: if True, there are learned biases.
        batch_first: if True, shapes are (batch, steps, features), else (steps, batch, features).
        dropout: dropout probability of the outputs between layers in training.
        bidirectional: if True, each layer also runs in reverse, and the outputs are concatenated.
        generator: random generator of the initial values, which are uniform between plus and minus
            `1 / sqrt(hidden_size)`, and of dropout.

    Attributes:
        weight_ih_l0: input weights of the first layer, of shape (hidden_size, input_size).
        weight_hh_l0: hidden weights, of shape (hidden_size, hidden_size).
        bias_ih_l0: input bias, of shape (hidden_size,); absent without `bias`.
        bias_hh_l0: hidden bias, likewise.

    Layer k has the suffix `_lk`, and its reverse direction `_lk_reverse`. The input size of later
    layers is `directions * hidden_size`.

    Raises:
        LayerArgumentError: if `num_layers` is less than 1, or `nonlinearity` is unknown.

    Source: J. Elman, Finding structure in time, 1990, as in `torch.nn.RNN`.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> output, h = nn.RNN(3, 5, batch_first=True)(Tensor.ones(2, 7, 3))
        >>> output.shape, h.shape
        ((2, 7, 5), (1, 2, 5))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: Literal["tanh", "relu"] = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        *,
        generator: Generator | None = None,
    ) -> None:
        super().__init__(
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            generator=generator,
        )
        if nonlinearity not in ("tanh", "relu"):
            raise LayerArgumentError(
                name="RNN", problem=f"nonlinearity must be 'tanh' or 'relu', got {nonlinearity!r}"
            )
        self.nonlinearity: Literal["tanh", "relu"] = nonlinearity

    def _run(
        self, x: Tensor, hx: Any, weights: dict[str, Tensor], n_layers: int
    ) -> tuple[Tensor, Any]:
        return rnn(
            x,
            weights,
            hx,
            nonlinearity=self.nonlinearity,
            num_layers=n_layers,
            bidirectional=self.bidirectional,
            batch_first=self.batch_first,
        )


def _slice_states(hx: Any, first: int, end: int) -> Any:
    """Return the states of some layers: one tensor, or a pair for LSTM."""
    # The LSTM has two states, a pair of tensors.
    return hx[first:end] if isinstance(hx, Tensor) else tuple(state[first:end] for state in hx)


def _concat_states(finals: list[Any]) -> Any:
    if isinstance(finals[0], Tensor):
        return finals[0].concat(*finals[1:], axis=0)
    return tuple(states[0].concat(*states[1:], axis=0) for states in zip(*finals, strict=True))
