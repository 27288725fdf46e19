"""Loaded CPU kernel, as a callable."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from _cffi_backend import FFI

from svod_codegen._loader import load_object
from svod_codegen.launcher.pool import get_pool

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from svod_codegen._loader import LoadedCode
    from svod_device import CompiledSpec, Dims

__all__ = ["CpuProgram"]

_ffi: Final = FFI()


class CpuProgram:
    """A kernel with the calling convention of the CPU:

    `void name(void **buffers, const int64_t *values, int64_t core_id)`.
    """

    __slots__ = ("_call", "_code", "_entry", "entry", "name")

    def __init__(self, name: str, code: LoadedCode) -> None:
        self.name = name
        self.entry: int | None = code.addresses[name]
        self._code = code  # keeps the machine code mapped
        # Casts are made once: a call with prepared arguments takes 170 ns, with Python integers as
        # addresses 360.
        self._entry = _ffi.cast("void *", self.entry)
        self._call = cast(
            "Callable[[object, object, int], None]",
            _ffi.cast("void (*)(uint64_t *, int64_t *, int64_t)", self.entry),
        )

    @staticmethod
    def load(spec: CompiledSpec) -> CpuProgram:
        """Link a compiled kernel into the process.

        Raises:
            LoadError: The object cannot be linked.
        """
        return CpuProgram(spec.name, load_object(spec.binary, (spec.name,)))

    def __call__(
        self,
        buffers: Sequence[int],
        values: Sequence[int],
        global_size: Dims,
        local_size: Dims | None = None,
    ) -> None:
        """Run the kernel's `global_size[0]` parts on the pool, and return when all are done."""
        buffer_array, value_array = (
            _ffi.new("uint64_t[]", list(buffers)),
            _ffi.new("int64_t[]", list(values)),
        )
        # No pool: one part has nothing to share, and the pool may not have been started.
        if global_size[0] == 1:
            self._call(buffer_array, value_array, 0)
        else:
            pool = get_pool()
            pool.launch(pool.handle, self._entry, buffer_array, value_array, global_size[0])

    def timed_call(
        self,
        buffers: Sequence[int],
        values: Sequence[int],
        global_size: Dims,
        local_size: Dims | None = None,
    ) -> int:
        """Run the kernel, and return its time in nanoseconds, without Python's overhead."""
        buffer_array, value_array = (
            _ffi.new("uint64_t[]", list(buffers)),
            _ffi.new("int64_t[]", list(values)),
        )
        pool = get_pool()
        return pool.launch(pool.handle, self._entry, buffer_array, value_array, global_size[0])
