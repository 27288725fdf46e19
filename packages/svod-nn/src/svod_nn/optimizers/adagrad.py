"""Adagrad: steps scaled by the root of the sum of all squared gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from svod_nn.optimizers.optimizer import Optimizer
from svod_nn.optimizers.rule import Numbers, Rate, Rule, Shared, Slots, add_decay
from svod_nn.optimizers.tensors import Parameters
from svod_tensor import Tensor

__all__ = ["Adagrad", "AdagradRule"]


@dataclass(frozen=True, kw_only=True)
class AdagradRule(Rule):
    """Options and update of `Adagrad`."""

    lr: Rate = 1e-2
    lr_decay: float = 0.0
    weight_decay: float = 0.0
    initial_accumulator_value: float = 0.0
    eps: float = 1e-10

    name: ClassVar[str] = "Adagrad"

    def __post_init__(self) -> None:
        Rule.__post_init__(self)
        self.check_not_negative("lr_decay", "weight_decay", "initial_accumulator_value", "eps")

    def make_slots(self, parameter: Tensor) -> dict[str, Tensor]:
        return {"sum": parameter.full_like(self.initial_accumulator_value)}

    def make_numbers(
        self, count: Tensor, rate: float | Tensor, shared: Shared
    ) -> tuple[Numbers, Shared]:
        # `count` includes the current step, and the rate of the first step is not reduced.
        return {"rate": rate / (1 + (count - 1) * self.lr_decay)}, shared

    def change(self, parameter: Tensor, gradient: Tensor, slots: Slots, numbers: Numbers) -> Tensor:
        gradient = add_decay(gradient, parameter, self.weight_decay)
        # The sum only grows, so there is no initial bias to correct.
        total = slots.put("sum", slots["sum"] + gradient.square())
        # As in torch, eps is added to the root: inside, sqrt(eps) would be far larger than eps.
        return parameter - gradient * numbers["rate"] / (total.sqrt() + self.eps)


class Adagrad(Optimizer):
    """Adagrad: each element's gradient divided by the root of the sum of its squared gradients.

    Args:
        parameters: module, or nested lists and dicts of tensors; see `Optimizer`.
        lr: learning rate: a number, a tensor, or a schedule.
        lr_decay: decay of the learning rate, which is divided by `1 + (step - 1) * lr_decay`.
        weight_decay: L2 penalty: this multiple of the parameter is added to its gradient.
        initial_accumulator_value: initial value of the sums.
        eps: term added to the denominator for numerical stability.
        maximize: if True, maximize the objective instead of minimizing it.
        groups: options for groups of parameters; see `Optimizer`.

    Source: J. Duchi, E. Hazan, Y. Singer, Adaptive subgradient methods, 2011, as in
    `torch.optim.Adagrad`.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> w = Tensor([1.0, -2.0])
        >>> nn.Adagrad({"w": w}, lr=0.1).update({"w": Tensor([3.0, -0.5])})
        >>> [round(x, 4) for x in w.tolist()]
        [0.9, -1.9]
    """

    def __init__(
        self,
        parameters: Parameters | None = None,
        lr: Rate = 1e-2,
        lr_decay: float = 0.0,
        weight_decay: float = 0.0,
        initial_accumulator_value: float = 0.0,
        eps: float = 1e-10,
        *,
        maximize: bool = False,
        groups: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        rule = AdagradRule(
            lr=lr,
            lr_decay=lr_decay,
            weight_decay=weight_decay,
            initial_accumulator_value=initial_accumulator_value,
            eps=eps,
            maximize=maximize,
        )
        super().__init__(parameters, rule, groups)
