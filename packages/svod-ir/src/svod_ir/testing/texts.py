"""Parsing of graphs that tests write as text, with access to their nodes."""

from __future__ import annotations

from svod_ir.text import parse_graph
from svod_ir.text.parser import parse_lines
from svod_ir.uop import UOp

__all__ = ["parse_graph", "parse_linear", "parse_nodes"]


def parse_nodes(text: str) -> dict[str, UOp]:
    """Parse a text to its nodes by name, without the percent sign: `parse_nodes("%x = ...")["x"]`.

    Raises:
        ParseError: with the number of the invalid line.
    """
    return {name.removeprefix("%"): node for name, node in parse_lines(text) if name}


def parse_linear(text: str) -> tuple[UOp, ...]:
    """Parse a text to all nodes in order, as a linear program.

    Raises:
        ParseError: with the number of the invalid line.
    """
    order: dict[UOp, None] = {}
    for _, line in parse_lines(text):
        order.update(dict.fromkeys(line.iter_toposort(order)))
    return tuple(order)
