"""Muon: orthogonalized momentum steps for matrices, AdamW for the other parameters."""

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
"""Adjustment of the learning rate to the shape of a matrix.

"original" is Jordan's, "match_rms_adamw" allows learning rates tuned for AdamW, and
"spectral_unclamped" scales by the spectral norm."""

_ADAMW_RMS = 0.2
"""Typical root mean square of AdamW's steps; J. Liu et al., Muon is scalable for LLM training, 2025,
section 2.2."""


@dataclass(frozen=True, kw_only=True)
class MuonRule(Rule):
    """Options and update of `Muon`."""

    lr: Rate = 1e-3
    weight_decay: float = 0.1
    momentum: float = 0.95
    nesterov: bool = True
    ns_coefficients: tuple[float, float, float] = (3.4445, -4.7750, 2.0315)
    eps: float = 1e-7
    ns_steps: int = 5
    adjust_lr_fn: Adjustment | None = None
    use_muon: bool | None = None
    adamw: AdamRule = field(
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
            return self.adamw.make_slots(parameter)
        return {"momentum_buffer": parameter.zeros_like()}

    def make_numbers(
        self, count: Tensor, rate: float | Tensor, shared: Shared
    ) -> tuple[Numbers, Shared]:
        # Computed for every group: the shapes of its parameters are not known here, and scalars are
        # cheap.
        numbers, _ = self.adamw.make_numbers(count, self.adamw.get_rate(count - 1), {})
        return {
            "rate": rate,
            **{f"adamw.{name}": value for name, value in numbers.items()},
        }, shared

    def change(self, parameter: Tensor, gradient: Tensor, slots: Slots, numbers: Numbers) -> Tensor:
        if not self._is_matrix(parameter):
            adamw = {
                n.removeprefix("adamw."): v for n, v in numbers.items() if n.startswith("adamw.")
            }
            # A vector, such as a bias, has no singular values to equalize.
            return self.adamw.change(parameter, gradient, slots, adamw)
        buffer = slots.put(
            "momentum_buffer",
            slots["momentum_buffer"] * self.momentum + gradient * (1 - self.momentum),
        )
        direction = (
            # As in torch, an average and not a sum: the scale is lost in `orthogonalize` anyway.
            gradient * (1 - self.momentum) + buffer * self.momentum if self.nesterov else buffer
        )
        step = orthogonalize(direction, self.ns_coefficients, self.ns_steps, self.eps)
        # The decay uses the rate without the ratio, as in torch.
        start = make_decayed(parameter, numbers["rate"], self.weight_decay)
        return start - step * (numbers["rate"] * self._get_ratio(parameter))

    def _is_matrix(self, parameter: Tensor) -> bool:
        if self.use_muon is None:
            return parameter.ndim == 2
        self.check(
            "use_muon",
            not self.use_muon or parameter.ndim == 2,
            f"possible for a parameter of shape {parameter.shape}, which is not a matrix",
        )
        return self.use_muon

    def _get_ratio(self, parameter: Tensor) -> float:
        n_rows, n_columns = _get_sizes(parameter)
        match self.adjust_lr_fn:
            case "match_rms_adamw":
                return _ADAMW_RMS * math.sqrt(max(n_rows, n_columns))
            case "spectral_unclamped":
                return math.sqrt(n_rows / n_columns)
            case _:
                # With more outputs than inputs, an orthogonal step spreads the same norm over more
                # elements; the factor restores their root mean square.
                return math.sqrt(max(1.0, n_rows / n_columns))


def orthogonalize(
    matrix: Tensor, coefficients: tuple[float, float, float], n_steps: int, eps: float
) -> Tensor:
    """Approximate the nearest orthogonal matrix by Newton-Schulz iterations.

    The singular values are driven close to 1, from below and above.

    Args:
        matrix: matrix of shape (rows, columns).
        coefficients: a, b and c of the polynomial `a x + b x³ + c x⁵`.
        n_steps: number of iterations.
        eps: lower bound of the norm that the matrix is divided by.

    Source: K. Jordan et al., Muon, 2024: Newton-Schulz iterations with a polynomial of degree 5."""
    a, b, c = coefficients
    n_rows, n_columns = _get_sizes(matrix)
    # The Gram matrix of the shorter side is smaller.
    is_tall = n_rows > n_columns
    x = matrix.T if is_tall else matrix
    # The Frobenius norm bounds the spectral norm: the iteration needs singular values of at most 1.
    x = x / x.square().sum().sqrt().maximum(eps)
    for _ in range(n_steps):
        gram = x @ x.T
        x = x * a + (gram * b + (gram @ gram) * c) @ x
    return x.T if is_tall else x


def _get_sizes(matrix: Tensor) -> tuple[int, int]:
    n_rows, n_columns = matrix.shape
    if not isinstance(n_rows, int) or not isinstance(n_columns, int):
        raise LayerArgumentError(
            name="Muon", problem=f"a parameter has the symbolic shape {matrix.shape}"
        )
    return n_rows, n_columns


class Muon(Optimizer):
    """Muon: orthogonalized momentum for matrices, and `AdamW` for all other parameters.

    Embeddings and the output layer are matrices too, but train better with AdamW:
    `groups=[{"params": model.head, "use_muon": False}]`.

    Args:
        parameters: module, or nested lists and dicts of tensors; see `Optimizer`.
        lr: learning rate of matrices: a number, a tensor, or a schedule.
        weight_decay: decoupled weight decay of matrices, multiplied by the learning rate.
        momentum: decay rate of the average gradient.
        nesterov: if True, use Nesterov momentum.
        ns_coefficients: coefficients of x, x³ and x⁵ in the Newton-Schulz iteration.
        eps: lower bound of the norm of a matrix, for numerical stability.
        ns_steps: number of Newton-Schulz iterations.
        adjust_lr_fn: adjustment of the learning rate to the shape of a matrix: "original", the
            default, multiplies it by `sqrt(max(1, rows / columns))`; "match_rms_adamw" by `0.2 *
            sqrt(max(rows, columns))`; "spectral_unclamped" by `sqrt(rows / columns)`.
        use_muon: use Muon for all parameters of a group (True), or AdamW (False); by default Muon
            for parameters with two axes.
        adamw: options of `AdamW` for the other parameters; its learning rate defaults to `lr`.
        maximize: if True, maximize the objective instead of minimizing it.
        groups: options for groups of parameters; see `Optimizer`.

    Source: K. Jordan et al., Muon: an optimizer for hidden layers in neural networks, 2024, as in
    `torch.optim.Muon`, which however iterates in bfloat16, and not in the parameter's dtype.

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
        adamw: Mapping[str, Any] | None = None,
        maximize: bool = False,
        groups: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        adamw_rule = replace(
            AdamRule(lr=lr, weight_decay=1e-2), **(adamw or {}), decoupled_weight_decay=True
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
            adamw=adamw_rule,
            maximize=maximize,
        )
        super().__init__(parameters, rule, groups)
