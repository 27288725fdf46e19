"""Registry of operators: functions of values whose signatures declare their operands and
attributes.

    @operator("Gemm")
    def gemm(
        a: Tensor, b: Tensor, c: Tensor | None = None, *, alpha: float = 1.0, transA: int = 0
    ) -> Tensor: ...

Positional parameters are the operands in ONNX's order; an optional operand has a default or
`| None`. Keyword parameters are the attributes. An operator with many attributes may take them as a
dataclass, the type of a parameter `attributes`. The annotation of an operand declares its
conversion:

- `Tensor`: a tensor, which may be lazy;
- `Known`, or `np.ndarray`: a numpy array. If its elements depend on inputs, a later stage computes
  the node with their values;
- `Ints`, or `list[int]`: likewise, as a flat list of Python integers;
- `list[Tensor]`: the elements of a sequence;
- `Value`: no conversion.

A first parameter `node` receives the node itself. The function returns a result, or a tuple of the
results in ONNX's order."""

from __future__ import annotations

import inspect
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from types import UnionType
from typing import Any, Final, TypeVar, cast, get_args

import numpy as np

from svod_onnx._graph import DEFAULT_DOMAIN, Graph
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
Value = Tensor | np.ndarray | Sizes | list[Any] | dict[Any, Any] | None
"""Value of a name in a graph: a tensor, an array on the host (known or of strings), symbolic sizes,
a sequence, a map, or None.
"""


class RunOnHostError(Exception):
    """Raised by an operator function that cannot return tensors, so that the operator's `host`
    function runs instead.
    """


@dataclass(frozen=True, slots=True)
class Operand:
    """A positional parameter."""

    name: str
    form: str  # "Tensor", "Known", "Ints", "list[Tensor]" or "Value"
    is_optional: bool
    is_variadic: bool


@dataclass(frozen=True, slots=True)
class Operator:
    """Implementation of an operator from a version on.

    Attributes:
        since: first version that the function implements, up to the next registered version.
        function: builds tensors from tensors while a program is captured; None if only `host`
            computes the operator.
        host: computes values while a program runs: strings, and results with data-dependent shapes.
        attributes: annotation of each attribute, by its name.
        attributes_type: dataclass of the attributes, the type of the parameter `attributes`; None
            if each attribute is a parameter.
        is_random: whether two calls with equal operands may differ.
        precomputes: whether the function calls `Call.precompute`.
    """

    name: str
    domain: str
    since: int
    function: Callable[..., object] | None
    host: Callable[..., object] | None
    operands: tuple[Operand, ...]
    attributes: Mapping[str, str]
    attributes_type: type | None
    takes_node: bool
    is_random: bool
    precomputes: bool

    def bind_attributes(self, attributes: Mapping[str, Any]) -> dict[str, Any]:
        """Keyword arguments for the attributes of a node.

        Raises:
            TypeError: if an attribute has another type than its annotation.
        """
        for name, value in attributes.items():
            _check_attribute(name, value, self.attributes[name])
        if self.attributes_type is None:
            return dict(attributes)
        return {_ATTRIBUTES: self.attributes_type(**attributes)}

    def iter_operands(self) -> Iterator[Operand]:
        """Positional parameters; a variadic parameter repeats without end."""
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
    """Register a function for the operators `names` from version `since` on. See the module's
    docstring for its signature.

    Args:
        names: operator names. A function for several operators reads the name from its `node`.
        since: first version that the function implements, up to the next registered version.
        domain: domain of the operators: "" is the default domain, "com.microsoft" the domain of
            onnxruntime.
        is_host: whether the function computes while a program runs, instead of while it is
            captured. `Known` operands are read then.
        is_random: whether two calls with equal operands may differ.
        precomputes: whether the function calls `Call.precompute` to compute values from weights
            once for all calls.
        host: function with the same parameters that runs if `function` raises `RunOnHostError`.
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
            rows[:] = sorted(
                [*(old for old in rows if old.since != since), row], key=lambda old: old.since
            )
        return function

    return register


def find_operator(name: str, domain: str, version: int) -> Operator | None:
    """Operator with the newest registered version up to `version`, or None."""
    rows = _operators.get((domain, name), [])
    # A version that changed nothing for an operator has no row: the newest older one holds.
    index = bisect_right(rows, version, key=lambda row: row.since)
    return rows[index - 1] if index else None


def iter_operators() -> list[Operator]:
    """All registered operators by domain, name and version."""
    return [row for key in sorted(_operators) for row in _operators[key]]


_ATTRIBUTES: Final = "attributes"
"""Name of the parameter that receives all attributes of a node."""

_FORMS: Final = ("Tensor", "Known", "Ints", "list[Tensor]", "Value")
_ALIASES: Final = {"np.ndarray": "Known", "numpy.ndarray": "Known", "list[int]": "Ints"}


def _read_signature(
    function: Callable[..., object],
) -> tuple[tuple[Operand, ...], dict[str, str], type | None, bool]:
    """Operands, attributes with their annotations, and attribute dataclass of an operator function,
    and whether it takes the node.
    """
    operands: list[Operand] = []
    attributes: dict[str, str] = {}
    attributes_type: type | None = None
    takes_node = False
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and parameter.name == _ATTRIBUTES:
            attributes_type = _get_type(function, parameter.annotation)
            attributes |= {
                field.name: _format_annotation(field.type) for field in fields(attributes_type)
            }
        elif parameter.kind is parameter.KEYWORD_ONLY:
            attributes[parameter.name] = _format_annotation(parameter.annotation)
        elif parameter.name == "node":
            takes_node = True
        else:
            form, may_be_none = _read_annotation(parameter.annotation)
            if form not in _FORMS:
                raise TypeError(
                    f"{function.__name__}: unsupported annotation {form} of operand {parameter.name!r}; "
                    f"expected one of {', '.join(_FORMS)}"
                )
            is_variadic = parameter.kind is parameter.VAR_POSITIONAL
            # Python allows no default before a required parameter, so `| None` marks such an
            # operand as optional.
            is_optional = is_variadic or may_be_none or parameter.default is not parameter.empty
            operands.append(Operand(parameter.name, form, is_optional, is_variadic))
    return tuple(operands), attributes, attributes_type, takes_node


_ATTRIBUTE_TYPES: Final[Mapping[str, type | tuple[type, ...]]] = {
    "int": int,
    "float": (int, float),
    "str": str,
    "Graph": Graph,
    "np.ndarray": np.ndarray,
    "numpy.ndarray": np.ndarray,
}
"""Types of the values of an attribute, or of the items of its list, by annotation."""


def _check_attribute(name: str, value: object, annotation: str) -> None:
    """Check the type of an attribute, which a model's file states for each node.

    Raises:
        TypeError: if the value does not have the type.
    """
    declared = annotation.removesuffix(" | None")
    item = re.fullmatch(r"(?:list|(?:[\w.]+\.)?Sequence)\[(.*)\]", declared)
    types = _ATTRIBUTE_TYPES.get(item[1] if item else declared)
    # An operator may declare other types, such as Any, and checks them itself.
    if types is None:
        return
    if not _has_type(value, types, is_list=item is not None):
        raise TypeError(f"attribute {name!r} must be {declared}, got {_name_type(value)}")


def _has_type(value: object, types: type | tuple[type, ...], *, is_list: bool) -> bool:
    if not is_list:
        return isinstance(value, types)
    return isinstance(value, list) and all(
        isinstance(item, types) for item in cast("list[object]", value)
    )


def _name_type(value: object) -> str:
    name = type(value).__name__
    items = cast("list[object]", value) if isinstance(value, list) else []
    return f"list[{type(items[0]).__name__}]" if items else name


def _get_type(function: Callable[..., object], annotation: object) -> type:
    """Class that an annotation names."""
    # `typing.get_type_hints` would evaluate all annotations, also names that are imported for type
    # checkers only.
    type_: object = function.__globals__[annotation] if isinstance(annotation, str) else annotation
    assert isinstance(type_, type), annotation
    return type_


def _format_annotation(annotation: object) -> str:
    # Of a string, `inspect.formatannotation` returns the literal with quotes.
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def _read_annotation(annotation: object) -> tuple[str, bool]:
    """Conversion that an annotation declares, and whether the operand may be None.

    An annotation is a string under `from __future__ import annotations`, and an object otherwise.
    """
    if isinstance(annotation, str):
        text = annotation.removesuffix(" | None")
        return _ALIASES.get(text, text), text != annotation
    if annotation == Value:
        return "Value", False
    members = [member for member in get_args(annotation) if member is not type(None)]
    may_be_none = isinstance(annotation, UnionType) and len(members) == 1
    declared: object = members[0] if may_be_none else annotation
    forms = {Tensor: "Tensor", Known: "Known", Ints: "Ints", list[Tensor]: "list[Tensor]"}
    return next(
        (form for known, form in forms.items() if declared == known), str(declared)
    ), may_be_none
