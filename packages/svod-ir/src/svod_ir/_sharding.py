"""Sharding of tensors over devices of one process, and over the processes of a mesh."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import prod
from typing import NamedTuple, TypeAlias, TypeVar

__all__ = ["Cut", "Mesh", "MeshLayout", "Placement", "Sharding", "split_evenly"]

_Size = TypeVar("_Size")


class Mesh(NamedTuple):
    """Processes that run one program, arranged along named axes, and the position of this one.

    Example:
        >>> from svod_ir import Mesh
        >>> mesh = Mesh(("data", "model"), (2, 4), (1, 3))
        >>> mesh.n_ranks, mesh.rank, mesh.lay_out({"data": 0}, (6, 5)).axes, mesh.describe_axes()
        (8, 7, (0, None), ['data=2', 'model=4'])
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    position: tuple[int, ...]
    device: str = "CPU"
    transport: str = "mesh"

    def __repr__(self) -> str:
        return f"Mesh({', '.join(self.describe_axes())})"

    def describe_axes(self) -> list[str]:
        """Each axis with its number of processes, as in `data=2`."""
        return [f"{name}={size}" for name, size in zip(self.names, self.sizes, strict=True)]

    @property
    def n_ranks(self) -> int:
        """The number of processes."""
        return prod(self.sizes)

    @property
    def rank(self) -> int:
        """The number of this process: its position in row-major order."""
        rank = 0
        for size, index in zip(self.sizes, self.position, strict=True):
            rank = rank * size + index
        return rank

    def lay_out(self, axes: Mapping[str, int], shape: Sequence[object]) -> MeshLayout:
        """The layout of a tensor that is split evenly: for names of mesh axes, axes of the tensor.

        The tensor is the same along the other mesh axes. The sizes of parts differ by at most one.
        """
        layout_axes = tuple(axes.get(name) for name in self.names)
        sizes = tuple(
            ()
            if axis is None or not isinstance(size := shape[axis], int)
            else split_evenly(size, n)
            for axis, n in zip(layout_axes, self.sizes, strict=True)
        )
        return MeshLayout(self, layout_axes, sizes)


def split_evenly(size: int, n_parts: int) -> tuple[int, ...]:
    """Sizes of `n_parts` parts that differ by at most one, the larger ones first."""
    small, n_large = divmod(size, n_parts)
    return tuple(small + (position < n_large) for position in range(n_parts))


class MeshLayout(NamedTuple):
    """Layout of a tensor on a mesh.

    Attributes:
        mesh: the processes.
        axes: for each axis of the mesh, the axis of the tensor that it splits, or None if all
            positions along it hold the same.
        sizes: for each axis of the mesh, the sizes of the parts; empty where the axis is None.

    Example:
        >>> from svod_ir import Mesh
        >>> layout = Mesh(("data", "model"), (2, 2), (0, 1)).lay_out({"model": 1}, (6, 5))
        >>> layout.sizes, layout.replicated.axes, layout.with_axis(0, 0, (3, 3)).axes
        (((), (3, 2)), (None, None), (0, 1))
        >>> layout.along(1)
        Sharding(devices=('model:0', 'model:1'), axis=1, sizes=(3, 2))
    """

    mesh: Mesh
    axes: tuple[int | None, ...]
    sizes: tuple[tuple[int, ...], ...]

    def __repr__(self) -> str:
        texts = [
            f"{text} splits axis {axis}" if axis is not None else text
            for text, axis in zip(self.mesh.describe_axes(), self.axes, strict=True)
        ]
        return f"MeshLayout({', '.join(texts)})"

    @property
    def replicated(self) -> MeshLayout:
        """The layout of a tensor that is whole on each process."""
        n_axes = len(self.axes)
        return MeshLayout(self.mesh, (None,) * n_axes, ((),) * n_axes)

    def with_axis(
        self, mesh_axis: int, axis: int | None, sizes: tuple[int, ...] = ()
    ) -> MeshLayout:
        """The layout with another axis of the tensor along one axis of the mesh."""
        axes, all_sizes = list(self.axes), list(self.sizes)
        axes[mesh_axis], all_sizes[mesh_axis] = axis, sizes
        return MeshLayout(self.mesh, tuple(axes), tuple(all_sizes))

    def along(self, mesh_axis: int) -> Sharding:
        """The layout along one axis of the mesh, as a sharding over its positions."""
        devices = _name_positions(self.mesh.names[mesh_axis], self.mesh.sizes[mesh_axis])
        return Sharding(devices, self.axes[mesh_axis], self.sizes[mesh_axis])


@lru_cache(maxsize=64)
def _name_positions(name: str, size: int) -> tuple[str, ...]:
    return tuple(f"{name}:{index}" for index in range(size))


class Cut(NamedTuple):
    """The part of an axis that a shard holds: from `begin` to before `end` of `size` elements."""

    axis: int
    begin: int
    end: int
    size: int
    is_first: bool
    is_last: bool


class Sharding(NamedTuple):
    """One tensor on several devices: sharded along `axis` in parts of `sizes`, or, if `axis` is
    None, replicated.

    On a mesh, each process has one device, its own, and `layout` says which part is there.

    Example:
        >>> from svod_ir import Mesh, Sharding
        >>> rows = Sharding(("CPU", "CPU:1"), axis=0, sizes=(4, 3))
        >>> rows.bounds(1), rows.replicated
        ((4, 7), Sharding(devices=('CPU', 'CPU:1'), axis=None, sizes=()))
        >>> second = Sharding(("CPU",), layout=Mesh(("data",), (2,), (1,)).lay_out({"data": 0}, (7,)))
        >>> second.shard_shape((7,), 0), second.cuts(0)[0].begin
        ((3,), 4)
        >>> rows.splits(0), rows.shift(1).axis
        (True, 1)
        >>> second
        Sharding(devices=('CPU',), layout=MeshLayout(data=2 splits axis 0))
    """

    devices: tuple[str, ...]
    axis: int | None = None
    sizes: tuple[int, ...] = ()
    layout: MeshLayout | None = None

    def __repr__(self) -> str:
        if self.layout is not None:
            return f"Sharding(devices={self.devices}, layout={self.layout})"
        return f"Sharding(devices={self.devices}, axis={self.axis}, sizes={self.sizes})"

    def bounds(self, index: int) -> tuple[int, int]:
        """Begin and end of shard `index` along the axis."""
        end = sum(self.sizes[: index + 1])
        return end - self.sizes[index], end

    @property
    def replicated(self) -> Sharding:
        """The replicated sharding on the same devices."""
        return Sharding(self.devices, layout=self.layout and self.layout.replicated)

    @property
    def is_replicated(self) -> bool:
        """Whether each device holds the whole tensor."""
        return self.axis is None if self.layout is None else not any(self.layout.sizes)

    @property
    def arrangement(self) -> int | MeshLayout | None:
        """The arg of a MULTI of this sharding: the axis of several devices, or the layout on a mesh."""
        return self.axis if self.layout is None else self.layout

    def splits(self, axis: int) -> bool:
        """Whether an axis of the tensor is split."""
        return self.axis == axis if self.layout is None else axis in self.layout.axes

    def cuts(self, index: int) -> tuple[Cut, ...]:
        """The part of each split axis that shard `index` holds."""
        layout = self.layout
        if layout is None:
            return () if self.axis is None else (_cut(self.axis, self.sizes, index),)
        return tuple(
            _cut(axis, sizes, position)
            for axis, sizes, position in zip(
                layout.axes, layout.sizes, layout.mesh.position, strict=True
            )
            if axis is not None
        )

    def shift(self, by: int) -> Sharding:
        """The sharding of a tensor with `by` more axes in front, or, if negative, fewer."""
        if self.layout is None:
            return self if self.axis is None else self._replace(axis=self.axis + by)
        axes = tuple(None if axis is None else axis + by for axis in self.layout.axes)
        return self._replace(layout=self.layout._replace(axes=axes))

    def shard_shape(self, shape: Sequence[_Size], index: int) -> tuple[_Size | int, ...]:
        """The shape of shard `index` of a tensor of this shape."""
        sizes: list[_Size | int] = list(shape)
        for cut in self.cuts(index):
            sizes[cut.axis] = cut.end - cut.begin
        return tuple(sizes)


def _cut(axis: int, sizes: tuple[int, ...], index: int) -> Cut:
    begin = sum(sizes[:index])
    return Cut(axis, begin, begin + sizes[index], sum(sizes), index == 0, index == len(sizes) - 1)


Placement: TypeAlias = "str | Sharding | None"
"""A device, the devices and shards of a sharded value, or None."""
