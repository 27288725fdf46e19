"""What a thread computes: which tensors, from which nodes, beside what other threads compute, and what becomes of them.

`registry` says what several threads may rely on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from svod_ir.ops import MOVEMENT, Op
from svod_ir.placement import Sharding
from svod_ir.uop import UOp
from svod_tensor import registry, states
from svod_tensor.errors import BatchOutputError, EmptyScheduleError
from svod_tensor.graph_plan import Inputs, find_inputs, get_buffer, is_there, normalize_computed
from svod_tensor.memory_views import view_prefix
from svod_tensor.ops.base import TensorBase
from svod_tensor.options import PrepareConfig
from svod_tensor.schedule_cache import NormalizedGraph
from svod_tensor.shards import join_parts, parts_of
from svod_tensor.variable import settle_bindings

if TYPE_CHECKING:
    from svod_device import Buffer
    from svod_runtime import ExecutionPlan
    from svod_tensor.checks import Checks

__all__ = ["Wanted", "Work", "adopt_outputs", "find_wanted", "results_of", "start_plan", "start_work"]


class Wanted(NamedTuple):
    """A tensor that needs computing.

    Attributes:
        tensor: the tensor.
        node: what it stood for when it was looked at.
        parts: of the node, one on each device.
        missing: those of the parts that are no memory yet.
    """

    tensor: TensorBase
    node: UOp
    parts: tuple[UOp, ...]
    missing: tuple[UOp, ...]


class Work(NamedTuple):
    """What a thread computes now.

    Attributes:
        wanted: the tensors to compute.
        results: their parts.
        normalized: the graph.
        checks: what is to be checked about its last result.
        inputs: what it is computed from.
        computation: the entry in the registry.
    """

    wanted: list[Wanted]
    results: list[UOp]
    normalized: NormalizedGraph
    checks: Checks | None
    inputs: Inputs
    computation: registry.Computation


def start_work(tensors: Sequence[TensorBase], config: PrepareConfig) -> Work | None:
    """Decide what to compute for `tensors` as soon as nobody is in the way; None if there is nothing."""
    while True:
        with registry.lock:
            wanted = find_wanted(tensors)
            if not wanted:
                return None
            work = _enter(wanted, config)
            if work is not None:
                return work


def start_plan(tensors: Sequence[TensorBase], config: PrepareConfig) -> tuple[Work, list[int]]:
    """Decide what a plan for `tensors` computes; also which result each of its outputs is."""
    while True:
        with registry.lock:
            wanted = [_look_at(t) for t in {id(t): t for t in tensors}.values()]
            if not any(one.missing for one in wanted):
                raise EmptyScheduleError(n_tensors=len(tensors))
            order = _order_outputs(tensors, wanted)
            work = _enter(wanted, config, order)
            if work is not None:
                return work, order


def _enter(wanted: list[Wanted], config: PrepareConfig, order: Sequence[int] | None = None) -> Work | None:
    """Start to compute tensors, or wait for somebody who is in the way; None if the caller must look at the tensors again.

    The outputs are the results, with those that are overtaken, unless `order` says which. The caller holds `registry.lock`.
    """
    results, computed = results_of(wanted), _missing_of(wanted)
    normalized, checks = normalize_computed(computed, config)
    if normalized.written and order is None:
        known = {one.node for one in wanted}
        for overtaken in find_wanted(states.find_overtaken(results)):
            # Of those with one node, one is enough: the others are given its memory.
            if overtaken.node not in known:
                known.add(overtaken.node)
                wanted.append(overtaken)
        results, computed = results_of(wanted), _missing_of(wanted)
        normalized, checks = normalize_computed(computed, config)
    done = states.find_done(normalized.written)
    if done:
        for one in wanted:
            one.tensor.set_node(one.node.substitute(done))
        return None
    inputs = find_inputs(normalized, results, computed, range(len(results)) if order is None else order)
    computation = registry.start_computation(
        [buffer.storage_id for buffer in inputs.buffers],
        [get_buffer(memory).storage_id for memory in normalized.written.values()],
        {id(one.tensor): one.node for one in wanted},
    )
    return None if computation is None else Work(wanted, results, normalized, checks, inputs, computation)


def find_wanted(tensors: Iterable[TensorBase]) -> list[Wanted]:
    """Those of the tensors that need computing, each once."""
    return [one for t in {id(t): t for t in tensors}.values() if (one := _look_at(t)).missing]


def _look_at(tensor: TensorBase) -> Wanted:
    node = tensor.uop
    # On one device, as nearly always, a node is its only part.
    parts = parts_of(node) if node.placement.__class__ is Sharding else (node,)
    return Wanted(tensor, node, parts, tuple([part for part in parts if not is_there(part)]))


def _order_outputs(tensors: Iterable[TensorBase], wanted: Iterable[Wanted]) -> list[int]:
    """For each part of each tensor, which of the results it is."""
    places: dict[int, range] = {}
    n_results = 0
    for one in wanted:
        places[id(one.tensor)] = range(n_results, n_results + len(one.parts))
        n_results += len(one.parts)
    return [position for t in tensors for position in places[id(t)]]


def results_of(wanted: Iterable[Wanted]) -> list[UOp]:
    return [part for one in wanted for part in one.parts]


def _missing_of(wanted: Iterable[Wanted]) -> list[UOp]:
    return [part for one in wanted for part in one.missing]


def adopt_outputs(work: Work, plan: ExecutionPlan, order: Sequence[int]) -> dict[UOp, UOp]:
    """Wire each tensor to its output; return which node of other tensors' graphs stands for which buffer now.

    A tensor that stands for another value by now keeps that. The caller holds `registry.lock`.
    """
    if plan.num_outputs < len(order):
        raise BatchOutputError(expected=len(order), found=plan.num_outputs)
    buffers = dict(zip(order, plan.output_buffers, strict=False))
    adopted: dict[UOp, UOp] = {}
    position = 0
    for tensor, node, parts, missing in work.wanted:
        made: list[UOp] = []
        for part in parts:
            made.append(_make_realized(part, buffers[position]) if part in missing else part)
            position += 1
        replaced, new = zip(parts, made, strict=True), made[0]
        if parts[0] is not node:
            placement = node.placement
            assert isinstance(placement, Sharding)
            new = join_parts(made, placement.axis)
            replaced = ((node, new), *replaced)
        if new is not node and tensor.uop is work.computation.nodes[id(tensor)]:
            tensor.set_node(new)
        for old, memory in replaced:
            # A bare constant is cheaper to write again than to read; only the tensors above become buffers.
            if old is not memory and not _is_constant(old):
                adopted.setdefault(old, memory)
    return adopted


def _make_realized(node: UOp, buffer: Buffer) -> UOp:
    state = states.find_whole_state(node)
    if state is not None:
        return node.substitute({state: states.memory_of(state)})
    memory = registry.make_memory(node.dtype, buffer.size, buffer.device, buffer)
    view = view_prefix(memory, node.shape)
    # Memory under another shape has one operand; a size that depends on variables is one more.
    return view if len(view.src) <= 1 else settle_bindings(view)


def _is_constant(node: UOp) -> bool:
    while node.op in MOVEMENT or node.op is Op.COPY:
        node = node.src[0]
    return node.op is Op.CONST
