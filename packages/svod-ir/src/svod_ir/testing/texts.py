"""Graphs that tests write as text, and the nodes of them that tests speak about."""

from __future__ import annotations

from svod_ir.text import parse_graph
from svod_ir.text.parser import parse_lines
from svod_ir.uop import UOp

__all__ = ["parse_graph", "parse_linear", "parse_nodes"]


def parse_nodes(text: str) -> dict[str, UOp]:
    """The nodes of a text by their names, without the sign before them: `parse_nodes("%x =
    ...")["x"]`.

    Raises:
        ParseError: with the number of the line that is wrong.
    """
    return {name.removeprefix("%"): node for name, node in parse_lines(text) if name}


def parse_linear(text: str) -> tuple[UOp, ...]:
    """All nodes of a text in the order in which they are written, as a linear program.

    Raises:
        ParseError: with the number of the line that is wrong.
    """
    order: dict[UOp, None] = {}
    for _, line in parse_lines(text):
        order.update(dict.fromkeys(line.iter_toposort(order)))
    return tuple(order)
