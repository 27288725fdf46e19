"""RAdam: Adam with a rectified adaptive learning rate in the first steps."""

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

_MIN_LENGTH = 5.0
"""Length of the average of squares above which its variance is tractable, as in PyTorch."""


@dataclass(frozen=True, kw_only=True)
class RAdamRule(MomentsRule):
    """Options and update of `RAdam`."""

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
        # The variance of the adaptive rate is infinite for few gradients: until then the step is
        # that of plain momentum.
        is_known = length > _MIN_LENGTH
        ratio = (length - 4) * (length - 2) * longest / (length * ((longest - 4) * (longest - 2)))
        numbers = {
            "rate": rate / (1 - first**count),
            # For a short length the ratio may be negative; its root would be NaN.
            "scale": is_known.where(ratio, 0.0).sqrt() * correction.sqrt(),
            # Numbers are cast to the type of the parameters, so this is a float and no boolean.
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
        # As in torch, eps is added before the correction, unlike in Adam.
        factor = (cast("Tensor", numbers["known"]) > 0).where(
            numbers["scale"] / (square.sqrt() + self.eps), 1.0
        )
        return start - average * numbers["rate"] * factor


class RAdam(Optimizer):
    """Rectified Adam: no division by the second moment until its variance is small enough.

    Args:
        parameters: module, or nested lists and dicts of tensors; see `Optimizer`.
        lr: learning rate: a number, a tensor, or a schedule.
        betas: decay rates of the moving averages of the gradient and of its square.
        eps: term added to the denominator for numerical stability.
        weight_decay: L2 penalty: this multiple of the parameter is added to its gradient.
        decoupled_weight_decay: if True, decay the parameter directly, as `AdamW` does.
        maximize: if True, maximize the objective instead of minimizing it.
        groups: options for groups of parameters; see `Optimizer`.

    Source: L. Liu et al., On the variance of the adaptive learning rate and beyond, 2020, algorithm
    2, as in `torch.optim.RAdam`.

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
