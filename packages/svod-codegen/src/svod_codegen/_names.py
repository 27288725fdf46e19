"""What renderers call the values of a linear program."""

from __future__ import annotations

from collections.abc import Mapping

from svod_codegen.errors import RenderError
from svod_ir import Op, UOp

__all__ = ["get_name"]


def get_name(names: Mapping[UOp, str], node: UOp) -> str:
    """The name of a node; AFTER has that of what comes after something.

    Raises:
        RenderError: if the linear list uses the node before it defines it.
    """
    found = names.get(node)
    while found is None and node.op is Op.AFTER:
        node = node.source
        found = names.get(node)
    if found is None:
        raise RenderError(problem="is used before it is defined", node=node)
    return found
