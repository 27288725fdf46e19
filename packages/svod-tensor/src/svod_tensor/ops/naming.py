"""Errors that name the operation that was called, however deep inside of it the mistake is found.

Each public method of a class of operations is wrapped in a function whose errors `argument_checks.py` explains.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import isfunction
from typing import Any, Final, ParamSpec, TypeVar, cast

from svod_tensor._origins import wrap

__all__ = ["operations"]

C = TypeVar("C", bound=type)
P = ParamSpec("P")
R = TypeVar("R")

_SPECIAL: Final = {
    "__getitem__": "indexing", "__setitem__": "assignment", "__len__": "len", "__rsub__": "sub", "__rtruediv__": "div",
    "__rfloordiv__": "floor_divide", "__rmod__": "remainder", "__rpow__": "pow", "__rlshift__": "lshift",
    "__rrshift__": "rshift", "__rmatmul__": "matmul",
}  # fmt: skip
"""Operators that do more than call one method, and what they are called."""

_NAMED: Final = "names_errors"


def operations(cls: C) -> C:
    """Let the errors of the public methods that a class defines name them."""
    wrappers: dict[object, object] = {}
    for name, value in list(vars(cls).items()):
        shown = _SPECIAL.get(name) if name.startswith("_") else name
        if shown is None:
            continue
        # Another name of a method stays the same object.
        key = getattr(value, "__func__", value)
        if key not in wrappers:
            wrappers[key] = _wrap_member(value, shown)
        setattr(cls, name, wrappers[key])
    return cls


def _wrap_member(value: Any, name: str) -> object:
    if isinstance(value, classmethod):
        method = cast("classmethod[object, ..., object]", value)
        return classmethod(_name_errors(method.__func__, name))
    if isinstance(value, property):
        get: Callable[..., object] = value.fget  # pyright: ignore[reportAssignmentType]
        return property(_name_errors(get, name), doc=value.__doc__)
    return _name_errors(value, name) if isfunction(value) and not hasattr(value, _NAMED) else value


def _name_errors(function: Callable[P, R], name: str) -> Callable[P, R]:
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            from svod_tensor.ops.argument_checks import explain_failure

            known = explain_failure(error, function, name, args, kwargs)
            if known is None:
                raise
        # As `operation.py` does: no frames with half-built tensors stay alive.
        try:
            raise known.with_traceback(None)
        finally:
            del known

    setattr(call, _NAMED, True)
    return wrap(call, function)
