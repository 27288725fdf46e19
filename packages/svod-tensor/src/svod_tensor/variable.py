"""Runtime sizes and values: a `Variable` has a name and bounds, and is bound to a value for one computation.

BIND(DEFINE_VAR n, CONST 3)         n is 3
BIND(DEFINE_VAR n, DEFINE_VAR n@7)  n is what a plan was last executed with, in the shapes of its outputs, or what each call of
                                    a captured function says, while that is captured
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterable, Mapping, Sequence

from svod_device import CORE_ID, evaluate_expression
from svod_ir.errors import OperandError
from svod_ir.ops import Op
from svod_ir.sizes import unbind
from svod_ir.uop import SInt, UOp
from svod_tensor.cells import registry
from svod_tensor.errors import BoundsConflictError, VariableBoundsError, VariableConflictError, VariableNameError

__all__ = [
    "Variable", "add_binding", "add_variable", "bind_to_call", "bind_to_plan", "check_variables", "collect_bindings", "is_bound",
    "resolve_size", "settle_bindings",
]  # fmt: skip

_MIN, _MAX = -(1 << 63), (1 << 63) - 1


class Variable:
    """A size or value that may differ from run to run, between `low` and `high`, both included.

    The name is an identifier. In one computation it stands for one variable: another one of the same name has the same
    bounds, and is the same.

    Example:
        >>> n = Variable("n", 1, 64)
        >>> n.bind(3).vmax
        64

    Raises:
        VariableNameError: if the name is no identifier, or one that svod uses itself.
        VariableBoundsError: if the bounds hold no value.
        OperandError: if a bound is no integer of 64 bits.
    """

    __slots__ = ("high", "low", "name", "uop")

    def __init__(self, name: str, low: int, high: int) -> None:
        is_text = isinstance(name, str)  # pyright: ignore[reportUnnecessaryIsInstance]
        if not (is_text and name.isascii() and name.isidentifier()):
            raise VariableNameError(name=name, problem="is no identifier")
        if name == CORE_ID:
            raise VariableNameError(name=name, problem="is one that svod uses itself")
        low, high = _to_bound(low), _to_bound(high)
        if low > high:
            raise VariableBoundsError(name=name, low=low, high=high)
        self.name, self.low, self.high = name, low, high
        self.uop: UOp = UOp.variable(name, low, high)

    def bind(self, value: int) -> UOp:
        """The variable with a value, to be used as a size, in a slice, or as an index.

        Raises:
            VariableBoundsError: if `value` is outside the bounds.
            OperandError: if it is no integer.
        """
        try:
            value = operator.index(value)
        except TypeError:
            raise OperandError(operation="bind", found=repr(value), expected="an integer") from None
        if not self.low <= value <= self.high:
            raise VariableBoundsError(name=self.name, low=self.low, high=self.high, value=value)
        return UOp(Op.BIND, self.uop.dtype, (self.uop, UOp.const(self.uop.dtype, value)))

    def __repr__(self) -> str:
        return f"Variable({self.name!r}, {self.low}, {self.high})"


def collect_bindings(*roots: UOp) -> dict[str, int]:
    """The value of each bound variable in graphs.

    Raises:
        VariableConflictError: if a variable is bound to two values.
        BoundsConflictError: if two variables have one name.
    """
    values: dict[str, int] = {}
    known: dict[str, UOp] = {}
    for root in roots:
        for node in root.iter_ops(Op.BIND):
            add_variable(known, node.src[0])
            if is_bound(node):
                add_binding(values, node)
    return values


def check_variables(roots: Iterable[UOp]) -> None:
    """Check that each name in graphs stands for one variable.

    Raises:
        BoundsConflictError: if two variables have one name.
    """
    known: dict[str, UOp] = {}
    for root in roots:
        for variable in root.iter_ops(Op.DEFINE_VAR):
            add_variable(known, variable)


def add_variable(known: dict[str, UOp], variable: UOp) -> None:
    """Enter a DEFINE_VAR under its name.

    Raises:
        BoundsConflictError: if there is another variable of that name.
    """
    name, *bounds = variable.arg
    other = known.setdefault(name, variable)
    if other is not variable:
        _, low, high = other.arg
        raise BoundsConflictError(name=name, first=(low, high), second=(bounds[0], bounds[1]))


def add_binding(values: dict[str, int], bind: UOp) -> None:
    """Enter the value that a BIND gives to its variable.

    Raises:
        VariableConflictError: if the variable has another value already.
    """
    name, value = bind.src[0].arg[0], _value_of(bind)
    if values.setdefault(name, value) != value:
        raise VariableConflictError(name=name, first=values[name], second=value)


def is_bound(bind: UOp) -> bool:
    """Whether a BIND gives a value that is known outside of kernels."""
    return bind.src[1].op is Op.CONST or registry.find_plan_values(bind.src[1]) is not None


def bind_to_plan(root: UOp, values: Mapping[str, int]) -> UOp:
    """`root` with its variables bound to what `values`, the changing values of a plan, say at any time."""
    replaced = {bind: _bind_to(bind.src[0], values) for bind in root.iter_ops(Op.BIND) if bind.src[0].arg[0] in values}
    return root.substitute(replaced) if replaced else root


def bind_to_call(roots: Sequence[UOp]) -> dict[UOp, UOp]:
    """For each bound variable in `roots`, what a call binds, one with the same value now that differs from any other."""
    values = collect_bindings(*roots)
    made: dict[UOp, UOp] = {}
    replaced: dict[UOp, UOp] = {}
    for root in roots:
        for bind in root.iter_ops(Op.BIND):
            variable = bind.src[0]
            if variable not in made:
                made[variable] = _bind_to(variable, values)
            replaced[bind] = made[variable]
    return replaced


def _bind_to(variable: UOp, values: Mapping[str, int]) -> UOp:
    name, low, high = variable.arg
    place = UOp.variable(f"{name}@{next(_numbers)}", low, high, variable.dtype)
    registry.add_plan_values(place, values)
    return UOp(Op.BIND, variable.dtype, (variable, place))


def settle_bindings(root: UOp) -> UOp:
    """`root` with the values that plans have now, as constants."""
    replaced = {
        bind: bind.with_src((bind.src[0], UOp.const(bind.dtype, _value_of(bind))))
        for bind in root.iter_ops(Op.BIND)
        if bind.src[1].op is not Op.CONST and is_bound(bind)
    }
    return root.substitute(replaced) if replaced else root


def resolve_size(size: SInt) -> int:
    """The size that the bound variables in it give."""
    if isinstance(size, int):
        return size
    return int(evaluate_expression(unbind(size), collect_bindings(size)))


_numbers = itertools.count(1)


def _to_bound(bound: int) -> int:
    try:
        found = operator.index(bound)
    except TypeError:
        found = None
    if found is None or not _MIN <= found <= _MAX:
        raise OperandError(operation="Variable", found=repr(bound), expected="integers of 64 bits as bounds")
    return found


def _value_of(bind: UOp) -> int:
    value = bind.src[1]
    if value.op is Op.CONST:
        return value.arg
    values = registry.find_plan_values(value)
    assert values is not None, bind
    return values[bind.src[0].arg[0]]
