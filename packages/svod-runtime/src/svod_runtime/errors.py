"""The errors of svod-runtime.

UserError
├── VariableBoundsError (ValueError)         a value outside [min, max]
├── ProfileError (ValueError)                a profile of no run
├── NonFiniteError (FloatingPointError)      a NaN or an infinity that a watched plan made
├── DonatedBufferError (RuntimeError)        a plan run on memory that was given away
└── UnsupportedError (NotImplementedError)   a custom function that nothing implements
InternalError
├── PlanError (ValueError)                   a plan whose indices, sizes or devices do not fit
│   └── DependencyError                      unknown, circular or misplaced dependencies
└── ExecutionError (RuntimeError)            an op that failed while the plan ran
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from svod_dtype import InternalError, UserError
from svod_ir.origins import Origin, format_origins

__all__ = [
    "DependencyError",
    "DonatedBufferError",
    "ExecutionError",
    "NonFiniteError",
    "PlanError",
    "ProfileError",
    "UnsupportedError",
    "VariableBoundsError",
]


class VariableBoundsError(UserError, ValueError):
    """A value that a variable cannot take."""

    def __init__(self, *, name: str, value: int, min: int, max: int) -> None:
        self.name, self.value, self.min, self.max = name, value, min, max
        super().__init__(
            f"variable {name} = {value} is outside its bounds [{min}, {max}]",
            hint="buffers are sized for the largest value; declare the variable with wider bounds",
        )


class NonFiniteError(UserError, FloatingPointError):
    """A kernel that makes a NaN or an infinity, and reads none, in a plan that is watched
    for them.
    """

    def __init__(
        self,
        *,
        kernel: str,
        op_id: int,
        buffer: int,
        element: int,
        value: float,
        count: int,
        origins: Collection[Origin] = (),
    ) -> None:
        self.kernel, self.op_id, self.buffer, self.element = kernel, op_id, buffer, element
        self.value, self.count, self.origins = value, count, tuple(origins)
        others = f", and {count - 1} more" if count > 1 else ""
        lines = (f"it comes from {format_origins(origins, max_shown=4)}",)
        super().__init__(
            f"kernel {kernel} (op {op_id}) makes {value} of arguments without any: element"
            f" {element} of its buffer {buffer}{others}",
            notes=lines if origins else (),
            hint=(
                "plan.kernels() has the kernel's source; SVOD_ORIGINS=1 names the lines that it"
                " comes from"
            ),
        )


class DonatedBufferError(UserError, RuntimeError):
    """A plan that is run on a buffer whose content went elsewhere."""

    def __init__(self, *, index: int, buffer: object, taker: str) -> None:
        self.index, self.taker = index, taker
        super().__init__(
            f"buffer {index} of the plan, {buffer}, was donated: {taker}",
            hint=(
                f"give the plan new content, as in plan.replace_buffer({index}, buffer); "
                "a function under jit gets what is donated elsewhere as an argument"
            ),
        )


class ProfileError(UserError, ValueError):
    """A number of runs that leaves nothing to measure."""

    def __init__(self, *, n_runs: int) -> None:
        self.n_runs = n_runs
        super().__init__(
            f"a profile of {n_runs} runs measures nothing", hint="plan.profile(n_runs=5)"
        )


class UnsupportedError(UserError, NotImplementedError):
    """A custom function of a kind that nothing implements."""

    def __init__(self, *, kind: str, known: Sequence[str]) -> None:
        self.kind, self.known = kind, tuple(known)
        super().__init__(
            f"custom function {kind!r} is not supported",
            notes=(f"kinds that are registered: {', '.join(self.known) or 'none'}",),
            hint=f"register it: svod_runtime.register_custom_function({kind!r}, function)",
        )


class PlanError(InternalError, ValueError):
    """A plan whose parts do not fit together."""

    def __init__(self, *, op: str, problem: str) -> None:
        self.op, self.problem = op, problem
        super().__init__(f"{op}: {problem}")


class DependencyError(PlanError):
    """Dependencies that cannot be met; `op_ids` are the ops concerned."""

    def __init__(self, *, problem: str, op_ids: Sequence[int]) -> None:
        self.op_ids = tuple(op_ids)
        super().__init__(op="dependencies", problem=problem)


class ExecutionError(InternalError, RuntimeError):
    """An op that failed while a plan ran."""

    def __init__(self, *, op: str, problem: str, origins: Collection[Origin] = ()) -> None:
        self.op, self.problem, self.origins = op, problem, tuple(origins)
        lines = (f"it comes from {format_origins(origins, max_shown=4)}",)
        super().__init__(f"{op} failed: {problem}", notes=lines if origins else ())
