"""The scope in which a thread builds nodes, where it tracks which lines do."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

from svod_ir.origins import add_origin
from svod_tensor.options import read_origins

if TYPE_CHECKING:
    from svod_ir import UOp

__all__ = ["current_scope", "leave_scope", "skip_line"]

# None where lines are not tracked, "" outside all scopes.
current_scope: Final = ContextVar[str | None](
    "current_scope", default="" if read_origins() else None
)


@contextmanager
def leave_scope() -> Generator[None]:
    """Track no lines in the block: what it builds is given others."""
    token = current_scope.set(None)
    try:
        yield
    finally:
        current_scope.reset(token)


def skip_line(node: UOp) -> None:
    """Say that no line built `node`; where lines are tracked."""
    if current_scope.get() is not None:
        add_origin(node, None)
