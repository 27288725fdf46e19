"""The errors of svod-onnx.

UserError
├── ModelFileError (ValueError)          a file that is no ONNX model, or one that contradicts itself
├── UnsupportedOperatorsError (NotImplementedError)   operators that a model needs and svod-onnx does not have, all at once
├── NodeError (ValueError)               a node that cannot be computed, with the error that says why
├── ModelInputError (ValueError)         inputs that a model does not take
└── ValueNeededError (ValueError)        a value that must be known while a program is built, and depends on its inputs
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from svod_tensor.errors import UserError

__all__ = [
    "MissingOperator",
    "ModelFileError",
    "ModelInputError",
    "NodeError",
    "UnsupportedOperatorsError",
    "ValueNeededError",
]

_N_SHOWN = 20


class ModelFileError(UserError, ValueError):
    """A file that is no ONNX model, or one that contradicts itself.

    Attributes:
        path: of the file, or a name for bytes.
        problem: what is wrong with it, and where.
    """

    def __init__(self, *, path: str, problem: str, hint: str | None = None) -> None:
        self.path, self.problem = path, problem
        super().__init__(f"{path}: {problem}", hint=hint)


class MissingOperator(NamedTuple):
    """An operator that a model needs and svod-onnx does not have."""

    operator: str  # with its domain, where that is not the default one
    version: int
    node: str
    output: str  # the first one of the node that something reads


class UnsupportedOperatorsError(UserError, NotImplementedError):
    """Operators that a model needs and svod-onnx does not have: all of them, before anything is
    computed.

    Attributes:
        missing: a row for each node.
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
        super().__init__(
            f"{model} needs operators that svod-onnx does not have: {', '.join(names)}",
            notes=tuple(rows),
            hint="docs/onnx-operators.md lists those that there are; `svod_onnx.operator` adds one",
        )


class NodeError(UserError, ValueError):
    """A node that cannot be computed: its cause says why.

    Attributes:
        node: the name of the node, or of its first output where it has none.
        operator: what it computes.
    """

    def __init__(
        self, *, node: str, operator: str, problem: str, inputs: Sequence[str] = ()
    ) -> None:
        self.node, self.operator = node, operator
        notes = (f"inputs: {', '.join(inputs)}",) if inputs else ()
        super().__init__(f"{operator} in node {node!r}: {problem}", notes=notes)


class ModelInputError(UserError, ValueError):
    """Inputs that a model does not take."""

    def __init__(self, *, model: str, problem: str, inputs: Sequence[str]) -> None:
        super().__init__(f"{model}: {problem}", notes=(f"its inputs are: {'; '.join(inputs)}",))


class ValueNeededError(UserError, ValueError):
    """A value that must be known while a program is built, and depends on its inputs.

    Attributes:
        node: which needs it.
        value: its name.
    """

    def __init__(self, *, node: str, operator: str, value: str) -> None:
        self.node, self.value = node, value
        super().__init__(
            f"{operator} in node {node!r} needs the numbers in {value!r}, which depend on inputs",
            hint=(
                "a call of the model itself computes in stages; a function of it takes such inputs"
                " as numpy arrays"
            ),
        )
