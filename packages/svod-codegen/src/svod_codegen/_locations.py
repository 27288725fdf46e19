"""What loads and stores access, below the edges that order them."""

from __future__ import annotations

from svod_codegen.errors import RenderError
from svod_ir import Op, UOp

__all__ = ["location_of", "memory_of"]


_INSIDE = frozenset({Op.INDEX, Op.AFTER})


def location_of(access: UOp) -> UOp:
    """The INDEX that a LOAD or STORE accesses.

    Raises:
        RenderError: if it accesses something else.
    """
    location = access.location.unordered
    if location.op is not Op.INDEX:
        raise RenderError(
            problem=f"accesses a {location.op.name}, which is no location", node=access
        )
    return location


def memory_of(node: UOp) -> UOp:
    """The memory object that a location or an AFTER of it is in."""
    return node.strip(_INSIDE)
