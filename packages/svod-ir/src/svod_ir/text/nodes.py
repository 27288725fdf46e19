"""Parser of one line: printed nodes, and hand-written ones with numbers and expressions as
operands.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Final, cast

from svod_dtype import DType, bool_, find_dtype, index, void
from svod_ir.ops import BINARY, COMPARISON, TERNARY, UNARY, Op
from svod_ir.text.decode import decode_arg
from svod_ir.text.expression import INFIX
from svod_ir.text.reader import Number, Reader, Reference
from svod_ir.uop import UOp

__all__ = ["read_expression"]

_PREFIX: Final = {"-": Op.NEG, "~": Op.NOT}
_SIGNS: Final = {sign: op for op, sign in INFIX.items()}
# As in Python, but comparisons do not chain.
_LEVELS: Final = (
    {"<", "<=", "==", "!="},
    {"|"},
    {"^"},
    {"&"},
    {"<<", ">>"},
    {"+", "-"},
    {"*", "/", "//", "%"},
    {"**"},
)
_FUNCTIONS: Final = {op.name.lower(): op for op in UNARY | BINARY | TERNARY | {Op.LOAD, Op.AFTER}}


def read_expression(reader: Reader, nodes: Mapping[str, UOp], wanted: DType | None = None) -> UOp:
    """Read an expression or a printed node; a bare number is a constant of `wanted`.

    Raises:
        ParseError: if the dtype of a number is unknown.
    """
    expressions = _Expressions(reader, nodes)
    node = expressions.read_node() if expressions.is_at_node() else expressions.read()
    return node if isinstance(node, UOp) else _make_constant(reader, node, wanted)


class _Expressions:
    """Parser of the expressions of one line."""

    def __init__(self, reader: Reader, nodes: Mapping[str, UOp]) -> None:
        self.reader, self.nodes = reader, nodes

    def is_at_node(self) -> bool:
        kind, text = self.reader.peek()
        return (
            kind == "word"
            and text not in ("true", "false")
            # A word with a parenthesis directly behind it is a function or a cast.
            and self.reader.peek(1) != ("touch", "(")
        )

    def read_node(self) -> UOp:
        """Read a printed node: op, dtype, operands and arg."""
        reader = self.reader
        word = reader.take("word")
        op = Op.__members__.get(word)
        if op is None:
            raise reader.error(f"{word} is not an op", hint=_suggest(word))
        dtype = void
        if self.is_at_node():
            spelling = reader.take("word")
            named = find_dtype(spelling)
            if named is None:
                raise reader.error(
                    f"{spelling} is not a dtype",
                    hint="write f32, i8, bool, index, or f32x4 for a vector",
                )
            dtype = named
        # Fast path: printed operands are only names, and printed graphs are the common input.
        names = reader.take_names()
        src = (
            tuple([self._find(name) for name in names]) if names else self._read_operands(op, dtype)
        )
        values = self._list_bodies(reader.read_values("]")) if reader.accept("[") else None
        return UOp(op, dtype, src, decode_arg(reader, op, dtype, values))

    def _read_operands(self, op: Op, dtype: DType) -> tuple[UOp, ...]:
        reader = self.reader
        operands: list[UOp | Number] = []
        while not reader.is_done() and reader.peek() not in (("sign", "["), ("sign", ")")):
            operands.append(self.read())
            if not reader.accept(","):
                break
        return _fill_numbers(reader, op, dtype, operands)

    def _list_bodies(self, values: tuple[object, ...]) -> tuple[object, ...]:
        """Resolve the names of nodes among the values of an arg."""
        if not any(isinstance(value, (Reference, tuple)) for value in values):
            return values
        return tuple(
            self._find(value.name)
            if isinstance(value, Reference)
            else self._list_bodies(cast("tuple[object, ...]", value))
            if value.__class__ is tuple
            else value
            for value in values
        )

    def _find(self, name: str) -> UOp:
        node = self.nodes.get(name)
        if node is None:
            raise self.reader.error(f"{name} is not defined above")
        return node

    def read(self, level: int = 0) -> UOp | Number:
        if level == len(_LEVELS):
            return self._read_prefixed()
        left = self.read(level + 1)
        while (token := self.reader.peek())[0] == "sign" and token[1] in _LEVELS[level]:
            self.reader.accept(token[1])
            left = self._make(_SIGNS[token[1]], [left, self.read(level + 1)])
        return left

    def _read_prefixed(self) -> UOp | Number:
        for sign, op in _PREFIX.items():
            if self.reader.accept(sign):
                return self._make(op, [self._read_prefixed()])
        operand = self._read_atom()
        while isinstance(operand, UOp) and self.reader.accept("[", kind="touch"):
            operand = self._read_location(operand)
        return operand

    def _read_atom(self) -> UOp | Number:
        reader = self.reader
        if reader.accept("("):
            operand = self.read_node() if self.is_at_node() else self.read()
            reader.expect(")")
            return operand
        kind, text = reader.peek()
        if kind == "name":
            reader.take("name")
            return self._find(text)
        literal = reader.accept_number()
        return (
            self._read_call(reader.take("operand" if kind != "word" else "word"))
            if literal is None
            else literal
        )

    def _read_call(self, word: str) -> UOp | Number:
        dtype, op = find_dtype(word), _FUNCTIONS.get(word)
        if dtype is None and op is None:
            raise self.reader.error(
                f"{word} is neither a dtype nor a function", hint="write f32(%x), exp2(%x) or 1.0"
            )
        if not self.reader.accept("(", kind="touch"):
            raise self.reader.error(f"expected '(' after {word}, found {self.reader.peek()[1]!r}")
        operands = [self.read()]
        while self.reader.accept(","):
            operands.append(self.read())
        self.reader.expect(")")
        if op is not None:
            return self._make(op, operands)
        assert dtype is not None
        if len(operands) != 1:
            raise self.reader.error(f"{word} takes one operand, not {len(operands)}")
        (x,) = operands
        return (
            UOp(Op.CAST, dtype, (x,))
            if isinstance(x, UOp)
            else _make_constant(self.reader, x, dtype)
        )

    def _read_location(self, memory: UOp) -> UOp:
        """Read the rest of `%memory[`: indices, a gate after `if`, and a number of lanes after a
        colon.
        """
        operands: list[UOp] = [memory]
        while True:
            operands.append(read_expression(self.reader, self.nodes, index))
            if self.reader.accept("if", kind="word"):
                operands.append(read_expression(self.reader, self.nodes, bool_))
            if not self.reader.accept(","):
                break
        dtype = memory.dtype
        if self.reader.accept(":"):
            dtype = dtype.vec(int(self.reader.take("int")))
        self.reader.expect("]")
        return UOp(Op.INDEX, dtype, tuple(operands))

    def _make(self, op: Op, operands: Sequence[UOp | Number]) -> UOp:
        src = _fill_numbers(self.reader, op, void, operands)
        dtype = src[1 if op is Op.WHERE and len(src) > 1 else 0].dtype
        return UOp(op, bool_.vec(dtype.lanes) if op in COMPARISON else dtype, src)


def _fill_numbers(
    reader: Reader, op: Op, dtype: DType, operands: Sequence[UOp | Number]
) -> tuple[UOp, ...]:
    """Convert numbers among the operands to constants."""
    # The condition has another dtype than the values.
    if op is Op.WHERE and operands and isinstance(operands[0], Number):
        operands = (_make_constant(reader, operands[0], bool_), *operands[1:])
    nodes = [x for x in operands if isinstance(x, UOp)]
    if len(nodes) == len(operands):
        return tuple(nodes)
    # The condition is bool and says nothing about the dtype of numbers.
    values = nodes[1:] if op is Op.WHERE else nodes
    # A number takes the dtype of the nodes beside it: the dtype of a comparison is bool, that of
    # its operands is not.
    number_dtype = (
        dtype if dtype is not void and op not in COMPARISON else values[0].dtype if values else None
    )
    if op in (Op.INDEX, Op.LOOP, Op.SWITCH):
        # Indices and counts beside memory or values of another dtype.
        number_dtype = index
    if op in (Op.VECTORIZE, Op.BROADCAST):
        number_dtype = dtype.scalar
    return tuple(
        x if isinstance(x, UOp) else _make_constant(reader, x, number_dtype) for x in operands
    )


def _make_constant(reader: Reader, literal: Number, dtype: DType | None) -> UOp:
    if dtype is None and isinstance(literal.value, bool):
        dtype = bool_
    if dtype is None or dtype is void:
        raise reader.error(f"the dtype of {literal} is unknown", hint=f"write f32({literal})")
    op = Op.CONST if dtype.lanes == 1 else Op.VCONST
    decode_arg(
        reader, op, dtype, (literal.value,) * dtype.lanes
    )  # raises if the number is not valid for the dtype
    return UOp.const(dtype, literal.value)


def _suggest(word: str) -> str | None:
    close = get_close_matches(word.upper(), Op.__members__, n=1)
    return f"did you mean {close[0]}?" if close else None
