"""Errors that name the operation that was called, however deep inside of it the mistake is found.

Each public method of a class of operations gets a frame around it. A `UserError` that passes the outermost one gets its
name. Another exception is a mistake in the call if an argument has a name that the method does not take
(`argument_names.py`), or does not fit its annotation, and is then an `OperandError` that says which; otherwise it is a bug of
svod, and stays as it is.
"""

from __future__ import annotations

import ast
import operator
import os
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from inspect import Parameter, isfunction, signature
from typing import Any, Final, ParamSpec, TypeVar, cast

from svod_dtype import SvodError, UserError
from svod_ir import OperandError, UOp
from svod_tensor._origins import wrap
from svod_tensor.ops.base import TensorBase

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
        except SvodError as error:
            if isinstance(error, UserError):
                error.name_operation(name)
            raise
        except Exception as error:
            from svod_tensor.ops.argument_names import find_wrong_argument

            if (unknown := find_wrong_argument(function, name, args, kwargs)) is not None:
                raise unknown from None
            problem = _find_misfit(function, args, kwargs)
            if problem is None:
                raise
            expected, found = problem
            raise OperandError(operation=name, found=found, expected=expected) from error

    setattr(call, _NAMED, True)
    return wrap(call, function)


def _find_misfit(
    function: Callable[..., object], args: Sequence[object], kwargs: dict[str, Any]
) -> tuple[str, str] | None:
    """What a parameter takes and what it got instead, for the first argument that does not fit."""
    try:
        bound = signature(function).bind(*args, **kwargs)
    except TypeError:
        return None
    for name, given in bound.arguments.items():
        parameter = bound.signature.parameters[name]
        annotation = parameter.annotation
        if annotation is Parameter.empty:
            continue
        values = given if parameter.kind is Parameter.VAR_POSITIONAL else (given,)
        for value in values:
            if not _fits(value, _parse(annotation)):
                return f"{_describe(_parse(annotation))} as {name}", _show(value)
    return None


@lru_cache(maxsize=256)
def _parse(annotation: str) -> ast.expr:
    return ast.parse(annotation, mode="eval").body


def _is_tensor(value: object) -> bool:
    return isinstance(value, TensorBase)


def _is_integer(value: object) -> bool:
    return not isinstance(value, (bool, TensorBase)) and _becomes(operator.index, value)


def _is_number(value: object) -> bool:
    return not isinstance(value, (str, TensorBase)) and _becomes(float, value)


def _is_complex(value: object) -> bool:
    return isinstance(value, complex) or _is_number(value)


def _becomes(kind: Callable[[Any], object], value: object) -> bool:
    # An array has the methods of a number, which work where it has one element.
    try:
        kind(value)
    except (TypeError, ValueError):
        return False
    return True


def _is_size(value: object) -> bool:
    return _is_integer(value) or isinstance(value, UOp)


def _is_operand(value: object) -> bool:
    return _is_complex(value) or isinstance(value, (TensorBase, UOp, list, tuple, range)) or hasattr(value, "__array__")


_PLURALS: Final = {"an integer": "integers", "a tensor": "tensors", "a number": "numbers"}
_AXES: Final = "int | Sequence[int] | None"
_NUMBERS: Final = "int | Sequence[int]"
_PADDING: Final = "int | Sequence[int | tuple[int, int]]"
_NAMES: Final[dict[str, tuple[Callable[[object], bool], str]]] = {
    **dict.fromkeys(("Self", "TensorBase", "T"), (_is_tensor, "a tensor")),
    "int": (_is_integer, "an integer"), "SInt": (_is_size, "an integer"), "float": (_is_number, "a number"),
    "complex": (_is_complex, "a number"),
    "bool": (lambda value: isinstance(value, bool), "True or False"), "str": (lambda value: isinstance(value, str), "a string"),
    "Operand": (_is_operand, "a tensor or a number"), "IndexItem": (_is_operand, "integers"),
    "NDArray[np.generic]": (lambda value: hasattr(value, "__array_interface__"), "an array of numpy"),
    "os.PathLike[str]": (lambda value: isinstance(value, os.PathLike), "a path"),
    "Axes": (lambda value: _fits(value, _parse(_AXES)), "axes"),
    "Numbers": (lambda value: _fits(value, _parse(_NUMBERS)), "an integer or one for each axis"),
    "Padding": (lambda value: _fits(value, _parse(_PADDING)), "an integer, or one or a pair for each axis"),
}  # fmt: skip
"""What annotations stand for: whether a value fits, and how that is called; anything fits what is not here."""


def _fits(value: Any, annotation: ast.expr) -> bool:
    known = _NAMES.get(ast.unparse(annotation))
    if known is not None:
        return known[0](value)
    match annotation:
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return _fits(value, left) or _fits(value, right)
        case ast.Constant(value=None):
            return value is None
        case ast.Constant(value=str() as text):
            return _fits(value, _parse(text))
        case ast.Subscript(value=ast.Name(id="Sequence" | "Iterable"), slice=item):
            return _is_sequence(value) and all(_fits(v, item) for v in value)
        case ast.Subscript(value=ast.Name(id="tuple"), slice=ast.Tuple(elts=items)):
            return _is_sequence(value) and len(value) == len(items) and all(map(_fits, value, items))
        case ast.Subscript(value=ast.Name(id="Literal"), slice=choices):
            return isinstance(value, str) and repr(value) in ast.unparse(choices)
        case _:
            return True


def _is_sequence(value: object) -> bool:
    return isinstance(value, (Sequence, Iterable)) and not isinstance(value, (str, TensorBase))


def _describe(annotation: ast.expr) -> str:
    known = _NAMES.get(ast.unparse(annotation))
    if known is not None:
        return known[1]
    match annotation:
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return f"{_describe(left)} or {_describe(right)}"
        case ast.Constant(value=str() as text):
            return _describe(_parse(text))
        case ast.Subscript(value=ast.Name(id="Sequence" | "Iterable"), slice=item):
            return "a sequence of " + _PLURALS.get(_describe(item), _describe(item))
        case ast.Subscript(value=ast.Name(id="Literal"), slice=choices):
            return ast.unparse(choices)
        case ast.Subscript(value=ast.Name(id="tuple"), slice=ast.Tuple(elts=items)):
            return f"a tuple of {', '.join(map(_describe, items))}"
        case _:
            return ast.unparse(annotation)


def _show(value: object) -> str:
    return repr(value) if isinstance(value, (bool, int, float, str, type(None))) else f"{type(value).__name__}"
