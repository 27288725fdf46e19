"""The errors of svod-schedule.

UserError
├── UnsupportedGraphError (NotImplementedError)   a graph that this compiler does not handle
├── UnsupportedDtypeError (TypeError)             arithmetic on a dtype that a target only stores
├── OptError (ValueError)                         an Opt that a kernel does not allow
├── ConfigError (ValueError)                      an invalid value for a field of OptimizerConfig
├── UnknownRuleError (LookupError)                an unknown name of a rule or rule set
├── UnknownPassError (LookupError)                an unknown name of a pipeline, pass or stage
├── PassResultError (TypeError)                   a pass that returns no graph
├── MissingPackageError (ModuleNotFoundError)     an optional package that is not installed
└── PassOrderError (ValueError)                   a table whose passes are in an invalid order
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
    "MissingPackageError",
    "OptError",
    "PassOrderError",
    "PassResultError",
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
    """Arithmetic on a dtype that a target can only store, and cannot emulate by another dtype."""

    def __init__(self, *, dtype: object, operation: str, target: str) -> None:
        self.dtype, self.operation, self.target = dtype, operation, target
        super().__init__(
            f"{target} has no arithmetic on {dtype}, and {operation} needs it",
            hint='compute on another device or in another dtype: x.to("CPU") or x.cast(float32)',
        )


class OptError(UserError, ValueError):
    """An Opt whose precondition does not hold; the kernel is unchanged."""

    def __init__(self, *, opt: object, reason: str) -> None:
        self.opt, self.reason = opt, reason
        super().__init__(f"{opt} does not apply: {reason}")


class ConfigError(UserError, ValueError):
    """An invalid value for a field of an `OptimizerConfig`."""

    def __init__(self, *, field: str, value: object, expected: str) -> None:
        self.field, self.value, self.expected = field, value, expected
        super().__init__(f"{field}={value!r} is not {expected}")


class UnknownRuleError(UserError, LookupError):
    """An unknown name of a rule or rule set; `problem` says why its module cannot be searched."""

    def __init__(self, *, name: str, known: Sequence[str], problem: str | None = None) -> None:
        self.name, self.known = name, tuple(known)
        close = get_close_matches(name, known, n=1)
        super().__init__(
            f"no rule or rule set is called {name!r}" + (f": {problem}" if problem else ""),
            hint=f"did you mean {close[0]!r}?" if close else None,
        )


class UnknownPassError(UserError, LookupError):
    """An unknown name of a pipeline, of a pass or of a stage; `kind` says which."""

    def __init__(self, *, kind: str, name: str, known: Sequence[str]) -> None:
        self.kind, self.name, self.known = kind, name, tuple(known)
        super().__init__(
            f"no {kind} is called {name!r}", notes=(f"known names: {', '.join(known)}",)
        )


class PassOrderError(UserError, ValueError):
    """A pass that comes before a pass that it must come after, or a duplicate name of a pass
    (`missing` is empty then).
    """

    def __init__(self, *, pipeline: str, name: str, missing: Sequence[str]) -> None:
        self.pipeline, self.name, self.missing = pipeline, name, tuple(missing)
        if not missing:
            super().__init__(f"pipeline {pipeline} has two passes called {name!r}")
            return
        super().__init__(
            f"pass {name!r} of {pipeline} must come after {' and '.join(map(repr, missing))}",
            hint=f"insert it later, or remove the names from the `after` of {name!r}",
        )


class PassResultError(UserError, TypeError):
    """A pass that returns something other than a graph."""

    def __init__(self, *, pipeline: str, name: str, result: object) -> None:
        self.pipeline, self.name, self.result = pipeline, name, result
        shown = "None" if result is None else f"{type(result).__name__} {result!r}"
        super().__init__(
            f"pass {name!r} of {pipeline} returned {shown}, which is not a graph",
            hint="return the graph that it gets where there is nothing to change",
        )


class MissingPackageError(UserError, ModuleNotFoundError):
    """A feature whose optional package is not installed.

    Attributes:
        name: the name of the module that cannot be imported.
    """

    def __init__(self, *, feature: str, module: str, package: str) -> None:
        super().__init__(
            f"{feature} needs {package}, which is not installed", hint=f"pip install {package}"
        )
        self.name = module


class LinearizeError(InternalError, RuntimeError):
    """Loops that cannot be nested."""

    def __init__(self, *, problem: str, node: object) -> None:
        self.problem, self.node = problem, node
        super().__init__(f"{problem}: {node}")
