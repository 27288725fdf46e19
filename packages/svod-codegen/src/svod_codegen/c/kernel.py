"""Writer of the body of one kernel in a C-like language."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from svod_codegen._locations import location_of, memory_of
from svod_codegen._names import get_name
from svod_codegen.errors import RenderError
from svod_dtype import DType
from svod_ir import Op, UOp
from svod_ir.ops import ELEMENTWISE

if TYPE_CHECKING:
    from svod_codegen.c.language import CLanguage

__all__ = ["KernelWriter"]


class KernelWriter:
    """Collector of the statements of a kernel. `names` maps each node that has a value to its text.

    `language` formats types, vectors and operations; `types` has the vector types in use."""

    def __init__(self, language: CLanguage) -> None:
        self.language = language
        self.lines: list[str] = []
        self.names: dict[UOp, str] = {}
        # A dict: types are declared in the order of their first use, in every process.
        self.types: dict[DType, None] = {}
        self.depth = 1
        self.n_values = 0
        self.handlers: dict[Op, Callable[[UOp], None]] = {
            **dict.fromkeys((Op.PARAM, Op.DEFINE_VAR, Op.SINK, Op.GROUP, Op.NOOP), self._nothing),
            Op.AFTER: self._alias,
            Op.CONST: self._constant,
            Op.VCONST: self._constant,
            Op.DEFINE_REG: self._declare_memory,
            Op.DEFINE_LOCAL: self._declare_memory,
            Op.SPECIAL: self._special,
            Op.BARRIER: self._barrier,
            Op.INDEX: self._index,
            Op.LOAD: self._load,
            Op.STORE: self._store,
            Op.RANGE: self._start_loop,
            Op.END: self._end_loop,
            Op.LEAVE: self._leave_loop,
            Op.VECTORIZE: self._make_lanes,
            Op.BROADCAST: self._make_lanes,
            Op.CAT: self._make_lanes,
            Op.GEP: self._pick_lanes,
            Op.REDUCE: self._reduce,
            Op.WMMA: self._matrix,
            Op.CUSTOM: self._custom,
        }

    def write(self, node: UOp) -> None:
        """Append the statements of one node.

        Raises:
            RenderError: if it has no rendering.
        """
        if node.op in ELEMENTWISE:
            self._assign(node, self._elementwise(node))
            return
        handler = self.handlers.get(node.op)
        if handler is None:
            raise RenderError(problem="has no rendering in C", node=node)
        handler(node)

    def add(self, line: str) -> None:
        """Append a statement."""
        self.lines.append("  " * self.depth + line)

    def value(self, node: UOp) -> str:
        """Return the text of a node's value.

        Raises:
            RenderError: if the linear list uses the node before its definition.
        """
        return get_name(self.names, node)

    def lanes_of(self, node: UOp) -> list[str]:
        """Return the text of each lane of a value; lanes of a constant are constants."""
        if node.op is Op.VCONST:
            return [self.language.constant(node.dtype.scalar, v) for v in node.arg]
        name = self.value(node)
        if node.dtype.lanes == 1:
            return [name]
        return [self.language.lane(node.dtype, name, i) for i in range(node.dtype.lanes)]

    def _assign(self, node: UOp, expression: str) -> None:
        self.n_values += 1
        name = f"v{self.n_values}"
        if node.dtype.lanes > 1:
            self.types[node.dtype] = None
        self.add(f"const {self.language.value_type(node.dtype)} {name} = {expression};")
        self.names[node] = name

    def _elementwise(self, node: UOp) -> str:
        # Its values are stored as integers, whose sum would be a sum of bits.
        if node.op not in (Op.WHERE, Op.BITCAST) and any(
            self.language.is_stored(n.dtype) for n in (node, *node.src)
        ):
            raise RenderError(
                problem="computes in a float type that only lowering may compute in", node=node
            )
        if node.dtype.lanes == 1:
            if node.source.dtype.lanes > 1:
                raise RenderError(problem="reinterprets a vector as a scalar", node=node)
            return self.language.scalar_operation(node, [self.value(s) for s in node.src])
        if node.op is Op.BITCAST and node.source.dtype.lanes != node.dtype.lanes:
            raise RenderError(problem="regroups the lanes of a vector", node=node)
        # Languages without vector operations, and ops that have none, are written lane by lane.
        vector = self._vector_expression(node)
        if vector is not None:
            return vector
        operands = [self.lanes_of(s) for s in node.src]
        lanes = [
            self.language.scalar_operation(node, [o[i] if len(o) > 1 else o[0] for o in operands])
            for i in range(node.dtype.lanes)
        ]
        return self.language.make_vector(node.dtype, lanes)

    def _vector_expression(self, node: UOp) -> str | None:
        # By the operands of the comparison first: its value is a vector of bools, which has to be
        # widened.
        chosen = self.language.vector_selection(node, self.value) if node.op is Op.WHERE else None
        return chosen or self.language.vector_operation(node, [self.value(s) for s in node.src])

    def _nothing(self, _node: UOp) -> None:
        """Skip effects and structure without a statement."""

    def _alias(self, node: UOp) -> None:
        # An AFTER of an effect has no value.
        if node.source in self.names:
            self.names[node] = self.names[node.source]

    def _constant(self, node: UOp) -> None:
        if node.op is Op.CONST:
            self.names[node] = self.language.constant(node.dtype, node.arg)
        else:
            self._assign(
                node,
                self.language.make_vector(
                    node.dtype, [self.language.constant(node.dtype.scalar, v) for v in node.arg]
                ),
            )

    def _declare_memory(self, node: UOp) -> None:
        slot, size = node.arg
        kind, declare = (
            ("local", self.language.declare_local)
            if node.op is Op.DEFINE_LOCAL
            else ("reg", self.language.declare_register)
        )
        if node.dtype.lanes > 1:
            self.types[node.dtype] = None
        # Declared at the top of the function, even if the node is inside a loop.
        self.names[node] = f"{kind}{slot}"
        self.lines.insert(0, "  " + declare(f"{kind}{slot}", node.dtype, size))

    def _special(self, node: UOp) -> None:
        self._assign(node, self.language.grid_index(node))

    def _barrier(self, _node: UOp) -> None:
        if self.language.barrier():
            self.add(self.language.barrier())

    def _index(self, node: UOp) -> None:
        if len(node.src) - (node.gate is not None) != 2:
            raise RenderError(problem="needs exactly one index", node=node)
        self.names[node] = f"{self.value(node.memory)}[{self.value(node.position)}]"

    def _elements(self, location: UOp) -> list[str]:
        """Format each element of a location as an lvalue."""
        memory, position = self.value(location.memory), location.position
        if position.dtype.lanes > 1:
            return [f"{memory}[{lane}]" for lane in self.lanes_of(position)]
        # Memory of vectors is indexed by vectors; any other vector is a run of elements.
        if location.dtype.lanes == 1 or memory_of(location).dtype is location.dtype:
            return [self.value(location)]
        return [f"{memory}[{self.value(position)} + {i}]" for i in range(location.dtype.lanes)]

    def _load(self, node: UOp) -> None:
        location = location_of(node)
        gate = location.gate
        if (gate is None) != (len(node.src) == 1):
            raise RenderError(
                problem="needs an alternative exactly where its location has a gate", node=node
            )
        elements = self._elements(location)
        if gate is not None:
            # A conditional, not a selection afterwards: where the gate is false, the element may
            # not exist.
            gates, alternatives = self.lanes_of(gate), self.lanes_of(node.alternative)
            elements = [
                f"{gates[i % len(gates)]} ? {e} : {alternatives[i]}" for i, e in enumerate(elements)
            ]
        if len(elements) == 1:
            self._assign(node, elements[0])
            return
        vector = None
        if gate is None and location.position.dtype.lanes == 1:
            vector = self.language.load_vector(node.dtype, f"&{elements[0]}")
        self._assign(
            node, vector if vector is not None else self.language.make_vector(node.dtype, elements)
        )

    def _store(self, node: UOp) -> None:
        location, value = location_of(node), node.value
        if (
            value.dtype.lanes != location.dtype.lanes
            or value.dtype.itemsize != location.dtype.itemsize
        ):
            raise RenderError(
                problem=f"writes {value.dtype} to a location of {location.dtype}", node=node
            )
        gate = location.gate
        elements = self._elements(location)
        if gate is None and len(elements) > 1 and location.position.dtype.lanes == 1:
            statement = self.language.store_vector(
                value.dtype, f"&{elements[0]}", self.value(value)
            )
            if statement is not None:
                self.add(statement)
                return
        # With a gate, or indices in a vector, each element is stored by itself.
        values = self.lanes_of(value) if len(elements) > 1 else [self.value(value)]
        gates = [] if gate is None else self.lanes_of(gate)
        for i, (element, lane) in enumerate(zip(elements, values, strict=True)):
            condition = f"if ({gates[i % len(gates)]}) " if gates else ""
            self.add(f"{condition}{element} = {lane};")

    def _start_loop(self, node: UOp) -> None:
        self.n_values += 1
        name = f"i{self.n_values}"
        self.add(
            f"for ({self.language.type_name(node.dtype)} {name} = 0; {name} <"
            f" {self.value(node.stop)}; {name}++) {{"
        )
        self.names[node] = name
        self.depth += 1

    def _leave_loop(self, node: UOp) -> None:
        self.add(f"if ({self.value(node.condition)}) break;")

    def _end_loop(self, node: UOp) -> None:
        if len(node.src) != 2:
            raise RenderError(
                problem=(
                    f"closes {len(node.src) - 1} ranges, but one END closes one after linearize"
                ),
                node=node,
            )
        self.depth -= 1
        self.add("}")

    def _make_lanes(self, node: UOp) -> None:
        lanes = [lane for s in node.src for lane in self.lanes_of(s)]
        if node.op is Op.BROADCAST:
            lanes *= node.dtype.lanes
        self._assign(node, self.language.make_vector(node.dtype, lanes))

    def _pick_lanes(self, node: UOp) -> None:
        lanes = self.lanes_of(node.source)
        positions: tuple[int, ...] = node.arg
        picked = [lanes[p] for p in positions]
        self._assign(
            node, picked[0] if len(picked) == 1 else self.language.make_vector(node.dtype, picked)
        )

    def _reduce(self, node: UOp) -> None:
        """Reduce pairwise: combine the first half of the lanes with the second, until one remains."""
        x = node.source
        if len(node.src) > 1 or node.dtype.lanes > 1:
            raise RenderError(problem="is only rendered over all lanes of one vector", node=node)
        scalar = x.dtype.scalar
        lanes = self._fold_halves(node, x)
        step = _make_step(node.arg, scalar)
        # Pairwise, so that half of the operations do not depend on each other.
        while len(lanes) > 1:
            half = (len(lanes) + 1) // 2
            joined: list[str] = []
            for left, right in zip(lanes[: len(lanes) - half], lanes[half:], strict=True):
                self.n_values += 1
                total = self.language.scalar_operation(step, [left, right])
                self.add(f"const {self.language.type_name(scalar)} v{self.n_values} = {total};")
                joined.append(f"v{self.n_values}")
            lanes = joined + lanes[len(joined) : half]
        self.names[node] = lanes[0]

    def _fold_halves(self, node: UOp, x: UOp) -> list[str]:
        """Combine the halves of `x` as vectors as far as possible; return the remaining lanes."""
        dtype, vector = x.dtype, self.value(x)
        while (halves := self.language.halves(dtype, vector)) is not None:
            half, *texts = halves
            names = [self._name_vector(half, text) for text in texts]
            joined = self.language.vector_operation(_make_step(node.arg, half), names)
            if joined is None:
                break
            dtype, vector = half, self._name_vector(half, joined)
        return (
            [self.language.lane(dtype, vector, i) for i in range(dtype.lanes)]
            if dtype.lanes > 1
            else [vector]
        )

    def _name_vector(self, dtype: DType, expression: str) -> str:
        self.n_values += 1
        self.types[dtype] = None
        self.add(f"const {self.language.value_type(dtype)} v{self.n_values} = {expression};")
        return f"v{self.n_values}"

    def _matrix(self, node: UOp) -> None:
        self._assign(node, self.language.matrix_operation(node, [self.value(s) for s in node.src]))

    def _custom(self, node: UOp) -> None:
        operands = [self.value(s) for s in node.src]
        try:
            text = node.arg.format(*operands)
        except (IndexError, ValueError, KeyError) as error:
            raise RenderError(
                problem=f"has a template that does not fit its {len(operands)} operands ({error})",
                node=node,
            ) from None
        if node.dtype.kind == "void":
            self.add(f"{text};")
        else:
            self._assign(node, text)


def _make_step(op: Op, dtype: DType) -> UOp:
    """Make the node of one step of a reduction, on two operands of unknown value."""
    # With the bounds of the dtype, so that an integer sum is written to wrap.
    operand = UOp(Op.DEFINE_VAR, dtype.scalar, (), ("lane", dtype.scalar.min, dtype.scalar.max))
    value = operand if dtype.lanes == 1 else UOp(Op.BROADCAST, dtype, (operand,))
    return UOp(op, dtype, (value, value))
