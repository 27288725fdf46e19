"""Exceptions raised by svod-runtime.

UserError
├── VariableBoundsError (ValueError)         variable value outside [min, max]
├── ProfileError (ValueError)                profile with fewer than one run
├── NonFiniteError (FloatingPointError)      NaN or infinity produced in a watched plan
├── DonatedBufferError (RuntimeError)        execution that would read a donated buffer
└── UnsupportedError (NotImplementedError)   custom function of an unregistered kind
InternalError
├── PlanError (ValueError)                   inconsistent indices, sizes or devices in a plan
│   └── DependencyError                      unknown, cyclic or misplaced dependencies
└── ExecutionError (RuntimeError)            op that failed during an execution
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
    """Variable value outside the variable's bounds."""

    def __init__(self, *, name: str, value: int, min: int, max: int) -> None:
        self.name, self.value, self.min, self.max = name, value, min, max
        super().__init__(
            f"variable {name} = {value} is outside its bounds [{min}, {max}]",
            hint="buffers are sized for the largest value; declare the variable with wider bounds",
        )


class NonFiniteError(UserError, FloatingPointError):
    """NaN or infinity in the output of a kernel with finite inputs, in a watched plan."""

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
        more_elements = f", and {count - 1} more" if count > 1 else ""
        lines = (f"it comes from {format_origins(origins, max_shown=4)}",)
        super().__init__(
            f"kernel {kernel} (op {op_id}) produces {value} from inputs without any: element"
            f" {element} of its buffer {buffer}{more_elements}",
            notes=lines if origins else (),
            hint=(
                "plan.kernels() has the kernel's source; set SVOD_ORIGINS=1 to record its source"
                " lines"
            ),
        )


class DonatedBufferError(UserError, RuntimeError):
    """Execution of a plan whose input buffer was donated and not replaced since."""

    def __init__(self, *, index: int, buffer: object, taker: str) -> None:
        self.index, self.taker = index, taker
        super().__init__(
            f"buffer {index} of the plan, {buffer}, was donated: {taker}",
            hint=(
                f"replace it before the next execution: plan.replace_buffer({index}, buffer); "
                "pass a buffer that is donated elsewhere to a jit function as an argument"
            ),
        )


class ProfileError(UserError, ValueError):
    """Number of profile runs below 1."""

    def __init__(self, *, n_runs: int) -> None:
        self.n_runs = n_runs
        super().__init__(
            f"profile: n_runs must be at least 1, got {n_runs}", hint="plan.profile(n_runs=5)"
        )


class UnsupportedError(UserError, NotImplementedError):
    """Custom function of a kind that is not registered."""

    def __init__(self, *, kind: str, known: Sequence[str]) -> None:
        self.kind, self.known = kind, tuple(known)
        super().__init__(
            f"custom function {kind!r} is not registered",
            notes=(f"registered kinds: {', '.join(self.known) or 'none'}",),
            hint=f"register it: svod_runtime.register_custom_function({kind!r}, function)",
        )


class PlanError(InternalError, ValueError):
    """Inconsistent plan: an index, a size or a device does not match."""

    def __init__(self, *, op: str, problem: str) -> None:
        self.op, self.problem = op, problem
        super().__init__(f"{op}: {problem}")


class DependencyError(PlanError):
    """Unsatisfiable dependencies; `op_ids` lists the affected ops."""

    def __init__(self, *, problem: str, op_ids: Sequence[int]) -> None:
        self.op_ids = tuple(op_ids)
        super().__init__(op="dependencies", problem=problem)


class ExecutionError(InternalError, RuntimeError):
    """Failure of an op during an execution."""

    def __init__(self, *, op: str, problem: str, origins: Collection[Origin] = ()) -> None:
        self.op, self.problem, self.origins = op, problem, tuple(origins)
        lines = (f"it comes from {format_origins(origins, max_shown=4)}",)
        super().__init__(f"{op} failed: {problem}", notes=lines if origins else ())
