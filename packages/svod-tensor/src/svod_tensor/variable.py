"""Runtime sizes and values: a `Variable` has a name and bounds, and is bound to a value for one computation."""

from __future__ import annotations

from svod_ir.ops import Op
from svod_ir.uop import UOp
from svod_tensor.errors import VariableBoundsError, VariableConflictError

__all__ = ["Variable", "add_binding", "collect_bindings"]


class Variable:
    """A size or value that may differ from run to run, between `low` and `high`, both included.

    Example:
        >>> n = Variable("n", 1, 64)
        >>> n.bind(3).vmax
        64
    """

    __slots__ = ("high", "low", "name", "uop")

    def __init__(self, name: str, low: int, high: int) -> None:
        if low > high:
            raise VariableBoundsError(name=name, low=low, high=high)
        self.name, self.low, self.high = name, low, high
        self.uop: UOp = UOp.variable(name, low, high)

    def bind(self, value: int) -> UOp:
        """The variable with a value, to be used as a size, in a slice, or as an index.

        Raises:
            VariableBoundsError: if `value` is outside the bounds.
        """
        if not self.low <= value <= self.high:
            raise VariableBoundsError(name=self.name, low=self.low, high=self.high, value=value)
        return UOp(Op.BIND, self.uop.dtype, (self.uop, UOp.const(self.uop.dtype, value)))

    def __repr__(self) -> str:
        return f"Variable({self.name!r}, {self.low}, {self.high})"


def collect_bindings(root: UOp) -> dict[str, int]:
    """The value of each bound variable in a graph.

    Raises:
        VariableConflictError: if a variable is bound to two values.
    """
    values: dict[str, int] = {}
    for node in root.iter_ops(Op.BIND):
        if node.src[1].op is Op.CONST:
            add_binding(values, node)
    return values


def add_binding(values: dict[str, int], bind: UOp) -> None:
    """Enter the value that a BIND gives to its variable.

    Raises:
        VariableConflictError: if the variable has another value already.
    """
    name, value = bind.src[0].arg[0], bind.src[1].arg
    if values.setdefault(name, value) != value:
        raise VariableConflictError(name=name, first=values[name], second=value)
