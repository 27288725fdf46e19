"""Marks, the nodes that control differentiation: TRACED, GRADIENT and CONTROL_DEPENDENCY; also the
recompute flag of loops.

Example:
    >>> from svod_ir import Op, UOp, make_constant_like
    >>> from svod_ir.args import GradientRule
    >>> from svod_ir.derivatives import drop_marks, make_cotangents, make_gradient, add_control_dependency, make_traced
    >>> from svod_ir.evaluate import evaluate
    >>> from svod_ir.testing.nodes import assign, buffer
    >>> x = buffer(1, 2)
    >>> halving = GradientRule("halving", lambda node, cotangent, wanted: (cotangent * 0.5,))
    >>> y = make_gradient(x * 1.0, (x,), halving)
    >>> (gradient,) = make_cotangents([y], [make_constant_like(x, 1)], [x])
    >>> evaluate(gradient).tolist()
    [0.5, 0.5]
    >>> make_traced(x) is make_traced(x), add_control_dependency(x, (assign(buffer(2, 2), x),)).op
    (False, CONTROL_DEPENDENCY)
    >>> from svod_ir.loops import make_loop, make_parameter
    >>> start = make_parameter(x, 0)
    >>> (end,) = make_loop(UOp.sink(make_traced(start) * 2.0), 3, (x,), n_carried=1)
    >>> for loop in (end.source, drop_marks(end.source)):
    ...     print([node.op for node in loop.arg.body.toposort() if node.op in (Op.TRACED, Op.MUL)])
    [TRACED, MUL]
    [MUL]
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Final

from svod_ir.args import GradientArg, GradientRule, Mark
from svod_ir.loops import get_bodies, map_bodies
from svod_ir.ops import MARKS, Op
from svod_ir.uop import UOp

__all__ = ["add_control_dependency", "drop_marks", "make_gradient", "make_traced"]

_ids: Final = itertools.count(1)


def make_traced(x: UOp, computed_from: Callable[[], UOp] | None = None) -> UOp:
    """A node with the value of `x`, distinct from every other one.

    `computed_from` returns the graph that `x` was computed from.
    """
    # Equal nodes are one object, so only the number distinguishes an argument from an equal
    # constant.
    return UOp(Op.TRACED, x.dtype, (x,), Mark(next(_ids), computed_from))


def make_gradient(
    value: UOp,
    operands: Sequence[UOp],
    rule: GradientRule,
    parameters: tuple[object, ...] = (),
    n_values: int = 1,
) -> UOp:
    """Attach a derivative rule to `value`: the rule defines its derivatives by `operands`.

    Args:
        value: the result, computed as usual.
        operands: tensors by which `value` is differentiated.
        rule: rule of the derivatives.
        parameters: constants that the rule gets.
        n_values: number of values that the rule differentiates together.
    """
    return UOp(
        Op.GRADIENT, value.dtype, (value, *operands), GradientArg(rule, parameters, n_values)
    )


def add_control_dependency(x: UOp, events: Sequence[UOp]) -> UOp:
    """Return a node with the value of `x`, distinct from it, that is read only after `events`.

    Events that no other node reads are not computed (pass `release-events`).
    """
    return UOp(Op.CONTROL_DEPENDENCY, x.dtype, (x, *events))


def drop_marks(node: UOp) -> UOp:
    """A LOOP or SWITCH without the marks in its bodies and without its recompute flag."""
    new = map_bodies(node, _drop_inside)
    return (
        # The flag concerns derivatives only; without it, loops with equal bodies are one node.
        new.with_arg(new.arg._replace(is_recomputed=False))
        if new.op is Op.LOOP and new.arg.is_recomputed
        else new
    )


def _drop_inside(body: UOp) -> UOp:
    order = body.toposort()
    # The body itself: its identity is the key of caches of compiled bodies.
    if not any(node.op in MARKS or get_bodies(node) for node in order):
        return body
    done: dict[UOp, UOp] = {}
    for node in order:
        if node.op in MARKS:
            done[node] = done[node.source]
        else:
            new = node.with_src(tuple([done[s] for s in node.src])) if node.src else node
            done[node] = drop_marks(new) if get_bodies(new) else new
    return done[body]
