"""merge-loops: collapse neighboring loops that traverse all memory contiguously.

before → after, for two loops of one nest and every access in it:

    a[r0 * 64 + r1 * 1], r0 in [0, 8), r1 in [0, 64)        a[r], r in [0, 512)

Two neighboring loops merge if the outer stride of each access is (inner size) * (inner stride), and
both induction variables are used for addresses only."""

from __future__ import annotations

from svod_dtype import index
from svod_ir import Op, UOp, exact_trips
from svod_schedule._linear_index import find_stride
from svod_schedule._loops import replace_range

__all__ = ["merge_loops"]


def merge_loops(sink: UOp) -> UOp:
    """Collapse each loop nest of `sink` as far as its accesses allow."""
    order = sink.toposort()
    nests = [n.loops for n in order if n.op in (Op.END, Op.REDUCE) and len(n.src) > 2]
    if not nests:
        return sink
    accesses = [n for n in order if n.op is Op.INDEX]
    free = _used_outside_addresses(sink)
    for nest in nests:
        ranges = list(nest)
        i = len(ranges) - 2
        while i >= 0:
            outer, inner = ranges[i], ranges[i + 1]
            if not {outer, inner} & free and _is_one_walk(accesses, outer, inner):
                # The merged trip count is a product: a loop with a trip count of 0 stays empty.
                merged = outer.with_src((outer.stop * inner.stop,))
                sink = replace_range(
                    replace_range(sink, outer, UOp.const(index, 0), ()), inner, merged, (merged,)
                )
                accesses = [n for n in sink.toposort() if n.op is Op.INDEX]
                ranges[i : i + 2] = [merged]
            i -= 1
    return sink


def _is_one_walk(accesses: list[UOp], outer: UOp, inner: UOp) -> bool:
    if (
        outer.arg.kind is not inner.arg.kind
        or not isinstance(exact_trips(outer), int)
        or not isinstance(exact_trips(inner), int)
    ):
        return False
    for node in accesses:
        outer_stride, inner_stride = (
            find_stride(node.position, outer),
            find_stride(node.position, inner),
        )
        if (
            outer_stride is None
            or inner_stride is None
            or outer_stride != inner_stride * int(exact_trips(inner))
        ):  # pyright: ignore[reportArgumentType]
            return False
    return True


def _used_outside_addresses(sink: UOp) -> set[UOp]:
    """RANGEs that are used in a value, a condition or a gate."""
    used: set[UOp] = set()
    seen: set[UOp] = set()
    stack = [sink]
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if node.op is Op.INDEX:
            # Of an address, only nested accesses are examined; a gate, and the writes of the memory,
            # are uses of their own.
            stack.extend(s for s in node.position.toposort() if s.op is Op.INDEX)
            stack.extend((node.memory, *node.src[2:]))
            continue
        is_loop_end = node.op in (Op.END, Op.REDUCE, Op.SCAN, Op.CARRY)
        for i, operand in enumerate(node.src):
            if operand.op is Op.RANGE:
                if not (is_loop_end and i > 0) or node.op is Op.SCAN:
                    used.add(operand)
            else:
                stack.append(operand)
    return used
