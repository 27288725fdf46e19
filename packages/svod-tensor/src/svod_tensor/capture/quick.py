"""Fast path of a captured call: each argument is checked once, and nothing is built to look up a
plan.

A function whose calls are direct (`capture.direct`) gets a fast path with its first plan. The fast
path compares by identity: specs of tensors, other arguments, Python values that the plan depends
on. Every deviation (a view, a pending tensor, another spec, a running capture or derivative, a
write to a held tensor, a plan that another thread is executing) makes it return `UNUSUAL` before it
has done anything, and the call takes the general path.

Arrays of numpy are read in their memory, as tensors on them would be.

A call that assigns to its arguments or to held tensors takes the fast path as long as no reader of
the written memory waits and no other thread computes (`WritingCall`)."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple, cast
from weakref import WeakKeyDictionary, ref

from svod_device import Buffer
from svod_ir import Op, UOp
from svod_runtime import Lending
from svod_tensor._scopes import current_scope
from svod_tensor._storage import find_shared, is_plain as is_plain_dtype, make_host_buffer
from svod_tensor.capture.direct import Output
from svod_tensor.capture.keys import Identity, is_array, is_plain, key_of
from svod_tensor.capture.nested import Objects, list_items
from svod_tensor.capture.signature import find_array
from svod_tensor.cells import registry, tables
from svod_tensor.cells.cell import Cell
from svod_tensor.engine.known_plans import MAX_BYTES_UNDER_LOCK
from svod_tensor.ops.core.base import set_content
from svod_tensor.options import DEFAULT_DEVICE, HOST_DEVICE
from svod_tensor.tensor import Tensor

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from svod_dtype import DType
    from svod_runtime import ExecutionPlan
    from svod_tensor.capture.calls import Captured
    from svod_tensor.capture.direct import DirectCall
    from svod_tensor.cells.cell import TensorSpec

__all__ = ["UNUSUAL", "QuickCall", "Unusual", "WritingCall", "find_quick_call"]


_RESHAPE, _BUFFER, _AS_COMPLEX = Op.RESHAPE, Op.BUFFER, Op.AS_COMPLEX


class Unusual(Enum):
    """Result of a fast-path call that did nothing."""

    UNUSUAL = "unusual"


UNUSUAL: Final = Unusual.UNUSUAL


class _ArraySpec(NamedTuple):
    """Spec of numpy arrays that are passed where a tensor may be.

    Attributes:
        kind: numpy's class of arrays; a subclass takes the general path.
        shape: their shape.
        numpy: their dtype, which is one of numpy's own.
        dtype: the dtype of tensors on them.
    """

    kind: type
    shape: tuple[int, ...]
    numpy: np.dtype[np.generic]
    dtype: DType

    def find_buffer(self, value: object) -> Buffer | None:
        """The memory of an array, or of a copy that kernels can read; None for any other value."""
        if type(value) is not self.kind:
            return None
        array = cast("NDArray[np.generic]", value)
        if array.shape != self.shape or (
            array.dtype is not self.numpy and array.dtype != self.numpy
        ):
            return None
        return find_shared(array, self.dtype) or make_host_buffer(
            array, self.dtype, may_share=False
        )


class QuickCall:
    """Fast path for the calls of a captured function with one signature.

    Attributes:
        captured: the plan and the values that it depends on.
        lending: the buffers that each call lends the plan.
    """

    __slots__ = (
        "_array_specs",
        "_build",
        "_execute",
        "_expected",
        "_factories",
        "_guards",
        "_is_held",
        "_results",
        "_returned",
        "_single",
        "_tensors",
        "_validity",
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
        tensors: Sequence[int],
        indices: tuple[int | None, ...],
    ) -> None:
        """Make the fast path of a plan.

        Args:
            captured: the plan with its guards.
            plan: executes the call.
            direct: makes the results.
            expected: the spec of each tensor argument; of any other argument a weak reference, or
                the argument itself where it has none.
            tensors: the index of each tensor among the arguments. Each may be an array instead.
            indices: the index in the plan of each tensor's buffer, None if unused, then of each
                result's.
        """
        self.captured = captured
        self._execute = plan.execute_direct
        self._tensors = tuple(tensors)
        self._returned = {tensors[r] for r in direct.results if isinstance(r, int)}
        # Made when an array is passed for the first time.
        self._array_specs: dict[int, _ArraySpec | None] = {}
        self._expected, self.lending = expected, Lending(indices, captured.sizes)
        self._validity = captured.validity
        self._guards = captured.validity.guards
        self._watched = tuple(captured.validity.watched)
        self._is_held = captured.validity.holds_tensors
        n_unused = indices.count(None)
        self._factories, self._build = direct.factories, captured.build
        self._results = [
            result._replace(position=result.position + n_unused)
            if isinstance(result, Output)
            else tensors[result]
            if isinstance(result, int)
            else result
            for result in direct.results
        ]
        # Most functions return one new tensor, which needs no list and no builder.
        first = self._results[0] if self._results else None
        self._single = first if captured.build is next and isinstance(first, Output) else None

    def run(self, args: Sequence[object]) -> object:
        """The results; `UNUSUAL` if the call did nothing."""
        buffers = self._find_buffers(args)
        # Another thread runs the plan. Nothing was done yet: only the new buffers are dropped.
        if buffers is None or not self._execute(self.lending, buffers):
            return UNUSUAL
        return self._make_results(buffers, args)

    def _find_buffers(self, args: Sequence[object]) -> list[Buffer] | None:
        """The memory of the tensor arguments, and new memory for the results; None if the call is
        not like the earlier one.
        """
        # Hot path, run at every call: inlined to take few interpreter steps, at the cost of length.
        expected = self._expected
        if len(args) != len(expected) or current_scope.get() is not None:
            return None
        if self._is_held and tables.get_last_write_id() != self._validity.last_write_id:
            return None
        guards = self._guards
        if guards is not None and not guards.hold():
            return None
        for cell_ref, watched in self._watched:
            if (cell := cell_ref()) is not None and cell.node is not watched:
                return None
        buffers: list[Buffer] = []
        for index, value in enumerate(args):
            if type(value) is not Tensor:
                known = expected[index]
                if value is known or (type(known) is ref and known() is value):
                    continue
                if index not in self._array_specs:
                    self._array_specs[index] = self._find_array_spec(index)
                array_spec = self._array_specs[index]
                memory = None if array_spec is None else array_spec.find_buffer(value)
                if memory is None:
                    return None
                buffers.append(memory)
                continue
            cell = value.content
            if type(cell) is not Cell:
                return None
            if cell.known_spec is not expected[index]:
                spec = cell.spec
                if spec != expected[index]:
                    return None
                # Cache this spec object: the next call is likely to pass the same one, so that `is`
                # succeeds.
                expected[index] = spec
            memory = cell.memory
            if memory is None:
                if not cell.owns:
                    return None
                node = cell.node
                while node.op is _RESHAPE or node.op is _AS_COMPLEX:
                    node = node.source
                memory = node.attached
                if node.op is not _BUFFER or not isinstance(memory, Buffer):
                    return None
            buffers.append(memory)
        for make in self._factories:
            buffers.append(make())
        return buffers

    def _find_array_spec(self, index: int) -> _ArraySpec | None:
        """The spec of arrays that may be passed as an argument; None if only tensors may."""
        # A result must not share memory with an array.
        if index not in self._tensors or index in self._returned:
            return None
        import numpy as np

        shape, dtype, device = cast("TensorSpec", self._expected[index])
        # Empty arrays have no memory, and complex numbers are two floats in memory.
        if DEFAULT_DEVICE != HOST_DEVICE or device != HOST_DEVICE or 0 in shape or dtype.is_complex:
            return None
        if not is_plain_dtype(np.dtype(dtype.numpy)):
            return None
        return _ArraySpec(np.ndarray, cast("tuple[int, ...]", shape), np.dtype(dtype.numpy), dtype)

    def _make_results(self, buffers: Sequence[Buffer], args: Sequence[object]) -> object:
        single = self._single
        if single is not None:
            position, make_node, spec = single
            # Without `Tensor.from_content`: one Python call less.
            result = object.__new__(Tensor)
            set_content(result, Cell.on(buffers[position], make_node, spec))
            return result
        results: list[object] = []
        for result in self._results:
            if isinstance(result, Output):
                content = Cell.on(buffers[result.position], result.make_node, result.spec)
                results.append(Tensor.from_content(content))
            elif isinstance(result, int):
                results.append(args[result])
            else:
                results.append(result)
        return self._build(iter(results))


class WritingCall(QuickCall):
    """Fast path of a function that assigns to arguments or held tensors.

    The written memory keeps its BUFFER, as on the general path: no pending graph reads it, and with
    it the former version."""

    __slots__ = ("_held", "_is_short", "_n_arguments", "_written")

    def __init__(
        self,
        captured: Captured,
        plan: ExecutionPlan,
        direct: DirectCall,
        expected: list[object],
        tensors: Sequence[int],
        indices: tuple[int | None, ...],
    ) -> None:
        super().__init__(captured, plan, direct, expected, tensors, indices)
        self._n_arguments = len(indices) - len(direct.factories)
        self._held = {buffer.storage_id for buffer in captured.validity.held.values()}
        self._written = sorted({i.position for i in captured.inputs if i.is_written})
        # Only kernels: plans with host functions, which may take any time, are not executed directly.
        self._is_short = sum(b.nbytes for b in plan.buffers) <= MAX_BYTES_UNDER_LOCK

    def run(self, args: Sequence[object]) -> object:
        """The results; `UNUSUAL` if the call did nothing."""
        with tables.lock:
            buffers = self._find_buffers(args)
            if buffers is None or not self._may_write(buffers):
                return UNUSUAL
            if self._is_short:
                if not self._execute(self.lending, buffers):
                    return UNUSUAL
                return self._make_results(buffers, args)
            storages = [*self._held, *[b.storage_id for b in buffers[: self._n_arguments]]]
            computation = registry.start_computation(storages, storages, {})
            assert computation is not None, "no thread is computing"
        try:
            if not self._execute(self.lending, buffers):
                return UNUSUAL
        finally:
            registry.end_computation(computation)
        return self._make_results(buffers, args)

    def _may_write(self, buffers: Sequence[Buffer]) -> bool:
        """Whether the written memory is known to the written tensors alone, and no thread uses it."""
        if tables.captured or registry.is_computing():
            return False
        storages = {buffer.storage_id for buffer in buffers[: self._n_arguments]}
        if len(storages) < self._n_arguments or not storages.isdisjoint(self._held):
            return False
        written = self._held.union([buffers[position].storage_id for position in self._written])
        for tensor in registry.iter_pending():
            read = _find_read_storages(tensor.node)
            # The general path computes readers first.
            if read is None or not written.isdisjoint(read):
                return False
        # Memory that an array shares is copied before it is written.
        return all(buffers[position].is_writable for position in self._written)


_read_storages: Final[WeakKeyDictionary[UOp, frozenset[int]]] = WeakKeyDictionary()
"""The storages that the graphs of pending tensors read: a call asks for the same ones as the last."""


def _find_read_storages(node: UOp) -> frozenset[int] | None:
    """The storages of the memory in a graph; None if some of it was overwritten meanwhile."""
    known = _read_storages.get(node)
    if known is None:
        buffers = [memory.attached for memory in node.iter_ops(_BUFFER)]
        if not all(isinstance(buffer, Buffer) for buffer in buffers):
            return None
        known = frozenset([b.storage_id for b in buffers if isinstance(b, Buffer)])
        _read_storages[node] = known
    return known


def find_quick_call(
    captured: Captured, args: Sequence[object], objects: Objects
) -> QuickCall | None:
    """The fast path for calls like one with these arguments; None if no call can."""
    direct, plan = captured.direct, captured.plan
    if direct is None or plan is None or direct.takes_memory:
        return None
    if not plan.can_execute_direct(captured.sizes):
        return None
    expected = [_get_expected(value, objects) for value in args]
    if any(value is UNUSUAL for value in expected):
        return None
    index_of = {read.position: read.slot for read in direct.reads}
    tensors = [
        index for index, value in enumerate(args) if isinstance(value, Tensor) or is_array(value)
    ]
    if len(index_of) < len(tensors):
        # A tensor without elements may have no memory.
        return None
    indices = (
        *(index_of[position] for position in range(len(tensors))),
        *direct.indices[len(direct.indices) - len(direct.factories) :],
    )
    kind = WritingCall if captured.assigns else QuickCall
    return kind(captured, plan, direct, expected, tensors, indices)


def _get_expected(value: object, objects: Objects) -> object:
    """The value that `QuickCall` compares an argument with; `UNUSUAL` if none suffices."""
    if isinstance(value, Tensor):
        return value.content.spec
    array = find_array(value)
    if array is not None:
        return array.content.spec
    return _hold(value) if _is_identified(value, objects) else UNUSUAL


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
