"""What may stand in a graph of each stage: ops, operands, dtypes and args.

`verify` walks a graph once and raises at the first node that breaks a rule; it runs between passes
in tests and under SVOD_CHECK=1.  Which ops a stage has is read from `svod_ir.ops.TABLE`; here are
the rules for their operands.  Beside the stages of the table there are `kernel graph`,
the CALLs that kernelize makes, and `lowering`, a kernel on its way between kernel and lowered, where
the forms of both may stand side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from svod_dtype import AddressSpace, DType, SvodError, void
from svod_ir.args import BufferArg, BufferizeArg, CheckArg, KernelInfo, ParamArg
from svod_ir.build import FLOAT_ONLY, INTEGER_ONLY, NO_FLOAT
from svod_ir.errors import SpecError
from svod_ir.ops import BINARY, COMPARISON, MEMORY, MOVEMENT, REDUCTIONS, TABLE, UNARY, AxisType, Op
from svod_ir.target import TensorCore
from svod_ir.uop import UOp

__all__ = ["SPEC_STAGES", "find_violation", "verify"]

SPEC_STAGES: Final = ("graph", "ranged", "kernel graph", "kernel", "lowering", "lowered", "program")

Rule = Callable[[UOp], str | None]
"""Gives the rule that a node breaks, or None."""


def verify(root: UOp, stage: str, pass_name: str | None = None) -> None:
    """Check every node of a graph of `stage`; the bodies of CALLs are checked as kernels.

    Raises:
        SpecError: naming the pass, the rule and the node.
    """
    order = root.toposort(enter_calls=False)
    for node in order:
        _check(node, stage, pass_name)
    for body in dict.fromkeys(node.src[0] for node in order if node.op is Op.CALL):
        if body.op is Op.SINK:
            verify(body, "kernel", pass_name)
    rule = _find_root_violation(root, stage)
    if rule is not None:
        raise SpecError(pass_name=pass_name, stage=stage, rule=rule, node=root)


def find_violation(node: UOp, stage: str) -> str | None:
    """The rule of `stage` that this one node breaks, or None."""
    if node.op not in _OPS_OF[stage]:
        return f"{node.op.name} stands in no graph of this stage"
    low, high = _COUNTS[node.op]
    if not low <= len(node.src) <= high:
        return f"{node.op.name} takes {TABLE[node.op].operands or 'no operand'}, not {len(node.src)} operands"
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
            pass_name=pass_name, stage=stage, rule=f"the arg or operands have a wrong form: {error}", node=node
        ) from error
    if broken is not None:
        notes = tuple(f"operand {i}: {s}" for i, s in enumerate(node.src[:8]))
        raise SpecError(pass_name=pass_name, stage=stage, rule=broken, node=node, notes=notes)


_OPS_OF: Final[Mapping[str, frozenset[Op]]] = {
    stage: frozenset(op for op, row in TABLE.items() if set(row.stages.split()) & accepted)
    for stage, accepted in {
        "graph": {"graph"}, "ranged": {"ranged"}, "kernel graph": {"graph"}, "kernel": {"kernel"}, "lowering": {"kernel", "lowered"},
        "lowered": {"lowered"}, "program": {"program", "lowered", "kernel"},
    }.items()
}  # fmt: skip


def _find_root_violation(root: UOp, stage: str) -> str | None:
    if stage in ("kernel", "lowering", "lowered"):
        if root.op is not Op.SINK:
            return "a kernel is a SINK"
        # After they met, the members of a workgroup go on in one scope until launch-axes numbers them.
        is_free = stage == "lowering"
        left = [r for r in root.ranges if not (is_free and r.arg[1] is AxisType.GROUP_REDUCE)]
        if left:
            return f"every RANGE is closed: {left[0]} is not"
    return None


def _rule_graph(node: UOp) -> str | None:
    # Raises where operands are on different devices.
    _ = node.placement
    return "tensors have scalar dtypes" if node.dtype.lanes > 1 else None


def _rule_lowered(node: UOp) -> str | None:
    if node.dtype.kind == "index":
        return "the dtype index is lowered to int32 or int64"
    if node.op is Op.REDUCE and node.src[1:]:
        return "a lowered REDUCE is over the lanes of a vector"
    if node.op is Op.RANGE and node.arg[1] not in (AxisType.LOOP, AxisType.REDUCE, AxisType.SCAN):
        return "axes of the launch and of vectors are no loops any more"
    if node.op is Op.LOAD:
        location = _location(node)
        if location.op is Op.INDEX and location.gate is not None and not node.src[1:]:
            return "a gated LOAD has an alternative"
    elif node.op not in (Op.STORE, Op.AFTER) and any(s.op is Op.INDEX for s in node.src):
        return "the content of a location is read by a LOAD"
    if node.op is Op.STORE and node.src[1].op is Op.INDEX:
        return "the content of a location is read by a LOAD"
    return None


_STAGE_RULES: Final[dict[str, Rule]] = {"graph": _rule_graph, "ranged": _rule_graph, "lowered": _rule_lowered}


def _count(operands: str) -> tuple[int, int]:
    names = operands.split()
    low = sum(not n.endswith(("?", "*")) for n in names)
    return low, 1 << 60 if any(n.endswith("*") for n in names) else len(names)


_COUNTS: Final = {op: _count(row.operands) for op, row in TABLE.items()} | {
    # The table names the operands; these rows allow more than it can say.
    Op.IOTA: (0, 1), Op.SOURCE: (0, 0),
}  # fmt: skip


def _location(node: UOp) -> UOp:
    location = node.src[0]
    while location.op is Op.AFTER:
        location = location.src[0]
    return location


def _no_arg(node: UOp) -> str | None:
    return None if node.arg is None else f"{node.op.name} has no arg"


def _same_as_first(node: UOp) -> str | None:
    return None if node.dtype is node.src[0].dtype else f"{node.op.name} has the dtype of its first operand"


def _is_void(node: UOp) -> str | None:
    return None if node.dtype is void else f"{node.op.name} is void"


def _takes(op: Op, dtype: DType) -> str | None:
    if dtype is void:
        return f"{op.name} takes values"
    if op in FLOAT_ONLY and not dtype.is_float:
        return f"{op.name} takes floats"
    if op in INTEGER_ONLY and not dtype.is_int:
        return f"{op.name} takes integers"
    if op in NO_FLOAT and dtype.is_float:
        return f"{op.name} takes bool or integers"
    return None


def _rule_unary(node: UOp) -> str | None:
    return _no_arg(node) or _same_as_first(node) or _takes(node.op, node.dtype)


def _rule_binary(node: UOp) -> str | None:
    x, y = node.src
    if node.op in (Op.SHL, Op.SHR):
        if not y.dtype.is_int or y.dtype.lanes != x.dtype.lanes:
            return f"{node.op.name} shifts by integers, one for each lane"
    elif x.dtype is not y.dtype:
        return f"{node.op.name} has operands of one dtype"
    wrong = _takes(node.op, x.dtype)
    if wrong is not None:
        return wrong
    if node.op in COMPARISON:
        if not node.dtype.is_bool or node.dtype.lanes != x.dtype.lanes:
            return "a comparison is bool, with the lanes of its operands"
        return _no_arg(node) or _rule_shape(node)
    return _no_arg(node) or _same_as_first(node) or _rule_shape(node)


def _rule_shape(node: UOp) -> str | None:
    node.find_shape()
    return None


def _rule_where(node: UOp) -> str | None:
    condition, x, y = node.src
    if not condition.dtype.is_bool or condition.dtype.lanes != x.dtype.lanes:
        return "WHERE has a condition of bool, with the lanes of its values"
    if x.dtype is not y.dtype or node.dtype is not x.dtype:
        return "WHERE has the one dtype of its values"
    return _rule_shape(node)


def _rule_mulacc(node: UOp) -> str | None:
    return None if all(s.dtype is node.dtype for s in node.src) else "MULACC has operands of its dtype"


def _rule_cast(node: UOp) -> str | None:
    if node.dtype is void or node.src[0].dtype is void:
        return "CAST takes and gives values"
    return None if node.dtype.lanes == node.src[0].dtype.lanes else "CAST keeps the lanes"


def _rule_bitcast(node: UOp) -> str | None:
    return None if node.dtype.nbytes == node.src[0].dtype.nbytes else "BITCAST keeps the size in bytes"


def _rule_const(node: UOp) -> str | None:
    dtype = node.dtype
    if dtype.lanes > 1 or dtype is void:
        return "CONST has a scalar dtype"
    return None if _fits(dtype, node.arg) else f"a constant holds a Python value of its dtype, not {node.arg!r}"


def _fits(dtype: DType, value: object) -> bool:
    match dtype.kind:
        case "bool":
            return isinstance(value, bool)
        case "float":
            return isinstance(value, float)
        case _:
            return isinstance(value, int) and not isinstance(value, bool) and dtype.min <= value <= dtype.max


def _rule_vconst(node: UOp) -> str | None:
    values: tuple[object, ...] = node.arg
    if not isinstance(node.arg, tuple) or len(values) != node.dtype.lanes or node.dtype.lanes < 2:
        return "VCONST holds one value for each lane"
    return None if all(_fits(node.dtype.scalar, v) for v in values) else "VCONST holds values of its dtype"


def _rule_variable(node: UOp) -> str | None:
    name, low, high = node.arg
    if not isinstance(name, str) or not low <= high:
        return "DEFINE_VAR holds (name, min, max)"
    return _integer(node)


def _integer(node: UOp) -> str | None:
    return None if node.dtype.is_int and node.dtype.lanes == 1 else f"{node.op.name} is an integer"


def _rule_iota(node: UOp) -> str | None:
    is_symbolic = node.arg is None
    return _integer(node) or (None if is_symbolic == bool(node.src) else "IOTA has a size, as arg or as operand")


def _rule_check(node: UOp) -> str | None:
    arg: Any = node.arg
    if not isinstance(arg, CheckArg):
        return "CHECK holds CheckArg(operation, axis, size)"
    n_sizes = int(arg.axis is not None) - int(arg.size is not None)
    if len(node.src) - 1 != n_sizes:
        return "CHECK of positions has a size, as arg or as operand"
    return _same_as_first(node) if node.src[0].dtype.is_int else "CHECK is about integers"


def _rule_bind(node: UOp) -> str | None:
    return None if node.src[0].op is Op.DEFINE_VAR else "BIND gives a DEFINE_VAR a value"


def _rule_memory(node: UOp) -> str | None:
    expected = {Op.BUFFER: BufferArg, Op.PARAM: ParamArg}.get(node.op, tuple)
    arg: Any = node.arg
    if not isinstance(node.arg, expected) or arg[1] < 0:
        return f"{node.op.name} holds {TABLE[node.op].arg}"
    if node.dtype is void or (node.dtype.lanes > 1 and node.op is not Op.DEFINE_REG):
        return f"{node.op.name} has the dtype of its elements"
    return None


def _rule_index(node: UOp) -> str | None:
    positions = node.src[1:-1] if node.gate is not None else node.src[1:]
    base = node.src[0].dtype
    if any(not p.dtype.is_int for p in positions):
        return "the positions of an INDEX are integers"
    if node.dtype.scalar is not base.scalar or node.dtype.lanes % base.lanes:
        return "INDEX has the dtype of the elements, or lanes of it"
    lanes = node.dtype.lanes // base.lanes
    if any(p.dtype.lanes not in (1, lanes) for p in positions):
        return "a position of an INDEX has one lane, or those of the INDEX"
    if node.gate is not None and node.gate.dtype.lanes not in (1, lanes):
        return "a gate has one lane, or those of the INDEX"
    return _no_arg(node)


def _rule_load(node: UOp) -> str | None:
    if _location(node).op is not Op.INDEX and _location(node).op not in MEMORY:
        return "LOAD reads a location"
    return (
        None if all(s.dtype is node.dtype for s in node.src) else "LOAD has the dtype of its location and alternative"
    )


def _rule_store(node: UOp) -> str | None:
    if _location(node).op is not Op.INDEX and _location(node).op not in MEMORY:
        return "STORE writes a location"
    return _is_void(node) or (
        None if node.src[1].dtype is node.src[0].dtype else "STORE writes a value of the location's dtype"
    )


def _rule_reduce(node: UOp) -> str | None:
    if node.arg not in REDUCTIONS:
        return "reductions are ADD, MUL, MAX and MIN"
    if any(r.op is not Op.RANGE for r in node.src[1:]):
        return "REDUCE closes RANGEs"
    source = node.src[0].dtype
    if len(node.src) > 1:
        return None if node.dtype is source else "REDUCE over ranges has the dtype of its operand"
    if node.dtype.scalar is not source.scalar or source.lanes % node.dtype.lanes:
        return "REDUCE has its operand's scalar"
    return None


def _rule_reduce_axis(node: UOp) -> str | None:
    op, axes = node.arg
    if op not in REDUCTIONS or len(set(axes)) != len(axes) or any(not 0 <= a < len(node.src[0].shape) for a in axes):
        return "REDUCE_AXIS holds a reduction and distinct axes of its operand"
    return _same_as_first(node)


def _rule_scan_axis(node: UOp) -> str | None:
    op, axis = node.arg
    if op not in REDUCTIONS or not 0 <= axis < len(node.src[0].shape):
        return "SCAN_AXIS holds a reduction and an axis of its operand"
    return _same_as_first(node)


def _rule_scan(node: UOp) -> str | None:
    if node.arg not in REDUCTIONS or node.src[1].op is not Op.RANGE:
        return "SCAN holds a reduction and takes a RANGE"
    return _same_as_first(node)


def _rule_range(node: UOp) -> str | None:
    number, axis_type = node.arg
    if not isinstance(number, int) or not isinstance(axis_type, AxisType):
        return "RANGE holds (axis id, AxisType)"
    return _integer(node) or (None if node.src[0].dtype.is_int else "a RANGE has an integer end")


def _rule_end(node: UOp) -> str | None:
    if any(r.op is not Op.RANGE for r in node.src[1:]):
        return "END closes RANGEs"
    return _is_void(node) or (None if node.src[0].dtype is void else "END closes an effect")


def _rule_sink(node: UOp) -> str | None:
    if node.arg is not None and not isinstance(node.arg, KernelInfo):
        return "SINK holds KernelInfo or nothing"
    return _is_void(node)


def _rule_bufferize(node: UOp) -> str | None:
    arg: Any = node.arg
    if not isinstance(node.arg, BufferizeArg) or not isinstance(arg.space, AddressSpace):
        return "BUFFERIZE holds BufferizeArg(device, address space)"
    if any(r.op is not Op.RANGE and not r.dtype.is_int for r in node.src[1:]):
        return "an axis of a BUFFERIZE is a RANGE or an index"
    return _same_as_first(node)


def _rule_movement(node: UOp) -> str | None:
    source, op = node.src[0].shape, node.op
    n_symbolic = sum(a is None for a in node.arg)
    if n_symbolic != len(node.src) - 1:
        return f"{op.name} has an operand for each symbolic size"
    n_expected = {Op.PAD: 2 * len(source), Op.SHRINK: 2 * len(source), Op.RESHAPE: len(node.arg)}.get(op, len(source))
    if len(node.arg) != n_expected:
        return f"{op.name} of {len(source)} axes holds {n_expected} values"
    if op is Op.PERMUTE and sorted(node.arg) != list(range(len(source))):
        return "PERMUTE holds each axis once"
    if op is Op.EXPAND and any(
        isinstance(s, int) and a is not None and s not in (1, a) for s, a in zip(source, node.arg, strict=True)
    ):
        return "EXPAND repeats axes of size 1"
    if op is Op.RESHAPE and _count_elements(source) != _count_elements(node.shape):
        return "RESHAPE keeps the number of elements"
    if op is Op.PAD and any(a is not None and a < 0 for a in node.arg):
        return "PAD adds elements"
    if op is Op.SHRINK and not all(
        _is_inside(b, e, s) for b, e, s in zip(node.arg[::2], node.arg[1::2], source, strict=True)
    ):
        return "SHRINK stays inside of its operand"
    return _same_as_first(node)


def _count_elements(shape: tuple[int | UOp, ...]) -> int | None:
    total = 1
    for size in shape:
        if isinstance(size, UOp):
            return None
        total *= size
    return total


def _is_inside(begin: int | None, end: int | None, size: int | UOp) -> bool:
    low = 0 if begin is None else begin
    high = low if end is None else end
    return 0 <= low <= high and (isinstance(size, UOp) or high <= size)


def _rule_gather(node: UOp) -> str | None:
    if not node.src[1].dtype.is_int or not 0 <= node.arg < len(node.src[0].shape):
        return "GATHER takes integer positions along an axis of its operand"
    return _same_as_first(node)


def _rule_copy(node: UOp) -> str | None:
    return _same_as_first(node) or (None if isinstance(node.arg, str) else "COPY holds a device")


def _rule_stack(node: UOp) -> str | None:
    if not node.src or any(s.dtype is not node.dtype for s in node.src):
        return "MSTACK takes shards of its dtype"
    if any(not isinstance(s.placement, str) for s in node.src):
        return "each shard of an MSTACK is on a device"
    return _no_arg(node)


def _rule_select(node: UOp) -> str | None:
    stack, position = node.src[0], node.arg
    if stack.op is not Op.MSTACK or not isinstance(position, int) or not 0 <= position < len(stack.src):
        return "MSELECT holds a position in an MSTACK"
    return _same_as_first(node)


def _rule_multi(node: UOp) -> str | None:
    stack, axis = node.src[0], node.arg
    if stack.op is not Op.MSTACK or not (axis is None or 0 <= axis < len(stack.shape)):
        return "MULTI takes an MSTACK and holds an axis or nothing"
    shapes = [s.shape if axis is None else (*s.shape[:axis], *s.shape[axis + 1 :]) for s in stack.src]
    if any(shape != shapes[0] for shape in shapes):
        return "the shards of a MULTI differ in no size but that of its axis"
    if axis is not None and any(not isinstance(s.shape[axis], int) for s in stack.src):
        return "shards have known sizes along the axis of a MULTI"
    return _same_as_first(node)


def _rule_all_reduce(node: UOp) -> str | None:
    op, device = node.arg
    if node.src[0].op is not Op.MSTACK or op not in REDUCTIONS or not isinstance(device, str):
        return "ALLREDUCE takes an MSTACK and holds a reduction and a device"
    return _same_as_first(node)


def _rule_assign(node: UOp) -> str | None:
    target, value = node.src
    return _same_as_first(node) or (
        None if value.dtype is target.dtype else "ASSIGN writes a value of the target's dtype"
    )


def _rule_vectorize(node: UOp) -> str | None:
    wrong = any(s.dtype is not node.dtype.scalar for s in node.src) or len(node.src) != node.dtype.lanes
    return "VECTORIZE takes one scalar for each lane" if wrong else None


def _rule_broadcast(node: UOp) -> str | None:
    source = node.src[0].dtype
    fits = source.scalar is node.dtype.scalar and node.dtype.lanes % source.lanes == 0
    return None if fits else "BROADCAST repeats its operand in each lane"


def _rule_gep(node: UOp) -> str | None:
    source = node.src[0].dtype
    if any(not 0 <= lane < source.lanes for lane in node.arg) or not node.arg:
        return "GEP takes lanes of its operand"
    return None if node.dtype is source.vec(len(node.arg)) else "GEP has as many lanes as it takes"


def _rule_cat(node: UOp) -> str | None:
    fits = (
        all(s.dtype.scalar is node.dtype.scalar for s in node.src)
        and sum(s.dtype.lanes for s in node.src) == node.dtype.lanes
    )
    return None if fits else "CAT joins the lanes of its operands"


def _rule_wmma(node: UOp) -> str | None:
    if not isinstance(node.arg, TensorCore):
        return "WMMA holds a tensor core"
    expected = node.arg.operand_dtypes
    if tuple(s.dtype for s in node.src) != expected or node.dtype is not expected[2]:
        return f"WMMA takes and gives the tiles of its tensor core: {', '.join(d.short for d in expected)}"
    return None


_RULES: Final[dict[Op, Rule]] = {
    **dict.fromkeys(UNARY, _rule_unary),
    **dict.fromkeys(BINARY, _rule_binary),
    **dict.fromkeys(MOVEMENT, _rule_movement),
    **dict.fromkeys((Op.BUFFER, Op.PARAM, Op.DEFINE_LOCAL, Op.DEFINE_REG, Op.BUFFER_VIEW), _rule_memory),
    **dict.fromkeys((Op.AFTER, Op.DETACH, Op.CONTIGUOUS, Op.CONTIGUOUS_BACKWARD), _same_as_first),
    **dict.fromkeys((Op.GROUP, Op.BARRIER, Op.CALL, Op.NOOP), _is_void),
    Op.WHERE: _rule_where, Op.MULACC: _rule_mulacc, Op.CAST: _rule_cast, Op.BITCAST: _rule_bitcast, Op.CONST: _rule_const,
    Op.VCONST: _rule_vconst, Op.IOTA: _rule_iota, Op.DEFINE_VAR: _rule_variable, Op.SPECIAL: _integer, Op.BIND: _rule_bind,
    Op.INDEX: _rule_index, Op.LOAD: _rule_load, Op.STORE: _rule_store, Op.COPY: _rule_copy, Op.GATHER: _rule_gather,
    Op.MSTACK: _rule_stack, Op.MSELECT: _rule_select, Op.MULTI: _rule_multi, Op.ALLREDUCE: _rule_all_reduce,
    Op.REDUCE_AXIS: _rule_reduce_axis, Op.SCAN_AXIS: _rule_scan_axis, Op.REDUCE: _rule_reduce, Op.SCAN: _rule_scan,
    Op.RANGE: _rule_range, Op.END: _rule_end, Op.SINK: _rule_sink, Op.BUFFERIZE: _rule_bufferize, Op.ASSIGN: _rule_assign,
    Op.CHECK: _rule_check,
    Op.VECTORIZE: _rule_vectorize, Op.BROADCAST: _rule_broadcast, Op.GEP: _rule_gep, Op.CAT: _rule_cat,
    Op.WMMA: _rule_wmma,
}  # fmt: skip
