"""Compilation and calls of source text, for tests of renderers."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from numpy.typing import NDArray

from svod_codegen._loader import load_object
from svod_codegen.llvm.compiler import compile_ir

__all__ = ["C_COMPILER", "call_c", "call_llvm"]

C_COMPILER: Final = shutil.which("gcc") or shutil.which("clang")
"""Path of the system's C compiler, or None."""

# Without contraction, so that results can be compared to the last bit; -Wno-psabi and -w, since
# vectors wider than the baseline's would warn at each call.
_FLAGS: Final = (
    "-std=gnu99",
    "-O1",
    "-shared",
    "-fPIC",
    "-march=native",
    "-ffp-contract=off",
    "-Wno-psabi",
    "-w",
)


def call_llvm(
    source: str, arrays: Sequence[NDArray[Any]], values: Sequence[int] = (), core_id: int = 0
) -> None:
    """Compile LLVM IR that defines `kernel`, and call it."""
    code = load_object(compile_ir(source), ("kernel",))
    entry = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(
        code.addresses["kernel"]
    )
    buffers, words = _make_arguments(arrays, values)
    entry(ctypes.addressof(buffers), ctypes.addressof(words), core_id)


def call_c(
    source: str, arrays: Sequence[NDArray[Any]], values: Sequence[int] = (), core_id: int = 0
) -> None:
    """Compile C that defines `kernel` with the compiler of the system, and call it."""
    assert C_COMPILER is not None, "no C compiler here"
    buffers, words = _make_arguments(arrays, values)
    with tempfile.TemporaryDirectory() as folder:
        text, library = Path(folder) / "kernel.c", Path(folder) / "kernel.so"
        text.write_text(source)
        subprocess.run(
            [C_COMPILER, *_FLAGS, str(text), "-o", str(library), "-lm"],
            check=True,
            capture_output=True,
        )
        ctypes.CDLL(str(library)).kernel(buffers, words, ctypes.c_int64(core_id))


def _make_arguments(arrays: Sequence[NDArray[Any]], values: Sequence[int]) -> tuple[Any, Any]:
    buffers = (ctypes.c_void_p * max(1, len(arrays)))(*[a.ctypes.data for a in arrays])
    return buffers, (ctypes.c_int64 * max(1, len(values)))(*values)
