"""The rules of memory, loops and the structure of kernels."""

from __future__ import annotations

from typing import Final

from svod_dtype import AddressSpace, bool_, void
from svod_ir.args import KernelInfo
from svod_ir.ops import MEMORY, REDUCTIONS, AxisType, Op
from svod_ir.spec.common import Rule, check_integer, check_no_arg, check_same_as_first, check_void
from svod_ir.uop import UOp

__all__ = ["KERNEL_RULES"]


def _rule_memory(node: UOp) -> str | None:
    if node.arg.size < 0:
        return f"{node.op.name} has no negative size"
    # Registers may be vector registers; all other memory is addressed by element.
    if node.dtype is void or (node.dtype.lanes > 1 and node.op is not Op.DEFINE_REG):
        return f"{node.op.name} has the dtype of its elements"
    return None


def _rule_index(node: UOp) -> str | None:
    indices = node.src[1:-1] if node.gate is not None else node.src[1:]
    base = node.memory.dtype
    if any(not i.dtype.is_int for i in indices):
        return "the indices of an INDEX are integers"
    if node.dtype.scalar is not base.scalar or node.dtype.lanes % base.lanes:
        return "INDEX has the dtype of the elements, or lanes of it"
    lanes = node.dtype.lanes // base.lanes
    if any(i.dtype.lanes not in (1, lanes) for i in indices):
        return "an index of an INDEX has one lane, or as many lanes as the INDEX"
    if node.gate is not None and node.gate.dtype.lanes not in (1, lanes):
        return "a gate has one lane, or as many lanes as the INDEX"
    return check_no_arg(node)


def _rule_load(node: UOp) -> str | None:
    # AFTERs order an access and do not change its location.
    if node.location.unordered.op is not Op.INDEX and node.location.unordered.op not in MEMORY:
        return "LOAD reads a location"
    return (
        None
        if all(s.dtype is node.dtype for s in node.src)
        else "LOAD has the dtype of its location and alternative"
    )


def _rule_store(node: UOp) -> str | None:
    if node.location.unordered.op is not Op.INDEX and node.location.unordered.op not in MEMORY:
        return "STORE writes a location"
    return check_void(node) or (
        None
        if node.value.dtype is node.location.dtype
        else "STORE writes a value of the location's dtype"
    )


def _rule_reduce(node: UOp) -> str | None:
    if node.arg not in REDUCTIONS:
        return "reductions are ADD, MUL, MAX and MIN"
    if any(r.op is not Op.RANGE for r in node.loops):
        return "REDUCE closes RANGEs"
    source = node.source.dtype
    # Over loops, elements are combined; without loops, the lanes of the operand are.
    if len(node.src) > 1:
        return None if node.dtype is source else "REDUCE over ranges has the dtype of its operand"
    if node.dtype.scalar is not source.scalar or source.lanes % node.dtype.lanes:
        return "REDUCE has its operand's scalar"
    return None


def _rule_scan(node: UOp) -> str | None:
    if node.arg not in REDUCTIONS or node.src[1].op is not Op.RANGE:
        return "SCAN holds a reduction and takes a RANGE"
    return check_same_as_first(node)


def _rule_carry(node: UOp) -> str | None:
    if not isinstance(node.arg, int):
        return "CARRY holds an integer id"
    if any(not s.dtype.is_int for s in node.src[1:]):
        return "the element indices of a CARRY are integers"
    return check_same_as_first(node)


def _rule_leave(node: UOp) -> str | None:
    if node.src[0].dtype is not bool_ or node.src[1].op is not Op.RANGE:
        return "LEAVE takes a bool scalar and the RANGE that ends where it is true"
    if any(s.dtype is not void for s in node.src[2:]):
        return "the other operands of a LEAVE are effects"
    return check_void(node) or check_no_arg(node)


def _rule_advance(node: UOp) -> str | None:
    if len(node.src) % 2 or any(n.unordered.op is not Op.CARRY for n in node.carried):
        return "ADVANCE takes CARRYs in the order of a loop, and a next value for each"
    if any(c.dtype is not n.dtype for c, n in zip(node.carried, node.next_values, strict=True)):
        return "a next value has the dtype of its CARRY"
    return check_void(node) or check_no_arg(node)


def _rule_range(node: UOp) -> str | None:
    if not isinstance(node.arg.id, int) or not isinstance(node.arg.kind, AxisType):
        return "RANGE holds an id and an AxisType"
    return check_integer(node) or (None if node.stop.dtype.is_int else "a RANGE has an integer end")


def _rule_end(node: UOp) -> str | None:
    if any(r.op is not Op.RANGE for r in node.loops):
        return "END closes RANGEs"
    effects = node.body.src if node.body.op is Op.GROUP else (node.body,)
    if len(node.loops) > 1 and any(n.op is Op.ADVANCE for n in effects):
        # ADVANCE happens once per iteration of one loop; an END of several would not say which.
        return "a loop that carries values has an END of its own"
    return check_void(node) or (None if node.body.dtype is void else "END closes an effect")


def _rule_sink(node: UOp) -> str | None:
    if node.arg is not None and not isinstance(node.arg, KernelInfo):
        return "SINK holds KernelInfo or None"
    return check_void(node)


def _rule_bufferize(node: UOp) -> str | None:
    if not isinstance(node.arg.space, AddressSpace):
        return "BUFFERIZE holds a device and an address space"
    # An axis of size 1 has a constant index instead of a RANGE.
    if any(r.op is not Op.RANGE and not r.dtype.is_int for r in node.loops):
        return "an axis of a BUFFERIZE is a RANGE or an index"
    return check_same_as_first(node)


KERNEL_RULES: Final[dict[Op, Rule]] = {
    **dict.fromkeys(
        (Op.BUFFER, Op.PARAM, Op.DEFINE_LOCAL, Op.DEFINE_REG, Op.BUFFER_VIEW), _rule_memory
    ),
    **dict.fromkeys((Op.GROUP, Op.BARRIER, Op.CALL, Op.NOOP), check_void),
    Op.INDEX: _rule_index,
    Op.LOAD: _rule_load,
    Op.STORE: _rule_store,
    Op.REDUCE: _rule_reduce,
    Op.SCAN: _rule_scan,
    Op.RANGE: _rule_range,
    Op.END: _rule_end,
    Op.SINK: _rule_sink,
    Op.BUFFERIZE: _rule_bufferize,
    Op.AFTER: check_same_as_first,
    Op.CARRY: _rule_carry,
    Op.ADVANCE: _rule_advance,
    Op.LEAVE: _rule_leave,
}
