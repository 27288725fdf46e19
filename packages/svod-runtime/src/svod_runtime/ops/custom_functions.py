"""Custom functions: Python callables that a plan runs between kernels, registered by kind.

A function may also have a native form, which plans run as kernels (`native_functions`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from svod_device import BatchLauncher, Buffer, Program
from svod_ir import UOp
from svod_ir.forks import hold_across_fork
from svod_runtime.errors import UnsupportedError

__all__ = [
    "BoundProgram",
    "CustomFunction",
    "FindNativeCall",
    "NativeCall",
    "clear_custom_functions",
    "find_native_call",
    "get_custom_function",
    "register_custom_function",
    "register_native_function",
]

CustomFunction = Callable[[Sequence[Buffer], Mapping[str, int], Sequence[UOp]], None]
"""Signature of a custom function: buffers, variable values, and operands of the IR node.

It may write any of the buffers.
"""


class BoundProgram(Program, Protocol):
    """Program with the values of its only variables, such as the address of its arguments."""

    @property
    def values(self) -> Sequence[int]:
        """The values of each launch."""
        ...


class NativeCall(NamedTuple):
    """Programs of a call of a custom function, on its output and first inputs.

    Attributes:
        start: fills the output, or starts to.
        wait: returns when the output is filled; None if `start` does.
        n_inputs: number of arrays that they read. Further arrays only order the call after others.
        launcher: the batch launcher that runs them, if there is one.
        blocking: fills the output; a faster alternative to `start` where nothing runs before `wait`,
            which is then called all the same.
    """

    start: BoundProgram
    wait: BoundProgram | None
    n_inputs: int
    launcher: BatchLauncher | None = None
    blocking: BoundProgram | None = None


FindNativeCall = Callable[[Sequence[UOp]], NativeCall | None]
"""Finds the programs of a call by the operands of its IR node; None if Python has to run it."""

_functions: Final[dict[str, CustomFunction]] = {}
_native: Final[dict[str, FindNativeCall]] = {}
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


def register_native_function(kind: str, find: FindNativeCall) -> None:
    """Register the native form of custom functions of this kind, for plans that are built later.

    Args:
        kind: kind of the custom function, which also has to be registered for calls without a native
            form.
        find: called once for each call of a plan's template. Executions of the template's plans
            share the programs, and must not overlap if these keep a state.

    Example:
        Copies of 16 bytes, by the C library:

        >>> import ctypes
        >>> import numpy as np
        >>> from svod_codegen.c_functions import BufferAt, CFunction
        >>> from svod_device import Buffer, get_allocator
        >>> from svod_dtype import float32
        >>> from svod_runtime import BoundProgram, ExecutionPlanBuilder, FindNativeCall, NativeCall
        >>> from svod_runtime import PreparedCustomFunction, register_custom_function, register_native_function
        >>> address = ctypes.cast(ctypes.CDLL(None).memcpy, ctypes.c_void_p).value
        >>> program: BoundProgram = CFunction("memcpy", address, [BufferAt(0), BufferAt(1), 16])
        >>> find: FindNativeCall = lambda operands: NativeCall(program, wait=None, n_inputs=1)
        >>> register_custom_function("copy", lambda buffers, values, operands: None)
        >>> register_native_function("copy", find)
        >>> builder = ExecutionPlanBuilder("CPU")
        >>> out, x = (builder.add_buffer(i, Buffer(get_allocator("CPU"), float32, 4)) for i in (10, 11))
        >>> _ = builder.add_op(PreparedCustomFunction(id=1, kind="copy", buffer_indices=(out, x)))
        >>> builder.set_output_buffer(out)
        >>> plan = builder.build()
        >>> plan.buffer(11).copyin(np.arange(4, dtype=np.float32))
        >>> plan.execute()
        >>> plan.output_buffer.as_numpy().tolist(), plan.kernels()[0].kernel.name
        ([0.0, 1.0, 2.0, 3.0], 'memcpy')
    """
    with _lock:
        _native[kind] = find


def find_native_call(kind: str, operands: Sequence[UOp]) -> NativeCall | None:
    """Find the native form of a call, if it has one."""
    find = _native.get(kind)
    return None if find is None else find(operands)


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
        _native.clear()
