"""Diagnosis of failed calls: the argument that has a wrong name, or a value that its annotation
does not allow.

Arguments are checked only after a call has failed, so that a successful call costs nothing.
"""

from __future__ import annotations

import ast
import operator
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from inspect import Parameter, signature
from typing import Any, Final

from svod_dtype import SvodError, UserError
from svod_ir import Mesh, OperandError, UOp
from svod_tensor.ops.core.argument_names import find_wrong_argument
from svod_tensor.ops.core.base import TensorBase

__all__ = ["explain_failure"]


def explain_failure(
    error: Exception,
    function: Callable[..., object],
    name: str,
    args: Sequence[object],
    kwargs: Mapping[str, Any],
    owner: str | None = None,
    *,
    is_static: bool = False,
    keeps_names: bool = False,
) -> Exception | None:
    """Return the error to raise in place of `error`, which an operation has raised; None for a bug
    of svod.

    A `UserError` is returned itself, renamed to the outermost operation.

    Args:
        error: the error that left the function.
        function: the function.
        name: the operation's name.
        args: the positional arguments of the call.
        kwargs: the keyword arguments of the call.
        owner: name to show before the operation in hints, such as "sv"; None for a method call.
        is_static: whether the function has no parameter for a tensor.
        keeps_names: whether a `UserError` keeps the operation that raised it, unless an argument of
            this call is wrong.
    """
    if isinstance(error, SvodError):
        if not isinstance(error, UserError):
            return None
        if not keeps_names:
            error.name_operation(name)
            return error
    known = find_wrong_argument(function, name, args, kwargs, owner, is_static=is_static)
    if known is None:
        mismatch = _find_mismatch(function, args, kwargs)
        if mismatch is None:
            return None
        expected, found = mismatch
        known = OperandError(operation=name, found=found, expected=expected)
    return known


def _find_mismatch(
    function: Callable[..., object], args: Sequence[object], kwargs: Mapping[str, Any]
) -> tuple[str, str] | None:
    """Expected and actual value of the first argument that does not fit its annotation."""
    try:
        # A wrong number of arguments: Python's own message is the best one.
        bound = signature(function).bind(*args, **kwargs)
    except TypeError:
        return None
    for name, argument in bound.arguments.items():
        parameter = bound.signature.parameters[name]
        annotation = parameter.annotation
        if annotation is Parameter.empty:
            continue
        values = argument if parameter.kind is Parameter.VAR_POSITIONAL else (argument,)
        for value in values:
            if not _fits(value, _parse(annotation)):
                return f"{_describe(_parse(annotation))} as {name}", _show(value)
    return None


# Programs that probe arguments in a `try` fail in the same operations again and again.
@lru_cache(maxsize=256)
def _parse(annotation: str) -> ast.expr:
    return ast.parse(annotation, mode="eval").body


def _is_tensor(value: object) -> bool:
    return isinstance(value, TensorBase)


def _is_integer(value: object) -> bool:
    # `operator.index` accepts a bool, and a tensor, which it would compute.
    return not isinstance(value, (bool, TensorBase)) and _becomes(operator.index, value)


def _is_number(value: object) -> bool:
    return not isinstance(value, (str, TensorBase)) and _becomes(float, value)


def _is_complex(value: object) -> bool:
    return isinstance(value, complex) or _is_number(value)


def _becomes(kind: Callable[[Any], object], value: object) -> bool:
    # Arrays have `__int__` and `__float__` too, which raise unless there is exactly one element.
    try:
        kind(value)
    except (TypeError, ValueError):
        return False
    return True


def _is_size(value: object) -> bool:
    return _is_integer(value) or isinstance(value, UOp)


def _is_operand(value: object) -> bool:
    return (
        _is_complex(value)
        or isinstance(value, (TensorBase, UOp, list, tuple, range))
        or hasattr(value, "__array__")
    )


_PLURALS: Final = {"an integer": "integers", "a tensor": "tensors", "a number": "numbers"}
_AXES: Final = "int | Sequence[int] | None"
_NUMBERS: Final = "int | Sequence[int]"
_PADDING: Final = "int | Sequence[int | tuple[int, int]]"
_NAMES: Final[dict[str, tuple[Callable[[object], bool], str]]] = {
    **dict.fromkeys(("Self", "Tensor", "TensorBase"), (_is_tensor, "a tensor")),
    "int": (_is_integer, "an integer"),
    "SInt": (_is_size, "an integer"),
    "float": (_is_number, "a number"),
    "complex": (_is_complex, "a number"),
    "bool": (lambda value: isinstance(value, bool), "True or False"),
    "str": (lambda value: isinstance(value, str), "a string"),
    "Operand": (_is_operand, "a tensor or a number"),
    "IndexItem": (_is_operand, "integers"),
    "NDArray[np.generic]": (
        lambda value: hasattr(value, "__array_interface__"),
        "a numpy array",
    ),
    "Mesh": (lambda value: isinstance(value, Mesh), "a mesh"),
    "Mapping[str, int]": (lambda value: isinstance(value, Mapping), "a mapping of names to axes"),
    "os.PathLike[str]": (lambda value: isinstance(value, os.PathLike), "a path"),
    "Axes": (lambda value: _fits(value, _parse(_AXES)), "axes"),
    "Numbers": (lambda value: _fits(value, _parse(_NUMBERS)), "an integer or one per axis"),
    "Padding": (
        lambda value: _fits(value, _parse(_PADDING)),
        "an integer, or an integer or a pair per axis",
    ),
}
"""Annotations: the predicate of the values that each allows, and its name in messages.

Other annotations allow any value.
"""


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
            return (
                _is_sequence(value) and len(value) == len(items) and all(map(_fits, value, items))
            )
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
    return (
        repr(value)
        if isinstance(value, (bool, int, float, str, type(None)))
        else f"{type(value).__name__}"
    )
