"""svod, torch and jax as libraries that train networks."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from training_interface import AdamW, Library, Network, Sgd, Step

__all__ = ["Jax", "Svod", "Torch", "find_libraries"]


def find_libraries(names: Sequence[str]) -> list[Library]:
    """Return the installed libraries of `names`."""
    makers: dict[str, Callable[[], Library]] = {
        "svod": Svod,
        "torch": Torch,
        "torch.compile": lambda: Torch(is_compiled=True),
        "jax": Jax,
    }
    libraries: list[Library] = []
    for name in names:
        try:
            libraries.append(makers[name]())
        except ImportError:
            print(f"without {name}: it is not installed")
    return libraries


class Svod(Library):
    name = "svod"

    def __init__(self) -> None:
        import svod_tensor

        if not hasattr(svod_tensor, "value_and_grad"):
            raise ImportError(name="svod_tensor.value_and_grad")
        self._svod = svod_tensor

    def make_step(self, network: Network) -> Step:
        tensor, make_zeros = self._svod.Tensor, self._svod.Tensor.zeros
        weights = {name: tensor(value).realize() for name, value in network.weights.items()}
        n_states = (
            2 if isinstance(network.optimizer, AdamW) else 1 if network.optimizer.momentum else 0
        )
        states = {
            name: tuple(make_zeros(*value.shape).clone().realize() for _ in range(n_states))
            for name, value in weights.items()
        }
        count = make_zeros(1).clone().realize()
        batch = [tensor(value).realize() for value in network.batch]

        @self._svod.jit
        def step(*batch: Any) -> Any:
            loss, gradients = self._svod.value_and_grad(
                lambda weights: network.loss(self, weights, *batch)
            )(weights)
            n = count + 1.0
            for name, weight in weights.items():
                value, *kept = _update(network.optimizer, weight, gradients[name], states[name], n)
                for state, new in zip(states[name], kept, strict=True):
                    state.assign(new)
                weight.assign(value)
            count.assign(n)
            return loss

        self.step = step
        return lambda: step(*batch)

    def recompute(self, function: Callable[[Any], Any], x: Any) -> Any:
        return self._svod.checkpoint(function)(x)

    def relu(self, x: Any) -> Any:
        return x.relu()

    def gelu(self, x: Any) -> Any:
        return x.gelu("tanh")

    def mean(self, x: Any, axes: Sequence[int]) -> Any:
        return x.mean(axes)

    def swap(self, x: Any, first: int, second: int) -> Any:
        return x.transpose(first, second)

    def linear(self, x: Any, weight: Any, bias: Any) -> Any:
        return x.linear(weight, bias)

    def conv2d(self, x: Any, weight: Any, stride: int) -> Any:
        return x.conv2d(weight, stride=stride, padding=weight.shape[-1] // 2)

    def batch_norm(self, x: Any, weight: Any, bias: Any) -> Any:
        return x.batchnorm(x.mean((0, 2, 3)), x.var((0, 2, 3)), weight, bias)

    def layer_norm(self, x: Any, weight: Any, bias: Any) -> Any:
        return x.layernorm(-1, 1e-5, weight, bias)

    def attend_causally(self, query: Any, key: Any, value: Any) -> Any:
        return query.scaled_dot_product_attention(key, value, is_causal=True)

    def embed(self, table: Any, positions: Any) -> Any:
        return table[positions]

    def lstm(self, x: Any, weights: Mapping[str, Any]) -> Any:
        return self._svod.lstm(x, weights)[0]

    def cross_entropy(self, scores: Any, labels: Any) -> Any:
        return -scores.log_softmax(-1).gather(-1, labels.unsqueeze(-1)).mean()


class Torch(Library):
    """Training in torch, eager or with `torch.compile` of the loss, which also compiles its
    gradient.

    Optimizers are torch's fused ones.
    """

    def __init__(self, *, is_compiled: bool = False) -> None:
        import torch
        from torch.utils.checkpoint import checkpoint

        self._checkpoint = checkpoint
        self._torch, self._functional, self._is_compiled = torch, torch.nn.functional, is_compiled
        self.name = "torch.compile" if is_compiled else "torch"

    def make_step(self, network: Network) -> Step:
        torch = self._torch
        weights = {
            name: torch.from_numpy(value.copy()).requires_grad_()
            for name, value in network.weights.items()
        }
        batch = [
            torch.from_numpy(value if value.dtype.kind == "f" else value.astype("int64"))
            for value in network.batch
        ]
        o = network.optimizer
        optimizer = (
            torch.optim.AdamW(weights.values(), o.rate, o.betas, o.epsilon, o.decay, fused=True)
            if isinstance(o, AdamW)
            else torch.optim.SGD(weights.values(), o.rate, o.momentum, fused=True)
        )

        def measure_loss(weights: Mapping[str, Any], *batch: Any) -> Any:
            return network.loss(self, weights, *batch)

        loss_of = torch.compile(measure_loss) if self._is_compiled else measure_loss

        def step() -> Any:
            optimizer.zero_grad(set_to_none=True)
            loss = loss_of(weights, *batch)
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step

    def recompute(self, function: Callable[[Any], Any], x: Any) -> Any:
        return self._checkpoint(function, x, use_reentrant=False)

    def relu(self, x: Any) -> Any:
        return x.relu()

    def gelu(self, x: Any) -> Any:
        return self._functional.gelu(x, approximate="tanh")

    def mean(self, x: Any, axes: Sequence[int]) -> Any:
        return x.mean(axes)

    def swap(self, x: Any, first: int, second: int) -> Any:
        return x.transpose(first, second)

    def linear(self, x: Any, weight: Any, bias: Any) -> Any:
        return self._functional.linear(x, weight, bias)

    def conv2d(self, x: Any, weight: Any, stride: int) -> Any:
        return self._functional.conv2d(x, weight, stride=stride, padding=weight.shape[-1] // 2)

    def batch_norm(self, x: Any, weight: Any, bias: Any) -> Any:
        return self._functional.batch_norm(x, None, None, weight, bias, training=True)

    def layer_norm(self, x: Any, weight: Any, bias: Any) -> Any:
        return self._functional.layer_norm(x, x.shape[-1:], weight, bias)

    def attend_causally(self, query: Any, key: Any, value: Any) -> Any:
        return self._functional.scaled_dot_product_attention(query, key, value, is_causal=True)

    def embed(self, table: Any, positions: Any) -> Any:
        return self._functional.embedding(positions, table)

    def lstm(self, x: Any, weights: Mapping[str, Any]) -> Any:
        start = x.new_zeros(1, x.shape[1], weights["weight_hh_l0"].shape[1])
        return self._torch.lstm(
            x, (start, start), list(weights.values()), True, 1, 0.0, True, False, False
        )[0]

    def cross_entropy(self, scores: Any, labels: Any) -> Any:
        return self._functional.cross_entropy(scores, labels)


class Jax(Library):
    """Training in jax, with `jax.jit` of the whole step and donated weights and state."""

    name = "jax"

    def __init__(self) -> None:
        import jax

        self._jax, self._numpy = jax, jax.numpy

    def make_step(self, network: Network) -> Step:
        jax, np = self._jax, self._numpy
        weights = {name: np.array(value) for name, value in network.weights.items()}
        n_states = (
            2 if isinstance(network.optimizer, AdamW) else 1 if network.optimizer.momentum else 0
        )
        states = {
            name: tuple(np.zeros_like(value) for _ in range(n_states))
            for name, value in weights.items()
        }
        batch = [np.asarray(value) for value in network.batch]

        def advance(weights: Any, states: Any, n: Any, *batch: Any) -> Any:
            loss, gradients = jax.value_and_grad(
                lambda weights: network.loss(self, weights, *batch)
            )(weights)
            n = n + 1.0
            changed = {
                name: _update(network.optimizer, weight, gradients[name], states[name], n)
                for name, weight in weights.items()
            }
            weights = {name: value for name, (value, *_) in changed.items()}
            return weights, {name: tuple(kept) for name, (_, *kept) in changed.items()}, n, loss

        compiled = jax.jit(advance, donate_argnums=(0, 1, 2))
        current = [weights, states, np.zeros(1, np.float32)]

        def step() -> Any:
            *current[:], loss = jax.block_until_ready(compiled(*current, *batch))
            return loss

        return step

    def recompute(self, function: Callable[[Any], Any], x: Any) -> Any:
        return self._jax.checkpoint(function)(x)

    def relu(self, x: Any) -> Any:
        return self._jax.nn.relu(x)

    def gelu(self, x: Any) -> Any:
        return self._jax.nn.gelu(x, approximate=True)

    def mean(self, x: Any, axes: Sequence[int]) -> Any:
        return x.mean(axes)

    def swap(self, x: Any, first: int, second: int) -> Any:
        return x.swapaxes(first, second)

    def linear(self, x: Any, weight: Any, bias: Any) -> Any:
        product = x @ weight.T
        return product if bias is None else product + bias

    def conv2d(self, x: Any, weight: Any, stride: int) -> Any:
        padding = weight.shape[-1] // 2
        return self._jax.lax.conv_general_dilated(
            x, weight, (stride, stride), [(padding, padding)] * 2
        )

    def batch_norm(self, x: Any, weight: Any, bias: Any) -> Any:
        mean, variance = x.mean((0, 2, 3)), x.var((0, 2, 3))
        aligned = (1, -1, 1, 1)
        scale = self._jax.lax.rsqrt(variance + 1e-5) * weight
        return (x - mean.reshape(aligned)) * scale.reshape(aligned) + bias.reshape(aligned)

    def layer_norm(self, x: Any, weight: Any, bias: Any) -> Any:
        centred = x - x.mean(-1, keepdims=True)
        return (
            centred
            * self._jax.lax.rsqrt((centred * centred).mean(-1, keepdims=True) + 1e-5)
            * weight
            + bias
        )

    def attend_causally(self, query: Any, key: Any, value: Any) -> Any:
        scores = query @ key.swapaxes(-1, -2) * query.shape[-1] ** -0.5
        allowed = self._numpy.tril(self._numpy.ones(scores.shape[-2:], bool))
        return self._jax.nn.softmax(self._numpy.where(allowed, scores, -math.inf)) @ value

    def embed(self, table: Any, positions: Any) -> Any:
        return table[positions]

    def lstm(self, x: Any, weights: Mapping[str, Any]) -> Any:
        np, (ih, hh, bias_ih, bias_hh) = self._numpy, weights.values()
        start = np.zeros((x.shape[1], hh.shape[1]), x.dtype)

        def advance(state: Any, gates: Any) -> Any:
            hidden, cell = state
            i, f, g, o = np.split(gates + hidden @ hh.T, 4, axis=-1)
            sigmoid = self._jax.nn.sigmoid
            cell = sigmoid(f) * cell + sigmoid(i) * np.tanh(g)
            hidden = sigmoid(o) * np.tanh(cell)
            return (hidden, cell), hidden

        return self._jax.lax.scan(advance, (start, start), x @ ih.T + bias_ih + bias_hh)[1]

    def cross_entropy(self, scores: Any, labels: Any) -> Any:
        logs = self._jax.nn.log_softmax(scores)
        return -self._numpy.take_along_axis(logs, labels[:, None], -1).mean()


def _update(
    optimizer: Sgd | AdamW, weight: Any, gradient: Any, states: Sequence[Any], n: Any
) -> tuple[Any, ...]:
    """Return the weight and its state after step `n`, an array of one number, in svod and jax."""
    if isinstance(optimizer, Sgd):
        if not optimizer.momentum:
            return (weight - gradient * optimizer.rate,)
        velocity = states[0] * optimizer.momentum + gradient
        return weight - velocity * optimizer.rate, velocity
    (beta1, beta2), (first, second) = optimizer.betas, states
    first = first * beta1 + gradient * (1.0 - beta1)
    second = second * beta2 + gradient * gradient * (1.0 - beta2)
    rate, scale = optimizer.rate / (1.0 - beta1**n), 1.0 / (1.0 - beta2**n)
    change = first * rate / ((second * scale) ** 0.5 + optimizer.epsilon)
    return weight * (1.0 - optimizer.rate * optimizer.decay) - change, first, second
