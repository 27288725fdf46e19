"""Derivatives of graphs of tensors: one row per op, for forward and reverse mode.

make_cotangents([loss], [one], [w])     d loss / d w, as a graph
make_tangents([y], [x], [v])            the derivative of y along v

Example:
    >>> import numpy as np
    >>> from svod_dtype import float32
    >>> from svod_ir import BufferArg, Op, UOp, make_constant_like
    >>> from svod_ir.derivatives import list_sources, make_cotangents, make_tangents, sort_nodes
    >>> from svod_ir.evaluate import evaluate
    >>> x = UOp(Op.BUFFER, float32, (), BufferArg(1, 3, "CPU"))
    >>> y, one = x * x, make_constant_like(x, 1)
    >>> inputs = {x: np.array([1, 2, 3], np.float32)}
    >>> (gradient,), (tangent,) = make_cotangents([y], [one], [x]), make_tangents([y], [x], [one])
    >>> evaluate(gradient, inputs).tolist(), evaluate(tangent, inputs).tolist()
    ([2.0, 4.0, 6.0], [2.0, 4.0, 6.0])
    >>> from svod_ir.derivatives import DERIVATIVES, Derivative, make_traced
    >>> isinstance(DERIVATIVES[Op.MUL], Derivative), DERIVATIVES[Op.BITCAST]
    (True, 'bits have no derivative')
    >>> computed = make_traced(x, computed_from=lambda: y)  # x now stores the value of y
    >>> [node.op for node in sort_nodes([computed + 1.0], lambda node: list_sources(node, {}))]
    [BUFFER, MUL, TRACED, CONST, ADD]

    A value that its derivative computes again, instead of storing it:

    >>> from svod_ir.derivatives import RECOMPUTED, make_gradients
    >>> (checkpointed,) = make_gradients([y], [x], RECOMPUTED)
    >>> (gradient,) = make_cotangents([checkpointed], [one], [x])
    >>> evaluate(gradient, inputs).tolist()
    [2.0, 4.0, 6.0]
"""

from __future__ import annotations

from svod_ir.derivatives.custom_gradient import make_custom_gradients, make_placeholder_like
from svod_ir.derivatives.forward import make_tangents
from svod_ir.derivatives.inputs import list_sources, sort_nodes
from svod_ir.derivatives.joint import list_operands, list_values, make_gradients, split_parts
from svod_ir.derivatives.marks import add_control_dependency, drop_marks, make_gradient, make_traced
from svod_ir.derivatives.recomputing import RECOMPUTED
from svod_ir.derivatives.reverse import make_cotangents
from svod_ir.derivatives.rule import Derivative, scale_guarded
from svod_ir.derivatives.table import DERIVATIVES

__all__ = [
    "DERIVATIVES",
    "RECOMPUTED",
    "Derivative",
    "add_control_dependency",
    "drop_marks",
    "list_operands",
    "list_sources",
    "list_values",
    "make_cotangents",
    "make_custom_gradients",
    "make_gradient",
    "make_gradients",
    "make_placeholder_like",
    "make_tangents",
    "make_traced",
    "scale_guarded",
    "sort_nodes",
    "split_parts",
]
