"""Errors for wrong argument names: map the names of other libraries to those of numpy and the array
API standard, which svod uses.

Names are checked only after a call has failed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, signature
from typing import Final, ParamSpec, TypeVar

from svod_tensor._foreign_names import find_foreign_argument
from svod_tensor._origins import wrap
from svod_tensor.errors import ArgumentNameError

__all__ = ["SPELLINGS", "explain_arguments", "find_wrong_argument"]

P = ParamSpec("P")
R = TypeVar("R")

SPELLINGS: Final[Mapping[str, tuple[str, ...]]] = {
    "dim": ("axis", "axes"),
    "dims": ("axis", "axes"),
    "axes": ("axis",),
    "axis": ("axes",),
    "keepdim": ("keepdims",),
    "dim0": ("axes", "axis1"),
    "dim1": ("axis2", "axis1"),
    "start_dim": ("start_axis",),
    "end_dim": ("end_axis",),
    "unbiased": ("correction",),
    "ddof": ("correction",),
    "kernel_size": ("kernel",),
    "size": ("shape",),
    "index": ("indices",),
    "src": ("values", "value"),
    "value": ("values", "fill_value", "constant_values"),
    "values": ("value",),
    "fill_value": ("value",),
    "diagonal": ("k",),
    "offset": ("k",),
    "steps": ("num",),
    "shifts": ("shift",),
    "count": ("repeats", "num"),
    "a_min": ("min",),
    "a_max": ("max",),
    "negative_slope": ("slope",),
    "epsilon": ("eps",),
    "attn_mask": ("mask",),
    "running_mean": ("mean",),
    "running_var": ("variance",),
    "num_classes": ("n_classes",),
    "num_groups": ("n_groups",),
    "chunks": ("n_parts",),
    "num_samples": ("n",),
    "split_size_or_sections": ("sizes",),
    "split_size": ("sizes",),
    "minlength": ("n_bins",),
    "loc": ("mean",),
    "scale": ("std",),
    "N": ("n_rows",),
    "M": ("n_cols",),
}
"""Argument names of other libraries, and candidates here: the first that the operation has is meant."""

_BY_POSITION: Final = (Parameter.POSITIONAL_ONLY, Parameter.VAR_POSITIONAL)

_CONVERTED: Final[Mapping[str, Callable[[object], object]]] = {
    "unbiased": lambda value: 1 if value else 0
}
"""Conversions of values, for arguments whose meaning differs and not only their name."""


def explain_arguments(operation: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate a method so that a wrong argument name raises an `ArgumentNameError`."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                return function(*args, **kwargs)
            except TypeError:
                if (unknown := find_wrong_argument(function, operation, args, kwargs)) is not None:
                    # Python's message would name the function that the method calls.
                    raise unknown from None
                raise

        return wrap(call, function)

    return decorate


def find_wrong_argument(
    function: Callable[..., object],
    operation: str,
    args: Sequence[object],
    kwargs: Mapping[str, object],
    owner: str | None = None,
    *,
    is_static: bool = False,
) -> ArgumentNameError | None:
    """Return an error about the first argument with a wrong name or position; None if all are right.

    Args:
        function: the function; its first parameter is the tensor, which messages leave out.
        operation: its name.
        args: the positional arguments.
        kwargs: the keyword arguments.
        owner: name to show before the operation in hints, such as "sv"; None for a method call.
        is_static: whether the function has no parameter for a tensor.
    """
    # Read here and not when the operation is registered: most programs never fail.
    all_parameters = list(signature(function).parameters.values())
    first_parameter, parameters = (
        all_parameters[0],
        all_parameters if is_static else all_parameters[1:],
    )
    wrong = [
        name
        for name in kwargs
        if not any(p.name == name and p.kind not in _BY_POSITION for p in parameters)
    ]
    # All names are right, so too many arguments were given by position.
    if not wrong:
        return _find_misplaced(all_parameters, operation, args, kwargs, owner)
    by_name = {parameter.name: parameter for parameter in parameters}
    meant = {name: _find_meant(name, by_name) for name in wrong}
    target = meant[wrong[0]]
    if target is None:
        hint = find_foreign_argument(wrong[0])
        return ArgumentNameError(
            operation=operation, given=wrong[0], expected=tuple(by_name), hint=hint
        )
    shown = [_show(value) for value in (args if _takes_many(args) or owner else args[1:])]
    for name, value in kwargs.items():
        parameter = meant.get(name, by_name.get(name))
        if parameter is not None:
            text = _show(_CONVERTED[name](value) if name in _CONVERTED else value)
            is_placed = parameter.kind in _BY_POSITION
            shown.append(text if is_placed else f"{parameter.name}={text}")
    owner = owner or ("Tensor" if first_parameter.name == "cls" or _takes_many(args) else "x")
    return ArgumentNameError(
        operation=operation,
        given=wrong[0],
        expected=(target.name,),
        call=f"{owner}.{operation}({', '.join(shown)})",
        is_placed=target.kind in _BY_POSITION,
    )


def _find_misplaced(
    parameters: Sequence[Parameter],
    operation: str,
    args: Sequence[object],
    kwargs: Mapping[str, object],
    owner: str | None,
) -> ArgumentNameError | None:
    """Return an error about positional arguments that are keyword-only."""
    n_positional = sum(
        p.kind in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD) for p in parameters
    )
    keyword_only = [
        p for p in parameters if p.kind is Parameter.KEYWORD_ONLY and p.name not in kwargs
    ]
    surplus = args[n_positional:]
    if (
        not surplus
        or len(surplus) > len(keyword_only)
        or any(p.kind is Parameter.VAR_POSITIONAL for p in parameters)
    ):
        return None
    by_name = {**{p.name: value for p, value in zip(keyword_only, surplus, strict=False)}, **kwargs}
    shown = [_show(value) for value in args[owner is None : n_positional]]
    shown += [f"{name}={_show(value)}" for name, value in by_name.items()]
    expected = tuple(p.name for p in keyword_only[: len(surplus)])
    owner = owner or ("Tensor" if parameters[0].name == "cls" else "x")
    return ArgumentNameError(
        operation=operation,
        given=None,
        expected=expected,
        call=f"{owner}.{operation}({', '.join(shown)})",
    )


def _find_meant(name: str, taken: Mapping[str, Parameter]) -> Parameter | None:
    return next((taken[ours] for ours in (name, *SPELLINGS.get(name, ())) if ours in taken), None)


def _takes_many(args: Sequence[object]) -> bool:
    """Whether the first argument is a sequence, as in `Tensor.concat([x, y])`."""
    return bool(args) and isinstance(args[0], (list, tuple))


def _show(value: object) -> str:
    if isinstance(value, (bool, int, float, str, type(None))):
        return repr(value)
    if isinstance(value, tuple) and all(isinstance(v, int) for v in value):  # pyright: ignore[reportUnknownVariableType]
        return repr(value)  # pyright: ignore[reportUnknownArgumentType]
    return "[...]" if isinstance(value, list) else "..."
