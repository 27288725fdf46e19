"""Muon: steps of matrices are orthogonal; other parameters get those of AdamW."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, TypeAlias

from svod_nn.errors import LayerArgumentError
from svod_nn.optimizers.adam import AdamRule
from svod_nn.optimizers.optimizer import Optimizer
from svod_nn.optimizers.rule import Numbers, Rate, Rule, Shared, Slots, make_decayed
from svod_nn.optimizers.tensors import Parameters
from svod_tensor import Tensor

__all__ = ["Muon", "MuonRule", "orthogonalize"]

Adjustment: TypeAlias = Literal["original", "match_rms_adamw", "spectral_unclamped"]
"""How the rate depends on a matrix's sizes: as K.

Jordan has it, so that rates of AdamW are right, or by the spectral norm.
"""

_AVERAGE_KEPT = 0.2
"""The root mean square of AdamW's steps, by J.

Liu et al., Muon is scalable for LLM training, 2025, section 2.2.
"""


@dataclass(frozen=True, kw_only=True)
class MuonRule(Rule):
    """The options of `Muon`, and what it does."""

    lr: Rate = 1e-3
    weight_decay: float = 0.1
    momentum: float = 0.95
    nesterov: bool = True
    ns_coefficients: tuple[float, float, float] = (3.4445, -4.7750, 2.0315)
    eps: float = 1e-7
    ns_steps: int = 5
    adjust_lr_fn: Adjustment | None = None
    use_muon: bool | None = None
    others: AdamRule = field(
        default_factory=lambda: AdamRule(weight_decay=1e-2, decoupled_weight_decay=True)
    )

    name: ClassVar[str] = "Muon"

    def __post_init__(self) -> None:
        Rule.__post_init__(self)
        self.check_not_negative("weight_decay", "momentum", "eps")
        self.check("ns_steps", self.ns_steps > 0, "at least 1")
        known = (None, "original", "match_rms_adamw", "spectral_unclamped")
        self.check("adjust_lr_fn", self.adjust_lr_fn in known, f"one of {known}")

    def make_slots(self, parameter: Tensor) -> dict[str, Tensor]:
        if not self._is_matrix(parameter):
            return self.others.make_slots(parameter)
        return {"momentum_buffer": parameter.zeros_like()}

    def make_numbers(
        self, count: Tensor, rate: float | Tensor, shared: Shared
    ) -> tuple[Numbers, Shared]:
        others, _ = self.others.make_numbers(count, self.others.get_rate(count - 1), {})
        return {
            "rate": rate,
            **{f"others.{name}": number for name, number in others.items()},
        }, shared

    def change(self, parameter: Tensor, gradient: Tensor, slots: Slots, numbers: Numbers) -> Tensor:
        if not self._is_matrix(parameter):
            theirs = {
                n.removeprefix("others."): v for n, v in numbers.items() if n.startswith("others.")
            }
            return self.others.change(parameter, gradient, slots, theirs)
        buffer = slots.put(
            "momentum_buffer",
            slots["momentum_buffer"] * self.momentum + gradient * (1 - self.momentum),
        )
        direction = (
            gradient * (1 - self.momentum) + buffer * self.momentum if self.nesterov else buffer
        )
        step = orthogonalize(direction, self.ns_coefficients, self.ns_steps, self.eps)
        start = make_decayed(parameter, numbers["rate"], self.weight_decay)
        return start - step * (numbers["rate"] * self._get_ratio(parameter))

    def _is_matrix(self, parameter: Tensor) -> bool:
        if self.use_muon is None:
            return parameter.ndim == 2
        self.check(
            "use_muon",
            not self.use_muon or parameter.ndim == 2,
            f"possible for a shape of {parameter.shape}",
        )
        return self.use_muon

    def _get_ratio(self, parameter: Tensor) -> float:
        n_rows, n_columns = _get_sizes(parameter)
        match self.adjust_lr_fn:
            case "match_rms_adamw":
                return _AVERAGE_KEPT * math.sqrt(max(n_rows, n_columns))
            case "spectral_unclamped":
                return math.sqrt(n_rows / n_columns)
            case _:
                return math.sqrt(max(1.0, n_rows / n_columns))


def orthogonalize(
    matrix: Tensor, coefficients: tuple[float, float, float], n_steps: int, eps: float
) -> Tensor:
    """About the orthogonal matrix that is next to `matrix`: its singular values are brought near to
    1, from below and above.

    Source: K. Jordan et al., Muon, 2024: iterations of a polynomial of degree 5, after Newton and
    Schulz."""
    first, second, third = coefficients
    n_rows, n_columns = _get_sizes(matrix)
    is_tall = n_rows > n_columns
    x = matrix.T if is_tall else matrix
    x = x / x.square().sum().sqrt().maximum(eps)
    for _ in range(n_steps):
        gram = x @ x.T
        x = x * first + (gram * second + (gram @ gram) * third) @ x
    return x.T if is_tall else x


def _get_sizes(matrix: Tensor) -> tuple[int, int]:
    n_rows, n_columns = matrix.shape
    if not isinstance(n_rows, int) or not isinstance(n_columns, int):
        raise LayerArgumentError(
            name="Muon", problem=f"the sizes of a matrix, {matrix.shape}, depend on variables"
        )
    return n_rows, n_columns


class Muon(Optimizer):
    """Orthogonal steps for matrices, and those of `AdamW` for all other parameters.

    Embeddings and the last layer, matrices too, are better left to AdamW: `groups=[{"params":
    model.head, "use_muon": False}]`.

    Args:
        parameters: a module, or nested lists and dicts of tensors; see `Optimizer`.
        lr: for matrices: a number, a tensor, or a schedule.
        weight_decay: how much is taken off a matrix, times the rate.
        momentum: how much of the average gradient is kept in a step.
        nesterov: whether the gradient is looked at where the momentum leads.
        ns_coefficients: of x, x³ and x⁵ in the polynomial that brings singular values to 1.
        eps: the least norm of a matrix.
        ns_steps: how often the polynomial is applied.
        adjust_lr_fn: how the rate depends on the sizes of a matrix: by default it grows with the
            root of rows / columns.
        use_muon: whether all parameters of a group are taken for matrices, or none; by default
            those of two axes.
        others: for all other parameters, the options of `AdamW`.
        maximize: whether to go up.
        groups: other options for some parameters.

    Source: K. Jordan et al., Muon: an optimizer for hidden layers in neural networks, 2024, as
    `torch.optim.Muon` has it, but in the parameter's dtype where that is in bfloat16.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> w = Tensor.zeros(2, 2).realize()
        >>> nn.Muon({"w": w}, lr=1.0).update({"w": Tensor([[3.0, 0.0], [0.0, 4.0]])})
        >>> [[round(x, 2) for x in row] for row in w.tolist()]
        [[-0.72, 0.0], [0.0, -1.12]]
    """

    def __init__(
        self,
        parameters: Parameters | None = None,
        lr: Rate = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.7750, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: Adjustment | None = None,
        *,
        use_muon: bool | None = None,
        others: Mapping[str, Any] | None = None,
        maximize: bool = False,
        groups: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        adam = replace(
            AdamRule(lr=lr, weight_decay=1e-2), **(others or {}), decoupled_weight_decay=True
        )
        rule = MuonRule(
            lr=lr,
            weight_decay=weight_decay,
            momentum=momentum,
            nesterov=nesterov,
            ns_coefficients=ns_coefficients,
            eps=eps,
            ns_steps=ns_steps,
            adjust_lr_fn=adjust_lr_fn,
            use_muon=use_muon,
            others=adam,
            maximize=maximize,
        )
        super().__init__(parameters, rule, groups)
