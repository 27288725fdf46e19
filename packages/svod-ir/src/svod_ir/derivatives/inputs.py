"""Inputs of nodes as differentiation sees them, and the nodes that depend on sources."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from svod_ir.derivatives.elementwise import ZERO
from svod_ir.derivatives.rule import Dependence, Derivative
from svod_ir.derivatives.table import DERIVATIVES
from svod_ir.ops import Op
from svod_ir.uop import UOp

__all__ = ["get_dependence", "list_sources", "map_marks", "sort_nodes"]


def get_dependence(
    outputs: Sequence[UOp],
    sources: Sequence[UOp],
    *,
    is_forward: bool = False,
    constants: Collection[UOp] = (),
) -> Dependence:
    """Find the nodes through which derivatives of `outputs` flow to `sources`.

    Args:
        outputs: nodes of floats.
        sources: nodes below the outputs.
        is_forward: whether to list the inputs of a node for forward mode, instead of reverse mode.
        constants: nodes that depend on no source; the graph below them is not walked.
    """
    inputs: dict[UOp, Sequence[UOp]] = dict.fromkeys(constants, ())
    marked = map_marks(sources)

    def list_inputs(node: UOp) -> Sequence[UOp]:
        listed = inputs.get(node)
        if listed is None:
            listed = inputs[node] = _list_inputs(node, is_forward, marked)
        return listed

    order = sort_nodes(outputs, list_inputs)
    active, touched = set[UOp](), set(sources)
    for node in order:
        if node in touched and node.dtype.is_inexact:
            active.add(node)
            continue
        operands = inputs[node]
        if touched.isdisjoint(operands) or DERIVATIVES.get(node.op) is ZERO:
            continue
        # `touched` also holds integers, through which no derivative flows, to detect BITCASTs of
        # them.
        touched.add(node)
        if node.op is Op.BITCAST:
            # A BITCAST to integers ends the derivative. Only a float made from bits is an error.
            is_active = node.dtype.is_float
        else:
            is_active = not active.isdisjoint(operands) and (
                node.dtype.is_inexact or node.op in _SEVERAL
            )
        if is_active:
            active.add(node)
    return Dependence(order, inputs, active)


_SEVERAL = frozenset({Op.LOOP, Op.SWITCH})
"""Ops with several results, which have no dtype of their own."""


def sort_nodes(roots: Iterable[UOp], list_inputs: Callable[[UOp], Iterable[UOp]]) -> list[UOp]:
    """Nodes that roots depend on, in topological order; `list_inputs` gives a node's inputs."""
    order: list[UOp] = []
    entered: set[UOp] = set()
    for root in roots:
        if root in entered:
            continue
        entered.add(root)
        stack: list[tuple[UOp, Iterator[UOp]]] = [(root, iter(list_inputs(root)))]
        while stack:
            node, operands = stack[-1]
            for operand in operands:
                if operand not in entered:
                    entered.add(operand)
                    stack.append((operand, iter(list_inputs(operand))))
                    break
            else:
                order.append(node)
                stack.pop()
    return order


def map_marks(nodes: Iterable[UOp]) -> dict[int, UOp]:
    """The TRACED nodes among `nodes`, by the ids of their marks."""
    return {node.arg.number: node for node in nodes if node.op is Op.TRACED}


def list_sources(node: UOp, marked: Mapping[int, UOp]) -> Sequence[UOp]:
    """Return the operands of a node or, for a realized TRACED node, the graph it was computed from.

    Args:
        node: the node.
        marked: TRACED nodes by the ids of their marks, as by `map_marks`. They replace the TRACED
            nodes with the same marks in that graph, whose memory may have been reassigned since.
    """
    find: Callable[[], UOp] | None = node.arg.computed_from if node.op is Op.TRACED else None
    if find is None:
        return node.src
    graph = find()
    return (
        graph.substitute(
            {n: marked[n.arg.number] for n in graph.iter_ops(Op.TRACED) if n.arg.number in marked}
        ),
    )


def _list_inputs(node: UOp, is_forward: bool, marked: Mapping[int, UOp]) -> Sequence[UOp]:
    if node.op is Op.TRACED:
        return list_sources(node, marked)
    if node.op is Op.GRADIENT:
        return node.src[:1] if is_forward and node.arg.rule.differentiates_value else node.src[1:]
    rule = DERIVATIVES.get(node.op)
    return (
        rule.list_inputs(node)
        if isinstance(rule, Derivative) and rule.list_inputs is not None
        else node.src
    )
