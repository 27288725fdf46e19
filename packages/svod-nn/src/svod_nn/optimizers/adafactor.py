"""Adafactor: Adam-like steps with factored second moments, kept per row and column."""

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
    """Options and update of `Adafactor`."""

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
        # The squares are kept only as means of rows and columns, which takes memory for n + m
        # elements of a matrix instead of n * m.
        rows = parameter[..., :1].zeros_like()
        return {"row_var": rows, "col_var": parameter[..., :1, :].zeros_like()}

    def make_numbers(
        self, count: Tensor, rate: float | Tensor, shared: Shared
    ) -> tuple[Numbers, Shared]:
        return {
            "rate": rate,
            # The first step has a share of 1, which replaces the initial zeros: no bias correction
            # is needed.
            "share": count**self.beta2_decay,
            # As in torch, the rate is an upper bound of the schedule 1 / sqrt(count).
            "relative_rate": count.rsqrt().minimum(rate),
        }, shared

    def change(self, parameter: Tensor, gradient: Tensor, slots: Slots, numbers: Numbers) -> Tensor:
        eps1, eps2 = self._get_eps1(parameter), self.eps[1]
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
            # Rows and columns both contain the mean of the whole matrix; divided by it once, their
            # product has the scale of a square.
            estimate = rows * columns / rows.mean(-2, keepdims=True).maximum(eps1)
        # The estimate is a square, so the bound of its root is squared.
        direction = estimate.maximum(eps1 * eps1).rsqrt() * gradient
        # A step is relative to the size of the parameter; bounded, because a parameter of zeros
        # would never change.
        scale = _make_rms(parameter).maximum(eps2)
        # The estimate lags behind a sudden growth of the gradients: such steps are scaled down.
        clip = (_make_rms(direction) / self.d).maximum(1.0)
        start = make_decayed(parameter, numbers["rate"], self.weight_decay)
        return start - direction * (numbers["relative_rate"] * scale / clip)

    def _get_eps1(self, parameter: Tensor) -> float:
        """Return the first of `eps`: by default the machine epsilon of the parameter's dtype."""
        eps1 = self.eps[0]
        return eps1 if eps1 is not None else 2.0**-52 if parameter.dtype is float64 else 2.0**-23


def _make_rms(x: Tensor) -> Tensor:
    return x.square().mean().sqrt()


class Adafactor(Optimizer):
    """Adafactor: adaptive steps with sublinear memory.

    The second moments of a matrix are estimated from averages over its rows and columns, which take
    little memory.

    Args:
        parameters: module, or nested lists and dicts of tensors; see `Optimizer`.
        lr: upper bound of the relative step size: a number, a tensor, or a schedule. A step is at
            most this multiple of the parameter's root mean square.
        beta2_decay: exponent of the decay rate of the averages: the weight of the current squared
            gradient is `step ** beta2_decay`.
        eps: lower bounds of the second moments and of the parameter's root mean square; None means
            the machine epsilon of the dtype.
        d: clipping threshold of the root mean square of an update.
        weight_decay: decoupled weight decay, multiplied by the learning rate.
        maximize: if True, maximize the objective instead of minimizing it.
        groups: options for groups of parameters; see `Optimizer`.

    Source: N. Shazeer, M. Stern, Adafactor, 2018, as in `torch.optim.Adafactor`.

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
