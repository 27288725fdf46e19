"""The ops of the IR, on one screen.

`Op` is the kind of a node.  `TABLE` says for each op which operands and which `arg` it takes, what
its dtype is, and in which stages of the pipeline it may stand; the printer, the parser, the stage
specifications and the documentation read it.

Conventions that hold everywhere:

- Integer `IDIV` and `MOD` round toward negative infinity (`x == (x // y) * y + x % y`, the sign of
  `x % y` is that of `y`); `CDIV` and `CMOD` truncate and exist only after late lowering. A division
  by zero gives 0, its remainder 0; `min // -1` wraps to `min`.
- `MAX` and `MIN` of floats give NaN where either side is NaN.
- A 0-d operand of an elementwise op stands for that value at every element.
- An `arg` that lists sizes holds `None` where the size is symbolic; the operands after the first
  fill the `None`s in order (`UOp.sizes` gives the filled tuple).
- Memory objects carry the dtype of their elements. `INDEX(buffer, i..., gate?)` is a location; a
  gate is a last operand of bool. Where a value is expected, a location means its content, until
  the add-loads pass makes the LOAD explicit. A location whose dtype has n lanes and whose index is
  a scalar is n consecutive elements; with an index of n lanes it is a gather or scatter.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final, NamedTuple

from svod_ir import args

__all__ = [
    "ARG_TYPES", "ASSOCIATIVE", "BINARY", "COMMUTATIVE", "COMPARISON", "ELEMENTWISE", "MEMORY", "MOVEMENT", "REDUCTIONS", "STAGES", "TABLE",
    "TERNARY", "UNARY", "AxisType", "Op", "OpRow",
]  # fmt: skip


class Op(Enum):
    """The kind of a node."""

    # fmt: off
    # constants and names
    CONST = auto(); VCONST = auto(); IOTA = auto(); DEFINE_VAR = auto(); BIND = auto(); SPECIAL = auto(); NOOP = auto()  # noqa: E702
    # memory
    BUFFER = auto(); BUFFER_VIEW = auto(); PARAM = auto(); DEFINE_LOCAL = auto(); DEFINE_REG = auto()  # noqa: E702
    INDEX = auto(); LOAD = auto(); STORE = auto(); COPY = auto(); MSTACK = auto(); MSELECT = auto()  # noqa: E702
    # movement
    RESHAPE = auto(); PERMUTE = auto(); EXPAND = auto(); PAD = auto(); SHRINK = auto(); FLIP = auto()  # noqa: E702
    GATHER = auto(); MULTI = auto()  # noqa: E702
    # unary
    NEG = auto(); NOT = auto(); ABS = auto(); SQRT = auto(); RSQRT = auto(); RECIPROCAL = auto(); SIGN = auto()  # noqa: E702
    EXP = auto(); EXP2 = auto(); LOG = auto(); LOG2 = auto(); SIN = auto(); COS = auto(); TAN = auto(); TANH = auto()  # noqa: E702
    EXPM1 = auto(); LOG1P = auto(); SINH = auto(); COSH = auto()  # noqa: E702
    ERF = auto(); TRUNC = auto(); FLOOR = auto(); CEIL = auto(); ROUND = auto(); CAST = auto(); BITCAST = auto()  # noqa: E702
    # binary
    ADD = auto(); SUB = auto(); MUL = auto(); IDIV = auto(); MOD = auto(); CDIV = auto(); CMOD = auto(); FDIV = auto()  # noqa: E702
    POW = auto(); MAX = auto(); MIN = auto(); LT = auto(); LE = auto(); EQ = auto(); NE = auto()  # noqa: E702
    AND = auto(); OR = auto(); XOR = auto(); SHL = auto(); SHR = auto(); THREEFRY = auto()  # noqa: E702
    # ternary
    WHERE = auto(); MULACC = auto()  # noqa: E702
    # reduction and scan
    REDUCE_AXIS = auto(); REDUCE = auto(); SCAN_AXIS = auto(); SCAN = auto(); ALLREDUCE = auto()  # noqa: E702
    # control
    RANGE = auto(); END = auto(); IF = auto(); ENDIF = auto(); BARRIER = auto(); AFTER = auto()  # noqa: E702
    # structure
    SINK = auto(); GROUP = auto(); CALL = auto(); PROGRAM = auto(); LINEAR = auto(); SOURCE = auto()  # noqa: E702
    PROGRAM_BINARY = auto(); CUSTOM = auto(); CUSTOM_FUNCTION = auto(); ASSIGN = auto(); DETACH = auto()  # noqa: E702
    CHECK = auto(); CONTIGUOUS = auto(); CONTIGUOUS_BACKWARD = auto(); BUFFERIZE = auto()  # noqa: E702
    # vectors
    VECTORIZE = auto(); BROADCAST = auto(); GEP = auto(); CAT = auto(); WMMA = auto()  # noqa: E702
    # fmt: on

    def __repr__(self) -> str:
        return self.name

    # Members are singletons: identity hashing is right, and much faster than Enum's hash of the name.
    __hash__ = object.__hash__  # pyright: ignore[reportAssignmentType]


class AxisType(Enum):
    """What a RANGE becomes. The value is (letter, rank in the loop nest: outer first)."""

    GLOBAL = ("g", 0)  # a grid dimension of the launch
    THREAD = ("t", 0)  # one part for each CPU thread
    LOOP = ("L", 1)  # an ordinary loop over outputs; rangeify makes these
    SCAN = ("s", 2)  # a loop whose order matters: iteration i reads the result of i - 1
    WARP = ("w", 3)
    LOCAL = ("l", 4)  # a workgroup dimension
    GROUP_REDUCE = ("G", 4)  # a reduction split over a workgroup, met at a barrier
    UPCAST = ("u", 5)  # output elements of one thread at a time: vector lanes or register copies
    REDUCE = ("R", 6)  # a loop over reduced elements
    UNROLL = ("r", 7)  # reduced elements taken at a time: vector lanes or register copies
    # The tile of a tensor core: its columns are vector lanes, and it takes all of its reduced elements in one step.
    TILE_N = ("n", 5)
    TILE_M = ("m", 5)
    TILE_K = ("k", 7)

    @property
    def letter(self) -> str:
        return self.value[0]

    @property
    def rank(self) -> int:
        return self.value[1]

    __hash__ = object.__hash__  # pyright: ignore[reportAssignmentType]


UNARY: Final = frozenset({
    Op.NEG, Op.NOT, Op.ABS, Op.SQRT, Op.RSQRT, Op.RECIPROCAL, Op.SIGN, Op.EXP, Op.EXP2, Op.LOG, Op.LOG2, Op.SIN, Op.COS,
    Op.TAN, Op.TANH, Op.EXPM1, Op.LOG1P, Op.SINH, Op.COSH, Op.ERF, Op.TRUNC, Op.FLOOR, Op.CEIL, Op.ROUND,
})  # fmt: skip
COMPARISON: Final = frozenset({Op.LT, Op.LE, Op.EQ, Op.NE})
BINARY: Final = COMPARISON | {
    Op.ADD, Op.SUB, Op.MUL, Op.IDIV, Op.MOD, Op.CDIV, Op.CMOD, Op.FDIV, Op.POW, Op.MAX, Op.MIN, Op.AND, Op.OR, Op.XOR,
    Op.SHL, Op.SHR, Op.THREEFRY,
}  # fmt: skip
TERNARY: Final = frozenset({Op.WHERE, Op.MULACC})
ELEMENTWISE: Final = UNARY | BINARY | TERNARY | {Op.CAST, Op.BITCAST}
MOVEMENT: Final = frozenset({Op.RESHAPE, Op.PERMUTE, Op.EXPAND, Op.PAD, Op.SHRINK, Op.FLIP})
MEMORY: Final = frozenset({Op.BUFFER, Op.BUFFER_VIEW, Op.PARAM, Op.DEFINE_LOCAL, Op.DEFINE_REG})
COMMUTATIVE: Final = frozenset({Op.ADD, Op.MUL, Op.MAX, Op.MIN, Op.EQ, Op.NE, Op.AND, Op.OR, Op.XOR})
ASSOCIATIVE: Final = frozenset({Op.ADD, Op.MUL, Op.MAX, Op.MIN, Op.AND, Op.OR, Op.XOR})
REDUCTIONS: Final = frozenset({Op.ADD, Op.MUL, Op.MAX, Op.MIN})

STAGES: Final = {
    "graph": "graph",
    "ranged": "ranged",
    "kernel graph": "graph",
    "kernel": "kernel",
    "lowering": "kernel lowered",
    "lowered": "lowered",
    "program": "kernel lowered program",
}
"""The stages of a graph in their order, and in which of them an op may stand, by its row, to stand in that one.

graph: tensors. ranged: RANGE and INDEX instead of movement. kernel graph: the CALLs that kernelize makes. kernel: the body
of one CALL, before and while it is optimised. lowering: a kernel on its way, in which the forms of both may stand side by
side. lowered: what renderers accept. program: CALLs and compile stages."""


class OpRow(NamedTuple):
    """A row of the table: operand names (`?` optional, `*` any number), what `arg` holds, the dtype rule, the stages.

    An arg of several fields is a NamedTuple; a node that is made with a bare tuple gets its fields.
    """

    operands: str
    arg: type[tuple[object, ...]] | str
    dtype: str
    stages: str

    @property
    def arg_text(self) -> str:
        """What `arg` holds, for people: `RangeArg(id, kind)`."""
        return self.arg if isinstance(self.arg, str) else f"{self.arg.__name__}({', '.join(self.arg.__annotations__)})"


_G, _GR, _ALL, _KL = "graph", "graph ranged", "graph ranged kernel lowered", "kernel lowered"
TABLE: Final[dict[Op, OpRow]] = {
    Op.CONST: OpRow("", "value", "given", _ALL),
    Op.VCONST: OpRow("", "tuple of values, one a lane", "given vector", _KL),
    Op.IOTA: OpRow("", "size, or None for a symbolic one: operand", "given integer", _G),
    Op.DEFINE_VAR: OpRow("", args.VariableArg, "index", _ALL),
    Op.BIND: OpRow("variable value", "None", "variable's", _GR),
    Op.SPECIAL: OpRow("end", "name: gidx0, lidx1, ...", "index", _KL),
    Op.NOOP: OpRow("*", "None", "void", _ALL),
    Op.BUFFER: OpRow("", args.BufferArg, "element", _GR),
    Op.BUFFER_VIEW: OpRow("buffer", args.ViewArg, "element", _GR),
    Op.PARAM: OpRow("", args.ParamArg, "element", _ALL),
    Op.DEFINE_LOCAL: OpRow("", args.ScratchArg, "element", _KL),
    Op.DEFINE_REG: OpRow("", args.ScratchArg, "element, may be a vector", _KL),
    Op.INDEX: OpRow("buffer index* gate?", "None", "element, or n lanes of it", "ranged kernel lowered"),
    Op.LOAD: OpRow("location alternative?", "None", "location's", _KL),
    Op.STORE: OpRow("location value", "None", "void", "ranged kernel lowered"),
    Op.COPY: OpRow("source", "device", "source's", _GR),
    Op.MSTACK: OpRow("shard*", "None", "first's", _G),
    Op.MSELECT: OpRow("stack", "position", "stack's", _G),
    Op.RESHAPE: OpRow("source size*", "sizes", "source's", _G),
    Op.PERMUTE: OpRow("source", "axes", "source's", _G),
    Op.EXPAND: OpRow("source size*", "sizes", "source's", _G),
    Op.PAD: OpRow("source size*", "(before0, after0, before1, ...)", "source's", _G),
    Op.SHRINK: OpRow("source size*", "(begin0, end0, begin1, ...)", "source's", _G),
    Op.FLIP: OpRow("source", "tuple of bool, one an axis", "source's", _G),
    Op.GATHER: OpRow("source positions", "axis: its dimension becomes those of positions", "source's", _G),
    Op.MULTI: OpRow("stack", "axis along which the shards lie, or None: each is the whole", "stack's", _G),
    **{op: OpRow("x", "None", "x's", _ALL) for op in UNARY},
    Op.CAST: OpRow("x", "None", "given", _ALL),
    Op.BITCAST: OpRow("x", "None", "given, of the same size", _ALL),
    **{op: OpRow("x y", "None", "x's (= y's)", _ALL) for op in BINARY - COMPARISON},
    **{op: OpRow("x y", "None", "bool", _ALL) for op in COMPARISON},
    Op.WHERE: OpRow("condition x y", "None", "x's (= y's)", _ALL),
    Op.MULACC: OpRow("x y z", "None", "x's: x * y + z, rounded once", "lowered"),
    Op.REDUCE_AXIS: OpRow("x", args.ReduceArg, "x's", _G),
    Op.SCAN_AXIS: OpRow("x", args.ScanArg, "x's", _G),
    Op.REDUCE: OpRow("x range*", "op; no range: over the lanes", "x's, or x's scalar over lanes", "ranged kernel lowered"),
    Op.SCAN: OpRow("x range", "op", "x's", "ranged kernel"),
    Op.ALLREDUCE: OpRow("stack", args.AllReduceArg, "stack's", _G),
    Op.RANGE: OpRow("end", args.RangeArg, "index", "ranged kernel lowered"),
    Op.END: OpRow("effect range*", "None", "void", "ranged kernel lowered"),
    Op.IF: OpRow("condition dependency*", "None", "void", "lowered"),
    Op.ENDIF: OpRow("if effect*", "None", "void", "lowered"),
    Op.BARRIER: OpRow("effect*", "None", "void", _KL),
    Op.AFTER: OpRow("x dependency*", "None", "x's", _ALL),
    Op.SINK: OpRow("effect*", "None, or KernelInfo", "void", _ALL),
    Op.GROUP: OpRow("effect*", "None", "void", "ranged kernel lowered"),
    Op.CALL: OpRow("body argument*", "None", "void", _GR),
    Op.PROGRAM: OpRow("sink linear? source? binary?", "device", "void", "program"),
    Op.LINEAR: OpRow("node*", "None", "void", "program"),
    Op.SOURCE: OpRow("", "text", "void", "program"),
    Op.PROGRAM_BINARY: OpRow("", "bytes", "void", "program"),
    Op.CUSTOM: OpRow("operand*", "text with {0}, {1}, ...", "given", _KL),
    Op.CUSTOM_FUNCTION: OpRow("operand*", "kind", "of its memory; void in a CALL", _GR),
    Op.ASSIGN: OpRow("target value", "None", "target's", _G),
    Op.DETACH: OpRow("x", "None", "x's", _G),
    Op.CHECK: OpRow("x size?", args.CheckArg, "x's", _G),
    Op.CONTIGUOUS: OpRow("x", "None", "x's", _G),
    Op.CONTIGUOUS_BACKWARD: OpRow("x", "None", "x's", _G),
    Op.BUFFERIZE: OpRow("x range*", args.BufferizeArg, "x's", "ranged kernel"),
    Op.VECTORIZE: OpRow("lane*", "None", "lane's, n lanes", "lowered"),
    Op.BROADCAST: OpRow("x", "None", "given: x's, n lanes", "lowered"),
    Op.GEP: OpRow("vector", "lanes", "vector's scalar, n lanes", "lowered"),
    Op.CAT: OpRow("vector*", "None", "lanes added up", "lowered"),
    Op.WMMA: OpRow("a b accumulator", "TensorCore: its tiles are all lanes of vectors", "accumulator's", "lowered"),
}  # fmt: skip

ARG_TYPES: Final = {op: row.arg for op, row in TABLE.items() if not isinstance(row.arg, str)}
"""The NamedTuples that args of several fields are."""
