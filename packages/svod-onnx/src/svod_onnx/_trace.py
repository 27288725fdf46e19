"""Tracing of a graph: each node becomes operations on tensors, or is deferred if it needs a value
that is not known yet.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

import numpy as np
import onnx

from svod_onnx._folding import can_fold, compute_on_host
from svod_onnx._function_bodies import has_body, make_body
from svod_onnx._graph import Graph, Node, iter_reads, list_sources
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
    """A node that is being computed, as operator functions see it.

    Attributes:
        node: the node.
        trace: values by name, for operators with subgraphs.
    """

    node: Node
    trace: Trace

    @property
    def operator(self) -> str:
        """Operator of the node, without its domain."""
        return self.node.operator

    @property
    def version(self) -> int:
        """Opset version that last changed the operator."""
        return self.node.version

    @property
    def n_outputs(self) -> int:
        """Number of declared outputs, including omitted ones before the last."""
        return len(self.node.outputs)

    def has_output(self, index: int) -> bool:
        """Whether the output with this index is declared."""
        return index < len(self.node.outputs) and self.node.outputs[index] != ""

    def set_element_type(self, element_type: int, index: int = 0) -> None:
        """Set the element type of an output whose dtype carries several element types."""
        if index < len(self.node.outputs):
            self.trace.set_element_type(self.node.outputs[index], element_type)

    def tensors(self, *values: Value) -> tuple[Tensor, ...]:
        """Tensors of operands that the function receives as `Value`."""
        # By identity: a value does not know its name, and the name finds the cached tensor.
        names = {id(self.trace.values[name]): name for name in self.node.inputs if name}
        return tuple(
            self.trace.get_tensor(self.node, names.get(id(value), ""), value) for value in values
        )

    def concretize(self, label: str, value: Tensor) -> np.ndarray:
        """Read a tensor that the operator has computed, and continue with its value.

        If the tensor depends on inputs, a later stage computes the node anew and receives the value
        here. Each distinct value has its own stage, so fewer distinct values mean fewer stages.

        Args:
            label: identifies the value among the node's other values.
            value: tensor to read.
        """
        name = f"{self.node.title}#{label}"
        # The label becomes a value's name, so that the stage machinery reads and binds it like any
        # other value.
        bound = self.trace.values.setdefault(name, value)
        return (
            bound
            if isinstance(bound, np.ndarray)
            else self.trace.read(self.node, name, cast("Tensor", bound))
        )

    def precompute(self, label: str, compute: Callable[..., Tensor], *operands: Tensor) -> Tensor:
        """Return `compute(*operands)`, computed once for all calls of the program if the operands
        are weights.

        Args:
            label: identifies the computation among others of the operator with the same operands.
            compute: function of the operands only.
            operands: operands of the node.
        """
        weights = self.trace.weights
        if weights is None:
            return compute(*operands)
        (result,) = weights.get_or_compute(
            (self.operator, label), operands, lambda: (compute(*operands),)
        )
        return cast("Tensor", result)

    def refuse(self, problem: str) -> NodeError:
        """Error with the reason why this node cannot be computed."""
        return NodeError(node=self.node.title, operator=self.node.qualified, problem=problem)

    def refuse_names(self, n_results: int) -> NodeError:
        """Error for more declared outputs than results."""
        return self.refuse(
            f"declares {len(self.node.outputs)} outputs, but has at most {n_results}"
        )


@dataclass(slots=True)
class Outcome:
    """Nodes that a trace could not compute.

    Attributes:
        deferred: nodes that need unknown values, and the nodes that depend on them.
        needed: names of these values.
        on_host: deferred nodes that the host computes between plans.
    """

    deferred: list[Node] = field(default_factory=list[Node])
    needed: list[str] = field(default_factory=list[str])
    on_host: list[Node] = field(default_factory=list[Node])


def _check_kinds(call: Call, operands: Sequence[Value]) -> None:
    """Check that sequences and maps are operands of operators that take them by their schema.

    Raises:
        NodeError: if an operand is a sequence or a map, and must not be one.
    """
    # Few models have sequences; the look-up of a schema takes longer than the test.
    if not any(isinstance(value, list | dict) for value in operands):
        return
    node = call.node
    try:
        # Of the newest version, since inlining adds Identity nodes of version 1 for any value.
        formal = onnx.defs.get_schema(node.operator, node.domain).inputs
    except onnx.defs.SchemaError:
        return
    for index, (name, value) in enumerate(zip(node.inputs, operands, strict=True)):
        kind = "seq(" if isinstance(value, list) else "map(" if isinstance(value, dict) else ""
        types = formal[min(index, len(formal) - 1)].types if formal else set[str]()
        if kind and not any(kind in text for text in types):
            kind_name = "sequence" if isinstance(value, list) else "map"
            raise call.refuse(f"operand {name!r} must not be a {kind_name}")


def _list_result_types(node: Node) -> list[int | None]:
    """For each output, the index of the first input with the same type variable in the schema."""
    try:
        schema = onnx.defs.get_schema(node.operator, node.version, node.domain)
    except onnx.defs.SchemaError:
        return []
    formal = [info.type_str for info in schema.inputs]
    return [
        formal.index(info.type_str) if info.type_str in formal else None for info in schema.outputs
    ]


class Trace:
    """Values by name, and the walk over nodes that adds their results.

    Args:
        values: known values: inputs, weights, and results of earlier stages.
        device: device of constants.
        can_read: whether tensors may be read and host functions may run.
        element_types: element types of values that a wider dtype carries; the trace adds the types
            of results.
        weights: cache of values computed from weights; None to cache nothing.
    """

    def __init__(
        self,
        values: Mapping[str, Value],
        device: str | None = None,
        *,
        can_read: bool = False,
        element_types: dict[str, int] | None = None,
        weights: WeightCache | None = None,
    ) -> None:
        self.values: dict[str, Value] = dict(values)
        self.weights: Final = weights
        self._element_types: Final = {} if element_types is None else element_types
        self.device: Final = device
        self.can_read: Final = can_read
        self._tensors: dict[str, Tensor] = {}
        self._producers: dict[str, Node] = {}
        self._n_inlined = 0

    def run(self, nodes: Iterable[Node], missing: Iterable[str] = ()) -> Outcome:
        """Compute the nodes, which are in topological order, and return the nodes that must wait.

        Args:
            nodes: nodes to compute.
            missing: names that have no value yet.
        """
        outcome = Outcome()
        queue = deque(nodes)
        blocked = set(missing)

        def defer(node: Node) -> None:
            outcome.deferred.append(node)
            blocked.update(node.outputs)

        while queue:
            node = queue.popleft()
            # A value below a deferred node is unknown in this stage, whatever its operator.
            if not blocked.isdisjoint(iter_reads(node)):
                defer(node)
                continue
            try:
                replacement = self.compute(node)
            except ValueNeededError as error:
                outcome.needed.append(error.value)
                defer(node)
            except RunOnHostError:
                outcome.on_host.append(node)
                defer(node)
            else:
                # Before all waiting nodes, which may read the outputs.
                queue.extendleft(reversed(replacement))
        outcome.needed = list(dict.fromkeys(outcome.needed))
        return outcome

    def compute(self, node: Node) -> Sequence[Node]:
        """Bind the outputs of `node`, or return the nodes that replace it."""
        operands = [self.values[name] if name else None for name in node.inputs]
        operator = find_operator(node.operator, node.domain, node.version)
        sizes = self._compute_with_sizes(node, operands)
        # The order matters: symbolic sizes and small constants would otherwise become kernels.
        if sizes is not None:
            results = (sizes,)
        elif self.can_fold(node, operands, operator):
            results = compute_on_host(node, operands)
        elif _has_strings(node, operands, operator):
            # Strings selected by computed indices, for example.
            if not self.can_read:
                raise RunOnHostError
            results = compute_on_host(node, self._read_operands(node, operands))
        elif operator is None:
            return self.expand(node, self.make_inline(node, operands))
        else:
            with scope(node.scope):
                results = self.call_once(node, operator, operands)
        if results and isinstance(results[0], Inline):
            return self.expand(node, results[0])
        self._bind_outputs(node, results)
        return ()

    def call_on_host(self, node: Node, operator: Operator) -> None:
        """Bind the outputs of a node whose operator only the host computes."""
        operands = [self.values[name] if name else None for name in node.inputs]
        self._bind_outputs(node, self.call(node, operator, operands))

    def _read_operands(self, node: Node, operands: Sequence[Value]) -> list[Value]:
        return [
            self.read(node, name, value) if isinstance(value, Tensor) else value
            for name, value in zip(node.inputs, operands, strict=True)
        ]

    def _bind_outputs(self, node: Node, results: Sequence[object]) -> None:
        if any(node.outputs[len(results) :]):
            raise Call(node, self).refuse_names(len(results))
        for name, value in zip(node.outputs, results, strict=False):
            if name:
                self._producers[name] = node
                bound = self.values[name] = cast("Value", value)
                if isinstance(bound, np.ndarray) and bound.dtype in HOST_TYPES.values():
                    self._element_types[name] = get_element_type(bound.dtype)
        self._propagate_element_types(node)

    def _compute_with_sizes(self, node: Node, operands: Sequence[Value]) -> object | None:
        if not any(isinstance(value, Sizes) for value in operands):
            return None
        try:
            return compute_with_sizes(node, operands)
        except (UserError, ValueError, IndexError, TypeError, KeyError) as error:
            raise Call(node, self).refuse(str(error)) from error

    def _propagate_element_types(self, node: Node) -> None:
        """Propagate narrow element types to the outputs that have an operand's type by the
        schema.
        """
        types = {index: self._element_types.get(name, 0) for index, name in enumerate(node.inputs)}
        # Most graphs have no narrow types; the look-up of a schema takes longer than the test.
        if not any(element_type in HOST_TYPES for element_type in types.values()):
            return
        for name, source in zip(node.outputs, _list_result_types(node), strict=False):
            if name and source is not None and types.get(source) in HOST_TYPES:
                self._element_types.setdefault(name, types[source])

    def make_inline(self, node: Node, operands: Sequence[Value]) -> Inline:
        """Function body of a node without an operator function.

        Raises:
            NodeError: if the standard has no body.
        """
        if not has_body(node):
            raise Call(node, self).refuse("unsupported operator")
        types = [self._make_type(name) if name else None for name in node.inputs]
        try:
            graph = make_body(node, types)
        except ValueError as error:
            raise Call(node, self).refuse(str(error)) from error
        return Inline(
            graph, tuple(value for name, value in zip(node.inputs, operands, strict=True) if name)
        )

    def _make_type(self, name: str) -> onnx.TypeProto:
        value = self.values[name]
        if isinstance(value, list | dict) or value is None:
            return onnx.TypeProto()
        sizes: list[int | None] = [size if isinstance(size, int) else None for size in value.shape]
        return onnx.helper.make_tensor_type_proto(self.get_element_type(name), sizes)

    def run_graph(self, graph: Graph, arguments: Sequence[Value]) -> list[Value]:
        """Outputs of a subgraph, which may read values of enclosing graphs.

        Raises:
            RunOnHostError: if a node needs a value that is not known yet.
        """
        # Copied, so that names of the subgraph do not leak into the enclosing graph.
        values = {**self.values, **graph.constants}
        values |= {info.name: value for info, value in zip(graph.inputs, arguments, strict=True)}
        inner = Trace(
            values,
            self.device,
            can_read=self.can_read,
            element_types=self._element_types,
            weights=self.weights,
        )
        inner._producers.update(self._producers)
        # The outer node is deferred as a whole; the enclosing plan cannot hold a part of a
        # subgraph.
        if inner.run(graph.nodes).deferred:
            raise RunOnHostError
        return [inner.values[info.name] for info in graph.outputs]

    def can_fold(self, node: Node, operands: Sequence[Value], operator: Operator | None) -> bool:
        """Whether onnx computes a node: its operands are known and small, or strings without a host
        function.
        """
        if node.subgraphs() or (
            operator is not None and (operator.is_random or operator.function is None)
        ):
            return False
        present = [value for value in operands if value is not None]
        # Without operands the node was folded when the model was loaded.
        if not present or not all(isinstance(value, np.ndarray) for value in present):
            return False
        arrays = cast("list[np.ndarray]", present)
        # Strings never become tensors, so their size does not matter.
        if any(map(is_opaque, arrays)):
            # Identity nodes of inlined graphs have no message, and need none.
            return node.message is not None and (operator is None or operator.host is None)
        return can_fold(node, arrays)

    def call_once(
        self, node: Node, operator: Operator, operands: Sequence[Value]
    ) -> tuple[object, ...]:
        """Call the operator's function, once for all programs if the operands are weights."""
        rows = operator.operands
        if len(operands) > len(rows) and not (rows and rows[-1].is_variadic):
            raise Call(node, self).refuse(
                f"expected at most {len(rows)} operands, got {len(operands)}"
            )
        weights = self.weights
        if (
            weights is None
            or operator.is_random
            or node.subgraphs()
            or any(isinstance(value, list | Sizes) for value in operands)
        ):
            return self.call(node, operator, operands)
        operands = [
            self.get_tensor(node, name, value)
            if is_large(value) and row.form == "Tensor"
            else value
            for name, value, row in zip(
                node.inputs, operands, operator.iter_operands(), strict=False
            )
        ]
        if not any(isinstance(value, Tensor) for value in operands) or not weights.are_weights(
            operands
        ):
            return self.call(node, operator, operands)
        # Small host arrays are part of the key by value; tensors are part of it by identity.
        constants = tuple(
            (value.shape, value.dtype.str, value.tobytes())
            if isinstance(value, np.ndarray)
            else value is None
            for value in operands
        )
        # Everything that the function can read, since equal keys share results between programs.
        key = node.qualified, node.version, repr(node.attributes), len(node.outputs), constants
        return weights.get_or_compute(key, operands, lambda: self.call(node, operator, operands))

    def call(self, node: Node, operator: Operator, operands: Sequence[Value]) -> tuple[object, ...]:
        """Results of the operator's function."""
        # An attribute that is ignored silently may change the result.
        unknown = node.attributes.keys() - operator.attributes.keys()
        call = Call(node, self)
        if unknown:
            raise call.refuse(f"unknown attribute {', '.join(map(repr, sorted(unknown)))}")
        _check_kinds(call, operands)
        function = operator.function
        # Only `host` computes this operator: strings, or results with data-dependent shapes.
        if function is None:
            if not self.can_read:
                raise RunOnHostError
            function = operator.host
        assert function is not None
        arguments = [*([call] if operator.takes_node else []), *self.bind(node, operator, operands)]
        try:
            attributes = operator.bind_attributes(node.attributes)
            try:
                results = function(*arguments, **attributes)
            except RunOnHostError:
                if not self.can_read or operator.host is None:
                    raise
                results = operator.host(*arguments, **attributes)
        except (ValueNeededError, RunOnHostError, NodeError):
            raise
        # Errors of malformed operands surface in many types; all of them name the node.
        except (
            UserError,
            TypeError,
            ValueError,
            IndexError,
            KeyError,
            ArithmeticError,
            NotImplementedError,
            MemoryError,
        ) as error:
            raise NodeError(
                node=node.title,
                operator=node.qualified,
                problem=str(error) or type(error).__name__,
                inputs=[
                    f"{name}: {_describe(value)}"
                    for name, value in zip(node.inputs, operands, strict=True)
                    if name
                ],
            ) from error
        return cast("tuple[object, ...]", results) if isinstance(results, tuple) else (results,)

    def bind(
        self, node: Node, operator: Operator, operands: Sequence[Value]
    ) -> list[Value | list[int]]:
        """Operands of a node, converted as the parameters of its operator declare."""
        bound: list[Value | list[int]] = []
        rows = list(operator.operands)
        if rows and rows[-1].is_variadic:
            rows += rows[-1:] * (len(operands) - len(rows))
        for index, row in enumerate(rows):
            value = operands[index] if index < len(operands) else None
            if value is None:
                if not row.is_optional or (row.is_variadic and row.form == "Tensor"):
                    raise Call(node, self).refuse(f"missing operand {row.name!r}")
                # Operands that are omitted at the end keep the defaults of the function.
                if index < len(operands):
                    bound.append(None)
                continue
            name = node.inputs[index]
            match row.form:
                case "Tensor":
                    bound.append(self.get_tensor(node, name, value))
                case "Known" | "Ints":
                    if isinstance(value, list | dict):
                        raise Call(node, self).refuse(f"operand {name!r} must be a tensor")
                    # Symbolic sizes have no value yet; reading their tensor defers the node.
                    if isinstance(value, Sizes) and row.form == "Known":
                        value = value.to_tensor()
                    if isinstance(value, Tensor):
                        value = self.read(node, name, value)
                    bound.append(
                        self._list_integers(node, name, value) if row.form == "Ints" else value
                    )
                case "list[Tensor]":
                    if not isinstance(value, list):
                        raise Call(node, self).refuse(f"operand {name!r} must be a sequence")
                    bound.append(
                        [self.get_tensor(node, name, item) for item in cast("list[Value]", value)]
                    )
                case _:
                    bound.append(value)
        return bound

    def _list_integers(self, node: Node, name: str, value: Value) -> list[int]:
        try:
            if isinstance(value, Sizes):
                return list(value.array.flat)
            return [int(n) for n in np.ravel(cast("Any", value))]
        except (TypeError, ValueError, OverflowError) as error:
            raise Call(node, self).refuse(
                f"operand {name!r} must contain integers: {error}"
            ) from error

    def read(self, node: Node, name: str, value: Tensor) -> np.ndarray:
        """Read a tensor; its value is known from then on."""
        if not self.can_read:
            raise ValueNeededError(node=node.title, operator=node.qualified, value=name)
        array = value.numpy()
        self.values[name] = array
        return array

    def list_sources(self, name: str) -> list[Tensor]:
        """Tensors that a value depends on and that no node has computed, without weights."""
        values = map(self.values.get, list_sources(name, self._producers))
        return [
            value
            for value in values
            if isinstance(value, Tensor)
            and not (self.weights is not None and self.weights.are_weights([value]))
        ]

    def set_element_type(self, name: str, element_type: int) -> None:
        """Record the element type of a value."""
        self._element_types[name] = element_type

    def list_narrow_types(self) -> dict[str, int]:
        """Recorded element types without an svod dtype, by name of the value."""
        return {name: kind for name, kind in self._element_types.items() if kind in HOST_TYPES}

    def get_element_type(self, name: str) -> int:
        """Element type of a tensor: the recorded type, or the type of its dtype."""
        value = self.values[name]
        if isinstance(value, np.ndarray | Sizes):
            return get_element_type(value.dtype)
        if isinstance(value, dict):
            return self._element_types[name]
        assert isinstance(value, Tensor)
        return self._element_types.get(name) or get_element_type(np.dtype(str(value.dtype)))

    def get_tensor(self, node: Node, name: str, value: Value) -> Tensor:
        """Convert a value to a tensor. An array is converted once."""
        if isinstance(value, Tensor):
            return value
        if isinstance(value, Sizes):
            return value.to_tensor()
        if not isinstance(value, np.ndarray) or is_opaque(value):
            raise Call(node, self).refuse(f"operand {name!r} must be a numeric tensor")

        def make() -> Tensor:
            return to_tensor(value, self.device, is_constant=True)

        # An element of a sequence has no name to cache it by.
        if self.values.get(name) is not value:
            return make()
        tensor = self._tensors.get(name)
        if tensor is None:
            tensor = self._tensors[name] = (
                make() if self.weights is None else self.weights.get_tensor(value, make)
            )
        return tensor

    def expand(self, node: Node, inline: Inline) -> list[Node]:
        """Nodes that replace `node`, with unique names.

        Their initial values are added to the trace.
        """
        n_results = len(inline.graph.outputs)
        if any(node.outputs[n_results:]):
            raise Call(node, self).refuse_names(n_results)
        # A counter, since nodes without a name share a title.
        self._n_inlined += 1
        nodes, values = inline.expand(node, f"{node.title}#{self._n_inlined}/")
        self.values |= values
        return nodes


def _has_strings(node: Node, operands: Sequence[Value], operator: Operator | None) -> bool:
    """Whether strings and tensors are operands of a node whose operator has no function for
    strings.
    """
    return (
        operator is not None
        and operator.host is None
        and node.message is not None
        and not node.subgraphs()
        and any(map(is_opaque, operands))
        and all(value is None or isinstance(value, np.ndarray | Tensor) for value in operands)
    )


def _describe(value: Value) -> str:
    if isinstance(value, Tensor | np.ndarray | Sizes):
        return f"{value.dtype}{tuple(value.shape)}"
    if value is None:
        return "None"
    return f"{'map' if isinstance(value, dict) else 'sequence'} of {len(value)}"
