"""build: nodes of tensors → `TensorGraph`, equal for graphs that differ only in their buffers and
in the values of variables.

Each BUFFER becomes a numbered PARAM, each bound variable the variable itself. Nodes are
hash-consed, so equal graphs are one object, which is the cache key of everything derived from them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from svod_device import get_allocator
from svod_ir import Op, ParamArg, UOp, make_as_real
from svod_ir.derivatives import drop_marks, sort_nodes
from svod_ir.ops import MARKS
from svod_tensor.engine.bindings import add_binding, add_variable, is_bound
from svod_tensor.engine.files import copy_files
from svod_tensor.engine.kernel_origins import collect_lines
from svod_tensor.engine.schedule import is_disk
from svod_tensor.engine.versions import find_whole_version, is_pending_version, memory_of, write_of
from svod_tensor.options import DEFAULT_DEVICE

if TYPE_CHECKING:
    from svod_ir.origins import Origin

__all__ = [
    "TensorGraph",
    "build",
    "build_sink",
    "make_result",
    "make_stored",
    "normalize_graph",
    "normalize_results",
]

_BUFFER, _BIND, _COPY, _AFTER, _PARAM, _CONTIGUOUS = (
    Op.BUFFER,
    Op.BIND,
    Op.COPY,
    Op.AFTER,
    Op.PARAM,
    Op.CONTIGUOUS,
)
_DEFINE_VAR, _GRADIENT, _LOOP, _SWITCH = Op.DEFINE_VAR, Op.GRADIENT, Op.LOOP, Op.SWITCH


class TensorGraph(NamedTuple):
    """Normalized graph, without identities of buffers, and the parts that were abstracted away.

    Attributes:
        sink: the SINK of the graph.
        params: the BUFFER of each PARAM, by slot.
        values: values of the bound variables.
        devices: the devices that compute; the first computes values that depend on no memory.
        lines: the source lines of the nodes of `sink`, if they were recorded.
        written: the pending versions that it computes, each with the BUFFER that holds it
            afterwards.
        has_files: whether files are among `params`.
    """

    sink: UOp
    params: tuple[UOp, ...]
    values: Mapping[str, int]
    devices: tuple[str, ...]
    lines: Mapping[UOp, frozenset[Origin]]
    written: Mapping[UOp, UOp]
    has_files: bool


def build(nodes: Sequence[UOp], findings: UOp | None = None) -> TensorGraph:
    """The graph that computes `nodes`, none of which is memory, and `findings` about them as its
    last result.

    Files are copied to the devices that read them, unless kernels there can read them where they
    are.

    Raises:
        VariableConflictError: if a variable is bound to two values.
        BoundsConflictError: if two variables have one name.
    """
    graph = normalize_results(nodes) if findings is None else None
    # Nearly always: the graph was walked once, and no SINK was built for its original nodes.
    if graph is not None and not _list_remote(graph):
        return graph
    results = map(make_result, nodes)
    return build_sink(UOp.sink(*results) if findings is None else UOp.sink(*results, findings))


def build_sink(sink: UOp) -> TensorGraph:
    """`build` for the results of a SINK."""
    graph = normalize_graph(sink)
    far = _list_remote(graph)
    return normalize_graph(copy_files(sink, far, graph.devices[0])) if far else graph


def _list_remote(graph: TensorGraph) -> set[str]:
    """The devices that cannot read files on the host."""
    if not graph.has_files:
        return set()
    return {device for device in graph.devices if not get_allocator(device).is_host_addressable}


def normalize_graph(sink: UOp) -> TensorGraph:
    """`sink` with BUFFERs numbered in the order of the graph and variables without values.

    Raises:
        VariableConflictError: if a variable is bound to two values.
        BoundsConflictError: if two variables have one name.
    """
    return _normalize(sink.src, sink.toposort()[:-1], [False] * len(sink.src), {})


def make_result(node: UOp) -> UOp:
    """The operand of the SINK for `node`: its value in new memory, or a write to existing memory."""
    version = find_whole_version(node)
    return make_stored(node) if version is None else write_of(version)


def make_stored(node: UOp) -> UOp:
    """A value in new memory, as real and imaginary parts if it is complex."""
    node = make_as_real(node) if node.dtype.is_complex else node
    return UOp(_CONTIGUOUS, node.dtype, (node,))


def normalize_results(nodes: Sequence[UOp]) -> TensorGraph:
    """`normalize_graph` of the SINK of `make_result` for `nodes`, without building that SINK.

    Raises:
        VariableConflictError: if a variable is bound to two values.
        BoundsConflictError: if two variables have one name.
    """
    versions = [find_whole_version(node) for node in nodes]
    roots = [
        node if version is None else write_of(version)
        for node, version in zip(nodes, versions, strict=True)
    ]
    order = roots[0].toposort() if len(roots) == 1 else UOp.sink(*roots).toposort()[:-1]
    written = {v: memory_of(v) for v in versions if v is not None}
    return _normalize(roots, order, [version is None for version in versions], written)


def _normalize(
    roots: Sequence[UOp], order: Sequence[UOp], is_stored: Sequence[bool], written: dict[UOp, UOp]
) -> TensorGraph:
    assigned = dict(written)
    params: list[UOp] = []
    values: dict[str, int] = {}
    variables: dict[str, UOp] = {}
    devices: dict[str, None] = (
        # A root without a placement reads no memory, and is computed on the default device.
        {} if all(root.placement is not None for root in roots) else {DEFAULT_DEVICE: None}
    )
    done: dict[UOp, UOp] = {}
    has_files = has_gradients = False
    for node in order:
        op, operands = node.op, node.src
        if op is _BUFFER:
            _, size, device = node.arg
            # Numbered in topological order, which depends on the structure alone.
            done[node] = UOp(_PARAM, node.dtype, (), ParamArg(len(params), size, device))
            params.append(node)
        elif op is _BIND and is_bound(node):
            add_binding(values, node)
            done[node] = operands[0]
            continue
        elif op in MARKS:
            # Derivatives are taken already, so graphs that differ only in marks are equal.
            done[node] = done[operands[0]]
            has_gradients = has_gradients or op is _GRADIENT
            continue
        elif op is _LOOP or op is _SWITCH:
            # A body is a graph of its own that this walk does not enter.
            done[node] = drop_marks(
                UOp(op, node.dtype, tuple([done[s] for s in operands]), node.arg)
            )
            continue
        else:
            done[node] = (
                UOp(op, node.dtype, tuple([done[s] for s in operands]), node.arg)
                if operands
                else node
            )
            if op is not _COPY:
                if op is _DEFINE_VAR:
                    add_variable(variables, node)
                elif op is _AFTER and is_pending_version(node):
                    written[node] = operands[0]
                    # Leave out the write id, so that equal assignments share a schedule.
                    done[node] = UOp(
                        op, node.dtype, (done[operands[0]], done[operands[1]]), node.arg
                    )
                continue
            device = node.arg
        if device not in devices:
            if is_disk(device):
                has_files = True
            else:
                devices[device] = None
    sink = UOp.sink(
        *[
            make_stored(done[root]) if stored else done[root]
            for root, stored in zip(roots, is_stored, strict=True)
        ]
    )
    if has_gradients and len(set(sink.iter_ops(_PARAM))) < len(params):
        # Derivative rules have operands that the values do not depend on: drop their parameters.
        # A walk that does not enter these operands, so that no slot number is skipped.
        needed = sort_nodes(roots, lambda node: node.src[:1] if node.op in MARKS else node.src)
        return _normalize(roots, needed, is_stored, assigned)
    lines = collect_lines(done)
    return TensorGraph(
        sink, tuple(params), values, tuple(devices) or (DEFAULT_DEVICE,), lines, written, has_files
    )
