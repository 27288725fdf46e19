"""join-kernels: results of equal loops that read the same elements are computed by one kernel.

before → after, for two results of one array:

    CALL(SINK(END(STORE(INDEX(PARAM 0, r0), a(INDEX(PARAM 1, r0))), r0)), BUFFER -1, x)
    CALL(SINK(END(STORE(INDEX(PARAM 0, r0), b(INDEX(PARAM 1, r0))), r0)), BUFFER -2, x)

    CALL(SINK(END(GROUP(STORE(INDEX(PARAM 0, r0), a(INDEX(PARAM 2, r0))),
                        STORE(INDEX(PARAM 1, r0), b(INDEX(PARAM 2, r0)))), r0)), BUFFER -1, BUFFER -2, x)

What one kernel reads of another's result, where that is stored, it takes from the register; a
result that nothing else reads is not stored. So the step of an optimizer, which assigns a weight
and its moments, goes through memory once. A concatenation of parts of one size stores each part
where it is computed (see `parts`). Kernels that reduce, and those that read elsewhere what another
one of them writes, stay apart; so does what was stored for one reader alone, as by `contiguous`,
from this reader."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from svod_dtype import void
from svod_ir import Op, UOp
from svod_ir.origins import propagate_labels
from svod_schedule.kernelize.bodies.joined_body import (
    Elementwise,
    find_elementwise,
    make_joined_body,
)

__all__ = ["join_kernels"]

MAX_RESULTS = 8
"""Each result is one more stream of memory, of which a processor follows few at full speed."""

MAX_ARGUMENTS = 24

MAX_KERNELS = 24
"""Values of all of them are in registers together, or on the stack."""

MAX_DISTANCE = 16
"""So many kernels at most are between a result's old place in the order and its new one, if its
memory is taken that long.
"""

_Walk: TypeAlias = tuple[UOp, tuple[UOp, ...], tuple[UOp, ...]]
"""A memory, the loops, and the position in the memory at each of their iterations."""


def join_kernels(sink: UOp, max_buffers: int | None = None) -> UOp:
    """A kernel graph in which kernels that walk through the same memory are one.

    Args:
        max_buffers: how many arguments a kernel may have.
    """
    nodes = sink.toposort(enter_calls=False)
    if sum(n.op is Op.CALL for n in nodes) < 2:
        return sink
    calls = _Calls.list(nodes, sink)
    order = _group_kernels(calls, min(max_buffers or MAX_ARGUMENTS, MAX_ARGUMENTS))
    return sink if all(len(group.numbers) == 1 for group in order) else _rebuild(sink, order, calls)


class _Group:
    """CALLs that become one, by number, and the place of that in the order of all."""

    def __init__(self, number: int) -> None:
        self.place = number
        self.numbers = [number]


@dataclass(frozen=True, slots=True, eq=False)
class _Calls:
    """The CALLs of a kernel graph, by number, in an order in which they may run.

    Attributes:
        needs: for each, those that must run before it.
        readers: for each, those that must run after it.
        kernels: what is known of those that may be joined.
        kept: the memory that is there after the run.
    """

    calls: tuple[UOp, ...]
    needs: tuple[tuple[int, ...], ...]
    readers: tuple[tuple[int, ...], ...]
    kernels: tuple[Elementwise | None, ...]
    kept: frozenset[UOp]

    @staticmethod
    def list(nodes: Sequence[UOp], sink: UOp) -> _Calls:
        """Those among `nodes`, which are sorted."""
        needs = _list_needs(nodes)
        number_of = {call: number for number, call in enumerate(needs)}
        readers: list[list[int]] = [[] for _ in needs]
        for call, needed in needs.items():
            for other in needed:
                readers[number_of[other]].append(number_of[call])
        return _Calls(
            tuple(needs),
            tuple(tuple(number_of[other] for other in needed) for needed in needs.values()),
            tuple(map(tuple, readers)),
            tuple(map(find_elementwise, needs)),
            frozenset(s.unordered for s in sink.src),
        )

    def is_kept(self, number: int) -> bool:
        """Whether a CALL fills something that is there after the run: a result, or memory that was
        there before.
        """
        memory = self.calls[number].arguments[0].unordered
        return memory in self.kept or not _is_new(memory)

    def is_private(self, number: int, reader: int) -> bool:
        """Whether a CALL fills memory for one reader alone."""
        return self.readers[number] == (reader,) and not self.is_kept(number)

    def joins_parts(self, number: int) -> bool:
        """Whether a CALL fills memory with parts that are computed elsewhere."""
        kernel = self.kernels[number]
        return kernel is not None and kernel.joins_parts

    def may_pass(self, number: int) -> bool:
        """Whether a result may go from kernel to kernel in registers: whether all that read it go
        through its loops.
        """
        kernel = self.kernels[number]
        if kernel is None or self.is_kept(number):
            return False
        readers = [self.kernels[reader] for reader in self.readers[number]]
        return all(reader is not None and reader.loops == kernel.loops for reader in readers)

    def get_kernels(self, group: _Group) -> list[Elementwise]:
        """What is known of the kernels of a group; nothing of one that may not be joined."""
        return [kernel for number in group.numbers if (kernel := self.kernels[number]) is not None]

    def list_memory(self, group: _Group) -> dict[UOp, list[UOp]]:
        """The memory that the kernel of a group has, results first, and the arguments of its CALLs
        for it.

        What the group alone reads goes from kernel to kernel in registers. An element that the
        group writes anew has to be read before: what was stored of it keeps its STORE, which reads
        it at its place in the order."""
        own = set(group.numbers)
        kernels = self.get_kernels(group)
        rewritten = {kernel.result for kernel in kernels if not _is_new(kernel.result)}
        passing = {
            kernel.result
            for number, kernel in zip(group.numbers, kernels, strict=True)
            if own.issuperset(self.readers[number])
            and not self.is_kept(number)
            and rewritten.isdisjoint(memory for _, memory in kernel.reads)
        }
        found: dict[UOp, list[UOp]] = {
            kernel.result: [] for kernel in kernels if kernel.result not in passing
        }
        for kernel in kernels:
            for memory, argument in zip(kernel.memory, kernel.call.arguments, strict=True):
                if memory not in passing:
                    found.setdefault(memory, []).append(argument)
        return found


def _group_kernels(found: _Calls, max_arguments: int) -> list[_Group]:
    """All CALLs in an order in which they may run, those that become one together."""
    groups = [_Group(number) for number in range(len(found.calls))]
    latest: dict[_Walk, int] = {}
    for number, kernel in enumerate(found.kernels):
        if kernel is None:
            continue
        walks = list(_iter_walks(kernel))
        for walk in walks:
            group, other = groups[number], groups[latest.get(walk, number)]
            if group is other or not _are_joinable(other, group, found, max_arguments):
                continue
            place = _find_place(other, group, groups, found)
            if place is not None:
                other.place = place
                other.numbers = sorted([*other.numbers, *group.numbers])
                for n in group.numbers:
                    groups[n] = other
        latest.update(dict.fromkeys(walks, number))
    return sorted(dict.fromkeys(groups), key=lambda g: g.place)


def _list_needs(nodes: Sequence[UOp]) -> dict[UOp, frozenset[UOp]]:
    """For each CALL, in order, those that must run before it."""
    behind: dict[UOp, frozenset[UOp]] = {}
    needs: dict[UOp, frozenset[UOp]] = {}
    nothing: frozenset[UOp] = frozenset()
    for node in nodes:
        operands = node.arguments if node.op is Op.CALL else node.src
        found = nothing.union(*(behind.get(s, nothing) for s in operands))
        if node.op is Op.CALL:
            needs[node] = found
            found = frozenset((node,))
        behind[node] = found
    return needs


def _is_new(memory: UOp) -> bool:
    """Whether memory is made for the run."""
    return memory.op is Op.BUFFER and memory.arg.id < 0


def _iter_walks(kernel: Elementwise) -> Iterator[_Walk]:
    """What a kernel goes through once: its result, and each memory of which every iteration reads
    another element.
    """
    for place in kernel.places:
        yield kernel.result, kernel.loops, place
    loops = set(kernel.loops)
    for node, memory in kernel.reads:
        if loops <= node.ranges:
            yield memory, kernel.loops, node.src[1:]


def _find_place(group: _Group, new: _Group, groups: Sequence[_Group], found: _Calls) -> int | None:
    """Where in the order all of two groups may run: at the place of one of them; None if at
    neither.
    """
    both = (group, new)
    needed = {groups[n] for number in new.numbers for n in found.needs[number]}
    if all(other in both or other.place < group.place for other in needed) and _may_move(
        new, group.place, found
    ):
        return group.place
    readers = {groups[r] for number in group.numbers for r in found.readers[number]}
    if all(other in both or other.place > new.place for other in readers) and _may_move(
        group, new.place, found
    ):
        return new.place
    return None


def _may_move(group: _Group, place: int, found: _Calls) -> bool:
    """Whether it costs no memory to run a group at another place."""
    is_near = abs(place - group.place) <= MAX_DISTANCE
    return is_near or not any(_is_new(kernel.result) for kernel in found.get_kernels(group))


def _are_joinable(group: _Group, new: _Group, found: _Calls, max_arguments: int) -> bool:
    """Whether one loop may run an iteration of each kernel in turn: what one writes, others read in
    that iteration alone.
    """
    kernels, others = found.get_kernels(group), found.get_kernels(new)
    if (
        others[0].loops != kernels[0].loops
        or others[0].result.arg.device != kernels[0].result.arg.device
    ):
        return False
    places = {kernel.result: kernel.places for kernel in (*kernels, *others)}
    if len(places) < len(kernels) + len(others):
        return False
    if any(
        n.src[1:] not in places.get(memory, (n.src[1:],))
        for kernel in (*kernels, *others)
        for n, memory in kernel.reads
    ):
        return False
    return not _is_between(group, new, found) and _is_small(
        [*group.numbers, *new.numbers], found, max_arguments
    )


def _is_between(group: _Group, new: _Group, found: _Calls) -> bool:
    """Whether one of two groups stores what a kernel of the other alone reads, other than as a part
    of its result.
    """
    pairs = ((group, new), (new, group))
    return any(
        n in one.numbers and found.is_private(n, reader)
        for one, other in pairs
        for reader in other.numbers
        if not found.joins_parts(reader)
        for n in found.needs[reader]
    )


def _is_small(numbers: Sequence[int], found: _Calls, max_arguments: int) -> bool:
    """Whether kernels become one that a processor runs well.

    What may stay in registers is not counted.
    """
    passing = {number for number in numbers if found.may_pass(number)}
    memory = {
        m
        for number in numbers
        if (kernel := found.kernels[number]) is not None
        for m in kernel.memory
    }
    in_registers = {
        kernel.result for number in passing if (kernel := found.kernels[number]) is not None
    }
    n_stores = sum(
        len(k.stores)
        for number in numbers
        if number not in passing and (k := found.kernels[number]) is not None
    )
    return (
        len(numbers) <= MAX_KERNELS
        and n_stores <= MAX_RESULTS
        and len(memory - in_registers) <= max_arguments
    )


def _rebuild(sink: UOp, order: Sequence[_Group], calls: _Calls) -> UOp:
    """The kernel graph with one CALL for each group."""
    done: dict[UOp, UOp] = {}
    for group in order:
        own = [calls.calls[number] for number in group.numbers]
        if len(own) == 1:
            done[own[0]] = own[0].with_src(
                (own[0].body, *(_rewrite(a, done) for a in own[0].arguments))
            )
            continue
        arguments = calls.list_memory(group)
        body = make_joined_body(calls.get_kernels(group), list(arguments))
        waiting = (_wait(memory, found, set(own), done) for memory, found in arguments.items())
        joined = UOp(Op.CALL, void, (body, *waiting))
        propagate_labels(joined, own)
        done.update(dict.fromkeys(own, joined))
    return _rewrite(sink, done)


def _rewrite(root: UOp, done: dict[UOp, UOp]) -> UOp:
    """`root`, all of whose CALLs are in `done`."""
    for node in root.toposort(stop=done):
        if node not in done:
            done[node] = node.with_src(tuple(done[s] for s in node.src)) if node.src else node
    return done[root]


def _wait(memory: UOp, arguments: Sequence[UOp], own: set[UOp], done: dict[UOp, UOp]) -> UOp:
    """`memory` behind all that `arguments` wait for, but for what happens in the same kernel."""
    fills: dict[UOp, None] = {}
    events: dict[UOp, None] = {}
    for argument in arguments:
        node = argument
        while node.op is Op.AFTER:
            for effect in node.dependencies:
                if effect.op is Op.AFTER:
                    events.update((e, None) for e in _list_calls(effect) if e not in own)
                elif effect not in own:
                    fills[_rewrite(effect, done)] = None
            node = node.source
    # What fills the memory does not wait for what its reader waits for: these are two AFTERs.
    filled = memory.after(*fills)
    return filled.after(*(_rewrite(_get_result(e).after(e), done) for e in events))


def _list_calls(after: UOp) -> dict[UOp, None]:
    """The calls that have run when memory is behind `after`."""
    found: dict[UOp, None] = {}
    stack = [after]
    while stack:
        node = stack.pop()
        if node.op is Op.AFTER:
            stack.extend(node.src)
        elif node.op in (Op.CALL, Op.END):
            found[node] = None
    return found


def _get_result(effect: UOp) -> UOp:
    """The first memory that a CALL, or what repeats it, fills."""
    call = effect.body if effect.op is Op.END else effect
    return call.arguments[0].unordered
