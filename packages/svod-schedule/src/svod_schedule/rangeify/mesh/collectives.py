"""Collectives of a mesh: custom functions in which the processes of a mesh exchange shards.

    reduce.add(x)           the sum of x over the processes along axes of the mesh, in each of them
    scatter.add(x)          a part of the sum of x, split along the first axis
    gather(x)               the shards of all, joined along an axis
    exchange(x)             shards along one axis instead of along another
    halo(below, above)      the elements of neighbours that a larger or shifted shard needs
    mirror(x)               the shard of the opposite process, for a flip

The kind of a custom function is the transport of the mesh and one of these names, such as
`mpi.gather`. Its numbers begin with its number in the program and a mask of the axes of the mesh.

All processes have to call the same collectives in the same order, also where the shard of one needs
a value less: each call therefore reads the result of the one before, and the last is one more result
of the graph. `loop_order` does this for loops.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from svod_dtype import uint8
from svod_ir import (
    Mesh,
    MeshLayout,
    Op,
    UOp,
    make_concat,
    make_empty,
    make_permute,
    make_reshape,
)
from svod_ir.build import make_copy
from svod_ir.custom_function import ArraySpec
from svod_schedule.rangeify.mesh.calls import make_call, narrow, order_after
from svod_schedule.rangeify.mesh.join_reductions import Reduction, can_join

__all__ = ["Collectives"]


class Collectives:
    """The collectives of one graph or body, in order.

    Attributes:
        count: the number of collectives so far, with those of nested bodies.
        last: the last one, or a result of the loop that it is in; None if there is none yet.
        device: the device of this process.
        groups: the reductions, in groups that may be joined.
    """

    def __init__(self, last: UOp | None = None) -> None:
        self.count = 0
        self.last = last
        self.device = ""
        self.groups: list[list[Reduction]] = []
        self._open_mask = 0
        self._resharded: dict[tuple[UOp, MeshLayout], UOp] = {}

    def make_token(self) -> UOp:
        """A byte of memory that depends on the collectives so far."""
        zero = make_copy(make_reshape(UOp.const(uint8, 0), (1,)), self.device)
        return zero if self.last is None else order_after(zero, self.last)

    def continue_after(self, event: UOp) -> None:
        """Order the next collectives after `event`, a result of a loop with collectives."""
        # Reductions before and after it are not joined: it comes between.
        self.last, self._open_mask = event, 0

    def reduce(
        self, x: UOp, op: Op, mesh: Mesh, along: Iterable[int], needs: int
    ) -> tuple[UOp, int]:
        """`x` combined with those of the other processes along axes of the mesh, and what it needs.

        Args:
            needs: a mask of the reductions that `x` depends on, by their numbers.
        """
        along = tuple(m for m in along if mesh.sizes[m] > 1)
        if not along or 0 in x.shape:
            return x, needs
        number, before, open_mask = self.count, self.last, self._open_mask
        name = f"reduce.{op.name.lower()}"
        called = self._call(mesh, name, along, ArraySpec(x.dtype, x.shape), [x], ())
        new = Reduction(called, x, (mesh, name, along, x.dtype), number, before)
        is_joined = open_mask != 0 and not needs & open_mask and can_join(self.groups[-1], new)
        if is_joined:
            self.groups[-1].append(new)
        else:
            self.groups.append([new])
        self._open_mask = (open_mask if is_joined else 0) | 1 << number
        return called, needs | 1 << number

    def scatter(
        self, x: UOp, op: Op, mesh: Mesh, mesh_axis: int, axis: int, sizes: tuple[int, ...]
    ) -> UOp:
        """The own part of `x` combined with those of the other processes, split in parts of `sizes`."""
        order = [axis, *(a for a in range(len(x.shape)) if a != axis)]
        # The parts lie one after the other.
        x = make_permute(x, order)
        spec = ArraySpec(x.dtype, (sizes[mesh.position[mesh_axis]], *x.shape[1:]))
        name = f"scatter.{op.name.lower()}"
        called = self._call(mesh, name, [mesh_axis], spec, [x], sizes)
        return _permute_back(called, order)

    def reshard(self, node: UOp, x: UOp, have: MeshLayout, want: MeshLayout) -> UOp:
        """The shard of `node` in the layout `want`, from its shard `x` in the layout `have`."""
        key = node, want
        if key not in self._resharded:
            self._resharded[key] = self._reshard(x, have, want)
        return self._resharded[key]

    def _reshard(self, x: UOp, have: MeshLayout, want: MeshLayout) -> UOp:
        while have != want:
            mesh_axis, axis, sizes = _choose_step(have, want)
            x = self._move(x, have, mesh_axis, axis, sizes)
            have = have.with_axis(mesh_axis, axis, sizes)
        return x

    def _move(
        self, x: UOp, have: MeshLayout, mesh_axis: int, axis: int | None, sizes: tuple[int, ...]
    ) -> UOp:
        """Split another axis of `x`, or the same one in other parts, along an axis of the mesh."""
        mesh, old_axis, old_sizes = have.mesh, have.axes[mesh_axis], have.sizes[mesh_axis]
        index = mesh.position[mesh_axis]
        if mesh.sizes[mesh_axis] == 1:
            return x
        if old_axis is None:
            assert axis is not None
            begin = sum(sizes[:index])
            return narrow(x, axis, begin, begin + sizes[index])
        if axis is None:
            return self.gather(x, mesh, mesh_axis, old_axis, old_sizes)
        if axis == old_axis:
            return self._move_bounds(x, have, mesh_axis, sizes)
        return self._exchange(x, have, mesh_axis, axis, sizes)

    def _exchange(
        self, x: UOp, have: MeshLayout, mesh_axis: int, axis: int, sizes: tuple[int, ...]
    ) -> UOp:
        mesh, old_axis, old_sizes = have.mesh, have.axes[mesh_axis], have.sizes[mesh_axis]
        assert old_axis is not None
        # What a process receives lies in the order of the axis that it joins.
        order = [old_axis, axis, *(a for a in range(len(x.shape)) if a not in (old_axis, axis))]
        moved = make_permute(x, order)
        parts = [narrow(moved, 1, begin, end) for begin, end in _bounds(sizes)]
        sent = make_concat([make_reshape(part, (prod(part.shape),)) for part in parts], 0)
        spec = ArraySpec(
            x.dtype, (sum(old_sizes), sizes[mesh.position[mesh_axis]], *moved.shape[2:])
        )
        numbers = (*old_sizes, *sizes)
        received = self._call(mesh, "exchange", [mesh_axis], spec, [sent], numbers)
        return _permute_back(received, order)

    def gather(self, x: UOp, mesh: Mesh, mesh_axis: int, axis: int, sizes: tuple[int, ...]) -> UOp:
        """All parts of an axis, of `sizes`, of which `x` is the one of this process."""
        if mesh.sizes[mesh_axis] == 1:
            return x
        shape = list(x.shape)
        shape[axis] = sum(sizes)
        if 0 in shape:
            # No process along this axis of the mesh has elements.
            self._skip()
            return make_empty(x.dtype, tuple(shape))
        # The parts lie one after the other along the first axis that has several elements.
        n_ones = next(a for a, size in enumerate([*shape[:axis], 0]) if size != 1)
        order = [axis, *(a for a in range(len(shape)) if a != axis)]
        order = sorted(order) if n_ones == axis else order
        inputs = [] if 0 in x.shape else [make_permute(x, order)]
        spec = ArraySpec(x.dtype, tuple(shape[a] for a in order))
        gathered = self._call(mesh, "gather", [mesh_axis], spec, inputs, sizes)
        return _permute_back(gathered, order)

    def _move_bounds(self, x: UOp, have: MeshLayout, mesh_axis: int, sizes: tuple[int, ...]) -> UOp:
        """Other bounds along the axis that is split: only elements that are missing are sent."""
        mesh, axis, old_sizes = have.mesh, have.axes[mesh_axis], have.sizes[mesh_axis]
        assert axis is not None
        index = mesh.position[mesh_axis]
        old, new = _bounds(old_sizes), _bounds(sizes)
        (begin, end), (first, last) = old[index], new[index]
        below = max(min(last, begin) - first, 0)
        above = max(last - max(first, end), 0)
        sent = [
            _hull(_overlap(old[index], other) for other in new[:index]),
            _hull(_overlap(old[index], other) for other in new[index + 1 :]),
        ]
        inputs = [narrow(x, axis, low - begin, high - begin) for low, high in sent if low < high]
        low, high = _overlap(old[index], new[index])
        kept = [narrow(x, axis, low - begin, high - begin)] if low < high else []
        if not (inputs or below or above):
            self._skip()
            return kept[0]
        shape = list(x.shape)
        shape[axis] = below + above
        spec = ArraySpec(x.dtype, tuple(shape)) if below + above else ArraySpec(uint8, (1,))
        numbers = (axis, *old_sizes, *sizes)
        received = self._call(mesh, "halo", [mesh_axis], spec, inputs, numbers)
        if below:
            kept.insert(0, narrow(received, axis, 0, below))
        if above:
            kept.append(narrow(received, axis, below, below + above))
        return make_concat(kept, axis)

    def mirror(self, x: UOp, layout: MeshLayout, flags: Sequence[bool]) -> UOp:
        """The shard of the process at the opposite position, along each flipped axis."""
        for mesh_axis, axis in enumerate(layout.axes):
            if axis is None or not flags[axis] or layout.mesh.sizes[mesh_axis] == 1:
                continue
            sizes = layout.sizes[mesh_axis]
            shape = list(x.shape)
            shape[axis] = sizes[-1 - layout.mesh.position[mesh_axis]]
            spec = ArraySpec(x.dtype, tuple(shape))
            x = self._call(layout.mesh, "mirror", [mesh_axis], spec, [x], ())
        return x

    def _skip(self) -> None:
        """Count a collective that other processes call, as they do."""
        self.count += 1
        self._open_mask = 0

    def _call(
        self,
        mesh: Mesh,
        name: str,
        along: Sequence[int],
        output: ArraySpec,
        inputs: Sequence[UOp],
        numbers: Sequence[int],
    ) -> UOp:
        # Only reductions that follow each other are joined.
        self._open_mask = 0
        called = make_call(mesh, name, along, output, inputs, (self.count, *numbers), self.last)
        self.count += 1
        self.last, self.device = called, mesh.device
        return called


def _permute_back(x: UOp, order: Sequence[int]) -> UOp:
    """Undo a permutation of axes."""
    return make_permute(x, [order.index(axis) for axis in range(len(order))])


def _choose_step(have: MeshLayout, want: MeshLayout) -> tuple[int, int | None, tuple[int, ...]]:
    """An axis of the mesh whose layout changes next, the axis that it then splits, and the parts."""
    steps: list[tuple[int, int]] = []
    for m, (old, axis) in enumerate(zip(have.axes, want.axes, strict=True)):
        if (old, have.sizes[m]) == (axis, want.sizes[m]):
            continue
        is_free = axis is None or axis not in have.axes[:m] + have.axes[m + 1 :]
        # A slice sends nothing and leaves less to send; to gather leaves more.
        if is_free:
            steps.append((0 if old is None else 2 if axis is None else 1, m))
        elif old is not None:
            steps.append((3, m))
    cost, m = min(steps)
    return (m, None, ()) if cost == 3 else (m, want.axes[m], want.sizes[m])


def _bounds(sizes: Sequence[int]) -> list[tuple[int, int]]:
    ends = [sum(sizes[: n + 1]) for n in range(len(sizes))]
    return [(end - size, end) for end, size in zip(ends, sizes, strict=True)]


def _overlap(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    low = max(a[0], b[0])
    return low, max(low, min(a[1], b[1]))


def _hull(intervals: Iterable[tuple[int, int]]) -> tuple[int, int]:
    known = [(low, high) for low, high in intervals if low < high]
    return (min(low for low, _ in known), max(high for _, high in known)) if known else (0, 0)
