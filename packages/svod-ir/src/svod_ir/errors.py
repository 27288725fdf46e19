"""Errors of svod-ir.

UserError
├── ShapeError (ValueError)
│   └── BroadcastError
├── AxisError (IndexError)
├── OperandError (TypeError)      a dtype or operand that an op does not support
├── DeviceMismatchError (ValueError)
├── EvaluationError (ValueError)  a graph or inputs that `svod_ir.evaluate` cannot run
│   └── UnsupportedOpError        a graph with a node without reference semantics
├── NotDifferentiableError (TypeError)  the derivative of an operation that has none
├── ParseError (ValueError)       text that is not a graph
├── UndecidedError (TypeError)    a comparison in an `if` that holds for only some values of its variables
├── RuleError (TypeError)         a rule whose function does not match its patterns, or returns no node
├── OptionError (ValueError)      an invalid value of an environment variable
└── TargetError (ValueError)      a target whose fields contradict each other
InternalError
├── GraphError (ValueError)       a node that breaks the rules of its op or stage
│   └── SpecError                 the same, found after a pass
├── MiscompilationError (ValueError)  a pass or a rule that changes the values of a graph
└── RewriteError (RuntimeError)   rewriting that does not terminate
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from svod_dtype import InternalError, UserError
from svod_ir._size_text import format_shape, format_size

__all__ = [
    "AxisError",
    "BroadcastError",
    "DeviceMismatchError",
    "EvaluationError",
    "GraphError",
    "MiscompilationError",
    "NotDifferentiableError",
    "OperandError",
    "OptionError",
    "ParseError",
    "RewriteError",
    "RuleError",
    "ShapeError",
    "SpecError",
    "TargetError",
    "UndecidedError",
    "UnsupportedOpError",
]


class ShapeError(UserError, ValueError):
    """A shape that an operation cannot use; `problem` is a clause that shows the shape."""

    def __init__(
        self, *, operation: str, shape: tuple[object, ...], problem: str, hint: str | None = None
    ) -> None:
        self.operation, self.shape = operation, shape
        super().__init__(f"{operation}: {problem}", hint=hint)


class BroadcastError(ShapeError):
    """Two shapes that do not broadcast; `axis` counts from the right, as -1, -2, ..."""

    def __init__(self, *, left: tuple[object, ...], right: tuple[object, ...], axis: int) -> None:
        self.left, self.right, self.axis = left, right, axis
        shown = format_size(left[axis]), format_size(right[axis])
        sizes = " and ".join(shown) + (", bound separately" if shown[0] == shown[1] else "")
        UserError.__init__(
            self,
            f"operands could not be broadcast together with shapes {format_shape(left)} and"
            f" {format_shape(right)}: axis {axis} has sizes {sizes}",
            hint="sizes must be equal or 1, counted from the last axis; reshape or expand one side",
        )
        self.operation, self.shape = "broadcast", left


class AxisError(UserError, IndexError):
    """An axis that a shape does not have."""

    def __init__(self, *, operation: str, axis: int, ndim: int) -> None:
        self.operation, self.axis, self.ndim = operation, axis, ndim
        allowed = f"use {-ndim} to {ndim - 1}" if ndim else "a 0-d tensor has no axes"
        super().__init__(
            f"{operation}: axis {axis} is out of bounds for a tensor of dimension {ndim}",
            hint=allowed,
        )


class OperandError(UserError, TypeError):
    """An operand whose dtype or form an op does not support."""

    def __init__(
        self, *, operation: str, found: object, expected: str, hint: str | None = None
    ) -> None:
        self.operation, self.found = operation, found
        super().__init__(f"{operation}: expected {expected}, got {found}", hint=hint)


class NotDifferentiableError(UserError, TypeError):
    """The derivative of an operation that has none."""

    def __init__(
        self,
        *,
        operation: str,
        reason: str,
        lines: Sequence[str] = (),
        hint: str = "leave it out with x.detach(), or define its derivative with custom_gradient",
    ) -> None:
        self.operation, self.reason, self.lines = operation, reason, tuple(lines)
        super().__init__(
            f"{operation} has no derivative: {reason}",
            notes=tuple(f"it was built at {line}" for line in lines),
            hint=hint,
        )


class UndecidedError(UserError, TypeError):
    """The truth value of a comparison that holds for only some values of its variables."""

    def __init__(self, *, left: object, sign: str, right: object) -> None:
        self.left, self.sign, self.right = left, sign, right
        super().__init__(
            f"{format_size(left)} {sign} {format_size(right)} holds for some values of its"
            " variables, so it is neither true nor false",
            hint=(
                "choose between values with condition.where(a, b), or declare variables with bounds"
                " that decide it"
            ),
        )


class GraphError(InternalError, ValueError):
    """A node that breaks a rule of the IR."""

    def __init__(self, *, rule: str, node: object, notes: tuple[str, ...] = ()) -> None:
        self.rule, self.node = rule, node
        super().__init__(f"{rule}: {node}", notes=notes)


class SpecError(GraphError):
    """A node that breaks a rule of its stage, with the pass and the rewrite rule that made it."""

    def __init__(
        self,
        *,
        pass_name: str | None,
        stage: str,
        rule: str,
        node: object,
        made_by: str | None = None,
        notes: tuple[str, ...] = (),
    ) -> None:
        self.pass_name, self.stage, self.made_by = pass_name, stage, made_by
        self.rule, self.node, self.notes = rule, node, notes
        after = f"after {pass_name}: " if pass_name is not None else ""
        maker = (f"the rewrite rule {made_by} made it",) if made_by is not None else ()
        InternalError.__init__(
            self, f"{after}stage {stage}: {rule}: {node}", notes=(*maker, *notes)
        )


class MiscompilationError(InternalError, ValueError):
    """A pass or a rewrite rule that changes the values of a graph.

    `rule` is None if no single rule does. `node` is the changed node: the node that matched, or a
    result or memory of the graph. `values` are the values of its variables."""

    def __init__(
        self,
        *,
        pass_name: str,
        rule: str | None,
        node: object,
        problem: str,
        values: Mapping[str, object] | None = None,
        notes: tuple[str, ...] = (),
    ) -> None:
        self.pass_name, self.rule, self.node, self.problem = pass_name, rule, node, problem
        self.values = dict(values or {})
        where = (
            " at " + ", ".join(f"{n} = {v}" for n, v in self.values.items()) if self.values else ""
        )
        maker = f"the rewrite rule {rule} changes" if rule is not None else "the pass changes"
        super().__init__(f"in {pass_name}, {maker} {node}: {problem}{where}", notes=notes)


class DeviceMismatchError(UserError, ValueError):
    """Operands on different devices; each side is a device, the devices of a sharded tensor, or a
    mesh.
    """

    def __init__(self, *, left: str | Sequence[str], right: str | Sequence[str]) -> None:
        self.left = (left,) if isinstance(left, str) else tuple(left)
        self.right = (right,) if isinstance(right, str) else tuple(right)
        hint = f'move one, as in y.to("{self.left[0]}")'
        if len(self.left) > 1 or len(self.right) > 1:
            devices = max(self.left, self.right, key=len)
            hint = f"shard the other one too, as in x.shard({devices})"
        if any(name.startswith("the mesh") for name in (*self.left, *self.right)):
            hint = "shard both over one mesh"
        super().__init__(
            f"operands are on {' + '.join(self.left)} and {' + '.join(self.right)}", hint=hint
        )


class EvaluationError(UserError, ValueError):
    """A graph or inputs that the reference evaluation cannot run."""

    def __init__(self, *, problem: str, node: object = None, hint: str | None = None) -> None:
        self.problem, self.node = problem, node
        super().__init__(problem if node is None else f"{problem}: {node}", hint=hint)


class UnsupportedOpError(EvaluationError):
    """A graph that the reference evaluation cannot run on any inputs."""


class ParseError(UserError, ValueError):
    """Text that is not a graph; `line` counts from 1, and 0 means the whole text."""

    def __init__(self, *, line: int, text: str, problem: str, hint: str | None = None) -> None:
        self.line, self.text, self.problem = line, text, problem
        where = f"line {line}: " if line else ""
        super().__init__(
            f"{where}{problem}", notes=(f"in {text.strip()!r}",) if text.strip() else (), hint=hint
        )


class RuleError(UserError, TypeError):
    """A rule whose function does not match its patterns, or returns something other than a node."""

    def __init__(self, *, rule: str, problem: str, hint: str | None = None) -> None:
        self.rule, self.problem = rule, problem
        super().__init__(f"rule {rule} {problem}", hint=hint)


class OptionError(UserError, ValueError):
    """An invalid value of an environment variable."""

    def __init__(self, *, variable: str, value: str, expected: str) -> None:
        self.variable, self.value, self.expected = variable, value, expected
        super().__init__(
            f"{variable}={value!r} is not {expected}", hint=f"unset {variable} to use the default"
        )


class TargetError(UserError, ValueError):
    """A description of a machine whose fields contradict each other."""

    def __init__(self, *, target: str, problem: str, hint: str | None = None) -> None:
        self.target, self.problem = target, problem
        super().__init__(f"target {target!r} {problem}", hint=hint)


class RewriteError(InternalError, RuntimeError):
    """Rules that undo each other or grow the graph forever; `rules` are the rules that fired last."""

    def __init__(
        self, *, ruleset: str, rules: tuple[str, ...], node: object, result: object
    ) -> None:
        self.ruleset, self.rules, self.node, self.result = ruleset, rules, node, result
        loop = ", ".join(rules[:8]) + (", ..." if len(rules) > 8 else "")
        super().__init__(
            f"rewriting with {ruleset} does not terminate: {loop}",
            notes=(f"at {node}", f"which became {result}"),
        )
