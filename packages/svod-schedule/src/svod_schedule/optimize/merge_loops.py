"""merge-loops: collapse neighboring loops that traverse all memory contiguously.

before → after, for two loops of one nest and every access in it:

    a[r0 * 64 + r1 * 1], r0 in [0, 8), r1 in [0, 64)        a[r], r in [0, 512)

Two neighboring loops merge if the outer stride of each access is (inner size) * (inner stride), and
both induction variables are used for addresses only. Conditions on the outer one may compare it with
a constant, as parts of a concatenation do: `r0 < 3` is `r < 3 * 64`. A vector may then need both
branches, so the inner loop must be shorter than a vector."""

from __future__ import annotations

from svod_dtype import index
from svod_ir import Op, Target, UOp, exact_trips, max_trips
from svod_schedule._linear_index import find_stride
from svod_schedule._loops import replace_range

__all__ = ["find_comparison", "merge_loops"]


def merge_loops(sink: UOp, target: Target) -> UOp:
    """Collapse each loop nest of `sink` as far as its accesses allow."""
    order = sink.toposort()
    nests = [n.loops for n in order if n.op in (Op.END, Op.REDUCE) and len(n.src) > 2]
    if not nests:
        return sink
    accesses = [n for n in order if n.op is Op.INDEX]
    lanes = min((target.lanes(n.dtype) for n in accesses), default=1)
    free, compared = _used_outside_addresses(sink)
    for nest in nests:
        ranges = list(nest)
        i = len(ranges) - 2
        while i >= 0:
            outer, inner = ranges[i], ranges[i + 1]
            comparisons = compared.get(outer, [])
            if (
                not {outer, inner} & free
                and inner not in compared
                and not (comparisons and not _is_part_of_vector(inner, lanes))
                and _is_one_walk(accesses, outer, inner)
            ):
                sink = sink.substitute({c: _scale(c, outer, inner) for c in comparisons})
                # The merged trip count is a product: a loop with a trip count of 0 stays empty.
                merged = outer.with_src((outer.stop * inner.stop,))
                sink = replace_range(
                    replace_range(sink, outer, UOp.const(index, 0), ()), inner, merged, (merged,)
                )
                accesses = [n for n in sink.toposort() if n.op is Op.INDEX]
                if comparisons:
                    compared[merged] = comparisons
                ranges[i : i + 2] = [merged]
            i -= 1
    return sink


def _is_part_of_vector(r: UOp, lanes: int) -> bool:
    """Whether the iterations of a loop fill neither whole vectors nor a half of one.

    Of concatenations and paddings along the outer loop (`benchmarks/movement.py`), those with rows of 3
    to 33 elements, no power of two, were 1.2 to 19 times faster with merged loops, with rows of 16
    bytes 1.2 times; those of whole vectors took up to four times as long.
    """
    size = max_trips(r)
    return 4 * size <= lanes or (size < lanes and size & (size - 1) != 0)


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


def _scale(comparison: UOp, outer: UOp, inner: UOp) -> UOp:
    """A comparison of `outer` with a constant as a comparison of the elements that both loops pass."""
    left, right = map(_drop_cast, comparison.src)
    size = inner.stop
    walked = outer * size + inner
    if left is outer:
        return walked < _as_index(right) * size
    # c < r0 holds from the first element of r0 = c + 1 on.
    return _as_index(left) * size + (size - 1) < walked


def _find_compared(node: UOp) -> UOp | None:
    """The RANGE that a node compares with a constant."""
    if node.op is not Op.LT:
        return None
    left, right = map(_drop_cast, node.src)
    if left.op is Op.RANGE and right.op is Op.CONST:
        return left
    return right if right.op is Op.RANGE and left.op is Op.CONST else None


def find_comparison(node: UOp) -> tuple[UOp, tuple[int, ...]] | None:
    """The RANGE that a node compares with a constant, and its values from which on the result may
    differ from the result before.
    """
    if node.op is Op.NE or node.op is Op.EQ:
        left, right = map(_drop_cast, node.src)
        loop, constant = (left, right) if left.op is Op.RANGE else (right, left)
        if loop.op is not Op.RANGE or constant.op is not Op.CONST:
            return None
        return loop, (int(constant.arg), int(constant.arg) + 1)
    loop = _find_compared(node)
    if loop is None:
        return None
    left, right = map(_drop_cast, node.src)
    return loop, ((int(right.arg),) if left is loop else (int(left.arg) + 1,))


def _drop_cast(node: UOp) -> UOp:
    """The RANGE of which a node is a cast, where that keeps each of its values: an integer that is
    narrower may wrap, and a float is compared with fractions.
    """
    if node.op is not Op.CAST or node.source.op is not Op.RANGE:
        return node
    r, dtype = node.source, node.dtype
    is_exact = dtype.is_int and max_trips(r) - 1 <= dtype.max
    return r if is_exact else node


def _as_index(constant: UOp) -> UOp:
    return UOp.const(index, int(constant.arg))


def _used_outside_addresses(sink: UOp) -> tuple[set[UOp], dict[UOp, list[UOp]]]:
    """RANGEs that are used in a value, a condition or a gate; apart from these, the comparisons of
    each RANGE with constants.
    """
    used: set[UOp] = set()
    compared: dict[UOp, list[UOp]] = {}
    seen: set[UOp] = set()
    stack = [sink]
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if (outer := _find_compared(node)) is not None:
            compared.setdefault(outer, []).append(node)
            continue
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
    return used, compared
