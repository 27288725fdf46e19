"""RAdam: Adam that waits with dividing until the average square is known well enough."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

from svod_nn.optimizers.moments import MomentsRule
from svod_nn.optimizers.optimizer import Optimizer
from svod_nn.optimizers.rule import Numbers, Rate, Shared, Slots, add_decay
from svod_nn.optimizers.tensors import Parameters
from svod_tensor import Tensor

__all__ = ["RAdam", "RAdamRule"]

_LEAST_LENGTH = 5.0
"""The square is divided by when it is the average of more than so many gradients."""


@dataclass(frozen=True, kw_only=True)
class RAdamRule(MomentsRule):
    """The options of `RAdam`, and what it does."""

    decoupled_weight_decay: bool = False

    name: ClassVar[str] = "RAdam"

    def make_numbers(
        self, count: Tensor, rate: float | Tensor, shared: Shared
    ) -> tuple[Numbers, Shared]:
        first, second = self.betas
        longest = 2 / (1 - second) - 1
        power = second**count
        correction = 1 - power
        length = longest - 2 * count * power / correction
        is_known = length > _LEAST_LENGTH
        ratio = (length - 4) * (length - 2) * longest / (length * ((longest - 4) * (longest - 2)))
        numbers = {
            "rate": rate / (1 - first**count),
            # What follows from a length that is too short is not used, and is no number.
            "scale": is_known.where(ratio, 0.0).sqrt() * correction.sqrt(),
            "known": is_known.where(1.0, 0.0),
            "kept": 1 - rate * self.weight_decay,
        }
        return numbers, shared

    def change(self, parameter: Tensor, gradient: Tensor, slots: Slots, numbers: Numbers) -> Tensor:
        start = parameter
        if self.weight_decay and self.decoupled_weight_decay:
            start = parameter * numbers["kept"]
        else:
            gradient = add_decay(gradient, parameter, self.weight_decay)
        average, square = self.put_moments(slots, gradient)
        factor = (cast("Tensor", numbers["known"]) > 0).where(
            numbers["scale"] / (square.sqrt() + self.eps), 1.0
        )
        return start - average * numbers["rate"] * factor


class RAdam(Optimizer):
    """Adam that divides by the root of the average square once its variance is known to be small.

    Args:
        parameters: a module, or nested lists and dicts of tensors; see `Optimizer`.
        lr: a number, a tensor, or a schedule.
        betas: how much of both averages is kept in a step.
        eps: is added to the root.
        weight_decay: how much of the parameter is added to its gradient.
        decoupled_weight_decay: whether the decay is taken off the parameter instead.
        maximize: whether to go up.
        groups: other options for some parameters.

    Source: L. Liu et al., On the variance of the adaptive learning rate and beyond, 2020, algorithm
    2, as `torch.optim.RAdam` has it.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> w = Tensor([1.0, -2.0])
        >>> nn.RAdam({"w": w}, lr=0.1).update({"w": Tensor([3.0, -0.5])})
        >>> [round(x, 4) for x in w.tolist()]
        [0.7, -1.95]
    """

    def __init__(
        self,
        parameters: Parameters | None = None,
        lr: Rate = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        decoupled_weight_decay: bool = False,
        *,
        maximize: bool = False,
        groups: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        rule = RAdamRule(
            lr=lr,
            betas=betas,
            eps=eps,
            weight_decay=weight_decay,
            decoupled_weight_decay=decoupled_weight_decay,
            maximize=maximize,
        )
        super().__init__(parameters, rule, groups)
