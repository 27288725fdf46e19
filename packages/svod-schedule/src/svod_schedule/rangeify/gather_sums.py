"""gather-sums: where the positions of a SCATTER_ADD go up in equal steps, each element of the
result gathers what is added to it.

before → after, for windows of three elements that overlap, positions[o, k] = o + k:

    SCATTER_ADD(value, positions)       REDUCE_AXIS(GATHER(RESHAPE(value, (-1,)), places), (1,)), with
                                        places[x, k] = (x - k) * 3 + k, which is outside where no window begins at x - k

So the windows of a pooling or of a convolution are no loop in order, and what is made of the sums
is part of their kernel.

Positions are `offset + o * stride + k * dilation`, for one axis or two; axes of which one goes on
where the other ends are one. Windows of more elements than their stride are cut into pieces of one
stride, of which each element of the result gets one from each window that it is in. Positions in
memory, and those that no such sum describes, are left as they are; but where there is only one,
each element of the result compares its own with it."""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from svod_dtype import index, int64
from svod_ir import (
    AxisType,
    Op,
    UOp,
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
"""Positions that are made of more nodes are not looked at: those of windows are made of ten."""

MAX_EXCESS = 4
"""For each element that is added or is a result, so many terms are looked at, at most: between
windows that are far apart there are none."""

_KNOWN = ELEMENTWISE | MOVEMENT | MARKS | {Op.CONST, Op.IOTA, Op.CHECK, Op.CONTIGUOUS}


class _Steps(NamedTuple):
    """An axis: how far apart its positions are, and how many there are."""

    step: int
    size: int


class _Overlap(NamedTuple):
    """How windows overlap: into how many pieces each is cut, of how many elements, and how many
    strides apart these begin.
    """

    n_pieces: int
    piece: int
    distance: int

    def count_strides(self, n_windows: int) -> int:
        """How many strides all windows take together."""
        return n_windows + (self.n_pieces - 1) * self.distance

    def count_terms(self, n_windows: int) -> int:
        """How many terms all results have."""
        return self.count_strides(n_windows) * self.n_pieces * self.piece


class _Terms(NamedTuple):
    """What a result is the sum of, along the last axes."""

    value: UOp
    n_summed: int


def gather_sums(sink: UOp) -> UOp:
    """`sink` with sums at regular places as reductions."""
    order = sink.toposort()
    if not any(node.op is Op.SCATTER_ADD for node in order):
        return sink
    n_readers = count_readers(order)
    done = make_images()
    found: dict[UOp, _Terms] = {}
    for node in order:
        new = node.with_images(done)
        if node.op in (Op.SCATTER_ADD, Op.SHRINK):
            # Sums of sums, as of the windows of an image along both of its axes, are one, and so
            # are those of a part.
            inner = found.get(node.source) if n_readers[node.source] == 1 else None
            terms = _find_terms(new, inner) if node.op is Op.SCATTER_ADD else _cut_terms(new, inner)
            if terms is not None:
                found[node], new = terms, _add_up(terms)
            elif node.op is Op.SCATTER_ADD and set(node.position.shape) <= {1}:
                new = _put_one(new)
        done[node] = new
    return done[sink]


def _add_up(terms: _Terms) -> UOp:
    shape = terms.value.shape
    n_kept = len(shape) - terms.n_summed
    return make_reshape(
        make_reduce_axis(terms.value, Op.ADD, range(n_kept, len(shape))), shape[:n_kept]
    )


def _put_one(node: UOp) -> UOp:
    """The value of a SCATTER_ADD at its only position, and zeros elsewhere."""
    axis: int = node.arg.axis
    n_axes, shape = len(node.position.shape), node.shape
    position = make_expand(make_reshape(make_cast(node.position, int64), [1] * len(shape)), shape)
    places = make_broadcasted_iota(shape, axis, int64)
    value = make_expand(make_reshape(node.source, _replaced(node.source, axis, n_axes, 1)), shape)
    return make_alu(Op.WHERE, make_alu(Op.EQ, places, position), value, UOp.const(node.dtype, 0))


def _cut_terms(shrink: UOp, given: _Terms | None) -> _Terms | None:
    if given is None:
        return None
    bounds = [*zip(shrink.sizes[::2], shrink.sizes[1::2], strict=True)]
    summed = given.value.shape[len(bounds) :]
    return given._replace(
        value=make_shrink(given.value, [*bounds, *((0, size) for size in summed)])
    )


def _find_terms(node: UOp, given: _Terms | None) -> _Terms | None:
    """What the elements of a SCATTER_ADD are sums of, where its value is given as terms; None where
    it is left as it is.
    """
    axis, size = node.arg
    sizes = node.source.shape[axis : axis + len(node.position.shape)]
    if (
        size is None
        or 0 in (size, *node.source.shape)
        or any(not isinstance(s, int) for s in sizes)
    ):
        return None
    found = _read_positions(node.position)
    if found is None:
        return None
    offset, axes = found
    n_added = prod(s.size for s in axes)
    terms, offset, axes = _order_axes(given or _Terms(node.source, 0), axis, axes, offset)
    if len(axes) > 2:
        return None
    if len(axes) == 2:
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
    return terms._replace(value=_place(terms.value, axis, offset, size))


def _read_positions(position: UOp) -> tuple[int, list[_Steps]] | None:
    """The position of the first element, and the steps along each axis; None where these are not
    equal, or not known.
    """
    nodes = position.toposort()
    if len(nodes) > MAX_NODES or any(n.op not in _KNOWN for n in nodes):
        return None
    loops = KernelLoops()
    at = tuple(loops.make(size, AxisType.LOOP) for size in position.shape)
    terms = to_terms(
        simplify(Puller(Storage(set(), {}), {}).pull(position, Coordinates(at)).cast(index))
    )
    if not terms.keys() <= {ONE, *((r,) for r in at)}:
        return None
    sizes = (size for size in position.shape if isinstance(size, int))
    return terms.get(ONE, 0), [
        _Steps(terms.get((r,), 0), size) for r, size in zip(at, sizes, strict=True)
    ]


def _order_axes(
    terms: _Terms, axis: int, axes: list[_Steps], offset: int
) -> tuple[_Terms, int, list[_Steps]]:
    """The axes of the positions with steps that go down, none of them negative; those of no step
    are summed.
    """
    x, n_axes = terms.value, len(axes)
    x = make_flip(
        x, [axis <= a < axis + n_axes and axes[a - axis].step < 0 for a in range(len(x.shape))]
    )
    offset += sum(a.step * (a.size - 1) for a in axes if a.step < 0)
    long = [i for i, a in enumerate(axes) if a.size > 1]
    moving = sorted(
        (i for i in long if axes[i].step), key=lambda i: (-abs(axes[i].step), -axes[i].size)
    )
    still = [i for i in long if not axes[i].step]
    short = [i for i in range(n_axes) if i not in long]
    behind = range(axis + n_axes, len(x.shape))
    x = make_permute(
        x,
        (*range(axis), *(axis + i for i in (*short, *moving)), *behind, *(axis + i for i in still)),
    )
    joined: list[_Steps] = []
    for i in moving:
        step, size = abs(axes[i].step), axes[i].size
        if joined and joined[-1].step == step * size:
            joined[-1] = _Steps(step, size * joined[-1].size)
        else:
            joined.append(_Steps(step, size))
    x = make_reshape(x, _replaced(x, axis, len(short) + len(moving), *(a.size for a in joined)))
    return _Terms(x, terms.n_summed + len(still)), offset, joined


def _cut_windows(windows: _Steps, inside: _Steps) -> _Overlap:
    if inside.step % windows.step == 0:
        return _Overlap(inside.size, 1, inside.step // windows.step)
    return _Overlap(-(-_extent(inside) // windows.step), windows.step, 1)


def _overlap(
    terms: _Terms, axis: int, windows: _Steps, inside: _Steps, overlap: _Overlap
) -> _Terms:
    """The places of all windows as one axis; where windows overlap, with the pieces at each place
    as a last axis.
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
    # Windows whose elements are strides apart have nothing between them.
    return _Terms(
        x if overlap.piece > 1 else _spread(x, axis, _Steps(windows.step, n_strides)), n_summed
    )


def _exchange(terms: _Terms, axis: int) -> _Terms:
    """The two axes of the positions in the other order."""
    x = terms.value
    order = (*range(axis), axis + 1, axis, *range(axis + 2, len(x.shape)))
    return terms._replace(value=make_permute(x, order))


def _extent(axis: _Steps) -> int:
    """How many elements there are from the first position of an axis to the last."""
    return axis.step * (axis.size - 1) + 1


def _spread(x: UOp, axis: int, steps: _Steps) -> UOp:
    """`x` with zeros between the elements of an axis, so that they are so many steps apart."""
    if steps.step == 1:
        return x
    x = make_reshape(x, _replaced(x, axis, 1, steps.size, 1))
    x = _pad(x, axis + 1, 0, steps.step - 1)
    x = make_reshape(x, _replaced(x, axis, 2, steps.size * steps.step))
    return _cut(x, axis, 0, _extent(steps))


def _place(x: UOp, axis: int, offset: int, size: int) -> UOp:
    """`x` in an axis of `size` zeros, its first element at `offset`, which may be outside."""
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
    """The shape of `x` with these sizes in place of some axes."""
    return (*x.shape[:axis], *sizes, *x.shape[axis + n_axes :])
