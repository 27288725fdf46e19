"""TC: tiling of a product's axes for a tensor core.

before → after, for a core that multiplies 1 x 4 by 4 x 16:

    out[m * 32 + n] = REDUCE(CAST(x[m * 64 + k]) * CAST(w[k * 32 + n]), k; ADD)

    out[m * 32 + n' * 16 + c] = REDUCE(CAST(x[m * 64 + k' * 4 + j]) * CAST(w[(k' * 4 + j) * 32 + n' * 16 + c]), k', j; ADD)

where c is a TILE_N and j a TILE_K axis. The graph is equivalent to the original: only
`lower/vectors/tiles.py` makes a WMMA of the reduction. So Opts on the other axes work as for any
kernel: register tiles, threads, and PACK, which packs the operands in the core's layout.

If the core's tile does not divide an axis of results, the last tile overlaps its neighbor, or is
masked if the axis may be shorter than a tile. Reduced elements beyond the end are read as zeros.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from svod_dtype import index
from svod_ir import AxisType, FreshIds, Op, TensorCore, UOp, exact_trips, max_trips
from svod_ir.sizes import divide_size, normalize_size
from svod_ir.uop import to_node
from svod_schedule._linear_index import find_stride
from svod_schedule._loops import mask_accesses, replace_range
from svod_schedule.lower.vectors.products import find_operands, fits, get_locations

__all__ = ["Layout", "gate_operand", "get_layouts", "is_along", "take_depth", "take_tile"]


@dataclass(frozen=True, slots=True)
class Layout:
    """Layout of a product on a core. `a` and `b` are its operands: locations or integer expressions.

    `columns` is an axis of the results on which only `b` depends, `rows` one on which only `a` does
    (None where the core has one row), `depth` a reduced axis of both."""

    reduce: UOp
    a: UOp
    b: UOp
    columns: UOp
    rows: UOp | None
    depth: UOp


def get_layouts(sink: UOp, core: TensorCore) -> list[Layout] | str:
    """List the layouts of a kernel's products on `core`, the best first; return the reason if there
    is none.
    """
    layouts: list[Layout] = []
    reason = "the kernel has no reduction"
    stored = [n.location for n in sink.iter_ops(Op.STORE)]
    nests = [[r for r in end.loops if r.arg.kind is AxisType.LOOP] for end in sink.iter_ops(Op.END)]
    for reduce in sink.iter_ops(Op.REDUCE):
        operands = find_operands(reduce)
        if operands is None:
            reason = "the kernel has no sum of products of two loads"
        elif reduce.dtype is not core.dtypes[2]:
            reason = f"the products are added up in {reduce.dtype}, not in {core.dtypes[2]}"
        else:
            accepted = [(a, b) for a, b in (operands, operands[::-1]) if _accepts(core, a, b)]
            reason = (
                "no axis of the results belongs to a single operand"
                if accepted
                else _name_operands(operands, core)
            )
            for a, b in accepted:
                layouts.extend(_iter_layouts(reduce, a, b, core, nests))
    return sorted(layouts, key=lambda layout: _rank(layout, stored)) or reason


def _accepts(core: TensorCore, a: UOp, b: UOp) -> bool:
    return fits(a, core.dtypes[0]) and fits(b, core.dtypes[1])


def _name_operands(operands: tuple[UOp, UOp], core: TensorCore) -> str:
    actual, expected = (
        " and ".join(map(str, d)) for d in ([n.dtype for n in operands], core.dtypes[:2])
    )
    return f"the operands are {actual}, but the core takes {expected}"


def _iter_layouts(
    reduce: UOp, a: UOp, b: UOp, core: TensorCore, nests: list[list[UOp]]
) -> Iterator[Layout]:
    depths = [
        r for r in reduce.loops if r.arg.kind is AxisType.REDUCE and r in a.ranges and r in b.ranges
    ]
    # A dict, not a set: the order of the layouts numbers them in Opts, so it has to be the same in
    # each process.
    pairs: dict[tuple[UOp, UOp | None], None] = {}
    for nest in nests:
        results = [r for r in nest if r in reduce.ranges]
        columns = [r for r in results if r in b.ranges and r not in a.ranges]
        rows: list[UOp | None] = [r for r in results if r in a.ranges and r not in b.ranges]
        pairs.update(
            ((c, r), None) for c in columns for r in ([None] if core.dims[1] == 1 else rows)
        )
    for (column, row), depth in product(pairs, depths):
        yield Layout(reduce, a, b, column, row, depth)


def _rank(layout: Layout, stored: list[UOp]) -> tuple[bool, ...]:
    """Sort key: prefer a contiguous along the depth, results stored contiguously along the columns,
    and b contiguous along either.
    """
    return (
        not is_along(layout.a, layout.depth),
        not any(find_stride(n.position, layout.columns) == 1 for n in stored),
        not is_along(layout.b, layout.depth) and not is_along(layout.b, layout.columns),
    )


def is_along(operand: UOp, axis: UOp) -> bool:
    """Whether the elements of an operand are contiguous along `axis`."""
    return all(
        # An operand that is an expression may also read what does not vary along the axis, such as
        # a zero point.
        find_stride(n.position, axis) in ((0, 1) if operand is not n else (1,))
        for n in get_locations(operand)
    )


def take_depth(sink: UOp, layout: Layout, core: TensorCore) -> UOp:
    """Split the reduction into steps of the core's depth, padded with zeros."""
    _, _, k = core.dims
    size, depth = exact_trips(layout.depth), layout.depth
    rounds = divide_size(size, k)
    is_padded = rounds is None
    steps = normalize_size((to_node(size) + (k - 1)) // k) if rounds is None else rounds
    fresh = FreshIds(sink)
    # A core adds up `group` products in each lane, so the elements of a group are adjacent in a
    # packed operand, and have an axis of their own.
    steps_of_groups = [fresh.make_range(n, AxisType.TILE_K) for n in (k // core.group, core.group)]
    inner = [r for r in steps_of_groups if max_trips(r) > 1]
    position: UOp = UOp.const(index, 0)
    for r in inner:
        position = position * exact_trips(r) + r
    outer: list[UOp] = []
    if not (isinstance(steps, int) and steps == 1):
        outer = [fresh.make_range(steps, AxisType.REDUCE)]
        position = outer[0] * k + position
    value = layout.reduce.source.substitute({depth: position})
    if is_padded:
        inside = position < to_node(size)
        ends = [n.substitute({depth: position}) for n in (layout.a, layout.b)]
        value = value.substitute({n: gate_operand(n, inside) for n in ends})
    ranges = [n for r in layout.reduce.loops for n in ([*outer, *inner] if r is depth else [r])]
    return sink.substitute({layout.reduce: layout.reduce.with_src((value, *ranges))})


def gate_operand(operand: UOp, inside: UOp) -> UOp:
    """Return `operand` where `inside` holds, and 0 elsewhere."""
    if operand.op is not Op.INDEX:
        # Gated loads give 0, but an expression of zeros need not be 0: it may subtract a zero
        # point.
        return inside.where(
            operand.substitute({n: gate_operand(n, inside) for n in get_locations(operand)}),
            UOp.const(operand.dtype, 0),
        )
    location, gate = operand, operand.gate
    return UOp(
        Op.INDEX, location.dtype, (*location.src[:2], inside if gate is None else gate & inside)
    )


def take_tile(sink: UOp, axis: UOp, amount: int, kind: AxisType, *, is_repeatable: bool) -> UOp:
    """Tile `axis` by `amount`; the last tile overlaps its neighbor or, if results must not be
    computed twice, is masked.
    """
    size = axis.stop
    inner = FreshIds(sink).make_range(amount, kind)
    n_tiles = divide_size(exact_trips(axis), amount)
    if n_tiles is not None and n_tiles == 1:
        return replace_range(sink, axis, inner, (inner,))
    end = (size + (amount - 1)) // amount if n_tiles is None else to_node(n_tiles)
    outer = axis.with_src((end,))
    start = outer * amount
    if n_tiles is not None:
        return replace_range(sink, axis, start + inner, (outer, inner))
    if is_repeatable and int(size.vmin) >= amount:
        return replace_range(sink, axis, start.minimum(size - amount) + inner, (outer, inner))
    sink = replace_range(sink, axis, start + inner, (outer, inner))
    return mask_accesses(sink, inner, start + inner < size)
