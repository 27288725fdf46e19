"""gather-sums: replace a SCATTER of sums with affine indices by a reduction, in which each element
of the result gathers its terms.

before → after, for overlapping windows of three elements, scattered[o, k] = o + k:

    SCATTER(value, scattered, 0; ADD)   REDUCE_AXIS(GATHER(RESHAPE(value, (-1,)), gathered), (1,)), with
                                        gathered[x, k] = (x - k) * 3 + k, out of bounds where no window begins at x - k

A SCATTER runs sequentially. As a reduction, the windows of a pooling or a convolution run in
parallel, and elementwise readers of the sums fuse into the same kernel.

Indices are affine if they are `offset + o * stride + k * dilation`, for one axis or two; contiguous
axes are merged first. Windows longer than their stride are split into pieces of one stride; each
element of the result adds one piece of each window that covers it. A SCATTER whose indices are in
memory, or are not affine, stays. If it has only one index, it becomes a WHERE, which compares
that index with the index of each element."""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from svod_dtype import index, int64
from svod_ir import (
    AxisType,
    Op,
    UOp,
    is_zero,
    make_alu,
    make_broadcasted_iota,
    make_cast,
    make_expand,
    make_flip,
    make_gather,
    make_pad,
    make_permute,
    make_reduce_axis,
    make_reshape,
    make_shrink,
)
from svod_ir.ops import ELEMENTWISE, MARKS, MOVEMENT
from svod_ir.origins import make_images
from svod_ir.polynomial import ONE
from svod_schedule.rangeify.analysis.coordinates import Coordinates
from svod_schedule.rangeify.analysis.kernel_loops import KernelLoops
from svod_schedule.rangeify.analysis.readers import count_readers
from svod_schedule.rangeify.analysis.stored_nodes import Storage
from svod_schedule.rangeify.expressions.pull_values import Puller
from svod_schedule.symbolic import simplify
from svod_schedule.symbolic.terms import to_terms

__all__ = ["gather_sums"]

MAX_NODES = 64
"""Maximum number of nodes in an index expression that is analyzed. Windows need about ten."""

MAX_EXCESS = 4
"""Maximum number of terms that the reduction visits for each input and output element. Between
windows that are far apart, most of the visited terms are zeros."""

_KNOWN = ELEMENTWISE | MOVEMENT | MARKS | {Op.CONST, Op.IOTA, Op.CHECK, Op.CONTIGUOUS}


class _Steps(NamedTuple):
    """An axis of affine indices: the step between consecutive indices, and their number."""

    step: int
    size: int


class _Overlap(NamedTuple):
    """A split of overlapping windows into `n_pieces` pieces of `piece` elements, whose starts are
    `distance` strides apart.
    """

    n_pieces: int
    piece: int
    distance: int

    def count_strides(self, n_windows: int) -> int:
        """Number of strides that all windows span together."""
        return n_windows + (self.n_pieces - 1) * self.distance

    def count_terms(self, n_windows: int) -> int:
        """Total number of terms of all results."""
        return self.count_strides(n_windows) * self.n_pieces * self.piece


class _Terms(NamedTuple):
    """The terms of a sum: `value`, which is reduced along its last `n_summed` axes."""

    value: UOp
    n_summed: int


def gather_sums(sink: UOp) -> UOp:
    """Replace each SCATTER of sums with affine indices in `sink` by a reduction."""
    order = sink.toposort()
    if not any(map(_is_sum, order)):
        return sink
    n_readers = count_readers(order)
    done = make_images()
    terms_of: dict[UOp, _Terms] = {}
    for node in order:
        new = node.with_images(done)
        if node.op is Op.SHRINK or _is_sum(node):
            # Nested sums, as of the windows of an image along both of its axes, become one
            # reduction, also through a slice of the inner sum.
            inner = terms_of.get(node.source) if n_readers[node.source] == 1 else None
            terms = _cut_terms(new, inner) if node.op is Op.SHRINK else _find_terms(new, inner)
            if terms is not None:
                terms_of[node], new = terms, _reduce_terms(terms)
            elif node.op is Op.SCATTER and set(node.position.shape) <= {1}:
                new = _select_index(new)
        done[node] = new
    return done[sink]


def _is_sum(node: UOp) -> bool:
    return node.op is Op.SCATTER and node.arg.op is Op.ADD and is_zero(node.base)


def _reduce_terms(terms: _Terms) -> UOp:
    shape = terms.value.shape
    n_kept = len(shape) - terms.n_summed
    return make_reshape(
        make_reduce_axis(terms.value, Op.ADD, range(n_kept, len(shape))), shape[:n_kept]
    )


def _select_index(node: UOp) -> UOp:
    """Write a sum with one index as a WHERE: its value at that index, zeros elsewhere."""
    axis: int = node.arg.axis
    n_axes, shape = len(node.position.shape), node.shape
    position = make_expand(make_reshape(make_cast(node.position, int64), [1] * len(shape)), shape)
    indices = make_broadcasted_iota(shape, axis, int64)
    value = make_expand(make_reshape(node.source, _replaced(node.source, axis, n_axes, 1)), shape)
    return make_alu(Op.WHERE, make_alu(Op.EQ, indices, position), value, UOp.const(node.dtype, 0))


def _cut_terms(shrink: UOp, inner: _Terms | None) -> _Terms | None:
    if inner is None:
        return None
    bounds = [*zip(shrink.sizes[::2], shrink.sizes[1::2], strict=True)]
    summed = inner.value.shape[len(bounds) :]
    return inner._replace(
        value=make_shrink(inner.value, [*bounds, *((0, size) for size in summed)])
    )


def _find_terms(node: UOp, inner: _Terms | None) -> _Terms | None:
    """Return the terms of a SCATTER that adds to zeros, or None if it stays.

    Args:
        inner: the terms of its value, if that is a sum that only the SCATTER reads.
    """
    axis = int(node.arg.axis)
    size = node.shape[axis]
    sizes = node.source.shape[axis : axis + len(node.position.shape)]
    if (
        not isinstance(size, int)
        or 0 in (size, *node.source.shape)
        or any(not isinstance(s, int) for s in sizes)
    ):
        return None
    # Only index expressions that are known now: indices in memory are not inspected.
    affine = _read_positions(node.position)
    if affine is None:
        return None
    offset, axes = affine
    n_added = prod(s.size for s in axes)
    terms, offset, axes = _order_axes(inner or _Terms(node.source, 0), axis, axes, offset)
    if len(axes) > 2:
        return None
    if len(axes) == 2:
        # Either axis can be the one of windows: the split with fewer terms reads fewer zeros.
        straight, crossed = _cut_windows(axes[0], axes[1]), _cut_windows(axes[1], axes[0])
        if crossed.count_terms(axes[1].size) < straight.count_terms(axes[0].size):
            terms, axes, straight = _exchange(terms, axis), axes[::-1], crossed
        if straight.count_terms(axes[0].size) > MAX_EXCESS * (n_added + size):
            return None
        terms = _overlap(terms, axis, axes[0], axes[1], straight)
    elif len(axes) == 1:
        terms = terms._replace(value=_spread(terms.value, axis, axes[0]))
    else:
        terms = terms._replace(value=make_reshape(terms.value, _replaced(terms.value, axis, 0, 1)))
    return terms._replace(value=_pad_to(terms.value, axis, offset, size))


def _read_positions(position: UOp) -> tuple[int, list[_Steps]] | None:
    """Return the first index, and the steps along each axis; None if the indices are not affine or
    not known at compile time.
    """
    nodes = position.toposort()
    if len(nodes) > MAX_NODES or any(n.op not in _KNOWN for n in nodes):
        return None
    # Pulled as in a kernel, so that every movement op between the indices and their IOTA is
    # understood.
    loops = KernelLoops()
    loop_indices = tuple(loops.make(size, AxisType.LOOP) for size in position.shape)
    terms = to_terms(
        simplify(
            Puller(Storage(set(), {}), {}).pull(position, Coordinates(loop_indices)).cast(index)
        )
    )
    if not terms.keys() <= {ONE, *((r,) for r in loop_indices)}:
        return None
    sizes = (size for size in position.shape if isinstance(size, int))
    return terms.get(ONE, 0), [
        _Steps(terms.get((r,), 0), size) for r, size in zip(loop_indices, sizes, strict=True)
    ]


def _order_axes(
    terms: _Terms, axis: int, axes: list[_Steps], offset: int
) -> tuple[_Terms, int, list[_Steps]]:
    """Normalize the axes of affine indices.

    Axes of negative step are flipped, the axes are sorted by decreasing step, contiguous axes are
    merged, and axes of step 0 become summed axes.
    """
    x, n_axes = terms.value, len(axes)
    x = make_flip(
        x, [axis <= a < axis + n_axes and axes[a - axis].step < 0 for a in range(len(x.shape))]
    )
    offset += sum(a.step * (a.size - 1) for a in axes if a.step < 0)
    long = [i for i, a in enumerate(axes) if a.size > 1]
    # The longest step first: the outer axis selects a window, the inner one an element of it.
    moving = sorted(
        (i for i in long if axes[i].step), key=lambda i: (-abs(axes[i].step), -axes[i].size)
    )
    still = [i for i in long if not axes[i].step]
    short = [i for i in range(n_axes) if i not in long]
    trailing = range(axis + n_axes, len(x.shape))
    x = make_permute(
        x,
        (
            *range(axis),
            *(axis + i for i in (*short, *moving)),
            *trailing,
            *(axis + i for i in still),
        ),
    )
    merged: list[_Steps] = []
    for i in moving:
        step, size = abs(axes[i].step), axes[i].size
        if merged and merged[-1].step == step * size:
            merged[-1] = _Steps(step, size * merged[-1].size)
        else:
            merged.append(_Steps(step, size))
    x = make_reshape(x, _replaced(x, axis, len(short) + len(moving), *(a.size for a in merged)))
    return _Terms(x, terms.n_summed + len(still)), offset, merged


def _cut_windows(windows: _Steps, inside: _Steps) -> _Overlap:
    if inside.step % windows.step == 0:
        return _Overlap(inside.size, 1, inside.step // windows.step)
    return _Overlap(-(-_extent(inside) // windows.step), windows.step, 1)


def _overlap(
    terms: _Terms, axis: int, windows: _Steps, inside: _Steps, overlap: _Overlap
) -> _Terms:
    """Merge the axis of windows and the axis inside a window into one axis of the result.

    Where windows overlap, the pieces that cover an element become a trailing, summed axis.
    """
    x = terms.value
    if overlap.piece > 1:
        x = _spread(x, axis + 1, inside)
        x = _pad(x, axis + 1, 0, overlap.n_pieces * overlap.piece - _extent(inside))
    x = make_reshape(x, _replaced(x, axis, 2, windows.size * overlap.n_pieces, overlap.piece))
    n_strides, n_summed = overlap.count_strides(windows.size), terms.n_summed
    if overlap.n_pieces > 1:
        shape = (n_strides, overlap.n_pieces)
        stride, piece = (make_broadcasted_iota(shape, a, int64) for a in range(2))
        x = make_gather(x, (stride - piece * overlap.distance) * overlap.n_pieces + piece, axis)
        x = make_permute(x, (*range(axis + 1), *range(axis + 2, len(x.shape)), axis + 1))
        n_summed += 1
    x = make_reshape(x, _replaced(x, axis, 2, n_strides * overlap.piece))
    # Dilated windows write no elements between the strides: these are zeros.
    return _Terms(
        x if overlap.piece > 1 else _spread(x, axis, _Steps(windows.step, n_strides)), n_summed
    )


def _exchange(terms: _Terms, axis: int) -> _Terms:
    """Swap the two axes of the indices."""
    x = terms.value
    order = (*range(axis), axis + 1, axis, *range(axis + 2, len(x.shape)))
    return terms._replace(value=make_permute(x, order))


def _extent(axis: _Steps) -> int:
    """Number of elements from the first index of an axis to the last."""
    return axis.step * (axis.size - 1) + 1


def _spread(x: UOp, axis: int, steps: _Steps) -> UOp:
    """Insert zeros between the elements of an axis, so that they are `steps.step` apart."""
    if steps.step == 1:
        return x
    x = make_reshape(x, _replaced(x, axis, 1, steps.size, 1))
    x = _pad(x, axis + 1, 0, steps.step - 1)
    x = make_reshape(x, _replaced(x, axis, 2, steps.size * steps.step))
    return _cut(x, axis, 0, _extent(steps))


def _pad_to(x: UOp, axis: int, offset: int, size: int) -> UOp:
    """Pad or crop an axis to `size`, with the first element at `offset`, which may be negative."""
    length = int(x.shape[axis])  # pyright: ignore[reportArgumentType]
    begin = min(max(-offset, 0), length)
    end = max(min(length, size - offset), begin)
    x = _cut(x, axis, begin, end)
    before = min(max(offset, 0), size)
    return _pad(x, axis, before, size - before - (end - begin))


def _pad(x: UOp, axis: int, before: int, after: int) -> UOp:
    return make_pad(x, [(before, after) if a == axis else (0, 0) for a in range(len(x.shape))])


def _cut(x: UOp, axis: int, begin: int, end: int) -> UOp:
    return make_shrink(x, [(begin, end) if a == axis else (0, s) for a, s in enumerate(x.shape)])


def _replaced(x: UOp, axis: int, n_axes: int, *sizes: int) -> tuple[int | UOp, ...]:
    """Return the shape of `x` with `n_axes` axes from `axis` on replaced by `sizes`."""
    return (*x.shape[:axis], *sizes, *x.shape[axis + n_axes :])
