"""Text as graphs: `parse_graph`."""

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
"""A line as it is printed, whose arg names no node."""

_Kinds: TypeAlias = dict[tuple[str, str | None], tuple[Op, DType, Any]]
"""What a node is besides its operands, by the text of op and dtype, and that of its arg."""


def parse_graph(text: str) -> UOp:
    """The graph whose text this is: `parse_graph(print_graph(node)) is node`.

    Raises:
        ParseError: with the number of the line that is wrong.
    """
    return parse_lines(text)[-1][1]


def parse_lines(text: str) -> list[tuple[str, UOp]]:
    """The name, empty where there is none, and the node of each line; `parse_graph` gives the last
    of them.
    """
    nodes: dict[str, UOp] = {}
    found: list[tuple[str, UOp]] = []
    kinds: _Kinds = {}
    for number, line in enumerate(text.splitlines(), start=1):
        printed = _PRINTED.fullmatch(line)
        node = None if printed is None else _find_known(printed, nodes, kinds)
        if printed is not None and node is not None:
            found.append((printed["name"], node))
            nodes[printed["name"]] = node
            continue
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
        if printed is not None:
            _remember(printed, found[-1][1], nodes, kinds)
    if not found:
        raise ParseError(
            line=0,
            text="",
            problem="the text holds no node",
            hint="write a line such as %0 = CONST f32 [1.0]",
        )
    return found


def _find_known(printed: re.Match[str], nodes: Mapping[str, UOp], kinds: _Kinds) -> UOp | None:
    """The node of a line that differs from an earlier one in names alone; None too where a name is
    wrong.
    """
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
    """Let `kinds` say what this line says besides names."""
    _, kind, operands, arg = printed.groups()
    names = [] if operands is None else operands.split(", ")
    # What was written by hand may have an operand that is no name.
    if len(names) == len(node.src) and all(
        nodes[name] is operand for name, operand in zip(names, node.src, strict=True)
    ):
        kinds[kind, arg] = node.op, node.dtype, node.arg


def _parse_node(reader: Reader, nodes: Mapping[str, UOp]) -> UOp:
    node = read_expression(reader, nodes)
    if not reader.is_done():
        raise reader.error(f"expected the end of the line, found {reader.peek()[1]!r}")
    return node
