"""Walking over nodes: each becomes operations of tensors, or is left for later where it needs numbers that are not known yet."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

import numpy as np
import onnx

from svod_onnx._folding import can_fold, compute_on_host
from svod_onnx._function_bodies import has_body, make_body
from svod_onnx._graph import Graph, Node, iter_reads
from svod_onnx._inlining import Inline
from svod_onnx._registry import Operator, RunOnHostError, Value, find_operator
from svod_onnx._symbolic_sizes import Sizes, compute_with_sizes
from svod_onnx._types import HOST_TYPES, get_element_type
from svod_onnx._values import is_large, is_opaque, to_tensor
from svod_onnx._weight_cache import WeightCache
from svod_onnx.errors import NodeError, ValueNeededError
from svod_tensor import Tensor, scope
from svod_tensor.errors import UserError

__all__ = ["Call", "Outcome", "Trace"]


@dataclass(frozen=True, slots=True)
class Call:
    """A node that is being computed, as operators see it.

    Attributes:
        node: which.
        trace: the values by name, for operators that compute graphs.
    """

    node: Node
    trace: Trace

    @property
    def operator(self) -> str:
        return self.node.operator

    @property
    def version(self) -> int:
        return self.node.version

    @property
    def n_outputs(self) -> int:
        """How many results are given a name, or stand before one that is."""
        return len(self.node.outputs)

    def has_output(self, number: int) -> bool:
        """Whether something may read a result."""
        return number < len(self.node.outputs) and self.node.outputs[number] != ""

    def set_element_type(self, kind: int, number: int = 0) -> None:
        """Say which ONNX type a result has, where its dtype carries narrower ones too."""
        if number < len(self.node.outputs):
            self.trace.set_element_type(self.node.outputs[number], kind)

    def tensors(self, *values: Value) -> tuple[Tensor, ...]:
        """Operands that the operator took as values, as tensors; one may be given more than once."""
        names = {id(self.trace.values[name]): name for name in self.node.inputs if name}
        return tuple(self.trace.get_tensor(self.node, names.get(id(value), ""), value) for value in values)

    def concretize(self, label: str, value: Tensor) -> np.ndarray:
        """The numbers of a tensor that the operator has computed, by which it then goes on.

        Where they depend on inputs the node waits for a later stage, which is made for these numbers, and gets them here: the fewer
        of them there are, the fewer stages.

        Args:
            label: what the numbers are, unlike those of the node's other ones.
            value: the tensor.
        """
        name = f"{self.node.title}#{label}"
        found = self.trace.values.setdefault(name, value)
        return found if isinstance(found, np.ndarray) else self.trace.read(self.node, name, cast("Tensor", found))

    def precompute(self, label: str, compute: Callable[..., Tensor], *operands: Tensor) -> Tensor:
        """`compute(*operands)`, which is computed once for all calls of the program where the operands are its weights.

        Args:
            label: what it is, unlike other things that the operator computes of the same operands.
            compute: from the operands alone.
            operands: of the node.
        """
        weights = self.trace.weights
        if weights is None:
            return compute(*operands)
        (made,) = weights.get_or_compute((self.operator, label), operands, lambda: (compute(*operands),))
        return cast("Tensor", made)

    def refuse(self, problem: str) -> NodeError:
        """The error that says why this node cannot be computed."""
        return NodeError(node=self.node.title, operator=self.node.qualified, problem=problem)

    def refuse_names(self, n_results: int) -> NodeError:
        """The error that says that more results are named than there are."""
        return self.refuse(f"has at most {n_results} results, and {len(self.node.outputs)} names for them")


@dataclass(slots=True)
class Outcome:
    """What is left of nodes after a walk.

    Attributes:
        deferred: those that need numbers which are not known yet, and what reads their results.
        needed: the names of those numbers.
        on_host: those of the deferred nodes that are computed where a program runs, without a plan.
    """

    deferred: list[Node] = field(default_factory=list[Node])
    needed: list[str] = field(default_factory=list[str])
    on_host: list[Node] = field(default_factory=list[Node])


def _list_result_types(node: Node) -> list[int | None]:
    """For each result, the number of the first operand that always has the same type."""
    try:
        schema = onnx.defs.get_schema(node.operator, node.version, node.domain)
    except onnx.defs.SchemaError:
        return []
    formal = [info.type_str for info in schema.inputs]
    return [formal.index(info.type_str) if info.type_str in formal else None for info in schema.outputs]


class Trace:
    """Values by name, and the walk that adds those that nodes compute.

    Args:
        values: what is known before: inputs, weights, and what earlier stages computed.
        device: where constants become tensors.
        can_read: whether the numbers of every tensor may be read, and operators that compute on the host are called.
        kinds: the ONNX types of values, which tensors that carry a narrow type do not tell; what nodes compute is added.
        weights: those of the program, and what is computed of them alone; None where nothing is kept of it.
    """

    def __init__(
        self,
        values: Mapping[str, Value],
        device: str | None = None,
        *,
        can_read: bool = False,
        kinds: dict[str, int] | None = None,
        weights: WeightCache | None = None,
    ) -> None:
        self.values: dict[str, Value] = dict(values)
        self.weights: Final = weights
        self._kinds: Final = {} if kinds is None else kinds
        self.device: Final = device
        self.can_read: Final = can_read
        self._tensors: dict[str, Tensor] = {}
        self._n_inlined = 0

    def run(self, nodes: Iterable[Node], missing: Iterable[str] = ()) -> Outcome:
        """Compute what can be computed of `nodes`, each of which comes after those that it reads.

        Args:
            nodes: what to compute.
            missing: names that have no value yet.
        """
        outcome = Outcome()
        waiting = deque(nodes)
        blocked = set(missing)

        def defer(node: Node) -> None:
            outcome.deferred.append(node)
            blocked.update(node.outputs)

        while waiting:
            node = waiting.popleft()
            if not blocked.isdisjoint(iter_reads(node)):
                defer(node)
                continue
            try:
                self.compute(node)
            except ValueNeededError as error:
                outcome.needed.append(error.value)
                defer(node)
            except RunOnHostError:
                outcome.on_host.append(node)
                defer(node)
            except Inline as inline:
                waiting.extendleft(reversed(self.expand(node, inline)))
        outcome.needed = list(dict.fromkeys(outcome.needed))
        return outcome

    def compute(self, node: Node) -> None:
        """Let the outputs of `node` have values."""
        operands = [self.values[name] if name else None for name in node.inputs]
        found = find_operator(node.operator, node.domain, node.version)
        made = self._compute_with_sizes(node, operands)
        if made is not None:
            results = (made,)
        elif self.can_fold(node, operands, found):
            results = compute_on_host(node, operands)
        elif found is None:
            raise self.make_inline(node, operands)
        else:
            with scope(node.scope):
                results = self.call_once(node, found, operands)
        if any(node.outputs[len(results) :]):
            raise Call(node, self).refuse_names(len(results))
        for name, value in zip(node.outputs, results, strict=False):
            if name:
                made = self.values[name] = cast("Value", value)
                if isinstance(made, np.ndarray) and made.dtype in HOST_TYPES.values():
                    self._kinds[name] = get_element_type(made.dtype)
        self._pass_kinds(node)

    def _compute_with_sizes(self, node: Node, operands: Sequence[Value]) -> object | None:
        if not any(isinstance(value, Sizes) for value in operands):
            return None
        try:
            return compute_with_sizes(node, operands)
        except (UserError, ValueError, IndexError, TypeError, KeyError) as error:
            raise Call(node, self).refuse(str(error)) from error

    def _pass_kinds(self, node: Node) -> None:
        """Give what has the type of a narrow operand by the schema that type."""
        kinds = {number: self._kinds.get(name, 0) for number, name in enumerate(node.inputs)}
        if not any(kind in HOST_TYPES for kind in kinds.values()):
            return
        types = _list_result_types(node)
        for name, source in zip(node.outputs, types, strict=False):
            if name and source is not None and kinds.get(source) in HOST_TYPES:
                self._kinds.setdefault(name, kinds[source])

    def make_inline(self, node: Node, operands: Sequence[Value]) -> Inline:
        """What the standard defines a node without a function by.

        Raises:
            NodeError: if it defines nothing.
        """
        if not has_body(node):
            raise Call(node, self).refuse("svod-onnx has no such operator")
        types = [self._make_type(name) if name else None for name in node.inputs]
        try:
            graph = make_body(node, types)
        except ValueError as error:
            raise Call(node, self).refuse(str(error)) from error
        return Inline(graph, tuple(value for name, value in zip(node.inputs, operands, strict=True) if name))

    def _make_type(self, name: str) -> onnx.TypeProto:
        value = self.values[name]
        if isinstance(value, list) or value is None:
            return onnx.TypeProto()
        sizes: list[int | None] = [size if isinstance(size, int) else None for size in value.shape]
        return onnx.helper.make_tensor_type_proto(self.get_element_type(name), sizes)

    def run_graph(self, graph: Graph, arguments: Sequence[Value]) -> list[Value]:
        """The outputs of a subgraph, which may read the values around it.

        Raises:
            RunOnHostError: if one of its nodes needs numbers that are not known yet.
        """
        values = {**self.values, **graph.constants}
        values |= {info.name: value for info, value in zip(graph.inputs, arguments, strict=True)}
        inner = Trace(values, self.device, can_read=self.can_read, kinds=self._kinds, weights=self.weights)
        if inner.run(graph.nodes).deferred:
            raise RunOnHostError
        return [inner.values[info.name] for info in graph.outputs]

    def can_fold(self, node: Node, operands: Sequence[Value], found: Operator | None) -> bool:
        """Whether a node is computed by onnx: operands that are known and small, or strings that svod-onnx has no function for."""
        if node.subgraphs() or (found is not None and (found.is_random or found.function is None)):
            return False
        present = [value for value in operands if value is not None]
        if not present or not all(isinstance(value, np.ndarray) for value in present):
            return False
        arrays = cast("list[np.ndarray]", present)
        if any(map(is_opaque, arrays)):
            return found is None or found.host is None
        return can_fold(node, arrays)

    def call_once(self, node: Node, found: Operator, operands: Sequence[Value]) -> tuple[object, ...]:
        """As `call`, once for all programs where the operands are weights."""
        rows = found.operands
        if len(operands) > len(rows) and not (rows and rows[-1].is_variadic):
            raise Call(node, self).refuse(f"takes at most {len(rows)} operands, and has {len(operands)}")
        weights = self.weights
        if (
            weights is None
            or found.is_random
            or node.subgraphs()
            or any(isinstance(value, list | Sizes) for value in operands)
        ):
            return self.call(node, found, operands)
        operands = [
            self.get_tensor(node, name, value) if is_large(value) and row.form == "Tensor" else value
            for name, value, row in zip(node.inputs, operands, found.iter_operands(), strict=False)
        ]
        if not any(isinstance(value, Tensor) for value in operands) or not weights.are_weights(operands):
            return self.call(node, found, operands)
        numbers = tuple(
            (value.shape, value.dtype.str, value.tobytes()) if isinstance(value, np.ndarray) else value is None
            for value in operands
        )
        key = node.qualified, node.version, repr(node.attributes), len(node.outputs), numbers
        return weights.get_or_compute(key, operands, lambda: self.call(node, found, operands))

    def call(self, node: Node, found: Operator, operands: Sequence[Value]) -> tuple[object, ...]:
        """The results of an operator's function."""
        unknown = set(node.attributes) - found.attributes
        call = Call(node, self)
        if unknown:
            raise call.refuse(f"has no attribute {', '.join(sorted(unknown))}")
        function = found.function
        if function is None:
            if not self.can_read:
                raise RunOnHostError
            function = found.host
        assert function is not None
        arguments = [*([call] if found.takes_node else []), *self.bind(node, found, operands)]
        try:
            attributes = found.bind_attributes(node.attributes)
            try:
                results = function(*arguments, **attributes)
            except RunOnHostError:
                if not self.can_read or found.host is None:
                    raise
                results = found.host(*arguments, **attributes)
        except (ValueNeededError, RunOnHostError, Inline, NodeError):
            raise
        except (UserError, TypeError, ValueError, IndexError, KeyError, ArithmeticError, NotImplementedError) as error:
            raise NodeError(
                node=node.title,
                operator=node.qualified,
                problem=str(error),
                inputs=[
                    f"{name}: {_describe(value)}" for name, value in zip(node.inputs, operands, strict=True) if name
                ],
            ) from error
        return cast("tuple[object, ...]", results) if isinstance(results, tuple) else (results,)

    def bind(self, node: Node, found: Operator, operands: Sequence[Value]) -> list[Value | list[int]]:
        """The operands of a node in the forms that its operator takes."""
        bound: list[Value | list[int]] = []
        rows = list(found.operands)
        if rows and rows[-1].is_variadic:
            rows += rows[-1:] * (len(operands) - len(rows))
        for number, row in enumerate(rows):
            value = operands[number] if number < len(operands) else None
            if value is None:
                if not row.is_optional or (row.is_variadic and row.form == "Tensor"):
                    raise Call(node, self).refuse(f"has no operand {row.name!r}")
                if number < len(operands):
                    bound.append(None)
                continue
            name = node.inputs[number]
            match row.form:
                case "Tensor":
                    bound.append(self.get_tensor(node, name, value))
                case "Known" | "Ints":
                    if isinstance(value, Sizes) and row.form == "Known":
                        value = value.to_tensor()
                    if isinstance(value, Tensor):
                        value = self.read(node, name, value)
                    bound.append(self._list_integers(node, name, value) if row.form == "Ints" else value)
                case "list[Tensor]":
                    if not isinstance(value, list):
                        raise Call(node, self).refuse(f"{name!r} is no sequence")
                    bound.append([self.get_tensor(node, name, item) for item in cast("list[Value]", value)])
                case _:
                    bound.append(value)
        return bound

    def _list_integers(self, node: Node, name: str, value: Value) -> list[int]:
        try:
            if isinstance(value, Sizes):
                return list(value.array.flat)
            return [int(n) for n in np.ravel(cast("Any", value))]
        except (TypeError, ValueError, OverflowError) as error:
            raise Call(node, self).refuse(f"{name!r} has to hold integers: {error}") from error

    def read(self, node: Node, name: str, value: Tensor) -> np.ndarray:
        """The numbers of a tensor, which then are known."""
        if not self.can_read:
            raise ValueNeededError(node=node.title, operator=node.qualified, value=name)
        array = value.numpy()
        self.values[name] = array
        return array

    def set_element_type(self, name: str, kind: int) -> None:
        self._kinds[name] = kind

    def get_element_type(self, name: str) -> int:
        """The ONNX type of a tensor: what is known of it, or that of its dtype."""
        value = self.values[name]
        if isinstance(value, np.ndarray | Sizes):
            return get_element_type(value.dtype)
        assert isinstance(value, Tensor)
        return self._kinds.get(name) or get_element_type(np.dtype(str(value.dtype)))

    def get_tensor(self, node: Node, name: str, value: Value) -> Tensor:
        """A value as a tensor; an array becomes one once."""
        if isinstance(value, Tensor):
            return value
        if isinstance(value, Sizes):
            return value.to_tensor()
        if not isinstance(value, np.ndarray) or is_opaque(value):
            raise Call(node, self).refuse(f"{name!r} is no tensor of numbers")

        def make() -> Tensor:
            return to_tensor(value, self.device, is_constant=True)

        if self.values.get(name) is not value:
            return make()
        made = self._tensors.get(name)
        if made is None:
            made = self._tensors[name] = make() if self.weights is None else self.weights.get_tensor(value, make)
        return made

    def expand(self, node: Node, inline: Inline) -> list[Node]:
        """The nodes that stand for `node`, with names of their own; what they read besides has values already."""
        n_results = len(inline.graph.outputs)
        if any(node.outputs[n_results:]):
            raise Call(node, self).refuse_names(n_results)
        self._n_inlined += 1
        nodes, values = inline.expand(node, f"{node.title}#{self._n_inlined}/")
        self.values |= values
        return nodes


def _describe(value: Value) -> str:
    if isinstance(value, Tensor | np.ndarray | Sizes):
        return f"{value.dtype}{tuple(value.shape)}"
    return "nothing" if value is None else f"a sequence of {len(value)}"
