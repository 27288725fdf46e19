"""Fast path of a captured call: each argument is checked once, and nothing is built to look up a
plan.

A function whose calls are direct (`capture.direct`) gets a fast path with its first plan. The fast
path compares by identity: specs of tensors, other arguments, Python values that the plan depends
on. Every deviation (a view, a pending tensor, another spec, a running capture or derivative, a
write to a held tensor, a plan that another thread is executing) makes it return `UNUSUAL` before it
has done anything, and the call takes the general path."""

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
    """Result of a fast-path call that did nothing."""

    UNUSUAL = "unusual"


UNUSUAL: Final = Unusual.UNUSUAL


class QuickCall:
    """Fast path for the calls of a captured function with one signature.

    Attributes:
        captured: the plan and the values that it depends on.
        lending: the buffers that each call lends the plan.
    """

    __slots__ = (
        "_build",
        "_execute",
        "_expected",
        "_factories",
        "_guards",
        "_is_held",
        "_results",
        "_single",
        "_watched",
        "captured",
        "lending",
    )

    def __init__(
        self,
        captured: Captured,
        plan: ExecutionPlan,
        direct: DirectCall,
        expected: list[object],
        indices: tuple[int | None, ...],
    ) -> None:
        """Make the fast path of a plan.

        Args:
            captured: the plan with its guards.
            plan: executes the call.
            direct: makes the results.
            expected: the spec of each tensor argument; of any other argument a weak reference, or
                the argument itself where it has none.
            indices: the index in the plan of each tensor's buffer, None if unused, then of each
                result's.
        """
        self.captured = captured
        self._execute = plan.execute_direct
        self._expected, self.lending = expected, Lending(indices)
        self._guards = captured.guards
        self._watched = tuple(captured.watched)
        self._is_held = captured.holds_tensors
        n_unused = indices.count(None)
        self._factories, self._build = direct.factories, captured.build
        self._results = [
            (position + n_unused, make_node, spec) for position, make_node, spec in direct.results
        ]
        # Most functions return one tensor, which needs no list and no builder.
        self._single = self._results[0] if captured.build is next else None

    def run(self, args: Sequence[object]) -> object:
        """The results; `UNUSUAL` if the call did nothing."""
        # Hot path, run at every call: inlined to take few interpreter steps, at the cost of length.
        expected = self._expected
        if len(args) != len(expected) or current_scope.get() is not None:
            return UNUSUAL
        if self._is_held and tables.get_last_write_id() != self.captured.last_write_id:
            return UNUSUAL
        guards = self._guards
        if guards is not None and not guards.hold():
            return UNUSUAL
        for cell_ref, watched in self._watched:
            if (cell := cell_ref()) is not None and cell.node is not watched:
                return UNUSUAL
        buffers: list[Buffer] = []
        for index, value in enumerate(args):
            if type(value) is not Tensor:
                known = expected[index]
                if value is known or (type(known) is ref and known() is value):
                    continue
                return UNUSUAL
            cell = value.content
            if type(cell) is not Cell:
                return UNUSUAL
            if cell.known_spec is not expected[index]:
                spec = cell.spec
                if spec != expected[index]:
                    return UNUSUAL
                # Cache this spec object: the next call is likely to pass the same one, so that `is`
                # succeeds.
                expected[index] = spec
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
        for make in self._factories:
            buffers.append(make())
        # Another thread runs the plan. Nothing was done yet: only the new buffers are dropped.
        if not self._execute(self.lending, buffers):
            return UNUSUAL
        single = self._single
        if single is not None:
            position, make_node, spec = single
            # Without `Tensor.from_content`: one Python call less.
            result = object.__new__(Tensor)
            set_content(result, Cell.on(buffers[position], make_node, spec))
            return result
        results = [
            Tensor.from_content(Cell.on(buffers[position], node, spec))
            for position, node, spec in self._results
        ]
        return self._build(iter(results))


def find_quick_call(
    captured: Captured, args: Sequence[object], objects: Objects
) -> QuickCall | None:
    """The fast path for calls like one with these arguments; None if no call can."""
    direct, plan = captured.direct, captured.plan
    if direct is None or plan is None or direct.takes_memory or not plan.can_execute_direct:
        return None
    if not all(isinstance(value, Tensor) or _is_identified(value, objects) for value in args):
        return None
    index_of = {read.position: read.slot for read in direct.reads}
    tensors = [value for value in args if isinstance(value, Tensor)]
    if len(index_of) < len(tensors):
        # A tensor without elements may have no memory.
        return None
    expected: list[object] = [
        value.content.spec if isinstance(value, Tensor) else _hold(value) for value in args
    ]
    indices = (
        *(index_of[position] for position in range(len(tensors))),
        *direct.indices[-len(direct.factories) :],
    )
    return QuickCall(captured, plan, direct, expected, indices)


def _hold(value: object) -> object:
    """A weak reference to an argument that is known by its identity; the argument itself where it
    supports none.
    """
    identity = key_of(value)[0] if not is_plain(value) else None
    return ref(value) if isinstance(identity, Identity) and identity.is_weak else value


def _is_identified(value: object, objects: Objects) -> bool:
    """Whether a non-tensor argument may be compared by identity."""
    if is_plain(value):
        return True
    return list_items(value, objects=max(objects, Objects.UNOBSERVED)) is None and not is_array(
        value
    )
