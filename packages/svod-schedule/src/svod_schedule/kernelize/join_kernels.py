"""join-kernels: horizontal and vertical fusion of elementwise kernels with equal loops.

before → after, for two results of the same array:

    CALL(SINK(END(STORE(INDEX(PARAM 0, r0), a(INDEX(PARAM 1, r0))), r0)), BUFFER -1, x)
    CALL(SINK(END(STORE(INDEX(PARAM 0, r0), b(INDEX(PARAM 1, r0))), r0)), BUFFER -2, x)

    CALL(SINK(END(GROUP(STORE(INDEX(PARAM 0, r0), a(INDEX(PARAM 2, r0))),
                        STORE(INDEX(PARAM 1, r0), b(INDEX(PARAM 2, r0)))), r0)), BUFFER -1, BUFFER -2, x)

If a kernel reads another one's result at the index where it is stored, it takes the value from a
register; a result without other readers is not stored. So the step of an optimizer, which assigns a
weight and its moments, goes through memory once. A concatenation of operands of equal size stores
each operand where it is computed (see `parts`). Three kinds of kernels are not joined: reductions,
kernels that read another one's result at a different index, and a kernel whose result has a single
reader, as after `contiguous`, with that reader."""

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
"""Maximum number of results of a joined kernel. Each is a memory stream, and prefetchers and write
buffers follow few of them at full speed."""

MAX_ARGUMENTS = 24
"""Maximum number of buffers of a joined kernel."""

MAX_KERNELS = 24
"""Maximum number of kernels that are joined: their values are live at the same time, in registers
or spilled to the stack."""

MAX_DISTANCE = 16
"""Maximum number of kernels that one with a new buffer is moved by: moving extends the live range
of the buffer.
"""

_Walk: TypeAlias = tuple[UOp, tuple[UOp, ...], tuple[UOp, ...]]
"""An access pattern: the memory, the loops, and the indices into the memory."""


def join_kernels(sink: UOp, max_buffers: int | None = None) -> UOp:
    """Join the kernels of a kernel graph that walk through the same memory.

    Args:
        max_buffers: the maximum number of arguments of a kernel.
    """
    nodes = sink.toposort(enter_calls=False)
    if sum(n.op is Op.CALL for n in nodes) < 2:
        return sink
    calls = _Calls.list(nodes, sink)
    order = _group_kernels(calls, min(max_buffers or MAX_ARGUMENTS, MAX_ARGUMENTS))
    return sink if all(len(group.members) == 1 for group in order) else _rebuild(sink, order, calls)


class _Group:
    """The indices of CALLs that become one, and the position of that one in the order of all."""

    def __init__(self, i: int) -> None:
        self.position = i
        self.members = [i]


@dataclass(frozen=True, slots=True, eq=False)
class _Calls:
    """The CALLs of a kernel graph in topological order, named by their indices.

    Attributes:
        needs: for each CALL, the CALLs that must run before it.
        readers: for each CALL, the CALLs that must run after it.
        kernels: the analyzed kernels, None for the CALLs that cannot be joined.
        kept: the memory of the results of the graph.
    """

    calls: tuple[UOp, ...]
    needs: tuple[tuple[int, ...], ...]
    readers: tuple[tuple[int, ...], ...]
    kernels: tuple[Elementwise | None, ...]
    kept: frozenset[UOp]

    @staticmethod
    def list(nodes: Sequence[UOp], sink: UOp) -> _Calls:
        """List the CALLs among `nodes`, which are in topological order."""
        needs = _list_needs(nodes)
        index_of = {call: i for i, call in enumerate(needs)}
        readers: list[list[int]] = [[] for _ in needs]
        for call, needed in needs.items():
            for producer in needed:
                readers[index_of[producer]].append(index_of[call])
        return _Calls(
            tuple(needs),
            tuple(tuple(index_of[producer] for producer in needed) for needed in needs.values()),
            tuple(map(tuple, readers)),
            tuple(map(find_elementwise, needs)),
            frozenset(s.unordered for s in sink.src),
        )

    def is_kept(self, i: int) -> bool:
        """Whether a CALL fills memory that outlives the run: a result, or an existing buffer."""
        memory = self.calls[i].arguments[0].unordered
        return memory in self.kept or not _is_new(memory)

    def is_private(self, i: int, reader: int) -> bool:
        """Whether a CALL fills memory that only one CALL reads."""
        return self.readers[i] == (reader,) and not self.is_kept(i)

    def joins_parts(self, i: int) -> bool:
        """Whether a CALL concatenates operands that other CALLs compute."""
        kernel = self.kernels[i]
        return kernel is not None and kernel.joins_parts

    def may_pass(self, i: int) -> bool:
        """Whether a result can be passed in registers: all its readers have the loops of its
        kernel.
        """
        kernel = self.kernels[i]
        if kernel is None or self.is_kept(i) or kernel.reads_result:
            return False
        readers = [self.kernels[reader] for reader in self.readers[i]]
        return all(reader is not None and reader.loops == kernel.loops for reader in readers)

    def get_kernels(self, group: _Group) -> list[Elementwise]:
        """List the analyzed kernels of a group: empty for a CALL that cannot be joined."""
        return [kernel for i in group.members if (kernel := self.kernels[i]) is not None]

    def list_memory(self, group: _Group) -> dict[UOp, list[UOp]]:
        """List the memory of the joined kernel, results first, with the arguments of the CALLs for
        it.

        Results that only the group reads are passed in registers. If the group overwrites existing
        memory, a result computed from the old version keeps its STORE, so that it is loaded before
        the write."""
        own = set(group.members)
        kernels = self.get_kernels(group)
        rewritten = {kernel.result for kernel in kernels if not _is_new(kernel.result)}
        # What such a kernel reads may be written by a CALL outside of the group.
        updated = {kernel.result for kernel in kernels if kernel.reads_result}
        passing = {
            kernel.result
            for i, kernel in zip(group.members, kernels, strict=True)
            if own.issuperset(self.readers[i])
            and not self.is_kept(i)
            and kernel.result not in updated
            and rewritten.isdisjoint(memory for _, memory in kernel.reads)
        }
        arguments_of: dict[UOp, list[UOp]] = {
            kernel.result: [] for kernel in kernels if kernel.result not in passing
        }
        for kernel in kernels:
            for memory, argument in zip(kernel.memory, kernel.call.arguments, strict=True):
                if memory not in passing:
                    arguments_of.setdefault(memory, []).append(argument)
        return arguments_of


def _group_kernels(calls: _Calls, max_arguments: int) -> list[_Group]:
    """Group the CALLs that are joined. Returns the groups in an order in which they can run."""
    groups = [_Group(i) for i in range(len(calls.calls))]
    # By pattern, the last kernel that has it: nearest in the order, so that little has to move.
    latest: dict[_Walk, int] = {}
    for i, kernel in enumerate(calls.kernels):
        if kernel is None:
            continue
        walks = list(_iter_walks(kernel))
        for walk in walks:
            new, group = groups[i], groups[latest.get(walk, i)]
            if new is group or not _are_joinable(group, new, calls, max_arguments):
                continue
            position = _find_position(group, new, groups, calls)
            if position is not None:
                group.position = position
                group.members = sorted([*group.members, *new.members])
                for n in new.members:
                    groups[n] = group
        latest.update(dict.fromkeys(walks, i))
    return sorted(dict.fromkeys(groups), key=lambda g: g.position)


def _list_needs(nodes: Sequence[UOp]) -> dict[UOp, frozenset[UOp]]:
    """Return for each CALL, in order, the CALLs that it directly depends on."""
    calls_below: dict[UOp, frozenset[UOp]] = {}
    needs: dict[UOp, frozenset[UOp]] = {}
    empty: frozenset[UOp] = frozenset()
    for node in nodes:
        operands = node.arguments if node.op is Op.CALL else node.src
        calls = empty.union(*(calls_below.get(s, empty) for s in operands))
        if node.op is Op.CALL:
            needs[node] = calls
            calls = frozenset((node,))
        calls_below[node] = calls
    return needs


def _is_new(memory: UOp) -> bool:
    """Whether memory is allocated for the run."""
    return memory.op is Op.BUFFER and memory.arg.id < 0


def _iter_walks(kernel: Elementwise) -> Iterator[_Walk]:
    """Yield the memory that a kernel walks through once: its result, and each operand of which
    every iteration reads a different element.
    """
    for indices in kernel.stored_indices:
        yield kernel.result, kernel.loops, indices
    loops = set(kernel.loops)
    for node, memory in kernel.reads:
        if loops <= node.ranges:
            yield memory, kernel.loops, node.src[1:]


def _find_position(
    group: _Group, new: _Group, groups: Sequence[_Group], calls: _Calls
) -> int | None:
    """Return the position in the order at which both groups can run: the position of one of them;
    None if neither works.
    """
    pair = (group, new)
    needed = {groups[n] for i in new.members for n in calls.needs[i]}
    if all(g in pair or g.position < group.position for g in needed) and _may_move(
        new, group.position, calls
    ):
        return group.position
    readers = {groups[r] for i in group.members for r in calls.readers[i]}
    if all(g in pair or g.position > new.position for g in readers) and _may_move(
        group, new.position, calls
    ):
        return new.position
    return None


def _may_move(group: _Group, position: int, calls: _Calls) -> bool:
    """Whether a group can move to another position without longer live ranges of buffers."""
    # Existing memory is live in any case, so only new buffers are kept near.
    is_near = abs(position - group.position) <= MAX_DISTANCE
    return is_near or not any(_is_new(kernel.result) for kernel in calls.get_kernels(group))


def _are_joinable(group: _Group, new: _Group, calls: _Calls, max_arguments: int) -> bool:
    """Whether one loop can run an iteration of each kernel in turn: each element that one writes is
    read only in the same iteration.
    """
    kernels, new_kernels = calls.get_kernels(group), calls.get_kernels(new)
    if (
        new_kernels[0].loops != kernels[0].loops
        or new_kernels[0].result.arg.device != kernels[0].result.arg.device
    ):
        return False
    stored_indices = {kernel.result: kernel.stored_indices for kernel in (*kernels, *new_kernels)}
    # Two kernels write the same memory: their order matters, and a joined kernel would have to keep
    # it.
    if len(stored_indices) < len(kernels) + len(new_kernels):
        return False
    if any(
        n.src[1:] not in stored_indices.get(memory, (n.src[1:],))
        for kernel in (*kernels, *new_kernels)
        for n, memory in kernel.reads
    ):
        return False
    return not _has_private_value(group, new, calls) and _is_small(
        [*group.members, *new.members], calls, max_arguments
    )


def _has_private_value(group: _Group, new: _Group, calls: _Calls) -> bool:
    """Whether one of two groups stores a value that only a kernel of the other one reads.

    Such a value was materialized on purpose, unless its reader is a concatenation."""
    return any(
        n in producers.members and calls.is_private(n, reader)
        for producers, consumers in ((group, new), (new, group))
        for reader in consumers.members
        if not calls.joins_parts(reader)
        for n in calls.needs[reader]
    )


def _is_small(members: Sequence[int], calls: _Calls, max_arguments: int) -> bool:
    """Whether a joined kernel has few enough kernels, stores and buffers.

    Results that can be passed in registers are not counted.
    """
    passing = {i for i in members if calls.may_pass(i)}
    memory = {m for i in members if (kernel := calls.kernels[i]) is not None for m in kernel.memory}
    in_registers = {kernel.result for i in passing if (kernel := calls.kernels[i]) is not None}
    n_stores = sum(
        len(kernel.stores)
        for i in members
        if i not in passing and (kernel := calls.kernels[i]) is not None
    )
    return (
        len(members) <= MAX_KERNELS
        and n_stores <= MAX_RESULTS
        and len(memory - in_registers) <= max_arguments
    )


def _rebuild(sink: UOp, order: Sequence[_Group], calls: _Calls) -> UOp:
    """Rebuild the kernel graph with one CALL for each group."""
    done: dict[UOp, UOp] = {}
    for group in order:
        own = [calls.calls[i] for i in group.members]
        if len(own) == 1:
            done[own[0]] = own[0].with_src(
                (own[0].body, *(_rewrite(a, done) for a in own[0].arguments))
            )
            continue
        arguments = calls.list_memory(group)
        body = make_joined_body(calls.get_kernels(group), list(arguments))
        ordered = (
            _order_after(memory, aliases, set(own), done) for memory, aliases in arguments.items()
        )
        joined = UOp(Op.CALL, void, (body, *ordered))
        propagate_labels(joined, own)
        done.update(dict.fromkeys(own, joined))
    return _rewrite(sink, done)


def _rewrite(root: UOp, done: dict[UOp, UOp]) -> UOp:
    """Rewrite `root`, whose CALLs are all in `done`."""
    for node in root.toposort(stop=done):
        if node not in done:
            done[node] = node.with_src(tuple(done[s] for s in node.src)) if node.src else node
    return done[root]


def _order_after(memory: UOp, arguments: Sequence[UOp], own: set[UOp], done: dict[UOp, UOp]) -> UOp:
    """Return `memory` after all calls that `arguments` depend on, except the calls in `own`, which
    are joined.
    """
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
    # Two AFTERs: the calls that fill the memory do not depend on the events of its reader.
    filled = memory.after(*fills)
    return filled.after(*(_rewrite(_get_result(e).after(e), done) for e in events))


def _list_calls(after: UOp) -> dict[UOp, None]:
    """List the calls that an AFTER depends on."""
    calls: dict[UOp, None] = {}
    stack = [after]
    while stack:
        node = stack.pop()
        if node.op is Op.AFTER:
            stack.extend(node.src)
        elif node.op in (Op.CALL, Op.END):
            calls[node] = None
    return calls


def _get_result(effect: UOp) -> UOp:
    """Return the first memory that a CALL, or the END that repeats it, fills."""
    call = effect.body if effect.op is Op.END else effect
    return call.arguments[0].unordered
