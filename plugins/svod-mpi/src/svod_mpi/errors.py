"""Errors of programs that run in several processes."""

from __future__ import annotations

from svod_dtype import UserError

__all__ = ["MeshError"]


class MeshError(UserError, ValueError):
    """A mesh that the processes do not make up, or parts that do not make up a tensor."""

    def __init__(self, *, operation: str, problem: str, hint: str | None = None) -> None:
        self.operation, self.problem = operation, problem
        super().__init__(f"{operation}: {problem}", hint=hint)
