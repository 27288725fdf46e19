"""Record of a capture: reads and writes of a function that runs to be traced, for `svod_tensor.jit`
or as the body of a loop.

A capture belongs to the thread that runs the function. One capture runs at a time, with others
nested in it: a loop in a captured function, a loop in the body of a loop. Meanwhile this thread can
compute nothing, and no other thread writes. Each assignment is recorded, so that it becomes part of
the plan, and is undone at the end: the calls of the plan do it."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from svod_dtype import UserError
from svod_tensor.errors import CaptureError

if TYPE_CHECKING:
    from svod_ir import UOp
    from svod_tensor.cells.cell import Cell, Live
    from svod_tensor.cells.views import Path

__all__ = ["Capture"]


class Capture:
    """Tensors that one run of a function creates, reads and writes.

    Attributes:
        writes_memory: whether assignments write memory, which must be read before it is
            overwritten; otherwise they make values.
        name: name of the function.
        outer: the capture that this one is nested in.
        last_versions: the last pending version of each BUFFER that was assigned to.
        assigned: each version that the run's writes created, and the version before the first of
            these writes.
        created: the cells and views that the run created, by id.
        dead: the ids of created cells and views that depend on placeholders, which have no memory:
            they cannot be computed after the run.
        without_memory: existing cells that the run wrote to although they have no memory for later
            calls to write, and their nodes before.
        unshared: cells that shared memory until the run wrote to them, and their nodes before:
            later calls find them in other memory than the run read.
        reads: existing cells without memory that the run read, by id, and their nodes at the first
            read.
        dependencies: the Python values that the run read with `depend_on`: name, reader and value.
    """

    writes_memory = True

    def __init__(self, name: str) -> None:
        self.name = name
        self.outer: Capture | None = None
        self.last_versions: dict[UOp, UOp] = {}
        self.assigned: dict[UOp, UOp] = {}
        self.without_memory: list[tuple[Cell, UOp]] = []
        self.unshared: list[tuple[weakref.ref[Cell], UOp]] = []
        self.dependencies: list[tuple[str, Callable[[], object], object]] = []
        self.reads: dict[int, tuple[weakref.ref[Cell], UOp]] = {}
        self.created: dict[int, weakref.ref[Live]] = {}
        self.dead: set[int] = set()
        # Weak: a temporary that the function writes must not look like a leaked tensor.
        self._written: list[weakref.ref[Cell]] = []

    def existed_before(self, cell: Cell) -> bool:
        """Whether `cell` existed before this run."""
        return id(cell) not in self.created

    def iter_created(self) -> Iterator[Live]:
        """The live cells and views that this run created."""
        return (tensor for ref in list(self.created.values()) if (tensor := ref()) is not None)

    def find_leak(self, kept: Iterable[Live], depends: Callable[[UOp], bool]) -> UOp | None:
        """The node of a cell or view that this run created, that depends on it, and that outlives
        it besides `kept`; or None.
        """
        known = {id(tensor) for root in kept for tensor in (root, root.cell)}
        leaked = None
        # Reference cycles, such as an exception with its traceback, may keep tensors alive until a
        # garbage collection. It walks all objects of the process, so it runs only when something
        # seems to leak.
        for collect in (False, True):
            if collect:
                gc.collect()
            # Keep the node, not the tensor: the search must not keep a tensor alive.
            leaked = next(
                (
                    tensor.node
                    for tensor in self.iter_created()
                    if id(tensor) not in known and depends(tensor.node)
                ),
                None,
            )
            if leaked is None:
                break
        return leaked

    def drop_dependents(self, depends: Callable[[UOp], bool]) -> None:
        """Exclude created tensors that depend on placeholders from the live tensors after this run."""
        self.dead.update(id(tensor) for tensor in self.iter_created() if depends(tensor.node))

    def get_written(self) -> list[weakref.ref[Cell]]:
        """The cells that existed before this run and that it wrote to."""
        return [
            ref
            for ref in self._written
            if (cell := ref()) is not None and self.existed_before(cell)
        ]

    def before_write(self, cell: Cell) -> None:
        """Hook before `cell` is written; the caller holds `registry.lock`."""

    def find_permission(self, cell: Cell, path: Path) -> bool | None:
        """Whether writing to `path` of `cell` changes memory; None where that depends only on the
        memory.
        """
        return None

    def make_error(self, action: str) -> UserError:
        """The error for an operation that is impossible during a capture."""
        return CaptureError(
            function=self.name,
            problem=f"it {action} while it is captured",
            hint=(
                "compute with tensors instead, as with x.where(...), or move this out of the"
                " function; a number of numpy that it is called with is a tensor: pass int(n) where"
                " it is a size or a position"
            ),
        )

    def record_read(self, cell: Cell) -> None:
        """Record the node that `cell`, which existed before this run, had at the first read."""
        # Only the first node: a later one may contain writes of this run, which are undone.
        if id(cell) not in self.reads:
            self.reads[id(cell)] = weakref.ref(cell), cell.node

    def record_write(self, cell: Cell) -> None:
        """Record that the traced function writes `cell`, in the order of the writes."""
        self._written.append(weakref.ref(cell))

    def record_sampling(self, state: Cell) -> None:
        """Record that the generator with this state was sampled from."""

    def record_version(self, version: UOp, before: UOp) -> None:
        """Record a write, which leads from one version of a BUFFER to another."""
        self.last_versions[version.source] = version
        # Flat, not a chain: each version maps to the node before the first write, to which it is
        # undone.
        self.assigned[version] = self.assigned.get(before, before)
