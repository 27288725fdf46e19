"""Which lines of a program, inside which scopes, build the nodes of tensors: what profiles and
`explain` tell of a kernel.

    with scope("encoder"), scope("layer3"):     # kernels of what is built here are those of "encoder.layer3"
        x = layer(x)
    with track_origins():                       # lines alone
        y = x.softmax()

Each operation labels the nodes that it made (`svod_ir.origins`) with the line that called it, or
the layer that computes it: the innermost one outside svod. `svod_tensor.engine.kernel_origins`
finds the lines of each kernel."""

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

_OWN: Final = frozenset(
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
"""Its lines are not the program's either: the scope names the layer, and the line is the one that
calls it.
"""


@contextmanager
def track_origins() -> Generator[None]:
    """Remember, for what this thread builds inside the block, which line builds it.

    What a kernel was made from is then part of its profile, of the errors about it, and of
    `svod_tensor.explain`. The variable `SVOD_ORIGINS=1` tracks everything from the start.

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
    """Track what this thread builds inside the block, as part of `name`; the names of nested blocks
    are joined by dots.

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
    """Whether lines are remembered for what this thread builds now: inside `track_origins` or
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
    """Say that the line which called svod built `node`, and what below it has no origin; where
    lines are tracked.
    """
    name = current_scope.get()
    if name is not None and needs_origin(node):
        # `inspect.currentframe` does the same, but takes 4 ms to import.
        frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
        add_origin(node, _find_origin(frame, name))


def _find_origin(frame: FrameType | None, name: str) -> Origin | None:
    """The innermost line outside svod, and the operation on tensors that it led to."""
    operation = ""
    while frame is not None:
        module: str = frame.f_globals.get("__name__", "")
        package = module.partition(".")[0]
        if package in _OWN:
            operation = frame.f_code.co_name
        elif package != _LAYERS:
            code = frame.f_code
            return Origin(
                code.co_filename, frame.f_lineno, code.co_qualname, _spell(operation), name
            )
        frame = frame.f_back
    return None


def wrap(wrapper: Callable[P, R], function: Callable[P, R]) -> Callable[P, R]:
    """`wrapper` with the name and documentation of `function`, which it calls; in frames too, where
    operations are recognized.
    """
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
