"""The derivative of each op of tensor graphs, or the reason why it has none.

Ops whose results are not floats never raise their reason, since no derivative flows through them.
"""

from __future__ import annotations

from typing import Final

from svod_ir.build import make_scatter_add
from svod_ir.derivatives.choices import SWITCH
from svod_ir.derivatives.complex_parts import COMPLEX_PARTS
from svod_ir.derivatives.elementwise import CAST, FUNCTIONS, OPERATORS, WHERE, ZERO
from svod_ir.derivatives.gradient import GRADIENT
from svod_ir.derivatives.loops import LOOP
from svod_ir.derivatives.memory import AFTER, CONTROL_DEPENDENCY, TRACED
from svod_ir.derivatives.movement import LINEAR, SAME, forward_same_op
from svod_ir.derivatives.reductions import REDUCE_AXIS, SCAN_AXIS
from svod_ir.derivatives.rule import Derivative, MultipleDerivative, Parts, Wanted
from svod_ir.derivatives.scatter import SCATTER
from svod_ir.derivatives.shards import MSELECT, MULTI
from svod_ir.ops import Op
from svod_ir.uop import UOp

__all__ = ["DERIVATIVES", "MULTIPLE"]


def _reverse_gather(node: UOp, cotangent: UOp, _: Wanted) -> Parts:
    axis: int = node.arg
    # Indices are integers: no derivative flows to them.
    return [make_scatter_add(cotangent, node.position, axis, node.source.shape[axis]), None]


_LEAF: Final = "it depends on no other tensor"
_INTEGERS: Final = "its operands are integers"
_NO_FLOAT: Final = "it does not return floats"
_INSIDE: Final = "it is not an op of tensor graphs"
_SEVERAL: Final = "it has several results"
_PART: Final = "the node that reads it has the derivative of the pair"

DERIVATIVES: Final[dict[Op, Derivative | str]] = {
    **dict.fromkeys(
        (Op.CONST, Op.IOTA, Op.DEFINE_VAR, Op.BIND, Op.NOOP, Op.BUFFER, Op.PARAM), _LEAF
    ),
    **dict.fromkeys(
        (Op.IDIV, Op.MOD, Op.CDIV, Op.CMOD, Op.SHL, Op.SHR, Op.THREEFRY, Op.CHECK), _INTEGERS
    ),
    **dict.fromkeys((Op.NOT, Op.AND, Op.OR, Op.XOR, Op.LT, Op.LE, Op.EQ, Op.NE), _NO_FLOAT),
    # Constant between jumps: as in PyTorch and JAX, the jumps count as nothing.
    **dict.fromkeys((Op.SIGN, Op.TRUNC, Op.FLOOR, Op.CEIL, Op.ROUND, Op.DETACH), ZERO),
    **FUNCTIONS,
    **OPERATORS,
    **LINEAR,
    **COMPLEX_PARTS,
    Op.WHERE: WHERE,
    Op.CAST: CAST,
    Op.BITCAST: "bits have no derivative",
    Op.GATHER: Derivative(_reverse_gather, forward_same_op),
    Op.SCATTER: SCATTER,
    Op.REDUCE_AXIS: REDUCE_AXIS,
    Op.SCAN_AXIS: SCAN_AXIS,
    Op.MULTI: MULTI,
    Op.RESHARD: SAME,
    Op.MSTACK: _PART,
    Op.MSELECT: MSELECT,
    Op.ALLREDUCE: _INSIDE,
    Op.BUFFER_VIEW: _INSIDE,
    Op.TRACED: TRACED,
    Op.CONTROL_DEPENDENCY: CONTROL_DEPENDENCY,
    Op.GRADIENT: GRADIENT,
    Op.AFTER: AFTER,
    Op.ASSIGN: _PART,
    Op.LOOP: _SEVERAL,
    Op.SWITCH: _SEVERAL,
    Op.RESULT: _PART,
    Op.CALL: _INSIDE,
    Op.SINK: _INSIDE,
    Op.CUSTOM_FUNCTION: "it has no rule: wrap the call in a function with custom_gradient",
}
"""The derivative of each op, or the reason why it has none."""

MULTIPLE: Final[dict[Op, MultipleDerivative]] = {Op.LOOP: LOOP, Op.SWITCH: SWITCH}
"""The derivatives of ops with several results."""
