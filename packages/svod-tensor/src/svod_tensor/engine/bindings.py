"""Values of the variables in a graph.

BIND(DEFINE_VAR n, CONST 3)         n is 3
BIND(DEFINE_VAR n, DEFINE_VAR n@7)  n is the value of a plan's last execution, in the shapes of its outputs; or, while a
                                    function is captured, the value in each call"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import cast

from svod_device import evaluate_expression
from svod_dtype import index
from svod_ir import Op, SInt, UOp
from svod_ir.sizes import unbind
from svod_tensor.errors import BoundsConflictError, VariableConflictError

__all__ = [
    "add_binding",
    "add_variable",
    "bind_to_call",
    "bind_to_plan",
    "check_variables",
    "collect_bindings",
    "find_size",
    "is_bound",
    "resolve_bindings",
    "resolve_size",
]

# Makes each symbol a node of its own, so that the values of two plans are never interned as one.
_numbers = itertools.count(1)


def collect_bindings(*roots: UOp) -> dict[str, int]:
    """The value of each bound variable in graphs.

    Raises:
        VariableConflictError: if a variable is bound to two values.
        BoundsConflictError: if two variables have one name.
    """
    values: dict[str, int] = {}
    known: dict[str, UOp] = {}
    for node in UOp.sink(*roots).iter_ops(Op.BIND):
        add_variable(known, node.symbol)
        if is_bound(node):
            add_binding(values, node)
    return values


def check_variables(roots: Iterable[UOp]) -> None:
    """Check that each name in graphs belongs to one variable.

    Raises:
        BoundsConflictError: if two variables have one name.
    """
    known: dict[str, UOp] = {}
    for variable in UOp.sink(*roots).iter_ops(Op.DEFINE_VAR):
        add_variable(known, variable)


def add_variable(known: dict[str, UOp], variable: UOp) -> None:
    """Add a DEFINE_VAR under its name.

    Raises:
        BoundsConflictError: if there is another variable of that name.
    """
    name, *bounds = variable.arg
    known_variable = known.setdefault(name, variable)
    # Kernels get values by name, so two variables of one name would share a value.
    if known_variable is not variable:
        _, low, high = known_variable.arg
        raise BoundsConflictError(name=name, first=(low, high), second=(bounds[0], bounds[1]))


def add_binding(values: dict[str, int], bind: UOp) -> None:
    """Add the value that a BIND gives to its variable.

    Raises:
        VariableConflictError: if the variable has another value already.
    """
    # By name, as kernels get them: a graph may bind the variable several times, to one value.
    name, value = bind.symbol.arg.name, _value_of(bind)
    if values.setdefault(name, value) != value:
        raise VariableConflictError(name=name, first=values[name], second=value)


def is_bound(bind: UOp) -> bool:
    """True if a BIND gives a value that is known outside of kernels."""
    return bind.value.op is Op.CONST or _find_plan_values(bind.value) is not None


def bind_to_plan(root: UOp, values: Mapping[str, int]) -> UOp:
    """`root` with its variables bound to `values`, the values of a plan's last execution."""
    replaced = {
        bind: _bind_to(bind.symbol, values)
        for bind in root.iter_ops(Op.BIND)
        if bind.symbol.arg.name in values
    }
    # Most graphs have no variables, and a substitution walks the whole graph.
    return root.substitute(replaced) if replaced else root


def bind_to_call(roots: Sequence[UOp]) -> dict[UOp, UOp]:
    """For each bound variable in `roots`, a BIND for calls: with the same value now, but unequal to
    any other.
    """
    values = collect_bindings(*roots)
    bind_of: dict[UOp, UOp] = {}
    replaced: dict[UOp, UOp] = {}
    for root in roots:
        for bind in root.iter_ops(Op.BIND):
            variable = bind.symbol
            if variable not in bind_of:
                bind_of[variable] = _bind_to(variable, values)
            replaced[bind] = bind_of[variable]
    return replaced


def _bind_to(variable: UOp, values: Mapping[str, int]) -> UOp:
    name, low, high = variable.arg
    symbol = UOp.variable(f"{name}@{next(_numbers)}", low, high, variable.dtype)
    # The mapping itself, not a copy: the plan updates it at each execution.
    symbol.attached = values
    return UOp(Op.BIND, variable.dtype, (variable, symbol))


def resolve_bindings(root: UOp) -> UOp:
    """`root` with the present values of plans as constants."""
    replaced = {
        bind: bind.with_src((bind.symbol, UOp.const(bind.dtype, _value_of(bind))))
        for bind in root.iter_ops(Op.BIND)
        if bind.value.op is not Op.CONST and is_bound(bind)
    }
    return root.substitute(replaced) if replaced else root


def resolve_size(size: SInt) -> int:
    """The value of a size, from the bound variables in it."""
    if isinstance(size, int):
        return size
    return int(evaluate_expression(unbind(size), collect_bindings(size)))


def find_size(size: UOp) -> int | None:
    """The value of an expression of bound variables; None if a variable is not bound, or the
    expression contains more than bound variables.
    """
    binds = list(size.iter_ops(Op.BIND))
    known = {node for bind in binds for node in bind.src}
    is_known = (
        size.dtype is index
        and all(map(is_bound, binds))
        # A variable outside of any BIND has no value yet.
        and known.issuperset(size.iter_ops(Op.DEFINE_VAR))
    )
    return resolve_size(size) if is_known else None


def _value_of(bind: UOp) -> int:
    value = bind.value
    if value.op is Op.CONST:
        return value.arg
    values = _find_plan_values(value)
    assert values is not None, bind
    return values[bind.symbol.arg.name]


def _find_plan_values(symbol: UOp) -> Mapping[str, int] | None:
    """The plan's values that a symbol refers to, or None."""
    return cast("Mapping[str, int] | None", symbol.attached)
