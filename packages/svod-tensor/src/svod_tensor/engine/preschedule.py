"""preschedule: `KernelGraph` → `PreSchedule`. Kernels in order, with schedule loops unrolled, and
without buffers.

A kernel graph holds CALLs under AFTER edges:

    SINK(AFTER(BUFFER -2, CALL(body, BUFFER -2, AFTER(BUFFER -1, CALL(...)))))

A PreSchedule is independent of a run: equal graphs share it through the schedule cache."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from svod_ir import Op, UOp, sort_by_dependencies
from svod_ir.origins import get_labels
from svod_schedule.steps import KernelGraph
from svod_tensor.engine.memory_nodes import ALIASES, get_memory
from svod_tensor.engine.separate_results import separate_results
from svod_tensor.errors import DependencyCycleError, NoKernelsFoundError, ScheduleError

__all__ = [
    "BoundRange",
    "KernelInvocation",
    "PreSchedule",
    "PreScheduleItem",
    "create_pre_schedule",
    "preschedule",
]


@dataclass(frozen=True, slots=True)
class BoundRange:
    """A kernel variable that is the counter of a schedule loop."""

    name: str
    range: UOp


@dataclass(frozen=True, slots=True)
class PreScheduleItem:
    """A kernel without buffers.

    Attributes:
        id: its position in `PreSchedule.items`.
        kernel: the CALL.
        ast: its body.
        memory: the BUFFER or PARAM of each memory argument, in order.
        aliases: the further BUFFERs and PARAMs that the arguments name, such as the other shards of
            a stack.
        body: for a loop, the kernels that it repeats, with separate buffer ids; None for a kernel.
        count: maximum trip count of a loop.
        dependencies: ids of the items that must run before it.
        bound_ranges: variables that are counters of schedule loops.
        variables: names of all variables that the body reads.
        constants: values of variables that the kernel graph binds, used if they have no other
            value.
        computed: the nodes of the graph that it computes, by index, if they were recorded.
    """

    id: int
    kernel: UOp
    ast: UOp
    memory: tuple[UOp, ...]
    dependencies: tuple[int, ...] = ()
    bound_ranges: tuple[BoundRange, ...] = ()
    variables: frozenset[str] = frozenset()
    computed: tuple[int, ...] = ()
    constants: Mapping[str, int] = field(default_factory=dict[str, int])
    aliases: tuple[UOp, ...] = ()
    body: PreSchedule | None = None
    count: UOp | None = None


@dataclass(frozen=True, slots=True)
class KernelInvocation:
    """One run of an item, with the values that schedule loops give to its variables."""

    kernel_id: int
    fixedvars: Mapping[str, int] = field(default_factory=dict[str, int])


# A cache key: comparing by value would compare all kernels.
@dataclass(frozen=True, slots=True, eq=False)
class PreSchedule:
    """Kernels, their runs in order, and the memory of the outputs in the order of the SINK.
    Compared by identity.

    Attributes:
        first: the number of the first item, counting items in loops: an item has the number
            `first + id`.
    """

    items: tuple[PreScheduleItem, ...]
    invocations: tuple[KernelInvocation, ...]
    outputs: tuple[UOp, ...]
    first: int = 0

    def iter_numbered(self) -> Iterator[tuple[int, PreScheduleItem]]:
        """All items with their numbers; items of a loop follow the loop."""
        for item in self.items:
            yield self.first + item.id, item
            if item.body is not None:
                yield from item.body.iter_numbered()


def preschedule(kernels: KernelGraph, sink: UOp) -> PreSchedule:
    """The kernels in order, with separate memory for each result of `sink`, which they were built
    from.

    Raises:
        NoKernelsFoundError: if there is no kernel.
        ScheduleError: if the graph breaks a rule of scheduling.
        DependencyCycleError: if kernels depend on each other.
    """
    pre = create_pre_schedule(separate_results(kernels, sink))
    n_results = len(sink.src) if sink.op is Op.SINK else 1
    return replace(pre, outputs=pre.outputs[:n_results])


def create_pre_schedule(root: UOp, first: int = 0) -> PreSchedule:
    """Order the kernels of a kernel graph, and number them from `first` on.

    Raises:
        NoKernelsFoundError: if there is no CALL.
        ScheduleError: if the graph breaks a rule of scheduling.
        DependencyCycleError: if kernels depend on each other.
    """
    # The bodies of CALLs are kernels, whose nodes order nothing here.
    nodes = root.toposort(enter_calls=False)
    calls = [node for node in nodes if node.op is Op.CALL]
    if not calls:
        raise NoKernelsFoundError(root=root)
    loops = _get_loops(nodes)
    dependencies = _get_dependencies(calls, nodes)
    groups = _group_loops(calls, loops)
    order = _sort_groups(calls, dependencies, groups)
    id_of = {call: i for i, call in enumerate(order)}
    counts = {node.body: node.loops[0].stop for node in nodes if _is_repeat(node)}
    items: list[PreScheduleItem] = []
    # Items of loop bodies are numbered after all items of this level.
    end = first + len(order)
    for i, call in enumerate(order):
        item = _make_item(i, call, {id_of[d] for d in dependencies[call]}, loops)
        if call in counts:
            item = replace(item, body=create_pre_schedule(call.body, end), count=counts[call])
            end += sum(1 for _ in item.body.iter_numbered()) if item.body else 0
        items.append(item)
    outputs = tuple(get_memory(s) for s in root.src) if root.op is Op.SINK else (get_memory(root),)
    return PreSchedule(tuple(items), tuple(_unroll(items, loops)), outputs, first)


def _get_aliases(arguments: Sequence[UOp], memory: Sequence[UOp]) -> tuple[UOp, ...]:
    """The BUFFERs and PARAMs that arguments name besides `memory`, each once."""
    named: dict[UOp, None] = {}
    # Reversed, so that popping keeps the order of the arguments.
    stack = list(reversed(arguments))
    while stack:
        node = stack.pop()
        if node.op in (Op.BUFFER, Op.PARAM):
            named[node] = None
        elif node.op is Op.AFTER:
            stack.append(node.source)
        elif node.op in ALIASES:
            stack.extend(reversed(node.src))
    return tuple(node for node in named if node not in memory)


def _get_dependencies(calls: Sequence[UOp], nodes: Sequence[UOp]) -> dict[UOp, set[UOp]]:
    """For each CALL, the CALLs that must run before it."""
    dependencies: dict[UOp, set[UOp]] = {call: set() for call in calls}
    for call in calls:
        for argument in call.arguments:
            _add_producers(argument, dependencies[call])
    for node in nodes:
        if node.op is Op.AFTER:
            producers, order_only = _split_after(node)
            # An AFTER on another AFTER orders kernels that read nothing from each other, as a
            # reader before the write that overwrites its memory.
            for earlier in order_only:
                for call in producers:
                    _add_producers(earlier, dependencies[call])
    for call, producers_ in dependencies.items():
        # A kernel that updates its own memory names its result as an argument.
        producers_.discard(call)
    return dependencies


def _add_producers(source: UOp, found: set[UOp]) -> None:
    """Add the CALLs that fill `source`."""
    # An explicit stack: chains of kernels may be deeper than Python's recursion limit.
    stack = [source]
    while stack:
        node = stack.pop()
        match node.op:
            case Op.AFTER:
                producers, order_only = _split_after(node)
                found.update(producers)
                stack.extend(order_only)
                stack.append(node.source)
            case Op.BUFFER | Op.PARAM | Op.BIND | Op.DEFINE_LOCAL | Op.DEFINE_VAR | Op.CONST:
                pass
            case Op.MSTACK | Op.MSELECT:
                stack.extend(node.src)
            case _:
                if not node.src:
                    raise ScheduleError(
                        rule=(
                            "an argument of a CALL is AFTER, BUFFER, PARAM, DEFINE_LOCAL, MSELECT,"
                            " MSTACK or BIND"
                        ),
                        found=node,
                    )
                stack.append(node.source)


def _split_after(after: UOp) -> tuple[list[UOp], list[UOp]]:
    """The CALLs that an AFTER depends on, and the AFTERs that come before them."""
    calls: list[UOp] = []
    order_only: list[UOp] = []
    for dependency in after.dependencies:
        match dependency.op:
            case Op.CALL:
                calls.append(dependency)
            case Op.END if dependency.body.op is Op.CALL:
                calls.append(dependency.body)
            case Op.AFTER:
                order_only.append(dependency)
            case Op.STORE:
                pass
            case _:
                raise ScheduleError(
                    rule="an AFTER waits for CALL, END(CALL), STORE or AFTER", found=dependency
                )
    return calls, order_only


def _sort_groups(
    calls: Sequence[UOp], dependencies: Mapping[UOp, set[UOp]], groups: Mapping[UOp, int]
) -> list[UOp]:
    """Topological order (Kahn's algorithm), stable in the order of the graph; the kernels of a loop
    stay together.
    """
    members: dict[int, list[UOp]] = {}
    for call in calls:
        members.setdefault(groups[call], []).append(call)
    group_members = list(members.values())
    position_of = {group: position for position, group in enumerate(members)}
    waits = [
        {position_of[groups[d]] for call in members_ for d in dependencies[call]} - {position}
        for position, members_ in enumerate(group_members)
    ]
    order = [
        call
        for position in sort_by_dependencies(waits)
        for call in _sort_members(group_members[position], dependencies)
    ]
    # The sort leaves out everything on a cycle and behind it.
    if len(order) < len(calls):
        raise DependencyCycleError(kernels=[c for c in calls if c not in set(order)])
    return order


def _sort_members(members: Sequence[UOp], dependencies: Mapping[UOp, set[UOp]]) -> list[UOp]:
    if len(members) == 1:
        return list(members)
    # Values from outside of the loop are computed before it begins.
    group = set(members)
    return _sort_groups(
        members,
        {c: dependencies[c] & group for c in members},
        {c: i for i, c in enumerate(members)},
    )


def _get_loops(nodes: Sequence[UOp]) -> dict[UOp, UOp]:
    """The schedule loop around each CALL, if any: the RANGE of its END."""
    loops: dict[UOp, UOp] = {}
    for node in nodes:
        if node.op is not Op.END or node.body.op is not Op.CALL or _is_repeat(node):
            continue
        ranges = [r for r in node.loops if r.op is Op.RANGE]
        if len(ranges) > 1:
            raise ScheduleError(
                rule="an END(CALL) closes at most one range", found=[r.arg.id for r in ranges]
            )
        if ranges:
            loops[node.body] = ranges[0]
    return loops


def _is_repeat(node: UOp) -> bool:
    """True if a node is an END around the call of a kernel graph, a loop that the plan runs."""
    return node.op is Op.END and node.body.op is Op.CALL and node.body.arg is not None


def _group_loops(calls: Sequence[UOp], loops: Mapping[UOp, UOp]) -> dict[UOp, int]:
    """A group number for each CALL, equal for the CALLs of one loop; earlier groups have smaller
    numbers.
    """
    first: dict[UOp, int] = {}
    # One group for each loop, so that no other kernel is ordered between its kernels: `_unroll`
    # repeats a contiguous part.
    return {call: first.setdefault(loops.get(call, call), i) for i, call in enumerate(calls)}


def _make_item(
    item_id: int, call: UOp, dependencies: set[int], loops: Mapping[UOp, UOp]
) -> PreScheduleItem:
    body, *arguments = call.src
    scheduled = set(loops.values())
    bound = tuple(
        BoundRange(a.symbol.arg.name, a.value) for a in arguments if _is_loop_counter(a, scheduled)
    )
    for counter in bound:
        if loops.get(call) is not counter.range:
            raise ScheduleError(
                rule=(
                    f"kernel {item_id} reads variable {counter.name!r} inside the loop that"
                    " counts it"
                ),
                found=f"range {counter.range.arg.id}, which is not active there",
            )
    # A bound variable takes a slot, but has no memory.
    memory = tuple(get_memory(a) for a in arguments if a.op is not Op.BIND)
    variables = frozenset(n.arg.name for n in body.iter_ops(Op.DEFINE_VAR))
    constants = {
        a.symbol.arg.name: a.value.arg
        for a in arguments
        if a.op is Op.BIND and a.value.op is Op.CONST
    }
    return PreScheduleItem(
        item_id,
        call,
        body,
        memory,
        tuple(sorted(dependencies)),
        bound,
        variables,
        _list_computed(call),
        constants,
        _get_aliases(arguments, memory),
    )


def _list_computed(call: UOp) -> tuple[int, ...]:
    """Indices of the nodes that a CALL computes; empty if they are not recorded."""
    return tuple(sorted(label for label in get_labels(call) if isinstance(label, int)))


def _is_loop_counter(argument: UOp, scheduled: set[UOp]) -> bool:
    """True if an argument binds a variable to a RANGE that is a schedule loop."""
    if argument.op is not Op.BIND:
        return False
    if argument.symbol.op is not Op.DEFINE_VAR:
        raise ScheduleError(rule="a BIND gives a value to a DEFINE_VAR", found=argument)
    return argument.value in scheduled


def _unroll(
    items: Sequence[PreScheduleItem], loops: Mapping[UOp, UOp]
) -> Iterator[KernelInvocation]:
    """Yield each item, and the items of a loop once for each value of its counter."""
    position = 0
    while position < len(items):
        loop = loops.get(items[position].kernel)
        end = position + 1
        while end < len(items) and loops.get(items[end].kernel) is loop:
            end += 1
        values = range(1) if loop is None else _loop_values(loop)
        for value in values:
            for item in items[position:end]:
                yield KernelInvocation(item.id, {b.name: value for b in item.bound_ranges})
        position = end


def _loop_values(loop: UOp) -> range:
    end = loop.stop
    if end.op is not Op.CONST or not isinstance(end.arg, int):
        raise ScheduleError(
            rule=f"schedule range {loop.arg.id} has a concrete integer bound", found=end
        )
    if end.arg < 1:
        raise ScheduleError(rule=f"schedule range {loop.arg.id} runs at least once", found=end.arg)
    return range(end.arg)
