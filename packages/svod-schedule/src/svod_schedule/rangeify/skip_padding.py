"""skip-padding: mask the products with padding in a convolution.

before → after, for a convolution of images with a row of zeros above and below them:

    w = GATHER (GATHER (PAD x))         i = GATHER (GATHER (PAD True))
    REDUCE_AXIS (MUL (w, filters))      REDUCE_AXIS (WHERE (i, MUL (w, filters), 0))

`narrow-sums` turns the mask into loop bounds: for 3 x 3 filters on 4 x 4 images, a sixth of the
products is left out. The last padded axis is not masked, since its results are lanes of one vector.
The mask also drops products of padding with infinities and NaN, which would be NaN: a convolution
does not include its padding."""

from __future__ import annotations

from collections.abc import Callable

from svod_dtype import bool_, float32, float64
from svod_ir import Op, UOp, make_expand, make_pad, make_reshape
from svod_ir.origins import make_images
from svod_schedule.rangeify.analysis.contraction import count_rows

__all__ = ["skip_padding"]

MIN_ROWS = 16
"""Products in which an element is used fewer times than this are memory-bound."""

MIN_PADDING = 0.1
"""Minimum fraction of an axis that is padding. Below it, loops of constant trip count are as fast:
for 32 rows and 2 of zeros, the mask saves nothing.
"""

_MOVED = frozenset({Op.EXPAND, Op.RESHAPE, Op.PERMUTE, Op.SHRINK, Op.FLIP, Op.GATHER})


def skip_padding(sink: UOp, device: str, has_serial_loops: Callable[[str], bool]) -> UOp:
    """Mask products with padding in `sink`, on devices whose threads run loops serially.

    Args:
        device: the device of nodes without one.
        has_serial_loops: whether a thread of a device runs serial loops of its own.
    """
    order = sink.toposort()
    if not any(node.op is Op.PAD for node in order):
        return sink
    done = make_images()
    for node in order:
        new = node.with_images(done)
        if (
            node.op is Op.REDUCE_AXIS
            and isinstance(where := new.device or device, str)
            and has_serial_loops(where)
        ):
            new = _mask_products(new)
        done[node] = new
    return done[sink]


def _mask_products(node: UOp) -> UOp:
    product = node.source
    if (
        node.arg.op is not Op.ADD
        or product.op is not Op.MUL
        or product.dtype not in (float32, float64)
    ):
        return node
    if count_rows(node) < MIN_ROWS or any(map(_is_widened, product.src)):
        return node
    for operand in product.src:
        inside = _find_inside(operand)
        if inside is not None:
            return node.with_src(
                (UOp(Op.WHERE, product.dtype, (inside, product, UOp.const(product.dtype, 0.0))),)
            )
    return node


def _is_widened(operand: UOp) -> bool:
    """Whether an operand is cast from a narrower dtype: a tensor core would multiply it, and takes
    no masked products.
    """
    node = operand
    while node.op in _MOVED or node.op in (Op.PAD, Op.CONTIGUOUS):
        node = node.source
    return node.op is Op.CAST and node.source.dtype.itemsize < node.dtype.itemsize


def _find_inside(operand: UOp) -> UOp | None:
    """Return the mask of the elements of an operand that are not padding; None if the operand is
    not made of windows of a PAD, or masking it does not pay.
    """
    moves: list[UOp] = []
    windows: list[UOp] = []
    node = operand
    while node.op in _MOVED:
        moves.append(node)
        if node.op is Op.GATHER:
            windows.append(node)
        elif windows:
            return None
        node = node.source
    pad = node.source if node.op is Op.CONTIGUOUS else node
    if pad.op is not Op.PAD or not windows:
        return None
    mask = _make_mask(pad, windows)
    if mask is None:
        return None
    for move in reversed(moves):
        mask = UOp(move.op, bool_, (mask, *move.src[1:]), move.arg)
    return mask


def _make_mask(pad: UOp, windows: list[UOp]) -> UOp | None:
    """Return the mask of the elements that a PAD takes from its source, along the padded axes
    except the last; None if no such axis is worth masking.
    """
    shape, sizes = pad.shape, pad.sizes
    if not all(isinstance(s, int) for s in (*shape, *sizes)):
        return None
    bounds = list(zip(sizes[::2], sizes[1::2], strict=True))
    padded = [axis for axis, (before, after) in enumerate(bounds) if before != 0 or after != 0]
    windowed = _list_windowed_axes(windows, len(shape))
    masked = [
        axis
        for axis in padded[:-1]
        if axis in windowed and sum(bounds[axis]) >= MIN_PADDING * shape[axis]
    ]  # pyright: ignore[reportOperatorIssue]
    if not masked:
        return None
    kept = [bound if axis in masked else (0, 0) for axis, bound in enumerate(bounds)]
    source = [size - before - after for size, (before, after) in zip(shape, kept, strict=True)]  # pyright: ignore[reportOperatorIssue]
    true = make_reshape(UOp.const(bool_, True), (1,) * len(source))
    return make_pad(make_expand(true, source), kept)


def _list_windowed_axes(windows: list[UOp], n_axes: int) -> set[int]:
    """Return the axes, of the source of all GATHERs, that are read in windows of several elements."""
    # The axis of the source for each axis of a GATHER; -1 for the axes of windows.
    source_axes: list[int] = list(range(n_axes))
    windowed: set[int] = set()
    for node in reversed(windows):
        axis: int = node.arg
        shape = node.position.shape
        if len(shape) == 2 and all(size != 1 for size in shape):
            windowed.add(source_axes[axis])
        source_axes[axis : axis + 1] = [-1] * len(shape)
    return windowed
