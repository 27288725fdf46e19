"""join-kernels: results of equal loops that read the same elements are computed by one kernel.

before → after, for two results of one array:

    CALL(SINK(END(STORE(INDEX(PARAM 0, r0), a(INDEX(PARAM 1, r0))), r0)), BUFFER -1, x)
    CALL(SINK(END(STORE(INDEX(PARAM 0, r0), b(INDEX(PARAM 1, r0))), r0)), BUFFER -2, x)

    CALL(SINK(END(GROUP(STORE(INDEX(PARAM 0, r0), a(INDEX(PARAM 2, r0))),
                        STORE(INDEX(PARAM 1, r0), b(INDEX(PARAM 2, r0)))), r0)), BUFFER -1, BUFFER -2, x)

What one kernel reads of another's result, where that is stored, it takes from the register. So the step of an optimizer,
which assigns a weight and its moments, goes through memory once. Kernels that reduce, and those that read elsewhere what
another one of them writes, stay apart; so does what was stored for one reader alone, as by `contiguous`, from this reader.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from svod_dtype import void
from svod_ir import Op, UOp
from svod_ir.origins import hand_on
from svod_schedule.kernelize.joined_body import Elementwise, find_elementwise, make_joined_body

__all__ = ["join_kernels"]

MAX_RESULTS = 8
"""Each result is one more stream of memory, of which a processor follows few at full speed."""

MAX_ARGUMENTS = 24

MAX_DISTANCE = 16
"""So many kernels at most are between a result's old place in the order and its new one, if its memory is taken that long."""

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
    order = _group_kernels(nodes, sink, min(max_buffers or MAX_ARGUMENTS, MAX_ARGUMENTS))
    return sink if all(len(group.numbers) == 1 for group in order) else _rebuild(sink, order)


class _Group:
    """CALLs that become one, and the place of that in the order of all."""

    def __init__(self, number: int, call: UOp, kernel: Elementwise | None) -> None:
        self.place = number
        self.numbers = [number]
        self.calls = [call]
        self.kernels = [] if kernel is None else [kernel]

    @property
    def arguments(self) -> dict[UOp, list[UOp]]:
        """The memory of each slot, results first, and the arguments that the kernels have for it."""
        found: dict[UOp, list[UOp]] = {kernel.result: [] for kernel in self.kernels}
        for kernel in self.kernels:
            for memory, argument in zip(kernel.memory, kernel.call.arguments, strict=True):
                found.setdefault(memory, []).append(argument)
        return found


def _group_kernels(nodes: Sequence[UOp], sink: UOp, max_arguments: int) -> list[_Group]:
    """All CALLs in an order in which they may run, those that become one together."""
    needs = _list_needs(nodes)
    calls = list(needs)
    number_of = {call: number for number, call in enumerate(calls)}
    readers: list[list[int]] = [[] for _ in calls]
    for call, needed in needs.items():
        for other in needed:
            readers[number_of[other]].append(number_of[call])
    results = {s.unordered for s in sink.src}
    groups: list[_Group] = []
    latest: dict[_Walk, _Group] = {}
    for number, call in enumerate(calls):
        kernel = find_elementwise(call)
        group = _Group(number, call, kernel)
        groups.append(group)
        if kernel is None:
            continue
        walks = list(_iter_walks(kernel))
        needed = [number_of[n] for n in needs[call]]
        private = {n for n in needed if readers[n] == [number] and not _is_kept(calls[n], results)}
        for other in dict.fromkeys(latest[w] for w in walks if w in latest):
            place = _find_place(other, group, [groups[n] for n in needed], groups, readers)
            if place is not None and private.isdisjoint(other.numbers) and _is_joinable(other, kernel, max_arguments):
                other.place = place
                other.numbers.append(number)
                other.calls.append(call)
                other.kernels.append(kernel)
                groups[number] = group = other
                break
        latest.update(dict.fromkeys(walks, group))
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


def _is_kept(call: UOp, results: set[UOp]) -> bool:
    """Whether a CALL fills something that is there after the run: a result, or memory that was there before."""
    memory = call.arguments[0].unordered
    return memory in results or not _is_new(memory)


def _is_new(memory: UOp) -> bool:
    """Whether memory is made for the run."""
    return memory.op is Op.BUFFER and memory.arg.id < 0


def _iter_walks(kernel: Elementwise) -> Iterator[_Walk]:
    """What a kernel goes through once: its result, and each memory of which every iteration reads another element."""
    yield kernel.result, kernel.loops, kernel.place
    loops = set(kernel.loops)
    for node, memory in kernel.reads:
        if loops <= node.ranges:
            yield memory, kernel.loops, node.src[1:]


def _find_place(
    group: _Group, new: _Group, needed: Sequence[_Group], groups: Sequence[_Group], readers: Sequence[Sequence[int]]
) -> int | None:
    """Where in the order all of `group` and `new` may run: at the place of one of the two; None if at neither."""
    if all(other is group or other.place < group.place for other in needed) and _may_move(new, group.place):
        return group.place
    following = {r for number in group.numbers for r in readers[number]}
    place = new.place
    is_before = all(
        r == place or (r > place if r >= len(groups) else groups[r] is group or groups[r].place > place)
        for r in following
    )
    return place if is_before and _may_move(group, place) else None


def _may_move(group: _Group, place: int) -> bool:
    """Whether it costs no memory to run a group at another place."""
    return abs(place - group.place) <= MAX_DISTANCE or not any(_is_new(kernel.result) for kernel in group.kernels)


def _is_joinable(group: _Group, new: Elementwise, max_arguments: int) -> bool:
    """Whether one loop may run an iteration of each kernel in turn: what one writes, others read in that iteration alone."""
    first = group.kernels[0]
    if new.loops != first.loops or new.result.arg.device != first.result.arg.device:
        return False
    results = {kernel.result: kernel.place for kernel in group.kernels}
    if new.result in results or len(results) >= MAX_RESULTS:
        return False
    if any(results.get(memory, node.src[1:]) != node.src[1:] for node, memory in new.reads):
        return False
    if any(memory is new.result and n.src[1:] != new.place for kernel in group.kernels for n, memory in kernel.reads):
        return False
    return len({*new.memory, *(m for kernel in group.kernels for m in kernel.memory)}) <= max_arguments


def _rebuild(sink: UOp, order: Sequence[_Group]) -> UOp:
    """The kernel graph with one CALL for each group."""
    done: dict[UOp, UOp] = {}
    for group in order:
        if len(group.calls) == 1:
            call = group.calls[0]
            done[call] = call.with_src((call.body, *(_rewrite(a, done) for a in call.arguments)))
            continue
        arguments = group.arguments
        body = make_joined_body(group.kernels, list(arguments))
        own = set(group.calls)
        waiting = (_wait(memory, found, own, done) for memory, found in arguments.items())
        joined = UOp(Op.CALL, void, (body, *waiting))
        hand_on(joined, group.calls)
        done.update(dict.fromkeys(group.calls, joined))
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
