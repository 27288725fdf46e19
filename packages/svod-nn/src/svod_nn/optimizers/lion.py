"""Lion: steps along the sign of an average gradient."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from svod_nn.optimizers.optimizer import Optimizer
from svod_nn.optimizers.rule import Numbers, Rate, Rule, Slots, make_decayed
from svod_nn.optimizers.tensors import Parameters
from svod_tensor import Tensor

__all__ = ["Lion", "LionRule"]


@dataclass(frozen=True, kw_only=True)
class LionRule(Rule):
    """Options and update of `Lion`."""

    lr: Rate = 1e-4
    betas: tuple[float, float] = (0.9, 0.99)
    weight_decay: float = 0.0

    name: ClassVar[str] = "Lion"

    def __post_init__(self) -> None:
        Rule.__post_init__(self)
        self.check_not_negative("weight_decay")
        self.check_betas(self.betas)

    def make_slots(self, parameter: Tensor) -> dict[str, Tensor]:
        return {"exp_avg": parameter.zeros_like()}

    def change(self, parameter: Tensor, gradient: Tensor, slots: Slots, numbers: Numbers) -> Tensor:
        first, second = self.betas
        # Interpolated for the direction only; the stored average below forgets more slowly.
        average = slots["exp_avg"] * first + gradient * (1 - first)
        start = make_decayed(parameter, numbers["rate"], self.weight_decay)
        # All elements move by the same length, so no second moment is stored.
        after = start - average.sign() * numbers["rate"]
        # Written last: `put` may assign in place, and the direction is of the average before it.
        slots.put("exp_avg", slots["exp_avg"] * second + gradient * (1 - second))
        return after


class Lion(Optimizer):
    """Lion (evolved sign momentum): steps along the sign of an average gradient.

    Args:
        parameters: module, or nested lists and dicts of tensors; see `Optimizer`.
        lr: learning rate: a number, a tensor, or a schedule; typically 3 to 10 times smaller than
            for `AdamW`.
        betas: weight of the average in the step's direction, and decay rate of the average.
        weight_decay: decoupled weight decay, multiplied by the learning rate.
        maximize: if True, maximize the objective instead of minimizing it.
        groups: options for groups of parameters; see `Optimizer`.

    Source: X. Chen et al., Symbolic discovery of optimization algorithms, 2023, program 1.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> w = Tensor([1.0, -2.0])
        >>> nn.Lion({"w": w}, lr=0.1).update({"w": Tensor([3.0, -0.5])})
        >>> [round(x, 4) for x in w.tolist()]
        [0.9, -1.9]
    """

    def __init__(
        self,
        parameters: Parameters | None = None,
        lr: Rate = 1e-4,
        betas: tuple[float, float] = (0.9, 0.99),
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
        groups: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        super().__init__(
            parameters,
            LionRule(lr=lr, betas=betas, weight_decay=weight_decay, maximize=maximize),
            groups,
        )
