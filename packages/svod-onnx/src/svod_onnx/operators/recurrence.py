"""Recurrent layers."""

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
"""Of a tensor and the number of a direction, the product with the weights of that direction, of shape (..., gates * width)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecurrentAttributes:
    """Attributes of recurrent operators. Activations and their parameters are listed direction by direction."""

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
    """Operands and attributes of an RNN, a GRU or an LSTM, with the steps as the leading axis.

    Attributes:
        x: of shape (steps, batch, inputs).
        weights: of the inputs, of shape (directions, gates * width, inputs).
        recurrence: weights of the state, of shape (directions, gates * width, width).
        biases: of shape (directions, 2 * gates * width), those of the inputs first; or None.
        lengths: number of steps of each row of the batch; None where every row has all steps.
        states: initial states, each of shape (directions, batch, width).
        activations: names of the activations of each direction, concatenated.
        attributes: of the node.
        products: functions that multiply the inputs, and a state, by the weights of a direction; None for plain products.
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

    def multiply_inputs(self, number: int) -> Tensor:
        """The inputs of all steps times the weights of a direction."""
        return self.products[0](self.x, number) if self.products else self.x.linear(self.weights[number])

    def multiply_state(self, h: Tensor, number: int) -> Tensor:
        """A state times the weights of a direction."""
        return self.products[1](h, number) if self.products else h.linear(self.recurrence[number])

    @property
    def n_directions(self) -> int:
        return self.attributes.n_directions

    def is_plain(self, *names: str) -> bool:
        """Whether its activations have these names in each direction, and nothing else is unusual."""
        found = tuple(name.lower() for name in self.activations)
        return found == names * self.n_directions and not self.attributes.clip

    def list_activations(self) -> list[Activation]:
        """The activations; those that have parameters take the next ones that are given."""
        alphas, betas = iter(self.attributes.activation_alpha or ()), iter(self.attributes.activation_beta or ())
        made: list[Activation] = []
        for name in self.activations:
            function = NAMED_ACTIVATIONS.get(name.lower())
            if function is None:
                raise ValueError(f"has no activation {name!r}; there are {', '.join(sorted(NAMED_ACTIVATIONS))}")
            alpha = None if function.alpha is None else next(alphas, function.alpha)
            beta = None if function.beta is None else next(betas, function.beta)
            made.append(function.make(alpha, beta))
        return made

    def limit(self, x: Tensor) -> Tensor:
        clip = self.attributes.clip
        return x.maximum(-clip).minimum(clip) if clip else x


_Step = Callable[[int, tuple[Tensor, ...], Tensor], tuple[Tensor, ...]]
"""What is carried after a step: of a direction, what was carried, and the products of the inputs of shape (batch, gates * width)."""


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
        states: initial states; None stands for zeros.
        activations: names of the default activations of one direction.
        attributes: of the node.
        products: as in `RecurrentLayer`.
    """
    x, weights, recurrence, biases, lengths = operands
    n_directions = attributes.n_directions
    if weights.shape[0] != n_directions:
        raise node.refuse(f"is {attributes.direction}, and has weights of {weights.shape[0]} directions")
    steps = x.transpose(0, 1) if attributes.layout else x
    zeros = Tensor.zeros(n_directions, steps.shape[1], recurrence.shape[2], dtype=x.dtype)
    initial = tuple(
        zeros if state is None else state.transpose(0, 1) if attributes.layout else state for state in states
    )
    names = tuple(attributes.activations or (*activations,) * n_directions)
    return RecurrentLayer(steps, weights, recurrence, biases, lengths, initial, names, attributes, products)


def finish_layer(layer: RecurrentLayer, outputs: Tensor, ends: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Return the results of the node: outputs and last states, with the batch as the leading axis for `layout` 1.

    Args:
        layer: the layer.
        outputs: of shape (steps, directions, batch, width).
        ends: last states, each of shape (directions, batch, width).
    """
    dtype = layer.x.dtype
    if layer.attributes.layout:
        outputs, ends = outputs.permute(2, 0, 1, 3), [end.transpose(0, 1) for end in ends]
    return outputs.cast(dtype), *(end.cast(dtype) for end in ends)


_Run = Callable[..., tuple[Tensor, Any]]
"""A layer of svod: of inputs, weights and states, and whether it is `bidirectional`, the outputs and the last states."""


def _run_fused(node: Call, layer: RecurrentLayer, run: _Run, order: Sequence[int]) -> tuple[Tensor, list[Tensor]]:
    """By a layer of svod, whose gates have another order.

    Args:
        node: whose weights are put into that order once.
        layer: with plain activations.
        run: one or two directions of it.
        order: which gate of ONNX is each of svod's.

    Returns:
        the outputs, and the last states; where rows have lengths, the first of these alone.
    """
    n = len(order)
    is_in_order = list(order) == list(range(n))

    def arrange(label: str, source: Tensor, number: int, half: int | None = None) -> Tensor:
        def compute(source: Tensor) -> Tensor:
            rows = source[number] if half is None else source[number].reshape(2, -1)[half]
            gates = rows.reshape(n, -1, *rows.shape[1:])
            return rows if is_in_order else Tensor.concat([gates[gate] for gate in order])

        return node.precompute(f"{label}{number}", compute, source)

    weights: list[list[Tensor]] = []
    for number in range(layer.n_directions):
        weights.append([arrange("inputs", layer.weights, number), arrange("states", layer.recurrence, number)])
        if layer.biases is not None:
            weights[-1] += [arrange(f"biases{half}.", layer.biases, number, half) for half in range(2)]
    if layer.lengths is not None:
        rows = [
            _run_to_lengths(layer, layer.lengths.cast("int64"), run, number, weights[number])
            for number in range(len(weights))
        ]
        return Tensor.stack([outputs for outputs, _ in rows], axis=1), [Tensor.stack([end for _, end in rows])]
    is_reverse = layer.attributes.is_reverse
    x = layer.x.flip(0) if is_reverse else layer.x
    outputs, ends = run(x, [*chain(*weights)], _join_states(layer.states), bidirectional=layer.n_directions == 2)
    steps, batch, width = outputs.shape
    outputs = outputs.reshape(steps, batch, layer.n_directions, width // layer.n_directions).permute(0, 2, 1, 3)
    return outputs.flip(0) if is_reverse else outputs, [*ends] if isinstance(ends, tuple) else [ends]


def _join_states(states: Sequence[Tensor]) -> Any:
    return tuple(states) if len(states) > 1 else states[0]


def _run_to_lengths(
    layer: RecurrentLayer, lengths: Tensor, run: _Run, number: int, weights: Sequence[Tensor]
) -> tuple[Tensor, Tensor]:
    """The outputs of one direction and the state at the end of each row: what is computed behind the end is left out afterwards."""
    is_reverse = layer.attributes.is_reverse or number == 1
    x = _reverse(layer.x, lengths) if is_reverse else layer.x
    states = [state[number : number + 1] for state in layer.states]
    outputs, _ = run(x, weights, _join_states(states), bidirectional=False)
    time = Tensor.arange(x.shape[0], dtype="int64").unsqueeze(1)
    outputs = (time < lengths).unsqueeze(-1).where(outputs, 0)
    end = (time == lengths - 1).unsqueeze(-1).where(outputs, 0).sum(0)
    end = (lengths == 0).unsqueeze(-1).where(states[0][0], end)
    return _reverse(outputs, lengths) if is_reverse else outputs, end


def _run_steps(layer: RecurrentLayer, step: _Step) -> tuple[Tensor, list[Tensor]]:
    """By one step after the other, in each direction."""
    made = [_run_direction(layer, number, step) for number in range(layer.n_directions)]
    outputs = Tensor.stack([outputs for outputs, _ in made], axis=1)
    return outputs, [Tensor.stack(list(ends)) for ends in zip(*(ends for _, ends in made), strict=True)]


def _run_direction(layer: RecurrentLayer, number: int, step: _Step) -> tuple[Tensor, tuple[Tensor, ...]]:
    is_reverse = layer.attributes.is_reverse or number == 1
    n_steps = layer.x.shape[0]
    x = layer.multiply_inputs(number)
    if is_reverse:
        x = _reverse(x, layer.lengths)
    begin = tuple(state[number] for state in layer.states)

    def run(carried: Any, now: Any) -> Any:
        inputs, time = now
        states = carried
        new = step(number, states, inputs)
        if layer.lengths is None:
            return new, new[0]
        # A row that has ended keeps its states, and gives zeros.
        goes_on = (time < layer.lengths.cast("int64")).unsqueeze(1)
        kept = tuple(goes_on.where(one, other) for one, other in zip(new, states, strict=True))
        return kept, goes_on.where(new[0], 0)

    ends, outputs = sv.scan(run, begin, (x, Tensor.arange(n_steps, dtype="int64")))
    return _reverse(outputs, layer.lengths) if is_reverse else outputs, tuple(ends)


def _reverse(x: Tensor, lengths: Tensor | None) -> Tensor:
    """The steps of each row in the opposite order, up to its length."""
    if lengths is None:
        return x.flip(0)
    time = Tensor.arange(x.shape[0], dtype="int64").unsqueeze(1)
    length = lengths.cast("int64").unsqueeze(0)
    places = (time < length).where(length - 1 - time, time).unsqueeze(-1)
    return x.take_along_axis(places.broadcast_to(x.shape), 0)


def _split_biases(layer: RecurrentLayer, number: int, n_gates: int) -> tuple[list[Any], list[Any]]:
    """The biases of the inputs and of the states, one for each gate; zeros where there are none."""
    if layer.biases is None:
        return [0.0] * n_gates, [0.0] * n_gates
    rows = layer.biases[number].reshape(2 * n_gates, -1).unbind(0)
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

    def step(number: int, states: tuple[Tensor, ...], inputs: Tensor) -> tuple[Tensor, ...]:
        (of_inputs,), (of_states,) = _split_biases(layer, number, 1)
        total = inputs + states[0].linear(layer.recurrence[number]) + of_inputs + of_states
        return (functions[number](layer.limit(total)),)

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
    """Gates z, r, h: `h = (1 - z) * g(...) + z * h`, where r applies to the state, or to its product with the weights."""
    layer = make_layer(node, (x, w, r, b, sequence_lens), [initial_h], ["Sigmoid", "Tanh"], attributes)
    if attributes.linear_before_reset and layer.is_plain("sigmoid", "tanh"):
        return finish_layer(layer, *_run_fused(node, layer, sv.gru, [1, 0, 2]))
    functions = layer.list_activations()

    def step(number: int, states: tuple[Tensor, ...], inputs: Tensor) -> tuple[Tensor, ...]:
        f, g = functions[2 * number : 2 * number + 2]
        of_inputs, of_states = _split_biases(layer, number, 3)
        (h,) = states
        update, reset, new = _iter_gates(inputs, 3)
        rows = layer.recurrence[number].reshape(3, -1, *h.shape[-1:]).unbind(0)
        update_gate = f(layer.limit(update + h.linear(rows[0]) + of_inputs[0] + of_states[0]))
        reset_gate = f(layer.limit(reset + h.linear(rows[1]) + of_inputs[1] + of_states[1]))
        behind = (
            reset_gate * (h.linear(rows[2]) + of_states[2])
            if attributes.linear_before_reset
            else (reset_gate * h).linear(rows[2]) + of_states[2]
        )
        n = g(layer.limit(new + of_inputs[2] + behind))
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
    """Gates i, o, f, c; with peepholes the first three look at the cell, and coupled ones forget as much as they let in."""
    states = [initial_h, initial_c]
    layer = make_layer(node, (x, w, r, b, sequence_lens), states, ["Sigmoid", "Tanh", "Tanh"], attributes)
    # Of the cells, the fused layer gives those after the last step alone.
    is_cell_known = sequence_lens is None or not node.has_output(2)
    if p is None and not attributes.input_forget and is_cell_known and layer.is_plain("sigmoid", "tanh", "tanh"):
        return finish_layer(layer, *_run_fused(node, layer, sv.lstm, [0, 2, 3, 1]))
    return finish_layer(layer, *run_lstm_steps(layer, p, couples=bool(attributes.input_forget)))


def run_lstm_steps(layer: RecurrentLayer, peepholes: Tensor | None, *, couples: bool) -> tuple[Tensor, list[Tensor]]:
    """The outputs and the last states of an LSTM, by one step after the other.

    Args:
        layer: with a state and a cell, and three activations for each direction.
        peepholes: (directions, 3 * width), by which gates look at the cell; or None.
        couples: whether as much is forgotten as is let in.
    """
    functions = layer.list_activations()

    def step(number: int, states: tuple[Tensor, ...], inputs: Tensor) -> tuple[Tensor, ...]:
        f, g, finish = functions[3 * number : 3 * number + 3]
        of_inputs, of_states = _split_biases(layer, number, 4)
        h, c = states
        looks: list[Any] = [0.0] * 3 if peepholes is None else list(peepholes[number].reshape(3, -1).unbind(0))
        sums = [
            inner + outer + one + other
            for inner, outer, one, other in zip(
                _iter_gates(inputs, 4),
                _iter_gates(layer.multiply_state(h, number), 4),
                of_inputs,
                of_states,
                strict=True,
            )
        ]
        enter = f(layer.limit(sums[0] + looks[0] * c))
        forget = 1 - enter if couples else f(layer.limit(sums[2] + looks[2] * c))
        cell = forget * c + enter * g(layer.limit(sums[3]))
        leave = f(layer.limit(sums[1] + looks[1] * cell))
        return leave * finish(cell), cell

    return _run_steps(layer, step)
