"""Gradients of a loss with respect to the parameters of a module."""

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
    """Return a function that computes a loss and its gradients with respect to a model's parameters.

    The parameters are replaced by traced tensors while the loss is computed, so that no other
    thread may use the model meanwhile. Assignments to buffers, such as running statistics, persist.

    Args:
        model: module whose trainable (not frozen) parameters are differentiated.
        loss_function: function of the model and further arguments that returns a 0-d tensor of
            floats, or with `has_aux` a pair `(loss, aux)`.
        has_aux: if True, `loss_function` returns a pair `(loss, aux)`.

    Returns:
        a function of the further arguments that returns the result of `loss_function` and a dict of
        gradients, with the keys of `model.trainable_parameters()`.

    Raises:
        LayerArgumentError: if `model` is not a `Module`, or `loss_function` is not callable.
        DerivativeError (when called): if the loss is not a 0-d tensor of floats.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> model = nn.Linear(2, 1, bias=False)
        >>> loss, gradients = nn.value_and_grad(model, lambda model, x: model(x).sum())(Tensor([[3.0, 4.0]]))
        >>> gradients["weight"].tolist()
        [[3.0, 4.0]]
    """

    _check(model, loss_function)

    def call(*args: Any, **kwargs: Any) -> tuple[Any, dict[str, Tensor]]:
        # In each call, since parameters may be frozen or replaced between calls.
        parameters = model.trainable_parameters()

        def compute(traced: dict[str, Tensor]) -> Any:
            # The model is called with traced tensors, so that any function of it can be
            # differentiated.
            with model.replaced(traced):
                return loss_function(model, *args, **kwargs)

        result, gradients = take_value_and_grad(compute, has_aux=has_aux)(parameters)
        return result, {name: gradients[name] for name in parameters}

    return call


def _check(model: object, loss_function: object) -> None:
    if isinstance(model, Module) and callable(loss_function):
        return
    problem = f"model must be a Module, not {type(model).__name__}"
    if isinstance(model, Module):
        problem = f"loss_function must be callable, not {type(loss_function).__name__}"
    hint = (
        "write value_and_grad(model, loss_function)(x), where loss_function(model, x) returns a 0-d"
        " tensor"
    )
    raise LayerArgumentError(name="value_and_grad", problem=problem, hint=hint)
