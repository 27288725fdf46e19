"""SGD: steps against the gradient, with momentum."""

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
    """The options of `SGD`, and what it does."""

    lr: Rate = 1e-3
    momentum: float = 0.0
    dampening: float = 0.0
    weight_decay: float = 0.0
    nesterov: bool = False

    name: ClassVar[str] = "SGD"

    def __post_init__(self) -> None:
        Rule.__post_init__(self)
        self.check_not_negative("momentum", "weight_decay")
        if self.nesterov and (self.momentum == 0 or self.dampening != 0):
            raise LayerArgumentError(
                name=self.name, problem="nesterov needs a momentum, and no dampening"
            )

    def make_slots(self, parameter: Tensor) -> dict[str, Tensor]:
        return {"momentum_buffer": parameter.zeros_like()} if self.momentum else {}

    def make_numbers(
        self, count: Tensor, rate: float | Tensor, shared: Shared
    ) -> tuple[Numbers, Shared]:
        if not self.dampening:
            return {"rate": rate}, shared
        # The first gradient is taken as it is.
        share = (count == 1).where(1.0, 1 - self.dampening)
        return {"rate": rate, "share": share}, shared

    def change(self, parameter: Tensor, gradient: Tensor, slots: Slots, numbers: Numbers) -> Tensor:
        gradient = add_decay(gradient, parameter, self.weight_decay)
        if not self.momentum:
            return parameter - numbers["rate"] * gradient
        added = gradient * numbers["share"] if self.dampening else gradient
        buffer = slots.put("momentum_buffer", slots["momentum_buffer"] * self.momentum + added)
        direction = gradient + buffer * self.momentum if self.nesterov else buffer
        return parameter - numbers["rate"] * direction


class SGD(Optimizer):
    """Steps against the gradient, with momentum, as PyTorch takes them.

    Args:
        parameters: a module, or nested lists and dicts of tensors; see `Optimizer`.
        lr: a number, a tensor, or a schedule.
        momentum: how much of the last direction is kept.
        dampening: how much of the gradient is left out of the direction.
        weight_decay: how much of the parameter is added to its gradient.
        nesterov: whether the gradient is looked at where the momentum leads.
        maximize: whether to go up.
        groups: other options for some parameters.

    Source: I. Sutskever et al., On the importance of initialization and momentum in deep learning,
    2013, as `torch.optim.SGD` has it.

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
