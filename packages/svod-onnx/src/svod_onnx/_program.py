"""Execution of a graph: as a single plan if possible, otherwise in stages.

A stage is a captured function of the available tensors. It traces the remaining nodes, and computes
every node that it can. A node that needs a value, such as a computed size or the number of nonzero
elements, is deferred. The value is read after the stage, and the next stage is captured with it.
Stages are cached by the values and shapes that they depend on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final, cast

import numpy as np
from cachetools import LRUCache

from svod_onnx._diagnosis import find_failed_check, find_largest_result
from svod_onnx._folding import FOLDED_SIZE
from svod_onnx._graph import Graph, Node, iter_reads
from svod_onnx._options import ModelOptions
from svod_onnx._registry import Value, find_operator
from svod_onnx._rewrites import rewrite
from svod_onnx._size_variables import SizeVariables, SymbolicShapes
from svod_onnx._symbolic_sizes import Sizes
from svod_onnx._trace import Trace
from svod_onnx._types import HOST_TYPES, get_element_type
from svod_onnx._values import is_large, is_opaque, to_host_type, to_tensor
from svod_onnx._weight_cache import WeightCache
from svod_onnx.errors import NodeError, ValueNeededError
from svod_tensor import PrepareConfig, Tensor, jit
from svod_tensor.errors import UserError

__all__ = ["Program", "SinglePlan"]


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
        self.element_types.update(_list_element_types({**outer, **graph.constants}))
        self.output_names: Final = tuple(info.name for info in graph.outputs)
        self._declared_types: Final = {info.name: info.element_type for info in graph.outputs}
        # Guards the cached stages, the static inputs and the weight cache.
        self._lock: Final = threading.Lock()
        self._roots: LRUCache[object, _Stage] = LRUCache(self.max_plans)
        self._static: frozenset[str] = frozenset()
        self.sizes: Final = SizeVariables(graph.inputs, options.sizes)
        # Before folding, which would replace DequantizeLinear of a weight by floats.
        nodes, constants = rewrite(graph.nodes, graph.constants, self.output_names)
        self.nodes, self.constants = _fold_constants(
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
            stage = self._roots.get(key)
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
            stage = self._roots.get(key)
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
            trace.run(nodes, _list_missing(nodes, values))
        return find_largest_result(nodes, trace.values, error)

    def get_output_type(self, name: str) -> int:
        """Declared element type of an output, otherwise the type of its operator; 0 if unknown."""
        return self._declared_types.get(name) or self.element_types.get(name, 0)

    def plans(self) -> list[Any]:
        """Plans of all stages."""
        with self._lock:
            # A stage for all sizes has a key for each known size.
            stages = {id(stage): stage for stage in self._roots.values()}.values()
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
                self.make_trace(values).run(nodes, _list_missing(nodes, values))
                self._weights.realize()
            finally:
                self._weights.is_collecting = False

    def add_static(self, names: Iterable[str]) -> None:
        """Mark inputs as static: stages are captured for each of their values."""
        with self._lock:
            self._static |= set(names)

    def list_static_inputs(self, name: str, live: Mapping[str, Value]) -> set[str]:
        """Inputs that determine a value, if all of them are single integers; otherwise empty."""
        producers = {output: node for node in self.nodes for output in node.outputs}
        inputs: set[str] = set()
        seen = {"", *self.constants}
        stack = [name]
        while stack:
            required = stack.pop()  # walk the operands backwards from the value
            if required in seen:
                continue
            seen.add(required)
            value = live.get(required)
            if (
                isinstance(value, Tensor)
                # A single integer is most likely a size, with few distinct values; a stage for each
                # value of any other tensor would be captured again and again.
                and value.size == 1
                and not (value.dtype.is_float or value.dtype.is_complex)
            ):
                inputs.add(required)
            elif value is None and required in producers and not producers[required].subgraphs():
                stack += producers[required].inputs
            else:
                return set()
        return inputs

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
            key = shapes.key, tuple(map(_get_key, known.values()))
            stage = self._get_root(key, known, shapes)
            results, is_invalid = None, False
            try:
                results = stage.run(live)
            except UserError:
                # The stage for the exact sizes raises errors that are not about variables.
                is_invalid = True
            except _FixedSizesError:
                pass
            if results is not None and not stage.deferred:
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
            self._roots[exact] = stage
        return self._list_outputs({**stage.known, **live, **results})

    def _list_outputs(self, values: Mapping[str, Value]) -> dict[str, Value]:
        return {
            name: to_host_type(_to_live(values[name]), self.get_output_type(name))
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
            known[name] = cast("np.ndarray", array) if is_native else _read(live[name])
        return (_get_signature(live), tuple(map(_get_key, known.values()))), known

    def _get_root(
        self, key: object, known: Mapping[str, Value], shapes: SymbolicShapes | None = None
    ) -> _Stage:
        with self._lock:
            stage = self._roots.get(key)
            if stage is None:
                # Copied, since the caller may modify its array later.
                own = {
                    name: value.copy() if isinstance(value, np.ndarray) else value
                    for name, value in known.items()
                }
                stage = self._roots[key] = _Stage(
                    self, self.nodes, {**self.constants, **own}, shapes, is_root=True
                )
            return stage


@dataclass(frozen=True, slots=True)
class SinglePlan:
    """A plan that computes all outputs of a model from its inputs.

    Attributes:
        inputs: names of the tensors that `function` takes.
        outputs: names of the tensors that it returns.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    function: Callable[..., Sequence[Any]]


class _Stage:
    """A captured function, and the stages that follow it.

    Attributes:
        known: values that are equal in each run of this stage.
        deferred: nodes that a following stage computes.
    """

    def __init__(
        self,
        program: Program,
        nodes: Sequence[Node],
        known: Mapping[str, Value],
        shapes: SymbolicShapes | None = None,
        *,
        is_root: bool,
    ) -> None:
        self.known: Final = dict(known)
        self.deferred: list[Node] = []
        self.is_root: Final = is_root
        self._program: Final = program
        self._nodes: Final = nodes
        self._shapes: Final = shapes
        self._needed: list[str] = []
        self._on_host: list[Node] = []
        # Cached, since collecting the reads of subgraphs takes as long as a small plan.
        self._reads: Final[dict[Node, set[str]]] = {}
        self._next: LRUCache[object, _Stage] = LRUCache(program.max_plans)
        self._names: tuple[str, ...] = ()
        self._result_names: tuple[str, ...] = ()
        self._function = jit(self._compute, config=program.config)
        self._is_idle = self._has_weights = False

    def run(self, live: Mapping[str, Value]) -> dict[str, Value]:
        """Values that this stage adds to `live`."""
        if self._is_idle:
            return {}
        if not self._has_weights:
            # Outside of the captured function, which would compute them in each call.
            self._program.collect_weights(self._nodes, {**live, **self.known})
            self._names = tuple(
                name
                for name, value in live.items()
                if not is_opaque(value) and name not in self.known
            )
            if self._shapes is not None:
                self._function = jit(
                    self._compute,
                    config=self._program.config,
                    dynamic_shapes=self._shapes.list_dynamic(self._names),
                )
            self._has_weights = True
        try:
            results = self._function(*(live[name] for name in self._names))
        except MemoryError as error:
            explanation = self._program.explain_allocation(
                error, self._nodes, {**live, **self.known}
            )
            if explanation is None:
                raise
            raise explanation from error
        # A stage without results only passes values on to the next one.
        self._is_idle = not self._result_names
        return dict(zip(self._result_names, results, strict=True))

    def find_single_plan(self) -> SinglePlan | None:
        """Plan of this stage, if it computes all outputs and no other value."""
        program = self._program
        # A deferred node that no output depends on does not matter.
        if self._result_names != tuple(dict.fromkeys(program.output_names)):
            return None
        # These outputs become arrays of another dtype after the plan.
        if any(program.get_output_type(name) in HOST_TYPES for name in program.output_names):
            return None
        return SinglePlan(self._names, self._result_names, self._function)

    def plans(self) -> list[Any]:
        """Plans of this stage and of the stages that follow it."""
        return [
            *self._function.plans(),
            *(plan for stage in list(self._next.values()) for plan in stage.plans()),
        ]

    def get_next(self, live: dict[str, Value]) -> _Stage:
        """Return the stage that follows.

        Values that the host computes between the stages are added to `live`.
        """
        host = Trace(
            {**self.known, **live},
            self._program.device,
            can_read=True,
            element_types=self._program.element_types,
        )
        remaining: list[Node] = []
        n_computed = 0
        for node in self.deferred:
            reads = self._reads.get(node)
            if reads is None:
                reads = self._reads[node] = iter_reads(node)
            is_ready = host.values.keys() >= reads
            reads_strings = is_ready and any(
                is_opaque(host.values[name]) for name in node.inputs if name
            )
            if is_ready and (node in self._on_host or reads_strings):
                replacement = host.compute(node)
                assert not replacement, node
                n_computed += 1
            else:
                remaining.append(node)
        for node in self.deferred:
            live |= {
                name: _to_live(host.values[name]) for name in node.outputs if name in host.values
            }
        needed = [name for name in self._needed if name in host.values]
        if remaining and not needed and not n_computed:
            # No progress: the needed values themselves depend on deferred nodes.
            raise ValueNeededError(
                node=remaining[0].title,
                operator=remaining[0].qualified,
                value=", ".join(self._needed),
            )
        known = {name: _read(host.values[name]) for name in needed}
        key = (_get_signature(live), tuple(map(_get_key, known.values())))
        stage = self._next.get(key)
        if stage is None:
            stage = self._next[key] = _Stage(
                self._program, remaining, {**self.known, **known}, is_root=False
            )
        return stage

    def _compute(self, *values: Any) -> tuple[Any, ...]:
        program = self._program
        if self._shapes is not None and not any(map(_is_symbolic, values)):
            # `jit` has no plan for all sizes; the results of other sizes may be other ones.
            raise _FixedSizesError
        tensors = dict(zip(self._names, values, strict=True))
        trace = program.make_trace({**tensors, **self.known})
        outcome = trace.run(self._nodes, _list_missing(self._nodes, trace.values))
        # Later stages and the outputs need the types, which the dtypes of tensors do not tell.
        program.element_types.update(trace.list_narrow_types())
        if self.is_root:
            program.add_static(
                set[str]().union(
                    *(program.list_static_inputs(name, tensors) for name in outcome.needed)
                )
            )
        self.deferred, self._needed, self._on_host = (
            outcome.deferred,
            outcome.needed,
            outcome.on_host,
        )
        required = {*program.output_names, *outcome.needed}.union(
            *map(iter_reads, outcome.deferred)
        )
        results: dict[str, Any] = {}
        new = (required & trace.values.keys()) - tensors.keys() - self.known.keys()
        # The model's outputs come first and in order, so that a single plan returns them as the
        # model does.
        for name in dict.fromkeys(
            [*(name for name in program.output_names if name in new), *sorted(new)]
        ):
            value = trace.values[name]
            if isinstance(value, Sizes):
                results[name] = value.to_tensor()
            elif isinstance(value, Tensor | list):
                results[name] = _to_live(value)
            else:
                self.known[name] = value
        self._result_names = tuple(results)
        return tuple(results.values())


class _FixedSizesError(Exception):
    """A program with symbolic sizes cannot be executed as one plan."""


def _is_symbolic(value: Tensor) -> bool:
    return not all(isinstance(size, int) for size in value.shape)


def _list_missing(nodes: Sequence[Node], values: Mapping[str, Value]) -> set[str]:
    """Names that nodes read without a value and without a producer among the nodes."""
    defined = {name for node in nodes for name in node.outputs}
    return {name for node in nodes for name in iter_reads(node)} - values.keys() - defined


def _may_precompute(node: Node) -> bool:
    """Whether a node may precompute values from weights, itself or in subgraphs."""
    operator = find_operator(node.operator, node.domain, node.version)
    return (operator is not None and operator.precomputes) or bool(node.subgraphs())


def _to_live(value: Value) -> Value:
    if isinstance(value, list):
        return [_to_live(item) for item in cast("list[Value]", value)]
    return to_tensor(value) if isinstance(value, np.ndarray) and not is_opaque(value) else value


def _read(value: Value) -> Value:
    return value.numpy() if isinstance(value, Tensor) else value


def _get_key(value: Value) -> object:
    if isinstance(value, np.ndarray):
        return (
            value.shape,
            value.dtype.str,
            value.tobytes() if value.dtype.kind != "O" else tuple(value.flat),
        )
    return tuple(map(_get_key, map(_read, value))) if isinstance(value, list) else value


def _get_signature(live: Mapping[str, Value]) -> object:
    return tuple((name, _get_value_spec(value)) for name, value in live.items())


def _get_value_spec(value: Value) -> object:
    if isinstance(value, Tensor):
        return value.shape, value.dtype
    # Strings are not captured, so only their presence matters.
    return tuple(map(_get_value_spec, value)) if isinstance(value, list) else value is None


def _fold_constants(
    nodes: Sequence[Node],
    constants: Mapping[str, Value],
    outputs: Iterable[str],
    device: str | None,
    element_types: dict[str, int],
) -> tuple[tuple[Node, ...], dict[str, Value]]:
    """Return the nodes that depend on inputs, and the values of all other nodes.

    Results much larger than their operands are not folded: a fused kernel may never store them.
    """
    values: dict[str, Value] = {
        name: to_tensor(cast("np.ndarray", value), device) if is_large(value) else value
        for name, value in constants.items()
    }
    trace = Trace(values, device, can_read=True, element_types=element_types)
    remaining: list[Node] = []
    for node in nodes:
        if not trace.values.keys() >= iter_reads(node) or not _is_pure(node):
            remaining.append(node)
            continue
        # Nodes that replace it are computed when the program runs.
        if trace.compute(node):
            remaining.append(node)
            continue
        n_read = sum(_count_elements(trace.values[name]) for name in node.inputs if name)
        if (
            sum(_count_elements(trace.values[name]) for name in node.outputs if name)
            > 2 * n_read + FOLDED_SIZE
        ):
            for name in node.outputs:
                trace.values.pop(name, None)
            remaining.append(node)
    required = set(outputs).union(*map(iter_reads, remaining))
    folded = {name: value for name, value in trace.values.items() if name in required}
    lazy = [
        value for value in folded.values() if isinstance(value, Tensor) and not value.is_realized
    ]
    try:
        Tensor.realize_batch(lazy)
    except MemoryError as error:
        explanation = find_largest_result(nodes, folded, error)
        if explanation is None:
            raise
        raise explanation from error
    return tuple(remaining), folded


def _list_element_types(constants: Mapping[str, Value]) -> dict[str, int]:
    """Element types of the constants that a wider dtype carries."""
    dtypes = set(HOST_TYPES.values())
    return {
        name: get_element_type(value.dtype)
        for name, value in constants.items()
        if isinstance(value, np.ndarray) and value.dtype in dtypes
    }


def _is_pure(node: Node) -> bool:
    """Whether a node has an operator function that returns equal results for equal operands."""
    operator = find_operator(node.operator, node.domain, node.version)
    return operator is not None and not operator.is_random and not node.subgraphs()


def _count_elements(value: Value) -> int:
    if isinstance(value, list):
        return sum(map(_count_elements, value))
    if isinstance(value, dict):
        return len(value)
    return 0 if value is None else cast("int", value.size)
