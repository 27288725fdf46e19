"""LAMB: Adam's direction, as long as the parameter is."""

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
    """The options of `LAMB`, and what it does."""

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
        direction = average * numbers["grown"] / (square.sqrt() * numbers["scale"] + self.eps)
        if self.weight_decay:
            direction = direction + parameter * self.weight_decay
        size, length = parameter.square().sum().sqrt(), direction.square().sum().sqrt()
        ratio = ((size > 0) & (length > 0)).where(size / length, 1.0)
        return parameter - direction * (numbers["rate"] * ratio)


class LAMB(Optimizer):
    """Adam's direction for each parameter, made as long as the parameter is: for large batches.

    Args:
        parameters: a module, or nested lists and dicts of tensors; see `Optimizer`.
        lr: a number, a tensor, or a schedule; a step as a part of the parameter's norm.
        betas: how much of both averages is kept in a step.
        eps: is added to the root.
        weight_decay: how much of the parameter is added to the direction.
        maximize: whether to go up.
        groups: other options for some parameters.

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
