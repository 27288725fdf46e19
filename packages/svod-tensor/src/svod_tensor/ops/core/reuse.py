"""Reuse of the graphs that composed operations build.

The graph of `x.softmax()` depends on the shape, dtype and placement of `x`, and not on its value.
The second call with equal ones records the graph on stand-ins for the operands; later calls build
its nodes from the record, without the function (`benchmarks/overheads.py` compares both).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, ParamSpec, TypeVar, cast

from svod_dtype import DType, default_float
from svod_ir import Op, UOp
from svod_ir.derivatives import make_traced
from svod_ir.graph_template import GraphTemplate
from svod_ir.loops import make_parameter
from svod_tensor._origins import wrap
from svod_tensor._scopes import leave_scope
from svod_tensor.cells import tables
from svod_tensor.cells.cell import Cell, View
from svod_tensor.engine.decompositions import DECOMPOSITIONS, CallKey
from svod_tensor.options import DEFAULT_DEVICE
from svod_tensor.tensor import Tensor

if TYPE_CHECKING:
    from svod_tensor.cells.views import Path

__all__ = ["Decomposition", "reuse_graph"]

P = ParamSpec("P")
R = TypeVar("R")


class Decomposition(NamedTuple):
    """The graph of an operation without its operands.

    Attributes:
        template: its roots are, for each result, the whole tensor, and the view if the result is one.
        paths: for each result, the path from the whole tensor to the view.
        collect: makes the tuple of several results; None if there is one result.
    """

    template: GraphTemplate
    paths: tuple[Path, ...]
    collect: Callable[[Sequence[Any]], Any] | None


_PLAIN: Final = frozenset({bool, int, str, type(None), DType})


def reuse_graph(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate an operation whose graph depends only on the shapes, dtypes and placements of its
    tensors, on its other arguments, and on the default float dtype.

    Calls that read the value of an argument are found, and run the function every time. Operations
    that draw random numbers or write do not qualify.
    """

    def build(*args: P.args, **kwargs: P.kwargs) -> R:
        operands: list[UOp] = []
        key = _make_key(function, args, kwargs, operands)
        if key is None:
            return function(*args, **kwargs)
        known = DECOMPOSITIONS.find(key)
        if known == "called":
            known = _record(function, args, kwargs) or "varies"
            DECOMPOSITIONS.replace(key, known)
        if isinstance(known, Decomposition):
            return cast("R", _make_results(known, operands))
        result = function(*args, **kwargs)
        if known is None:
            DECOMPOSITIONS.add(key, "called")
        return result

    return wrap(build, function)


def _make_key(
    function: Callable[..., object],
    args: tuple[object, ...],
    kwargs: dict[str, object],
    operands: list[UOp],
) -> CallKey | None:
    """The key of a call; None if its graph cannot be reused. Appends the nodes of its tensors to
    `operands`.
    """
    parts = _describe((*args, *kwargs.values()) if kwargs else args, operands)
    if parts is None:
        return None
    return function, default_float(), parts, tuple(kwargs) if kwargs else None


def _describe(values: Sequence[object], operands: list[UOp]) -> tuple[Hashable, ...] | None:
    parts: list[Hashable] = [values.__class__]
    for value in values:
        kind = value.__class__
        if kind is Tensor:
            node = cast("Tensor", value).uop
            placement = node.placement
            # The graph of complex numbers depends on how their parts are stored, that of shards on
            # each shard; a constant, which has no placement, is folded.
            if placement.__class__ is not str or node.dtype.is_complex:
                return None
            shape = node.shape
            for size in shape:
                if size.__class__ is not int:
                    # Each value of a variable would have an entry of its own.
                    return None
            operands.append(node)
            parts.append((shape, node.dtype, placement))
        elif kind in _PLAIN:
            # True and 1 are equal, but not the same argument.
            parts.append((kind, value))
        elif kind is float and value == value:
            parts.append((kind, value, math.copysign(1.0, cast("float", value))))
        elif kind is tuple or kind is list:
            inner = _describe(cast("Sequence[object]", value), operands)
            if inner is None:
                return None
            parts.append(inner)
        else:
            return None
    return tuple(parts)


def _record(
    function: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]
) -> Decomposition | None:
    """Call an operation on stand-ins for its operands, and record the graph of its result."""
    inputs: list[Tensor] = []
    try:
        with leave_scope():
            # Not `f(*map(...), **...)`, which would replace the keyword arguments first.
            positional = [_replace(value, inputs) for value in args]
            named = {name: _replace(value, inputs) for name, value in kwargs.items()}
            result = function(*positional, **named)
    except Exception:
        # It reads an argument, such as an axis or a mask, and stand-ins have no memory. If the call is
        # invalid, the function itself, which is called next, raises the error.
        return None
    results = cast("tuple[Any, ...]", result if isinstance(result, tuple) else (result,))
    if any(value.__class__ is not Tensor for value in results):
        return None
    contents: list[Cell | View] = [value.content for value in results]
    cells = [content.cell for content in (*[x.content for x in inputs], *contents)]
    if len(set(cells)) < len(cells):
        # A result is an operand, or a view of one or of another result, and shares its memory.
        return None
    roots: list[UOp] = []
    for content in contents:
        roots += [content.cell.node, content.node] if content.path else [content.node]
    nodes = [stand_in.uop for stand_in in inputs]
    template = None if _copies_an_input(roots, nodes) else GraphTemplate.record(roots, nodes)
    if template is None:
        return None
    collect = getattr(results, "_make", tuple) if results is result else None
    return Decomposition(template, tuple([content.path for content in contents]), collect)


def _replace(value: Any, inputs: list[Tensor]) -> Any:
    """An argument with stand-ins for its tensors, which are appended to `inputs`."""
    if value.__class__ is Tensor:
        # A parameter has no known bounds; a TRACED node merges with none of its readers.
        node = make_traced(make_parameter(value.uop, len(inputs)))
        inputs.append(Tensor.from_uop(node))
        return inputs[-1]
    if isinstance(value, (tuple, list)):
        items: list[Any] = [_replace(item, inputs) for item in cast("Sequence[Any]", value)]
        return tuple(items) if isinstance(value, tuple) else items
    return value


def _copies_an_input(roots: Sequence[UOp], inputs: Sequence[UOp]) -> bool:
    """Whether an input is made contiguous, which is a copy only if the input is not memory."""
    for node in UOp.sink(*roots).iter_ops(Op.CONTIGUOUS):
        source = node.source
        while source.op is Op.RESHAPE:
            source = source.source
        if source in inputs:
            return True
    return False


def _make_results(known: Decomposition, operands: list[UOp]) -> object:
    roots = iter(known.template.build(operands))
    # The function would have made a cell for nearly every node.
    tables.count_nodes(len(known.template.steps))
    results: list[Tensor] = []
    for path in known.paths:
        root = next(roots)
        cell = Cell(root, (root.shape, root.dtype, root.placement or DEFAULT_DEVICE))
        content = View(cell, path, root, next(roots)) if path else cell
        results.append(Tensor.from_content(content))
    return results[0] if known.collect is None else known.collect(results)
