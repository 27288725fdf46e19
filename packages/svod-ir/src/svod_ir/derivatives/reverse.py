"""Reverse mode: the cotangents of sources from the cotangents of outputs, as graphs.

Each node's cotangent is complete once all its readers have added their contributions, so the graph
is walked from its outputs down. Nodes that depend on no source are not visited."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from svod_ir.derivatives.inputs import get_dependence
from svod_ir.derivatives.joint import add_parts
from svod_ir.derivatives.rule import Dependence, Derivative, Mode, Parts, Wanted, make_refusal
from svod_ir.derivatives.table import DERIVATIVES, MULTIPLE
from svod_ir.ops import Op
from svod_ir.origins import add_gradient_origin
from svod_ir.uop import UOp

__all__ = ["make_cotangents"]


def make_cotangents(
    outputs: Sequence[UOp],
    cotangents: Sequence[UOp],
    sources: Sequence[UOp],
    constants: Collection[UOp] = (),
) -> tuple[UOp | None, ...]:
    """Cotangents of `sources`, None where no output depends on one.

    Args:
        outputs: nodes of floats.
        cotangents: for each output, a node of its shape and dtype.
        sources: nodes below the outputs. A source may depend on another; each gets its total
            cotangent.
        constants: nodes that depend on no source, so that the graph below them is not walked.

    Raises:
        NotDifferentiableError: if an output depends on a source through an op that has no
            derivative.
    """
    dependence = get_dependence(outputs, sources, constants=constants)
    by_node: dict[UOp, UOp] = {}
    for output, cotangent in zip(outputs, cotangents, strict=True):
        if output in dependence.active:
            _add(by_node, output, cotangent)
    results: dict[UOp, dict[int, UOp]] = {}
    for node in reversed(dependence.order):
        if node in dependence.active:
            _descend(node, by_node, results, dependence)
    return tuple(by_node.get(source) for source in sources)


def _descend(
    node: UOp, by_node: dict[UOp, UOp], results: dict[UOp, dict[int, UOp]], dependence: Dependence
) -> None:
    """Add the contributions of `node` to the cotangents of its inputs."""
    if node.op is Op.RESULT:
        if node in by_node:
            # All RESULTs are visited before the node that owns them, which then derives all at
            # once.
            results.setdefault(node.source, {})[node.arg] = by_node[node]
        return
    # Active, but every reader contributed nothing.
    if node not in by_node and node not in results:
        return
    inputs = dependence.inputs[node]
    is_needed = tuple(i in dependence.active for i in inputs)
    for source, contribution, is_wanted in zip(
        inputs, _make_contributions(node, by_node, results, is_needed), is_needed, strict=True
    ):
        if contribution is not None and is_wanted:
            add_gradient_origin(contribution, node)
            _add(by_node, source, contribution)


def _make_contributions(
    node: UOp, by_node: dict[UOp, UOp], results: dict[UOp, dict[int, UOp]], wanted: Wanted
) -> Parts:
    """The contributions of `node` to the cotangents of its inputs."""
    if node in results:
        return MULTIPLE[node.op].reverse(
            node, results[node], wanted, Mode(make_cotangents, get_dependence)
        )
    rule = DERIVATIVES[node.op]
    if isinstance(rule, Derivative):
        return rule.reverse(node, by_node[node], wanted) if any(wanted) else [None] * len(wanted)
    # A float from active bits is refused although no derivative flows through integers.
    if any(wanted) or node.op is Op.BITCAST:
        raise make_refusal(node, rule)
    return [None] * len(wanted)


def _add(by_node: dict[UOp, UOp], node: UOp, contribution: UOp) -> None:
    known = by_node.get(node)
    by_node[node] = contribution if known is None else add_parts(known, contribution)
