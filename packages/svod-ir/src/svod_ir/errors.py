"""The errors of svod-ir.

    UserError
    ├── ShapeError (ValueError)
    │   └── BroadcastError
    ├── AxisError (IndexError)
    └── OperandError (TypeError)      a dtype or operand that an op does not take
    InternalError
    ├── GraphError (ValueError)       a node that breaks the rules of its op or stage
    └── RewriteError (RuntimeError)   rewriting that does not end
"""

from __future__ import annotations

from svod_dtype import InternalError, UserError

__all__ = ["AxisError", "BroadcastError", "GraphError", "OperandError", "ShapeError"]


class ShapeError(UserError, ValueError):
    """A shape that an operation cannot use."""

    def __init__(self, *, operation: str, shape: tuple[object, ...], problem: str, hint: str | None = None) -> None:
        self.operation, self.shape = operation, shape
        super().__init__(f"{operation}: shape {_show(shape)} {problem}", hint=hint)


class BroadcastError(ShapeError):
    """Two shapes that do not broadcast; `axis` counts from the right, as -1, -2, ..."""

    def __init__(self, *, left: tuple[object, ...], right: tuple[object, ...], axis: int) -> None:
        self.left, self.right, self.axis = left, right, axis
        UserError.__init__(
            self,
            f"shapes {_show(left)} and {_show(right)} do not broadcast: axis {axis} has sizes {left[axis]} and {right[axis]}",
            hint="sizes must be equal or 1, counted from the last axis; reshape or expand one side",
        )
        self.operation, self.shape = "broadcast", left


class AxisError(UserError, IndexError):
    """An axis that a shape does not have."""

    def __init__(self, *, operation: str, axis: int, ndim: int) -> None:
        self.operation, self.axis, self.ndim = operation, axis, ndim
        allowed = f"use {-ndim} to {ndim - 1}" if ndim else "a 0-d tensor has no axes"
        super().__init__(f"{operation}: axis {axis} is out of range for {ndim} dimensions", hint=allowed)


class OperandError(UserError, TypeError):
    """An operand with a dtype or form that an op does not take."""

    def __init__(self, *, operation: str, found: object, expected: str, hint: str | None = None) -> None:
        self.operation, self.found = operation, found
        super().__init__(f"{operation} takes {expected}, not {found}", hint=hint)


class GraphError(InternalError, ValueError):
    """A node that breaks a rule of the IR."""

    def __init__(self, *, rule: str, node: object, notes: tuple[str, ...] = ()) -> None:
        self.rule, self.node = rule, node
        super().__init__(f"{rule}: {node}", notes=notes)


def _show(shape: tuple[object, ...]) -> str:
    return "(" + ", ".join(str(size) for size in shape) + ("," if len(shape) == 1 else "") + ")"
