"""Printer of graphs, `print_graph`, and of args."""

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
    """Print a graph; with `limit`, only its first lines, and a comment if there are more."""
    lines = _iter_lines(node)
    if limit is None:
        return "\n".join(lines) + "\n"
    # One line more than shown tells whether there are others, without a walk over the whole graph.
    shown = list(islice(lines, limit + 1))
    return "\n".join(shown[:limit] + ["# ..."] * (len(shown) > limit)) + "\n"


def format_arg(node: UOp) -> str:
    """Format a node's `arg` as the text form has it in brackets; empty for None.

    The text is the same in every process. Bodies of loops are replaced by their content hashes.

    Raises:
        GraphError: if the arg holds an object without a text form.

    Example:
        >>> from svod_ir import UOp
        >>> from svod_ir.text import format_arg
        >>> format_arg(UOp.variable("n", 1, 8)), format_arg(UOp.variable("n", 1, 8) + 1)
        ('"n", 1, 8', '')
    """
    if node.arg is None:
        return ""
    return format_top(node, _make_fallback(node))


@defines("_hash")
def hash_node(node: UOp) -> str:
    """The content hash of a node, from the hashes of its operands."""
    # "\0" occurs in no field, so different fields cannot yield the same text.
    fields = [node.op.name, node.dtype.short, format_arg(node), *(s.content_hash for s in node.src)]
    # 128 bits, since equal hashes are taken for equal graphs without a comparison.
    return hashlib.blake2b("\0".join(fields).encode(), digest_size=16).hexdigest()


def format_top(node: UOp, fallback: Callable[[object], str]) -> str:
    """Format the text between the brackets; `fallback` formats values without a text form."""
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
    """Format one value of an arg; `fallback` formats values without a text form."""
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
        fields = [names[node], "=", node.op.name]
        if node.dtype is not void:
            fields.append(node.dtype.short)
        if node.src:
            fields.append(", ".join(names[s] for s in node.src))
        if node.arg is not None:
            fields.append(f"[{format_top(node, lambda value: _name(names, value))}]")
        yield " ".join(fields)


def _iter_nodes(root: UOp, names: Mapping[UOp, str]) -> Iterator[UOp]:
    """Iterate over the nodes that have no name yet, operands and bodies first."""
    for node in root.iter_toposort():
        if node not in names:
            for body in get_bodies(node):
                yield from _iter_nodes(body, names)
            yield node


def _name(names: Mapping[UOp, str], value: object) -> str:
    return names[value] if isinstance(value, UOp) else f"<{value!r}>"


def _make_fallback(node: UOp) -> Callable[[object], str]:
    def hash_or_raise(value: object) -> str:
        if isinstance(value, UOp):
            return value.content_hash
        raise GraphError(
            rule=f"an arg consists of values with a text form, not {type(value).__name__}",
            node=node,
        )

    return hash_or_raise


def _trim(arg: tuple[object, ...]) -> tuple[object, ...]:
    # Trailing optional fields with default values are omitted.
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
    values: list[object] = [core.dims, core.group, core.dtypes, core.cycles, core.tiles]
    while values[-1] == _CORE_DEFAULTS.get(len(values)):
        values.pop()
    return values


_CORE_DEFAULTS: Final = {4: 1.0, 5: 0}
"""Defaults of trailing fields, by the number of fields up to and including them."""


_NAN_BITS: Final = struct.pack(">d", math.nan)


def _format_float(value: float) -> str:
    # repr returns the shortest digits that read back exactly, and -0.0, inf and -inf.
    bits = struct.pack(">d", value)
    return repr(value) if not math.isnan(value) or bits == _NAN_BITS else f"nan:{bits.hex()}"
