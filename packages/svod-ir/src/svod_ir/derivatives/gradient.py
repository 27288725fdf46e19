"""Derivative of a GRADIENT: its rule's derivative, in both modes.

value = GRADIENT(v, x; rule)        reverse: rule.backward(value, cotangent, wanted)
                                    forward: rule.forward(value, tangents), or the transpose of
                                        rule.backward
"""

from __future__ import annotations

from typing import Final

from svod_ir.args import GradientRule
from svod_ir.derivatives.movement import forward_first
from svod_ir.derivatives.rule import Derivative, Parts, Wanted
from svod_ir.errors import NotDifferentiableError
from svod_ir.uop import UOp

__all__ = ["GRADIENT"]


def _reverse(node: UOp, cotangent: UOp, wanted: Wanted) -> Parts:
    rule: GradientRule = node.arg.rule
    if rule.backward is None:
        raise NotDifferentiableError(
            operation=rule.name,
            reason="its rule was read from text, and this process has no rule of that name",
        )
    return rule.backward(node, cotangent, wanted)


GRADIENT: Final = Derivative(_reverse, forward_first)
