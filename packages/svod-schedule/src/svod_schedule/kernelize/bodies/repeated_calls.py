"""LOOP and SWITCH as CALLs: the body is a kernel graph, which a CALL runs and its END repeats.

    BUFFERIZE(RESULT[0](LOOP[body](100, x, w)), r0)

    AFTER(BUFFER -1, END(CALL[RepeatArg](body, BUFFER -1, BUFFER -2, x, w), RANGE(100)))

BUFFER -1 is the result and BUFFER -2 its double buffer: an iteration reads the carry from one and
writes the next one to the other, unless the body updates the carry in place. A SWITCH is one such
CALL for each branch, with trip count 0 or 1, all with the same results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import prod
from typing import Final, TypeAlias

from svod_dtype import DType, index, void
from svod_ir import AxisType, BufferArg, Op, ParamArg, RepeatArg, UOp
from svod_ir.loops import MAX_ITERATIONS, find_count, get_bodies, make_results
from svod_ir.origins import propagate_labels
from svod_ir.sizes import max_size
from svod_schedule.kernelize.bodies.arguments import get_argument

__all__ = ["MakeBody", "NewBuffers", "fill_results"]

MakeBody: TypeAlias = Callable[[UOp, str], UOp]
"""Compiles a SINK of values and assignments to a kernel graph. Values that depend on no memory are
computed on the given device.
"""

_VARIABLES: Final = frozenset({Op.BIND, Op.DEFINE_VAR})


class NewBuffers:
    """Allocator of the buffers of a kernel graph, numbered -1, -2, ..."""

    def __init__(self) -> None:
        self._n_buffers = 0

    def make(self, dtype: DType, size: int, device: str) -> UOp:
        """Make a new buffer of `size` elements."""
        self._n_buffers += 1
        return UOp(Op.BUFFER, dtype, (), BufferArg(-self._n_buffers, size, device))


def fill_results(
    loop: UOp,
    results: Sequence[UOp],
    filled: Mapping[UOp, UOp],
    new: NewBuffers,
    make_body: MakeBody,
) -> dict[UOp, UOp]:
    """Make the calls of a LOOP or SWITCH. Returns the memory of each of `results` after them."""
    device: str = results[0].arg.device
    repeat = _Repeat(
        loop, [get_argument(operand, filled) for operand in loop.src], results, new, device
    )
    # Results first get memory of their own, so that the runtime can exchange the buffers of a
    # carry.
    graphs = [
        _separate(make_body(repeat.make_sink(body), device), repeat.n_carried, len(repeat.results))
        for body in get_bodies(loop)
    ]
    if loop.op is Op.LOOP:
        calls = [repeat.make_loop(graphs[0])]
    else:
        calls = [repeat.make_branch(graph, i, len(graphs)) for i, graph in enumerate(graphs)]
    for call in calls:
        propagate_labels(call.body, results)
    return {node: repeat.results[_position_of(node)].after(*calls) for node in results}


def _make_result(source: UOp) -> UOp:
    update = _find_update(source)
    return UOp(Op.CONTIGUOUS, source.dtype, (source,)) if update is None else update.dependency


def _find_update(node: UOp) -> UOp | None:
    """Return the AFTER of an ASSIGN that `node` is the whole memory of, in order; None otherwise."""
    while node.op is Op.RESHAPE or (node.op is Op.SHRINK and node.arg == (0, None)):
        node = node.source
    return node if node.op is Op.AFTER and node.dependency.op is Op.ASSIGN else None


class _Repeat:
    """The arguments that the calls of a LOOP or SWITCH have in common."""

    def __init__(
        self, loop: UOp, memory: Sequence[UOp], results: Sequence[UOp], new: NewBuffers, device: str
    ) -> None:
        self.loop, self.new, self.device = loop, new, device
        self.count, *operands = memory
        # Variables are passed by value, and take no slot.
        self.operands = [operand for operand in operands if operand.op not in _VARIABLES]
        self.slots = {
            slot: i
            for i, slot in enumerate(s for s, o in enumerate(operands) if o.op not in _VARIABLES)
        }
        stored = {_position_of(node): node for node in results}
        self.n_carried = loop.arg.n_carried if loop.op is Op.LOOP else 0
        self.results = [
            self._make_result(stored.get(k, result)) for k, result in enumerate(make_results(loop))
        ]

    def _make_result(self, node: UOp) -> UOp:
        device = node.placement if isinstance(node.placement, str) else self.device
        return self.new.make(node.dtype, prod(max_size(s) for s in node.shape), device)

    def make_sink(self, body: UOp) -> UOp:
        """Make the SINK to compile for a body: in-place updates as their assignments, other values
        in new memory.
        """
        # Variables take no slot of memory, so the PARAMs after them move down.
        renumbered = {
            p: p.with_arg(p.arg._replace(slot=self.slots[p.arg.slot]))
            for p in body.iter_ops(Op.PARAM)
            if self.slots[p.arg.slot] != p.arg.slot
        }
        return UOp.sink(
            *map(_make_result, (body.substitute(renumbered) if renumbered else body).src)
        )

    def make_loop(self, body: UOp) -> UOp:
        """Make the END that repeats the CALL of a LOOP."""
        arg = self.loop.arg
        in_place = [k for k in range(arg.n_carried) if _is_param(body.src[k], k)]
        spares = tuple(k for k in range(arg.n_carried) if k not in in_place)
        # The body writes memory only in place of a carry. Another operand that it writes is a copy:
        # the graph still reads the original.
        operands = self._protect(_list_written(body) - set(in_place))
        buffers = [
            self.new.make(r.dtype, r.arg.size, r.arg.device)
            for r in (self.results[k] for k in spares)
        ]
        is_count_read = find_count(self.loop) is None
        # A trip count that is computed is read when the loop starts; the RANGE only has an upper
        # bound.
        stop = UOp.const(index, MAX_ITERATIONS) if is_count_read else self.count
        repeat = RepeatArg(
            arg.n_carried,
            arg.n_sliced,
            len(self.results) - arg.n_carried,
            spares,
            arg.counter,
            arg.is_reversed,
            arg.is_conditional,
            is_count_read,
        )
        return self._make_end(repeat, body, [*buffers, *operands], stop, is_count_read)

    def make_branch(self, body: UOp, branch: int, n_branches: int) -> UOp:
        """Make the END that runs the CALL of a branch of a SWITCH once or not at all."""
        repeat = RepeatArg(
            0, 0, len(self.results), is_count_read=True, branch=branch, n_branches=n_branches
        )
        operands = self._protect(_list_written(body))
        return self._make_end(repeat, body, operands, UOp.const(index, 1), True)

    def _make_end(
        self, repeat: RepeatArg, body: UOp, memory: Iterable[UOp], stop: UOp, is_count_read: bool
    ) -> UOp:
        count = (self.count,) if is_count_read else ()
        call = UOp(Op.CALL, void, (body, *self.results, *memory, *count), repeat)
        return call.end(UOp.range(stop, 0, AxisType.LOOP))

    def _protect(self, written: set[int]) -> list[UOp]:
        """Return the operands, with copies of those that the body writes."""
        return [self._copy(o) if slot in written else o for slot, o in enumerate(self.operands)]

    def _copy(self, memory: UOp) -> UOp:
        base = memory.unordered
        size = prod(max_size(s) for s in base.shape)
        device = base.placement if isinstance(base.placement, str) else self.device
        return _copy(memory, self.new.make(base.dtype, size, device))


def _position_of(stored: UOp) -> int:
    """Return the position of the result that a BUFFERIZE stores."""
    return stored.source.arg


def _separate(body: UOp, n_carried: int, n_results: int) -> UOp:
    """Copy results of a body that share memory, so that each has a buffer of its own or is the
    updated PARAM of its carry.
    """
    numbers = [n.arg.id for n in body.toposort(enter_calls=False) if n.op is Op.BUFFER]
    lowest = min(numbers, default=0)
    sources = list(body.src)
    taken: set[UOp] = set()
    for position, source in enumerate(sources[:n_results]):
        memory = source.unordered
        is_own = memory.op is Op.BUFFER or (position < n_carried and _is_param(source, position))
        if memory in taken or not is_own:
            lowest -= 1
            device: str = (
                source.placement if isinstance(source.placement, str) else memory.arg.device
            )
            sources[position] = _copy(
                source, UOp(Op.BUFFER, source.dtype, (), BufferArg(lowest, memory.arg.size, device))
            )
        taken.add(memory)
    return body.with_src(tuple(sources))


def _copy(source: UOp, target: UOp) -> UOp:
    """Copy `source` to the buffer `target`."""
    size, device = target.arg.size, target.arg.device
    body = UOp(Op.COPY, target.dtype, (UOp(Op.PARAM, target.dtype, (), ParamArg(1, size)),), device)
    return target.after(UOp(Op.CALL, void, (body, target, source)))


def _is_param(filled: UOp, slot: int) -> bool:
    """Whether memory of a body is the PARAM in a slot."""
    memory = filled.unordered
    return memory.op is Op.PARAM and memory.arg.slot == slot


def _list_written(body: UOp) -> set[int]:
    """Return the slots of the PARAMs that the calls of a kernel graph write."""
    written = (node.unordered for node in body.toposort(enter_calls=False) if node.op is Op.AFTER)
    return {memory.arg.slot for memory in written if memory.op is Op.PARAM}
