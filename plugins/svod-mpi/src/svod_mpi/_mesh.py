"""Meshes of the processes of MPI."""

from __future__ import annotations

from itertools import count
from math import prod
from typing import TYPE_CHECKING, Any, Final, cast

from mpi4py import MPI

import svod_ir
from svod_ir import Op, UOp
from svod_mpi._checked_calls import check_calls
from svod_mpi._collectives import Group, list_functions
from svod_mpi._native_calls import list_native_calls
from svod_mpi._waits import time_waits
from svod_mpi.errors import MeshError
from svod_runtime import register_native_function
from svod_tensor import Tensor, register_custom_function

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Self

__all__ = ["Mesh", "from_part", "get_communicator"]

_communicators: Final[dict[str, MPI.Intracomm]] = {}
"""The communicator of each transport."""


class Mesh(svod_ir.Mesh):
    """The processes of a communicator, arranged along named axes.

    Every process makes the same mesh. The last axis is the one along which the ranks of neighbours
    differ by one.

    Args:
        communicator: the processes; by default all that `mpiexec` started.
        device: the device on which each process computes.
        deterministic: add in the order of the processes, so that sums do not depend on the MPI
            library and the network.
        checked: announce each collective to the other processes before it is called, so that
            processes that run different programs raise an error instead of waiting for ever.
        timeout_s: the time in which all processes have to call a checked collective.
        sizes: the number of processes along each named axis; one may be -1. By default one axis,
            `data`, of all processes.

    Raises:
        MeshError: if the sizes do not multiply to the number of processes.

    Example:
        >>> import svod_mpi
        >>> from svod_tensor import Tensor
        >>> mesh = svod_mpi.Mesh(data=-1)
        >>> x = Tensor([[1.0, 2.0], [3.0, 4.0]]).shard(mesh, {"data": 0})
        >>> x.sum().tolist()
        10.0
    """

    def __new__(
        cls,
        communicator: MPI.Intracomm | None = None,
        /,
        *,
        device: str = "CPU",
        deterministic: bool = False,
        checked: bool = False,
        timeout_s: float = 60.0,
        **sizes: int,
    ) -> Self:
        world = MPI.COMM_WORLD if communicator is None else communicator
        names, numbers = _resolve_sizes(sizes or {"data": -1}, world.Get_size())
        position = tuple(_locate(world.Get_rank(), numbers))
        text = ",".join(f"{name}={size}" for name, size in zip(names, numbers, strict=True))
        options = ",ordered" * deterministic + f",checked {timeout_s:g} s" * checked
        transport = _name_transport(f"mpi:{text}{options}", world)
        mesh = super().__new__(cls, names, numbers, position, device, transport)
        if transport not in _communicators:
            _communicators[transport] = world
            limit_s = timeout_s if checked else None
            _register(mesh, world, is_deterministic=deterministic, limit_s=limit_s)
        return mesh

    def __reduce__(self) -> tuple[Any, ...]:
        return svod_ir.Mesh, tuple(self)

    def join(self, shard: Tensor, axes: Mapping[str, int] | None = None) -> Tensor:
        """The tensor whose part in each process is `shard`.

        The parts have equal shapes but for the axes that are split. All processes call this; only
        sizes are exchanged.

        Args:
            shard: the part of this process, on its device.
            axes: the axis of the tensor that each named axis of the mesh splits; along the others
                the parts are the same tensor.

        Raises:
            MeshError: if there is no such axis of the mesh or of the tensor, or the shapes or
                dtypes differ.

        Example:
            >>> import svod_mpi
            >>> from svod_tensor import Tensor
            >>> mesh = svod_mpi.Mesh()
            >>> rows = Tensor.full((2, 3), float(mesh.rank))
            >>> mesh.join(rows, {"data": 0}).shape == (2 * mesh.n_ranks, 3)
            True
        """
        axes = dict(axes or {})
        for name, axis in axes.items():
            if name not in self.names or not -shard.ndim <= axis < shard.ndim:
                problem = (
                    f"no axis {name!r} of the mesh, or {axis} of a tensor of {shard.ndim} axes"
                )
                raise MeshError(operation="join", problem=problem)
        whole = {name: axis % shard.ndim for name, axis in axes.items()}
        described = _communicators[self.transport].allgather(
            (self.position, tuple(map(int, shard.shape)), shard.dtype.name)
        )
        sizes = tuple(
            _list_sizes(described, self, mesh_axis, whole.get(name))
            for mesh_axis, name in enumerate(self.names)
        )
        layout = svod_ir.MeshLayout(self, tuple(whole.get(name) for name in self.names), sizes)
        _check_parts(described, layout)
        return from_part(shard, layout)

    def barrier(self) -> None:
        """Wait until all processes of the mesh call this."""
        _communicators[self.transport].Barrier()


def get_communicator(mesh: svod_ir.Mesh) -> MPI.Intracomm:
    """The communicator of all processes of a mesh."""
    return _communicators[mesh.transport]


def from_part(part: Tensor, layout: svod_ir.MeshLayout) -> Tensor:
    """The tensor of a layout whose part in this process is `part`; the sizes are not checked."""
    own = part.to(layout.mesh.device).contiguous().uop
    stack = UOp(Op.MSTACK, own.dtype, (own,))
    return Tensor.from_uop(UOp(Op.MULTI, own.dtype, (stack,), layout))


def _resolve_sizes(
    sizes: Mapping[str, int], n_processes: int
) -> tuple[tuple[str, ...], tuple[int, ...]]:
    known = prod(size for size in sizes.values() if size != -1)
    n_open = sum(size == -1 for size in sizes.values())
    if n_open == 1 and known > 0 and n_processes % known == 0:
        sizes = {n: n_processes // known if size == -1 else size for n, size in sizes.items()}
    if min(sizes.values()) < 1 or prod(sizes.values()) != n_processes:
        text = ", ".join(f"{name}={size}" for name, size in sizes.items())
        raise MeshError(operation="Mesh", problem=f"{text} does not make {n_processes} processes")
    return tuple(sizes), tuple(sizes.values())


def _locate(rank: int, sizes: Sequence[int]) -> Sequence[int]:
    position: list[int] = []
    for size in reversed(sizes):
        rank, index = divmod(rank, size)
        position.append(index)
    return position[::-1]


def _name_transport(name: str, world: MPI.Intracomm) -> str:
    """A name that belongs to this communicator, the same in all processes."""
    names = (name if number == 0 else f"{name}#{number}" for number in count())
    same = (MPI.IDENT, MPI.CONGRUENT)
    return next(
        n
        for n in names
        if n not in _communicators or MPI.Comm.Compare(_communicators[n], world) in same
    )


def _register(
    mesh: Mesh, world: MPI.Intracomm, *, is_deterministic: bool, limit_s: float | None
) -> None:
    """Register the collectives of a mesh, for each choice of its axes.

    They are checked if they have a time limit.
    """
    groups: dict[int, Group] = {}
    # All processes make all groups in one order, since making one is a collective.
    for mask in range(1, 1 << len(mesh.names)):
        color = rank = 0
        for axis, (size, index) in enumerate(zip(mesh.sizes, mesh.position, strict=True)):
            if mask >> axis & 1:
                rank = rank * size + index
            else:
                color = color * size + index
        part = cast("MPI.Intracomm", world.Split(color, rank))
        groups[mask] = Group(part, is_deterministic)
    find_group = groups.__getitem__
    for name, function in list_functions(find_group).items():
        # Only neighbours that exchange elements call a halo: the others cannot be waited for.
        if name != "halo":
            function = time_waits(function, find_group)
            if limit_s is not None:
                function = check_calls(name, function, find_group, limit_s)
        register_custom_function(f"{mesh.transport}.{name}", function)
    # Announcements, and sums in an order, need Python.
    if limit_s is None and not is_deterministic:
        for group in groups.values():
            # No Python code sees what a native call returns.
            group.communicator.Set_errhandler(MPI.ERRORS_ARE_FATAL)
        for name, find in list_native_calls(mesh.transport, find_group).items():
            register_native_function(f"{mesh.transport}.{name}", find)


def _list_sizes(
    described: Sequence[tuple[tuple[int, ...], tuple[int, ...], str]],
    mesh: Mesh,
    mesh_axis: int,
    axis: int | None,
) -> tuple[int, ...]:
    """The sizes of the parts along an axis of the mesh, through this process."""
    if axis is None:
        return ()
    along = {
        position[mesh_axis]: shape[axis]
        for position, shape, _ in described
        if all(
            p == q
            for m, (p, q) in enumerate(zip(position, mesh.position, strict=True))
            if m != mesh_axis
        )
    }
    return tuple(along[index] for index in range(mesh.sizes[mesh_axis]))


def _check_parts(
    described: Sequence[tuple[tuple[int, ...], tuple[int, ...], str]], layout: svod_ir.MeshLayout
) -> None:
    own = described[layout.mesh.rank]
    for rank, (position, shape, dtype) in enumerate(described):
        expected = list(own[1])
        for axis, sizes, index in zip(layout.axes, layout.sizes, position, strict=True):
            if axis is not None:
                expected[axis] = sizes[index]
        if shape != tuple(expected) or dtype != own[2] or 0 in shape:
            problem = (
                f"process {rank} has {dtype} {shape}, where process {layout.mesh.rank} expects"
                f" {own[2]} {tuple(expected)}, with elements"
            )
            raise MeshError(operation="join", problem=problem)
