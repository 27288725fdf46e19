"""Tracing of the body of a loop or a branch: one run on placeholders finds its results and its
assignments.

Each value that changes from iteration to iteration is a placeholder, memory without a buffer. A
tensor outside of the body that the body assigns to becomes a carry: it is bound to a placeholder
while the body runs, and to the result after the loop. The body may have read the tensor before it
assigns to it, so that a body that assigns is traced a second time, with the placeholder from the
start."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from svod_dtype import UserError
from svod_ir import Op, ParamArg, Sharding, UOp
from svod_ir.loops import make_parameter
from svod_ir.ops import MOVEMENT
from svod_tensor.cells import registry
from svod_tensor.cells.cell import Cell
from svod_tensor.cells.recording import Capture
from svod_tensor.cells.views import Path
from svod_tensor.engine import memory_nodes, versions
from svod_tensor.errors import TraceError
from svod_tensor.loops.closing import depends_on
from svod_tensor.options import DEFAULT_DEVICE
from svod_tensor.tensor import Tensor

__all__ = [
    "Placeholder",
    "Redirection",
    "Trace",
    "count_loops",
    "list_live_nodes",
    "make_placeholder",
    "start_trace",
]


# Above every slot of a real parameter, so that placeholders without a device never equal one.
_placeholder_slots = itertools.count(1 << 32)


class Placeholder(NamedTuple):
    """Symbolic value of a loop body or a branch while it is traced.

    Attributes:
        node: the value, in the shape of the operand.
        memories: the BUFFER behind the value, or a PARAM if it is on no device; one for each shard
            of a sharded value.
    """

    node: UOp
    memories: tuple[UOp, ...]


class Redirection(NamedTuple):
    """A cell from outside of the body that the body writes to, with its version before the body ran,
    and the placeholder that it is bound to during the trace.
    """

    cell: Cell
    node: UOp
    is_owner: bool
    is_partly_written: bool
    placeholder: Placeholder


def make_placeholder(
    like: UOp, *, is_slice: bool = False, device: str | None = None
) -> Placeholder:
    """Placeholder with the shape and dtype of `like`, or of one slice of it along its first axis.

    A value without memory is on `device`. If that is None, it follows the device of its operands,
    and cannot be written."""
    parameter = make_parameter(like, 0, is_slice=is_slice)
    buffers = {
        param: _make_memory(param, param.arg.device or device)
        for param in sorted(parameter.iter_ops(Op.PARAM), key=lambda param: param.arg.slot)
    }
    # `make_parameter` has unbound variables in shapes; the body must have the shapes of outside.
    binds = {
        bind.symbol: bind
        for size in like.shape
        if isinstance(size, UOp)
        for bind in size.iter_ops(Op.BIND)
    }
    return Placeholder(parameter.substitute({**buffers, **binds}), tuple(buffers.values()))


def _make_memory(param: UOp, device: str | None) -> UOp:
    if device is not None:
        return memory_nodes.make_memory(param.dtype, param.arg.size, device)
    return UOp(Op.PARAM, param.dtype, (), ParamArg(next(_placeholder_slots), param.arg.size, None))


class Trace(Capture):
    """One trace of a body.

    Attributes:
        redirections: the outer cells that the body writes to, by id.
        has_new_writes: True if it wrote to an outer cell that was not redirected from the start.
        counter: the name of the loop counter; None for a branch.
        generators: the states of generators that it samples from, by id.
    """

    writes_memory = False

    def __init__(self, operation: str, function: str, counter: str | None) -> None:
        super().__init__(function)
        self.operation, self.counter = operation, counter
        self.redirections: dict[int, Redirection] = {}
        self.has_new_writes = False
        self.generators: dict[int, Cell] = {}
        self._carried: dict[int, tuple[UOp, ...]] = {}

    def before_write(self, cell: Cell) -> None:
        if self.existed_before(cell) and id(cell) not in self.redirections:
            self.redirect(cell)
            self.has_new_writes = True

    def find_permission(self, cell: Cell, path: Path) -> bool | None:
        # An assignment to a whole tensor rebinds it. Memory that the body allocates is new in each
        # iteration. Only a slice of a carry is written in place.
        memories = self._carried.get(id(cell))
        return (
            bool(path and memories)
            and versions.is_memory(cell.node)
            and tuple(versions.iter_memories(cell.node)) == memories
        )

    def record_sampling(self, state: Cell) -> None:
        self.generators[id(state)] = state

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

    def redirect(self, cell: Cell) -> None:
        """Bind `cell` to a placeholder until the end of the trace.

        The caller holds `registry.lock`.
        """
        placeholder = make_placeholder(cell.node, device=DEFAULT_DEVICE)
        self.redirections[id(cell)] = Redirection(
            cell, cell.node, cell.owns, cell.is_partly_written, placeholder
        )
        # Writes then make values: a placeholder is memory of the loop, not of the cell.
        cell.owns = False
        cell.set_node(placeholder.node)
        self.allow_in_place_writes(cell, placeholder)

    def allow_in_place_writes(self, cell: Cell, placeholder: Placeholder) -> None:
        """Allow writes to slices of `cell` in place, if it is a carry of a loop in one memory."""
        is_sharded = isinstance(placeholder.node.placement, Sharding)
        if self.counter is not None and not is_sharded:
            self._carried[id(cell)] = placeholder.memories

    def restore(self) -> None:
        """Bind the redirected cells to their versions before the trace.

        The caller holds `registry.lock`.
        """
        for redirection in self.redirections.values():
            redirection.cell.owns, redirection.cell.is_partly_written = (
                redirection.is_owner,
                redirection.is_partly_written,
            )
            redirection.cell.set_node(redirection.node)
        # This walks all live tensors, so it is left out if there is no other thread.
        if self.redirections and threading.active_count() > 1:
            # Another thread may have built nodes from a placeholder meanwhile.
            registry.replace_nodes(self.assigned)
            registry.replace_nodes(
                {
                    redirection.placeholder.node: redirection.node
                    for redirection in self.redirections.values()
                }
            )

    def check_leaks(self, memories: Iterable[UOp], kept: Sequence[Tensor]) -> None:
        """Check that no tensor that depends on the iteration outlives the body, except `kept`.

        Raises:
            TraceError: if a tensor does.
        """
        sources, counters = set(memories), [] if self.counter is None else [self.counter]
        leaked = self.find_leak(
            [t.content for t in kept], lambda node: depends_on(node, sources, counters)
        )
        if leaked is None:
            self.drop_dependents(lambda node: depends_on(node, sources, counters))
            return
        raise TraceError(
            operation=self.operation,
            function=self.name,
            problem=(
                f"a tensor of shape {leaked.shape} that it computes is still held after it returned"
            ),
            hint="return the tensor, or assign it to a tensor from outside of the body",
        )


def list_live_nodes() -> set[UOp]:
    """Nodes of the live tensors, without views."""
    live: set[UOp] = set()
    with registry.lock:
        cells = [cell.node for cell in registry.iter_pending_cells()]
        capture = registry.find_capture()
        while capture is not None:
            cells += [created.node for created in capture.iter_created()]
            capture = capture.outer
    for node in cells:
        # A view needs no computation of its own: hoisting the viewed value suffices.
        live.add(node.strip(MOVEMENT))
    return live


def count_loops() -> int:
    """Number of nested loop bodies that this thread traces now."""
    capture, depth = registry.find_capture(), 0
    while capture is not None:
        depth += isinstance(capture, Trace) and capture.counter is not None
        capture = capture.outer
    return depth


@contextmanager
def start_trace(trace: Trace, written: Mapping[int, Cell]) -> Generator[None]:
    """Trace a body in this thread.

    The cells `written`, which the body is known to write to, are redirected from the start, and
    restored at the end.
    """
    with registry.lock:
        registry.wait_for_capture()
        registry.start_capture(trace)
        for cell in written.values():
            trace.redirect(cell)
    try:
        yield
    finally:
        with registry.lock:
            registry.end_capture()
            trace.restore()
