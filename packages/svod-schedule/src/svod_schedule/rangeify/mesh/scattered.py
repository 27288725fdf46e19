"""Reductions over a mesh of which each process needs a part alone.

before → after, where nobody else reads the sum, and `layout` splits it along an axis of the mesh over
which it is added:

    RESHARD(REDUCE_AXIS(MULTI(x)), layout)      scatter(REDUCE_AXIS(x))

A sum for all, of which each keeps a part, would send twice as much.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from svod_ir import MeshLayout, Op, Sharding, UOp
from svod_ir.placement import lay_out

__all__ = ["list_scattered"]

_MOVES: Final = frozenset({Op.RESHAPE, Op.PERMUTE})


def list_scattered(nodes: Sequence[UOp]) -> Mapping[UOp, UOp]:
    """The REDUCE_AXIS nodes of which each process needs a part alone, by the RESHARD that splits them.

    Args:
        nodes: all nodes of the graph, the same in all processes.
    """
    reshards = [node for node in nodes if node.op is Op.RESHARD]
    if not reshards:
        return {}
    readers = Counter(operand for node in nodes for operand in node.src)
    found: dict[UOp, UOp] = {}
    for reshard in reshards:
        source = reshard.source
        # Elements of the sum may change places before they are split.
        while source.op in _MOVES and readers[source] == 1:
            source = source.source
        is_read_once = source.op is Op.REDUCE_AXIS and readers[source] == 1
        if is_read_once and _is_split_alone(source, reshard):
            found[reshard] = source
    return found


def _is_split_alone(reduction: UOp, reshard: UOp) -> bool:
    """Whether the axes of the mesh that are reduced are the only ones that are split afterwards."""
    have, own = reshard.source.placement, lay_out(reduction).operands[0]
    want: MeshLayout = reshard.arg
    if not isinstance(have, Sharding) or own is None:
        return False
    if have.layout is None or own.layout is None or 0 in reshard.shape:
        return False
    _, axes = reduction.arg
    sizes = want.mesh.sizes
    reduced = {m for m, axis in enumerate(own.layout.axes) if axis in axes and sizes[m] > 1}
    before = zip(have.layout.axes, have.layout.sizes, strict=True)
    after = zip(want.axes, want.sizes, strict=True)
    changed = {m for m, (b, a) in enumerate(zip(before, after, strict=True)) if b != a}
    return (
        len(reduced) == 1
        and reduced == changed
        and all(want.axes[m] is not None and want.axes.count(want.axes[m]) == 1 for m in reduced)
    )
