"""Schedules of graphs that differ only in their buffers and in the values of their variables.

A graph is normalised: each BUFFER becomes a numbered PARAM, each bound variable the variable itself.
Nodes are hash-consed, so that equal normalised graphs are one object and key the cache by identity
(together with the compiler's cache key); a hit costs no hashing of content. What is cached holds no buffer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from svod_ir.args import ParamArg
from svod_ir.ops import Op
from svod_ir.uop import UOp
from svod_tensor.bounded_cache import BoundedCache
from svod_tensor.preschedule import PreSchedule

__all__ = [
    "MAX_ENTRIES",
    "NormalizedGraph",
    "clear",
    "counts",
    "get_pre_schedule",
    "normalize_graph",
    "restore_pre_schedule",
]

MAX_ENTRIES: Final = 1024

_cache: Final = BoundedCache[tuple[UOp, str], PreSchedule](lambda: MAX_ENTRIES)

counts = _cache.counts
clear = _cache.clear


@dataclass(frozen=True, slots=True)
class NormalizedGraph:
    """A graph without identities, and the BUFFER that each PARAM stands for, by slot."""

    graph: UOp
    params: tuple[UOp, ...]


def normalize_graph(sink: UOp) -> NormalizedGraph:
    """`sink` with BUFFERs numbered in the order of the graph and variables without values."""
    params: list[UOp] = []
    replacements: dict[UOp, UOp] = {}
    for node in sink.toposort():
        if node.op is Op.BUFFER:
            replacements[node] = UOp(Op.PARAM, node.dtype, (), ParamArg(len(params), node.arg.size, node.arg.device))
            params.append(node)
        elif node.op is Op.BIND and node.src[1].op is Op.CONST:
            replacements[node] = node.src[0]
    return NormalizedGraph(sink.substitute(replacements), tuple(params))


def get_pre_schedule(graph: UOp, compiler_key: str, make: Callable[[UOp], PreSchedule]) -> tuple[PreSchedule, bool]:
    """The schedule of a normalised graph, and whether it was there already."""
    key = (graph, compiler_key)
    found = _cache.find(key)
    return (_cache.add(key, make(graph)), False) if found is None else (found, True)


def restore_pre_schedule(pre: PreSchedule, normalized: NormalizedGraph) -> PreSchedule:
    """`pre` on the buffers of this call. Bodies and order are shared with the cached one."""
    buffers: Mapping[UOp, UOp] = {
        UOp(Op.PARAM, b.dtype, (), ParamArg(slot, b.arg.size, b.arg.device)): b
        for slot, b in enumerate(normalized.params)
    }
    items = tuple(replace(item, memory=tuple(buffers.get(m, m) for m in item.memory)) for item in pre.items)
    return PreSchedule(items, pre.invocations, tuple(buffers.get(o, o) for o in pre.outputs))
