"""Forward mode: the tangents of outputs from the tangents of sources, as graphs."""

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
    by_node = dict(zip(sources, tangents, strict=True))
    results: dict[UOp, dict[int, UOp]] = {}
    for node in dependence.order:
        if node not in dependence.active or node in by_node:
            continue
        input_tangents = tuple(by_node.get(i) for i in dependence.inputs[node])
        if node.op is Op.RESULT:
            tangent = results.get(node.source, {}).get(node.arg)
        elif node.op in MULTIPLE:
            # The RESULTs of the node come later in this order and read their tangents here.
            results[node] = MULTIPLE[node.op].forward(node, input_tangents, _MODE)
            continue
        else:
            tangent = (
                _push(node, input_tangents)
                if any(input_tangent is not None for input_tangent in input_tangents)
                # Called without tangents too, to refuse: a float from active bits has no
                # derivative.
                or node.op is Op.BITCAST
                else None
            )
        if tangent is not None:
            by_node[node] = tangent
            add_gradient_origin(tangent, node)
    return tuple(by_node.get(output) for output in outputs)


_MODE: Final = Mode(make_tangents, partial(get_dependence, is_forward=True))


def _push(node: UOp, tangents: Parts) -> UOp | None:
    """The tangent of a node from the tangents of its inputs."""
    rule = DERIVATIVES[node.op]
    if isinstance(rule, str):
        raise make_refusal(node, rule)
    if node.op is Op.GRADIENT and is_part(node):
        joint, index = tangents[0], int(node.arg.parameters[0])
        return None if joint is None else split_parts(node.src[1], joint)[index]
    if node.op is Op.GRADIENT and not node.arg.rule.differentiates_value:
        custom: GradientRule = node.arg.rule
        return (
            _transpose(node, tangents)
            if custom.forward is None
            else custom.forward(node, tuple(tangents))
        )
    return rule.forward(node, tangents)


def _transpose(node: UOp, tangents: Parts) -> UOp | None:
    """The tangent of a GRADIENT by the transpose of its rule, which is linear in the cotangent."""
    cotangents = [
        make_traced(make_constant_like(value, 1)) for value in node.src[: node.arg.n_values]
    ]
    is_needed = tuple(tangent is not None for tangent in tangents)
    transposed = GRADIENT.reverse(
        node, join_parts(cotangents) if len(cotangents) > 1 else cotangents[0], is_needed
    )
    pairs = [
        (p, t) for p, t in zip(transposed, tangents, strict=True) if p is not None and t is not None
    ]
    # All inputs of the rule are constant here. Walking the graph below them would make forward mode
    # quadratic in the size of the graph.
    constants = {node, *node.src}.difference(cotangents)
    tangent_parts = make_cotangents(
        [p for p, _ in pairs], [t for _, t in pairs], cotangents, constants
    )
    first, *remaining = tangent_parts
    return join_parts(tangent_parts) if remaining else first
