"""Scope of a thread's nodes, while lines are tracked."""

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

# None if lines are not tracked, "" outside all scopes.
current_scope: Final = ContextVar[str | None](
    "current_scope", default="" if read_origins() else None
)


@contextmanager
def leave_scope() -> Generator[None]:
    """Disable tracking in the block, whose nodes get origins separately."""
    token = current_scope.set(None)
    try:
        yield
    finally:
        current_scope.reset(token)


def skip_line(node: UOp) -> None:
    """Mark `node` as having no line, if lines are tracked."""
    if current_scope.get() is not None:
        add_origin(node, None)
