"""Parser of graphs: `parse_graph`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from svod_dtype import DType
from svod_ir.errors import ParseError
from svod_ir.ops import Op
from svod_ir.text.nodes import read_expression
from svod_ir.text.reader import Reader
from svod_ir.uop import UOp

__all__ = ["parse_graph", "parse_lines"]

_PRINTED: Final = re.compile(
    r"(?P<name>%\w+) = (?P<kind>[A-Z]\w*(?: [a-z]\w*)?)(?: (?P<operands>%\w+(?:, %\w+)*))?(?:"
    r" (?P<arg>\[[^%]*\]))?"
)
"""A printed line whose arg contains no node."""

_Kinds: TypeAlias = dict[tuple[str, str | None], tuple[Op, DType, Any]]
"""Op, dtype and arg of parsed lines, by the text of op and dtype and the text of the arg."""


def parse_graph(text: str) -> UOp:
    """Parse a graph: `parse_graph(print_graph(node)) is node`.

    Raises:
        ParseError: with the number of the invalid line.
    """
    return parse_lines(text)[-1][1]


def parse_lines(text: str) -> list[tuple[str, UOp]]:
    """Parse each line to its name (empty if it has none) and node; the last one is the graph."""
    nodes: dict[str, UOp] = {}
    parsed: list[tuple[str, UOp]] = []
    kinds: _Kinds = {}
    for line_number, line in enumerate(text.splitlines(), start=1):
        printed = _PRINTED.fullmatch(line)
        # Most lines of a printed graph differ from an earlier one only in names, and need no
        # tokens.
        node = None if printed is None else _find_known(printed, nodes, kinds)
        if printed is not None and node is not None:
            parsed.append((printed["name"], node))
            nodes[printed["name"]] = node
            continue
        reader = Reader(line_number, line)
        if reader.is_done():
            continue
        name = "" if reader.peek()[1] in Op.__members__ else reader.take("name")
        if name in nodes:
            raise reader.error(f"{name} is defined twice")
        if name:
            reader.expect("=")
        parsed.append((name, _parse_node(reader, nodes)))
        if name:
            nodes[name] = parsed[-1][1]
        if printed is not None:
            _remember(printed, parsed[-1][1], nodes, kinds)
    if not parsed:
        raise ParseError(
            line=0,
            text="",
            problem="the text holds no node",
            hint="write a line such as %0 = CONST f32 [1.0]",
        )
    return parsed


def _find_known(printed: re.Match[str], nodes: Mapping[str, UOp], kinds: _Kinds) -> UOp | None:
    """The node of a line that differs from an earlier one only in names; None if a name is invalid."""
    name, kind, operands, arg = printed.groups()
    known = kinds.get((kind, arg))
    if known is None or name in nodes:
        return None
    try:
        src = (
            () if operands is None else tuple([nodes[operand] for operand in operands.split(", ")])
        )
    except KeyError:
        return None
    return UOp(known[0], known[1], src, known[2])


def _remember(printed: re.Match[str], node: UOp, nodes: Mapping[str, UOp], kinds: _Kinds) -> None:
    """Add a line's op, dtype and arg to `kinds`."""
    _, kind, operands, arg = printed.groups()
    names = [] if operands is None else operands.split(", ")
    # Hand-written lines may have operands that are not names.
    if len(names) == len(node.src) and all(
        nodes[name] is operand for name, operand in zip(names, node.src, strict=True)
    ):
        kinds[kind, arg] = node.op, node.dtype, node.arg


def _parse_node(reader: Reader, nodes: Mapping[str, UOp]) -> UOp:
    node = read_expression(reader, nodes)
    if not reader.is_done():
        raise reader.error(f"expected the end of the line, found {reader.peek()[1]!r}")
    return node
