"""RMSprop: steps scaled by the root of the average squared gradient."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from svod_nn.optimizers.optimizer import Optimizer
from svod_nn.optimizers.rule import Numbers, Rate, Rule, Slots, add_decay
from svod_nn.optimizers.tensors import Parameters
from svod_tensor import Tensor

__all__ = ["RMSprop", "RMSpropRule"]


@dataclass(frozen=True, kw_only=True)
class RMSpropRule(Rule):
    """Options and update of `RMSprop`."""

    lr: Rate = 1e-2
    alpha: float = 0.99
    eps: float = 1e-8
    weight_decay: float = 0.0
    momentum: float = 0.0
    centered: bool = False

    name: ClassVar[str] = "RMSprop"

    def __post_init__(self) -> None:
        Rule.__post_init__(self)
        self.check_not_negative("alpha", "eps", "weight_decay", "momentum")

    def make_slots(self, parameter: Tensor) -> dict[str, Tensor]:
        is_used = {
            # Slots that no option uses would take memory and be saved.
            "square_avg": True,
            "grad_avg": self.centered,
            "momentum_buffer": self.momentum > 0,
        }
        return {name: parameter.zeros_like() for name, used in is_used.items() if used}

    def change(self, parameter: Tensor, gradient: Tensor, slots: Slots, numbers: Numbers) -> Tensor:
        gradient = add_decay(gradient, parameter, self.weight_decay)
        square = slots.put(
            "square_avg", slots["square_avg"] * self.alpha + gradient.square() * (1 - self.alpha)
        )
        if self.centered:
            average = slots.put(
                "grad_avg", slots["grad_avg"] * self.alpha + gradient * (1 - self.alpha)
            )
            # Minus the square of the mean: a variance, which is small for a steady gradient, so
            # steps grow.
            # By rounding, the variance of a steady gradient may be below 0, and its root NaN.
            square = (square - average.square()).maximum(0.0)
        # As in torch, eps is outside of the root, unlike in TensorFlow. The average is not
        # corrected for its zeros at the start, so the first steps are the largest.
        direction = gradient / (square.sqrt() + self.eps)
        if self.momentum:
            # Momentum of the scaled steps without the rate, so that a schedule takes effect at
            # once.
            direction = slots.put(
                "momentum_buffer", slots["momentum_buffer"] * self.momentum + direction
            )
        return parameter - direction * numbers["rate"]


class RMSprop(Optimizer):
    """RMSprop: the gradient divided by the root of the average squared gradient.

    Args:
        parameters: module, or nested lists and dicts of tensors; see `Optimizer`.
        lr: learning rate: a number, a tensor, or a schedule.
        alpha: decay rate of the average of squared gradients.
        eps: term added to the denominator for numerical stability.
        weight_decay: L2 penalty: this multiple of the parameter is added to its gradient.
        momentum: momentum factor.
        centered: if True, normalize by an estimate of the variance: subtract the squared average
            gradient from the average squared gradient.
        maximize: if True, maximize the objective instead of minimizing it.
        groups: options for groups of parameters; see `Optimizer`.

    Source: G. Hinton, Neural networks for machine learning, lecture 6e, 2012, as in
    `torch.optim.RMSprop`.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> w = Tensor([1.0, -2.0])
        >>> nn.RMSprop({"w": w}, lr=0.1, alpha=0.75).update({"w": Tensor([3.0, -0.5])})
        >>> [round(x, 4) for x in w.tolist()]
        [0.8, -1.8]
    """

    def __init__(
        self,
        parameters: Parameters | None = None,
        lr: Rate = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum: float = 0.0,
        centered: bool = False,
        *,
        maximize: bool = False,
        groups: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        rule = RMSpropRule(
            lr=lr,
            alpha=alpha,
            eps=eps,
            weight_decay=weight_decay,
            momentum=momentum,
            centered=centered,
            maximize=maximize,
        )
        super().__init__(parameters, rule, groups)
