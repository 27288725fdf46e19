"""Steps of optimizers (ai.onnx.preview.training)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Final

from svod_onnx._registry import operator
from svod_tensor import Tensor

__all__ = ["adagrad", "adam", "momentum"]

_DOMAIN: Final = "ai.onnx.preview.training"


def _step_each(
    step: Callable[..., tuple[Tensor, ...]], states: tuple[Tensor, ...], n_states: int
) -> tuple[Tensor, ...]:
    """The results of a step of each tensor that is optimized.

    Args:
        step: from a tensor, its gradient and what else is kept of it, to the new tensor and what is kept then.
        states: all tensors that are optimized, then all their gradients, then all of what else is kept.
        n_states: how many operands a step has.

    Returns:
        All new tensors, and then all of what is kept.
    """
    if len(states) % n_states:
        raise ValueError(f"takes {n_states} operands for each tensor to optimize, and got {len(states)} in all")
    count = len(states) // n_states
    steps = (step(*states[number::count]) for number in range(count))
    return tuple(chain.from_iterable(zip(*steps, strict=True)))


@operator("Adagrad", domain=_DOMAIN)
def adagrad(
    r: Tensor,
    t: Tensor,
    *inputs: Tensor,
    norm_coefficient: float = 0.0,
    decay_factor: float = 0.0,
    epsilon: float = 1e-6,
) -> tuple[Tensor, ...]:
    def step(x: Tensor, gradient: Tensor, squares: Tensor) -> tuple[Tensor, Tensor]:
        whole = x * norm_coefficient + gradient
        total = squares + whole * whole
        decayed = r.cast(x.dtype) / (t.cast(x.dtype) * decay_factor + 1)
        return x - decayed * whole / (total.sqrt() + epsilon), total

    return _step_each(step, inputs, 3)


@operator("Adam", domain=_DOMAIN)
def adam(
    r: Tensor,
    t: Tensor,
    *inputs: Tensor,
    alpha: float = 0.9,
    beta: float = 0.999,
    epsilon: float = 1e-6,
    norm_coefficient: float = 0.0,
    norm_coefficient_post: float = 0.0,
) -> tuple[Tensor, ...]:
    def step(x: Tensor, gradient: Tensor, mean: Tensor, squares: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        whole = x * norm_coefficient + gradient
        new_mean = mean * alpha + whole * (1 - alpha)
        new_squares = squares * beta + whole * whole * (1 - beta)
        # In float64, since 1 - beta^count is small while counts are.
        number = t.cast("float64")
        scale = _raise(beta, number).neg().add(1).sqrt() / _raise(alpha, number).neg().add(1)
        corrected = r.cast(x.dtype) * (t > 0).where(scale, 1.0).cast(x.dtype)
        moved = x - corrected * new_mean / (new_squares.sqrt() + epsilon)
        return moved * (1 - norm_coefficient_post), new_mean, new_squares

    return _step_each(step, inputs, 4)


def _raise(base: float, exponent: Tensor) -> Tensor:
    return exponent.full_like(base).pow(exponent)


@operator("Momentum", domain=_DOMAIN)
def momentum(
    r: Tensor, t: Tensor, *inputs: Tensor, alpha: float, beta: float, mode: str, norm_coefficient: float
) -> tuple[Tensor, ...]:
    if mode not in ("standard", "nesterov"):
        raise ValueError(f"attribute 'mode' is {mode!r}, which is neither standard nor nesterov")

    def step(x: Tensor, gradient: Tensor, momentum: Tensor) -> tuple[Tensor, Tensor]:
        whole = x * norm_coefficient + gradient
        factor = (t > 0).where(beta, 1.0).cast(x.dtype)
        new = momentum * alpha + whole * factor
        way = new if mode == "standard" else whole + new * alpha
        return x - r.cast(x.dtype) * way, new

    return _step_each(step, inputs, 3)
