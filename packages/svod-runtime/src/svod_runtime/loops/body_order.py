"""Order of the ops in a loop body: hazards on the memory of one iteration.

    CarriedIn(k), CarriedOut(k)     separate memory if the carry has a spare, else the same memory
    Slice(p), Slice(p)              the same memory, whichever slices they are
    Whole(p), Slice(p)              the same memory
    not bound                       the memory of the local buffer

Each iteration ends with a barrier, so there are no hazards between iterations.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from svod_device import Buffer
from svod_runtime.ops.dependencies import Access, Dependencies, resolve_dependencies
from svod_runtime.ops.loop_bindings import Binding, CarriedIn, CarriedOut, Slice, Whole
from svod_runtime.ops.prepared import PreparedLoop, PreparedOp

__all__ = ["BodyDependencies"]

_EVERYTHING: Final = 1 << 62


class BodyDependencies(Dependencies):
    """Dependencies between the ops of a loop body."""

    def __init__(self, loop: PreparedLoop) -> None:
        """Raises DependencyError if a dependency is unknown, or if dependencies form a cycle."""
        ops = loop.body.ops
        super().__init__(ops, resolve_dependencies(ops, [()] * len(ops)))
        self._bindings = {
            buffer.storage_id: binding
            for buffer, binding in zip(loop.body.buffers, loop.body.bindings, strict=True)
            if binding is not None
        }
        # Storage ids start at 1, so ids from 0 downwards cannot collide with a real storage.
        self._storage_ids: dict[object, int] = {}
        self._loop = loop

    def _iter_accesses(self, op: PreparedOp, buffers: Sequence[Buffer]) -> Iterator[Access]:
        for access in super()._iter_accesses(op, buffers):
            binding = self._bindings.get(access.storage_id)
            if binding is None:
                yield access
                continue
            storage_id = self._storage_of(binding)
            if isinstance(binding, Slice):
                # Which bytes of the operand a slice covers depends on the iteration, so a slice
                # conflicts with every access to the operand.
                yield Access(storage_id, 0, _EVERYTHING, access.is_write)
            else:
                yield access._replace(storage_id=storage_id)

    def _storage_of(self, binding: Binding) -> int:
        """Artificial storage id for the memory that a binding names within one iteration."""
        match binding:
            case Whole() | Slice():
                # Keyed by the plan's buffer, not by the position: one buffer may be two operands.
                key: object = "operand", self._loop.buffer_indices[binding.position]
            case CarriedIn():
                key = "carried", binding.index
            case CarriedOut():
                has_spare = self._loop.body.carried[binding.index].spare is not None
                key = "next" if has_spare else "carried", binding.index
        return self._storage_ids.setdefault(key, -len(self._storage_ids))
