"""Linking of objects by LLVM's JIT linker, which works on every platform, but requires importing
llvmlite.
"""

from __future__ import annotations

import itertools
import sys
from functools import cache
from typing import TYPE_CHECKING

from svod_codegen._elf import find_process_symbol, list_undefined_symbols
from svod_codegen.errors import LoadError, MissingSymbolError
from svod_codegen.llvm.binding import load_binding

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from svod_codegen.llvm.binding import Jit, LinkedLibrary

__all__ = ["link_with_lljit"]

_library_ids = itertools.count()  # a library's name cannot be reused, even after it is unloaded


def link_with_lljit(
    code: bytes, symbols: Sequence[str], imports: Mapping[str, int]
) -> tuple[dict[str, int], LinkedLibrary]:
    """Link one object against the process and `imports`; return addresses, and the library that keeps
    the code alive.

    Raises:
        MissingSymbolError: The object calls a function that is neither in the process nor in
            `imports`.
        LoadError: The linker rejects the object for another reason.
    """
    builder = load_binding().JITLibraryBuilder().add_object_img(code).add_current_process()
    for symbol in symbols:
        builder.export_symbol(symbol)
    for name, address in imports.items():
        builder.import_symbol(name, address)
    try:
        library = builder.link(_get_jit(), f"svod-{next(_library_ids)}")
    except RuntimeError as error:
        raise _make_error(str(error), code, tuple(symbols), imports) from None
    return {symbol: library[symbol] for symbol in symbols}, library


@cache
def _get_jit() -> Jit:
    # JITLink maps less memory per library than RTDyld, but does not fully support COFF on Windows.
    return load_binding().create_lljit_compiler(
        None, use_jit_link=sys.platform != "win32", suppress_errors=True
    )


def _make_error(
    message: str, code: bytes, symbols: tuple[str, ...], imports: Mapping[str, int]
) -> LoadError:
    # LLVM prints the names only to stderr, which is suppressed, since stderr belongs to the user.
    undefined = (name for name in list_undefined_symbols(code) if name not in imports)
    missing = tuple(name for name in undefined if find_process_symbol(name) is None)
    if missing:
        return MissingSymbolError(symbols=symbols, missing=missing)
    return LoadError(symbols=symbols, message=message.strip())
