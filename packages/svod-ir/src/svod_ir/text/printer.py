"""Graphs as text: `print_graph`, and args by themselves."""

from __future__ import annotations

import hashlib
import json
import math
import struct
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from itertools import islice
from typing import Final, cast

from svod_dtype import DType, void
from svod_ir.args import BufferizeArg, GradientRule, KernelInfo, LoopArg, Mark, Opt, ParamArg
from svod_ir.errors import GraphError
from svod_ir.loops import get_bodies
from svod_ir.ops import Op
from svod_ir.target import TensorCore
from svod_ir.uop import UOp, defines

__all__ = ["format_arg", "format_top", "format_value", "hash_node", "print_graph"]


def print_graph(node: UOp, limit: int | None = None) -> str:
    """The text of a graph; with `limit`, only its first lines and a comment that there are more."""
    lines = _iter_lines(node)
    if limit is None:
        return "\n".join(lines) + "\n"
    found = list(islice(lines, limit + 1))
    return "\n".join(found[:limit] + ["# ..."] * (len(found) > limit)) + "\n"


def format_arg(node: UOp) -> str:
    """`arg` as it stands between the brackets: the same in every process, and empty for None. A
    body is its content hash.

    Raises:
        GraphError: if the arg holds an object without a text form.

    Example:
        >>> format_arg(UOp.variable("n", 1, 8)), format_arg(UOp.variable("n", 1, 8) + 1)
        ('"n", 1, 8', '')
    """
    if node.arg is None:
        return ""
    return format_top(node, _refuse(node))


@defines("_hash")
def hash_node(node: UOp) -> str:
    """The content hash of a node whose operands have theirs."""
    parts = [node.op.name, node.dtype.short, format_arg(node), *(s.content_hash for s in node.src)]
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=16).hexdigest()


def format_top(node: UOp, fallback: Callable[[object], str]) -> str:
    """What stands between the brackets for a node with an arg; `fallback` spells a value that has
    no text form.
    """
    arg = node.arg
    if node.op is Op.CONST and node.dtype.is_float:
        return format_value(float(arg), fallback)
    if node.op is Op.VCONST and node.dtype.is_float:
        arg = tuple(float(v) for v in arg)
    if isinstance(arg, tuple):
        return ", ".join(format_value(v, fallback) for v in _trim(cast("tuple[object, ...]", arg)))
    if isinstance(arg, TensorCore):
        return ", ".join(format_value(value, fallback) for value in _core_values(arg))
    return format_value(arg, fallback)


def format_value(value: object, fallback: Callable[[object], str]) -> str:
    """One value of an arg; `fallback` spells what has no text form."""
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
            return f"{value.op.value}({', '.join(format_value(v, fallback) for v in (value.axis, value.amount)[:last])})"
        case tuple():
            values = cast("tuple[object, ...]", value)
            inner = ", ".join(format_value(v, fallback) for v in values)
            return f"({inner},)" if len(values) == 1 else f"({inner})"
        case Enum():
            return value.name
        case DType():
            return value.short
        case GradientRule():
            return json.dumps(value.name)
        case Mark():
            return str(value.number)
        case _:
            return fallback(value)


def _iter_lines(root: UOp) -> Iterator[str]:
    names: dict[UOp, str] = {}
    for node in _iter_nodes(root, names):
        names[node] = f"%{len(names)}"
        parts = [names[node], "=", node.op.name]
        if node.dtype is not void:
            parts.append(node.dtype.short)
        if node.src:
            parts.append(", ".join(names[s] for s in node.src))
        if node.arg is not None:
            parts.append(f"[{format_top(node, lambda value: _name(names, value))}]")
        yield " ".join(parts)


def _iter_nodes(root: UOp, names: Mapping[UOp, str]) -> Iterator[UOp]:
    """The nodes without a name, operands and bodies first."""
    for node in root.iter_toposort():
        if node not in names:
            for body in get_bodies(node):
                yield from _iter_nodes(body, names)
            yield node


def _name(names: Mapping[UOp, str], value: object) -> str:
    return names[value] if isinstance(value, UOp) else f"<{value!r}>"


def _refuse(node: UOp) -> Callable[[object], str]:
    def refuse(value: object) -> str:
        if isinstance(value, UOp):
            return value.content_hash
        raise GraphError(
            rule=f"an arg consists of values with a text form, not {type(value).__name__}",
            node=node,
        )

    return refuse


def _trim(arg: tuple[object, ...]) -> tuple[object, ...]:
    # Optional last fields are left out where they have their defaults.
    if isinstance(arg, (ParamArg, KernelInfo)) and arg[-1] is None:
        return arg[:-1]
    if isinstance(arg, BufferizeArg) and not arg.number:
        return arg[:-1]
    if isinstance(arg, LoopArg):
        n_given = len(arg)
        while (
            n_given > 2
            and arg[n_given - 1] == LoopArg._field_defaults[LoopArg._fields[n_given - 1]]
        ):
            n_given -= 1
        return arg[:n_given]
    return arg


def _core_values(core: TensorCore) -> list[object]:
    given: list[object] = [core.dims, core.group, core.dtypes, core.cycles, core.tiles]
    while given[-1] == _CORE_DEFAULTS.get(len(given)):
        given.pop()
    return given


_CORE_DEFAULTS: Final = {4: 1.0, 5: 0}
"""By how many fields there are with it."""


_NAN_BITS: Final = struct.pack(">d", math.nan)


def _format_float(value: float) -> str:
    # repr gives the shortest digits that read back exactly, and -0.0, inf and -inf.
    bits = struct.pack(">d", value)
    return repr(value) if not math.isnan(value) or bits == _NAN_BITS else f"nan:{bits.hex()}"
