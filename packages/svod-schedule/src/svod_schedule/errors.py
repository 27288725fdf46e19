"""The errors of svod-schedule.

UserError
├── UnsupportedGraphError (NotImplementedError)   a graph that this compiler does not handle
├── UnsupportedDtypeError (TypeError)             arithmetic on a dtype that a target only stores
├── OptError (ValueError)                         an Opt that a kernel does not allow
├── ConfigError (ValueError)                      a field of OptimizerConfig with a value that it does not take
├── UnknownRuleError (LookupError)                a name that no rule or rule set has
├── UnknownPassError (LookupError)                a name that no pipeline, or no pass of it, has
└── PassOrderError (ValueError)                   a table whose passes stand in an order that they do not allow
InternalError
└── LinearizeError (RuntimeError)                 a kernel whose loops do not nest
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from svod_dtype import InternalError, UserError

__all__ = [
    "ConfigError",
    "LinearizeError",
    "OptError",
    "PassOrderError",
    "UnknownPassError",
    "UnknownRuleError",
    "UnsupportedDtypeError",
    "UnsupportedGraphError",
]


class UnsupportedGraphError(UserError, NotImplementedError):
    """A graph that is valid but that this version does not compile."""

    def __init__(self, *, what: str, hint: str | None = None) -> None:
        self.what = what
        super().__init__(f"{what} is not supported", hint=hint)


class UnsupportedDtypeError(UserError, TypeError):
    """Arithmetic on a dtype that a target only stores, and that no other stands for."""

    def __init__(self, *, dtype: object, operation: str, target: str) -> None:
        self.dtype, self.operation, self.target = dtype, operation, target
        super().__init__(
            f"{target} has no arithmetic on {dtype}, and {operation} needs it",
            hint='compute where there is some, as in x.to("CPU").cast(float32)',
        )


class OptError(UserError, ValueError):
    """An Opt whose precondition does not hold; the kernel is unchanged."""

    def __init__(self, *, opt: object, reason: str) -> None:
        self.opt, self.reason = opt, reason
        super().__init__(f"{opt} does not apply: {reason}")


class ConfigError(UserError, ValueError):
    """A field of an `OptimizerConfig` with a value that it does not take."""

    def __init__(self, *, field: str, value: object, expected: str) -> None:
        self.field, self.value, self.expected = field, value, expected
        super().__init__(f"{field}={value!r} is not {expected}")


class UnknownRuleError(UserError, LookupError):
    """A name that no rule or rule set has; `problem` says why its module cannot be asked."""

    def __init__(self, *, name: str, known: Sequence[str], problem: str | None = None) -> None:
        self.name, self.known = name, tuple(known)
        close = get_close_matches(name, known, n=1)
        super().__init__(
            f"no rule or rule set is called {name!r}" + (f": {problem}" if problem else ""),
            hint=f"did you mean {close[0]!r}?" if close else None,
        )


class UnknownPassError(UserError, LookupError):
    """A name that no pipeline, or no pass of a pipeline, has; `kind` says which was meant."""

    def __init__(self, *, kind: str, name: str, known: Sequence[str]) -> None:
        self.kind, self.name, self.known = kind, name, tuple(known)
        super().__init__(
            f"no {kind} is called {name!r}", notes=(f"those that there are: {', '.join(known)}",)
        )


class PassOrderError(UserError, ValueError):
    """A pass that stands before one that it must come after, or whose name stands twice (`missing`
    is empty then).
    """

    def __init__(self, *, pipeline: str, name: str, missing: Sequence[str]) -> None:
        self.pipeline, self.name, self.missing = pipeline, name, tuple(missing)
        if not missing:
            super().__init__(f"pipeline {pipeline} has two passes called {name!r}")
            return
        super().__init__(
            f"pass {name!r} of {pipeline} must come after {' and '.join(map(repr, missing))}",
            hint=f"put it behind, or drop the name from the `after` of {name!r}",
        )


class LinearizeError(InternalError, RuntimeError):
    """Loops that cannot be nested."""

    def __init__(self, *, problem: str, node: object) -> None:
        self.problem, self.node = problem, node
        super().__init__(f"{problem}: {node}")
