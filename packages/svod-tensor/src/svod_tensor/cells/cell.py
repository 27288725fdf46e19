"""Cells and views: the storage that a tensor reads and writes.

A tensor is a cell or a view of one. A cell is the variable behind SSA values: nodes never change,
and a write makes another node the value of one cell. Cells with the same node or the same memory
share it until one of them is written; memory is written only through the cell that owns it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Self, TypeAlias
from weakref import ref

from svod_dtype import DType
from svod_ir import Op, Sharding, UOp
from svod_ir.sizes import unbind
from svod_tensor._scopes import skip_line
from svod_tensor._shapes import Shape
from svod_tensor.cells import tables
from svod_tensor.cells.loans import Loan
from svod_tensor.cells.tables import count_new
from svod_tensor.cells.views import Path, Reshape, Step, apply_path, is_reshape_a_view, is_symbolic
from svod_tensor.engine import memory_nodes, versions
from svod_tensor.errors import DonatedTensorError
from svod_tensor.options import DEFAULT_DEVICE

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from svod_device import Buffer

__all__ = ["Cell", "Element", "Live", "TensorSpec", "View", "find_result_spec", "get_spec"]

_RESHAPE, _BUFFER, _AS_COMPLEX = Op.RESHAPE, Op.BUFFER, Op.AS_COMPLEX

TensorSpec: TypeAlias = tuple[Shape, DType, Sharding | str]
"""Shape of a tensor, with variables but without their values, its dtype, and its device or
sharding.
"""


def get_spec(node: UOp) -> TensorSpec:
    """The spec of the tensor whose value is `node`."""
    shape = tuple([s if isinstance(s, int) else unbind(s) for s in node.shape])
    return shape, node.dtype, node.placement or DEFAULT_DEVICE


class Cell:
    """Storage cell: a variable that holds the node of its present value.

    Attributes:
        node: the present value.
        memory: the buffer with the value, as long as no caller has asked for the node, or while the
            buffer is lent to an array; None otherwise.
        owns: whether the cell may write to the memory that `node` is; another cell or an array owns
            it otherwise.
        known_spec: the spec, once it was computed.
        is_partly_written: whether elements were assigned while the cell had no memory.
        is_assigned_in_place: whether its memory was assigned to. A plan may assign to it again
            without a search for readers of the memory.
        is_donated: whether another function has taken over the memory, after which every use
            raises.
    """

    __slots__ = (
        "__weakref__",
        "_donation",
        "_make_node",
        "is_assigned_in_place",
        "is_donated",
        "is_partly_written",
        "known_spec",
        "memory",
        "node",
        "owns",
    )

    node: UOp
    memory: Buffer | None
    _donation: tuple[str, str]
    _make_node: Callable[[Buffer], UOp]

    def __init__(self, node: UOp, spec: TensorSpec | None = None, *, owns: bool = False) -> None:
        self.node, self.known_spec, self.owns, self.is_partly_written, self.is_donated = (
            node,
            spec,
            owns,
            False,
            False,
        )
        self.memory, self.is_assigned_in_place = None, False
        tables.add(self)
        # Only a comparison for most cells: `growth` chooses the count at which graphs are walked
        # next.
        if count_new() >= tables.next_check:
            tables.check_growth(self)

    @classmethod
    def on(cls, memory: Buffer, make_node: Callable[[Buffer], UOp], spec: TensorSpec) -> Self:
        """A cell on memory that was allocated for it.

        It is not in the table of live cells and has no node until a caller asks for the node: most
        results of a chain of calls are only passed to the next call."""
        self = object.__new__(cls)
        self.known_spec, self.owns, self.is_partly_written, self.is_donated = (
            spec,
            True,
            False,
            False,
        )
        self.is_assigned_in_place = False
        self.memory, self._make_node = memory, make_node
        return self

    def set_memory(self, memory: Buffer, make_node: Callable[[Buffer], UOp]) -> None:
        """Bind the cell to memory that was allocated for it and has its value; the caller holds
        `registry.lock`.
        """
        # Deleted last: a thread that reads `node` meanwhile gets the previous node or waits for the
        # lock.
        self.owns, self.is_partly_written = True, False
        self.memory, self._make_node = memory, make_node
        del self.node

    def lend(self, array: NDArray[np.generic]) -> None:
        """Lend the memory of this cell, which has no other reader, to `array`; the caller holds
        `registry.lock`.

        The program may write the array at any time, so the node of the cell reads a snapshot of the
        memory as long as the array lives."""
        if self.memory is None:
            home = self.node
            base = memory_nodes.find_base(home)
            memory = None if base is None else memory_nodes.find_buffer(base)
            assert memory is not None, home
            self.known_spec = self.spec
            # Lent cells are not in the live table: no graph reads their memory, so no node goes
            # stale.
            tables.remove(self)
            self.memory, self._make_node = memory, Loan(array, home)
            del self.node
        elif isinstance(self._make_node, Loan):
            self._make_node.rebind(array)
        else:
            self._make_node = Loan(array, None, self._make_node)

    @property
    def is_lent(self) -> bool:
        """True if the memory is lent to an array, or was when it was last checked."""
        return self.memory is not None and isinstance(self._make_node, Loan)

    def find_array(self) -> NDArray[np.generic] | None:
        """The array that the memory is lent to, if it is alive."""
        if self.memory is not None and isinstance(loan := self._make_node, Loan):
            return loan.find_array()
        return None

    def end_loan(self) -> None:
        """Leave lent memory to its array: from now on this cell holds a copy."""
        if self.is_lent:
            with tables.lock:
                self.set_node(self.node)

    @property
    def cell(self) -> Cell:
        """This cell itself; for a view, the cell that it is a view of."""
        return self

    @property
    def path(self) -> Path:
        """The empty path: a cell is not a view."""
        return ()

    @property
    def spec(self) -> TensorSpec:
        """Shape, dtype and placement without the values of variables; equal for all tensors that
        one plan serves.
        """
        spec = self.known_spec
        if spec is None:
            spec = self.known_spec = get_spec(self.node)
        return spec

    @property
    def has_memory(self) -> bool:
        """True if the value is in memory, of this cell or of another one, and needs no computation."""
        return self.memory is not None or memory_nodes.is_buffer_identity(self.node)

    @property
    def is_realized(self) -> bool:
        """True if the value is in memory that this cell owns."""
        return self.memory is not None or (self.owns and memory_nodes.is_buffer_identity(self.node))

    def find_memory(self) -> Buffer | None:
        """The buffer that this cell owns, if the value is all of it in some shape."""
        memory = self.memory
        if memory is not None or not self.owns:
            return memory
        node = self.node
        while node.op is _RESHAPE or node.op is _AS_COMPLEX:
            node = node.source
        return memory_nodes.find_buffer(node) if node.op is _BUFFER else None

    def along(self, steps: Iterable[Step]) -> Cell | View:
        """The view along `steps`. Where numpy would copy, the copy is a new cell."""
        return _follow(self, (), self.node, self.node, steps)

    def set_node(self, node: UOp) -> None:
        """Set the node; the caller holds `registry.lock`."""
        self.node, self.known_spec = node, None
        if self.memory is not None:
            # The array keeps the memory: a new write id makes plans that read it check their
            # inputs.
            self.memory = None
            tables.add_realized(self)
            tables.take_write_id()
        tables.mark_pending(self)

    def adopt(self, old: UOp, new: UOp) -> None:
        """Set the node to `new`, memory that was allocated for this cell and has the value of
        `old`, unless the cell has another node by now.
        """
        with tables.lock:
            if not self.is_donated and self.node is old:
                # Traced memory is never written in place: the derivative needs its present version.
                self.owns, self.is_partly_written = new.op is not Op.TRACED, False
                self.set_node(new)

    def follow(self, new_of: Mapping[UOp, UOp]) -> None:
        """Do nothing: cells are given new nodes directly, only views must be refreshed."""

    def take_unshared_memory(self, argument: str, taker: str) -> bool:
        """Mark this cell as donated if it has memory without a node, which no other cell or graph
        can know.

        Returns:
            whether it has such memory; nothing is done otherwise.
        """
        with tables.lock:
            if self.memory is None or self.is_lent:
                return False
            self._donation = argument, taker
            self.known_spec, self.is_donated, self.memory = None, True, None
            return True

    def mark_donated(self, argument: str, taker: str) -> None:
        """Refuse every further use: `taker` has taken the memory, as its argument `argument`."""
        tables.remove(self)
        self._donation = argument, taker
        self.known_spec, self.is_donated = None, True
        del self.node

    def _make_own_node(self) -> UOp:
        """Make the node of a cell that has none yet, the same for all threads; of lent memory, a
        node on a snapshot.
        """
        with tables.lock:
            if self.memory is not None:
                make_node = self._make_node
                if isinstance(make_node, Loan) and make_node.find_array() is not None:
                    snapshot = make_node.get_snapshot(self.memory)
                    skip_line(snapshot)
                    return snapshot
                node = make_node(self.memory)
                # The node results from a call, not from an operation on this source line.
                skip_line(node)
                self.node, self.memory = node, None
                tables.add_realized(self)
            return object.__getattribute__(self, "node")

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            # Called only for missing attributes; a donated cell has no node.
            if name == "node":
                if self.is_donated:
                    raise DonatedTensorError(argument=self._donation[0], taker=self._donation[1])
                return self._make_own_node()
            raise AttributeError(
                f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self
            )


class Element(Cell):
    """Value of one element of another cell, which it keeps when that cell is written."""

    __slots__ = ("_path", "_seen", "_source")

    _path: Path
    # Node of the source cell when the element was selected, and node of the element.
    _seen: tuple[UOp, UOp]
    # Weak: an element is a value of its own and must not keep the array's cell among the live
    # cells.
    _source: ref[Cell]

    def __init__(self, source: Live, steps: Path) -> None:
        node = apply_path(steps, source.node)
        self._path, self._source, self._seen = (
            (*source.path, *steps),
            ref(source.cell),
            (source.cell.node, node),
        )
        super().__init__(node)

    def find_source(self) -> tuple[Cell, Path] | None:
        """The source cell and the path to the element, if the source is memory that still holds the
        element's value.
        """
        cell = self._source()
        if cell is None or cell.is_donated or is_symbolic(self._path):
            return None
        base, node = cell.node, self.node
        if (self._seen[0] is not base or self._seen[1] is not node) and apply_path(
            self._path, base
        ) is not node:
            return None
        return (cell, self._path) if versions.is_memory(base) else None


def find_result_spec(tensor: Live) -> TensorSpec | None:
    """The spec of a cell without a node, if it contains no variable; avoids making the node."""
    if not isinstance(tensor, Cell) or tensor.memory is None:
        return None
    spec = tensor.known_spec
    if spec is None:
        return None
    for size in spec[0]:
        if size.__class__ is not int:
            return None
    return spec


class View:
    """View of a cell: part of its elements, or all of them in another order.

    Attributes:
        cell: the cell.
        path: movement steps from the cell to the view.
    """

    __slots__ = ("__weakref__", "_has_memory", "_seen", "cell", "path")

    # Node of the cell at the last access, and the node of the view, valid while the cell keeps that
    # node. If the cell has no memory, the view may have memory of its own.
    _seen: tuple[UOp, UOp]
    _has_memory: bool

    def __init__(self, cell: Cell, path: Path, base: UOp, node: UOp) -> None:
        self.cell, self.path, self._seen, self._has_memory = cell, path, (base, node), False
        tables.add(self)

    @property
    def node(self) -> UOp:
        """Node of the view's present value."""
        seen = self._seen
        return seen[1] if seen[0] is self.cell.node else self._refresh()[1]

    def _refresh(self) -> tuple[UOp, UOp]:
        base = self.cell.node
        seen = base, apply_path(self.path, base)
        self._seen, self._has_memory = seen, False
        return seen

    @property
    def spec(self) -> TensorSpec:
        """Shape, dtype and placement without the values of variables; equal for all tensors that
        one plan serves.
        """
        return get_spec(self.node)

    @property
    def is_realized(self) -> bool:
        """True if this is a view of memory that its cell owns, or has memory of its own."""
        return self.cell.is_realized or (self._has_memory and self._seen[0] is self.cell.node)

    def along(self, steps: Iterable[Step]) -> Cell | View:
        """The view along further `steps`. Where numpy would copy, the copy is a new cell."""
        seen = self._seen
        # Nodes are immutable, so the identity of the cell's node tells whether the view is up to
        # date.
        base, node = seen if seen[0] is self.cell.node else self._refresh()
        return _follow(self.cell, self.path, base, node, steps)

    def set_node(self, node: UOp) -> None:
        """Set the node of this view until the cell gets another node; the caller holds
        `registry.lock`.
        """
        self._seen, self._has_memory = (self.cell.node, node), False
        tables.mark_pending(self)

    def adopt(self, old: UOp, new: UOp) -> None:
        """Read from `new`, memory with the value of `old`, unless this view has another node by
        now.

        A view keeps such memory until its cell is written or gets memory. If the cell is memory,
        the view is derived from the cell alone, unless its bounds depend on a variable."""
        with tables.lock:
            cell = self.cell
            if (
                not cell.is_donated
                and self.node is old
                and (not cell.is_realized or is_symbolic(self.path))
            ):
                self._seen, self._has_memory = (cell.node, new), True

    def follow(self, new_of: Mapping[UOp, UOp]) -> tuple[UOp, UOp] | None:
        """Recompute the node of this view after its cell got another node.

        Args:
            new_of: the equivalent new node of each replaced node.

        Returns:
            the previous and the present node of the view, if their values are equal.
        """
        (seen, node), base = self._seen, self.cell.node
        if seen is base:
            return None
        is_equal = new_of.get(seen) is base
        # The view drops memory of its own once the cell has memory, so that both alias again.
        self._has_memory = self._has_memory and is_equal and not self.cell.has_memory
        new = node if self._has_memory else apply_path(self.path, base)
        self._seen = base, new
        return (node, new) if is_equal else None


def _follow(cell: Cell, path: Path, base: UOp, node: UOp, steps: Iterable[Step]) -> Cell | View:
    for step in steps:
        new = step.apply(node)
        if (
            path
            and step.__class__ is Reshape
            and not is_reshape_a_view(path, base.shape, node.shape, new.shape)
        ):
            cell, path, base = Cell(new), (), new
        else:
            path = (*path, step)
        node = new
    return View(cell, path, base, node) if path else cell


Live: TypeAlias = Cell | View
"""Content of a live tensor, as `registry.iter_live` lists it."""
