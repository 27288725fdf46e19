"""`verify`: the check of each node of a graph against the rules of a stage."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from svod_dtype import SvodError
from svod_ir._scope import ENDS_RANGES_FROM
from svod_ir.errors import SpecError
from svod_ir.loops import find_loop_fault, get_bodies
from svod_ir.ops import ARG_TYPES, STAGES, TABLE, AxisType, Op
from svod_ir.spec.common import Rule
from svod_ir.spec.kernels import KERNEL_RULES
from svod_ir.spec.tensors import TENSOR_RULES
from svod_ir.spec.values import VALUE_RULES
from svod_ir.uop import UOp

__all__ = ["find_violation", "verify"]

_RULES: Final = {**VALUE_RULES, **TENSOR_RULES, **KERNEL_RULES}


def verify(root: UOp, stage: str, pass_name: str | None = None) -> None:
    """Check every node of a graph of `stage`. Bodies of CALLs are checked as kernels, bodies of
    loops as graphs.

    Raises:
        SpecError: naming the pass, the rule and the node.

    Example:
        >>> from svod_dtype import float32
        >>> from svod_ir import Op, SpecError, UOp, verify
        >>> x = UOp.const(float32, 4)
        >>> verify(x + x, "graph")
        >>> try:
        ...     verify(UOp(Op.ADD, float32, (x,)), "graph")
        ... except SpecError as error:
        ...     print(error.rule)
        ADD takes left right, not 1 operands
    """
    order = root.toposort(enter_calls=False)
    for node in order:
        _check(node, stage, pass_name)
    for call in dict.fromkeys(node for node in order if node.op is Op.CALL):
        # The body of another CALL is a copy or a view, which the caller's rules cover.
        if call.body.op is Op.SINK:
            verify(call.body, "kernel" if call.arg is None else stage, pass_name)
    for body in dict.fromkeys(body for node in order for body in get_bodies(node)):
        if stage == "graph":
            verify(body, stage, pass_name)
    rule = _find_root_violation(root, stage)
    if rule is not None:
        raise SpecError(pass_name=pass_name, stage=stage, rule=rule, node=root)


def find_violation(node: UOp, stage: str) -> str | None:
    """The rule of `stage` that this one node breaks, or None."""
    if node.op not in _OPS_OF[stage]:
        return f"{node.op.name} is not allowed in this stage"
    low, high = _COUNTS[node.op]
    if not low <= len(node.src) <= high:
        return (
            f"{node.op.name} takes {TABLE[node.op].operands or 'no operand'}, not {len(node.src)}"
            " operands"
        )
    if node.op in ARG_TYPES and not isinstance(node.arg, ARG_TYPES[node.op]):
        return f"{node.op.name} holds {TABLE[node.op].arg_text}"
    rule = _RULES.get(node.op)
    if rule is not None:
        broken = rule(node)
        if broken is not None:
            return broken
    stage_rule = _STAGE_RULES.get(stage)
    return stage_rule(node) if stage_rule is not None else None


def _check(node: UOp, stage: str, pass_name: str | None) -> None:
    try:
        broken = find_violation(node, stage)
    except (SvodError, AttributeError, TypeError, ValueError, IndexError) as error:
        raise SpecError(
            pass_name=pass_name,
            stage=stage,
            rule=f"the arg or operands are malformed: {error}",
            node=node,
        ) from error
    if broken is not None:
        notes = tuple(f"operand {i}: {s}" for i, s in enumerate(node.src[:8]))
        raise SpecError(pass_name=pass_name, stage=stage, rule=broken, node=node, notes=notes)


_OPS_OF: Final[Mapping[str, frozenset[Op]]] = {
    stage: frozenset(op for op, row in TABLE.items() if not accepted.isdisjoint(row.stages.split()))
    for stage, accepted in ((stage, set(rows.split())) for stage, rows in STAGES.items())
}


def _find_root_violation(root: UOp, stage: str) -> str | None:
    if stage in ("kernel", "lowering", "lowered"):
        if root.op is not Op.SINK:
            return "a kernel is a SINK"
        # After the barrier of a split reduction, the work-items of a workgroup share one scope
        # until place-launch-axes assigns their indices.
        is_free = stage == "lowering"
        unclosed = [r for r in root.ranges if not (is_free and r.arg.kind is AxisType.GROUP_REDUCE)]
        if unclosed:
            return f"every RANGE is closed: {unclosed[0]} is not"
    return _find_closed_again(root) if stage == "kernel" else None


def _find_closed_again(kernel: UOp) -> str | None:
    # In `lowering`, copies of a reduction share its loops until accumulate gives them one END.
    closed: set[UOp] = set()
    for node in kernel.iter_ops(*ENDS_RANGES_FROM):
        for r in node.src[ENDS_RANGES_FROM[node.op] :]:
            if r in closed:
                return f"one node closes a RANGE: {r} is closed by {node} again"
            closed.add(r)
    return None


def _rule_graph(node: UOp) -> str | None:
    # Raises where operands are on different devices.
    _ = node.placement
    return "tensors have scalar dtypes" if node.dtype.lanes > 1 else None


def _rule_tensors(node: UOp) -> str | None:
    fault = find_loop_fault(node) if node.op is Op.LOOP or node.op is Op.SWITCH else None
    return _rule_graph(node) if fault is None else fault


def _rule_lowered(node: UOp) -> str | None:
    if node.dtype.kind == "index":
        return "the dtype index is lowered to int32 or int64"
    if node.op is Op.REDUCE and node.loops:
        return "a lowered REDUCE is over the lanes of a vector"
    if node.op is Op.RANGE and node.arg.kind not in (AxisType.LOOP, AxisType.REDUCE, AxisType.SCAN):
        return "launch axes and vector axes are lowered, not loops"
    if node.op is Op.LOAD:
        location = node.location.unordered
        if location.op is Op.INDEX and location.gate is not None and not node.src[1:]:
            return "a gated LOAD has an alternative"
    elif node.op not in (Op.STORE, Op.AFTER) and any(s.op is Op.INDEX for s in node.src):
        return "a LOAD reads the value of a location"
    if node.op is Op.STORE and node.value.op is Op.INDEX:
        return "a LOAD reads the value of a location"
    return None


_STAGE_RULES: Final[dict[str, Rule]] = {
    "graph": _rule_tensors,
    "ranged": _rule_graph,
    "lowered": _rule_lowered,
}


def _count(operands: str) -> tuple[int, int]:
    names = operands.split()
    low = sum(not n.endswith(("?", "*")) for n in names)
    return low, 1 << 60 if any(n.endswith("*") for n in names) else len(names)


_COUNTS: Final = {op: _count(row.operands) for op, row in TABLE.items()} | {
    # The table's notation for operands cannot express these counts.
    Op.IOTA: (0, 1),
    Op.SOURCE: (0, 0),
}
