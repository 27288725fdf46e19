"""State besides the arguments of a call on which the plan of a captured function depends."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from svod_ir import UOp
from svod_tensor.capture.dependencies import Dependency, Guards, find_changed
from svod_tensor.cells import registry, tables
from svod_tensor.engine import memory_nodes, versions
from svod_tensor.tensor import Tensor

if TYPE_CHECKING:
    from svod_device import Buffer
    from svod_tensor.cells.cell import Cell

__all__ = ["HeldMemory", "Validity", "Watched", "list_storages"]


class Watched(NamedTuple):
    """Held tensor without memory of its own, and its node when it became part of a plan."""

    cell: weakref.ref[Cell]
    node: UOp


class HeldMemory(NamedTuple):
    """Memory of a held tensor that a plan uses.

    Attributes:
        cell: the tensor's cell.
        storages: the storages at the capture, in the order of the shards.
        is_kept: whether the memory must not be lent to an array: the plan writes it, or results are
            on it.
    """

    cell: weakref.ref[Cell]
    storages: tuple[int, ...]
    is_kept: bool

    @property
    def has_moved(self) -> bool:
        """True if the tensor is in other memory now, or lent to an array although it must not be."""
        cell = self.cell()
        if cell is None or cell.is_donated:
            return False
        return (self.is_kept and cell.find_array() is not None) or list_storages(
            cell
        ) != self.storages


def list_storages(cell: Cell) -> tuple[int, ...]:
    """The storages of a cell that is memory, before or after pending writes."""
    memory = cell.memory
    if memory is not None:
        return (memory.storage_id,)
    buffers = map(memory_nodes.find_buffer, versions.iter_memories(cell.node))
    return tuple([buffer.storage_id for buffer in buffers if buffer is not None])


@dataclass(slots=True)
class Validity:
    """Python values and held tensors that must be as they were at the capture.

    Attributes:
        dependencies: the Python values for which the plan is valid.
        guards: checks of these values before each call; None without dependencies.
        watched: held tensors that must be unchanged.
        held_memory: memory of held tensors, which must not have moved.
        held: the buffers of held tensors that the plan uses, by their names in messages.
        owners: weak references to the arguments that are known by their identity; once one is dead,
            no call can use the plan.
        last_write_id: the last write id when pending writes to held tensors were last computed.
    """

    dependencies: Sequence[Dependency] = ()
    guards: Guards | None = None
    watched: Sequence[Watched] = ()
    held_memory: Sequence[HeldMemory] = ()
    held: Mapping[str, Buffer] = field(default_factory=dict[str, "Buffer"])
    owners: Sequence[weakref.ref[Any]] = ()
    last_write_id: int = 0

    @property
    def holds_tensors(self) -> bool:
        """Whether the plan uses memory of tensors that are not arguments."""
        return bool(self.held or self.held_memory)

    @property
    def can_change(self) -> bool:
        """Whether there is anything that a call must check (`is_current`)."""
        return bool(self.watched or self.held_memory or self.guards)

    @property
    def is_current(self) -> bool:
        """True if the Python values and held tensors are as they were at the capture."""
        return not self._has_moved and (self.guards is None or self.guards.hold())

    @property
    def has_lost_owner(self) -> bool:
        """True if an argument that every call needs no longer exists."""
        return any(owner() is None for owner in self.owners)

    @property
    def has_expired(self) -> bool:
        """True if no later call can use the plan: a tensor that it contains, or an object, was
        replaced.
        """
        return self._has_moved or any(
            not d.may_return and not d.is_current for d in self.dependencies
        )

    @property
    def _has_moved(self) -> bool:
        """True if a tensor that the plan contains has another node, or one that it reads is in
        other memory.
        """
        if any((cell := w.cell()) is not None and cell.node is not w.node for w in self.watched):
            return True
        # While no write id was taken, no cell has left its memory: one comparison for all held
        # tensors.
        return self.last_write_id != tables.get_last_write_id() and any(
            home.has_moved for home in self.held_memory
        )

    def describe_change(self) -> str | None:
        """Describe the first Python value that has changed; None if none has."""
        changed = find_changed(self.dependencies)
        return None if changed is None else changed.describe()

    def compute_held_writes(self) -> None:
        """Compute pending writes to held tensors: the plan reads their memory by its address."""
        if not self.holds_tensors or self.last_write_id == tables.get_last_write_id():
            return
        # Read before the search: a write that another thread begins meanwhile has a higher id, and
        # the next call searches again.
        write_id = tables.get_last_write_id()
        storages = {buffer.storage_id for buffer in self.held.values()}
        with registry.lock:
            assigned = [
                cell
                for cell in registry.iter_pending_cells()
                if not storages.isdisjoint(_list_assigned(cell))
            ]
        Tensor.realize_batch(map(Tensor.from_content, assigned))
        self.last_write_id = write_id


def _list_assigned(cell: Cell) -> list[int]:
    """The storages that a cell owns and that computing it writes."""
    memories = [
        versions.memory_of(version)
        for version in versions.list_versions(cell.node)
        if versions.is_pending_version(version)
    ]
    return [
        buffer.storage_id
        for memory in memories
        if (buffer := memory_nodes.find_buffer(memory)) is not None
    ]
