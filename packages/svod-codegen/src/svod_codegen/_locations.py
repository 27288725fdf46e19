"""Locations of loads and stores, without the edges that order them."""

from __future__ import annotations

from svod_codegen.errors import RenderError
from svod_ir import Op, UOp

__all__ = ["location_of", "memory_of"]


_INSIDE = frozenset({Op.INDEX, Op.AFTER})


def location_of(access: UOp) -> UOp:
    """Return the INDEX that a LOAD or STORE accesses.

    Raises:
        RenderError: if its operand is no INDEX.
    """
    location = access.location.unordered
    if location.op is not Op.INDEX:
        raise RenderError(
            problem=f"accesses a {location.op.name}, which is not a location", node=access
        )
    return location


def memory_of(node: UOp) -> UOp:
    """Return the memory object of a location, or of an AFTER of one."""
    return node.strip(_INSIDE)
