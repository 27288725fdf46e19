"""Calls of the collectives of a mesh, as custom functions."""

from __future__ import annotations

from collections.abc import Sequence

from svod_dtype import int64
from svod_ir import Mesh, Op, SInt, UOp, make_reshape, make_shrink
from svod_ir.build import make_copy
from svod_ir.custom_function import ArraySpec, make_custom_function
from svod_ir.ops import MEMORY

__all__ = ["drop_shape", "make_call", "narrow", "order_after", "store"]


def make_call(
    mesh: Mesh,
    name: str,
    along: Sequence[int],
    output: ArraySpec,
    inputs: Sequence[UOp],
    numbers: Sequence[int],
    before: UOp | None,
) -> UOp:
    """The call of a collective along axes of the mesh.

    Args:
        mesh: the processes.
        name: the collective.
        along: the axes.
        output: shape and dtype of the result.
        inputs: values of this process.
        numbers: the number of the call in its graph, and those of the collective.
        before: the call before this one, or what depends on it.
    """
    # A function reads at least one array, so that it has a device.
    inputs = inputs or [make_reshape(UOp.const(output.dtype, 0), (1,))]
    # A value that depends on no memory has no device yet.
    read = [x if x.placement else make_copy(x, mesh.device) for x in inputs]
    arrays = [store(x) for x in (*read, *([] if before is None else [before]))]
    number, *others = numbers
    mask = sum(1 << mesh_axis for mesh_axis in along)
    scalars = [UOp.const(int64, n) for n in (number, mask, *others)]
    return make_custom_function(f"{mesh.transport}.{name}", [output], arrays, scalars)


def store(x: UOp) -> UOp:
    """`x` in memory of its own, unless it is memory."""
    return x if drop_shape(x).op in MEMORY else UOp(Op.CONTIGUOUS, x.dtype, (x,))


def drop_shape(x: UOp) -> UOp:
    """The value whose elements `x` has, perhaps under another shape."""
    while x.op is Op.RESHAPE or x.op is Op.CONTIGUOUS:
        x = x.source
    return x


def order_after(x: UOp, event: UOp) -> UOp:
    """`x`, read after `event`."""
    return x if event is x else UOp(Op.CONTROL_DEPENDENCY, x.dtype, (x, event))


def narrow(x: UOp, axis: int, begin: SInt, end: SInt) -> UOp:
    """The elements from `begin` to before `end` along an axis."""
    return make_shrink(x, [(begin, end) if a == axis else (0, s) for a, s in enumerate(x.shape)])
