"""Schedules of graphs that differ only in their buffers and in the values of their variables.

A graph is normalised: each BUFFER becomes a numbered PARAM, each bound variable the variable itself.
Nodes are hash-consed, so that equal normalised graphs are one object and key the cache by identity
(together with the compiler's cache key); a hit costs no hashing of content. What is cached holds no memory: a
PreSchedule, and templates of the plans that were made from it, which wait for buffers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from svod_ir.args import ParamArg
from svod_ir.ops import Op
from svod_ir.uop import UOp
from svod_tensor.bounded_cache import BoundedCache
from svod_tensor.data import DEFAULT_DEVICE
from svod_tensor.origins import collect_lines
from svod_tensor.preschedule import PreSchedule
from svod_tensor.schedule import is_disk
from svod_tensor.variable import add_binding, is_bound

if TYPE_CHECKING:
    from svod_ir.origins import Origin
    from svod_runtime import PlanTemplate

__all__ = [
    "MAX_ENTRIES",
    "CachedSchedule",
    "NormalizedGraph",
    "clear",
    "counts",
    "get_schedule",
    "normalize_graph",
    "restore_pre_schedule",
]

MAX_ENTRIES: Final = 1024

_MAX_TEMPLATES: Final = 8

_BUFFER, _BIND, _COPY = Op.BUFFER, Op.BIND, Op.COPY


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


_cache: Final = BoundedCache[tuple[UOp, str], CachedSchedule](lambda: MAX_ENTRIES)

counts = _cache.counts
clear = _cache.clear


@dataclass(frozen=True, slots=True)
class NormalizedGraph:
    """A graph without identities, and what it left out.

    Attributes:
        graph: the graph.
        params: the BUFFER that each PARAM stands for, by slot.
        values: of the variables that are bound in it.
        devices: those that compute, the first of which is for values that come from no memory.
        lines: those that built the nodes of `graph`, where they were tracked.
    """

    graph: UOp
    params: tuple[UOp, ...]
    values: Mapping[str, int]
    devices: tuple[str, ...]
    lines: Mapping[UOp, frozenset[Origin]]


def normalize_graph(sink: UOp) -> NormalizedGraph:
    """`sink` with BUFFERs numbered in the order of the graph and variables without values.

    Raises:
        VariableConflictError: if a variable is bound to two values.
    """
    params: list[UOp] = []
    values: dict[str, int] = {}
    devices: dict[str, None] = {} if all(s.placement is not None for s in sink.src) else {DEFAULT_DEVICE: None}
    done: dict[UOp, UOp] = {}
    for node in sink.toposort():
        op, operands = node.op, node.src
        if op is _BUFFER:
            _, size, place = node.arg
            done[node] = UOp(Op.PARAM, node.dtype, (), ParamArg(len(params), size, place))
            params.append(node)
        elif op is _BIND and is_bound(node):
            add_binding(values, node)
            done[node] = operands[0]
            continue
        else:
            done[node] = node.with_src(tuple([done[s] for s in operands])) if operands else node
            if op is not _COPY:
                continue
            place = node.arg
        if not is_disk(place):
            devices[place] = None
    return NormalizedGraph(done[sink], tuple(params), values, tuple(devices) or (DEFAULT_DEVICE,), collect_lines(done))


def get_schedule(graph: UOp, compiler_key: str, make: Callable[[UOp], PreSchedule]) -> tuple[CachedSchedule, bool]:
    """The schedule of a normalised graph, and whether it was there already."""
    key = (graph, compiler_key)
    found = _cache.find(key)
    return (_cache.add(key, CachedSchedule(make(graph))), False) if found is None else (found, True)


def restore_pre_schedule(pre: PreSchedule, normalized: NormalizedGraph) -> PreSchedule:
    """`pre` on the buffers of this call. Bodies and order are shared with the cached one."""
    buffers: Mapping[UOp, UOp] = {
        UOp(Op.PARAM, b.dtype, (), ParamArg(slot, b.arg.size, b.arg.device)): b
        for slot, b in enumerate(normalized.params)
    }
    items = tuple(replace(item, memory=tuple(buffers.get(m, m) for m in item.memory)) for item in pre.items)
    return PreSchedule(items, pre.invocations, tuple(buffers.get(o, o) for o in pre.outputs))
