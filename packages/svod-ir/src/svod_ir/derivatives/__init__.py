"""Derivatives of graphs of tensors: one row for each op, forward and in reverse.

make_cotangents([loss], [one], [w])     d loss / d w, as a graph
make_tangents([y], [x], [v])            the derivative of y along v
"""

from __future__ import annotations

from svod_ir.derivatives.forward import make_tangents
from svod_ir.derivatives.given import make_given_gradients, make_placeholder_like
from svod_ir.derivatives.inputs import list_sources, sort_nodes
from svod_ir.derivatives.joint import list_operands, list_values, make_gradients, split_parts
from svod_ir.derivatives.marks import drop_marks, make_gradient, make_later, make_traced
from svod_ir.derivatives.recomputing import RECOMPUTED
from svod_ir.derivatives.reverse import make_cotangents
from svod_ir.derivatives.rule import Derivative, scale_guarded
from svod_ir.derivatives.table import DERIVATIVES

__all__ = [
    "DERIVATIVES", "RECOMPUTED", "Derivative", "drop_marks", "list_operands", "list_sources", "list_values",
    "make_cotangents", "make_given_gradients", "make_gradient", "make_gradients", "make_later", "make_placeholder_like",
    "make_tangents", "make_traced", "scale_guarded", "sort_nodes", "split_parts",
]  # fmt: skip
