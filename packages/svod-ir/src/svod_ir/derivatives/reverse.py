"""Reverse mode: the cotangents of sources from those of outputs, as graphs.

Each node's cotangent is complete once all that read the node have added theirs, so the graph is
walked from its outputs down; what no source leads to is not entered."""

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
        sources: nodes below the outputs. One may depend on another, and each has all that depends
            on it.
        constants: nodes that depend on no source, so that the graph below them is not walked.

    Raises:
        NotDifferentiableError: if an output depends on a source through an op that has no
            derivative.
    """
    dependence = get_dependence(outputs, sources, constants=constants)
    found: dict[UOp, UOp] = {}
    for output, cotangent in zip(outputs, cotangents, strict=True):
        if output in dependence.active:
            _add(found, output, cotangent)
    results: dict[UOp, dict[int, UOp]] = {}
    for node in reversed(dependence.order):
        if node in dependence.active:
            _descend(node, found, results, dependence)
    return tuple(found.get(source) for source in sources)


def _descend(
    node: UOp, found: dict[UOp, UOp], results: dict[UOp, dict[int, UOp]], dependence: Dependence
) -> None:
    """Add what `node` gives to the cotangents of its inputs."""
    if node.op is Op.RESULT:
        if node in found:
            results.setdefault(node.source, {})[node.arg] = found[node]
        return
    if node not in found and node not in results:
        return
    inputs = dependence.inputs[node]
    wanted = tuple(i in dependence.active for i in inputs)
    for source, part, is_wanted in zip(
        inputs, _make_parts(node, found, results, wanted), wanted, strict=True
    ):
        if part is not None and is_wanted:
            add_gradient_origin(part, node)
            _add(found, source, part)


def _make_parts(
    node: UOp, found: dict[UOp, UOp], results: dict[UOp, dict[int, UOp]], wanted: Wanted
) -> Parts:
    """The cotangents that `node` gives its inputs."""
    if node in results:
        return MULTIPLE[node.op].reverse(
            node, results[node], wanted, Mode(make_cotangents, get_dependence)
        )
    rule = DERIVATIVES[node.op]
    if isinstance(rule, Derivative):
        return rule.reverse(node, found[node], wanted) if any(wanted) else [None] * len(wanted)
    if any(wanted) or node.op is Op.BITCAST:
        raise make_refusal(node, rule)
    return [None] * len(wanted)


def _add(found: dict[UOp, UOp], node: UOp, part: UOp) -> None:
    known = found.get(node)
    found[node] = part if known is None else add_parts(known, part)
