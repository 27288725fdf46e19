"""Kinds of nodes and of loops."""

from __future__ import annotations

from enum import Enum, auto

__all__ = ["AxisType", "Op"]


class Op(Enum):
    """The kind of a node; `svod_ir.ops.TABLE` has the operands, arg and dtype of each op."""

    # fmt: off
    # constants and names
    CONST = auto(); VCONST = auto(); IOTA = auto(); DEFINE_VAR = auto(); BIND = auto(); SPECIAL = auto(); NOOP = auto()  # noqa: E702
    # memory
    BUFFER = auto(); BUFFER_VIEW = auto(); PARAM = auto(); DEFINE_LOCAL = auto(); DEFINE_REG = auto()  # noqa: E702
    INDEX = auto(); LOAD = auto(); STORE = auto(); COPY = auto(); MSTACK = auto(); MSELECT = auto()  # noqa: E702
    # movement
    RESHAPE = auto(); PERMUTE = auto(); EXPAND = auto(); PAD = auto(); SHRINK = auto(); FLIP = auto()  # noqa: E702
    GATHER = auto(); SCATTER = auto(); MULTI = auto(); RESHARD = auto()  # noqa: E702
    # unary
    NEG = auto(); NOT = auto(); ABS = auto(); SQRT = auto(); RSQRT = auto(); RECIPROCAL = auto(); SIGN = auto()  # noqa: E702
    EXP = auto(); EXP2 = auto(); LOG = auto(); LOG2 = auto(); SIN = auto(); COS = auto(); TAN = auto(); TANH = auto()  # noqa: E702
    EXPM1 = auto(); LOG1P = auto(); SINH = auto(); COSH = auto()  # noqa: E702
    ERF = auto(); TRUNC = auto(); FLOOR = auto(); CEIL = auto(); ROUND = auto(); CAST = auto(); BITCAST = auto()  # noqa: E702
    # binary
    ADD = auto(); SUB = auto(); MUL = auto(); IDIV = auto(); MOD = auto(); CDIV = auto(); CMOD = auto(); FDIV = auto()  # noqa: E702
    FMOD = auto(); POW = auto(); MAX = auto(); MIN = auto(); LT = auto(); LE = auto(); EQ = auto(); NE = auto()  # noqa: E702
    AND = auto(); OR = auto(); XOR = auto(); SHL = auto(); SHR = auto(); THREEFRY = auto()  # noqa: E702
    # complex numbers
    COMPLEX = auto(); REAL = auto(); IMAG = auto(); AS_COMPLEX = auto(); AS_REAL = auto()  # noqa: E702
    # ternary
    WHERE = auto(); MULACC = auto()  # noqa: E702
    # reduction and scan
    REDUCE_AXIS = auto(); REDUCE = auto(); SCAN_AXIS = auto(); SCAN = auto(); ALLREDUCE = auto()  # noqa: E702
    # control
    RANGE = auto(); END = auto(); BARRIER = auto(); AFTER = auto(); CARRY = auto(); ADVANCE = auto(); LEAVE = auto()  # noqa: E702
    LOOP = auto(); SWITCH = auto(); RESULT = auto()  # noqa: E702
    # structure
    SINK = auto(); GROUP = auto(); CALL = auto(); PROGRAM = auto(); LINEAR = auto(); SOURCE = auto()  # noqa: E702
    PROGRAM_BINARY = auto(); CUSTOM = auto(); CUSTOM_FUNCTION = auto(); ASSIGN = auto(); DETACH = auto()  # noqa: E702
    TRACED = auto(); GRADIENT = auto(); CONTROL_DEPENDENCY = auto()  # noqa: E702
    CHECK = auto(); CONTIGUOUS = auto(); BUFFERIZE = auto()  # noqa: E702
    # vectors
    VECTORIZE = auto(); BROADCAST = auto(); GEP = auto(); CAT = auto(); WMMA = auto()  # noqa: E702
    # fmt: on

    def __repr__(self) -> str:
        return self.name

    # Members are singletons: identity hashing is right, and much faster than Enum's hash of the
    # name.
    __hash__ = object.__hash__  # pyright: ignore[reportAssignmentType]


class AxisType(Enum):
    """The kind of a RANGE. The value is (letter, rank in the loop nest: outer first).

    Example:
        >>> from svod_ir import AxisType, UOp
        >>> rows, lanes = UOp.range(16, 0, AxisType.LOOP), UOp.range(4, 1, AxisType.UPCAST)
        >>> [loop.arg.kind.name for loop in (rows, lanes)]
        ['LOOP', 'UPCAST']
    """

    GLOBAL = ("g", 0)  # a grid dimension of the launch
    THREAD = ("t", 0)  # a dimension distributed over CPU threads
    LOOP = ("L", 1)  # an ordinary loop over outputs; rangeify makes these
    SCAN = ("s", 2)  # a loop whose order matters: iteration i reads the result of i - 1
    WARP = ("w", 3)
    LOCAL = ("l", 4)  # a workgroup dimension
    GROUP_REDUCE = ("G", 4)  # a reduction split over a workgroup, joined at a barrier
    UPCAST = ("u", 5)  # output elements per thread: vector lanes or register copies
    REDUCE = ("R", 6)  # a loop over reduced elements
    UNROLL = ("r", 7)  # reduced elements per step: vector lanes or register copies
    # The tile of a tensor core: its columns are vector lanes, and one step consumes all of its
    # reduced elements.
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
