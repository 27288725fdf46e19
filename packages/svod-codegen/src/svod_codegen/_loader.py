"""Loading of object code: callable addresses, valid as long as a `LoadedCode` lives."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from svod_codegen._elf import UnsupportedObject, can_link_elf, find_process_symbol, link_elf
from svod_codegen.llvm.cached import default_compiler
from svod_codegen.llvm.lljit import link_with_lljit
from svod_codegen.llvm.support import SUPPORT_SYMBOLS, make_support_ir

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["LoadedCode", "load_internal", "load_object", "load_support"]


class LoadedCode:
    """Machine code in memory; its addresses are valid while this object lives."""

    __slots__ = ("_owner", "addresses")

    def __init__(self, addresses: Mapping[str, int], owner: object) -> None:
        self.addresses = addresses
        self._owner = owner


def load_object(code: bytes, symbols: Sequence[str]) -> LoadedCode:
    """Link an object into the process and look up its `symbols`.

    Functions of the C library and, where the process lacks them, LLVM's helpers for half-precision
    conversion are found by name.

    Raises:
        MissingSymbolError: The code calls an undefined function.
        LoadError: The linker rejects the object.
    """
    if can_link_elf():
        try:
            return LoadedCode(*link_elf(code, symbols, _find_symbol))
        except UnsupportedObject:
            pass  # LLVM's linker supports all objects
    # The names are in the object's symbol table as text, so no parser is needed. Compiling the
    # helpers would take longer than linking without them.
    needs_support = any(name.encode() in code for name in SUPPORT_SYMBOLS)
    imports: Mapping[str, int] = load_support().addresses if needs_support else {}
    return LoadedCode(*link_with_lljit(code, symbols, imports))


def load_internal(source: str, symbols: Sequence[str]) -> LoadedCode:
    """Compile (or find in the cache) and link a module of svod's own runtime."""
    return load_object(default_compiler().compile_source(source), symbols)


@cache
def load_support() -> LoadedCode:
    """Load the conversion helpers, for code that calls them."""
    return load_internal(make_support_ir(), sorted(SUPPORT_SYMBOLS))


def _find_symbol(name: str) -> int | None:
    address = find_process_symbol(name)
    if address is None and name in SUPPORT_SYMBOLS:
        return load_support().addresses[name]
    return address
