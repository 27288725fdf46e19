"""Reuse of donated inputs: outputs are written in the memory of inputs that the caller donated.

An output reuses a donated input of its dtype and size when all readers of the input can run before
the output is first written, or read it in the same kernel, element by element:

    kernel(out, x): out[i] = x[i] * 2        kernel(x, x): x[i] = x[i] * 2

The schedule is reordered as far as this requires. Inputs that the schedule writes, or that are
accessed through a view, are not reused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from svod_device import Buffer
from svod_ir import Op, UOp, sort_by_dependencies
from svod_ir.ops import ELEMENTWISE
from svod_runtime import get_hazards, is_fresh, list_accesses
from svod_tensor.engine.arguments import has_partial_store, iter_arguments
from svod_tensor.engine.schedule import Schedule, ScheduleItem, effect_of

__all__ = ["reuse_donated_memory"]


def reuse_donated_memory(schedule: Schedule) -> Schedule:
    """`schedule` with outputs in donated memory where possible."""
    if not schedule.donated_ids:
        return schedule
    uses = _get_uses(schedule.items)
    donated = [
        use
        for buffer_id in schedule.donated_ids
        if (use := uses.get(buffer_id)) and _may_be_overwritten(use, uses)
    ]
    outputs = [
        use
        for buffer_id in dict.fromkeys(schedule.output_ids)
        if (use := uses.get(buffer_id)) and _is_fresh_output(use)
    ]
    search = _Search(schedule.items)
    # Reordering comes last, since it adds dependencies.
    for is_allowed in (search.can_run_in_place, search.is_dead_before, search.can_reorder):
        for output in outputs:
            for input_ in donated:
                if _has_equal_spec(output.buffer, input_.buffer) and is_allowed(input_, output):
                    search.take(input_, output)
                    donated.remove(input_)
                    break
        outputs = [output for output in outputs if output.id not in search.taken]
    owners = {output: input_.id for output, input_ in search.taken.items()}
    return replace(schedule, items=search.finish(), owners=owners)


@dataclass(slots=True)
class _Use:
    """A buffer with the positions of the items that access it, and of its writers."""

    id: int
    buffer: Buffer
    items: dict[int, ScheduleItem]
    writers: list[int]


def _get_uses(items: Sequence[ScheduleItem]) -> dict[int, _Use]:
    uses: dict[int, _Use] = {}
    for position, item in enumerate(items):
        for _, buffer_id, buffer, is_written in iter_arguments(item):
            use = uses.setdefault(buffer_id, _Use(buffer_id, buffer, {}, []))
            use.items[position] = item
            if is_written:
                use.writers.append(position)
    return uses


def _may_be_overwritten(input_: _Use, uses: Mapping[int, _Use]) -> bool:
    """True if the memory of an input is accessed only by known reads."""
    is_only_read = not input_.writers and all(
        # A view or a custom function may access more than the schedule knows of.
        i.ast.op in (Op.SINK, Op.COPY)
        for i in input_.items.values()
    )
    is_shared = any(
        u is not input_ and u.buffer.storage_id == input_.buffer.storage_id for u in uses.values()
    )
    return is_only_read and not is_shared and input_.buffer.is_writable


def _is_fresh_output(output: _Use) -> bool:
    """True if an output is memory that the schedule allocates and kernels fill completely."""
    first = next(iter(output.items))
    writers = [output.items[p] for p in output.writers]
    # A gated store would leave elements of the donated input in the output.
    is_filled = all(item.ast.op is Op.SINK and not has_partial_store(item.ast) for item in writers)
    return output.id < 0 and is_fresh(output.buffer) and first in output.writers and is_filled


def _has_equal_spec(left: Buffer, right: Buffer) -> bool:
    return (left.nbytes, left.dtype, left.device) == (right.nbytes, right.dtype, right.device)


class _Search:
    """Assignment of donated inputs to outputs, with the order of items that it requires."""

    def __init__(self, items: Sequence[ScheduleItem]) -> None:
        self.taken: dict[int, _Use] = {}
        self._items = list(items)
        self._predecessors = _get_predecessors(items)
        self._is_sorted = True
        self._ancestors = _get_ancestors(self._predecessors, range(len(items)))

    def can_run_in_place(self, input_: _Use, output: _Use) -> bool:
        """True if the kernel that writes the output is the last reader of the input, and reads it
        only at the written index.
        """
        writer = next(iter(output.items))
        return (
            writer in input_.items
            and self._can_precede(input_, writer)
            and self._reads_where_it_writes(input_, output)
        )

    def is_dead_before(self, input_: _Use, output: _Use) -> bool:
        """True if all accesses to the input come before the output in the present order."""
        before = self._ancestors[next(iter(output.items))]
        return all(before >> position & 1 for position in input_.items)

    def can_reorder(self, input_: _Use, output: _Use) -> bool:
        """True if the output's writer can be moved after all accesses to the input."""
        writer = next(iter(output.items))
        return writer not in input_.items and self._can_precede(input_, writer)

    def take(self, input_: _Use, output: _Use) -> None:
        """Write the output in the memory of the input."""
        self.taken[output.id] = input_
        writer = next(iter(output.items))
        new = {p for p in input_.items if p != writer and not self._ancestors[writer] >> p & 1}
        if new:
            self._predecessors[writer] |= new
            self._is_sorted = False
            self._ancestors = _get_ancestors(
                self._predecessors, sort_by_dependencies(self._predecessors)
            )
        if writer in input_.items:
            item = self._items[writer]
            read, written = _slot_of(item, input_.id), _slot_of(item, output.id)
            parameters = {p.arg.slot: p for p in item.ast.iter_ops(Op.PARAM)}
            self._items[writer] = replace(
                item, ast=item.ast.substitute({parameters[read]: parameters[written]})
            )

    def finish(self) -> list[ScheduleItem]:
        """The items on their buffers, in an order that satisfies all dependencies."""
        buffers = {output: input_.buffer for output, input_ in self.taken.items()}
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

    def _can_precede(self, input_: _Use, writer: int) -> bool:
        return not any(self._ancestors[p] >> writer & 1 for p in input_.items if p != writer)

    def _reads_where_it_writes(self, input_: _Use, output: _Use) -> bool:
        item = output.items[next(iter(output.items))]
        # The body has a parameter for each argument, and only one of them is replaced.
        if item.buffer_ids.count(input_.id) != 1 or item.buffer_ids.count(output.id) != 1:
            return False
        return _is_elementwise(item.ast, _slot_of(item, output.id), _slot_of(item, input_.id))


def _slot_of(item: ScheduleItem, buffer_id: int) -> int:
    return next(argument.slot for argument in iter_arguments(item) if argument.id == buffer_id)


def _is_elementwise(ast: UOp, written: int, read: int) -> bool:
    """True if each element of the written argument depends only on the element of the read argument
    at the same index, which no later store reads.
    """
    # Between several effects no order is defined.
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
    _, *indices = stores[own[0]].location.src
    # An index that is read from memory may occur twice: the second store would read the result of
    # the first.
    is_computed = any(node.op is Op.INDEX for index in indices for node in index.toposort())
    # Likewise, a loop that the target does not depend on stores each element several times.
    is_once = set(loops) <= set(stores[own[0]].location.ranges) and not is_computed
    if not is_once or not all(_reads_only_at(s.value, read, tuple(indices)) for s in stores):
        return False
    # A later store may read the index only if an earlier one has loaded the old element already.
    before, after = stores[: own[0] + 1], stores[own[0] + 1 :]
    return any(_reads(s.value, read) for s in before) or not any(
        _reads(s.value, read) for s in after
    )


def _reads(value: UOp, slot: int) -> bool:
    return any(n.op is Op.PARAM and n.arg.slot == slot for n in value.toposort())


def _reads_only_at(value: UOp, slot: int, indices: tuple[UOp, ...]) -> bool:
    """True if elementwise operations read an argument only at `indices`, and other operations do
    not read it.
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
            if node.src[1:] != indices:
                return False
        elif any(n.op is Op.PARAM and n.arg.slot == slot for n in node.toposort()):
            return False
    return True


def _get_predecessors(items: Sequence[ScheduleItem]) -> list[set[int]]:
    """For each item, the positions of the items that must run before it: its dependencies, and
    hazards on shared memory.
    """
    accesses = [
        [
            access
            for argument in iter_arguments(item)
            # A custom function may write any argument.
            for access in list_accesses(
                argument.buffer, argument.is_written or effect_of(item.ast).op is Op.CUSTOM_FUNCTION
            )
        ]
        for item in items
    ]
    hazards = get_hazards(accesses, range(len(items)))
    return [
        conflicting.union(item.dependencies)
        for item, conflicting in zip(items, hazards, strict=True)
    ]


def _reorder(items: Sequence[ScheduleItem], order: Sequence[int]) -> list[ScheduleItem]:
    moved = {old: new for new, old in enumerate(order)}
    return [
        replace(items[old], dependencies=tuple(sorted(moved[d] for d in items[old].dependencies)))
        for old in order
    ]


def _get_ancestors(predecessors: Sequence[set[int]], order: Sequence[int]) -> list[int]:
    """For each position, a bit set of all positions that must run before it."""
    ancestors = [0] * len(predecessors)
    for position in order:
        for earlier in predecessors[position]:
            # Ints as bit sets: a union over a long schedule is one operation.
            ancestors[position] |= ancestors[earlier] | 1 << earlier
    return ancestors
