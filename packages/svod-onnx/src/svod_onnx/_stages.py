"""Stages of a program: captured functions that run one after another.

A stage traces the remaining nodes, and computes every node that it can. A node that needs a value,
such as a computed size or the number of nonzero elements, is deferred. The value is read after the
stage, and the next stage is captured with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from cachetools import LRUCache

from svod_onnx._graph import Node, iter_reads
from svod_onnx._registry import Operator, Value, find_operator
from svod_onnx._size_variables import SymbolicShapes
from svod_onnx._symbolic_sizes import Sizes
from svod_onnx._trace import Trace
from svod_onnx._types import HOST_TYPES
from svod_onnx._value_keys import get_key, get_signature, read_value, to_live
from svod_onnx._values import is_opaque
from svod_onnx.errors import NodeError, ValueNeededError
from svod_tensor import PrepareConfig, Tensor, jit

__all__ = ["FixedSizesError", "HostTail", "SinglePlan", "Stage", "StagedProgram", "list_missing"]


class StagedProgram(Protocol):
    """A program that runs in stages (`_program.Program`)."""

    @property
    def device(self) -> str | None: ...
    @property
    def config(self) -> PrepareConfig | None: ...
    @property
    def max_plans(self) -> int: ...
    @property
    def element_types(self) -> dict[str, int]: ...
    @property
    def output_names(self) -> tuple[str, ...]: ...
    def make_trace(self, values: Mapping[str, Value]) -> Trace:
        """Trace with `values` and the program's cached weights."""
        ...

    def collect_weights(self, nodes: Sequence[Node], values: Mapping[str, Value]) -> None:
        """Compute the values that nodes derive from weights only."""
        ...

    def explain_allocation(
        self, error: MemoryError, nodes: Sequence[Node], values: Mapping[str, Value]
    ) -> NodeError | None:
        """Error that names the node with the largest result; None if no node has a result."""
        ...

    def add_static(self, names: Iterable[str]) -> None:
        """Mark inputs as static: stages are captured for each of their values."""
        ...

    def list_static_inputs(self, name: str, live: Mapping[str, Value]) -> set[str]:
        """Inputs that determine a value, if all of them are single integers; otherwise empty."""
        ...

    def get_output_type(self, name: str) -> int:
        """Element type of an output; 0 if unknown."""
        ...


@dataclass(frozen=True, slots=True)
class SinglePlan:
    """A plan that computes all outputs of a model from its inputs.

    Attributes:
        inputs: names of the tensors that `function` takes.
        results: names of the tensors that it returns.
        outputs: names of the outputs of the model.
        tail: nodes that the host computes from the results; None if there are none.
    """

    inputs: tuple[str, ...]
    results: tuple[str, ...]
    outputs: tuple[str, ...]
    function: Callable[..., Sequence[Any]]
    tail: HostTail | None = None

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Outputs of the model by name."""
        results = self.function(*[inputs[name] for name in self.inputs])
        if self.tail is None:
            return dict(zip(self.outputs, results, strict=True))
        values = self.tail.run(dict(zip(self.results, results, strict=True)))
        return {name: values[name] for name in self.outputs}


class HostTail:
    """The last nodes of a program, which only the host computes, from the results of a stage. No stage
    follows.

    Args:
        program: the program.
        nodes: the nodes in topological order.
        known: values that are equal in each run of the stage.
    """

    def __init__(
        self, program: StagedProgram, nodes: Sequence[Node], known: Mapping[str, Value]
    ) -> None:
        self.nodes: Final = tuple(nodes)
        self.outputs: Final = tuple(name for node in nodes for name in node.outputs if name)
        self.reads: Final = frozenset[str]().union(*map(iter_reads, nodes)) - {*self.outputs}
        # Looked up once: the search takes longer than some of the functions.
        self._steps: Final = tuple((node, _find_host_operator(node)) for node in self.nodes)
        self._program: Final = program
        self._known: Final = {name: known[name] for name in self.reads if name in known}

    def run(self, live: Mapping[str, Value]) -> dict[str, Value]:
        """`live` with the outputs of the nodes."""
        host = _make_host_trace(self._program, {**self._known, **live})
        for node, operator in self._steps:
            if operator is None:
                replacement = host.compute(node)
                assert not replacement, node
            else:
                host.call_on_host(node, operator)
        return {**live, **_list_results(self.nodes, host)}


class Stage:
    """A captured function, and the stages that follow it.

    Attributes:
        known: values that are equal in each run of this stage.
        deferred: nodes that follow this stage.
        tail: the deferred nodes, if the host computes all of them; None before the first run.
    """

    def __init__(
        self,
        program: StagedProgram,
        nodes: Sequence[Node],
        known: Mapping[str, Value],
        shapes: SymbolicShapes | None = None,
        *,
        is_root: bool,
    ) -> None:
        self.known: Final = dict(known)
        self.deferred: list[Node] = []
        self.is_root: Final = is_root
        self._program: Final[StagedProgram] = program
        self._nodes: Final = nodes
        self._shapes: Final = shapes
        self._needed: list[str] = []
        self._on_host: list[Node] = []
        # Cached, since collecting the reads of subgraphs takes as long as a small plan.
        self._reads: Final[dict[Node, set[str]]] = {}
        self._next: LRUCache[object, Stage] = LRUCache(program.max_plans)
        self._names: tuple[str, ...] = ()
        self._result_names: tuple[str, ...] = ()
        self._function = jit(self._compute, config=program.config)
        self._is_idle = self._has_weights = False
        self.tail: HostTail | None = None

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
        outputs = tuple(dict.fromkeys(program.output_names))
        # These outputs become arrays of another dtype after the plan.
        if any(program.get_output_type(name) in HOST_TYPES for name in outputs):
            return None
        # A deferred node that no output depends on does not matter.
        if self._result_names == outputs:
            return SinglePlan(self._names, outputs, outputs, self._function)
        tail = self.tail
        if (
            tail is None
            or not {*self._result_names, *tail.outputs}.issuperset(outputs)
            or not {*self._result_names, *self.known}.issuperset(tail.reads)
        ):
            return None
        return SinglePlan(self._names, self._result_names, outputs, self._function, tail)

    def plans(self) -> list[Any]:
        """Plans of this stage and of the stages that follow it."""
        return [
            *self._function.plans(),
            *(plan for stage in list(self._next.values()) for plan in stage.plans()),
        ]

    def finish(self, live: Mapping[str, Value]) -> dict[str, Value] | None:
        """`live` with the values of the deferred nodes; None if a stage must follow for them."""
        if not self.deferred:
            return dict(live)
        if self.tail is None and not self._needed:
            # Host functions may need values that only this run shows to be strings.
            remaining, host, _ = self._compute_on_host(live)
            if not remaining:
                self.tail = HostTail(self._program, self.deferred, self.known)
                return {**live, **_list_results(self.deferred, host)}
        return None if self.tail is None else self.tail.run(live)

    def get_next(self, live: dict[str, Value]) -> Stage:
        """Return the stage that follows.

        Values that the host computes between the stages are added to `live`.
        """
        remaining, host, n_computed = self._compute_on_host(live)
        live |= _list_results(self.deferred, host)
        if not remaining and not self._needed:
            self.tail = HostTail(self._program, self.deferred, self.known)
        needed = [name for name in self._needed if name in host.values]
        if remaining and not needed and not n_computed:
            # No progress: the needed values themselves depend on deferred nodes.
            raise ValueNeededError(
                node=remaining[0].title,
                operator=remaining[0].qualified,
                value=", ".join(self._needed),
            )
        known = {name: read_value(host.values[name]) for name in needed}
        key = (get_signature(live), tuple(map(get_key, known.values())))
        stage = self._next.get(key)
        if stage is None:
            stage = self._next[key] = Stage(
                self._program, remaining, {**self.known, **known}, is_root=False
            )
        return stage

    def _compute_on_host(self, live: Mapping[str, Value]) -> tuple[list[Node], Trace, int]:
        """Compute the deferred nodes that the host computes. Return the remaining nodes, the values,
        and the number of computed nodes.
        """
        host = _make_host_trace(self._program, {**self.known, **live})
        remaining: list[Node] = []
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
            else:
                remaining.append(node)
        return remaining, host, len(self.deferred) - len(remaining)

    def _compute(self, *values: Any) -> tuple[Any, ...]:
        program = self._program
        if self._shapes is not None and not any(map(_is_symbolic, values)):
            # `jit` has no plan for all sizes; the results of other sizes may be other ones.
            raise FixedSizesError
        tensors = dict(zip(self._names, values, strict=True))
        trace = program.make_trace({**tensors, **self.known})
        outcome = trace.run(self._nodes, list_missing(self._nodes, trace.values))
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
                results[name] = to_live(value)
            else:
                self.known[name] = value
        self._result_names = tuple(results)
        return tuple(results.values())


def _find_host_operator(node: Node) -> Operator | None:
    """Operator of a node that only the host computes with; None for other nodes."""
    operator = find_operator(node.operator, node.domain, node.version)
    return None if operator is None or operator.function is not None else operator


def _make_host_trace(program: StagedProgram, values: Mapping[str, Value]) -> Trace:
    return Trace(values, program.device, can_read=True, element_types=program.element_types)


def _list_results(nodes: Sequence[Node], host: Trace) -> dict[str, Value]:
    """The results of the nodes that have been computed, by name."""
    return {
        name: to_live(host.values[name])
        for node in nodes
        for name in node.outputs
        if name in host.values
    }


class FixedSizesError(Exception):
    """A program with symbolic sizes cannot be executed as one plan."""


def _is_symbolic(value: Tensor) -> bool:
    return not all(isinstance(size, int) for size in value.shape)


def list_missing(nodes: Sequence[Node], values: Mapping[str, Value]) -> set[str]:
    """Names that nodes read without a value and without a producer among the nodes."""
    defined = {name for node in nodes for name in node.outputs}
    return {name for node in nodes for name in iter_reads(node)} - values.keys() - defined
