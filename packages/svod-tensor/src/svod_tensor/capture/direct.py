"""Direct calls of a captured function: buffers go from the cells of arguments to the plan, and from
there to results, without nodes.

Nearly all calls of a function without variables are direct. A call with a view, a pending tensor or
shared memory takes the general path (`Captured.run`), as does a call that is to take over memory
that already has a node. If the function assigns, only the fast path (`capture.quick`) is direct, and
on the general path the making of results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, cast

from svod_device import Buffer, get_allocator
from svod_ir import Op, UOp
from svod_runtime import Lending
from svod_tensor.cells.cell import Cell, TensorSpec
from svod_tensor.engine import memory_nodes
from svod_tensor.errors import DonatedTensorError
from svod_tensor.tensor import Tensor

__all__ = ["DirectCall", "DirectRead", "DirectResult", "Output", "make_direct_result"]

_RESHAPE, _BUFFER, _AS_COMPLEX = Op.RESHAPE, Op.BUFFER, Op.AS_COMPLEX


class DirectResult(NamedTuple):
    """A result in memory of its own.

    Attributes:
        memory: the placeholder BUFFER of the result.
        make_node: makes the result's node on the memory of a call.
        spec: spec of its tensor.
    """

    memory: UOp
    make_node: Callable[[Buffer], UOp]
    spec: TensorSpec


def make_direct_result(node: UOp, spec: TensorSpec) -> DirectResult | None:
    """`node` as a direct result; None if it is not all of a BUFFER in some shape."""
    views: list[UOp] = []
    memory = node
    while memory.op is _RESHAPE or memory.op is _AS_COMPLEX:
        if len(memory.src) != 1:
            return None
        views.append(memory)
        memory = memory.source
    if memory.op is not _BUFFER:
        return None
    dtype, (_, size, device) = memory.dtype, memory.arg

    def make_node(buffer: Buffer) -> UOp:
        result = memory_nodes.make_memory(dtype, size, device, buffer)
        for view in reversed(views):
            result = view.with_src((result,))
        return result

    return DirectResult(memory, make_node, spec)


class Output(NamedTuple):
    """A tensor that a call makes on one of its buffers.

    Attributes:
        position: index of the memory among the buffers of a call.
        make_node: makes the tensor's node on the memory.
        spec: spec of the tensor.
    """

    position: int
    make_node: Callable[[Buffer], UOp]
    spec: TensorSpec


class DirectRead(NamedTuple):
    """A tensor argument.

    Attributes:
        position: index among the tensors and variables of a call.
        slot: index of its memory in the plan, if the plan uses it.
        taken_as: name of the argument in messages if its memory is donated, else None.
    """

    position: int
    slot: int | None
    taken_as: str | None


class DirectCall:
    """Mapping of argument buffers to a plan, and of the plan's buffers to results.

    Attributes:
        takes_memory: whether memory of arguments is donated.
        reads: the tensor arguments.
        indices: the indices in the plan of all buffers that a call lends it: of the arguments that
            it uses, in order, then of new memory.
        lending: the lending of these buffers.
        factories: allocate the new memory.
        results: the results: tensors on buffers, the positions of arguments, and held tensors.
        makes_results: whether all results are on buffers, so that `make_results` makes them.
    """

    __slots__ = (
        "_name",
        "factories",
        "indices",
        "lending",
        "makes_results",
        "reads",
        "results",
        "takes_memory",
    )

    def __init__(
        self,
        name: str,
        reads: Sequence[DirectRead],
        results: Sequence[DirectResult | int | Tensor],
        index_of: Mapping[UOp, int],
        sizes: Mapping[str, int],
    ) -> None:
        self._name, self.reads = name, tuple(reads)
        self.takes_memory = any(read.taken_as is not None for read in reads)
        used = [read.slot for read in reads if read.slot is not None]
        made = [r for r in results if isinstance(r, DirectResult)]
        # The other results are in donated memory.
        new = {index: r.memory for r in made if (index := index_of[r.memory]) not in used}
        self.factories = [
            Buffer.make_factory(get_allocator(memory.arg.device), memory.dtype, memory.arg.size)
            for memory in new.values()
        ]
        self.indices = (*used, *new)
        self.lending = Lending(self.indices, sizes)
        self.results = [
            Output(self.indices.index(index_of[r.memory]), r.make_node, r.spec)
            if isinstance(r, DirectResult)
            else r
            for r in results
        ]
        self.makes_results = len(made) == len(results)

    def find_buffers(self, given: Sequence[Tensor | UOp]) -> list[Buffer] | None:
        """The memory of the arguments and new memory for the results, in the order of `indices`.

        None if an argument has no memory of its own, or is donated and may be known to other
        graphs.

        Raises:
            DonatedTensorError: if another thread has donated an argument.
        """
        buffers: list[Buffer] = []
        for position, slot, taken_as in self.reads:
            tensor = given[position]
            if not isinstance(tensor, Tensor) or not isinstance(cell := tensor.content, Cell):
                return None
            # Read once: another thread that asks for the node clears the attribute.
            memory = cell.memory
            if memory is None:
                memory = None if taken_as is not None else cell.find_memory()
                if memory is None:
                    return None
            elif taken_as is not None and (cell.is_lent or not memory.is_writable):
                # Memory of a numpy array is copied before it is donated, on the general path, and
                # memory that was lent once may be known to plans.
                return None
            if slot is not None:
                buffers.append(memory)
        if self.takes_memory and not self._take(given):
            return None
        buffers += [make() for make in self.factories]
        return buffers

    def _take(self, given: Sequence[Tensor | UOp]) -> bool:
        """Donate the arguments to this call, as only its cells know the memory; False if an
        argument is passed twice.
        """
        # The general path reports which arguments are the same tensor.
        if len({id(value.content) for value in given if isinstance(value, Tensor)}) < len(given):
            return False
        for position, _, taken_as in self.reads:
            if taken_as is not None:
                content = cast("Tensor", given[position]).content
                if not isinstance(content, Cell) or not content.take_unshared_memory(
                    taken_as, self._name
                ):
                    # Another thread took it since the check above: `node` raises with the taker's
                    # name.
                    _ = content.node
                    raise DonatedTensorError(argument=taken_as, taker=self._name)
        return True

    def make_results(self, buffers: Sequence[Buffer]) -> list[Tensor]:
        """The results on the buffers that the plan filled; all results if `makes_results`."""
        return [
            Tensor.from_content(Cell.on(buffers[result.position], result.make_node, result.spec))
            for result in self.results
            if isinstance(result, Output)
        ]
