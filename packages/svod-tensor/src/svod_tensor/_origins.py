"""Origins of nodes: the source lines and scopes that build them, shown for kernels in profiles and
by `explain`.

    with scope("encoder"), scope("layer3"):     # kernels built here belong to "encoder.layer3"
        x = layer(x)
    with track_origins():                       # lines only
        y = x.softmax()

Each operation labels its new nodes (`svod_ir.origins`) with the innermost line outside svod that
called it, or the line that called the layer. `svod_tensor.engine.kernel_origins` finds the lines of
each kernel."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import update_wrapper
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar

from svod_ir.origins import Origin, add_origin, needs_origin
from svod_tensor._scopes import current_scope

if TYPE_CHECKING:
    from svod_ir import UOp

__all__ = [
    "add_line",
    "is_tracking_origins",
    "scope",
    "track_origins",
    "wrap",
]

P = ParamSpec("P")
R = TypeVar("R")

_OWN_PACKAGES: Final = frozenset(
    {
        "svod_dtype",
        "svod_ir",
        "svod_schedule",
        "svod_device",
        "svod_codegen",
        "svod_runtime",
        "svod_tensor",
    }
)
_LAYERS: Final = "svod_nn"
"""Package whose lines are skipped too: the scope names the layer, and the line is its caller's."""


@contextmanager
def track_origins() -> Generator[None]:
    """Record the source line of each node that this thread builds in the block.

    The lines of a kernel are then part of its profile, of errors about it, and of
    `svod_tensor.explain`. The variable `SVOD_ORIGINS=1` enables tracking from the start.

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
    """Track the nodes that this thread builds in the block as part of `name`; names of nested
    scopes are joined by dots.

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


def is_tracking_origins() -> bool:
    """Whether lines are recorded for nodes that this thread builds now: inside `track_origins` or
    `scope`, or with `SVOD_ORIGINS=1`.

    Example:
        >>> from svod_tensor import is_tracking_origins, track_origins
        >>> with track_origins():
        ...     is_tracking_origins()
        True
    """
    return current_scope.get() is not None


@contextmanager
def _enter(name: str) -> Generator[None]:
    if current_scope.get() is None:
        # Only the outermost block: in a nested one these nodes are marked already.
        _skip_existing_nodes()
    token = current_scope.set(name)
    try:
        yield
    finally:
        current_scope.reset(token)


def _skip_existing_nodes() -> None:
    """Mark nodes from before tracking began as having no line: their readers did not build them."""
    from svod_tensor.cells import registry

    for tensor in registry.iter_live():
        add_origin(tensor.node, None)


def add_line(node: UOp) -> None:
    """Record the line that called svod as the origin of `node`, and of its sources without an
    origin, if lines are tracked.
    """
    name = current_scope.get()
    if name is not None and needs_origin(node):
        # `inspect.currentframe` does the same, but takes 4 ms to import.
        frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
        add_origin(node, _find_origin(frame, name))


def _find_origin(frame: FrameType | None, name: str) -> Origin | None:
    """The innermost line outside svod, and the tensor operation that it called."""
    operation = ""
    while frame is not None:
        module: str = frame.f_globals.get("__name__", "")
        package = module.partition(".")[0]
        if package in _OWN_PACKAGES:
            operation = frame.f_code.co_name
        elif package != _LAYERS:
            code = frame.f_code
            return Origin(
                code.co_filename,
                frame.f_lineno,
                code.co_qualname,
                _get_operation_name(operation),
                name,
            )
        frame = frame.f_back
    return None


def wrap(wrapper: Callable[P, R], function: Callable[P, R]) -> Callable[P, R]:
    """`wrapper` with the name and documentation of `function`, in stack frames too, where
    operations are recognized.
    """
    update_wrapper(wrapper, function)
    code: CodeType = wrapper.__code__  # pyright: ignore[reportFunctionMemberAccess]
    wrapper.__code__ = code.replace(co_name=function.__name__, co_qualname=function.__qualname__)  # pyright: ignore[reportFunctionMemberAccess]
    return wrapper


def _get_operation_name(function: str) -> str:
    """`__radd__` -> `add`, `__init__` -> `Tensor`."""
    if function == "__init__":
        return "Tensor"
    if not (function.startswith("__") and function.endswith("__")):
        return function
    name = function[2:-2]
    return name[1:] if name[0] == "r" and hasattr(operator, f"__{name[1:]}__") else name
