"""SGD: stochastic gradient descent, with momentum."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from svod_nn.errors import LayerArgumentError
from svod_nn.optimizers.optimizer import Optimizer
from svod_nn.optimizers.rule import Numbers, Rate, Rule, Shared, Slots, add_decay
from svod_nn.optimizers.tensors import Parameters
from svod_tensor import Tensor

__all__ = ["SGD", "SGDRule"]


@dataclass(frozen=True, kw_only=True)
class SGDRule(Rule):
    """Options and update of `SGD`."""

    lr: Rate = 1e-3
    momentum: float = 0.0
    dampening: float = 0.0
    weight_decay: float = 0.0
    nesterov: bool = False

    name: ClassVar[str] = "SGD"

    def __post_init__(self) -> None:
        Rule.__post_init__(self)
        self.check_not_negative("momentum", "weight_decay")
        # As in torch: the look ahead assumes that the gradient enters the buffer in full.
        if self.nesterov and (self.momentum == 0 or self.dampening != 0):
            raise LayerArgumentError(
                name=self.name, problem="nesterov requires momentum > 0 and dampening = 0"
            )

    def make_slots(self, parameter: Tensor) -> dict[str, Tensor]:
        return {"momentum_buffer": parameter.zeros_like()} if self.momentum else {}

    def make_numbers(
        self, count: Tensor, rate: float | Tensor, shared: Shared
    ) -> tuple[Numbers, Shared]:
        if not self.dampening:
            return {"rate": rate}, shared
        # As in torch, dampening is not applied to the first gradient.
        share = (count == 1).where(1.0, 1 - self.dampening)
        return {"rate": rate, "share": share}, shared

    def change(self, parameter: Tensor, gradient: Tensor, slots: Slots, numbers: Numbers) -> Tensor:
        # Before momentum, as in torch: the decay is a term of the loss, so the buffer contains it.
        gradient = add_decay(gradient, parameter, self.weight_decay)
        if not self.momentum:
            return parameter - numbers["rate"] * gradient
        added = gradient * numbers["share"] if self.dampening else gradient
        # The rate is not part of the buffer, so that a schedule takes effect at once.
        buffer = slots.put("momentum_buffer", slots["momentum_buffer"] * self.momentum + added)
        direction = gradient + buffer * self.momentum if self.nesterov else buffer
        return parameter - numbers["rate"] * direction


class SGD(Optimizer):
    """Stochastic gradient descent, optionally with momentum.

    Args:
        parameters: module, or nested lists and dicts of tensors; see `Optimizer`.
        lr: learning rate: a number, a tensor, or a schedule.
        momentum: momentum factor.
        dampening: dampening of the momentum: the gradient is multiplied by `1 - dampening`.
        weight_decay: L2 penalty: this multiple of the parameter is added to its gradient.
        nesterov: if True, use Nesterov momentum.
        maximize: if True, maximize the objective instead of minimizing it.
        groups: options for groups of parameters; see `Optimizer`.

    Source: I. Sutskever et al., On the importance of initialization and momentum in deep learning,
    2013, as in `torch.optim.SGD`.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> w = Tensor([1.0, -2.0])
        >>> nn.SGD({"w": w}, lr=0.5).update({"w": Tensor([1.0, 2.0])})
        >>> [round(x, 4) for x in w.tolist()]
        [0.5, -3.0]
    """

    def __init__(
        self,
        parameters: Parameters | None = None,
        lr: Rate = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        groups: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        rule = SGDRule(
            lr=lr,
            momentum=momentum,
            dampening=dampening,
            weight_decay=weight_decay,
            nesterov=nesterov,
            maximize=maximize,
        )
        super().__init__(parameters, rule, groups)
