"""The errors of svod-runtime.

UserError
├── VariableBoundsError (ValueError)      a value outside [min, max]
└── UnsupportedError (NotImplementedError) a custom function that nothing implements
InternalError
├── PlanError (ValueError)                a plan that cannot be built: indices, dependencies, cycles
└── ExecutionError (RuntimeError)         an op that failed while the plan ran
"""

from __future__ import annotations

from collections.abc import Sequence

from svod_dtype import InternalError, UserError

__all__ = ["ExecutionError", "PlanError", "UnsupportedError", "VariableBoundsError"]


class VariableBoundsError(UserError, ValueError):
    """A value that a variable cannot take."""

    def __init__(self, *, name: str, value: int, min: int, max: int) -> None:
        self.name, self.value, self.min, self.max = name, value, min, max
        super().__init__(
            f"variable {name} = {value} is outside its bounds [{min}, {max}]",
            hint="buffers are sized for the largest value; declare the variable with wider bounds",
        )


class UnsupportedError(UserError, NotImplementedError):
    """A custom function of a kind that nothing implements."""

    def __init__(self, *, kind: str, known: Sequence[str]) -> None:
        self.kind, self.known = kind, tuple(known)
        super().__init__(
            f"custom function {kind!r} is not supported",
            notes=(f"kinds that are registered: {', '.join(self.known) or 'none'}",),
            hint=f"register it with svod_runtime.register_custom_function({kind!r}, function)",
        )


class PlanError(InternalError, ValueError):
    """A plan whose parts do not fit together."""

    def __init__(self, *, problem: str, op_id: int | None = None, kind: str | None = None) -> None:
        self.problem, self.op_id = problem, op_id
        super().__init__(problem if op_id is None else f"{kind or 'op'} {op_id}: {problem}")


class ExecutionError(InternalError, RuntimeError):
    """An op that failed while a plan ran."""

    def __init__(self, *, op_id: int, kind: str, problem: str) -> None:
        self.op_id, self.kind, self.problem = op_id, kind, problem
        super().__init__(f"{kind} {op_id} failed: {problem}")
