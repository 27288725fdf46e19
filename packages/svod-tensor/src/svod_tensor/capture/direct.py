"""Calls that only read memory of their arguments and make results: buffers go from cells to the plan and back, without nodes.

Such are nearly all calls of a function without variables that assigns to nothing. A call one of whose arguments is a view, needs
computing, or shares memory of others goes the way of all (`Captured.run`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from svod_device import Buffer, get_allocator
from svod_ir import Op, UOp
from svod_tensor.cells.cell import Cell, Form
from svod_tensor.engine import memory_nodes
from svod_tensor.tensor import Tensor

if TYPE_CHECKING:
    from svod_dtype import DType

__all__ = ["DirectCall", "DirectResult", "make_direct_result"]

_RESHAPE, _BUFFER = Op.RESHAPE, Op.BUFFER


class DirectResult(NamedTuple):
    """A result that is memory of its own.

    Attributes:
        memory: the BUFFER that stands for it.
        make_node: what it is on the memory of a call.
        form: of its tensor.
    """

    memory: UOp
    make_node: Callable[[Buffer], UOp]
    form: Form


def make_direct_result(node: UOp, form: Form) -> DirectResult | None:
    """`node` as a result that is memory of its own, if it is all of a BUFFER under some shape."""
    shapes: list[UOp] = []
    memory = node
    while memory.op is _RESHAPE:
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

    return DirectResult(memory, make_node, form)


class _Made(NamedTuple):
    """What a call makes: memory, with the index that it has in the plan, and a tensor on it."""

    place: int
    device: str
    dtype: DType
    size: int
    make_node: Callable[[Buffer], UOp]
    form: Form


class DirectCall:
    """How a plan gets buffers from arguments and gives them to results."""

    __slots__ = ("_made", "_reads")

    def __init__(
        self, reads: Sequence[tuple[int, int | None]], results: Sequence[DirectResult], index_of: Mapping[UOp, int]
    ) -> None:
        """`reads` has the position of each tensor among the arguments, and the index of its memory if the plan uses that."""
        self._reads = tuple(reads)
        self._made = [
            _Made(index_of[r.memory], r.memory.arg.device, r.memory.dtype, r.memory.arg.size, r.make_node, r.form)
            for r in results
        ]

    def find_buffers(self, given: Sequence[Tensor | UOp]) -> dict[int, Buffer] | None:
        """The memory of the arguments and new memory for the results, by their indices in the plan.

        None if an argument has no memory of its own.
        """
        buffers: dict[int, Buffer] = {}
        for position, index in self._reads:
            tensor = given[position]
            if not isinstance(tensor, Tensor) or not isinstance(cell := tensor.content, Cell):
                return None
            memory = cell.memory
            if memory is None:
                if not cell.owns:
                    return None
                node = cell.node
                # Every argument of every such call comes through here.
                while node.op is _RESHAPE:
                    node = node.src[0]
                if node.op is not _BUFFER or (memory := memory_nodes.find_buffer(node)) is None:
                    return None
            if index is not None:
                buffers[index] = memory
        for one in self._made:
            buffers[one.place] = Buffer.make(get_allocator(one.device), one.dtype, one.size)
        return buffers

    def make_results(self, buffers: Mapping[int, Buffer]) -> list[Tensor]:
        """The results, on the buffers that the plan filled."""
        return [Tensor.from_content(Cell.on(buffers[one.place], one.make_node, one.form)) for one in self._made]
