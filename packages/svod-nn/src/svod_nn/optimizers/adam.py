"""Adam and AdamW: steps from moving averages of the gradient and of its square."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from svod_nn.optimizers.moments import MomentsRule
from svod_nn.optimizers.optimizer import Optimizer
from svod_nn.optimizers.rule import Numbers, Rate, Shared, Slots, add_decay
from svod_nn.optimizers.tensors import Parameters
from svod_tensor import Tensor

__all__ = ["Adam", "AdamRule", "AdamW"]


@dataclass(frozen=True, kw_only=True)
class AdamRule(MomentsRule):
    """Options and update of `Adam` and `AdamW`."""

    amsgrad: bool = False
    decoupled_weight_decay: bool = False

    name: ClassVar[str] = "Adam"

    def make_slots(self, parameter: Tensor) -> dict[str, Tensor]:
        slots = super().make_slots(parameter)
        return {**slots, "max_exp_avg_sq": parameter.zeros_like()} if self.amsgrad else slots

    def make_numbers(
        self, count: Tensor, rate: float | Tensor, shared: Shared
    ) -> tuple[Numbers, Shared]:
        first, second = self.betas
        # The corrections of both averages, which begin at zero, depend on the step alone: here they
        # are computed once, in float64, as 1 - second**count loses digits in the first steps. An
        # element then needs no division other than the one by the root.
        numbers: Numbers = {"rate": rate / (1 - first**count), "scale": (1 - second**count).rsqrt()}
        if self.weight_decay and self.decoupled_weight_decay:
            numbers["kept"] = 1 - rate * self.weight_decay
        return numbers, shared

    def change(self, parameter: Tensor, gradient: Tensor, slots: Slots, numbers: Numbers) -> Tensor:
        if self.decoupled_weight_decay:
            # Decay is taken from the parameter and not from the gradient, where it would be divided
            # by the root, which is the point of AdamW.
            start = parameter * numbers["kept"] if "kept" in numbers else parameter
        else:
            start, gradient = parameter, add_decay(gradient, parameter, self.weight_decay)
        average, square = self.put_moments(slots, gradient)
        if self.amsgrad:
            # As in torch, the maximum of averages that are not corrected yet.
            square = slots.put("max_exp_avg_sq", slots["max_exp_avg_sq"].maximum(square))
        # As in torch and the paper, eps is added after root and correction; before the correction,
        # it would weigh more in the first steps.
        return start - numbers["rate"] * average / (square.sqrt() * numbers["scale"] + self.eps)


class Adam(Optimizer):
    """Adam: the average gradient divided by the root of the average squared gradient.

    Args:
        parameters: module, or nested lists and dicts of tensors; see `Optimizer`.
        lr: learning rate: a number, a tensor, or a schedule.
        betas: decay rates of the moving averages of the gradient and of its square.
        eps: term added to the denominator for numerical stability.
        weight_decay: L2 penalty: this multiple of the parameter is added to its gradient.
        amsgrad: if True, use the AMSGrad variant: divide by the maximum of the averages so far.
        decoupled_weight_decay: if True, decay the parameter directly, as `AdamW` does.
        maximize: if True, maximize the objective instead of minimizing it.
        groups: options for groups of parameters; see `Optimizer`.

    Source: D. P. Kingma, J. Ba, Adam, 2015, algorithm 1; S. J. Reddi et al., On the convergence of
    Adam and beyond, 2018, with bias correction of the second moment, as in `torch.optim.Adam`.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> w = Tensor([1.0, -2.0])
        >>> nn.Adam({"w": w}, lr=0.1).update({"w": Tensor([3.0, -0.5])})
        >>> [round(x, 4) for x in w.tolist()]
        [0.9, -1.9]
    """

    def __init__(
        self,
        parameters: Parameters | None = None,
        lr: Rate = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        decoupled_weight_decay: bool = False,
        groups: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        rule = AdamRule(
            lr=lr,
            betas=betas,
            eps=eps,
            weight_decay=weight_decay,
            amsgrad=amsgrad,
            maximize=maximize,
            decoupled_weight_decay=decoupled_weight_decay,
        )
        super().__init__(parameters, rule, groups)


class AdamW(Adam):
    """Adam with decoupled weight decay, which is applied to the parameter, not to its gradient.

    Args:
        parameters: module, or nested lists and dicts of tensors; see `Optimizer`.
        lr: learning rate: a number, a tensor, or a schedule.
        betas: decay rates of the moving averages of the gradient and of its square.
        eps: term added to the denominator for numerical stability.
        weight_decay: decoupled weight decay, multiplied by the learning rate.
        amsgrad: if True, use the AMSGrad variant: divide by the maximum of the averages so far.
        maximize: if True, maximize the objective instead of minimizing it.
        groups: options for groups of parameters; see `Optimizer`.

    Source: I. Loshchilov, F. Hutter, Decoupled weight decay regularization, 2019, algorithm 2.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> w = Tensor([1.0, -1.0])
        >>> optimizer = nn.AdamW({"w": w}, lr=0.1)
        >>> optimizer.update({"w": Tensor([3.0, -0.5])})
        >>> w.round(decimals=4).tolist()
        [0.8989999890327454, -0.8989999890327454]
    """

    def __init__(
        self,
        parameters: Parameters | None = None,
        lr: Rate = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        groups: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        super().__init__(
            parameters,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            maximize=maximize,
            decoupled_weight_decay=True,
            groups=groups,
        )
