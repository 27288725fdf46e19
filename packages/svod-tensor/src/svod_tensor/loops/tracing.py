"""Running the body of a loop, or a branch, once on placeholders to find what it computes, and what
it assigns to.

Memory without a buffer stands for each value that changes from iteration to iteration. What the
body assigns to outside of it is such a value too: the tensor stands for a placeholder while the
body runs, and is given the result after the loop. That has to be known from the start, since the
body may have read the tensor before: a body that assigns runs once more."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from svod_dtype import UserError
from svod_ir import Op, ParamArg, UOp
from svod_ir.loops import make_parameter
from svod_ir.ops import MOVEMENT
from svod_tensor.cells import registry
from svod_tensor.cells.cell import Cell
from svod_tensor.cells.recording import Capture
from svod_tensor.cells.views import Path
from svod_tensor.engine import memory_nodes, versions
from svod_tensor.errors import TraceError
from svod_tensor.loops.closing import reads
from svod_tensor.options import DEFAULT_DEVICE
from svod_tensor.tensor import Tensor

__all__ = [
    "Mask",
    "Placeholder",
    "Trace",
    "count_loops",
    "list_known",
    "make_placeholder",
    "start_trace",
]


_numbers = itertools.count(1 << 32)


class Placeholder(NamedTuple):
    """What stands for a value while a body runs.

    Attributes:
        node: in the shape of the value.
        memories: the BUFFER that it is made of, or a PARAM where it is on no device; of a sharded
            one, those of its shards.
    """

    node: UOp
    memories: tuple[UOp, ...]


class Mask(NamedTuple):
    """A cell that was there before the body ran and that it writes to, what it was, and what it
    stands for meanwhile.
    """

    cell: Cell
    node: UOp
    is_owner: bool
    is_partly_written: bool
    placeholder: Placeholder


def make_placeholder(
    like: UOp, *, is_slice: bool = False, device: str | None = None
) -> Placeholder:
    """What stands for a value as `like`, or for one slice of it along its first axis.

    What comes from no memory is on `device`, or on none: then it is computed where what it meets
    is, and cannot be written."""
    form = make_parameter(like, 0, is_slice=is_slice)
    made = {
        param: _make_memory(param, param.arg.device or device)
        for param in sorted(form.iter_ops(Op.PARAM), key=lambda param: param.arg.slot)
    }
    # In the body sizes are written as outside of it.
    binds = {
        bind.symbol: bind
        for size in like.shape
        if isinstance(size, UOp)
        for bind in size.iter_ops(Op.BIND)
    }
    return Placeholder(form.substitute({**made, **binds}), tuple(made.values()))


def _make_memory(param: UOp, device: str | None) -> UOp:
    if device is not None:
        return memory_nodes.make_memory(param.dtype, param.arg.size, device)
    return UOp(Op.PARAM, param.dtype, (), ParamArg(next(_numbers), param.arg.size, None))


class Trace(Capture):
    """One run of a body.

    Attributes:
        masks: the cells that were there before and that it writes to, by id.
        has_missed: whether it wrote to one that did not stand for a placeholder from the start.
        counter: the name of the variable that counts iterations, if it is the body of a loop.
        drawn: the states of generators that it draws from, by id.
    """

    writes_memory = False

    def __init__(self, operation: str, function: str, counter: str | None) -> None:
        super().__init__(function)
        self.operation, self.counter = operation, counter
        self.masks: dict[int, Mask] = {}
        self.has_missed = False
        self.drawn: dict[int, Cell] = {}
        self._carried: dict[int, tuple[UOp, ...]] = {}

    def before_write(self, cell: Cell) -> None:
        if self.existed_before(cell) and id(cell) not in self.masks:
            self.mask(cell)
            self.has_missed = True

    def find_permission(self, cell: Cell, path: Path) -> bool | None:
        # What is replaced as a whole is another value; memory that the body makes is made anew by
        # each iteration.
        memories = self._carried.get(id(cell))
        return (
            bool(path and memories)
            and versions.is_memory(cell.node)
            and tuple(versions.iter_memories(cell.node)) == memories
        )

    def record_sampling(self, state: Cell) -> None:
        self.drawn[id(state)] = state

    def make_error(self, action: str) -> UserError:
        return TraceError(
            operation=self.operation,
            function=self.name,
            problem=f"it {action}, which are not known before the loop runs",
            hint=(
                "compute with tensors: x.where(a, b) or svod_tensor.cond choose by a value,"
                " svod_tensor.while_loop repeats by one"
            ),
        )

    def mask(self, cell: Cell) -> None:
        """Let `cell` stand for a placeholder until the end of the run; the caller holds
        `registry.lock`.
        """
        placeholder = make_placeholder(cell.node, device=DEFAULT_DEVICE)
        self.masks[id(cell)] = Mask(cell, cell.node, cell.owns, cell.is_partly_written, placeholder)
        cell.owns = False
        cell.set_node(placeholder.node)
        self.let_carry(cell, placeholder)

    def let_carry(self, cell: Cell, placeholder: Placeholder) -> None:
        """Let parts of `cell` be written where they are, if it is carried from iteration to
        iteration in one memory.
        """
        if self.counter is not None and len(placeholder.memories) == 1:
            self._carried[id(cell)] = placeholder.memories

    def restore(self) -> None:
        """Let what the body wrote to be as it was; the caller holds `registry.lock`."""
        for mask in self.masks.values():
            mask.cell.owns, mask.cell.is_partly_written = mask.is_owner, mask.is_partly_written
            mask.cell.set_node(mask.node)
        if self.masks and threading.active_count() > 1:
            # Another thread may have read one meanwhile.
            registry.replace_nodes(self.assigned)
            registry.replace_nodes(
                {mask.placeholder.node: mask.node for mask in self.masks.values()}
            )

    def check_leaks(self, memories: Iterable[UOp], kept: Sequence[Tensor]) -> None:
        """Raise if something that depends on the iteration lives on besides `kept`.

        Raises:
            TraceError: if something does.
        """
        sources, counters = set(memories), [] if self.counter is None else [self.counter]
        leaked = self.find_leak(
            [t.content for t in kept], lambda node: reads(node, sources, counters)
        )
        if leaked is None:
            self.drop_dependents(lambda node: reads(node, sources, counters))
            return
        raise TraceError(
            operation=self.operation,
            function=self.name,
            problem=(
                f"a tensor of shape {leaked.shape} that it computes is still held after it returned"
            ),
            hint="return the tensor, or assign it to one that was there before",
        )


def list_known() -> set[UOp]:
    """What is computed for tensors that are there now, without the movements that show it."""
    found: set[UOp] = set()
    with registry.lock:
        cells = [cell.node for cell in registry.iter_pending_cells()]
        capture = registry.find_capture()
        while capture is not None:
            cells += [one.node for one in capture.iter_created()]
            capture = capture.outer
    for node in cells:
        found.add(node.strip(MOVEMENT))
    return found


def count_loops() -> int:
    """How many loops this thread is inside of the bodies of, which it runs now."""
    capture, found = registry.find_capture(), 0
    while capture is not None:
        found += isinstance(capture, Trace) and capture.counter is not None
        capture = capture.outer
    return found


@contextmanager
def start_trace(trace: Trace, written: Mapping[int, Cell]) -> Generator[None]:
    """Let this thread run a body that is known to write to the cells `written`; at the end these
    are as they were.
    """
    with registry.lock:
        registry.wait_for_capture()
        registry.start_capture(trace)
        for cell in written.values():
            trace.mask(cell)
    try:
        yield
    finally:
        with registry.lock:
            registry.end_capture()
            trace.restore()
