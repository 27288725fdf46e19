"""Variables: runtime sizes and values with a name and bounds, bound to a value for one computation."""

from __future__ import annotations

import operator

from svod_device import CORE_ID
from svod_ir import Op, OperandError, UOp
from svod_tensor._counters import is_counter_name
from svod_tensor.errors import VariableBoundsError, VariableNameError

__all__ = ["Variable", "explain_unbound"]

# Kernels take variables as int64.
_MIN, _MAX = -(1 << 63), (1 << 63) - 1


class Variable:
    """A size or value that may differ between runs, in the closed interval from `low` to `high`.

    The name is an identifier. In one computation a name denotes one variable: variables of the same
    name and bounds are the same.

    Example:
        >>> from svod_tensor import Variable
        >>> n = Variable("n", 1, 64)
        >>> n.bind(3).vmax
        64

    Raises:
        VariableNameError: if the name is not an identifier, or is reserved.
        VariableBoundsError: if the bounds are empty.
        OperandError: if a bound is not a 64-bit integer.
    """

    __slots__ = ("high", "low", "name", "uop")

    def __init__(self, name: str, low: int, high: int) -> None:
        is_text = isinstance(name, str)  # pyright: ignore[reportUnnecessaryIsInstance]
        if not (is_text and name.isascii() and name.isidentifier()):
            raise VariableNameError(name=name, problem="is not an identifier")
        # The compiler's own variables: kernels get values by name.
        if name == CORE_ID or is_counter_name(name):
            raise VariableNameError(name=name, problem="is reserved")
        low, high = _to_bound(low), _to_bound(high)
        if low > high:
            raise VariableBoundsError(name=name, low=low, high=high)
        self.name, self.low, self.high = name, low, high
        self.uop: UOp = UOp.variable(name, low, high)

    def bind(self, value: int) -> UOp:
        """The variable with a value, for use as a size, in a slice, or as an index.

        Raises:
            VariableBoundsError: if `value` is outside the bounds.
            OperandError: if it is not an integer.
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


def explain_unbound(value: object) -> str | None:
    """Hint for an unbound variable where a value is expected; None for any other object."""
    return (
        f"bind the variable to a value, as in {value.name}.bind({value.low})"
        if isinstance(value, Variable)
        else None
    )


def _to_bound(bound: int) -> int:
    try:
        value = operator.index(bound)
    except TypeError:
        value = None
    if value is None or not _MIN <= value <= _MAX:
        raise OperandError(
            operation="Variable", found=repr(bound), expected="integers of 64 bits as bounds"
        )
    return value
