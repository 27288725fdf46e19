"""Control flow: what is computed depends on numbers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any, Final

import numpy as np

import svod_tensor as sv
from svod_onnx._counted_loops import find_trip_count
from svod_onnx._graph import Graph
from svod_onnx._inlining import Inline
from svod_onnx._registry import Known, RunOnHostError, Value, operator
from svod_onnx._trace import Call
from svod_tensor import Tensor

__all__ = ["if_", "loop", "scan", "scan_since_8"]

_N_UNROLLED: Final = 64
"""The iterations of a loop up to which they are written out."""


@operator("If")
def if_(cond: Known, *, then_branch: Graph, else_branch: Graph) -> Value:
    """The nodes of a branch, in the place of the node."""
    raise Inline(then_branch if cond.item() else else_branch)


def _loop_on_host(
    node: Call, max_trip_count: Value = None, cond: Value = None, *v_initial: Value, body: Graph
) -> tuple[Value, ...]:
    return _repeat(node, _count_trips(_read(max_trip_count)), _read_condition(_read(cond)), v_initial, body, None)


def _read(value: Value) -> Value:
    return value.numpy() if isinstance(value, Tensor) else value


@operator("Loop", host=_loop_on_host)
def loop(
    node: Call, max_trip_count: Value = None, cond: Value = None, *v_initial: Value, body: Graph
) -> tuple[Value, ...]:
    """The iterations in one program, where their number is known while it is built: few one after the other, many as a loop; else on
    the host."""
    if isinstance(max_trip_count, Tensor) or isinstance(cond, Tensor):
        raise RunOnHostError
    n_trips, goes_on = _count_trips(max_trip_count), _read_condition(cond)
    counted = find_trip_count(node, n_trips, v_initial, body) if goes_on else None
    if counted is not None and counted.trip_count > _N_UNROLLED:
        after, stacks = counted.scan(node, v_initial, body)
        return *after, *stacks
    return _repeat(node, n_trips, goes_on, v_initial, body, _N_UNROLLED)


def _count_trips(trips: Value) -> int | None:
    return None if trips is None else int(np.asarray(trips).item())


def _read_condition(condition: Value) -> bool:
    return True if condition is None else bool(np.asarray(condition).item())


def _repeat(
    node: Call, n_trips: int | None, goes_on: bool, carried: Sequence[Value], body: Graph, limit: int | None
) -> tuple[Value, ...]:
    values = list(carried)
    stacks: list[list[Value]] = [[] for _ in body.outputs[1 + len(values) :]]
    for number in count():
        if not goes_on or (n_trips is not None and number >= n_trips):
            break
        if limit is not None and number >= limit:
            raise RunOnHostError
        results = node.trace.run_graph(body, [np.array(number, np.int64), np.array(goes_on), *values])
        if node.trace.can_read:
            results = [_settle(value) for value in results]
        if isinstance(results[0], Tensor):
            raise RunOnHostError
        goes_on = bool(np.asarray(results[0]).item())
        values = results[1 : 1 + len(values)]
        for stack, value in zip(stacks, results[1 + len(values) :], strict=True):
            stack.append(value)
    return *values, *(
        _stack(node, stack, info) for stack, info in zip(stacks, body.outputs[1 + len(values) :], strict=True)
    )


def _settle(value: Value) -> Value:
    """A single number as an array, by which loops go on; what else was computed, in memory."""
    if isinstance(value, Tensor):
        return value.numpy() if value.size == 1 and not value.dtype.is_float else value.realize()
    return value


def _stack(node: Call, values: Sequence[Value], info: Any) -> Value:
    """What iterations give, along a new first axis; without iterations, the shape is what the body says of it."""
    if values:
        return Tensor.stack([node.trace.get_tensor(node.node, "", value) for value in values])
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
    """The body for each slice of the last operands; it carries the others."""
    n_carried = len(initial_state_and_scan_inputs) - num_scan_inputs
    tensors = [
        node.trace.get_tensor(node.node, name, value)
        for name, value in zip(node.node.inputs, initial_state_and_scan_inputs, strict=True)
    ]
    slices = [
        _turn(x.moveaxis(axis, 0), direction)
        for x, axis, direction in zip(
            tensors[n_carried:],
            scan_input_axes or [0] * num_scan_inputs,
            scan_input_directions or [0] * num_scan_inputs,
            strict=True,
        )
    ]
    carried, stacked = _scan(node, tensors[:n_carried], slices, body)
    axes, directions = scan_output_axes or [0] * len(stacked), scan_output_directions or [0] * len(stacked)
    turned = [
        _turn(x, direction).moveaxis(0, axis) for x, axis, direction in zip(stacked, axes, directions, strict=True)
    ]
    return *carried, *turned


def _turn(x: Tensor, direction: int) -> Tensor:
    return x.flip(0) if direction else x


def _scan(node: Call, carried: list[Tensor], slices: list[Tensor], body: Graph) -> tuple[list[Tensor], list[Tensor]]:
    def step(states: Any, now: Any) -> Any:
        results = node.trace.run_graph(body, [*states, *now])
        tensors = [node.trace.get_tensor(node.node, "", value) for value in results]
        return tensors[: len(carried)], tensors[len(carried) :]

    ends, stacked = sv.scan(step, carried, slices)
    return list(ends), list(stacked)


@operator("Scan")
def scan_since_8(
    node: Call,
    sequence_lens: Value = None,
    *initial_state_and_scan_inputs: Value,
    body: Graph,
    num_scan_inputs: int,
    directions: list[int] | None = None,
) -> tuple[Value, ...]:
    """Version 8 has a batch along the first axis of all operands, each row of which may end after steps of its own."""
    if sequence_lens is not None:
        raise node.refuse("of version 8 is done for sequences of equal lengths alone")
    tensors = [
        node.trace.get_tensor(node.node, name, value)
        for name, value in zip(node.node.inputs[1:], initial_state_and_scan_inputs, strict=True)
    ]
    n_carried = len(tensors) - num_scan_inputs
    rows: list[list[Tensor]] = []
    for parts in zip(*(x.unbind(0) for x in tensors), strict=True):
        turns = directions or [0] * num_scan_inputs
        slices = [_turn(x, direction) for x, direction in zip(parts[n_carried:], turns, strict=True)]
        carried, stacked = _scan(node, list(parts[:n_carried]), slices, body)
        rows.append([*carried, *stacked])
    return tuple(Tensor.stack(list(column)) for column in zip(*rows, strict=True))
