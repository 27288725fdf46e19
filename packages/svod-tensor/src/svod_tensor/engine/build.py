"""Schedules of graphs that differ only in their buffers and in the values of their variables.

A graph is normalised: each BUFFER becomes a numbered PARAM, each bound variable the variable itself.
Nodes are hash-consed, so that equal normalised graphs are one object and key the cache by identity
(together with the compiler's cache key); a hit costs no hashing of content. What is cached holds no memory: a
PreSchedule, and templates of the plans that were made from it, which wait for buffers.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from svod_ir.args import ParamArg
from svod_ir.ops import Op
from svod_ir.uop import UOp
from svod_tensor.engine.bindings import add_binding, add_variable, is_bound
from svod_tensor.engine.bounded_cache import BoundedCache
from svod_tensor.engine.instantiate import is_disk
from svod_tensor.engine.kernel_origins import collect_lines
from svod_tensor.engine.preschedule import PreSchedule
from svod_tensor.engine.states import effect_of_state, find_whole_state, is_later_state, memory_of
from svod_tensor.options import DEFAULT_DEVICE

if TYPE_CHECKING:
    from svod_ir.origins import Origin
    from svod_runtime import PlanTemplate

__all__ = [
    "MAX_ENTRIES",
    "CachedSchedule",
    "NormalizedGraph",
    "ScheduleKey",
    "clear",
    "counts",
    "get_schedule",
    "make_result",
    "normalize_graph",
    "normalize_results",
    "restore_pre_schedule",
]

MAX_ENTRIES: Final = 1024

_MAX_TEMPLATES: Final = 8

_BUFFER, _BIND, _COPY, _AFTER, _PARAM, _CONTIGUOUS = Op.BUFFER, Op.BIND, Op.COPY, Op.AFTER, Op.PARAM, Op.CONTIGUOUS
_DEFINE_VAR = Op.DEFINE_VAR


@dataclass(frozen=True, slots=True)
class CachedSchedule:
    """What equal graphs share: kernels in order, and the templates of plans that run them, by what else those depend on."""

    pre: PreSchedule
    templates: dict[object, PlanTemplate] = field(default_factory=dict["object", "PlanTemplate"])

    def add_template(self, key: object, template: PlanTemplate) -> None:
        """Keep a template; there are several where buffers share memory in several ways, or for several options."""
        if len(self.templates) >= _MAX_TEMPLATES:
            self.templates.clear()
        self.templates[key] = template


ScheduleKey: TypeAlias = tuple[UOp, *tuple[Hashable, ...]]
"""A normalised graph, and what else its kernels depend on."""

_cache: Final = BoundedCache[ScheduleKey, CachedSchedule](lambda: MAX_ENTRIES)

counts = _cache.counts
clear = _cache.clear


class NormalizedGraph(NamedTuple):
    """A graph without identities, and what it left out.

    Attributes:
        graph: the graph.
        params: the BUFFER that each PARAM stands for, by slot.
        values: of the variables that are bound in it.
        devices: those that compute, the first of which is for values that come from no memory.
        lines: those that built the nodes of `graph`, where they were tracked.
        written: the pending states that it computes, and the BUFFER that has the content of each afterwards.
        has_files: whether files are among `params`.
    """

    graph: UOp
    params: tuple[UOp, ...]
    values: Mapping[str, int]
    devices: tuple[str, ...]
    lines: Mapping[UOp, frozenset[Origin]]
    written: Mapping[UOp, UOp]
    has_files: bool


def normalize_graph(sink: UOp) -> NormalizedGraph:
    """`sink` with BUFFERs numbered in the order of the graph and variables without values.

    Raises:
        VariableConflictError: if a variable is bound to two values.
        BoundsConflictError: if two variables have one name.
    """
    return _normalize(sink.src, sink.toposort()[:-1], [False] * len(sink.src), {})


def make_result(node: UOp) -> UOp:
    """What the SINK holds for `node`: its value in new memory, or an assignment to memory that is there."""
    state = find_whole_state(node)
    return UOp(_CONTIGUOUS, node.dtype, (node,)) if state is None else effect_of_state(state)


def normalize_results(nodes: Sequence[UOp]) -> NormalizedGraph:
    """`normalize_graph` of the SINK that `make_result` gives for `nodes`, which is not made for that.

    Raises:
        VariableConflictError: if a variable is bound to two values.
        BoundsConflictError: if two variables have one name.
    """
    states = [find_whole_state(node) for node in nodes]
    roots = [node if state is None else effect_of_state(state) for node, state in zip(nodes, states, strict=True)]
    order = roots[0].toposort() if len(roots) == 1 else UOp.sink(*roots).toposort()[:-1]
    written = {state: memory_of(state) for state in states if state is not None}
    return _normalize(roots, order, [state is None for state in states], written)


def _normalize(
    roots: Sequence[UOp], order: Sequence[UOp], is_stored: Sequence[bool], written: dict[UOp, UOp]
) -> NormalizedGraph:
    params: list[UOp] = []
    values: dict[str, int] = {}
    variables: dict[str, UOp] = {}
    devices: dict[str, None] = {} if all(root.placement is not None for root in roots) else {DEFAULT_DEVICE: None}
    done: dict[UOp, UOp] = {}
    has_files = False
    for node in order:
        op, operands = node.op, node.src
        if op is _BUFFER:
            _, size, place = node.arg
            done[node] = UOp(_PARAM, node.dtype, (), ParamArg(len(params), size, place))
            params.append(node)
        elif op is _BIND and is_bound(node):
            add_binding(values, node)
            done[node] = operands[0]
            continue
        else:
            done[node] = UOp(op, node.dtype, tuple([done[s] for s in operands]), node.arg) if operands else node
            if op is not _COPY:
                if op is _DEFINE_VAR:
                    add_variable(variables, node)
                elif op is _AFTER and is_later_state(node):
                    written[node] = operands[0]
                    # Equal assignments are one schedule: the number of this one is left out.
                    done[node] = UOp(op, node.dtype, (done[operands[0]], done[operands[1]]), node.arg)
                continue
            place = node.arg
        if place not in devices:
            if is_disk(place):
                has_files = True
            else:
                devices[place] = None
    sink = UOp.sink(
        *[
            UOp(_CONTIGUOUS, root.dtype, (done[root],)) if stored else done[root]
            for root, stored in zip(roots, is_stored, strict=True)
        ]
    )
    lines = collect_lines(done)
    return NormalizedGraph(sink, tuple(params), values, tuple(devices) or (DEFAULT_DEVICE,), lines, written, has_files)


def get_schedule(key: ScheduleKey, make: Callable[[UOp], PreSchedule]) -> tuple[CachedSchedule, bool]:
    """The schedule of a normalised graph, and whether it was there already."""
    found = _cache.find(key)
    return (_cache.add(key, CachedSchedule(make(key[0]))), False) if found is None else (found, True)


def restore_pre_schedule(pre: PreSchedule, normalized: NormalizedGraph) -> PreSchedule:
    """`pre` on the buffers of this call. Bodies and order are shared with the cached one."""
    buffers: Mapping[UOp, UOp] = {
        UOp(Op.PARAM, b.dtype, (), ParamArg(slot, b.arg.size, b.arg.device)): b
        for slot, b in enumerate(normalized.params)
    }

    def restore(nodes: tuple[UOp, ...]) -> tuple[UOp, ...]:
        return tuple([buffers.get(node, node) for node in nodes])

    items = tuple(replace(i, memory=restore(i.memory), aliases=restore(i.aliases)) for i in pre.items)
    return PreSchedule(items, pre.invocations, tuple(buffers.get(o, o) for o in pre.outputs))
