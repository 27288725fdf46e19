"""Text as graphs: `parse_graph`."""

from __future__ import annotations

from collections.abc import Mapping

from svod_ir.errors import ParseError
from svod_ir.ops import Op
from svod_ir.text.nodes import read_expression
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
    node = read_expression(reader, nodes)
    if not reader.is_done():
        raise reader.error(f"expected the end of the line, found {reader.peek()[1]!r}")
    return node
