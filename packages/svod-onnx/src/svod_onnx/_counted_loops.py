"""Loops of which it is known how often they run, before any of their tensors is: what was written as "while counter < length"."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

import svod_tensor as sv
from svod_onnx._graph import Graph, Node, iter_reads
from svod_onnx._registry import RunOnHostError, Value
from svod_onnx._rewrites import drop_unread
from svod_onnx._values import is_opaque
from svod_tensor import Tensor
from svod_tensor.errors import CarriedValueError

if TYPE_CHECKING:
    from svod_onnx._trace import Call

__all__ = ["CountedLoop", "find_trip_count"]

_MAX_COUNTED: Final = 4096
"""The iterations that are counted by computing the condition of each, at some ten microseconds for each node."""


@dataclass(frozen=True)
class CountedLoop:
    """How often a loop runs.

    Attributes:
        trip_count: so often.
        known: by the number of a carried value that the condition depends on, what it is before each iteration and after the last.
    """

    trip_count: int
    known: dict[int, list[np.ndarray]]

    def scan(self, node: Call, carried: Sequence[Value], body: Graph) -> tuple[list[Value], list[Tensor]]:
        """What is carried out of the loop, and what its iterations give, as one loop of a program.

        Raises:
            RunOnHostError: if the iterations are not alike: they carry values of other shapes, or need numbers of tensors.
        """
        # What a body gives as it got it is read as what stands around the loop.
        moving = [
            i
            for i in range(len(carried))
            if i not in self.known and body.outputs[1 + i].name != body.inputs[2 + i].name
        ]
        columns = [np.stack(self.known[i][:-1]) for i in self.known]
        if any(not isinstance(carried[i], Tensor | np.ndarray) for i in moving) or any(map(is_opaque, columns)):
            raise RunOnHostError

        def make_tensor(value: Value) -> Tensor:
            return node.trace.get_tensor(node.node, "", value)

        def step(states: Any, now: Any) -> Any:
            number, *known = now
            values = list(carried)
            for i, value in (*zip(moving, states, strict=True), *zip(self.known, known, strict=True)):
                values[i] = value
            _, *results = node.trace.run_graph(body, [number, np.array(True), *values])
            stacked = [make_tensor(value) for value in results[len(carried) :]]
            return [make_tensor(results[i]) for i in moving], stacked

        slices = [make_tensor(x) for x in (np.arange(self.trip_count), *columns)]
        try:
            ends, stacks = sv.scan(step, [make_tensor(carried[i]) for i in moving], slices)
        except CarriedValueError as error:
            raise RunOnHostError from error
        after = list(carried)
        for i, value in zip(moving, ends, strict=True):
            after[i] = value
        for i, values in self.known.items():
            after[i] = values[-1]
        return after, list(stacks)


def find_trip_count(node: Call, n_trips: int | None, carried: Sequence[Value], body: Graph) -> CountedLoop | None:
    """How often a loop runs that has begun, if that depends on no tensor; None if it does, or is more than can be counted."""
    names = [info.name for info in body.inputs]
    nodes, read = _slice_condition(body)
    numbers = [i for i, name in enumerate(names[2:]) if name in read]
    if any(not isinstance(carried[i], np.ndarray) for i in numbers):
        return None
    results = (body.outputs[0], *(body.outputs[1 + i] for i in numbers))
    graph = Graph(body.name, nodes, body.inputs, results, body.constants)
    values = list(carried)
    known = {i: [np.asarray(values[i])] for i in numbers}
    number, goes_on = 0, True
    while goes_on and (n_trips is None or number < n_trips):
        if number == _MAX_COUNTED:
            return None
        try:
            found, *after = node.trace.run_graph(graph, [np.array(number, np.int64), np.array(True), *values])
        except RunOnHostError:
            return None
        if not all(isinstance(value, np.ndarray) for value in (found, *after)):
            return None
        for i, value in zip(numbers, after, strict=True):
            values[i] = value
            known[i].append(np.asarray(value))
        number, goes_on = number + 1, bool(np.asarray(found).item())
        if goes_on and not numbers and names[0] not in read:
            # The condition is the same in all iterations.
            return None if n_trips is None else CountedLoop(n_trips, known)
    return CountedLoop(number, known)


def _slice_condition(body: Graph) -> tuple[tuple[Node, ...], set[str]]:
    """The nodes that compute whether a loop goes on, and what it carries for them; and all names that they read."""
    carried = {info.name: body.outputs[1 + i].name for i, info in enumerate(body.inputs[2:])}
    wanted, read = {body.outputs[0].name}, set[str]()
    nodes: tuple[Node, ...] = ()
    n_wanted = 0
    while n_wanted < len(wanted):
        n_wanted = len(wanted)
        nodes = drop_unread(body.nodes, wanted)
        read = wanted.union(*map(iter_reads, nodes))
        # What it reads of one iteration, the iteration before gives.
        wanted |= {after for before, after in carried.items() if before in read}
    return nodes, read
