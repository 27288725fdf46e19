"""The rules of ops on whole tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from svod_dtype import float32
from svod_ir._sharding import MeshLayout, Sharding
from svod_ir.loops import count_results, get_bodies
from svod_ir.ops import MARKS, MOVEMENT, REDUCTIONS, Op
from svod_ir.spec.common import Rule, check_integer, check_no_arg, check_same_as_first, check_void
from svod_ir.uop import SInt, UOp

__all__ = ["TENSOR_RULES"]


def _rule_iota(node: UOp) -> str | None:
    is_symbolic = node.arg is None
    return check_integer(node) or (
        None if is_symbolic == bool(node.src) else "IOTA has a size, as arg or as operand"
    )


def _rule_check(node: UOp) -> str | None:
    n_sizes = int(node.arg.axis is not None) - int(node.arg.size is not None)
    if len(node.src) - 1 != n_sizes:
        return "CHECK of indices has a size, as arg or as operand"
    return check_same_as_first(node) if node.source.dtype.is_int else "CHECK takes integers"


def _rule_reduce_axis(node: UOp) -> str | None:
    op, axes = node.arg
    if (
        op not in REDUCTIONS
        or len(set(axes)) != len(axes)
        or any(not 0 <= a < len(node.source.shape) for a in axes)
    ):
        return "REDUCE_AXIS holds a reduction and distinct axes of its operand"
    return check_same_as_first(node)


def _rule_scan_axis(node: UOp) -> str | None:
    op, axis = node.arg
    if op not in REDUCTIONS or not 0 <= axis < len(node.source.shape):
        return "SCAN_AXIS holds a reduction and an axis of its operand"
    return check_same_as_first(node)


def _rule_movement(node: UOp) -> str | None:
    source, op = node.source.shape, node.op
    n_symbolic = sum(a is None for a in node.arg)
    if n_symbolic != len(node.src) - 1:
        return f"{op.name} has an operand for each symbolic size"
    n_expected = {
        Op.PAD: 2 * len(source),
        Op.SHRINK: 2 * len(source),
        Op.RESHAPE: len(node.arg),
    }.get(op, len(source))
    if len(node.arg) != n_expected:
        return f"{op.name} of {len(source)} axes holds {n_expected} values"
    if op is Op.PERMUTE and sorted(node.arg) != list(range(len(source))):
        return "PERMUTE holds each axis once"
    if op is Op.EXPAND and any(
        isinstance(s, int) and a is not None and s not in (1, a)
        for s, a in zip(source, node.arg, strict=True)
    ):
        return "EXPAND repeats axes of size 1"
    if op is Op.RESHAPE and _count_elements(source) != _count_elements(node.shape):
        return "RESHAPE keeps the number of elements"
    if op is Op.PAD and any(a is not None and a < 0 for a in node.arg):
        return "PAD adds elements"
    if op is Op.SHRINK and not all(
        _is_inside(b, e, s) for b, e, s in zip(node.arg[::2], node.arg[1::2], source, strict=True)
    ):
        return "SHRINK is within the bounds of its operand"
    return check_same_as_first(node)


def _count_elements(shape: tuple[int | UOp, ...]) -> int | None:
    total = 1
    for size in shape:
        # Symbolic sizes are compared where the node is built, in normal form.
        if isinstance(size, UOp):
            return None
        total *= size
    return total


def _is_inside(begin: int | None, end: int | None, size: int | UOp) -> bool:
    low = 0 if begin is None else begin
    high = low if end is None else end
    return 0 <= low <= high and (isinstance(size, UOp) or high <= size)


def _rule_gather(node: UOp) -> str | None:
    if not node.position.dtype.is_int or not 0 <= node.arg < len(node.source.shape):
        return "GATHER takes integer indices along an axis of its operand"
    return check_same_as_first(node)


def _rule_scatter(node: UOp) -> str | None:
    value, indices, base = node.src
    axis, op = node.arg
    if not indices.dtype.is_int or not 0 <= axis < len(base.shape):
        return "SCATTER takes integer indices along an axis of its base"
    if op not in (Op.ADD, None):
        return "SCATTER adds rows or replaces them"
    if op is Op.ADD and node.dtype.is_float and node.dtype.itemsize < float32.itemsize:
        # Narrow sums would stop growing; `make_scatter` casts.
        return "SCATTER sums floats of 32 bits or more"
    if value.dtype is not base.dtype or value.shape != (
        *base.shape[:axis],
        *indices.shape,
        *base.shape[axis + 1 :],
    ):
        return "SCATTER takes rows of its base's dtype, in the shape of its base at the indices"
    return check_same_as_first(node)


def _rule_copy(node: UOp) -> str | None:
    return check_same_as_first(node) or (
        None if isinstance(node.arg, str) else "COPY holds a device"
    )


def _rule_stack(node: UOp) -> str | None:
    if not node.src or any(s.dtype is not node.dtype for s in node.src):
        return "MSTACK takes shards of its dtype"
    if any(not isinstance(s.placement, str) for s in node.src):
        return "each shard of an MSTACK is on a device"
    return check_no_arg(node)


def _rule_select(node: UOp) -> str | None:
    placement, index = node.source.placement, node.arg
    if not isinstance(placement, Sharding) or index not in range(len(placement.devices)):
        return "MSELECT holds the index of a shard of a sharded value"
    return check_same_as_first(node)


def _rule_multi(node: UOp) -> str | None:
    stack, axis = node.source, node.arg
    if isinstance(axis, MeshLayout):
        return _find_layout_fault(node, axis)
    if stack.op is not Op.MSTACK or not (axis is None or 0 <= axis < len(stack.shape)):
        return "MULTI takes an MSTACK and holds an axis or None"
    shapes = [
        s.shape if axis is None else (*s.shape[:axis], *s.shape[axis + 1 :]) for s in stack.src
    ]
    if any(shape != shapes[0] for shape in shapes):
        return "the shards of a MULTI have equal sizes except along its axis"
    # The bounds of each shard must be known when transfers are planned.
    if axis is not None and any(not isinstance(s.shape[axis], int) for s in stack.src):
        return "shards have known sizes along the axis of a MULTI"
    return check_same_as_first(node)


def _rule_reshard(node: UOp) -> str | None:
    return check_same_as_first(node) or _find_sizes_fault(node.source.shape, node.arg)


def _find_layout_fault(node: UOp, layout: MeshLayout) -> str | None:
    if node.source.op is not Op.MSTACK or len(node.source.src) != 1:
        return "a MULTI over a mesh takes an MSTACK of the shard of this process"
    shape = node.source.shape
    for axis, sizes, index in zip(layout.axes, layout.sizes, layout.mesh.position, strict=True):
        if axis is not None and (axis >= len(shape) or shape[axis] != sizes[index]):
            return "the shard of a MULTI has the size that its layout states for this process"
    return check_same_as_first(node)


def _find_sizes_fault(shape: Sequence[SInt], layout: MeshLayout) -> str | None:
    split = [a for a in layout.axes if a is not None]
    if len(set(split)) < len(split):
        return "each axis of a tensor is split along one axis of a mesh"
    for axis, sizes in zip(layout.axes, layout.sizes, strict=True):
        if axis is not None and (axis >= len(shape) or sum(sizes) != shape[axis]):
            return "the parts of a RESHARD make up the axis that they split"
    return None


def _rule_all_reduce(node: UOp) -> str | None:
    op, device = node.arg
    if node.source.op is not Op.MSTACK or op not in REDUCTIONS or not isinstance(device, str):
        return "ALLREDUCE takes an MSTACK and holds a reduction and a device"
    return check_same_as_first(node)


def _rule_assign(node: UOp) -> str | None:
    target, value = node.src
    return check_same_as_first(node) or (
        None if value.dtype is target.dtype else "ASSIGN writes a value of the target's dtype"
    )


def _rule_bodies(node: UOp) -> str | None:
    if not all(body.op is Op.SINK for body in get_bodies(node)):
        return f"the body of a {node.op.name} is a SINK"
    return check_void(node)


def _rule_result(node: UOp) -> str | None:
    if node.source.op not in (Op.LOOP, Op.SWITCH) or not isinstance(node.arg, int):
        return "RESULT holds an index and takes a LOOP or SWITCH"
    if not 0 <= node.arg < count_results(node.source):
        return f"the index of a RESULT is below {count_results(node.source)}, the number of results"
    value = get_bodies(node.source)[0].src[node.arg]
    return None if node.dtype is value.dtype else "RESULT has the dtype of the value in the body"


TENSOR_RULES: Final[dict[Op, Rule]] = {
    **dict.fromkeys(MOVEMENT, _rule_movement),
    **dict.fromkeys((Op.CONTIGUOUS, Op.CONTROL_DEPENDENCY, *MARKS), check_same_as_first),
    Op.IOTA: _rule_iota,
    Op.CHECK: _rule_check,
    Op.COPY: _rule_copy,
    Op.GATHER: _rule_gather,
    Op.MSTACK: _rule_stack,
    Op.MSELECT: _rule_select,
    Op.MULTI: _rule_multi,
    Op.RESHARD: _rule_reshard,
    Op.ALLREDUCE: _rule_all_reduce,
    Op.REDUCE_AXIS: _rule_reduce_axis,
    Op.SCATTER: _rule_scatter,
    Op.SCAN_AXIS: _rule_scan_axis,
    Op.ASSIGN: _rule_assign,
    Op.LOOP: _rule_bodies,
    Op.SWITCH: _rule_bodies,
    Op.RESULT: _rule_result,
}
