"""Calls that assign to nothing: buffers go from the cells of arguments to the plan, and from there
to results, without nodes.

So go nearly all calls of a function without variables. One that gets a view, something to compute,
or what shares memory with others goes the way of all (`Captured.run`), as does one that is given
memory for which somebody asked before."""

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

__all__ = ["DirectCall", "DirectRead", "DirectResult", "make_direct_result"]

_RESHAPE, _BUFFER, _AS_COMPLEX = Op.RESHAPE, Op.BUFFER, Op.AS_COMPLEX


class DirectResult(NamedTuple):
    """A result that is memory of its own.

    Attributes:
        memory: the BUFFER that stands for it.
        make_node: what it is on the memory of a call.
        spec: of its tensor.
    """

    memory: UOp
    make_node: Callable[[Buffer], UOp]
    spec: TensorSpec


def make_direct_result(node: UOp, spec: TensorSpec) -> DirectResult | None:
    """`node` as a result that is memory of its own, if it is all of a BUFFER under some shape."""
    shapes: list[UOp] = []
    memory = node
    while memory.op is _RESHAPE or memory.op is _AS_COMPLEX:
        if len(memory.src) != 1:
            return None
        shapes.append(memory)
        memory = memory.source
    if memory.op is not _BUFFER:
        return None
    dtype, (_, size, device) = memory.dtype, memory.arg

    def make_node(buffer: Buffer) -> UOp:
        made = memory_nodes.make_memory(dtype, size, device, buffer)
        for shape in reversed(shapes):
            made = shape.with_src((made,))
        return made

    return DirectResult(memory, make_node, spec)


class _Made(NamedTuple):
    """What a call makes of memory: a tensor.

    Attributes:
        position: of the memory among the buffers of a call.
        make_node: what it is on them.
        spec: of the tensor.
    """

    position: int
    make_node: Callable[[Buffer], UOp]
    spec: TensorSpec


class DirectRead(NamedTuple):
    """An argument that is a tensor.

    Attributes:
        position: among the tensors and variables of a call.
        place: the index of its memory in the plan, if that uses it.
        taken_as: what messages call it if its memory is given away, else None.
    """

    position: int
    place: int | None
    taken_as: str | None


class DirectCall:
    """How a plan gets buffers from arguments and gives them to results.

    Attributes:
        takes_memory: whether memory of arguments is given away.
        reads: what it takes.
        places: the indices in the plan of all that a call gives it: of the arguments that it uses,
            in order, then of new memory.
        lending: what it lends the plan at each call.
        makers: what makes the new memory.
        made: the results.
    """

    __slots__ = ("_name", "lending", "made", "makers", "places", "reads", "takes_memory")

    def __init__(
        self,
        name: str,
        reads: Sequence[DirectRead],
        results: Sequence[DirectResult],
        index_of: Mapping[UOp, int],
    ) -> None:
        self._name, self.reads = name, tuple(reads)
        self.takes_memory = any(read.taken_as is not None for read in reads)
        given = [read.place for read in reads if read.place is not None]
        # The others are in memory that is given away.
        new = {index: r.memory for r in results if (index := index_of[r.memory]) not in given}
        self.makers = [
            Buffer.make_factory(get_allocator(memory.arg.device), memory.dtype, memory.arg.size)
            for memory in new.values()
        ]
        self.places = (*given, *new)
        self.lending = Lending(self.places)
        self.made = [
            _Made(self.places.index(index_of[r.memory]), r.make_node, r.spec) for r in results
        ]

    def find_buffers(self, given: Sequence[Tensor | UOp]) -> list[Buffer] | None:
        """The memory of the arguments and new memory for the results, in the order of `places`.

        None if an argument has no memory of its own, or gives away some that others may know.

        Raises:
            DonatedTensorError: if another thread gives away one of the arguments too.
        """
        buffers: list[Buffer] = []
        for position, place, taken_as in self.reads:
            tensor = given[position]
            if not isinstance(tensor, Tensor) or not isinstance(cell := tensor.content, Cell):
                return None
            memory = cell.memory
            if memory is None:
                memory = None if taken_as is not None else cell.find_memory()
                if memory is None:
                    return None
            elif taken_as is not None and (cell.is_lent or not memory.is_writable):
                # What is a numpy array's is copied before it is given away, and what once was may
                # be known to plans.
                return None
            if place is not None:
                buffers.append(memory)
        if self.takes_memory and not self._take(given):
            return None
        buffers += [make() for make in self.makers]
        return buffers

    def _take(self, given: Sequence[Tensor | UOp]) -> bool:
        """Take what is given away, which only its cells know, unless one is given twice."""
        if len({id(value.content) for value in given if isinstance(value, Tensor)}) < len(given):
            return False
        for position, _, taken_as in self.reads:
            if taken_as is not None:
                content = cast("Tensor", given[position]).content
                if not isinstance(content, Cell) or not content.take_unshared_memory(
                    taken_as, self._name
                ):
                    # Between two looks at it: what became of it says so.
                    _ = content.node
                    raise DonatedTensorError(argument=taken_as, taker=self._name)
        return True

    def make_results(self, buffers: Sequence[Buffer]) -> list[Tensor]:
        """The results, on the buffers that the plan filled."""
        return [
            Tensor.from_content(Cell.on(buffers[position], make_node, spec))
            for position, make_node, spec in self.made
        ]
