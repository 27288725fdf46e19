"""The gradients of a loss by the parameters of a module."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from svod_nn._module import Module
from svod_nn.errors import LayerArgumentError
from svod_tensor import Tensor, value_and_grad as take_value_and_grad

__all__ = ["value_and_grad"]


def value_and_grad(
    model: Module, loss_function: Callable[..., Any], *, has_aux: bool = False
) -> Callable[..., tuple[Any, dict[str, Tensor]]]:
    """The function that gives a loss and its gradients by the parameters of a model.

    While the loss is computed, other tensors stand in place of the parameters, and the model is
    nobody else's; what the model assigns to its buffers meanwhile, such as statistics of batches,
    stays assigned.

    Args:
        model: whose parameters the gradients are by, without those that are frozen.
        loss_function: from the model and any other arguments to a 0-d tensor of floats, or with
            `has_aux` to a pair of it and anything else.
        has_aux: whether the loss is the first of a pair.

    Returns:
        a function of those other arguments, which gives what the loss function gave, and the
        gradients by the names of `model.trainable_parameters()`.

    Raises:
        LayerArgumentError: if the model is no module, or the loss no function.
        DerivativeError (when called): if the loss is no 0-d tensor of floats.

    Example:
        >>> model = nn.Linear(2, 1, bias=False)
        >>> loss, gradients = nn.value_and_grad(model, lambda model, x: model(x).sum())(Tensor([[3.0, 4.0]]))
        >>> gradients["weight"].tolist()
        [[3.0, 4.0]]
    """

    _check(model, loss_function)

    def call(*args: Any, **kwargs: Any) -> tuple[Any, dict[str, Tensor]]:
        parameters = model.trainable_parameters()

        def compute(given: dict[str, Tensor]) -> Any:
            with model.replaced(given):
                return loss_function(model, *args, **kwargs)

        result, gradients = take_value_and_grad(compute, has_aux=has_aux)(parameters)
        return result, {name: gradients[name] for name in parameters}

    return call


def _check(model: object, loss_function: object) -> None:
    if isinstance(model, Module) and callable(loss_function):
        return
    problem = f"the model is of {type(model).__name__}, and no Module"
    if isinstance(model, Module):
        problem = f"the loss is of {type(loss_function).__name__}, and no function"
    hint = (
        "write value_and_grad(model, loss_function)(x), where loss_function(model, x) gives a 0-d"
        " tensor"
    )
    raise LayerArgumentError(name="value_and_grad", problem=problem, hint=hint)
