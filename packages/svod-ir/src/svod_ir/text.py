"""The text form of graphs, which parses back to the identical node.

One line for each node, operands first; the last line is the graph:

    %0 = CONST index [16]
    %1 = RANGE index %0 [0, LOOP]
    %2 = PARAM f32 [0, 16]
    %3 = INDEX f32 %2, %1
    %4 = NEG f32 %3
    %5 = STORE %3, %4
    %6 = END %5, %1

After the op come the dtype (left out for void), the operands, and in brackets what `arg` holds:
numbers, `true`, `false`, `none`, names, "text", hex"00ff", tuples in parentheses, and opts as in
`UPCAST(0, 4)`.  Names of nodes are free (`%acc`); `#` begins a comment.
"""

from __future__ import annotations

import json
import math
import re
import struct
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from itertools import islice
from typing import Any, Final, NamedTuple, cast

from svod_dtype import AddressSpace, DType, cast_value, find_dtype, void
from svod_ir.args import BufferArg, BufferizeArg, CheckArg, KernelInfo, Opt, OptOp, ParamArg
from svod_ir.errors import GraphError, ParseError
from svod_ir.ops import BINARY, UNARY, AxisType, Op
from svod_ir.target import TensorCore
from svod_ir.uop import UOp

__all__ = ["format_arg", "format_expression", "parse_graph", "print_graph"]


def print_graph(node: UOp, limit: int | None = None) -> str:
    """The text of a graph; with `limit`, only its first lines and a comment that there are more."""
    lines = _iter_lines(node)
    if limit is None:
        return "\n".join(lines) + "\n"
    found = list(islice(lines, limit + 1))
    return "\n".join(found[:limit] + ["# ..."] * (len(found) > limit)) + "\n"


def parse_graph(text: str) -> UOp:
    """The graph whose text this is: `parse_graph(print_graph(node)) is node`.

    Raises:
        ParseError: with the number of the line that is wrong.
    """
    nodes: dict[str, UOp] = {}
    last: UOp | None = None
    for number, line in enumerate(text.splitlines(), start=1):
        reader = _Reader(number, line)
        if reader.is_done():
            continue
        name = reader.take("name")
        if name in nodes:
            raise reader.error(f"{name} is defined twice")
        reader.expect("=")
        last = nodes[name] = _parse_node(reader, nodes)
    if last is None:
        raise ParseError(
            line=0, text="", problem="the text holds no node", hint="write a line such as %0 = CONST f32 [1.0]"
        )
    return last


def format_arg(node: UOp) -> str:
    """`arg` as it stands between the brackets: the same in every process, and empty for None.

    Raises:
        GraphError: if the arg holds an object without a text form.
    """
    if node.arg is None:
        return ""
    return _format_top(node, _refuse(node))


def format_expression(node: UOp, limit: int = 400) -> str:
    """One line for people, as in `p0[(L0 * 16 + L1)]`; parts longer than `limit` characters become `...`."""
    done: dict[UOp, str] = {}
    for part in node.toposort():
        shown = _show(part, [done[s] for s in part.src])
        done[part] = shown if len(shown) <= limit else "..."
    return done[node]


def _iter_lines(root: UOp) -> Iterator[str]:
    names: dict[UOp, str] = {}
    for node in root.iter_toposort():
        names[node] = f"%{len(names)}"
        parts = [names[node], "=", node.op.name]
        if node.dtype is not void:
            parts.append(node.dtype.short)
        if node.src:
            parts.append(", ".join(names[s] for s in node.src))
        if node.arg is not None:
            parts.append(f"[{_format_top(node, lambda value: f'<{value!r}>')}]")
        yield " ".join(parts)


def _refuse(node: UOp) -> Callable[[object], str]:
    def refuse(value: object) -> str:
        raise GraphError(rule=f"an arg consists of values with a text form, not {type(value).__name__}", node=node)

    return refuse


def _format_top(node: UOp, fallback: Callable[[object], str]) -> str:
    arg = node.arg
    if node.op is Op.CONST and node.dtype.is_float:
        return _format_value(float(arg), fallback)
    if node.op is Op.VCONST and node.dtype.is_float:
        arg = tuple(float(v) for v in arg)
    if isinstance(arg, tuple):
        return ", ".join(_format_value(v, fallback) for v in _trim(cast("tuple[object, ...]", arg)))
    if isinstance(arg, TensorCore):
        return ", ".join(_format_value(value, fallback) for value in _core_values(arg))
    return _format_value(arg, fallback)


def _trim(arg: tuple[object, ...]) -> tuple[object, ...]:
    # Optional last fields are left out where they have their defaults.
    if isinstance(arg, (ParamArg, KernelInfo)) and arg[-1] is None:
        return arg[:-1]
    return arg


def _core_values(core: TensorCore) -> list[object]:
    given: list[object] = [core.dims, core.group, core.dtypes, core.cycles, core.tiles]
    while given[-1] == _CORE_DEFAULTS.get(len(given)):
        given.pop()
    return given


_CORE_DEFAULTS: Final = {4: 1.0, 5: 0}
"""By how many fields there are with it."""


def _format_value(value: object, fallback: Callable[[object], str]) -> str:
    match value:
        case None:
            return "none"
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return _format_float(value)
        case str():
            return json.dumps(value)
        case bytes():
            return f'hex"{value.hex()}"'
        case Opt():
            last = 2 if value.amount is not None else 1 if value.axis is not None else 0
            return (
                f"{value.op.value}({', '.join(_format_value(v, fallback) for v in (value.axis, value.amount)[:last])})"
            )
        case tuple():
            values = cast("tuple[object, ...]", value)
            inner = ", ".join(_format_value(v, fallback) for v in values)
            return f"({inner},)" if len(values) == 1 else f"({inner})"
        case Enum():
            return value.name
        case DType():
            return value.short
        case _:
            return fallback(value)


_NAN_BITS: Final = struct.pack(">d", math.nan)


def _format_float(value: float) -> str:
    # repr gives the shortest digits that read back exactly, and -0.0, inf and -inf.
    bits = struct.pack(">d", value)
    return repr(value) if not math.isnan(value) or bits == _NAN_BITS else f"nan:{bits.hex()}"


_TOKEN: Final = re.compile(
    r"""\s*(?:(?P<comment>\#.*)|(?P<name>%\w+)|(?P<text>"(?:[^"\\]|\\.)*")|hex"(?P<hex>[0-9a-f]*)"|(?P<nan>nan:[0-9a-f]{16})
    |(?P<float>-?(?:\d+\.\d*(?:e[+-]?\d+)?|\d+e[+-]?\d+|inf|nan)(?!\w))|(?P<int>-?\d+(?!\w))|(?P<word>[A-Za-z_]\w*)|(?P<sign>[=,()\[\]]))""",
    re.VERBOSE,
)


class _Symbol(NamedTuple):
    name: str


class _Record(NamedTuple):
    name: str
    fields: tuple[object, ...]


class _Reader:
    """The tokens of one line."""

    def __init__(self, number: int, line: str) -> None:
        self.number, self.line = number, line
        self.tokens: list[tuple[str, str]] = []
        self.position = 0
        place, end = 0, len(line.rstrip())
        while place < end:
            found = _TOKEN.match(line, place)
            if found is None or found.lastgroup is None:
                raise self.error(f"cannot read {line[place:].strip()[:20]!r}")
            if found.lastgroup != "comment":
                self.tokens.append((found.lastgroup, found[found.lastgroup]))
            place = found.end()

    def error(self, problem: str, hint: str | None = None) -> ParseError:
        return ParseError(line=self.number, text=self.line, problem=problem, hint=hint)

    def is_done(self) -> bool:
        return self.position == len(self.tokens)

    def peek(self) -> tuple[str, str]:
        return self.tokens[self.position] if self.position < len(self.tokens) else ("end", "the end of the line")

    def take(self, kind: str) -> str:
        found, text = self.peek()
        if found != kind:
            meaning = {"name": "a node such as %0", "word": "an op or a dtype"}.get(kind, kind)
            raise self.error(f"expected {meaning}, found {text!r}")
        self.position += 1
        return text

    def accept(self, sign: str) -> bool:
        if self.peek() == ("sign", sign):
            self.position += 1
            return True
        return False

    def expect(self, sign: str) -> None:
        if not self.accept(sign):
            raise self.error(f"expected {sign!r}, found {self.peek()[1]!r}")

    def read_values(self, closing: str) -> tuple[object, ...]:
        """Values up to the closing sign; a comma may follow the last one."""
        values: list[object] = []
        while not self.accept(closing):
            values.append(self.read_value())
            if not self.accept(","):
                self.expect(closing)
                break
        return tuple(values)

    def read_value(self) -> object:
        if self.accept("("):
            return self.read_values(")")
        kind, text = self.peek()
        self.position += 1
        match kind:
            case "int":
                return int(text)
            case "float":
                return float(text)
            case "nan":
                return struct.unpack(">d", bytes.fromhex(text[4:]))[0]
            case "text":
                return self._read_text(text)
            case "hex":
                if len(text) % 2:
                    raise self.error("hex text needs two digits for each byte")
                return bytes.fromhex(text)
            case "word" if text in _WORDS:
                return _WORDS[text]
            case "word":
                return _Record(text, self.read_values(")")) if self.accept("(") else _Symbol(text)
            case _:
                raise self.error(f"expected a value, found {text!r}")

    def _read_text(self, text: str) -> str:
        try:
            return json.loads(text)
        except ValueError as error:
            raise self.error(f"cannot read the text {text}") from error


_WORDS: Final = {"true": True, "false": False, "none": None}


def _parse_node(reader: _Reader, nodes: dict[str, UOp]) -> UOp:
    word = reader.take("word")
    op = Op.__members__.get(word)
    if op is None:
        raise reader.error(f"{word} is not an op", hint=_suggest(word))
    dtype = void
    if reader.peek()[0] == "word":
        spelling = reader.take("word")
        found = find_dtype(spelling)
        if found is None:
            raise reader.error(f"{spelling} is not a dtype", hint="write f32, i8, bool, index, or f32x4 for a vector")
        dtype = found
    src: list[UOp] = []
    while reader.peek()[0] == "name":
        name = reader.take("name")
        if name not in nodes:
            raise reader.error(f"{name} is not defined above")
        src.append(nodes[name])
        if not reader.accept(","):
            break
    values = reader.read_values("]") if reader.accept("[") else None
    if not reader.is_done():
        raise reader.error(f"expected the end of the line, found {reader.peek()[1]!r}")
    return UOp(op, dtype, tuple(src), _decode(reader, op, dtype, values))


def _suggest(word: str) -> str | None:
    from difflib import get_close_matches

    close = get_close_matches(word.upper(), Op.__members__, n=1)
    return f"did you mean {close[0]}?" if close else None


def _decode(reader: _Reader, op: Op, dtype: DType, values: tuple[object, ...] | None) -> object:
    decode = _ARGS.get(op)
    if decode is None:
        if values is not None:
            raise reader.error(f"{op.name} takes no arg")
        return None
    if values is None:
        if op in _OPTIONAL:
            return None
        raise reader.error(f"{op.name} needs an arg in brackets")
    try:
        return decode(dtype, values)
    except (TypeError, ValueError, KeyError, IndexError) as error:
        raise reader.error(f"the arg of {op.name} is wrong: {error}") from error


Values = Sequence[object]


def _only(values: Values) -> object:
    if len(values) != 1:
        raise ValueError(f"it holds one value, not {len(values)}")
    return values[0]


def _int(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{_spell(value)} is not an integer")
    return value


def _float(value: object) -> float:
    if not isinstance(value, float):
        raise TypeError(f"{_spell(value)} is not a float")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{_spell(value)} is not text")
    return value


def _tuple(value: object) -> tuple[object, ...]:
    if not isinstance(value, tuple) or isinstance(value, (_Symbol, _Record)):
        raise TypeError(f"{_spell(value)} is not a tuple")
    return cast("tuple[object, ...]", value)


def _spell(value: object) -> str:
    return value.name if isinstance(value, (_Symbol, _Record)) else repr(value)


def _symbol(members: dict[str, Any], value: object) -> Any:
    if not isinstance(value, _Symbol) or value.name not in members:
        raise ValueError(
            f"{_spell(value)} is none of {', '.join(members)}" if len(members) < 20 else f"{_spell(value)} is not known"
        )
    return members[value.name]


def _op(value: object) -> Op:
    return _symbol(dict(Op.__members__), value)


def _decode_scalar(dtype: DType, value: object) -> bool | int | float:
    if dtype.is_bool:
        if not isinstance(value, bool):
            raise TypeError(f"{_spell(value)} is not true or false")
        return value
    if (
        isinstance(value, bool)
        or not isinstance(value, (int, float))
        or (isinstance(value, float) and not dtype.is_float)
    ):
        raise TypeError(f"{_spell(value)} is not a number of {dtype}")
    if dtype.is_float:
        return float(value)
    if cast_value(value, dtype) != value:
        raise ValueError(f"{value} does not fit {dtype}")
    return value


def _fields(values: Values, *decoders: Callable[[object], Any], optional: int = 0) -> list[Any]:
    """Each value through its decoder; the last `optional` ones may be missing."""
    if not len(decoders) - optional <= len(values) <= len(decoders):
        raise ValueError(f"it holds {len(decoders)} values, not {len(values)}")
    return [decode(value) for decode, value in zip(decoders, values, strict=False)]


def _or_none(decode: Callable[[object], Any]) -> Callable[[object], Any]:
    return lambda value: None if value is None else decode(value)


def _opt(value: object) -> Opt:
    if not isinstance(value, _Record):
        raise TypeError(f"{_spell(value)} is not an opt such as UPCAST(0, 4)")
    kind = _symbol(dict(OptOp.__members__), _Symbol(value.name))
    return Opt(kind, *_fields(value.fields, _or_none(_int), _or_none(_int), optional=2))


def _opts(value: object) -> tuple[Opt, ...]:
    return tuple(_opt(v) for v in _tuple(value))


def _ints(_: DType, values: Values) -> tuple[int, ...]:
    return tuple(_int(v) for v in values)


def _sizes(_: DType, values: Values) -> tuple[int | None, ...]:
    return tuple(None if v is None else _int(v) for v in values)


def _dtype(value: object) -> DType:
    found = find_dtype(value.name) if isinstance(value, _Symbol) else None
    if found is None:
        raise ValueError(f"{_spell(value)} is not a dtype")
    return found


def _tensor_core(_: DType, values: Values) -> TensorCore:
    def dtypes(value: object) -> tuple[DType, ...]:
        return tuple(_dtype(v) for v in _tuple(value))

    return TensorCore(*_fields(values, _axes, _int, dtypes, _float, _int, optional=2))


def _bytes(_: DType, values: Values) -> bytes:
    value = _only(values)
    if not isinstance(value, bytes):
        raise TypeError(f'{_spell(value)} is not hex"..."')
    return value


def _flags(_: DType, values: Values) -> tuple[bool, ...]:
    if not all(isinstance(v, bool) for v in values):
        raise TypeError("it holds true or false for each axis")
    return tuple(bool(v) for v in values)


def _one(decode: Callable[[object], Any]) -> Callable[[DType, Values], Any]:
    return lambda _, values: decode(_only(values))


def _several(*decoders: Callable[[object], Any]) -> Callable[[DType, Values], tuple[Any, ...]]:
    return lambda _, values: tuple(_fields(values, *decoders))


def _axis_type(value: object) -> AxisType:
    return _symbol(dict(AxisType.__members__), value)


def _space(value: object) -> AddressSpace:
    return _symbol(dict(AddressSpace.__members__), value)


def _axes(value: object) -> tuple[int, ...]:
    return tuple(_int(v) for v in _tuple(value))


_OPTIONAL: Final = frozenset({Op.IOTA, Op.MULTI, Op.SINK, Op.CALL, Op.WMMA, Op.PROGRAM})

_ARGS: Final[dict[Op, Callable[[DType, Values], object]]] = {
    Op.CONST: lambda dtype, values: _decode_scalar(dtype, _only(values)),
    Op.VCONST: lambda dtype, values: tuple(_decode_scalar(dtype.scalar, v) for v in values),
    Op.IOTA: _one(_int),
    Op.DEFINE_VAR: _several(_text, _int, _int),
    Op.SPECIAL: _one(_text),
    Op.BUFFER: lambda _, values: BufferArg(*_fields(values, _int, _int, _text)),
    Op.BUFFER_VIEW: _several(_int, _int),
    Op.PARAM: lambda _, values: ParamArg(*_fields(values, _int, _int, _or_none(_text), optional=1)),
    Op.DEFINE_LOCAL: _several(_int, _int),
    Op.DEFINE_REG: _several(_int, _int),
    Op.COPY: _one(_text),
    Op.MSELECT: _one(_int),
    Op.RESHAPE: _sizes,
    Op.EXPAND: _sizes,
    Op.PAD: _sizes,
    Op.SHRINK: _sizes,
    Op.PERMUTE: _ints,
    Op.FLIP: _flags,
    Op.GATHER: _one(_int),
    Op.CHECK: lambda _, values: CheckArg(*_fields(values, _text, _or_none(_int), _or_none(_int))),
    Op.MULTI: _one(_int),
    Op.REDUCE_AXIS: _several(_op, _axes),
    Op.SCAN_AXIS: _several(_op, _int),
    Op.REDUCE: _one(_op),
    Op.SCAN: _one(_op),
    Op.ALLREDUCE: _several(_op, _text),
    Op.RANGE: _several(_int, _axis_type),
    Op.SINK: lambda _, values: KernelInfo(*_fields(values, _text, _or_none(_opts), optional=1)),
    Op.PROGRAM: _one(_text),
    Op.SOURCE: _one(_text),
    Op.PROGRAM_BINARY: _bytes,
    Op.CUSTOM: _one(_text),
    Op.CUSTOM_FUNCTION: _one(_text),
    Op.BUFFERIZE: lambda _, values: BufferizeArg(*_fields(values, _text, _space, optional=1)),
    Op.GEP: _ints,
    Op.WMMA: _tensor_core,
}  # fmt: skip


_INFIX: Final = {
    Op.ADD: "+", Op.SUB: "-", Op.MUL: "*", Op.IDIV: "//", Op.MOD: "%", Op.FDIV: "/", Op.POW: "**", Op.LT: "<", Op.LE: "<=",
    Op.EQ: "==", Op.NE: "!=", Op.AND: "&", Op.OR: "|", Op.XOR: "^", Op.SHL: "<<", Op.SHR: ">>",
}  # fmt: skip


def _show(node: UOp, operands: list[str]) -> str:
    op = node.op
    if op in _INFIX:
        return f"({operands[0]} {_INFIX[op]} {operands[1]})"
    match op:
        case Op.CONST:
            return _format_value(node.arg, repr)
        case Op.DEFINE_VAR:
            return node.arg[0]
        case Op.SPECIAL:
            return node.arg
        case Op.RANGE:
            return f"{node.arg[1].letter}{node.arg[0]}"
        case Op.PARAM:
            return f"p{node.arg.slot}"
        case Op.BUFFER:
            return f"b{node.arg.id}"
        case Op.DEFINE_LOCAL | Op.DEFINE_REG:
            return f"{'local' if op is Op.DEFINE_LOCAL else 'reg'}{node.arg[0]}"
        case Op.INDEX:
            gate = f" if {operands.pop()}" if node.gate is not None else ""
            return f"{operands[0]}[{', '.join(operands[1:])}{gate}]"
        case Op.STORE:
            return f"{operands[0]} = {operands[1]}"
        case Op.CAST:
            return f"{node.dtype.short}({operands[0]})"
        case _ if op in UNARY or op in BINARY or node.arg is None:
            return f"{op.name.lower()}({', '.join(operands)})"
        case _:
            return f"{op.name.lower()}({', '.join([*operands, _format_top(node, repr)])})"
