"""Matching of products for a tensor core: sums of products of two loads, in the dtypes of the core's
operands.
"""

from __future__ import annotations

from svod_dtype import DType
from svod_ir import AxisType, Op, TensorCore, UOp, max_trips
from svod_ir.ops import ELEMENTWISE
from svod_schedule._narrow_floats import decode

__all__ = ["TILED", "find_core", "find_operands", "fits", "get_locations", "is_tiled", "tile_axes"]

TILED = (AxisType.TILE_N, AxisType.TILE_M, AxisType.TILE_K)


def find_operands(reduce: UOp) -> tuple[UOp, UOp] | None:
    """Find the two operands whose products `reduce` adds up.

    Each is a location whose elements may be widened exactly, or an integer expression of such
    locations."""
    value = reduce.source
    if reduce.arg is not Op.ADD or value.op is not Op.MUL or not reduce.loops:
        return None
    x, y = (_find_operand(s) for s in value.src)
    return None if x is None or y is None else (x, y)


def _find_operand(value: UOp) -> UOp | None:
    source = value
    # An exact cast changes no product, so the core may do the widening. A rounded one has to happen
    # first.
    while source.op is Op.CAST and _is_exact(source.source.dtype, source.dtype):
        source = source.source
    if source.op is Op.INDEX:
        return source
    if value.dtype.kind in ("int", "uint"):
        return value if _is_expression(value) else None
    # An emulated dtype is decoded to float32 by integer operations.
    source = value.strip((Op.BITCAST, Op.SHL, Op.CAST))
    return (
        source
        if source.op is Op.INDEX and source.dtype.is_float and decode(source) is value
        else None
    )


def _is_expression(value: UOp) -> bool:
    locations = get_locations(value)
    inside = value.toposort(stop=set(locations))
    return bool(locations) and all(
        n.op in ELEMENTWISE or n.op in (Op.CONST, Op.RANGE, Op.DEFINE_VAR) or n in locations
        for n in inside
    )


def get_locations(operand: UOp) -> list[UOp]:
    """List the locations that an operand reads, without the locations inside their indices."""
    # A dict, since the order of the operands' loads must not depend on addresses of nodes.
    locations: dict[UOp, None] = {}
    stack, seen = [operand], set[UOp]()
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if node.op is Op.INDEX:
            locations[node] = None
        else:
            stack.extend(node.src)
    return list(locations)


def _is_exact(narrow: DType, wide: DType) -> bool:
    if narrow.is_float and wide.is_float:
        return (
            narrow.mantissa_bits <= wide.mantissa_bits
            and narrow.exponent_bits <= wide.exponent_bits
        )
    return narrow is wide or _is_wider(narrow, wide)


def fits(operand: UOp, dtype: DType) -> bool:
    """Whether a core that takes `dtype` accepts an operand: integers may be widened, and integer
    expressions must have suitable bounds.
    """
    if operand.op is Op.INDEX:
        return operand.dtype is dtype or _is_wider(operand.dtype, dtype)
    return dtype.kind in ("int", "uint") and dtype.min <= operand.vmin and operand.vmax <= dtype.max


def _is_wider(narrow: DType, wide: DType) -> bool:
    is_integer = narrow.kind in ("int", "uint") and wide.kind in ("int", "uint")
    return is_integer and wide.min <= narrow.min and narrow.max <= wide.max


def tile_axes(node: UOp, kind: AxisType) -> list[UOp]:
    """Return the axes of a tensor core's tile that `node` depends on, from outer to inner."""
    return sorted((r for r in node.ranges if r.arg.kind is kind), key=lambda r: r.arg.id)


def is_tiled(reduce: UOp) -> bool:
    """Whether a REDUCE is computed by a tensor core."""
    return any(r.arg.kind is AxisType.TILE_K for r in reduce.loops)


def find_core(reduce: UOp, cores: tuple[TensorCore, ...]) -> tuple[TensorCore, UOp, UOp] | None:
    """Find the core whose tile a REDUCE has, and the operands a and b."""
    operands = find_operands(reduce) if is_tiled(reduce) else None
    if operands is None:
        return None
    # The factors of a product commute: b is the one with columns.
    a, b = sorted(operands, key=lambda n: bool(tile_axes(n, AxisType.TILE_N)))
    k = max_trips(*(r for r in reduce.loops if r.arg.kind is AxisType.TILE_K))
    n, m = (
        max_trips(*tile_axes(x, kind)) for x, kind in ((b, AxisType.TILE_N), (a, AxisType.TILE_M))
    )
    # Dimensions and dtypes identify the core, which TC chose: the graph itself names none.
    for core in cores:
        dtypes = core.dtypes
        if (
            core.dims == (n, m, k)
            and dtypes[2] is reduce.dtype
            and fits(a, dtypes[0])
            and fits(b, dtypes[1])
        ):
            return core, a, b
    return None
