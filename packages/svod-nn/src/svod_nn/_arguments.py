"""Errors of modules, losses and metrics that are called with something else than a tensor."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from inspect import signature
from itertools import chain
from typing import ParamSpec, TypeVar

from svod_nn.errors import LayerArgumentError
from svod_tensor import DType, Tensor

__all__ = ["find_wrong_argument", "takes_tensors"]

P = ParamSpec("P")
R = TypeVar("R")


def takes_tensors(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function to raise `LayerArgumentError` for a non-tensor as one of its tensors.

    Its tensors are the parameters annotated as `Tensor` or `Tensor | None`. An array has many
    methods of tensors: without the check, NumPy would compute a part of the result.
    """
    parameters = signature(function).parameters
    # Annotations are strings, as `from __future__ import annotations` makes them.
    is_optional = {
        name: parameter.annotation != "Tensor"
        for name, parameter in parameters.items()
        if parameter.annotation in ("Tensor", "Tensor | None")
    }

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        for name, argument in chain(zip(parameters, args, strict=False), kwargs.items()):
            if isinstance(argument, Tensor) or name not in is_optional:
                continue
            if argument is not None or not is_optional[name]:
                raise _make_error(function.__qualname__, argument, name)
        return function(*args, **kwargs)

    return call


def find_wrong_argument(
    error: AttributeError, name: str, args: Iterable[object]
) -> LayerArgumentError | None:
    """Return the error for a module called with a non-tensor, if that made `forward` fail.

    Args:
        error: error raised by `forward`.
        name: class name of the module.
        args: arguments of the call.
    """
    wrong = (argument for argument in args if _is_read_as_tensor(error, argument))
    return next((_make_error(name, argument) for argument in wrong), None)


def _is_read_as_tensor(error: AttributeError, argument: object) -> bool:
    """Whether the missing attribute is one of tensors, or of their dtypes, read from `argument`."""
    if isinstance(argument, Tensor) or error.name is None:
        return False
    if error.obj is argument:
        return hasattr(Tensor, error.name)
    # An array has a dtype as well, but one that lacks properties such as `is_float`.
    return error.obj is getattr(argument, "dtype", error) and hasattr(DType, error.name)


def _make_error(name: str, argument: object, parameter: str = "") -> LayerArgumentError:
    kind = type(argument)
    type_name = (
        kind.__qualname__
        if kind.__module__ == "builtins"
        else f"{kind.__module__}.{kind.__qualname__}"
    )
    return LayerArgumentError(
        name=name,
        problem=f"expected a tensor{parameter and f' as {parameter}'}, got {type_name}",
        hint=f"write Tensor({parameter or 'x'})",
    )
