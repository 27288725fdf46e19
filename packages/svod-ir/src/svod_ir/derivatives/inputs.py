"""What nodes depend on where derivatives are taken, and which of them sources lead to."""

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
    """The dependence of `outputs` on `sources`.

    Args:
        outputs: nodes of floats.
        sources: nodes below the outputs.
        is_forward: whether for forward mode.
        constants: nodes that depend on no source, and that need not be entered.
    """
    inputs: dict[UOp, Sequence[UOp]] = dict.fromkeys(constants, ())
    marked = map_marks(sources)

    def list_inputs(node: UOp) -> Sequence[UOp]:
        found = inputs.get(node)
        if found is None:
            found = inputs[node] = _list_inputs(node, is_forward, marked)
        return found

    order = sort_nodes(outputs, list_inputs)
    active, touched = set[UOp](), set(sources)
    for node in order:
        if node in touched and node.dtype.is_inexact:
            active.add(node)
            continue
        operands = inputs[node]
        if touched.isdisjoint(operands) or DERIVATIVES.get(node.op) is ZERO:
            continue
        touched.add(node)
        if node.op is Op.BITCAST:
            # The derivative is lost in bits, and only a float that is made of them shows it.
            is_active = node.dtype.is_float
        else:
            is_active = not active.isdisjoint(operands) and (
                node.dtype.is_inexact or node.op in _SEVERAL
            )
        if is_active:
            active.add(node)
    return Dependence(order, inputs, active)


_SEVERAL = frozenset({Op.LOOP, Op.SWITCH})
"""What has several results, and no dtype of its own."""


def sort_nodes(roots: Iterable[UOp], list_inputs: Callable[[UOp], Iterable[UOp]]) -> list[UOp]:
    """The nodes that roots depend on, inputs first, as `list_inputs` says what each depends on."""
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
    """The TRACEDs among nodes, by the numbers of their marks."""
    return {node.arg.number: node for node in nodes if node.op is Op.TRACED}


def list_sources(node: UOp, marked: Mapping[int, UOp]) -> Sequence[UOp]:
    """What a node is computed from: of what was computed meanwhile, that which it was computed
    from.

    Memory may have become a copy of it since then; what has a mark of `marked` is that node for all
    that."""
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
