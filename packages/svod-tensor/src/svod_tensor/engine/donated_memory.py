"""Results in the memory of inputs that the caller gave away.

An output takes the place of a donated input of its dtype and size when all that touches the input
can run before the output is first written, or does so in the same kernel, element by element:

    kernel(out, x): out[i] = x[i] * 2        kernel(x, x): x[i] = x[i] * 2

The schedule is listed in the order that this needs. What is written by the schedule itself, or seen
through a view, stays as it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from svod_device import Buffer
from svod_ir import Op, UOp, sort_by_dependencies
from svod_ir.ops import ELEMENTWISE
from svod_runtime import get_hazards, is_fresh, list_accesses
from svod_tensor.engine.arguments import has_partial_store, iter_arguments
from svod_tensor.engine.schedule import Schedule, ScheduleItem, effect_of

__all__ = ["place_outputs"]


def place_outputs(schedule: Schedule) -> Schedule:
    """`schedule` with outputs in donated memory, as far as that can be."""
    if not schedule.donated_ids:
        return schedule
    uses = _get_uses(schedule.items)
    donated = [
        use
        for number in schedule.donated_ids
        if (use := uses.get(number)) and _may_be_overwritten(use, uses)
    ]
    outputs = [
        use
        for number in dict.fromkeys(schedule.output_ids)
        if (use := uses.get(number)) and _is_new(use)
    ]
    search = _Search(schedule.items)
    for is_allowed in (search.is_in_place, search.is_over, search.can_wait):
        for output in outputs:
            for given in donated:
                if _is_alike(output.buffer, given.buffer) and is_allowed(given, output):
                    search.take(given, output)
                    donated.remove(given)
                    break
        outputs = [output for output in outputs if output.id not in search.taken]
    owners = {output: given.id for output, given in search.taken.items()}
    return replace(schedule, items=search.finish(), owners=owners)


@dataclass(slots=True)
class _Use:
    """A buffer with the positions of the items that touch it, and of those that write it."""

    id: int
    buffer: Buffer
    items: dict[int, ScheduleItem]
    writers: list[int]


def _get_uses(items: Sequence[ScheduleItem]) -> dict[int, _Use]:
    uses: dict[int, _Use] = {}
    for position, item in enumerate(items):
        for _, number, buffer, is_written in iter_arguments(item):
            use = uses.setdefault(number, _Use(number, buffer, {}, []))
            use.items[position] = item
            if is_written:
                use.writers.append(position)
    return uses


def _may_be_overwritten(given: _Use, uses: Mapping[int, _Use]) -> bool:
    """Whether nothing but the reads that are known concerns the memory of an input."""
    is_only_read = not given.writers and all(
        i.ast.op in (Op.SINK, Op.COPY) for i in given.items.values()
    )
    is_shared = any(
        u is not given and u.buffer.storage_id == given.buffer.storage_id for u in uses.values()
    )
    return is_only_read and not is_shared and given.buffer.is_writable


def _is_new(output: _Use) -> bool:
    """Whether an output is memory that the schedule made, and that kernels fill."""
    first = next(iter(output.items))
    writers = [output.items[p] for p in output.writers]
    is_filled = all(item.ast.op is Op.SINK and not has_partial_store(item.ast) for item in writers)
    return output.id < 0 and is_fresh(output.buffer) and first in output.writers and is_filled


def _is_alike(one: Buffer, other: Buffer) -> bool:
    return (one.nbytes, one.dtype, one.device) == (other.nbytes, other.dtype, other.device)


class _Search:
    """Which outputs took which inputs, and the order of the items that this needs."""

    def __init__(self, items: Sequence[ScheduleItem]) -> None:
        self.taken: dict[int, _Use] = {}
        self._items = list(items)
        self._predecessors = _get_predecessors(items)
        self._is_sorted = True
        self._ancestors = _get_ancestors(self._predecessors, range(len(items)))

    def is_in_place(self, given: _Use, output: _Use) -> bool:
        """Whether the kernel that writes the output is the last that reads the input, and only
        where it writes.
        """
        writer = next(iter(output.items))
        return (
            writer in given.items
            and self._can_precede(given, writer)
            and self._reads_where_it_writes(given, output)
        )

    def is_over(self, given: _Use, output: _Use) -> bool:
        """Whether all that touches the input comes before the output as it is."""
        before = self._ancestors[next(iter(output.items))]
        return all(before >> position & 1 for position in given.items)

    def can_wait(self, given: _Use, output: _Use) -> bool:
        """Whether the output can wait for all that touches the input."""
        writer = next(iter(output.items))
        return writer not in given.items and self._can_precede(given, writer)

    def take(self, given: _Use, output: _Use) -> None:
        """Let the output be written where the input is."""
        self.taken[output.id] = given
        writer = next(iter(output.items))
        new = {p for p in given.items if p != writer and not self._ancestors[writer] >> p & 1}
        if new:
            self._predecessors[writer] |= new
            self._is_sorted = False
            self._ancestors = _get_ancestors(
                self._predecessors, sort_by_dependencies(self._predecessors)
            )
        if writer in given.items:
            item = self._items[writer]
            read, written = _slot_of(item, given.id), _slot_of(item, output.id)
            parameters = {p.arg.slot: p for p in item.ast.iter_ops(Op.PARAM)}
            self._items[writer] = replace(
                item, ast=item.ast.substitute({parameters[read]: parameters[written]})
            )

    def finish(self) -> list[ScheduleItem]:
        """The items on their buffers, in an order that all dependencies allow."""
        buffers = {output: given.buffer for output, given in self.taken.items()}
        items = [
            replace(
                item,
                buffers=tuple(
                    buffers.get(n, b) for n, b in zip(item.buffer_ids, item.buffers, strict=True)
                ),
            )
            for item in self._items
        ]
        return (
            items if self._is_sorted else _reorder(items, sort_by_dependencies(self._predecessors))
        )

    def _can_precede(self, given: _Use, writer: int) -> bool:
        return not any(self._ancestors[p] >> writer & 1 for p in given.items if p != writer)

    def _reads_where_it_writes(self, given: _Use, output: _Use) -> bool:
        item = output.items[next(iter(output.items))]
        if item.buffer_ids.count(given.id) != 1 or item.buffer_ids.count(output.id) != 1:
            return False
        return _is_elementwise(item.ast, _slot_of(item, output.id), _slot_of(item, given.id))


def _slot_of(item: ScheduleItem, number: int) -> int:
    return next(argument.slot for argument in iter_arguments(item) if argument.id == number)


def _is_elementwise(ast: UOp, written: int, read: int) -> bool:
    """Whether each element of one argument depends on no element of the other but that in its
    place, and nothing needs that later.
    """
    if len(ast.src) != 1:
        return False
    (effect,) = ast.src
    loops, effect = (effect.loops, effect.body) if effect.op is Op.END else ((), effect)
    stores = effect.src if effect.op is Op.GROUP else (effect,)
    if any(
        s.op is not Op.STORE
        or s.location.op is not Op.INDEX
        or s.location.memory.op is not Op.PARAM
        for s in stores
    ):
        return False
    own = [position for position, s in enumerate(stores) if s.location.memory.arg.slot == written]
    if len(own) != 1:
        return False
    _, *place = stores[own[0]].location.src
    is_computed = any(node.op is Op.INDEX for part in place for node in part.toposort())
    is_once = set(loops) <= set(stores[own[0]].location.ranges) and not is_computed
    if not is_once or not all(_is_read_at(s.value, read, tuple(place)) for s in stores):
        return False
    # What a later one reads there has been read before the element is written, or is the new one.
    before, after = stores[: own[0] + 1], stores[own[0] + 1 :]
    return any(_reads(s.value, read) for s in before) or not any(
        _reads(s.value, read) for s in after
    )


def _reads(value: UOp, slot: int) -> bool:
    return any(n.op is Op.PARAM and n.arg.slot == slot for n in value.toposort())


def _is_read_at(value: UOp, slot: int, place: tuple[UOp, ...]) -> bool:
    """Whether all that elementwise operations read of an argument is at one place, and other
    operations read nothing.
    """
    seen: set[UOp] = set()
    stack = [value]
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if node.op in ELEMENTWISE or node.op is Op.LOAD:
            stack.extend(node.src)
        elif node.op is Op.INDEX and node.memory.op is Op.PARAM and node.memory.arg.slot == slot:
            if node.src[1:] != place:
                return False
        elif any(n.op is Op.PARAM and n.arg.slot == slot for n in node.toposort()):
            return False
    return True


def _get_predecessors(items: Sequence[ScheduleItem]) -> list[set[int]]:
    """For each item the positions of those that must run before: declared, or by what both
    touch.
    """
    accesses = [
        [
            access
            for argument in iter_arguments(item)
            # What a custom function writes is not known.
            for access in list_accesses(
                argument.buffer, argument.is_written or effect_of(item.ast).op is Op.CUSTOM_FUNCTION
            )
        ]
        for item in items
    ]
    hazards = get_hazards(accesses, range(len(items)))
    return [found.union(item.dependencies) for item, found in zip(items, hazards, strict=True)]


def _reorder(items: Sequence[ScheduleItem], order: Sequence[int]) -> list[ScheduleItem]:
    moved = {old: new for new, old in enumerate(order)}
    return [
        replace(items[old], dependencies=tuple(sorted(moved[d] for d in items[old].dependencies)))
        for old in order
    ]


def _get_ancestors(predecessors: Sequence[set[int]], order: Sequence[int]) -> list[int]:
    """For each position, as bits, all that must run before it."""
    ancestors = [0] * len(predecessors)
    for position in order:
        for earlier in predecessors[position]:
            ancestors[position] |= ancestors[earlier] | 1 << earlier
    return ancestors
