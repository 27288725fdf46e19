"""What Adam and those that are derived from it share: averages of the gradients and of their
squares.
"""

from __future__ import annotations

from dataclasses import dataclass

from svod_nn.optimizers.rule import Rate, Rule, Slots
from svod_tensor import Tensor

__all__ = ["MomentsRule"]


@dataclass(frozen=True, kw_only=True)
class MomentsRule(Rule):
    """The options that they have in common, and what they keep.

    Attributes:
        betas: how much of both averages is kept in a step.
        eps: is added to the root of the average square.
        weight_decay: how much of the parameter is taken off.
    """

    lr: Rate = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_not_negative("eps", "weight_decay")
        self.check_betas(self.betas)

    def make_slots(self, parameter: Tensor) -> dict[str, Tensor]:
        return {"exp_avg": parameter.zeros_like(), "exp_avg_sq": parameter.zeros_like()}

    def put_moments(self, slots: Slots, gradient: Tensor) -> tuple[Tensor, Tensor]:
        """Keep the average of the gradients and that of their squares after this one, and give
        both.
        """
        first, second = self.betas
        average = slots.put("exp_avg", slots["exp_avg"] * first + gradient * (1 - first))
        square = slots.put(
            "exp_avg_sq", slots["exp_avg_sq"] * second + gradient.square() * (1 - second)
        )
        return average, square
