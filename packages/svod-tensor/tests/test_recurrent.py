from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from svod_ir import OperandError, ShapeError
from svod_tensor import Tensor, Variable, gru, jit, lstm, rnn

GATES = {"lstm": 4, "gru": 3, "rnn": 1}
FUNCTIONS: dict[str, Callable[..., Any]] = {"lstm": lstm, "gru": gru, "rnn": rnn}


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def lstm_step(x: Any, h: Any, c: Any) -> tuple[Any, ...]:
    i, f, g, o = np.split(x + h, 4, axis=-1)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


def gru_step(x: Any, h: Any, state: Any) -> tuple[Any, ...]:
    (r, z, n), (r1, z1, n1) = np.split(x, 3, axis=-1), np.split(h, 3, axis=-1)
    z = sigmoid(z + z1)
    return ((1 - z) * np.tanh(n + sigmoid(r + r1) * n1) + z * state,)


STEPS: dict[str, Callable[..., tuple[Any, ...]]] = {
    "lstm": lambda x, h, state, c: lstm_step(x, h, c),
    "gru": gru_step,
    "rnn": lambda x, h, state: (np.tanh(x + h),),
    "relu": lambda x, h, state: (np.maximum(x + h, 0),),
}


def make_weights(
    rng, kind, n_inputs, width, *, layers=1, directions=1, has_biases=True, dtype="float32"
):
    weights = {}
    for layer in range(layers):
        for suffix in ("", "_reverse")[:directions]:
            rows = GATES[kind] * width
            weights[f"weight_ih_l{layer}{suffix}"] = (rows, n_inputs)
            weights[f"weight_hh_l{layer}{suffix}"] = (rows, width)
            if has_biases:
                weights[f"bias_ih_l{layer}{suffix}"] = weights[f"bias_hh_l{layer}{suffix}"] = (
                    rows,
                )
        n_inputs = directions * width
    return {name: rng.uniform(-0.7, 0.7, shape).astype(dtype) for name, shape in weights.items()}


def compute(step: str, x: Any, weights: Any, states: Any, *, layers: int = 1, directions: int = 1):
    """What numpy makes of x of shape (steps, batch, inputs): the outputs, and the states after the
    last step.
    """
    ends: list[tuple[Any, ...]] = []
    x, weights = x.astype("float64"), {n: w.astype("float64") for n, w in weights.items()}
    for layer in range(layers):
        made = []
        for suffix in ("", "_reverse")[:directions]:
            w_ih, w_hh = (weights[f"weight_{k}_l{layer}{suffix}"] for k in ("ih", "hh"))
            b_ih, b_hh = (weights.get(f"bias_{k}_l{layer}{suffix}", 0) for k in ("ih", "hh"))
            state = tuple(s[len(ends)].astype("float64") for s in states)
            outputs = np.zeros((len(x), *state[0].shape))
            for t in range(len(x))[:: -1 if suffix else 1]:
                state = STEPS[step](x[t] @ w_ih.T + b_ih, state[0] @ w_hh.T + b_hh, *state)
                outputs[t] = state[0]
            ends.append(state)
            made.append(outputs)
        x = np.concatenate(made, -1)
    return x, [np.stack(kind) for kind in zip(*ends, strict=True)]


def to_tensors(weights: dict[str, Any]) -> dict[str, Tensor]:
    return {name: Tensor(w) for name, w in weights.items()}


def compare(kind: str, found: Any, wanted: Any, tolerance: float = 1e-5) -> None:
    output, ends = found
    ends = ends if kind == "lstm" else (ends,)
    for tensor, array in zip((output, *ends), (wanted[0], *wanted[1]), strict=True):
        assert tensor.shape == array.shape
        np.testing.assert_allclose(tensor.numpy(), array, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    ("layers", "directions", "has_biases"),
    [(1, 1, True), (2, 1, False), (1, 2, False), (2, 2, True)],
)
@pytest.mark.parametrize("kind", FUNCTIONS)
def test_layers_and_directions_agree_with_the_formulas(
    rng, kind, layers, directions, has_biases
) -> None:
    x = rng.standard_normal((5, 3, 4)).astype("float32")
    weights = make_weights(
        rng, kind, 4, 6, layers=layers, directions=directions, has_biases=has_biases
    )
    states = [
        rng.standard_normal((layers * directions, 3, 6)).astype("float32")
        for _ in range(1 + (kind == "lstm"))
    ]
    hx = tuple(Tensor(s) for s in states)
    options: dict[str, Any] = {"num_layers": layers, "bidirectional": directions == 2}
    found = FUNCTIONS[kind](
        Tensor(x), to_tensors(weights), hx if kind == "lstm" else hx[0], **options
    )
    compare(kind, found, compute(kind, x, weights, states, layers=layers, directions=directions))


@pytest.mark.parametrize("kind", FUNCTIONS)
def test_states_default_to_zero_and_the_batch_axis_may_be_first_or_missing(rng, kind) -> None:
    x = rng.standard_normal((2, 7, 4)).astype("float32")
    weights = make_weights(rng, kind, 4, 3)
    zeros = [np.zeros((1, 2, 3), "float32")] * (1 + (kind == "lstm"))
    output, ends = compute(kind, x.transpose(1, 0, 2), weights, zeros)
    given = list(to_tensors(weights).values())
    compare(
        kind, FUNCTIONS[kind](Tensor(x), given, batch_first=True), (output.transpose(1, 0, 2), ends)
    )
    compare(kind, FUNCTIONS[kind](Tensor(x[1]), given), (output[:, 1], [end[:, 1] for end in ends]))


def test_the_nonlinearity_of_rnn_may_be_relu(rng) -> None:
    x, weights = rng.standard_normal((4, 2, 3)).astype("float32"), make_weights(rng, "rnn", 3, 5)
    wanted = compute("relu", x, weights, [np.zeros((1, 2, 5))])
    compare("rnn", rnn(Tensor(x), to_tensors(weights), nonlinearity="relu"), wanted)
    with pytest.raises(OperandError, match="rnn: expected 'tanh' or 'relu', got 'gelu'"):
        rnn(Tensor(x), to_tensors(weights), nonlinearity="gelu")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("kind", FUNCTIONS)
@pytest.mark.parametrize(("batch", "width"), [(1, 64), (6, 64), (3, 40), (2, 0)])
def test_weights_of_every_width_are_packed_for_products(rng, kind, batch, width) -> None:
    x = rng.standard_normal((3, batch, 4)).astype("float32")
    weights = {name: w / 4 for name, w in make_weights(rng, kind, 4, width).items()}
    states = [
        rng.standard_normal((1, batch, width)).astype("float32")
        for _ in range(1 + (kind == "lstm"))
    ]
    hx = tuple(Tensor(s) for s in states)
    found = FUNCTIONS[kind](Tensor(x), to_tensors(weights), hx if kind == "lstm" else hx[0])
    compare(kind, found, compute(kind, x, weights, states))


@pytest.mark.parametrize("kind", FUNCTIONS)
@pytest.mark.parametrize(
    "shape", [(0, 3, 4), (1, 3, 4), (4, 0, 4), (4, 1, 4), (3, 2, 0), (2, 3, 1)]
)
def test_every_size_may_be_zero_or_one(rng, shape, kind) -> None:
    x, weights = rng.standard_normal(shape).astype("float32"), make_weights(rng, kind, shape[2], 3)
    states = [
        rng.standard_normal((1, shape[1], 3)).astype("float32") for _ in range(1 + (kind == "lstm"))
    ]
    hx = tuple(Tensor(s) for s in states)
    found = FUNCTIONS[kind](Tensor(x), to_tensors(weights), hx if kind == "lstm" else hx[0])
    compare(kind, found, compute(kind, x, weights, states))


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [("float16", 1e-3), ("float64", 1e-12), ("int32", 1e-5)]
)
def test_floats_are_rounded_once_and_integers_become_float32(rng, dtype, tolerance) -> None:
    x = (rng.standard_normal((6, 2, 4)) * 2).astype(dtype)
    weights = make_weights(rng, "lstm", 4, 3, dtype="float64" if dtype == "float64" else "float16")
    if dtype == "int32":
        weights = {name: (4 * w).astype("int32") for name, w in weights.items()}
    found = lstm(Tensor(x), to_tensors(weights))
    assert {t.dtype.name for t in (found[0], *found[1])} == {
        "float32" if dtype == "int32" else dtype
    }
    compare("lstm", found, compute("lstm", x, weights, [np.zeros((1, 2, 3))] * 2), tolerance)


def test_the_number_of_steps_may_be_a_variable(rng) -> None:
    x, weights = rng.standard_normal((8, 2, 4)).astype("float32"), make_weights(rng, "gru", 4, 3)
    steps, given = Variable("steps", 0, 8), Tensor(x)
    run = jit(lambda n: gru(given[:n], to_tensors(weights)))
    for n in (3, 8, 1):
        output, end = run(steps.bind(n))
        wanted, ends = compute("gru", x[:n], weights, [np.zeros((1, 2, 3))])
        np.testing.assert_allclose(end.numpy(), ends[0], rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(output.numpy(), wanted, rtol=1e-5, atol=1e-5)


def test_a_batch_may_be_split_over_devices(rng) -> None:
    x, weights = rng.standard_normal((5, 4, 3)).astype("float32"), make_weights(rng, "lstm", 3, 8)
    devices = ("CPU:0", "CPU:1")
    split = {name: tensor.shard(devices) for name, tensor in to_tensors(weights).items()}
    output, ends = lstm(Tensor(x).shard(devices, 1), split)
    assert output.sharding is not None
    assert output.sharding.axis == 1
    compare("lstm", (output, ends), compute("lstm", x, weights, [np.zeros((1, 4, 8))] * 2))


def test_a_stream_continues_from_the_final_state(rng) -> None:
    x, weights = rng.standard_normal((6, 2, 3)).astype("float32"), make_weights(rng, "lstm", 3, 4)
    given = to_tensors(weights)
    run = jit(lambda x, h, c: lstm(x, given, (h, c)), donate=("h", "c"))
    h = c = np.zeros((1, 2, 4), "float32")
    h, c, outputs = Tensor(h), Tensor(c), []
    for begin in range(0, 6, 2):
        output, (h, c) = run(Tensor(x[begin : begin + 2]), h, c)
        outputs.append(output.numpy())
    wanted, ends = compute("lstm", x, weights, [np.zeros((1, 2, 4))] * 2)
    np.testing.assert_allclose(np.concatenate(outputs), wanted, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(c.numpy(), ends[1], rtol=1e-5, atol=1e-6)


def test_invalid_arguments_are_errors(rng) -> None:
    x, weights = Tensor.zeros(4, 2, 3), to_tensors(make_weights(rng, "lstm", 3, 5, layers=2))
    with pytest.raises(
        OperandError, match="got weights with weight_ih_l1, weight_hh_l1, bias_ih_l1, bias_hh_l1"
    ):
        lstm(x, weights)
    with pytest.raises(OperandError, match="got weights without weight_ih_l0_reverse"):
        lstm(x, weights, bidirectional=True)
    with pytest.raises(
        OperandError,
        match="the weights weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0, got 3 weights",
    ):
        lstm(x, list(weights.values())[:3])
    with pytest.raises(
        ShapeError, match=r"lstm: expected weight_ih_l0 of shape \(20, 2\), got \(20, 3\)"
    ):
        lstm(x[:, :, :2], weights, num_layers=2)
    with pytest.raises(
        ShapeError, match=r"lstm: expected hx of shape \(2, 2, 5\), got \(2, 2, 4\)"
    ):
        lstm(x, weights, (Tensor.zeros(2, 2, 4), Tensor.zeros(2, 2, 4)), num_layers=2)
    with pytest.raises(
        ShapeError, match=r"gru: expected an input of shape \(steps, batch, inputs\), got"
    ):
        gru(x[0, 0], [])
    with pytest.raises(OperandError, match="gru: expected at least one layer, got 0"):
        gru(x, [], num_layers=0)
