"""Table of the ops of the IR.

`Op` (`_op.py`) is the kind of a node. For each op, `TABLE` lists its operands and `arg`, its dtype,
and the stages of the pipeline in which it is allowed. The printer, the parser, the stage
specifications and the documentation read it.

Conventions that hold everywhere:

- Integer `IDIV` and `MOD` round toward negative infinity (`x == (x // y) * y + x % y`, the sign of
  `x % y` is that of `y`); `CDIV` and `CMOD` truncate and exist only after late lowering. A division
  by zero gives 0, its remainder 0; `min // -1` wraps to `min`.
- `FMOD` is the exact remainder of a quotient rounded toward 0, with the sign of the left operand,
  as `fmod` of C.
- `MAX` and `MIN` of floats give NaN where either side is NaN.
- A 0-d operand of an elementwise op is broadcast to every element.
- Complex dtypes exist only in graphs of tensors. Memory stores complex values as pairs of floats,
  the real part first, along a last axis of 2 (AS_COMPLEX and AS_REAL). The first pass replaces each
  complex node by one node for each part.
- An `arg` that lists sizes holds `None` where the size is symbolic; the operands after the first
  fill the `None`s in order (`UOp.sizes` gives the filled tuple).
- Memory objects carry the dtype of their elements. `INDEX(buffer, i..., gate?)` is a location; a
  gate is a last operand of bool. Where a value is expected, a location means the value stored
  there, until the add-loads pass makes the LOAD explicit. A location whose dtype has n lanes and
  whose index is a scalar is n consecutive elements; with an index of n lanes it is a gather or
  scatter.

Example:
    >>> from svod_dtype import float32, int32
    >>> from svod_ir.ops import TABLE, Op, OpRow, count_operands, get_identity, takes
    >>> isinstance(TABLE[Op.ADD], OpRow), count_operands(Op.ADD), get_identity(Op.MAX, float32), takes(Op.SIN, int32)
    (True, 2, -inf, False)
    >>> from svod_ir.ops import ASSOCIATIVE, COMMUTATIVE, FUNCTIONS, IDENTITIES, REDUCTIONS
    >>> REDUCTIONS <= ASSOCIATIVE & COMMUTATIVE, IDENTITIES[TABLE[Op.MIN].identity](int32)
    (True, 2147483647)
    >>> Op.SIN in FUNCTIONS, Op.POW in FUNCTIONS
    (True, True)

    Each op of a graph of tensors is in one of these sets, or has a row of its own:

    >>> from svod_ir.ops import BINARY, COMPARISON, COMPLEX_PARTS, ELEMENTWISE, MARKS, MEMORY, MOVEMENT, TERNARY, UNARY
    >>> def classify(op):
    ...     for name, ops in (("movement", MOVEMENT), ("memory", MEMORY), ("mark", MARKS), ("part", COMPLEX_PARTS)):
    ...         if op in ops:
    ...             return name
    ...     return "elementwise" if op in ELEMENTWISE else op.name
    >>> [classify(op) for op in (Op.RESHAPE, Op.BUFFER, Op.DETACH, Op.REAL, Op.ADD, Op.GATHER)]
    ['movement', 'memory', 'mark', 'part', 'elementwise', 'GATHER']
    >>> sorted(op.name for op in ELEMENTWISE - UNARY - BINARY - TERNARY), COMPARISON <= BINARY
    (['BITCAST', 'CAST'], True)

    The row of an op also lists its stages, its dtypes and the type of its arg:

    >>> from svod_ir.ops import ARG_TYPES, DTYPE_CLASSES, STAGES
    >>> [stage for stage, names in STAGES.items() if set(names.split()) & set(TABLE[Op.MULACC].stages.split())]
    ['lowering', 'lowered', 'program']
    >>> DTYPE_CLASSES[TABLE[Op.SHL].takes](float32), ARG_TYPES[Op.RANGE].__name__
    (False, 'RangeArg')
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from svod_dtype import DType, uint64, void
from svod_ir import args
from svod_ir._op import AxisType, Op
from svod_ir._sharding import MeshLayout

__all__ = [
    "ARG_TYPES",
    "ASSOCIATIVE",
    "BINARY",
    "COMMUTATIVE",
    "COMPARISON",
    "COMPLEX_PARTS",
    "DTYPE_CLASSES",
    "ELEMENTWISE",
    "FUNCTIONS",
    "IDENTITIES",
    "MARKS",
    "MEMORY",
    "MOVEMENT",
    "REDUCTIONS",
    "STAGES",
    "TABLE",
    "TERNARY",
    "UNARY",
    "AxisType",
    "Op",
    "OpRow",
    "count_operands",
    "get_identity",
    "takes",
]


MOVEMENT: Final = frozenset({Op.RESHAPE, Op.PERMUTE, Op.EXPAND, Op.PAD, Op.SHRINK, Op.FLIP})
"""Ops that only change the shape or order of elements."""
MARKS: Final = frozenset({Op.DETACH, Op.TRACED, Op.GRADIENT})
"""Ops that return their first operand, and only control how derivatives are taken."""
MEMORY: Final = frozenset({Op.BUFFER, Op.BUFFER_VIEW, Op.PARAM, Op.DEFINE_LOCAL, Op.DEFINE_REG})
"""Ops that define memory."""
STAGES: Final = {
    "graph": "graph",
    "ranged": "ranged",
    "kernel graph": "graph repeats",
    "kernel": "kernel",
    "lowering": "kernel lowered",
    "lowered": "lowered",
    "program": "kernel lowered program",
}
"""The stages of a graph in order; an op is allowed in a stage if its row lists one of these stages.

graph: tensors. ranged: RANGE and INDEX instead of movement. kernel graph: the CALLs that kernelize
makes, and their repetition. kernel: the body of one CALL, before and during optimisation.
lowering: a kernel during lowering, with ops of both stages. lowered: the input of renderers.
program: CALLs and compile stages."""


class OpRow(NamedTuple):
    """The properties of an op.

    The columns from `takes` on are about elementwise ops and reductions.
    """

    operands: str
    """Names of the operands; `?` marks an optional one, `*` any number."""
    arg: type[tuple[object, ...]] | str
    """Type or description of the node's `arg`.

    An arg with several fields is a NamedTuple; a bare tuple is converted to it.
    """
    dtype: str
    stages: str
    takes: str = "any"
    """Dtypes that the op is defined for, a key of `DTYPE_CLASSES`."""
    is_common: bool = False
    """Whether every processor with ordinary arithmetic has it: the default ops of a target."""
    is_function: bool = False
    """Whether it is a function of real numbers, whose last bits may differ between targets."""
    is_commutative: bool = False
    is_associative: bool = False
    identity: str = ""
    """Identity of a reduction, a key of `IDENTITIES`; empty if the op does not reduce."""
    instructions: int = 1
    """Approximate time of the lowered op, in plain instructions."""
    recompute_cost: int = 1
    """Cost of recomputing an element rather than storing it, in additions; less than its time,
    since it runs beside other instructions.
    """
    infix: str = ""
    """Python operator, as displayed between the operands."""
    is_proved: bool = False
    """Whether the prover models its exact semantics, for integers and bool."""

    @property
    def arg_text(self) -> str:
        """Type of `arg` for display: `RangeArg(id, kind)`."""
        return (
            self.arg
            if isinstance(self.arg, str)
            else f"{self.arg.__name__}({', '.join(self.arg.__annotations__)})"
        )


DTYPE_CLASSES: Final[dict[str, Callable[[DType], bool]]] = {
    "any": lambda dtype: dtype is not void,
    "float": lambda dtype: dtype.is_float,
    "integer": lambda dtype: dtype.is_int,
    "bits": lambda dtype: dtype is not void and not dtype.is_float,
    "uint64": lambda dtype: dtype.scalar is uint64,
}
"""Sets of dtypes; "bits" are integers and bool."""

IDENTITIES: Final[dict[str, Callable[[DType], bool | int | float]]] = {
    "zero": lambda _: 0,
    "one": lambda _: 1,
    "least": lambda dtype: dtype.scalar.min,
    "largest": lambda dtype: dtype.scalar.max,
}
"""Identities of reductions, as functions of the dtype."""

_G, _GR, _ALL, _KL = "graph", "graph ranged", "graph ranged kernel lowered", "kernel lowered"
_UNARY = OpRow("source", "None", "source's", _ALL)
_FUNCTION = _UNARY._replace(takes="float", is_function=True)
_BINARY = OpRow("left right", "None", "its operands'", _ALL)
_JOIN = _BINARY._replace(is_common=True, is_commutative=True, is_associative=True, is_proved=True)
_COMPARE = _BINARY._replace(dtype="bool", is_common=True, is_proved=True)

TABLE: Final[dict[Op, OpRow]] = {
    Op.CONST: OpRow("", "value", "given", _ALL),
    Op.VCONST: OpRow("", "tuple of values, one a lane", "given vector", _KL),
    Op.IOTA: OpRow("", "size, or None for a symbolic one: operand", "given integer", _G),
    Op.DEFINE_VAR: OpRow("", args.VariableArg, "index", _ALL),
    Op.BIND: OpRow("symbol value", "None", "symbol's", _GR),
    Op.SPECIAL: OpRow("stop", "name: gidx0, lidx1, ...", "index", _KL),
    Op.NOOP: OpRow("*", "None", "void", _ALL),
    Op.BUFFER: OpRow("", args.BufferArg, "element", _GR),
    Op.BUFFER_VIEW: OpRow("memory", args.ViewArg, "element", _GR),
    Op.PARAM: OpRow("", args.ParamArg, "element", _ALL),
    Op.DEFINE_LOCAL: OpRow("", args.ScratchArg, "element", _KL),
    Op.DEFINE_REG: OpRow("", args.ScratchArg, "element, may be a vector", _KL),
    Op.INDEX: OpRow(
        "memory position* gate?", "None", "element, or n lanes of it", "ranged kernel lowered"
    ),
    Op.LOAD: OpRow("location alternative?", "None", "location's", _KL),
    Op.STORE: OpRow("location value", "None", "void", "ranged kernel lowered"),
    Op.COPY: OpRow("source", "device", "source's", _GR),
    Op.MSTACK: OpRow("shard*", "None", "first's", _G),
    Op.MSELECT: OpRow("source", "position", "source's", _G),
    Op.RESHAPE: OpRow("source size*", "sizes", "source's", _G),
    Op.PERMUTE: OpRow("source", "axes", "source's", _G),
    Op.EXPAND: OpRow("source size*", "sizes", "source's", _G),
    Op.PAD: OpRow(
        "source size*", "(before0, after0, before1, ...)", "source's", _G, recompute_cost=3
    ),  # is it inside?
    Op.SHRINK: OpRow("source size*", "(begin0, end0, begin1, ...)", "source's", _G),
    Op.FLIP: OpRow("source", "tuple of bool, one an axis", "source's", _G),
    Op.GATHER: OpRow(
        "source position", "axis: its dimension becomes those of positions", "source's", _G
    ),
    Op.SCATTER: OpRow("source position base", args.ScatterArg, "source's", _G),
    Op.MULTI: OpRow(
        "source",
        "axis along which the shards lie, None: each is the whole, or MeshLayout",
        "source's",
        _G,
    ),
    Op.RESHARD: OpRow("source", MeshLayout, "source's", _G),
    Op.NEG: _UNARY._replace(is_common=True, is_proved=True),
    Op.NOT: _UNARY._replace(takes="bits", is_common=True, is_proved=True),
    Op.ABS: _UNARY._replace(is_common=True, is_proved=True),
    Op.SQRT: _UNARY._replace(takes="float", is_common=True, instructions=8, recompute_cost=4),
    Op.RSQRT: _FUNCTION._replace(instructions=12, recompute_cost=4),
    Op.RECIPROCAL: _FUNCTION._replace(instructions=6, recompute_cost=4),
    Op.SIGN: _UNARY._replace(instructions=3, is_proved=True),
    Op.EXP: _FUNCTION._replace(instructions=14, recompute_cost=10),
    Op.EXP2: _FUNCTION._replace(instructions=12, recompute_cost=9),
    Op.LOG: _FUNCTION._replace(instructions=20, recompute_cost=12),
    Op.LOG2: _FUNCTION._replace(instructions=20, recompute_cost=11),
    Op.SIN: _FUNCTION._replace(instructions=24, recompute_cost=16),
    Op.COS: _FUNCTION._replace(instructions=24, recompute_cost=16),
    Op.TAN: _FUNCTION._replace(instructions=36, recompute_cost=20),
    Op.TANH: _FUNCTION._replace(instructions=20, recompute_cost=14),
    Op.EXPM1: _FUNCTION._replace(instructions=22, recompute_cost=15),
    Op.LOG1P: _FUNCTION._replace(instructions=26, recompute_cost=18),
    Op.SINH: _FUNCTION._replace(instructions=24, recompute_cost=16),
    Op.COSH: _FUNCTION._replace(instructions=22, recompute_cost=15),
    Op.ERF: _FUNCTION._replace(instructions=24, recompute_cost=16),
    Op.TRUNC: _UNARY._replace(is_common=True, is_proved=True),
    Op.FLOOR: _UNARY._replace(is_common=True, is_proved=True),
    Op.CEIL: _UNARY._replace(is_common=True, is_proved=True),
    Op.ROUND: _UNARY._replace(is_common=True, is_proved=True),
    Op.CAST: OpRow("source", "None", "given", _ALL, is_common=True),
    Op.BITCAST: OpRow("source", "None", "given, of the same size", _ALL, is_common=True),
    Op.ADD: _JOIN._replace(identity="zero", infix="+"),
    Op.SUB: _BINARY._replace(is_common=True, infix="-", is_proved=True),
    Op.MUL: _JOIN._replace(identity="one", infix="*"),
    Op.IDIV: _BINARY._replace(
        takes="integer", instructions=12, recompute_cost=6, infix="//", is_proved=True
    ),
    Op.MOD: _BINARY._replace(
        takes="integer", instructions=14, recompute_cost=6, infix="%", is_proved=True
    ),
    Op.CDIV: _BINARY._replace(takes="integer", is_common=True, instructions=12, is_proved=True),
    Op.CMOD: _BINARY._replace(takes="integer", is_common=True, instructions=14, is_proved=True),
    Op.FDIV: _BINARY._replace(
        takes="float", is_common=True, instructions=6, recompute_cost=4, infix="/"
    ),
    Op.FMOD: _BINARY._replace(takes="float", instructions=16, recompute_cost=10),
    Op.POW: _BINARY._replace(
        is_function=True, instructions=45, recompute_cost=30, infix="**", is_proved=True
    ),
    Op.MAX: _JOIN._replace(identity="least", instructions=2),
    Op.MIN: _JOIN._replace(identity="largest", instructions=2),
    Op.AND: _JOIN._replace(takes="bits", infix="&"),
    Op.OR: _JOIN._replace(takes="bits", infix="|"),
    Op.XOR: _JOIN._replace(takes="bits", infix="^"),
    Op.SHL: _BINARY._replace(takes="integer", is_common=True, infix="<<", is_proved=True),
    Op.SHR: _BINARY._replace(takes="integer", is_common=True, infix=">>", is_proved=True),
    Op.THREEFRY: _BINARY._replace(
        takes="uint64", instructions=60, recompute_cost=60, is_proved=True
    ),
    Op.LT: _COMPARE._replace(infix="<"),
    Op.LE: _COMPARE._replace(infix="<="),
    Op.EQ: _COMPARE._replace(is_commutative=True, infix="=="),
    Op.NE: _COMPARE._replace(is_commutative=True, infix="!="),
    Op.COMPLEX: OpRow(
        "left right", "None", "complex, of its operands as real and imaginary part", _G
    ),
    Op.REAL: OpRow("source", "None", "source's part", _G),
    Op.IMAG: OpRow("source", "None", "source's part", _G),
    Op.AS_COMPLEX: OpRow("source", "None", "complex, of its operand's last axis of 2", _G),
    Op.AS_REAL: OpRow("source", "None", "source's part, with a last axis of 2", _G),
    Op.WHERE: OpRow(
        "condition if_true if_false", "None", "if_true's (= if_false's)", _ALL, is_common=True
    ),
    Op.MULACC: OpRow("x y z", "None", "x's: x * y + z, rounded once", "lowered", is_proved=True),
    Op.REDUCE_AXIS: OpRow("source", args.ReduceArg, "source's", _G),
    Op.SCAN_AXIS: OpRow("source", args.ScanArg, "source's", _G),
    Op.REDUCE: OpRow(
        "source loops*",
        "op; no range: over the lanes",
        "source's, or its scalar over lanes",
        "ranged kernel lowered",
    ),
    Op.SCAN: OpRow("source loop", "op", "source's", "ranged kernel"),
    Op.ALLREDUCE: OpRow("source", args.AllReduceArg, "source's", _G),
    Op.RANGE: OpRow("stop", args.RangeArg, "index", "ranged kernel lowered repeats"),
    Op.END: OpRow("body loops*", "None", "void", "ranged kernel lowered repeats"),
    Op.BARRIER: OpRow("effect*", "None", "void", _KL),
    Op.AFTER: OpRow("source dependencies*", "None", "source's", _ALL),
    Op.CARRY: OpRow("initial element*", "number", "initial's", "kernel"),
    Op.LEAVE: OpRow("condition loop effect*", "None", "void", _KL),
    Op.ADVANCE: OpRow("current* next*", "None", "void", "kernel"),
    Op.LOOP: OpRow("count operands*", args.LoopArg, "void", _GR),
    Op.SWITCH: OpRow("choice operands*", args.SwitchArg, "void", _GR),
    Op.RESULT: OpRow("source", "position", "of the value at the position", _GR),
    Op.SINK: OpRow("effect*", "None, or KernelInfo", "void", _ALL),
    Op.GROUP: OpRow("effect*", "None", "void", "ranged kernel lowered"),
    Op.CALL: OpRow("body arguments*", "None, or RepeatArg", "void", _GR),
    Op.PROGRAM: OpRow("kernel linear? text? binary?", "device", "void", "program"),
    Op.LINEAR: OpRow("node*", "None", "void", "program"),
    Op.SOURCE: OpRow("", "text", "void", "program"),
    Op.PROGRAM_BINARY: OpRow("", "bytes", "void", "program"),
    Op.CUSTOM: OpRow("operand*", "text with {0}, {1}, ...", "given", _KL),
    Op.CUSTOM_FUNCTION: OpRow("operand*", "kind", "of its memory; void in a CALL", _GR),
    Op.ASSIGN: OpRow("target value", "None", "target's", _G),
    Op.DETACH: OpRow("source", "None", "source's", _G),
    Op.TRACED: OpRow("source", "Mark: a number that no other has", "source's", _G),
    Op.GRADIENT: OpRow("source operand*", args.GradientArg, "source's", _G),
    Op.CONTROL_DEPENDENCY: OpRow("source event*", "None", "source's", _G),
    Op.CHECK: OpRow("source size?", args.CheckArg, "source's", _G),
    Op.CONTIGUOUS: OpRow("source", "None", "source's", _G),
    Op.BUFFERIZE: OpRow("source loops*", args.BufferizeArg, "source's", "ranged kernel"),
    Op.VECTORIZE: OpRow("lane*", "None", "lane's, n lanes", "lowered"),
    Op.BROADCAST: OpRow("source", "None", "given: source's, n lanes", "lowered"),
    Op.GEP: OpRow("source", "lanes", "source's scalar, n lanes", "lowered"),
    Op.CAT: OpRow("vector*", "None", "lanes added up", "lowered"),
    Op.WMMA: OpRow(
        "a b accumulator",
        "TensorCore: its tiles are all lanes of vectors",
        "accumulator's",
        "lowered",
    ),
}
"""The properties of each op."""


def _select(*rows: OpRow) -> frozenset[Op]:
    """The ops that share operands, arg, dtype and stages with one of these rows."""
    forms = {row[:4] for row in rows}
    return frozenset(op for op, row in TABLE.items() if row[:4] in forms)


UNARY: Final = _select(_UNARY)
"""Elementwise ops of one operand, without casts."""
COMPARISON: Final = _select(_COMPARE)
"""Elementwise ops of two operands whose result is a bool."""
BINARY: Final = _select(_BINARY, _COMPARE)
"""Elementwise ops of two operands, with the comparisons."""
TERNARY: Final = frozenset({Op.WHERE, Op.MULACC})
"""Elementwise ops of three operands."""
COMPLEX_PARTS: Final = frozenset({Op.COMPLEX, Op.REAL, Op.IMAG})
"""Elementwise ops between complex numbers and their parts, in graphs of tensors only."""
ELEMENTWISE: Final = UNARY | BINARY | TERNARY | {Op.CAST, Op.BITCAST}
"""Ops whose result has one element for each element of their operands."""
COMMUTATIVE: Final = frozenset(op for op, row in TABLE.items() if row.is_commutative)
"""Ops with `x op y == y op x`."""
ASSOCIATIVE: Final = frozenset(op for op, row in TABLE.items() if row.is_associative)
"""Ops with `(x op y) op z == x op (y op z)`, for floats up to rounding."""
REDUCTIONS: Final = frozenset(op for op, row in TABLE.items() if row.identity)
"""Ops that reduce an axis: those with an identity."""
FUNCTIONS: Final = frozenset(op for op, row in TABLE.items() if row.is_function)
"""Functions of real numbers, whose last bits may differ between targets."""
ARG_TYPES: Final = {op: row.arg for op, row in TABLE.items() if not isinstance(row.arg, str)}
"""The NamedTuple types of args with several fields."""


_COMPLEX: Final = frozenset(
    {
        Op.ADD,
        Op.SUB,
        Op.MUL,
        Op.FDIV,
        Op.NEG,
        Op.RECIPROCAL,
        Op.EQ,
        Op.NE,
        Op.WHERE,
        Op.CAST,
        Op.REAL,
        Op.IMAG,
    }
)
"""Ops on complex numbers; other complex functions are composed from functions of the parts."""


def takes(op: Op, dtype: DType) -> bool:
    """True if an elementwise op is defined for operands of `dtype`."""
    if dtype.is_complex:
        return op in _COMPLEX
    return DTYPE_CLASSES[TABLE[op].takes](dtype)


def count_operands(op: Op) -> int:
    """Number of operands of an elementwise op."""
    return len(TABLE[op].operands.split())


def get_identity(op: Op, dtype: DType) -> bool | int | float:
    """Identity element of a reduction with `op`, in each lane."""
    return IDENTITIES[TABLE[op].identity](dtype)
