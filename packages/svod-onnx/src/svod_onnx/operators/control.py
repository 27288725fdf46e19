"""Control flow: If, Loop and Scan."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any, Final

import numpy as np

import svod_tensor as sv
from svod_onnx._counted_loops import find_trip_count
from svod_onnx._graph import Graph
from svod_onnx._inlining import Inline
from svod_onnx._registry import RunOnHostError, Value, operator
from svod_onnx._trace import Call
from svod_onnx._values import is_selector
from svod_onnx.errors import NodeError, ValueNeededError
from svod_tensor import Tensor
from svod_tensor.errors import BranchError, TraceError

__all__ = ["if_", "loop", "scan", "scan_since_8"]

_N_UNROLLED: Final = 64
"""Largest trip count of a loop that is unrolled."""


@operator("If")
def if_(
    node: Call, cond: Value, *, then_branch: Graph, else_branch: Graph
) -> Inline | tuple[Tensor, ...]:
    """Replace the node by the nodes of a branch if the condition is known; otherwise choose when the
    program runs, in the program if that is possible.
    """
    for branch in (then_branch, else_branch):
        if branch.inputs:
            raise node.refuse(f"a branch must not have inputs, got {branch.inputs[0].name!r}")
    condition = cond if isinstance(cond, np.ndarray) else node.tensors(cond)[0]
    if isinstance(condition, Tensor):
        chosen = _choose(node, condition, then_branch, else_branch)
        if chosen is not None:
            return chosen
        condition = node.trace.read(node.node, node.node.inputs[0], condition)
    return Inline(then_branch if condition.item() else else_branch)


def _choose(
    node: Call, condition: Tensor, then_branch: Graph, else_branch: Graph
) -> tuple[Tensor, ...] | None:
    """Results of both branches, of which the program computes one; None if a branch needs values, or
    results differ in shape or dtype.
    """
    trace = node.trace
    if trace.can_read or all(map(is_selector, trace.list_sources(node.node.inputs[0]))):
        return None

    def run(branch: Graph) -> tuple[Tensor, ...]:
        values = trace.run_graph(branch, [])
        # The dtype of a tensor does not tell a narrow type.
        if any(info.name in trace.list_narrow_types() for info in branch.outputs):
            raise RunOnHostError
        return tuple(trace.get_tensor(node.node, "", value) for value in values)

    try:
        if trace.weights is not None and trace.weights.is_collecting:
            # Tensors of weights that are kept must not belong to a branch.
            results = [run(branch) for branch in (then_branch, else_branch)]
            specs = [[(r.shape, r.dtype) for r in result] for result in results]
            return results[0] if specs[0] == specs[1] else None
        return sv.cond(condition.reshape(()), lambda: run(then_branch), lambda: run(else_branch))
    # A branch that a model never takes may be invalid.
    except (RunOnHostError, NodeError, ValueNeededError, BranchError, TraceError):
        return None


def _loop_on_host(
    node: Call, max_trip_count: Value = None, cond: Value = None, *v_initial: Value, body: Graph
) -> tuple[Value, ...]:
    return _run_iterations(
        node,
        _count_trips(_read(max_trip_count)),
        _read_condition(_read(cond)),
        v_initial,
        body,
        None,
    )


def _read(value: Value) -> Value:
    return value.numpy() if isinstance(value, Tensor) else value


@operator("Loop", host=_loop_on_host)
def loop(
    node: Call, max_trip_count: Value = None, cond: Value = None, *v_initial: Value, body: Graph
) -> tuple[Value, ...]:
    """Run a loop in the program if its trip count is known: unrolled if it is small, otherwise as a
    scan.

    Other loops run on the host.
    """
    if isinstance(max_trip_count, Tensor) or isinstance(cond, Tensor):
        raise RunOnHostError
    n_trips, condition = _count_trips(max_trip_count), _read_condition(cond)
    # Most exported loops only count; they need no value of a tensor to know when to end.
    counted_loop = find_trip_count(node, n_trips, v_initial, body) if condition else None
    if counted_loop is not None and counted_loop.trip_count > _N_UNROLLED:
        carries, stacks = counted_loop.scan(node, v_initial, body)
        return *carries, *stacks
    return _run_iterations(node, n_trips, condition, v_initial, body, _N_UNROLLED)


def _count_trips(trips: Value) -> int | None:
    return None if trips is None else int(np.asarray(trips).item())


def _read_condition(condition: Value) -> bool:
    return True if condition is None else bool(np.asarray(_read(condition)).item())


def _run_iterations(
    node: Call,
    n_trips: int | None,
    condition: bool,
    initial: Sequence[Value],
    body: Graph,
    limit: int | None,
) -> tuple[Value, ...]:
    """Run iterations until the condition is false or the trip count is reached.

    Raises:
        RunOnHostError: if the condition is not known, or there are more than `limit` iterations.
    """
    values = list(initial)
    scan_outputs: list[list[Value]] = [[] for _ in body.outputs[1 + len(values) :]]
    for index in count():
        if not condition or (n_trips is not None and index >= n_trips):
            break
        # Unrolling more iterations would take long to compile.
        if limit is not None and index >= limit:
            raise RunOnHostError
        results = node.trace.run_graph(
            body, [np.array(index, np.int64), np.array(condition), *values]
        )
        if node.trace.can_read:
            # On the host, each iteration runs at once, so that graphs do not grow with the trip
            # count.
            results = [_materialize(value) for value in results]
        # The condition depends on inputs, so only the host can decide to continue.
        if isinstance(results[0], Tensor) and not node.trace.can_read:
            raise RunOnHostError
        condition = _read_condition(results[0])
        values = results[1 : 1 + len(values)]
        for stack, value in zip(scan_outputs, results[1 + len(values) :], strict=True):
            stack.append(value)
    return *values, *(
        _stack(node, stack, info)
        for stack, info in zip(scan_outputs, body.outputs[1 + len(values) :], strict=True)
    )


def _materialize(value: Value) -> Value:
    """Read a single integer, which may be a condition or counter; realize any other tensor."""
    if isinstance(value, Tensor):
        return value.numpy() if value.size == 1 and not value.dtype.is_float else value.realize()
    return value


def _stack(node: Call, values: Sequence[Value], info: Any) -> Value:
    """Stack the values of all iterations along a new leading axis.

    Without iterations, the declaration gives the shape.
    """
    if values:
        return Tensor.stack([node.trace.get_tensor(node.node, "", value) for value in values])
    # A zero-trip loop has no value whose shape could be used.
    shape = [size if isinstance(size, int) else 0 for size in info.shape or ()]
    return Tensor.empty(0, *shape, dtype=info.dtype)


@operator("Scan", since=9)
def scan(
    node: Call,
    *initial_state_and_scan_inputs: Value,
    body: Graph,
    num_scan_inputs: int,
    scan_input_axes: list[int] | None = None,
    scan_input_directions: list[int] | None = None,
    scan_output_axes: list[int] | None = None,
    scan_output_directions: list[int] | None = None,
) -> tuple[Value, ...]:
    """Run the body for each slice of the last `num_scan_inputs` operands, with the first operands
    as carries.
    """
    n_carries = len(initial_state_and_scan_inputs) - num_scan_inputs
    tensors = [
        node.trace.get_tensor(node.node, name, value)
        for name, value in zip(node.node.inputs, initial_state_and_scan_inputs, strict=True)
    ]
    # `sv.scan` runs forward along the leading axis, so other axes move and reversed ones are
    # flipped.
    slices = [
        _flip_if(x.moveaxis(axis, 0), direction)
        for x, axis, direction in zip(
            tensors[n_carries:],
            scan_input_axes or [0] * num_scan_inputs,
            scan_input_directions or [0] * num_scan_inputs,
            strict=True,
        )
    ]
    carries, stacked = _scan(node, tensors[:n_carries], slices, body)
    axes, directions = (
        scan_output_axes or [0] * len(stacked),
        scan_output_directions or [0] * len(stacked),
    )
    flipped = [
        _flip_if(x, direction).moveaxis(0, axis)
        for x, axis, direction in zip(stacked, axes, directions, strict=True)
    ]
    return *carries, *flipped


def _flip_if(x: Tensor, direction: int) -> Tensor:
    return x.flip(0) if direction else x


def _scan(
    node: Call, initial: list[Tensor], slices: list[Tensor], body: Graph
) -> tuple[list[Tensor], list[Tensor]]:
    def step(states: Any, slices_: Any) -> Any:
        results = node.trace.run_graph(body, [*states, *slices_])
        tensors = [node.trace.get_tensor(node.node, "", value) for value in results]
        return tensors[: len(initial)], tensors[len(initial) :]

    final, stacked = sv.scan(step, initial, slices)
    return list(final), list(stacked)


@operator("Scan")
def scan_since_8(
    node: Call,
    sequence_lens: Value = None,
    *initial_state_and_scan_inputs: Value,
    body: Graph,
    num_scan_inputs: int,
    directions: list[int] | None = None,
) -> tuple[Value, ...]:
    """Scan of version 8, where the leading axis of all operands is the batch."""
    if sequence_lens is not None:
        raise node.refuse(
            "operand 'sequence_lens' of version 8 is not supported; all sequences must have equal lengths"
        )
    tensors = [
        node.trace.get_tensor(node.node, name, value)
        for name, value in zip(node.node.inputs[1:], initial_state_and_scan_inputs, strict=True)
    ]
    n_carries = len(tensors) - num_scan_inputs
    rows: list[list[Tensor]] = []
    # Each row of the batch is a sequence of its own.
    for sample in zip(*(x.unbind(0) for x in tensors), strict=True):
        flips = directions or [0] * num_scan_inputs
        slices = [
            _flip_if(x, direction) for x, direction in zip(sample[n_carries:], flips, strict=True)
        ]
        carries, stacked = _scan(node, list(sample[:n_carries]), slices, body)
        rows.append([*carries, *stacked])
    return tuple(Tensor.stack(list(column)) for column in zip(*rows, strict=True))
