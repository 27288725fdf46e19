"""What is going on while a function runs to find out what it computes: for `svod_tensor.jit`, or as
the body of a loop.

A capture belongs to the thread that runs the function, and there is one at a time, with others
inside: a loop in a captured function, a loop in the body of a loop. Meanwhile nothing can be
computed in that thread, and no other one writes. Each assignment is recorded, so that it becomes
part of the plan, and is taken back at the end: the calls of the plan do it."""

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
    """What one run of a function makes and writes.

    Attributes:
        writes_memory: whether what assignments write is memory, which must be read before they do;
            otherwise they make values.
        name: of the function.
        outer: the capture that this one is inside of.
        states: the last pending state of each BUFFER that was assigned to.
        assigned: every state that an assignment of it leads to, and the one before the first of
            them.
        made: the cells and views that the run made, by id.
        spent: the ids of those among them that are made of placeholders, which have no memory:
            nobody can compute them after the run.
        lacking: the cells that were there before this run and that it wrote to, but have no memory
            for what calls write; and what they held.
        moved: the cells that shared memory until the run wrote to them, and what they held: what
            the run read of them before is not where later calls find it.
        reads: the cells without memory that were there before this run and that it read, by id, and
            what they held first.
        dependencies: the Python values that it read with `depend_on`: a name, what reads it, and
            what it was.
    """

    writes_memory = True

    def __init__(self, name: str) -> None:
        self.name = name
        self.outer: Capture | None = None
        self.states: dict[UOp, UOp] = {}
        self.assigned: dict[UOp, UOp] = {}
        self.lacking: list[tuple[Cell, UOp]] = []
        self.moved: list[tuple[weakref.ref[Cell], UOp]] = []
        self.dependencies: list[tuple[str, Callable[[], object], object]] = []
        self.reads: dict[int, tuple[weakref.ref[Cell], UOp]] = {}
        self.made: dict[int, weakref.ref[Live]] = {}
        self.spent: set[int] = set()
        self._written: list[weakref.ref[Cell]] = []

    def is_known(self, cell: Cell) -> bool:
        """Whether `cell` was there before this run."""
        return id(cell) not in self.made

    def iter_made(self) -> Iterator[Live]:
        """The live cells and views that this run made."""
        return (one for ref in list(self.made.values()) if (one := ref()) is not None)

    def find_leak(self, kept: Iterable[Live], depends: Callable[[UOp], bool]) -> UOp | None:
        """What a cell or view that this run made stands for, if one lives on besides `kept` whose
        node depends on the run.
        """
        known = {id(one) for content in kept for one in (content, content.cell)}
        found = None
        for collect in (False, True):
            if collect:
                gc.collect()
            # A node alone: what is found must not live on for it.
            found = next(
                (
                    one.node
                    for one in self.iter_made()
                    if id(one) not in known and depends(one.node)
                ),
                None,
            )
            if found is None:
                break
        return found

    def forget(self, depends: Callable[[UOp], bool]) -> None:
        """Let what depends on placeholders be live for nobody after this run."""
        self.spent.update(id(one) for one in self.iter_made() if depends(one.node))

    def get_written(self) -> list[weakref.ref[Cell]]:
        """The cells that were there before this run and that it wrote to."""
        return [ref for ref in self._written if (cell := ref()) is not None and self.is_known(cell)]

    def prepare_write(self, cell: Cell) -> None:
        """See that `cell` is going to be written; the caller holds `registry.lock`."""

    def find_right(self, cell: Cell, path: Path) -> bool | None:
        """Whether writing to `cell` where `path` leads to changes memory; None where that depends
        on the memory alone.
        """
        return None

    def make_error(self, action: str) -> UserError:
        """What is raised for something that is impossible meanwhile."""
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
        """Remember what `cell`, which was there before this run, held when it was first read."""
        if id(cell) not in self.reads:
            self.reads[id(cell)] = weakref.ref(cell), cell.node

    def record_write(self, cell: Cell) -> None:
        """Remember that `cell` is written."""
        self._written.append(weakref.ref(cell))

    def record_draw(self, state: Cell) -> None:
        """Remember that the generator with this state was drawn from."""

    def record_state(self, state: UOp, before: UOp) -> None:
        """Remember an assignment, which leads from one state of a BUFFER to another."""
        self.states[state.source] = state
        self.assigned[state] = self.assigned.get(before, before)
