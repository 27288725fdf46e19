"""Execution of a graph: as a single plan if possible, otherwise in stages (`_stages`), which are cached
by the values and shapes that they depend on.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, cast

import numpy as np
from cachetools import LRUCache

from svod_onnx._diagnosis import find_failed_check, find_largest_result
from svod_onnx._graph import Graph, Node, list_sources
from svod_onnx._options import ModelOptions
from svod_onnx._registry import Value, find_operator
from svod_onnx._rewrites import rewrite
from svod_onnx._size_variables import SizeVariables, SymbolicShapes
from svod_onnx._stages import FixedSizesError, SinglePlan, Stage, list_missing
from svod_onnx._trace import Trace
from svod_onnx._value_keys import get_key, get_signature, read_value, to_live
from svod_onnx._values import is_selector, to_host_type
from svod_onnx._weight_cache import WeightCache
from svod_onnx._weight_folding import fold_constants, list_element_types
from svod_onnx.errors import NodeError, ValueNeededError
from svod_tensor import PrepareConfig
from svod_tensor.errors import UserError

__all__ = ["Program", "SinglePlan"]

_MAX_SIZES: Final = 512
"""Number of sizes that a program with symbolic sizes remembers."""


class Program:
    """A graph that runs on tensors of any shapes.

    Args:
        graph: the graph.
        outer: values of enclosing graphs that it reads.
        options: options of the model.
    """

    def __init__(
        self,
        graph: Graph,
        outer: Mapping[str, Value],
        options: ModelOptions,
    ) -> None:
        self.graph: Final = graph
        self.device: Final = options.device
        self.config: Final = options.make_config()
        self.max_plans: Final = options.max_plans
        self.element_types: Final = {
            info.name: info.element_type for info in graph.inputs if info.kind in ("tensor", "map")
        }
        self.element_types.update(list_element_types({**outer, **graph.constants}))
        self.output_names: Final = tuple(info.name for info in graph.outputs)
        self._declared_types: Final = {info.name: info.element_type for info in graph.outputs}
        # Guards the cached stages, the static inputs and the weight cache.
        self._lock: Final = threading.Lock()
        self._roots: LRUCache[object, Stage] = LRUCache(self.max_plans)
        # Stages for all sizes, by the key of each known size.
        self._roots_of_sizes: LRUCache[object, Stage] = LRUCache(_MAX_SIZES)
        self._static: frozenset[str] = frozenset()
        self.sizes: Final = SizeVariables(graph.inputs, options.sizes)
        # Before folding, which would replace DequantizeLinear of a weight by floats.
        nodes, constants = rewrite(graph.nodes, graph.constants, self.output_names)
        self.nodes, self.constants = fold_constants(
            nodes, {**outer, **constants}, self.output_names, self.device, self.element_types
        )
        self._weights: Final = WeightCache(self.constants.values())

    def run(
        self, inputs: Mapping[str, Value], arrays: Mapping[str, object] | None = None
    ) -> dict[str, Value]:
        """Outputs by name.

        Args:
            inputs: tensors, string arrays and sequences by name.
            arrays: arrays from which the inputs were made, which can be read without a copy from a
                device.
        """
        live = dict(inputs)
        arrays = arrays or {}
        static = self._static
        key, known = self._identify(live, static, arrays)
        with self._lock:
            stage = self._roots.get(key) or self._roots_of_sizes.get(key)
        if stage is None:
            outputs = self._run_with_variables(live, known, key)
            if outputs is not None:
                return outputs
            stage = self._get_root(key, known)
        results = stage.run(live)
        # Capturing the root may find inputs that it needs as constants; capture it anew with their
        # values.
        while static != self._static:
            static = self._static
            stage = self._get_root(*self._identify(live, static, arrays))
            results = stage.run(live)
        live |= results
        while stage.deferred:
            if stage.tail is not None:
                live = stage.tail.run(live)
                break
            stage = stage.get_next(live)
            live |= stage.run(live)
        return self._list_outputs({**stage.known, **live})

    def trace(self, inputs: Mapping[str, Value]) -> dict[str, Value]:
        """Outputs by name as lazy tensors, for use in other programs.

        Raises:
            ValueNeededError: if a node needs a value that depends on `inputs`.
        """
        trace = self.make_trace({**self.constants, **inputs})
        outcome = trace.run(self.nodes)
        if outcome.deferred:
            node = outcome.deferred[0]
            # A node for the host needs no value; name an operand instead.
            value = next(iter([*outcome.needed, *node.inputs, ""]))
            raise ValueNeededError(node=node.title, operator=node.qualified, value=value)
        return {name: trace.values[name] for name in self.output_names}

    def get_single_plan(
        self, live: Mapping[str, Value], arrays: Mapping[str, object]
    ) -> tuple[tuple[str, ...], SinglePlan | None]:
        """Return the names of the static inputs, and the plan of all outputs for the shapes of
        `live` and the values of these inputs.

        The plan is missing (None) if these inputs needed several stages.
        """
        static = self._static
        key, _ = self._identify(live, static, arrays)
        with self._lock:
            stage = self._roots.get(key) or self._roots_of_sizes.get(key)
        return tuple(sorted(static)), None if stage is None else stage.find_single_plan()

    def explain(self, error: Exception, inputs: Mapping[str, Value]) -> NodeError | None:
        """Error that names the node for a failure of a plan; None if no node is found.

        Args:
            error: failed allocation, or failed check of operands.
            inputs: inputs of the failed call.
        """
        values = {**self.constants, **inputs}
        if isinstance(error, MemoryError):
            return self.explain_allocation(error, self.nodes, values)
        config = replace(self.config or PrepareConfig.from_env(), check_operands=True)
        trace = Trace(values, self.device, can_read=True, element_types=dict(self.element_types))
        return find_failed_check(trace, self.nodes, config)

    def explain_allocation(
        self, error: MemoryError, nodes: Sequence[Node], values: Mapping[str, Value]
    ) -> NodeError | None:
        """Error that names the node with the largest result; None if no node has a result."""
        trace = self.make_trace(values)
        # If tracing fails too, the values up to the failed node are known.
        with suppress(UserError, MemoryError):
            trace.run(nodes, list_missing(nodes, values))
        return find_largest_result(nodes, trace.values, error)

    def get_output_type(self, name: str) -> int:
        """Declared element type of an output, otherwise the type of its operator; 0 if unknown."""
        return self._declared_types.get(name) or self.element_types.get(name, 0)

    def plans(self) -> list[Any]:
        """Plans of all stages."""
        with self._lock:
            stages = list(self._roots.values())
        return [plan for stage in stages for plan in stage.plans()]

    def make_trace(self, values: Mapping[str, Value]) -> Trace:
        """Trace with `values` and the program's cached weights."""
        return Trace(
            values, self.device, element_types=dict(self.element_types), weights=self._weights
        )

    def collect_weights(self, nodes: Sequence[Node], values: Mapping[str, Value]) -> None:
        """Compute the values that nodes derive from weights only, before a program that reads them
        is captured.
        """
        # The additional trace is only for models that have such operators.
        if not any(map(_may_precompute, nodes)):
            return
        with self._lock:
            self._weights.is_collecting = True
            try:
                self.make_trace(values).run(nodes, list_missing(nodes, values))
                self._weights.realize()
            finally:
                self._weights.is_collecting = False

    def add_static(self, names: Iterable[str]) -> None:
        """Mark inputs as static: stages are captured for each of their values."""
        with self._lock:
            self._static |= set(names)

    def list_static_inputs(self, name: str, live: Mapping[str, Value]) -> set[str]:
        """Inputs that determine a value, if all of them are single integers; otherwise empty."""
        producers = {
            output: node
            for node in self.nodes
            if not node.subgraphs()
            for output in node.outputs
            if live.get(output) is None
        }
        inputs = list_sources(name, producers) - self.constants.keys()
        return inputs if all(is_selector(live.get(source)) for source in inputs) else set()

    def _run_with_variables(
        self, live: Mapping[str, Value], known: Mapping[str, Value], exact: object
    ) -> dict[str, Value] | None:
        """Outputs of a stage with variables as input sizes, which is then also the stage for the key
        `exact`; None if there is no such stage.
        """
        # Capturing may add static inputs, as in `run`.
        n_static = len(self._static)
        while True:
            with self._lock:
                shapes = self.sizes.find_symbolic_shapes(live)
            if shapes is None:
                return None
            key = shapes.key, tuple(map(get_key, known.values()))
            stage = self._get_root(key, known, shapes)
            values, is_invalid = None, False
            try:
                # Several stages would each need variables for the sizes of their results.
                values = stage.finish({**live, **stage.run(live)})
            except UserError:
                # The stage for the exact sizes raises errors that are not about variables.
                is_invalid = True
            except FixedSizesError:
                pass
            if values is not None:
                break
            with self._lock:
                self._roots.pop(key, None)
                # With more static inputs, the same shapes may do with a single stage.
                if len(self._static) > n_static:
                    return None
                self.sizes.reject(shapes, is_invalid=is_invalid)
            if not is_invalid:
                return None
        with self._lock:
            # The next call with these sizes finds the stage at once.
            self._roots_of_sizes[exact] = stage
        return self._list_outputs({**stage.known, **values})

    def _list_outputs(self, values: Mapping[str, Value]) -> dict[str, Value]:
        return {
            name: to_host_type(to_live(values[name]), self.get_output_type(name))
            for name in self.output_names
        }

    def _identify(
        self, live: Mapping[str, Value], static: frozenset[str], arrays: Mapping[str, object]
    ) -> tuple[object, dict[str, Value]]:
        """Cache key of the root stage for these inputs, and the values of the static inputs."""
        known: dict[str, Value] = {}
        for name in sorted(static):
            array = arrays.get(name)
            # An array in another byte order is read from its tensor, which has been converted.
            is_native = isinstance(array, np.ndarray) and cast("np.dtype", array.dtype).isnative
            known[name] = cast("np.ndarray", array) if is_native else read_value(live[name])
        return (get_signature(live), tuple(map(get_key, known.values()))), known

    def _get_root(
        self, key: object, known: Mapping[str, Value], shapes: SymbolicShapes | None = None
    ) -> Stage:
        with self._lock:
            stage = self._roots.get(key)
            if stage is None:
                # Copied, since the caller may modify its array later.
                own = {
                    name: value.copy() if isinstance(value, np.ndarray) else value
                    for name, value in known.items()
                }
                stage = self._roots[key] = Stage(
                    self, self.nodes, {**self.constants, **own}, shapes, is_root=True
                )
            return stage


def _may_precompute(node: Node) -> bool:
    """Whether a node may precompute values from weights, itself or in subgraphs."""
    operator = find_operator(node.operator, node.domain, node.version)
    return (operator is not None and operator.precomputes) or bool(node.subgraphs())
