"""Adafactor: the average squares of a matrix are kept as those of its rows and columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from svod_nn.optimizers.optimizer import Optimizer
from svod_nn.optimizers.rule import Numbers, Rate, Rule, Shared, Slots, make_decayed
from svod_nn.optimizers.tensors import Parameters
from svod_tensor import Tensor, float64

__all__ = ["Adafactor", "AdafactorRule"]


@dataclass(frozen=True, kw_only=True)
class AdafactorRule(Rule):
    """The options of `Adafactor`, and what it does."""

    lr: Rate = 1e-2
    beta2_decay: float = -0.8
    eps: tuple[float | None, float] = (None, 1e-3)
    d: float = 1.0
    weight_decay: float = 0.0

    name: ClassVar[str] = "Adafactor"

    def __post_init__(self) -> None:
        Rule.__post_init__(self)
        self.check_not_negative("weight_decay")
        self.check("beta2_decay", self.beta2_decay <= 0, "at most 0")
        self.check("d", self.d >= 1, "at least 1")
        self.check(
            "eps", all(e is None or e >= 0 for e in self.eps), "two numbers that are at least 0"
        )

    def make_slots(self, parameter: Tensor) -> dict[str, Tensor]:
        if parameter.ndim < 2:
            return {"variance": parameter.zeros_like()}
        rows = parameter[..., :1].zeros_like()
        return {"row_var": rows, "col_var": parameter[..., :1, :].zeros_like()}

    def make_numbers(
        self, count: Tensor, rate: float | Tensor, shared: Shared
    ) -> tuple[Numbers, Shared]:
        return {
            "rate": rate,
            "share": count**self.beta2_decay,
            "relative_rate": count.rsqrt().minimum(rate),
        }, shared

    def change(self, parameter: Tensor, gradient: Tensor, slots: Slots, numbers: Numbers) -> Tensor:
        least, least_size = self._get_least(parameter), self.eps[1]
        share = numbers["share"]
        square = gradient.square()
        if parameter.ndim < 2:
            estimate = slots.put("variance", slots["variance"].lerp(square, share))
        else:
            rows = slots.put(
                "row_var", slots["row_var"].lerp(square.mean(-1, keepdims=True), share)
            )
            columns = slots.put(
                "col_var", slots["col_var"].lerp(square.mean(-2, keepdims=True), share)
            )
            estimate = rows * columns / rows.mean(-2, keepdims=True).maximum(least)
        direction = estimate.maximum(least * least).rsqrt() * gradient
        size = _make_root_mean_square(parameter).maximum(least_size)
        excess = (_make_root_mean_square(direction) / self.d).maximum(1.0)
        start = make_decayed(parameter, numbers["rate"], self.weight_decay)
        return start - direction * (numbers["relative_rate"] * size / excess)

    def _get_least(self, parameter: Tensor) -> float:
        """What no average of squares is below, before it is squared: by default the distance of 1
        to the next number.
        """
        given = self.eps[0]
        return given if given is not None else 2.0**-52 if parameter.dtype is float64 else 2.0**-23


def _make_root_mean_square(x: Tensor) -> Tensor:
    return x.square().mean().sqrt()


class Adafactor(Optimizer):
    """Steps of the gradient over an estimate of its average squares from those of rows and columns:
    little memory for matrices.

    Args:
        parameters: a module, or nested lists and dicts of tensors; see `Optimizer`.
        lr: a number, a tensor, or a schedule; what a step is as a part of the parameter's size, at
            most.
        beta2_decay: the power of the number of the step that is the share of the last gradient in
            the averages.
        eps: what averages are not below, and what the parameter's size is not below; None means the
            dtype's precision.
        d: the largest root mean square of a direction, before the rate.
        weight_decay: how much is taken off the parameter, times the rate.
        maximize: whether to go up.
        groups: other options for some parameters.

    Source: N. Shazeer, M. Stern, Adafactor, 2018, as `torch.optim.Adafactor` has it.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> w = Tensor([1.0, -2.0])
        >>> nn.Adafactor({"w": w}, lr=0.1).update({"w": Tensor([3.0, -0.5])})
        >>> [round(x, 4) for x in w.tolist()]
        [0.8419, -1.8419]
    """

    def __init__(
        self,
        parameters: Parameters | None = None,
        lr: Rate = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
        groups: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        rule = AdafactorRule(
            lr=lr,
            beta2_decay=beta2_decay,
            eps=eps,
            d=d,
            weight_decay=weight_decay,
            maximize=maximize,
        )
        super().__init__(parameters, rule, groups)
