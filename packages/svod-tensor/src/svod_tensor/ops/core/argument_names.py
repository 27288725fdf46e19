"""Arguments are named as numpy and the array API standard name them: what to say to a call that
names one in another way.

Only a call that has failed asks.
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
"""Names of other libraries, and ours: the first one that the operation takes is meant."""

_BY_POSITION: Final = (Parameter.POSITIONAL_ONLY, Parameter.VAR_POSITIONAL)

_CONVERTED: Final[Mapping[str, Callable[[object], object]]] = {
    "unbiased": lambda value: 1 if value else 0
}
"""Where the argument that is meant has another value too."""


def explain_arguments(operation: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Let a call of the method that is decorated fail with an `ArgumentNameError` where it gives an
    argument otherwise.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                return function(*args, **kwargs)
            except TypeError:
                if (unknown := find_wrong_argument(function, operation, args, kwargs)) is not None:
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
    """The error about the first argument whose name or position the function does not have; None if
    there is none.

    Args:
        function: the function, whose first parameter is the tensor, which messages leave out.
        operation: its name.
        args: the positional arguments.
        kwargs: the keyword arguments.
        owner: the module's name where the call is one of a function and not of a method.
        is_static: whether the function has no parameter for a tensor.
    """
    every = list(signature(function).parameters.values())
    own, parameters = every[0], every if is_static else every[1:]
    wrong = [
        name
        for name in kwargs
        if not any(p.name == name and p.kind not in _BY_POSITION for p in parameters)
    ]
    if not wrong:
        return _find_misplaced(every, operation, args, kwargs, owner)
    taken = {parameter.name: parameter for parameter in parameters}
    meant = {name: _find_meant(name, taken) for name in wrong}
    first = meant[wrong[0]]
    if first is None:
        hint = find_foreign_argument(wrong[0])
        return ArgumentNameError(
            operation=operation, given=wrong[0], expected=tuple(taken), hint=hint
        )
    shown = [_show(value) for value in (args if _takes_many(args) or owner else args[1:])]
    for name, value in kwargs.items():
        parameter = meant.get(name, taken.get(name))
        if parameter is not None:
            text = _show(_CONVERTED[name](value) if name in _CONVERTED else value)
            is_placed = parameter.kind in _BY_POSITION
            shown.append(text if is_placed else f"{parameter.name}={text}")
    owner = owner or ("Tensor" if own.name == "cls" or _takes_many(args) else "x")
    return ArgumentNameError(
        operation=operation,
        given=wrong[0],
        expected=(first.name,),
        call=f"{owner}.{operation}({', '.join(shown)})",
        is_placed=first.kind in _BY_POSITION,
    )


def _find_misplaced(
    parameters: Sequence[Parameter],
    operation: str,
    args: Sequence[object],
    kwargs: Mapping[str, object],
    owner: str | None,
) -> ArgumentNameError | None:
    """The error about arguments by place that the function takes by name alone."""
    n_places = sum(
        p.kind in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD) for p in parameters
    )
    by_name = [p for p in parameters if p.kind is Parameter.KEYWORD_ONLY and p.name not in kwargs]
    surplus = args[n_places:]
    if (
        not surplus
        or len(surplus) > len(by_name)
        or any(p.kind is Parameter.VAR_POSITIONAL for p in parameters)
    ):
        return None
    named = {**{p.name: value for p, value in zip(by_name, surplus, strict=False)}, **kwargs}
    shown = [_show(value) for value in args[owner is None : n_places]]
    shown += [f"{name}={_show(value)}" for name, value in named.items()]
    expected = tuple(p.name for p in by_name[: len(surplus)])
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
