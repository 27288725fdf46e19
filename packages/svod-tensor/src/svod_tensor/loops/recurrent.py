"""Recurrent layers as functions of tensors: the names, shapes and order of gates are PyTorch's.

The product of the inputs of all steps with `weight_ih` is one matrix product before the loop; a step
has one product, of its state with `weight_hh`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from svod_ir import OperandError
from svod_tensor.loops.recurrent_layers import CellKind, State, Weights, run_layers
from svod_tensor.tensor import Tensor

__all__ = ["gru", "lstm", "rnn"]


def lstm(
    input: Tensor,
    weights: Weights,
    hx: tuple[Tensor, Tensor] | None = None,
    *,
    num_layers: int = 1,
    bidirectional: bool = False,
    batch_first: bool = False,
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """Long short-term memory: for each step and layer, with the sigmoid s,

        i, f, g, o = s(i), s(f), tanh(g), s(o)  of  x @ weight_ih.T + bias_ih + h @ weight_hh.T + bias_hh
        c = f * c + i * g;  h = o * tanh(c)

    Dtypes promote; narrow floats are computed in float32, and results are rounded once.

    Args:
        input: of shape (steps, batch, inputs), or (steps, inputs).
        weights: for each layer and direction `weight_ih_l0` of shape (4 * width, inputs),
            `weight_hh_l0` of shape (4 * width, width), and `bias_ih_l0` and `bias_hh_l0` of shape
            (4 * width,) or no biases at all; `l1` and so on for further layers, `l0_reverse` for
            the reverse direction. A sequence has the weights in this order.
        hx: the initial hidden states and cell states, each of shape (layers * directions, batch,
            width), without `batch` if the input has none; None for zeros.
        num_layers: the number of layers; each reads the outputs of the previous layer.
        bidirectional: whether each layer also runs from the last step to the first; the outputs of
            both directions are concatenated.
        batch_first: whether the input has the shape (batch, steps, inputs), and the output
            (batch, steps, directions * width).

    Returns:
        the hidden states of the last layer after each step, of shape (steps, batch, directions *
        width); the final hidden states and cell states, each in the shape of `hx`.

    Raises:
        ShapeError: if shapes do not match.
        OperandError: if weights are missing or unexpected.

    Source: Hochreiter and Schmidhuber, Long Short-Term Memory (1997), in the form of
    `torch.nn.LSTM`.

    Example:
        >>> from svod_tensor import Tensor, lstm
        >>> weights = {"weight_ih_l0": Tensor.ones(8, 3), "weight_hh_l0": Tensor.ones(8, 2)}
        >>> output, (h, c) = lstm(Tensor.ones(5, 1, 3), weights)
        >>> output.shape, h.shape, c[0].round(2).numpy()
        ((5, 1, 2), (1, 1, 2), array([[4.84, 4.84]], dtype=float32))
    """
    output, (h, c) = run_layers(
        _LSTM,
        input,
        weights,
        hx,
        n_layers=num_layers,
        is_bidirectional=bidirectional,
        is_batch_first=batch_first,
    )
    return output, (h, c)


def gru(
    input: Tensor,
    weights: Weights,
    hx: Tensor | None = None,
    *,
    num_layers: int = 1,
    bidirectional: bool = False,
    batch_first: bool = False,
) -> tuple[Tensor, Tensor]:
    """Gated recurrent units: for each step and layer, with the sigmoid s,

        r, z, n = x @ weight_ih.T + bias_ih;  r', z', n' = h @ weight_hh.T + bias_hh
        r, z = s(r + r'), s(z + z');  n = tanh(n + r * n');  h = (1 - z) * n + z * h

    Dtypes promote; narrow floats are computed in float32, and results are rounded once.

    Args:
        input: of shape (steps, batch, inputs), or (steps, inputs).
        weights: as for `lstm`, with 3 * width rows.
        hx: the initial hidden states, of shape (layers * directions, batch, width), without `batch`
            if the input has none; None for zeros.
        num_layers: the number of layers; each reads the outputs of the previous layer.
        bidirectional: whether each layer also runs from the last step to the first; the outputs of
            both directions are concatenated.
        batch_first: whether the input has the shape (batch, steps, inputs), and the output
            (batch, steps, directions * width).

    Returns:
        the hidden states of the last layer after each step, of shape (steps, batch, directions *
        width); the final hidden states of all layers, in the shape of `hx`.

    Raises:
        ShapeError: if shapes do not match.
        OperandError: if weights are missing or unexpected.

    Source: Cho et al., Learning Phrase Representations using RNN Encoder-Decoder (2014), in
    the form of `torch.nn.GRU`.

    Example:
        >>> from svod_tensor import Tensor, gru
        >>> output, h = gru(Tensor.ones(5, 3), [Tensor.ones(6, 3), Tensor.ones(6, 2)], batch_first=True)
        >>> output.shape, h.round(2).numpy()
        ((5, 2), array([[0.19, 0.19]], dtype=float32))
    """
    state = None if hx is None else (hx,)
    output, (h,) = run_layers(
        _GRU,
        input,
        weights,
        state,
        n_layers=num_layers,
        is_bidirectional=bidirectional,
        is_batch_first=batch_first,
    )
    return output, h


def rnn(
    input: Tensor,
    weights: Weights,
    hx: Tensor | None = None,
    *,
    nonlinearity: Literal["tanh", "relu"] = "tanh",
    num_layers: int = 1,
    bidirectional: bool = False,
    batch_first: bool = False,
) -> tuple[Tensor, Tensor]:
    """Elman recurrent layer: `h = tanh(x @ weight_ih.T + bias_ih + h @ weight_hh.T + bias_hh)` for each
    step and layer.

    Dtypes promote; narrow floats are computed in float32, and results are rounded once.

    Args:
        input: of shape (steps, batch, inputs), or (steps, inputs).
        weights: as for `lstm`, with `width` rows.
        hx: the initial hidden states, of shape (layers * directions, batch, width), without `batch`
            if the input has none; None for zeros.
        nonlinearity: the activation, `tanh` or `relu`.
        num_layers: the number of layers; each reads the outputs of the previous layer.
        bidirectional: whether each layer also runs from the last step to the first; the outputs of
            both directions are concatenated.
        batch_first: whether the input has the shape (batch, steps, inputs), and the output
            (batch, steps, directions * width).

    Returns:
        the hidden states of the last layer after each step, of shape (steps, batch, directions *
        width); the final hidden states of all layers, in the shape of `hx`.

    Raises:
        ShapeError: if shapes do not match.
        OperandError: if weights are missing or unexpected, or for another nonlinearity.

    Source: Elman, Finding Structure in Time (1990), in the form of `torch.nn.RNN`.

    Example:
        >>> from svod_tensor import Tensor, rnn
        >>> output, h = rnn(Tensor.ones(3, 1), [Tensor.ones(1, 1), Tensor.ones(1, 1)], nonlinearity="relu")
        >>> output.tolist(), h.tolist()
        ([[1.0], [2.0], [3.0]], [[3.0]])
    """
    if nonlinearity not in _RNN:
        raise OperandError(operation="rnn", found=repr(nonlinearity), expected="'tanh' or 'relu'")
    kind, state = _RNN[nonlinearity], None if hx is None else (hx,)
    output, (h,) = run_layers(
        kind,
        input,
        weights,
        state,
        n_layers=num_layers,
        is_bidirectional=bidirectional,
        is_batch_first=batch_first,
    )
    return output, h


def _lstm_step(state: State, gates: Sequence[Tensor]) -> State:
    # PyTorch's order of the gates; ONNX has another one (i, o, f, c).
    input_gate, forget_gate, candidate, output_gate = gates[0].unbind()
    c = forget_gate.sigmoid() * state[1] + input_gate.sigmoid() * candidate.tanh()
    return output_gate.sigmoid() * c.tanh(), c


def _gru_step(state: State, gates: Sequence[Tensor]) -> State:
    (reset, update, candidate), (h_reset, h_update, h_candidate) = (g.unbind() for g in gates)
    update = (update + h_update).sigmoid()
    candidate = (candidate + (reset + h_reset).sigmoid() * h_candidate).tanh()
    # As in PyTorch, the update gate keeps the state; the paper's gate replaces it.
    return ((1 - update) * candidate + update * state[0],)


def _tanh_step(_: State, gates: Sequence[Tensor]) -> State:
    return (gates[0][0].tanh(),)


def _relu_step(_: State, gates: Sequence[Tensor]) -> State:
    return (gates[0][0].relu(),)


_LSTM = CellKind("lstm", n_gates=4, n_states=2, step=_lstm_step)
# The reset gate scales the product of the hidden state, with its bias, before it is added.
_GRU = CellKind("gru", n_gates=3, n_states=1, step=_gru_step, separates_products=True)
_RNN = {
    "tanh": CellKind("rnn", n_gates=1, n_states=1, step=_tanh_step),
    "relu": CellKind("rnn", n_gates=1, n_states=1, step=_relu_step),
}
