"""Writes of a captured call to memory that outlives it: of arguments that the function assigns to or
that are donated, and of held tensors."""

from __future__ import annotations

import weakref
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

from svod_ir import UOp
from svod_ir.forks import make_lock
from svod_runtime import InterruptDelay
from svod_tensor._memory_views import view_prefix
from svod_tensor.capture.donation import (
    Donated,
    check_distinct,
    ensure_own_memory,
    get_donated_memory,
    invalidate_donated,
)
from svod_tensor.capture.inputs import Input
from svod_tensor.cells import overwriting, registry
from svod_tensor.engine import memory_nodes
from svod_tensor.tensor import Tensor

if TYPE_CHECKING:
    from svod_device import Buffer
    from svod_tensor.cells.cell import Cell

__all__ = ["MemoryWrites"]


class MemoryWrites:
    """Memory that each call of a captured function writes besides its results.

    Attributes:
        assigned: the memory that the function assigns to: placeholders, and memory of held tensors.
        lock: held during a call: a later call must read the elements that this one writes.
    """

    __slots__ = ("_held", "_held_cells", "_inputs", "_name", "assigned", "lock")

    def __init__(
        self,
        name: str,
        inputs: Sequence[Input],
        assigned: set[UOp],
        held: Mapping[str, Buffer],
        held_cells: Sequence[weakref.ref[Cell]],
    ) -> None:
        """Describe what a function writes.

        Args:
            name: name of the function.
            inputs: inputs of its plan.
            assigned: the memory that it assigns to.
            held: the buffers of held tensors that its plan uses, by their names in messages.
            held_cells: the held tensors that it assigns to.
        """
        self._name, self._inputs = name, inputs
        self.assigned, self._held, self._held_cells = assigned, held, held_cells
        self.lock = make_lock()

    def with_inputs(self, inputs: Sequence[Input]) -> MemoryWrites:
        """The same for a call with other sizes."""
        return MemoryWrites(self._name, inputs, self.assigned, self._held, self._held_cells)

    def has_aliases(self, inputs: Sequence[Tensor | UOp]) -> bool:
        """True if a written tensor is passed or held under two names, which the plan would treat as
        two tensors.
        """
        if not self.assigned:
            return False
        cells = [id(value.content.cell) for value in inputs if isinstance(value, Tensor)]
        known = set(cells)
        return len(known) < len(cells) or any(id(ref()) in known for ref in self._held_cells)

    @contextmanager
    def claim(self, given: Sequence[Tensor | UOp]) -> Generator[dict[UOp, UOp]]:
        """Claim the memory that a call writes, for the block: wait for its readers and writers, and
        take over donated memory. Pending readers are computed first.

        Args:
            given: tensors and variables of the call.

        Yields:
            The memory of each written or donated input, by placeholder. If the input is a view, it
            is memory of a copy, which is written back after the block.
        """
        with self.lock:
            tensors = [
                (i, tensor) for i in self._inputs if isinstance(tensor := given[i.position], Tensor)
            ]
            donated = [
                (i, get_donated_memory(self._name, tensor, i.shard, i.argument))
                for i, tensor in tensors
                if i.is_donated
            ]
            overwritten = [(i, tensor) for i, tensor in tensors if i.is_overwritten]
            nodes = {i.memory: donation.memory for i, donation in donated}
            for i, tensor in overwritten:
                nodes[i.memory] = ensure_own_memory(tensor, i.shard)
            computation = self._start_computation(nodes)
            has_views = any(tensor.content.path for _, tensor in overwritten)
            # Ctrl-C must not come between the execution and the writing back.
            with InterruptDelay() if has_views else nullcontext():
                try:
                    if donated:
                        self._take(given, nodes, donated)
                    yield nodes
                finally:
                    registry.end_computation(computation)
                for i, tensor in overwritten:
                    _write_back(tensor, nodes[i.memory])

    def _start_computation(self, nodes: dict[UOp, UOp]) -> registry.Computation:
        """Register the computation of a call that writes the memory in `nodes` and that of held
        tensors, after computing its readers; `nodes` gets the latest versions.
        """
        from svod_tensor._realize import keep_values
        from svod_tensor.options import resolve_config

        held = self.assigned - {i.memory for i in self._inputs}
        overwritten = {*map(registry.get_latest_version, held), *nodes.values()}
        kept = None
        while True:
            with registry.lock:
                # Another call may have written the memory meanwhile, which invalidates these
                # BUFFERs.
                latest = {memory: registry.get_latest_version(memory) for memory in overwritten}
                if any(old is not new for old, new in latest.items()):
                    overwritten = set(latest.values())
                    _replace_values(nodes, latest)
                    continue
                # Write-after-read hazard: pending readers must be computed before this call writes.
                readers = overwriting.list_readers(overwritten)
                if not readers:
                    storages = [
                        memory_nodes.get_buffer(memory).storage_id for memory in overwritten
                    ]
                    computation = registry.start_computation(storages, storages, {})
                    if computation is not None:
                        if kept is not None:
                            _replace_values(
                                nodes,
                                overwriting.rebind_owners(overwritten, kept.values, kept.copies),
                            )
                        return computation
                    registry.wait_if_refused()
            if readers:
                # Without the lock, since it compiles and runs kernels; then the readers are listed
                # again.
                kept = keep_values(readers, resolve_config(None), kept)

    def _take(
        self,
        given: Sequence[Tensor | UOp],
        nodes: dict[UOp, UOp],
        donated: Sequence[tuple[Input, Donated]],
    ) -> None:
        """Take over donated memory; `nodes` gets a new BUFFER for it, and that of other inputs."""
        for i in self._inputs:
            if i.memory not in nodes and (node := i.find_memory(given)) is not None:
                nodes[i.memory] = node
        taken = [donation._replace(memory=nodes[i.memory]) for i, donation in donated]
        other_buffers = {
            i.argument: memory_nodes.get_buffer(nodes[i.memory])
            for i in self._inputs
            if not i.is_donated and i.memory in nodes
        }
        # Checked before anything is invalidated: after an error the caller's tensors are usable.
        check_distinct(self._name, taken, {**self._held, **other_buffers})
        invalidate_donated(taken, self._name)
        # Results own the donated memory, under new BUFFER nodes: the old ones are invalid.
        for (i, _), donation in zip(donated, taken, strict=True):
            nodes[i.memory] = memory_nodes.make_memory_like(donation.memory, donation.buffer)


def _replace_values(nodes: dict[UOp, UOp], new: Mapping[UOp, UOp]) -> None:
    for memory, node in nodes.items():
        nodes[memory] = new.get(node, node)


def _write_back(tensor: Tensor, node: UOp) -> None:
    """Write the memory of a copy that the plan wrote back to the tensor, if that is a view."""
    if (
        tensor.content.path
        and tensor.sharding is None
        and memory_nodes.find_base(tensor.uop) is not node
    ):
        tensor.assign(Tensor.from_uop(view_prefix(node, tensor.shape, tensor.dtype)))
