"""Which lines of a program, inside which scopes, build the nodes of tensors: what profiles and `explain` tell of a kernel.

    with scope("encoder"), scope("layer3"):     # kernels of what is built here are those of "encoder.layer3"
        x = layer(x)
    with track_origins():                       # lines alone
        y = x.softmax()

Each operation labels the nodes that it made (`svod_ir.origins`) with the line that called it: the innermost one outside
svod. A compilation labels each node of a normalised graph with its number there, and so learns which
nodes each kernel computes. That is cached with the schedule, and equal graphs that other lines built find their own.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import update_wrapper
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar

from svod_ir.ops import MOVEMENT, Op
from svod_ir.origins import Labels, Origin, add_origin, find_labels, find_origins, has_origins, needs_origin
from svod_tensor.options import read_origins

if TYPE_CHECKING:
    from svod_ir.uop import UOp
    from svod_tensor.engine.preschedule import PreSchedule

__all__ = [
    "add_line",
    "collect_lines",
    "current_scope",
    "find_computed",
    "find_kernel_origins",
    "number_nodes",
    "scope",
    "track_origins",
    "wrap",
]

P = ParamSpec("P")
R = TypeVar("R")

_OWN: Final = frozenset(
    {"svod_dtype", "svod_ir", "svod_schedule", "svod_device", "svod_codegen", "svod_runtime", "svod_tensor"}
)

_CONVERSIONS: Final = frozenset({Op.CAST, Op.BITCAST, Op.COPY})

# None where lines are not tracked, "" outside all scopes.
current_scope: Final = ContextVar[str | None]("current_scope", default="" if read_origins() else None)


@contextmanager
def track_origins() -> Generator[None]:
    """Remember, for what this thread builds inside the block, which line builds it.

    What a kernel was made from is then part of its profile, of the errors about it, and of `svod_tensor.explain`. The
    variable `SVOD_ORIGINS=1` tracks everything from the start.

    Example:
        >>> from svod_tensor import Tensor, track_origins
        >>> with track_origins():
        ...     y = Tensor([1.0, 2.0]).softmax()
        >>> [profile] = y.prepare().execute_profiled()
        >>> [origin.operation for origin in profile.origins]
        ['softmax']
    """
    with _enter(current_scope.get() or ""):
        yield


@contextmanager
def scope(name: str) -> Generator[None]:
    """Track what this thread builds inside the block, as part of `name`; the names of nested blocks are joined by dots.

    Example:
        >>> from svod_tensor import Tensor, scope
        >>> with scope("encoder"), scope("layer3"):
        ...     y = Tensor([1.0, 2.0]).softmax()
        >>> [profile] = y.prepare().execute_profiled()
        >>> [origin.scope for origin in profile.origins]
        ['encoder.layer3']
    """
    outer = current_scope.get()
    with _enter(f"{outer}.{name}" if outer else name):
        yield


@contextmanager
def _enter(name: str) -> Generator[None]:
    if current_scope.get() is None:
        _skip_older()
    token = current_scope.set(name)
    try:
        yield
    finally:
        current_scope.reset(token)


def _skip_older() -> None:
    """Leave what was built before tracking began without a line: its readers did not build it."""
    from svod_tensor.cells import registry

    for one in registry.iter_live():
        add_origin(one.node, None)


def add_line(node: UOp) -> None:
    """Say that the line which called svod built `node`, and what below it has no origin; where lines are tracked."""
    name = current_scope.get()
    if name is not None and needs_origin(node):
        # `inspect.currentframe` does the same, but takes 4 ms to import.
        frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
        add_origin(node, _find_origin(frame, name))


def _find_origin(frame: FrameType | None, name: str) -> Origin | None:
    """The innermost line outside svod, and the function of svod that it called."""
    operation = ""
    while frame is not None:
        module: str = frame.f_globals.get("__name__", "")
        if module.partition(".")[0] not in _OWN:
            code = frame.f_code
            return Origin(code.co_filename, frame.f_lineno, code.co_qualname, _spell(operation), name)
        operation = frame.f_code.co_name
        frame = frame.f_back
    return None


def wrap(wrapper: Callable[P, R], function: Callable[P, R]) -> Callable[P, R]:
    """`wrapper` with the name and documentation of `function`, which it calls; in frames too, where operations are recognized."""
    update_wrapper(wrapper, function)
    code: CodeType = wrapper.__code__  # pyright: ignore[reportFunctionMemberAccess]
    wrapper.__code__ = code.replace(co_name=function.__name__, co_qualname=function.__qualname__)  # pyright: ignore[reportFunctionMemberAccess]
    return wrapper


def _spell(function: str) -> str:
    """`__radd__` -> `add`, `__init__` -> `Tensor`."""
    if function == "__init__":
        return "Tensor"
    if not (function.startswith("__") and function.endswith("__")):
        return function
    name = function[2:-2]
    return name[1:] if name[0] == "r" and hasattr(operator, f"__{name[1:]}__") else name


def collect_lines(images: Mapping[UOp, UOp]) -> dict[UOp, frozenset[Origin]]:
    """The origins of the keys, by value; nothing at all where no node has any."""
    if not has_origins():
        return {}
    lines: dict[UOp, frozenset[Origin]] = {}
    for node, image in images.items():
        found = find_origins(node)
        if found:
            lines[image] = lines[image] | found if image in lines else found
    return lines


def number_nodes(graph: UOp) -> Labels:
    """Labels that say which nodes of `graph` something was made from, for `find_computed`."""
    return {node: frozenset((number,)) for number, node in enumerate(graph.toposort()) if node.src}


def find_computed(call: UOp) -> tuple[int, ...]:
    """The nodes that a CALL computes, by their number in the graph; none where that is not recorded."""
    return tuple(sorted(label for label in find_labels(call) if isinstance(label, int)))


def find_kernel_origins(
    pre: PreSchedule, graph: UOp, lines: Mapping[UOp, frozenset[Origin]]
) -> dict[int, tuple[Origin, ...]]:
    """For each item of a schedule the lines that built what it computes, in the order of the graph."""
    if not lines:
        return {}
    nodes = graph.toposort()
    return {item.id: _find_lines([nodes[number] for number in item.computed], lines) for item in pre.items}


def _find_lines(nodes: Sequence[UOp], lines: Mapping[UOp, frozenset[Origin]]) -> tuple[Origin, ...]:
    """The lines of what is computed; those of movement and constants only where there is nothing else."""
    return _join(filter(_is_computed, nodes), lines) or _join(nodes, lines)


def _join(nodes: Iterable[UOp], lines: Mapping[UOp, frozenset[Origin]]) -> tuple[Origin, ...]:
    return tuple(dict.fromkeys(origin for node in nodes for origin in sorted(lines.get(node, ()))))


def _is_computed(node: UOp) -> bool:
    """Whether a node is more than a view. A view may be shared by many lines, as the constants are that they write."""
    if node.op in _CONVERSIONS:
        while node.op in MOVEMENT or node.op in _CONVERSIONS:
            node = node.src[0]
        return node.op is not Op.CONST
    return node.op is Op.PAD or node.op not in MOVEMENT
