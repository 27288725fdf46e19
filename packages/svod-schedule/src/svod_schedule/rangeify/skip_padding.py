"""skip-padding: a sum of products with windows of a padded operand chooses those that are not with
padding.

before → after, for a convolution of images with a row of zeros above and below them:

    w = GATHER (GATHER (PAD x))         i = the same of PAD True
    REDUCE_AXIS (MUL (w, filters))      REDUCE_AXIS (WHERE (i, MUL (w, filters), 0))

`narrow-sums` makes bounds of loops of the choice: of 3 x 3 filters on 4 x 4 images, each sixth
product is left out. The last axis that is padded is not looked at, since its results are computed
side by side, in one instruction with others. Where what is multiplied with padding is infinite or
NaN, its products are left out as well: no convolution asks for them."""

from __future__ import annotations

from collections.abc import Callable

from svod_dtype import bool_, float32, float64
from svod_ir import Op, UOp, make_expand, make_pad, make_reshape
from svod_ir.origins import make_images
from svod_schedule.rangeify.analysis.contraction import count_rows

__all__ = ["skip_padding"]

MIN_ROWS = 16
"""Products in which an element is used fewer times than this are bound by memory."""

MIN_PADDING = 0.1
"""The part of an axis that has to be padding: below it, loops of known length save as much (32 rows
and 2 of zeros: nothing).
"""

_MOVED = frozenset({Op.EXPAND, Op.RESHAPE, Op.PERMUTE, Op.SHRINK, Op.FLIP, Op.GATHER})


def skip_padding(sink: UOp, device: str, has_serial_loops: Callable[[str], bool]) -> UOp:
    """`sink` with such choices where a thread has loops of its own; what has no device runs on
    `device`.
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
            new = _choose_products(new)
        done[node] = new
    return done[sink]


def _choose_products(node: UOp) -> UOp:
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
    """Whether an operand is of narrow elements: a tensor core takes these, and products alone."""
    node = operand
    while node.op in _MOVED or node.op in (Op.PAD, Op.CONTIGUOUS):
        node = node.source
    return node.op is Op.CAST and node.source.dtype.itemsize < node.dtype.itemsize


def _find_inside(operand: UOp) -> UOp | None:
    """Which elements of an operand are not padding that windows see; None where none are, or that
    is not asked.
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
    """Where a PAD has elements of its source, along axes but the last that it pads; None without
    such an axis.
    """
    shape, sizes = pad.shape, pad.sizes
    if not all(isinstance(s, int) for s in (*shape, *sizes)):
        return None
    bounds = list(zip(sizes[::2], sizes[1::2], strict=True))
    padded = [axis for axis, (before, after) in enumerate(bounds) if before != 0 or after != 0]
    seen = _list_seen(windows, len(shape))
    asked = [
        axis
        for axis in padded[:-1]
        if axis in seen and sum(bounds[axis]) >= MIN_PADDING * shape[axis]
    ]  # pyright: ignore[reportOperatorIssue]
    if not asked:
        return None
    kept = [bound if axis in asked else (0, 0) for axis, bound in enumerate(bounds)]
    source = [size - before - after for size, (before, after) in zip(shape, kept, strict=True)]  # pyright: ignore[reportOperatorIssue]
    one = make_reshape(UOp.const(bool_, True), (1,) * len(source))
    return make_pad(make_expand(one, source), kept)


def _list_seen(windows: list[UOp], n_axes: int) -> set[int]:
    """The axes that are looked at in windows of several elements, by their places below all of the
    GATHERs.
    """
    places: list[int] = list(range(n_axes))
    seen: set[int] = set()
    for node in reversed(windows):
        axis: int = node.arg
        shape = node.position.shape
        if len(shape) == 2 and all(size != 1 for size in shape):
            seen.add(places[axis])
        places[axis : axis + 1] = [-1] * len(shape)
    return seen
