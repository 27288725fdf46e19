"""NAdam: Adam with Nesterov momentum."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from svod_nn.optimizers.moments import MomentsRule
from svod_nn.optimizers.optimizer import Optimizer
from svod_nn.optimizers.rule import Numbers, Rate, Shared, Slots, add_decay
from svod_nn.optimizers.tensors import Parameters
from svod_tensor import Tensor

__all__ = ["NAdam", "NAdamRule"]

_MOMENTUM_BASE = 0.96
"""Base of the momentum schedule, in the paper and in PyTorch."""


@dataclass(frozen=True, kw_only=True)
class NAdamRule(MomentsRule):
    """Options and update of `NAdam`."""

    lr: Rate = 2e-3
    momentum_decay: float = 4e-3
    decoupled_weight_decay: bool = False

    name: ClassVar[str] = "NAdam"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_not_negative("momentum_decay")

    def make_shared(self) -> dict[str, float]:
        # The product of all momenta so far is state: with a schedule it is no power of one beta.
        return {"mu_product": 1.0}

    def make_numbers(
        self, count: Tensor, rate: float | Tensor, shared: Shared
    ) -> tuple[Numbers, Shared]:
        momentum, ahead = self._make_momentum(count), self._make_momentum(count + 1)
        product = shared["mu_product"] * momentum
        numbers = {
            "gradient_rate": rate * (1 - momentum) / (1 - product),
            # The average is weighted and corrected as in the next step, which is Nesterov's look
            # ahead.
            "average_rate": rate * ahead / (1 - product * ahead),
            "scale": (1 - self.betas[1] ** count).rsqrt(),
            "kept": 1 - rate * self.weight_decay,
        }
        return numbers, {"mu_product": product}

    def change(self, parameter: Tensor, gradient: Tensor, slots: Slots, numbers: Numbers) -> Tensor:
        start = parameter
        if self.weight_decay and self.decoupled_weight_decay:
            start = parameter * numbers["kept"]
        else:
            gradient = add_decay(gradient, parameter, self.weight_decay)
        average, square = self.put_moments(slots, gradient)
        # The rates are part of the weights: gradient and average have different corrections.
        direction = gradient * numbers["gradient_rate"] + average * numbers["average_rate"]
        # As in Adam, eps is added after root and correction.
        return start - direction / (square.sqrt() * numbers["scale"] + self.eps)

    def _make_momentum(self, count: Tensor) -> Tensor:
        return (1 - 0.5 * _MOMENTUM_BASE ** (count * self.momentum_decay)) * self.betas[0]


class NAdam(Optimizer):
    """Adam with Nesterov momentum, which grows over the steps.

    Args:
        parameters: module, or nested lists and dicts of tensors; see `Optimizer`.
        lr: learning rate: a number, a tensor, or a schedule.
        betas: decay rates of the moving averages of the gradient and of its square.
        eps: term added to the denominator for numerical stability.
        weight_decay: L2 penalty: this multiple of the parameter is added to its gradient.
        momentum_decay: rate at which the momentum approaches the first beta.
        decoupled_weight_decay: if True, decay the parameter directly, as `AdamW` does.
        maximize: if True, maximize the objective instead of minimizing it.
        groups: options for groups of parameters; see `Optimizer`.

    Source: T. Dozat, Incorporating Nesterov momentum into Adam, 2016, as in `torch.optim.NAdam`.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> w = Tensor([1.0, -2.0])
        >>> nn.NAdam({"w": w}, lr=0.1).update({"w": Tensor([3.0, -0.5])})
        >>> [round(x, 4) for x in w.tolist()]
        [0.8944, -1.8944]
    """

    def __init__(
        self,
        parameters: Parameters | None = None,
        lr: Rate = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        maximize: bool = False,
        groups: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        rule = NAdamRule(
            lr=lr,
            betas=betas,
            eps=eps,
            weight_decay=weight_decay,
            momentum_decay=momentum_decay,
            decoupled_weight_decay=decoupled_weight_decay,
            maximize=maximize,
        )
        super().__init__(parameters, rule, groups)
