"""Names of the values of a linear program."""

from __future__ import annotations

from collections.abc import Mapping

from svod_codegen.errors import RenderError
from svod_ir import Op, UOp

__all__ = ["get_name"]


def get_name(names: Mapping[UOp, str], node: UOp) -> str:
    """Return the name of a node; an AFTER has the name of its source.

    Raises:
        RenderError: if the linear list uses the node before its definition.
    """
    name = names.get(node)
    while name is None and node.op is Op.AFTER:
        node = node.source
        name = names.get(node)
    if name is None:
        raise RenderError(problem="is used before it is defined", node=node)
    return name
