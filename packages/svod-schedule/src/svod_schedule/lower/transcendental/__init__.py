"""Polynomial approximations of transcendental functions, for ops that the target lacks.

`exp x` → `2^m * 2^m * (1 + r (1 + r (0.5 + ...)))`, in fma, integer and bit operations on whole
vectors.

Results are within 1 ulp (float32; without fma 1.6) and 2 ulp (float64) of the true value, for every
argument. Special values follow IEEE 754, clause 9.2, and C17, annex F.10. Narrower float types are
computed in float32."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, NamedTuple, Protocol

from svod_dtype import float32, float64
from svod_ir import Op, UOp
from svod_schedule.lower.transcendental.error_function import erf
from svod_schedule.lower.transcendental.exponential import exp, exp2, expm1
from svod_schedule.lower.transcendental.hyperbolic import cosh, sinh, tanh
from svod_schedule.lower.transcendental.logarithm import log, log1p, log2
from svod_schedule.lower.transcendental.power import pow as power
from svod_schedule.lower.transcendental.trigonometric import (
    cos,
    cos_of_huge,
    cos_of_moderate,
    is_huge,
    sin,
    sin_of_huge,
    sin_of_moderate,
    tan,
    tan_of_huge,
    tan_of_moderate,
)

__all__ = ["RARE", "TRANSCENDENTAL", "HasOps", "RareCase", "decompose_transcendental"]


class HasOps(Protocol):
    """Attributes of a `Target` that the choice depends on."""

    @property
    def native_ops(self) -> frozenset[Op]: ...

    @property
    def has_fma(self) -> bool: ...


class RareCase(NamedTuple):
    """A function with a slow path: `rare` for arguments where `is_rare` holds, `common` for all others
    (its value for rare arguments is arbitrary).
    """

    is_rare: Callable[..., UOp]
    common: Callable[..., UOp]
    rare: Callable[[UOp], UOp]


TRANSCENDENTAL: Final[Mapping[Op, Callable[..., UOp]]] = {
    Op.EXP: exp,
    Op.EXP2: exp2,
    Op.LOG: log,
    Op.LOG2: log2,
    Op.SIN: sin,
    Op.COS: cos,
    Op.TAN: tan,
    Op.TANH: tanh,
    Op.EXPM1: expm1,
    Op.LOG1P: log1p,
    Op.SINH: sinh,
    Op.COSH: cosh,
    Op.POW: power,
    Op.ERF: erf,
}
"""Op → function from its operands to a value of the same dtype, float32 or float64."""

RARE: Final[Mapping[Op, RareCase]] = {
    Op.SIN: RareCase(is_huge, sin_of_moderate, sin_of_huge),
    Op.COS: RareCase(is_huge, cos_of_moderate, cos_of_huge),
    Op.TAN: RareCase(is_huge, tan_of_moderate, tan_of_huge),
}
"""Functions whose rare arguments take several times the work."""

_NEEDS_FMA: Final = frozenset({*RARE, Op.POW})
"""Functions with a different algorithm for targets without fma."""


def decompose_transcendental(node: UOp, target: HasOps) -> UOp | None:
    """Approximate a transcendental op by arithmetic; None if it is no such op or the target has
    it.
    """
    function = TRANSCENDENTAL.get(node.op)
    if function is None or node.op in target.native_ops or not node.dtype.is_float:
        return None
    if node.op in _NEEDS_FMA:
        function = partial(function, has_fma=target.has_fma)
    if node.dtype.scalar in (float32, float64):
        return function(*node.src)
    return function(*(operand.cast(float32) for operand in node.src)).cast(node.dtype.scalar)
