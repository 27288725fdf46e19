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
    """Apply a step to each optimized tensor.

    Args:
        step: function from a tensor, its gradient and its states to the new tensor and states.
        states: all tensors, then all gradients, then all states.
        n_states: number of operands of a step.

    Returns:
        all new tensors, then all new states.
    """
    if len(states) % n_states:
        raise ValueError(
            f"expected {n_states} operands per optimized tensor, got {len(states)} operands"
        )
    count = len(states) // n_states
    steps = (step(*states[index::count]) for index in range(count))
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
    """Adagrad step: new tensors, then accumulated squared gradients."""

    def step(x: Tensor, gradient: Tensor, squares: Tensor) -> tuple[Tensor, Tensor]:
        regularized = x * norm_coefficient + gradient
        total = squares + regularized * regularized
        decayed = r.cast(x.dtype) / (t.cast(x.dtype) * decay_factor + 1)
        # `epsilon` is added to the root, as in the specification; inside it would act as its square
        # root.
        return x - decayed * regularized / (total.sqrt() + epsilon), total

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
    """Adam step: new tensors, then first moments, then second moments."""

    def step(
        x: Tensor, gradient: Tensor, mean: Tensor, squares: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        regularized = x * norm_coefficient + gradient
        new_mean = mean * alpha + regularized * (1 - alpha)
        new_squares = squares * beta + regularized * regularized * (1 - beta)
        # In float64: for small counts 1 - beta^count cancels.
        count = t.cast("float64")
        scale = _raise(beta, count).neg().add(1).sqrt() / _raise(alpha, count).neg().add(1)
        # Count 0 has no correction: it would divide by 1 - alpha^0 = 0.
        corrected = r.cast(x.dtype) * (t > 0).where(scale, 1.0).cast(x.dtype)
        moved = x - corrected * new_mean / (new_squares.sqrt() + epsilon)
        return moved * (1 - norm_coefficient_post), new_mean, new_squares

    return _step_each(step, inputs, 4)


def _raise(base: float, exponent: Tensor) -> Tensor:
    return exponent.full_like(base).pow(exponent)


@operator("Momentum", domain=_DOMAIN)
def momentum(
    r: Tensor,
    t: Tensor,
    *inputs: Tensor,
    alpha: float,
    beta: float,
    mode: str,
    norm_coefficient: float,
) -> tuple[Tensor, ...]:
    """Momentum step: new tensors, then momenta."""
    if mode not in ("standard", "nesterov"):
        raise ValueError(f"unknown mode {mode!r}; expected standard or nesterov")

    def step(x: Tensor, gradient: Tensor, momentum: Tensor) -> tuple[Tensor, Tensor]:
        regularized = x * norm_coefficient + gradient
        # The first update takes the full gradient, as ONNX defines it.
        factor = (t > 0).where(beta, 1.0).cast(x.dtype)
        new = momentum * alpha + regularized * factor
        direction = new if mode == "standard" else regularized + new * alpha
        return x - r.cast(x.dtype) * direction, new

    return _step_each(step, inputs, 3)
