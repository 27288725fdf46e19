"""C functions as programs, so that plans call them between kernels without Python.

Example:
    `memcpy` of the C library as a kernel of two buffers:

    >>> import ctypes
    >>> from array import array
    >>> from svod_codegen.c_functions import MAX_ARGUMENTS, BufferAt, CFunction
    >>> memcpy = ctypes.cast(ctypes.CDLL(None).memcpy, ctypes.c_void_p).value
    >>> program = CFunction("copy", memcpy, [BufferAt(0), BufferAt(1), 16])
    >>> to, source = array("q", [0, 0]), array("q", [3, 4])
    >>> program([a.buffer_info()[0] for a in (to, source)], program.values, (1, 1, 1))
    >>> to.tolist()
    [3, 4]
    >>> MAX_ARGUMENTS
    10
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

from _cffi_backend import FFI

from svod_codegen._loader import load_internal
from svod_codegen.launcher.program import CpuProgram

if TYPE_CHECKING:
    from collections.abc import Sequence

    from svod_codegen._loader import LoadedCode

__all__ = ["MAX_ARGUMENTS", "BufferAt", "CFunction"]

MAX_ARGUMENTS: Final = 10
"""Number of arguments that a function may have."""

_NAME: Final = "svod_call_c"
_ALL_BITS: Final = 2**64 - 1
_ffi: Final = FFI()


class BufferAt(NamedTuple):
    """Argument of a C function: the address of the buffer at this position of a launch."""

    position: int


class CFunction(CpuProgram):
    """A C function of integers and pointers, which are known except for addresses of buffers.

    Its return value is ignored: it reports errors itself.

    Attributes:
        values: the `values` of each launch.
    """

    __slots__ = ("_kept", "_record", "values")

    def __init__(
        self, name: str, address: int, arguments: Sequence[int | BufferAt], *, kept: object = None
    ) -> None:
        """
        Args:
            name: the name in profiles and errors.
            address: address of the function.
            arguments: at most `MAX_ARGUMENTS` integers, addresses and buffers.
            kept: an object that owns memory at these addresses; it lives as long as the program.

        Raises:
            ValueError: if there are too many arguments.
        """
        if len(arguments) > MAX_ARGUMENTS:
            raise ValueError(f"{name} has {len(arguments)} arguments, more than {MAX_ARGUMENTS}")
        super().__init__(_NAME, _load_trampoline())
        self.name = name
        words = [address]
        for argument in arguments:
            is_buffer = isinstance(argument, BufferAt)
            words += (int(is_buffer), argument.position if is_buffer else argument)
        # The trampoline passes all arguments: a C function ignores those beyond its own.
        words += [0] * (1 + 2 * MAX_ARGUMENTS - len(words))
        self._record, self._kept = (
            _ffi.new("uint64_t[]", [word & _ALL_BITS for word in words]),
            kept,
        )
        self.values = (int(_ffi.cast("intptr_t", self._record)),)


@cache
def _load_trampoline() -> LoadedCode:
    return load_internal(_make_trampoline_ir(), [_NAME])


def _make_trampoline_ir() -> str:
    """A kernel whose value is the address of a record: a function, and its arguments.

    Each argument is two words: whether it is the address of a buffer, and the integer or the
    position of the buffer.
    """
    lines = ["%record = load ptr, ptr %values", "%function = load ptr, ptr %record"]
    for n in range(MAX_ARGUMENTS):
        lines += [
            f"%flag_at{n} = getelementptr i64, ptr %record, i64 {2 * n + 1}",
            f"%word_at{n} = getelementptr i64, ptr %record, i64 {2 * n + 2}",
            f"%flag{n} = load i64, ptr %flag_at{n}",
            f"%word{n} = load i64, ptr %word_at{n}",
            f"%is_buffer{n} = icmp ne i64 %flag{n}, 0",
            f"%buffer_at{n} = getelementptr ptr, ptr %buffers, i64 %word{n}",
            # An address is chosen, since the other one may not be readable.
            f"%from{n} = select i1 %is_buffer{n}, ptr %buffer_at{n}, ptr %word_at{n}",
            f"%argument{n} = load i64, ptr %from{n}",
        ]
    arguments = ", ".join(f"i64 %argument{n}" for n in range(MAX_ARGUMENTS))
    lines += [f"call i32 %function({arguments})", "ret void"]
    body = "\n".join(f"  {line}" for line in lines)
    return f"define void @{_NAME}(ptr %buffers, ptr %values, i64 %core) {{\n{body}\n}}\n"
