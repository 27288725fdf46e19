"""Custom functions: Python callables that a plan runs between kernels, registered by kind."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from svod_device import Buffer
from svod_ir import UOp
from svod_ir.forks import hold_across_fork
from svod_runtime.errors import UnsupportedError

__all__ = [
    "CustomFunction",
    "clear_custom_functions",
    "get_custom_function",
    "register_custom_function",
]

CustomFunction = Callable[[Sequence[Buffer], Mapping[str, int], Sequence[UOp]], None]
"""Signature of a custom function: buffers, variable values, and operands of the IR node.

It may write any of the buffers.
"""

_functions: Final[dict[str, CustomFunction]] = {}
_built_in: Final[dict[str, CustomFunction]] = {}
_lock: Final = hold_across_fork(threading.RLock())


def register_custom_function(
    kind: str, function: CustomFunction, *, is_built_in: bool = False
) -> None:
    """Register `function` for custom functions of this kind; a built-in one is never cleared."""
    # Reads take no lock: a dict lookup is atomic, and writers are rare.
    with _lock:
        (_built_in if is_built_in else _functions)[kind] = function


def get_custom_function(kind: str) -> CustomFunction:
    """Return the function of this kind.

    Raises:
        UnsupportedError: if no function is registered.
    """
    function = _functions.get(kind) or _built_in.get(kind)
    if function is None:
        raise UnsupportedError(kind=kind, known=sorted(_functions))
    return function


def clear_custom_functions() -> None:
    """Clear all registered custom functions except built-in ones, for tests.

    Example:
        >>> from svod_runtime import clear_custom_functions, register_custom_function
        >>> from svod_runtime.ops.custom_functions import get_custom_function
        >>> register_custom_function("nothing", lambda buffers, variables, attrs: None)
        >>> clear_custom_functions()
        >>> get_custom_function("nothing")
        Traceback (most recent call last):
            ...
        svod_runtime.errors.UnsupportedError: ...
    """
    with _lock:
        _functions.clear()
