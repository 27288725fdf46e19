"""Evaluation of launch sizes: grid and workgroup sizes as expressions of variables.

Division and remainder round toward negative infinity, as everywhere in the graph; `CDIV` and `CMOD`
truncate. Unlike in a kernel, overflow and division by zero are errors that show the expression,
since a launch of the wrong size would compute garbage.

Example:
    >>> from svod_device import evaluate_expression, evaluate_launch_sizes, format_expression, is_constant
    >>> from svod_ir import UOp
    >>> n = UOp.variable("n", 1, 1000)
    >>> n_groups = (n + 31) // 32
    >>> format_expression(n_groups), evaluate_expression(n_groups, {"n": 70})
    ('(n + 31) // 32', 3)
    >>> is_constant((n_groups, 1, 1)), evaluate_launch_sizes((n_groups, 1, 1), {"n": 70})
    (False, (3, 1, 1))
    >>> from svod_device import Dims, LaunchSizes
    >>> def count_groups(sizes: LaunchSizes, **variables: int) -> int:
    ...     dims: Dims = evaluate_launch_sizes(sizes, variables)
    ...     return dims[0] * dims[1] * dims[2]
    >>> count_groups((n_groups, 2, 1), n=70)
    6
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from svod_device.errors import LaunchSizeError
from svod_ir import Op, UOp

__all__ = [
    "Dims",
    "LaunchSizes",
    "Size",
    "evaluate_expression",
    "evaluate_launch_sizes",
    "format_expression",
    "is_constant",
]

Dims = tuple[int, int, int]
"""Sizes of a launch along the three axes."""

Size = int | UOp
LaunchSizes = tuple[Size, Size, Size]
"""Sizes along the three axes, as integers or expressions of variables."""

_INT64_MIN, _INT64_MAX = -(1 << 63), (1 << 63) - 1
_MAX_TEXT = 200  # of one formatted subexpression: shared nodes would make it exponentially long


def _truncated_quotient(x: int, y: int) -> int:
    quotient = abs(x) // abs(y)
    return quotient if (x < 0) == (y < 0) else -quotient


_BINARY: Final[dict[Op, Callable[[int, int], int]]] = {
    Op.ADD: lambda x, y: x + y,
    Op.SUB: lambda x, y: x - y,
    Op.MUL: lambda x, y: x * y,
    Op.IDIV: lambda x, y: x // y,
    Op.MOD: lambda x, y: x % y,
    Op.CDIV: _truncated_quotient,
    Op.CMOD: lambda x, y: x - y * _truncated_quotient(x, y),
    Op.MAX: max,
    Op.MIN: min,
}
_DIVISIONS: Final = frozenset({Op.IDIV, Op.MOD, Op.CDIV, Op.CMOD})
_SYMBOLS: Final = {Op.ADD: "+", Op.SUB: "-", Op.MUL: "*", Op.IDIV: "//", Op.MOD: "%"}
_TRANSPARENT: Final = frozenset({Op.CAST, Op.BITCAST, Op.AFTER})


def is_constant(sizes: LaunchSizes | None) -> bool:
    """True if the sizes do not depend on variables."""
    return sizes is None or all(isinstance(s, int) or s.op is Op.CONST for s in sizes)


def evaluate_launch_sizes(sizes: LaunchSizes, variables: Mapping[str, int]) -> Dims:
    """Evaluate the three sizes to positive integers.

    Raises:
        LaunchSizeError: if an expression cannot be evaluated or is not positive.
    """
    x, y, z = sizes
    # Constant sizes are the common case.
    if isinstance(x, int) and isinstance(y, int) and isinstance(z, int) and min(x, y, z) > 0:
        return x, y, z
    x, y, z = (_evaluate_dimension(axis, size, variables) for axis, size in enumerate(sizes))
    return x, y, z


def _evaluate_dimension(axis: int, size: Size, variables: Mapping[str, int]) -> int:
    value = size if isinstance(size, int) else evaluate_expression(size, variables)
    if value <= 0:
        raise LaunchSizeError(
            expression=format_expression(size), problem=f"dimension {axis} is {value}, not positive"
        )
    return value


def evaluate_expression(expression: UOp, variables: Mapping[str, int]) -> int:
    """Evaluate an integer expression of variables, exactly in 64 bits.

    Raises:
        LaunchSizeError: if it overflows 64 bits, divides by zero, contains a float or an
            unsupported op, or if a variable is missing or out of bounds.
    """
    values: dict[UOp, int] = {}
    # An explicit stack, since expressions may be deeper than Python's recursion limit.
    stack = [expression]
    while stack:
        node = stack[-1]
        if node in values:
            stack.pop()
            continue
        operands = _operands(node)
        missing = [o for o in operands if o not in values]
        if missing:
            stack.extend(missing)
            continue
        value = _evaluate_node(expression, node, tuple(values[o] for o in operands), variables)
        if not _INT64_MIN <= value <= _INT64_MAX:
            problem = f"{format_expression(node)} = {value} overflows 64 bits"
            raise LaunchSizeError(expression=format_expression(expression), problem=problem)
        values[node] = value
    return values[expression]


def _operands(node: UOp) -> tuple[UOp, ...]:
    # The variable of a BIND takes its value from the BIND, and an AFTER's dependencies are effects.
    if node.op is Op.BIND:
        return node.src[1:2]
    return node.src[:1] if node.op in _TRANSPARENT else node.src


def _evaluate_node(
    expression: UOp, node: UOp, operands: tuple[int, ...], variables: Mapping[str, int]
) -> int:
    def fail(problem: str) -> LaunchSizeError:
        return LaunchSizeError(expression=format_expression(expression), problem=problem)

    match node.op:
        case Op.CONST:
            # Truncating it silently would launch a grid of another size than the kernel was
            # compiled for.
            if isinstance(node.arg, float):
                raise fail(f"{node.arg} is a float; launch sizes are integers")
            return int(node.arg)
        case Op.DEFINE_VAR:
            name = node.arg.name
            if name not in variables:
                raise fail(f"variable {name} has no value")
            return _check_bounds(fail, node, variables[name])
        case Op.BIND:
            return _check_bounds(fail, node.symbol, operands[0])
        case Op.NEG:
            return -operands[0]
        case Op.ABS:
            return abs(operands[0])
        case op if op in _TRANSPARENT:
            if node.dtype.is_float:
                raise fail(f"{format_expression(node)} is a float; launch sizes are integers")
            return operands[0]
        case op if op in _BINARY:
            if op in _DIVISIONS and operands[1] == 0:
                raise fail(f"{format_expression(node)} divides by zero")
            return _BINARY[op](*operands)
        case _:
            raise fail(f"{node.op.name} is not supported in launch sizes")


def _check_bounds(fail: Callable[[str], LaunchSizeError], variable: UOp, value: int) -> int:
    if variable.op is Op.DEFINE_VAR:
        name, low, high = variable.arg
        # Kernels are simplified under these bounds, so a value outside of them would compute
        # garbage.
        if not low <= value <= high:
            raise fail(f"variable {name} = {value} is out of bounds [{low}, {high}]")
    return value


def format_expression(expression: Size) -> str:
    """Format an expression in infix notation, truncating long subexpressions."""
    if isinstance(expression, int):
        return str(expression)
    texts: dict[UOp, str] = {}
    # Operands first, each node once: a shared subexpression is formatted once.
    for node in expression.toposort():
        text = _format_node(node, [texts[s] for s in node.src])
        texts[node] = text if len(text) <= _MAX_TEXT else text[: _MAX_TEXT - 3] + "..."
    text = texts[expression]
    return text[1:-1] if expression.op in _SYMBOLS and text.endswith(")") else text


def _format_node(node: UOp, operands: list[str]) -> str:
    if node.op is Op.CONST:
        return str(node.arg)
    if node.op is Op.DEFINE_VAR:
        return str(node.arg.name)
    if node.op is Op.BIND:
        return f"{operands[0]}={operands[1]}"
    if node.op in _SYMBOLS:
        return f"({operands[0]} {_SYMBOLS[node.op]} {operands[1]})"
    if node.op is Op.NEG:
        return f"-{operands[0]}"
    if node.op in _TRANSPARENT:
        return operands[0]
    return f"{node.op.name.lower()}({', '.join(operands)})"
