"""Calls that are like the one before: each argument is looked at once, and nothing is built to look
a plan up.

A function whose calls go directly (`capture.direct`) gets such a way with its first plan. What it
takes for granted is compared by identity: forms of tensors, other arguments, Python values that the
plan depends on. Whatever else a call brings (a view, something to compute, another spec, a function
that is captured or whose derivative is taken, an assignment to what the function holds, another
thread at work with the plan) makes it `UNUSUAL`: nothing is done then, and it goes the way of all
calls."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, Final
from weakref import ref

from svod_device import Buffer
from svod_ir import Op
from svod_runtime import Lending
from svod_tensor._scopes import current_scope
from svod_tensor.capture.keys import Identity, is_array, is_plain, key_of
from svod_tensor.capture.nested import Objects, list_items
from svod_tensor.cells import tables
from svod_tensor.cells.cell import Cell
from svod_tensor.ops.core.base import set_content
from svod_tensor.tensor import Tensor

if TYPE_CHECKING:
    from svod_runtime import ExecutionPlan
    from svod_tensor.capture.calls import Captured
    from svod_tensor.capture.direct import DirectCall

__all__ = ["UNUSUAL", "QuickCall", "Unusual", "find_quick_call"]


_RESHAPE, _BUFFER, _AS_COMPLEX = Op.RESHAPE, Op.BUFFER, Op.AS_COMPLEX


class Unusual(Enum):
    """What a call returns that did nothing."""

    UNUSUAL = "unusual"


UNUSUAL: Final = Unusual.UNUSUAL


class QuickCall:
    """Calls of a captured function with one signature.

    Attributes:
        captured: the plan and what it depends on.
        lending: what it lends the plan at each call.
    """

    __slots__ = (
        "_build",
        "_execute",
        "_guards",
        "_is_held",
        "_made",
        "_makers",
        "_single",
        "_wanted",
        "_watched",
        "captured",
        "lending",
    )

    def __init__(
        self,
        captured: Captured,
        plan: ExecutionPlan,
        direct: DirectCall,
        wanted: list[object],
        places: tuple[int | None, ...],
    ) -> None:
        """Make the quick way of a plan.

        Args:
            captured: the plan.
            plan: what executes it.
            direct: how its results are made.
            wanted: the spec of each argument that is a tensor; of the others a weak reference, or
                the argument where there is none.
            places: the index of the buffer of each tensor that the plan reads, then of each result.
        """
        self.captured = captured
        self._execute = plan.execute_direct
        self._wanted, self.lending = wanted, Lending(places)
        self._guards = captured.guards
        self._watched = tuple(captured.watched)
        self._is_held = captured.holds_tensors
        n_unused = places.count(None)
        self._makers, self._build = direct.makers, captured.build
        self._made = [
            (position + n_unused, make_node, spec) for position, make_node, spec in direct.made
        ]
        # The commonest result is made without a list.
        self._single = self._made[0] if captured.build is next else None

    def run(self, args: Sequence[object]) -> object:
        """The results; `UNUSUAL` if nothing was done."""
        # Everything here happens at every call: it is written to take few steps, not lines.
        wanted = self._wanted
        if len(args) != len(wanted) or current_scope.get() is not None:
            return UNUSUAL
        if self._is_held and tables.get_last_write_id() != self.captured.last_seen:
            return UNUSUAL
        guards = self._guards
        if guards is not None and not guards.hold():
            return UNUSUAL
        for cell_ref, watched in self._watched:
            if (cell := cell_ref()) is not None and cell.node is not watched:
                return UNUSUAL
        buffers: list[Buffer] = []
        for number, value in enumerate(args):
            if type(value) is not Tensor:
                known = wanted[number]
                if value is known or (type(known) is ref and known() is value):
                    continue
                return UNUSUAL
            cell = value.content
            if type(cell) is not Cell:
                return UNUSUAL
            if cell.known_spec is not wanted[number]:
                spec = cell.spec
                if spec != wanted[number]:
                    return UNUSUAL
                # The next argument is likely to have this spec, and no other one that is equal.
                wanted[number] = spec
            memory = cell.memory
            if memory is None:
                if not cell.owns:
                    return UNUSUAL
                node = cell.node
                while node.op is _RESHAPE or node.op is _AS_COMPLEX:
                    node = node.source
                memory = node.attached
                if node.op is not _BUFFER or not isinstance(memory, Buffer):
                    return UNUSUAL
            buffers.append(memory)
        for make in self._makers:
            buffers.append(make())
        if not self._execute(self.lending, buffers):
            return UNUSUAL
        single = self._single
        if single is not None:
            position, make_node, spec = single
            result = object.__new__(Tensor)
            set_content(result, Cell.on(buffers[position], make_node, spec))
            return result
        made = [
            Tensor.from_content(Cell.on(buffers[position], node, spec))
            for position, node, spec in self._made
        ]
        return self._build(iter(made))


def find_quick_call(
    captured: Captured, args: Sequence[object], objects: Objects
) -> QuickCall | None:
    """How calls go that are like one with these arguments; None if none of them can."""
    direct, plan = captured.direct, captured.plan
    if direct is None or plan is None or direct.takes_memory or not plan.can_execute_direct:
        return None
    if not all(isinstance(value, Tensor) or _is_identified(value, objects) for value in args):
        return None
    place_of = {read.position: read.place for read in direct.reads}
    tensors = [value for value in args if isinstance(value, Tensor)]
    if len(place_of) < len(tensors):
        # One has no elements, and perhaps no memory.
        return None
    wanted: list[object] = [
        value.content.spec if isinstance(value, Tensor) else _hold(value) for value in args
    ]
    places = (
        *(place_of[number] for number in range(len(tensors))),
        *direct.places[-len(direct.makers) :],
    )
    return QuickCall(captured, plan, direct, wanted, places)


def _hold(value: object) -> object:
    """Return a weak reference to an argument that is known by its identity; the argument itself
    where there is none to be had.
    """
    identity = key_of(value)[0] if not is_plain(value) else None
    return ref(value) if isinstance(identity, Identity) and identity.is_weak else value


def _is_identified(value: object, objects: Objects) -> bool:
    """Whether an argument that is no tensor is the same whenever it is the same object."""
    if is_plain(value):
        return True
    return list_items(value, objects=max(objects, Objects.UNOBSERVED)) is None and not is_array(
        value
    )
