"""Bodies of LOOPs and SWITCHes: graphs of their own, which `toposort` does not enter."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from svod_ir.args import SwitchArg
from svod_ir.ops import Op
from svod_ir.uop import UOp

__all__ = ["get_bodies", "iter_nodes", "map_bodies"]

_BODIES: Final = frozenset({Op.LOOP, Op.SWITCH})


def get_bodies(node: UOp) -> tuple[UOp, ...]:
    """The bodies of a LOOP or SWITCH; none for any other node."""
    if node.op not in _BODIES:
        return ()
    return node.arg.bodies if node.op is Op.SWITCH else (node.arg.body,)


def iter_nodes(root: UOp) -> Iterator[UOp]:
    """Iterate over the nodes of a graph and of all bodies in it, operands first in each graph."""
    for node in root.toposort():
        for body in get_bodies(node):
            yield from iter_nodes(body)
        yield node


def map_bodies(node: UOp, change: Callable[[UOp], UOp]) -> UOp:
    """Copy of a LOOP or SWITCH with `change` applied to its bodies."""
    if node.op is Op.SWITCH:
        return node.with_arg(SwitchArg(tuple(map(change, node.arg.bodies))))
    return node.with_arg(node.arg._replace(body=change(node.arg.body)))
