"""Forward mode: the tangents of outputs from those of sources, as graphs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from svod_ir.args import GradientRule
from svod_ir.build import make_constant_like
from svod_ir.derivatives.gradient import GRADIENT
from svod_ir.derivatives.inputs import get_dependence
from svod_ir.derivatives.joint import is_part, join_parts, split_parts
from svod_ir.derivatives.marks import make_traced
from svod_ir.derivatives.reverse import make_cotangents
from svod_ir.derivatives.rule import Mode, Parts, make_refusal
from svod_ir.derivatives.table import DERIVATIVES, MULTIPLE
from svod_ir.ops import Op
from svod_ir.origins import add_gradient_origin
from svod_ir.uop import UOp

__all__ = ["make_tangents"]


def make_tangents(
    outputs: Sequence[UOp], sources: Sequence[UOp], tangents: Sequence[UOp]
) -> tuple[UOp | None, ...]:
    """The tangents of `outputs`, None where one does not depend on any source.

    Args:
        outputs: nodes of floats.
        sources: nodes below the outputs.
        tangents: for each source, a node of its shape and dtype.

    Raises:
        NotDifferentiableError: if an output depends on a source through an op that has no
            derivative.
    """
    dependence = get_dependence(outputs, sources, is_forward=True)
    found = dict(zip(sources, tangents, strict=True))
    results: dict[UOp, dict[int, UOp]] = {}
    for node in dependence.order:
        if node not in dependence.active or node in found:
            continue
        parts = tuple(found.get(i) for i in dependence.inputs[node])
        if node.op is Op.RESULT:
            made = results.get(node.source, {}).get(node.arg)
        elif node.op in MULTIPLE:
            results[node] = MULTIPLE[node.op].forward(node, parts, _MODE)
            continue
        else:
            made = (
                _push(node, parts)
                if any(part is not None for part in parts) or node.op is Op.BITCAST
                else None
            )
        if made is not None:
            found[node] = made
            add_gradient_origin(made, node)
    return tuple(found.get(output) for output in outputs)


_MODE: Final = Mode(make_tangents, partial(get_dependence, is_forward=True))


def _push(node: UOp, tangents: Parts) -> UOp | None:
    """The tangent of a node from those of its inputs."""
    rule = DERIVATIVES[node.op]
    if isinstance(rule, str):
        raise make_refusal(node, rule)
    if node.op is Op.GRADIENT and is_part(node):
        joint, number = tangents[0], int(node.arg.parameters[0])
        return None if joint is None else split_parts(node.src[1], joint)[number]
    if node.op is Op.GRADIENT and not node.arg.rule.differentiates_value:
        given: GradientRule = node.arg.rule
        return (
            _transpose(node, tangents)
            if given.forward is None
            else given.forward(node, tuple(tangents))
        )
    return rule.forward(node, tangents)


def _transpose(node: UOp, tangents: Parts) -> UOp | None:
    """The tangent of a GRADIENT by the transpose of its rule, which is linear in the cotangent."""
    cotangents = [
        make_traced(make_constant_like(value, 1)) for value in node.src[: node.arg.n_values]
    ]
    wanted = tuple(tangent is not None for tangent in tangents)
    parts = GRADIENT.reverse(
        node, join_parts(cotangents) if len(cotangents) > 1 else cotangents[0], wanted
    )
    pairs = [
        (p, t) for p, t in zip(parts, tangents, strict=True) if p is not None and t is not None
    ]
    # All that a rule reads is constant here. Walking the graph below it would make forward mode
    # quadratic in the size of the graph.
    constants = {node, *node.src}.difference(cotangents)
    found = make_cotangents([p for p, _ in pairs], [t for _, t in pairs], cotangents, constants)
    first, *others = found
    return join_parts(found) if others else first
