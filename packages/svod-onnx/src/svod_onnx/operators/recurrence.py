"""Recurrent layers: RNN, GRU and LSTM."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

import svod_tensor as sv
from svod_onnx._named_activations import NAMED_ACTIVATIONS, Activation
from svod_onnx._registry import operator
from svod_onnx._trace import Call
from svod_tensor import Tensor

__all__ = [
    "GruAttributes",
    "LstmAttributes",
    "RecurrentAttributes",
    "RecurrentLayer",
    "finish_layer",
    "gru",
    "lstm",
    "make_layer",
    "rnn",
    "run_lstm_steps",
]

Product = Callable[[Tensor, int], Tensor]
"""Function of a tensor and a direction: the product with the weights of that direction, of shape
(..., gates * width).
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecurrentAttributes:
    """Attributes of recurrent operators.

    Activations and their parameters are listed for each direction in turn.
    """

    activations: list[str] | None = None
    activation_alpha: list[float] | None = None
    activation_beta: list[float] | None = None
    clip: float | None = None
    direction: str = "forward"
    hidden_size: int = 0
    layout: int = 0
    output_sequence: int = 0

    @property
    def n_directions(self) -> int:
        return 2 if self.direction == "bidirectional" else 1

    @property
    def is_reverse(self) -> bool:
        return self.direction == "reverse"


@dataclass(frozen=True, slots=True)
class RecurrentLayer:
    """Operands and attributes of an RNN, a GRU or an LSTM, with steps as the leading axis.

    Attributes:
        x: of shape (steps, batch, inputs).
        weights: input weights of shape (directions, gates * width, inputs).
        recurrence: state weights of shape (directions, gates * width, width).
        biases: of shape (directions, 2 * gates * width), input biases first; or None.
        lengths: number of steps of each row of the batch; None if every row has all steps.
        states: initial states, each of shape (directions, batch, width).
        activations: names of the activations of each direction, concatenated.
        attributes: attributes of the node.
        products: functions that multiply the inputs, and a state, by the weights of a direction;
            None for plain products.
    """

    x: Tensor
    weights: Tensor
    recurrence: Tensor
    biases: Tensor | None
    lengths: Tensor | None
    states: tuple[Tensor, ...]
    activations: tuple[str, ...]
    attributes: RecurrentAttributes
    products: tuple[Product, Product] | None = None

    def multiply_inputs(self, direction: int) -> Tensor:
        """Inputs of all steps times the weights of a direction."""
        return (
            self.products[0](self.x, direction)
            if self.products
            else self.x.linear(self.weights[direction])
        )

    def multiply_state(self, h: Tensor, direction: int) -> Tensor:
        """State times the weights of a direction."""
        return (
            self.products[1](h, direction)
            if self.products
            else h.linear(self.recurrence[direction])
        )

    @property
    def n_directions(self) -> int:
        return self.attributes.n_directions

    def is_plain(self, *names: str) -> bool:
        """Whether each direction has these activations, and no option beyond them is set."""
        activations = tuple(name.lower() for name in self.activations)
        return activations == names * self.n_directions and not self.attributes.clip

    def list_activations(self) -> list[Activation]:
        """Activations in order. Each activation with parameters takes the next given ones."""
        alphas, betas = (
            iter(self.attributes.activation_alpha or ()),
            iter(self.attributes.activation_beta or ()),
        )
        activations: list[Activation] = []
        for name in self.activations:
            function = NAMED_ACTIVATIONS.get(name.lower())
            if function is None:
                raise ValueError(
                    f"unknown activation {name!r}; expected one of {', '.join(sorted(NAMED_ACTIVATIONS))}"
                )
            alpha = None if function.alpha is None else next(alphas, function.alpha)
            beta = None if function.beta is None else next(betas, function.beta)
            activations.append(function.make(alpha, beta))
        return activations

    def limit(self, x: Tensor) -> Tensor:
        """Clamp to `clip`, if the node sets it."""
        clip = self.attributes.clip
        return x.maximum(-clip).minimum(clip) if clip else x


_Step = Callable[[int, tuple[Tensor, ...], Tensor], tuple[Tensor, ...]]
"""Function of a direction, the states, and the products of a step's inputs of shape (batch, gates *
width): the next states.
"""


def make_layer(
    node: Call,
    operands: tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor | None],
    states: Sequence[Tensor | None],
    activations: Sequence[str],
    attributes: RecurrentAttributes,
    products: tuple[Product, Product] | None = None,
) -> RecurrentLayer:
    """Return the layer of a node.

    Args:
        node: the node.
        operands: `x`, `w`, `r`, `b` and `sequence_lens` of the operator.
        states: initial states; None means zeros.
        activations: names of the default activations of a direction.
        attributes: attributes of the node.
        products: as in `RecurrentLayer`.
    """
    x, weights, recurrence, biases, lengths = operands
    n_directions = attributes.n_directions
    if weights.shape[0] != n_directions:
        raise node.refuse(
            f"direction {attributes.direction!r} needs weights of {n_directions} directions, got shape {weights.shape}"
        )
    # `layout` 1 has the batch as the leading axis.
    steps = x.transpose(0, 1) if attributes.layout else x
    zeros = Tensor.zeros(n_directions, steps.shape[1], recurrence.shape[2], dtype=x.dtype)
    initial = tuple(
        zeros if state is None else state.transpose(0, 1) if attributes.layout else state
        for state in states
    )
    names = tuple(attributes.activations or (*activations,) * n_directions)
    return RecurrentLayer(
        steps, weights, recurrence, biases, lengths, initial, names, attributes, products
    )


def finish_layer(
    layer: RecurrentLayer, outputs: Tensor, final: Sequence[Tensor]
) -> tuple[Tensor, ...]:
    """Return the results of the node: outputs and final states, with the batch as the leading axis
    for `layout` 1.

    Args:
        layer: the layer.
        outputs: of shape (steps, directions, batch, width).
        final: final states, each of shape (directions, batch, width).
    """
    dtype = layer.x.dtype
    if layer.attributes.layout:
        outputs, final = (
            outputs.permute(2, 0, 1, 3),
            [final_state.transpose(0, 1) for final_state in final],
        )
    return outputs.cast(dtype), *(final_state.cast(dtype) for final_state in final)


_Run = Callable[..., tuple[Tensor, Any]]
"""Layer of svod: a function of inputs, weights, states and `bidirectional` that returns the outputs
and the final states.
"""


def _run_fused(
    node: Call, layer: RecurrentLayer, run: _Run, order: Sequence[int]
) -> tuple[Tensor, list[Tensor]]:
    """Run the fused layer of svod, whose gates have another order.

    Args:
        node: node whose weights are reordered once.
        layer: layer with plain activations.
        run: fused layer of one or two directions.
        order: index of ONNX's gate for each gate of svod.

    Returns:
        outputs and final states; with lengths, only the first of the states.
    """
    n = len(order)
    is_in_order = list(order) == list(range(n))

    def reorder(label: str, source: Tensor, direction: int, half: int | None = None) -> Tensor:
        def compute(source: Tensor) -> Tensor:
            # Biases of inputs and states are concatenated in ONNX, and separate in svod.
            rows = source[direction] if half is None else source[direction].reshape(2, -1)[half]
            gates = rows.reshape(n, -1, *rows.shape[1:])
            return rows if is_in_order else Tensor.concat([gates[gate] for gate in order])

        return node.precompute(f"{label}{direction}", compute, source)

    weights: list[list[Tensor]] = []
    for direction in range(layer.n_directions):
        weights.append(
            [
                reorder("inputs", layer.weights, direction),
                reorder("states", layer.recurrence, direction),
            ]
        )
        if layer.biases is not None:
            weights[-1] += [
                reorder(f"biases{half}.", layer.biases, direction, half) for half in range(2)
            ]
    if layer.lengths is not None:
        rows = [
            _run_to_lengths(layer, layer.lengths.cast("int64"), run, direction, weights[direction])
            for direction in range(len(weights))
        ]
        return Tensor.stack([outputs for outputs, _ in rows], axis=1), [
            Tensor.stack([final_state for _, final_state in rows])
        ]
    is_reverse = layer.attributes.is_reverse
    # svod's layers run forward, so a reverse layer runs on flipped steps.
    x = layer.x.flip(0) if is_reverse else layer.x
    outputs, final = run(
        x, [*chain(*weights)], _join_states(layer.states), bidirectional=layer.n_directions == 2
    )
    steps, batch, width = outputs.shape
    outputs = outputs.reshape(
        steps, batch, layer.n_directions, width // layer.n_directions
    ).permute(0, 2, 1, 3)
    return outputs.flip(0) if is_reverse else outputs, [*final] if isinstance(final, tuple) else [
        final
    ]


def _join_states(states: Sequence[Tensor]) -> Any:
    return tuple(states) if len(states) > 1 else states[0]


def _run_to_lengths(
    layer: RecurrentLayer, lengths: Tensor, run: _Run, direction: int, weights: Sequence[Tensor]
) -> tuple[Tensor, Tensor]:
    """Outputs of a direction, and the state at the end of each row.

    Steps after the end are computed and masked out.
    """
    is_reverse = layer.attributes.is_reverse or direction == 1
    x = _reverse(layer.x, lengths) if is_reverse else layer.x
    states = [state[direction : direction + 1] for state in layer.states]
    outputs, _ = run(x, weights, _join_states(states), bidirectional=False)
    time = Tensor.arange(x.shape[0], dtype="int64").unsqueeze(1)
    outputs = (time < lengths).unsqueeze(-1).where(outputs, 0)
    # The output at the last valid step, selected by a mask. No step of an empty row is valid, and
    # its state is 0, as in onnxruntime.
    final_state = (time == lengths - 1).unsqueeze(-1).where(outputs, 0).sum(0)
    return _reverse(outputs, lengths) if is_reverse else outputs, final_state


def _run_steps(layer: RecurrentLayer, step: _Step) -> tuple[Tensor, list[Tensor]]:
    """Run the steps of each direction by `scan`."""
    runs = [_run_direction(layer, direction, step) for direction in range(layer.n_directions)]
    outputs = Tensor.stack([outputs for outputs, _ in runs], axis=1)
    return outputs, [
        Tensor.stack(list(states)) for states in zip(*(final for _, final in runs), strict=True)
    ]


def _run_direction(
    layer: RecurrentLayer, direction: int, step: _Step
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Outputs and final states of a direction."""
    is_reverse = layer.attributes.is_reverse or direction == 1
    n_steps = layer.x.shape[0]
    # One product for all steps; only the product of the state is sequential.
    x = layer.multiply_inputs(direction)
    if is_reverse:
        x = _reverse(x, layer.lengths)
    initial = tuple(state[direction] for state in layer.states)

    def run(states: Any, slice_: Any) -> Any:
        inputs, time = slice_
        new_states = step(direction, states, inputs)
        if layer.lengths is None:
            return new_states, new_states[0]
        # After its end, a row keeps its states and returns zeros.
        is_active = (time < layer.lengths.cast("int64")).unsqueeze(1)
        masked = tuple(
            is_active.where(after, before) for after, before in zip(new_states, states, strict=True)
        )
        return masked, is_active.where(new_states[0], 0)

    final, outputs = sv.scan(run, initial, (x, Tensor.arange(n_steps, dtype="int64")))
    if layer.lengths is not None:
        # As in onnxruntime, an empty row does not keep its initial states.
        is_empty = (layer.lengths == 0).unsqueeze(1)
        final = [is_empty.where(0, state) for state in final]
    return _reverse(outputs, layer.lengths) if is_reverse else outputs, tuple(final)


def _reverse(x: Tensor, lengths: Tensor | None) -> Tensor:
    """Reverse the steps of each row up to its length."""
    if lengths is None:
        return x.flip(0)
    time = Tensor.arange(x.shape[0], dtype="int64").unsqueeze(1)
    length = lengths.cast("int64").unsqueeze(0)
    indices = (time < length).where(length - 1 - time, time).unsqueeze(-1)
    return x.take_along_axis(indices.broadcast_to(x.shape), 0)


def _split_biases(
    layer: RecurrentLayer, direction: int, n_gates: int
) -> tuple[list[Any], list[Any]]:
    """Input biases and state biases of each gate; zeros without biases."""
    if layer.biases is None:
        return [0.0] * n_gates, [0.0] * n_gates
    rows = layer.biases[direction].reshape(2 * n_gates, -1).unbind(0)
    return list(rows[:n_gates]), list(rows[n_gates:])


def _iter_gates(x: Tensor, n_gates: int) -> Iterator[Tensor]:
    return iter(x.reshape(*x.shape[:-1], n_gates, -1).unbind(-2))


@operator("RNN", precomputes=True)
def rnn(
    node: Call,
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    sequence_lens: Tensor | None = None,
    initial_h: Tensor | None = None,
    *,
    attributes: RecurrentAttributes,
) -> tuple[Tensor, ...]:
    """`h = f(x @ W.T + h @ R.T + b)`."""
    layer = make_layer(node, (x, w, r, b, sequence_lens), [initial_h], ["Tanh"], attributes)
    for nonlinearity in ("tanh", "relu"):
        if layer.is_plain(nonlinearity):
            run = partial(sv.rnn, nonlinearity=nonlinearity)
            return finish_layer(layer, *_run_fused(node, layer, run, [0]))
    functions = layer.list_activations()

    def step(direction: int, states: tuple[Tensor, ...], inputs: Tensor) -> tuple[Tensor, ...]:
        (input_bias,), (state_bias,) = _split_biases(layer, direction, 1)
        sums = inputs + states[0].linear(layer.recurrence[direction]) + input_bias + state_bias
        return (functions[direction](layer.limit(sums)),)

    return finish_layer(layer, *_run_steps(layer, step))


@dataclass(frozen=True, slots=True, kw_only=True)
class GruAttributes(RecurrentAttributes):
    """Attributes of GRU."""

    linear_before_reset: int = 0


@operator("GRU", precomputes=True)
def gru(
    node: Call,
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    sequence_lens: Tensor | None = None,
    initial_h: Tensor | None = None,
    *,
    attributes: GruAttributes,
) -> tuple[Tensor, ...]:
    """GRU with gates z, r, h:

    `h = (1 - z) * g(...) + z * h`. r multiplies the state, or for `linear_before_reset` its
    product.
    """
    layer = make_layer(
        node, (x, w, r, b, sequence_lens), [initial_h], ["Sigmoid", "Tanh"], attributes
    )
    # svod's fused layer resets the product, as cuDNN and torch do.
    if attributes.linear_before_reset and layer.is_plain("sigmoid", "tanh"):
        return finish_layer(layer, *_run_fused(node, layer, sv.gru, [1, 0, 2]))
    functions = layer.list_activations()

    def step(direction: int, states: tuple[Tensor, ...], inputs: Tensor) -> tuple[Tensor, ...]:
        f, g = functions[2 * direction : 2 * direction + 2]
        input_biases, state_biases = _split_biases(layer, direction, 3)
        (h,) = states
        update, reset, new = _iter_gates(inputs, 3)
        rows = layer.recurrence[direction].reshape(3, -1, *h.shape[-1:]).unbind(0)
        update_gate = f(layer.limit(update + h.linear(rows[0]) + input_biases[0] + state_biases[0]))
        reset_gate = f(layer.limit(reset + h.linear(rows[1]) + input_biases[1] + state_biases[1]))
        recurrent = (
            reset_gate * (h.linear(rows[2]) + state_biases[2])
            if attributes.linear_before_reset
            else (reset_gate * h).linear(rows[2]) + state_biases[2]
        )
        n = g(layer.limit(new + input_biases[2] + recurrent))
        return ((1 - update_gate) * n + update_gate * h,)

    return finish_layer(layer, *_run_steps(layer, step))


@dataclass(frozen=True, slots=True, kw_only=True)
class LstmAttributes(RecurrentAttributes):
    """Attributes of LSTM."""

    input_forget: int = 0


@operator("LSTM", precomputes=True)
def lstm(
    node: Call,
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    sequence_lens: Tensor | None = None,
    initial_h: Tensor | None = None,
    initial_c: Tensor | None = None,
    p: Tensor | None = None,
    *,
    attributes: LstmAttributes,
) -> tuple[Tensor, ...]:
    """LSTM with gates i, o, f, c.

    With peepholes i, o and f also read the cell; `input_forget` couples f to `1 - i`.
    """
    states = [initial_h, initial_c]
    layer = make_layer(
        node, (x, w, r, b, sequence_lens), states, ["Sigmoid", "Tanh", "Tanh"], attributes
    )
    # The fused layer returns the cell after the last step, and not at the end of each row.
    is_cell_known = sequence_lens is None or not node.has_output(2)
    # Peepholes, coupled gates, and cells of rows with lengths run step by step.
    if (
        p is None
        and not attributes.input_forget
        and is_cell_known
        and layer.is_plain("sigmoid", "tanh", "tanh")
    ):
        return finish_layer(layer, *_run_fused(node, layer, sv.lstm, [0, 2, 3, 1]))
    return finish_layer(layer, *run_lstm_steps(layer, p, is_coupled=bool(attributes.input_forget)))


def run_lstm_steps(
    layer: RecurrentLayer, peepholes: Tensor | None, *, is_coupled: bool
) -> tuple[Tensor, list[Tensor]]:
    """Outputs and final states of an LSTM, computed step by step.

    Args:
        layer: layer with a state and a cell, and three activations per direction.
        peepholes: of shape (directions, 3 * width); or None.
        is_coupled: whether the forget gate is `1 - input gate`.
    """
    functions = layer.list_activations()

    def step(direction: int, states: tuple[Tensor, ...], inputs: Tensor) -> tuple[Tensor, ...]:
        f, g, h_activation = functions[3 * direction : 3 * direction + 3]
        input_biases, state_biases = _split_biases(layer, direction, 4)
        h, c = states
        peephole_weights: list[Any] = (
            [0.0] * 3 if peepholes is None else list(peepholes[direction].reshape(3, -1).unbind(0))
        )
        sums = [
            from_inputs + from_state + input_bias + state_bias
            for from_inputs, from_state, input_bias, state_bias in zip(
                _iter_gates(inputs, 4),
                _iter_gates(layer.multiply_state(h, direction), 4),
                input_biases,
                state_biases,
                strict=True,
            )
        ]
        input_gate = f(layer.limit(sums[0] + peephole_weights[0] * c))
        forget_gate = (
            1 - input_gate if is_coupled else f(layer.limit(sums[2] + peephole_weights[2] * c))
        )
        cell = forget_gate * c + input_gate * g(layer.limit(sums[3]))
        output_gate = f(layer.limit(sums[1] + peephole_weights[1] * cell))
        return output_gate * h_activation(cell), cell

    return _run_steps(layer, step)
