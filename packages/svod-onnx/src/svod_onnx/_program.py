"""Running a graph: in one plan where that can be, else in stages, each of which begins with what the one before it found.

A stage is a captured function of the tensors that are there: it walks over the nodes that are left, and computes all that it can.
A node that needs numbers (a size that was computed, how many elements were found) ends it for what depends on them: they are read,
and the next stage knows them. Equal numbers and equal shapes lead to the same stages, which are kept.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import numpy as np
from cachetools import LRUCache

from svod_onnx._folding import FOLDED_SIZE
from svod_onnx._graph import Graph, Node, iter_reads
from svod_onnx._registry import Value, find_operator
from svod_onnx._rewrites import rewrite
from svod_onnx._size_variables import SizeVariables, to_fixed_shapes
from svod_onnx._symbolic_sizes import Sizes
from svod_onnx._trace import Trace
from svod_onnx._types import HOST_TYPES, get_element_type
from svod_onnx._values import is_large, is_opaque, to_tensor
from svod_onnx._weight_cache import WeightCache
from svod_onnx.errors import ValueNeededError
from svod_tensor import Tensor, jit
from svod_tensor.errors import UserError

__all__ = ["Program", "SinglePlan"]

_N_STAGES: Final = 64


class Program:
    """A graph that can be run on tensors of any shapes.

    Args:
        graph: which.
        outer: the values that it reads from around it.
        device: where its constants are.
        largest: the largest sizes of dimensions that are variables from the first call on.
    """

    def __init__(
        self,
        graph: Graph,
        outer: Mapping[str, Value],
        device: str | None = None,
        largest: Mapping[str, int] | None = None,
    ) -> None:
        self.graph: Final = graph
        self.device: Final = device
        self.kinds: Final = {info.name: info.element_type for info in graph.inputs if info.kind == "tensor"}
        self.kinds.update(_list_kinds({**outer, **graph.constants}))
        self.output_names: Final = tuple(info.name for info in graph.outputs)
        self._lock: Final = threading.Lock()
        self._roots: LRUCache[object, _Stage] = LRUCache(_N_STAGES)
        self._static: frozenset[str] = frozenset()
        self.sizes: Final = SizeVariables(graph.inputs, largest)
        nodes, constants = rewrite(graph.nodes, graph.constants, self.output_names)
        self.nodes, self.constants = _fold_constants(
            nodes, {**outer, **constants}, self.output_names, device, self.kinds
        )
        self._weights: Final = WeightCache(self.constants.values())

    def run(self, inputs: Mapping[str, Value], given: Mapping[str, object] | None = None) -> dict[str, Value]:
        """The outputs by name.

        Args:
            inputs: by name: tensors, arrays of strings, sequences.
            given: what they were made of, where numbers are read at no cost if it is an array.
        """
        live = dict(inputs)
        given = given or {}
        static = self._static
        key, known = self._identify(live, static, given)
        with self._lock:
            stage = self._roots.get(key)
        if stage is None:
            found = self._run_with_variables(live, given, known)
            if found is not None:
                return found
            stage = self._get_root(key, known)
        while True:
            results = stage.run(live)
            if static != self._static and stage.is_root:
                static = self._static
                stage = self._get_root(*self._identify(live, static, given))
                continue
            live |= results
            if not stage.deferred:
                return self._list_outputs({**stage.known, **live})
            stage = stage.get_next(live)

    def trace(self, inputs: Mapping[str, Value]) -> dict[str, Value]:
        """The outputs by name, as lazy tensors, for use inside other programs.

        Raises:
            ValueNeededError: if a node needs numbers that depend on `inputs`.
        """
        trace = self.make_trace({**self.constants, **inputs})
        outcome = trace.run(self.nodes)
        if outcome.deferred:
            node = outcome.deferred[0]
            value = next(iter([*outcome.needed, *node.inputs, ""]))
            raise ValueNeededError(node=node.title, operator=node.qualified, value=value)
        return {name: trace.values[name] for name in self.output_names}

    def get_single_plan(
        self, live: Mapping[str, Value], given: Mapping[str, object]
    ) -> tuple[tuple[str, ...], SinglePlan | None]:
        """The inputs whose values count, and what computes all outputs of inputs that have the shapes of `live` and these values of
        `given`, after a first run of them, if that was one plan.
        """
        static = self._static
        key, _ = self._identify(live, static, given)
        with self._lock:
            stage = self._roots.get(key)
        return tuple(sorted(static)), None if stage is None else stage.find_single_plan()

    def plans(self) -> list[Any]:
        """Those of all stages."""
        with self._lock:
            stages = list(self._roots.values())
        return [plan for stage in stages for plan in stage.plans()]

    def make_trace(self, values: Mapping[str, Value]) -> Trace:
        """A walk over nodes of the program, with `values` and what was computed of its weights."""
        return Trace(values, self.device, kinds=dict(self.kinds), weights=self._weights)

    def collect_weights(self, nodes: Sequence[Node], values: Mapping[str, Value]) -> None:
        """Compute what nodes make of weights alone, before a program is built that reads it."""
        if not any(map(_may_precompute, nodes)):
            return
        with self._lock:
            self._weights.is_collecting = True
            try:
                self.make_trace(values).run(nodes, _find_missing(nodes, values))
                self._weights.realize()
            finally:
                self._weights.is_collecting = False

    def add_static(self, names: Iterable[str]) -> None:
        """Let the values of inputs be known while stages are built, which are then made for each of them."""
        with self._lock:
            self._static |= set(names)

    def find_static_inputs(self, name: str, live: Mapping[str, Value]) -> set[str]:
        """The inputs that alone determine a value, if all of them are single integers; else nothing."""
        makers = {output: node for node in self.nodes for output in node.outputs}
        found: set[str] = set()
        seen = {"", *self.constants}
        waiting = [name]
        while waiting:
            wanted = waiting.pop()
            if wanted in seen:
                continue
            seen.add(wanted)
            value = live.get(wanted)
            if isinstance(value, Tensor) and value.size == 1 and not (value.dtype.is_float or value.dtype.is_complex):
                found.add(wanted)
            elif value is None and wanted in makers and not makers[wanted].subgraphs():
                waiting += makers[wanted].inputs
            else:
                return set()
        return found

    def _run_with_variables(
        self, live: Mapping[str, Value], given: Mapping[str, object], known: Mapping[str, Value]
    ) -> dict[str, Value] | None:
        """The outputs of a stage for which sizes of the inputs are variables; None where there is none."""
        with self._lock:
            form = self.sizes.find_symbolic_shapes(live)
        if form is None:
            return None
        key = form.key, tuple(map(_get_key, known.values()))
        stage = self._get_root(key, known)
        n_static = len(self._static)
        try:
            results = stage.run(form.bind(live, given, self.device))
        except UserError:
            results = None  # what is wrong with the inputs themselves, the stage for their sizes says
        if results is None or stage.deferred:
            with self._lock:
                self._roots.pop(key, None)
                # A stage that knows more than this one did may do without others after it.
                if len(self._static) == n_static:
                    self.sizes.refuse(form)
            return None
        return self._list_outputs({**stage.known, **live, **to_fixed_shapes(results, self.device)})

    def _list_outputs(self, values: Mapping[str, Value]) -> dict[str, Value]:
        return {name: _to_live(values[name]) for name in self.output_names}

    def _identify(
        self, live: Mapping[str, Value], static: frozenset[str], given: Mapping[str, object]
    ) -> tuple[object, dict[str, Value]]:
        """What the first stage for these inputs is found by, and the values of inputs that it knows."""
        known: dict[str, Value] = {}
        for name in sorted(static):
            array = given.get(name)
            known[name] = cast("np.ndarray", array) if isinstance(array, np.ndarray) else _read(live[name])
        return (_get_signature(live), tuple(map(_get_key, known.values()))), known

    def _get_root(self, key: object, known: Mapping[str, Value]) -> _Stage:
        with self._lock:
            stage = self._roots.get(key)
            if stage is None:
                # An array of the caller's may have other values later.
                own = {name: value.copy() if isinstance(value, np.ndarray) else value for name, value in known.items()}
                stage = self._roots[key] = _Stage(self, self.nodes, {**self.constants, **own}, is_root=True)
            return stage


@dataclass(frozen=True, slots=True)
class SinglePlan:
    """A plan that computes all outputs of a model from its inputs.

    Attributes:
        inputs: the names of the tensors that `function` takes.
        outputs: the names of the tensors that it gives.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    function: Callable[..., Sequence[Any]]


class _Stage:
    """What is computed by one captured function, and what comes after it.

    Attributes:
        known: values that are the same whenever this stage runs.
        deferred: the nodes that it left for later.
    """

    def __init__(self, program: Program, nodes: Sequence[Node], known: Mapping[str, Value], *, is_root: bool) -> None:
        self.known: Final = dict(known)
        self.deferred: list[Node] = []
        self.is_root: Final = is_root
        self._program: Final = program
        self._nodes: Final = nodes
        self._needed: list[str] = []
        self._on_host: list[Node] = []
        # To look through the subgraphs of a node takes as long as a small plan.
        self._reads: Final[dict[Node, set[str]]] = {}
        self._next: LRUCache[object, _Stage] = LRUCache(_N_STAGES)
        self._names: tuple[str, ...] = ()
        self._result_names: tuple[str, ...] = ()
        self._function = jit(self._compute)
        self._is_idle = self._has_weights = False

    def run(self, live: Mapping[str, Value]) -> dict[str, Value]:
        """What this stage adds to the values that there are."""
        if self._is_idle:
            return {}
        if not self._has_weights:
            self._program.collect_weights(self._nodes, {**live, **self.known})
            self._names = tuple(name for name, value in live.items() if not is_opaque(value) and name not in self.known)
            self._has_weights = True
        try:
            results = self._function(*(live[name] for name in self._names))
        except _NoOutputs:
            self._is_idle = True
            return {}
        return dict(zip(self._result_names, results, strict=True))

    def find_single_plan(self) -> SinglePlan | None:
        """What runs this stage alone, if it computes every output and nothing else."""
        if self.deferred or self._result_names != tuple(dict.fromkeys(self._program.output_names)):
            return None
        return SinglePlan(self._names, self._result_names, self._function)

    def plans(self) -> list[Any]:
        """Those of this stage and of those after it."""
        return [*self._function.plans(), *(plan for stage in list(self._next.values()) for plan in stage.plans())]

    def get_next(self, live: dict[str, Value]) -> _Stage:
        """The stage that computes what this one deferred; what the host computes of it is added to `live`."""
        host = Trace({**self.known, **live}, self._program.device, can_read=True, kinds=self._program.kinds)
        left: list[Node] = []
        done = 0
        for node in self.deferred:
            reads = self._reads.get(node)
            if reads is None:
                reads = self._reads[node] = iter_reads(node)
            is_there = host.values.keys() >= reads
            reads_strings = is_there and any(is_opaque(host.values[name]) for name in node.inputs if name)
            if is_there and (node in self._on_host or reads_strings):
                host.compute(node)
                done += 1
            else:
                left.append(node)
        for node in self.deferred:
            live |= {name: _to_live(host.values[name]) for name in node.outputs if name in host.values}
        needed = [name for name in self._needed if name in host.values]
        if left and not needed and not done:
            raise ValueNeededError(node=left[0].title, operator=left[0].qualified, value=", ".join(self._needed))
        known = {name: _read(host.values[name]) for name in needed}
        key = (_get_signature(live), tuple(map(_get_key, known.values())))
        stage = self._next.get(key)
        if stage is None:
            stage = self._next[key] = _Stage(self._program, left, {**self.known, **known}, is_root=False)
        return stage

    def _compute(self, *values: Any) -> tuple[Any, ...]:
        program = self._program
        tensors = dict(zip(self._names, values, strict=True))
        trace = program.make_trace({**tensors, **self.known})
        outcome = trace.run(self._nodes, _find_missing(self._nodes, trace.values))
        if self.is_root:
            program.add_static(
                set[str]().union(*(program.find_static_inputs(name, tensors) for name in outcome.needed))
            )
        self.deferred, self._needed, self._on_host = outcome.deferred, outcome.needed, outcome.on_host
        wanted = {*program.output_names, *outcome.needed}.union(*map(iter_reads, outcome.deferred))
        results: dict[str, Any] = {}
        new = (wanted & trace.values.keys()) - tensors.keys() - self.known.keys()
        for name in dict.fromkeys([*(name for name in program.output_names if name in new), *sorted(new)]):
            value = trace.values[name]
            if isinstance(value, Sizes):
                results[name] = value.to_tensor()
            elif isinstance(value, Tensor | list):
                results[name] = _to_live(value)
            else:
                self.known[name] = value
        if not results:
            raise _NoOutputs
        self._result_names = tuple(results)
        return tuple(results.values())


def _find_missing(nodes: Sequence[Node], values: Mapping[str, Value]) -> set[str]:
    """The names that nodes read, and that neither have values nor are made by one of them."""
    made = {name for node in nodes for name in node.outputs}
    return {name for node in nodes for name in iter_reads(node)} - values.keys() - made


def _may_precompute(node: Node) -> bool:
    """Whether a node computes things of weights alone, or has nodes in subgraphs that may."""
    found = find_operator(node.operator, node.domain, node.version)
    return (found is not None and found.precomputes) or bool(node.subgraphs())


class _NoOutputs(Exception):
    """What ends a capture that made no tensor."""


def _to_live(value: Value) -> Value:
    if isinstance(value, list):
        return [_to_live(item) for item in cast("list[Value]", value)]
    return to_tensor(value) if isinstance(value, np.ndarray) and not is_opaque(value) else value


def _read(value: Value) -> Value:
    return value.numpy() if isinstance(value, Tensor) else value


def _get_key(value: Value) -> object:
    if isinstance(value, np.ndarray):
        return value.shape, value.dtype.str, value.tobytes() if value.dtype.kind != "O" else tuple(value.flat)
    return tuple(map(_get_key, map(_read, value))) if isinstance(value, list) else value


def _get_signature(live: Mapping[str, Value]) -> object:
    return tuple((name, _get_form(value)) for name, value in live.items())


def _get_form(value: Value) -> object:
    if isinstance(value, Tensor):
        return value.shape, value.dtype
    return tuple(map(_get_form, value)) if isinstance(value, list) else value is None


def _fold_constants(
    nodes: Sequence[Node],
    constants: Mapping[str, Value],
    outputs: Iterable[str],
    device: str | None,
    kinds: dict[str, int],
) -> tuple[tuple[Node, ...], dict[str, Value]]:
    """The nodes that depend on inputs, and the values of the others, computed once.

    What takes much more memory than what it is made of is left to the programs, whose kernels may never store it.
    """
    values: dict[str, Value] = {
        name: to_tensor(cast("np.ndarray", value), device) if is_large(value) else value
        for name, value in constants.items()
    }
    trace = Trace(values, device, can_read=True, kinds=kinds)
    kept: list[Node] = []
    for node in nodes:
        if not trace.values.keys() >= iter_reads(node) or not _is_single(node):
            kept.append(node)
            continue
        trace.compute(node)
        n_read = sum(_count_elements(trace.values[name]) for name in node.inputs if name)
        if sum(_count_elements(trace.values[name]) for name in node.outputs if name) > 2 * n_read + FOLDED_SIZE:
            for name in node.outputs:
                trace.values.pop(name, None)
            kept.append(node)
    wanted = set(outputs).union(*map(iter_reads, kept))
    folded = {name: value for name, value in trace.values.items() if name in wanted}
    lazy = [value for value in folded.values() if isinstance(value, Tensor) and not value.is_realized]
    Tensor.realize_batch(lazy)
    return tuple(kept), folded


def _list_kinds(constants: Mapping[str, Value]) -> dict[str, int]:
    """The types of the constants that tensors carry in a wider one."""
    narrow = set(HOST_TYPES.values())
    return {
        name: get_element_type(value.dtype)
        for name, value in constants.items()
        if isinstance(value, np.ndarray) and value.dtype in narrow
    }


def _is_single(node: Node) -> bool:
    """Whether a node is computed by one function, which gives the same for the same operands."""
    found = find_operator(node.operator, node.domain, node.version)
    return found is not None and not found.is_random and not node.subgraphs()


def _count_elements(value: Value) -> int:
    if isinstance(value, list):
        return sum(map(_count_elements, value))
    return 0 if value is None else cast("int", value.size)
