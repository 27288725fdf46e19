"""Outputs of a custom function as nodes."""

from __future__ import annotations

from svod_ir import Op, UOp
from svod_ir.custom_function import read_signature
from svod_tensor._memory_views import view_prefix

__all__ = ["list_outputs"]


def list_outputs(node: UOp) -> tuple[UOp, ...]:
    """The outputs of a CUSTOM_FUNCTION: the node itself for a single one, else views of its memory."""
    signature = read_signature(node)
    if len(signature.outputs) == 1:
        return (node,)
    views: list[UOp] = []
    # A CUSTOM_FUNCTION has one buffer for all its outputs.
    for begin, spec in zip(signature.offsets, signature.outputs, strict=True):
        view = UOp(Op.BUFFER_VIEW, spec.dtype, (node,), (begin, spec.n_elements))
        views.append(view_prefix(view, spec.shape))
    return tuple(views)
