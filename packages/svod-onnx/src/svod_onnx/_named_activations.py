"""Activations that nodes select by name, with up to two parameters, for recurrent layers and fused
operators.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from svod_tensor import Tensor

__all__ = ["NAMED_ACTIVATIONS", "Activation", "NamedActivation"]

Activation = Callable[[Tensor], Tensor]


@dataclass(frozen=True, slots=True)
class NamedActivation:
    """An activation with the defaults of its parameters; None for a parameter that it does not
    have.
    """

    make: Callable[[Any, Any], Activation]
    alpha: float | None = None
    beta: float | None = None


# Defaults of the parameters as in the specification of each operator, in RNN, GRU and LSTM.
NAMED_ACTIVATIONS: Final[dict[str, NamedActivation]] = {
    "affine": NamedActivation(lambda a, b: lambda x: x * a + b, 1.0, 0.0),
    "elu": NamedActivation(lambda a, _: lambda x: x.elu(a), 1.0),
    "hardsigmoid": NamedActivation(
        lambda a, b: lambda x: (x * a + b).maximum(0).minimum(1), 0.2, 0.5
    ),
    "leakyrelu": NamedActivation(lambda a, _: lambda x: x.leaky_relu(a), 0.01),
    "relu": NamedActivation(lambda _, __: Tensor.relu),
    "scaledtanh": NamedActivation(lambda a, b: lambda x: (x * b).tanh() * a, 1.0, 1.0),
    "sigmoid": NamedActivation(lambda _, __: Tensor.sigmoid),
    "softplus": NamedActivation(lambda _, __: Tensor.softplus),
    "softsign": NamedActivation(lambda _, __: Tensor.softsign),
    "tanh": NamedActivation(lambda _, __: Tensor.tanh),
    "thresholdedrelu": NamedActivation(lambda a, _: lambda x: (x > a).where(x, 0), 1.0),
}
"""Activations by their lower-case names."""
