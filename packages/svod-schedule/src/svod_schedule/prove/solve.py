"""Decision by z3 whether two graphs are equal for all values of their variables: equal, different
with a counterexample, or unknown.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from typing import Any, Final, Literal, NamedTuple

import z3

from svod_dtype import DType
from svod_ir import Op, UOp
from svod_schedule.prove.bits import Bits
from svod_schedule.prove.integers import Integers
from svod_schedule.prove.terms import Meaning, Untranslated
from svod_schedule.prove.translate import Translation

__all__ = ["Answer", "Values", "decide_equal"]

Values = dict[UOp, "bool | int"]

_STEPS: Final = 500_000
"""Budget in z3's own unit of work, which is the same on every machine, unlike seconds."""
_LIMIT_MS: Final = 3_000
"""Timeout, for the rare steps that take unusually long."""


class Answer(NamedTuple):
    """Verdict, with values for which the graphs differ."""

    verdict: Literal["equal", "different", "unknown"]
    values: Values


_MAX_NODES: Final = 30
_LARGE: Final = frozenset({Op.POW, Op.THREEFRY})
_DIVISIONS: Final = frozenset({Op.IDIV, Op.MOD, Op.CDIV, Op.CMOD, Op.SHR, Op.CAST})
_UNKNOWN: Final = Answer("unknown", {})


def decide_equal(before: UOp, after: UOp) -> Answer:
    """Decide with z3, by the semantics of integers or of bit-vectors, whichever is likely faster, then
    by the other one. Both are exact.
    """
    ops = {n.op for n in (*before.toposort(), *after.toposort())}
    for meaning in (Integers, Bits) if ops & _DIVISIONS else (Bits, Integers):
        try:
            answer = _decide(before, after, meaning())
        except Untranslated:
            continue
        if answer.verdict != "unknown":
            return answer
    return _UNKNOWN


def _decide(before: UOp, after: UOp, meaning: Meaning) -> Answer:
    translation = Translation(meaning)
    left = translation.to_terms(before)
    meaning.is_assuming = False
    right = translation.to_terms(after)
    # A single value is broadcast to all lanes.
    pairs = zip(left, right * len(left) if len(right) == 1 else right, strict=True)
    differs = z3.Or(*[meaning.raw(a) != meaning.raw(b) for a, b in pairs])
    if z3.is_false(z3.simplify(differs)) or (
        _is_polynomial(before) and z3.is_false(z3.simplify(differs, som=True))
    ):
        return Answer("equal", {})
    solver = z3.Solver()
    solver.set("rlimit", _STEPS)
    solver.set("timeout", _LIMIT_MS)
    solver.add(*translation.known, *meaning.assumed, differs)
    verdict = solver.check()
    if verdict == z3.unsat:
        return Answer("equal", {})
    if verdict != z3.sat:
        return _UNKNOWN
    model = solver.model()
    return Answer(
        "different",
        {leaf: _value(model, raw, leaf.dtype) for leaf, raw in translation.leaves.items()},
    )


def _is_polynomial(root: UOp) -> bool:
    """Whether expanding all products may help, and is affordable."""
    nodes = root.toposort()
    return (
        len(nodes) < _MAX_NODES
        and sum(n.op is Op.MUL for n in nodes) > 0
        and all(n.op not in _LARGE for n in nodes)
    )


def _value(model: Any, raw: Any, dtype: DType) -> bool | int:
    result = model.eval(raw, model_completion=True)
    if dtype.is_bool:
        return bool(z3.is_true(result))
    if z3.is_int_value(result):
        return int(result.as_long())
    return int(result.as_signed_long() if dtype.is_signed else result.as_long())
