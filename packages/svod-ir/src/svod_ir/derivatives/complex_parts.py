"""The derivatives of ops that split complex numbers into parts, or join them.

The cotangent of a complex z = x + iy is the cotangent of x minus i times the cotangent of y, as in
JAX. The rules of holomorphic functions, products and quotients among them, are then the same as for
real numbers. Gradient descent on a real function steps against the conjugate of the gradient."""

from __future__ import annotations

from typing import Final

from svod_ir.build import (
    make_alu,
    make_as_complex,
    make_as_real,
    make_complex,
    make_imag,
    make_real,
)
from svod_ir.derivatives.movement import forward_same_op
from svod_ir.derivatives.rule import Derivative, Parts, Wanted, collapse, spread
from svod_ir.ops import Op
from svod_ir.uop import UOp

__all__ = ["COMPLEX_PARTS"]


def _conjugate(x: UOp) -> UOp:
    return make_complex(make_real(x), make_alu(Op.NEG, make_imag(x)))


def _reverse_real(_: UOp, cotangent: UOp, __: Wanted) -> Parts:
    return [make_complex(cotangent, UOp.const(cotangent.dtype, 0))]


def _reverse_imag(_: UOp, cotangent: UOp, __: Wanted) -> Parts:
    # Negative by the convention above: the cotangent of y counts with -i.
    return [make_complex(UOp.const(cotangent.dtype, 0), make_alu(Op.NEG, cotangent))]


def _reverse_complex(node: UOp, cotangent: UOp, wanted: Wanted) -> Parts:
    return [
        # A scalar part was broadcast, so its cotangent is a sum.
        collapse(make_real(cotangent), node.left) if wanted[0] else None,
        collapse(make_alu(Op.NEG, make_imag(cotangent)), node.right) if wanted[1] else None,
    ]


def _forward_complex(node: UOp, tangents: Parts) -> UOp | None:
    zero = UOp.const(node.dtype.part, 0)
    real, imag = (zero if tangent is None else tangent for tangent in tangents)
    return spread(make_complex(real, imag), node.shape)


def _reverse_as_complex(_: UOp, cotangent: UOp, __: Wanted) -> Parts:
    return [make_as_real(_conjugate(cotangent))]


def _reverse_as_real(_: UOp, cotangent: UOp, __: Wanted) -> Parts:
    return [_conjugate(make_as_complex(cotangent))]


COMPLEX_PARTS: Final[dict[Op, Derivative]] = {
    Op.REAL: Derivative(_reverse_real, forward_same_op),
    Op.IMAG: Derivative(_reverse_imag, forward_same_op),
    Op.COMPLEX: Derivative(_reverse_complex, _forward_complex),
    Op.AS_COMPLEX: Derivative(_reverse_as_complex, forward_same_op),
    Op.AS_REAL: Derivative(_reverse_as_real, forward_same_op),
}
