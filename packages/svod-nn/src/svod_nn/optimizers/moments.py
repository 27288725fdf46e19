"""Base rule of Adam and its variants: moving averages of the gradient and of its square."""

from __future__ import annotations

from dataclasses import dataclass

from svod_nn.optimizers.rule import Rate, Rule, Slots
from svod_tensor import Tensor

__all__ = ["MomentsRule"]


@dataclass(frozen=True, kw_only=True)
class MomentsRule(Rule):
    """Common options and state of Adam and its variants.

    Attributes:
        betas: decay rates of the moving averages of the gradient and of its square.
        eps: term added to the denominator for numerical stability.
        weight_decay: coefficient of the weight decay.
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
        """Update and return the moving averages of the gradient and of its square."""
        first, second = self.betas
        # Not corrected for the zeros at the start: the correction is a scalar, which rules merge
        # into their other scalars.
        average = slots.put("exp_avg", slots["exp_avg"] * first + gradient * (1 - first))
        square = slots.put(
            "exp_avg_sq", slots["exp_avg_sq"] * second + gradient.square() * (1 - second)
        )
        return average, square
