"""Operators: functions of values whose signatures say what they take.

    @operator("Gemm")
    def gemm(a: Tensor, b: Tensor, c: Tensor | None = None, *, alpha: float = 1.0, transA: int = 0) -> Tensor: ...

Parameters by position are the operands in ONNX's order, with a default or `| None` where they may be left out; those by name are the
attributes. Where there are many, they are fields of a dataclass, which is the type of one parameter, `attributes`. An annotation says
in which form an operand is wanted:

- `Tensor`: a tensor, which may be lazy;
- `Known`, or `np.ndarray`: a numpy array; where the numbers depend on inputs, the node waits for a later stage, which knows them;
- `Ints`, or `list[int]`: likewise, as a flat list of Python integers;
- `list[Tensor]`: the elements of a sequence;
- `Value`: whatever it is.

A first parameter `node` gets the node itself. What is returned are the results in ONNX's order: one, or a tuple.
"""

from __future__ import annotations

import inspect
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from types import UnionType
from typing import Any, Final, TypeVar, get_args

import numpy as np

from svod_onnx._graph import DEFAULT_DOMAIN
from svod_onnx._symbolic_sizes import Sizes
from svod_tensor import Tensor

__all__ = [
    "Ints",
    "Known",
    "Operand",
    "Operator",
    "RunOnHostError",
    "Value",
    "find_operator",
    "iter_operators",
    "operator",
]

F = TypeVar("F", bound=Callable[..., object])

Known = np.ndarray
Ints = list[int]
Value = Tensor | np.ndarray | Sizes | list[Any] | None
"""What has a name in a graph: a tensor, an array that is known on the host (or holds strings), sizes that vary, a sequence, or nothing."""


class RunOnHostError(Exception):
    """What the function of an operator raises where it cannot make tensors, and the operator's `host` function is to compute."""


@dataclass(frozen=True, slots=True)
class Operand:
    """A parameter by position."""

    name: str
    form: str  # "Tensor", "Known", "Ints", "list[Tensor]" or "Value"
    is_optional: bool
    is_variadic: bool


@dataclass(frozen=True, slots=True)
class Operator:
    """How an operator is computed, from one of its versions on.

    Attributes:
        since: the first version that the function is for; it holds until the next registered one.
        function: makes tensors of tensors while a program is built; None where only `host` can compute it.
        host: computes while a program runs, on values that are there: strings, and what has sizes that depend on values.
        attributes: names of all attributes.
        attributes_type: dataclass of the attributes, which is the type of the parameter `attributes`; None where each attribute is a
            parameter.
        is_random: whether two calls with equal operands differ.
        precomputes: whether it asks for `Call.precompute`.
    """

    name: str
    domain: str
    since: int
    function: Callable[..., object] | None
    host: Callable[..., object] | None
    operands: tuple[Operand, ...]
    attributes: frozenset[str]
    attributes_type: type | None
    takes_node: bool
    is_random: bool
    precomputes: bool

    def bind_attributes(self, attributes: Mapping[str, Any]) -> dict[str, Any]:
        """Return the attributes of a node as arguments by name."""
        if self.attributes_type is None:
            return dict(attributes)
        return {_ATTRIBUTES: self.attributes_type(**attributes)}

    def iter_operands(self) -> Iterator[Operand]:
        """The parameters by position, the last one again and again where it takes any number."""
        yield from self.operands
        while self.operands and self.operands[-1].is_variadic:
            yield self.operands[-1]


_operators: dict[tuple[str, str], list[Operator]] = {}


def operator(
    *names: str,
    since: int = 1,
    domain: str = DEFAULT_DOMAIN,
    is_host: bool = False,
    is_random: bool = False,
    precomputes: bool = False,
    host: Callable[..., object] | None = None,
) -> Callable[[F], F]:
    """Let a function compute the operators `names` from version `since` on; the module's docstring says how it takes them.

    Args:
        names: of operators; one function may stand for several, and ask its `node` which it is.
        since: the first version of the operator that the function is for; a later registration takes over from its own on.
        domain: of the operators: "" is the default one, "com.microsoft" that of onnxruntime's own ones.
        is_host: whether the function computes when a program runs, and not while it is built: `Known` operands are then read.
        is_random: whether two calls with equal operands differ.
        precomputes: whether the function computes things of weights alone by `Call.precompute`, which then are computed once.
        host: a function with the same parameters that computes when a program runs, where `function` raises `RunOnHostError`.
    """

    def register(function: F) -> F:
        for name in names:
            rows = _operators.setdefault((domain, name), [])
            operands, attributes, attributes_type, takes_node = _read_signature(function)
            graph_function, host_function = (None, function) if is_host else (function, host)
            row = Operator(
                name,
                domain,
                since,
                graph_function,
                host_function,
                operands,
                attributes,
                attributes_type,
                takes_node,
                is_random,
                precomputes,
            )
            rows[:] = sorted([*(old for old in rows if old.since != since), row], key=lambda old: old.since)
        return function

    return register


def find_operator(name: str, domain: str, version: int) -> Operator | None:
    """The operator with the last registered version up to `version`, or None."""
    rows = _operators.get((domain, name), [])
    place = bisect_right(rows, version, key=lambda row: row.since)
    return rows[place - 1] if place else None


def iter_operators() -> list[Operator]:
    """All that are registered, by domain, name and version."""
    return [row for key in sorted(_operators) for row in _operators[key]]


_ATTRIBUTES: Final = "attributes"
"""Name of the parameter that gets all attributes of a node."""

_FORMS: Final = ("Tensor", "Known", "Ints", "list[Tensor]", "Value")
_ALIASES: Final = {"np.ndarray": "Known", "numpy.ndarray": "Known", "list[int]": "Ints"}


def _read_signature(
    function: Callable[..., object],
) -> tuple[tuple[Operand, ...], frozenset[str], type | None, bool]:
    operands: list[Operand] = []
    attributes: set[str] = set()
    attributes_type: type | None = None
    takes_node = False
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and parameter.name == _ATTRIBUTES:
            attributes_type = _get_type(function, parameter.annotation)
            attributes.update(field.name for field in fields(attributes_type))
        elif parameter.kind is parameter.KEYWORD_ONLY:
            attributes.add(parameter.name)
        elif parameter.name == "node":
            takes_node = True
        else:
            form, may_be_none = _read_annotation(parameter.annotation)
            if form not in _FORMS:
                raise TypeError(
                    f"{function.__name__}: the annotation of {parameter.name} is none of {', '.join(_FORMS)}"
                )
            is_variadic = parameter.kind is parameter.VAR_POSITIONAL
            # One that may be left out before one that may not has no default in Python: its annotation says it.
            is_optional = is_variadic or may_be_none or parameter.default is not parameter.empty
            operands.append(Operand(parameter.name, form, is_optional, is_variadic))
    return tuple(operands), frozenset(attributes), attributes_type, takes_node


def _get_type(function: Callable[..., object], annotation: object) -> type:
    """Return the class that an annotation names."""
    found: object = function.__globals__[annotation] if isinstance(annotation, str) else annotation
    assert isinstance(found, type), annotation
    return found


def _read_annotation(annotation: object) -> tuple[str, bool]:
    """The form that an annotation names, and whether it adds `| None`; Python gives it as text only where it is asked to."""
    if isinstance(annotation, str):
        text = annotation.removesuffix(" | None")
        return _ALIASES.get(text, text), text != annotation
    if annotation == Value:
        return "Value", False
    members = [member for member in get_args(annotation) if member is not type(None)]
    may_be_none = isinstance(annotation, UnionType) and len(members) == 1
    wanted: object = members[0] if may_be_none else annotation
    forms = {Tensor: "Tensor", Known: "Known", Ints: "Ints", list[Tensor]: "list[Tensor]"}
    return next((form for known, form in forms.items() if wanted == known), str(wanted)), may_be_none
