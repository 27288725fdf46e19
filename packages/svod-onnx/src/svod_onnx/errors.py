"""Errors of svod-onnx.

UserError
├── ModelFileError (ValueError)          a file that is not an ONNX model, or an inconsistent one
├── UnsupportedOperatorsError (NotImplementedError)   unsupported operators of a model, all at once
├── NodeError (ValueError)               a node that cannot be computed; its cause has the reason
├── ModelInputError (ValueError)         inputs that do not match the model's declaration
├── ModelOptionError (ValueError)        a number among the options that is too small
├── ModelOutputError (ValueError)        a name that is not an output of the model
└── ValueNeededError (ValueError)        a value that must be known while a program is built, but depends on inputs
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from svod_tensor.errors import UserError

__all__ = [
    "MissingOperator",
    "ModelFileError",
    "ModelInputError",
    "ModelOptionError",
    "ModelOutputError",
    "NodeError",
    "UnsupportedOperatorsError",
    "ValueNeededError",
]

_N_SHOWN = 20


class ModelFileError(UserError, ValueError):
    """A file that is not an ONNX model, or an inconsistent one.

    Attributes:
        path: path of the file, or a name for bytes.
        problem: inconsistency and its location.
    """

    def __init__(self, *, path: str, problem: str, hint: str | None = None) -> None:
        self.path, self.problem = path, problem
        super().__init__(f"{path}: {problem}", hint=hint)


class MissingOperator(NamedTuple):
    """An unsupported operator of a model."""

    operator: str  # with its domain, unless that is the default domain
    version: int
    node: str
    output: str  # the node's first output that is read


class UnsupportedOperatorsError(UserError, NotImplementedError):
    """Unsupported operators of a model: all of them, before the first call.

    Attributes:
        missing: operator, version, node and output of each node, as `MissingOperator`s.
    """

    def __init__(self, *, model: str, missing: Sequence[MissingOperator]) -> None:
        self.missing = tuple(missing)
        names = sorted({row.operator for row in missing})
        rows = [
            f"{row.operator} (version {row.version}) in node {row.node!r}, for {row.output!r}"
            for row in missing[:_N_SHOWN]
        ]
        if len(missing) > _N_SHOWN:
            rows.append(f"and {len(missing) - _N_SHOWN} more")
        if any(map(_has_layout, names)):
            rows.append(_LAYOUT_NOTE)
        super().__init__(
            f"{model}: unsupported operators: {', '.join(names)}",
            notes=tuple(rows),
            hint="docs/onnx-operators.md lists the supported operators; `svod_onnx.operator` adds an operator",
        )


_LAYOUT_NOTE = (
    "onnxruntime has saved the model in the memory layout of one processor; save it without the layout"
    " optimization, with `graph_optimization_level` at most `ORT_ENABLE_EXTENDED`"
)
_LAYOUT_DOMAINS = ("com.microsoft.nchwc.", "com.ms.internal.nhwc.")


def _has_layout(operator: str) -> bool:
    """Whether an operator works on a memory layout that onnxruntime chooses for a processor."""
    return operator.startswith(_LAYOUT_DOMAINS)


class NodeError(UserError, ValueError):
    """A node that cannot be computed. Its cause has the reason.

    Attributes:
        node: name of the node, or of its first output if it has no name.
        operator: operator of the node.
    """

    def __init__(
        self, *, node: str, operator: str, problem: str, inputs: Sequence[str] = ()
    ) -> None:
        self.node, self.operator = node, operator
        notes = (f"inputs: {', '.join(inputs)}",) if inputs else ()
        super().__init__(f"{operator} in node {node!r}: {problem}", notes=notes)


class ModelInputError(UserError, ValueError):
    """Inputs that do not match the model's declaration."""

    def __init__(self, *, model: str, problem: str, inputs: Sequence[str]) -> None:
        super().__init__(f"{model}: {problem}", notes=(f"expected inputs: {'; '.join(inputs)}",))


class ModelOptionError(UserError, ValueError):
    """A number among the options of a model that is too small."""

    def __init__(self, *, name: str, value: int) -> None:
        self.name, self.value = name, value
        super().__init__(f"{name} must be at least 1, got {value}")


class ModelOutputError(UserError, ValueError):
    """A name that is not an output of the model."""

    def __init__(self, *, model: str, name: str, outputs: Sequence[str]) -> None:
        self.name = name
        super().__init__(f"{model}: no output {name!r}", notes=(f"outputs: {', '.join(outputs)}",))


class ValueNeededError(UserError, ValueError):
    """A value that must be known while a program is built, but depends on inputs.

    Attributes:
        node: node that needs the value.
        value: name of the value.
    """

    def __init__(self, *, node: str, operator: str, value: str) -> None:
        self.node, self.value = node, value
        super().__init__(
            f"{operator} in node {node!r} needs the value of {value!r}, which depends on inputs",
            hint="call the model itself, which runs in stages, or pass the function these inputs as numpy arrays",
        )
