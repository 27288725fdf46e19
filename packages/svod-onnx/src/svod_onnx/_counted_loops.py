"""Loops with a trip count that is known before any of their tensors is computed, such as `while
counter < length`.
"""

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
"""Largest trip count found by evaluating the condition of each iteration, at about ten microseconds
per node.
"""


@dataclass(frozen=True)
class CountedLoop:
    """A loop with a constant trip count.

    Attributes:
        trip_count: number of iterations.
        known: for each carry that the condition depends on, by its index, the values before each
            iteration and after the last.
    """

    trip_count: int
    known: dict[int, list[np.ndarray]]

    def scan(
        self, node: Call, carried: Sequence[Value], body: Graph
    ) -> tuple[list[Value], list[Tensor]]:
        """Return the final carries and the stacked outputs, computed as a single `scan` in the
        program.

        Raises:
            RunOnHostError: if a carry changes its shape, or an iteration needs the value of a
                tensor.
        """
        # A carry that the body returns unchanged is loop-invariant: the body reads it from the
        # enclosing scope.
        varying = [
            i
            for i in range(len(carried))
            if i not in self.known and body.outputs[1 + i].name != body.inputs[2 + i].name
        ]
        # The condition's carries become scanned inputs: their values are known for each iteration.
        columns = [np.stack(self.known[i][:-1]) for i in self.known]
        if any(not isinstance(carried[i], Tensor | np.ndarray) for i in varying) or any(
            map(is_opaque, columns)
        ):
            raise RunOnHostError

        def make_tensor(value: Value) -> Tensor:
            return node.trace.get_tensor(node.node, "", value)

        def step(states: Any, slice_: Any) -> Any:
            index, *known = slice_
            values = list(carried)
            for i, value in (
                *zip(varying, states, strict=True),
                *zip(self.known, known, strict=True),
            ):
                values[i] = value
            _, *outputs = node.trace.run_graph(body, [index, np.array(True), *values])
            scan_outputs = [make_tensor(value) for value in outputs[len(carried) :]]
            return [make_tensor(outputs[i]) for i in varying], scan_outputs

        slices = [make_tensor(x) for x in (np.arange(self.trip_count), *columns)]
        try:
            final, stacked = sv.scan(step, [make_tensor(carried[i]) for i in varying], slices)
        except CarriedValueError as error:
            raise RunOnHostError from error
        results = list(carried)
        for i, value in zip(varying, final, strict=True):
            results[i] = value
        for i, values in self.known.items():
            # Stays on the host, where later nodes may be folded.
            results[i] = values[-1]
        return results, list(stacked)


def find_trip_count(
    node: Call, n_trips: int | None, carried: Sequence[Value], body: Graph
) -> CountedLoop | None:
    """The trip count of a loop that has started; None if it depends on a tensor or exceeds the
    limit.
    """
    names = [info.name for info in body.inputs]
    nodes, read = _slice_condition(body)
    indices = [i for i, name in enumerate(names[2:]) if name in read]
    if any(not isinstance(carried[i], np.ndarray) for i in indices):
        return None
    # A subgraph of only the condition and the carries that it reads, which the host evaluates
    # iteration by iteration.
    results = (body.outputs[0], *(body.outputs[1 + i] for i in indices))
    graph = Graph(body.name, nodes, body.inputs, results, body.constants)
    values = list(carried)
    known = {i: [np.asarray(values[i])] for i in indices}
    index, continues = 0, True
    while continues and (n_trips is None or index < n_trips):
        if index == _MAX_COUNTED:
            return None
        try:
            condition, *updates = node.trace.run_graph(
                graph, [np.array(index, np.int64), np.array(True), *values]
            )
        except RunOnHostError:
            return None
        if not all(isinstance(value, np.ndarray) for value in (condition, *updates)):
            return None
        for i, value in zip(indices, updates, strict=True):
            values[i] = value
            known[i].append(np.asarray(value))
        index, continues = index + 1, bool(np.asarray(condition).item())
        if continues and not indices and names[0] not in read:
            # The condition is loop-invariant: the loop runs for all trips.
            return None if n_trips is None else CountedLoop(n_trips, known)
    return CountedLoop(index, known)


def _slice_condition(body: Graph) -> tuple[tuple[Node, ...], set[str]]:
    """Return the nodes that compute the condition and its carries, and all names that these nodes
    read.
    """
    carried = {info.name: body.outputs[1 + i].name for i, info in enumerate(body.inputs[2:])}
    needed, read = {body.outputs[0].name}, set[str]()
    nodes: tuple[Node, ...] = ()
    n_needed = 0
    while n_needed < len(needed):
        n_needed = len(needed)
        nodes = drop_unread(body.nodes, needed)
        read = needed.union(*map(iter_reads, nodes))
        # A carry that an iteration reads is an output of the previous iteration: grow the slice to
        # a fixed point.
        needed |= {output for name, output in carried.items() if name in read}
    return nodes, read
