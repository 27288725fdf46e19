"""Text as graphs: `parse_graph`."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches

from svod_dtype import find_dtype, void
from svod_ir.errors import ParseError
from svod_ir.ops import Op
from svod_ir.text.decode import decode_arg
from svod_ir.text.operands import read_expression, read_operands
from svod_ir.text.reader import Reader
from svod_ir.uop import UOp

__all__ = ["parse_graph", "parse_lines"]


def parse_graph(text: str) -> UOp:
    """The graph whose text this is: `parse_graph(print_graph(node)) is node`.

    Raises:
        ParseError: with the number of the line that is wrong.
    """
    return parse_lines(text)[-1][1]


def parse_lines(text: str) -> list[tuple[str, UOp]]:
    """The name, empty where there is none, and the node of each line; `parse_graph` gives the last of them."""
    nodes: dict[str, UOp] = {}
    found: list[tuple[str, UOp]] = []
    for number, line in enumerate(text.splitlines(), start=1):
        reader = Reader(number, line)
        if reader.is_done():
            continue
        name = "" if reader.peek()[1] in Op.__members__ else reader.take("name")
        if name in nodes:
            raise reader.error(f"{name} is defined twice")
        if name:
            reader.expect("=")
        found.append((name, _parse_node(reader, nodes)))
        if name:
            nodes[name] = found[-1][1]
    if not found:
        raise ParseError(
            line=0, text="", problem="the text holds no node", hint="write a line such as %0 = CONST f32 [1.0]"
        )
    return found


def _parse_node(reader: Reader, nodes: Mapping[str, UOp]) -> UOp:
    is_line = reader.peek()[0] == "word" and reader.peek(1) != ("sign", "(")
    node = _parse_line(reader, nodes) if is_line else read_expression(reader, nodes)
    if not reader.is_done():
        raise reader.error(f"expected the end of the line, found {reader.peek()[1]!r}")
    return node


def _parse_line(reader: Reader, nodes: Mapping[str, UOp]) -> UOp:
    word = reader.take("word")
    op = Op.__members__.get(word)
    if op is None:
        raise reader.error(f"{word} is not an op", hint=_suggest(word))
    dtype = void
    if reader.peek()[0] == "word" and reader.peek(1) != ("sign", "("):
        spelling = reader.take("word")
        found = find_dtype(spelling)
        if found is None:
            raise reader.error(f"{spelling} is not a dtype", hint="write f32, i8, bool, index, or f32x4 for a vector")
        dtype = found
    src = read_operands(reader, nodes, op, dtype)
    values = reader.read_values("]") if reader.accept("[") else None
    return UOp(op, dtype, src, decode_arg(reader, op, dtype, values))


def _suggest(word: str) -> str | None:
    close = get_close_matches(word.upper(), Op.__members__, n=1)
    return f"did you mean {close[0]}?" if close else None
