"""Disk cache of kernel graphs: a graph that an earlier process lowered to kernels needs no passes.

A kernel graph is stored in its text form, which parses back to the identical nodes."""

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
    """The kernels of an equal graph that an earlier process stored; None also if an observer must
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
        # The entry is intact but is not a graph: another program wrote it.
        store.reject(key)
        return None


def store_graph(
    graph: TensorGraph, context: Context, config: PrepareConfig, kernels: KernelGraph
) -> None:
    """Store the kernels of a graph for later processes."""
    if _is_kept(graph, context, config):
        get_disk_store("graphs").put(_make_key(graph, context), print_graph(kernels).encode())


def _is_kept(graph: TensorGraph, context: Context, config: PrepareConfig) -> bool:
    """True if the kernels of a graph are the same in every process, and no observer must see the
    passes run.
    """
    return (
        get_kernel_store().store.max_bytes > 0
        and not (config.disable_schedule_cache or context.options.needs_passes or is_observed())
        # Custom passes have no key, and source lines are attached to nodes by the rewrites.
        and config.passes is None
        and not graph.lines
    )


def _make_key(graph: TensorGraph, context: Context) -> str:
    """Key of everything that passes over a graph may depend on."""
    targets = [
        text
        for device in graph.devices
        for text in (device, describe_target(context.target_of(device)))
    ]
    # The compiler's own source is a part: after a change to a pass, no old kernel is found.
    return make_key(graph.sink.content_hash, *targets, fingerprint_code())
