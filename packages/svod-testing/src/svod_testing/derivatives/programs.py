"""Random compositions of differentiable operations, for svod and for JAX.

Values are small matrices, some of whose axes have size 1 and broadcast. Operations are bounded, so
that their compositions are too."""

# jax has no types here: it is not installed where this is checked.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownParameterType=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from svod_tensor import Tensor

__all__ = [
    "BINARY",
    "FUNCTIONS",
    "MATRICES",
    "REDUCTIONS",
    "UNARY",
    "DerivativeProgram",
    "draw_derivative_program",
]


class _DerivativeCall(NamedTuple):
    """Operation on tensors, and its counterpart on `jax` and its arrays."""

    call: Callable[..., Any]
    peer: Callable[..., Any]


def _same(call: Callable[..., Any]) -> _DerivativeCall:
    """Call with the same source in both libraries."""
    return _DerivativeCall(call, lambda _, *args: call(*args))


def _reduce(name: str) -> _DerivativeCall:
    return _DerivativeCall(
        lambda x, axis: getattr(x, name)(axis, keepdims=True),
        lambda j, x, axis: getattr(j.numpy, name)(x, axis, keepdims=True),
    )


_ROWS: Final = [1, 0, 1]

# fmt: off
UNARY: Final = {
    "sin": _DerivativeCall(lambda x: x.sin(), lambda j, x: j.numpy.sin(x)),
    "cos": _DerivativeCall(lambda x: x.cos(), lambda j, x: j.numpy.cos(x)),
    "tanh": _DerivativeCall(lambda x: x.tanh(), lambda j, x: j.numpy.tanh(x)),
    "sigmoid": _DerivativeCall(lambda x: x.sigmoid(), lambda j, x: j.nn.sigmoid(x)),
    "exp": _DerivativeCall(lambda x: (-x.abs()).exp(), lambda j, x: j.numpy.exp(-abs(x))),
    "expm1": _DerivativeCall(lambda x: x.tanh().expm1(), lambda j, x: j.numpy.expm1(j.numpy.tanh(x))),
    "sqrt": _DerivativeCall(lambda x: (x * x + 1).sqrt(), lambda j, x: j.numpy.sqrt(x * x + 1)),
    "rsqrt": _DerivativeCall(lambda x: (x * x + 0.5).rsqrt(), lambda j, x: j.lax.rsqrt(x * x + 0.5)),
    "log": _DerivativeCall(lambda x: (x * x + 0.5).log(), lambda j, x: j.numpy.log(x * x + 0.5)),
    "log1p": _DerivativeCall(lambda x: x.abs().log1p(), lambda j, x: j.numpy.log1p(abs(x))),
    "softplus": _DerivativeCall(lambda x: x.softplus(), lambda j, x: j.nn.softplus(x)),
    "gelu": _DerivativeCall(lambda x: x.gelu(), lambda j, x: j.nn.gelu(x, approximate=False)),
    "gelu-tanh": _DerivativeCall(lambda x: x.gelu("tanh"), lambda j, x: j.nn.gelu(x)),
    "silu": _DerivativeCall(lambda x: x.silu(), lambda j, x: j.nn.silu(x)),
    "relu": _DerivativeCall(lambda x: x.relu(), lambda j, x: j.nn.relu(x)),
    "elu": _DerivativeCall(lambda x: x.elu(), lambda j, x: j.nn.elu(x)),
    "atan": _DerivativeCall(lambda x: x.atan(), lambda j, x: j.numpy.arctan(x)),
    "asinh": _DerivativeCall(lambda x: x.asinh(), lambda j, x: j.numpy.arcsinh(x)),
    "asin": _DerivativeCall(lambda x: (x.tanh() * 0.9).asin(), lambda j, x: j.numpy.arcsin(j.numpy.tanh(x) * 0.9)),
    "erf": _DerivativeCall(lambda x: x.erf(), lambda j, x: j.scipy.special.erf(x)),
    "reciprocal": _same(lambda x: 1 / (x * x + 0.5)),
    "neg": _same(lambda x: -x),
    "square": _same(lambda x: x * x * 0.5),
    "power": _same(lambda x: (x * x + 0.5) ** 1.5 * 0.2),
    "transpose": _same(lambda x: x.T),
    "flip": _DerivativeCall(lambda x: x.flip(0), lambda j, x: x[::-1]),
    "slice": _same(lambda x: x[: max(1, x.shape[0] - 1), x.shape[1] // 2 :]),
    "pad": _DerivativeCall(lambda x: x.pad((1, 0), (0, 1)), lambda j, x: j.numpy.pad(x, ((1, 0), (0, 1)))),
    "roll": _DerivativeCall(lambda x: x.roll(1, 1), lambda j, x: j.numpy.roll(x, 1, 1)),
    "repeat": _DerivativeCall(lambda x: x.tile(2, 1), lambda j, x: j.numpy.tile(x, (2, 1))),
    "reshape": _same(lambda x: x.reshape(1, -1)),
    "take": _DerivativeCall(lambda x: x.tile(2, 1).take(_ROWS, 0), lambda j, x: j.numpy.tile(x, (2, 1))[np.array(_ROWS)]),
    "tril": _DerivativeCall(lambda x: x.tril(), lambda j, x: j.numpy.tril(x)),
    "softmax": _DerivativeCall(lambda x: x.softmax(1), lambda j, x: j.nn.softmax(x, 1)),
    "log_softmax": _DerivativeCall(lambda x: x.log_softmax(0), lambda j, x: j.nn.log_softmax(x, 0)),
    "layernorm": _DerivativeCall(lambda x: x.layernorm(1, 0.5), lambda j, x: j.nn.standardize(x, 1, epsilon=0.5)),
    "cumsum": _DerivativeCall(lambda x: x.cumsum(1), lambda j, x: x.cumsum(1)),
    "cumprod": _DerivativeCall(lambda x: x.cos().cumprod(0), lambda j, x: j.numpy.cos(x).cumprod(0)),
    "sort": _DerivativeCall(lambda x: x.sort(1), lambda j, x: j.numpy.sort(x, 1)),
    "clip": _DerivativeCall(lambda x: x.clip(-0.7, 0.9), lambda j, x: j.numpy.clip(x, -0.7, 0.9)),
    "detach": _DerivativeCall(lambda x: x * x.detach().tanh(), lambda j, x: x * j.numpy.tanh(j.lax.stop_gradient(x))),
}

BINARY: Final = {
    "add": _same(lambda x, y: x + y),
    "sub": _same(lambda x, y: x - y),
    "mul": _same(lambda x, y: x * y * 0.7),
    "div": _same(lambda x, y: x / (y * y + 0.5)),
    "maximum": _DerivativeCall(lambda x, y: x.maximum(y), lambda j, x, y: j.numpy.maximum(x, y)),
    "minimum": _DerivativeCall(lambda x, y: x.minimum(y), lambda j, x, y: j.numpy.minimum(x, y)),
    "where": _DerivativeCall(lambda x, y: (x > 0.3).where(x.sin(), y), lambda j, x, y: j.numpy.where(x > 0.3, j.numpy.sin(x), y)),
    "atan2": _DerivativeCall(lambda x, y: x.atan2(y * y + 0.5), lambda j, x, y: j.numpy.arctan2(x, y * y + 0.5)),
    "hypot": _DerivativeCall(lambda x, y: x.hypot(y * y + 0.5), lambda j, x, y: j.numpy.hypot(x, y * y + 0.5)),
    "logaddexp": _DerivativeCall(lambda x, y: x.logaddexp(y), lambda j, x, y: j.numpy.logaddexp(x, y)),
    "pow": _DerivativeCall(lambda x, y: (x * x + 0.5) ** y.tanh(), lambda j, x, y: (x * x + 0.5) ** j.numpy.tanh(y)),
}

MATRICES: Final = {
    "matmul": _same(lambda x, y: x @ y.T * 0.3),
    "concat": _DerivativeCall(lambda x, y: Tensor.concat([x, y], 0), lambda j, x, y: j.numpy.concatenate([x, y], 0)),
    "add_at": _DerivativeCall(lambda x, y: x.add_at([0] * y.shape[0], y), lambda j, x, y: x.at[np.zeros(y.shape[0], int)].add(y)),
    "attention": _DerivativeCall(
        lambda x, y: x.scaled_dot_product_attention(y, y, is_causal=x.shape[0] > 1),
        lambda j, x, y: j.nn.softmax(j.numpy.where(np.tri(x.shape[0], y.shape[0], dtype=bool) | (x.shape[0] < 2), x @ y.T / x.shape[1] ** 0.5, -np.inf), -1) @ y
    ),
}

REDUCTIONS: Final = {
    **{name: _reduce(name) for name in ("sum", "mean", "max", "min", "var")},
    "prod": _DerivativeCall(lambda x, axis: x.cos().prod(axis, keepdims=True), lambda j, x, axis: j.numpy.cos(x).prod(axis, keepdims=True)),
    "logsumexp": _DerivativeCall(lambda x, axis: x.logsumexp(axis, keepdims=True), lambda j, x, axis: j.nn.logsumexp(x, axis, keepdims=True)),
    "norm": _DerivativeCall(lambda x, axis: x.tanh().cosh().norm(axis, keepdims=True), lambda j, x, axis: j.numpy.linalg.norm(j.numpy.cosh(j.numpy.tanh(x)), axis=axis, keepdims=True)),
}
# fmt: on

FUNCTIONS: Final = {**UNARY, **BINARY, **MATRICES, **REDUCTIONS}
"""All operations, by name."""


class _DerivativeStep(NamedTuple):
    name: str
    operands: tuple[int, ...]
    arguments: tuple[int, ...]


@dataclass(frozen=True)
class DerivativeProgram:
    """Steps from matrices to a scalar.

    Attributes:
        inputs: input arrays of float64, which are the values of lowest index.
        steps: steps, each of which computes a value from earlier ones.
        weights: weights of the last values; the result is the weighted sum of their sines.
    """

    inputs: tuple[np.ndarray, ...]
    steps: tuple[_DerivativeStep, ...]
    weights: tuple[float, ...]

    def compute(self, *inputs: Tensor) -> Tensor:
        """Compute the result with svod."""
        values: list[Any] = list(inputs)
        for step in self.steps:
            values.append(
                FUNCTIONS[step.name].call(*(values[i] for i in step.operands), *step.arguments)
            )
        return self._add_up(values, lambda x: x.sin().mean())

    def compute_with_jax(self, jax: Any, *inputs: Any) -> Any:
        """Compute the result with JAX."""
        values = list(inputs)
        for step in self.steps:
            values.append(
                FUNCTIONS[step.name].peer(jax, *(values[i] for i in step.operands), *step.arguments)
            )
        return self._add_up(values, lambda x: jax.numpy.sin(x).mean())

    def _add_up(self, values: Sequence[Any], squash: Callable[[Any], Any]) -> Any:
        terms = [
            squash(v) * w for v, w in zip(values[-len(self.weights) :], self.weights, strict=True)
        ]
        total = terms[0]
        for term in terms[1:]:
            total = total + term
        return total


def draw_derivative_program(seed: int, n_steps: int = 8) -> DerivativeProgram:
    """Generate the program of a seed."""
    rng = np.random.default_rng(seed)
    rows, columns = (int(n) for n in rng.integers(1, 5, 2))
    shapes = [(rows, columns), (1, columns), (rows, 1)][: int(rng.integers(1, 4))]
    inputs = tuple(rng.normal(0, 1, shape) for shape in shapes)
    values: list[Any] = [Tensor(x) for x in inputs]
    steps: list[_DerivativeStep] = []
    while len(steps) < n_steps:
        step = _draw_step(rng, values)
        value = FUNCTIONS[step.name].call(*(values[i] for i in step.operands), *step.arguments)
        if value.size <= 60:
            values.append(value)
            steps.append(step)
    return DerivativeProgram(inputs, tuple(steps), tuple(float(w) for w in rng.normal(0, 1, 3)))


def _draw_step(rng: np.random.Generator, values: Sequence[Any]) -> _DerivativeStep:
    kind = rng.choice(4, p=[0.45, 0.3, 0.1, 0.15])
    # Later values are likelier, so that programs are deep.
    first = _draw_operand(rng, range(len(values)))
    shape = values[first].shape
    if kind == 0:
        return _DerivativeStep(_draw_name(rng, UNARY), (first,), ())
    if kind == 3:
        return _DerivativeStep(_draw_name(rng, REDUCTIONS), (first,), (int(rng.integers(2)),))
    if kind == 1:
        fitting = [
            i
            for i, v in enumerate(values)
            if all(a == b or 1 in (a, b) for a, b in zip(v.shape, shape, strict=True))
        ]
        return _DerivativeStep(_draw_name(rng, BINARY), (first, _draw_operand(rng, fitting)), ())
    fitting = [i for i, v in enumerate(values) if v.shape[1] == shape[1]]
    return _DerivativeStep(_draw_name(rng, MATRICES), (first, _draw_operand(rng, fitting)), ())


def _draw_operand(rng: np.random.Generator, numbers: Sequence[int]) -> int:
    return numbers[max(int(rng.integers(len(numbers))), int(rng.integers(len(numbers))))]


def _draw_name(rng: np.random.Generator, table: dict[str, _DerivativeCall]) -> str:
    return list(table)[int(rng.integers(len(table)))]
