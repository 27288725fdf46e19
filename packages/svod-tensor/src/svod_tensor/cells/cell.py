"""What a tensor reads and writes: a cell holds the node of a content, and a tensor is a cell or a
view of one.

A node is a value and never changes; a write puts another node into one cell. Cells whose nodes are
the same node, or the same memory, share it until one of them is written, and only the one that owns
memory is ever written there."""

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
from svod_tensor.engine import memory_nodes, states
from svod_tensor.errors import DonatedTensorError
from svod_tensor.options import DEFAULT_DEVICE

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from svod_device import Buffer

__all__ = ["Cell", "Element", "Form", "Live", "View", "find_result_form", "get_form"]

_RESHAPE, _BUFFER, _AS_COMPLEX = Op.RESHAPE, Op.BUFFER, Op.AS_COMPLEX

Form: TypeAlias = tuple[Shape, DType, Sharding | str]
"""The shape of a tensor, with variables but not with their values, its dtype, and where it is or
will be.
"""


def get_form(node: UOp) -> Form:
    """The form of the tensor that stands for `node`."""
    shape = tuple([s if isinstance(s, int) else unbind(s) for s in node.shape])
    return shape, node.dtype, node.placement or DEFAULT_DEVICE


class Cell:
    """A content that can be written.

    Attributes:
        node: what it is now.
        memory: what it is on, as long as nobody asked for the node, which is made then, or as it is
            lent to an array; None afterwards, and in other cells.
        owns: whether the memory that `node` is, if it is memory, is this cell's own to write to.
        known_form: its form, once somebody asked for it.
        is_patched: whether parts were written while it had no memory.
        is_rewritten: whether its memory was assigned to: a plan may do so again, without asking who
            reads the memory.
        is_given_away: whether its memory is something else's now, and it itself of no use.
    """

    __slots__ = (
        "__weakref__",
        "_donation",
        "_make_node",
        "is_given_away",
        "is_patched",
        "is_rewritten",
        "known_form",
        "memory",
        "node",
        "owns",
    )

    node: UOp
    memory: Buffer | None
    _donation: tuple[str, str]
    _make_node: Callable[[Buffer], UOp]

    def __init__(self, node: UOp, form: Form | None = None, *, owns: bool = False) -> None:
        self.node, self.known_form, self.owns, self.is_patched, self.is_given_away = (
            node,
            form,
            owns,
            False,
            False,
        )
        self.memory, self.is_rewritten = None, False
        tables.add(self)
        if count_new() >= tables.next_look:
            tables.look(self)

    @classmethod
    def on(cls, memory: Buffer, make_node: Callable[[Buffer], UOp], form: Form) -> Self:
        """A cell on memory that was made for it.

        It has a node, and is one of the live cells, once somebody asks: most results of a chain of
        calls are only given to the next call."""
        self = object.__new__(cls)
        self.known_form, self.owns, self.is_patched, self.is_given_away = form, True, False, False
        self.is_rewritten = False
        self.memory, self._make_node = memory, make_node
        return self

    def settle_on(self, memory: Buffer, make_node: Callable[[Buffer], UOp]) -> None:
        """Be memory that was made for this cell and has its value; the caller holds
        `registry.lock`.
        """
        # Who looks meanwhile finds the node of before, or waits for the lock.
        self.owns, self.is_patched = True, False
        self.memory, self._make_node = memory, make_node
        del self.node

    def lend(self, array: NDArray[np.generic]) -> None:
        """Let `array` show the memory of this cell, which nobody else knows; the caller holds
        `registry.lock`.

        As long as it lives, it may be written at any time, and the node is one on a copy of the
        memory as it is then."""
        if self.memory is None:
            home = self.node
            base = memory_nodes.find_base(home)
            memory = None if base is None else memory_nodes.find_buffer(base)
            assert memory is not None, home
            self.known_form = self.form
            # What is lent is not among the live cells: nobody has to follow it.
            tables.remove(self)
            self.memory, self._make_node = memory, Loan(array, home)
            del self.node
        elif isinstance(self._make_node, Loan):
            self._make_node.renew(array)
        else:
            self._make_node = Loan(array, None, self._make_node)

    @property
    def is_lent(self) -> bool:
        """Whether its memory is, or was when somebody last looked, lent to an array."""
        return self.memory is not None and isinstance(self._make_node, Loan)

    def find_array(self) -> NDArray[np.generic] | None:
        """The array that the memory is lent to, if it is alive."""
        if self.memory is not None and isinstance(loan := self._make_node, Loan):
            return loan.find_array()
        return None

    def end_loan(self) -> None:
        """Leave memory that is lent to the array that shows it: this cell is a copy from now on."""
        if self.is_lent:
            with tables.lock:
                self.set_node(self.node)

    @property
    def cell(self) -> Cell:
        """This cell, as the cell of a view is what it is a view of."""
        return self

    @property
    def path(self) -> Path:
        """Nothing: a cell is no view."""
        return ()

    @property
    def form(self) -> Form:
        """What is known without memory and without the values of variables; equal for what one plan
        serves.
        """
        found = self.known_form
        if found is None:
            found = self.known_form = get_form(self.node)
        return found

    @property
    def is_settled(self) -> bool:
        """Whether the content is memory, its own or that of another cell, and nothing is left to
        compute.
        """
        return self.memory is not None or memory_nodes.is_buffer_identity(self.node)

    @property
    def is_realized(self) -> bool:
        """Whether the content is in memory of its own."""
        return self.memory is not None or (self.owns and memory_nodes.is_buffer_identity(self.node))

    def find_memory(self) -> Buffer | None:
        """The memory that this is all of, under any shape, if it is its own."""
        memory = self.memory
        if memory is not None or not self.owns:
            return memory
        node = self.node
        while node.op is _RESHAPE or node.op is _AS_COMPLEX:
            node = node.source
        return memory_nodes.find_buffer(node) if node.op is _BUFFER else None

    def along(self, steps: Iterable[Step]) -> Cell | View:
        """What is seen along `steps`; what numpy would copy on the way is a cell of its own."""
        return _follow(self, (), self.node, self.node, steps)

    def set_node(self, node: UOp) -> None:
        """Hold another node; the caller holds `registry.lock`."""
        self.node, self.known_form = node, None
        if self.memory is not None:
            # Plans that read the memory, which is an array's now, must know.
            self.memory = None
            tables.add_settled(self)
            tables.take_number()
        tables.note_new_node(self)

    def adopt(self, old: UOp, new: UOp) -> None:
        """Hold `new`, memory that was made for this cell and has the value of `old`, unless it
        holds something else by now.
        """
        with tables.lock:
            if not self.is_given_away and self.node is old:
                # What is marked is not written in place: the content before has a derivative.
                self.owns, self.is_patched = new.op is not Op.TRACED, False
                self.set_node(new)

    def follow(self, new_of: Mapping[UOp, UOp]) -> None:
        """Cells are given other nodes; their views follow."""

    def take_memory(self, argument: str, taker: str) -> bool:
        """`give_away` for memory that nobody asked for the node of, so that nobody else knows it;
        whether it is that.
        """
        with tables.lock:
            if self.memory is None or self.is_lent:
                return False
            self._donation = argument, taker
            self.known_form, self.is_given_away, self.memory = None, True, None
            return True

    def give_away(self, argument: str, taker: str) -> None:
        """Refuse every further use: `taker` took the memory, as `argument`."""
        tables.remove(self)
        self._donation = argument, taker
        self.known_form, self.is_given_away = None, True
        del self.node

    def _settle(self) -> UOp:
        """The node of a cell that has none yet, the same for all threads; a node on a copy of
        memory that is lent.
        """
        with tables.lock:
            if self.memory is not None:
                make_node = self._make_node
                if isinstance(make_node, Loan) and make_node.find_array() is not None:
                    snapshot = make_node.get_snapshot(self.memory)
                    skip_line(snapshot)
                    return snapshot
                node = make_node(self.memory)
                # A call made it, and no line of the program.
                skip_line(node)
                self.node, self.memory = node, None
                tables.add_settled(self)
            return object.__getattribute__(self, "node")

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            # Comes here for what is not there; a cell that was given away has no node.
            if name == "node":
                if self.is_given_away:
                    raise DonatedTensorError(argument=self._donation[0], taker=self._donation[1])
                return self._settle()
            raise AttributeError(
                f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self
            )


class Element(Cell):
    """One element of another cell, as a value: the other cell may be written, and this one keeps
    what it had.
    """

    __slots__ = ("_path", "_seen", "_source")

    _path: Path
    # The node of the other cell when the element was selected, and that of the element.
    _seen: tuple[UOp, UOp]
    _source: ref[Cell]

    def __init__(self, content: Live, steps: Path) -> None:
        node = apply_path(steps, content.node)
        self._path, self._source, self._seen = (
            (*content.path, *steps),
            ref(content.cell),
            (content.cell.node, node),
        )
        super().__init__(node)

    def find_source(self) -> tuple[Cell, Path] | None:
        """The other cell and the path to the element, as long as that is memory in which the
        element has this value.
        """
        cell = self._source()
        if cell is None or cell.is_given_away or is_symbolic(self._path):
            return None
        base, node = cell.node, self.node
        if (self._seen[0] is not base or self._seen[1] is not node) and apply_path(
            self._path, base
        ) is not node:
            return None
        return (cell, self._path) if states.is_memory(base) else None


def find_result_form(content: Live) -> Form | None:
    """The form of a cell that nobody asked for the node of, where no variable is in it: no node is
    made to tell it.
    """
    if not isinstance(content, Cell) or content.memory is None:
        return None
    form = content.known_form
    if form is None:
        return None
    for size in form[0]:
        if size.__class__ is not int:
            return None
    return form


class View:
    """Part of the content of a cell, or it in another order.

    Attributes:
        cell: the cell.
        path: how it is seen.
    """

    __slots__ = ("__weakref__", "_has_memory", "_seen", "cell", "path")

    # What the cell held when it was last looked at, and what stands for the view as long as it
    # does: where the cell has no memory, perhaps memory of the view's own.
    _seen: tuple[UOp, UOp]
    _has_memory: bool

    def __init__(self, cell: Cell, path: Path, base: UOp, node: UOp) -> None:
        self.cell, self.path, self._seen, self._has_memory = cell, path, (base, node), False
        tables.add(self)

    @property
    def node(self) -> UOp:
        """What stands for the view now."""
        seen = self._seen
        return seen[1] if seen[0] is self.cell.node else self._look()[1]

    def _look(self) -> tuple[UOp, UOp]:
        base = self.cell.node
        seen = base, apply_path(self.path, base)
        self._seen, self._has_memory = seen, False
        return seen

    @property
    def form(self) -> Form:
        """What is known without memory and without the values of variables; equal for what one plan
        serves.
        """
        return get_form(self.node)

    @property
    def is_realized(self) -> bool:
        """Whether it is a view of memory that belongs to its cell, or has memory of its own."""
        return self.cell.is_realized or (self._has_memory and self._seen[0] is self.cell.node)

    def along(self, steps: Iterable[Step]) -> Cell | View:
        """What is seen along further `steps`; what numpy would copy on the way is a cell of its
        own.
        """
        seen = self._seen
        base, node = seen if seen[0] is self.cell.node else self._look()
        return _follow(self.cell, self.path, base, node, steps)

    def set_node(self, node: UOp) -> None:
        """Stand for `node` as long as the cell holds what it holds now; the caller holds
        `registry.lock`.
        """
        self._seen, self._has_memory = (self.cell.node, node), False
        tables.note_new_node(self)

    def adopt(self, old: UOp, new: UOp) -> None:
        """Be read from `new`, memory with the value of `old`, unless this view stands for something
        else by now.

        A view keeps that until its cell is written, or has memory. What a view of memory is depends
        on nothing else, unless a variable says which part it is."""
        with tables.lock:
            cell = self.cell
            if (
                not cell.is_given_away
                and self.node is old
                and (not cell.is_realized or is_symbolic(self.path))
            ):
                self._seen, self._has_memory = (cell.node, new), True

    def follow(self, new_of: Mapping[UOp, UOp]) -> tuple[UOp, UOp] | None:
        """Let go of what the cell held before, and enter what this view is now; `new_of` has the
        node of equal value of each node.

        Returns:
            what stood for the view before and what does now, if these are equal.
        """
        (seen, node), base = self._seen, self.cell.node
        if seen is base:
            return None
        is_equal = new_of.get(seen) is base
        # Memory of its own is let go of when the cell has memory.
        self._has_memory = self._has_memory and is_equal and not self.cell.is_settled
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
