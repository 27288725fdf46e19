"""LAMB: Adam's direction, scaled to the norm of each parameter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from svod_nn.optimizers.moments import MomentsRule
from svod_nn.optimizers.optimizer import Optimizer
from svod_nn.optimizers.rule import Numbers, Rate, Shared, Slots
from svod_nn.optimizers.tensors import Parameters
from svod_tensor import Tensor

__all__ = ["LAMB", "LAMBRule"]


@dataclass(frozen=True, kw_only=True)
class LAMBRule(MomentsRule):
    """Options and update of `LAMB`."""

    eps: float = 1e-6

    name: ClassVar[str] = "LAMB"

    def make_numbers(
        self, count: Tensor, rate: float | Tensor, shared: Shared
    ) -> tuple[Numbers, Shared]:
        first, second = self.betas
        return {
            "rate": rate,
            "grown": 1 / (1 - first**count),
            "scale": (1 - second**count).rsqrt(),
        }, shared

    def change(self, parameter: Tensor, gradient: Tensor, slots: Slots, numbers: Numbers) -> Tensor:
        average, square = self.put_moments(slots, gradient)
        # The correction cannot be merged into the rate, as in Adam: the norm of the direction
        # contains it.
        direction = average * numbers["grown"] / (square.sqrt() * numbers["scale"] + self.eps)
        if self.weight_decay:
            # Decay is added before the norm is taken, so that the trust ratio bounds the whole
            # step.
            direction = direction + parameter * self.weight_decay
        norm, length = parameter.square().sum().sqrt(), direction.square().sum().sqrt()
        # A parameter of zeros would never change with a ratio of 0, and 0 / 0 is NaN.
        trust_ratio = ((norm > 0) & (length > 0)).where(norm / length, 1.0)
        return parameter - direction * (numbers["rate"] * trust_ratio)


class LAMB(Optimizer):
    """LAMB: Adam's direction scaled to the norm of each parameter, for training in large batches.

    Args:
        parameters: module, or nested lists and dicts of tensors; see `Optimizer`.
        lr: learning rate relative to the parameter's norm: a number, a tensor, or a schedule.
        betas: decay rates of the moving averages of the gradient and of its square.
        eps: term added to the denominator for numerical stability.
        weight_decay: this multiple of the parameter is added to the direction before scaling.
        maximize: if True, maximize the objective instead of minimizing it.
        groups: options for groups of parameters; see `Optimizer`.

    Source: Y. You et al., Large batch optimization for deep learning: training BERT in 76 minutes,
    2020, algorithm 2, where phi(z) = z.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> w = Tensor([1.0, -2.0])
        >>> nn.LAMB({"w": w}, lr=0.1).update({"w": Tensor([3.0, -0.5])})
        >>> [round(x, 4) for x in w.tolist()]
        [0.8419, -1.8419]
    """

    def __init__(
        self,
        parameters: Parameters | None = None,
        lr: Rate = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
        groups: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        rule = LAMBRule(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, maximize=maximize)
        super().__init__(parameters, rule, groups)
