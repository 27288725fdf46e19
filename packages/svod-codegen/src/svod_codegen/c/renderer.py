"""`CRenderer`: the linear form of a kernel as C99 text, and the base class for C-like languages.

A plugin overrides what its language does differently: the names of types (`type_name`), vectors
(`vector_type`, `make_vector`, `lane`), the function's head (`open_function`), qualifiers of memory
(`declare_local`, `pointer_type`), workgroups (`grid_index`, `barrier`) and single ops
(`scalar_operation`). Everything else follows from these. Values are written one to a statement.

Values of vector type are structs of lanes here, so that plain C99 compilers take them;
`GnuCRenderer` uses the vector types of gcc and clang.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from svod_dtype import DType, bool_, float16, float32, float64
from svod_ir.ops import ELEMENTWISE, Op
from svod_ir.target import Target
from svod_ir.uop import UOp

from svod_codegen.c.expressions import constant_expression, scalar_expression
from svod_codegen.errors import RenderError
from svod_codegen.float_bits import storage_bits

__all__ = ["Buffer", "CRenderer", "Variable"]


class Buffer(NamedTuple):
    """A kernel's buffer: its name in the text, the PARAM, and whether the kernel writes it."""

    name: str
    node: UOp
    is_written: bool


class Variable(NamedTuple):
    """A kernel's variable: its name in the text and its DEFINE_VAR."""

    name: str
    node: UOp


@dataclass(slots=True)
class _Body:
    """The text of a function while it is written."""

    lines: list[str] = field(default_factory=list[str])
    names: dict[UOp, str] = field(default_factory=dict[UOp, str])
    types: dict[DType, None] = field(default_factory=dict[DType, None])
    depth: int = 1
    n_values: int = 0

    def add(self, line: str) -> None:
        self.lines.append("  " * self.depth + line)


class CRenderer:
    """Renders linear programs as C99 with the calling convention of CPU kernels."""

    def __init__(self, target: Target | None = None) -> None:
        self.target = target or Target.generic()

    # -- what a language may do differently --------------------------------------------------------------

    def type_name(self, dtype: DType) -> str:
        """The scalar type; floats that the target only stores are unsigned integers of their size."""
        scalar = dtype.scalar
        if scalar is float32:
            return "float"
        if scalar is float64:
            return "double"
        if scalar is bool_:
            return "bool"
        if scalar is float16 and float16 in self.target.native_dtypes:
            return "_Float16"
        if scalar.is_float:
            return "uint8_t" if scalar.itemsize == 1 else "uint16_t"
        return f"{'u' if scalar.is_unsigned else ''}int{scalar.bits}_t"

    def vector_type(self, dtype: DType) -> str:
        """The name of a vector type: `f32x8`."""
        return dtype.short

    def declare_vector(self, dtype: DType) -> str:
        """The declaration of a vector type that the kernel uses, or nothing."""
        return f"typedef struct {{ {self.type_name(dtype)} lane[{dtype.lanes}]; }} {self.vector_type(dtype)};"

    def make_vector(self, dtype: DType, lanes: Sequence[str]) -> str:
        """A vector of these lanes."""
        return f"({self.vector_type(dtype)}){{ {{ {', '.join(lanes)} }} }}"

    def lane(self, dtype: DType, vector: str, position: int) -> str:
        """One lane of a vector that has a name."""
        del dtype
        return f"{vector}.lane[{position}]"

    def load_vector(self, dtype: DType, address: str) -> str | None:
        """Consecutive elements from an address with the alignment of one; None to read them one by one."""
        del dtype, address
        return None

    def store_vector(self, dtype: DType, address: str, value: str) -> str | None:
        """The statement that writes consecutive elements; None to write them one by one."""
        del dtype, address, value
        return None

    def vector_operation(self, node: UOp, operands: Sequence[str]) -> str | None:
        """An elementwise op on whole vectors, or None to take it apart into lanes."""
        del node, operands
        return None

    def scalar_operation(self, node: UOp, operands: Sequence[str]) -> str:
        """An elementwise op on scalars, or on one lane."""
        return scalar_expression(node, list(operands), self.type_name)

    def constant(self, dtype: DType, value: bool | int | float) -> str:
        """A scalar constant."""
        if dtype.is_float and self._is_stored(dtype):
            return str(storage_bits(float(value), dtype))
        return constant_expression(dtype, value)

    def pointer_type(self, dtype: DType) -> str:
        """A pointer to elements of a buffer."""
        return f"{self.type_name(dtype)} *restrict"

    def open_file(self) -> list[str]:
        """The lines before all declarations."""
        return ["#include <math.h>", "#include <stdbool.h>", "#include <stdint.h>", ""]

    def open_function(self, name: str, buffers: Sequence[Buffer], variables: Sequence[Variable]) -> list[str]:
        """The function's head, its opening brace, and what gives buffers and variables their names."""
        lines = [f"void {name}(void *const *buffers, const int64_t *values, int64_t core_id) {{"]
        for position, buffer in enumerate(buffers):
            lines.append(f"  {self.pointer_type(buffer.node.dtype)} {buffer.name} = buffers[{position}];")
        position = 0
        for variable in variables:
            type_name = self.type_name(variable.node.dtype)
            if variable.node.arg[0] == "core_id":
                lines.append(f"  const {type_name} {variable.name} = ({type_name})core_id;")
            else:
                lines.append(f"  const {type_name} {variable.name} = ({type_name})values[{position}];")
                position += 1
        return [*lines, *(f"  (void){unused};" for unused in ("buffers", "values", "core_id"))]

    def declare_local(self, name: str, dtype: DType, size: int) -> str:
        """Memory that a workgroup shares; on a CPU, that one call has for itself."""
        return f"{self.value_type(dtype)} {name}[{size}];"

    def declare_register(self, name: str, dtype: DType, size: int) -> str:
        """Memory of one thread."""
        return f"{self.value_type(dtype)} {name}[{size}];"

    def grid_index(self, node: UOp) -> str:
        """The position in the grid that a SPECIAL names.

        Raises:
            RenderError: here always: a CPU has no grid.
        """
        raise RenderError(problem="is a grid index, which this target does not have", node=node)

    def barrier(self) -> str:
        """The statement at which the threads of a workgroup meet."""
        return ""

    def matrix_operation(self, node: UOp, operands: Sequence[str]) -> str:
        """The expression of a WMMA.

        Raises:
            RenderError: here always.
        """
        del operands
        raise RenderError(problem="is a matrix operation, which this target does not have", node=node)

    # -- the renderer ------------------------------------------------------------------------------------

    def render(self, linear: Sequence[UOp], name: str) -> str:
        """The C text of one kernel.

        Raises:
            RenderError: if a node has no rendering.
        """
        body = _Body()
        written = {_memory(n.src[0]) for n in linear if n.op is Op.STORE}
        params = sorted({n for n in linear if n.op is Op.PARAM}, key=lambda n: n.arg.slot)
        buffers = [Buffer(f"data{n.arg.slot}", n, n in written) for n in params]
        named = dict.fromkeys(n for n in linear if n.op is Op.DEFINE_VAR)
        variables = [Variable("part" if n.arg[0] == "core_id" else f"var_{n.arg[0]}", n) for n in named]
        body.names.update((item.node, item.name) for item in (*buffers, *variables))
        for node in linear:
            self._write(body, node)
        types = [line for line in map(self.declare_vector, body.types) if line]
        head = self.open_function(name, buffers, variables)
        return "\n".join([*self.open_file(), *types, *head, *body.lines, "}", ""])

    def value_type(self, dtype: DType) -> str:
        """The type of a value, scalar or vector."""
        return self.vector_type(dtype) if dtype.lanes > 1 else self.type_name(dtype)

    def lanes_of(self, body: _Body, node: UOp) -> list[str]:
        """The text of each lane of a value; a constant's lanes are constants."""
        if node.op is Op.VCONST:
            return [self.constant(node.dtype.scalar, v) for v in node.arg]
        name = _value(body, node)
        if node.dtype.lanes == 1:
            return [name]
        return [self.lane(node.dtype, name, i) for i in range(node.dtype.lanes)]

    def _is_stored(self, dtype: DType) -> bool:
        """Whether the target has no arithmetic on this float type, so that it exists only as bits."""
        return dtype.is_float and dtype.scalar not in (float32, float64) and self.type_name(dtype).startswith("uint")

    def _write(self, body: _Body, node: UOp) -> None:
        if node.op in ELEMENTWISE:
            self._assign(body, node, self._elementwise(body, node))
            return
        handler = _HANDLERS.get(node.op)
        if handler is None:
            raise RenderError(problem="has no rendering in C", node=node)
        handler(self, body, node)

    def _assign(self, body: _Body, node: UOp, expression: str) -> None:
        body.n_values += 1
        name = f"v{body.n_values}"
        if node.dtype.lanes > 1:
            body.types[node.dtype] = None
        body.add(f"const {self.value_type(node.dtype)} {name} = {expression};")
        body.names[node] = name

    def _elementwise(self, body: _Body, node: UOp) -> str:
        if node.op not in (Op.WHERE, Op.BITCAST) and any(self._is_stored(n.dtype) for n in (node, *node.src)):
            raise RenderError(problem="computes in a float type that only lowering may compute in", node=node)
        if node.dtype.lanes == 1:
            if node.src[0].dtype.lanes > 1:
                raise RenderError(problem="reinterprets a vector as a scalar", node=node)
            return self.scalar_operation(node, [_value(body, s) for s in node.src])
        if node.op is Op.BITCAST and node.src[0].dtype.lanes != node.dtype.lanes:
            raise RenderError(problem="regroups the lanes of a vector", node=node)
        whole = self.vector_operation(node, [_value(body, s) for s in node.src])
        if whole is not None:
            return whole
        operands = [self.lanes_of(body, s) for s in node.src]
        lanes = [
            self.scalar_operation(node, [o[i] if len(o) > 1 else o[0] for o in operands]) for i in range(node.dtype.lanes)
        ]
        return self.make_vector(node.dtype, lanes)

    # -- one method for each op that is not elementwise --------------------------------------------------

    def _nothing(self, body: _Body, node: UOp) -> None:
        """Effects and structure that take no statement."""

    def _alias(self, body: _Body, node: UOp) -> None:
        if node.src[0] in body.names:
            body.names[node] = body.names[node.src[0]]

    def _constant(self, body: _Body, node: UOp) -> None:
        if node.op is Op.CONST:
            body.names[node] = self.constant(node.dtype, node.arg)
        else:
            self._assign(body, node, self.make_vector(node.dtype, [self.constant(node.dtype.scalar, v) for v in node.arg]))

    def _declare_memory(self, body: _Body, node: UOp) -> None:
        number, size = node.arg
        kind, declare = ("local", self.declare_local) if node.op is Op.DEFINE_LOCAL else ("reg", self.declare_register)
        if node.dtype.lanes > 1:
            body.types[node.dtype] = None
        # Declared at the top of the function, whatever loop the node stands in.
        body.names[node] = f"{kind}{number}"
        body.lines.insert(0, "  " + declare(f"{kind}{number}", node.dtype, size))

    def _special(self, body: _Body, node: UOp) -> None:
        self._assign(body, node, self.grid_index(node))

    def _barrier(self, body: _Body, node: UOp) -> None:
        del node
        if self.barrier():
            body.add(self.barrier())

    def _index(self, body: _Body, node: UOp) -> None:
        if len(node.src) - (node.gate is not None) != 2:
            raise RenderError(problem="needs exactly one index", node=node)
        body.names[node] = f"{_value(body, node.src[0])}[{_value(body, node.src[1])}]"

    def _elements(self, body: _Body, location: UOp) -> list[str]:
        """Each element of a location as an lvalue."""
        memory, position = _value(body, location.src[0]), location.src[1]
        if position.dtype.lanes > 1:
            return [f"{memory}[{lane}]" for lane in self.lanes_of(body, position)]
        if location.dtype.lanes == 1 or _memory(location).dtype is location.dtype:
            return [_value(body, location)]
        return [f"{memory}[{_value(body, position)} + {i}]" for i in range(location.dtype.lanes)]

    def _load(self, body: _Body, node: UOp) -> None:
        location = _location(node)
        gate = location.gate
        if (gate is None) != (len(node.src) == 1):
            raise RenderError(problem="needs an alternative exactly where its location has a gate", node=node)
        elements = self._elements(body, location)
        if gate is not None:
            gates, others = self.lanes_of(body, gate), self.lanes_of(body, node.src[1])
            elements = [f"{gates[i % len(gates)]} ? {e} : {others[i]}" for i, e in enumerate(elements)]
        if len(elements) == 1:
            self._assign(body, node, elements[0])
            return
        whole = None
        if gate is None and location.src[1].dtype.lanes == 1:
            whole = self.load_vector(node.dtype, f"&{elements[0]}")
        self._assign(body, node, whole if whole is not None else self.make_vector(node.dtype, elements))

    def _store(self, body: _Body, node: UOp) -> None:
        location, value = _location(node), node.src[1]
        if value.dtype.lanes != location.dtype.lanes or value.dtype.itemsize != location.dtype.itemsize:
            raise RenderError(problem=f"writes {value.dtype} to a location of {location.dtype}", node=node)
        gate = location.gate
        elements = self._elements(body, location)
        if gate is None and len(elements) > 1 and location.src[1].dtype.lanes == 1:
            whole = self.store_vector(value.dtype, f"&{elements[0]}", _value(body, value))
            if whole is not None:
                body.add(whole)
                return
        values = self.lanes_of(body, value) if len(elements) > 1 else [_value(body, value)]
        gates = [] if gate is None else self.lanes_of(body, gate)
        for i, (element, lane) in enumerate(zip(elements, values, strict=True)):
            condition = f"if ({gates[i % len(gates)]}) " if gates else ""
            body.add(f"{condition}{element} = {lane};")

    def _start_loop(self, body: _Body, node: UOp) -> None:
        body.n_values += 1
        name = f"i{body.n_values}"
        body.add(f"for ({self.type_name(node.dtype)} {name} = 0; {name} < {_value(body, node.src[0])}; {name}++) {{")
        body.names[node] = name
        body.depth += 1

    def _end_loop(self, body: _Body, node: UOp) -> None:
        if len(node.src) != 2:
            raise RenderError(problem=f"closes {len(node.src) - 1} ranges, but one END closes one after linearize", node=node)
        body.depth -= 1
        body.add("}")

    def _start_if(self, body: _Body, node: UOp) -> None:
        body.add(f"if ({_value(body, node.src[0])}) {{")
        body.depth += 1

    def _end_if(self, body: _Body, node: UOp) -> None:
        del node
        body.depth -= 1
        body.add("}")

    def _make_lanes(self, body: _Body, node: UOp) -> None:
        lanes = [lane for s in node.src for lane in self.lanes_of(body, s)]
        if node.op is Op.BROADCAST:
            lanes *= node.dtype.lanes
        self._assign(body, node, self.make_vector(node.dtype, lanes))

    def _pick_lanes(self, body: _Body, node: UOp) -> None:
        lanes = self.lanes_of(body, node.src[0])
        positions: tuple[int, ...] = node.arg if isinstance(node.arg, tuple) else (node.arg,)
        picked = [lanes[p] for p in positions]
        self._assign(body, node, picked[0] if len(picked) == 1 else self.make_vector(node.dtype, picked))

    def _reduce(self, body: _Body, node: UOp) -> None:
        """Pairwise: the first half of the lanes with the second, until one is left."""
        x = node.src[0]
        if len(node.src) > 1 or node.dtype.lanes > 1:
            raise RenderError(problem="is only rendered over all lanes of one vector", node=node)
        scalar = x.dtype.scalar
        step = UOp(node.arg, scalar, (UOp(Op.DEFINE_VAR, scalar, (), ("lane", scalar.min, scalar.max)),) * 2)
        lanes = self.lanes_of(body, x)
        while len(lanes) > 1:
            half = (len(lanes) + 1) // 2
            joined: list[str] = []
            for left, right in zip(lanes[: len(lanes) - half], lanes[half:], strict=True):
                body.n_values += 1
                body.add(f"const {self.type_name(scalar)} v{body.n_values} = {self.scalar_operation(step, [left, right])};")
                joined.append(f"v{body.n_values}")
            lanes = joined + lanes[len(joined) : half]
        body.names[node] = lanes[0]

    def _matrix(self, body: _Body, node: UOp) -> None:
        self._assign(body, node, self.matrix_operation(node, [_value(body, s) for s in node.src]))

    def _custom(self, body: _Body, node: UOp) -> None:
        operands = [_value(body, s) for s in node.src]
        try:
            text = node.arg.format(*operands)
        except (IndexError, ValueError, KeyError) as error:
            raise RenderError(problem=f"has a template that does not fit its {len(operands)} operands ({error})", node=node) from None
        if node.dtype.kind == "void":
            body.add(f"{text};")
        else:
            self._assign(body, node, text)


def _value(body: _Body, node: UOp) -> str:
    found = body.names.get(node)
    while found is None and node.op is Op.AFTER:
        node = node.src[0]
        found = body.names.get(node)
    if found is None:
        raise RenderError(problem="is used before it is defined", node=node)
    return found


def _location(node: UOp) -> UOp:
    location = node.src[0]
    while location.op is Op.AFTER:
        location = location.src[0]
    if location.op is not Op.INDEX:
        raise RenderError(problem=f"accesses a {location.op.name}, which is no location", node=node)
    return location


def _memory(node: UOp) -> UOp:
    while node.op in (Op.INDEX, Op.AFTER):
        node = node.src[0]
    return node


_Handler = Callable[[CRenderer, _Body, UOp], None]
_HANDLERS: Final[dict[Op, _Handler]] = {
    **dict.fromkeys((Op.PARAM, Op.DEFINE_VAR, Op.SINK, Op.GROUP, Op.NOOP), CRenderer._nothing),
    Op.AFTER: CRenderer._alias, Op.CONST: CRenderer._constant, Op.VCONST: CRenderer._constant,
    Op.DEFINE_REG: CRenderer._declare_memory, Op.DEFINE_LOCAL: CRenderer._declare_memory, Op.SPECIAL: CRenderer._special,
    Op.BARRIER: CRenderer._barrier, Op.INDEX: CRenderer._index, Op.LOAD: CRenderer._load, Op.STORE: CRenderer._store,
    Op.RANGE: CRenderer._start_loop, Op.END: CRenderer._end_loop, Op.IF: CRenderer._start_if, Op.ENDIF: CRenderer._end_if,
    Op.VECTORIZE: CRenderer._make_lanes, Op.BROADCAST: CRenderer._make_lanes, Op.CAT: CRenderer._make_lanes,
    Op.GEP: CRenderer._pick_lanes, Op.REDUCE: CRenderer._reduce, Op.WMMA: CRenderer._matrix, Op.CUSTOM: CRenderer._custom,
}  # fmt: skip
