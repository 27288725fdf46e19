"""The order of the ops in the body of a loop: which of them touch the same bytes in one iteration.

    CarriedIn(k), CarriedOut(k)     apart, where there is a spare; the same memory without one
    Slice(p), Slice(p)              the same memory, whatever they are a slice of
    Whole(p), Slice(p)              the same memory
    not bound                       the memory of the local buffer

Between iterations everything is done.
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
    """Who waits for whom in the body of a loop."""

    def __init__(self, loop: PreparedLoop) -> None:
        """Raises DependencyError if a dependency is unknown, or if they form a cycle."""
        ops = loop.body.ops
        super().__init__(ops, resolve_dependencies(ops, [()] * len(ops)))
        self._bindings = {
            buffer.storage_id: binding
            for buffer, binding in zip(loop.body.buffers, loop.body.bindings, strict=True)
            if binding is not None
        }
        # Storages are numbered from 1 on: numbers below that are free.
        self._numbers: dict[object, int] = {}
        self._loop = loop

    def _iter_accesses(self, op: PreparedOp, buffers: Sequence[Buffer]) -> Iterator[Access]:
        for access in super()._iter_accesses(op, buffers):
            binding = self._bindings.get(access.storage_id)
            if binding is None:
                yield access
                continue
            number = self._number(binding)
            if isinstance(binding, Slice):
                yield Access(number, 0, _EVERYTHING, access.is_write)
            else:
                yield access._replace(storage_id=number)

    def _number(self, binding: Binding) -> int:
        """Stands for the memory that a binding names, within one iteration."""
        match binding:
            case Whole() | Slice():
                key: object = "operand", self._loop.buffer_indices[binding.position]
            case CarriedIn():
                key = "carried", binding.number
            case CarriedOut():
                has_spare = self._loop.body.carried[binding.number].spare is not None
                key = "next" if has_spare else "carried", binding.number
        return self._numbers.setdefault(key, -len(self._numbers))
