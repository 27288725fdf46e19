"""Disk cache of kernel graphs: a graph that an earlier process lowered to kernels needs no passes.

A kernel graph is stored in its text form, which parses back to the identical nodes. A line before it
has the labels of its calls, if source lines are recorded: the indices of the nodes that each kernel
computes, which the passes would have found."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from svod_codegen.disk_store import get_disk_store, make_key
from svod_codegen.kernel_store import describe_target, fingerprint_code, get_kernel_store
from svod_ir import Op, parse_graph, print_graph
from svod_schedule.steps import KernelGraph
from svod_tensor.engine.kernel_origins import list_nodes
from svod_tensor.engine.observe import is_observed

if TYPE_CHECKING:
    from svod_ir import UOp
    from svod_ir.origins import Labels
    from svod_schedule.pipeline import Context
    from svod_tensor.engine.build import TensorGraph
    from svod_tensor.options import PrepareConfig

__all__ = ["find_stored_graph", "store_graph"]


def find_stored_graph(
    graph: TensorGraph, context: Context, config: PrepareConfig, labels: Labels | None
) -> KernelGraph | None:
    """The kernels of an equal graph that an earlier process stored; None also if an observer must
    see the passes run.

    Args:
        graph: the graph.
        context: context of its passes.
        config: options of the computation.
        labels: gets the labels of the kernels; None if source lines are not recorded.
    """
    if not _is_kept(context, config):
        return None
    store, key = get_disk_store("graphs"), _make_key(graph, context, labels)
    data = store.get(key)
    if data is None:
        return None
    try:
        head, _, text = data.decode().partition("\n")
        kernels = KernelGraph(parse_graph(text))
        if labels is not None:
            calls = _list_calls(kernels)
            labels.update(zip(calls, map(frozenset, json.loads(head)), strict=True))
    except (ValueError, TypeError):
        # The entry is intact but is not a graph: another program wrote it.
        store.reject(key)
        return None
    return kernels


def store_graph(
    graph: TensorGraph,
    context: Context,
    config: PrepareConfig,
    kernels: KernelGraph,
    labels: Labels | None,
) -> None:
    """Store the kernels of a graph, and their labels, for later processes."""
    if not _is_kept(context, config):
        return
    numbers = (
        [] if labels is None else [_list_numbers(labels, call) for call in _list_calls(kernels)]
    )
    text = f"{json.dumps(numbers)}\n{print_graph(kernels)}"
    get_disk_store("graphs").put(_make_key(graph, context, labels), text.encode())


def _list_calls(kernels: UOp) -> list[UOp]:
    return [node for node in list_nodes(kernels) if node.op is Op.CALL]


def _list_numbers(labels: Labels, call: UOp) -> list[int]:
    return sorted(label for label in labels.get(call, ()) if isinstance(label, int))


def _is_kept(context: Context, config: PrepareConfig) -> bool:
    """True if the kernels of a graph are the same in every process, and no observer must see the
    passes run.
    """
    return (
        get_kernel_store().store.max_bytes > 0
        and not (config.disable_schedule_cache or context.options.needs_passes or is_observed())
        and config.passes is None  # custom passes have no key
    )


def _make_key(graph: TensorGraph, context: Context, labels: Labels | None) -> str:
    """Key of everything that passes over a graph may depend on."""
    targets = [
        text
        for device in graph.devices
        for text in (device, describe_target(context.target_of(device)))
    ]
    # The compiler's own source is a part: after a change to a pass, no old kernel is found.
    kind = "plain" if labels is None else "labeled"
    return make_key(kind, graph.sink.content_hash, *targets, fingerprint_code())
