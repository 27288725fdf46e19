"""The disk behind the schedule cache: graphs that an earlier process cut into kernels need no
passes here.

A kernel graph is kept in its text form, which reads back to the identical nodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from svod_codegen.disk_store import get_disk_store, make_key
from svod_codegen.kernel_store import describe_target, fingerprint_code, get_kernel_store
from svod_ir import parse_graph, print_graph
from svod_schedule.steps import KernelGraph
from svod_tensor.engine.observe import is_observed

if TYPE_CHECKING:
    from svod_schedule.pipeline import Context
    from svod_tensor.engine.build import TensorGraph
    from svod_tensor.options import PrepareConfig

__all__ = ["find_stored_graph", "store_graph"]


def find_stored_graph(
    graph: TensorGraph, context: Context, config: PrepareConfig
) -> KernelGraph | None:
    """The kernels of an equal graph that an earlier process stored; None too where someone wants to
    see the passes run.
    """
    if not _is_kept(graph, context, config):
        return None
    store, key = get_disk_store("graphs"), _make_key(graph, context)
    data = store.get(key)
    if data is None:
        return None
    try:
        return KernelGraph(parse_graph(data.decode()))
    except ValueError:
        # Whole, and yet no graph: some other program wrote it.
        store.reject(key)
        return None


def store_graph(
    graph: TensorGraph, context: Context, config: PrepareConfig, kernels: KernelGraph
) -> None:
    """Keep the kernels of a graph for later processes."""
    if _is_kept(graph, context, config):
        get_disk_store("graphs").put(_make_key(graph, context), print_graph(kernels).encode())


def _is_kept(graph: TensorGraph, context: Context, config: PrepareConfig) -> bool:
    """Whether the kernels of a graph are the same in every process, and nobody asked to see them
    made.
    """
    return (
        get_kernel_store().store.max_bytes > 0
        and not (config.disable_schedule_cache or context.options.needs_passes or is_observed())
        # Passes of one's own are code that has no name, and lines are told to nodes while they are
        # rewritten.
        and config.passes is None
        and not graph.lines
    )


def _make_key(graph: TensorGraph, context: Context) -> str:
    """All that the passes over a graph may look at."""
    targets = [
        part
        for device in graph.devices
        for part in (device, describe_target(context.target_of(device)))
    ]
    return make_key(graph.sink.content_hash, *targets, fingerprint_code())
