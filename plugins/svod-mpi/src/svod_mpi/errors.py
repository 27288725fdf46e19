"""Errors of programs that run in several processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from svod_dtype import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["CheckpointError", "MeshError"]


class MeshError(UserError, ValueError):
    """A mesh that the processes do not make up, or parts that do not make up a tensor."""

    def __init__(self, *, operation: str, problem: str, hint: str | None = None) -> None:
        self.operation, self.problem = operation, problem
        super().__init__(f"{operation}: {problem}", hint=hint)


class CheckpointError(UserError, ValueError):
    """A checkpoint that is missing, not whole, or of other tensors than the program's.

    Attributes:
        path: path of the checkpoint.
        problem: what is wrong with it.
    """

    def __init__(
        self, *, path: str, problem: str, notes: Sequence[str] = (), hint: str | None = None
    ) -> None:
        self.path, self.problem = path, problem
        super().__init__(f"checkpoint {path} {problem}", notes=tuple(notes), hint=hint)
