"""Common parts of the two semantics: terms, bools, and the error for untranslatable nodes."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol, TypeAlias

import z3

from svod_dtype import DType
from svod_ir import Op

__all__ = ["Meaning", "Term", "Untranslated", "apply_bool"]

Term: TypeAlias = Any
"""A z3 term, or a wrapper of one that a semantics defines."""


class Untranslated(Exception):
    """A node that a semantics cannot translate."""


class Meaning(Protocol):
    """Semantics of ops as z3 terms.

    Dtype index counts elements of memory: the input of a rule is assumed not to overflow (`assumed`,
    while `is_assuming`), and its output wraps in 64 bits, as on a machine.
    """

    assumed: list[Any]
    is_assuming: bool

    def sort(self, dtype: DType) -> Any: ...
    def lift(self, raw: Term, dtype: DType) -> Term: ...
    def raw(self, value: Term) -> Any: ...
    def constant(self, value: bool | int, dtype: DType) -> Term: ...
    def between(self, value: Term, low: int, high: int, dtype: DType) -> Any: ...
    def apply(self, op: Op, source: DType, result: DType, operands: tuple[Term, ...]) -> Term: ...


def apply_bool(op: Op, operands: tuple[Term, ...]) -> Term:
    """Apply `op` to bools, as `svod_ir._arithmetic` does: + is or, - is exclusive or, * is and."""
    function = _BOOL.get(op)
    if function is None:
        raise Untranslated(op)
    return function(*operands)


_SAME: Final = (Op.NEG, Op.ABS, Op.SIGN, Op.TRUNC, Op.FLOOR, Op.CEIL, Op.ROUND)
_BOOL: Final[dict[Op, Callable[..., Term]]] = {
    **{op: lambda x: x for op in _SAME},
    Op.NOT: z3.Not,
    Op.ADD: z3.Or,
    Op.SUB: z3.Xor,
    Op.MUL: z3.And,
    Op.MAX: z3.Or,
    Op.MIN: z3.And,
    Op.AND: z3.And,
    Op.OR: z3.Or,
    Op.XOR: z3.Xor,
    Op.POW: lambda x, y: z3.Or(x, z3.Not(y)),
    Op.MULACC: lambda x, y, z: z3.Or(z3.And(x, y), z),
    Op.LT: lambda x, y: z3.And(z3.Not(x), y),
    Op.LE: lambda x, y: z3.Or(z3.Not(x), y),
    Op.EQ: lambda x, y: x == y,
    Op.NE: lambda x, y: z3.Xor(x, y),
}
